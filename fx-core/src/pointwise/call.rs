//! [`PointwiseCall`]: what follows from the types and the numbers with which a row is called.
//!
//! Eager evaluation, fusion, tapes and generated code all resolve a call here, so that it has the same dtype, row
//! and numbers everywhere.

use smallvec::SmallVec;

use super::{Check, PointwiseDef};
use crate::dtype::default_dtype;
use crate::op::kind::{OperandType, OperandValue};
use crate::{Category, DType, Dim, Result, Scalar, TensorType, err};

/// An argument for an operand of a row, as far as it is known before the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// A tensor.
    Tensor {
        /// The dtype of its elements.
        dtype: DType,
        /// Whether it has rank 0, so that its dtype counts less in promotion.
        is_zero_dim: bool,
        /// Whether it has one element, of any rank.
        is_one: bool,
    },
    /// A number of this category, which only a run tells.
    Number(Category),
    /// A number.
    Known(Scalar),
    /// Nothing: the row says what stands for it.
    Absent,
}

impl From<&TensorType> for Argument {
    fn from(ty: &TensorType) -> Argument {
        let is_one = ty.shape.iter().all(|size| *size == Dim::new(1));
        Argument::Tensor { dtype: ty.dtype, is_zero_dim: ty.rank() == 0, is_one }
    }
}

impl From<&OperandType<'_>> for Argument {
    fn from(operand: &OperandType<'_>) -> Argument {
        match operand {
            OperandType::Tensor(ty) => Argument::from(*ty),
            OperandType::Scalar(category) => Argument::Number(*category),
        }
    }
}

impl From<&OperandValue<'_>> for Argument {
    fn from(operand: &OperandValue<'_>) -> Argument {
        match operand {
            OperandValue::Array(x) => {
                Argument::Tensor { dtype: x.dtype(), is_zero_dim: x.rank() == 0, is_one: x.numel() == 1 }
            }
            OperandValue::Scalar(x) => Argument::Known(*x),
        }
    }
}

/// An operand of a call that is resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallOperand {
    /// The argument at an index.
    Argument {
        /// The index among the arguments.
        index: usize,
        /// Whether it is taken as exact as it is, where halves are computed in `f32`.
        is_exact: bool,
    },
    /// A number, of which an element of the type of computation is made (`f32` for halves).
    Number(Scalar),
}

/// A call of a row: which row computes it, in which dtype, of which operands.
#[derive(Clone, Debug)]
pub struct PointwiseCall {
    /// The row that was called, or the row that it is for a number as its last operand: `sqrt` for `pow` and 0.5.
    pub def: &'static PointwiseDef,
    /// The dtype in which it is computed, which may be a half.
    pub dtype: DType,
    /// The operands of the row.
    pub operands: SmallVec<[CallOperand; 4]>,
    /// The parameters of the row.
    pub params: SmallVec<[Scalar; 4]>,
}

impl PointwiseCall {
    /// Returns what the elements of the last operand must be, if that is not known yet.
    pub fn check(&self) -> Option<Check> {
        let is_known = matches!(self.operands.last(), Some(CallOperand::Number(_)));
        self.def.check.filter(|check| check.is_of_elements() && self.dtype.is_int() && !is_known)
    }

    /// Returns the dtype of the result.
    pub fn result(&self) -> DType {
        self.def.result_dtype(self.dtype)
    }
}

/// An operand that may be a number.
pub(super) trait MaybeNumber {
    fn number(&self) -> Option<Scalar>;
    fn set(&mut self, number: Scalar);
}

impl MaybeNumber for CallOperand {
    fn number(&self) -> Option<Scalar> {
        match self {
            CallOperand::Number(x) => Some(*x),
            CallOperand::Argument { .. } => None,
        }
    }

    fn set(&mut self, number: Scalar) {
        *self = CallOperand::Number(number);
    }
}

impl MaybeNumber for OperandValue<'_> {
    fn number(&self) -> Option<Scalar> {
        match self {
            OperandValue::Scalar(x) => Some(*x),
            OperandValue::Array(_) => None,
        }
    }

    fn set(&mut self, number: Scalar) {
        *self = OperandValue::Scalar(number);
    }
}

impl PointwiseDef {
    /// Resolves a call.
    ///
    /// Fails if the row is not defined for the promoted dtype, if an operand is missing, or if the row refuses a
    /// number: one that the dtype cannot hold, or one on which the body is not defined.
    pub fn resolve(&'static self, arguments: &[Argument], params: &[Scalar]) -> Result<PointwiseCall> {
        let dtype = self.compute_dtype(promote(arguments.iter().copied()))?;
        let mut operands: SmallVec<[CallOperand; 4]> = SmallVec::new();
        for (index, argument) in arguments.iter().enumerate() {
            operands.push(match argument {
                Argument::Known(x) => CallOperand::Number(*x),
                Argument::Absent => CallOperand::Number(self.number_for(index, dtype)?),
                _ => CallOperand::Argument { index, is_exact: false },
            });
        }
        let mut params = SmallVec::from_slice(params);
        let def = self.settle(dtype, &mut operands, &mut params)?;
        for (i, operand) in operands.iter_mut().enumerate() {
            if let CallOperand::Argument { index, is_exact } = operand {
                let is_one = !matches!(arguments[*index], Argument::Tensor { is_one: false, .. });
                *is_exact = is_one && def.is_wide(i);
            }
        }
        Ok(PointwiseCall { def, dtype, operands, params })
    }

    /// Returns the row that computes these operands in `dtype`, and makes operands and numbers those of that row.
    /// Fails if it refuses a number.
    #[inline]
    pub(super) fn settle<T: MaybeNumber>(
        &'static self,
        dtype: DType,
        operands: &mut SmallVec<[T; 4]>,
        params: &mut [Scalar],
    ) -> Result<&'static PointwiseDef> {
        let mut def = self;
        while let Some(instead) = def.instead
            && let Some(last) = operands.last().and_then(T::number)
            && let Some(other) = instead(last, dtype)
        {
            operands.pop();
            def = other;
        }
        for (i, operand) in operands.iter_mut().enumerate() {
            if let Some(x) = operand.number() {
                operand.set(def.number(i, x, dtype)?);
            }
        }
        for (i, param) in params.iter_mut().enumerate() {
            *param = def.parameter(i, *param, dtype)?;
        }
        if let Some(check) = def.check
            && dtype.is_int()
            && let Some(last) = operands.last().and_then(T::number)
        {
            check.number(last)?;
        }
        Ok(def)
    }

    /// Returns the number for an operand that is absent. Fails if the operand must be there.
    pub(super) fn number_for(&self, operand: usize, dtype: DType) -> Result<Scalar> {
        self.absent_value(operand, dtype).ok_or_else(|| {
            err!(Argument, "the operand {} is missing", self.operands.get(operand).unwrap_or(&"_"))
        })
    }
}

/// Returns the dtype of a pointwise operation, by PyTorch's rule: tensors of rank one or more decide; tensors
/// of rank 0 and then numbers count only if their category is higher.
pub(super) fn promote(arguments: impl Iterator<Item = Argument>) -> DType {
    let join = |a: Option<DType>, b: DType| Some(a.map_or(b, |a| a.promote(b)));
    let (mut dimensioned, mut zero_dim, mut number) = (None, None, None);
    for argument in arguments {
        match argument {
            Argument::Tensor { dtype, is_zero_dim: false, .. } => dimensioned = join(dimensioned, dtype),
            Argument::Tensor { dtype, is_zero_dim: true, .. } => zero_dim = join(zero_dim, dtype),
            Argument::Number(category) => number = join(number, default_dtype(category)),
            Argument::Known(x) => number = join(number, default_dtype(x.category())),
            Argument::Absent => {}
        }
    }
    let higher = |a: Option<DType>, b: Option<DType>| match (a, b) {
        (Some(a), Some(b)) => Some(if b.category() > a.category() { b } else { a }),
        (a, b) => a.or(b),
    };
    higher(higher(dimensioned, zero_dim), number).unwrap_or(DType::F32)
}

/// Returns the dtype to which operands are promoted, as `torch.result_type` does.
pub fn result_dtype(operands: &[OperandValue<'_>]) -> DType {
    promote(operands.iter().map(Argument::from))
}

/// Returns the dtype to which operands of these types are promoted.
pub fn result_dtype_of_types(operands: &[OperandType<'_>]) -> DType {
    promote(operands.iter().map(Argument::from))
}
