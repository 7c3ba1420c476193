//! What an engine and a code generator say to each other: loops over elements as data ([`LoopBody`]), and how the
//! functions that are made of them are called ([`Call`]).
//!
//! A chunk is a block of elements, or some whole rows. Its [steps](loops::Step) are pointwise operations, which
//! become loops of compiled code, and others, for which that code calls the engine back. Invariant: sizes are no
//! part of a chunk's description, so that one function serves all.

use std::ffi::c_void;

use crate::{Result, loops};

/// The version of [`Call`] and of how it is used.
pub const ABI: u32 = 1;

/// A step of a chunk; numbers are the bits of elements in the dtype of the operand or parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The computation, of operands in the dtype that it takes; sizes are numbers by now.
    pub step: loops::Step<u64>,
    /// Whether its result has one element for each row, not one for each element of the chunk.
    pub per_row: bool,
    /// The result of the chunk that it is.
    pub store: Option<u16>,
}

/// How an operand of a chunk lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Elements beside each other, row after row.
    Dense,
    /// Elements of a row beside each other, rows anywhere.
    Rows,
    /// One element for all of a row.
    Splat,
    /// Some other way; the engine gathers the elements first.
    Scattered,
    /// One element for each row; the engine gathers them if they are not beside each other.
    PerRow,
    /// One row, the same for all; only steps of the engine read it.
    Once,
}

/// An operand of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Load {
    /// How it lies in memory.
    pub access: Access,
    /// The result that is written over it, element by element.
    pub overwritten: Option<u16>,
    /// Whether its memory may be that of a result otherwise, so that the engine must copy it first.
    pub is_copied: bool,
}

/// The computation of a block of elements, or of some rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopBody {
    /// The operands.
    pub loads: Vec<Load>,
    /// The steps, each after those that it needs.
    pub steps: Vec<Step>,
}

/// How a function wants an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Where it lies.
    InPlace,
    /// With the elements of the chunk beside each other.
    Gathered,
    /// Not at all.
    Unused,
}

/// Memory that a function asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whether it holds one element for each row, not one for each element of a chunk.
    pub per_row: bool,
    /// The bytes of an element.
    pub size: usize,
}

/// A function made of a loop body, and what it wants to be given.
#[derive(Clone, Debug)]
pub struct Routine {
    /// The function.
    pub function: Function,
    /// How it wants each operand.
    pub loads: Vec<Given>,
    /// The memory that it asks for.
    pub slots: Vec<Slot>,
    /// The bits of numbers that it is given.
    pub numbers: Vec<u64>,
    /// Whether it leaves steps to the engine.
    pub calls_engine: bool,
}

/// An operand in a call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The first element.
    pub at: *const u8,
    /// The bytes from a row to the next one.
    pub row: usize,
}

/// The arguments of a [`Function`].
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// The operands.
    pub loads: *const Source,
    /// The results.
    pub stores: *const *mut u8,
    /// The memory that the function asked for.
    pub slots: *const *mut u8,
    /// The bits of numbers.
    pub numbers: *const u64,
    /// The elements of the chunk.
    pub len: usize,
    /// The rows of the chunk.
    pub rows: usize,
    /// Does a step: is given [`host`](Self::host), the number of the step, its operands (null for numbers),
    /// and its result.
    pub step: unsafe extern "C" fn(*const c_void, u32, *const *const u8, *mut u8),
    /// What the engine knows of the chunk.
    pub host: *const c_void,
}

/// A compiled loop body.
///
/// It may be called with operands, results and memory as the [`Routine`] describes them, for chunks of at
/// least one element.
pub type Function = unsafe extern "C" fn(&Call);

/// Makes functions of loop bodies.
pub trait Assemble: Send + Sync {
    /// Returns a function for each body; `None` where the engine is to do the steps itself.
    fn assemble(&self, bodies: &[LoopBody]) -> Result<Vec<Option<Routine>>>;
}
