//! The bytecode of a function.

use std::sync::Arc;

use fx_core::{Error, SourceLoc};

use super::Operator;
use crate::host::HostFunction;
use crate::ir;
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

/// Arithmetic of one or two numbers; other values take the long way, by the function of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Remainder,
    Neg,
}

/// A test of one or two numbers or truth values; other values take the long way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    Not,
    And,
    Or,
}

/// An operator that has a short way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    Arithmetic(Arithmetic),
    Test(Test),
}

/// The operators that have a short way for values of their types.
pub(super) const SHORT: &[(&str, Short)] = &[
    ("aten::add.int", Short::Arithmetic(Arithmetic::Add)),
    ("aten::sub.int", Short::Arithmetic(Arithmetic::Sub)),
    ("aten::mul.int", Short::Arithmetic(Arithmetic::Mul)),
    ("aten::floordiv.int", Short::Arithmetic(Arithmetic::FloorDiv)),
    ("aten::remainder.int", Short::Arithmetic(Arithmetic::Remainder)),
    ("aten::neg.int", Short::Arithmetic(Arithmetic::Neg)),
    ("aten::add.float", Short::Arithmetic(Arithmetic::Add)),
    ("aten::sub.float", Short::Arithmetic(Arithmetic::Sub)),
    ("aten::mul.float", Short::Arithmetic(Arithmetic::Mul)),
    ("aten::div.float", Short::Arithmetic(Arithmetic::Div)),
    ("aten::neg.float", Short::Arithmetic(Arithmetic::Neg)),
    ("aten::lt.int", Short::Test(Test::Lt)),
    ("aten::le.int", Short::Test(Test::Le)),
    ("aten::gt.int", Short::Test(Test::Gt)),
    ("aten::ge.int", Short::Test(Test::Ge)),
    ("aten::eq.int", Short::Test(Test::Eq)),
    ("aten::ne.int", Short::Test(Test::Ne)),
    ("aten::lt.float", Short::Test(Test::Lt)),
    ("aten::le.float", Short::Test(Test::Le)),
    ("aten::gt.float", Short::Test(Test::Gt)),
    ("aten::ge.float", Short::Test(Test::Ge)),
    ("aten::eq.float", Short::Test(Test::Eq)),
    ("aten::ne.float", Short::Test(Test::Ne)),
    ("aten::__not__", Short::Test(Test::Not)),
    ("aten::__and__.bool", Short::Test(Test::And)),
    ("aten::__or__.bool", Short::Test(Test::Or)),
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
    /// Jumps unless a test of numbers is true; the site is the long way, whose result is `result`.
    JumpUnlessTest {
        kind: Test,
        a: Register,
        b: Register,
        to: u32,
        site: u32,
        result: Register,
    },
    /// Begins the first round: sets the counter and the number of the round to 0, or jumps if there is no round.
    First {
        counter: Register,
        limit: Register,
        number: Register,
        done: u32,
    },
    /// Begins the next round at `head`, or goes on if all rounds are done.
    Next {
        counter: Register,
        limit: Register,
        number: Register,
        head: u32,
    },
    /// Begins the next round of a loop that does not count.
    Again {
        head: u32,
    },
    /// The site is the long way.
    Arithmetic {
        kind: Arithmetic,
        to: Register,
        a: Register,
        b: Register,
        site: u32,
    },
    /// The site is the long way.
    Test {
        kind: Test,
        to: Register,
        a: Register,
        b: Register,
        site: u32,
    },
    /// Appends to a list; nothing uses the result. The site is the long way.
    Append {
        list: Register,
        item: Register,
        site: u32,
    },
    /// Takes an item of a list; the site is the long way.
    GetItem {
        to: Register,
        list: Register,
        at: Register,
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
    /// What it does, for people.
    pub(super) operation: ir::Instruction,
    pub(super) args: Box<[Register]>,
    pub(super) results: Box<[Register]>,
    /// Registers that are not used again.
    pub(super) last: Box<[Register]>,
    pub(super) action: Action,
}

/// An attribute: its name, and its place in the class that the types tell.
pub(super) struct Slot {
    pub(super) name: Arc<str>,
    pub(super) known: Option<Known>,
}

/// The place of an attribute or the number of a method in a class.
pub(super) struct Known {
    pub(super) class: Arc<Class>,
    pub(super) at: usize,
}

impl Known {
    /// Returns the place, if an object has this very class.
    pub(super) fn of(known: Option<&Known>, class: &Arc<Class>) -> Option<usize> {
        known.filter(|known| Arc::ptr_eq(&known.class, class)).map(|known| known.at)
    }
}

pub(super) enum Action {
    Host(HostFunction),
    Operator(Box<dyn Operator>),
    /// An operator that does not exist.
    Missing(Arc<str>, Error),
    Function(usize),
    Method(Arc<str>, Option<Known>),
    New(Arc<Class>),
    GetAttr(Slot),
    SetAttr(Slot),
    Tuple(Option<Arc<NamedTuple>>),
    List,
    Dict,
    Item(i64),
    Unpack,
    IsInstance(Vec<Type>),
}
