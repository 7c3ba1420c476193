//! Methods: further graphs of a module, over the same parameters, buffers and sub-modules.
//!
//! The graph of a module is its `forward`. [`GraphModule::method`] gives a method as a graph module of its own,
//! which shares state with the module, so that engines, passes and exporters take it like any other.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::{
    Arg, Attribute, Error, Graph, GraphModule, NodeId, OpCode, Result, Target, bail, err, names, ops,
};

/// The name of the method that is the graph of a module.
pub(crate) const FORWARD: &str = "forward";

impl GraphModule {
    /// Returns the methods beside `forward`, by name.
    pub fn methods(&self) -> impl ExactSizeIterator<Item = (&str, &Graph)> {
        self.method_table().iter().map(|(name, graph)| (&**name, graph))
    }

    /// Returns a method as a graph module with the attributes and sub-modules that it uses; `forward` is the graph
    /// of this module. State is shared: an update by the method is seen by this module. Fails if there is no such
    /// method; the error names similar ones.
    ///
    /// ```
    /// # use fx_core::{Graph, GraphModule};
    /// let mut gm = GraphModule::new("Model", Graph::new("main"));
    /// gm.set_method("encode", Graph::new("encode"))?;
    /// assert_eq!(gm.method("encode")?.graph().name(), "encode");
    /// assert!(gm.method("encoder").is_err());
    /// # Ok::<(), fx_core::Error>(())
    /// ```
    pub fn method(&self, name: &str) -> Result<GraphModule> {
        let mut method = self.snapshot();
        let methods = method.method_table_mut();
        let graph = match name {
            FORWARD => self.graph().clone(),
            _ => methods.remove(name).ok_or_else(|| self.no_method(name))?,
        };
        methods.clear();
        method.set_graph(graph);
        method.delete_unused();
        Ok(method)
    }

    /// Adds or replaces a method; `forward` is the graph of this module. Fails if the name is no identifier.
    pub fn set_method(&mut self, name: &str, graph: Graph) -> Result<()> {
        if name == FORWARD {
            self.set_graph(graph);
            return Ok(());
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || name.as_bytes()[0].is_ascii_digit() || !name.bytes().all(is_name) {
            return Err(err!(Argument, "{name:?} is not the name of a method")
                .help("use letters, digits and underscores"));
        }
        self.method_table_mut().insert(Arc::from(name), graph);
        Ok(())
    }

    /// Removes a method and returns its graph. Fails if there is none, or it is `forward`.
    pub fn remove_method(&mut self, name: &str) -> Result<Graph> {
        if name == FORWARD {
            bail!(Argument, "a graph module always has the method {FORWARD:?}");
        }
        self.method_table_mut().remove(name).ok_or_else(|| self.no_method(name))
    }

    /// Changes a method as if it were the graph of this module: passes take it, and what other methods use stays.
    /// Fails if there is no such method, or `edit` fails.
    ///
    /// ```
    /// # use fx_core::{Graph, GraphModule, pass};
    /// # let mut gm = GraphModule::new("Model", Graph::new("main"));
    /// # gm.set_method("encode", Graph::new("encode"))?;
    /// gm.edit_method("encode", |gm| pass::CSE.apply(gm).map(|_| ()))?;
    /// # Ok::<(), fx_core::Error>(())
    /// ```
    pub fn edit_method(
        &mut self,
        name: &str,
        edit: impl FnOnce(&mut GraphModule) -> Result<()>,
    ) -> Result<()> {
        if name == FORWARD {
            return edit(self);
        }
        let graph = self.remove_method(name)?;
        let forward = std::mem::replace(self.graph_mut(), graph);
        // Under its own name, so that what it uses counts as used.
        self.method_table_mut().insert(Arc::from(FORWARD), forward);
        let outcome = edit(self);
        let forward = self.method_table_mut().remove(FORWARD).unwrap_or_else(|| Graph::new(FORWARD));
        let graph = std::mem::replace(self.graph_mut(), forward);
        self.method_table_mut().insert(Arc::from(name), graph);
        outcome
    }

    /// Adds the graph of another module as a method. Attributes and sub-modules that only the other has become
    /// those of this module; those that both have at a path must be the same, but constants of the other get
    /// another path. A buffer that is a parameter or constant in one of them is a buffer.
    ///
    /// Fails if the name is no identifier, or both have another tensor or sub-module at a path, with the path.
    pub fn add_method(&mut self, name: &str, other: GraphModule) -> Result<()> {
        let mut other = other;
        let paths: Vec<String> = other.attributes().map(|(path, _)| path.to_owned()).collect();
        for path in &paths {
            let new = other.attribute(path)?.share();
            let old = match self.attribute(path) {
                Ok(old) => old,
                Err(_) if self.child(path).is_ok() => bail!(Graph, "{path:?} is a sub-module"),
                Err(_) => {
                    self.set_attribute(path, new)?;
                    continue;
                }
            };
            match joined(old, &new) {
                Some(Joined::Old) => {}
                Some(Joined::New) => self.set_attribute(path, new)?,
                None if matches!(new, Attribute::Constant(_)) => {
                    let free = (1..)
                        .map(|i| format!("{path}_{i}"))
                        .find(|free| !self.parts().is_taken(free) && !other.parts().is_taken(free));
                    let free = free.expect("some number is free");
                    read_at(other.graph_mut(), path, &free)?;
                    self.set_attribute(&free, new)?;
                }
                None => return Err(conflict(name, path, "attribute")),
            }
        }
        let children: Vec<String> = other.children().map(|(path, _)| path.to_owned()).collect();
        for path in children {
            let Some(new) = other.shared_child(&path) else { continue };
            match self.shared_child(&path) {
                Some(old) if Arc::ptr_eq(&old, &new) => {}
                Some(_) => return Err(conflict(name, &path, "sub-module")),
                None => self.add_shared_submodule(&path, new)?,
            }
        }
        self.set_method(name, other.into_graph())
    }

    /// Removes all methods but `forward`.
    pub fn clear_methods(&mut self) {
        self.method_table_mut().clear();
    }

    /// Returns the module with its methods as text: attributes with types, sub-modules, and the graph of each
    /// method, `forward` first. Sub-modules that are graph modules follow.
    pub fn dump(&self) -> String {
        self.to_string()
    }

    fn no_method(&self, name: &str) -> Error {
        let names = std::iter::once(FORWARD).chain(self.methods().map(|(name, _)| name));
        err!(Unresolved, "{} has no method {name:?}", self.name()).help(names::suggest(name, names))
    }
}

/// Which of two attributes at a path stays.
enum Joined {
    Old,
    New,
}

/// Returns which of two attributes stays if they are the same; `None` if they are not.
fn joined(old: &Attribute, new: &Attribute) -> Option<Joined> {
    match (old.cell(), new.cell()) {
        (Some(old), Some(new)) => (old == new).then_some(Joined::Old),
        (None, Some(_)) if same_value(old, new) => Some(Joined::New),
        (_, None) if same_value(old, new) => Some(Joined::Old),
        _ => None,
    }
}

fn same_value(a: &Attribute, b: &Attribute) -> bool {
    match (a.tensor().array(), b.tensor().array()) {
        (Ok(a), Ok(b)) => {
            let is_one = a.shares_storage(b)
                && (a.dtype(), a.shape(), a.strides(), a.offset())
                    == (b.dtype(), b.shape(), b.strides(), b.offset());
            is_one || a.bits_eq(b)
        }
        _ => false,
    }
}

fn conflict(method: &str, path: &str, what: &str) -> Error {
    err!(Graph, "the method {method:?} has another {what} {path:?} than the module")
        .help("share them before, with `GraphModule::share_state`")
}

/// Lets the nodes that read an attribute read another.
fn read_at(graph: &mut Graph, path: &str, new: &str) -> Result<()> {
    for id in graph.find_nodes(OpCode::GetAttr, Some(path)) {
        let meta = graph.node(id)?.meta().clone();
        let read = graph.inserting_before(id, |graph| graph.get_attr(new))??;
        *graph.meta_mut(read)? = meta;
        graph.replace_all_uses(id, read)?;
        graph.erase(id)?;
    }
    Ok(())
}

/// Returns the paths that a graph uses: of attributes that it reads or updates, and of modules that it calls.
pub(crate) fn used_paths(graph: &Graph) -> impl Iterator<Item = Arc<str>> + '_ {
    graph.nodes().flat_map(|(_, node)| {
        let updated = match (node.target(), node.args().first()) {
            (Target::CallFunction(op), Some(Arg::Str(path))) if op.effects.state => Some(path.clone()),
            _ => None,
        };
        node.target().path().cloned().into_iter().chain(updated)
    })
}

/// Returns the paths of the buffers that a graph updates.
pub(crate) fn updated_paths(graph: &Graph) -> impl Iterator<Item = Arc<str>> + '_ {
    let updates = graph.find_nodes(OpCode::CallFunction, Some(ops::set_buffer::OP.name));
    updates.into_iter().filter_map(|id: NodeId| {
        let node = graph.node(id).ok()?;
        match ops::set_buffer::OP.bind(node.args(), node.kwargs()).ok()?.first() {
            Some(Arg::Str(path)) => Some(path.clone()),
            _ => None,
        }
    })
}

/// Prints attributes with types, sub-modules, and the graph of each method, `forward` first; then the sub-modules
/// that are graph modules, each below its path and once.
impl fmt::Display for GraphModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen: BTreeMap<usize, String> = BTreeMap::new();
        let mut pending: Vec<(String, &GraphModule)> = vec![(String::new(), self)];
        while let Some((path, gm)) = pending.pop() {
            let address = std::ptr::from_ref(gm) as usize;
            if !path.is_empty() {
                f.write_str("\n")?;
            }
            let title = if path.is_empty() { gm.name() } else { &*path };
            if let Some(first) = seen.get(&address) {
                writeln!(f, "module {title} is {first}")?;
                continue;
            }
            seen.insert(address, title.to_owned());
            write_module(f, title, gm)?;
            let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let graphs: Vec<_> = gm
                .children()
                .filter_map(|(name, child)| {
                    let child = child.as_module().as_any().downcast_ref::<GraphModule>()?;
                    Some((below(name), child))
                })
                .collect();
            pending.extend(graphs.into_iter().rev());
        }
        Ok(())
    }
}

fn write_module(f: &mut fmt::Formatter<'_>, title: &str, gm: &GraphModule) -> fmt::Result {
    writeln!(f, "module {title}")?;
    for (path, attribute) in gm.attributes() {
        let kind = match attribute {
            Attribute::Parameter(_) => "parameter",
            Attribute::Buffer(_) => "buffer",
            Attribute::Constant(_) => "constant",
            Attribute::State(_) => "state",
        };
        match attribute.type_tree() {
            Ok(ty) => writeln!(f, "  {kind} {path}: {ty}")?,
            Err(error) => writeln!(f, "  {kind} {path}: {}", error.message())?,
        }
    }
    for (path, child) in gm.children() {
        let graph = child.as_module().as_any().downcast_ref::<GraphModule>();
        writeln!(f, "  module {path}: {}", graph.map_or(child.as_module().type_name(), GraphModule::name))?;
    }
    for (name, graph) in std::iter::once((FORWARD, gm.graph())).chain(gm.methods()) {
        write!(f, "method {name}\n{}", indented(&graph.to_string()))?;
    }
    Ok(())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect()
}
