//! The steps of a generated program: loops over elements, calls of kernels, and branches.

use fx_core::loops::{self, Operand};
use fx_core::{DType, Dim, Symbol};

use super::value::View;

/// Memory of its own, for one value or as room for a kernel.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) dtype: DType,
    /// How many elements it holds, as an expression in Rust where the number is not known.
    pub(super) len: Length,
}

/// A number of elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Length {
    Of(Dim),
    /// What a function of the kernels says for these sizes.
    Work(Room, Vec<Dim>),
}

impl Length {
    /// Returns whether it follows from one of these sizes.
    pub(super) fn follows_from(&self, symbols: &[Symbol]) -> bool {
        let sizes = match self {
            Length::Of(size) => std::slice::from_ref(size),
            Length::Work(_, sizes) => sizes,
        };
        sizes.iter().flat_map(Dim::symbols).any(|symbol| symbols.contains(&symbol))
    }
}

/// A function that says how much room a kernel needs: its path among the kernels, and what it gives for sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) path: &'static str,
    pub(super) of: fn(&[usize]) -> usize,
}

impl PartialEq for Room {
    fn eq(&self, other: &Room) -> bool {
        self.path == other.path
    }
}

/// What a statement is made of.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Size(Dim),
    /// A size as an `i64`, which may be negative.
    Integer(Dim),
    /// The elements of a value, from its first.
    Read(View),
    /// The first element of a value.
    Element(View),
    /// All that is kept of a weight.
    Weight(usize),
    /// A buffer that is written.
    Write(usize),
    /// A part of a buffer that is written, from its first element.
    WriteView(View),
}

/// An argument of a kernel.
pub(super) type Pieces = Vec<Piece>;

/// A call of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The function, such as `rows::softmax`.
    pub(super) function: String,
    pub(super) args: Vec<Pieces>,
    /// How it can fail.
    pub(super) fails: Option<Failure>,
}

/// What of the data can make a call fail: the variant of the crate's error.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    /// A position that does not exist.
    Index,
    /// An element for which an operation is not defined.
    Operand,
    /// What the program itself checks.
    Check,
}

/// A loop over the elements of a shape.
#[derive(Clone, Debug)]
pub(super) struct Loop {
    pub(super) shape: Vec<Dim>,
    pub(super) reads: Vec<View>,
    /// The sizes that it computes with.
    pub(super) sizes: Vec<Dim>,
    /// What is computed of each element; loads are `reads`.
    pub(super) ops: Vec<loops::Step>,
    /// The buffers that results go to, with the steps that compute them.
    pub(super) writes: Vec<(usize, usize)>,
    /// The write that takes the place of a read.
    pub(super) in_place: Vec<(usize, usize)>,
}

impl Loop {
    /// Returns the dtype of an operand; a number has the one that is wanted.
    pub(super) fn dtype_of(&self, operand: Operand, wanted: DType) -> DType {
        match operand {
            Operand::Load(i) => self.reads[i as usize].dtype,
            Operand::Step(i) => self.ops[i as usize].dtype,
            Operand::Number(_) => wanted,
            Operand::Size(_) => DType::I64,
        }
    }
}

/// What an integer is.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Size(Dim),
    /// The first element of a value of integers.
    Element(View),
}

/// A step of a program.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Comment(String),
    Call(Call),
    Loop(Loop),
    /// Runs one of two lists of steps.
    Branch {
        test: View,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    /// Runs while `test`, which `before` computes, is true.
    While {
        before: Vec<Step>,
        test: View,
        body: Vec<Step>,
    },
    /// Runs `rounds` times; `index` is the number of the round.
    For {
        index: Symbol,
        rounds: Source,
        body: Vec<Step>,
    },
    /// Gives sizes that data decide their values, all at once.
    Bind(Vec<(Symbol, Source)>),
    /// Makes memory for a buffer whose length such sizes tell.
    Grow(usize),
    /// Fails if a size is negative.
    Require(Dim),
}

impl Step {
    /// Returns whether it draws random numbers.
    pub(super) fn draws(&self) -> bool {
        let any = |steps: &[Step]| steps.iter().any(Step::draws);
        match self {
            Step::Call(call) => call.function.starts_with("random::"),
            Step::Branch { then, otherwise, .. } => any(then) || any(otherwise),
            Step::While { before, body, .. } => any(before) || any(body),
            Step::For { body, .. } => any(body),
            _ => false,
        }
    }
}
