//! Several methods of a program as one graph module, and its hierarchy of modules.

use std::collections::BTreeSet;
use std::sync::Arc;

use fx_script::load::Program;

use super::builder::Lowered;
use super::lower::{Request, lower};
use crate::import::hierarchy;
use crate::{Attribute, Graph, GraphModule, Registry, Result};

/// Lowers methods: the first is the graph of the module, the others are its methods. Fails as
/// [`TorchScript::load`](super::TorchScript::load) does.
pub(super) fn lower_all(
    program: &Program,
    requests: &[Request],
    registry: &Registry,
    keep_hierarchy: bool,
) -> Result<Lowered> {
    let mut lowered =
        requests.iter().map(|request| lower(program, request, registry)).collect::<Result<Vec<_>>>()?;
    share(lowered.iter_mut().filter_map(|lowered| lowered.module.as_mut()))?;
    if keep_hierarchy {
        restore(&mut lowered)?;
    }
    let mut lowered = lowered.into_iter();
    let mut whole = lowered.next().expect("there is at least one request");
    for (request, further) in requests[1..].iter().zip(lowered) {
        if let (Some(module), Some(method)) = (&mut whole.module, further.module) {
            module.add_method(&request.method, method)?;
        }
        whole.further.push(further.report);
    }
    Ok(whole)
}

/// Lets modules of one program share state. A tensor that one of them updates is a buffer in all.
fn share<'m>(modules: impl Iterator<Item = &'m mut GraphModule>) -> Result<()> {
    let mut modules: Vec<&mut GraphModule> = modules.collect();
    for at in 0..modules.len() {
        let (before, after) = modules.split_at_mut(at + 1);
        let first = &mut before[at];
        for other in after {
            for path in first.attributes().map(|(path, _)| path.to_owned()).collect::<Vec<_>>() {
                let (Ok(a), Ok(b)) = (first.attribute(&path), other.attribute(&path)) else { continue };
                match (a, b) {
                    (Attribute::Buffer(_), Attribute::Buffer(_)) => {}
                    (Attribute::Buffer(buffer), _) => {
                        let shared = Attribute::Buffer(buffer.clone());
                        other.set_attribute(&path, shared)?;
                    }
                    (_, Attribute::Buffer(buffer)) => {
                        let shared = Attribute::Buffer(buffer.clone());
                        first.set_attribute(&path, shared)?;
                    }
                    _ => {}
                }
            }
            other.share_state(first);
        }
    }
    Ok(())
}

/// Restores the hierarchy of modules. A sub-module that several methods call is one if they call it alike; a
/// method for which it would be another stays in line.
fn restore(lowered: &mut [Lowered]) -> Result<()> {
    let updated: BTreeSet<Arc<str>> = lowered
        .iter()
        .filter_map(|lowered| lowered.module.as_ref())
        .flat_map(crate::pass::updated_buffers)
        .collect();
    let mut restored: Vec<GraphModule> = Vec::new();
    for lowered in lowered {
        let Some(flat) = &mut lowered.module else { continue };
        let mut module = flat.clone();
        module.share_state(flat);
        hierarchy::restore(&mut module, &updated)?;
        match adopt(&mut module, &restored)? {
            None => {
                lowered.report.inline = hierarchy::left_inline(&module);
                restored.push(module.clone());
                let last = restored.last_mut().expect("one was pushed");
                last.share_state(&module);
                *flat = module;
            }
            Some(path) => {
                let note = format!(
                    "its modules are in line: another method calls the module {path:?} in another way"
                );
                lowered.report.inline.push(note);
            }
        }
    }
    Ok(())
}

/// Replaces the children of a module by equal ones of other modules at the same path; returns the path of one that
/// differs, if there is one.
fn adopt(module: &mut GraphModule, others: &[GraphModule]) -> Result<Option<String>> {
    let paths: Vec<String> = module.children().map(|(path, _)| path.to_owned()).collect();
    for path in &paths {
        for other in others {
            let Ok(known) = other.child(path) else { continue };
            if !is_same(known.as_module(), module.child(path)?.as_module()) {
                return Ok(Some(path.clone()));
            }
        }
    }
    for other in others {
        module.share_state(other);
    }
    Ok(None)
}

/// Whether two modules are graph modules that compute the same from the same tensors.
fn is_same(a: &dyn crate::Module, b: &dyn crate::Module) -> bool {
    let graphs = (a.as_any().downcast_ref::<GraphModule>(), b.as_any().downcast_ref::<GraphModule>());
    let (Some(a), Some(b)) = graphs else { return false };
    let tensors = |gm: &GraphModule| gm.attributes().map(|(path, _)| path.to_owned()).collect::<Vec<_>>();
    anonymous(a.graph()) == anonymous(b.graph())
        && tensors(a) == tensors(b)
        && a.children().len() == b.children().len()
        && a.children()
            .zip(b.children())
            .all(|((path, a), (other, b))| path == other && is_same(a.as_module(), b.as_module()))
}

/// Returns a graph as text in which nodes have numbers instead of names.
fn anonymous(graph: &Graph) -> String {
    let mut graph = graph.clone();
    let mut n = 0;
    graph.rename_all(&mut |_| {
        n += 1;
        Some(format!("n{n}").into())
    });
    // The first line has the names of the arguments.
    let mut text: String = graph.to_string().lines().skip(1).map(|line| format!("{line}\n")).collect();
    for id in graph.placeholders() {
        let ty = graph.node(id).ok().and_then(|node| node.ty());
        text += &ty.map_or("any".to_owned(), ToString::to_string);
    }
    text
}
