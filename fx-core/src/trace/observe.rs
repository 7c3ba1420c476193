//! Recording with examples: symbols have a value at hand, and what Rust code reads of the values is noted.
//!
//! Each operation is recorded and computed. A read of a symbol (`item`, `to_bool`, `iter`, a size as a number)
//! gives the value of the example instead of the error of a plain trace. Such a read can freeze a value
//! into the graph, so an [`Observations`] lists every read with the line of the user's program. It has no
//! opinion on them; `fx::jit_trace` compares several recordings and judges.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Proxy, Tracer, is_tracing};
use crate::dim::observed::{Observer, Relation, SizeUse};
use crate::node::NodeId;
use crate::tensor::Repr;
use crate::{
    Arg, Buffer, Dim, Forward, GraphModule, Op, Result, SourceLoc, Symbol, Tensor, TensorType, Type,
    TypeTree, Value,
};

/// The most reads of one recording that are kept; later ones are counted only.
const MAX_READS: usize = 10_000;

/// A function that was recorded with examples.
pub struct Recording {
    /// The graph module, or the errors of the trace.
    pub module: Result<GraphModule>,
    /// The result of the function for the examples.
    pub output: Option<Value>,
    /// What was seen on the way.
    pub observations: Observations,
}

/// What a recording with examples saw, in program order.
#[derive(Debug, Default)]
pub struct Observations {
    /// The reads of values by Rust code.
    pub reads: Vec<Read>,
    /// How many reads there were; only the first 10,000 are listed.
    pub n_reads: usize,
    /// Pairs of sizes that an operation needs to be equal, and that are equal in the example.
    pub equal: Vec<EqualSizes>,
    /// Symbols in the types of operations that failed.
    pub failed: Vec<(Symbol, Place)>,
    /// Symbols that Rust code still holds after the function has returned.
    pub kept: Vec<Kept>,
    /// Buffers that were stored to in a way that no graph repeats.
    pub stores: Vec<Store>,
    /// Arguments whose variable was assigned to by an operator such as `+=`.
    pub assigned: Vec<(String, SourceLoc)>,
}

/// A read of a value by Rust code.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// What was read.
    pub what: ReadKind,
    /// The node or size that was read: `%sum` or `2*x0`.
    pub of: String,
    /// The value, as text.
    pub seen: String,
    /// A hash of the value, where the text does not have all of it.
    pub fingerprint: u64,
    /// The symbols that a size consists of.
    pub symbols: Vec<Symbol>,
    /// The line of the user's program.
    pub at: SourceLoc,
    /// The path of the module that read, if it was one.
    pub module: Option<String>,
}

/// What a [`Read`] read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadKind {
    /// The only element, with `item`.
    Item,
    /// All elements, with `to_vec`, `to_array` or `array`.
    Elements,
    /// Whether an element is not zero, with `to_bool`.
    Truth,
    /// A size as a number.
    Size,
    /// The result of a comparison of sizes, which has this text.
    Comparison(String),
    /// The number of rows, by iteration over them.
    Rows,
    /// The number of parts that an operation returns.
    Parts,
}

/// Where a recorded operation is.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The name of the operation or module.
    pub what: String,
    /// The line of the user's program.
    pub at: SourceLoc,
}

/// Two sizes that an operation needs to be equal.
#[derive(Debug, Clone, PartialEq)]
pub struct EqualSizes {
    /// One size.
    pub left: Dim,
    /// The other.
    pub right: Dim,
    /// The operation, if it was one.
    pub place: Option<Place>,
}

/// A symbol that Rust code still holds after the function has returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The name of its node.
    pub name: String,
    /// The line that made it.
    pub at: Option<SourceLoc>,
}

/// A store to a buffer that no graph repeats.
#[derive(Debug, Clone)]
pub struct Store {
    /// The line of the user's program.
    pub at: SourceLoc,
    /// Whether the buffer is no member of the traced module.
    pub is_foreign: bool,
}

/// The state of a recording with examples, shared by the traces of its sub-graphs.
#[derive(Default)]
pub(crate) struct Recorder {
    state: Mutex<RecorderState>,
}

#[derive(Default)]
struct RecorderState {
    observations: Observations,
    values: FxHashMap<Symbol, i64>,
    symbols: Vec<Weak<Proxy>>,
    /// The operation whose shape rule is running.
    place: Option<Place>,
    /// Copies of modules with effects, by address, on which examples run.
    copies: Vec<(usize, Box<dyn Forward>)>,
    /// The buffers that were stored to, and the values that they had.
    stored: Vec<(Buffer, Tensor)>,
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Learns the value of a symbol.
    pub(super) fn bind(&self, symbol: &Symbol, value: i64) {
        self.lock().values.entry(symbol.clone()).or_insert(value);
    }

    /// Learns the values of the symbols that stand alone in a type.
    pub(super) fn bind_type(&self, ty: &TypeTree, value: &Value) {
        let mut types = Vec::new();
        ty.for_each_leaf(&mut |leaf| types.push(leaf));
        let values = value.leaves();
        if types.len() != values.len() {
            return;
        }
        for (ty, value) in types.into_iter().zip(values) {
            let (Type::Tensor(ty), Repr::Value(array)) = (ty, &value.0) else { continue };
            for (dim, size) in ty.shape.iter().zip(array.shape()) {
                if let Some(symbol) = dim.as_symbol() {
                    self.bind(symbol, *size as i64);
                }
            }
        }
    }

    /// Notes a symbol, to see later whether Rust code keeps it.
    pub(super) fn made(&self, proxy: &Arc<Proxy>) {
        self.lock().symbols.push(Arc::downgrade(proxy));
    }

    fn read(&self, read: Read) {
        let mut state = self.lock();
        state.observations.n_reads += 1;
        if state.observations.reads.len() < MAX_READS {
            state.observations.reads.push(read);
        }
    }

    /// Ends the recording. `graph` has the lines of the nodes.
    pub(super) fn finish(&self, lines: &dyn Fn(NodeId) -> Option<SourceLoc>) -> Observations {
        let mut state = self.lock();
        state.copies.clear();
        let kept: Vec<Arc<Proxy>> = state.symbols.drain(..).filter_map(|symbol| symbol.upgrade()).collect();
        let mut observations = std::mem::take(&mut state.observations);
        let stored = std::mem::take(&mut state.stored);
        drop(state);
        for proxy in kept {
            observations.kept.push(Kept { name: proxy.name.to_string(), at: lines(proxy.node) });
        }
        for (buffer, before) in stored.into_iter().rev() {
            buffer.replace(before);
        }
        observations
    }
}

impl Observer for Recorder {
    fn value(&self, symbol: &Symbol) -> Option<i64> {
        self.lock().values.get(symbol).copied()
    }

    fn relied_on(&self, relation: Relation) {
        let Relation::Equal(left, right) = relation else { return };
        let mut state = self.lock();
        let place = state.place.clone();
        let is_known = |other: &EqualSizes| other.left == left && other.right == right;
        if !state.observations.equal.iter().any(is_known) {
            state.observations.equal.push(EqualSizes { left, right, place });
        }
    }

    fn used(&self, size: &Dim, value: i64, how: SizeUse, at: SourceLoc) {
        let what = match how {
            SizeUse::Number => ReadKind::Size,
            SizeUse::Comparison(text) => ReadKind::Comparison(text),
        };
        let (of, seen, symbols) = (size.to_string(), value.to_string(), size.symbols());
        self.read(Read { what, of, seen, fingerprint: 0, symbols, at, module: current_module() });
    }
}

/// Returns the path of the module that runs, unless it is the root.
fn current_module() -> Option<String> {
    let tracer = Tracer::active()?;
    let state = tracer.lock();
    Some(state.module_path()).filter(|path| !path.is_empty()).map(str::to_owned)
}

impl Tracer {
    /// Remembers the operation whose shape rule runs next.
    pub(super) fn enter_rule(&self, what: &str, at: &SourceLoc) {
        if let Some(recorder) = &self.recorder {
            recorder.lock().place = Some(Place { what: what.to_owned(), at: at.clone() });
        }
    }

    /// Notes the symbols in the types of an operation that failed.
    pub(super) fn failed_rule(&self, types: &[TypeTree]) {
        let Some(recorder) = &self.recorder else { return };
        let mut state = recorder.lock();
        let Some(place) = state.place.clone() else { return };
        for ty in types {
            for symbol in crate::fresh::symbols(ty) {
                if !state.observations.failed.iter().any(|(other, _)| *other == symbol) {
                    state.observations.failed.push((symbol, place.clone()));
                }
            }
        }
    }

    /// Computes an operation on the values at hand. `None` if one of them is not at hand. Fails if the
    /// operation does.
    pub(super) fn example(&self, op: Op, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Option<Value>> {
        let Some(recorder) = self.recorder.as_ref().filter(|_| self.parent.is_none()) else {
            return Ok(None);
        };
        let mut values: SmallVec<[Value; 4]> = SmallVec::new();
        for arg in args {
            let Some(value) = self.value_of(recorder, arg)? else { return Ok(None) };
            values.push(value);
        }
        let mut named: SmallVec<[(&str, Value); 2]> = SmallVec::new();
        for (key, arg) in kwargs {
            let Some(value) = self.value_of(recorder, arg)? else { return Ok(None) };
            named.push((key, value));
        }
        super::without_tracing(|| super::run(op, &values, &named)).map(Some)
    }

    /// Computes a call of a module on the values at hand, without a change of the module.
    pub(super) fn module_example(&self, module: &dyn Forward, args: &[Value]) -> Result<Option<Value>> {
        let Some(recorder) = self.recorder.as_ref().filter(|_| self.parent.is_none()) else {
            return Ok(None);
        };
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            let Some(value) = self.value_of(recorder, arg)? else { return Ok(None) };
            values.push(value);
        }
        let run = |module: &dyn Forward| super::without_tracing(|| module.forward_values(&values));
        if module.as_module().is_pure() {
            return run(module).map(Some);
        }
        let key = std::ptr::from_ref(module).cast::<()>() as usize;
        let known = {
            let mut state = recorder.lock();
            let at = state.copies.iter().position(|(other, _)| *other == key);
            at.map(|at| state.copies.swap_remove(at).1)
        };
        let copy = known.unwrap_or_else(|| dyn_clone::clone_box(module));
        let result = run(&*copy);
        recorder.lock().copies.push((key, copy));
        result.map(Some)
    }

    /// Returns an argument with values in the place of symbols.
    fn value_of(&self, recorder: &Recorder, arg: &Value) -> Result<Option<Value>> {
        let mut is_complete = true;
        let value = arg.try_rewrite(&mut |arg| {
            Ok(match arg {
                Arg::Leaf(Tensor(Repr::Proxy(proxy))) => Some(match &proxy.example {
                    Some(example) => example.clone(),
                    None => {
                        is_complete = false;
                        Arg::None
                    }
                }),
                Arg::Leaf(tensor) => Some(Arg::Leaf(tensor.clone())),
                Arg::Dim(dim) => Some(match dim.eval(&|symbol| recorder.value(symbol)) {
                    Ok(n) => Arg::Int(n),
                    Err(_) => {
                        is_complete = false;
                        Arg::None
                    }
                }),
                _ => None,
            })
        })?;
        Ok(is_complete.then_some(value))
    }
}

impl Proxy {
    /// Returns the recorder, if the values of symbols are at hand.
    fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.tracer.recorder.as_ref()
    }

    /// Returns the value at hand, and notes that Rust code reads it.
    pub(crate) fn read(&self, what: ReadKind, at: SourceLoc) -> Option<&Tensor> {
        let example = self.example.as_ref()?.leaf()?;
        if !self.tracer.is_finished()
            && let Some(recorder) = self.recorder()
        {
            let (seen, fingerprint) = describe(example, &what);
            let of = format!("%{}", self.name);
            let (symbols, module) = (Vec::new(), current_module());
            recorder.read(Read { what, of, seen, fingerprint, symbols, at, module });
        }
        Some(example)
    }

    /// Returns the structure of the value at hand, and notes that Rust code relies on it.
    pub(super) fn read_parts(&self, at: SourceLoc) -> Option<Arg<()>> {
        let example = self.example.as_ref()?;
        let n = example.items()?.len();
        let recorder = self.recorder()?;
        recorder.read(Read {
            what: ReadKind::Parts,
            of: format!("%{}", self.name),
            seen: n.to_string(),
            fingerprint: 0,
            symbols: Vec::new(),
            at,
            module: current_module(),
        });
        Some(example.map(&mut |_| ()))
    }

    /// Returns the number of rows of the value at hand, and notes that Rust code iterates over them.
    pub(super) fn read_rows(&self, at: SourceLoc) -> Option<usize> {
        let example = self.example.as_ref()?.leaf()?;
        let Repr::Value(array) = &example.0 else { return None };
        let n = *array.shape().first()?;
        let rows = match self.ty.as_deref().and_then(TypeTree::tensor).and_then(|ty| ty.shape.first()) {
            Some(size) if size.is_known() => return Some(n),
            Some(size) => size.symbols(),
            None => Vec::new(),
        };
        self.recorder()?.read(Read {
            what: ReadKind::Rows,
            of: format!("%{}", self.name),
            seen: n.to_string(),
            fingerprint: 0,
            symbols: rows,
            at,
            module: current_module(),
        });
        Some(n)
    }

    /// Gives a size the value at hand, if there is one.
    pub(super) fn observed_dim(&self, size: &Dim) -> Dim {
        let Some(recorder) = self.recorder().filter(|_| !size.is_known()) else { return size.clone() };
        match size.eval(&|symbol| recorder.value(symbol)) {
            Ok(value) => {
                let observer: Arc<dyn Observer> = recorder.clone();
                Dim::observed(size.clone(), value, &observer)
            }
            Err(_) => size.clone(),
        }
    }

    /// Returns dtype and shape, whose sizes have their values at hand. Fails if they are not known.
    pub(crate) fn observed_type(&self) -> Result<TensorType> {
        let mut ty = self.tensor_type()?;
        if self.recorder().is_some() {
            ty.shape = ty.shape.iter().map(|size| self.observed_dim(size)).collect();
        }
        Ok(ty)
    }

    /// Gives the size of an axis without a known type the value at hand.
    pub(super) fn observed_size(&self, size: Dim, axis: i64) -> Dim {
        let (Some(recorder), Some(symbol)) = (self.recorder(), size.as_symbol()) else { return size };
        if let Some(Arg::Leaf(Tensor(Repr::Value(array)))) = &self.example
            && let Ok(axis) = crate::ops::axis(axis, array.rank())
        {
            recorder.bind(symbol, array.shape()[axis] as i64);
        }
        self.observed_dim(&size)
    }

    /// Returns whether the recording of this symbol has ended, so that its value stands for it.
    pub(crate) fn is_value(&self) -> bool {
        self.example.is_some() && self.tracer.is_finished()
    }
}

/// Writes what a read saw; where that is not all of it, with a hash of all.
fn describe(example: &Tensor, what: &ReadKind) -> (String, u64) {
    let Repr::Value(array) = &example.0 else { return (String::new(), 0) };
    if let (ReadKind::Truth, Ok(item)) = (what, array.item()) {
        return (item.to_bool().to_string(), 0);
    }
    if array.shape().iter().product::<usize>() > 8 {
        let mut hasher = rustc_hash::FxHasher::default();
        array.to_le_bytes().unwrap_or_default().hash(&mut hasher);
        return (array.describe(), hasher.finish());
    }
    let text: Vec<String> = array.to_string().split_whitespace().map(str::to_owned).collect();
    (text.join(" "), 0)
}

/// Notes a store to a buffer that no graph repeats; the recording undoes it at its end. Returns the value to
/// store, which is that of the example for a symbol.
pub(crate) fn note_store(buffer: &Buffer, value: Tensor, at: SourceLoc) -> Tensor {
    if !is_tracing() {
        return value;
    }
    let Some(tracer) = Tracer::active() else { return value };
    let Some(recorder) = &tracer.recorder else { return value };
    let is_foreign = tracer.lock().members.buffer(buffer).is_none();
    let before = buffer.load();
    let mut state = recorder.lock();
    state.stored.push((buffer.share(), before));
    state.observations.stores.push(Store { at, is_foreign });
    drop(state);
    match &value.0 {
        Repr::Proxy(proxy) => match &proxy.example {
            Some(Arg::Leaf(example)) => example.clone(),
            _ => value,
        },
        _ => value,
    }
}

/// Notes that an operator such as `+=` assigns to a variable that holds an argument.
pub(crate) fn note_assignment(target: &Tensor, at: SourceLoc) {
    if !is_tracing() {
        return;
    }
    let Repr::Proxy(proxy) = &target.0 else { return };
    let Some(recorder) = proxy.recorder() else { return };
    let is_argument = proxy
        .tracer
        .lock()
        .graph
        .node(proxy.node)
        .is_ok_and(|node| node.opcode() == crate::OpCode::Placeholder);
    if is_argument {
        recorder.lock().observations.assigned.push((proxy.name.to_string(), at));
    }
}

/// Runs `f` in the scope of a recording.
pub(super) fn observed<T>(recorder: &Arc<Recorder>, f: impl FnOnce() -> T) -> T {
    crate::dim::observed::with_observer(recorder.clone(), f)
}
