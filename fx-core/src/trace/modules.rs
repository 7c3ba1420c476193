//! Calls of modules: leaves become nodes, the others run with their path on the stack.

use std::sync::Arc;

use smallvec::SmallVec;

use super::record::{lower, settle, type_of};
use super::{Tracer, is_tracing, note};
use crate::node::{Kwargs, Target};
use crate::{Arg, Error, Forward, Result, SourceLoc, Tree, TypeTree, Value};

/// How a call of a module goes on.
pub enum ModuleCall<R> {
    /// The module is a leaf of the active trace, and the call a node.
    Recorded(R),
    /// The caller runs the module, with its path on the stack of the active trace until the frame is dropped.
    Through(Option<Frame>),
}

/// Calls a module: a leaf of the active trace is recorded as one node.
#[track_caller]
pub fn call_module<R: Tree>(module: &dyn Forward, args: impl FnOnce() -> Vec<Value>) -> ModuleCall<R> {
    if !is_tracing() {
        return ModuleCall::Through(None);
    }
    let mut args = Some(args);
    let args = &mut || args.take().map_or_else(Vec::new, |args| args());
    match enter_module(module, args, SourceLoc::caller()) {
        ModuleCall::Recorded(value) => ModuleCall::Recorded(super::result_as(value)),
        ModuleCall::Through(frame) => ModuleCall::Through(frame),
    }
}

fn enter_module(
    module: &dyn Forward,
    args: &mut dyn FnMut() -> Vec<Value>,
    source: SourceLoc,
) -> ModuleCall<Result<Value>> {
    let Some(tracer) = Tracer::active() else { return ModuleCall::Through(None) };
    let as_module = module.as_module();
    let Some(number) = tracer.find_module(as_module) else {
        // A module that was made inside the traced function has no path: it is traced through.
        return ModuleCall::Through(None);
    };
    if tracer.parent.is_none() && tracer.is_leaf(as_module, number) {
        let recorded = record_module(&tracer, module, number, &args(), &source);
        return ModuleCall::Recorded(recorded.map_err(|error| {
            let path = tracer.lock().members.module_path(number).to_owned();
            note(error.at(source).in_context(|| format!("self.{path}(…)")).in_module(&path), Some(&tracer))
        }));
    }
    ModuleCall::Through(Some(Frame::push(&tracer, number, as_module.type_name(), source)))
}

/// Calls a child of a graph module that is traced again: a leaf stays one node.
pub(crate) fn call_child(module: &dyn Forward, args: &[Value]) -> Result<Value> {
    let source = SourceLoc::caller();
    let Some(tracer) = Tracer::active() else { return run_module(module, args) };
    let as_module = module.as_module();
    match tracer.find_module(as_module) {
        Some(number)
            if tracer.parent.is_none() && !tracer.types_only && tracer.is_leaf(as_module, number) =>
        {
            record_module(&tracer, module, number, args, &source)
        }
        Some(number) => {
            let _frame = Frame::push(&tracer, number, as_module.type_name(), source);
            run_module(module, args)
        }
        None => run_module(module, args),
    }
}

/// Runs a module that is not a node. Outside of a trace, which knows its errors already, fails with the first
/// error that the result carries.
pub(crate) fn run_module(module: &dyn Forward, args: &[Value]) -> Result<Value> {
    if is_tracing() {
        return module.forward_values(args);
    }
    module.forward_values(args).and_then(Value::into_result).map_err(|error| blame_caller(module, error))
}

/// Leaves the place of an error open if it is that of the call.
fn blame_caller(module: &dyn Forward, error: Error) -> Error {
    match module.tracked() {
        Some(place) => error.forget_place(&place),
        None => error,
    }
}

/// Keeps a module on the stack until dropped.
pub struct Frame(Arc<Tracer>);

impl Frame {
    fn push(tracer: &Arc<Tracer>, number: usize, type_name: &'static str, source: SourceLoc) -> Self {
        tracer.lock().push_frame(number, type_name, source);
        Frame(tracer.clone())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.stack.pop();
        state.shared_stack = None;
    }
}

fn record_module(
    tracer: &Arc<Tracer>,
    module: &dyn Forward,
    number: usize,
    args: &[Value],
    source: &SourceLoc,
) -> Result<Value> {
    let mut inputs: SmallVec<[Arg; 2]> = SmallVec::new();
    let mut types: SmallVec<[TypeTree; 4]> = SmallVec::new();
    for arg in args {
        inputs.push(lower(tracer, arg)?);
        types.push(type_of(arg)?);
    }
    let _frame = Frame::push(tracer, number, module.as_module().type_name(), source.clone());
    tracer.enter_rule(module.as_module().type_name(), source);
    let is_complete = types.iter().all(TypeTree::is_complete);
    let ty = is_complete.then(|| infer_module(module, &types)).transpose();
    let ty = ty.inspect_err(|_| tracer.failed_rule(&types))?.flatten();
    let example = tracer.module_example(module, args)?;
    let ty = ty.map(|ty| settle(tracer, ty, &types));
    let (path, is_new) = {
        let mut state = tracer.lock();
        let called = state.called[number].as_mut().expect("the frame was pushed");
        (called.path.clone(), !std::mem::replace(&mut called.is_child, true))
    };
    // The module's code runs while the state is not locked.
    let child: Option<Arc<dyn Forward>> = is_new.then(|| {
        let mut ties = std::mem::take(&mut tracer.lock().ties);
        let child = ties.keep(|| dyn_clone::clone_box(module));
        tracer.lock().ties = ties;
        Arc::from(child)
    });
    let mut state = tracer.lock();
    if let Some(child) = child {
        state.children.push((path.clone(), child));
    }
    let node = state.create(tracer, Target::CallModule(path), inputs, Kwargs::new(), None, Some(source))?;
    state.note_data_sizes(node, ty.as_ref());
    state.proxy(tracer, node, ty, example).map(Arg::Leaf)
}

/// Returns the type of a module's result, found by tracing it with symbols of the types.
pub(crate) fn infer_module(module: &dyn Forward, types: &[TypeTree]) -> Result<Option<TypeTree>> {
    match super::infer_by_tracing(types, |values| module.forward_values(values)) {
        Ok(ty) => Ok(Some(ty)),
        Err(error) if error.kind() == crate::ErrorKind::UnknownType => Ok(None),
        Err(error) => Err(blame_caller(module, error)),
    }
}
