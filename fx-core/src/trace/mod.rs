//! Tracing: how operations on tensors become nodes.
//!
//! Every operation goes through [`apply`]. If an operand is a symbol, or the operation makes tensors out of
//! nothing while a function is traced, a node is recorded; otherwise the kernel runs. A `Tracer` holds the
//! graph under construction; the thread-local stack of active tracers is entered and left by scope, so
//! nesting, other threads and panics leave no trace.

mod builder;
mod closure;
mod members;
mod methods;
mod modules;
mod observe;
mod record;
mod region;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

#[doc(hidden)]
pub use builder::InputSpecs;
pub use builder::{
    InputSpec, OfModule, TraceBuilder, Traceable, WithModule, symbolic_trace, trace, with_module,
};
#[doc(hidden)]
pub use closure::{ARGUMENT_NAMES, ByArguments, ByRef, ByValue, check_arity};
use members::Members;
pub use modules::{ModuleCall, call_module};
pub(crate) use modules::{call_child, infer_module, run_module};
pub use observe::{EqualSizes, Kept, Observations, Place, Read, ReadKind, Recording, Store};
pub(crate) use observe::{note_assignment, note_store};
pub(crate) use record::{free_size_name, symbol_for, write_buffer};
pub(crate) use region::{Mark, OpenRegion, Snippet, trace_snippet, with_type};
pub use region::{Region, infer_by_tracing, trace_region};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::attribute::Attributes;
use crate::lazy::{self, is_following};
use crate::module::ties::Ties;
use crate::script::join_items;
use crate::tensor::Repr;
use crate::{
    Arg, Array, Error, Forward, Given, Graph, ModuleFrame, NodeId, Op, Result, SourceLoc, Tensor, TensorType,
    Tree, Type, TypeTree, Value, err,
};

/// A symbol: a node of a trace under construction, with what is known of its type.
pub(crate) struct Proxy {
    pub(crate) tracer: Arc<Tracer>,
    pub(crate) node: NodeId,
    pub(crate) name: Arc<str>,
    pub(crate) ty: Option<Arc<TypeTree>>,
    /// Its value for the examples that the function is recorded with.
    pub(crate) example: Option<Value>,
}

impl Proxy {
    /// Returns the dtype and shape, if input specs made them known.
    pub(crate) fn tensor_type(&self) -> Result<TensorType> {
        if let Some(Arg::Leaf(Tensor(Repr::Value(array)))) = self.example.as_ref().filter(|_| self.is_value())
        {
            return Ok(TensorType::new(array.dtype(), array.shape()));
        }
        match self.ty.as_deref() {
            Some(Arg::Leaf(Type::Tensor(ty))) => Ok(ty.clone()),
            Some(Arg::Leaf(Type::Any)) | None => Err(err!(
                Trace,
                "the dtype and shape of %{} are not known while tracing without input specs",
                self.name
            )
            .help("trace with specs: `fx::trace(&model).input(\"x\", \"f32[batch, 3]\").build()`; `x.dim(i)` works without")),
            Some(other) => Err(err!(Structure, "%{} is {other}, not a tensor", self.name)),
        }
    }

    /// The error of a read that needs the value.
    /// Keeps an error for the end of the trace.
    pub(crate) fn note(&self, error: Error) -> Error {
        if self.tracer.is_finished() { error } else { note(error, Some(&self.tracer)) }
    }

    #[track_caller]
    pub(crate) fn no_value(&self, what: &str) -> Error {
        let state = self.tracer.lock();
        let error = match what {
            "to_bool" => err!(Trace, "the truth of %{} decides control flow, but it is not known while tracing", self.name)
                .help("put `#[fx::script]` on the function, use `fx::cond(&p, …, …)` for a branch or `where_` for a choice of values, make the argument a constant of the trace, or mark the function `#[fx::wrap]`"),
            "iteration" => err!(Trace, "%{} cannot be iterated: its size is not known while tracing", self.name)
                .help("trace with an input spec that fixes the size, or work on the whole axis at once"),
            _ => err!(Trace, "{what} needs the value of %{}, which is not known while tracing", self.name)
                .help("keep it a tensor; or mark the function `#[fx::wrap]`, the module `#[module(leaf)]`, or make the argument a constant of the trace"),
        };
        error.at(SourceLoc::caller()).in_module(state.module_path())
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ty {
            // A symbol of a trace of types has no name.
            Some(ty) if self.tracer.types_only => write!(f, "{ty}"),
            Some(ty) => write!(f, "%{}: {ty}", self.name),
            None => write!(f, "%{}", self.name),
        }
    }
}

/// Decides which modules are recorded as one node: given the module and its path.
pub type LeafPolicy = Arc<dyn Fn(&dyn crate::Module, &str) -> bool + Send + Sync>;

/// A function under trace.
pub(crate) struct Tracer {
    id: u64,
    /// The trace around a sub-graph, whose symbols become operands when the sub-graph uses them.
    parent: Option<Arc<Tracer>>,
    /// Whether only types are wanted: nothing is recorded, symbols have a type and no node.
    types_only: bool,
    /// Whether it has ended; set while the state is locked.
    finished: AtomicBool,
    /// Numbers the symbols of a trace of types.
    next_symbol: AtomicU32,
    /// Which modules are recorded as one node, if the user says.
    is_leaf: OnceLock<LeafPolicy>,
    /// What a recording with examples sees; sub-graphs share it.
    recorder: Option<Arc<observe::Recorder>>,
    state: Mutex<State>,
}

struct State {
    graph: Graph,
    members: Arc<Members>,
    /// The node of each attribute that was read, by path.
    read: FxHashMap<Arc<str>, Tensor>,
    attrs: Attributes,
    /// The copies of buffers and modules that the graph module gets, whose ties stay.
    ties: Ties,
    /// The leaf modules that were called, each once.
    children: Vec<(Arc<str>, Arc<dyn Forward>)>,
    stack: Vec<ModuleFrame>,
    shared_stack: Option<Arc<[ModuleFrame]>>,
    /// What is known of the modules that were called, by number.
    called: Vec<Option<Called>>,
    /// The types of the modules that were called, each once.
    type_names: Vec<(&'static str, Arc<str>)>,
    /// The node of a graph that is traced again, whose place the next nodes have.
    origin: Option<Origin>,
    /// For each group of modules at one address, which have no data, the one that was called last.
    turns: FxHashMap<usize, usize>,
    errors: Vec<Error>,
    record_sources: bool,
    /// For a sub-graph: symbols and values of the outside, and the placeholder that stands for each.
    captures: Vec<(Value, Tensor)>,
    /// The node that updates each buffer, by path.
    updates: FxHashMap<Arc<str>, NodeId>,
    /// Names for sizes that depend on data; only those of the outermost trace are used.
    names: crate::fresh::Names,
    /// The sizes of this trace that depend on data, each with the node that has it and the axis.
    data_sizes: FxHashMap<Arc<str>, Option<(NodeId, i64)>>,
}

/// A module that was called in a trace.
struct Called {
    path: Arc<str>,
    type_name: Arc<str>,
    /// How often.
    count: u32,
    /// Whether it is among the children of the graph module.
    is_child: bool,
}

/// Where a node of a graph that is traced again came from.
struct Origin {
    source: Option<SourceLoc>,
    stack: Option<Arc<[ModuleFrame]>>,
}

/// Runs `f`, which traces one node of a graph again; what it records has the line and the modules of that node.
pub(crate) fn with_origin<T>(meta: &crate::NodeMeta, f: impl FnOnce() -> T) -> T {
    struct Restore(Arc<Tracer>, Option<Origin>);
    impl Drop for Restore {
        fn drop(&mut self) {
            self.0.lock().origin = self.1.take();
        }
    }
    let Some(tracer) = Tracer::active() else { return f() };
    let origin = Origin { source: meta.source.clone(), stack: meta.stack.clone() };
    let before = tracer.lock().origin.replace(origin);
    let _restore = Restore(tracer, before);
    f()
}

impl State {
    fn module_path(&self) -> &str {
        self.stack.last().map_or("", |frame| &frame.path)
    }

    fn shared_stack(&mut self) -> Option<Arc<[ModuleFrame]>> {
        if self.stack.is_empty() {
            return None;
        }
        Some(self.shared_stack.get_or_insert_with(|| Arc::from(&self.stack[..])).clone())
    }
}

thread_local! {
    static ACTIVE: RefCell<Vec<Option<Arc<Tracer>>>> = const { RefCell::new(Vec::new()) };
    static IS_ACTIVE: Cell<bool> = const { Cell::new(false) };
}

/// Leaves the scope of a tracer when dropped.
pub(crate) struct Scope;

impl Scope {
    fn enter(tracer: Option<Arc<Tracer>>) -> Scope {
        IS_ACTIVE.set(tracer.is_some());
        ACTIVE.with_borrow_mut(|stack| stack.push(tracer));
        Scope
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        ACTIVE.with_borrow_mut(|stack| {
            stack.pop();
            IS_ACTIVE.set(stack.last().is_some_and(Option::is_some));
        });
    }
}

/// Returns whether a function is being traced on this thread.
#[inline]
pub fn is_tracing() -> bool {
    IS_ACTIVE.get()
}

/// Runs `f` as outside of every trace: operations on values compute, also factories and random operations.
pub fn without_tracing<T>(f: impl FnOnce() -> T) -> T {
    let _scope = is_tracing().then(|| Scope::enter(None));
    f()
}

/// Returns a number that no trace has.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Tracer {
    fn new(graph: Graph, parent: Option<Arc<Tracer>>, types_only: bool) -> Tracer {
        let (members, record_sources) = match &parent {
            Some(parent) => {
                let state = parent.lock();
                (state.members.clone(), state.record_sources)
            }
            None => (Arc::default(), true),
        };
        Tracer {
            id: next_id(),
            recorder: parent.as_ref().and_then(|parent| parent.recorder.clone()),
            parent,
            types_only,
            finished: AtomicBool::new(false),
            next_symbol: AtomicU32::new(0),
            is_leaf: OnceLock::new(),
            state: Mutex::new(State {
                graph,
                members,
                read: FxHashMap::default(),
                attrs: Default::default(),
                ties: Ties::default(),
                children: Default::default(),
                stack: Vec::new(),
                shared_stack: None,
                called: Vec::new(),
                type_names: Vec::new(),
                origin: None,
                turns: FxHashMap::default(),
                errors: Vec::new(),
                record_sources,
                captures: Vec::new(),
                updates: FxHashMap::default(),
                names: Default::default(),
                data_sizes: FxHashMap::default(),
            }),
        }
    }

    /// Returns an ended trace of types as a new one, unless somebody kept a symbol of it. Such a trace
    /// records nothing but names of sizes and errors.
    fn renewed(mut tracer: Arc<Tracer>) -> Option<Arc<Tracer>> {
        let ended = Arc::get_mut(&mut tracer)?;
        ended.id = next_id();
        *ended.finished.get_mut() = false;
        let state = ended.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.errors.clear();
        state.names = Default::default();
        state.data_sizes.clear();
        Some(tracer)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Returns the innermost active tracer of this thread.
    fn active() -> Option<Arc<Tracer>> {
        if !is_tracing() {
            return None;
        }
        ACTIVE.with_borrow(|stack| stack.last().cloned().flatten())
    }

    /// Returns the trace that no other is around.
    fn outermost(&self) -> &Tracer {
        let mut outer = self;
        while let Some(parent) = &outer.parent {
            outer = parent;
        }
        outer
    }

    fn is_within(&self, id: u64) -> bool {
        self.id == id || self.parent.as_ref().is_some_and(|parent| parent.is_within(id))
    }
}

/// Arguments of an operation, before they are arranged by its schema.
pub type Args = SmallVec<[Value; 4]>;

/// Applies an operation to arguments in schema order; the result is of the asked type.
#[doc(hidden)]
#[track_caller]
pub fn apply_as<R: Tree, const N: usize>(op: Op, method: bool, args: [Value; N]) -> R {
    result_as(apply(op, method, &args, &[]))
}

/// As [`apply_as`], for arguments as they were written.
#[doc(hidden)]
#[track_caller]
pub fn apply_given<R: Tree, const N: usize>(op: Op, method: bool, args: [Given<'_>; N]) -> R {
    let source = SourceLoc::caller();
    if is_following()
        && !is_tracing()
        && let Some(tensor) = lazy::apply_expected(op, method, &args, &source)
    {
        return result_as(Ok(Arg::Leaf(tensor)));
    }
    result_as(apply_at(op, method, &args.map(Given::into_value), &[], source))
}

/// Applies an operation to positional and keyword arguments; the result is of the asked type.
#[doc(hidden)]
#[track_caller]
pub fn apply_with<R: Tree>(op: Op, method: bool, args: impl AsRef<[Value]>, kwargs: &[(&str, Value)]) -> R {
    result_as(apply(op, method, args.as_ref(), kwargs))
}

/// Converts the result of an operation; one symbol for several tensors is taken apart by recorded `getitem`s.
#[track_caller]
#[doc(hidden)]
#[inline]
pub fn result_as<R: Tree>(result: Result<Value>) -> R {
    let value = match result {
        Ok(value) => value,
        Err(error) => return R::failed(&error),
    };
    let value = match &value {
        Arg::Leaf(Tensor(Repr::Proxy(proxy))) => match record::unpack(&value, proxy, R::structure().ok()) {
            Ok(Some(parts)) => parts,
            Ok(None) => value,
            // A dynamic value takes the symbol. Not every other structure can carry the error: the trace keeps it.
            Err(error) => return R::from_value(&value).unwrap_or_else(|_| R::failed(&proxy.note(error))),
        },
        _ => value,
    };
    R::from_owned(value).unwrap_or_else(|error| R::failed(&note_error(error)))
}

/// Calls a wrapped function: recorded as one node while tracing, run otherwise.
#[doc(hidden)]
#[track_caller]
pub fn call_wrapped<R: Tree>(op: Op, args: Vec<Value>) -> R {
    result_as(apply(op, false, &args, &[]))
}

/// Applies an operation: records a node if an operand is a symbol, or if the operation is random or makes
/// tensors out of nothing while a function is traced; runs the kernel otherwise. Fails if the arguments do
/// not fit the operation.
#[track_caller]
pub fn apply(op: Op, method: bool, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Value> {
    apply_at(op, method, args, kwargs, SourceLoc::caller())
}

/// As [`apply`], for the given line of the user's program.
#[doc(hidden)]
pub fn apply_at<'a>(
    op: Op,
    method: bool,
    args: &'a [Value],
    kwargs: &'a [(&str, Value)],
    source: SourceLoc,
) -> Result<Value> {
    if is_following()
        && !is_tracing()
        && let Some(result) = lazy::apply(op, method, args, kwargs, &source)
    {
        return result;
    }
    let mut tracer: Option<&Arc<Tracer>> = None;
    let mut mixed = false;
    let mut failure: Option<&Error> = None;
    let (mut has_tensor, mut has_ended, mut has_lazy, mut has_items) = (false, false, false, false);
    for arg in args.iter().chain(kwargs.iter().map(|(_, arg)| arg)) {
        let mut see = |arg: &'a Value| match arg {
            Arg::Leaf(Tensor(Repr::Proxy(proxy))) if proxy.is_value() => has_ended = true,
            Arg::Leaf(Tensor(Repr::Proxy(proxy))) => {
                has_tensor = true;
                match tracer {
                    None => tracer = Some(&proxy.tracer),
                    Some(other) if other.id == proxy.tracer.id => {}
                    // Inside a sub-graph, the innermost of the nested traces records.
                    Some(other) if proxy.tracer.is_within(other.id) => tracer = Some(&proxy.tracer),
                    Some(other) if other.is_within(proxy.tracer.id) => {}
                    Some(_) => mixed = true,
                }
            }
            Arg::Leaf(Tensor(Repr::Value(_))) => has_tensor = true,
            Arg::Leaf(Tensor(Repr::Lazy(_))) => (has_tensor, has_lazy) = (true, true),
            Arg::Leaf(Tensor(Repr::Failed(error))) | Arg::Failed(error) if failure.is_none() => {
                failure = Some(error)
            }
            Arg::Leaf(Tensor(Repr::Items(items))) => {
                has_items = true;
                failure = failure.or(Some(items.read()));
            }
            _ => {}
        };
        // Most arguments hold no others.
        if arg.depth() > 0 { arg.walk(&mut see) } else { see(arg) }
    }
    if let Some(error) = failure {
        if has_items {
            return join_items(op, args, kwargs, &source)
                .unwrap_or_else(|| Err(note_error(error.clone().at(source.clone()))));
        }
        return Err(note(error.clone(), tracer));
    }
    if has_ended || (has_lazy && (tracer.is_some() || is_tracing())) {
        let named: Vec<Value> = kwargs.iter().map(|(_, arg)| arg.clone()).collect();
        let (args, named) = (settle_values(args)?, settle_values(&named)?);
        let kwargs: Vec<(&str, Value)> = kwargs.iter().map(|(key, _)| *key).zip(named).collect();
        return apply_at(op, method, &args, &kwargs, source);
    }
    let active = if is_tracing() { Tracer::active() } else { None };
    if mixed {
        let error = err!(Trace, "symbols of two traces are mixed")
            .help("a traced function may use only its own arguments, parameters and captured tensors")
            .at(source)
            .in_context(|| describe_call(op, args, kwargs));
        return Err(note(error, tracer));
    }
    let tracer = match (tracer, &active) {
        (Some(tracer), Some(active)) if active.is_within(tracer.id) => Some(active),
        (Some(tracer), Some(active)) if active.id != tracer.id && !tracer.is_finished() => {
            let error = err!(Trace, "a symbol of an outer trace is used inside an independent inner trace")
                .help("pass it to the inner function as an argument")
                .at(source)
                .in_context(|| describe_call(op, args, kwargs));
            return Err(note(error, Some(active)));
        }
        (Some(tracer), _) => Some(tracer),
        (None, Some(active)) => {
            let must_record = op.effects.random
                || !has_tensor
                || op.effects.host
                || record::uses_member(active, args, kwargs);
            must_record.then_some(active)
        }
        (None, None) => None,
    };
    match tracer {
        Some(tracer) => record::record_call(tracer, op, method, args, kwargs, &source).map_err(|error| {
            let error = error.at(source).in_context(|| describe_call(op, args, kwargs));
            note(error, Some(tracer))
        }),
        None => run(op, args, kwargs)
            .map_err(|error| error.at(source).in_context(|| describe_call(op, args, kwargs))),
    }
}

/// Replaces symbols of ended recordings and lazy tensors by their values.
fn settle_values(args: &[Value]) -> Result<Vec<Value>> {
    let settle = |arg: &Value| {
        arg.try_flat_map(&mut |tensor: &Tensor| match &tensor.0 {
            Repr::Proxy(proxy) if proxy.is_value() => {
                proxy.example.clone().ok_or_else(|| err!(Trace, "this recording has ended"))
            }
            Repr::Lazy(_) => tensor.clone().settled().ok().map(Arg::Leaf),
            _ => Ok(Arg::Leaf(tensor.clone())),
        })
    };
    args.iter().map(settle).collect()
}

/// Runs the kernel on concrete arguments.
pub(crate) fn run(op: Op, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Value> {
    let whole = kwargs.is_empty() && args.len() == op.params.len();
    if whole && args.iter().zip(op.params).all(|(arg, param)| param.kind.accepts(arg)) {
        return eval(op, args);
    }
    eval(op, &op.bind(args, kwargs)?)
}

/// Evaluates with arguments in schema order; what a composite does inside is not recorded.
pub(crate) fn eval(op: Op, bound: &[Value]) -> Result<Value> {
    if is_tracing() { without_tracing(|| (op.eval)(bound)) } else { (op.eval)(bound) }
}

/// Keeps an error for the end of the trace of this thread, if there is one.
pub(crate) fn note_error(error: Error) -> Error {
    note(error, Tracer::active().as_ref())
}

/// Returns whether the trace of this thread must record what the tensor decides: it is a symbol, or a parameter or
/// buffer of the traced module.
pub(crate) fn decides_in_trace(tensor: &Tensor) -> bool {
    let is_member = |tracer: Arc<Tracer>| record::uses_member(&tracer, &[Arg::Leaf(tensor.clone())], &[]);
    tensor.is_symbolic() || Tracer::active().is_some_and(is_member)
}

/// Keeps an error for the end of the trace, with the module in which it happened.
fn note(error: Error, tracer: Option<&Arc<Tracer>>) -> Error {
    let Some(tracer) = tracer else { return error };
    let mut state = tracer.lock();
    let error = error.in_module(state.module_path());
    if !state.errors.iter().any(|other| other.same(&error)) {
        state.errors.push(error.clone());
    }
    error
}

/// Notes a comparison of sizes that the trace on this thread cannot decide.
pub(crate) fn note_undecided(comparison: &str, at: SourceLoc) {
    let Some(tracer) = Tracer::active() else { return };
    let error = err!(Trace, "whether {comparison} is not known while tracing")
        .help("give the size a number or a range in the input spec, compute with `min` and `max`, or trace with examples: `fx::jit_trace`")
        .at(at);
    note(error, Some(&tracer));
}

/// Writes a call with the types of its operands, for messages; trailing defaults are left out.
fn describe_call(op: Op, args: &[Value], kwargs: &[(&str, Value)]) -> String {
    let is_default = |(i, arg): (usize, &Value)| {
        op.params.get(i).and_then(|param| param.default).is_some_and(|default| default.is(arg))
    };
    let n = args.iter().enumerate().rposition(|entry| !is_default(entry)).map_or(0, |last| last + 1);
    let mut parts: Vec<String> = args[..n].iter().map(|arg| format!("{arg:?}")).collect();
    parts.extend(kwargs.iter().map(|(key, arg)| format!("{key}={arg:?}")));
    let mut text = format!("{}({})", op.name, parts.join(", "));
    if text.len() > 300 {
        text.truncate(text.floor_char_boundary(300));
        text.push('…');
    }
    text
}

/// Identifies a concrete tensor while it lives.
fn address(array: &Arc<Array>) -> usize {
    Arc::as_ptr(array).cast::<()>() as usize
}
