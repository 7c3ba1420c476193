//! [`Recorder`]: notes what a followed call does, so that later calls can do it without the Rust code.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::event::{self, Bound, Identity, Types};
use super::super::miss::Missed;
use super::super::narrow::Observed;
use super::super::report::Code;
use super::super::segment::{Prepared, Segment};
use super::guard::{Guard, Term, may_choose};
use super::path::{Cell, Done, Input, Item, Number, Results, Source, Step, Steps, Symbols};
use crate::lazy::{Call, Lazy, Link, Observer, Relation, SizeUse, with_observer};
use crate::rng::{Generator, default_generator};
use crate::signature::{Open, Signature, size_name};
use crate::{Arg, Array, Buffer, Dim, Scalar, Shape, SourceLoc, Symbol, Tensor, TensorType, TypeTree, Value};

/// Knows the sizes of a call's tensors, and notes on which relations it decides.
#[derive(Default)]
pub(in super::super) struct Sizes(Mutex<SizeState>);

#[derive(Default)]
struct SizeState {
    symbols: Vec<Symbol>,
    values: Vec<i64>,
    /// The guards since the last step.
    pending: Vec<Guard>,
    known: FxHashSet<String>,
    /// A relation that is no guard, and its line.
    lost: Option<Option<SourceLoc>>,
}

impl SizeState {
    fn value(&self, symbol: &Symbol) -> Option<i64> {
        let at = self.symbols.iter().position(|other| other == symbol)?;
        self.values.get(at).copied()
    }

    /// Enters a symbol with its value, by a name that no other one has.
    fn open(&mut self, symbol: Symbol, value: i64) -> (Symbol, i64) {
        let (min, max) = (symbol.min(), symbol.max());
        let mut symbol = symbol;
        while self.symbols.iter().any(|other| other.name() == symbol.name()) {
            symbol = Symbol::new(format!("{}_", symbol.name())).ranged(min, max);
        }
        self.symbols.push(symbol.clone());
        self.values.push(value);
        (symbol, value)
    }

    fn add(&mut self, relation: &Relation, at: Option<SourceLoc>) {
        match Guard::sizes(relation, &self.symbols, at.clone()) {
            Some(guard) => {
                if self.known.insert(guard.to_string()) {
                    self.pending.push(guard);
                }
            }
            None => _ = self.lost.get_or_insert(at),
        }
    }
}

impl Sizes {
    fn lock(&self) -> MutexGuard<'_, SizeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value of a size.
    fn value_of(&self, size: &Dim) -> Option<i64> {
        let state = self.lock();
        size.plain().eval(&|symbol| state.value(symbol)).ok()
    }

    /// Returns the type of a tensor with a symbol for each size.
    fn open(self: &Arc<Self>, name: &str, array: &Array) -> TensorType {
        let mut state = self.lock();
        let sizes = array.shape().iter().enumerate();
        let sizes = sizes.map(|(axis, size)| state.open(Symbol::new(size_name(name, axis)), *size as i64));
        let sizes: Vec<(Symbol, i64)> = sizes.collect();
        drop(state);
        let observer: Arc<dyn Observer> = self.clone();
        let shape = sizes
            .into_iter()
            .map(|(symbol, value)| Dim::observed(Dim::symbol(symbol), value, &observer))
            .collect::<Shape>();
        TensorType { dtype: array.dtype(), shape }
    }

    /// Returns a symbol for an integer out of data.
    fn open_number(self: &Arc<Self>, name: &str, number: i64) -> Dim {
        let (symbol, value) = self.lock().open(Symbol::new(name).ranged(i64::MIN, None), number);
        let observer: Arc<dyn Observer> = self.clone();
        Dim::observed(Dim::symbol(symbol), value, &observer)
    }

    /// Returns a type whose sizes have these values at hand. `None` if one has another value.
    fn observed(self: &Arc<Self>, ty: &TensorType, known: &TensorType) -> Option<TensorType> {
        if ty.dtype != known.dtype || ty.rank() != known.rank() {
            return None;
        }
        let observer: Arc<dyn Observer> = self.clone();
        let sizes = ty.shape.iter().zip(known.shape.iter()).map(|(size, known)| {
            let value = known.known()?;
            (self.value_of(size) == Some(value)).then(|| Dim::observed(size.clone(), value, &observer))
        });
        Some(TensorType { dtype: ty.dtype, shape: sizes.collect::<Option<Shape>>()? })
    }

    /// Lets the path hold for the present value of a term only.
    fn fix(&self, term: &Term) {
        let mut state = self.lock();
        let size = match term {
            Term::Is(_) => return,
            Term::Symbol(at) => state.symbols.get(*at as usize).cloned().map(Dim::symbol),
            Term::Expression { size, .. } => Some(size.clone()),
        };
        if let (Some(size), Some(value)) = (size, term.value(&state.values)) {
            state.add(&Relation::Equal(size, Dim::new(value)), None);
        }
    }

    /// Lets the path hold for the present value of a size only.
    fn pin(&self, size: &Dim, at: Option<SourceLoc>) {
        if size.plain().is_known() {
            return;
        }
        if let Some(value) = self.value_of(size) {
            self.lock().add(&Relation::Equal(size.plain().clone(), Dim::new(value)), at);
        }
    }
}

impl Observer for Sizes {
    fn value(&self, symbol: &Symbol) -> Option<i64> {
        self.lock().value(symbol)
    }

    fn relied_on(&self, relation: Relation) {
        self.lock().add(&relation, None);
    }

    fn used(&self, size: &Dim, value: i64, how: SizeUse, at: SourceLoc) {
        if how == SizeUse::Number {
            self.lock().add(&Relation::Equal(size.plain().clone(), Dim::new(value)), Some(at));
        }
    }

    fn decided(&self, relation: Relation, at: SourceLoc) {
        self.lock().add(&relation, Some(at));
    }
}

/// The most steps of a path. The Rust code of a longer call always runs.
const MOST_STEPS: usize = 1 << 14;

/// What a followed call does, as the steps of a path.
pub(in super::super) struct Recorder {
    sizes: Arc<Sizes>,
    /// The generator in force at the call, from which a path draws.
    generator: Generator,
    /// How many generators it had made before.
    n_forks: u64,
    pub(super) signature: Signature,
    /// What the call computed before it left its path.
    ahead: VecDeque<Done>,
    /// Why the call left its path.
    pub(super) miss: Option<Missed>,
    /// How its operations differ from those of known segments.
    pub(in super::super) difference: Option<Missed>,
    arguments: u64,
    buffers: (u64, Vec<Buffer>),
    /// The runs of the steps.
    runs: FxHashMap<u64, u32>,
    pub(super) steps: Vec<(Vec<Guard>, Step)>,
    /// The arguments.
    pub(super) args: Vec<Value>,
    /// The sizes at the last step.
    pub(super) symbols: Symbols,
    pub(super) done: Steps,
    /// The numbers in the operations since the last step.
    numbers: Vec<Number>,
    /// The types of the results of the operation that is being applied, with expressions.
    types: Option<Types>,
    /// The tensors that the call made, with their lines.
    tensors: Vec<(Weak<Lazy>, SourceLoc)>,
    is_stopped: bool,
}

impl Recorder {
    /// Begins a call with settled arguments, which are known by `arguments`, as buffers are by `buffers`.
    pub(in super::super) fn new(
        (args, open): (&[Value], &Open),
        (arguments, buffers): (u64, u64),
        ahead: Steps,
        miss: Option<Missed>,
    ) -> Option<Recorder> {
        if args.iter().any(|arg| arg.leaves().iter().any(|tensor| tensor.shared_array().is_none())) {
            return None;
        }
        Some(Recorder {
            n_forks: default_generator().forks(),
            generator: default_generator(),
            sizes: Arc::default(),
            signature: Signature::of(args, open),
            ahead: ahead.into_iter().collect(),
            miss,
            difference: None,
            arguments,
            buffers: (buffers, Vec::new()),
            runs: FxHashMap::default(),
            steps: Vec::new(),
            args: args.to_vec(),
            symbols: Symbols::new(),
            done: Steps::new(),
            numbers: Vec::new(),
            types: None,
            tensors: Vec::new(),
            is_stopped: false,
        })
    }

    /// Makes the lazy tensor of an argument, whose sizes are symbols.
    pub(in super::super) fn argument(&mut self, lazy: Lazy, name: &str, link: Arc<Link>) -> Lazy {
        match lazy.known() {
            Some(Ok(array)) => {
                let ty = self.sizes.open(name, array);
                lazy.watched(ty, link)
            }
            _ => lazy,
        }
    }

    /// Returns an argument with symbols for the integers that [`for_each_integer`] visits. They are named by the
    /// way to them: `x_sizes_0`.
    pub(in super::super) fn integers(&self, arg: &Value, name: &str) -> Value {
        let item = |(at, item)| self.integers(item, &format!("{name}_{at}"));
        match arg {
            Arg::Int(n) => Arg::Dim(self.sizes.open_number(name, *n)),
            Arg::Tuple(items) => Arg::tuple(items.iter().enumerate().map(item)),
            Arg::List(items) => Arg::list(items.iter().enumerate().map(item)),
            Arg::Dict(entries) => {
                let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
                Arg::dict(entries.iter().map(|(key, item)| {
                    let key_name: String = key.chars().map(plain).collect();
                    (&**key, self.integers(item, &format!("{name}_{key_name}")))
                }))
            }
            other => other.clone(),
        }
    }

    /// Makes the lazy tensor of a buffer's value, whose sizes are those of the buffer always.
    pub(in super::super) fn buffer(&mut self, buffer: &Buffer, link: Arc<Link>) -> Option<Tensor> {
        let array = buffer.load().shared_array()?.clone();
        let (run, known) = &mut self.buffers;
        let index = known.iter().position(|other| other.address() == buffer.address());
        let index = index.unwrap_or_else(|| {
            known.push(buffer.share());
            known.len() - 1
        });
        let ty = TensorType::new(array.dtype(), array.shape());
        Some(Tensor::from_lazy(Arc::new(Lazy::ready(*run, index as u32, array).watched(ty, link))))
    }

    /// Says that the Rust code has to run from here on, for a reason.
    pub(in super::super) fn stop(&mut self, code: Code, what: &str, at: Option<SourceLoc>) {
        if !self.is_stopped {
            let guards = self.take_guards();
            self.steps.push((guards, Step::Stop { code, what: what.into(), at }));
            self.is_stopped = true;
        }
    }

    /// Notes that random operations draw from a generator, which must be that of the call.
    pub(in super::super) fn draws_from(&mut self, generator: &Generator, at: &SourceLoc) {
        if !self.generator.is_same(generator) {
            self.stop(Code::C16, "another generator", Some(at.clone()));
        }
    }

    /// Notes a read of a value by Rust code.
    pub(in super::super) fn read(&mut self, lazy: &Lazy, what: &'static str, at: Option<SourceLoc>) {
        if self.is_stopped {
            return;
        }
        match lazy.known() {
            Some(Ok(array)) if may_choose(array) => {
                let of = self.source((lazy.run(), lazy.index() as usize), array);
                let guard = Guard::Read { of, value: array.clone(), what, at: at.clone() };
                let text = format!("{what} {at:?} {}:{}", lazy.run(), lazy.index());
                let mut sizes = self.sizes.lock();
                if sizes.known.insert(text) {
                    sizes.pending.push(guard);
                }
            }
            _ => self.stop(Code::C02, what, at),
        }
    }

    /// Returns the value of a size for code that cannot keep its expression.
    pub(in super::super) fn size(&self, size: &Dim, at: Option<SourceLoc>) -> Option<i64> {
        let value = self.sizes.value_of(size)?;
        self.sizes.pin(size, at);
        Some(value)
    }

    /// Returns the arguments of an operation with values in the place of sizes.
    pub(in super::super) fn known_sizes_of<'c>(
        &self,
        call: &Call<'c>,
    ) -> (Vec<Value>, Vec<(&'c str, Value)>) {
        let named = call.kwargs.iter().map(|(key, arg)| (*key, self.known_sizes(arg)));
        (call.args.iter().map(|arg| self.known_sizes(arg)).collect(), named.collect())
    }

    fn known_sizes(&self, arg: &Value) -> Value {
        let mut has_size = false;
        arg.walk(&mut |arg| has_size |= matches!(arg, Arg::Dim(_)));
        if !has_size {
            return arg.clone();
        }
        let known = arg.try_rewrite(&mut |arg: &Value| {
            Ok(match arg {
                Arg::Dim(size) => self.sizes.value_of(size).map(Arg::Int),
                Arg::Leaf(tensor) => Some(Arg::Leaf(tensor.clone())),
                _ => None,
            })
        });
        known.unwrap_or_else(|_| arg.clone())
    }

    /// Returns the arguments of an operation with the values of sizes, for which alone the path holds from here
    /// on.
    pub(in super::super) fn pinned<'c>(&self, call: &Call<'c>) -> (Vec<Value>, Vec<(&'c str, Value)>) {
        self.pin_all(call, |_| {});
        self.known_sizes_of(call)
    }

    /// Lets the path hold for the present sizes among an operation's arguments only, and shows `see` its tensors.
    fn pin_all(&self, call: &Call<'_>, mut see: impl FnMut(&Tensor)) {
        for arg in call.args.iter().chain(call.kwargs.iter().map(|(_, arg)| arg)) {
            arg.walk(&mut |arg: &Value| match arg {
                Arg::Leaf(tensor) => see(tensor),
                Arg::Dim(size) => self.sizes.pin(size, Some(call.source.clone())),
                _ => {}
            });
        }
    }

    /// Infers the type of an operation's result with expressions.
    pub(in super::super) fn infer(&self, call: &Call<'_>) -> Option<TypeTree> {
        let mut type_of = |tensor: &Tensor| {
            let ty = match tensor.as_lazy() {
                Some(lazy) => lazy.seen_type().clone(),
                None => Arc::new(tensor.ty()?),
            };
            let shape = ty.shape.iter().map(|size| size.plain().clone()).collect::<Shape>();
            Ok(TensorType { dtype: ty.dtype, shape }.into())
        };
        let observer: Arc<dyn Observer> = self.sizes.clone();
        with_observer(observer, || event::infer_tree(call.op, call.args, call.kwargs, &mut type_of))
    }

    /// Returns a size with its value, as Rust code sees it. `None` if the value is not known.
    pub(in super::super) fn seen_size(&self, size: &Dim) -> Option<Value> {
        let observer: Arc<dyn Observer> = self.sizes.clone();
        let value = self.sizes.value_of(size)?;
        Some(match size.plain().known() {
            Some(value) => Arg::Int(value),
            None => Arg::Dim(Dim::observed(size.plain().clone(), value, &observer)),
        })
    }

    /// Infers the types of an operation's results with expressions, before it is applied.
    pub(in super::super) fn begin(&mut self, call: &Call<'_>) {
        self.types = match event::acts(call.op, call.args, call.kwargs) {
            true => None,
            false => self.infer(call).as_ref().and_then(event::tensors),
        };
    }

    /// Returns whether the sizes of the results depend on data, for the operation that is being applied.
    pub(in super::super) fn is_of_data(&self) -> bool {
        let is_open = |ty: &Arc<TensorType>| ty.shape.iter().any(|size| self.sizes.value_of(size).is_none());
        self.types.as_ref().is_some_and(|types| types.leaves().into_iter().any(is_open))
    }

    /// Notes an operation that became an event.
    pub(in super::super) fn applied(&mut self, call: &Call<'_>) {
        let state = self.sizes.lock();
        let mut lost = false;
        for arg in call.args.iter().chain(call.kwargs.iter().map(|(_, arg)| arg)) {
            arg.walk(&mut |arg| match arg {
                Arg::Int(x) => self.numbers.push(Number::Is(Scalar::Int(*x))),
                Arg::Float(x) => self.numbers.push(Number::Is(Scalar::Float(*x))),
                Arg::Dim(size) => match Term::new(size, &state.symbols) {
                    Some(term) => self.numbers.push(Number::Size(term)),
                    None => lost = true,
                },
                _ => {}
            });
        }
        drop(state);
        if lost {
            self.stop(Code::C03, "a size of another call", Some(call.source.clone()));
        }
    }

    /// Returns the type that Rust code sees of a result of the operation that is being applied.
    pub(in super::super) fn seen_type(
        &mut self,
        call: &Call<'_>,
        at: usize,
        known: &TensorType,
    ) -> TensorType {
        let inferred = self.types.as_ref().and_then(|types| {
            let ty = types.leaves().into_iter().nth(at)?.clone();
            self.sizes.observed(&ty, known)
        });
        inferred.unwrap_or_else(|| {
            // Its sizes are those of this call only, which its operands decide.
            self.pin_all(call, |tensor| {
                if let Some(lazy) = tensor.as_lazy() {
                    let sizes = lazy.seen_type().shape.iter();
                    sizes.for_each(|size| self.sizes.pin(size, Some(call.source.clone())));
                }
            });
            known.clone()
        })
    }

    /// Notes a tensor that the call made.
    pub(in super::super) fn made(&mut self, lazy: &Arc<Lazy>, source: &SourceLoc) {
        if self.tensors.len() == self.tensors.capacity() {
            self.tensors.retain(|(tensor, _)| tensor.strong_count() > 0);
            self.tensors.reserve(self.tensors.len() + 1);
        }
        self.tensors.push((Arc::downgrade(lazy), source.clone()));
    }

    fn take_guards(&mut self) -> Vec<Guard> {
        let mut state = self.sizes.lock();
        self.symbols = state.values.iter().copied().collect();
        std::mem::take(&mut state.pending)
    }

    fn source(&self, identity: Identity, array: &Arc<Array>) -> Source {
        let (run, at) = identity;
        if run == self.arguments {
            return Source::Argument(at as u32);
        }
        if run == self.buffers.0 {
            return Source::Buffer(Cell::new(&self.buffers.1[at]));
        }
        match self.runs.get(&run) {
            Some(step) => Source::Result { step: *step, at: at as u32 },
            None => Source::Constant(array.clone()),
        }
    }

    fn source_of(&self, tensor: &Tensor) -> Option<Source> {
        let array = tensor.shared_array()?;
        Some(match tensor.as_lazy() {
            Some(lazy) => self.source((lazy.run(), lazy.index() as usize), array),
            None => self.source((0, 0), array),
        })
    }

    fn item(&self, arg: &Value) -> Option<Arg<Item>> {
        let mut is_complete = true;
        let item = arg.try_rewrite(&mut |arg: &Value| {
            let item = match arg {
                Arg::Leaf(tensor) => self.source_of(tensor).map(Item::Tensor),
                Arg::Dim(size) => Term::new(size, &self.sizes.lock().symbols).map(Item::Size),
                _ => return Ok(None),
            };
            is_complete &= item.is_some();
            Ok(Some(item.map_or(Arg::None, Arg::Leaf)))
        });
        item.ok().filter(|_| is_complete)
    }

    /// Returns the program's results of a segment, if the call computed them before it left its path.
    pub(in super::super) fn ahead(
        &mut self,
        segment: &Segment,
        bound: &Bound,
        prepared: &Arc<Prepared>,
    ) -> Option<Results> {
        let done = self.ahead.pop_front()?;
        if let Done::Run { segment: id, inputs, numbers, prepared: other, results } = done
            && id == segment.id
            && other.as_ref().is_some_and(|other| Arc::ptr_eq(prepared, other))
            && numbers[..] == bound.numbers[..]
            && inputs.len() == bound.outside.len()
            && self.are_same(
                &inputs,
                bound.outside.iter().map(|outside| outside.identity).zip(bound.arrays(segment)),
            )
        {
            return Some(results);
        }
        self.ahead.clear();
        None
    }

    /// Returns whether a step takes what it took before the call left its path. What the path had let go of is
    /// another tensor now, of the same value.
    fn are_same<'a>(
        &self,
        inputs: &[Input],
        mut now: impl Iterator<Item = (Identity, &'a Arc<Array>)>,
    ) -> bool {
        inputs.iter().all(|(source, before)| {
            now.next().is_some_and(|(identity, array)| {
                before.as_ref().is_some_and(|before| Arc::ptr_eq(before, array))
                    || self.source(identity, array).is_same(source)
            })
        })
    }

    /// Stops at the most steps of a path. Returns whether the path goes on.
    fn goes_on(&mut self, at: Option<&SourceLoc>) -> bool {
        if self.steps.len() >= MOST_STEPS {
            self.stop(Code::C08, &format!("a path of {MOST_STEPS} steps"), at.cloned());
        }
        !self.is_stopped
    }

    /// Notes the run of a segment.
    pub(in super::super) fn ran(
        &mut self,
        segment: &Arc<Segment>,
        bound: &Bound,
        run: u64,
        done: Option<(Arc<Prepared>, Results)>,
    ) {
        let numbers = std::mem::take(&mut self.numbers);
        let Some((prepared, results)) = done else {
            return self.stop(Code::C13, "operations run one by one", segment.end.at.clone());
        };
        if !self.goes_on(segment.end.at.as_ref()) {
            return;
        }
        // A size that the segment has as a number must have this value.
        for (at, number) in numbers.iter().enumerate() {
            if let Number::Size(term) = number
                && segment.slot(at as u32).is_none()
            {
                self.sizes.fix(term);
            }
        }
        let guards = self.take_guards();
        let outside = bound.outside.iter().zip(bound.arrays(segment));
        let inputs = outside.map(|(outside, array)| self.source(outside.identity, array)).collect();
        self.runs.insert(run, self.done.len() as u32);
        let mut done = Done::Run {
            segment: segment.id,
            inputs: Vec::new(),
            numbers: bound.numbers.to_vec(),
            prepared: arc_swap::Guard::from_inner(Some(prepared)),
            results,
        };
        done.release_all();
        self.done.push(done);
        self.steps.push((guards, Step::Run { segment: segment.clone(), inputs, numbers }));
    }

    /// Notes a segment whose results nobody wants.
    pub(in super::super) fn skipped(&mut self) {
        self.numbers.clear();
    }

    /// Returns the result of an operation that runs by itself, if the call computed it before it left its path.
    pub(in super::super) fn ahead_of(&mut self, call: &Call<'_>) -> Option<Value> {
        let done = self.ahead.pop_front()?;
        if let Done::Apply { op: other, inputs, value } = done
            && other == call.op
        {
            let mut now = Vec::new();
            for arg in call.args.iter().chain(call.kwargs.iter().map(|(_, arg)| arg)) {
                arg.for_each_leaf(&mut |tensor: &Tensor| {
                    let identity =
                        tensor.as_lazy().map_or((0, 0), |lazy| (lazy.run(), lazy.index() as usize));
                    now.extend(tensor.shared_array().map(|array| (identity, array.clone())));
                });
            }
            if inputs.len() == now.len()
                && self.are_same(&inputs, now.iter().map(|(identity, array)| (*identity, array)))
            {
                return Some(value);
            }
        }
        self.ahead.clear();
        None
    }

    /// Notes an operation that ran by itself. Returns its result as watched tensors, whose sizes are symbols, as
    /// integers are. Rust code may do anything with other numbers, so they choose the path.
    pub(in super::super) fn ran_alone(
        &mut self,
        call: &Call<'_>,
        value: Value,
        run: u64,
        link: &Arc<Link>,
    ) -> Value {
        if !self.goes_on(Some(call.source)) {
            return value;
        }
        let args: Option<Vec<Arg<Item>>> = call.args.iter().map(|arg| self.item(arg)).collect();
        let kwargs = call.kwargs.iter().map(|(key, arg)| Some((Arc::from(*key), self.item(arg)?)));
        let (Some(args), Some(kwargs)) = (args, kwargs.collect::<Option<Vec<_>>>()) else {
            self.stop(Code::C03, "a size of another call", Some(call.source.clone()));
            return value;
        };
        let guards = self.take_guards();
        self.runs.insert(run, self.done.len() as u32);
        let mut done = Done::Apply { op: call.op, inputs: Vec::new(), value: value.clone() };
        done.release_all();
        self.done.push(done);
        let (op, method, source) = (call.op, call.method, call.source.clone());
        self.steps.push((guards, Step::Apply { op, method, args, kwargs, source }));
        let is_like = |step: &&(Vec<Guard>, Step)| matches!(step.1, Step::Apply { op, .. } if op == call.op);
        let number = match self.steps.iter().filter(is_like).count() {
            1 => String::new(),
            n => (n - 1).to_string(),
        };
        let name = format!("{}{number}", call.op.name);
        let (mut index, mut is_read) = (0, false);
        let seen = value.try_rewrite(&mut |arg: &Value| {
            Ok(match arg {
                Arg::Leaf(tensor) => {
                    let Some(array) = tensor.shared_array() else { return Ok(Some(arg.clone())) };
                    let part = if index == 0 { String::new() } else { format!("{index}_") };
                    let ty = self.sizes.open(&format!("{name}_{part}"), array);
                    let lazy = Lazy::ready(run, index, array.clone()).watched(ty, link.clone());
                    index += 1;
                    Some(Arg::Leaf(Tensor::from_lazy(Arc::new(lazy))))
                }
                Arg::Int(number) => Some(Arg::Dim(self.sizes.open_number(&name, *number))),
                Arg::Bool(_) | Arg::Float(_) | Arg::Str(_) | Arg::Dim(_) => {
                    is_read = true;
                    None
                }
                _ => None,
            })
        });
        if is_read {
            self.read_by(call);
        }
        seen.unwrap_or(value)
    }

    /// Notes that Rust code gets a number of an operation, as if it read the tensors of which that is made.
    fn read_by(&mut self, call: &Call<'_>) {
        let mut lazies = Vec::new();
        self.pin_all(call, |tensor| lazies.extend(tensor.as_lazy().cloned()));
        if !call.op.effects.is_pure() {
            self.stop(Code::C02, call.op.name, Some(call.source.clone()));
        }
        lazies.iter().for_each(|lazy| self.read(lazy, call.op.name, Some(call.source.clone())));
    }

    /// Ends the call, which has succeeded.
    pub(in super::super) fn finish(
        &mut self,
        result: &Value,
        updates: &[(Buffer, Tensor)],
        observed: &[Observed],
    ) {
        let kept = self.tensors.iter().find(|(tensor, _)| {
            let mut expected = 0;
            let mut count = |tensor: &Tensor, of: &Weak<Lazy>| {
                expected += usize::from(
                    tensor.as_lazy().is_some_and(|lazy| std::ptr::eq(Arc::as_ptr(lazy), of.as_ptr())),
                );
            };
            result.for_each_leaf(&mut |leaf: &Tensor| count(leaf, tensor));
            updates.iter().for_each(|(_, value)| count(value, tensor));
            let is_it = |lazy: &Arc<Lazy>| std::ptr::eq(Arc::as_ptr(lazy), tensor.as_ptr());
            let results = observed.iter().flat_map(|observed| &observed.results);
            expected += results.filter(|(_, lazy)| is_it(lazy)).count();
            tensor.strong_count() > expected
        });
        if let Some((_, at)) = kept.map(|(tensor, at)| (tensor.clone(), at.clone())) {
            return self.stop(Code::C07, "a tensor outlives the call", Some(at));
        }
        let lost = self.sizes.lock().lost.take();
        if let Some(at) = lost {
            self.steps.clear();
            self.is_stopped = false;
            return self.stop(Code::C03, "a size of another call", at);
        }
        if self.is_stopped {
            return;
        }
        let item = self.item(result);
        let updates = updates.iter().map(|(buffer, value)| Some((Cell::new(buffer), self.source_of(value)?)));
        match (item, updates.collect::<Option<Vec<_>>>()) {
            (Some(result), Some(updates)) => {
                let guards = self.take_guards();
                let forks = self.generator.forks().saturating_sub(self.n_forks);
                self.steps.push((guards, Step::Return { result, updates, forks }));
            }
            _ => self.stop(Code::C03, "a size of another call", None),
        }
    }

    /// Returns a result without sizes that are expressions.
    pub(in super::super) fn without_sizes(&self, result: &Value) -> Value {
        self.known_sizes(result)
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recorder({} steps)", self.steps.len())
    }
}
