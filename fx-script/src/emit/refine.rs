//! What a condition tells about the types of variables.

use std::sync::Arc;

use fx_core::Result;

use super::function::{Emitter, Flow, Meaning};
use crate::ast::{CompareOp, Expr, ExprKind, LogicalOp, UnaryOp};
use crate::ir::{Instruction, ValueId};
use crate::source::Span;
use crate::types::{Type, contains, excluding};

/// Variables with the values that they must still have, and the types that these then have.
pub(super) type Facts = Vec<(Arc<str>, ValueId, Type)>;

/// A condition: a bool, and what it tells.
pub(super) struct Condition {
    pub(super) value: ValueId,
    /// The outcome, if the types decide it.
    pub(super) known: Option<bool>,
    pub(super) when_true: Facts,
    pub(super) when_false: Facts,
}

impl Emitter<'_> {
    /// Applies facts to the variables.
    pub(super) fn refine(&mut self, facts: &Facts) {
        for (name, value, ty) in facts {
            let Some(Meaning::Value(current)) = self.variables.get(name) else { continue };
            let current = *current;
            if self.original(current) != self.original(*value) || self.ty(current) == ty {
                continue;
            }
            // What is known already may say more, or that the branch never runs.
            if !self.is_subtype(ty, self.ty(current)) {
                continue;
            }
            let refined = self.cast(current, ty.clone());
            self.refined.insert(refined, current);
            self.builder.name(refined, name);
            self.variables.insert(name.clone(), Meaning::Value(refined));
        }
    }

    /// Emits an expression as a condition.
    pub(super) fn condition(&mut self, expr: &Expr) -> Result<Condition> {
        match &expr.inner().kind {
            ExprKind::Unary(UnaryOp::Not, inner) => {
                let inner = self.condition(inner)?;
                let value = match inner.known {
                    Some(known) => self.bool(!known),
                    None => self.operator("aten::__not__", &[inner.value], expr.span)?,
                };
                Ok(Condition {
                    value,
                    known: inner.known.map(|known| !known),
                    when_true: inner.when_false,
                    when_false: inner.when_true,
                })
            }
            ExprKind::Bool(known) => self.constant_condition(*known),
            ExprKind::Logical(op, items) => self.logical(*op, items),
            ExprKind::Compare(first, rest) if rest.len() == 1 => {
                let (op, second) = &rest[0];
                let is_none = |expr: &Expr| matches!(expr.inner().kind, ExprKind::None);
                let positive = matches!(op, CompareOp::Is | CompareOp::Eq);
                let tests = matches!(op, CompareOp::Is | CompareOp::IsNot | CompareOp::Eq | CompareOp::Ne);
                if tests && is_none(second) {
                    return self.none_test(first, positive, expr.span);
                }
                if tests && is_none(first) {
                    return self.none_test(second, positive, expr.span);
                }
                self.plain_condition(expr)
            }
            ExprKind::Call(callee, arguments) => {
                let name = callee.dotted().unwrap_or_default();
                let values: Vec<&Expr> = arguments.items.iter().map(|argument| &argument.value).collect();
                match (&*name, &values[..]) {
                    ("isinstance" | "torch.jit.isinstance", [value, types]) => {
                        self.instance_test(value, types)
                    }
                    ("torch.__is__" | "torch.__isnot__", [value, none])
                        if matches!(none.kind, ExprKind::None) =>
                    {
                        self.none_test(value, name == "torch.__is__", expr.span)
                    }
                    ("torch.__not__", [value]) => {
                        let inner = self.condition(value)?;
                        let value = self.operator("aten::__not__", &[inner.value], expr.span)?;
                        let known = inner.known.map(|known| !known);
                        Ok(Condition {
                            value,
                            known,
                            when_true: inner.when_false,
                            when_false: inner.when_true,
                        })
                    }
                    ("torch.jit.is_scripting", []) => self.constant_condition(true),
                    ("torch.jit.is_tracing", []) => self.constant_condition(false),
                    ("hasattr", [object, name]) => {
                        let object = self.value(object)?;
                        let ExprKind::Str(attribute) = &name.kind else {
                            return Err(self.error(name.span, "expected the name of an attribute as a text"));
                        };
                        let class = self.unit.classes.of(self.ty(object));
                        let has = class.is_some_and(|class| {
                            class.attribute(attribute).is_some() || class.method(attribute).is_some()
                        });
                        self.constant_condition(has)
                    }
                    _ => self.plain_condition(expr),
                }
            }
            _ => self.plain_condition(expr),
        }
    }

    fn constant_condition(&mut self, known: bool) -> Result<Condition> {
        let value = self.bool(known);
        Ok(Condition { value, known: Some(known), when_true: Vec::new(), when_false: Vec::new() })
    }

    fn plain_condition(&mut self, expr: &Expr) -> Result<Condition> {
        let value = self.value(expr)?;
        let value = self.truth(value, expr.span)?;
        let (when_true, when_false) = self.conditions.get(&value).cloned().unwrap_or_default();
        Ok(Condition { value, known: None, when_true, when_false })
    }

    /// Converts a value to a bool as a test does.
    pub(super) fn truth(&mut self, value: ValueId, span: Span) -> Result<ValueId> {
        match self.ty(value).clone() {
            Type::Bool => Ok(value),
            Type::Tensor | Type::Int | Type::Float => self.operator("aten::Bool", &[value], span),
            Type::List(_) | Type::Dict(..) | Type::Str => {
                let length = self.operator("aten::len", &[value], span)?;
                self.operator("aten::Bool", &[length], span)
            }
            other => {
                let message =
                    format!("a test expected bool, a number, a tensor, a list or a text, got {other}");
                Err(self.type_error(span, &message, value).help("test `is None`, or compare"))
            }
        }
    }

    fn variable_of(&self, expr: &Expr) -> Option<Arc<str>> {
        expr.inner().as_name().filter(|name| self.variables.contains_key(*name)).cloned()
    }

    fn none_test(&mut self, expr: &Expr, is_none: bool, span: Span) -> Result<Condition> {
        let value = self.value(expr)?;
        let ty = self.ty(value).clone();
        if ty == Type::None || !ty.allows_none() {
            return self.constant_condition((ty == Type::None) == is_none);
        }
        let none = self.none();
        let name = if is_none { "aten::__is__" } else { "aten::__isnot__" };
        let test = self.operator(name, &[value, none], span)?;
        let mut facts = (Vec::new(), Vec::new());
        if let Some(name) = self.variable_of(expr)
            && ty != Type::Any
        {
            let some = excluding(&ty, &Type::None, &self.unit.classes);
            facts = (vec![(name.clone(), value, Type::None)], vec![(name, value, some)]);
            if !is_none {
                facts = (facts.1, facts.0);
            }
        }
        self.conditions.insert(test, facts.clone());
        Ok(Condition { value: test, known: None, when_true: facts.0, when_false: facts.1 })
    }

    fn instance_test(&mut self, expr: &Expr, types: &Expr) -> Result<Condition> {
        let value = self.value(expr)?;
        let from = self.ty(value).clone();
        let items: Vec<&Expr> = match &types.inner().kind {
            ExprKind::Tuple(items, _) | ExprKind::List(items) => items.items.iter().collect(),
            _ => vec![types.inner()],
        };
        let mut wanted = Vec::with_capacity(items.len());
        for item in items {
            wanted.push(self.annotation(item)?);
        }
        let classes = &self.unit.classes;
        let whole = Type::union(wanted.iter().cloned());
        let inside = contains(&from, &whole, classes);
        let all = from.alternatives().iter().all(|item| {
            *item != Type::Any && wanted.iter().any(|wanted| crate::types::is_subtype(item, wanted, classes))
        });
        if all || inside.is_none() {
            return self.constant_condition(all);
        }
        let outside = if from == Type::Any { Type::Any } else { excluding(&from, &whole, classes) };
        let test = self.builder.add(Instruction::IsInstance(wanted), vec![value], Type::Bool);
        let mut facts = (Vec::new(), Vec::new());
        if let (Some(name), Some(inside)) = (self.variable_of(expr), inside) {
            facts = (vec![(name.clone(), value, inside)], vec![(name, value, outside)]);
        }
        self.conditions.insert(test, facts.clone());
        Ok(Condition { value: test, known: None, when_true: facts.0, when_false: facts.1 })
    }

    /// Emits `a and b and c`, whose later items run only if the earlier ones do not decide.
    fn logical(&mut self, op: LogicalOp, items: &[Expr]) -> Result<Condition> {
        let first = self.condition(&items[0])?;
        if items.len() == 1 {
            return Ok(first);
        }
        let decides = op == LogicalOp::Or;
        if let Some(known) = first.known {
            if known == decides {
                return self.constant_condition(decides);
            }
            return self.logical(op, &items[1..]);
        }
        let mut later: Option<(Facts, Facts, Option<bool>)> = None;
        let hidden = "$logical";
        let facts = if decides { &first.when_false } else { &first.when_true }.clone();
        let mut rest = |emitter: &mut Self| {
            emitter.refine(&facts);
            let condition = emitter.logical(op, &items[1..])?;
            later = Some((condition.when_true, condition.when_false, condition.known));
            emitter.set(hidden, condition.value);
            Ok(Flow::Falls)
        };
        let mut decided = |emitter: &mut Self| {
            let value = emitter.bool(decides);
            emitter.set(hidden, value);
            Ok(Flow::Falls)
        };
        if decides {
            self.branch(first.value, &mut decided, &mut rest)?;
        } else {
            self.branch(first.value, &mut rest, &mut decided)?;
        }
        let value = match self.variables.remove(hidden) {
            Some(Meaning::Value(value)) => value,
            _ => unreachable!("both branches set the outcome to a bool"),
        };
        let (later_true, later_false, _) = later.expect("the branch of the later items was emitted");
        let mut condition = Condition { value, known: None, when_true: Vec::new(), when_false: Vec::new() };
        if decides {
            condition.when_false = first.when_false.into_iter().chain(later_false).collect();
        } else {
            condition.when_true = first.when_true.into_iter().chain(later_true).collect();
        }
        self.conditions.insert(value, (condition.when_true.clone(), condition.when_false.clone()));
        Ok(condition)
    }
}
