//! Operators: their overload, the conversions of arguments, and defaults.

use std::sync::Arc;

use fx_core::{ErrorKind, Result};

use super::function::{Emitter, Meaning};
use super::unit::UnknownOperators;
use crate::ir::{Constant, Instruction, ValueId};
use crate::load::upgrade;
use crate::schema::{self, Conversion, Default, Slot};
use crate::source::Span;
use crate::types::Type;

impl Emitter<'_> {
    /// Converts a value to a type where it must have it. Fails if it cannot.
    pub(super) fn convert(&mut self, value: ValueId, ty: &Type, span: Span, what: &str) -> Result<ValueId> {
        if self.is_subtype(self.ty(value), ty) {
            return Ok(value);
        }
        if let Some(converted) = self.implicit(value, ty) {
            return Ok(converted);
        }
        let got = self.ty(value).clone();
        let error = self.type_error(span, &format!("{what} expected {ty}, got {got}"), value);
        Err(match (&got, ty) {
            (Type::Int, Type::Float) => error.help("ints are not converted: write `1.` or `float(..)`"),
            (Type::Optional(_), _) => error.help("it may be None; test it before, or `assert x is not None`"),
            _ => error,
        })
    }

    /// Converts a value as calls do implicitly, if it can be.
    pub(super) fn implicit(&mut self, value: ValueId, ty: &Type) -> Option<ValueId> {
        let inner = match ty {
            Type::Optional(inner) => inner,
            other => other,
        };
        let operator = match (self.ty(value).clone(), inner) {
            (Type::Tensor, Type::Int) => "aten::IntImplicit",
            (Type::Tensor, Type::Float) => "aten::FloatImplicit",
            (Type::Tensor, Type::Complex) => "aten::ComplexImplicit",
            (Type::Tensor, Type::Number) => "aten::ScalarImplicit",
            (Type::Bool, Type::Int) => "aten::Int.bool",
            (Type::Bool, Type::Float) => "aten::Float.bool",
            (Type::Number, Type::Int) => "aten::Int.Scalar",
            (Type::Number, Type::Float) => "aten::Float.Scalar",
            (Type::Str, Type::Device) => "aten::device",
            (Type::Tuple(items), Type::List(item)) if items.iter().all(|ty| self.is_subtype(ty, item)) => {
                let values = self.unpack(value, Span::default()).ok()?;
                return Some(self.builder.add(Instruction::List, values, inner.clone()));
            }
            _ => return None,
        };
        Some(self.builder.add(Instruction::Call(operator.into()), vec![value], inner.clone()))
    }

    /// Emits an operator that has one result.
    pub(super) fn operator(&mut self, name: &str, operands: &[ValueId], span: Span) -> Result<ValueId> {
        let results = self.operator_results(name, operands, &[], span)?;
        self.meaning_value(results, span)
    }

    /// Emits an operator as the version of the program means it.
    pub(super) fn operator_results(
        &mut self,
        name: &str,
        positional: &[ValueId],
        named: &[(Arc<str>, ValueId)],
        span: Span,
    ) -> Result<Meaning> {
        if let Some(sorted) = self.sort_of_objects(name, positional, named, span)? {
            return Ok(sorted);
        }
        match self.unit.version.and_then(|version| upgrade(name, version)) {
            Some(upgrade) => self.upgraded(upgrade, name, positional, named, span),
            None => self.current_operator(name, positional, named, span),
        }
    }

    /// Emits an operator: finds the overload, converts arguments, and gives defaults.
    pub(super) fn current_operator(
        &mut self,
        name: &str,
        positional: &[ValueId],
        named: &[(Arc<str>, ValueId)],
        span: Span,
    ) -> Result<Meaning> {
        let types: Vec<Type> = positional.iter().map(|value| self.ty(*value).clone()).collect();
        let named_types: Vec<_> =
            named.iter().map(|(name, value)| (name.clone(), self.ty(*value).clone())).collect();
        let call = match schema::resolve(name, &types, &named_types, &self.unit.classes) {
            Ok(call) => call,
            Err(reasons)
                if reasons.is_empty() && self.unit.unknown_operators == UnknownOperators::FailWhenRun =>
            {
                let operands =
                    positional.iter().copied().chain(named.iter().map(|(_, value)| *value)).collect();
                let instruction = Instruction::Call(name.into());
                return Ok(Meaning::Value(self.builder.add(instruction, operands, Type::Tensor)));
            }
            Err(reasons) => return Err(self.no_overload(name, &types, &named_types, &reasons, span)),
        };
        let given: Vec<ValueId> =
            positional.iter().copied().chain(named.iter().map(|(_, value)| *value)).collect();
        let mut operands = Vec::with_capacity(call.slots.len());
        for (slot, parameter) in call.slots.iter().zip(&call.schema.parameters) {
            let operand = match slot {
                Slot::Given(at, conversion) => self.converted(given[*at], conversion, span)?,
                Slot::Gathered(items, item) => {
                    let mut values = Vec::with_capacity(items.len());
                    for (at, conversion) in items {
                        values.push(self.converted(given[*at], conversion, span)?);
                    }
                    self.builder.add(Instruction::List, values, Type::list(item.clone()))
                }
                Slot::Default(default) => self.default(default, &parameter.declared, parameter.length),
            };
            operands.push(operand);
        }
        operands.extend(call.variadic.iter().map(|at| given[*at]));
        let Some(returns) = call.returns else {
            return Err(self.error(span, &format!("the result of '{}' has no type", call.schema.full_name)));
        };
        let instruction = Instruction::Call(call.schema.full_name.clone());
        let mut results = self.builder.with_regions(instruction, operands, returns, Vec::new());
        for result in &results {
            self.origins.insert(*result, span);
        }
        if let [first, _, ..] = results[..] {
            self.operators.insert(first, call.schema);
        }
        Ok(if results.len() == 1 { Meaning::Value(results.remove(0)) } else { Meaning::Results(results) })
    }

    fn no_overload(
        &self,
        name: &str,
        types: &[Type],
        named: &[(Arc<str>, Type)],
        reasons: &[String],
        span: Span,
    ) -> fx_core::Error {
        if reasons.is_empty() {
            let message = format!("there is no operator '{name}'");
            return self
                .source
                .error(ErrorKind::Unresolved, span, &message)
                .help(crate::schema::advice(name));
        }
        let given = types.iter().map(ToString::to_string);
        let given: Vec<String> = given.chain(named.iter().map(|(name, ty)| format!("{name}={ty}"))).collect();
        let error = self.error(span, &format!("no overload of '{name}' takes ({})", given.join(", ")));
        let shown = reasons.iter().take(6).cloned().collect::<Vec<_>>().join("\n        ");
        let more = reasons.len().saturating_sub(6);
        let more = if more > 0 { format!("\n        and {more} more") } else { String::new() };
        error.help(format!("the overloads are\n        {shown}{more}"))
    }

    fn converted(&mut self, value: ValueId, conversion: &Conversion, span: Span) -> Result<ValueId> {
        Ok(match conversion {
            Conversion::None => value,
            Conversion::Operator(name, ty) => {
                self.builder.add(Instruction::Call((*name).into()), vec![value], ty.clone())
            }
            Conversion::TupleToList(item) => {
                let items = self.unpack(value, span)?;
                self.builder.add(Instruction::List, items, Type::list(item.clone()))
            }
            Conversion::Repeated(count, item) => {
                self.builder.add(Instruction::List, vec![value; *count as usize], Type::list(item.clone()))
            }
        })
    }

    fn default(&mut self, default: &Default, declared: &Type, length: Option<u32>) -> ValueId {
        let inner = match declared {
            Type::Optional(inner) => inner,
            other => other,
        };
        match (default, inner) {
            (Default::None, _) => self.none(),
            (Default::List(items), Type::List(item)) => {
                let values = items.iter().map(|default| self.default(default, item, None)).collect();
                self.builder.add(Instruction::List, values, inner.clone())
            }
            (default, Type::List(item)) => {
                let values = (0..length.unwrap_or(1)).map(|_| self.default(default, item, None)).collect();
                self.builder.add(Instruction::List, values, inner.clone())
            }
            (Default::Bool(value), _) => self.bool(*value),
            (Default::Int(value), Type::Float) => {
                self.builder.constant(Constant::Float(*value as f64), Type::Float)
            }
            (Default::Int(value), _) => self.int(*value),
            (Default::Float(value), _) => self.builder.constant(Constant::Float(*value), Type::Float),
            (Default::Str(text), _) => self.text(text),
            (Default::List(_), _) => self.none(),
        }
    }
}
