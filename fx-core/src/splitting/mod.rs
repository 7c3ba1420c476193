//! Splitting: the nodes of a graph become sub-modules that are graph modules, called by a graph that means
//! the same.
//!
//! [`split_module`] asks a function where each node belongs; [`split_by_tags`] and [`split_by_size`] are such
//! functions; [`partition`] finds the largest parts that an accelerator takes; [`pipeline`](mod@pipeline)
//! cuts a program into balanced stages; [`minimize`](mod@minimize) cuts out the part on which two runners
//! disagree. All of them end in one place (`plan` and `build`), which keeps, whatever the parts:
//!
//! - results and errors: every value, bit for bit, for all inputs;
//! - the order of effects, and that updates of buffers are stored when the whole call has succeeded:
//!   `set_buffer` stays in the outer graph, and so does a buffer that is updated;
//! - one place for each attribute: one that a single part reads moves into it, any other stays and is passed
//!   in, so that nothing is copied and ties stay;
//! - types, names, sources, module stacks and provenance of nodes; a call knows the nodes that it stands for.

mod build;
pub mod minimize;
pub mod partition;
pub mod pipeline;
pub(crate) mod plan;
mod size;
use std::sync::Arc;

pub use size::{PartSize, split_by_size};

use crate::interp::NodeRef;
use crate::{GraphModule, Node, Result, bail};

/// What a function that assigns nodes to parts may return: text or a number that names the part, or `None`
/// for a node that stays in the outer graph.
pub trait PartitionKey {
    /// Returns the name of the part.
    fn key(self) -> Option<Arc<str>>;
}

macro_rules! keys {
    ($($ty:ty)*) => {$(
        impl PartitionKey for $ty {
            fn key(self) -> Option<Arc<str>> {
                Some(self.to_string().into())
            }
        }
    )*};
}
keys!(usize u32 u64 i32 i64 bool &str String);

impl PartitionKey for Arc<str> {
    fn key(self) -> Option<Arc<str>> {
        Some(self)
    }
}

impl<K: PartitionKey> PartitionKey for Option<K> {
    fn key(self) -> Option<Arc<str>> {
        self.and_then(PartitionKey::key)
    }
}

/// What to do with parts that need each other, so that none can run first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cycles {
    /// It is an error that names the nodes.
    #[default]
    Refuse,
    /// The parts become one, with the nodes between them.
    Merge,
}

/// How a module is split; see [`split_module`] for the usual way.
#[derive(Clone, Debug)]
pub struct Splitter {
    prefix: String,
    cycles: Cycles,
    provenance: Arc<str>,
}

impl Default for Splitter {
    fn default() -> Self {
        Splitter {
            prefix: "submod".to_owned(),
            cycles: Cycles::Refuse,
            provenance: Arc::from("split_module"),
        }
    }
}

impl Splitter {
    /// Sets what the paths of the parts begin with: `submod` gives `submod_0`, `submod_1`, …
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// Says what to do with parts that need each other.
    pub fn cycles(mut self, cycles: Cycles) -> Self {
        self.cycles = cycles;
        self
    }

    /// Sets the name of the pass in the provenance of new nodes.
    pub(crate) fn provenance(mut self, pass: &str) -> Self {
        self.provenance = Arc::from(pass);
        self
    }

    /// Splits by a function, as [`split_module`] does. Fails as [`split_module`] does.
    pub fn split<K: PartitionKey>(
        &self,
        gm: &GraphModule,
        mut key: impl FnMut(NodeRef<'_>) -> K,
    ) -> Result<Split> {
        let graph = gm.graph();
        let mut plan = plan::Plan::new(gm);
        for (i, (id, node)) in graph.nodes().enumerate() {
            if plan::is_call(node)
                && let Some(key) = key(NodeRef { graph, id, node }).key()
            {
                plan.assign(i, &key);
            }
        }
        self.finish(plan)
    }

    fn finish(&self, plan: plan::Plan) -> Result<Split> {
        let ready = plan.ready(self.cycles)?;
        build::build(ready, self)
    }
}

/// A part of a module that was split.
#[derive(Clone, Debug)]
pub struct Part {
    /// The path of the sub-module.
    pub path: Arc<str>,
    /// What the function returned for its nodes; the first of them, if parts were merged.
    pub key: Arc<str>,
    /// The names of its nodes in the module that was split, in order.
    pub nodes: Vec<Arc<str>>,
    /// The paths of the attributes and sub-modules that moved into it; they have the same paths there.
    pub moved: Vec<Arc<str>>,
}

/// A module that was split.
#[derive(Clone, Debug)]
pub struct Split {
    /// A module whose graph calls the parts.
    pub module: GraphModule,
    /// The parts in the order in which they are called.
    pub parts: Vec<Part>,
}

impl Split {
    /// Returns the graph module of a part. Fails if there is none, or it is no graph module any more.
    pub fn part(&self, i: usize) -> Result<&GraphModule> {
        let Some(part) = self.parts.get(i) else {
            bail!(Index, "there is no part {i}, there are {}", self.parts.len())
        };
        match self.module.child(&part.path)?.as_module().as_any().downcast_ref::<GraphModule>() {
            Some(gm) => Ok(gm),
            None => bail!(Graph, "{} is not a graph module any more", part.path),
        }
    }

    /// Puts the nodes of all parts back into the graph, with the paths that they had, and returns the module.
    /// Fails if a part is no graph module any more.
    pub fn inline(self) -> Result<GraphModule> {
        let mut gm = self.module;
        for part in &self.parts {
            build::inline_part(&mut gm, part)?;
        }
        Ok(gm)
    }
}

/// Splits a module: `key` is called for each node that computes, in program order, and nodes with equal keys
/// become a sub-module `submod_KEY` that is a [`GraphModule`]; nodes without a key stay. The result is equal
/// on all inputs.
///
/// Items of a tuple go with the node that makes the tuple, and updates of buffers stay. Parts are called in
/// the order of their first nodes, as far as what they need allows. Parts that need each other, by values or
/// by the order of effects, are an error that names nodes, unless [`Splitter::cycles`] merges them. A module
/// with parameters that several parts call is inlined first, so that they share its parameters. Fails if
/// parts need each other, or a part has no valid name.
///
/// ```ignore
/// let split = split_module(&gm, |at| if at.node.name() < "m" { 0 } else { 1 })?;
/// ```
pub fn split_module<K: PartitionKey>(gm: &GraphModule, key: impl FnMut(NodeRef<'_>) -> K) -> Result<Split> {
    Splitter::default().split(gm, key)
}

/// Splits by tags: a node with one of the tags, the first that it has, becomes part of the sub-module of that
/// tag. Fails if a node has none of them, as in PyTorch: tag all, or use [`split_module`] to leave some where
/// they are.
pub fn split_by_tags(gm: &GraphModule, tags: &[&str]) -> Result<Split> {
    let tag_of = |node: &Node| -> Option<Arc<str>> {
        node.meta().tags().iter().find(|tag| tags.contains(&&***tag)).cloned()
    };
    let graph = gm.graph();
    let is_free = |node: &Node| plan::is_call(node) && !plan::follows(graph, node) && !plan::stores(node);
    let untagged: Vec<String> = graph
        .nodes()
        .filter(|(_, node)| is_free(node) && tag_of(node).is_none())
        .map(|(_, node)| format!("%{}", node.name()))
        .collect();
    if let Some(first) = untagged.first() {
        let more =
            if untagged.len() > 1 { format!(" and {} more", untagged.len() - 1) } else { String::new() };
        return Err(crate::err!(Argument, "{first}{more} has none of the tags {}", tags.join(", "))
            .help("tag every node that computes, with `meta_mut(id)?.add_tag(..)`"));
    }
    Splitter::default().split(gm, |at| tag_of(at.node))
}
