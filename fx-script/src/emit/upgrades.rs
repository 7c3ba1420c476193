//! Operators of programs in older versions of the format, whose meaning has changed since.

use std::sync::Arc;

use fx_core::Result;

use super::function::{Emitter, Meaning};
use crate::ir::ValueId;
use crate::load::Upgrade;
use crate::source::Span;
use crate::types::Type;

impl Emitter<'_> {
    /// Emits an operator with the meaning that it had.
    pub(super) fn upgraded(
        &mut self,
        upgrade: Upgrade,
        name: &str,
        positional: &[ValueId],
        named: &[(Arc<str>, ValueId)],
        span: Span,
    ) -> Result<Meaning> {
        match upgrade {
            Upgrade::TruncatingDivision => self.truncating_division(name, positional, named, span),
            Upgrade::FloatFill => {
                let given = named.iter().find(|(name, _)| &**name == "dtype").map(|(_, value)| *value);
                let has_dtype = given.is_some_and(|dtype| *self.ty(dtype) != Type::None);
                let mut operands = positional.to_vec();
                if !has_dtype
                    && let Some(fill) = operands.get_mut(1)
                    && matches!(self.ty(*fill), Type::Int | Type::Bool | Type::Number)
                {
                    *fill = self.operator("aten::Float", &[*fill], span)?;
                }
                self.current_operator(name, &operands, named, span)
            }
            Upgrade::HundredSteps => {
                let mut operands = positional.to_vec();
                let mut named = named.to_vec();
                let hundred = self.int(100);
                if let Some((_, steps)) = named.iter_mut().find(|(name, _)| &**name == "steps") {
                    if *self.ty(*steps) == Type::None {
                        *steps = hundred;
                    }
                } else if operands.len() == 2 {
                    operands.push(hundred);
                } else if operands.get(2).is_some_and(|steps| *self.ty(*steps) == Type::None) {
                    operands[2] = hundred;
                }
                self.current_operator(name, &operands, &named, span)
            }
            // The default of today is what the operator did.
            Upgrade::ExactGelu => self.current_operator(name, positional, named, span),
        }
    }

    /// Emits a division: true if an operand is a float, else one that truncates.
    fn truncating_division(
        &mut self,
        name: &str,
        positional: &[ValueId],
        named: &[(Arc<str>, ValueId)],
        span: Span,
    ) -> Result<Meaning> {
        let &[left, right] = positional else { return self.current_operator(name, positional, named, span) };
        let has_mode = named.iter().any(|(name, _)| &**name == "rounding_mode");
        if has_mode || *self.ty(left) != Type::Tensor || matches!(self.ty(right), Type::Float | Type::Complex)
        {
            return self.current_operator(name, positional, named, span);
        }
        let mut is_float = self.operator("aten::is_floating_point", &[left], span)?;
        if *self.ty(right) == Type::Tensor {
            let other = self.operator("aten::is_floating_point", &[right], span)?;
            is_float = self.operator("aten::__or__", &[is_float, other], span)?;
        }
        let value = self.choose(
            is_float,
            &mut |emitter| {
                let result = emitter.current_operator(name, positional, named, span)?;
                emitter.meaning_value(result, span)
            },
            &mut |emitter| {
                let mut named = named.to_vec();
                named.push(("rounding_mode".into(), emitter.text("trunc")));
                let result = emitter.current_operator(name, positional, &named, span)?;
                emitter.meaning_value(result, span)
            },
        )?;
        Ok(Meaning::Value(value))
    }
}
