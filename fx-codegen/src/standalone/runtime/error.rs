//! [`Error`]: what can be wrong with a file or a call.

use core::fmt;

/// What can be wrong with a file or a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// An input has another size along an axis than the model was made for.
    Size {
        /// The input.
        input: &'static str,
        /// The axis.
        axis: usize,
        /// The size that the model was made for.
        expected: usize,
        /// The size that was given.
        got: usize,
    },
    /// An input has a size along an axis that is out of range.
    Range {
        /// The input.
        input: &'static str,
        /// The axis.
        axis: usize,
        /// The least size.
        least: usize,
        /// The greatest size.
        greatest: usize,
        /// The size that was given.
        got: usize,
    },
    /// An input has fewer or more elements than its sizes say.
    Length {
        /// The input.
        input: &'static str,
        /// How many its sizes say.
        expected: usize,
        /// How many were given.
        got: usize,
    },
    /// The sizes of the inputs do not fit the program, and why.
    Sizes(&'static str),
    /// A position in the data, such as a token, does not exist.
    Index(i64),
    /// An operation is not defined for an element, such as an integer that is divided by zero, and why.
    Operand(&'static str),
    /// What the program checks does not hold, and its message.
    Check(&'static str),
    // begin std
    /// A file cannot be read.
    Io {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A file is not a safetensors file.
    File(String),
    /// There is no tensor of this name in the file.
    Missing(String),
    /// A tensor of the file is not what the model needs.
    Mismatch {
        /// Its name.
        name: String,
        /// Its type and shape as the model needs them.
        expected: String,
        /// Its type and shape in the file.
        got: String,
    },
    // end std
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // begin std
            Error::Io { path, reason } => write!(f, "cannot read {path}: {reason}"),
            Error::File(reason) => write!(f, "not a safetensors file: {reason}"),
            Error::Missing(name) => write!(f, "there is no tensor {name:?} in the file"),
            Error::Mismatch { name, expected, got } => {
                write!(f, "the tensor {name:?} is {got}, expected {expected}")
            }
            // end std
            Error::Size { input, axis, expected, got } => {
                write!(f, "the input {input} has size {got} along axis {axis}, expected {expected}")
            }
            Error::Range { input, axis, least, greatest, got } => {
                write!(
                    f,
                    "the input {input} has size {got} along axis {axis}, expected {least} to {greatest}"
                )
            }
            Error::Length { input, expected, got } => {
                write!(f, "the input {input} has {got} elements, expected {expected}")
            }
            Error::Sizes(why) => write!(f, "these sizes do not fit the program: {why}"),
            Error::Index(index) => write!(f, "there is nothing at position {index}"),
            Error::Operand(why) => write!(f, "an operation is not defined for its operand: {why}"),
            Error::Check(message) => write!(f, "a check of the program failed: {message}"),
        }
    }
}

impl core::error::Error for Error {}
