//! Calls that are one pointwise row, computed on the arrays themselves.

use fx_script::value::{TensorCell, Value as Item, transaction};
use smallvec::SmallVec;

use super::plan::{Step, bytes};
use crate::op::Class;
use crate::op::kind::OperandValue;
use crate::pointwise::PointwiseDef;
use crate::{Arg, Array, Result, Scalar, TensorType, TypeTree, err};

/// A row whose operands are arguments of the call or numbers.
pub(super) struct PointwiseCall {
    def: &'static PointwiseDef,
    operands: SmallVec<[Operand; 4]>,
    params: SmallVec<[Operand; 4]>,
}

#[derive(Clone, Copy)]
pub(super) enum Operand {
    /// The argument of the call at this position: a tensor or a number.
    Argument(usize),
    Number(Scalar),
}

impl PointwiseCall {
    /// Returns the call of a row with these arguments, if it is pointwise; `has_tensor` says whether one of the
    /// operands is a tensor.
    pub(super) fn new(
        class: &Class,
        args: &[Operand],
        has_tensor: impl Fn(&Operand) -> bool,
    ) -> Option<PointwiseCall> {
        let Class::Pointwise(def) = *class else { return None };
        let (operands, params) = args.split_at_checked(def.operands.len())?;
        if !operands.iter().any(&has_tensor) || params.iter().any(&has_tensor) {
            return None;
        }
        Some(PointwiseCall { def, operands: operands.into(), params: params.into() })
    }

    /// Returns the call that a step is, if its row is pointwise and all its tensors are arguments themselves.
    /// Input `i` of the step is the argument at `positions[i]`.
    pub(super) fn of(step: &Step, positions: &[usize]) -> Option<PointwiseCall> {
        let operand = |operand: &Arg<usize>| match operand {
            Arg::Leaf(input) => positions.get(*input).copied().map(Operand::Argument),
            number => number.scalar().map(Operand::Number),
        };
        let args: SmallVec<[Operand; 8]> = step.args.iter().map(operand).collect::<Option<_>>()?;
        PointwiseCall::new(&step.op.class, &args, |operand| matches!(operand, Operand::Argument(_)))
    }

    /// Computes the result, and checks before that memory can hold it. Fails as the row does.
    pub(super) fn array(&self, args: &[&Item]) -> Result<Array> {
        let mut arrays: SmallVec<[Array; 4]> = SmallVec::new();
        for operand in &self.operands {
            if let Operand::Argument(at) = operand
                && let Item::Tensor(tensor) = args[*at]
            {
                arrays.push(tensor.array()?);
            }
        }
        // Few calls come near to the limit.
        transaction::charge(largest(&arrays)).or_else(|_| transaction::charge(self.bytes(args)?))?;
        let mut arrays = arrays.iter();
        let mut operands: SmallVec<[Option<OperandValue<'_>>; 4]> = SmallVec::new();
        for operand in &self.operands {
            operands.push(Some(match operand {
                Operand::Argument(at) if matches!(args[*at], Item::Tensor(_)) => {
                    OperandValue::Array(arrays.next().expect("each argument has an array"))
                }
                number => OperandValue::Scalar(number.scalar(args)?),
            }));
        }
        let mut params: SmallVec<[Scalar; 4]> =
            self.params.iter().map(|param| param.scalar(args)).collect::<Result<_>>()?;
        self.def.eval_operands(&operands, &mut params)
    }

    /// Returns the bytes of the result. Fails as the row does.
    #[cold]
    fn bytes(&self, args: &[&Item]) -> Result<u128> {
        let types = self.operands.iter().chain(&self.params).map(|operand| match operand {
            Operand::Argument(at) if let Item::Tensor(tensor) = args[*at] => {
                Ok(TensorType::new(tensor.dtype(), &tensor.shape()[..]).into())
            }
            number => number.scalar(args).map(TypeTree::from),
        });
        self.def.infer(&types.collect::<Result<Vec<_>>>()?).map(|ty| bytes(&ty))
    }

    /// Computes the result as a tensor of its own. Fails as the row does.
    pub(super) fn call(&self, args: &[&Item]) -> Result<Item> {
        TensorCell::of(self.array(args)?).map(Item::Tensor)
    }
}

impl Operand {
    fn scalar(self, args: &[&Item]) -> Result<Scalar> {
        match self {
            Operand::Number(x) => Ok(x),
            Operand::Argument(at) => match args[at] {
                Item::Bool(x) => Ok(Scalar::Bool(*x)),
                Item::Int(x) => Ok(Scalar::Int(*x)),
                Item::Float(x) => Ok(Scalar::Float(*x)),
                other => Err(err!(Argument, "expected a number, got {}", other.type_name())),
            },
        }
    }
}

/// The most bytes that a result of operands broadcast together may have.
fn largest(arrays: &[Array]) -> u128 {
    let numel = match arrays {
        [one] => one.numel() as u128,
        arrays => {
            let rank = arrays.iter().map(Array::rank).max().unwrap_or(0);
            let size = |from_last: usize| {
                let sizes = arrays.iter().filter_map(|array| array.shape().iter().rev().nth(from_last));
                sizes.copied().max().unwrap_or(1) as u128
            };
            (0..rank).map(size).fold(1, u128::saturating_mul)
        }
    };
    numel.saturating_mul(8)
}
