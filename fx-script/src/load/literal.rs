//! The values of literals: of final attributes, members of enumerations and defaults.

use std::sync::Arc;

use fx_core::{ErrorKind, Result};

use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::emit::{GlobalConstant, numbered};
use crate::host::{self, Output};
use crate::source::Source;
use crate::value::{Device, Value};

/// Returns the constant of a text that has a name.
pub(super) type Globals<'a> = &'a dyn Fn(&str) -> Option<Arc<GlobalConstant>>;

/// Returns the value of a literal. Fails if the expression is none.
pub fn literal(expr: &Expr, source: &Source, constants: &[Value]) -> Result<Value> {
    literal_with(expr, source, constants, &|_| None)
}

/// Returns the value of a literal. `globals` gives the constant that a name stands for. Fails if the expression
/// is no literal.
pub(super) fn literal_with(
    expr: &Expr,
    source: &Source,
    constants: &[Value],
    globals: Globals<'_>,
) -> Result<Value> {
    let wrong = |message: &str| source.error(ErrorKind::Parse, expr.span, message);
    let one = |expr: &Expr| literal_with(expr, source, constants, globals);
    Ok(match &expr.kind {
        ExprKind::Paren(inner) => one(inner)?,
        ExprKind::None => Value::None,
        ExprKind::Bool(x) => Value::Bool(*x),
        ExprKind::Int(x) => Value::Int(*x),
        ExprKind::Float(x) => Value::Float(*x),
        ExprKind::Imaginary(im) => Value::complex(0., *im),
        ExprKind::Complex(re, im) => Value::complex(*re, *im),
        ExprKind::Str(text) => Value::str(&**text),
        ExprKind::Name(name) if &**name == "inf" => Value::Float(f64::INFINITY),
        ExprKind::Name(name) if &**name == "nan" => Value::Float(f64::NAN),
        ExprKind::Name(name) => match globals(name) {
            Some(constant) => literal_with(&constant.value, &constant.source, constants, globals)?,
            None => return Err(wrong("expected a literal")),
        },
        ExprKind::Unary(UnaryOp::Neg, inner) => match one(inner)? {
            Value::Int(x) => Value::Int(x.wrapping_neg()),
            Value::Float(x) => Value::Float(-x),
            Value::Complex(parts) => Value::complex(-parts.0, -parts.1),
            _ => return Err(wrong("expected a number after the minus")),
        },
        ExprKind::Binary(op, left, right) => {
            let (left, right) = (one(left)?, one(right)?);
            let is_number =
                |value: &Value| matches!(value, Value::Int(_) | Value::Float(_) | Value::Complex(_));
            let function = match op {
                BinaryOp::Add => "aten::add.int",
                BinaryOp::Sub => "aten::sub.int",
                BinaryOp::Mul => "aten::mul.int",
                BinaryOp::Div => "aten::div.int",
                BinaryOp::FloorDiv => "aten::floordiv.int",
                BinaryOp::Mod => "aten::remainder.int",
                BinaryOp::Pow => "aten::pow.int",
                _ => return Err(wrong("expected a literal")),
            };
            match host::find(function).filter(|_| is_number(&left) && is_number(&right)) {
                Some(function) => function(&mut Output::new(0), &[&left, &right])
                    .map_err(|error| source.error(error.kind(), expr.span, error.message()))?,
                None => return Err(wrong("expected a literal")),
            }
        }
        ExprKind::Tuple(items, _) => Value::tuple(items.items.iter().map(one).collect::<Result<Vec<_>>>()?),
        ExprKind::List(items) => Value::list(items.items.iter().map(one).collect::<Result<Vec<_>>>()?),
        ExprKind::Dict(entries) => {
            let entries = entries.iter().map(|(key, value)| Ok((one(key)?, one(value)?)));
            Value::dict(entries.collect::<Result<Vec<_>>>()?)?
        }
        ExprKind::Attribute(head, name) if head.as_name().is_some_and(|head| &**head == "CONSTANTS") => {
            let index = name.strip_prefix('c').and_then(|index| index.parse::<usize>().ok());
            let value = index.and_then(|index| constants.get(index));
            value.cloned().ok_or_else(|| wrong(&format!("there are {} constants", constants.len())))?
        }
        ExprKind::Attribute(..) => match expr.dotted().as_deref() {
            Some("math.pi" | "torch.pi") => Value::Float(std::f64::consts::PI),
            Some("math.e" | "torch.e") => Value::Float(std::f64::consts::E),
            Some("math.inf" | "torch.inf") => Value::Float(f64::INFINITY),
            Some("math.nan" | "torch.nan") => Value::Float(f64::NAN),
            name => match name.and_then(|name| name.strip_prefix("torch.")).and_then(numbered) {
                Some(number) => Value::Int(number),
                None => return Err(wrong("expected a literal")),
            },
        },
        ExprKind::Call(callee, arguments) => match (callee.dotted().as_deref(), &arguments.items[..]) {
            (Some("torch.device"), [device]) => match one(&device.value)? {
                Value::Str(text) => Value::Device(Arc::new(Device::parse(&text)?)),
                _ => return Err(wrong("expected the name of a device")),
            },
            (Some("float"), [text]) => match one(&text.value)? {
                Value::Str(text) => match text.parse() {
                    Ok(x) => Value::Float(x),
                    Err(_) => return Err(wrong("expected the text of a float")),
                },
                other => Value::Float(other.to_float()?),
            },
            // A typed literal, such as an empty list.
            (Some("annotate"), [_, value]) => one(&value.value)?,
            _ => return Err(wrong("expected a literal")),
        },
        _ => return Err(wrong("expected a literal")),
    })
}
