//! [`Interpreter`]: a meaning of graphs, in six methods; and the driver that calls them.
//!
//! Evaluation, shape propagation, rebuilding and profiling are interpreters that differ in their value. The
//! driver arranges arguments by schema, keeps values only until their last use, and adds the node and the
//! user's line to errors.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::node::{Node, NodeId, OpCode, Target};
use crate::{Arg, Dim, Error, Graph, Op, Result, bail, err};

/// A node with its handle, as interpreters receive it.
#[derive(Clone, Copy, Debug)]
pub struct NodeRef<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The handle.
    pub id: NodeId,
    /// The node.
    pub node: &'a Node,
}

/// A meaning of graphs. Values are nested ([`Arg`]) with leaves of type `Leaf`.
pub trait Interpreter {
    /// What a tensor is in this meaning.
    type Leaf: Clone;

    /// A placeholder; `input` is the given value.
    fn placeholder(&mut self, _node: NodeRef<'_>, input: Arg<Self::Leaf>) -> Result<Arg<Self::Leaf>> {
        Ok(input)
    }

    /// Reads a parameter, buffer or constant.
    fn get_attr(&mut self, node: NodeRef<'_>, path: &Arc<str>) -> Result<Arg<Self::Leaf>>;

    /// Calls an operation; `args` are in schema order, complete with defaults.
    fn call_function(
        &mut self,
        node: NodeRef<'_>,
        op: Op,
        args: &[Arg<Self::Leaf>],
    ) -> Result<Arg<Self::Leaf>>;

    /// Calls an operation with arguments that it may change: a value that no later node uses is nobody else's. The
    /// same as [`call_function`](Self::call_function) unless overridden.
    fn call_with(
        &mut self,
        node: NodeRef<'_>,
        op: Op,
        args: &mut [Arg<Self::Leaf>],
    ) -> Result<Arg<Self::Leaf>> {
        self.call_function(node, op, args)
    }

    /// Calls an operation as a method; the same as a function unless overridden.
    fn call_method(
        &mut self,
        node: NodeRef<'_>,
        op: Op,
        args: &[Arg<Self::Leaf>],
    ) -> Result<Arg<Self::Leaf>> {
        self.call_function(node, op, args)
    }

    /// Calls a sub-module.
    fn call_module(
        &mut self,
        node: NodeRef<'_>,
        path: &Arc<str>,
        args: &[Arg<Self::Leaf>],
    ) -> Result<Arg<Self::Leaf>>;

    /// Returns from the graph.
    fn output(&mut self, _node: NodeRef<'_>, value: Arg<Self::Leaf>) -> Result<Arg<Self::Leaf>> {
        Ok(value)
    }

    /// Gives the value of a symbolic size in an argument.
    fn dim(&mut self, dim: &Dim) -> Result<Arg<Self::Leaf>> {
        Ok(Arg::Dim(dim.clone()))
    }

    /// Sees each value after its node has run, and may replace it.
    fn after(&mut self, _node: NodeRef<'_>, value: Arg<Self::Leaf>) -> Result<Arg<Self::Leaf>> {
        Ok(value)
    }
}

/// An argument with positions in the environment instead of nodes.
#[derive(Clone, Debug)]
enum Template {
    Slot(u32),
    /// The only use of a value in the last step that uses it.
    LastUse(u32),
    Nested(Arg<u32>),
}

#[derive(Clone, Debug)]
struct Step {
    id: NodeId,
    args: SmallVec<[Template; 4]>,
    /// The values that no later step uses.
    last_uses: SmallVec<[u32; 2]>,
}

/// A graph prepared for interpretation: arguments arranged by schema, and when each value is used last.
///
/// It belongs to the graph as it was; [`GraphModule`](crate::GraphModule) makes a new one after every change.
#[derive(Clone, Debug)]
pub struct Schedule {
    steps: Vec<Step>,
    slots: FxHashMap<NodeId, u32>,
}

impl Step {
    /// Marks the arguments that may be moved.
    fn mark_last_uses(&mut self) {
        for i in 0..self.args.len() {
            let Template::Slot(slot) = self.args[i] else { continue };
            let mut uses = 0;
            for template in &self.args {
                match template {
                    Template::Slot(other) | Template::LastUse(other) => uses += u32::from(*other == slot),
                    Template::Nested(arg) => {
                        arg.for_each_leaf(&mut |other| uses += u32::from(*other == slot))
                    }
                }
            }
            if uses == 1 && self.last_uses.contains(&slot) {
                self.args[i] = Template::LastUse(slot);
            }
        }
    }
}

impl Schedule {
    /// Prepares a graph. Fails if the arguments of a node do not fit the schema; the error names the node.
    pub fn new(graph: &Graph) -> Result<Schedule> {
        let mut slots = FxHashMap::default();
        let mut steps: Vec<Step> = Vec::with_capacity(graph.len());
        let mut last_use: Vec<u32> = Vec::with_capacity(graph.len());
        for (i, (id, node)) in graph.nodes().enumerate() {
            let i = i as u32;
            let here = |error: Error| locate(error, NodeRef { graph, id, node });
            let bound: Vec<Arg> = match node.op() {
                Some(op) => op.bind(node.args(), node.kwargs()).map_err(here)?,
                None if !node.kwargs().is_empty() => {
                    return Err(here(err!(Argument, "a {} takes no keyword arguments", node.opcode())));
                }
                None => node.args().to_vec(),
            };
            let mut args = SmallVec::new();
            for arg in &bound {
                let mut to_slot = |id: &NodeId| {
                    let slot: u32 = slots[id];
                    last_use[slot as usize] = i;
                    slot
                };
                args.push(match arg {
                    Arg::Leaf(id) => Template::Slot(to_slot(id)),
                    _ => Template::Nested(arg.map(&mut to_slot)),
                });
            }
            slots.insert(id, i);
            last_use.push(i);
            steps.push(Step { id, args, last_uses: SmallVec::new() });
        }
        for (slot, step) in last_use.into_iter().enumerate() {
            steps[step as usize].last_uses.push(slot as u32);
        }
        steps.iter_mut().for_each(Step::mark_last_uses);
        Ok(Schedule { steps, slots })
    }
}

/// Adds the node, its line and its module to an error.
#[doc(hidden)]
pub fn locate(error: Error, at: NodeRef<'_>) -> Error {
    let error = error
        .in_context(|| at.graph.format_node(at.id).unwrap_or_default())
        .in_module(at.node.meta().module_path());
    match &at.node.meta().source {
        Some(source) => error.at(source.clone()),
        None => error,
    }
}

/// The options of a run: given values, and values to keep.
pub struct Run<'a, L> {
    /// The values of the placeholders, in order.
    pub inputs: Vec<Arg<L>>,
    /// Values of nodes that are not computed but taken as given.
    pub given: FxHashMap<NodeId, Arg<L>>,
    /// The nodes whose values are wanted besides the output; kept to the end.
    pub keep: &'a [NodeId],
    /// Whether to stop as soon as all of `keep` is known, without computing the output.
    pub only_kept: bool,
}

impl<L> Run<'_, L> {
    /// A plain run.
    pub fn new(inputs: Vec<Arg<L>>) -> Self {
        Run { inputs, given: FxHashMap::default(), keep: &[], only_kept: false }
    }
}

/// What a run gives.
#[derive(Debug)]
pub struct Outcome<L> {
    /// What the graph returned; `None` if it was not asked for.
    pub output: Option<Arg<L>>,
    /// The values asked for.
    pub kept: Vec<Arg<L>>,
}

/// Interprets a graph with values for its placeholders. Fails if an argument is missing, or with the first
/// error of the interpreter.
pub fn interpret<I: Interpreter>(
    graph: &Graph,
    it: &mut I,
    inputs: Vec<Arg<I::Leaf>>,
) -> Result<Arg<I::Leaf>> {
    let schedule = Schedule::new(graph)?;
    let outcome = interpret_with(graph, &schedule, it, Run::new(inputs))?;
    outcome.output.ok_or_else(|| err!(Graph, "the graph has no output"))
}

/// Interprets a prepared graph; see [`Run`]. Fails as [`interpret`] does, or if the graph has changed since
/// it was prepared.
pub fn interpret_with<I: Interpreter>(
    graph: &Graph,
    schedule: &Schedule,
    it: &mut I,
    mut run: Run<'_, I::Leaf>,
) -> Result<Outcome<I::Leaf>> {
    let slot_of = |id: &NodeId| {
        schedule.slots.get(id).copied().ok_or_else(|| match graph.node(*id) {
            Ok(_) => err!(Stale, "the graph has changed since it was prepared"),
            Err(error) => error,
        })
    };
    let kept: Vec<u32> = run.keep.iter().map(slot_of).collect::<Result<_>>()?;
    let needed = needed_steps(schedule, &run, &kept)?;
    let mut env: Vec<Option<Arg<I::Leaf>>> = vec![None; schedule.steps.len()];
    for (id, value) in run.given.drain() {
        env[slot_of(&id)? as usize] = Some(value);
    }
    let mut inputs = std::mem::take(&mut run.inputs).into_iter();
    let mut args: SmallVec<[Arg<I::Leaf>; 4]> = SmallVec::new();
    let mut output = None;
    for (i, step) in schedule.steps.iter().enumerate() {
        let node = graph.node(step.id)?;
        let at = NodeRef { graph, id: step.id, node };
        let input = if node.opcode() == OpCode::Placeholder { Some(inputs.next()) } else { None };
        if env[i].is_some() || needed.as_ref().is_some_and(|needed| !needed[i]) {
            continue;
        }
        let value = (|| -> Result<Arg<I::Leaf>> {
            args.clear();
            for template in &step.args {
                args.push(match template {
                    Template::LastUse(slot) if !kept.contains(slot) => match env[*slot as usize].take() {
                        Some(value) => value,
                        None => bail!(Graph, "an input of the node was not computed"),
                    },
                    Template::Slot(slot) | Template::LastUse(slot) => match &env[*slot as usize] {
                        Some(value) => value.clone(),
                        None => bail!(Graph, "an input of the node was not computed"),
                    },
                    Template::Nested(arg) => resolve(arg, &env, it)?,
                });
            }
            let value = match node.target() {
                Target::Placeholder => match input.flatten() {
                    Some(input) => it.placeholder(at, input)?,
                    None => bail!(Argument, "no value is given for the argument {}", node.name()),
                },
                Target::GetAttr(path) => it.get_attr(at, path)?,
                Target::CallFunction(op) => it.call_with(at, *op, &mut args)?,
                Target::CallMethod(op) => it.call_method(at, *op, &args)?,
                Target::CallModule(path) => it.call_module(at, path, &args)?,
                Target::Output => {
                    let value = args.pop().unwrap_or(Arg::None);
                    it.output(at, value)?
                }
            };
            it.after(at, value)
        })()
        .map_err(|error| locate(error, at))?;
        if node.opcode() == OpCode::Output {
            output = Some(value);
        } else {
            env[i] = Some(value);
        }
        for slot in &step.last_uses {
            if !kept.contains(slot) {
                env[*slot as usize] = None;
            }
        }
    }
    if inputs.next().is_some() {
        bail!(Argument, "more values are given than the graph has placeholders");
    }
    let kept = kept
        .into_iter()
        .map(|slot| env[slot as usize].clone().ok_or_else(|| err!(Graph, "a wanted node was not computed")))
        .collect::<Result<_>>()?;
    Ok(Outcome { output, kept })
}

/// Marks the steps that must run if some values are given or only some are wanted; `None` for all.
fn needed_steps<L>(schedule: &Schedule, run: &Run<'_, L>, kept: &[u32]) -> Result<Option<Vec<bool>>> {
    if run.given.is_empty() && !run.only_kept {
        return Ok(None);
    }
    let n = schedule.steps.len();
    let mut needed = vec![false; n];
    let mut given = vec![false; n];
    for id in run.given.keys() {
        let slot = schedule.slots.get(id).ok_or_else(|| err!(Stale, "a given node is not in the graph"))?;
        given[*slot as usize] = true;
    }
    if !run.only_kept {
        needed[n - 1] = true;
    }
    for slot in kept {
        needed[*slot as usize] = true;
    }
    for i in (0..n).rev() {
        if !needed[i] || given[i] {
            continue;
        }
        for template in &schedule.steps[i].args {
            match template {
                Template::Slot(slot) | Template::LastUse(slot) => needed[*slot as usize] = true,
                Template::Nested(arg) => arg.for_each_leaf(&mut |slot| needed[*slot as usize] = true),
            }
        }
    }
    Ok(Some(needed))
}

fn resolve<I: Interpreter>(arg: &Arg<u32>, env: &[Option<Arg<I::Leaf>>], it: &mut I) -> Result<Arg<I::Leaf>> {
    match arg {
        Arg::None => Ok(Arg::None),
        Arg::Bool(x) => Ok(Arg::Bool(*x)),
        Arg::Int(x) => Ok(Arg::Int(*x)),
        Arg::Float(x) => Ok(Arg::Float(*x)),
        _ => arg.try_rewrite(&mut |arg| match arg {
            Arg::Leaf(slot) => match &env[*slot as usize] {
                Some(value) => Ok(Some(value.clone())),
                None => bail!(Graph, "an input of the node was not computed"),
            },
            Arg::Dim(dim) => it.dim(dim).map(Some),
            _ => Ok(None),
        }),
    }
}
