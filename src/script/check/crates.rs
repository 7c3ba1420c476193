//! Archives as crates: what is a graph and returns tensors becomes Rust that needs nothing, and computes the same.

use std::cell::RefCell;
use std::fmt::Write;
use std::process::Command;

use expect_test::expect;

use super::graph::{Graphs, Unlowered};
use super::*;
use crate::{CrateOptions, Engine, GraphModule, ToCrate, Value};

/// Of so many crates one is compiled in an ordinary run; `FX_ARCHIVES=1` asks for all.
const EACH: usize = 4;

/// Writes graphs of the cases of a folder as one program with a test for each; returns how many can be written, and
/// a line for each reason that others cannot.
fn write_crates(cases: &[PathBuf], dir: &Path) -> (usize, Vec<String>) {
    let (mut program, mut n, mut refused) = (String::new(), 0, Vec::new());
    let has_all = std::env::var_os("FX_ARCHIVES").is_some();
    for path in cases {
        let case = Case::open(path).unwrap();
        if case.must_refuse() {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let made: RefCell<Vec<(GraphModule, Vec<Value>)>> = RefCell::default();
        let enter = |gm: &GraphModule, args: &[Value]| made.borrow_mut().push((gm.clone(), args.to_vec()));
        let read = || crate::import::torchscript(case.archive());
        let unlowered = Unlowered::default();
        // What the call gives is compared elsewhere.
        let _ = case.check(&read().unwrap(), &|| Ok(Graphs::new(&read, Engine::Eager, &unlowered, &enter)));
        for (i, (gm, args)) in made.take().into_iter().enumerate() {
            let krate = format!("{name}_{i}");
            let package = match gm.to_package(&CrateOptions::new().name(&krate).record(&args)) {
                Ok(package) => package,
                Err(error) => {
                    refused.extend(reasons(&error).map(|reason| format!("{name}: {reason}")));
                    continue;
                }
            };
            n += 1;
            if !has_all && n % EACH != 0 {
                continue;
            }
            let folder = dir.join(&krate);
            package.write(&folder).unwrap();
            std::fs::write(folder.join("single.rs"), package.single_file()).unwrap();
            let test = std::fs::read_to_string(folder.join("tests/recorded.rs")).unwrap();
            let test = test
                .replace(
                    "concat!(env!(\"CARGO_MANIFEST_DIR\")",
                    &format!("concat!({:?}", folder.display().to_string()),
                )
                .replace(&format!("use {krate}::"), "use super::")
                .replace(&format!("{krate}::"), "super::")
                .replacen("//!", "//", 1);
            let file = folder.join("single.rs");
            write!(program, "mod {krate} {{\n    include!({file:?});\n    mod test {{\n{test}    }}\n}}\n")
                .unwrap();
        }
    }
    std::fs::write(dir.join("crates.rs"), program).unwrap();
    (n, refused)
}

/// Returns why a program is no crate, without names, types and places.
fn reasons(error: &crate::Error) -> impl Iterator<Item = String> {
    let text = error.message().to_owned();
    let nodes: Vec<String> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix('%')?.split_once(" = "))
        .map(|(_, why)| why.split("  at ").next().unwrap_or_default().to_owned())
        .collect();
    if nodes.is_empty() { vec![text] } else { nodes }.into_iter()
}

#[test]
fn archives_become_crates() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript");
    let dir = std::env::temp_dir().join(format!("fx-archives-{}", std::process::id()));
    let (n, mut refused) = write_crates(&cases(folder).unwrap(), &dir);
    refused.sort();
    refused.dedup();
    assert!(n > 100, "{n} crates");
    expect![[r#"
        sc_checks: RuntimeError: AssertionError: 
        sc_checks: RuntimeError: AssertionError: k is negative
        sc_checks: builtins.RuntimeError: not a matrix
        sc_checks: builtins.ValueError: k is 4, at most 3
        sc_comprehend: the program returns a string, expected tensors
        sc_constants: the program returns a string, expected tensors
        sc_enum: the program returns a string, expected tensors
        sc_mixed1: the program returns a string, expected tensors
        sc_strs: the program returns a string, expected tensors
        sc_tokens: the program returns a string, expected tensors
        sc_unused: RuntimeError: This Python function is annotated to be ignored and cannot be run
        tr_calls_script: slice: its type is not known
    "#]]
    .assert_eq(&(refused.join("\n") + "\n"));
    let binary = dir.join("crates");
    let compiled = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--test", "--cap-lints=allow"])
        .arg(dir.join("crates.rs"))
        .arg("-o")
        .arg(&binary)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&binary).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    std::fs::remove_dir_all(&dir).unwrap();
}
