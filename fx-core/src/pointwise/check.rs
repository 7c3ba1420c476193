//! [`Check`]: the integers on which the body of a row is not defined.

use crate::op::kind::OperandValue;
use crate::{Error, Result, Scalar, err};

/// What the last operand of a row must be where integers are computed.
///
/// It is data, so that engines and generated code need not ask a function: a number that is allowed is allowed
/// for ever, and code tests elements as eager evaluation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Not zero: it is a divisor.
    NonZero,
    /// Not negative, if it is a number: it is an exponent. Elements may be, as in PyTorch.
    NonNegative,
}

impl Check {
    /// Returns whether an integer is allowed.
    pub fn allows(self, x: i64) -> bool {
        match self {
            Check::NonZero => x != 0,
            Check::NonNegative => x >= 0,
        }
    }

    /// Returns what is wrong with an integer that is not allowed.
    pub fn error(self) -> Error {
        match self {
            Check::NonZero => err!(Argument, "integer division by zero")
                .help("divide floats, or replace zeros with `where_` first"),
            Check::NonNegative => err!(Argument, "integers to negative integer powers are not integers")
                .help("convert x to a float first"),
        }
    }

    /// Returns whether elements are checked, and not only numbers.
    pub fn is_of_elements(self) -> bool {
        self == Check::NonZero
    }

    /// Checks a number. Fails if it is not allowed.
    pub fn number(self, x: Scalar) -> Result<()> {
        if self.allows(x.to_i64()) { Ok(()) } else { Err(self.error()) }
    }

    /// Checks all elements. Fails if one is not allowed.
    pub(super) fn operand(self, operand: &OperandValue<'_>) -> Result<()> {
        match operand {
            _ if !self.is_of_elements() => Ok(()),
            OperandValue::Array(array) if array.any_int(|x| !self.allows(x)) => Err(self.error()),
            OperandValue::Array(_) => Ok(()),
            OperandValue::Scalar(x) => self.number(*x),
        }
    }
}
