//! Which steps run side by side: small kernels that do not need each other, none of which gives several
//! threads enough to do.
//!
//! A kernel shares its own loops where that pays, so that only those are looked at here that take
//! microseconds. A step is brought forward to the first one beside which it can run; the order stays as it is
//! where that gains nothing.

use fx_core::analysis::Costs;
use fx_core::{Arg, GraphModule, NodeId, Type, TypeTree, ops};
use rustc_hash::FxHashMap;

use crate::engine::operand::ValueId;
use crate::engine::step::{Step, Task, sources};

/// The nanoseconds that a step takes that runs beside others: shorter ones are not worth a task, longer ones
/// share their loops.
const EACH: std::ops::RangeInclusive<f64> = 2e3..=5e4;

/// How much longer one of them may take than another: who is done waits for the others.
const UNLIKE: f64 = 3.0;

/// The nanoseconds from which steps together are worth to ask other threads for help.
const TOGETHER: f64 = 1e4;

/// The most steps that run beside each other, and among how many they are looked for. Their results are in
/// memory at the same time.
const MOST: usize = 16;
const SEARCH: usize = 64;

/// The bytes that a thread reads or writes in a nanosecond, roughly.
const BYTES: f64 = 20.0;

/// Brings steps that run side by side together, and notes how many they are; there are `n_values` values.
pub(super) fn arrange(gm: &GraphModule, steps: Vec<Step>, n_values: usize) -> Vec<Step> {
    let accesses: Vec<Accesses> = steps.iter().map(Accesses::of).collect();
    let mut times = Times::new(gm, &steps);
    let (mut read, mut written) = (vec![usize::MAX; n_values], vec![usize::MAX; n_values]);
    let mut left: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    let mut arranged = Vec::with_capacity(left.len());
    for first in 0..left.len() {
        if left[first].is_none() {
            continue;
        }
        let mut group = vec![first];
        if times.may_fit(first) {
            // What steps before have read and written that are not done yet, or at the same time, is marked
            // with the number of the first.
            accesses[first].mark(&mut read, &mut written, first);
            for at in (first + 1..left.len().min(first + SEARCH)).filter(|&at| left[at].is_some()) {
                let is_marked = |marks: &[usize], value: &ValueId| marks[*value as usize] == first;
                let Accesses { reads, writes } = &accesses[at];
                let is_free = !reads.iter().any(|value| is_marked(&written, value))
                    && !writes.iter().any(|value| is_marked(&written, value) || is_marked(&read, value));
                if is_free && times.may_fit(at) && times.fit(first, at) {
                    group.push(at);
                    if group.len() == MOST {
                        break;
                    }
                }
                accesses[at].mark(&mut read, &mut written, first);
            }
            if group.len() > 1 && group.iter().map(|&at| times.of(at)).sum::<f64>() < TOGETHER {
                group.truncate(1);
            }
        }
        let n = group.len();
        arranged.extend(group.into_iter().filter_map(|at| left[at].take()).enumerate().map(
            |(i, mut step)| {
                step.concurrent = if i == 0 { n - 1 } else { 0 };
                step
            },
        ));
    }
    arranged
}

/// About how long steps take on one thread, in nanoseconds.
struct Times<'a> {
    gm: &'a GraphModule,
    /// What is known of each step.
    steps: Vec<Known>,
}

struct Known {
    node: NodeId,
    /// The arithmetic that its kernel does in a nanosecond; `None` if it is not the only step of its node, or
    /// no kernel.
    flops: Option<f64>,
    /// What it takes to read and write; `INFINITY` if that is not known.
    traffic: f64,
    total: Option<f64>,
}

impl Times<'_> {
    fn new<'a>(gm: &'a GraphModule, steps: &[Step]) -> Times<'a> {
        let mut n_of: FxHashMap<NodeId, usize> = FxHashMap::default();
        steps.iter().for_each(|step| *n_of.entry(step.node).or_default() += 1);
        let known = |step: &Step| {
            let flops = match &step.task {
                Task::Kernel { kernel, .. } if n_of.get(&step.node) == Some(&1) => Some(kernel.flops()),
                _ => None,
            };
            let traffic = flops.and_then(|_| bytes(gm, step.node)).map_or(f64::INFINITY, |n| n / BYTES);
            Known { node: step.node, flops, traffic, total: None }
        };
        Times { gm, steps: steps.iter().map(known).collect() }
    }

    /// Returns whether a step could run beside others, from what it reads and writes.
    fn may_fit(&self, at: usize) -> bool {
        self.steps[at].traffic <= *EACH.end()
    }

    /// Returns whether two steps are neither too short nor too long to run beside each other.
    fn fit(&mut self, a: usize, b: usize) -> bool {
        let times = [self.of(a), self.of(b)];
        times.iter().all(|time| EACH.contains(time))
            && times[0].max(times[1]) <= UNLIKE * times[0].min(times[1])
    }

    /// Returns how long a step takes; `INFINITY` if that is not known.
    fn of(&mut self, at: usize) -> f64 {
        let Known { node, flops, traffic, total } = &mut self.steps[at];
        let time = || Some(*traffic + self::flops(self.gm, *node)? / (*flops)?);
        *total.get_or_insert_with(|| time().unwrap_or(f64::INFINITY))
    }
}

/// Returns the bytes of the operands and results of a node.
fn bytes(gm: &GraphModule, id: NodeId) -> Option<f64> {
    let graph = gm.graph();
    let node = graph.node(id).ok()?;
    let mut sum = Some(0.0);
    let mut add = |ty: Option<&TypeTree>| match ty {
        Some(ty) => ty.for_each_leaf(&mut |ty| {
            let n = match ty {
                Type::Tensor(ty) => {
                    ty.shape.known().map(|shape| shape.iter().product::<usize>() * ty.dtype.size())
                }
                _ => None,
            };
            sum = sum.zip(n).map(|(sum, n)| sum + n as f64);
        }),
        None => sum = None,
    };
    add(node.ty());
    node.inputs().for_each(|input| add(graph.node(input).ok().and_then(fx_core::Node::ty)));
    sum
}

/// Returns the arithmetic of a node.
fn flops(gm: &GraphModule, id: NodeId) -> Option<f64> {
    let graph = gm.graph();
    let node = graph.node(id).ok()?;
    let op = node.op()?;
    let bound = op.bind(node.args(), node.kwargs()).ok()?;
    let flops = match &bound[..] {
        [Arg::Graph(body), _] if op == ops::fused::OP => {
            let body = GraphModule::new("body", fx_core::Graph::clone(body));
            Costs::new(&body, &Default::default()).ok()?.total().flops?
        }
        _ => {
            let ty = |id: NodeId| Ok(graph.node(id)?.ty().cloned().unwrap_or(Arg::Leaf(Type::Any)));
            let args: fx_core::Result<Vec<TypeTree>> =
                bound.iter().map(|arg| arg.try_flat_map(&mut |id| ty(*id))).collect();
            op.flops(&args.ok()?, node.ty()?)?
        }
    };
    flops.known().map(|n| n as f64)
}

/// The values that a step reads and writes.
struct Accesses {
    reads: Vec<ValueId>,
    writes: Vec<ValueId>,
}

impl Accesses {
    fn of(step: &Step) -> Accesses {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        match &step.task {
            Task::Kernel { kernel, writes: written } => {
                reads = kernel.reads();
                writes.clone_from(written);
            }
            Task::Evaluate { args, value, .. } => {
                args.iter().for_each(|arg| sources(arg, &mut |value| reads.push(value)));
                writes.push(*value);
            }
            Task::SetBuffer { value, .. } => sources(value, &mut |value| reads.push(value)),
        }
        Accesses { reads, writes }
    }

    fn mark(&self, read: &mut [usize], written: &mut [usize], mark: usize) {
        self.reads.iter().for_each(|&value| read[value as usize] = mark);
        self.writes.iter().for_each(|&value| written[value as usize] = mark);
    }
}
