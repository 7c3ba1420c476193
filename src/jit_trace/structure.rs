//! Diagnostics that one graph shows by itself: constants, unused arguments, constant results, training flags.

use std::collections::HashSet;

use super::diagnostic::Finding;
use super::inspect::Found;
use crate::weights::ModuleExt;
use crate::{Arg, Attribute, GraphModule, Node, NodeId, OpCode, Result, SourceLoc, Target, Tensor, Value};

/// Constants up to this size are not worth a word.
const SMALL_CONSTANT: usize = 1024;

/// Returns what the graph shows. `call` is the place of findings without a line of their own.
pub(super) fn findings(gm: &GraphModule, examples: &[Value], call: &SourceLoc) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    unused_inputs(gm, call, &mut found)?;
    aliased_inputs(gm, examples, call, &mut found);
    constants(gm, call, &mut found);
    constant_outputs(gm, call, &mut found)?;
    training_flags(gm, call, &mut found);
    Ok(found)
}

fn unused_inputs(gm: &GraphModule, call: &SourceLoc, found: &mut Vec<Found>) -> Result<()> {
    for id in gm.graph().placeholders() {
        if gm.graph().users(id)?.is_empty() {
            let argument = gm.graph().node(id)?.name().to_owned();
            found.push(Found::new(Finding::UnusedInput { argument }, call.clone()));
        }
    }
    Ok(())
}

fn aliased_inputs(gm: &GraphModule, examples: &[Value], call: &SourceLoc, found: &mut Vec<Found>) {
    let tensors: Vec<&Tensor> = examples.iter().flat_map(Arg::leaves).collect();
    let names: Vec<String> =
        gm.graph().placeholders().iter().filter_map(|id| gm.graph().node(*id).ok()).map(name_of).collect();
    for (i, a) in tensors.iter().enumerate() {
        for (j, b) in tensors.iter().enumerate().skip(i + 1) {
            let is_one = matches!((a.array(), b.array()), (Ok(a), Ok(b)) if std::ptr::eq(a, b));
            if let (true, Some(a), Some(b)) = (is_one, names.get(i), names.get(j)) {
                let arguments = (a.clone(), b.clone());
                found.push(Found::new(Finding::AliasedInput { arguments }, call.clone()));
            }
        }
    }
}

fn name_of(node: &Node) -> String {
    node.name().to_owned()
}

/// Returns the line of a node, or of the first node that uses it and has one.
pub(super) fn line_of(gm: &GraphModule, id: NodeId) -> Option<SourceLoc> {
    let source = |id: NodeId| gm.graph().node(id).ok()?.meta().source.clone();
    source(id).or_else(|| gm.graph().users(id).ok()?.into_iter().find_map(source))
}

fn constants(gm: &GraphModule, call: &SourceLoc, found: &mut Vec<Found>) {
    for (path, attribute) in gm.attributes() {
        let Attribute::Constant(tensor) = attribute else { continue };
        let Ok(array) = tensor.array() else { continue };
        let bytes = array.shape().iter().product::<usize>() * array.dtype().size();
        if bytes <= SMALL_CONSTANT || !path.starts_with("_tensor_constant") {
            continue;
        }
        let reader = gm.graph().find_nodes(OpCode::GetAttr, Some(path)).first().copied();
        let at = reader.and_then(|id| line_of(gm, id)).unwrap_or_else(|| call.clone());
        let finding = Finding::CapturedConstant { path: path.to_owned(), ty: array.describe(), bytes };
        found.push(Found::new(finding, at));
    }
}

fn constant_outputs(gm: &GraphModule, call: &SourceLoc, found: &mut Vec<Found>) -> Result<()> {
    let graph = gm.graph();
    let mut varying: HashSet<NodeId> = HashSet::new();
    for (id, node) in graph.nodes() {
        let is_source = match node.target() {
            Target::Placeholder => true,
            Target::GetAttr(path) => matches!(gm.attribute(path), Ok(Attribute::Buffer(_))),
            Target::CallModule(path) => gm.child(path).is_ok_and(|child| !child.as_module().is_pure()),
            Target::CallFunction(op) | Target::CallMethod(op) => op.effects.random || op.effects.state,
            Target::Output => false,
        };
        if is_source || node.inputs().any(|input| varying.contains(&input)) {
            varying.insert(id);
        }
    }
    let mut output = 0;
    let mut constant = Vec::new();
    graph.output().walk(&mut |arg| match arg {
        Arg::Leaf(id) => {
            if !varying.contains(id) {
                constant.push((output, Some(*id), String::new()));
            }
            output += 1;
        }
        Arg::Bool(_) | Arg::Int(_) | Arg::Float(_) => {
            constant.push((output, None, arg.to_string()));
            output += 1;
        }
        _ => {}
    });
    for (output, id, text) in constant {
        let (node, at) = match id {
            Some(id) => (format!("%{}", graph.node(id)?.name()), line_of(gm, id)),
            None => (text, None),
        };
        found.push(Found::new(Finding::ConstantOutput { output, node }, at.unwrap_or_else(|| call.clone())));
    }
    Ok(())
}

fn training_flags(gm: &GraphModule, call: &SourceLoc, found: &mut Vec<Found>) {
    for (id, node) in gm.graph().nodes() {
        let what = match node.target() {
            Target::CallModule(path) if is_training(gm, path) => format!("the module {path}"),
            Target::CallFunction(op) | Target::CallMethod(op) => {
                let Ok(bound) = op.bind(node.args(), node.kwargs()) else { continue };
                let is_flag = |(param, arg): (&crate::Param, &Arg)| {
                    matches!(param.name, "training" | "train") && matches!(arg, Arg::Bool(true))
                };
                if !op.params.iter().zip(&bound).any(is_flag) {
                    continue;
                }
                op.name.to_owned()
            }
            _ => continue,
        };
        let mut flag =
            Found::new(Finding::TrainingFlag { what }, line_of(gm, id).unwrap_or_else(|| call.clone()));
        flag.module = module_of(node);
        found.push(flag);
    }
}

/// Returns whether a module has effects in training only.
fn is_training(gm: &GraphModule, path: &str) -> bool {
    let Ok(mut copy) = gm.members().any_module(path) else { return false };
    if copy.as_module().is_pure() {
        return false;
    }
    (*copy).eval();
    copy.as_module().is_pure()
}

/// Returns the path of the module in which a node was recorded, unless it is the root.
pub(super) fn module_of(node: &Node) -> Option<String> {
    let path = node.meta().module_path();
    (!path.is_empty()).then(|| path.to_owned())
}
