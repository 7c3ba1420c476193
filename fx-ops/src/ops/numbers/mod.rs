//! Numbers of the host: integers of 64 bits, floats and bools, with Python's meaning.
//!
//! Pointwise rows compute numbers as tensors of rank 0 in the default dtype; these rows compute them in `i64` and
//! `f64`. A row takes numbers only: [`item`](fx_core::ops::item) and the conversions read tensors. The result of a
//! size is a size where [`Dim`] expresses it. `exact` has the arithmetic that hardware lacks.

mod exact;
use std::cmp::Ordering;

use fx_core::op::{Kind, Param};
use fx_core::{
    Arg, Category, Dim, Error, Op, OpDef, Result, Scalar, Symbol, Type, TypeTree, Value, bail, err,
};

use self::exact::{compare, divide, floor_divide, modulo, power, truncated};

/// The tables of this family.
pub static TABLES: &[&[Op]] = &[NUMBERS, CONVERSIONS];

/// What a row computes of one number or two; a row of one ignores the second.
struct Rule {
    /// The category of the result, from the greatest of the operands.
    gives: fn(Category) -> Category,
    /// The result.
    eval: fn(Scalar, Scalar) -> Result<Scalar>,
    /// The result of sizes, where that is known: a size or a literal.
    sizes: fn(&Dim, &Dim) -> Option<TypeTree>,
}

impl Rule {
    /// Returns the type of the result. A result of literals is a literal; one that fails, fails when it runs.
    fn infer(&self, args: &[TypeTree]) -> Result<TypeTree> {
        let mut greatest = Category::Bool;
        let mut sizes = [const { Dim::new(0) }; 2];
        let (mut is_known, mut is_size) = (true, true);
        for (arg, size) in args.iter().zip(&mut sizes) {
            let category = category(arg)?;
            greatest = greatest.max(category);
            is_known &= arg.scalar().is_some();
            match arg {
                Arg::Dim(dim) => *size = dim.clone(),
                Arg::Int(x) => *size = Dim::new(*x),
                Arg::Bool(x) => *size = Dim::new(i64::from(*x)),
                _ => is_size = false,
            }
        }
        let known = match args {
            _ if is_known => {
                let number = |at: usize| args.get(at).and_then(Arg::scalar).unwrap_or(Scalar::Int(0));
                (self.eval)(number(0), number(1)).ok().map(Arg::from)
            }
            _ if is_size => (self.sizes)(&sizes[0], &sizes[1]),
            _ => None,
        };
        if let Some(known) = known.filter(|known| known.error().is_none()) {
            return Ok(known);
        }
        Ok(match (self.gives)(greatest) {
            // A whole number that is found out while the program runs may be a size.
            Category::Int if greatest == Category::Float => found_out((i64::MIN, None)),
            category => of_category(category),
        })
    }

    fn eval(&self, args: &[Value]) -> Result<Value> {
        let number = |at: usize| args.get(at).map_or(Ok(Scalar::Int(0)), number);
        (self.eval)(number(0)?, number(1)?).map(Arg::from)
    }
}

/// Returns the category of a number from its type.
fn category(arg: &TypeTree) -> Result<Category> {
    match arg {
        Arg::Leaf(Type::Int) | Arg::Dim(_) => Ok(Category::Int),
        Arg::Leaf(Type::Float) => Ok(Category::Float),
        Arg::Leaf(Type::Bool) => Ok(Category::Bool),
        Arg::Leaf(Type::Tensor(ty)) => Err(no_number(&ty.to_string())),
        _ => arg.scalar().map(Scalar::category).ok_or_else(|| no_number(arg.kind_name())),
    }
}

/// Returns the type of a number of which nothing else is known.
fn of_category(category: Category) -> TypeTree {
    Arg::Leaf(match category {
        Category::Bool => Type::Bool,
        Category::Int => Type::Int,
        Category::Float => Type::Float,
    })
}

/// Returns the type of an integer in a range that depends on data.
fn found_out((least, greatest): (i64, Option<i64>)) -> TypeTree {
    Arg::dim(Dim::symbol(Symbol::fresh(0).ranged(least, greatest)))
}

/// Returns a number of an argument.
fn number(arg: &Value) -> Result<Scalar> {
    arg.scalar().ok_or_else(|| no_number(arg.kind_name()))
}

fn no_number(got: &str) -> Error {
    err!(Argument, "expected a number, got {got}").help("read the one element of a tensor with `item`")
}

fn overflow(text: String) -> Error {
    err!(Overflow, "{text} does not fit an integer of 64 bits")
        .help("compute with floats, or with tensors, whose integers wrap")
}

fn by_zero(text: String) -> Error {
    err!(Argument, "division by zero: {text}").help("test the divisor first")
}

/// The greatest category, at least that of integers.
fn joined(category: Category) -> Category {
    category.max(Category::Int)
}
fn same(category: Category) -> Category {
    category
}
fn whole(_: Category) -> Category {
    Category::Int
}
fn float(_: Category) -> Category {
    Category::Float
}
fn truth(_: Category) -> Category {
    Category::Bool
}

/// Computes in floats if one number is a float, else in integers, where `None` is an overflow.
fn arithmetic(
    (x, sign, y): (Scalar, &str, Scalar),
    ints: fn(i64, i64) -> Option<i64>,
    floats: fn(f64, f64) -> f64,
) -> Result<Scalar> {
    match x.category().max(y.category()) {
        Category::Float => Ok(Scalar::Float(floats(x.to_f64(), y.to_f64()))),
        _ => {
            let (x, y) = (x.to_i64(), y.to_i64());
            ints(x, y).map(Scalar::Int).ok_or_else(|| overflow(format!("{x} {sign} {y}")))
        }
    }
}

/// Computes bits; those of two bools are a bool.
fn bits(x: Scalar, y: Scalar, f: fn(i64, i64) -> i64) -> Result<Scalar> {
    match x.category().max(y.category()) {
        Category::Bool => Ok(Scalar::Bool(f(x.to_i64(), y.to_i64()) != 0)),
        Category::Int => Ok(Scalar::Int(f(x.to_i64(), y.to_i64()))),
        Category::Float => {
            Err(err!(Argument, "floats have no bits to compute with").help("convert them with `num_int`"))
        }
    }
}

/// Shifts `x` by `y` bits. Fails for a negative number of bits, as Python does.
fn shift(x: Scalar, y: Scalar, f: fn(i64, i64) -> Option<i64>, sign: &str) -> Result<Scalar> {
    let (Category::Bool | Category::Int, Category::Bool | Category::Int) = (x.category(), y.category())
    else {
        return bits(Scalar::Float(0.0), y, |x, _| x);
    };
    let (x, y) = (x.to_i64(), y.to_i64());
    if y < 0 {
        return Err(err!(Argument, "the number of bits of a shift is at least 0, got {y}"));
    }
    f(x, y).map(Scalar::Int).ok_or_else(|| overflow(format!("{x} {sign} {y}")))
}

fn shifted_left(x: i64, y: i64) -> Option<i64> {
    if x == 0 {
        return Some(0);
    }
    let shifted = x.checked_shl(u32::try_from(y).ok()?)?;
    (shifted >> y == x).then_some(shifted)
}

/// A function of a float, which integers become.
fn real(x: Scalar, f: fn(f64) -> f64) -> Result<Scalar> {
    Ok(Scalar::Float(f(x.to_f64())))
}

/// Rounds to an integer.
fn to_whole(x: Scalar, f: fn(f64) -> f64) -> Result<Scalar> {
    match x {
        Scalar::Float(x) => truncated(f(x)).map(Scalar::Int),
        x => Ok(Scalar::Int(x.to_i64())),
    }
}

fn ordered(x: Scalar, y: Scalar, holds: fn(Option<Ordering>) -> bool) -> Result<Scalar> {
    Ok(Scalar::Bool(holds(compare(x, y))))
}

/// Returns the second number instead of the first if it is `wanted` beside that; a number beside a float is a
/// float.
fn extremum(x: Scalar, y: Scalar, wanted: Ordering) -> Result<Scalar> {
    let best = if compare(y, x) == Some(wanted) { y } else { x };
    Ok(match x.category().max(y.category()) {
        Category::Float => Scalar::Float(best.to_f64()),
        Category::Int => Scalar::Int(best.to_i64()),
        Category::Bool => best,
    })
}

/// A size as a type; `None` if it cannot be expressed.
#[allow(clippy::unnecessary_wraps, reason = "the form of all rules for sizes")]
fn size(dim: Dim) -> Option<TypeTree> {
    Some(Arg::dim(dim))
}

/// A comparison of sizes that holds for all values of the symbols, or for none.
fn decided(truth: fx_core::Truth) -> Option<TypeTree> {
    match truth {
        fx_core::Truth::Yes => Some(Arg::Bool(true)),
        fx_core::Truth::No => Some(Arg::Bool(false)),
        fx_core::Truth::Unknown => None,
    }
}

fn unknown(_: &Dim, _: &Dim) -> Option<TypeTree> {
    None
}

/// A quotient or remainder of sizes, if the divisor is no zero.
fn divided(x: &Dim, y: &Dim, f: fn(&Dim, &Dim) -> Dim) -> Option<TypeTree> {
    y.same(&Dim::new(0)).is_no().then(|| Arg::dim(f(x, y)))
}

const fn parameter(name: &'static str, kind: Kind) -> Param {
    Param { name, kind, default: None, keyword_only: false }
}

/// Defines rows that take numbers.
macro_rules! numbers {
    ($(#[$meta:meta])* pub static $table:ident;
     $($(#[doc = $doc:literal])+ $name:ident($($x:ident),+) -> $gives:ident = $eval:expr, $sizes:expr;)*) => {
        $(
            #[doc(hidden)]
            #[allow(non_camel_case_types, reason = "the handle is named as the operation")]
            pub enum $name {}
            impl $name {
                /// The operation.
                pub const OP: Op = {
                    static RULE: Rule = Rule { gives: $gives, eval: $eval, sizes: $sizes };
                    static DEF: OpDef = OpDef {
                        name: stringify!($name),
                        doc: concat!($($doc, "\n"),+),
                        path: concat!(module_path!(), "::", stringify!($name)),
                        returns: "Value",
                        params: &[$(parameter(stringify!($x), Kind::Number)),+],
                        infer: &|args| RULE.infer(args),
                        eval: &|args| RULE.eval(args),
                        ..OpDef::BASE
                    };
                    Op::new(&DEF)
                };
            }
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name($($x: impl fx_core::ToArg<fx_core::op::kind::Number>),+) -> Value {
                fx_core::trace::apply_as($name::OP, false, [$($x.to_arg()),+])
            }
        )*
        $(#[$meta])*
        pub static $table: &[Op] = &[$($name::OP),*];
    };
}

numbers! {
    /// Arithmetic, comparisons and functions of numbers.
    pub static NUMBERS;

    /// `x + y`. Fails if integers overflow.
    num_add(x, y) -> joined = |x, y| arithmetic((x, "+", y), i64::checked_add, |x, y| x + y), |x, y| size(x + y);
    /// `x - y`. Fails if integers overflow.
    num_sub(x, y) -> joined = |x, y| arithmetic((x, "-", y), i64::checked_sub, |x, y| x - y), |x, y| size(x - y);
    /// `x * y`. Fails if integers overflow.
    num_mul(x, y) -> joined = |x, y| arithmetic((x, "*", y), i64::checked_mul, |x, y| x * y), |x, y| size(x * y);
    /// `x / y`, a float; of integers the float nearest to the quotient. Fails if `y` is 0.
    num_truediv(x, y) -> float = divide, unknown;
    /// `x // y`, rounded down. Fails if `y` is 0.
    num_floordiv(x, y) -> joined = floor_divide, |x, y| divided(x, y, Dim::floor_div);
    /// `x % y`, with the sign of `y`. Fails if `y` is 0.
    num_mod(x, y) -> joined = modulo, |x, y| divided(x, y, Dim::modulo);
    /// `x ** y`. Fails if the result overflows or is complex, if 0 has a negative exponent, or if an integer has
    /// one: convert `x` with `num_float` for that.
    num_pow(x, y) -> joined = power, |x, y| match y.known() {
        Some(y @ 0..=8) => size((0..y).fold(Dim::new(1), |product, _| product * x)),
        _ => None,
    };
    /// `-x`. Fails if an integer overflows.
    num_neg(x) -> joined = |x, _| arithmetic((Scalar::Int(0), "-", x), i64::checked_sub, |_, x| -x), |x, _| size(-x);
    /// The absolute value of `x`. Fails if an integer overflows.
    num_abs(x) -> joined = |x, _| arithmetic((Scalar::Int(0), "-", x), |_, x| x.checked_abs(), |_, x| x.abs()),
        |x, _| size(x.max(&-x));
    /// The lesser of two numbers, `x` if neither is; a float if one is a float.
    num_min(x, y) -> same = |x, y| extremum(x, y, Ordering::Less), |x, y| size(x.min(y));
    /// The greater of two numbers, `x` if neither is; a float if one is a float.
    num_max(x, y) -> same = |x, y| extremum(x, y, Ordering::Greater), |x, y| size(x.max(y));

    /// Whether `x < y`, exactly.
    num_lt(x, y) -> truth = |x, y| ordered(x, y, |order| order == Some(Ordering::Less)), |x, y| decided(x.less(y));
    /// Whether `x <= y`, exactly.
    num_le(x, y) -> truth = |x, y| ordered(x, y, |order| order.is_some_and(Ordering::is_le)),
        |x, y| decided(x.less_equal(y));
    /// Whether `x > y`, exactly.
    num_gt(x, y) -> truth = |x, y| ordered(x, y, |order| order == Some(Ordering::Greater)), |x, y| decided(y.less(x));
    /// Whether `x >= y`, exactly.
    num_ge(x, y) -> truth = |x, y| ordered(x, y, |order| order.is_some_and(Ordering::is_ge)),
        |x, y| decided(y.less_equal(x));
    /// Whether `x` and `y` are equal, exactly.
    num_eq(x, y) -> truth = |x, y| ordered(x, y, |order| order == Some(Ordering::Equal)), |x, y| decided(x.same(y));
    /// Whether `x` and `y` differ; NaN differs from everything.
    num_ne(x, y) -> truth = |x, y| ordered(x, y, |order| order != Some(Ordering::Equal)),
        |x, y| match decided(x.same(y)) {
            Some(Arg::Bool(same)) => Some(Arg::Bool(!same)),
            _ => None,
        };

    /// Whether both numbers are not 0.
    num_and(x, y) -> truth = |x, y| Ok(Scalar::Bool(x.to_bool() && y.to_bool())), unknown;
    /// Whether a number is not 0.
    num_or(x, y) -> truth = |x, y| Ok(Scalar::Bool(x.to_bool() || y.to_bool())), unknown;
    /// Whether `x` is 0.
    num_not(x) -> truth = |x, _| Ok(Scalar::Bool(!x.to_bool())), |x, _| decided(x.same(&Dim::new(0)));

    /// `x & y` of integers; a bool of two bools.
    num_bitand(x, y) -> same = |x, y| bits(x, y, |x, y| x & y), unknown;
    /// `x | y` of integers; a bool of two bools.
    num_bitor(x, y) -> same = |x, y| bits(x, y, |x, y| x | y), unknown;
    /// `x ^ y` of integers; a bool of two bools.
    num_bitxor(x, y) -> same = |x, y| bits(x, y, |x, y| x ^ y), unknown;
    /// `~x` of an integer.
    num_bitnot(x) -> whole = |x, _| bits(x, Scalar::Int(0), |x, _| !x), unknown;
    /// `x << y`. Fails if the result overflows or `y` is negative.
    num_lshift(x, y) -> whole = |x, y| shift(x, y, shifted_left, "<<"), unknown;
    /// `x >> y`, rounded down. Fails if `y` is negative.
    num_rshift(x, y) -> whole = |x, y| shift(x, y, |x, y| Some(x >> y.min(63)), ">>"), unknown;

    /// `x / y` rounded up, an integer: `num_max(num_ceildiv(stop - start, step), 0)` is the length of a range.
    /// Fails if `y` is 0.
    num_ceildiv(x, y) -> whole = exact::ceil_divide, |x, y| divided(x, y, |x, y| -&(-x).floor_div(y));

    /// `x` rounded to the nearest whole number, to an even one between two; a float.
    num_round(x) -> float = |x, _| real(x, f64::round_ties_even), unknown;
    /// The greatest integer that is at most `x`. Fails if it overflows.
    num_floor(x) -> whole = |x, _| to_whole(x, f64::floor), |x, _| size(x.clone());
    /// The least integer that is at least `x`. Fails if it overflows.
    num_ceil(x) -> whole = |x, _| to_whole(x, f64::ceil), |x, _| size(x.clone());
    /// `x` without its fraction, an integer. Fails if it overflows.
    num_trunc(x) -> whole = |x, _| to_whole(x, f64::trunc), |x, _| size(x.clone());

    /// The square root; NaN of a negative number.
    num_sqrt(x) -> float = |x, _| real(x, f64::sqrt), unknown;
    /// The exponential.
    num_exp(x) -> float = |x, _| real(x, f64::exp), unknown;
    /// `exp(x) - 1`, exact near 0.
    num_expm1(x) -> float = |x, _| real(x, f64::exp_m1), unknown;
    /// The natural logarithm; NaN of a negative number.
    num_log(x) -> float = |x, _| real(x, f64::ln), unknown;
    /// `log(1 + x)`, exact near 0.
    num_log1p(x) -> float = |x, _| real(x, f64::ln_1p), unknown;
    /// The logarithm to base 2.
    num_log2(x) -> float = |x, _| real(x, f64::log2), unknown;
    /// The logarithm to base 10.
    num_log10(x) -> float = |x, _| real(x, f64::log10), unknown;
    /// The sine.
    num_sin(x) -> float = |x, _| real(x, f64::sin), unknown;
    /// The cosine.
    num_cos(x) -> float = |x, _| real(x, f64::cos), unknown;
    /// The tangent.
    num_tan(x) -> float = |x, _| real(x, f64::tan), unknown;
    /// The inverse sine.
    num_asin(x) -> float = |x, _| real(x, f64::asin), unknown;
    /// The inverse cosine.
    num_acos(x) -> float = |x, _| real(x, f64::acos), unknown;
    /// The inverse tangent.
    num_atan(x) -> float = |x, _| real(x, f64::atan), unknown;
    /// The hyperbolic sine.
    num_sinh(x) -> float = |x, _| real(x, f64::sinh), unknown;
    /// The hyperbolic cosine.
    num_cosh(x) -> float = |x, _| real(x, f64::cosh), unknown;
    /// The hyperbolic tangent.
    num_tanh(x) -> float = |x, _| real(x, f64::tanh), unknown;
    /// The inverse hyperbolic sine.
    num_asinh(x) -> float = |x, _| real(x, f64::asinh), unknown;
    /// The inverse hyperbolic cosine.
    num_acosh(x) -> float = |x, _| real(x, f64::acosh), unknown;
    /// The inverse hyperbolic tangent.
    num_atanh(x) -> float = |x, _| real(x, f64::atanh), unknown;
    /// The angle of the point `(y, x)`.
    num_atan2(x, y) -> float = |x, y| Ok(Scalar::Float(x.to_f64().atan2(y.to_f64()))), unknown;
    /// The remainder of `x / y` with the sign of `x`, as C's `fmod`; NaN if `y` is 0.
    num_fmod(x, y) -> float = |x, y| Ok(Scalar::Float(x.to_f64() % y.to_f64())), unknown;
    /// `x` with the sign of `y`.
    num_copysign(x, y) -> float = |x, y| Ok(Scalar::Float(x.to_f64().copysign(y.to_f64()))), unknown;
    /// Whether `x` is NaN.
    num_isnan(x) -> truth = |x, _| Ok(Scalar::Bool(x.to_f64().is_nan())), |_, _| Some(Arg::Bool(false));
    /// Whether `x` is infinite.
    num_isinf(x) -> truth = |x, _| Ok(Scalar::Bool(x.to_f64().is_infinite())), |_, _| Some(Arg::Bool(false));
    /// Whether `x` is neither infinite nor NaN.
    num_isfinite(x) -> truth = |x, _| Ok(Scalar::Bool(x.to_f64().is_finite())), |_, _| Some(Arg::Bool(true));
}

/// Defines conversions, which take a number or a tensor of one element.
macro_rules! conversions {
    ($(#[$meta:meta])* pub static $table:ident;
     $($(#[doc = $doc:literal])+ $name:ident -> $to:ident = $eval:expr;)*) => {
        $(
            #[doc(hidden)]
            #[allow(non_camel_case_types, reason = "the handle is named as the operation")]
            pub enum $name {}
            impl $name {
                /// The operation.
                pub const OP: Op = {
                    static DEF: OpDef = OpDef {
                        name: stringify!($name),
                        doc: concat!($($doc, "\n"),+),
                        path: concat!(module_path!(), "::", stringify!($name)),
                        returns: "Value",
                        params: &[parameter("x", Kind::Operand)],
                        infer: &|args| infer_conversion(&DEF, args, Category::$to, $eval),
                        eval: &|args| match args {
                            [Arg::Leaf(tensor)] => $eval(tensor.array()?.item()?).map(Arg::from),
                            [x] => $eval(number(x)?).map(Arg::from),
                            _ => fx_core::op::wrong_arity(&DEF, args.len()),
                        },
                        ..OpDef::BASE
                    };
                    Op::new(&DEF)
                };
            }
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name(x: impl fx_core::ToArg<fx_core::op::kind::Operand>) -> Value {
                fx_core::trace::apply_as($name::OP, false, [x.to_arg()])
            }
        )*
        $(#[$meta])*
        pub static $table: &[Op] = &[$($name::OP),*];
    };
}

conversions! {
    /// Conversions of numbers and of tensors of one element.
    pub static CONVERSIONS;

    /// `int(x)`: the number, or the one element of a tensor, without its fraction. Fails if an integer of 64
    /// bits cannot hold it.
    num_int -> Int = |x: Scalar| to_whole(x, f64::trunc);
    /// `float(x)`: the number, or the one element of a tensor, as a float.
    num_float -> Float = |x: Scalar| real(x, |x| x);
    /// `bool(x)`: whether the number, or the one element of a tensor, is not 0.
    num_bool -> Bool = |x: Scalar| Ok(Scalar::Bool(x.to_bool()));
}

/// Returns the type of a conversion. An integer that is read from data may be a size.
fn infer_conversion(
    def: &OpDef,
    args: &[TypeTree],
    to: Category,
    eval: fn(Scalar) -> Result<Scalar>,
) -> Result<TypeTree> {
    let [x] = args else { return fx_core::op::wrong_arity(def, args.len()) };
    if let Some(Ok(known)) = x.scalar().map(eval) {
        return Ok(known.into());
    }
    let from = match x {
        Arg::Leaf(Type::Tensor(ty)) => {
            if ty.shape.numel().known().is_some_and(|n| n != 1) {
                bail!(Shape, "{} takes a tensor of one element, got {ty}", def.name);
            }
            ty.dtype.category()
        }
        Arg::Dim(_) | Arg::Leaf(Type::Int) if to == Category::Int => return Ok(x.clone()),
        _ => category(x)?,
    };
    Ok(match (to, from) {
        (Category::Int, Category::Bool) => found_out((0, Some(1))),
        (Category::Int, _) => found_out((i64::MIN, None)),
        _ => of_category(to),
    })
}

/// Returns whether two numbers have the same value.
pub(crate) fn same_number(x: Scalar, y: Scalar) -> bool {
    compare(x, y) == Some(Ordering::Equal)
}
