//! `OPS.md` is what the rows say; bless it with `UPDATE_EXPECT=1`.

use std::path::Path;

#[test]
fn the_reference_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("OPS.md");
    let got = fx::reference::markdown();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &got).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    let differing = got.lines().zip(expected.lines()).find(|(got, expected)| got != expected);
    if let Some((got, expected)) = differing {
        panic!(
            "OPS.md is stale\n expected {expected}\n got      {got}\nread it, then bless with UPDATE_EXPECT=1"
        );
    }
    assert_eq!(got.len(), expected.len(), "OPS.md is stale; bless with UPDATE_EXPECT=1");
}
