//! Calls that are one pointwise row, computed on the arrays themselves.

use fx_script::value::{TensorCell, Value as Item};
use smallvec::SmallVec;

use super::Step;
use crate::op::Class;
use crate::op::kind::OperandValue;
use crate::pointwise::PointwiseDef;
use crate::{Arg, Array, Result, Scalar};

/// A row whose operands are arguments of the call or numbers.
pub(super) struct PointwiseCall {
    def: &'static PointwiseDef,
    operands: SmallVec<[Operand; 4]>,
    params: SmallVec<[Scalar; 4]>,
}

enum Operand {
    /// The argument of the call at this position, a tensor.
    Argument(usize),
    Number(Scalar),
}

impl PointwiseCall {
    /// Returns the call that a step is, if its row is pointwise and all its tensors are arguments themselves.
    /// Input `i` of the step is the argument at `positions[i]`.
    pub(super) fn of(step: &Step, positions: &[usize]) -> Option<PointwiseCall> {
        let Class::Pointwise(def) = step.op.class else { return None };
        let (operands, params) = step.args.split_at_checked(def.operands.len())?;
        if !operands.iter().any(|operand| operand.leaf().is_some()) {
            return None;
        }
        let operand = |operand: &Arg<usize>| match operand {
            Arg::Leaf(input) => positions.get(*input).copied().map(Operand::Argument),
            number => number.scalar().map(Operand::Number),
        };
        let operands = operands.iter().map(operand).collect::<Option<_>>()?;
        let params = params.iter().map(Arg::scalar).collect::<Option<_>>()?;
        Some(PointwiseCall { def, operands, params })
    }

    /// Computes the result. Fails as the row does.
    pub(super) fn call(&self, args: &[&Item]) -> Result<Item> {
        let mut arrays: SmallVec<[Array; 4]> = SmallVec::new();
        for operand in &self.operands {
            if let Operand::Argument(at) = operand {
                arrays.push(args[*at].to_tensor()?.array()?);
            }
        }
        let mut arrays = arrays.iter();
        let mut operands: SmallVec<[OperandValue<'_>; 4]> = SmallVec::new();
        for operand in &self.operands {
            operands.push(match operand {
                Operand::Argument(_) => {
                    OperandValue::Array(arrays.next().expect("each argument has an array"))
                }
                Operand::Number(x) => OperandValue::Scalar(*x),
            });
        }
        TensorCell::of(self.def.eval_operands(&operands, &self.params)?).map(Item::Tensor)
    }
}
