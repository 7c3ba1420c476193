//! Statements.

use std::sync::Arc;

use fx_core::Result;

use super::function::{BROKEN, Closure, Emitter, Flow, Meaning};
use crate::ast::{BinaryOp, Expr, ExprKind, Stmt, StmtKind};
use crate::ir::{Instruction, ValueId};
use crate::source::Span;
use crate::types::Type;

impl Emitter<'_> {
    pub(super) fn statement(&mut self, statement: &Stmt) -> Result<Flow> {
        self.at(statement.span);
        match &statement.kind {
            StmtKind::Assign(targets, value) => self.assignment(targets, value)?,
            StmtKind::Annotated(target, annotation, value) => {
                let declared = self.annotation(annotation)?;
                if let Some(name) = target.as_name() {
                    self.declared.insert(name.clone(), declared.clone());
                }
                if let Some(value) = value {
                    let id = self.value_as(value, Some(&declared))?;
                    let mut id = self.convert(id, &declared, value.span, "the value")?;
                    if *self.ty(id) != declared {
                        id = self.cast(id, declared);
                    }
                    self.origins.insert(id, statement.span);
                    self.assign(target, Meaning::Value(id), statement.span)?;
                }
            }
            StmtKind::Augmented(target, op, value) => self.augmented(target, *op, value, statement.span)?,
            StmtKind::Expr(value) => {
                if !matches!(value.kind, ExprKind::Str(_)) {
                    self.meaning(value, None)?;
                    if self.has_raised(value) {
                        return Ok(Flow::Raises);
                    }
                }
            }
            StmtKind::Return(value) => {
                let returns = self.returns.clone();
                let id = match value {
                    Some(value) => self.value_as(value, returns.as_ref())?,
                    None => self.none(),
                };
                return self.return_value(id, statement.span);
            }
            StmtKind::If(test, then, otherwise) => {
                return self.conditional(test, &[then], &[otherwise.as_deref().unwrap_or_default()]);
            }
            StmtKind::While(test, body, otherwise) => {
                return self.while_loop(test, body, otherwise.as_deref());
            }
            StmtKind::For(target, values, body, otherwise) => {
                return self.for_loop(target, values, body, otherwise.as_deref());
            }
            StmtKind::With(managers, body) => return self.with(managers, body),
            StmtKind::Break => return Ok(self.exit(Some(BROKEN))),
            StmtKind::Continue => return Ok(self.exit(None)),
            StmtKind::Pass | StmtKind::Import(_) => {}
            StmtKind::Assert(test, message) => {
                let condition = self.condition(test)?;
                let mut raise = |emitter: &mut Self| {
                    let mut text = emitter.text("AssertionError: ");
                    if let Some(message) = message {
                        let message = emitter.value(message)?;
                        let message = emitter.as_text(message, statement.span)?;
                        text = match emitter.strings.get(&message).cloned() {
                            Some(known) => emitter.text(&format!("AssertionError: {known}")),
                            None => emitter.operator("aten::add", &[text, message], statement.span)?,
                        };
                    }
                    emitter.raise(text, None);
                    Ok(Flow::Raises)
                };
                if condition.known != Some(true) {
                    self.branch(condition.value, &mut |_| Ok(Flow::Falls), &mut raise)?;
                }
                self.refine(&condition.when_true);
            }
            StmtKind::Raise(value) => {
                let (text, class) = match value {
                    None => (self.text(""), None),
                    Some(value) => self.exception(value)?,
                };
                self.raise(text, class.as_deref());
                return Ok(Flow::Raises);
            }
            StmtKind::Delete(targets) => {
                for target in targets {
                    self.delete(target)?;
                }
            }
            StmtKind::Function(function) => {
                let closure = Closure { function: function.clone(), variables: self.variables.clone() };
                self.variables.insert(function.name.clone(), Meaning::Closure(Arc::new(closure)));
            }
        }
        Ok(Flow::Falls)
    }

    /// Returns whether an expression statement is `ops.prim.RaiseException(..)`, after which nothing runs.
    fn has_raised(&self, expr: &Expr) -> bool {
        matches!(&expr.kind, ExprKind::Call(callee, _)
            if callee.dotted().is_some_and(|name| name == "ops.prim.RaiseException"))
    }

    fn raise(&mut self, text: ValueId, class: Option<&str>) {
        let class = match class {
            Some(class) => self.text(class),
            None => self.none(),
        };
        self.builder.effect(Instruction::Call("prim::RaiseException".into()), vec![text, class]);
    }

    /// Returns message and class of `ValueError("message")`.
    fn exception(&mut self, value: &Expr) -> Result<(ValueId, Option<String>)> {
        let (callee, arguments) = match &value.inner().kind {
            ExprKind::Call(callee, arguments) => (&**callee, &arguments.items[..]),
            _ => (value.inner(), &[][..]),
        };
        let Some(name) = callee.dotted() else {
            return Err(self.error(value.span, "expected an exception such as ValueError(\"message\")"));
        };
        let text = match arguments {
            [] => self.text(""),
            [first, ..] => {
                let message = self.value(&first.value)?;
                self.as_text(message, first.value.span)?
            }
        };
        let class = if name.contains('.') { name } else { format!("builtins.{name}") };
        Ok((text, Some(class)))
    }

    pub(super) fn as_text(&mut self, value: ValueId, span: Span) -> Result<ValueId> {
        if *self.ty(value) == Type::Str { Ok(value) } else { self.operator("aten::str", &[value], span) }
    }

    fn assignment(&mut self, targets: &[Expr], value: &Expr) -> Result<()> {
        // `a, b = c, d`: the items keep their own meanings.
        if let ([target], ExprKind::Tuple(values, _)) = (targets, &value.kind)
            && let ExprKind::Tuple(names, _) | ExprKind::List(names) = &target.kind
            && names.items.len() == values.items.len()
            && !names.items.iter().chain(&values.items).any(|item| matches!(item.kind, ExprKind::Starred(_)))
        {
            let mut meanings = Vec::with_capacity(values.items.len());
            for (name, item) in names.items.iter().zip(&values.items) {
                let hint = self.target_type(name)?;
                meanings.push(self.meaning(item, hint.as_ref())?);
            }
            for (name, meaning) in names.items.iter().zip(meanings) {
                self.assign(name, meaning, value.span)?;
            }
            return Ok(());
        }
        let hint = match targets {
            [target] => self.target_type(target)?,
            _ => None,
        };
        let meaning = self.meaning(value, hint.as_ref())?;
        if let Meaning::Value(id) = meaning {
            self.origins.entry(id).or_insert(value.span);
        }
        for target in targets {
            self.assign(target, meaning.clone(), value.span)?;
        }
        Ok(())
    }

    /// Returns the type that the place of a target asks for, such as an annotated variable or an attribute.
    fn target_type(&mut self, target: &Expr) -> Result<Option<Type>> {
        match &target.kind {
            ExprKind::Name(name) => Ok(self.declared.get(name).cloned()),
            ExprKind::Attribute(object, name) => {
                let ty = object.as_name().and_then(|object| match self.variables.get(object) {
                    Some(Meaning::Value(value)) => Some(self.ty(*value).clone()),
                    _ => None,
                });
                let class = ty.and_then(|ty| self.unit.classes.of(&ty).cloned());
                Ok(class.and_then(|class| class.attribute(name).map(|attribute| attribute.declared.clone())))
            }
            ExprKind::Subscript(container, index) => {
                let ty = container.as_name().and_then(|name| match self.variables.get(name) {
                    Some(Meaning::Value(value)) => Some(self.ty(*value).clone()),
                    _ => None,
                });
                Ok(match (ty, &index.kind) {
                    (Some(list @ Type::List(_)), ExprKind::Slice(..)) => Some(list),
                    (Some(Type::List(item) | Type::Dict(_, item)), _)
                        if matches!(*item, Type::List(_) | Type::Dict(..)) =>
                    {
                        Some((*item).clone())
                    }
                    _ => None,
                })
            }
            _ => Ok(None),
        }
    }

    /// Assigns to a target.
    pub(super) fn assign(&mut self, target: &Expr, meaning: Meaning, span: Span) -> Result<()> {
        match &target.kind {
            ExprKind::Paren(inner) => self.assign(inner, meaning, span),
            ExprKind::Name(name) => {
                let meaning = match meaning {
                    Meaning::Results(_) => Meaning::Value(self.meaning_value(meaning, span)?),
                    other => other,
                };
                if let Meaning::Value(value) = meaning {
                    if let Some(declared) = self.declared.get(name).cloned() {
                        let converted = self.convert(value, &declared, span, &format!("'{name}'"))?;
                        self.builder.name(converted, name);
                        self.variables.insert(name.clone(), Meaning::Value(converted));
                        return Ok(());
                    }
                    self.builder.name(value, name);
                }
                self.variables.insert(name.clone(), meaning);
                Ok(())
            }
            ExprKind::Attribute(object, name) => {
                let object = self.value(object)?;
                let value = self.meaning_value(meaning, span)?;
                self.set_attribute(object, name, value, target.span)
            }
            ExprKind::Subscript(container, index) => {
                let container = self.value(container)?;
                let value = self.meaning_value(meaning, span)?;
                self.set_item(container, index, value, target.span)
            }
            ExprKind::Tuple(items, _) | ExprKind::List(items) => {
                self.destructure(&items.items, meaning, span)
            }
            _ => Err(self.error(target.span, "cannot assign to this expression")),
        }
    }

    fn destructure(&mut self, targets: &[Expr], meaning: Meaning, span: Span) -> Result<()> {
        let star = targets.iter().position(|target| matches!(target.kind, ExprKind::Starred(_)));
        let wanted = targets.len() - usize::from(star.is_some());
        let values = match meaning {
            Meaning::Results(values) => values,
            other => {
                let value = self.meaning_value(other, span)?;
                match self.ty(value).clone() {
                    Type::Tuple(_) | Type::NamedTuple(_) => self.unpack(value, span)?,
                    Type::List(item) if star.is_none() => {
                        let types = vec![(*item).clone(); wanted];
                        self.builder.with_regions(Instruction::Unpack, vec![value], types, Vec::new())
                    }
                    Type::Tensor if star.is_none() => {
                        let axis = self.int(0);
                        let list = self.operator("aten::unbind", &[value, axis], span)?;
                        let types = vec![Type::Tensor; wanted];
                        self.builder.with_regions(Instruction::Unpack, vec![list], types, Vec::new())
                    }
                    Type::List(_) => return self.destructure_list(targets, value, span),
                    other => return Err(self.type_error(span, &format!("cannot unpack {other}"), value)),
                }
            }
        };
        if values.len() < wanted || (star.is_none() && values.len() != wanted) {
            let at_least = if star.is_some() { "at least " } else { "" };
            let message = format!("expected {at_least}{wanted} values to unpack, got {}", values.len());
            return Err(self.error(span, &message));
        }
        let mut values = values.into_iter();
        for target in targets {
            match &target.kind {
                ExprKind::Starred(inner) => {
                    let count = values.len() - (wanted - star.unwrap_or(0));
                    let rest: Vec<ValueId> = values.by_ref().take(count).collect();
                    let types: Vec<Type> = rest.iter().map(|value| self.ty(*value).clone()).collect();
                    let tuple = self.builder.add(Instruction::Tuple, rest, Type::tuple(types));
                    self.assign(inner, Meaning::Value(tuple), span)?;
                }
                _ => {
                    let value = values.next().expect("there are as many values as targets");
                    self.assign(target, Meaning::Value(value), span)?;
                }
            }
        }
        Ok(())
    }

    /// Unpacks a list with a starred target, which takes a slice of it.
    fn destructure_list(&mut self, targets: &[Expr], list: ValueId, span: Span) -> Result<()> {
        let star = targets.iter().position(|target| matches!(target.kind, ExprKind::Starred(_))).unwrap_or(0);
        let after = targets.len() - star - 1;
        for (index, target) in targets.iter().enumerate() {
            let value = match &target.kind {
                ExprKind::Starred(inner) => {
                    let start = self.int(index as i64);
                    let stop = if after == 0 { self.none() } else { self.int(-(after as i64)) };
                    let step = self.int(1);
                    let rest = self.operator("aten::slice", &[list, start, stop, step], span)?;
                    self.assign(inner, Meaning::Value(rest), span)?;
                    continue;
                }
                _ if index < star => self.int(index as i64),
                _ => self.int(index as i64 - targets.len() as i64),
            };
            let value = self.operator("aten::__getitem__", &[list, value], span)?;
            self.assign(target, Meaning::Value(value), span)?;
        }
        Ok(())
    }

    fn augmented(&mut self, target: &Expr, op: BinaryOp, value: &Expr, span: Span) -> Result<()> {
        match &target.kind {
            ExprKind::Subscript(container, index) => {
                let container = self.value(container)?;
                if *self.ty(container) == Type::Tensor {
                    let view = self.tensor_index(container, index)?;
                    let value = self.value(value)?;
                    let result = self.augment(view.value(), op, value, span)?;
                    if view.is_copy() {
                        self.set_item(container, index, result, span)?;
                    }
                    return Ok(());
                }
                let at = self.value(index)?;
                let old = self.operator("aten::__getitem__", &[container, at], span)?;
                let value = self.value(value)?;
                let new = self.augment(old, op, value, span)?;
                self.operator_results("aten::_set_item", &[container, at, new], &[], span)?;
                Ok(())
            }
            ExprKind::Attribute(object, name) => {
                let object = self.value(object)?;
                let old = self.attribute_value(object, name, target.span)?;
                let value = self.value(value)?;
                let new = self.augment(old, op, value, span)?;
                self.set_attribute(object, name, new, target.span)
            }
            _ => {
                let old = self.value(target)?;
                let hint = match self.ty(old) {
                    list @ Type::List(_) => Some(list.clone()),
                    _ => None,
                };
                let value = self.value_as(value, hint.as_ref())?;
                let new = self.augment(old, op, value, span)?;
                self.assign(target, Meaning::Value(new), span)
            }
        }
    }

    /// Emits `old op= value`: in place for tensors and lists.
    fn augment(&mut self, old: ValueId, op: BinaryOp, value: ValueId, span: Span) -> Result<ValueId> {
        let in_place = match (self.ty(old), op) {
            (Type::Tensor, BinaryOp::Add) | (Type::List(_), BinaryOp::Add) => "aten::add_",
            (Type::Tensor, BinaryOp::Sub) => "aten::sub_",
            (Type::Tensor, BinaryOp::Mul) => "aten::mul_",
            (Type::Tensor, BinaryOp::Div) => "aten::div_",
            (Type::Tensor, BinaryOp::Mod) => "aten::remainder_",
            (Type::Tensor, BinaryOp::FloorDiv) => "aten::floor_divide_",
            (Type::Tensor, BinaryOp::Pow) => "aten::pow_",
            (Type::Tensor, BinaryOp::And) => "aten::__iand__",
            (Type::Tensor, BinaryOp::Or) => "aten::__ior__",
            (Type::Tensor, BinaryOp::Xor) => "aten::__ixor__",
            (Type::Tensor, BinaryOp::LeftShift) => "aten::__ilshift__",
            (Type::Tensor, BinaryOp::RightShift) => "aten::__irshift__",
            _ => return self.binary(op, old, value, span),
        };
        self.operator(in_place, &[old, value], span)
    }

    fn delete(&mut self, target: &Expr) -> Result<()> {
        match &target.kind {
            ExprKind::Name(name) => {
                self.variables.insert(name.clone(), Meaning::Absent(format!("'{name}' was deleted").into()));
                Ok(())
            }
            ExprKind::Subscript(container, index) => {
                let container = self.value(container)?;
                let index = self.value(index)?;
                self.operator_results("aten::Delete", &[container, index], &[], target.span)?;
                Ok(())
            }
            _ => Err(self.error(target.span, "only variables and items can be deleted")),
        }
    }

    fn with(&mut self, managers: &[(Expr, Option<Expr>)], body: &[Stmt]) -> Result<Flow> {
        let mut entered = Vec::new();
        for (manager, target) in managers {
            let name = match &manager.inner().kind {
                ExprKind::Call(callee, _) => callee.dotted(),
                _ => manager.dotted(),
            };
            // Gradients are not computed, so their modes have no effect.
            let has_no_effect = name.as_deref().is_some_and(|name| {
                matches!(
                    name,
                    "torch.no_grad" | "torch.enable_grad" | "torch.inference_mode" | "torch.set_grad_enabled"
                )
            });
            if has_no_effect {
                continue;
            }
            let value = self.value(manager)?;
            let result = self.call_method(value, "__enter__", &[], manager.span)?;
            if let Some(target) = target {
                self.assign(target, result, manager.span)?;
            }
            entered.push((value, manager.span));
        }
        let flow = self.block(body)?;
        for (value, span) in entered.into_iter().rev() {
            if flow != Flow::Raises {
                let nothing = [self.none(), self.none(), self.none()];
                self.call_method(value, "__exit__", &nothing, span)?;
            }
        }
        Ok(flow)
    }
}
