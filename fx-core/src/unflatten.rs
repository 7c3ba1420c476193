//! The hierarchy of modules, restored from the module stacks of the nodes.
//!
//! Tracing and import give a flat graph whose nodes know in which call of which module they were recorded. A
//! [`Group`] is a module with the nodes of each of its calls. It becomes a graph module of its own if the nodes of
//! a call stand together and all calls are alike: what the nodes need of the outside are arguments, what the
//! outside needs of them is the result. Attributes, updated buffers and sub-modules below the path of the module
//! move into it if nothing else uses them; others stay outside and are passed. A module for which this is not
//! possible stays in line, and the modules inside of it are restored where they stand.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::NodeMap;
use crate::methods::FORWARD;
use crate::{
    Arg, Attribute, Graph, GraphModule, ModuleFrame, NodeId, OpCode, Result, Target, Type, TypeTree, ops,
    pass,
};

/// A module whose nodes [`GraphModule::unflatten`] left in line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftInline {
    /// The method in whose graph they are.
    pub method: String,
    /// The path of the module; empty for all modules of the method.
    pub path: String,
    /// Why, as part of a sentence.
    pub reason: String,
}

impl fmt::Display for LeftInline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.path {
            "" => write!(f, "all modules of the method {:?} are in line: {}", self.method, self.reason),
            path => write!(f, "the module {path:?} is in line: {}", self.reason),
        }
    }
}

impl GraphModule {
    /// Restores the hierarchy of modules, as `torch.export.unflatten` does. The nodes of each module become a
    /// graph module, and each call of it one node. Its parameters, buffers and sub-modules move into it.
    /// [`pass::INLINE`] is the inverse. Returns the modules that stay in line, with the reason.
    ///
    /// Sub-modules that several methods call are shared by them. Fails if the graph is not sound; then nothing is
    /// changed.
    ///
    /// ```
    /// # use fx_core::{Graph, GraphModule};
    /// let mut gm = GraphModule::new("Model", Graph::new("main"));
    /// assert!(gm.unflatten()?.is_empty());
    /// # Ok::<(), fx_core::Error>(())
    /// ```
    pub fn unflatten(&mut self) -> Result<Vec<LeftInline>> {
        let names: Vec<String> = self.methods().map(|(name, _)| name.to_owned()).collect();
        if names.is_empty() {
            let mut whole = self.snapshot();
            let left = restore(&mut whole, FORWARD, &BTreeSet::new())?;
            *self = whole;
            return Ok(left);
        }
        // What one method updates and another reads stays where both find it.
        let updated = pass::updated_buffers(self);
        let mut left = Vec::new();
        let mut restored: Vec<(String, GraphModule)> = Vec::new();
        for name in std::iter::once(FORWARD.to_owned()).chain(names) {
            let flat = self.method(&name)?;
            let mut module = flat.snapshot();
            let inline = restore(&mut module, &name, &updated)?;
            match adopt(&mut module, restored.iter().map(|(_, module)| module))? {
                None => {
                    left.extend(inline);
                    restored.push((name, module));
                }
                Some(path) => {
                    let reason = format!("another method calls the module {path:?} in another way");
                    left.push(LeftInline { method: name.clone(), path: String::new(), reason });
                    restored.push((name, flat));
                }
            }
        }
        let mut methods = restored.into_iter();
        let (_, mut whole) = methods.next().expect("every module has the method forward");
        for (name, method) in methods {
            whole.add_method(&name, method)?;
        }
        *self = whole;
        Ok(left)
    }
}

/// Restores the hierarchy of a module without further methods. `kept` are the paths of buffers that stay where
/// they are.
fn restore(module: &mut GraphModule, method: &str, kept: &BTreeSet<Arc<str>>) -> Result<Vec<LeftInline>> {
    let mut restorer = Restorer { method, kept, left: Vec::new() };
    restorer.restore(module, "", 0)?;
    restorer.left.dedup();
    Ok(restorer.left)
}

struct Restorer<'a> {
    method: &'a str,
    kept: &'a BTreeSet<Arc<str>>,
    left: Vec<LeftInline>,
}

/// A module with the nodes of each of its calls.
struct Group {
    path: Arc<str>,
    type_name: Arc<str>,
    calls: Vec<Vec<NodeId>>,
    /// The updates of its buffers, which are made when the module has run.
    stores: Vec<NodeId>,
}

/// The graph of one call of a group.
struct Body {
    graph: Graph,
    /// What the outside passes.
    passed: Vec<NodeId>,
    /// The places in the call of the nodes that the outside uses.
    results: Vec<usize>,
}

impl Restorer<'_> {
    /// Restores the modules at one level of the stacks. `place` is the path of `module` from the root.
    fn restore(&mut self, module: &mut GraphModule, place: &str, level: usize) -> Result<()> {
        if level >= crate::MAX_DEPTH {
            return Ok(());
        }
        let (groups, mut is_left) = self.groups(module, place, level)?;
        for group in groups {
            match extract(module, &group, self.kept)? {
                Ok(mut child) => {
                    // Its state is its own, so methods need not find it.
                    let kept = BTreeSet::new();
                    let mut inner = Restorer { method: self.method, kept: &kept, left: Vec::new() };
                    inner.restore(&mut child, &join(place, &group.path), 0)?;
                    self.left.append(&mut inner.left);
                    module.add_submodule(&group.path, child)?;
                }
                Err(reason) => {
                    self.leave(join(place, &group.path), reason);
                    is_left = true;
                }
            }
        }
        if is_left {
            self.restore(module, place, level + 1)?;
        }
        Ok(())
    }

    fn leave(&mut self, path: String, reason: impl Into<String>) {
        self.left.push(LeftInline { method: self.method.to_owned(), path, reason: reason.into() });
    }

    /// Returns the modules at a level whose calls stand together, and whether others are left in line.
    fn groups(&mut self, module: &GraphModule, place: &str, level: usize) -> Result<(Vec<Group>, bool)> {
        let graph = module.graph();
        let mut groups: Vec<Group> = Vec::new();
        let mut places: FxHashMap<Arc<str>, usize> = FxHashMap::default();
        let mut calls: FxHashSet<(Arc<str>, u32)> = FxHashSet::default();
        let mut scattered: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut last: Option<(usize, u32)> = None;
        for (id, node) in graph.nodes() {
            let is_step = match node.target() {
                Target::CallFunction(op) => !ops::is_store(*op),
                Target::CallMethod(_) | Target::CallModule(_) => true,
                Target::Placeholder | Target::GetAttr(_) | Target::Output => false,
            };
            if !is_step {
                continue;
            }
            let frame = node.meta().stack.as_deref().and_then(|stack| stack.get(level));
            // A leaf has a frame of its own: it is a call already.
            let frame = frame.filter(|frame| match node.target() {
                Target::CallModule(path) => frame.path != *path,
                _ => true,
            });
            let Some(frame) = frame else {
                last = None;
                continue;
            };
            let at = *places.entry(frame.path.clone()).or_insert_with(|| {
                let (path, type_name) = (frame.path.clone(), frame.type_name.clone());
                groups.push(Group { path, type_name, calls: Vec::new(), stores: Vec::new() });
                groups.len() - 1
            });
            if last != Some((at, frame.call)) {
                if !calls.insert((frame.path.clone(), frame.call)) {
                    scattered.insert(frame.path.clone());
                }
                groups[at].calls.push(Vec::new());
                last = Some((at, frame.call));
            }
            groups[at].calls.last_mut().expect("a call was begun").push(id);
        }
        for path in &scattered {
            self.leave(join(place, path), "its nodes stand between those of others");
        }
        groups.retain(|group| !scattered.contains(&group.path));
        for group in &mut groups {
            group.stores = stores(module, group, self.kept)?;
        }
        Ok((groups, !scattered.is_empty()))
    }
}

/// Returns a path as it is called below another; empty if it is not below it.
fn below<'a>(path: &'a str, prefix: &str) -> &'a str {
    path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')).unwrap_or("")
}

/// Returns the path of a module below another.
fn join(place: &str, path: &str) -> String {
    if place.is_empty() { path.to_owned() } else { format!("{place}.{path}") }
}

/// Returns the frames of a stack after the call of a module, with paths below it.
fn inner_stack(stack: &[ModuleFrame], path: &str) -> Option<Arc<[ModuleFrame]>> {
    let at = stack.iter().position(|frame| &*frame.path == path)?;
    let relative = |frame: &ModuleFrame| {
        let inner = below(&frame.path, path);
        // A module that is called in another need not be below it.
        let path = if inner.is_empty() { frame.path.clone() } else { Arc::from(inner) };
        ModuleFrame { path, ..frame.clone() }
    };
    let inner: Vec<ModuleFrame> = stack[at + 1..].iter().map(relative).collect();
    (!inner.is_empty()).then(|| Arc::from(inner))
}

/// Returns the path of the state that a node updates, and the value that it stores.
fn store(graph: &Graph, id: NodeId) -> Result<Option<(Arc<str>, Arg)>> {
    let node = graph.node(id)?;
    let Target::CallFunction(op) = node.target() else { return Ok(None) };
    if !ops::is_store(*op) {
        return Ok(None);
    }
    let bound = op.bind(node.args(), node.kwargs())?;
    Ok(match &bound[..] {
        [Arg::Str(path), value, ..] => Some((path.clone(), value.clone())),
        _ => None,
    })
}

/// Returns the updates that can move into a module: it is called once, computes the new value, and nothing else
/// reads or updates the state, under any path.
fn stores(module: &GraphModule, group: &Group, kept: &BTreeSet<Arc<str>>) -> Result<Vec<NodeId>> {
    let [call] = &group.calls[..] else { return Ok(Vec::new()) };
    let (graph, path) = (module.graph(), &*group.path);
    let inside: FxHashSet<NodeId> = call.iter().copied().collect();
    let cell = |path: &str| module.attribute(path).ok().and_then(Attribute::cell);
    let mut updates: Vec<(NodeId, Arc<str>, bool)> = Vec::new();
    for (id, _) in graph.nodes() {
        if let Some((target, value)) = store(graph, id)? {
            let is_own = !below(&target, path).is_empty()
                && !kept.contains(&target)
                && !value.leaves().is_empty()
                && value.leaves().iter().all(|id| inside.contains(id));
            updates.push((id, target, is_own));
        }
    }
    let mut found = Vec::new();
    for (id, target, is_own) in &updates {
        let one = cell(target);
        let is_shared = updates.iter().any(|(other, path, _)| other != id && cell(path) == one)
            || module.attributes().any(|(path, attribute)| *path != **target && attribute.cell() == one)
            || module.children().any(|(_, child)| {
                let buffers = crate::module::collect_buffers(child.as_module());
                buffers.iter().any(|(_, buffer)| Some(buffer.address()) == one)
            });
        let read_outside = || -> Result<bool> {
            for read in graph.find_nodes(OpCode::GetAttr, Some(target)) {
                if graph.users(read)?.iter().any(|user| !inside.contains(user) && user != id) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        if *is_own && !is_shared && !read_outside()? {
            found.push(*id);
        }
    }
    Ok(found)
}

/// Moves the nodes of a group into a graph module and calls it in their place. Returns why not, if it cannot.
fn extract(
    module: &mut GraphModule,
    group: &Group,
    kept: &BTreeSet<Arc<str>>,
) -> Result<Result<GraphModule, String>> {
    let path = group.path.to_string();
    let is_name = |part: &str| !part.is_empty();
    if !path.split('.').all(is_name) || module.attribute(&path).is_ok() || module.child(&path).is_ok() {
        return Ok(Err("its path is that of another attribute or module".to_owned()));
    }
    let graph = module.graph();
    let inside: FxHashSet<NodeId> = group.calls.iter().flatten().chain(&group.stores).copied().collect();
    let stored = group.stores.iter().filter_map(|id| store(graph, *id).transpose());
    let stored: Vec<Arc<str>> = stored.map(|store| store.map(|(path, _)| path)).collect::<Result<_>>()?;
    let updated: FxHashSet<Arc<str>> = crate::methods::updated_paths(graph).collect();
    // The attributes that move in.
    let is_own = |id: NodeId, attr: &Arc<str>| -> Result<bool> {
        let is_folded = module.recipe(attr).is_some() || module.is_folded_from(attr);
        let is_below = !below(attr, &path).is_empty() && !kept.contains(attr) && !is_folded;
        let is_free = stored.contains(attr) || !updated.contains(attr);
        Ok(is_below && is_free && graph.users(id)?.iter().all(|user| inside.contains(user)))
    };
    let mut attributes: BTreeSet<Arc<str>> = stored.iter().cloned().collect();
    let mut shared: BTreeSet<Arc<str>> = BTreeSet::new();
    for (id, node) in graph.nodes() {
        if let Target::GetAttr(attr) = node.target() {
            if is_own(id, attr)? {
                attributes.insert(attr.clone())
            } else {
                shared.insert(attr.clone())
            };
        }
    }
    attributes.retain(|attr| !shared.contains(attr));
    // The sub-modules that move in.
    let mut children: BTreeSet<Arc<str>> = BTreeSet::new();
    for (id, node) in graph.nodes() {
        let Target::CallModule(child) = node.target() else { continue };
        if inside.contains(&id) {
            children.insert(child.clone());
        }
    }
    for child in &children {
        let calls = graph.find_nodes(OpCode::CallModule, Some(child));
        if below(child, &path).is_empty() || !calls.iter().all(|call| inside.contains(call)) {
            return Ok(Err(format!("it calls the module {child:?}, which others call too")));
        }
    }
    let results = results(graph, group, &inside)?;
    if results.is_empty() {
        return Ok(Err("it gives no value to the graph around it".to_owned()));
    }
    let mut bodies = Vec::with_capacity(group.calls.len());
    for call in &group.calls {
        if call.len() != group.calls[0].len() {
            return Ok(Err("its calls differ".to_owned()));
        }
        bodies.push(body(graph, group, call, &attributes, &path, &results)?);
    }
    let first = anonymous(&bodies[0].graph);
    if bodies.iter().any(|body| anonymous(&body.graph) != first) {
        return Ok(Err("its calls differ".to_owned()));
    }
    let mut inner = GraphModule::new(&group.type_name, bodies[0].graph.clone());
    for attr in &attributes {
        inner.set_attribute(below(attr, &path), module.attribute(attr)?.share())?;
    }
    for child in &children {
        if let Some(shared) = module.shared_child(child) {
            inner.add_shared_submodule(below(child, &path), shared)?;
        }
    }
    if let Some(violation) = inner.lint().first() {
        return Ok(Err(format!("it cannot stand alone: {}", violation.message)));
    }
    replace(module, group, &path, &bodies)?;
    for attr in &attributes {
        for read in module.graph().find_nodes(OpCode::GetAttr, Some(attr)) {
            module.graph_mut().erase(read)?;
        }
        module.remove_attribute(attr)?;
    }
    for child in &children {
        module.delete_submodule(child)?;
    }
    Ok(Ok(inner))
}

/// Returns the places in a call of the nodes that the outside of some call uses.
fn results(graph: &Graph, group: &Group, inside: &FxHashSet<NodeId>) -> Result<Vec<usize>> {
    let mut results = BTreeSet::new();
    for call in &group.calls {
        let own: FxHashSet<NodeId> = call.iter().copied().collect();
        for (at, id) in call.iter().enumerate() {
            let is_outside = |user: &NodeId| !own.contains(user) && !group.stores.contains(user);
            // A store that moves along is inside, but another call of the module is not.
            if graph.users(*id)?.iter().any(|user| is_outside(user) || !inside.contains(user)) {
                results.insert(at);
            }
        }
    }
    Ok(results.into_iter().collect())
}

/// Returns the graph of a call. Attributes and sub-modules have the paths that they have in the module.
fn body(
    graph: &Graph,
    group: &Group,
    call: &[NodeId],
    attributes: &BTreeSet<Arc<str>>,
    path: &str,
    results: &[usize],
) -> Result<Body> {
    let nodes: Vec<NodeId> = call.iter().chain(&group.stores).copied().collect();
    let own: FxHashSet<NodeId> = nodes.iter().copied().collect();
    let mut inner = Graph::new("main");
    let mut map = NodeMap::default();
    let (mut passed, mut read) = (Vec::new(), Vec::new());
    let mut seen = FxHashSet::default();
    for id in &nodes {
        for input in graph.node(*id)?.inputs() {
            if own.contains(&input) || !seen.insert(input) {
                continue;
            }
            match graph.node(input)?.target() {
                Target::GetAttr(attr) if attributes.contains(attr) => read.push((input, attr.clone())),
                _ => passed.push(input),
            }
        }
    }
    for id in &passed {
        let node = graph.node(*id)?;
        let placeholder = inner.placeholder(node.name())?;
        inner.meta_mut(placeholder)?.ty = node.meta().ty.clone();
        map.insert(*id, Arg::Leaf(placeholder));
    }
    for (id, attr) in &read {
        let copy = inner.get_attr(below(attr, path))?;
        inner.meta_mut(copy)?.ty = graph.node(*id)?.meta().ty.clone();
        map.insert(*id, Arg::Leaf(copy));
    }
    for id in &nodes {
        let copy = inner.copy_node(graph, *id, &mut map)?;
        let stack = graph.node(*id)?.meta().stack.clone().unwrap_or_default();
        inner.meta_mut(copy)?.stack = inner_stack(&stack, path);
        if let Target::CallModule(child) = graph.node(*id)?.target() {
            inner.set_path(copy, below(child, path))?;
        }
        if let Some((target, value)) = store(graph, *id)? {
            let value = value.try_flat_map(&mut |id| Ok(map.get(id).cloned().unwrap_or(Arg::None)))?;
            let args = [Arg::str(below(&target, path)), value];
            inner.set_all_args(copy, args.into(), Default::default())?;
        }
    }
    let result = |at: &usize| map.get(&call[*at]).cloned().unwrap_or(Arg::None);
    inner.set_output(match results {
        [one] => result(one),
        several => Arg::tuple(several.iter().map(result)),
    })?;
    Ok(Body { graph: inner, passed, results: results.to_vec() })
}

/// Puts a call in the place of the nodes of each call of a group.
fn replace(module: &mut GraphModule, group: &Group, path: &str, bodies: &[Body]) -> Result<()> {
    let graph = module.graph_mut();
    for id in &group.stores {
        graph.erase(*id)?;
    }
    // A call may take what an earlier one gave.
    let mut given: FxHashMap<NodeId, NodeId> = FxHashMap::default();
    for (nodes, body) in group.calls.iter().zip(bodies) {
        let last = *nodes.last().expect("a call has nodes");
        let results: Vec<NodeId> = body.results.iter().map(|at| nodes[*at]).collect();
        let meta = graph.node(nodes[0])?.meta().clone();
        let stack = meta.stack.as_deref().unwrap_or_default();
        let depth = stack.iter().position(|frame| frame.path == group.path).map_or(0, |at| at + 1);
        let types: Vec<Option<Arc<TypeTree>>> =
            results.iter().map(|id| Ok(graph.node(*id)?.meta().ty.clone())).collect::<Result<_>>()?;
        let passed = |id: &NodeId| Arg::Leaf(*given.get(id).unwrap_or(id));
        let made = graph.inserting_after(last, |graph| -> Result<Vec<NodeId>> {
            let call = graph.call_module(path, body.passed.iter().map(passed))?;
            let mut made = vec![call];
            if results.len() > 1 {
                for i in 0..results.len() {
                    made.push(graph.call_function(ops::getitem::OP, [Arg::Leaf(call), Arg::Int(i as i64)])?);
                }
            }
            Ok(made)
        })??;
        for node in &made {
            let entry = graph.meta_mut(*node)?;
            entry.source = meta.source.clone();
            // As the call of a leaf, it has the frame of the module itself.
            entry.stack = Some(Arc::from(&stack[..depth]));
        }
        let parts = if results.len() > 1 { &made[1..] } else { &made[..] };
        for ((part, old), ty) in parts.iter().zip(&results).zip(&types) {
            graph.meta_mut(*part)?.ty = ty.clone();
            graph.replace_uses_where(*old, Arg::Leaf(*part), |user| !nodes.contains(&user))?;
            given.insert(*old, *part);
        }
        if results.len() > 1 {
            let whole = types.iter().map(|ty| ty.as_deref().cloned().unwrap_or(Arg::Leaf(Type::Any)));
            graph.meta_mut(made[0])?.ty = Some(Arc::new(Arg::tuple(whole)));
        }
        for id in nodes.iter().rev() {
            graph.erase(*id)?;
        }
    }
    Ok(())
}

/// Replaces the children of a module by equal ones of other modules at the same path; returns the path of one that
/// differs, if there is one.
fn adopt<'m>(
    module: &mut GraphModule,
    others: impl Iterator<Item = &'m GraphModule> + Clone,
) -> Result<Option<String>> {
    for (path, child) in module.children() {
        for other in others.clone() {
            let Ok(known) = other.child(path) else { continue };
            if !is_same(known.as_module(), child.as_module()) {
                return Ok(Some(path.to_owned()));
            }
        }
    }
    others.for_each(|other| module.share_state(other));
    Ok(None)
}

/// Whether two modules are one, or graph modules that compute the same from tensors at the same paths.
fn is_same(a: &dyn crate::Module, b: &dyn crate::Module) -> bool {
    if std::ptr::addr_eq(a, b) {
        return true;
    }
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
