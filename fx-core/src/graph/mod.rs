//! [`Graph`]: an arena of nodes in program order with the edges between them, and the only place that touches
//! edges.
//!
//! What holds at every moment, by construction:
//! - there is exactly one output, it is last; placeholders come first;
//! - every node used is in the graph and comes before its users, so the graph has no cycle;
//! - `users` and `inputs` mirror each other, each entry once;
//! - names are unique identifiers that are not reserved words.
//!
//! An operation that would break one of these returns an error and changes nothing. What else can be wrong
//! (paths that do not resolve, schemas, types) is found by [`lint`](crate::lint). Editing is in `edit.rs`,
//! edges in `edges.rs`, roll-back in `journal.rs`, copying and comparison in `copy.rs`.

mod check;
mod copy;
mod edges;
mod edit;
pub(crate) mod journal;
pub(crate) mod order;
mod readers;
mod sizes;
mod slots;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub use copy::{Copied, NodeMap};
pub(crate) use edit::is_impure;
use journal::{Journal, Undo};
use order::{NIL, Order};
use readers::Readers;
use slots::{Slot, Slots};
use smallvec::SmallVec;

use crate::names::{Namespace, snake_case};
use crate::node::{Edges, Kwargs, Node, NodeId, NodeMeta, OpCode, Target};
use crate::{Arg, Error, MAX_DEPTH, Op, Result, bail, err};

/// The most nodes that one graph can hold.
pub const MAX_NODES: usize = 50_000_000;

/// The most nodes that a graph may have with every sub-graph written out wherever it is used, which bounds
/// the time of everything that looks into sub-graphs.
pub const MAX_EXPANDED: u64 = 10_000_000;

/// One argument of a graph: its name and its structure, with a placeholder at each leaf.
///
/// Where the structure holds a literal, the graph was specialised to it: a call must pass an equal value.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The argument's name.
    pub name: Arc<str>,
    /// Its structure.
    pub tree: Arg,
}

/// A program: nodes in order, the signature, and a cursor at which new nodes are inserted.
pub struct Graph {
    name: Arc<str>,
    slots: Slots,
    free: Vec<u32>,
    order: Order,
    names: Namespace<NodeId>,
    readers: Readers,
    inputs: Vec<Input>,
    output: NodeId,
    last_placeholder: Option<NodeId>,
    cursor: NodeId,
    depth: u8,
    /// The number of nodes if every sub-graph were written out wherever it is used.
    expanded: u64,
    stamps: std::ops::Range<u32>,
    journal: Option<Box<Journal>>,
}

/// Hands out stamps that no other graph has, in blocks.
fn stamp_block() -> std::ops::Range<u32> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const BLOCK: u32 = 256;
    let start = NEXT.fetch_add(BLOCK, Ordering::Relaxed);
    start..start.wrapping_add(BLOCK)
}

/// Handles stay valid in the clone; nodes made later in either have handles that the other refuses. A clone
/// is outside of every transaction.
impl Clone for Graph {
    fn clone(&self) -> Self {
        Graph {
            name: self.name.clone(),
            slots: self.slots.clone(),
            free: self.free.clone(),
            order: self.order.clone(),
            names: self.names.clone(),
            readers: self.readers.clone(),
            inputs: self.inputs.clone(),
            output: self.output,
            last_placeholder: self.last_placeholder,
            cursor: self.cursor,
            depth: self.depth,
            expanded: self.expanded,
            stamps: 0..0,
            journal: None,
        }
    }
}

impl Default for Graph {
    fn default() -> Self {
        Graph::new("main")
    }
}

impl Graph {
    /// Makes a graph without inputs that returns nothing.
    pub fn new(name: &str) -> Self {
        let nowhere = NodeId { index: NIL, stamp: 0 };
        let mut graph = Graph {
            name: Arc::from(snake_case(name)),
            slots: Slots::default(),
            free: Vec::new(),
            order: Order::new(),
            names: Namespace::default(),
            readers: Readers::default(),
            inputs: Vec::new(),
            output: nowhere,
            last_placeholder: None,
            cursor: nowhere,
            depth: 0,
            expanded: 0,
            stamps: 0..0,
            journal: None,
        };
        if !crate::names::is_identifier(&graph.name) && &*graph.name != "main" {
            graph.name = Arc::from("graph_1");
        }
        graph.output =
            graph.insert(Target::Output, SmallVec::from_elem(Arg::None, 1), Kwargs::new(), "output", NIL);
        graph.cursor = graph.output;
        graph
    }

    /// Returns the name, by which a sub-graph is printed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the name. Fails if it is not an identifier.
    pub fn set_name(&mut self, name: &str) -> Result<()> {
        if name != "main" && !crate::names::is_identifier(name) {
            return Err(
                err!(Graph, "{name:?} is not a name for a graph").help("use letters, digits and underscores")
            );
        }
        let old = std::mem::replace(&mut self.name, Arc::from(name));
        self.log(|| Undo::Name(old));
        Ok(())
    }

    /// Returns the number of nodes, with placeholders and the output.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether the graph has no node but its output.
    pub fn is_empty(&self) -> bool {
        self.len() == 1
    }

    /// Returns how many nodes this would be with every sub-graph written out wherever it is used.
    pub fn expanded_len(&self) -> u64 {
        self.expanded + self.len() as u64
    }

    /// Returns how deep sub-graphs are nested below this graph.
    pub fn depth(&self) -> usize {
        self.depth as usize
    }

    /// Returns the node. Fails if the handle is stale: the node was erased, or is of another graph.
    pub fn node(&self, id: NodeId) -> Result<&Node> {
        self.get_live(id).ok_or_else(|| self.stale(id))
    }

    /// Returns the node, unless it was erased or belongs to another graph.
    pub(crate) fn get_live(&self, id: NodeId) -> Option<&Node> {
        match self.slots.get(id.index) {
            Some(Slot { stamp, node: Some(node) }) if *stamp == id.stamp => Some(node),
            _ => None,
        }
    }

    fn stale(&self, id: NodeId) -> Error {
        let was_here = self.slots.get(id.index).is_some_and(|slot| slot.stamp == id.stamp);
        if was_here {
            err!(Stale, "the node {id} was erased").help("look the node up again, for example by name")
        } else {
            err!(Stale, "the node {id} does not belong to graph {:?}, or was erased", &*self.name).help(
                "handles are valid in the graph that made them and its clones; to move nodes use `copy_node`",
            )
        }
    }

    /// Returns whether the handle is a node of this graph.
    pub fn contains(&self, id: NodeId) -> bool {
        self.get_live(id).is_some()
    }

    /// Returns the node called `name`.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.names.get(name)
    }

    /// Makes room for the names of more nodes.
    pub(crate) fn reserve_names(&mut self, additional: usize) {
        self.names.reserve(additional);
    }

    /// Returns the node called `name`. Fails if there is none; the error names similar ones.
    pub fn find_or_err(&self, name: &str) -> Result<NodeId> {
        self.find(name).ok_or_else(|| {
            let help = crate::names::suggest(name, self.nodes().map(|(_, node)| node.name()));
            err!(Unresolved, "no node is called {name:?} in graph {:?}", &*self.name).help(help)
        })
    }

    /// Returns every node with its handle, in program order.
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes { graph: self, front: self.order.first(), back: self.order.last(), left: self.len() }
    }

    /// Returns the handles in program order, as a list that stays while the graph is edited.
    pub fn ids(&self) -> Vec<NodeId> {
        self.nodes().map(|(id, _)| id).collect()
    }

    /// Returns the nodes with this opcode, and this op, path or nothing to compare, in program order.
    pub fn find_nodes(&self, opcode: OpCode, target: Option<&str>) -> Vec<NodeId> {
        if let (OpCode::GetAttr | OpCode::CallModule, Some(path)) = (opcode, target) {
            let is_one = |id: &NodeId| self.get(*id).opcode() == opcode;
            let mut found: Vec<NodeId> = self.readers.of(path).filter(is_one).collect();
            found.sort_unstable_by_key(|id| self.order.label(id.index));
            return found;
        }
        self.nodes()
            .filter(|(_, node)| node.opcode() == opcode)
            .filter(|(_, node)| match (target, node.target()) {
                (None, _) => true,
                (Some(name), Target::CallFunction(op) | Target::CallMethod(op)) => op.name == name,
                (Some(path), Target::GetAttr(p) | Target::CallModule(p)) => &**p == path,
                (Some(name), _) => node.name() == name,
            })
            .map(|(id, _)| id)
            .collect()
    }

    /// Returns the first node.
    pub fn first(&self) -> NodeId {
        self.id_at(self.order.first())
    }

    /// Returns the output node, which is the last.
    pub fn output_node(&self) -> NodeId {
        self.output
    }

    /// Returns what the graph returns.
    pub fn output(&self) -> &Arg {
        &self.get(self.output).args[0]
    }

    /// Returns the arguments in order.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns the placeholders in order.
    pub fn placeholders(&self) -> Vec<NodeId> {
        let is_input = |(_, node): &(NodeId, &Node)| node.opcode() == OpCode::Placeholder;
        self.nodes().take_while(is_input).map(|(id, _)| id).collect()
    }

    /// Returns the node after `id`, or `None` after the output. Fails if `id` is stale.
    pub fn next(&self, id: NodeId) -> Result<Option<NodeId>> {
        self.node(id)?;
        let next = self.order.next(id.index);
        Ok((next != NIL).then(|| self.id_at(next)))
    }

    /// Returns the node before `id`, or `None` before the first. Fails if `id` is stale.
    pub fn prev(&self, id: NodeId) -> Result<Option<NodeId>> {
        self.node(id)?;
        let prev = self.order.prev(id.index);
        Ok((prev != NIL).then(|| self.id_at(prev)))
    }

    /// Returns whether `a` comes before `b`, in constant time. Fails if a handle is stale.
    pub fn is_before(&self, a: NodeId, b: NodeId) -> Result<bool> {
        self.node(a)?;
        self.node(b)?;
        Ok(self.order.label(a.index) < self.order.label(b.index))
    }

    /// Returns a number that grows in program order. It is good until the next node is inserted or moved.
    pub(crate) fn position(&self, id: NodeId) -> u64 {
        self.order.label(id.index)
    }

    /// Returns the nodes that use `id`, each once, in program order. Fails if `id` is stale.
    pub fn users(&self, id: NodeId) -> Result<Vec<NodeId>> {
        let mut users: Vec<NodeId> = self.node(id)?.users().collect();
        users.sort_unstable_by_key(|user| self.order.label(user.index));
        Ok(users)
    }

    fn get(&self, id: NodeId) -> &Node {
        self.node(id).expect("handles inside a graph are live")
    }

    fn get_mut(&mut self, id: NodeId) -> &mut Node {
        self.slots[id.index].node.as_mut().expect("handles inside a graph are live")
    }

    fn id_at(&self, index: u32) -> NodeId {
        NodeId { index, stamp: self.slots[index].stamp }
    }

    /// Adds a node before `next` without any check; edges are made, the journal is written.
    fn insert(
        &mut self,
        target: Target,
        args: SmallVec<[Arg; 2]>,
        kwargs: Kwargs,
        hint: &str,
        next: u32,
    ) -> NodeId {
        if self.stamps.is_empty() {
            self.stamps = stamp_block();
        }
        let stamp = self.stamps.start;
        self.stamps.start = stamp.wrapping_add(1);
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { stamp, node: None });
            (self.slots.len() - 1) as u32
        });
        let id = NodeId { index, stamp };
        let (name, claim) = self.names.claim(hint, id);
        self.readers.add(&target, id);
        let node = Node { name, target, args, kwargs, meta: NodeMeta::default(), edges: Edges::default() };
        self.slots[index] = Slot { stamp, node: Some(node) };
        self.order.insert_before(index, next);
        self.link_inputs(id);
        self.log(|| Undo::Create(id, claim));
        id
    }

    fn log(&mut self, undo: impl FnOnce() -> Undo) {
        if let Some(journal) = &mut self.journal {
            journal.push(undo());
        }
    }
}

/// The nodes of a graph in program order; see [`Graph::nodes`].
#[derive(Clone)]
pub struct Nodes<'a> {
    graph: &'a Graph,
    front: u32,
    back: u32,
    left: usize,
}

impl<'a> Iterator for Nodes<'a> {
    type Item = (NodeId, &'a Node);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let id = self.graph.id_at(self.front);
        self.front = self.graph.order.next(self.front);
        Some((id, self.graph.get(id)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Nodes<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let id = self.graph.id_at(self.back);
        self.back = self.graph.order.prev(self.back);
        Some((id, self.graph.get(id)))
    }
}

impl ExactSizeIterator for Nodes<'_> {}

impl<'a> IntoIterator for &'a Graph {
    type Item = (NodeId, &'a Node);
    type IntoIter = Nodes<'a>;
    fn into_iter(self) -> Nodes<'a> {
        self.nodes()
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({}, {} nodes)", self.name, self.len())
    }
}

/// Building, by opcode.
impl Graph {
    /// Adds an argument that is one value, and returns its placeholder. Fails if there is an argument of this
    /// name.
    pub fn placeholder(&mut self, name: &str) -> Result<NodeId> {
        let tree = self.structured_input(name, &Arg::Leaf(()))?;
        tree.leaf().copied().ok_or_else(|| err!(Graph, "a leaf gave no placeholder"))
    }

    /// Adds an argument with a structure: each leaf becomes a placeholder named after its place in the structure,
    /// each literal a value to which the graph is specialised. Fails if there is an argument of this name.
    pub fn structured_input(&mut self, name: &str, structure: &Arg<()>) -> Result<Arg> {
        if self.inputs.iter().any(|input| &*input.name == name) {
            bail!(Graph, "graph {:?} already has an argument called {name:?}", &*self.name);
        }
        if let Some(error) = structure.error() {
            return Err(error.clone());
        }
        self.check_size(structure.leaves().len())?;
        let tree = self.placeholders_for(name, structure);
        self.push_input(name, &tree);
        Ok(tree)
    }

    /// Adds an argument whose placeholders have the given names, which must be free identifiers; the caller
    /// has checked that the argument's own name is new.
    pub(crate) fn named_input(&mut self, name: &str, structure: &Arg<Arc<str>>) -> Result<Arg> {
        self.check_size(structure.leaves().len())?;
        let tree = structure.map(&mut |leaf| self.insert_placeholder(leaf));
        self.push_input(name, &tree);
        Ok(tree)
    }

    fn push_input(&mut self, name: &str, tree: &Arg) {
        self.log(|| Undo::AddInput);
        tree.walk(&mut |arg| {
            if let Arg::Graph(graph) = arg {
                self.depth = self.depth.max(1 + graph.depth() as u8);
            }
        });
        self.inputs.push(Input { name: Arc::from(name), tree: tree.clone() });
    }

    fn insert_placeholder(&mut self, hint: &str) -> NodeId {
        let next = match self.last_placeholder {
            Some(last) => self.order.next(last.index),
            None => self.order.first(),
        };
        let id = self.insert(Target::Placeholder, SmallVec::new(), Kwargs::new(), hint, next);
        self.last_placeholder = Some(id);
        id
    }

    fn placeholders_for(&mut self, name: &str, structure: &Arg<()>) -> Arg {
        match structure {
            Arg::Leaf(()) => Arg::Leaf(self.insert_placeholder(name)),
            Arg::Tuple(items) | Arg::List(items) => {
                let children: Vec<_> = items
                    .iter()
                    .enumerate()
                    .map(|(i, item)| self.placeholders_for(&format!("{name}_{i}"), item))
                    .collect();
                if matches!(structure, Arg::Tuple(_)) { Arg::tuple(children) } else { Arg::list(children) }
            }
            Arg::Dict(entries) => Arg::dict(
                entries
                    .iter()
                    .map(|(key, item)| (key.clone(), self.placeholders_for(&format!("{name}_{key}"), item)))
                    .collect::<Vec<_>>(),
            ),
            literal => literal.try_flat_map(&mut |()| Ok(Arg::None)).unwrap_or_else(Arg::Failed),
        }
    }

    /// Adds a call of `op` as a function at the cursor. Fails as [`create`](Self::create) does.
    pub fn call_function(&mut self, op: Op, args: impl IntoIterator<Item = Arg>) -> Result<NodeId> {
        self.create(Target::CallFunction(op), args, [], None)
    }

    /// Adds a call of `op` as a method of its first argument at the cursor. Fails as [`create`](Self::create)
    /// does.
    pub fn call_method(&mut self, op: Op, args: impl IntoIterator<Item = Arg>) -> Result<NodeId> {
        self.create(Target::CallMethod(op), args, [], None)
    }

    /// Adds a call of the sub-module at `path` at the cursor. Fails as [`create`](Self::create) does.
    pub fn call_module(&mut self, path: &str, args: impl IntoIterator<Item = Arg>) -> Result<NodeId> {
        self.create(Target::CallModule(Arc::from(path)), args, [], None)
    }

    /// Adds a read of the parameter, buffer or constant at `path` at the cursor. Fails as
    /// [`create`](Self::create) does.
    pub fn get_attr(&mut self, path: &str) -> Result<NodeId> {
        self.create(Target::GetAttr(Arc::from(path)), [], [], None)
    }

    /// Adds a node at the cursor. Its name is made from `hint`, or from the target. Fails if the target is a
    /// placeholder or the output, an argument is stale or not defined before the cursor, or arguments are
    /// nested too deep.
    pub fn create(
        &mut self,
        target: Target,
        args: impl IntoIterator<Item = Arg>,
        kwargs: impl IntoIterator<Item = (Arc<str>, Arg)>,
        hint: Option<&str>,
    ) -> Result<NodeId> {
        let args: SmallVec<[Arg; 2]> = args.into_iter().collect();
        let kwargs: Kwargs = kwargs.into_iter().collect();
        match &target {
            Target::Placeholder => {
                bail!(Graph, "placeholders are made by `placeholder`, which keeps the signature")
            }
            Target::Output => {
                return Err(err!(Graph, "a graph has exactly one output").help("use `set_output`"));
            }
            Target::CallMethod(op) if args.is_empty() => {
                bail!(Argument, "the method {} is called without a first argument", op.name)
            }
            Target::GetAttr(path) if !(args.is_empty() && kwargs.is_empty()) => {
                bail!(
                    Argument,
                    "the attribute {path:?} is read without arguments, got {}",
                    args.len() + kwargs.len()
                )
            }
            _ => {}
        }
        self.check_size(1)?;
        self.check_args(args.iter().chain(kwargs.iter().map(|(_, arg)| arg)), self.cursor)
            .map_err(|(error, _)| error)?;
        check_keywords(&kwargs)?;
        let owned;
        let hint = match (hint, &target) {
            (Some(hint), _) => hint,
            (None, Target::CallFunction(op) | Target::CallMethod(op)) => op.name,
            (None, Target::GetAttr(path) | Target::CallModule(path)) => {
                owned = snake_case(path);
                &owned
            }
            (None, _) => "",
        };
        Ok(self.insert(target, args, kwargs, hint, self.cursor.index))
    }

    /// Sets what the graph returns. Fails if a value is stale.
    pub fn set_output(&mut self, value: impl Into<Arg>) -> Result<()> {
        self.set_args(self.output, [value.into()])
    }

    fn check_size(&self, more: usize) -> Result<()> {
        if self.len() + more > MAX_NODES {
            bail!(Limit, "a graph holds at most {MAX_NODES} nodes");
        }
        Ok(())
    }

    /// Checks that every node among `args` is live and comes before the node `user`, which is to have them.
    fn check_args_of<'a>(&self, args: impl Iterator<Item = &'a Arg>, user: NodeId) -> Result<()> {
        self.check_args(args, user).map_err(|(error, late)| match (late, self.node(user)) {
            (Some(late), Ok(node)) if late == user => err!(Graph, "%{} would use itself", node.name())
                .help("a graph has no cycles; a loop is `fx::while_loop`"),
            (Some(late), Ok(node)) if let Ok(late) = self.node(late) => {
                err!(Graph, "%{} would use %{}, which comes after it", node.name(), late.name()).help(
                    "a graph has no cycles; if the other does not need this node, move it before this one",
                )
            }
            _ => error,
        })
    }

    /// Checks that every node among `args` is live and comes before `before`. An error has the node that does
    /// not.
    fn check_args<'a>(
        &self,
        args: impl Iterator<Item = &'a Arg>,
        before: NodeId,
    ) -> Result<(), (Error, Option<NodeId>)> {
        let limit = self.order.label(before.index);
        let mut problem = Ok(());
        let mut expanded = self.expanded_len();
        for arg in args {
            if arg.depth() > MAX_DEPTH {
                let error = err!(Limit, "sub-graphs nested deeper than {MAX_DEPTH} levels");
                return Err((error.help("inline some of them"), None));
            }
            arg.walk(&mut |arg| {
                if problem.is_err() {
                    return;
                }
                problem = match arg {
                    Arg::Leaf(id) => self.node(*id).map_err(|error| (error, None)).and_then(|node| {
                        if self.order.label(id.index) < limit && node.opcode() != OpCode::Output {
                            return Ok(());
                        }
                        let error = err!(Graph, "%{} is used before it is defined", node.name())
                            .help("move the node, or insert the user after it with `inserting_after`");
                        Err((error, Some(*id)))
                    }),
                    Arg::Failed(error) => Err((error.clone(), None)),
                    Arg::Graph(graph) => {
                        expanded = expanded.saturating_add(graph.expanded_len());
                        if expanded <= MAX_EXPANDED {
                            return;
                        }
                        let error = err!(Limit, "sub-graphs that stand for more than {MAX_EXPANDED} nodes")
                            .help("a sub-graph that is used twice counts twice; use fewer");
                        Err((error, None))
                    }
                    _ => Ok(()),
                };
            });
        }
        problem
    }
}

/// Checks that no keyword is given twice.
fn check_keywords(kwargs: &Kwargs) -> Result<()> {
    let mut keys: SmallVec<[&str; 8]> = kwargs.iter().map(|(key, _)| &**key).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => bail!(Argument, "keyword argument {:?} is given twice", pair[0]),
        None => Ok(()),
    }
}
