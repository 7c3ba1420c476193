//! The bytecode of a function.

use std::sync::Arc;

use fx_core::{Error, SourceLoc};

use super::Operator;
use crate::host::HostFunction;
use crate::types::Type;
use crate::value::{Class, NamedTuple, Value};

/// The number of a register in its frame.
pub(super) type Register = u32;

/// A function as bytecode.
pub(super) struct Code {
    pub(super) name: Arc<str>,
    pub(super) n_params: usize,
    /// The frame at the start of a call: constants in their registers, nothing in the others.
    pub(super) frame: Vec<Value>,
    /// The registers of the parameters.
    pub(super) params: Vec<Register>,
    pub(super) instructions: Vec<Instruction>,
    /// The place of each instruction.
    pub(super) sources: Vec<Option<SourceLoc>>,
    pub(super) sites: Vec<Site>,
}

impl Code {
    /// The operators that do not exist.
    pub(super) fn missing(&self) -> impl Iterator<Item = (String, Option<SourceLoc>)> + '_ {
        self.instructions.iter().zip(&self.sources).filter_map(|(instruction, source)| {
            let Instruction::Run { site } = instruction else { return None };
            match &self.sites[*site as usize].action {
                Action::Missing(name, _) => Some((name.to_string(), source.clone())),
                _ => None,
            }
        })
    }
}

/// An instruction on two numbers; other values take the long way, by the function of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    AddInt,
    SubInt,
    MulInt,
    LtInt,
    LeInt,
    GtInt,
    GeInt,
    EqInt,
    NeInt,
    AddFloat,
    SubFloat,
    MulFloat,
    DivFloat,
    LtFloat,
    LeFloat,
    GtFloat,
    GeFloat,
}

/// The instructions that have a short way, by the operator that they are.
pub(super) const NUMBERS: &[(&str, Number)] = &[
    ("aten::add.int", Number::AddInt),
    ("aten::sub.int", Number::SubInt),
    ("aten::mul.int", Number::MulInt),
    ("aten::lt.int", Number::LtInt),
    ("aten::le.int", Number::LeInt),
    ("aten::gt.int", Number::GtInt),
    ("aten::ge.int", Number::GeInt),
    ("aten::eq.int", Number::EqInt),
    ("aten::ne.int", Number::NeInt),
    ("aten::add.float", Number::AddFloat),
    ("aten::sub.float", Number::SubFloat),
    ("aten::mul.float", Number::MulFloat),
    ("aten::div.float", Number::DivFloat),
    ("aten::lt.float", Number::LtFloat),
    ("aten::le.float", Number::LeFloat),
    ("aten::gt.float", Number::GtFloat),
    ("aten::ge.float", Number::GeFloat),
];

#[derive(Clone, Copy, Debug)]
pub(super) enum Instruction {
    /// Copies a register.
    Copy {
        to: Register,
        from: Register,
    },
    /// Moves a register that is not used again.
    Move {
        to: Register,
        from: Register,
    },
    Jump {
        to: u32,
    },
    /// Jumps unless a register is true.
    JumpUnless {
        test: Register,
        to: u32,
    },
    /// Begins a round: writes its number, or jumps if all rounds are done.
    Round {
        counter: Register,
        limit: Register,
        number: Register,
        done: u32,
    },
    /// Sets a counter to 0.
    Start {
        counter: Register,
    },
    /// Two numbers with a short way; the site is the long one.
    Number {
        kind: Number,
        to: Register,
        a: Register,
        b: Register,
        site: u32,
    },
    /// Anything with a site.
    Run {
        site: u32,
    },
    /// Runs the instructions up to `end` as a task.
    Fork {
        to: Register,
        result: Register,
        end: u32,
    },
    /// Ends a task.
    EndTask,
    Return {
        from: Register,
    },
}

/// The operands, results and action of an instruction.
pub(super) struct Site {
    pub(super) args: Box<[Register]>,
    pub(super) results: Box<[Register]>,
    /// Registers that are not used again.
    pub(super) last: Box<[Register]>,
    pub(super) action: Action,
}

pub(super) enum Action {
    Host(HostFunction),
    Operator(Box<dyn Operator>),
    /// An operator that does not exist.
    Missing(Arc<str>, Error),
    Function(usize),
    Method(Arc<str>),
    New(Arc<Class>),
    GetAttr(Arc<str>),
    SetAttr(Arc<str>),
    Tuple(Option<Arc<NamedTuple>>),
    List,
    Dict,
    Item(i64),
    Unpack,
    IsInstance(Vec<Type>),
}
