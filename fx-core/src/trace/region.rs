//! Sub-graphs: closures traced inside a trace, with what they capture lifted to operands; and shape rules by
//! tracing.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Scope, Tracer};
use crate::attribute::Attributes;
use crate::{Arg, Error, Graph, Result, Tensor, TypeTree, Value, err};

/// A traced closure: a closed graph, and the values of the outside that it takes after its own arguments.
#[derive(Debug)]
pub struct Region {
    /// The graph; its placeholders are the arguments, then one for each capture.
    pub graph: Graph,
    /// What the closure captured.
    pub captures: Vec<Value>,
}

/// Traces `f` as a closed sub-graph with arguments of the given types. Fails if `f` does.
pub fn trace_region(
    name: &str,
    types: &[TypeTree],
    f: impl FnOnce(&[Value]) -> Result<Value>,
) -> Result<Region> {
    let tracer = Arc::new(Tracer::new(Graph::new(name), Tracer::active(), false));
    let args = types
        .iter()
        .enumerate()
        .map(|(i, ty)| {
            let mut state = tracer.lock();
            let tree = state.graph.structured_input(&format!("arg{i}"), &ty.map(&mut |_| ()))?;
            let mut leaves = ty.leaves().into_iter();
            tree.try_flat_map(&mut |node| {
                let leaf = leaves.next().cloned().map(Arg::Leaf).filter(TypeTree::is_complete);
                state.proxy(&tracer, *node, leaf).map(Arg::Leaf)
            })
        })
        .collect::<Result<Vec<Value>>>()?;
    let output = finish(&tracer, || f(&args))?;
    let state = &mut *tracer.lock();
    let output = output.try_flat_map(&mut |tensor: &Tensor| Ok(Arg::Leaf(symbol_node(tensor)?)))?;
    state.graph.set_output(output)?;
    let graph = std::mem::take(&mut state.graph);
    let captures = std::mem::take(&mut state.captures).into_iter().map(|(outside, _)| outside).collect();
    Ok(Region { graph, captures })
}

fn symbol_node(tensor: &Tensor) -> Result<crate::NodeId> {
    match &tensor.0 {
        crate::tensor::Repr::Proxy(proxy) => Ok(proxy.node),
        crate::tensor::Repr::Failed(error) => Err(error.clone()),
        crate::tensor::Repr::Value(_) => Err(err!(Trace, "a sub-graph returned a value instead of a symbol")),
    }
}

/// Runs `f` in the tracer's scope, makes symbols of all it returns, and reports every error of the trace.
pub(super) fn finish(tracer: &Arc<Tracer>, f: impl FnOnce() -> Result<Value>) -> Result<Value> {
    let end = End(tracer);
    let scope = Scope::enter(Some(tracer.clone()));
    let output = f();
    finished(scope, end, output)
}

/// Ends the trace, also on a panic. Symbols kept by the tracer hold the tracer itself, so they must go.
struct End<'a>(&'a Arc<Tracer>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        self.0.finished.store(true, Ordering::Release);
        let read = std::mem::take(&mut state.read);
        for (_, symbol) in &mut state.captures {
            *symbol = Tensor::failed(err!(Trace, "this trace has ended"));
        }
        drop(state);
        drop(read);
    }
}

fn finished(scope: Scope, end: End<'_>, output: Result<Value>) -> Result<Value> {
    let tracer = end.0;
    let result = output.and_then(|output| match output {
        Arg::Leaf(tensor) => super::record::symbol_of(tracer, &tensor).map(Arg::Leaf),
        _ => output.try_rewrite(&mut |arg| match arg {
            Arg::Failed(error) => Err(error.clone()),
            Arg::Leaf(tensor) => {
                super::record::symbol_of(tracer, tensor).map(|symbol| Some(Arg::Leaf(symbol)))
            }
            _ => Ok(None),
        }),
    });
    drop(scope);
    drop(end);
    let mut state = tracer.lock();
    let mut errors = std::mem::take(&mut state.errors);
    match result {
        Ok(_) if !errors.is_empty() => Err(Error::many(errors)),
        Ok(output) => Ok(output),
        Err(error) => {
            if !errors.iter().any(|other| other.same(&error)) {
                errors.push(error);
            }
            Err(Error::many(errors))
        }
    }
}

thread_local! {
    /// A trace of types that has ended, for the next one: modules are inferred so often that making one anew
    /// shows.
    static IDLE: Cell<Option<Arc<Tracer>>> = const { Cell::new(None) };
}

/// Returns the type of what `f` returns for arguments of the given types, by running it on symbols that have
/// a type and nothing else; nothing is computed or recorded. Fails if `f` does.
pub fn infer_by_tracing(types: &[TypeTree], f: impl FnOnce(&[Value]) -> Result<Value>) -> Result<TypeTree> {
    let tracer = IDLE.take().and_then(Tracer::renewed);
    let tracer = tracer.unwrap_or_else(|| Arc::new(Tracer::new(Graph::default(), None, true)));
    let symbol = |ty: &TypeTree| super::record::typed_symbol(&tracer, ty.clone());
    let mut args: Vec<Value> = Vec::with_capacity(types.len());
    for ty in types {
        args.push(match ty {
            Arg::Leaf(_) => Arg::Leaf(symbol(ty)),
            _ => ty.map(&mut |leaf| symbol(&Arg::Leaf(leaf.clone()))),
        });
    }
    let output = finish(&tracer, || f(&args))?;
    let ty = match &output {
        Arg::Leaf(tensor) => tensor.type_tree()?,
        _ => output.try_flat_map(&mut |tensor: &Tensor| tensor.type_tree())?,
    };
    drop((args, output));
    IDLE.set(Some(tracer));
    if ty.is_complete() { Ok(ty) } else { Err(crate::op::unknown_type()) }
}

/// A traced closure that is to be copied into a graph.
pub(crate) struct Snippet {
    pub(crate) graph: Graph,
    pub(crate) attrs: Attributes,
}

/// Traces `f` on arguments of the given types, where known.
pub(crate) fn trace_snippet(
    types: &[Option<TypeTree>],
    f: impl FnOnce(&[Tensor]) -> Value,
) -> Result<Snippet> {
    let tracer = Arc::new(Tracer::new(Graph::default(), None, false));
    let mut args = Vec::with_capacity(types.len());
    {
        let mut state = tracer.lock();
        for (i, ty) in types.iter().enumerate() {
            let node = state.graph.placeholder(&format!("input{i}"))?;
            args.push(state.proxy(&tracer, node, ty.clone())?);
        }
    }
    let output = finish(&tracer, || Ok(f(&args)))?;
    let mut state = tracer.lock();
    let output = output.try_flat_map(&mut |tensor: &Tensor| Ok(Arg::Leaf(symbol_node(tensor)?)))?;
    state.graph.set_output(output)?;
    Ok(Snippet { graph: std::mem::take(&mut state.graph), attrs: std::mem::take(&mut state.attrs) })
}

impl Region {
    /// Gives the graph one placeholder for each of `all`, in that order, after its own arguments.
    pub(crate) fn arrange_captures<K: PartialEq>(
        &mut self,
        all: &[Value],
        key: &dyn Fn(&Value) -> K,
    ) -> Result<()> {
        let n_own = self.graph.inputs().len() - self.captures.len();
        let own: Vec<_> = self.graph.inputs()[..n_own].to_vec();
        let captured: Vec<_> = self.graph.inputs()[n_own..].to_vec();
        let mut graph = Graph::new(self.graph.name());
        let mut map = crate::graph::NodeMap::default();
        for input in &own {
            let tree = graph.structured_input(&input.name, &input.tree.map(&mut |_| ()))?;
            for (old, new) in input.tree.leaves().into_iter().zip(tree.leaves()) {
                graph.meta_mut(*new)?.ty = self.graph.node(*old)?.meta().ty.clone();
                map.insert(*old, Arg::Leaf(*new));
            }
        }
        for (i, capture) in all.iter().enumerate() {
            let node = graph.placeholder(&format!("captured{i}"))?;
            if let Some(at) = self.captures.iter().position(|other| key(other) == key(capture)) {
                for old in captured[at].tree.leaves() {
                    graph.meta_mut(node)?.ty = self.graph.node(*old)?.meta().ty.clone();
                    map.insert(*old, Arg::Leaf(node));
                }
            } else if let Arg::Leaf(tensor) = capture {
                let ty = tensor.type_tree()?;
                graph.meta_mut(node)?.ty = ty.is_complete().then(|| Arc::new(ty));
            }
        }
        let copied = graph.copy_graph(&self.graph, &mut map)?;
        graph.set_output(copied.output)?;
        self.graph = graph;
        self.captures = all.to_vec();
        Ok(())
    }
}
