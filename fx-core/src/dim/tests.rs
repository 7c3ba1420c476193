use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use proptest::prelude::*;

use super::*;
use crate::ErrorKind;

const _: () = assert!(size_of::<Dim>() <= 16);

fn dim(text: &str) -> Dim {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn positive(name: &str) -> Dim {
    Dim::symbol(Symbol::with_range(name, 1, None))
}

fn shows(text: &str, expected: &str) {
    let shown = dim(text);
    assert_eq!(shown.to_string(), expected, "{text}");
    assert_eq!(dim(expected), shown, "{text}");
}

#[test]
fn canonical_form_prints_and_parses() {
    for (text, expected) in [
        ("2*b + b", "3*b"),
        ("b - b", "0"),
        ("b*4/4", "b"),
        ("(b*4 + 8)/4", "b + 2"),
        ("(b*4) % 4", "0"),
        ("(b + 2*k)//2", "k + b//2"),
        ("b//2//3", "b//6"),
        ("(b//2 + 1)//3", "(b + 2)//6"),
        ("(4*b + 6)//8", "(2*b + 3)//4"),
        ("(b + 7)//3", "(b + 1)//3 + 2"),
        ("b//-2", "(-b)//2"),
        ("b % -2", "-(b % 2)"),
        ("5*b % 3", "(2*b) % 3"),
        ("(6*b + 4) % 8", "2*((3*b + 2) % 4)"),
        ("(b % 6 + a) % 3", "(a + b) % 3"),
        ("b % 4 // 4", "0"),
        ("min(b, b)", "b"),
        ("max(b, b + 1)", "b + 1"),
        ("max(0, b)", "b"),
        ("max(b, a)", "max(a, b)"),
        ("max(max(c, a), max(b, a))", "max(a, max(b, c))"),
        ("min(a, max(a, b))", "a"),
        ("max(b//2, b)", "b"),
        ("5 - b", "5 - b"),
        ("-b - 5", "-b - 5"),
        ("-(b//2) + a*(b//2)", "a*(b//2) - b//2"),
        ("a*(a + b)", "a*a + a*b"),
        ("%item*2 % %item", "(2*%item) % %item"),
        ("b/a", "b//a"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("max(b, 3) % 8", "max(3, b) % 8"),
    ] {
        shows(text, expected);
    }
}

#[test]
fn a_divisor_cancels_only_if_it_cannot_be_zero() {
    let (a, b) = (positive("a"), dim("b"));
    assert_eq!((&a * &b * 6) / (&a * 3), dim("2*b"));
    assert_eq!((dim("a") * &b * 6) / (dim("a") * 3), dim("(2*a*b)//a"));
    assert_eq!(&a / &a, Dim::new(1));
    assert_eq!((dim("a") / dim("a")).to_string(), "a//a");
    assert_eq!((&b * (&a + 1)) / (dim("a") + 1), b);
    assert_eq!((&a * &b + &b + &a) % (dim("a") + 1), (&a + &b * (&a + 1)) % (&a + 1));
    assert_eq!((&a * &b) % &a, Dim::new(0));
    assert_eq!(dim("0") / dim("a"), dim("0//a"));
    assert_eq!(dim("(2*a)//(2*b)"), dim("a//b"));
}
