//! Constant folding: values of weights only are computed once, and again when the weights change.
//!
//! A folded value is a constant with a [`Recipe`], which the graph module keeps ([`crate::folded`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Context, Pass, PassOption};
use crate::folded::{Recipe, Sources};
use crate::graph::NodeMap;
use crate::node::{NodeId, OpCode, Provenance, Target};
use crate::{Arg, Attribute, Graph, GraphModule, Result, Tensor, Tree, Value, bail, err, op};

/// Computes what depends on constants only.
pub const CONST_FOLD: Pass = Pass {
    name: "const_fold",
    doc: "Computes everything that depends on parameters and constants only, once; it is computed again when one of them is \
          replaced. Buffers are folded only with `freeze`, if no call updates them; nodes with effects are not, nor what fails, which \
          fails when it runs.",
    options: &[
        PassOption {
            name: "max_mb",
            default: op::Default::Int(256),
            doc: "values larger than this many megabytes, and more than twice as large as what they are made from, stay computed",
        },
        PassOption {
            name: "freeze",
            default: op::Default::Bool(false),
            doc: "forget how values were made: they no longer follow parameters and buffers, of which those go that nobody else reads",
        },
    ],
    after: &["normalize", "shape_prop"],
    run,
    ..Pass::BASE
};

/// A node whose value depends on constants only.
struct Known {
    value: Value,
    bytes: usize,
    /// Whether a parameter is among what it is made from.
    of_parameters: bool,
}

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let max_bytes = usize::try_from(cx.int("max_mb")?.max(0)).unwrap_or(0).saturating_mul(1 << 20);
    let freeze = cx.flag("freeze")?;
    let known = evaluate(gm, max_bytes, freeze)?;
    let mut folded: Vec<(NodeId, Arc<str>)> = Vec::new();
    for id in gm.graph().ids() {
        let node = gm.graph().node(id)?;
        let Some(found) = known.get(&id) else { continue };
        let is_needed = gm.graph().users(id)?.iter().any(|user| !known.contains_key(user));
        if node.opcode() == OpCode::GetAttr || !is_needed {
            continue;
        }
        let name = node.shared_name().clone();
        match &found.value {
            Arg::Leaf(tensor) => {
                if !cx.allow(|| format!("fold %{name}")) {
                    break;
                }
                let path = free_path(gm, "_folded", &name);
                let recipe = if freeze { None } else { Some(recipe(gm, id)?) };
                gm.set_attribute(&path, Attribute::Constant(tensor.clone()))?;
                if let Some(recipe) = recipe.filter(|recipe| recipe.sources().len() > 0) {
                    gm.set_recipe(&path, recipe);
                }
                folded.push((id, Arc::from(path)));
            }
            // A number that is read from a parameter may be another tomorrow.
            literal if literal.leaves().is_empty() && !found.of_parameters => {
                if !cx.allow(|| format!("fold %{name}")) {
                    break;
                }
                let literal = literal.try_flat_map(&mut |_| Ok(Arg::None))?;
                let (graph, _, _) = gm.split();
                graph.transaction(|graph| {
                    graph.replace_all_uses(id, literal)?;
                    graph.erase(id)
                })?;
            }
            _ => {}
        }
    }
    let (graph, attributes, _) = gm.split();
    for (id, path) in folded {
        let (name, meta) = (graph.node(id)?.shared_name().clone(), graph.node(id)?.meta().clone());
        let new = graph.inserting_before(id, |graph| graph.get_attr(&path))??;
        *graph.meta_mut(new)? = meta;
        let ty = attributes.get(&*path).and_then(|attribute| attribute.tensor().type_tree().ok());
        let meta = graph.meta_mut(new)?;
        meta.ty = ty.map(Arc::new);
        meta.add_provenance(Provenance { pass: "const_fold".into(), from: vec![name] });
        graph.replace_all_uses(id, new)?;
    }
    // What was folded is no longer used; everything else that is dead is not ours.
    let folded = graph.ids().into_iter().rev().filter(|id| known.contains_key(id)).collect::<Vec<_>>();
    erase_unused(gm, folded, freeze)
}

/// Erases the given nodes that have no users; with `freeze`, also removes the parameters and constants that
/// no node reads any more. Fails if the graph refuses an edit.
pub fn erase_unused(
    gm: &mut GraphModule,
    nodes: impl IntoIterator<Item = NodeId>,
    freeze: bool,
) -> Result<()> {
    let mut read: Vec<Arc<str>> = Vec::new();
    for id in nodes {
        // A node that was given twice may be gone.
        let Ok(node) = gm.graph().node(id) else { continue };
        if node.n_users() == 0 {
            read.extend(node.target().path().cloned());
            gm.graph_mut().erase(id)?;
        }
    }
    if freeze {
        remove_unread(gm, read);
    }
    Ok(())
}

/// Removes those of the parameters and constants at these paths that no node reads any more, so that their
/// memory can be freed.
pub fn remove_unread(gm: &mut GraphModule, paths: impl IntoIterator<Item = Arc<str>>) {
    for path in paths {
        let is_weight = matches!(gm.attribute(&path), Ok(Attribute::Parameter(_) | Attribute::Constant(_)));
        if is_weight && gm.graph().find_nodes(OpCode::GetAttr, Some(&path)).is_empty() {
            // It is there, and nobody reads it.
            let _ = gm.remove_attribute(&path);
        }
    }
}

/// Computes tensors from attributes and reads them from new constants, whose nodes, inserted before `before`,
/// it returns: `f` receives the values of `sources`, which read attributes, and returns one tensor for each
/// of `names`.
///
/// The constants follow their sources, as with [`CONST_FOLD`], unless they are frozen. Buffers may be among
/// the sources: the graph must not update them, and after a change by somebody else
/// [`GraphModule::refresh_folded`] is needed. On an error nothing is changed. Fails if a source reads no
/// attribute, `f` fails, or the number of tensors is not that of the names.
pub fn fold_values<R: Tree>(
    gm: &mut GraphModule,
    before: NodeId,
    sources: &[NodeId],
    names: &[&str],
    freeze: bool,
    f: impl FnOnce(&[Tensor]) -> R,
) -> Result<Vec<NodeId>> {
    let old = gm.graph();
    let of = sources.iter().map(|id| Ok(old.node(*id)?.shared_name().clone())).collect::<Result<_>>()?;
    let provenance = Provenance { pass: "const_fold".into(), from: of };
    let mut making = Making::default();
    let types = sources.iter().map(|id| Ok(old.node(*id)?.ty().cloned())).collect::<Result<Vec<_>>>()?;
    let snippet = crate::trace::trace_snippet(&types, |args| f(args).to_value())?;
    if let Some((path, _)) = snippet.attrs.first_key_value() {
        return Err(err!(Graph, "constants cannot be folded with the captured tensor {path}")
            .help("make it an attribute, and give its node as a source"));
    }
    let mut map = NodeMap::default();
    for (placeholder, source) in snippet.graph.placeholders().into_iter().zip(sources) {
        if !making.map.contains_key(source) {
            making.copy(gm, *source)?;
        }
        map.insert(placeholder, making.map[source].clone());
    }
    let output = making.graph.copy_graph(&snippet.graph, &mut map)?.output;
    let (graph, sources) = making.finish(output)?;
    let value = crate::trace::without_tracing(|| crate::eval::run_with(&graph, &sources))?;
    let tensors = value.leaves();
    if tensors.len() != names.len() {
        bail!(Graph, "expected {} folded tensors, got {}", names.len(), tensors.len());
    }
    let mut nodes = Vec::new();
    for (item, (tensor, name)) in tensors.into_iter().zip(names).enumerate() {
        let (tensor, path) = (tensor.clone().ok()?, free_path(gm, "_folded", name));
        let ty = Arc::new(tensor.type_tree()?);
        gm.set_attribute(&path, Attribute::Constant(tensor))?;
        if !freeze {
            gm.set_recipe(&path, Recipe::new(graph.clone(), item, sources.clone()));
        }
        let (graph, _, _) = gm.split();
        let new = graph.inserting_before(before, |graph| graph.get_attr(&path))??;
        let meta = graph.meta_mut(new)?;
        meta.ty = Some(ty);
        meta.add_provenance(provenance.clone());
        nodes.push(new);
    }
    Ok(nodes)
}

/// Returns the paths of the buffers that a method of a module updates.
pub fn updated_buffers(gm: &GraphModule) -> BTreeSet<Arc<str>> {
    gm.graphs().flat_map(crate::methods::updated_paths).collect()
}

/// Returns a path for a new attribute that is named after a node.
pub(super) fn free_path(gm: &GraphModule, prefix: &str, name: &str) -> String {
    let is_free = |path: &str| !gm.parts().is_taken(path);
    let first = format!("{prefix}_{name}");
    if is_free(&first) {
        return first;
    }
    (1..).map(|i| format!("{first}_{i}")).find(|path| is_free(path)).unwrap_or(first)
}

/// Computes every node that depends on constants only; with `freeze`, buffers that the graph does not update
/// are constants.
fn evaluate(gm: &GraphModule, max_bytes: usize, freeze: bool) -> Result<FxHashMap<NodeId, Known>> {
    let (graph, parts) = (gm.graph(), gm.parts());
    let updated = updated_buffers(gm);
    let mut known: FxHashMap<NodeId, Known> = FxHashMap::default();
    for (id, node) in graph.nodes() {
        let is_fixed = matches!(node.opcode(), OpCode::Placeholder | OpCode::Output);
        if is_fixed || parts.has_effect(node) || !node.inputs().all(|input| known.contains_key(&input)) {
            continue;
        }
        let mut of_parameters = node.inputs().any(|input| known[&input].of_parameters);
        let value = match node.target() {
            Target::GetAttr(path) => match parts.attribute(path) {
                Some(Attribute::Constant(tensor)) => Some(Arg::Leaf(tensor.clone())),
                Some(Attribute::Parameter(parameter)) => {
                    of_parameters = true;
                    Some(Arg::Leaf(parameter.tensor().clone()))
                }
                Some(Attribute::Buffer(buffer)) if freeze && !updated.contains(path) => {
                    Some(Arg::Leaf(buffer.load()))
                }
                _ => None,
            },
            Target::CallFunction(op) | Target::CallMethod(op) => {
                let is_large = |ty: &crate::TypeTree| bytes_of_type(ty).is_none_or(|n| n > max_bytes);
                // A size that depends on data has a name at this node, by which others know it.
                let has_symbol = node.all_args().any(has_symbol)
                    || node.ty().is_some_and(|ty| !crate::fresh::symbols(ty).is_empty());
                // What would be too large must not even be computed.
                let too_large = has_symbol
                    || match crate::infer::infer_node(graph, parts, id) {
                        Ok(Some(ty)) => is_large(&ty),
                        _ => node.inputs().len() == 0,
                    };
                if too_large { None } else { compute(node, *op, &known) }
            }
            // A module has parameters of its own, which change without our seeing it.
            _ => None,
        };
        let Some(value) = value.filter(|value| value.error().is_none()) else { continue };
        if value.leaves().iter().any(|tensor| tensor.array().is_err()) {
            continue;
        }
        let bytes: usize = value.leaves().iter().filter_map(|x| x.array().ok()).map(|x| x.nbytes()).sum();
        let sources: usize = node.inputs().map(|input| known[&input].bytes).sum();
        if node.opcode() != OpCode::GetAttr && bytes > max_bytes.max(2 * sources) {
            continue;
        }
        known.insert(id, Known { value, bytes, of_parameters });
    }
    Ok(known)
}

fn has_symbol(arg: &Arg) -> bool {
    let mut found = false;
    arg.walk(&mut |arg| found |= matches!(arg, Arg::Dim(_)));
    found
}

/// Returns the size of the tensors of a type, where it is known.
fn bytes_of_type(ty: &crate::TypeTree) -> Option<usize> {
    ty.leaves().into_iter().filter_map(crate::Type::tensor).try_fold(0usize, |sum, ty| {
        let n = ty.shape.known()?.iter().try_fold(1usize, |n, size| n.checked_mul(*size))?;
        sum.checked_add(n.checked_mul(ty.dtype.size())?)
    })
}

fn compute(node: &crate::Node, op: crate::Op, known: &FxHashMap<NodeId, Known>) -> Option<Value> {
    let bound = op.bind(node.args(), node.kwargs()).ok()?;
    let args: Vec<Value> = bound
        .iter()
        .map(|arg| arg.try_flat_map(&mut |id| Ok(known[id].value.clone())))
        .collect::<Result<_>>()
        .ok()?;
    crate::trace::eval(op, &args).ok()
}

/// Returns how a node is computed from attributes; folded constants among them are computed, too.
fn recipe(gm: &GraphModule, root: NodeId) -> Result<Recipe> {
    let old = gm.graph();
    let mut needed = FxHashSet::default();
    let mut stack = vec![root];
    while let Some(id) = stack.pop() {
        if needed.insert(id) {
            stack.extend(old.node(id)?.inputs());
        }
    }
    let mut ids: Vec<NodeId> = needed.into_iter().collect();
    ids.sort_unstable_by_key(|id| old.position(*id));
    let mut making = Making::default();
    ids.into_iter().try_for_each(|id| making.copy(gm, id))?;
    let output = making.map.get(&root).cloned().unwrap_or(Arg::None);
    let (graph, sources) = making.finish(output)?;
    Ok(Recipe::new(graph, 0, sources))
}

/// The graph of a recipe under construction.
#[derive(Default)]
struct Making {
    graph: Graph,
    /// What became of the nodes of the graph whose values are folded.
    map: NodeMap,
    sources: Sources,
}

impl Making {
    /// Copies a node; one that reads a folded constant becomes what computes that.
    fn copy(&mut self, gm: &GraphModule, id: NodeId) -> Result<()> {
        let old = gm.graph();
        let path = match old.node(id)?.target() {
            Target::GetAttr(path) => Some(path),
            _ => None,
        };
        if let Some(recipe) = path.and_then(|path| gm.recipe(path)) {
            let made = self.graph.copy_graph(&recipe.graph, &mut NodeMap::default())?.output;
            let made = made.leaves().get(recipe.item()).map(|id| Arg::Leaf(**id)).unwrap_or(made.clone());
            self.map.insert(id, made);
            self.sources.extend(recipe.values().iter().cloned());
            return Ok(());
        }
        self.graph.copy_node(old, id, &mut self.map)?;
        if let Some(path) = path {
            self.sources.push((path.clone(), gm.attr(path)?));
        }
        Ok(())
    }

    /// Returns the graph that computes `output`, and what it reads.
    fn finish(mut self, output: Arg) -> Result<(Arc<Graph>, Sources)> {
        self.sources.sort_by(|a, b| a.0.cmp(&b.0));
        self.sources.dedup_by(|a, b| a.0 == b.0);
        self.graph.set_output(output)?;
        Ok((Arc::new(self.graph), self.sources))
    }
}
