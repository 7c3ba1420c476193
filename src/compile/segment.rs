//! [`Segment`]: a straight piece of graph that was recorded and is compiled as one program.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use fx_simd::PerThread;
use smallvec::SmallVec;

use super::backend::{Backend, Executable};
use super::build::{self, Constants};
use super::event::{self, Bound, Difference, Event, Known, Operand, Outcome, Types, View, Wire, number};
use super::journal::{Journal, add, sum};
use super::narrow::Narrowing;
use super::report::{End, Place};
use crate::{
    Arg, Array, Category, DType, Dim, Error, GraphModule, Result, Scalar, Symbol, Tensor, TensorType, Value,
    err,
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

impl Expected {
    fn address(&self) -> usize {
        match self {
            Expected::Constant(array) => Arc::as_ptr(array).addr(),
            Expected::Input { .. } => 0,
        }
    }
}

/// A number that varied.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    /// It follows from the symbols. One that no size of a tensor tells has the value of the first such number.
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
    is_random: bool,
    pub(super) events: Vec<Event>,
    pub(super) outside: Vec<Expected>,
    /// The addresses of the constants among these, which live as long as the segment; 0 for others.
    constants: Vec<usize>,
    pub(super) symbols: Vec<Symbol>,
    /// The symbols that no size of a tensor tells: integers of operations, which the program takes as arguments.
    pub(super) integers: SmallVec<[u32; 2]>,
    pub(super) slots: Vec<(u32, Slot)>,
    pub(super) observations: Vec<Observation>,
    /// Where it ended when it was recorded.
    pub(super) end: Place,
    /// The place where it ended first as a break, with the count of these.
    break_count: OnceLock<(Place, Arc<AtomicU64>)>,
    /// The segment that came after it last.
    pub(super) next: AtomicU64,
    uses: PerThread<Uses>,
    nanoseconds: AtomicU64,
    /// So many runs took that time.
    timed: AtomicU64,
    /// The values of the symbols that the rules of all operations accept.
    accepted: ArcSwap<Vec<SmallVec<[i64; 4]>>>,
    program: ArcSwapOption<Prepared>,
    pub(super) narrowing: Narrowing,
    preparing: Mutex<()>,
}

/// How each thread uses a segment.
#[derive(Default)]
struct Uses {
    /// The number of the call that used it last.
    last: AtomicU64,
    runs: AtomicU64,
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

/// Which program of a segment was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// None: there was one.
    Before,
    /// The first one.
    First,
    /// One that returns more than the one before.
    Wider,
    /// One without results that nobody uses.
    Narrower,
}

/// How long the steps of a compilation took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    pub(super) graph: Duration,
    pub(super) backend: Duration,
}

impl Segment {
    /// So many values of symbols are remembered.
    const MOST_ACCEPTED: usize = 64;
    /// So many of the first runs of a thread are timed, and one of so many afterwards.
    const ALL_TIMED: u64 = 16;
    const TIMED: u64 = 64;

    pub(super) fn new(
        id: u64,
        (events, outside): (Vec<Event>, Vec<Expected>),
        (symbols, slots): (Vec<Symbol>, Vec<(u32, Slot)>),
        observations: Vec<Observation>,
        end: Place,
    ) -> Segment {
        let is_size = |symbol: u32| {
            outside.iter().any(|expected| match expected {
                Expected::Input { sizes, .. } => sizes.contains(&Size::Symbol(symbol)),
                Expected::Constant(_) => false,
            })
        };
        Segment {
            id,
            integers: (0..symbols.len() as u32).filter(|symbol| !is_size(*symbol)).collect(),
            is_random: events.iter().any(|event| event.op.effects.random),
            events,
            constants: outside.iter().map(Expected::address).collect(),
            outside,
            symbols,
            slots,
            observations,
            end,
            break_count: OnceLock::new(),
            next: AtomicU64::new(0),
            uses: PerThread::default(),
            nanoseconds: AtomicU64::new(0),
            timed: AtomicU64::new(0),
            accepted: ArcSwap::default(),
            program: ArcSwapOption::empty(),
            narrowing: Narrowing::default(),
            preparing: Mutex::new(()),
        }
    }

    /// Returns what is known of a number that varied.
    pub(super) fn slot(&self, literal: u32) -> Option<&Slot> {
        self.slots.iter().find(|(other, _)| *other == literal).map(|(_, slot)| slot)
    }

    /// Returns the value of a size; `None` if one of its symbols is not bound yet.
    pub(super) fn value_of(&self, size: &Dim, bound: &Bound) -> Option<i64> {
        let lookup = |symbol: &Symbol| bound.symbol(self.symbols.iter().position(|other| other == symbol)?);
        size.eval(&lookup).ok()
    }

    /// Binds the only open symbol of a size that has this value. `None` if that tells no symbol, or one that is
    /// out of its range.
    pub(super) fn solve(&self, size: &Dim, value: i64, bound: &mut Bound) -> Option<()> {
        let number = |symbol: &Symbol| self.symbols.iter().position(|other| other == symbol);
        let rest = size.substitute(&|symbol| Some(Dim::new(bound.symbol(number(symbol)?)?)));
        let fits = |(symbol, value): &(Symbol, i64)| *value >= symbol.min() && *value != Bound::OPEN;
        let (symbol, value) = rest.solve(value).filter(fits)?;
        bound.bind(number(&symbol)? as u32, value).ok()
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
        results: &dyn Fn(usize) -> Types,
    ) -> Result<Vec<Event>> {
        let mut log = Vec::with_capacity(n);
        for (at, event) in self.events[..n].iter().enumerate() {
            let mut event = event.rewrite(&mut |arg| match arg {
                Arg::Leaf(Wire::Literal(literal)) => {
                    let number = match self.slot(*literal) {
                        Some(Slot::Size(size)) => self.value_of(size, bound).map(Scalar::Int),
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

    /// Returns the program that returns at least these results; makes one if there is none, or if the present one
    /// computes results that are left out. The second value says which was made now.
    pub(super) fn prepare(
        &self,
        wanted: &[u32],
        backend: &dyn Backend,
        constants: &Constants,
    ) -> (Arc<Prepared>, Made) {
        let dropped = self.narrowing.dropped();
        let is_dropped =
            |local: &u32| dropped.as_ref().is_some_and(|dropped| dropped.binary_search(local).is_ok());
        let has_all = |prepared: &Prepared| wanted.iter().all(|local| prepared.outputs.contains(local));
        let fits = |prepared: &Prepared| {
            has_all(prepared) && (dropped.is_none() || !prepared.outputs.iter().any(is_dropped))
        };
        let current = || self.program.load_full();
        if let Some(prepared) = current().filter(|prepared| fits(prepared)) {
            return (prepared, Made::Before);
        }
        let _preparing: MutexGuard<'_, ()> = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = current();
        if let Some(prepared) = before.as_ref().filter(|prepared| fits(prepared)) {
            return (prepared.clone(), Made::Before);
        }
        let made = match &before {
            None => Made::First,
            Some(prepared) if has_all(prepared) => Made::Narrower,
            Some(_) => Made::Wider,
        };
        let mut outputs = before.map_or_else(Vec::new, |prepared| prepared.outputs.clone());
        outputs.retain(|local| !is_dropped(local));
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
        self.program.store(Some(prepared.clone()));
        (prepared, made)
    }

    /// Returns about how many bytes it holds besides parameters.
    pub(super) fn bytes(&self) -> usize {
        let program = self.program.load();
        let program = program.as_ref().and_then(|prepared| prepared.program.as_ref().ok());
        program.map_or(0, |program| program.bytes()) + self.events.len() * size_of::<Event>()
    }

    /// Returns the program, if there is one.
    pub(super) fn prepared(&self) -> Guard<Option<Arc<Prepared>>> {
        self.program.load()
    }

    /// Lets every call run operation by operation from now on.
    pub(super) fn demote(&self, error: &Error) {
        let _preparing = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = self.program.load_full() {
            let (outputs, module) = (prepared.outputs.clone(), prepared.module.clone());
            let times = prepared.times;
            self.program.store(Some(Arc::new(Prepared {
                outputs,
                module,
                program: Err(error.clone()),
                times,
            })));
        }
    }

    /// Returns the arguments of the program in a call.
    pub(super) fn inputs(&self, bound: &Bound) -> Result<SmallVec<[Value; 4]>> {
        let mut inputs = SmallVec::new();
        for (input, array) in bound.arrays(self).enumerate() {
            if self.is_input(input) {
                inputs.push(Arg::Leaf(Tensor::from_shared(array.clone())));
            }
        }
        self.add_numbers(bound, &mut inputs)?;
        Ok(inputs)
    }

    /// Returns whether a tensor from outside is an argument of the program.
    pub(super) fn is_input(&self, at: usize) -> bool {
        matches!(self.outside[at], Expected::Input { .. })
    }

    /// Returns whether a tensor from outside is a constant.
    #[inline]
    pub(super) fn is_constant(&self, at: usize) -> bool {
        self.constants[at] != 0
    }

    /// Returns how many arguments of the program are numbers.
    pub(super) fn n_numbers(&self) -> usize {
        let floats = self.slots.iter().filter(|(_, slot)| matches!(slot, Slot::Number { .. }));
        floats.count() + self.integers.len()
    }

    /// Adds the numbers that vary to the arguments of the program.
    pub(super) fn add_numbers(&self, bound: &Bound, inputs: &mut SmallVec<[Value; 4]>) -> Result<()> {
        for symbol in &self.integers {
            let value = bound
                .symbol(*symbol as usize)
                .ok_or_else(|| err!(Trace, "an integer of a compiled segment is not bound"))?;
            inputs.push(Arg::Int(value));
        }
        for (literal, slot) in &self.slots {
            if let Slot::Number { dtype, .. } = slot {
                let number = bound
                    .number(*literal)
                    .ok_or_else(|| err!(Trace, "a number of a compiled segment is not bound"))?;
                inputs.push(Arg::Leaf(Tensor::from(Array::full(*dtype, &[], number)?)));
            }
        }
        Ok(())
    }

    /// Returns whether it comes from a file.
    pub(super) fn is_loaded(&self) -> bool {
        matches!(self.end.end, End::Loaded(_))
    }

    /// Returns whether an event draws random numbers.
    pub(super) fn is_random(&self) -> bool {
        self.is_random
    }

    /// Checks a tensor from outside at its first use, and binds the symbols of its sizes.
    pub(super) fn guard(&self, input: u32, array: &Arc<Array>, bound: &mut Bound) -> Result<(), Difference> {
        if self.constants[input as usize] == Arc::as_ptr(array).addr() {
            return Ok(());
        }
        let (dtype, sizes) = match &self.outside[input as usize] {
            Expected::Constant(_) => return Err(Difference::Constant { input }),
            Expected::Input { dtype, sizes, .. } => (*dtype, sizes),
        };
        if array.dtype() != dtype {
            return Err(Difference::DType { input, expected: dtype, got: array.dtype() });
        }
        let shape = array.shape();
        if shape.len() != sizes.len() {
            return Err(Difference::Rank { input, expected: sizes.len(), got: shape.len() });
        }
        for (axis, (size, &got)) in sizes.iter().zip(shape).enumerate() {
            let got = got as i64;
            match *size {
                Size::Is(expected) if expected == got => {}
                Size::Is(expected) => return Err(Difference::Size { input, axis, expected, got }),
                Size::Symbol(symbol) => bound.bind(symbol, got).map_err(|expected| Difference::Relation {
                    input,
                    axis,
                    expected,
                    got,
                })?,
            }
        }
        Ok(())
    }

    /// Returns whether the values of the symbols are known to be accepted.
    pub(super) fn has_accepted(&self, bound: &Bound) -> bool {
        self.symbols.is_empty() || self.accepted.load().contains(&bound.symbols)
    }

    /// Returns whether the rules of all operations accept the values of the symbols. Each new one is tried once.
    pub(super) fn accepts(&self, bound: &Bound) -> bool {
        if self.has_accepted(bound) {
            return true;
        }
        let accepts = self.try_rules(bound).is_some();
        if accepts {
            self.accepted.rcu(|accepted| {
                let first = usize::from(accepted.len() >= Segment::MOST_ACCEPTED);
                accepted[first..].iter().chain([&bound.symbols]).cloned().collect::<Vec<_>>()
            });
        }
        accepts
    }

    /// Infers the types of all results. `None` if a rule refuses, or gives another type than the event has.
    fn try_rules(&self, bound: &Bound) -> Option<()> {
        let ty = |array: &Arc<Array>| TensorType::new(array.dtype(), array.shape());
        let outside: Vec<TensorType> = bound.arrays(self).map(ty).collect();
        let mut locals: Vec<Arc<TensorType>> = Vec::new();
        for (at, event) in
            self.log(self.events.len(), bound, &|at| self.events[at].result.clone()).ok()?.iter().enumerate()
        {
            let mut type_of = |wire: &Wire| match wire {
                Wire::Local(local) => Ok(TensorType::clone(&locals[*local as usize]).into()),
                Wire::Outside(input) => Ok(outside[*input as usize].clone().into()),
                Wire::Literal(_) => Err(err!(Trace, "a log has no numbers that vary")),
            };
            let outcome = event::infer(event.op, &event.args, &event.kwargs, &mut type_of);
            let Outcome::Tensors(types) = outcome else { return None };
            if !self.has_types(bound, &self.events[at], &types) {
                return None;
            }
            locals.extend(types.leaves().into_iter().cloned());
        }
        Some(())
    }

    /// Returns whether the types of an event are these, for the symbols that are bound.
    pub(super) fn has_types(&self, bound: &Bound, event: &Event, types: &Types) -> bool {
        let (symbolic, known) = (event.result.leaves(), types.leaves());
        symbolic.len() == known.len()
            && symbolic.into_iter().zip(known).all(|(symbolic, known)| {
                let mut sizes = symbolic.shape.iter().zip(known.shape.iter());
                symbolic.dtype == known.dtype
                    && symbolic.rank() == known.rank()
                    && sizes.all(|(a, b)| self.value_of(a, bound) == b.known())
            })
    }

    /// Returns whether another segment has the same operations and inputs, but for sizes and numbers.
    pub(super) fn has_events_of(&self, other: &Segment) -> bool {
        super::dynamic::is_relative(self, &other.events, &other.outside)
    }

    /// Returns the line of the operation with a number, counted among all numbers.
    pub(super) fn event_of_number(&self, number: usize) -> Option<&crate::SourceLoc> {
        let mut seen = 0;
        let event = self.events.iter().find(|event| {
            for arg in event.arguments() {
                arg.walk(&mut |arg| {
                    let varies = matches!(arg, Arg::Leaf(Wire::Literal(_)));
                    seen += usize::from(varies || event::number(arg).is_some());
                });
            }
            seen > number
        });
        event.map(|event| &event.source)
    }

    /// Notes that the segment ended here. The usual place is counted without a lock.
    pub(super) fn note_end(&self, place: &Place, journal: &Journal) {
        let Some(code) = place.end.code() else { return };
        match self.break_count.get() {
            Some((usual, count)) if usual == place => add(count, 1),
            _ => {
                let count = journal.note(code, place.end.what(), place.at.clone());
                let _ = self.break_count.set((place.clone(), count));
            }
        }
    }

    /// Begins a run. Some runs are timed: a clock takes longer than a small program.
    pub(super) fn begin_run(&self) -> Option<Instant> {
        let run = self.uses.own().runs.fetch_add(1, Ordering::Relaxed);
        (run < Segment::ALL_TIMED || run.is_multiple_of(Segment::TIMED)).then(Instant::now)
    }

    /// Notes the number of a call that uses it.
    pub(super) fn note_used(&self, call: u64) {
        self.uses.own().last.store(call, Ordering::Relaxed);
    }

    /// Returns the number of the call that used it last.
    pub(super) fn used(&self) -> u64 {
        self.uses.all().map(|uses| uses.last.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    /// Returns how many runs there were.
    pub(super) fn runs(&self) -> u64 {
        sum(&self.uses, |uses| &uses.runs)
    }

    /// Ends a run.
    pub(super) fn end_run(&self, started: Option<Instant>) {
        if let Some(started) = started {
            let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
            self.timed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the time of a run, in the mean of those that were timed.
    pub(super) fn run_time(&self) -> Duration {
        let (total, runs) = (self.nanoseconds.load(Ordering::Relaxed), self.timed.load(Ordering::Relaxed));
        Duration::from_nanos(total.checked_div(runs).unwrap_or(0))
    }
}

/// The tensors from outside of a log.
#[derive(Clone, Copy)]
pub(super) struct Wired<'a>(pub(super) &'a [Known]);

impl View for Wired<'_> {
    type Leaf = Wire;
    fn operand<'l>(self, wire: &'l Wire) -> Operand<'l>
    where
        Self: 'l,
    {
        match wire {
            Wire::Local(local) => Operand::Local(*local),
            Wire::Outside(at) => Operand::Known(self.0[*at as usize].identity, &self.0[*at as usize].array),
            // A log has no numbers that vary.
            Wire::Literal(_) => Operand::Local(u32::MAX),
        }
    }
}
