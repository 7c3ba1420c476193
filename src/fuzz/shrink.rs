//! Shrinking: a program that fails becomes a small one that still fails, by edits that keep it valid.
//!
//! The edits are tried in a fixed order, the great ones first, until none keeps the failure: return one value
//! only, drop what is not needed, inline sub-modules, take a value as an argument instead of computing it,
//! take an operand of the same type instead of the result, also within sub-graphs.

use std::sync::Arc;

use crate::{Arg, Graph, GraphModule, NodeId, OpCode, Passes, Result, Tensor, Value};

/// How many edits are tried.
const MOST_TRIES: usize = 800;

/// A program and inputs on which something fails.
#[derive(Clone)]
pub(super) struct Failing {
    pub(super) gm: GraphModule,
    pub(super) inputs: Vec<Value>,
}

/// Makes a program smaller as long as `fails` holds.
pub(super) fn shrink(mut failing: Failing, fails: &dyn Fn(&Failing) -> bool) -> Failing {
    let mut tries = 0;
    let mut try_edit = |failing: &mut Failing, edit: &dyn Fn(&mut Failing) -> Result<bool>| -> Option<bool> {
        let mut copy = failing.clone();
        match edit(&mut copy) {
            Ok(true) => {}
            _ => return None,
        }
        tries += 1;
        let accepted = tries <= MOST_TRIES && fails(&copy);
        if accepted {
            *failing = copy;
        }
        Some(accepted)
    };
    for inline in ["inline", "inline_leaves"] {
        try_edit(&mut failing, &|failing| {
            let n = failing.gm.graph().len();
            Passes::parse(inline, &crate::pass::all())?.unchecked().run(&mut failing.gm)?;
            Ok(failing.gm.graph().len() != n)
        });
    }
    loop {
        let size = measure(&failing.gm);
        // From the front: the shorter the program that returns a value, the better.
        for id in failing.gm.graph().ids() {
            try_edit(&mut failing, &|failing| return_only(failing, id));
        }
        try_edit(&mut failing, &clean);
        for id in failing.gm.graph().ids().into_iter().rev() {
            try_edit(&mut failing, &|failing| as_argument(failing, id));
        }
        let mut n = 0;
        while let Some(accepted) = try_edit(&mut failing, &|failing| edit_inside(failing.gm.graph_mut(), n)) {
            n += usize::from(!accepted);
        }
        for i in (0..failing.gm.graph().inputs().len()).rev() {
            try_edit(&mut failing, &|failing| drop_argument(failing, i));
        }
        try_edit(&mut failing, &|failing| {
            failing.gm.delete_unused();
            Ok(true)
        });
        if measure(&failing.gm) >= size {
            return failing;
        }
    }
}

fn measure(gm: &GraphModule) -> u64 {
    gm.graph().expanded_len() + gm.graph().inputs().len() as u64 + gm.graph().output().leaves().len() as u64
}

/// Returns one node only.
fn return_only(failing: &mut Failing, id: NodeId) -> Result<bool> {
    let graph = failing.gm.graph_mut();
    if !graph.contains(id) || id == graph.output_node() || *graph.output() == Arg::Leaf(id) {
        return Ok(false);
    }
    if graph.node(id)?.ty().is_some_and(|ty| ty.tensor().is_none()) {
        return Ok(false);
    }
    graph.set_output(id)?;
    let output = graph.output_node();
    graph.meta_mut(output)?.ty = None;
    remove_dead(graph, id)?;
    Ok(true)
}

/// Removes everything that nobody uses, also with effects, but for what comes before `last` and is its input.
fn remove_dead(graph: &mut Graph, last: NodeId) -> Result<()> {
    for id in graph.ids().into_iter().rev() {
        let node = graph.node(id)?;
        let is_fixed = matches!(node.opcode(), OpCode::Placeholder | OpCode::Output);
        let is_effect =
            node.op().is_some_and(|op| !op.effects.is_pure()) || node.opcode() == OpCode::CallModule;
        if node.n_users() == 0 && !is_fixed && id != last && !is_effect {
            graph.erase(id)?;
        }
    }
    Ok(())
}

fn clean(failing: &mut Failing) -> Result<bool> {
    let graph = failing.gm.graph_mut();
    let n = graph.len();
    for id in graph.ids().into_iter().rev() {
        let node = graph.node(id)?;
        if node.n_users() == 0 && !matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) {
            graph.erase(id)?;
        }
    }
    Ok(graph.len() < n)
}

/// Takes the value of a call as an argument.
fn as_argument(failing: &mut Failing, id: NodeId) -> Result<bool> {
    let Ok(node) = failing.gm.graph().node(id) else { return Ok(false) };
    let is_call = matches!(node.opcode(), OpCode::CallFunction | OpCode::CallMethod | OpCode::CallModule);
    let Some(ty) = node.ty().filter(|ty| is_call && ty.tensor().is_some()).cloned() else { return Ok(false) };
    let (name, n_users) = (node.name().to_owned(), node.n_users());
    if n_users == 0 {
        failing.gm.graph_mut().erase(id)?;
        return Ok(true);
    }
    let copy = failing.gm.clone();
    let run = || copy.eval().record(&name).only_recorded().run(&failing.inputs);
    let recorded = crate::with_generator(&crate::Generator::seeded(11), || crate::ops::with_printed(run).0)?;
    let Some(value) = recorded.recorded(&name).cloned() else { return Ok(false) };
    let graph = failing.gm.graph_mut();
    let input = (0..)
        .map(|i| format!("v{i}"))
        .find(|name| graph.find(name).is_none() && graph.inputs().iter().all(|input| *input.name != **name));
    let new = graph.placeholder(&input.unwrap_or_default())?;
    graph.meta_mut(new)?.ty = Some(Arc::new(ty));
    graph.replace_all_uses(id, new)?;
    graph.erase(id)?;
    remove_dead(graph, new)?;
    failing.inputs.push(value);
    Ok(true)
}

/// Removes an argument that nobody uses.
fn drop_argument(failing: &mut Failing, i: usize) -> Result<bool> {
    let graph = failing.gm.graph_mut();
    let Some(Arg::Leaf(id)) = graph.inputs().get(i).map(|input| input.tree.clone()) else { return Ok(false) };
    if graph.node(id)?.n_users() > 0 || graph.inputs().len() == 1 {
        return Ok(false);
    }
    graph.erase(id)?;
    failing.inputs.remove(i);
    Ok(true)
}

/// Makes the edit with this number, of those within the graph and its sub-graphs; returns whether there is one.
fn edit_inside(graph: &mut Graph, n: usize) -> Result<bool> {
    let mut left = n;
    Ok(edit_nth(graph, &mut left)? == Found::Done)
}

fn is_count(ty: &crate::TypeTree) -> bool {
    ty.tensor().is_some_and(|ty| ty.rank() == 0 && ty.dtype == crate::DType::I64)
}

#[derive(PartialEq)]
enum Found {
    Done,
    Not,
}

fn edit_nth(graph: &mut Graph, left: &mut usize) -> Result<Found> {
    for id in graph.ids().into_iter().rev() {
        let node = graph.node(id)?;
        if matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) {
            continue;
        }
        if node.n_users() == 0 {
            if *left == 0 {
                graph.erase(id)?;
                return Ok(Found::Done);
            }
            *left -= 1;
            continue;
        }
        // Without its count, a loop would not come to an end.
        if node.ty().is_some_and(is_count) {
            continue;
        }
        let candidates: Vec<NodeId> = node
            .inputs()
            .filter(|input| {
                graph.node(*input).is_ok_and(|input| input.ty().is_some() && input.ty() == node.ty())
            })
            .collect();
        for input in candidates {
            if *left == 0 {
                graph.replace_all_uses(id, input)?;
                graph.erase(id)?;
                return Ok(Found::Done);
            }
            *left -= 1;
        }
    }
    let mut done = false;
    graph.edit_subgraphs(&mut |inner| {
        if done {
            return Ok(false);
        }
        done = edit_nth(inner, left)? == Found::Done;
        Ok(done)
    })?;
    Ok(if done { Found::Done } else { Found::Not })
}

/// Tensors by name.
type Named = Vec<(String, Tensor)>;

/// Writes a program as text, with the tensors that it reads and its inputs, by the names that `fx run` takes.
pub(super) fn files(failing: &Failing) -> (String, Named, Named) {
    let gm = &failing.gm;
    let mut notes = String::new();
    for (path, child) in gm.children() {
        notes += &format!("// {path} is a module {}\n", child.as_module().type_name());
    }
    let is_tensor =
        |(_, attribute): &(&str, &crate::Attribute)| !matches!(attribute, crate::Attribute::State(_));
    let attributes = gm.attributes().filter(is_tensor);
    let attributes = attributes.map(|(path, attribute)| (path.to_owned(), attribute.tensor())).collect();
    let mut inputs = Vec::new();
    let leaves: Vec<&Tensor> = failing.inputs.iter().flat_map(Arg::leaves).collect();
    for (i, leaf) in leaves.into_iter().enumerate() {
        inputs.push((format!("0.in{i}"), leaf.clone()));
    }
    (notes + &gm.graph().to_text(), attributes, inputs)
}
