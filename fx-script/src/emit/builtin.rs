//! Functions of Python and TorchScript that are no operators: `int`, `len`, `annotate`, `getattr`.

use fx_core::Result;

use super::function::{Emitter, Flow, Meaning};
use crate::ast::{Argument, Expr, ExprKind};
use crate::ir::Instruction;
use crate::source::Span;
use crate::types::Type;

/// Functions of Python and TorchScript that are names without a module.
pub(super) const BUILTINS: &[&str] = &[
    "int",
    "float",
    "bool",
    "str",
    "complex",
    "len",
    "abs",
    "min",
    "max",
    "sum",
    "round",
    "any",
    "all",
    "ord",
    "chr",
    "hex",
    "oct",
    "bin",
    "divmod",
    "pow",
    "sorted",
    "list",
    "dict",
    "tuple",
    "print",
    "range",
    "enumerate",
    "zip",
    "reversed",
    "isinstance",
    "hasattr",
    "getattr",
    "fork",
    "annotate",
    "unchecked_cast",
    "uninitialized",
    "hash",
    "super",
];

impl Emitter<'_> {
    /// Emits a call of a function of Python or TorchScript.
    pub(super) fn builtin(
        &mut self,
        name: &str,
        arguments: &[Argument],
        hint: Option<&Type>,
        span: Span,
    ) -> Result<Meaning> {
        let exprs: Vec<&Expr> = arguments.iter().map(|argument| &argument.value).collect();
        match (name, &exprs[..]) {
            ("annotate" | "unchecked_cast" | "uninitialized", [ty, value @ ..]) => {
                let ty = self.annotation(ty)?;
                match (name, value) {
                    ("uninitialized", []) => Ok(Meaning::Value(self.uninitialized(ty))),
                    ("annotate", [value]) => {
                        let value = self.value_as(value, Some(&ty))?;
                        // A traced number is annotated, not converted.
                        if ty == Type::Number && *self.ty(value) == Type::Tensor {
                            return Ok(Meaning::Value(self.operator(
                                "aten::ScalarImplicit",
                                &[value],
                                span,
                            )?));
                        }
                        let value = self.convert(value, &ty, span, "the value")?;
                        Ok(Meaning::Value(if *self.ty(value) == ty { value } else { self.cast(value, ty) }))
                    }
                    ("unchecked_cast", [value]) => {
                        let value = self.value(value)?;
                        Ok(Meaning::Value(self.cast(value, ty)))
                    }
                    _ => Err(self.error(span, &format!("'{name}' expected a type and a value"))),
                }
            }
            ("isinstance" | "hasattr" | "torch.jit.is_scripting" | "torch.jit.is_tracing", _) => {
                let wanted = if name.starts_with("torch") { 0 } else { 2 };
                if exprs.len() != wanted {
                    return Err(
                        self.error(span, &format!("'{name}' takes {wanted} arguments, got {}", exprs.len()))
                    );
                }
                let callee = Expr::new(ExprKind::Name(name.into()), span);
                let arguments = crate::ast::Sequence::new(arguments.to_vec());
                let call = Expr::new(ExprKind::Call(Box::new(dotted(name, &callee)), arguments), span);
                let condition = self.condition(&call)?;
                Ok(Meaning::Value(condition.value))
            }
            ("getattr", [object, attribute]) => {
                let ExprKind::Str(attribute) = &attribute.kind else {
                    return Err(self.error(attribute.span, "expected the name of an attribute as a text"));
                };
                let object = self.value(object)?;
                self.member(object, attribute, span)
            }
            ("fork", _) => self.fork(arguments, span),
            ("print", _) => {
                let (positional, _) = self.arguments(arguments)?;
                self.builder.effect(Instruction::Call("prim::Print".into()), positional);
                Ok(Meaning::Results(Vec::new()))
            }
            ("tuple", [value]) => {
                let value = self.value(value)?;
                match self.ty(value) {
                    Type::Tuple(_) => Ok(Meaning::Value(value)),
                    other => {
                        let message = format!("'tuple' expected a value of known length, got {other}");
                        Err(self.error(span, &message))
                    }
                }
            }
            ("list" | "dict", []) => {
                let literal = if name == "list" {
                    ExprKind::List(crate::ast::Sequence::new(Vec::new()))
                } else {
                    ExprKind::Dict(Vec::new())
                };
                self.meaning(&Expr::new(literal, span), hint)
            }
            ("list", [value]) => self.list_of(value, span),
            ("float", [value]) if matches!(&value.kind, ExprKind::Str(_)) => {
                self.conversion("aten::Float", value, span)
            }
            ("int", [value]) => self.conversion("aten::Int", value, span),
            ("float", [value]) => self.conversion("aten::Float", value, span),
            ("bool", [value]) => {
                let id = self.value(value)?;
                match self.ty(id) {
                    Type::Tensor | Type::Int | Type::Float => {
                        Ok(Meaning::Value(self.operator("aten::Bool", &[id], span)?))
                    }
                    _ => Ok(Meaning::Value(self.truth(id, span)?)),
                }
            }
            ("len", [value]) => {
                let value = self.value(value)?;
                match self.ty(value).clone() {
                    Type::Tuple(items) => Ok(Meaning::Value(self.int(items.len() as i64))),
                    named @ Type::NamedTuple(_) => {
                        let length = self.field_types(&named).len() as i64;
                        Ok(Meaning::Value(self.int(length)))
                    }
                    Type::Class(class) if self.unit.has_function(&format!("{class}.__len__")) => {
                        self.call_method(value, "__len__", &[], span)
                    }
                    Type::Class(_) => {
                        let iterated = self.iterated_value(value, span)?;
                        let length = iterated.known_length().unwrap_or(0) as i64;
                        Ok(Meaning::Value(self.int(length)))
                    }
                    _ => Ok(Meaning::Value(self.operator("aten::len", &[value], span)?)),
                }
            }
            ("min" | "max", [first, rest @ ..]) => {
                // Three and more are taken two by two.
                let operator = format!("prim::{name}");
                let mut value = self.value(first)?;
                if rest.is_empty() {
                    return Ok(Meaning::Value(self.operator(&operator, &[value], span)?));
                }
                for next in rest {
                    let next = self.value(next)?;
                    let operator = if *self.ty(value) == Type::Tensor {
                        format!("aten::{name}")
                    } else {
                        operator.clone()
                    };
                    value = self.operator(&operator, &[value, next], span)?;
                }
                Ok(Meaning::Value(value))
            }
            ("abs", [value]) => Ok(Meaning::Value({
                let value = self.value(value)?;
                let operator = if *self.ty(value) == Type::Tensor { "aten::abs" } else { "prim::abs" };
                self.operator(operator, &[value], span)?
            })),
            ("range" | "enumerate" | "zip" | "reversed", _) => Err(self
                .error(span, &format!("'{name}' stands only after `in`"))
                .help("a list is made by `[i for i in ..]`")),
            ("super", _) => Err(self.error(span, &format!("'{name}' cannot be called"))),
            _ => {
                let operator = match name {
                    "complex" => "aten::Complex".to_owned(),
                    _ => format!("aten::{name}"),
                };
                let (positional, named) = self.arguments(arguments)?;
                self.operator_results(&operator, &positional, &named, span)
            }
        }
    }

    fn conversion(&mut self, operator: &str, value: &Expr, span: Span) -> Result<Meaning> {
        let value = self.value(value)?;
        let target = if operator == "aten::Int" { Type::Int } else { Type::Float };
        if *self.ty(value) == target {
            return Ok(Meaning::Value(value));
        }
        Ok(Meaning::Value(self.operator(operator, &[value], span)?))
    }

    /// Emits `list(values)`, which copies.
    fn list_of(&mut self, values: &Expr, span: Span) -> Result<Meaning> {
        if let ExprKind::Comprehension(comprehension) = &values.inner().kind {
            return Ok(Meaning::Value(self.comprehension(comprehension, None, span)?));
        }
        let is_iterator = matches!(&values.inner().kind, ExprKind::Call(callee, _)
            if callee.as_name().is_some_and(|name| matches!(&**name, "range" | "enumerate" | "zip" | "reversed")));
        if !is_iterator {
            let value = self.value(values)?;
            match self.ty(value).clone() {
                Type::List(_) | Type::Str => {
                    return Ok(Meaning::Value(self.operator("aten::list", &[value], span)?));
                }
                Type::Dict(..) => return Ok(Meaning::Value(self.operator("aten::keys", &[value], span)?)),
                Type::Tuple(_) => {
                    let items = self.unpack(value, span)?;
                    let item = items.first().map_or(Type::Tensor, |item| self.ty(*item).clone());
                    if let Some(other) = items.iter().find(|value| *self.ty(**value) != item) {
                        let message = format!("the items of a list are {item} and {}", self.ty(*other));
                        return Err(self.error(span, &message));
                    }
                    return Ok(Meaning::Value(self.builder.add(Instruction::List, items, Type::list(item))));
                }
                _ => {}
            }
        }
        let iterated = self.iterated(values)?;
        let list = self.builder.add(Instruction::List, Vec::new(), Type::list(Type::Tensor));
        let length = self.length(&iterated, span)?;
        let start = self.bool(true);
        let before = self.variables.clone();
        self.repeat(
            length,
            start,
            &super::names::Effects::default(),
            &mut |emitter, round| {
                let item = emitter.item(&iterated, round, span)?;
                let item = emitter.meaning_value(item, span)?;
                let ty = Type::list(emitter.ty(item).clone());
                emitter.builder.set_type(list, ty);
                emitter.operator("aten::append", &[list, item], span)?;
                Ok(Flow::Falls)
            },
            None,
            span,
        )?;
        self.variables = before;
        Ok(Meaning::Value(list))
    }
}

/// Returns the expression of a dotted name.
fn dotted(name: &str, plain: &Expr) -> Expr {
    let mut parts = name.split('.');
    let first = parts.next().unwrap_or_default();
    let mut expr = Expr::new(ExprKind::Name(first.into()), plain.span);
    for part in parts {
        expr = Expr::new(ExprKind::Attribute(Box::new(expr), part.into()), plain.span);
    }
    expr
}
