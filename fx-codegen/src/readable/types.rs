//! Structured arguments and results as Rust types, and literals as Rust writes them.

use fx_core::{Arg, DType, Scalar};

use super::layout::Expr;
use super::names::is_identifier;

/// A Rust type of an argument or result.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ty {
    Tensor,
    Tuple(Vec<Ty>),
    Array(Box<Ty>, usize),
    /// A struct of this name, with its fields.
    Struct(String, Vec<(String, Ty)>),
    /// An option that is absent.
    Absent,
    Int,
    /// An integer that is a symbol.
    Dim,
    Float,
    Bool,
    Str,
    /// Whatever has no type of its own.
    Value,
}

impl Ty {
    /// Returns the type of a nested value whose leaves have the type that `leaf` tells; `name` names a struct.
    pub(super) fn of<L>(tree: &Arg<L>, leaf: &dyn Fn(&L) -> Ty, name: &mut dyn FnMut() -> String) -> Ty {
        match tree {
            Arg::Leaf(found) => leaf(found),
            Arg::Tuple(items) if (1..=8).contains(&items.len()) => {
                Ty::Tuple(items.iter().map(|item| Ty::of(item, leaf, name)).collect())
            }
            Arg::List(items) if !items.is_empty() => {
                let first = Ty::of(&items[0], leaf, name);
                match items[1..].iter().all(|item| Ty::of(item, leaf, &mut || String::new()) == first) {
                    true if !first.has_struct() => Ty::Array(Box::new(first), items.len()),
                    _ => Ty::Value,
                }
            }
            Arg::Dict(entries)
                if !entries.is_empty() && entries.iter().all(|(key, _)| is_identifier(key)) =>
            {
                let own = name();
                let field =
                    |(key, item): &(std::sync::Arc<str>, Arg<L>)| (key.to_string(), Ty::of(item, leaf, name));
                Ty::Struct(own, entries.iter().map(field).collect())
            }
            Arg::None => Ty::Absent,
            Arg::Int(_) => Ty::Int,
            Arg::Float(_) => Ty::Float,
            Arg::Bool(_) => Ty::Bool,
            Arg::Str(_) => Ty::Str,
            _ => Ty::Value,
        }
    }

    /// Returns whether it is a list or tuple of tensors.
    pub(super) fn is_flat(&self) -> bool {
        match self {
            Ty::Tuple(items) => items.iter().all(|item| *item == Ty::Tensor),
            Ty::Array(item, _) => **item == Ty::Tensor,
            _ => false,
        }
    }

    fn has_struct(&self) -> bool {
        match self {
            Ty::Struct(..) => true,
            Ty::Tuple(items) => items.iter().any(Ty::has_struct),
            Ty::Array(item, _) => item.has_struct(),
            _ => false,
        }
    }

    /// Returns the type as it is written.
    pub(super) fn rust(&self) -> String {
        match self {
            Ty::Tensor => "Tensor".into(),
            Ty::Tuple(items) => {
                let items: Vec<String> = items.iter().map(Ty::rust).collect();
                format!("({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
            }
            Ty::Array(item, n) => format!("[{}; {n}]", item.rust()),
            Ty::Struct(name, _) => name.clone(),
            Ty::Absent => "Option<Tensor>".into(),
            Ty::Int => "i64".into(),
            Ty::Dim => "Dim".into(),
            Ty::Float => "f64".into(),
            Ty::Bool => "bool".into(),
            Ty::Str => "String".into(),
            Ty::Value => "fx::Value".into(),
        }
    }

    /// Returns the names of the structs in the type.
    pub(super) fn names(&self, out: &mut Vec<String>) {
        match self {
            Ty::Tuple(items) => items.iter().for_each(|item| item.names(out)),
            Ty::Array(item, _) => item.names(out),
            Ty::Struct(name, fields) => {
                out.push(name.clone());
                fields.iter().for_each(|(_, ty)| ty.names(out));
            }
            _ => {}
        }
    }

    /// Returns the type with structs that are named after another one.
    pub(super) fn renamed(self, old: &str, new: &str) -> Ty {
        let named = |name: String| match name.strip_prefix(old) {
            Some(rest) => format!("{new}{rest}"),
            None => name,
        };
        match self {
            Ty::Tuple(items) => Ty::Tuple(items.into_iter().map(|item| item.renamed(old, new)).collect()),
            Ty::Array(item, n) => Ty::Array(Box::new(item.renamed(old, new)), n),
            Ty::Struct(name, fields) => {
                let fields = fields.into_iter().map(|(field, ty)| (field, ty.renamed(old, new))).collect();
                Ty::Struct(named(name), fields)
            }
            other => other,
        }
    }

    /// Returns the structs in the type, inner ones first, each with the lines that define it.
    pub(super) fn structs(&self, out: &mut Vec<Vec<String>>) {
        match self {
            Ty::Tuple(items) => items.iter().for_each(|item| item.structs(out)),
            Ty::Array(item, _) => item.structs(out),
            Ty::Struct(name, fields) => {
                fields.iter().for_each(|(_, ty)| ty.structs(out));
                let mut lines =
                    vec!["#[derive(Clone, Debug, Tree)]".to_owned(), format!("pub struct {name} {{")];
                lines.extend(fields.iter().map(|(field, ty)| format!("    pub {field}: {},", ty.rust())));
                lines.push("}".into());
                out.push(lines);
            }
            _ => {}
        }
    }
}

/// Writes a float so that it reads back to the same bits.
pub(super) fn float(x: f64) -> String {
    use std::f64::consts;
    const NAMED: &[(f64, &str)] = &[
        (consts::PI, "PI"),
        (consts::TAU, "TAU"),
        (consts::E, "E"),
        (consts::LN_2, "LN_2"),
        (consts::LN_10, "LN_10"),
        (consts::LOG2_E, "LOG2_E"),
        (consts::LOG10_E, "LOG10_E"),
        (consts::LOG2_10, "LOG2_10"),
        (consts::LOG10_2, "LOG10_2"),
        (consts::SQRT_2, "SQRT_2"),
        (consts::FRAC_1_SQRT_2, "FRAC_1_SQRT_2"),
        (consts::FRAC_1_PI, "FRAC_1_PI"),
        (consts::FRAC_2_PI, "FRAC_2_PI"),
        (consts::FRAC_2_SQRT_PI, "FRAC_2_SQRT_PI"),
        (consts::FRAC_PI_2, "FRAC_PI_2"),
        (consts::FRAC_PI_3, "FRAC_PI_3"),
        (consts::FRAC_PI_4, "FRAC_PI_4"),
        (consts::FRAC_PI_6, "FRAC_PI_6"),
        (consts::FRAC_PI_8, "FRAC_PI_8"),
    ];
    if let Some((_, name)) = NAMED.iter().find(|(value, _)| value.to_bits() == x.abs().to_bits()) {
        let sign = if x.is_sign_negative() { "-" } else { "" };
        return format!("{sign}std::f64::consts::{name}");
    }
    match x {
        _ if x.to_bits() == f64::NAN.to_bits() => "f64::NAN".into(),
        _ if x.is_nan() => format!("f64::from_bits({:#x})", x.to_bits()),
        f64::INFINITY => "f64::INFINITY".into(),
        f64::NEG_INFINITY => "f64::NEG_INFINITY".into(),
        _ if x == f64::MAX => "f64::MAX".into(),
        _ if x == f64::MIN => "f64::MIN".into(),
        // As rustfmt and clippy like it: `1e-5`, not `1e-05`.
        _ => format!("{x:?}"),
    }
}

/// Writes an integer so that its type is known where it does not fit into 32 bits.
pub(super) fn int(x: i64) -> String {
    match i32::try_from(x) {
        Ok(_) => x.to_string(),
        Err(_) if x == i64::MAX => "i64::MAX".into(),
        Err(_) if x == i64::MIN => "i64::MIN".into(),
        Err(_) => format!("{x}_i64"),
    }
}

/// Writes text as a literal.
pub(super) fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(c),
            _ => out.extend(c.escape_unicode()),
        }
    }
    out.push('"');
    out
}

/// Writes a dtype.
pub(super) fn dtype(dtype: DType) -> String {
    let variant = match dtype {
        DType::Bool => "Bool".to_owned(),
        other => other.name().to_uppercase(),
    };
    format!("DType::{variant}")
}

/// Writes a number.
pub(super) fn number(x: Scalar) -> Expr {
    Expr::Text(match x {
        Scalar::Bool(x) => x.to_string(),
        Scalar::Int(x) => int(x),
        Scalar::Float(x) => float(x),
    })
}
