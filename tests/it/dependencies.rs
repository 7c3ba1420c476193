//! What the packages depend on, as `cargo tree` prints it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Returns the lines that `cargo tree` prints for the workspace: a package, its version and its features.
fn tree(args: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--prefix", "none", "--format", "{p}|{f}"])
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo prints UTF-8");
    text.lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn without_features_the_tree_is_small() {
    let crates = tree(&["--edges", "normal,build", "--no-default-features"]);
    let names: BTreeSet<&str> = crates.iter().filter_map(|line| line.split('|').next()).collect();
    assert!(names.len() < 60, "{} crates:\n{names:#?}", names.len());
    for optional in ["clap", "faer", "rustfft", "zip"] {
        assert!(
            !names.iter().any(|name| name.starts_with(&format!("{optional} v"))),
            "{optional} is not optional"
        );
    }
}

/// Tests, examples and programs share one build of each package only if dev-dependencies turn on no further
/// features of what programs depend on.
#[test]
fn dev_dependencies_turn_on_no_features() {
    let features = |edges: &str, args: &[&str]| -> BTreeMap<String, BTreeSet<String>> {
        let mut features: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in tree(&[&["--edges", edges], args].concat()) {
            let (name, list) = line.split_once('|').unwrap_or((&line, ""));
            features.entry(name.to_owned()).or_default().insert(list.to_owned());
        }
        features
    };
    let tests = features("normal,build,dev", &["--workspace"]);
    for args in [&["--workspace"][..], &["--package", "fx-ops"]] {
        for (name, program) in features("normal,build", args) {
            assert!(
                program.is_subset(&tests[&name]),
                "{name} has the features {program:?} in programs and {:?} in tests: add the missing ones to fx-ops/Cargo.toml",
                tests[&name]
            );
        }
    }
}
