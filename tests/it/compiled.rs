//! Random programs as readable code, compiled as a program that uses fx as a user would: they run with the
//! same bits.
//!
//! It takes a while, so the number of programs is asked for: `FX_COMPILE=10000 cargo test --test it --
//! compiled --nocapture`, or some of them: `FX_COMPILE=3000..3500`.

#![allow(clippy::print_stdout, reason = "a long test says how far it is")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use fx::fuzz::Case;
use fx::prelude::*;

/// The programs that are compiled at a time.
const BATCH: u64 = 500;

/// What the generated program runs: each program beside its graph.
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
    let Ok(asked) = std::env::var("FX_COMPILE") else {
        crate::skipped(
            "no random program was compiled as readable code",
            "set FX_COMPILE to a number of programs, such as 50",
        );
        return;
    };
    let (first, end) = asked.split_once("..").unwrap_or(("0", &asked));
    let [first, end] = [first, end].map(|number| number.parse::<u64>().expect("FX_COMPILE is N or A..B"));
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    std::fs::create_dir_all(&dir).unwrap();
    let (mut refused, mut failed) = (0, String::new());
    for start in (first..end).step_by(BATCH as usize) {
        let batch = start..(start + BATCH).min(end);
        let (mut modules, mut calls) = (String::new(), String::new());
        for seed in batch.clone() {
            let case = Case::new(seed);
            let Ok(code) = case.gm.code() else {
                refused += 1;
                continue;
            };
            std::fs::write(dir.join(format!("m{seed}.rs")), code.text()).unwrap();
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
        let (source, binary) = (dir.join("main.rs"), dir.join("main"));
        std::fs::write(&source, main).unwrap();
        let mut output = crate::rustc::rustc().arg(&source).arg("-o").arg(&binary).output().unwrap();
        if output.status.success() {
            output = Command::new(&binary).output().unwrap();
        }
        if !output.status.success() {
            let text =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            writeln!(failed, "programs {batch:?}: {}", text.concat()).unwrap();
        }
        println!("programs {batch:?}, {refused} refused");
    }
    assert!(failed.is_empty(), "{failed}");
    let count = end - first;
    // Loops that collect rows in a list have no readable code.
    assert!(refused * 10 < count.max(20), "{refused} of {count} programs are refused");
}
