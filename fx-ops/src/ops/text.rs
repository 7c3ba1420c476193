//! Text of the host: positions and lengths count characters, as in Python.

use fx_core::op::{Kind, Param, unknown_type};
use fx_core::{Arg, Error, Op, OpDef, Result, Type, TypeTree, Value, bail, err};

use super::lists::{items, positions};

/// The tables of this family.
pub static TABLES: &[&[Op]] = &[TEXT];

/// What an operand of a row is.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Int,
    /// An integer or nothing.
    OptInt,
    /// A list of text.
    Texts,
    /// Any value of the host.
    Any,
}

/// Infers the type of a row: that of its result for literals, else the general one.
fn infer(
    args: &[TypeTree],
    operands: &[Is],
    gives: fn() -> TypeTree,
    eval: fn(&[Value]) -> Result<Value>,
) -> Result<TypeTree> {
    for (arg, is) in args.iter().zip(operands) {
        let fits = match (is, arg) {
            (_, Arg::Leaf(Type::Any)) => return Err(unknown_type()),
            (Is::Any, _) => true,
            (Is::Text, arg) => matches!(arg, Arg::Str(_) | Arg::Leaf(Type::Str)),
            (Is::Int, arg) => matches!(arg, Arg::Int(_) | Arg::Dim(_) | Arg::Leaf(Type::Int)),
            (Is::OptInt, arg) => matches!(arg, Arg::None | Arg::Int(_) | Arg::Dim(_) | Arg::Leaf(Type::Int)),
            (Is::Texts, arg) => matches!(arg, Arg::List(_) | Arg::Leaf(Type::List(_))),
        };
        if !fits {
            return Err(wrong(*is, &arg.to_string()));
        }
    }
    let mut is_known = true;
    args.iter().for_each(|arg| arg.walk(&mut |arg| is_known &= !matches!(arg, Arg::Leaf(_) | Arg::Dim(_))));
    if is_known {
        let values: Vec<Value> =
            args.iter().map(|arg| arg.try_flat_map(&mut |_| Ok(Arg::None))).collect::<Result<_>>()?;
        // What fails, fails when it runs.
        if let Ok(value) = eval(&values) {
            return value.try_flat_map(&mut |_| Err(unknown_type()));
        }
    }
    Ok(gives())
}

fn wrong(is: Is, got: &str) -> Error {
    let expected = match is {
        Is::Text => "text",
        Is::Int => "an integer",
        Is::OptInt => "an integer or none",
        Is::Texts => "a list of text",
        Is::Any => "a value",
    };
    err!(Argument, "expected {expected}, got {got}")
}

fn text(args: &[Value], at: usize) -> Result<&str> {
    match args.get(at) {
        Some(Arg::Str(text)) => Ok(text),
        Some(other) => Err(wrong(Is::Text, other.kind_name())),
        None => bail!(Argument, "the argument {at} is missing"),
    }
}

fn int(args: &[Value], at: usize) -> Result<i64> {
    opt_int(args, at)?.ok_or_else(|| wrong(Is::Int, "none"))
}

fn opt_int(args: &[Value], at: usize) -> Result<Option<i64>> {
    match args.get(at) {
        Some(Arg::None) => Ok(None),
        Some(Arg::Int(x)) => Ok(Some(*x)),
        Some(other) => Err(wrong(Is::OptInt, other.kind_name())),
        None => bail!(Argument, "the argument {at} is missing"),
    }
}

fn texts(args: &[Value], at: usize) -> Result<Vec<&str>> {
    let list = args.get(at).ok_or_else(|| err!(Argument, "the argument {at} is missing"))?;
    let text = items(list)?.iter().map(|item| match item {
        Arg::Str(text) => Ok(&**text),
        other => Err(wrong(Is::Text, Value::kind_name(other))),
    });
    text.collect()
}

fn str_type() -> TypeTree {
    Arg::Leaf(Type::Str)
}
fn int_type() -> TypeTree {
    Arg::Leaf(Type::Int)
}
fn float_type() -> TypeTree {
    Arg::Leaf(Type::Float)
}
fn bool_type() -> TypeTree {
    Arg::Leaf(Type::Bool)
}
fn list_type() -> TypeTree {
    str_type().list_of()
}

const fn parameter(name: &'static str) -> Param {
    Param { name, kind: Kind::Any, default: None, keyword_only: false }
}

macro_rules! texts {
    ($(#[$meta:meta])* pub static $table:ident;
     $($(#[doc = $doc:literal])+ $name:ident($($x:ident: $is:ident),+) -> $gives:ident = $eval:expr;)*) => {
        $(
            #[doc(hidden)]
            #[allow(non_camel_case_types, reason = "the handle is named as the operation")]
            pub enum $name {}
            impl $name {
                /// The operation.
                pub const OP: Op = {
                    const EVAL: fn(&[Value]) -> Result<Value> = $eval;
                    static DEF: OpDef = OpDef {
                        name: stringify!($name),
                        doc: concat!($($doc, "\n"),+),
                        path: concat!(module_path!(), "::", stringify!($name)),
                        returns: "Value",
                        params: &[$(parameter(stringify!($x))),+],
                        infer: &|args| infer(args, &[$(Is::$is),+], $gives, EVAL),
                        eval: &EVAL,
                        ..OpDef::BASE
                    };
                    Op::new(&DEF)
                };
            }
            $(#[doc = $doc])+
            #[track_caller]
            pub fn $name($($x: impl fx_core::ToArg<fx_core::op::kind::Any>),+) -> Value {
                fx_core::trace::apply_as($name::OP, false, [$($x.to_arg()),+])
            }
        )*
        $(#[$meta])*
        pub static $table: &[Op] = &[$($name::OP),*];
    };
}

texts! {
    /// Operations on text.
    pub static TEXT;

    /// `x`, then `y`.
    str_concat(x: Text, y: Text) -> str_type = |a| Ok(Arg::str(format!("{}{}", text(a, 0)?, text(a, 1)?)));
    /// `x` repeated `n` times; nothing below 1.
    str_repeat(x: Text, n: Int) -> str_type = repeat;
    /// The number of characters.
    str_len(x: Text) -> int_type = |a| Ok(Value::from(text(a, 0)?.chars().count()));
    /// The character at position `i`, counted from the end if negative. Fails if there is none.
    str_get(x: Text, i: Int) -> str_type = get;
    /// The characters from `start` to before `stop`, each `step`-th, with the meaning of Python's slices.
    str_slice(x: Text, start: OptInt, stop: OptInt, step: Int) -> str_type = slice;
    /// Whether both are the same.
    str_eq(x: Text, y: Text) -> bool_type = |a| Ok(Arg::Bool(text(a, 0)? == text(a, 1)?));
    /// Whether `x` comes before `y` in the order of code points.
    str_lt(x: Text, y: Text) -> bool_type = |a| Ok(Arg::Bool(text(a, 0)? < text(a, 1)?));
    /// Whether `part` occurs in `x`.
    str_contains(x: Text, part: Text) -> bool_type = |a| Ok(Arg::Bool(text(a, 0)?.contains(text(a, 1)?)));
    /// Whether `x` begins with `part`.
    str_startswith(x: Text, part: Text) -> bool_type = |a| Ok(Arg::Bool(text(a, 0)?.starts_with(text(a, 1)?)));
    /// Whether `x` ends with `part`.
    str_endswith(x: Text, part: Text) -> bool_type = |a| Ok(Arg::Bool(text(a, 0)?.ends_with(text(a, 1)?)));
    /// The position of the first `part` in `x`, or -1.
    str_find(x: Text, part: Text) -> int_type = find;
    /// `x` in lower case.
    str_lower(x: Text) -> str_type = |a| Ok(Arg::str(text(a, 0)?.to_lowercase()));
    /// `x` in upper case.
    str_upper(x: Text) -> str_type = |a| Ok(Arg::str(text(a, 0)?.to_uppercase()));
    /// `x` without white space at both ends.
    str_strip(x: Text) -> str_type = |a| Ok(Arg::str(text(a, 0)?.trim()));
    /// `x` with `new` for each `old`.
    str_replace(x: Text, old: Text, new: Text) -> str_type =
        |a| Ok(Arg::str(text(a, 0)?.replace(text(a, 1)?, text(a, 2)?)));
    /// The parts of `x` between the occurrences of `separator`. Fails if that is empty.
    str_split(x: Text, separator: Text) -> list_type = split;
    /// The texts of a list with `separator` between them.
    str_join(separator: Text, parts: Texts) -> str_type = |a| Ok(Arg::str(texts(a, 1)?.join(text(a, 0)?)));
    /// The integer that `x` is. Fails if it is none.
    str_int(x: Text) -> int_type = |a| match text(a, 0)?.trim().parse() {
        Ok(x) => Ok(Arg::Int(x)),
        Err(_) => bail!(Argument, "{:?} is no integer of 64 bits", text(a, 0)?),
    };
    /// The float that `x` is. Fails if it is none.
    str_float(x: Text) -> float_type = |a| match text(a, 0)?.trim().parse() {
        Ok(x) => Ok(Arg::Float(x)),
        Err(_) => bail!(Argument, "{:?} is no float", text(a, 0)?),
    };
    /// A value of the host as text, as Python's `str` writes it.
    str_of(x: Any) -> str_type = |a| match a {
        [Arg::Str(text)] => Ok(Arg::Str(text.clone())),
        [x] => written(x).map(Arg::str),
        _ => bail!(Argument, "the argument is missing"),
    };
    /// `template` with the values of a list, as `str_of` writes them, for each `{}`; `{{` and `}}` are braces.
    /// Fails if the numbers of both differ, or there is a format within braces.
    str_format(template: Text, values: Any) -> str_type = format;
}

/// The most bytes of text that is repeated.
const MAX_BYTES: usize = 1 << 28;

fn repeat(a: &[Value]) -> Result<Value> {
    let (x, n) = (text(a, 0)?, usize::try_from(int(a, 1)?).unwrap_or(0));
    if x.len().saturating_mul(n) > MAX_BYTES {
        bail!(
            Limit,
            "text of {} bytes is repeated {n} times, which are more than {MAX_BYTES} bytes",
            x.len()
        );
    }
    Ok(Arg::str(x.repeat(n)))
}

fn get(a: &[Value]) -> Result<Value> {
    let (x, i) = (text(a, 0)?, int(a, 1)?);
    let found = match usize::try_from(i) {
        Ok(i) => x.chars().nth(i),
        Err(_) => usize::try_from(-1 - i).ok().and_then(|i| x.chars().rev().nth(i)),
    };
    match found {
        Some(c) => Ok(Arg::str(c.to_string())),
        None => bail!(Index, "the position {i} is out of range for {} characters", x.chars().count()),
    }
}

fn slice(a: &[Value]) -> Result<Value> {
    let characters: Vec<char> = text(a, 0)?.chars().collect();
    let at = positions(characters.len(), opt_int(a, 1)?, opt_int(a, 2)?, int(a, 3)?)?;
    Ok(Arg::str(at.into_iter().map(|at| characters[at]).collect::<String>()))
}

fn find(a: &[Value]) -> Result<Value> {
    let (x, part) = (text(a, 0)?, text(a, 1)?);
    Ok(x.find(part).map_or(Arg::Int(-1), |at| Value::from(x[..at].chars().count())))
}

fn split(a: &[Value]) -> Result<Value> {
    let (x, separator) = (text(a, 0)?, text(a, 1)?);
    if separator.is_empty() {
        bail!(Argument, "a separator has at least one character");
    }
    Ok(Arg::list(x.split(separator).map(Arg::str)))
}

/// Writes a float as Python does: the shortest text that reads back.
fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{x:?}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |digits| ("-", digits));
            format!("{}e{sign}{digits:0>2}", mantissa.strip_suffix(".0").unwrap_or(mantissa))
        }
        None => text,
    }
}

/// Writes a value as Python's `repr` does.
fn written(x: &Value) -> Result<String> {
    let all = |items: &[Value]| -> Result<String> {
        Ok(items.iter().map(written).collect::<Result<Vec<_>>>()?.join(", "))
    };
    Ok(match x {
        Arg::None => "None".to_owned(),
        Arg::Bool(x) => if *x { "True" } else { "False" }.to_owned(),
        Arg::Int(x) => x.to_string(),
        Arg::Float(x) => float(*x),
        Arg::Str(x) => {
            let quote = if x.contains('\'') && !x.contains('"') { '"' } else { '\'' };
            let mut text = String::from(quote);
            for c in x.chars() {
                match c {
                    '\\' => text.push_str("\\\\"),
                    '\n' => text.push_str("\\n"),
                    '\r' => text.push_str("\\r"),
                    '\t' => text.push_str("\\t"),
                    c if c == quote => text.extend(['\\', c]),
                    c if c.is_control() => text.push_str(&format!("\\x{:02x}", c as u32)),
                    c => text.push(c),
                }
            }
            text.push(quote);
            text
        }
        Arg::List(items) => format!("[{}]", all(items)?),
        Arg::Tuple(items) if items.len() == 1 => format!("({},)", all(items)?),
        Arg::Tuple(items) => format!("({})", all(items)?),
        other => {
            return Err(err!(Argument, "{} has no text", other.kind_name())
                .help("read the one element of a tensor with `item`"));
        }
    })
}

fn format(a: &[Value]) -> Result<Value> {
    let template = text(a, 0)?;
    let Some(values) = a.get(1).and_then(Arg::items) else { bail!(Argument, "expected a list of values") };
    let (mut out, mut values, mut n) = (String::new(), values.iter(), 0);
    let mut rest = template.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('{', Some('{')) | ('}', Some('}')) => {
                out.push(c);
                rest.next();
            }
            ('{', Some('}')) => {
                rest.next();
                n += 1;
                match values.next() {
                    Some(Arg::Str(text)) => out.push_str(text),
                    Some(value) => out.push_str(&written(value)?),
                    None => bail!(Argument, "{template:?} takes at least {n} values"),
                }
            }
            ('{' | '}', _) => {
                return Err(
                    err!(Argument, "{template:?} has a brace that is no {{}}").help("double other braces")
                );
            }
            _ => out.push(c),
        }
    }
    if values.next().is_some() {
        bail!(Argument, "{template:?} takes {n} values, got more");
    }
    Ok(Arg::str(out))
}
