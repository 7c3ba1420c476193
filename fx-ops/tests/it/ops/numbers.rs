//! The rows against results that Python computed (`number_cases.txt`), and against sizes.

use fx_core::{Arg, Dim, ErrorKind, Op, Scalar, Symbol, Type, TypeTree, Value};
use fx_ops::ops::numbers::{CONVERSIONS, NUMBERS};

fn row(name: &str) -> Op {
    let found = NUMBERS.iter().chain(CONVERSIONS).find(|op| op.name == name);
    *found.unwrap_or_else(|| panic!("there is no row {name}"))
}

fn number(text: &str) -> Scalar {
    match text {
        "true" => Scalar::Bool(true),
        "false" => Scalar::Bool(false),
        _ if text.contains(['.', 'e', 'n']) => Scalar::Float(text.parse().unwrap()),
        _ => Scalar::Int(text.parse().unwrap()),
    }
}

/// Equal in type and bits; functions of floats may differ in the last two places.
fn agrees(got: Scalar, expected: Scalar) -> bool {
    match (got, expected) {
        (Scalar::Float(a), Scalar::Float(b)) => {
            a.to_bits().abs_diff(b.to_bits()) <= 2 || (a.is_nan() && b.is_nan())
        }
        (got, expected) => got == expected,
    }
}

#[test]
fn results_are_those_of_python() {
    let mut n = 0;
    for line in include_str!("number_cases.txt").lines().filter(|line| !line.starts_with('#')) {
        let (call, expected) = line.split_once(" = ").unwrap();
        let mut words = call.split(' ');
        let op = row(words.next().unwrap());
        let args: Vec<Value> = words.map(|word| number(word).into()).collect();
        let types: Vec<TypeTree> = args.iter().map(|arg| arg.scalar().unwrap().into()).collect();
        let (got, ty) = ((op.eval)(&args), (op.infer)(&types).unwrap());
        match got {
            Ok(got) => {
                assert!(expected != "error", "{line}: got {got}");
                let got = got.scalar().unwrap();
                assert!(agrees(got, number(expected)), "{line}: got {got:?}");
                assert_eq!(ty.scalar().map(Scalar::category), Some(got.category()), "{line}: {ty}");
            }
            Err(error) => {
                assert_eq!(expected, "error", "{line}: {error}");
                assert!(matches!(error.kind(), ErrorKind::Argument | ErrorKind::Overflow), "{line}: {error}");
                assert!(matches!(ty, Arg::Leaf(_) | Arg::Dim(_)), "{line}: {ty}");
            }
        }
        n += 1;
    }
    assert!(n > 2000, "{n} cases");
}

fn inferred(name: &str, args: &[TypeTree]) -> String {
    (row(name).infer)(args).unwrap().to_string()
}

#[test]
fn sizes_stay_sizes() {
    let n = || Arg::dim(Dim::symbol(Symbol::new("n")));
    let two = || Arg::Int(2);
    assert_eq!(inferred("num_add", &[n(), two()]), "<n + 2>");
    assert_eq!(inferred("num_floordiv", &[n(), two()]), "<n//2>");
    assert_eq!(inferred("num_ceildiv", &[n(), two()]), "<-((-n)//2)>");
    assert_eq!(inferred("num_pow", &[n(), two()]), "<n*n>");
    assert_eq!(inferred("num_max", &[n(), Arg::Int(-1)]), "<n>");
    assert_eq!(inferred("num_lt", &[n(), Arg::Int(0)]), "false");
    assert_eq!(inferred("num_eq", &[n(), two()]), "boolean");
    assert_eq!(inferred("num_int", &[n()]), "<n>");
    assert_eq!(inferred("num_truediv", &[n(), two()]), "float");
    // A divisor that may be 0 is looked at when it is known.
    assert_eq!(inferred("num_mod", &[two(), n()]), "int");
    assert_eq!(inferred("num_add", &[Arg::Leaf(Type::Int), n()]), "int");
    assert_eq!(inferred("num_mul", &[Arg::Leaf(Type::Float), n()]), "float");
}

#[test]
fn tensors_are_no_numbers() {
    let x: Value = Arg::Leaf(fx_core::Tensor::from_scalar(Scalar::Float(2.5)));
    let error = (row("num_add").eval)(&[x.clone(), Arg::Int(1)]).unwrap_err();
    assert_eq!(error.message(), "expected a number, got a tensor");
    assert_eq!((row("num_int").eval)(std::slice::from_ref(&x)).unwrap().scalar(), Some(Scalar::Int(2)));
    assert_eq!((row("num_bool").eval)(&[x]).unwrap().scalar(), Some(Scalar::Bool(true)));
}
