//! Loops over elements as data: what is computed of each element, step by step.
//!
//! A [`Step`] is what tapes of the engine, compiled code and generated crates are made of. Which memory an operand
//! has is not said here, but by who uses the steps.

use smallvec::SmallVec;

use crate::pointwise::{CallOperand, PointwiseCall, PointwiseDef};
use crate::rowwise::RowCall;
use crate::{DType, Scalar};

/// Where a step finds an operand. Numbers are of the type `N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand<N = Scalar> {
    /// The result of a step before it.
    Step(u32),
    /// An operand of the loop.
    Load(u32),
    /// The same number for all elements.
    Number(N),
    /// A size, by its number in the loop.
    Size(u32),
}

/// What a step computes.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// A pointwise operation: its scalar body, of operands of one dtype.
    Map(&'static PointwiseDef),
    /// The operand in another dtype.
    Convert,
    /// The second operand where the first, of bools, is true, else the third.
    Select,
    /// The one element that the operand has for each row, for each element of the row.
    Repeat,
    /// The operand.
    Copy,
    /// An operation on rows. The first operand is in rows, the others are one row, the same for all.
    Row(RowCall),
    /// What only the engine can compute.
    Host,
}

// Operations are rows, which are compared by address.
impl PartialEq for Work {
    fn eq(&self, other: &Work) -> bool {
        match (self, other) {
            (Work::Map(a), Work::Map(b)) => std::ptr::eq(*a, *b),
            (Work::Row(a), Work::Row(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// A step of a loop. Numbers are of the type `N`.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<N = Scalar> {
    /// The computation.
    pub work: Work,
    /// Its operands, each in its own dtype.
    pub operands: SmallVec<[Operand<N>; 4]>,
    /// The operands, a bit for each, that are taken as exact as `f32` where halves are computed.
    pub exact: u8,
    /// The parameters of its row.
    pub params: SmallVec<[N; 4]>,
    /// The dtype to which operands are converted, but for the mask of a choice: that in which it is computed.
    pub from: DType,
    /// The dtype of its result.
    pub dtype: DType,
}

impl<N> Step<N> {
    /// Makes a step without parameters.
    pub fn new(
        work: Work,
        operands: impl IntoIterator<Item = Operand<N>>,
        [from, dtype]: [DType; 2],
    ) -> Step<N> {
        let operands = operands.into_iter().collect();
        Step { work, operands, exact: 0, params: SmallVec::new(), from, dtype }
    }

    /// Returns the dtype in which it takes an operand.
    pub fn operand_dtype(&self, operand: usize) -> DType {
        if matches!(self.work, Work::Select) && operand == 0 { DType::Bool } else { self.from }
    }

    /// Returns whether an operand is taken as exact as `f32` where halves are computed.
    pub fn is_exact(&self, operand: usize) -> bool {
        operand < 8 && self.exact & 1 << operand != 0
    }

    /// Makes a step of a call of a row. `argument` finds the arguments, and `number` makes a number of one that is
    /// taken in a dtype. `None` if an argument cannot be found.
    pub fn of_call(
        call: &PointwiseCall,
        argument: impl Fn(usize) -> Option<Operand<N>>,
        number: impl Fn(Scalar, DType) -> N,
    ) -> Option<Step<N>> {
        let (mut operands, mut exact) = (SmallVec::new(), 0);
        for (i, operand) in call.operands.iter().enumerate() {
            operands.push(match operand {
                CallOperand::Number(x) => Operand::Number(number(*x, call.dtype)),
                CallOperand::Argument { index, is_exact } => {
                    exact |= u8::from(*is_exact && i < 8) << (i % 8);
                    argument(*index)?
                }
            });
        }
        let params = call.params.iter().map(|x| number(*x, call.dtype)).collect();
        let (work, from, dtype) = (Work::Map(call.def), call.dtype, call.result());
        Some(Step { work, operands, exact, params, from, dtype })
    }
}
