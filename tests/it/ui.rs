//! The messages of the macros, each at the user's token.

use std::path::Path;

use expect_test::expect_file;

/// Returns the errors that rustc prints for a program, without its summary. The compiler removes its output when
/// it finds an error late, so the output is a file of these tests: root would lose `/dev/null`.
fn errors(program: &str) -> String {
    let output = crate::rustc::rustc()
        .args(["--crate-name=program", "--crate-type=bin", "--emit=metadata", "--cap-lints=allow"])
        .args(["--out-dir", env!("CARGO_TARGET_TMPDIR")])
        .arg(program)
        .output()
        .expect("rustc runs");
    assert!(!output.status.success(), "{program} compiles");
    let text = String::from_utf8(output.stderr).expect("rustc prints UTF-8");
    let summary = text.find("\nerror: aborting due to ").map_or(text.len(), |end| end);
    format!("{}\n", text[..summary].trim_end())
}

#[test]
fn macro_errors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut programs: Vec<_> = std::fs::read_dir(root.join("tests/ui"))
        .expect("the folder exists")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    programs.sort();
    assert!(programs.len() >= 50, "only {} programs", programs.len());
    for path in programs {
        let program = path.strip_prefix(root).expect("it is inside").to_str().expect("names are ASCII");
        expect_file![path.with_extension("stderr")].assert_eq(&errors(program));
    }
}
