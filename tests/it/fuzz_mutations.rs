//! Damaged archives.

use std::path::{Path, PathBuf};

use fx::fuzz::mutations::*;

/// `FX_FUZZ_SEED` is the first seed, `FX_FUZZ_COUNT` the number of programs.
#[test]
fn damaged_programs_never_panic() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript");
    let mut archives: Vec<PathBuf> =
        fx::script::cases(folder).unwrap().iter().map(|json| json.with_extension("pt")).collect();
    archives.retain(|path| !path.file_name().unwrap().to_string_lossy().starts_with("bad_"));
    assert!(!archives.is_empty());
    let (seed, count) = (number("FX_FUZZ_SEED", 0), number("FX_FUZZ_COUNT", 400));
    let summary = run(&Config { seed, count, archives, slow: None }, &|_| {}).unwrap();
    assert!(summary.failures.is_empty(), "{summary}");
    assert!(summary.ran > 0 && summary.graphs > 0, "{summary}");
}
