//! [`Session`]: one call of a compiled function.
//!
//! Operations give lazy tensors at once. As long as they are the events of a known segment, the call *follows*
//! it: a cursor moves on, and nothing is recorded. After the first difference the call goes on in another
//! segment with the same beginning, or *records*. A read of a value, or the end of the call, ends the segment:
//! it runs as one program.

mod alone;
mod end;
mod expected;
mod locals;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use super::Shared;
use super::cache::{Cache, name_of};
use super::event::{self, Bound, Comparison, Difference, Event, Operand, Outcome, Types, View, Wire};
use super::journal::add;
use super::miss::Missed;
use super::narrow::{LeftOut, Observed};
use super::replay::{Recorder, Steps};
use super::report::{Code, End, Place};
use super::segment::{Segment, Wired};
use super::stance::Permission;
use crate::lazy::{Call, Follower, Lazy, Link, without_following};
use crate::rng::{Generator, default_generator};
use crate::{Arg, Buffer, Error, Given, Op, Result, SourceLoc, Tensor, TensorType, Value, err};
use expected::InRun;
pub(super) use locals::{Locals, Spare};

/// One call of a compiled function.
pub(super) struct Session {
    /// How tensors find this session.
    link: Arc<Link>,
    /// The number of the present run of a segment, by which its lazy tensors are known.
    run: AtomicU64,
    /// The run whose tensors are the arguments of the call.
    arguments: u64,
    /// The run whose tensors are the values of buffers.
    buffers: u64,
    owner: ThreadId,
    /// The thread that runs a program.
    computing: Mutex<Option<ThreadId>>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) cache: Arc<Cache>,
    call: u64,
    permission: Permission,
    mode: Mode,
    pub(super) bound: Bound,
    pub(super) locals: Locals,
    /// The lists that further runs take.
    spare: Vec<Locals>,
    /// The segment before.
    last: Option<Arc<Segment>>,
    /// The buffers that the call has set, with their new values.
    updates: Vec<(Buffer, Tensor)>,
    /// The generator of the random operations that have not run.
    pub(super) random: Option<Generator>,
    /// The names of the tensors among the arguments, unless each argument is a tensor.
    argument_names: Option<Vec<Arc<str>>>,
    /// The types that tensors among the arguments must have.
    marks: Vec<Option<TensorType>>,
    pub(super) is_hit: bool,
    /// The error of the first read of a function that must be whole.
    refused: Option<Error>,
    /// Whether the function has returned.
    is_over: bool,
    /// Notes what the call does, for a pure function.
    pub(super) recorder: Option<Recorder>,
    /// Whether programs may leave results out.
    pub(super) may_narrow: bool,
    /// Whether the program of the present run left out a result that somebody has.
    pub(super) leaves_out: bool,
    pub(super) observed: Vec<Observed>,
    left_out: Vec<LeftOut>,
}

enum Mode {
    /// Nothing was applied since the last segment.
    Start,
    /// The first events are those of a segment.
    Following { segment: Arc<Segment>, at: usize },
    /// The events are new.
    Recording { log: Vec<Event>, miss: Option<Missed> },
}

/// Returns a number that no other run has. Threads take them in blocks.
fn next_run() -> u64 {
    const BLOCK: u64 = 1024;
    static NEXT: AtomicU64 = AtomicU64::new(BLOCK);
    thread_local! {
        static OWN: Cell<u64> = const { Cell::new(0) };
    }
    let own = match OWN.get() {
        own if own.is_multiple_of(BLOCK) => NEXT.fetch_add(BLOCK, Ordering::Relaxed),
        own => own,
    };
    OWN.set(own + 1);
    own
}

impl Session {
    pub(super) fn new(cache: Arc<Cache>, call: u64, permission: Permission) -> Arc<Session> {
        let may_narrow = !cache.options.is_steady;
        let spare = cache.spares.own().lock().unwrap_or_else(PoisonError::into_inner).take();
        let Spare { link, lists: mut spare } = spare.unwrap_or_default();
        let state = State {
            cache,
            call,
            permission,
            mode: Mode::Start,
            bound: Bound::default(),
            locals: spare.pop().unwrap_or_default(),
            spare,
            last: None,
            updates: Vec::new(),
            random: None,
            argument_names: None,
            marks: Vec::new(),
            is_hit: true,
            refused: None,
            is_over: false,
            recorder: None,
            may_narrow,
            leaves_out: false,
            observed: Vec::new(),
            left_out: Vec::new(),
        };
        // The numbers of its runs are greater than those of the calls that had the link before.
        let arguments = next_run();
        let session = Arc::new(Session {
            link,
            run: AtomicU64::new(next_run()),
            arguments,
            buffers: next_run(),
            owner: std::thread::current().id(),
            computing: Mutex::new(None),
            state: Mutex::new(state),
        });
        let follower: Arc<dyn Follower> = session.clone();
        session.link.set(Some(Arc::downgrade(&follower)));
        session
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) -> u64 {
        self.run.load(Ordering::Acquire)
    }

    /// Makes lazy tensors of the arguments, each with an identity of its own. `recorded` is what a pure function
    /// has computed already, and why it left its path. Fails with the error of a tensor.
    pub(super) fn wrap(
        &self,
        args: &[Value],
        shared: &Shared,
        recorded: Option<(Steps, Option<Missed>)>,
    ) -> Result<Vec<Value>> {
        let open = &shared.cache.open_arguments[..];
        let mut recorder = recorded.and_then(|(done, missed)| {
            Recorder::new((args, open), (self.arguments, self.buffers), done, missed)
        });
        let mut wrap = |tensor: &Tensor, index: usize, name: &Arc<str>| {
            let array = match tensor.shared_array() {
                Some(array) => array.clone(),
                None => match tensor.clone().settled() {
                    settled if settled.shared_array().is_none() => return settled,
                    settled => settled.shared_array().cloned().expect("it is there"),
                },
            };
            let mut lazy = Lazy::ready(self.arguments, index as u32, array);
            if let Some(recorder) = &mut recorder {
                lazy = recorder.argument(lazy, name, self.link.clone());
            }
            Tensor::from_lazy(Arc::new(lazy))
        };
        let names = &shared.cache.argument_names;
        let mut marks: Vec<Option<TensorType>> = Vec::new();
        let mut values = Vec::with_capacity(args.len());
        let is_plain = args.len() == names.len() && args.iter().all(|arg| arg.leaf().is_some());
        let leaf_names = if is_plain {
            for (at, (arg, name)) in args.iter().zip(names.iter()).enumerate() {
                values.extend(arg.leaf().map(|tensor| Arg::Leaf(wrap(tensor, at, name))));
            }
            if let Some(types) = &shared.types {
                marks.extend(types.iter().map(|ty| ty.tensor().cloned()));
            }
            None
        } else {
            let mut leaf_names: Vec<Arc<str>> = Vec::new();
            for (at, arg) in args.iter().enumerate() {
                let (name, n_leaves) = (names.get(at), arg.leaves().len());
                let types = shared.types.as_ref().and_then(|types| types.get(at)).map(Arg::leaves);
                let mut number = 0;
                values.push(arg.try_flat_map(&mut |tensor: &Tensor| {
                    let name = match name {
                        Some(name) if n_leaves == 1 => name.clone(),
                        Some(name) => Arc::from(format!("{name}_{number}")),
                        None => Arc::from("input"),
                    };
                    marks.push(types.as_ref().and_then(|types| types.get(number)?.tensor().cloned()));
                    number += 1;
                    let wrapped = wrap(tensor, leaf_names.len(), &name);
                    leaf_names.push(name);
                    Ok(Arg::Leaf(wrapped))
                })?);
            }
            Some(leaf_names)
        };
        if let Some(recorder) = &mut recorder {
            for (at, value) in values.iter_mut().enumerate().filter(|(at, _)| open.get(*at) == Some(&true)) {
                if value.leaf().is_none() {
                    *value = recorder.integers(value, names.get(at).map_or("input", |name| &**name));
                }
            }
        }
        let mut state = self.lock();
        state.argument_names = leaf_names;
        state.marks = marks;
        state.recorder = recorder;
        drop(state);
        Ok(values)
    }

    /// Ends the call: runs what is pending as far as somebody has a tensor of it, and stores buffers if the
    /// call succeeded. Fails with the first error in the result.
    pub(super) fn finish(&self, result: Result<Value>) -> Result<Value> {
        let result = self.settle_all(result);
        self.give_back();
        result
    }

    /// Ends a call that panics: what somebody has of it is computed.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        let is_wanted = state.locals.held().next().is_some();
        self.end_runs(&mut state, is_wanted);
        state.updates.clear();
        ObservedRuns(std::mem::take(&mut state.observed));
        drop(state);
        self.give_back();
    }

    /// Leaves the lists of tensors to the next call.
    fn give_back(&self) {
        self.link.set(None);
        let mut state = self.lock();
        let mut lists = std::mem::take(&mut state.spare);
        lists.push(std::mem::take(&mut state.locals));
        let spare = Spare { link: self.link.clone(), lists };
        *state.cache.spares.own().lock().unwrap_or_else(PoisonError::into_inner) = Some(spare);
    }

    /// Runs what is pending, if it is wanted, and then what a program left out, if somebody has it.
    fn end_runs(&self, state: &mut State, is_wanted: bool) {
        state.is_over = true;
        if is_wanted {
            self.end_segment(state, Place { end: End::Return, at: None });
        }
        state.locals.end();
        // Whatever nobody has any more is gone; the rest is held outside of the function, or returned.
        for mut left_out in std::mem::take(&mut state.left_out).into_iter().rev() {
            if left_out.is_wanted() {
                self.compute_left_out(state, &mut left_out, None, |_| true);
            }
            left_out.locals.end();
            state.spare.push(left_out.locals);
        }
    }

    fn settle_all(&self, result: Result<Value>) -> Result<Value> {
        let mut state = self.lock();
        if result.as_ref().map_or(true, |value| value.failure().is_some()) {
            state.updates.clear();
        }
        let is_wanted = state.locals.held().next().is_some() || state.random.is_some();
        self.end_runs(&mut state, is_wanted);
        let refused = state.refused.take();
        let mut observed = ObservedRuns(std::mem::take(&mut state.observed));
        let updates = std::mem::take(&mut state.updates);
        let (is_hit, cache, call) = (state.is_hit, state.cache.clone(), state.call);
        let mut recorder = state.recorder.take();
        drop(state);
        if is_hit {
            add(&cache.journal.counts().of_calls().hits, 1);
        }
        if let Some(error) = refused {
            return Err(error);
        }
        let mut result = result?;
        if let Some(recorder) = &mut recorder {
            recorder.finish(&result, &updates, &observed.0);
            result = recorder.without_sizes(&result);
        }
        let value = result.try_rewrite(&mut |arg: &Value| match arg {
            Arg::Failed(error) => Err(error.clone()),
            Arg::Leaf(tensor) => tensor.clone().settled().ok().map(|tensor| Some(Arg::Leaf(tensor))),
            _ => Ok(None),
        });
        let value = value?;
        let updates = updates.into_iter().map(|(buffer, value)| Ok((buffer, value.settled().ok()?)));
        for (buffer, value) in updates.collect::<Result<Vec<_>>>()? {
            buffer.replace(value);
        }
        drop(result);
        observed.note(&cache);
        if let (Some(recorder), Some(replay)) = (recorder, &cache.replay) {
            replay.learn(recorder, call, &cache);
        }
        Ok(value)
    }

    /// Computes the tensors of other calls among the arguments. Fails with the error of an operand.
    fn settle_foreign(&self, call: &Call<'_>) -> Result<()> {
        let mut failure = None;
        for arg in call.args.iter().chain(call.kwargs.iter().map(|(_, arg)| arg)) {
            arg.for_each_leaf(&mut |tensor: &Tensor| {
                let Some(lazy) = tensor.as_lazy() else { return };
                let is_pending = lazy.known().is_none();
                if is_pending && lazy.run() == self.run() {
                    return;
                }
                if let Err(error) = lazy.force("operand", Some(call.source.clone())) {
                    failure.get_or_insert(error);
                }
            });
        }
        failure.map_or(Ok(()), Err)
    }

    /// Applies an operation as an event, or says that it has to run by itself.
    fn step(&self, state: &mut State, call: &Call<'_>) -> Step {
        let (segment, at) = match std::mem::replace(&mut state.mode, Mode::Start) {
            Mode::Start => return self.begin(state, call),
            Mode::Recording { log, miss } => {
                state.mode = Mode::Recording { log, miss };
                return self.record(state, call);
            }
            Mode::Following { segment, at } => (segment, at),
        };
        let at_end = at == segment.events.len();
        let difference = if at_end {
            Difference::Longer
        } else {
            match self.advance(state, &segment, at, call) {
                Ok(value) => {
                    state.mode = Mode::Following { segment, at: at + 1 };
                    return Step::Done(Ok(value));
                }
                Err(difference) => difference,
            }
        };
        state.mode = Mode::Following { segment: segment.clone(), at };
        let log = match state.log(&segment, at) {
            Ok(log) => log,
            Err(error) => return Step::Done(Err(error)),
        };
        state.bound.leave(&segment);
        let outside = state.bound.known();
        let snapshot = state.cache.segments();
        let longer = snapshot.iter().filter(|other| other.id != segment.id && other.events.len() > at);
        for other in longer {
            if other.events[at].op == call.op
                && let Some(bound) = match_log(other, &log, &outside)
            {
                let before = std::mem::replace(&mut state.bound, bound);
                if let Ok(value) = self.advance(state, other, at, call) {
                    state.mode = Mode::Following { segment: other.clone(), at: at + 1 };
                    return Step::Done(Ok(value));
                }
                state.bound = before;
            }
        }
        if at_end && matches!(State::infer(call), Outcome::Eager) {
            return Step::Eager;
        }
        let miss = segment.describe(at, difference, Some(call));
        state.mode = Mode::Recording { log, miss: Some(miss) };
        self.record(state, call)
    }

    /// Applies the first operation of a segment.
    fn begin(&self, state: &mut State, call: &Call<'_>) -> Step {
        let snapshot = state.cache.segments();
        let predicted = match &state.last {
            Some(last) => last.next.load(Ordering::Relaxed),
            None => state.cache.first(),
        };
        let predicted = snapshot.iter().find(|segment| segment.id == predicted);
        let others = snapshot.iter().filter(|segment| predicted.is_none_or(|first| first.id != segment.id));
        let mut nearest: Option<(Arc<Segment>, Difference)> = None;
        for segment in predicted.into_iter().chain(others) {
            if segment.events.first().is_none_or(|event| event.op != call.op) {
                continue;
            }
            match self.advance(state, segment, 0, call) {
                Ok(value) => {
                    state.mode = Mode::Following { segment: segment.clone(), at: 1 };
                    state.locals.reserve(segment.events.len() - 1);
                    return Step::Done(Ok(value));
                }
                Err(difference) => _ = nearest.get_or_insert_with(|| (segment.clone(), difference)),
            }
        }
        if matches!(State::infer(call), Outcome::Eager) {
            return Step::Eager;
        }
        let nearest = nearest.or_else(|| predicted.map(|segment| (segment.clone(), Difference::Operation)));
        let miss = nearest.map(|(segment, difference)| segment.describe(0, difference, Some(call)));
        state.mode = Mode::Recording { log: Vec::new(), miss };
        self.record(state, call)
    }

    /// Compares an operation with an event, and makes its results. Nothing is bound if they differ.
    fn advance(
        &self,
        state: &mut State,
        segment: &Segment,
        at: usize,
        call: &Call<'_>,
    ) -> Result<Value, Difference> {
        let (event, run) = (&segment.events[at], self.run());
        let mark = state.bound.mark();
        let mut comparison = Comparison::new(segment, &mut state.bound, InRun(run));
        let compared = comparison.run(event, call.op, call.method, call.args, call.kwargs);
        let types = compared.and_then(|()| match &event.seen {
            None => Ok(None),
            Some(seen) => match seen.find(&state.bound.symbols) {
                Some(types) => Ok(Some(types)),
                None => {
                    let types = state.infer_as(segment, event, call)?;
                    seen.enter(&state.bound.symbols, &types);
                    Ok(Some(types))
                }
            },
        });
        match types {
            Ok(None) => Ok(self.results(state, &event.result, call)),
            Ok(Some(types)) => Ok(self.results(state, &types, call)),
            Err(difference) => {
                state.bound.return_to(mark);
                Err(difference)
            }
        }
    }

    /// Makes lazy tensors of the types.
    fn results(&self, state: &mut State, types: &Types, call: &Call<'_>) -> Value {
        let (run, first) = (self.run(), state.locals.len());
        state.locals.sources.push(call.source.clone());
        let mut make = |ty: &Arc<TensorType>| {
            let Some(recorder) = &mut state.recorder else {
                return state.locals.add(&self.link, run, ty);
            };
            let index = state.locals.len();
            let seen = recorder.seen_type(call, index - first, ty);
            let lazy = Lazy::pending(self.link.clone(), run, index as u32, ty.clone());
            let lazy = Arc::new(lazy.watched(seen, self.link.clone()));
            recorder.made(&lazy, call.source);
            state.locals.add_once(lazy.clone());
            Tensor::from_lazy(lazy)
        };
        match types {
            Arg::Leaf(ty) => Arg::Leaf(make(ty)),
            types => types.map(&mut make),
        }
    }

    /// Applies an operation as a new event.
    fn record(&self, state: &mut State, call: &Call<'_>) -> Step {
        let types = match State::infer(call) {
            Outcome::Tensors(types) => types,
            Outcome::Eager => return Step::Eager,
        };
        let (first_local, run) = (state.locals.len() as u32, self.run());
        let outside = &mut state.bound.outside;
        let event = Event::new(call, types.clone(), first_local, &mut |tensor| {
            Ok(match InRun(run).operand(tensor) {
                Operand::Local(local) => Wire::Local(local),
                Operand::Known(identity, array) => {
                    let known = outside.iter().position(|known| known.identity == identity);
                    Wire::Outside(known.unwrap_or_else(|| {
                        outside.push(event::Outside { identity, array: Some(array.clone()) });
                        outside.len() - 1
                    }) as u32)
                }
            })
        });
        let event = match event {
            Ok(event) => event,
            Err(error) => return Step::Done(Err(error)),
        };
        let Mode::Recording { log, .. } = &mut state.mode else { return Step::Eager };
        log.push(event);
        let is_full = log.len() >= Cache::MOST_EVENTS;
        let value = self.results(state, &types, call);
        if is_full {
            self.end_segment(state, Place { end: End::Cut, at: Some(call.source.clone()) });
        }
        Step::Done(Ok(value))
    }
}

/// The runs of a call that are observed. What is not noted is forgotten.
struct ObservedRuns(Vec<Observed>);

impl ObservedRuns {
    fn note(&mut self, cache: &Cache) {
        self.0.drain(..).for_each(|observed| observed.note(cache));
    }
}

impl Drop for ObservedRuns {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Observed::forget);
    }
}

/// What became of an operation.
enum Step {
    /// It is an event, or it failed.
    Done(Result<Value>),
    /// It has to run by itself.
    Eager,
}

/// Compares a log with the beginning of a segment. Returns what it binds.
pub(super) fn match_log(segment: &Segment, log: &[Event], outside: &[event::Known]) -> Option<Bound> {
    let mut bound = Bound::default();
    for (event, logged) in segment.events.iter().zip(log) {
        let mut comparison = Comparison::new(segment, &mut bound, Wired(outside));
        comparison.run(event, logged.op, logged.method, &logged.args, &logged.kwargs).ok()?;
        if let Some(seen) = &event.seen {
            match seen.find(&bound.symbols) {
                Some(types) if types != logged.result => return None,
                Some(_) => {}
                None if segment.has_types(&bound, event, &logged.result) => {
                    seen.enter(&bound.symbols, &logged.result);
                }
                None => return None,
            }
        }
    }
    Some(bound)
}

impl State {
    /// Returns the first events of a segment as events of this call.
    fn log(&self, segment: &Segment, n: usize) -> Result<Vec<Event>> {
        segment.log(n, &self.bound, &|at| {
            let event = &segment.events[at];
            let mut local = event.first_local as usize;
            event.result.map(&mut |_| {
                local += 1;
                self.locals.get(local - 1).ty().clone()
            })
        })
    }

    /// Returns the types of an operation's results.
    fn infer(call: &Call<'_>) -> Outcome {
        let mut type_of = |tensor: &Tensor| known_type(tensor).map(crate::TypeTree::from);
        match event::infer(call.op, call.args, call.kwargs, &mut type_of) {
            Outcome::Tensors(types) if event::are_known(&types) => Outcome::Tensors(types),
            _ => Outcome::Eager,
        }
    }

    /// Asks the rule of an operation for the types of its results, which must be those of the event.
    fn infer_as(&self, segment: &Segment, event: &Event, call: &Call<'_>) -> Result<Types, Difference> {
        match State::infer(call) {
            Outcome::Tensors(types) if segment.has_types(&self.bound, event, &types) => Ok(types),
            _ => Err(Difference::Rule),
        }
    }
}

impl Follower for Session {
    fn apply(&self, call: Call<'_>) -> Result<Value> {
        self.settle_foreign(&call)?;
        let mut state = self.lock();
        if let Some(number) = state.number(&call) {
            return number;
        }
        if call.op.effects.random {
            let generator = default_generator();
            if state.random.as_ref().is_some_and(|other| !other.is_same(&generator)) {
                self.end_segment(&mut state, Place { end: End::Random, at: Some(call.source.clone()) });
            }
            if let Some(recorder) = &mut state.recorder {
                recorder.draws_from(&generator, call.source);
            }
            state.random = Some(generator);
        }
        let step = match &mut state.recorder {
            None => self.step(&mut state, &call),
            Some(recorder) => {
                recorder.begin(&call);
                let (args, kwargs) = recorder.known_sizes_of(&call);
                let known = Call { args: &args, kwargs: &kwargs, ..call };
                // The sizes of this call may be known where those of a like call are not.
                let step = if recorder.is_of_data() { Step::Eager } else { self.step(&mut state, &known) };
                if let (Step::Done(Ok(_)), Some(recorder)) = (&step, &mut state.recorder) {
                    recorder.applied(&call);
                }
                step
            }
        };
        match step {
            Step::Done(result) => result,
            Step::Eager if state.cache.options.is_whole => {
                drop(state);
                self.refuse_operation(&call)
            }
            Step::Eager => {
                let code = if event::acts(call.op, call.args, call.kwargs) { Code::C15 } else { Code::C14 };
                let end = End::Operation(code, call.op.name);
                self.end_segment(&mut state, Place { end, at: Some(call.source.clone()) });
                state.random = None;
                self.run_alone(state, &call)
            }
        }
    }

    fn apply_expected(&self, op: Op, method: bool, args: &[Given<'_>], source: &SourceLoc) -> Option<Tensor> {
        let mut state = self.lock();
        state.apply_expected((&self.link, self.run()), (op, method, args), source)
    }

    fn compute(&self, lazy: &Lazy, what: &'static str, at: Option<SourceLoc>) {
        let is_foreign = std::thread::current().id() != self.owner;
        // A kernel that reads a tensor which it helps to compute would wait for itself.
        let computing = *self.computing.lock().unwrap_or_else(PoisonError::into_inner);
        if computing == Some(std::thread::current().id()) {
            return;
        }
        let mut state = self.lock();
        if lazy.run() != self.run() {
            if let Some(found) = state.left_out.iter().position(|left_out| left_out.run == lazy.run()) {
                let mut left_out = state.left_out.swap_remove(found);
                self.compute_left_out(&state, &mut left_out, at, |local| local == lazy.index());
                left_out.locals.end();
                state.spare.push(left_out.locals);
            }
            return;
        }
        if state.cache.options.is_whole && !state.is_over {
            let error = refusal(what, at);
            lazy.set(Err(error.clone()));
            state.refused.get_or_insert(error);
            return;
        }
        let end = if is_foreign { End::Thread } else { End::Read(what) };
        self.end_segment(&mut state, Place { end, at });
    }

    fn read(&self, lazy: &Lazy, what: &'static str, at: Option<SourceLoc>) {
        let mut state = self.lock();
        // A tensor of an earlier call has the link, too.
        let is_earlier = lazy.run() < self.arguments;
        if state.is_over || is_earlier || what == "operand" {
            return;
        }
        if let Some(recorder) = &mut state.recorder {
            if std::thread::current().id() == self.owner {
                recorder.read(lazy, what, at);
            } else {
                recorder.stop(Code::C11, what, at);
            }
        }
    }

    fn size(&self, size: &crate::Dim) -> Option<i64> {
        self.lock().recorder.as_ref()?.size(size, None)
    }

    fn read_buffer(&self, buffer: &Buffer) -> Option<Tensor> {
        let mut state = self.lock();
        let set = state.updates.iter().find(|(other, _)| other.address() == buffer.address());
        if let Some((_, value)) = set {
            return Some(value.clone());
        }
        state.recorder.as_mut()?.buffer(buffer, self.link.clone())
    }

    fn write_buffer(&self, buffer: &Buffer, value: &Tensor) -> Result<()> {
        let (new, old) = (known_type(value)?, buffer.load().ty()?);
        if new != old {
            return Err(err!(Shape, "a buffer of {old} cannot hold {new}"));
        }
        let mut state = self.lock();
        state.updates.retain(|(other, _)| other.address() != buffer.address());
        state.updates.push((buffer.share(), value.clone()));
        Ok(())
    }

    fn forget_buffer(&self, buffer: &Buffer) {
        let mut state = self.lock();
        state.updates.retain(|(other, _)| other.address() != buffer.address());
        if let Some(recorder) = &mut state.recorder {
            recorder.stop(Code::C15, "a buffer is stored to", None);
        }
    }

    fn cut(&self, at: SourceLoc) {
        let mut state = self.lock();
        self.end_segment(&mut state, Place { end: End::Cut, at: Some(at) });
    }

    fn before_random(&self) {
        let mut state = self.lock();
        if state.random.is_some() {
            self.end_segment(&mut state, Place { end: End::Random, at: None });
        }
        if let Some(recorder) = &mut state.recorder {
            recorder.stop(Code::C16, "generator", None);
        }
    }
}

impl Session {
    /// Computes results that a program left out.
    fn compute_left_out(
        &self,
        state: &State,
        left_out: &mut LeftOut,
        at: Option<SourceLoc>,
        is_needed: impl Fn(u32) -> bool,
    ) {
        let set_computing = |thread| *self.computing.lock().unwrap_or_else(PoisonError::into_inner) = thread;
        state.cache.journal.note(Code::C17, &name_of(left_out.segment.id), at);
        set_computing(Some(std::thread::current().id()));
        without_following(|| left_out.compute(is_needed));
        set_computing(None);
    }
}

/// Returns the type of a tensor with the sizes of this call, which Rust code may see as symbols.
fn known_type(tensor: &Tensor) -> Result<TensorType> {
    match tensor.as_lazy() {
        Some(lazy) => Ok(TensorType::clone(lazy.ty())),
        None => tensor.ty(),
    }
}

/// The error of a read in a function that must be one graph.
fn refusal(what: &str, at: Option<SourceLoc>) -> Error {
    let error = err!(Trace, "C10: `{what}` reads a value in a function that must be one graph")
        .help(Code::C10.advice());
    match at {
        Some(at) => error.at(at),
        None => error,
    }
}
