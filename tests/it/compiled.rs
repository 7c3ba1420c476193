//! Random programs as readable code, compiled as a crate that uses fx as a user would: they run with the same bits.
//!
//! It takes a while, so the number of programs is asked for: `FX_COMPILE=10000 cargo test --test it -- compiled --nocapture`.

#![allow(clippy::print_stdout, reason = "a long test says how far it is, or that it is skipped")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use fx::fuzz::Case;
use fx::prelude::*;

/// The programs that are compiled at a time.
const BATCH: u64 = 500;

/// What the generated crate runs: each program beside its graph.
const MAIN: &str = r#"
use fx::{Generator, GraphModule, Tensor, Value, with_generator};

fn one(case: &fx::fuzz::Case, make: impl Fn(&GraphModule) -> fx::Result<Box<dyn fx::Forward>>) -> fx::Result<()> {
    for args in &case.inputs {
        let model = make(&case.gm)?;
        let run = |f: &dyn Fn() -> fx::Result<Value>| {
            fx::ops::with_printed(|| with_generator(&Generator::seeded(5), f))
        };
        let (expected, printed) = run(&|| case.gm.clone().call_values(args));
        // What fails in a graph may be unused, and thus not fail in code.
        let Ok(expected) = expected else { continue };
        let (got, also_printed) = run(&|| model.forward_values(args));
        let got = got?;
        if !expected.eq_by(&got, &|a: &Tensor, b: &Tensor| a.bits_eq(b)) {
            return Err(fx::err!(Check, "expected {expected}, got {got}"));
        }
        if printed.len() != also_printed.len() {
            return Err(fx::err!(Check, "{} values are printed, expected {}", also_printed.len(), printed.len()));
        }
    }
    Ok(())
}

fn check(seed: u64, make: impl Fn(&GraphModule) -> fx::Result<Box<dyn fx::Forward>>) -> bool {
    match one(&fx::fuzz::Case::new(seed), make) {
        Ok(()) => true,
        Err(error) => {
            println!("program {seed}: {error}");
            false
        }
    }
}
"#;

#[test]
fn random_programs_compile_and_agree() {
    let Some(count) = std::env::var("FX_COMPILE").ok().and_then(|count| count.parse::<u64>().ok()) else {
        println!("skipped: set FX_COMPILE to a number of programs");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    let sources = dir.join("src");
    std::fs::create_dir_all(&sources).unwrap();
    let manifest = format!(
        "[package]\nname = \"compiled\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         fx = {{ package = \"tensor-fx\", path = {root:?} }}\n\n[profile.dev]\nopt-level = 1\ndebug = false\n\n\
         [profile.dev.package.compiled]\nopt-level = 0\n\n[workspace]\n"
    );
    std::fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    let (mut refused, mut failed) = (0, String::new());
    for first in (0..count).step_by(BATCH as usize) {
        let (mut modules, mut calls) = (String::new(), String::new());
        for seed in first..(first + BATCH).min(count) {
            let case = Case::new(seed);
            let Ok(code) = case.gm.code() else {
                refused += 1;
                continue;
            };
            std::fs::write(sources.join(format!("m{seed}.rs")), code.text()).unwrap();
            writeln!(modules, "mod m{seed};").unwrap();
            let name = code.type_name();
            writeln!(
                calls,
                "    ok &= check({seed}, |gm| Ok(Box::new(m{seed}::{name}::new(&gm.members())?)));"
            )
            .unwrap();
        }
        let main = format!(
            "#![allow(warnings)]\n{modules}{MAIN}\nfn main() {{\n    let mut ok = true;\n{calls}    std::process::exit(i32::from(!ok));\n}}\n"
        );
        std::fs::write(sources.join("main.rs"), main).unwrap();
        let cargo = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--offline", "--manifest-path"])
            .arg(dir.join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", dir.join("target"))
            .output()
            .unwrap();
        if !cargo.status.success() {
            let text = [cargo.stdout, cargo.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            writeln!(failed, "programs {first}..: {}", text.concat()).unwrap();
        }
        println!("{} programs, {refused} refused", (first + BATCH).min(count));
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(refused * 20 < count.max(20), "{refused} of {count} programs are refused");
}
