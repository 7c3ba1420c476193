//! The values of literals: of final attributes, members of enumerations and defaults.

use std::sync::Arc;

use fx_core::{ErrorKind, Result};

use crate::ast::{Expr, ExprKind, UnaryOp};
use crate::source::Source;
use crate::value::{Device, Value};

/// Returns the value of a literal. Fails if the expression is none.
pub(super) fn literal(expr: &Expr, source: &Source, constants: &[Value]) -> Result<Value> {
    let wrong = |message: &str| source.error(ErrorKind::Parse, expr.span, message);
    let one = |expr: &Expr| literal(expr, source, constants);
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
        ExprKind::Unary(UnaryOp::Neg, inner) => match one(inner)? {
            Value::Int(x) => Value::Int(x.wrapping_neg()),
            Value::Float(x) => Value::Float(-x),
            Value::Complex(parts) => Value::complex(-parts.0, -parts.1),
            _ => return Err(wrong("expected a number after the minus")),
        },
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
        ExprKind::Call(callee, arguments) => match (callee.dotted().as_deref(), &arguments.items[..]) {
            (Some("torch.device"), [device]) => match one(&device.value)? {
                Value::Str(text) => Value::Device(Arc::new(Device::parse(&text)?)),
                _ => return Err(wrong("expected the name of a device")),
            },
            // A typed literal, such as an empty list.
            (Some("annotate"), [_, value]) => one(&value.value)?,
            _ => return Err(wrong("expected a literal")),
        },
        _ => return Err(wrong("expected a literal")),
    })
}
