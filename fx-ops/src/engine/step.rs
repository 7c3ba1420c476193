//! The steps of a plan and the values that they compute.

use std::sync::Arc;

use fx_core::array::Sizes;
use fx_core::{Arg, DType, Graph, NodeId, Op, Result, TypeTree, Value};

use super::Compiled;
use super::kernel::Kernel;
use super::operand::{Operand, ValueId};

/// Where a value lives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Home {
    /// It is given: the input of this number.
    Input(usize),
    /// A buffer, as it is when the call begins.
    Buffer(Arc<str>),
    /// A parameter or constant.
    Constant(usize),
    /// In the block of memory.
    Memory,
    /// In an array of its own, which a kernel writes.
    Array,
    /// What an operation gave when it was evaluated.
    Evaluated,
}

/// A value of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Info {
    pub(crate) home: Home,
    pub(crate) dtype: DType,
    pub(crate) shape: Sizes,
    pub(crate) numel: usize,
}

impl Info {
    /// Returns the bytes of its elements.
    pub(crate) fn bytes(&self) -> usize {
        self.numel * self.dtype.size()
    }
}

/// A tensor in an argument of an operation that is evaluated.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The value.
    Whole(ValueId),
    /// A part of it, or another view.
    View(Operand),
}

/// What a step does.
pub(crate) enum Task {
    /// Runs a kernel, after the arrays that it writes were made.
    Kernel { kernel: Box<dyn Kernel>, writes: Vec<ValueId> },
    /// Evaluates an operation, or the module at a path. Numbers out of data are in the ranges of this type.
    Evaluate {
        call: Call,
        args: Vec<Arg<Source>>,
        value: ValueId,
        is_tensor: bool,
        numbers: Option<Arc<TypeTree>>,
    },
    /// Notes the new value of a buffer or of state.
    SetBuffer { path: Arc<str>, value: Arg<Source> },
}

/// A sub-graph as a program of its own.
pub(crate) struct SubProgram {
    pub(crate) graph: Arc<Graph>,
    pub(crate) program: Compiled,
    /// Which operands are constants of the program, in order.
    pub(crate) constants: Vec<usize>,
}

impl SubProgram {
    /// Runs it on the operands of the sub-graph.
    pub(crate) fn run(&self, mut operands: Vec<Value>) -> Result<Value> {
        for at in self.constants.iter().rev() {
            operands.remove(*at);
        }
        self.program.evaluate(&operands)
    }
}

/// Sub-graphs, and the programs that they became.
pub(crate) type SubPrograms = Arc<Vec<SubProgram>>;

#[derive(Clone)]
pub(crate) enum Call {
    Op(Op),
    /// An operation that runs sub-graphs, with those that are programs of their own.
    Control(Op, SubPrograms),
    Module(Arc<str>),
}

impl Task {
    /// Says what it does.
    pub(crate) fn describe(&self) -> String {
        match self {
            Task::Kernel { kernel, .. } => kernel.describe(),
            Task::Evaluate { call: Call::Op(op), .. } => format!("evaluate {}", op.name),
            Task::Evaluate { call: Call::Control(op, _), .. } => {
                format!("evaluate {}, its sub-graphs planned", op.name)
            }
            Task::Evaluate { call: Call::Module(path), .. } => format!("call {path}"),
            Task::SetBuffer { path, .. } => format!("update {path}"),
        }
    }
}

/// A step of a plan.
pub(crate) struct Step {
    pub(crate) task: Task,
    /// The node that it computes, the last one of a group.
    pub(crate) node: NodeId,
    /// The evaluated values that nobody uses later.
    pub(crate) frees: Vec<ValueId>,
    /// How many of the steps after it, which are kernels too, run at the same time.
    pub(crate) concurrent: usize,
    /// Its number in the record of the plan.
    pub(crate) made: u32,
}

/// Calls `f` with every value in an argument.
pub(crate) fn sources(arg: &Arg<Source>, f: &mut dyn FnMut(ValueId)) {
    arg.for_each_leaf(&mut |source| match source {
        Source::Whole(value) => f(*value),
        Source::View(operand) => f(operand.value),
    });
}
