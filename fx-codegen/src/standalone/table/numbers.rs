//! Numbers of the host, where sizes do not express them: floats and bools, which are computed in `f64` and kept as
//! tensors of rank 0.

use fx_core::{Arg, Category, DType, Result, Scalar, Type, bail};

use super::{Args, Emit, number, text};
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Piece, Pieces};
use crate::standalone::value::{StandsFor, Value};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("num_add", |l, args| infix(l, args, "+")),
    ("num_sub", |l, args| infix(l, args, "-")),
    ("num_mul", |l, args| infix(l, args, "*")),
    ("num_truediv", divide),
    ("num_neg", negated),
    ("num_abs", |l, args| method(l, args, "abs")),
    ("num_sqrt", |l, args| method(l, args, "sqrt")),
    ("num_exp", |l, args| method(l, args, "exp")),
    ("num_log", |l, args| method(l, args, "ln")),
    ("num_sin", |l, args| method(l, args, "sin")),
    ("num_cos", |l, args| method(l, args, "cos")),
    ("num_tan", |l, args| method(l, args, "tan")),
    ("num_asin", |l, args| method(l, args, "asin")),
    ("num_acos", |l, args| method(l, args, "acos")),
    ("num_atan", |l, args| method(l, args, "atan")),
    ("num_sinh", |l, args| method(l, args, "sinh")),
    ("num_cosh", |l, args| method(l, args, "cosh")),
    ("num_tanh", |l, args| method(l, args, "tanh")),
    ("num_asinh", |l, args| method(l, args, "asinh")),
    ("num_acosh", |l, args| method(l, args, "acosh")),
    ("num_atanh", |l, args| method(l, args, "atanh")),
    ("num_expm1", |l, args| method(l, args, "exp_m1")),
    ("num_log1p", |l, args| method(l, args, "ln_1p")),
    ("num_log2", |l, args| method(l, args, "log2")),
    ("num_log10", |l, args| method(l, args, "log10")),
    ("num_round", |l, args| method(l, args, "round_ties_even")),
    ("num_atan2", |l, args| method(l, args, "atan2")),
    ("num_copysign", |l, args| method(l, args, "copysign")),
    ("num_fmod", |l, args| infix(l, args, "%")),
    ("num_isnan", |l, args| test(l, args, "is_nan")),
    ("num_isinf", |l, args| test(l, args, "is_infinite")),
    ("num_isfinite", |l, args| test(l, args, "is_finite")),
    ("num_min", |l, args| extremum(l, args, "<")),
    ("num_max", |l, args| extremum(l, args, ">")),
    ("num_lt", |l, args| comparison(l, args, "<")),
    ("num_le", |l, args| comparison(l, args, "<=")),
    ("num_gt", |l, args| comparison(l, args, ">")),
    ("num_ge", |l, args| comparison(l, args, ">=")),
    ("num_eq", |l, args| comparison(l, args, "==")),
    ("num_ne", |l, args| comparison(l, args, "!=")),
    ("num_and", |l, args| logical(l, args, "&&")),
    ("num_or", |l, args| logical(l, args, "||")),
    ("num_not", not),
];

/// Returns the category of a number.
fn category(value: &Value) -> Result<Category> {
    match (value, value.scalar()) {
        (Arg::Leaf(view), _) => Ok(view.dtype.category()),
        (Arg::Dim(_), _) => Ok(Category::Int),
        (_, Some(x)) => Ok(x.category()),
        (other, None) => bail!(Unresolved, "an operand is {}, not a number", other.kind_name()),
    }
}

/// Writes a number as one of a category.
fn as_category(value: &Value, to: Category) -> Result<Pieces> {
    let (from, piece) = match (value, value.scalar()) {
        (Arg::Leaf(view), _) => (view.dtype, Piece::Element(view.clone())),
        (Arg::Dim(size), _) => (DType::I64, Piece::Integer(size.clone())),
        (_, Some(x)) => {
            let dtype = match to {
                Category::Bool => DType::Bool,
                Category::Int => DType::I64,
                Category::Float => DType::F64,
            };
            return Ok(text(number(x, dtype)));
        }
        (other, None) => bail!(Unresolved, "an operand is {}, not a number", other.kind_name()),
    };
    let (before, after) = match (from.category(), to) {
        (Category::Bool, Category::Bool) | (Category::Int, Category::Int) => ("(", ")"),
        (Category::Float, Category::Bool) => ("(", " != 0.0)"),
        (Category::Int, Category::Bool) => ("(", " != 0)"),
        (Category::Bool, Category::Float) => ("(", " as u8 as f64)"),
        (_, Category::Float) => ("(", " as f64)"),
        (_, Category::Int) => ("(", " as i64)"),
    };
    Ok([text(before), vec![piece], text(after)].concat())
}

/// Computes a number.
fn computed(l: &mut Lowering<'_>, dtype: DType, value: Pieces) -> Value {
    let view = l.buffer(dtype, &[]);
    l.call("copy::fill", vec![value, vec![Piece::WriteView(view.clone())]]);
    Arg::Leaf(view.standing_for(StandsFor::Number))
}

/// Refuses what is no float; integers are sizes.
fn expect_float(args: &Args<'_>) -> Result<()> {
    match args.ty {
        Arg::Leaf(Type::Float) => Ok(()),
        ty => bail!(Unresolved, "it gives {ty}, which no size expresses"),
    }
}

fn floats(args: &Args<'_>) -> Result<Vec<Pieces>> {
    expect_float(args)?;
    args.args.iter().map(|arg| as_category(arg, Category::Float)).collect()
}

fn infix(l: &mut Lowering<'_>, args: &Args<'_>, sign: &str) -> Result<Value> {
    let [x, y] = &floats(args)?[..] else { bail!(Argument, "it takes two numbers") };
    Ok(computed(l, DType::F64, [x.clone(), text(format!(" {sign} ")), y.clone()].concat()))
}

fn divide(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let y = args.get("y")?;
    if y.scalar().is_none_or(|y| y.to_f64() == 0.0) {
        let divisor = l.number(y)?;
        let divisor = l.converted(&divisor, DType::F64)?;
        l.refuse(&divisor, "x == 0.0", "division by zero");
    }
    infix(l, args, "/")
}

fn negated(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let [x] = &floats(args)?[..] else { bail!(Argument, "it takes one number") };
    Ok(computed(l, DType::F64, [text("-"), x.clone()].concat()))
}

/// Returns the call of a method of the first number with the second one, if there is one.
fn method_of(args: &Args<'_>, name: &str) -> Result<Pieces> {
    let numbers = args.args.iter().map(|arg| as_category(arg, Category::Float));
    match &numbers.collect::<Result<Vec<_>>>()?[..] {
        [x] => Ok([x.clone(), text(format!(".{name}()"))].concat()),
        [x, y] => Ok([x.clone(), text(format!(".{name}(")), y.clone(), text(")")].concat()),
        _ => bail!(Argument, "it takes one number or two"),
    }
}

fn method(l: &mut Lowering<'_>, args: &Args<'_>, name: &str) -> Result<Value> {
    expect_float(args)?;
    Ok(computed(l, DType::F64, method_of(args, name)?))
}

fn test(l: &mut Lowering<'_>, args: &Args<'_>, name: &str) -> Result<Value> {
    Ok(computed(l, DType::Bool, method_of(args, name)?))
}

fn extremum(l: &mut Lowering<'_>, args: &Args<'_>, sign: &str) -> Result<Value> {
    let [x, y] = &floats(args)?[..] else { bail!(Argument, "it takes two numbers") };
    let test = [text("if "), y.clone(), text(format!(" {sign} ")), x.clone()].concat();
    let choice = [text(" { "), y.clone(), text(" } else { "), x.clone(), text(" }")].concat();
    Ok(computed(l, DType::F64, [test, choice].concat()))
}

fn comparison(l: &mut Lowering<'_>, args: &Args<'_>, sign: &str) -> Result<Value> {
    let (x, y) = (args.get("x")?, args.get("y")?);
    // Integers of a crate have 32 bits, which a float holds.
    let common = category(x)?.max(category(y)?).max(Category::Int);
    let value = [as_category(x, common)?, text(format!(" {sign} ")), as_category(y, common)?].concat();
    Ok(computed(l, DType::Bool, value))
}

fn logical(l: &mut Lowering<'_>, args: &Args<'_>, sign: &str) -> Result<Value> {
    let operand = |name| as_category(args.get(name)?, Category::Bool);
    Ok(computed(l, DType::Bool, [operand("x")?, text(format!(" {sign} ")), operand("y")?].concat()))
}

fn not(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.get("x")?;
    if let Some(x) = x.scalar() {
        return Ok(Arg::Bool(!Scalar::to_bool(x)));
    }
    Ok(computed(l, DType::Bool, [text("!"), as_category(x, Category::Bool)?].concat()))
}
