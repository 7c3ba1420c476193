//! [`Pattern`]: a traced function compiled for matching. Arguments are in schema order and canonical, markers
//! are resolved, and it is known from which node each further output is found.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::holes::{self, LiteralHole, ModuleType};
use crate::node::{NodeId, Target};
use crate::trace::{Traceable, trace};
use crate::{Arg, GraphModule, Op, Result, Tensor, bail, err};

/// The pattern of a rule: a traced function of tensors.
///
/// Its arguments match anything, each the same value wherever it occurs. Operations match calls of them as
/// functions, methods or operators, whichever way the arguments are spelled; operands of commutative
/// operations match in either order. Literals match literals of the same type and bits;
/// [`number`](super::number), [`exactly`](super::exactly) and their like match more. A captured tensor
/// matches an attribute of the same bits, [`attr`](super::attr) any.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub(super) nodes: Vec<PatternNode>,
    /// The node of each argument.
    pub(super) inputs: Vec<u32>,
    /// What the pattern returns.
    pub(super) output: Arg<u32>,
    /// The returned nodes, each once; matching begins at the first.
    pub(super) roots: Vec<u32>,
    /// How the nodes that the first root does not reach are found: `to` among the users of `from`.
    pub(super) steps: Vec<Step>,
    pub(super) names: BTreeMap<Arc<str>, u32>,
    /// The greatest number of nodes on a path from a root.
    pub(super) depth: usize,
    /// The least height of a node at which the pattern can match, as the engine counts it.
    pub(super) height: u32,
}

#[derive(Clone, Debug)]
pub(super) struct PatternNode {
    pub(super) name: Arc<str>,
    pub(super) kind: PatternKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) from: u32,
    pub(super) to: u32,
}

#[derive(Clone, Debug)]
pub(super) enum PatternKind {
    /// An argument of the pattern: any value.
    Input,
    /// A literal that may vary.
    LiteralHole(LiteralHole),
    /// An argument of a call that may be anything at all.
    Free,
    Call {
        op: Op,
        args: Vec<Arg<u32>>,
        can_swap: bool,
    },
    /// A read of an attribute, with the value that it must have.
    Attr(Option<Tensor>),
    Module {
        ty: ModuleType,
        args: Vec<Arg<u32>>,
    },
    AnyOf(Vec<u32>),
}

impl PatternNode {
    pub(super) fn args(&self) -> &[Arg<u32>] {
        match &self.kind {
            PatternKind::Call { args, .. } | PatternKind::Module { args, .. } => args,
            _ => &[],
        }
    }

    /// Calls `f` with each node that this one is made from.
    fn for_each_input(&self, f: &mut dyn FnMut(u32)) {
        match &self.kind {
            PatternKind::AnyOf(options) => options.iter().for_each(|option| f(*option)),
            _ => self.args().iter().for_each(|arg| arg.for_each_leaf(&mut |input| f(*input))),
        }
    }

    /// Returns what it expects, for messages.
    pub(super) fn expected(&self) -> String {
        match &self.kind {
            PatternKind::Input | PatternKind::Free => "anything".into(),
            PatternKind::LiteralHole(hole) => hole.to_string(),
            PatternKind::Call { op, .. } => format!("a call of {}", op.name),
            PatternKind::Attr(None) => "an attribute".into(),
            PatternKind::Attr(Some(tensor)) => match tensor.array() {
                Ok(array) => format!("a constant {} of a certain value", array.describe()),
                Err(_) => "a constant of a certain value".into(),
            },
            PatternKind::Module { ty, .. } => format!("a call of a module {}", ty.name),
            PatternKind::AnyOf(options) => format!("one of {} alternatives", options.len()),
        }
    }
}

impl Pattern {
    /// Traces a closure and compiles it. Fails as [`from_graph`](Self::from_graph) does, or if the closure
    /// cannot be traced.
    #[track_caller]
    pub fn new<Marker>(function: impl Traceable<Marker>) -> Result<Pattern> {
        Pattern::from_graph(&trace(function).without_sources().build()?)
    }

    /// Compiles a graph. Fails if it returns a value that it does not compute, or computes something that it
    /// does not return.
    pub fn from_graph(gm: &GraphModule) -> Result<Pattern> {
        let mut compiler =
            Compiler { gm, nodes: Vec::new(), names: BTreeMap::new(), map: FxHashMap::default() };
        let mut output = Arg::None;
        for (id, node) in gm.graph().nodes() {
            match node.target() {
                Target::Output => output = compiler.arg(&node.args()[0])?,
                _ => compiler.node(id)?,
            }
        }
        let inputs = gm.graph().placeholders().iter().map(|id| compiler.map[id]).collect();
        let Compiler { nodes, names, .. } = compiler;
        let mut pattern = Pattern {
            roots: distinct_leaves(&output),
            output,
            nodes,
            inputs,
            names,
            steps: Vec::new(),
            depth: 0,
            height: 0,
        };
        pattern.check_roots()?;
        pattern.plan()?;
        Ok(pattern)
    }

    /// Lets an argument of a captured call be anything: `free("cast", "dtype")`. What it was has the name
    /// `cast.dtype`. Fails if the capture is no call, or the call has no such parameter.
    pub fn free(mut self, capture: &str, parameter: &str) -> Result<Pattern> {
        let at = self.find(capture)?;
        let free = self.nodes.len() as u32;
        let PatternKind::Call { op, args, .. } = &mut self.nodes[at as usize].kind else {
            bail!(Argument, "{capture:?} is not a call of an operation")
        };
        let position = op.params.iter().position(|param| param.name == parameter);
        let Some(position) = position else {
            return Err(err!(Argument, "{} has no parameter {parameter:?}", op.name)
                .help(format!("its schema is {op:?}")));
        };
        args[position] = Arg::Leaf(free);
        let name: Arc<str> = Arc::from(format!("{capture}.{parameter}"));
        self.nodes.push(PatternNode { name: name.clone(), kind: PatternKind::Free });
        self.names.insert(name, free);
        Ok(self)
    }

    /// Returns the names that conditions and replacements can ask for.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }

    pub(super) fn find(&self, name: &str) -> Result<u32> {
        self.names.get(name).copied().ok_or_else(|| {
            err!(Argument, "the pattern captures nothing called {name:?}")
                .help(crate::names::suggest(name, self.names()))
        })
    }

    fn check_roots(&mut self) -> Result<()> {
        if self.roots.is_empty() {
            return Err(err!(Structure, "the pattern returns nothing that it computes")
                .help("return the values that the replacement replaces"));
        }
        for root in &self.roots {
            let node = &self.nodes[*root as usize];
            if matches!(node.kind, PatternKind::Input | PatternKind::LiteralHole(_) | PatternKind::Free) {
                return Err(err!(Structure, "the pattern returns its own argument {}", node.name)
                    .help("a pattern must compute what it returns; it would match everything"));
            }
        }
        let mut reached = vec![false; self.nodes.len()];
        let mut stack = self.roots.clone();
        while let Some(at) = stack.pop() {
            if !std::mem::replace(&mut reached[at as usize], true) {
                self.nodes[at as usize].for_each_input(&mut |input| stack.push(input));
            }
        }
        let dead = self.nodes.iter().zip(&reached).find(|(node, reached)| {
            !**reached && !matches!(node.kind, PatternKind::Input | PatternKind::LiteralHole(_))
        });
        if let Some((node, _)) = dead {
            return Err(err!(Structure, "the pattern computes %{} and does not return it", node.name)
                .help("return it, or leave it out"));
        }
        Ok(())
    }

    /// Chooses the root to begin with, the one that reaches most, and how the others are found.
    fn plan(&mut self) -> Result<()> {
        let mut depth = vec![1usize; self.nodes.len()];
        let mut height = vec![0u32; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            // Inputs come before their users.
            let (mut deepest, mut highest, mut lowest) = (0, 0, u32::MAX);
            node.for_each_input(&mut |input| {
                deepest = deepest.max(depth[input as usize]);
                highest = highest.max(height[input as usize]);
                lowest = lowest.min(height[input as usize]);
            });
            depth[i] = 1 + deepest;
            height[i] = match node.kind {
                PatternKind::Input | PatternKind::LiteralHole(_) | PatternKind::Free => 0,
                PatternKind::AnyOf(_) => lowest,
                _ => 1 + highest,
            };
        }
        self.depth = depth.iter().copied().max().unwrap_or(0);
        let reach = |pattern: &Pattern, root: u32, known: &mut Vec<bool>| {
            let (mut n, mut stack) = (0, vec![root]);
            while let Some(at) = stack.pop() {
                if std::mem::replace(&mut known[at as usize], true) {
                    continue;
                }
                n += 1;
                // What only an alternative needs may stay unknown.
                if !matches!(pattern.nodes[at as usize].kind, PatternKind::AnyOf(_)) {
                    pattern.nodes[at as usize].for_each_input(&mut |input| stack.push(input));
                }
            }
            n
        };
        let n_nodes = self.nodes.len();
        let sizes: Vec<usize> =
            self.roots.iter().map(|root| reach(self, *root, &mut vec![false; n_nodes])).collect();
        let first = (0..sizes.len()).max_by_key(|i| (sizes[*i], std::cmp::Reverse(*i))).unwrap_or(0);
        self.roots[..=first].rotate_right(1);
        self.height = height[self.roots[0] as usize];
        let mut known = vec![false; n_nodes];
        reach(self, self.roots[0], &mut known);
        while let Some(missing) = self.roots.iter().find(|root| !known[**root as usize]).copied() {
            // The node below the missing root that uses something known.
            let mut below = vec![false; n_nodes];
            reach(self, missing, &mut below);
            let mut step = None;
            for (to, node) in self.nodes.iter().enumerate() {
                if !below[to] || known[to] || step.is_some() || matches!(node.kind, PatternKind::AnyOf(_)) {
                    continue;
                }
                node.for_each_input(&mut |from| {
                    let is_value = !matches!(
                        self.nodes[from as usize].kind,
                        PatternKind::LiteralHole(_) | PatternKind::Free | PatternKind::AnyOf(_)
                    );
                    if step.is_none() && known[from as usize] && is_value {
                        step = Some(Step { from, to: to as u32 });
                    }
                });
            }
            let Some(step) = step else {
                return Err(err!(
                    Structure,
                    "the outputs %{} and %{} of the pattern have nothing in common",
                    self.nodes[self.roots[0] as usize].name,
                    self.nodes[missing as usize].name
                )
                .help("make two patterns of it"));
            };
            reach(self, step.to, &mut known);
            self.steps.push(step);
        }
        Ok(())
    }
}

fn distinct_leaves(output: &Arg<u32>) -> Vec<u32> {
    let mut roots = Vec::new();
    output.for_each_leaf(&mut |leaf| {
        if !roots.contains(leaf) {
            roots.push(*leaf);
        }
    });
    roots
}

struct Compiler<'a> {
    gm: &'a GraphModule,
    nodes: Vec<PatternNode>,
    names: BTreeMap<Arc<str>, u32>,
    map: FxHashMap<NodeId, u32>,
}

impl Compiler<'_> {
    fn push(&mut self, name: &Arc<str>, kind: PatternKind) -> u32 {
        self.nodes.push(PatternNode { name: name.clone(), kind });
        (self.nodes.len() - 1) as u32
    }

    fn capture(&mut self, name: &str, at: u32) -> Result<()> {
        match self.names.insert(Arc::from(name), at) {
            Some(other) if other != at => bail!(Argument, "two values of the pattern are called {name:?}"),
            _ => Ok(()),
        }
    }

    fn node(&mut self, id: NodeId) -> Result<()> {
        let node = self.gm.graph().node(id)?;
        let name = node.shared_name();
        let at = match node.target() {
            Target::Placeholder => {
                let at = self.push(name, PatternKind::Input);
                self.capture(name, at)?;
                at
            }
            Target::GetAttr(path) => {
                let value = self.gm.attr(path)?;
                self.push(name, PatternKind::Attr(Some(value)))
            }
            Target::CallModule(path) => {
                let child = self.gm.child(path)?.as_module();
                let id = Any::type_id(child.as_any());
                let ty = ModuleType { id, name: child.type_name() };
                let args = node.args().iter().map(|arg| self.arg(arg)).collect::<Result<_>>()?;
                self.push(name, PatternKind::Module { ty, args })
            }
            Target::CallFunction(op) | Target::CallMethod(op) => {
                let bound = op.canonical(node.args(), node.kwargs())?;
                self.call(*op, name, bound)?
            }
            Target::Output => return Ok(()),
        };
        self.map.insert(id, at);
        Ok(())
    }

    fn call(&mut self, op: Op, name: &Arc<str>, bound: Vec<Arg>) -> Result<u32> {
        match &bound[..] {
            [Arg::Leaf(x), Arg::Str(capture)] if op == holes::capture::OP => {
                let at = self.map[x];
                self.capture(capture, at)?;
                Ok(at)
            }
            [Arg::List(options)] if op == holes::any_of::OP => {
                let options: Vec<u32> = options.iter().filter_map(Arg::leaf).map(|id| self.map[id]).collect();
                if options.is_empty() {
                    bail!(Structure, "a pattern has a choice without alternatives");
                }
                Ok(self.push(name, PatternKind::AnyOf(options)))
            }
            [Arg::Str(capture)] if op == holes::attr::OP => {
                let at = self.push(name, PatternKind::Attr(None));
                self.capture(capture, at)?;
                Ok(at)
            }
            [Arg::Int(ty), Arg::Str(capture), Arg::List(args)] if op == holes::module_call::OP => {
                let ty = holes::module_type(*ty).ok_or_else(|| err!(Structure, "no such type of modules"))?;
                let args = args.iter().map(|arg| self.arg(arg)).collect::<Result<_>>()?;
                let at = self.push(name, PatternKind::Module { ty, args });
                self.capture(capture, at)?;
                Ok(at)
            }
            _ => {
                let can_swap = op.can_swap(&bound);
                let args = bound.iter().map(|arg| self.arg(arg)).collect::<Result<_>>()?;
                Ok(self.push(name, PatternKind::Call { op, args, can_swap }))
            }
        }
    }

    fn arg(&mut self, arg: &Arg) -> Result<Arg<u32>> {
        arg.try_rewrite(&mut |arg| {
            if let Arg::Leaf(id) = arg {
                return Ok(Some(Arg::Leaf(self.map[id])));
            }
            let Some(hole) = holes::hole(arg) else { return Ok(None) };
            let known = hole.name().and_then(|name| self.names.get(name)).copied();
            let at = match known {
                Some(at) if matches!(&self.nodes[at as usize].kind, PatternKind::LiteralHole(other) if *other == hole) => at,
                _ => {
                    let name = hole.name().cloned().unwrap_or_else(|| Arc::from("literal"));
                    let at = self.push(&name, PatternKind::LiteralHole(hole.clone()));
                    if let Some(name) = hole.name() {
                        self.capture(name, at)?;
                    }
                    at
                }
            };
            Ok(Some(Arg::Leaf(at)))
        })
    }
}
