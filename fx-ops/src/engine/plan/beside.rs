//! Which steps run side by side: small kernels that do not need each other, none of which gives several threads enough to do.
//!
//! A kernel shares its own loops where that pays, so that only those are looked at here that take microseconds. A step is brought
//! forward to the first one beside which it can run; the order stays as it is where that gains nothing.

use fx_core::analysis::{Cost, Costs};
use fx_core::{GraphModule, NodeId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Step, Task, sources};
use crate::engine::operand::ValueId;

/// The nanoseconds that a step takes that runs beside others: shorter ones are not worth a task, longer ones share their loops.
const EACH: std::ops::RangeInclusive<f64> = 2e3..=5e4;

/// How much longer one of them may take than another: who is done waits for the others.
const UNLIKE: f64 = 3.0;

/// The nanoseconds from which steps together are worth to ask other threads for help.
const TOGETHER: f64 = 1e4;

/// The most steps that run beside each other, and among how many they are looked for. Their results are in memory at the same time.
const MOST: usize = 16;
const SEARCH: usize = 128;

/// The bytes that a thread reads or writes in a nanosecond, roughly.
const BYTES: f64 = 20.0;

/// Brings steps that run side by side together, and notes how many they are.
pub(super) fn arrange(gm: &GraphModule, steps: Vec<Step>) -> Vec<Step> {
    let nanos = match Costs::new(gm, &Default::default()) {
        Ok(costs) => nanos(&steps, |id| costs.of(id)),
        Err(_) => return steps,
    };
    if nanos.iter().filter(|nanos| EACH.contains(nanos)).count() < 2 {
        return steps;
    }
    let accesses: Vec<Accesses> = steps.iter().map(Accesses::of).collect();
    let mut left: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    let mut arranged = Vec::with_capacity(left.len());
    for first in 0..left.len() {
        if left[first].is_none() {
            continue;
        }
        let mut group = vec![first];
        if EACH.contains(&nanos[first]) {
            // What steps before have read and written that are not done yet, or at the same time.
            let (mut read, mut written) = (FxHashSet::default(), FxHashSet::default());
            accesses[first].note(&mut read, &mut written);
            for at in (first + 1..left.len().min(first + SEARCH)).filter(|&at| left[at].is_some()) {
                let Accesses { reads, writes } = &accesses[at];
                let is_free = !reads.iter().any(|value| written.contains(value))
                    && !writes.iter().any(|value| written.contains(value) || read.contains(value));
                let (least, most) = (nanos[first].min(nanos[at]), nanos[first].max(nanos[at]));
                if is_free && EACH.contains(&nanos[at]) && most <= UNLIKE * least {
                    group.push(at);
                    if group.len() == MOST {
                        break;
                    }
                }
                accesses[at].note(&mut read, &mut written);
            }
            if group.iter().map(|&at| nanos[at]).sum::<f64>() < TOGETHER {
                group.truncate(1);
            }
        }
        let n = group.len();
        arranged.extend(group.into_iter().filter_map(|at| left[at].take()).enumerate().map(
            |(i, mut step)| {
                step.beside = if i == 0 { n - 1 } else { 0 };
                step
            },
        ));
    }
    arranged
}

/// Returns about how long each step takes on one thread; `INFINITY` for what is no kernel or one of several of its node.
fn nanos<'a>(steps: &[Step], cost: impl Fn(NodeId) -> Option<&'a Cost>) -> Vec<f64> {
    let mut n_of: FxHashMap<NodeId, usize> = FxHashMap::default();
    steps.iter().for_each(|step| *n_of.entry(step.node).or_default() += 1);
    let known = |dim: Option<&fx_core::Dim>| dim?.known().map(|n| n as f64);
    let nanos = |step: &Step| {
        let cost = cost(step.node)?;
        match &step.task {
            Task::Kernel { kernel, .. } if n_of.get(&step.node) == Some(&1) => {
                Some(known(cost.flops.as_ref())? / kernel.flops() + known(cost.bytes().as_ref())? / BYTES)
            }
            _ => None,
        }
    };
    steps.iter().map(|step| nanos(step).unwrap_or(f64::INFINITY)).collect()
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

    fn note(&self, read: &mut FxHashSet<ValueId>, written: &mut FxHashSet<ValueId>) {
        read.extend(&self.reads);
        written.extend(&self.writes);
    }
}
