//! Sub-graphs: closures traced inside a trace, with what they capture lifted to operands; and shape rules by
//! tracing.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Scope, Tracer};
use crate::attribute::Attributes;
use crate::{Arg, Error, Graph, NodeId, OpCode, Result, Symbol, Tensor, TypeTree, Value, err};

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
                state.proxy(&tracer, *node, leaf, None).map(Arg::Leaf)
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

/// A sub-graph that is recorded piece by piece, between [`enter`](Self::enter) and the end of the returned
/// scope, instead of by one closure.
pub(crate) struct OpenRegion(Arc<Tracer>);

impl OpenRegion {
    /// Opens a sub-graph of the innermost trace of this thread.
    pub(crate) fn new(name: &str) -> OpenRegion {
        OpenRegion(Arc::new(Tracer::new(Graph::new(name), Tracer::active(), false)))
    }

    /// Adds an argument. Its name becomes a free one.
    pub(crate) fn argument(&self, name: &str, ty: TypeTree) -> Result<Tensor> {
        let mut state = self.0.lock();
        let name = super::record::unique_input(&state, name);
        let node = state.graph.placeholder(&name)?;
        state.proxy(&self.0, node, Some(ty).filter(TypeTree::is_complete), None)
    }

    /// Makes it the innermost trace.
    pub(crate) fn enter(&self) -> Scope {
        Scope::enter(Some(self.0.clone()))
    }

    /// Returns whether the tensor is a symbol of this very sub-graph.
    pub(crate) fn owns(&self, tensor: &Tensor) -> bool {
        matches!(&tensor.0, crate::tensor::Repr::Proxy(proxy) if proxy.tracer.id == self.0.id)
    }

    /// Returns the symbols in the types of the values that it captures so far.
    pub(crate) fn outer_symbols(&self) -> Vec<Symbol> {
        let mut found = Vec::new();
        for (outside, _) in &self.0.lock().captures {
            if let Some(Ok(ty)) = outside.leaf().map(Tensor::type_tree) {
                crate::fresh::for_each_dim(&ty, &mut |dim| dim.collect_symbols(&mut found));
            }
        }
        found
    }

    /// Returns whether one of its operations gave the size its name.
    pub(crate) fn names(&self, symbol: &Symbol) -> bool {
        symbol.owner() == self.0.id
    }

    /// Ends it with the values that it returns. Fails with every error of its operations.
    pub(crate) fn close(&self, output: Value) -> Result<Region> {
        let output = finish(&self.0, || Ok(output))?;
        let state = &mut *self.0.lock();
        let output = output.try_flat_map(&mut |tensor: &Tensor| Ok(Arg::Leaf(symbol_node(tensor)?)))?;
        state.graph.set_output(output)?;
        let graph = std::mem::take(&mut state.graph);
        let captures = std::mem::take(&mut state.captures).into_iter().map(|(outside, _)| outside).collect();
        Ok(Region { graph, captures })
    }
}

impl Drop for OpenRegion {
    fn drop(&mut self) {
        drop(End(&self.0));
    }
}

/// Returns a symbol with a type that is known from elsewhere, should its operation not have found it.
pub(crate) fn with_type(tensor: Tensor, ty: &TypeTree) -> Result<Tensor> {
    match &tensor.0 {
        crate::tensor::Repr::Proxy(proxy) if proxy.ty.is_none() && ty.is_complete() => {
            proxy.tracer.lock().proxy(&proxy.tracer, proxy.node, Some(ty.clone()), proxy.example.clone())
        }
        _ => Ok(tensor),
    }
}

/// The end of what a trace has recorded so far.
pub(crate) struct Mark(Arc<Tracer>, Option<NodeId>);

impl Mark {
    /// Marks the end of the innermost trace; `None` outside of traces.
    pub(crate) fn new() -> Option<Mark> {
        let tracer = Tracer::active()?;
        let last = {
            let state = tracer.lock();
            let output = state.graph.output_node();
            state.graph.prev(output).ok().flatten()
        };
        Some(Mark(tracer, last))
    }

    /// Erases the calls that the trace has recorded since and that nothing uses.
    pub(crate) fn rewind(&self) -> Result<()> {
        let graph = &mut self.0.lock().graph;
        let mut node = graph.prev(graph.output_node())?;
        while let Some(id) = node.filter(|id| Some(*id) != self.1) {
            node = graph.prev(id)?;
            let is_call = matches!(
                graph.node(id)?.opcode(),
                OpCode::CallFunction | OpCode::CallMethod | OpCode::CallModule
            );
            if is_call && graph.users(id)?.is_empty() {
                graph.erase(id)?;
            }
        }
        Ok(())
    }
}

fn symbol_node(tensor: &Tensor) -> Result<NodeId> {
    match &tensor.0 {
        crate::tensor::Repr::Proxy(proxy) => Ok(proxy.node),
        crate::tensor::Repr::Failed(error) => Err(error.clone()),
        crate::tensor::Repr::Items(items) => Err(items.error().clone()),
        crate::tensor::Repr::Value(_) | crate::tensor::Repr::Lazy(_) => {
            Err(err!(Trace, "a sub-graph returned a value instead of a symbol"))
        }
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
            args.push(state.proxy(&tracer, node, ty.clone(), None)?);
        }
    }
    let output = finish(&tracer, || Ok(f(&args)))?;
    let mut state = tracer.lock();
    let output = output.try_flat_map(&mut |tensor: &Tensor| Ok(Arg::Leaf(symbol_node(tensor)?)))?;
    state.graph.set_output(output)?;
    Ok(Snippet { graph: std::mem::take(&mut state.graph), attrs: std::mem::take(&mut state.attrs) })
}

impl Region {
    /// Returns the graph with the arguments of its own that `kept` numbers, then a placeholder for each of
    /// `all`, with its name; those of its arguments that `kept` leaves out are captured, each as the value in
    /// `given`.
    pub(crate) fn rearranged(
        &self,
        given: &[Value],
        kept: &[usize],
        all: &[(Value, String)],
        is_same: &dyn Fn(&Value, &Value) -> bool,
    ) -> Result<Graph> {
        let inputs = self.graph.inputs();
        let leaf = |i: usize| inputs.get(i).and_then(|input| input.tree.leaf().copied());
        let mut graph = Graph::new(self.graph.name());
        let mut map = crate::graph::NodeMap::default();
        for (i, name) in kept.iter().filter_map(|i| leaf(*i).map(|node| (node, &inputs[*i].name))) {
            let node = graph.placeholder(name)?;
            graph.meta_mut(node)?.ty = self.graph.node(i)?.meta().ty.clone();
            map.insert(i, Arg::Leaf(node));
        }
        let n_own = inputs.len() - self.captures.len();
        for (value, name) in all {
            let taken = |name: &str| graph.inputs().iter().any(|input| &*input.name == name);
            let free = (0..).map(|i| if i == 0 { name.clone() } else { format!("{name}_{i}") });
            let name = free.into_iter().find(|name| !taken(name)).unwrap_or_default();
            let node = graph.placeholder(&name)?;
            if let Arg::Leaf(tensor) = value {
                let ty = tensor.type_tree()?;
                graph.meta_mut(node)?.ty = ty.is_complete().then(|| Arc::new(ty));
            }
            let dropped = (0..n_own).filter(|i| !kept.contains(i) && is_same(&given[*i], value));
            let captured = (0..self.captures.len()).filter(|i| is_same(&self.captures[*i], value));
            for old in dropped.chain(captured.map(|i| n_own + i)).filter_map(leaf) {
                map.insert(old, Arg::Leaf(node));
            }
        }
        for node in inputs.iter().filter_map(|input| input.tree.leaf()) {
            if self.graph.users(*node)?.is_empty() {
                map.entry(*node).or_insert(Arg::None);
            }
        }
        let copied = graph.copy_graph(&self.graph, &mut map)?;
        graph.set_output(copied.output)?;
        Ok(graph)
    }

    /// Returns the captured values that the graph uses, with the names of their placeholders; and so for the
    /// arguments that `kept` leaves out, whose values are in `given`. A value is also used by a size that it
    /// tells.
    pub(crate) fn used(&self, given: &[Value], kept: &[usize]) -> Result<Vec<(Value, String)>> {
        let mut out = Vec::new();
        let mut sizes = Vec::new();
        for (_, node) in self.graph.nodes() {
            node.args().iter().chain(node.kwargs().iter().map(|(_, arg)| arg)).for_each(|arg| {
                arg.walk(&mut |part| {
                    if let Arg::Dim(dim) = part {
                        dim.collect_symbols(&mut sizes);
                    }
                })
            });
        }
        let tells = |node: NodeId| -> Result<bool> {
            let ty = self.graph.node(node)?.meta().ty.clone();
            let tensor = ty.as_deref().and_then(|ty| ty.tensor());
            Ok(tensor
                .is_some_and(|ty| ty.shape.iter().any(|dim| dim.symbols().iter().any(|x| sizes.contains(x)))))
        };
        let n_own = self.graph.inputs().len() - self.captures.len();
        for (i, input) in self.graph.inputs().iter().enumerate().filter(|(i, _)| !kept.contains(i)) {
            let value = if i < n_own { given.get(i) } else { self.captures.get(i - n_own) };
            if let (Some(value), Some(node)) = (value, input.tree.leaf())
                && (!self.graph.users(*node)?.is_empty() || tells(*node)?)
            {
                out.push((value.clone(), input.name.to_string()));
            }
        }
        Ok(out)
    }

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
