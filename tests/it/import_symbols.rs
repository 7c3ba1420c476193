//! Expressions of sizes.

use std::collections::BTreeMap;

use fx::__test::import::Symbols;

fn read(text: &str) -> String {
    let ranges = BTreeMap::from([("s0".to_owned(), (2, Some(64))), ("u0".to_owned(), (0, None))]);
    match Symbols::of(ranges).dim(text) {
        Ok(dim) => dim.to_string(),
        Err(error) => format!("error: {}", error.message()),
    }
}

#[test]
fn reads_both_spellings() {
    let s0 = "Symbol('s0', positive=True, integer=True)";
    assert_eq!(read(&format!("Add(Mul(Integer(2), {s0}), Integer(-1))")), read("2*s0 - 1"));
    assert_eq!(read(&format!("FloorDiv(Add({s0}, Integer(1)), Integer(2))")), read("(s0 + 1)//2"));
    assert_eq!(read(&format!("torch.utils._sympy.functions.Mod({s0}, Integer(3))")), read("s0 % 3"));
    assert_eq!(read(&format!("Pow({s0}, Integer(2))")), read("s0*s0"));
    assert_eq!(read("Max(Integer(1), Symbol('s0', integer=True))"), "s0");
    assert_eq!(read("s0**2"), read("s0*s0"));
    let half = format!("Mul(Float('0.5', precision=53), ToFloat({s0}))");
    assert_eq!(read(&format!("TruncToInt({half})")), read("s0//2"));
    assert_eq!(read(&format!("CeilToInt(Add({half}, Float('0.5')))")), read("(s0 + 2)//2"));
    let less = format!("IntTrueDiv(Add({s0}, Integer(-9)), Integer(4))");
    assert_eq!(read(&format!("TruncToInt({less})")), "min(0, (s0 + 2)//4 - 2) + max(0, (s0 + 3)//4 - 3)");
    // What floats round is computed when the sizes are known.
    assert_eq!(read("FloorToInt(Mul(Float('0.7'), s0))"), "floor0");
}

#[test]
fn conditions_are_zero_or_one() {
    for (text, expected) in [
        ("s0 >= 2", "1"),
        ("s0 < 2", "0"),
        ("s0 <= 64", "1"),
        ("Eq(s0, s0)", "1"),
        ("Ne(s0, 0)", "1"),
        ("3 > 4", "0"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    assert!(read("u0 >= 3").contains("u0"));
}

#[test]
fn malformed_text_is_an_error() {
    let deep = "(".repeat(10_000);
    for text in [
        "",
        "s0 +",
        "f(",
        "Symbol(s0)",
        "Symbol('s0'",
        "s0 ** s0",
        "1/2",
        "foo(s0)",
        "s0//0",
        "9999999999999999999",
        "s0 s0",
        &deep,
        "é",
    ] {
        assert!(read(text).starts_with("error"), "{text}: {}", read(text));
    }
}
