//! Symbolic sizes: canonical form, bounds and text.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use fx_core::ErrorKind;
use fx_core::dim::*;
use fx_core::{Error, Result};
use proptest::prelude::*;

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
        ("(4*b + 6)//8", "(b + 1)//2"),
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

#[test]
fn numbers_of_any_type_stand_on_either_side() {
    let n = &dim("n");
    assert_eq!(n * 2 + 1usize - 3i64, 2 * n - 2usize);
    assert_eq!((7usize / n, 7i64 % n), (dim("7//n"), dim("7 % n")));
    assert_eq!([n.clone(), n + 1].iter().product::<Dim>(), n * n + n);
    assert_eq!([n.clone(), n + 1].into_iter().sum::<Dim>(), n * 2 + 1);
}

#[test]
fn questions_are_answered_from_ranges_and_functions() {
    let n = dim("n");
    assert_eq!(n.bounds(), (0, None));
    assert_eq!((&n * -2 + 3).bounds(), (i64::MIN, Some(3)));
    assert_eq!((&n % 8).bounds(), (0, Some(7)));
    assert_eq!(Dim::symbol(Symbol::with_range("k", 2, Some(5))).bounds(), (2, Some(5)));
    assert_eq!((&n + i64::MAX).bounds(), (i64::MAX, None));
    for (left, right, same, less, less_equal) in [
        ("n", "n + 1", Truth::No, Truth::Yes, Truth::Yes),
        ("2*n", "2*m + 1", Truth::No, Truth::Unknown, Truth::Unknown),
        ("n//2", "n", Truth::Unknown, Truth::Unknown, Truth::Yes),
        ("n//2 + n//3", "n", Truth::Unknown, Truth::Unknown, Truth::Yes),
        ("n//2*2 + 2", "n", Truth::No, Truth::No, Truth::No),
        ("n % m", "m", Truth::No, Truth::Yes, Truth::Yes),
        ("min(n, m)", "n", Truth::Unknown, Truth::Unknown, Truth::Yes),
        ("max(n, m) + 1", "m", Truth::No, Truth::No, Truth::No),
        ("n", "m", Truth::Unknown, Truth::Unknown, Truth::Unknown),
        ("n + m", "m + n", Truth::Yes, Truth::No, Truth::Yes),
        ("3", "4", Truth::No, Truth::Yes, Truth::Yes),
    ] {
        let (a, b) = (dim(left), dim(right));
        assert_eq!(
            (a.same(&b), a.less(&b), a.less_equal(&b)),
            (same, less, less_equal),
            "{left} and {right}"
        );
    }
}

#[test]
fn symbols_substitute_and_solve() {
    let shape = dim("(h + 2*p - k)//2 + %item*h + 1");
    let names: Vec<String> = shape.symbols().iter().map(Symbol::to_string).collect();
    assert_eq!(names, ["h", "%item", "p", "k"]);
    let substituted = shape.substitute(&|symbol| match symbol.name() {
        "h" => Some(dim("2*g")),
        "k" => Some(dim("2*p")),
        _ => None,
    });
    assert_eq!(substituted, dim("g + 2*%item*g + 1"));
    let (symbol, value) = dim("3*n + 1").solve(10).unwrap();
    assert_eq!((symbol.name(), value), ("n", 3));
    for (text, value) in [("3*n + 1", 11), ("n*n", 4), ("n + m", 1), ("n//2", 1), ("7", 7)] {
        assert_eq!(dim(text).solve(value), None, "{text}");
    }
    assert_eq!(dim("-n").solve(i64::MIN), None);
    assert_ne!(Dim::symbol(Symbol::of_node("n", 1)), Dim::symbol(Symbol::of_node("n", 2)));
    assert_eq!(Dim::symbol(Symbol::with_range("n", 3, Some(3))), Dim::new(3));
}

#[test]
fn mistakes_become_errors_that_say_what() {
    let message = |dim: Dim| dim.error().expect("an error").message().to_owned();
    assert_eq!(message(dim("n") / 0), "division of a size by zero: n // 0");
    assert_eq!(message(dim("n") % 0), "division of a size by zero: n % 0");
    assert_eq!(message(Dim::new(1).ceil_div(&Dim::new(0))), "division of a size by zero: 1 // 0");
    assert_eq!(message(Dim::new(i64::MAX) + 1), "a size overflows the range of i64");
    assert_eq!(message(Dim::new(i64::MIN) / -1), "a size overflows the range of i64");
    assert_eq!(message(-Dim::new(i64::MIN)), "a size overflows the range of i64");
    assert_eq!(message(dim("n") * i64::MAX * 2), "a size overflows the range of i64");
    assert_eq!(message(Dim::from(usize::MAX)), "a size overflows the range of i64");
    assert_eq!(
        message(Dim::symbol(Symbol::with_range("n", 2, Some(1)))),
        "a symbol has an empty range: n in 2..=1"
    );
    assert_eq!(
        message(Dim::symbol(Symbol::new("a b"))),
        "expected an identifier as the name of a symbol, got \"a b\""
    );
    assert_eq!(message((dim("n") / 0 + 1).max(&dim("m"))), "division of a size by zero: n // 0");

    let eval = |text: &str, n: i64| {
        let value = dim(text).eval(&|symbol| (symbol.name() == "n").then_some(n));
        value.map_err(|error| error.message().to_owned())
    };
    assert_eq!(eval("n*n - n", 5), Ok(20));
    assert_eq!(eval("4*n - 4*n//4", i64::MAX / 3), Ok((i64::MAX / 3) * 3));
    assert_eq!(eval("n + m", 5), Err("symbol m has no value".into()));
    assert_eq!(eval("7//n + 1", 0), Err("division by zero: n is 0 in 7//n + 1".into()));
    assert_eq!(eval("n*n", 1 << 40), Err(format!("size n*n overflows: its value is {}", 1i128 << 80)));
    assert_eq!(eval("n*n*n*n", 1 << 40), Err("size n*n*n*n overflows".into()));
}

#[test]
fn text_that_is_no_size_is_refused() {
    for (text, expected) in [
        ("", "expected a number, a name or `(` in a size, got the end at column 1"),
        ("a b", "expected an operator or the end in a size, got `b` at column 3"),
        ("(a", "expected `)` in a size, got the end at column 3"),
        ("max(a)", "expected `,` in a size, got `)` at column 6"),
        ("sin(a)", "expected the function `min` or `max` in a size, got `sin(a)` at column 1"),
        ("2b", "expected a number in a size, got `2b` at column 1"),
        ("a + é", "expected a number, a name or `(` in a size, got `é` at column 5"),
        (
            "9223372036854775808",
            "expected a number that fits in i64 in a size, got `922337203685` at column 1",
        ),
        ("a // 0", "division of a size by zero: a // 0"),
    ] {
        assert_eq!(text.parse::<Dim>().expect_err(text).message(), expected);
    }
}

#[test]
fn expressions_beyond_the_limits_are_errors() {
    let many = |separator: &str, count: usize| {
        (0..count).map(|i| format!("x{i}")).collect::<Vec<_>>().join(separator).parse::<Dim>()
    };
    let is_limit = |result: Result<Dim>| result.is_err_and(|error| error.kind() == ErrorKind::Limit);
    assert!(many(" + ", 256).is_ok());
    assert!(is_limit(many(" + ", 257)));
    assert!(is_limit(many(" // ", 2000)));
    assert!(is_limit(("(".repeat(100_000) + "a" + &")".repeat(100_000)).parse()));
    assert!(is_limit("max(".repeat(100_000).parse()));
    assert_eq!(("-".repeat(100_000) + "a").parse::<Dim>().unwrap(), dim("a"));
    assert!(is_limit(vec!["a"; 100_000].join("*").parse()));
    assert!(many(" * ", 300).unwrap().to_string().parse::<Dim>().is_ok());

    // An operand that exceeds the limits must not hide inside of an expression within them.
    let sums = (0..30)
        .map(|i| (0..12).map(|j| dim(&format!("(x{i} + y{j})//{} - max(x{j}, y{i})", j + 2))).sum::<Dim>());
    let greatest = sums.fold(dim("z"), |greatest, sum| greatest.max(&sum));
    assert_eq!(greatest.error().map(Error::kind), Some(ErrorKind::Limit));

    // Sharing must not let the tree of an expression grow without bound.
    let mut nested = dim("n");
    for step in 0..100 {
        nested = &nested * (&nested % (step + 2)) + nested.max(&dim("m"));
    }
    assert_eq!(nested.error().map(Error::kind), Some(ErrorKind::Limit));
}

/// An expression as it is written.
#[derive(Debug, Clone)]
enum Written {
    Number(i64),
    Symbol(usize),
    Binary(u8, Box<Written>, Box<Written>),
}

/// Values of the symbols and their ranges, whose every value is tried.
const RANGES: [(&str, i64, i64); 4] = [("a", 0, 4), ("b", 1, 5), ("c", -3, 3), ("d", -4, -1)];

impl Written {
    fn build(&self, symbols: &[Dim]) -> Dim {
        match self {
            Written::Number(n) => Dim::new(*n),
            Written::Symbol(index) => symbols[*index].clone(),
            Written::Binary(operator, left, right) => {
                let (left, right) = (left.build(symbols), right.build(symbols));
                match operator {
                    0 => left + right,
                    1 => left - right,
                    2 => left * right,
                    3 => left / right,
                    4 => left % right,
                    5 => left.min(&right),
                    6 => left.max(&right),
                    _ => left.ceil_div(&right),
                }
            }
        }
    }

    /// The value by the definition, or nothing for a division by zero.
    fn eval(&self, values: &[i64]) -> Option<i128> {
        match self {
            Written::Number(n) => Some(*n as i128),
            Written::Symbol(index) => Some(values[*index] as i128),
            Written::Binary(operator, left, right) => {
                let (left, right) = (left.eval(values)?, right.eval(values)?);
                let floor = |left: i128| (right != 0).then(|| (left as f64 / right as f64).floor() as i128);
                Some(match operator {
                    0 => left + right,
                    1 => left - right,
                    2 => left * right,
                    3 => floor(left)?,
                    4 => left - right * floor(left)?,
                    5 => left.min(right),
                    6 => left.max(right),
                    _ => -floor(-left)?,
                })
            }
        }
    }
}

fn written() -> impl Strategy<Value = Written> {
    let leaf = prop_oneof![(-6i64..13).prop_map(Written::Number), (0usize..4).prop_map(Written::Symbol)];
    leaf.prop_recursive(5, 14, 2, |inner| {
        (0u8..8, inner.clone(), inner).prop_map(|(op, a, b)| Written::Binary(op, Box::new(a), Box::new(b)))
    })
}

fn symbols() -> Vec<Dim> {
    RANGES.iter().map(|(name, low, high)| Dim::symbol(Symbol::with_range(*name, *low, Some(*high)))).collect()
}

fn values() -> impl Iterator<Item = [i64; 4]> {
    let range = |index: usize| RANGES[index].1..=RANGES[index].2;
    range(0).flat_map(move |a| {
        range(1).flat_map(move |b| range(2).flat_map(move |c| range(3).map(move |d| [a, b, c, d])))
    })
}

fn eval(dim: &Dim, values: &[i64]) -> Result<i64> {
    dim.eval(&|symbol| RANGES.iter().position(|(name, ..)| *name == symbol.name()).map(|index| values[index]))
}

fn hash(dim: &Dim) -> u64 {
    let mut hasher = DefaultHasher::new();
    dim.hash(&mut hasher);
    hasher.finish()
}

/// Reads what `Dim` printed, with symbols of the ranges above.
fn reread(dim: &Dim) -> Result<Dim> {
    Dim::parse_with(&dim.to_string(), &|name, _| {
        let (name, low, high) = RANGES.iter().find(|(known, ..)| *known == name).unwrap();
        Symbol::with_range(*name, *low, Some(*high))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, max_global_rejects: 1 << 20, ..ProptestConfig::default() })]

    #[test]
    fn simplifying_keeps_every_value(written in written()) {
        let dim = written.build(&symbols());
        let (low, high) = dim.bounds();
        for values in values() {
            let Some(expected) = written.eval(&values) else { continue };
            let found = eval(&dim, &values);
            prop_assert!(found.as_ref().is_ok_and(|found| *found as i128 == expected),
                "{dim} at {values:?}: expected {expected}, got {found:?}");
            prop_assert!(low as i128 <= expected && high.is_none_or(|high| expected <= high as i128),
                "{dim} at {values:?} is {expected}, not in {low}..={high:?}");
        }
    }

    #[test]
    fn printed_text_reads_back_as_an_equal_size(written in written()) {
        let dim = written.build(&symbols());
        prop_assume!(dim.error().is_none());
        let again = reread(&dim).unwrap();
        prop_assert_eq!(&again, &dim);
        prop_assert_eq!(hash(&again), hash(&dim));
    }

    #[test]
    fn default_symbols_read_back_from_text_alone(written in written()) {
        let symbols = ["a", "b", "c", "d"].map(|name| Dim::symbol(Symbol::new(name)));
        let dim = written.build(&symbols);
        prop_assume!(dim.error().is_none());
        prop_assert_eq!(dim.to_string().parse::<Dim>().unwrap(), dim);
    }

    #[test]
    fn answers_hold_for_every_value(left in written(), right in written()) {
        let (a, b) = (left.build(&symbols()), right.build(&symbols()));
        let (same, less, less_equal) = (a.same(&b), a.less(&b), a.less_equal(&b));
        for values in values() {
            let (Some(left), Some(right)) = (left.eval(&values), right.eval(&values)) else { continue };
            for (answer, holds) in [(same, left == right), (less, left < right), (less_equal, left <= right)] {
                prop_assert!(answer == Truth::Unknown || answer.is_yes() == holds, "{a} and {b} at {values:?}");
            }
        }
    }

    #[test]
    fn sums_and_products_obey_the_laws_of_a_ring(x in written(), y in written(), z in written()) {
        let [x, y, z] = [x, y, z].map(|written| written.build(&symbols()));
        prop_assume!([&x, &y, &z].iter().all(|dim| dim.error().is_none()));
        let sides = [
            (&x + &y, &y + &x),
            ((&x + &y) + &z, &x + (&y + &z)),
            (&x * &y, &y * &x),
            ((&x * &y) * &z, &x * (&y * &z)),
            ((&x + &y) * &z, &x * &z + &y * &z),
            (&x - &y, -(&y - &x)),
            (x.max(&y), y.max(&x)),
            (x.min(&y), y.min(&x)),
        ];
        for (left, right) in sides {
            if left.error().is_none() && right.error().is_none() {
                prop_assert_eq!(hash(&left), hash(&right));
                prop_assert_eq!(left, right);
            }
        }
    }

    #[test]
    fn substituting_keeps_every_value(written in written()) {
        let plain = symbols();
        let replaced = [dim("x"), dim("2*y + 1"), Dim::new(-2), dim("-x - 1")];
        let substituted = written.build(&plain).substitute(&|symbol| {
            RANGES.iter().position(|(name, ..)| *name == symbol.name()).map(|index| replaced[index].clone())
        });
        prop_assume!(substituted.error().is_none());
        for (x, y) in (0..4).flat_map(|x| (0..3).map(move |y| (x, y))) {
            if let Some(expected) = written.eval(&[x, 2 * y + 1, -2, -x - 1]) {
                let value = substituted.eval(&|symbol| Some(if symbol.name() == "x" { x } else { y })).unwrap();
                prop_assert_eq!(value as i128, expected, "{}", &substituted);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[ab%0-9 ()+*/,maxin-]{0,40}") {
        if let Ok(dim) = text.parse::<Dim>() {
            prop_assert_eq!(dim.to_string().parse::<Dim>().unwrap(), dim);
        }
    }
}
