//! Expressions.

use std::sync::Arc;

use fx_core::{ErrorKind, Result};

use super::function::{Emitter, Flow, Meaning};
use super::global::{Constant, Global};
use crate::ast::{
    BinaryOp, CompareOp, Comprehension, ComprehensionKind, ComprehensionLoop, Expr, ExprKind, FormatPart,
    UnaryOp,
};
use crate::ir::{self, Instruction, ValueId};
use crate::source::Span;
use crate::types::{self, Type, join};

impl Emitter<'_> {
    /// Returns the type that an annotation names.
    pub(super) fn annotation(&self, expr: &Expr) -> Result<Type> {
        types::annotation(expr, &self.scope, &self.unit.classes, &self.source)
    }

    /// Emits an expression that is a value.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<ValueId> {
        self.value_as(expr, None)
    }

    /// Emits an expression that is a value; `hint` is the type that its place asks for, which types empty lists.
    pub(super) fn value_as(&mut self, expr: &Expr, hint: Option<&Type>) -> Result<ValueId> {
        let meaning = self.meaning(expr, hint)?;
        self.meaning_value(meaning, expr.span)
    }

    /// Returns the value of a meaning; several results are a tuple.
    pub(super) fn meaning_value(&mut self, meaning: Meaning, span: Span) -> Result<ValueId> {
        match meaning {
            Meaning::Value(value) => Ok(value),
            Meaning::Results(values) if values.is_empty() => Ok(self.none()),
            Meaning::Results(values) => {
                let types: Vec<Type> = values.iter().map(|value| self.ty(*value).clone()).collect();
                let operator = self.operators.get(&values[0]).copied();
                let tuple = self.builder.add(Instruction::Tuple, values, Type::tuple(types));
                if let Some(operator) = operator {
                    self.operators.insert(tuple, operator);
                }
                Ok(tuple)
            }
            Meaning::Absent(why) => Err(self.source.error(ErrorKind::Unresolved, span, &why)),
            Meaning::Path(name) | Meaning::Operator(name) | Meaning::Builtin(name) => {
                Err(self.error(span, &format!("'{name}' is no value here")))
            }
            Meaning::Function(name) | Meaning::Class(name) => {
                Err(self.error(span, &format!("'{name}' is no value; call it")))
            }
            Meaning::Method(_, name) => {
                Err(self.error(span, &format!("the method '{name}' is no value; call it")))
            }
            Meaning::Closure(closure) => {
                Err(self.error(span, &format!("the function '{}' is no value", closure.function.name)))
            }
        }
    }

    /// Emits an expression.
    pub(super) fn meaning(&mut self, expr: &Expr, hint: Option<&Type>) -> Result<Meaning> {
        let span = expr.span;
        let value = match &expr.kind {
            ExprKind::Paren(inner) => return self.meaning(inner, hint),
            ExprKind::Name(name)
                if matches!(&**name, "inf" | "nan") && !self.variables.contains_key(name) =>
            {
                let value = if &**name == "inf" { f64::INFINITY } else { f64::NAN };
                self.builder.constant(ir::Constant::Float(value), Type::Float)
            }
            ExprKind::Name(name) => return self.name(name, span),
            ExprKind::Attribute(object, name) => return self.attribute(object, name, span),
            ExprKind::Call(callee, arguments) => return self.call(callee, &arguments.items, hint, span),
            ExprKind::Subscript(container, index) => {
                let container = self.value(container)?;
                return self.subscript(container, index, span);
            }
            ExprKind::None => self.none(),
            ExprKind::Bool(value) => self.bool(*value),
            ExprKind::Int(value) => self.int(*value),
            ExprKind::Float(value) => self.builder.constant(ir::Constant::Float(*value), Type::Float),
            ExprKind::Imaginary(value) => {
                self.builder.constant(ir::Constant::Complex(0.0, *value), Type::Complex)
            }
            ExprKind::Complex(re, im) => {
                self.builder.constant(ir::Constant::Complex(*re, *im), Type::Complex)
            }
            ExprKind::Str(text) => self.text(text),
            ExprKind::Format(parts) => self.format(parts, span)?,
            ExprKind::Tuple(items, _) => {
                let hints = match hint {
                    Some(Type::Tuple(types)) if types.len() == items.items.len() => Some(types.clone()),
                    _ => None,
                };
                let mut values = Vec::with_capacity(items.items.len());
                for (index, item) in items.items.iter().enumerate() {
                    if let ExprKind::Starred(inner) = &item.kind {
                        let value = self.value(inner)?;
                        values.extend(self.unpack(value, item.span)?);
                    } else {
                        values.push(self.value_as(item, hints.as_ref().map(|types| &types[index]))?);
                    }
                }
                let types: Vec<Type> = values.iter().map(|value| self.ty(*value).clone()).collect();
                self.builder.add(Instruction::Tuple, values, Type::tuple(types))
            }
            ExprKind::List(items) => self.list(&items.items, hint)?,
            ExprKind::Dict(entries) => self.dict(entries, hint)?,
            ExprKind::Unary(op, operand) => self.unary(*op, operand, expr)?,
            ExprKind::Binary(op, left, right) => {
                let left = self.value(left)?;
                let right = self.value_as(right, hint)?;
                self.binary(*op, left, right, span)?
            }
            ExprKind::Compare(first, rest) => match &rest[..] {
                [(op, second)] => match (&first.inner().kind, &second.inner().kind) {
                    (ExprKind::None, _) | (_, ExprKind::None)
                        if !matches!(op, CompareOp::In | CompareOp::NotIn) =>
                    {
                        self.condition(expr)?.value
                    }
                    _ => {
                        let left = self.value(first)?;
                        let right = self.value(second)?;
                        self.compare(*op, left, right, span)?
                    }
                },
                _ => {
                    let left = self.value(first)?;
                    self.chain(left, rest, span)?
                }
            },
            ExprKind::Logical(..) => self.condition(expr)?.value,
            ExprKind::Conditional(test, then, otherwise) => {
                self.ternary(test, then, otherwise, hint, span)?
            }
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension, hint, span)?,
            ExprKind::Slice(..) | ExprKind::Ellipsis | ExprKind::Starred(_) => {
                return Err(self.error(span, "this expression has no meaning here"));
            }
        };
        Ok(Meaning::Value(value))
    }

    fn name(&mut self, name: &Arc<str>, span: Span) -> Result<Meaning> {
        if let Some(meaning) = self.variables.get(name) {
            return match meaning {
                Meaning::Absent(why) => Err(self.source.error(ErrorKind::Unresolved, span, why)),
                other => Ok(other.clone()),
            };
        }
        let scoped = format!("{}{name}", self.scope);
        if let Some(found) = self.definition(&scoped) {
            return Ok(found);
        }
        match self.unit.global(&scoped) {
            Some(Global::Import(path)) => return self.imported(path, span),
            Some(Global::Constant(constant)) => return self.constant(&constant.clone()),
            None => {}
        }
        match &**name {
            "torch" | "ops" | "CONSTANTS" | "__torch__" | "math" => Ok(Meaning::Path(name.clone())),
            "F" => Ok(Meaning::Path("torch.nn.functional".into())),
            _ if super::builtin::BUILTINS.contains(&&**name) => Ok(Meaning::Builtin(name.clone())),
            _ => {
                let error =
                    self.source.error(ErrorKind::Unresolved, span, &format!("'{name}' is not defined"));
                let near = self.variables.keys().filter(|known| !known.starts_with('$'));
                match near
                    .min_by_key(|known| distance(known, name))
                    .filter(|known| distance(known, name) <= 2)
                {
                    Some(near) => Err(error.help(format!("a variable '{near}' is"))),
                    None => Err(error),
                }
            }
        }
    }

    /// Returns what an imported path means: a module, or something in one.
    fn imported(&mut self, path: &Arc<str>, span: Span) -> Result<Meaning> {
        match path.rsplit_once('.') {
            Some((module, name)) => self.path(module, &name.into(), span),
            None => Ok(Meaning::Path(path.clone())),
        }
    }

    /// Emits the expression of a constant in place of its name.
    fn constant(&mut self, constant: &Constant) -> Result<Meaning> {
        let source = std::mem::replace(&mut self.source, constant.source.clone());
        let variables = std::mem::take(&mut self.variables);
        let declared = constant.declared.as_ref().map(|declared| self.annotation(declared)).transpose();
        let value = declared.and_then(|declared| {
            let value = self.value_as(&constant.value, declared.as_ref())?;
            match declared {
                Some(declared) => self.convert(value, &declared, constant.value.span, "the constant"),
                None => Ok(value),
            }
        });
        self.variables = variables;
        self.source = source;
        value.map(Meaning::Value)
    }

    /// Returns the class or function of a qualified name.
    pub(super) fn definition(&self, name: &str) -> Option<Meaning> {
        if self.unit.has_function(name) {
            return Some(Meaning::Function(name.into()));
        }
        self.unit.classes.get(name).map(|class| Meaning::Class(class.name.clone()))
    }

    fn unary(&mut self, op: UnaryOp, operand: &Expr, expr: &Expr) -> Result<ValueId> {
        match (op, &operand.inner().kind) {
            (UnaryOp::Neg, ExprKind::Int(value)) => return Ok(self.int(value.wrapping_neg())),
            (UnaryOp::Neg, ExprKind::Float(value)) => {
                return Ok(self.builder.constant(ir::Constant::Float(-value), Type::Float));
            }
            (UnaryOp::Neg, ExprKind::Name(name)) if &**name == "inf" => {
                return Ok(self.builder.constant(ir::Constant::Float(f64::NEG_INFINITY), Type::Float));
            }
            (UnaryOp::Not, _) => return Ok(self.condition(expr)?.value),
            _ => {}
        }
        let value = self.value(operand)?;
        let (operator, method) = match op {
            UnaryOp::Neg => ("aten::neg", "__neg__"),
            UnaryOp::Invert => ("aten::bitwise_not", "__invert__"),
            _ => return Ok(value),
        };
        if matches!(self.ty(value), Type::Class(_)) {
            let result = self.call_method(value, method, &[], expr.span)?;
            return self.meaning_value(result, expr.span);
        }
        self.operator(operator, &[value], expr.span)
    }

    /// Emits a binary operation.
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        left: ValueId,
        right: ValueId,
        span: Span,
    ) -> Result<ValueId> {
        let (name, method) = match op {
            BinaryOp::Add => ("aten::add", "__add__"),
            BinaryOp::Sub => ("aten::sub", "__sub__"),
            BinaryOp::Mul => ("aten::mul", "__mul__"),
            BinaryOp::Div => ("aten::div", "__truediv__"),
            BinaryOp::FloorDiv => ("aten::floordiv", "__floordiv__"),
            BinaryOp::Mod => ("aten::remainder", "__mod__"),
            BinaryOp::Pow => ("aten::pow", "__pow__"),
            BinaryOp::MatMul => ("aten::matmul", "__matmul__"),
            BinaryOp::And => ("aten::__and__", "__and__"),
            BinaryOp::Or => ("aten::__or__", "__or__"),
            BinaryOp::Xor => ("aten::__xor__", "__xor__"),
            BinaryOp::LeftShift => ("aten::__lshift__", "__lshift__"),
            BinaryOp::RightShift => ("aten::__rshift__", "__rshift__"),
        };
        let is_number = |ty: &Type| ty.is_number() || *ty == Type::Bool;
        match (self.ty(left).clone(), self.ty(right).clone()) {
            (Type::Class(_), _) => {
                let result = self.call_method(left, method, &[right], span)?;
                self.meaning_value(result, span)
            }
            (Type::Str, _) if op == BinaryOp::Mod => {
                let values = match self.ty(right) {
                    Type::Tuple(_) => self.unpack(right, span)?,
                    _ => vec![right],
                };
                let operands: Vec<ValueId> = [left].into_iter().chain(values).collect();
                self.operator("aten::percentFormat", &operands, span)
            }
            (Type::Tuple(lefts), Type::Tuple(rights)) if op == BinaryOp::Add => {
                let mut values = self.unpack(left, span)?;
                values.extend(self.unpack(right, span)?);
                let types = lefts.iter().chain(&*rights).cloned();
                Ok(self.builder.add(Instruction::Tuple, values, Type::tuple(types)))
            }
            (number, Type::Tensor) if is_number(&number) => match op {
                // A number on the left of a tensor: operators take the tensor first.
                BinaryOp::Add | BinaryOp::Mul | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => {
                    self.operator(name, &[right, left], span)
                }
                BinaryOp::Sub => self.operator("aten::rsub", &[right, left], span),
                BinaryOp::Div => {
                    let reciprocal = self.operator("aten::reciprocal", &[right], span)?;
                    self.operator("aten::mul", &[reciprocal, left], span)
                }
                BinaryOp::FloorDiv => {
                    let left = self.operator("aten::tensor", &[left], span)?;
                    self.operator("aten::floor_divide", &[left, right], span)
                }
                _ => self.operator(name, &[left, right], span),
            },
            (Type::Tensor, _) if op == BinaryOp::FloorDiv => {
                self.operator("aten::floor_divide", &[left, right], span)
            }
            _ => self.operator(name, &[left, right], span),
        }
    }

    /// Emits a comparison.
    pub(super) fn compare(
        &mut self,
        op: CompareOp,
        left: ValueId,
        right: ValueId,
        span: Span,
    ) -> Result<ValueId> {
        let (name, swapped, method) = match op {
            CompareOp::Lt => ("aten::lt", "aten::gt", "__lt__"),
            CompareOp::Le => ("aten::le", "aten::ge", "__le__"),
            CompareOp::Gt => ("aten::gt", "aten::lt", "__gt__"),
            CompareOp::Ge => ("aten::ge", "aten::le", "__ge__"),
            CompareOp::Eq => ("aten::eq", "aten::eq", "__eq__"),
            CompareOp::Ne => ("aten::ne", "aten::ne", "__ne__"),
            CompareOp::Is => return self.operator("aten::__is__", &[left, right], span),
            CompareOp::IsNot => return self.operator("aten::__isnot__", &[left, right], span),
            CompareOp::In => return self.membership(left, right, span),
            CompareOp::NotIn => {
                let inside = self.membership(left, right, span)?;
                return self.operator("aten::__not__", &[inside], span);
            }
        };
        let left_type = self.ty(left).clone();
        if matches!(left_type, Type::Class(_)) {
            let result = self.call_method(left, method, &[right], span)?;
            return self.meaning_value(result, span);
        }
        if *self.ty(right) == Type::Tensor && (left_type.is_number() || left_type == Type::Bool) {
            return self.operator(swapped, &[right, left], span);
        }
        self.operator(name, &[left, right], span)
    }

    fn membership(&mut self, item: ValueId, container: ValueId, span: Span) -> Result<ValueId> {
        match self.ty(container).clone() {
            Type::Class(_) => {
                let result = self.call_method(container, "__contains__", &[item], span)?;
                self.meaning_value(result, span)
            }
            Type::Tuple(items) => {
                let first = items.first().cloned().unwrap_or(Type::Int);
                let values = self.unpack(container, span)?;
                let list = self.builder.add(Instruction::List, values, Type::list(first));
                self.operator("aten::__contains__", &[list, item], span)
            }
            Type::Str => {
                let place = self.operator("aten::find", &[container, item], span)?;
                let minus = self.int(-1);
                self.operator("aten::ne", &[place, minus], span)
            }
            _ => self.operator("aten::__contains__", &[container, item], span),
        }
    }

    /// Emits `left < b <= c`: later comparisons run only if the earlier ones are true.
    fn chain(&mut self, left: ValueId, rest: &[(CompareOp, Expr)], span: Span) -> Result<ValueId> {
        let (op, second) = &rest[0];
        let right = self.value(second)?;
        let first = self.compare(*op, left, right, span)?;
        if rest.len() == 1 {
            return Ok(first);
        }
        let test = self.truth(first, span)?;
        self.choose(test, &mut |emitter| emitter.chain(right, &rest[1..], span), &mut |emitter| {
            Ok(emitter.bool(false))
        })
    }

    /// Emits two branches that each give a value.
    pub(super) fn choose(
        &mut self,
        test: ValueId,
        then: &mut dyn FnMut(&mut Self) -> Result<ValueId>,
        otherwise: &mut dyn FnMut(&mut Self) -> Result<ValueId>,
    ) -> Result<ValueId> {
        let hidden = "$choice";
        self.branch(
            test,
            &mut |emitter| {
                let value = then(emitter)?;
                emitter.set(hidden, value);
                Ok(Flow::Falls)
            },
            &mut |emitter| {
                let value = otherwise(emitter)?;
                emitter.set(hidden, value);
                Ok(Flow::Falls)
            },
        )?;
        match self.variables.remove(hidden) {
            Some(Meaning::Value(value)) => Ok(value),
            Some(Meaning::Absent(why)) => Err(self
                .error(Span::default(), &why.replace("'$choice'", "the value of a conditional expression"))),
            _ => unreachable!("both branches set the choice"),
        }
    }

    fn ternary(
        &mut self,
        test: &Expr,
        then: &Expr,
        otherwise: &Expr,
        hint: Option<&Type>,
        span: Span,
    ) -> Result<ValueId> {
        let condition = self.condition(test)?;
        let before = self.variables.clone();
        if let Some(known) = condition.known {
            self.refine(if known { &condition.when_true } else { &condition.when_false });
            let value = self.value_as(if known { then } else { otherwise }, hint)?;
            self.variables = before;
            return Ok(value);
        }
        let result = self.choose(
            condition.value,
            &mut |emitter| {
                emitter.refine(&condition.when_true);
                emitter.value_as(then, hint)
            },
            &mut |emitter| {
                emitter.refine(&condition.when_false);
                emitter.value_as(otherwise, hint)
            },
        );
        let value = result.map_err(|error| {
            let message = error.message().split('\n').next().unwrap_or_default().to_owned();
            self.error(span, &message)
        })?;
        self.variables = before;
        Ok(value)
    }

    /// Returns the type of the items of a list, from a hint.
    fn item_hint(hint: Option<&Type>) -> Option<Type> {
        hint?.alternatives().into_iter().find_map(|item| match item {
            Type::List(item) => Some((*item).clone()),
            _ => None,
        })
    }

    fn list(&mut self, items: &[Expr], hint: Option<&Type>) -> Result<ValueId> {
        let wanted = Self::item_hint(hint);
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            if let ExprKind::Starred(inner) = &item.kind {
                let value = self.value(inner)?;
                values.extend(self.unpack(value, item.span)?);
            } else {
                values.push(self.value_as(item, wanted.as_ref())?);
            }
        }
        let item = self.item_type(&values, wanted.as_ref());
        Ok(self.builder.add(Instruction::List, values, Type::list(item)))
    }

    /// Returns the type of the items of a container: the hint if they fit it, else their join or union.
    fn item_type(&self, values: &[ValueId], wanted: Option<&Type>) -> Type {
        if let Some(wanted) = wanted
            && values.iter().all(|value| self.is_subtype(self.ty(*value), wanted))
        {
            return wanted.clone();
        }
        let mut joined: Option<Type> = None;
        for value in values {
            let ty = self.ty(*value);
            joined = Some(match joined {
                None => ty.clone(),
                Some(before) => {
                    join(&before, ty, &self.unit.classes).unwrap_or_else(|| Type::union([before, ty.clone()]))
                }
            });
        }
        joined.unwrap_or(Type::Tensor)
    }

    fn dict(&mut self, entries: &[(Expr, Expr)], hint: Option<&Type>) -> Result<ValueId> {
        let wanted = hint.and_then(|hint| {
            hint.alternatives().into_iter().find_map(|item| match item {
                Type::Dict(key, value) => Some(((*key).clone(), (*value).clone())),
                _ => None,
            })
        });
        let (mut keys, mut values, mut operands) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in entries {
            keys.push(self.value_as(key, wanted.as_ref().map(|wanted| &wanted.0))?);
            values.push(self.value_as(value, wanted.as_ref().map(|wanted| &wanted.1))?);
            operands.extend([keys[keys.len() - 1], values[values.len() - 1]]);
        }
        if entries.is_empty() {
            let (key, value) = wanted.unwrap_or((Type::Str, Type::Tensor));
            return Ok(self.builder.add(Instruction::Dict, operands, Type::dict(key, value)));
        }
        let key = self.item_type(&keys, wanted.as_ref().map(|wanted| &wanted.0));
        let value = self.item_type(&values, wanted.as_ref().map(|wanted| &wanted.1));
        Ok(self.builder.add(Instruction::Dict, operands, Type::dict(key, value)))
    }

    fn format(&mut self, parts: &[FormatPart], span: Span) -> Result<ValueId> {
        let mut template = String::new();
        let mut values = Vec::new();
        for part in parts {
            match part {
                FormatPart::Text(text) => template.push_str(&text.replace('{', "{{").replace('}', "}}")),
                FormatPart::Value { value, conversion, spec } => {
                    if let Some(conversion) = conversion.filter(|conversion| *conversion != 's') {
                        let message = format!("the conversion !{conversion} is not part of TorchScript");
                        return Err(self.error(value.span, &message));
                    }
                    template.push_str(&if spec.is_empty() {
                        "{}".to_owned()
                    } else {
                        format!("{{:{spec}}}")
                    });
                    values.push(self.value(value)?);
                }
            }
        }
        let template = self.text(&template);
        let operands: Vec<ValueId> = [template].into_iter().chain(values).collect();
        self.operator("aten::format", &operands, span)
    }

    /// Emits a comprehension as a loop that fills a list or dictionary.
    pub(super) fn comprehension(
        &mut self,
        comprehension: &Comprehension,
        hint: Option<&Type>,
        span: Span,
    ) -> Result<ValueId> {
        let before = self.variables.clone();
        let declared = std::mem::take(&mut self.declared);
        let is_dict = comprehension.kind == ComprehensionKind::Dict;
        let instruction = if is_dict { Instruction::Dict } else { Instruction::List };
        let container = self.builder.add(instruction, Vec::new(), Type::Any);
        let mut item_type = None;
        let result = self.comprehension_loops(
            comprehension,
            &comprehension.loops,
            container,
            hint,
            &mut item_type,
            span,
        );
        self.variables = before;
        self.declared = declared;
        result?;
        if *self.ty(container) == Type::Any {
            // No item was emitted, as over an empty tuple.
            let ty = match (hint, is_dict) {
                (Some(hint @ (Type::List(_) | Type::Dict(..))), _) => hint.clone(),
                (_, true) => Type::dict(Type::Str, Type::Tensor),
                (_, false) => Type::list(Type::Tensor),
            };
            self.builder.set_type(container, ty);
        }
        Ok(container)
    }

    fn comprehension_loops(
        &mut self,
        comprehension: &Comprehension,
        loops: &[ComprehensionLoop],
        container: ValueId,
        hint: Option<&Type>,
        item_type: &mut Option<Type>,
        span: Span,
    ) -> Result<()> {
        let Some((first, rest)) = loops.split_first() else {
            return self.comprehension_item(comprehension, container, hint, item_type, span);
        };
        let iterated = self.iterated(&first.values)?;
        let mut body = |emitter: &mut Self, item: Meaning| -> Result<()> {
            emitter.assign(&first.target, item, span)?;
            emitter.comprehension_conditions(&first.conditions, &mut |emitter| {
                emitter.comprehension_loops(comprehension, rest, container, hint, item_type, span)
            })
        };
        if let Some(length) = iterated.known_length() {
            for round in 0..length {
                let item = self.known_item(&iterated, round, span)?;
                body(self, item)?;
            }
            return Ok(());
        }
        let length = self.length(&iterated, span)?;
        let start = self.bool(true);
        self.repeat(
            length,
            start,
            &super::names::Effects::default(),
            &mut |emitter, round| {
                let item = emitter.item(&iterated, round, span)?;
                body(emitter, item)?;
                Ok(Flow::Falls)
            },
            None,
            span,
        )
    }

    fn comprehension_conditions(
        &mut self,
        conditions: &[Expr],
        inner: &mut dyn FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let Some((first, rest)) = conditions.split_first() else { return inner(self) };
        let condition = self.condition(first)?;
        self.branch(
            condition.value,
            &mut |emitter| {
                emitter.refine(&condition.when_true);
                emitter.comprehension_conditions(rest, inner)?;
                Ok(Flow::Falls)
            },
            &mut |_| Ok(Flow::Falls),
        )?;
        Ok(())
    }

    fn comprehension_item(
        &mut self,
        comprehension: &Comprehension,
        container: ValueId,
        hint: Option<&Type>,
        item_type: &mut Option<Type>,
        span: Span,
    ) -> Result<()> {
        if let Some(value) = &comprehension.value {
            let key = self.value(&comprehension.item)?;
            let value = self.value(value)?;
            let ty = match hint {
                Some(hint @ Type::Dict(..)) => hint.clone(),
                _ => Type::dict(self.ty(key).clone(), self.ty(value).clone()),
            };
            self.builder.set_type(container, ty);
            self.operator_results("aten::_set_item", &[container, key, value], &[], span)?;
            return Ok(());
        }
        let wanted = Self::item_hint(hint);
        let value = self.value_as(&comprehension.item, wanted.as_ref())?;
        let ty = self.ty(value).clone();
        let item = match (wanted, item_type.clone()) {
            (Some(wanted), _) if self.is_subtype(&ty, &wanted) => wanted,
            (_, Some(before)) => join(&before, &ty, &self.unit.classes).ok_or_else(|| {
                self.error(comprehension.item.span, &format!("the items of a list are {before} and {ty}"))
            })?,
            _ => ty,
        };
        self.builder.set_type(container, Type::list(item.clone()));
        *item_type = Some(item);
        self.operator("aten::append", &[container, value], span)?;
        Ok(())
    }
}

/// Returns how many letters two names differ by, at least; 3 if by more than 2.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    if left.len().abs_diff(right.len()) > 2 {
        return 3;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let next = (diagonal + usize::from(a != b)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[right.len()]
}
