//! [`Segment`]: a straight piece of graph that was recorded and is compiled as one program.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::backend::{Backend, Executable};
use super::build::{self, Constants};
use super::event::{Bound, Event, Known, Operand, View, Wire, number};
use super::report::Place;
use crate::{
    Arg, Array, Category, DType, Dim, Error, GraphModule, Result, Scalar, Symbol, Tensor, Value, err,
};

/// A size of a tensor from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Size {
    /// A number.
    Is(i64),
    /// A symbol of the segment.
    Symbol(u32),
}

/// What a tensor from outside must be.
#[derive(Clone)]
pub(super) enum Expected {
    /// This very tensor, a parameter of the module.
    Constant(Arc<Array>),
    /// A tensor of this dtype and these sizes.
    Input { name: Arc<str>, dtype: DType, sizes: SmallVec<[Size; 4]> },
}

/// A number that varied.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    /// It follows from the symbols.
    Size(Dim),
    /// It is passed as a tensor of rank 0.
    Number { category: Category, dtype: DType },
}

/// The sizes and numbers of one call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observation {
    /// The sizes of each tensor from outside; none for a constant.
    pub(super) sizes: Vec<SmallVec<[i64; 4]>>,
    /// The numbers in all literals, in order.
    pub(super) literals: Vec<Scalar>,
}

/// A segment: what calls are compared with, and the program.
pub(super) struct Segment {
    pub(super) id: u64,
    pub(super) events: Vec<Event>,
    pub(super) outside: Vec<Expected>,
    pub(super) symbols: Vec<Symbol>,
    pub(super) slots: Vec<(u32, Slot)>,
    pub(super) observations: Vec<Observation>,
    /// Where it ended when it was recorded.
    pub(super) end: Place,
    /// The segment that came after it last.
    pub(super) next: AtomicU64,
    /// The call that used it last.
    pub(super) used: AtomicU64,
    pub(super) runs: AtomicU64,
    pub(super) nanoseconds: AtomicU64,
    program: RwLock<Option<Arc<Prepared>>>,
    preparing: Mutex<()>,
}

/// A segment that a backend made ready.
pub(super) struct Prepared {
    /// The results that the program returns, in order.
    pub(super) outputs: Vec<u32>,
    pub(super) module: Arc<GraphModule>,
    /// The program, or why the backend made none.
    pub(super) program: Result<Box<dyn Executable>>,
    pub(super) times: Times,
}

/// How long the steps of a compilation took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    pub(super) graph: Duration,
    pub(super) backend: Duration,
}

impl Segment {
    pub(super) fn new(
        id: u64,
        (events, outside): (Vec<Event>, Vec<Expected>),
        (symbols, slots): (Vec<Symbol>, Vec<(u32, Slot)>),
        observations: Vec<Observation>,
        end: Place,
    ) -> Segment {
        Segment {
            id,
            events,
            outside,
            symbols,
            slots,
            observations,
            end,
            next: AtomicU64::new(0),
            used: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            program: RwLock::new(None),
            preparing: Mutex::new(()),
        }
    }

    /// Returns what is known of a number that varied.
    pub(super) fn slot(&self, literal: u32) -> Option<&Slot> {
        self.slots.iter().find(|(other, _)| *other == literal).map(|(_, slot)| slot)
    }

    /// Returns the value of a size for values of the symbols; `None` if one of them is not bound yet.
    pub(super) fn value_of(&self, size: &Dim, values: &[i64]) -> Option<i64> {
        let lookup = |symbol: &Symbol| {
            let at = self.symbols.iter().position(|other| other == symbol)?;
            values.get(at).copied()
        };
        size.eval(&lookup).ok()
    }

    /// Returns the name of a tensor from outside, for messages.
    pub(super) fn input_name(&self, input: u32) -> &str {
        match &self.outside[input as usize] {
            Expected::Input { name, .. } => name,
            Expected::Constant(_) => "a parameter",
        }
    }

    /// Returns the first event with a tensor from outside.
    pub(super) fn first_use(&self, input: u32) -> Option<&Event> {
        self.events.iter().find(|event| {
            let mut uses = false;
            event.arguments().for_each(|arg| {
                arg.for_each_leaf(&mut |wire| uses |= *wire == Wire::Outside(input));
            });
            uses
        })
    }

    /// Returns the sizes and numbers of a segment whose literals are all in its events.
    pub(super) fn observe(
        events: &[Event],
        outside: &[Known],
        is_constant: &dyn Fn(&Known) -> bool,
    ) -> Observation {
        let sizes = outside.iter().map(|known| match is_constant(known) {
            true => SmallVec::new(),
            false => known.array.shape().iter().map(|size| *size as i64).collect(),
        });
        let mut literals = Vec::new();
        for event in events {
            for arg in event.arguments() {
                arg.walk(&mut |arg| literals.extend(number(arg)));
            }
        }
        Observation { sizes: sizes.collect(), literals }
    }

    /// Returns the first events as a log of this call, with its numbers in the place of those that vary.
    pub(super) fn log(
        &self,
        n: usize,
        bound: &Bound,
        results: &dyn Fn(usize) -> super::event::Types,
    ) -> Result<Vec<Event>> {
        let mut log = Vec::with_capacity(n);
        for (at, event) in self.events[..n].iter().enumerate() {
            let mut event = event.rewrite(&mut |arg| match arg {
                Arg::Leaf(Wire::Literal(literal)) => {
                    let number = match self.slot(*literal) {
                        Some(Slot::Size(size)) => self.value_of(size, &bound.symbols).map(Scalar::Int),
                        _ => bound.number(*literal),
                    };
                    match number {
                        Some(Scalar::Int(x)) => Ok(Some(Arg::Int(x))),
                        Some(Scalar::Float(x)) => Ok(Some(Arg::Float(x))),
                        _ => Err(err!(Trace, "a number of a compiled segment is not bound")),
                    }
                }
                Arg::Leaf(wire) => Ok(Some(Arg::Leaf(*wire))),
                _ => Ok(None),
            })?;
            event.result = results(at);
            event.seen = None;
            log.push(event);
        }
        Ok(log)
    }

    /// Returns the program that returns at least these results; makes one if there is none. The second value
    /// says whether it was made now.
    pub(super) fn prepare(
        &self,
        wanted: &[u32],
        backend: &dyn Backend,
        constants: &Constants,
    ) -> (Arc<Prepared>, bool) {
        let has_all = |prepared: &Prepared| wanted.iter().all(|local| prepared.outputs.contains(local));
        let current = || self.program.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(prepared) = current().filter(|prepared| has_all(prepared)) {
            return (prepared, false);
        }
        let _preparing: MutexGuard<'_, ()> = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = current();
        if let Some(prepared) = before.as_ref().filter(|prepared| has_all(prepared)) {
            return (prepared.clone(), false);
        }
        let mut outputs = before.map_or_else(Vec::new, |prepared| prepared.outputs.clone());
        outputs.extend(wanted.iter().filter(|local| !outputs.contains(local)).copied().collect::<Vec<_>>());
        outputs.sort_unstable();
        let started = Instant::now();
        let module = crate::lazy::without_following(|| build::module(self, &outputs, constants));
        let graph = started.elapsed();
        let prepared = match module {
            Ok(module) => {
                let started = Instant::now();
                let program = crate::lazy::without_following(|| backend.prepare(module.clone()));
                let times = Times { graph, backend: started.elapsed() };
                Prepared { outputs, module: Arc::new(module), program, times }
            }
            Err(error) => Prepared {
                outputs,
                module: Arc::new(GraphModule::new("segment", crate::Graph::new("main"))),
                program: Err(error),
                times: Times { graph, backend: Duration::ZERO },
            },
        };
        let prepared = Arc::new(prepared);
        *self.program.write().unwrap_or_else(PoisonError::into_inner) = Some(prepared.clone());
        (prepared, true)
    }

    /// Returns the program, if there is one.
    pub(super) fn prepared(&self) -> Option<Arc<Prepared>> {
        self.program.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets every call run operation by operation from now on.
    pub(super) fn demote(&self, error: &Error) {
        let mut program = self.program.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = program.as_ref() {
            let (outputs, module) = (prepared.outputs.clone(), prepared.module.clone());
            let times = prepared.times;
            *program = Some(Arc::new(Prepared { outputs, module, program: Err(error.clone()), times }));
        }
    }

    /// Returns the arguments of the program in a call.
    pub(super) fn inputs(&self, bound: &Bound) -> Result<Vec<Value>> {
        let mut inputs = Vec::with_capacity(self.outside.len() + self.slots.len());
        for (expected, known) in self.outside.iter().zip(&bound.outside) {
            if let Expected::Input { .. } = expected {
                inputs.push(Arg::Leaf(Tensor::from_shared(known.array.clone())));
            }
        }
        for (literal, slot) in &self.slots {
            if let Slot::Number { dtype, .. } = slot {
                let number = bound
                    .number(*literal)
                    .ok_or_else(|| err!(Trace, "a number of a compiled segment is not bound"))?;
                inputs.push(Arg::Leaf(Tensor::from(Array::full(*dtype, &[], number)?)));
            }
        }
        Ok(inputs)
    }

    /// Returns whether an event draws random numbers.
    pub(super) fn is_random(&self) -> bool {
        self.events.iter().any(|event| event.op.effects.random)
    }

    pub(super) fn note_run(&self, time: Duration) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// The tensors from outside of a log.
pub(super) struct Wired<'a>(pub(super) &'a [Known]);

impl View<Wire> for Wired<'_> {
    fn operand<'l>(&'l self, wire: &'l Wire) -> Operand<'l> {
        match wire {
            Wire::Local(local) => Operand::Local(*local),
            Wire::Outside(at) => Operand::Known(self.0[*at as usize].identity, &self.0[*at as usize].array),
            // A log has no numbers that vary.
            Wire::Literal(_) => Operand::Local(u32::MAX),
        }
    }
}
