use std::path::{Path, PathBuf};

/// Runs the cases of the repository, or of a folder that `FX_TORCHSCRIPT_CASES` names.
#[test]
fn cases_give_the_results_of_pytorch() {
    let folder = std::env::var_os("FX_TORCHSCRIPT_CASES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript"), PathBuf::from);
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    cases.sort();
    assert!(!cases.is_empty());
    let registry = crate::registry();
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| super::check_case(case, &registry).err())
        .map(|error| error.to_string())
        .collect();
    assert!(failed.is_empty(), "{} of {} cases fail:\n{}", failed.len(), cases.len(), failed.join("\n"));
}
