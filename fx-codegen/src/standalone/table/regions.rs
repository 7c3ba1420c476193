//! Control flow: sub-graphs as branches and loops.

use std::sync::Arc;

use fx_core::{Arg, DType, Graph, GraphModule, Node, NodeId, OpCode, Result, Type, TypeTree, bail};

use super::{Args, Emit};
use crate::standalone::lower::Lowering;
use crate::standalone::step::Step;
use crate::standalone::value::{Value, View};

pub(super) const TABLE: &[(&str, Emit)] = &[("cond", cond), ("while_loop", while_loop)];

/// Returns a sub-graph whose nodes have types, for these arguments.
fn region(args: &Args<'_>, name: &str, operands: &[Value]) -> Result<Arc<Graph>> {
    let graph = match args.get(name)? {
        Arg::Graph(graph) => graph,
        other => bail!(Unresolved, "{name} is {}", other.kind_name()),
    };
    let is_typed = |(_, node): (NodeId, &Node)| node.opcode() == OpCode::Output || node.ty().is_some();
    if graph.nodes().all(is_typed) {
        return Ok(graph.clone());
    }
    let types = operands
        .iter()
        .map(|operand| operand.try_flat_map(&mut |view: &View| Ok(Arg::Leaf(Type::Tensor(view.ty())))));
    let mut gm = GraphModule::new(name, (**graph).clone());
    gm.propagate_types(&types.collect::<Result<Vec<TypeTree>>>()?)?;
    Ok(Arc::new(gm.into_graph()))
}

/// Returns the leaves of a value, which become the arguments of a region.
fn leaves(value: &Value, out: &mut Vec<Value>) {
    match value {
        Arg::Tuple(items) | Arg::List(items) => items.iter().for_each(|item| leaves(item, out)),
        Arg::Dict(entries) => entries.iter().for_each(|(_, item)| leaves(item, out)),
        other => out.push(other.clone()),
    }
}

/// Makes buffers for what a region returns.
fn buffers(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    args.ty.try_flat_map(&mut |ty| match ty.tensor() {
        Some(ty) => Ok(Arg::Leaf(l.buffer(ty.dtype, &ty.shape))),
        None => bail!(Unresolved, "it returns {ty}"),
    })
}

/// Copies the tensors of a value to those of another.
fn copy_all(l: &mut Lowering<'_>, from: &Value, to: &Value) -> Result<()> {
    let (from, to) = (from.leaves(), to.leaves());
    if from.len() != to.len() {
        bail!(Structure, "a region returns {} tensors, expected {}", from.len(), to.len());
    }
    for (from, to) in from.into_iter().zip(to) {
        l.copy(from, to);
    }
    Ok(())
}

/// Returns the bool that decides.
fn test(l: &mut Lowering<'_>, value: &Value) -> Result<View> {
    match value {
        Arg::Leaf(view) => l.converted(view, DType::Bool),
        other => bail!(Unresolved, "the condition is {}", other.kind_name()),
    }
}

fn cond(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let mut operands = Vec::new();
    leaves(args.get("operands")?, &mut operands);
    if let Some(x) = args.get("predicate")?.scalar() {
        let graph = region(args, if x.to_bool() { "then" } else { "otherwise" }, &operands)?;
        return l.graph(&graph, operands);
    }
    let test = test(l, args.get("predicate")?)?;
    let out = buffers(l, args)?;
    let mut branch = |name: &str| -> Result<Vec<Step>> {
        let graph = region(args, name, &operands)?;
        let (steps, ()) = l.steps_of(|l| {
            let result = l.graph(&graph, operands.clone())?;
            copy_all(l, &result, &out)
        })?;
        Ok(steps)
    };
    let (then, otherwise) = (branch("then")?, branch("otherwise")?);
    l.push(Step::Branch { test, then, otherwise });
    Ok(out)
}

fn while_loop(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let carried = args.get("carried")?.clone();
    let mut captured = Vec::new();
    leaves(args.get("captured")?, &mut captured);
    let state = buffers(l, args)?;
    copy_all(l, &carried, &state)?;
    let mut operands = Vec::new();
    leaves(&state, &mut operands);
    operands.extend(captured);
    let (before, decides) = l.steps_of(|l| {
        let graph = region(args, "test", &operands)?;
        let result = l.graph(&graph, operands.clone())?;
        test(l, &result)
    })?;
    let (body, ()) = l.steps_of(|l| {
        let graph = region(args, "body", &operands)?;
        let result = l.graph(&graph, operands.clone())?;
        // What a region returns may be what it was given, in another place.
        let kept = result.try_flat_map(&mut |view| {
            let to = l.buffer(view.dtype, &view.shape);
            l.copy(view, &to);
            Ok(Arg::Leaf(to))
        })?;
        copy_all(l, &kept, &state)
    })?;
    l.push(Step::While { before, test: decides, body });
    Ok(state)
}
