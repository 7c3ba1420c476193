//! [`Step`]: what a recorded call did next, and [`Walk`]: a call that takes steps.

use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;

use super::super::event::{Bound, Difference, Outside};
use super::super::report::Code;
use super::super::segment::{Prepared, Segment, Slot};
use super::guard::{self, Term};
use super::tree::Place;
use crate::eval::Inputs;
use crate::rng::default_generator;
use crate::signature::{Open, for_each_integer};
use crate::{Arg, Array, Buffer, Op, Scalar, SourceLoc, Tensor, Value};

/// A buffer. A clone of a [`Buffer`] is another one; a clone of this is the same one.
#[derive(Debug)]
pub(in super::super) struct Cell(Buffer);

impl Cell {
    pub(super) fn new(buffer: &Buffer) -> Cell {
        Cell(buffer.share())
    }
}

impl Clone for Cell {
    fn clone(&self) -> Cell {
        Cell::new(&self.0)
    }
}

impl std::ops::Deref for Cell {
    type Target = Buffer;
    fn deref(&self) -> &Buffer {
        &self.0
    }
}

/// Where a tensor comes from on a path.
#[derive(Clone, Debug)]
pub(in super::super) enum Source {
    /// A tensor among the arguments, counted in order.
    Argument(u32),
    /// A result of a step; in a segment, by the number of the result.
    Result { step: u32, at: u32 },
    /// What a buffer holds.
    Buffer(Cell),
    /// A tensor that is the same in each call: a parameter, or one that Rust code makes or has captured.
    Constant(Arc<Array>),
}

impl Source {
    /// Returns whether both are the same, constants by their bits.
    pub(super) fn is_same(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Argument(a), Source::Argument(b)) => a == b,
            (Source::Result { step: a, at: i }, Source::Result { step: b, at: j }) => a == b && i == j,
            (Source::Buffer(a), Source::Buffer(b)) => a.address() == b.address(),
            (Source::Constant(a), Source::Constant(b)) => Arc::ptr_eq(a, b) || a.bits_eq(b),
            _ => false,
        }
    }
}

/// A leaf of an argument or result on a path.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Tensor(Source),
    Size(Term),
}

impl Item {
    fn is_same(&self, other: &Item) -> bool {
        match (self, other) {
            (Item::Tensor(a), Item::Tensor(b)) => a.is_same(b),
            (Item::Size(a), Item::Size(b)) => a == b,
            _ => false,
        }
    }
}

/// Where a number in an operation comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Is(Scalar),
    Size(Term),
}

/// What a path does next.
#[derive(Clone)]
pub(super) enum Step {
    /// Runs a segment, with all numbers in its operations.
    Run { segment: Arc<Segment>, inputs: Vec<Source>, numbers: Vec<Number> },
    /// Applies an operation that has to run by itself. The sizes of its results, by result and axis, and the
    /// integers among its results are symbols.
    Apply {
        op: Op,
        method: bool,
        args: Vec<Arg<Item>>,
        kwargs: Vec<(Arc<str>, Arg<Item>)>,
        source: SourceLoc,
    },
    /// Returns a result, stores to buffers, and counts the generators that forks of the call made.
    Return { result: Arg<Item>, updates: Vec<(Cell, Source)>, forks: u64 },
    /// Here the Rust code has to run.
    Stop { code: Code, what: Arc<str>, at: Option<SourceLoc> },
}

fn same_items(a: &[Arg<Item>], b: &[Arg<Item>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.eq_by(b, &Item::is_same))
}

impl Step {
    /// Returns whether a later call takes the same step. Segments may differ by sizes and numbers that vary.
    pub(super) fn is_same(&self, other: &Step) -> bool {
        match (self, other) {
            (Step::Run { segment, inputs, .. }, Step::Run { segment: other, inputs: other_inputs, .. }) => {
                (segment.id == other.id || segment.has_events_of(other))
                    && inputs.len() == other_inputs.len()
                    && inputs.iter().zip(other_inputs).all(|(a, b)| a.is_same(b))
            }
            (
                Step::Apply { op, method, args, kwargs, .. },
                Step::Apply { op: other_op, method: other_method, args: other_args, kwargs: named, .. },
            ) => {
                op == other_op
                    && method == other_method
                    && same_items(args, other_args)
                    && kwargs.len() == named.len()
                    && kwargs
                        .iter()
                        .zip(named)
                        .all(|((key, a), (other, b))| key == other && a.eq_by(b, &Item::is_same))
            }
            (
                Step::Return { result, updates, .. },
                Step::Return { result: other_result, updates: other_updates, .. },
            ) => {
                result.eq_by(other_result, &Item::is_same)
                    && updates.len() == other_updates.len()
                    && updates
                        .iter()
                        .zip(other_updates)
                        .all(|((buffer, a), (other, b))| buffer.address() == other.address() && a.is_same(b))
            }
            (Step::Stop { code, what, at }, Step::Stop { code: other, what: other_what, at: other_at }) => {
                code == other && what == other_what && at == other_at
            }
            _ => false,
        }
    }

    /// Returns the number of the segment that the step runs.
    pub(super) fn segment(&self) -> Option<u64> {
        match self {
            Step::Run { segment, .. } => Some(segment.id),
            _ => None,
        }
    }

    /// Visits the results of other steps that the step takes.
    pub(super) fn for_each_place(&self, visit: &mut dyn FnMut(Place)) {
        let mut of_source = |source: &Source| {
            if let Source::Result { step, at } = source {
                visit((*step, *at));
            }
        };
        let mut of_item = |item: &Item| {
            if let Item::Tensor(source) = item {
                of_source(source);
            }
        };
        match self {
            Step::Run { inputs, .. } => inputs.iter().for_each(of_source),
            Step::Apply { args, kwargs, .. } => {
                let named = kwargs.iter().map(|(_, arg)| arg);
                args.iter().chain(named).for_each(|arg| arg.for_each_leaf(&mut of_item));
            }
            Step::Return { result, updates, .. } => {
                result.for_each_leaf(&mut of_item);
                updates.iter().for_each(|(_, source)| of_source(source));
            }
            Step::Stop { .. } => {}
        }
    }

    /// Returns whether the step does the same again, and nothing else, if a call takes it twice.
    pub(super) fn may_repeat(&self) -> bool {
        match self {
            Step::Run { segment, .. } => !segment.is_random(),
            Step::Apply { op, .. } => op.effects.is_pure(),
            Step::Return { .. } | Step::Stop { .. } => true,
        }
    }

    /// Says in words what the step is.
    pub(super) fn describe(&self) -> String {
        match self {
            Step::Run { segment, .. } => {
                let names: Vec<&str> = segment.events.iter().take(4).map(|event| event.op.name).collect();
                let more = if segment.events.len() > names.len() { ", .." } else { "" };
                format!("{}{more}", names.join(", "))
            }
            Step::Apply { op, .. } => op.name.to_owned(),
            Step::Return { .. } => "return".to_owned(),
            Step::Stop { what, .. } => what.to_string(),
        }
    }

    /// Returns the line of the user's program.
    pub(super) fn at(&self) -> Option<&SourceLoc> {
        match self {
            Step::Run { segment, .. } => segment.events.first().map(|event| &event.source),
            Step::Apply { source, .. } => Some(source),
            Step::Return { .. } => None,
            Step::Stop { at, .. } => at.as_ref(),
        }
    }
}

/// What a program returned, in order.
pub(in super::super) type Results = SmallVec<[Value; 1]>;

/// What a step of a call computed. A call that goes on with the Rust code does not compute it again.
pub(in super::super) enum Done {
    Run {
        segment: u64,
        inputs: Vec<Input>,
        numbers: Vec<(u32, Scalar)>,
        prepared: Guard<Option<Arc<Prepared>>>,
        results: Results,
    },
    Apply {
        op: Op,
        inputs: Vec<Input>,
        value: Value,
    },
}

/// What a step took: where it came from, and the tensor if that is still there.
pub(in super::super) type Input = (Source, Option<Arc<Array>>);

/// What the steps of a call computed.
pub(in super::super) type Steps = SmallVec<[Done; 1]>;

impl Done {
    /// Returns the numbers of the results of a segment.
    #[inline]
    pub(super) fn outputs(&self) -> &[u32] {
        match self {
            Done::Run { prepared, .. } => prepared.as_ref().map_or(&[], |prepared| &prepared.outputs),
            Done::Apply { .. } => &[],
        }
    }

    /// Returns a result, if it is there.
    #[inline]
    fn result(&self, at: u32) -> Option<&Arc<Array>> {
        match self {
            Done::Run { results, .. } => {
                let at = self.outputs().iter().position(|local| *local == at)?;
                results.get(at)?.leaf()?.shared_array()
            }
            Done::Apply { value, .. } => value.leaves().get(at as usize)?.shared_array(),
        }
    }

    /// Returns a result, which is not there any more.
    #[inline]
    fn take(&mut self, at: u32) -> Option<Value> {
        self.result(at)?;
        let index = self.outputs().iter().position(|local| *local == at);
        match (self, index) {
            (Done::Run { results, .. }, Some(index)) => {
                results.get_mut(index).map(|result| std::mem::replace(result, Arg::None))
            }
            (done, _) => done.result(at).map(|array| Arg::Leaf(Tensor::from_shared(array.clone()))),
        }
    }

    /// Lets go of a result. An operation with several results keeps them all.
    fn release(&mut self, at: u32) {
        let index = self.outputs().iter().position(|local| *local == at);
        match self {
            Done::Run { results, .. } => {
                if let Some(result) = index.and_then(|index| results.get_mut(index)) {
                    *result = Arg::None;
                }
            }
            Done::Apply { value, .. } => {
                if let (0, [_]) = (at, &value.leaves()[..]) {
                    *value = Arg::None;
                }
            }
        }
    }

    /// Lets go of the results that choose no path: the Rust code has those that it needs.
    pub(super) fn release_all(&mut self) {
        let chooses = |tensor: &Tensor| tensor.shared_array().is_some_and(|array| guard::may_choose(array));
        match self {
            Done::Run { results, .. } => {
                for result in results {
                    if !result.leaf().is_some_and(chooses) {
                        *result = Arg::None;
                    }
                }
            }
            Done::Apply { value, .. } => {
                if !value.leaves().into_iter().all(chooses) {
                    *value = Arg::None;
                }
            }
        }
    }
}

/// A call that takes a path.
pub(super) struct Walk<'a> {
    args: Inputs<'a>,
    /// The tensors among the arguments.
    tensors: SmallVec<[&'a Arc<Array>; 4]>,
    /// The values of the symbols.
    pub(super) symbols: Symbols,
    done: Steps,
    /// The results that no later step takes, and their bytes.
    ended: Vec<Place>,
    ended_bytes: usize,
}

/// So many bytes of results a call keeps that no later step takes. If it leaves its path, the Rust code goes on
/// with what is kept, and computes the rest again.
const MOST_ENDED: usize = 1 << 24;

/// Results of fewer bytes are kept. A tensor that may choose a path has fewer.
const LEAST_ENDED: usize = 1 << 12;

/// The sizes of a call: those of the arguments in order, then those of results that no rule tells.
pub(super) type Symbols = SmallVec<[i64; 8]>;

/// Why a call leaves its path.
pub(super) struct Left {
    pub(super) reason: String,
    pub(super) at: Option<SourceLoc>,
}

impl<'a> Walk<'a> {
    /// Begins with the tensors among the arguments, whose sizes are the first symbols; the integers of those that
    /// are open follow. `None` if a tensor has no value.
    #[inline(always)]
    pub(super) fn new(args: Inputs<'a>, open: &Open) -> Option<Walk<'a>> {
        let mut walk = Walk::resumed(args, Symbols::new(), Steps::new())?;
        for array in &walk.tensors {
            walk.symbols.extend(array.shape().iter().map(|size| *size as i64));
        }
        if let Inputs::Values(values) = args {
            for (arg, _) in values.iter().zip(open).filter(|(_, is_open)| **is_open) {
                for_each_integer(arg, &mut |n| walk.symbols.push(n));
            }
        }
        Some(walk)
    }

    /// Goes on with a call of these sizes that computed so much. `None` if an argument has no value.
    #[inline(always)]
    pub(super) fn resumed(args: Inputs<'a>, symbols: Symbols, done: Steps) -> Option<Walk<'a>> {
        let mut tensors = SmallVec::new();
        match args {
            Inputs::Tensors(all) => {
                for tensor in all {
                    tensors.push(tensor.shared_array()?);
                }
            }
            Inputs::Values(values) => {
                for tensor in values.iter().flat_map(Arg::leaves) {
                    tensors.push(tensor.shared_array()?);
                }
            }
        }
        Some(Walk { args, tensors, symbols, done, ended: Vec::new(), ended_bytes: 0 })
    }

    /// Returns a tensor.
    pub(super) fn array(&self, source: &Source) -> Option<Arc<Array>> {
        self.with(source, Arc::clone)
    }

    /// Looks at a tensor. `None` if it is not there.
    pub(super) fn with<R>(&self, source: &Source, look: impl FnOnce(&Arc<Array>) -> R) -> Option<R> {
        match source {
            Source::Argument(at) => self.tensors.get(*at as usize).map(|array| look(array)),
            Source::Buffer(buffer) => super::guard::value_of(buffer).as_ref().map(look),
            Source::Constant(array) => Some(look(array)),
            Source::Result { step, at } => self.done.get(*step as usize)?.result(*at).map(look),
        }
    }

    /// Returns what the steps computed.
    pub(super) fn done(&self) -> &[Done] {
        &self.done
    }

    /// Lets go of results that no later step takes, once they are many. What a guard may read stays.
    #[inline]
    pub(super) fn end(&mut self, places: &[Place]) {
        if !places.is_empty() {
            self.end_some(places);
        }
    }

    fn end_some(&mut self, places: &[Place]) {
        for place in places {
            let result = self.done.get(place.0 as usize).and_then(|done| done.result(place.1));
            // Small results stay: so do those that may choose a path.
            let bytes = result.map_or(0, |array| array.numel() * array.dtype().size());
            if bytes >= LEAST_ENDED {
                self.ended_bytes += bytes;
                self.ended.push(*place);
            }
        }
        if self.ended_bytes > MOST_ENDED {
            for (step, at) in self.ended.drain(..) {
                self.done[step as usize].release(at);
            }
            self.ended_bytes = 0;
        }
    }

    /// Returns how many segments ran.
    pub(super) fn runs(&self) -> u64 {
        self.done.iter().filter(|done| matches!(done, Done::Run { .. })).count() as u64
    }

    /// Ends a walk that leaves its path after these steps: notes on which tensors their results depend.
    pub(super) fn leave(self, taken: &[&Step]) -> Steps {
        let inputs: Vec<Vec<Input>> = taken.iter().map(|step| self.inputs(step)).collect();
        let mut done = self.done;
        for (done, taken) in done.iter_mut().zip(inputs) {
            let (Done::Run { inputs, .. } | Done::Apply { inputs, .. }) = done;
            *inputs = taken;
        }
        done
    }

    /// Returns the tensors that a step takes.
    fn inputs(&self, step: &Step) -> Vec<Input> {
        let mut taken = Vec::new();
        let mut take = |source: &Source| taken.push((source.clone(), self.array(source)));
        match step {
            Step::Run { inputs, .. } => inputs.iter().for_each(take),
            Step::Apply { args, kwargs, .. } => {
                for arg in args.iter().chain(kwargs.iter().map(|(_, arg)| arg)) {
                    arg.for_each_leaf(&mut |item: &Item| {
                        if let Item::Tensor(source) = item {
                            take(source);
                        }
                    });
                }
            }
            Step::Return { .. } | Step::Stop { .. } => {}
        }
        taken
    }

    pub(super) fn number(&self, number: &Number) -> Option<Scalar> {
        match number {
            Number::Is(scalar) => Some(*scalar),
            Number::Size(term) => term.value(&self.symbols).map(Scalar::Int),
        }
    }

    /// Makes the value of an argument or result.
    fn value(&self, arg: &Arg<Item>) -> Option<Value> {
        if let Arg::Leaf(Item::Tensor(source)) = arg {
            return Some(Arg::Leaf(Tensor::from_shared(self.array(source)?)));
        }
        let mut is_complete = true;
        let value = arg.try_flat_map(&mut |item| {
            let value = match item {
                Item::Tensor(source) => self.array(source).map(|array| Arg::Leaf(Tensor::from_shared(array))),
                Item::Size(term) => term.value(&self.symbols).map(Arg::Int),
            };
            is_complete &= value.is_some();
            Ok(value.unwrap_or(Arg::None))
        });
        value.ok().filter(|_| is_complete)
    }

    /// Makes the value of the result, after which no step is taken: what nobody needs any more is not counted.
    fn returned(&mut self, result: &Arg<Item>) -> Option<Value> {
        match result {
            Arg::Leaf(Item::Tensor(Source::Result { step, at })) => {
                self.done.get_mut(*step as usize)?.take(*at)
            }
            result => self.value(result),
        }
    }

    /// Takes a step. Fails if it cannot be taken: then nothing has happened.
    pub(super) fn take(&mut self, step: &Step) -> Result<Option<Value>, Box<Left>> {
        let left = |reason: &str| Box::new(Left { reason: reason.to_owned(), at: step.at().cloned() });
        match step {
            Step::Run { segment, inputs, numbers } => {
                self.run(segment, inputs, numbers).map_err(|reason| left(&reason))?;
                Ok(None)
            }
            Step::Apply { op, method, args, kwargs, source } => {
                let gone = || left("a tensor of the path is not there");
                let values: Option<Vec<Value>> = args.iter().map(|arg| self.value(arg)).collect();
                let named: Option<Vec<(&str, Value)>> =
                    kwargs.iter().map(|(key, arg)| Some((&**key, self.value(arg)?))).collect();
                let (values, named) = (values.ok_or_else(gone)?, named.ok_or_else(gone)?);
                let value = crate::trace::apply_at(*op, *method, &values, &named, source.clone())
                    .map_err(|error| left(error.message()))?;
                value.walk(&mut |arg: &Value| match arg {
                    Arg::Leaf(tensor) => {
                        let array = tensor.shared_array();
                        let sizes = array.iter().flat_map(|array| array.shape());
                        self.symbols.extend(sizes.map(|size| *size as i64));
                    }
                    Arg::Int(number) => self.symbols.push(*number),
                    _ => {}
                });
                self.done.push(Done::Apply { op: *op, inputs: Vec::new(), value });
                Ok(None)
            }
            Step::Return { result, updates, forks } => {
                let gone = || left("a result of the path is not there");
                let values = updates.iter().map(|(_, source)| self.array(source));
                let values = values.collect::<Option<SmallVec<[_; 2]>>>().ok_or_else(gone)?;
                let value = self.returned(result).ok_or_else(gone)?;
                for ((buffer, _), array) in updates.iter().zip(values) {
                    buffer.replace(Tensor::from_shared(array));
                }
                if *forks > 0 {
                    default_generator().skip_forks(*forks);
                }
                Ok(Some(value))
            }
            Step::Stop { .. } => Err(left("the Rust code has to run")),
        }
    }

    /// Returns whether the program of a segment takes the arguments of the call as they are.
    fn is_direct(&self, segment: &Segment, inputs: &[Source]) -> bool {
        let n = self.args.len() as u32;
        let mut next = 0;
        for (_, source) in inputs.iter().enumerate().filter(|(at, _)| segment.is_input(*at)) {
            match source {
                Source::Argument(argument) if *argument == next => next += 1,
                _ => return false,
            }
        }
        next == n
            && segment.n_numbers() == 0
            && match self.args {
                Inputs::Tensors(_) => true,
                Inputs::Values(values) => values.iter().all(|arg| arg.leaf().is_some()),
            }
    }

    fn run(&mut self, segment: &Arc<Segment>, inputs: &[Source], numbers: &[Number]) -> Result<(), String> {
        let mut bound = Bound::default();
        for (at, source) in inputs.iter().enumerate() {
            self.with(source, |array| segment.guard(at as u32, array, &mut bound))
                .ok_or("a tensor of the path is not there")?
                .map_err(|difference: Difference| segment.describe(0, difference, None).reason)?;
        }
        for (literal, slot) in &segment.slots {
            let number = numbers.get(*literal as usize).and_then(|number| self.number(number));
            let number = number.ok_or("a number of an operation is not known")?;
            match slot {
                Slot::Size(size) => {
                    let fits = match (segment.value_of(size, &bound), number) {
                        (Some(expected), number) => Scalar::Int(expected) == number,
                        (None, Scalar::Int(number)) => segment.solve(size, number, &mut bound).is_some(),
                        (None, _) => false,
                    };
                    if !fits {
                        return Err("a number of an operation follows from other sizes".to_owned());
                    }
                }
                Slot::Number { .. } => bound.numbers.push((*literal, number)),
            }
        }
        if !segment.has_accepted(&bound) {
            for (at, source) in inputs.iter().enumerate() {
                let array = self.array(source).ok_or("a tensor of the path is not there")?;
                bound.outside.push(Outside { identity: (0, at), array: Some(array) });
            }
            if !segment.accepts(&bound) {
                return Err("an operation refuses these sizes for symbols".to_owned());
            }
        }
        let prepared = segment.prepared();
        let program = match &*prepared {
            Some(prepared) => prepared.program.as_ref().map_err(|_| "the segment runs by operations")?,
            None => return Err("the segment is not compiled".to_owned()),
        };
        let mut made: SmallVec<[Value; 4]> = SmallVec::new();
        let arguments = match self.is_direct(segment, inputs) {
            true => self.args,
            false => {
                for (at, source) in inputs.iter().enumerate() {
                    if segment.is_input(at) {
                        let array = self.array(source).ok_or("a tensor of the path is not there")?;
                        made.push(Arg::Leaf(Tensor::from_shared(array)));
                    }
                }
                segment.add_numbers(&bound, &mut made).map_err(|error| error.message().to_owned())?;
                Inputs::Values(&made)
            }
        };
        let generator = segment.is_random().then(default_generator);
        let saved = generator.clone();
        let started = segment.begin_run();
        let mut results = Results::new();
        let ran = program.call_with(arguments, &mut |value| results.push(value));
        segment.end_run(started);
        match ran {
            Ok(()) => {
                let (inputs, numbers) = (Vec::new(), bound.numbers.into_vec());
                self.done.push(Done::Run { segment: segment.id, inputs, numbers, prepared, results });
                Ok(())
            }
            Err(error) => {
                if let (Some(generator), Some(saved)) = (generator, &saved) {
                    generator.restore(saved);
                }
                Err(error.message().to_owned())
            }
        }
    }
}
