//! Annotations as types.

use std::sync::Arc;

use fx_core::{ErrorKind, Result};

use crate::ast::{Expr, ExprKind, MAX_NESTING};
use crate::source::Source;
use crate::types::Type;

/// The deepest nesting of a type.
const MAX_DEPTH: u32 = 64;

/// The types without arguments by the names that texts have for them, without the path of a Python module.
const NAMES: &[(&str, Type)] = &[
    ("Any", Type::Any),
    ("Tensor", Type::Tensor),
    ("number", Type::Number),
    ("Scalar", Type::Number),
    ("int", Type::Int),
    ("float", Type::Float),
    ("complex", Type::Complex),
    ("bool", Type::Bool),
    ("str", Type::Str),
    ("NoneType", Type::None),
    ("None", Type::None),
    ("Device", Type::Device),
    ("device", Type::Device),
    ("Generator", Type::Generator),
    ("Storage", Type::Storage),
    ("Stream", Type::Stream),
    ("Layout", Type::Int),
    ("layout", Type::Int),
    ("dtype", Type::Int),
    ("memory_format", Type::Int),
    ("AnyList", Type::AnyList),
    ("AnyTuple", Type::AnyTuple),
];

/// Returns the type that an annotation of a serialised text names; `named` gives the type of a class by its
/// qualified name.
///
/// Fails if the annotation is no type, or names a class that is not defined.
pub fn annotation(expr: &Expr, source: &Source, named: &dyn Fn(&str) -> Option<Type>) -> Result<Type> {
    if expr.height() > MAX_DEPTH.min(MAX_NESTING) {
        let message = format!("types nest at most {MAX_DEPTH} levels");
        return Err(source.error(ErrorKind::Limit, expr.span, &message));
    }
    let wrong = |message: &str| source.error(ErrorKind::Parse, expr.span, message);
    let one = |expr: &Expr| annotation(expr, source, named);
    match &expr.kind {
        ExprKind::Paren(inner) => one(inner),
        ExprKind::None => Ok(Type::None),
        ExprKind::Name(_) | ExprKind::Attribute(..) => {
            let name = expr.dotted().ok_or_else(|| wrong("expected a type"))?;
            let last = name.rsplit('.').next().unwrap_or_default();
            let is_python =
                ["torch.", "typing.", "torch.jit."].iter().any(|path| name == format!("{path}{last}"));
            if (is_python || last == name)
                && let Some((_, ty)) = NAMES.iter().find(|(own, _)| *own == last)
            {
                return Ok(ty.clone());
            }
            if name.starts_with("__torch__.torch.classes.") {
                return Ok(Type::Foreign(Arc::from(name)));
            }
            named(&name).ok_or_else(|| wrong(&format!("there is no class {name:?}")))
        }
        ExprKind::Subscript(head, argument) => {
            let head = head.dotted().unwrap_or_default();
            let arguments: Vec<&Expr> = match &argument.inner().kind {
                ExprKind::Tuple(items, _) => items.items.iter().collect(),
                _ => vec![argument],
            };
            match (head.rsplit('.').next().unwrap_or_default(), &arguments[..]) {
                ("Optional", [item]) => Ok(Type::optional(one(item)?)),
                ("List" | "list", [item]) => Ok(Type::list(one(item)?)),
                ("Future", [item]) => Ok(Type::future(one(item)?)),
                ("Final", [item]) => one(item),
                ("Dict" | "dict", [key, value]) => Ok(Type::dict(one(key)?, one(value)?)),
                ("Tuple" | "tuple", items) => {
                    // `Tuple[()]` is the empty tuple.
                    let items = items.iter().map(|item| one(item)).collect::<Result<Vec<_>>>()?;
                    Ok(Type::tuple(items))
                }
                ("Union", items) if !items.is_empty() => {
                    Ok(Type::union(items.iter().map(|item| one(item)).collect::<Result<Vec<_>>>()?))
                }
                _ => Err(wrong(&format!("{head}[..] with {} arguments is no type", arguments.len()))),
            }
        }
        _ => Err(wrong("expected a type")),
    }
}

/// Returns the type inside of `Final[..]`, if an annotation is that.
pub(super) fn final_type(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::Subscript(head, item) => {
            let head = head.dotted()?;
            (head == "Final" || head.ends_with(".Final")).then_some(&**item)
        }
        _ => None,
    }
}
