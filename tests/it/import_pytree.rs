//! Structures of arguments.

use fx::__test::import::parse;

#[test]
fn reads_nested_specs() {
    let leaf = r#"{"type": null, "context": null, "children_spec": []}"#;
    let dict = format!(
        r#"[1, {{"type": "builtins.dict", "context": "[\"a\", \"b\"]", "children_spec": [{leaf}, {{"type": "builtins.tuple", "context": "null", "children_spec": [{leaf}]}}]}}]"#
    );
    let tree = parse(&dict).unwrap();
    assert_eq!(tree.map(&mut |()| "x").to_string(), r#"{"a": x, "b": (x,)}"#);
    for bad in [
        "",
        "[2, {}]",
        r#"[1, {"type": "builtins.dict", "context": "[]", "children_spec": [{"type": null}]}]"#,
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
