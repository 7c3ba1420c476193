use std::path::PathBuf;

/// Runs where a folder of cases is given.
#[test]
fn cases_give_the_results_of_pytorch() {
    let Some(folder) = std::env::var_os("FX_TORCHSCRIPT_CASES") else { return };
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    cases.sort();
    let registry = crate::registry();
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| super::check_case(case, &registry).err())
        .map(|error| error.to_string())
        .collect();
    assert!(failed.is_empty(), "{} of {} cases fail:\n{}", failed.len(), cases.len(), failed.join("\n"));
}
