//! Where the values of a plan lie: in one block of memory, or in arrays of their own.

use fx_base::arena::{Arena, Use};
use fx_core::Arg;

use super::operand::ValueId;
use super::step::{Home, Info, Source, Step, Task, sources};

/// The memory of a plan.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The places of values in the block.
    pub(crate) arena: Arena,
    /// The bytes of values that are arrays of their own.
    pub(crate) arrays: usize,
}

impl Memory {
    /// Decides what is an array of its own, lets kernels write over operands that are not needed any more,
    /// and gives out places.
    pub(crate) fn plan(values: &mut [Info], steps: &mut [Step], output: &Arg<Source>) -> Memory {
        let mut escape = |arg: &Arg<Source>| {
            sources(arg, &mut |value| {
                let home = &mut values[value as usize].home;
                if *home == Home::Memory {
                    *home = Home::Array;
                }
            });
        };
        escape(output);
        for step in steps.iter() {
            match &step.task {
                Task::Evaluate { args, .. } => args.iter().for_each(&mut escape),
                Task::SetBuffer { value, .. } => escape(value),
                Task::Kernel { .. } => {}
            }
        }
        let arena = Arena::plan(&sizes(values), &uses(steps));
        for &(step, from, to) in &arena.reuses {
            if let Task::Kernel { kernel, .. } = &mut steps[step].task {
                kernel.reuse(from as ValueId, to as ValueId);
            }
        }
        Memory { arrays: arrays(values), arena }
    }

    /// Gives out places to values of other sizes in the same steps; `None` if one does not fit in the place
    /// that it takes.
    pub(crate) fn bind(&self, values: &[Info]) -> Option<Memory> {
        Some(Memory { arena: self.arena.bind(&sizes(values))?, arrays: arrays(values) })
    }
}

/// Returns the bytes of the values that lie in the block.
fn sizes(values: &[Info]) -> Vec<Option<usize>> {
    values.iter().map(|value| (value.home == Home::Memory).then(|| value.bytes())).collect()
}

/// Returns the bytes of the values that are arrays of their own.
fn arrays(values: &[Info]) -> usize {
    values.iter().filter(|value| value.home == Home::Array).map(Info::bytes).sum()
}

/// Returns what steps do with values. Steps that run side by side have one time.
fn uses(steps: &[Step]) -> Vec<Use> {
    let (mut time, mut left) = (0, 0);
    let uses = steps.iter().enumerate().map(|(i, step)| {
        if left > 0 {
            left -= 1;
        } else {
            (time, left) = (i, step.concurrent);
        }
        let Task::Kernel { kernel, writes } = &step.task else { return Use { time, ..Use::default() } };
        let touches = kernel.reads().iter().chain(writes).map(|&value| value as usize).collect();
        let reuses = kernel.reuses().into_iter().map(|(from, to)| (from as usize, to as usize)).collect();
        Use { time, touches, reuses }
    });
    uses.collect()
}
