//! TorchScript archives as crates: what is a graph and returns tensors computes the same as such Rust.

use std::cell::RefCell;
use std::path::Path;

use expect_test::expect;
use fx::{CrateOptions, GraphModule, ToCrate, Value};

use super::{Crates, folder};

/// Of so many crates one is compiled in an ordinary run; `FX_ARCHIVES=1` asks for all.
const EACH: usize = 4;

/// Returns why a program is no crate, without names, types and places.
fn reasons(error: &fx::Error) -> Vec<String> {
    let text = error.message().to_owned();
    let nodes: Vec<String> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix('%')?.split_once(" = "))
        .map(|(_, why)| why.split("  at ").next().unwrap_or_default().to_owned())
        .collect();
    if nodes.is_empty() { vec![text] } else { nodes }
}

#[test]
fn archives_become_crates() {
    let has_all = std::env::var_os("FX_ARCHIVES").is_some();
    let mut crates = Crates::new(&folder("archives"));
    let (mut n, mut refused) = (0, Vec::new());
    let cases =
        fx::script::cases(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript")).unwrap();
    for case in cases {
        let name = case.file_stem().unwrap().to_string_lossy().into_owned();
        let made: RefCell<Vec<(GraphModule, Vec<Value>)>> = RefCell::default();
        let enter = |gm: &GraphModule, args: &[Value]| made.borrow_mut().push((gm.clone(), args.to_vec()));
        // Whether the calls give what PyTorch gives is tested elsewhere, and some are no graphs.
        let _ = fx::script::graphs(&case, &enter);
        for (i, (gm, args)) in made.take().into_iter().enumerate() {
            let krate = format!("{name}_{i}");
            match gm.to_package(&CrateOptions::new().name(&krate).record(&args)) {
                Ok(package) => {
                    n += 1;
                    if has_all || n % EACH == 0 {
                        crates.add(&package);
                    }
                }
                Err(error) => {
                    refused.extend(reasons(&error).iter().map(|reason| format!("{name}: {reason}")))
                }
            }
        }
    }
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
    crates.run();
}
