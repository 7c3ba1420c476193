//! Operators on numbers, text and containers.

use fx_core::Result;
use fx_script::host::*;
use fx_script::value::Value;

fn run(name: &str, args: &[Value]) -> Result<Value> {
    let args: Vec<&Value> = args.iter().collect();
    find(name).unwrap_or_else(|| panic!("{name} has no row"))(&mut Output::new(1 << 10), &args)
}

/// The results of calls, as text.
fn check(calls: &[(&str, &[Value], &str)]) {
    for (name, args, expected) in calls {
        let got =
            run(name, args).map_or_else(|e| e.message().to_owned(), |v| fx_script::value::shown(&v).unwrap());
        assert_eq!(got, *expected, "{name} of {args:?}");
    }
}

use fx_script::value::Value::{Float as F, Int as I};

#[test]
fn integers_round_down_and_wrap() {
    check(&[
        ("aten::floordiv.int", &[I(-7), I(2)], "-4"),
        ("aten::remainder.int", &[I(-7), I(2)], "1"),
        ("aten::remainder.int", &[I(7), I(-2)], "-1"),
        ("aten::floordiv.int", &[I(1), I(0)], "division by 0"),
        ("aten::floordiv.int", &[I(i64::MIN), I(-1)], "-9223372036854775808"),
        ("aten::remainder.int", &[I(i64::MIN), I(-1)], "0"),
        ("aten::mul.int", &[I(1 << 62), I(4)], "0"),
        ("aten::pow.int", &[I(2), I(3)], "8."),
        ("aten::pow.int_to_int", &[I(2), I(3)], "8"),
        ("aten::neg.int", &[I(i64::MIN)], "-9223372036854775808"),
        ("aten::__lshift__.int", &[I(1), I(64)], "an integer is shifted by 64 bits"),
        ("aten::__range_length", &[I(10), I(0), I(-3)], "4"),
        ("aten::Int.float", &[F(-2.7)], "-2"),
    ]);
}

#[test]
fn floats_are_those_of_python() {
    check(&[
        ("aten::round.float", &[F(2.5)], "2."),
        ("aten::remainder.float", &[F(-1.0), F(3.0)], "2."),
        ("aten::floordiv.float", &[F(-1.0), F(3.0)], "-1."),
        ("aten::add.float", &[F(0.1), F(0.2)], "0.30000000000000004"),
        ("aten::mathremainder.float", &[F(5.0), F(3.0)], "-1."),
        ("aten::gamma.float", &[F(5.0)], "24."),
        ("aten::str", &[F(1e8)], "100000000."),
        ("aten::str", &[F(0.1)], "0.10000000000000001"),
        ("aten::str", &[F(1e-5)], "1.0000000000000001e-05"),
        ("aten::str", &[F(1e20)], "1e+20"),
    ]);
}

/// What PyTorch 2.15 gives for the same calls.
#[test]
fn floats_without_order_and_infinite_divisors_are_those_of_pytorch() {
    let (nan, inf) = (F(f64::NAN), F(f64::INFINITY));
    let floats = |list: &[f64]| Value::list(list.iter().map(|&x| F(x)).collect());
    let x = f64::NAN;
    check(&[
        ("prim::max.float", &[nan.clone(), F(1.0)], "1."),
        ("prim::max.float", &[F(1.0), nan.clone()], "nan"),
        ("prim::min.float", &[nan.clone(), F(1.0)], "1."),
        ("prim::min.float_int", &[nan, I(-1)], "-1."),
        ("prim::max.self_float", &[floats(&[x, 1.0, 2.0])], "nan"),
        ("prim::max.self_float", &[floats(&[1.0, x, 0.5])], "1."),
        ("prim::min.self_float", &[floats(&[3.0, x, 1.0, 2.0, x, 0.0])], "0."),
        ("aten::sorted.float", &[floats(&[x, 1.0, 2.0])], "[nan, 1., 2.]"),
        ("aten::sorted.float", &[floats(&[3.0, x, 1.0, 2.0, x, 0.0])], "[0., 1., 3., nan, 2., nan]"),
        ("aten::remainder.float", &[F(1.0), inf.clone()], "nan"),
        ("aten::remainder.float", &[F(5.3), F(0.7)], "0.40000000000000013"),
        ("aten::remainder.float", &[F(3.0), F(-3.0)], "0."),
        ("aten::floordiv.float", &[F(6.0), F(0.1)], "60."),
        ("aten::floordiv.float", &[F(-1.0), inf], "0."),
        ("aten::str", &[F(-0.0)], "0."),
        ("aten::str", &[F(1.5e16)], "15000000000000000."),
        ("aten::Float.str", &["3.5 ".into()], "could not convert string to float: \"3.5 \""),
        ("aten::Float.str", &[" 3.5".into()], "3.5"),
        ("aten::Int.str", &["1_0".into()], "invalid literal for int() with base 10: '1_0'"),
    ]);
}

#[test]
fn formats_take_specs() {
    let s = Value::from("a");
    check(&[
        ("aten::format", &["{}:{}".into(), s.clone(), I(3)], "a:3"),
        ("aten::format", &["{:.2f}|{:>4}|{:04d}".into(), F(1.005), s.clone(), I(-7)], "1.00|   a|-007"),
        ("aten::format", &["{:,}".into(), I(1_234_567)], "1,234,567"),
        ("aten::format", &["{}{}".into(), s.clone()], "Too few arguments for format string \"{}{}\""),
        ("aten::percentFormat", &["%s has %d of %f".into(), s, I(3), F(1.5)], "a has 3 of 1.500000"),
    ]);
}

#[test]
fn text_counts_characters() {
    check(&[
        ("aten::len.str", &["äöü".into()], "3"),
        ("aten::slice.str", &["äöü".into(), I(1), Value::None, I(1)], "öü"),
        ("aten::find", &["äöü".into(), "ü".into(), I(0), I(-1)], "2"),
        ("aten::split.str", &[" a  b ".into(), Value::None, I(-1)], "[a, b]"),
        ("aten::title", &["ab cd".into()], "Ab Cd"),
        ("aten::center", &["ab".into(), I(5), "*".into()], "**ab*"),
        ("aten::__getitem__.str", &["ab".into(), I(-3)], "string index out of range"),
    ]);
}

#[test]
fn dtypes_are_promoted_as_in_pytorch() {
    let promoted = |a, b| [I(a), I(b)];
    check(&[
        ("aten::promote_types", &promoted(0, 1), "2"),
        ("aten::promote_types", &promoted(3, 5), "5"),
        ("aten::promote_types", &promoted(15, 5), "6"),
        ("aten::promote_types", &promoted(9, 7), "10"),
        ("aten::promote_types", &promoted(11, 0), "0"),
        ("aten::can_cast", &promoted(6, 3), "False"),
        ("aten::can_cast", &promoted(11, 3), "True"),
        ("aten::can_cast", &promoted(9, 6), "False"),
    ]);
}

#[test]
fn slices_go_backwards() {
    let places = |start, stop, step| [Value::ints(0..6), start, stop, I(step)];
    check(&[
        ("aten::slice.t", &places(Value::None, Value::None, -1), "[5, 4, 3, 2, 1, 0]"),
        ("aten::slice.t", &places(I(4), I(0), -2), "[4, 2]"),
        ("aten::slice.t", &places(I(-9), I(9), 4), "[0, 4]"),
        ("aten::slice.t", &places(I(1), I(4), -1), "[]"),
        ("aten::slice.t", &places(Value::None, Value::None, i64::MIN), "[5]"),
        ("aten::slice.t", &places(Value::None, Value::None, 0), "a slice has a step that is not zero"),
    ]);
}

#[test]
fn equal_values_have_one_hash() {
    let hash = |value: Value| run("aten::hash.generic", &[value]).unwrap().to_int().unwrap();
    assert_eq!(hash(I(3)), hash(F(3.0)));
    assert_eq!(hash("ab".into()), hash(Value::str("ab")));
    assert_ne!(hash("ab".into()), hash("ba".into()));
    assert!(run("aten::hash.generic", &[Value::ints([1])]).unwrap_err().message().contains("no hash"));
}

#[test]
fn huge_values_are_refused() {
    let call = fx_script::value::transaction::begin(1 << 20);
    let list = run("aten::mul.left_t", &[Value::ints([0]), I(1_000_000_000_000)]).unwrap_err();
    assert_eq!(list.kind(), fx_core::ErrorKind::Limit);
    let text = run("aten::ljust", &["a".into(), I(10_000_000_000), " ".into()]).unwrap_err();
    assert_eq!(text.kind(), fx_core::ErrorKind::Limit);
    drop(call);
}

#[test]
fn every_overload_of_a_row_is_in_the_schema() {
    let without: Vec<&str> = names().filter(|name| fx_script::schema::get(name).is_none()).collect();
    assert!(without.is_empty(), "there is no schema of {without:?}");
    assert!(names().count() > 400, "{}", names().count());
}
