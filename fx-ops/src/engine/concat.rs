//! Joining of a plan: windows copied one beside the other.

use fx_simd::parallel;

use super::kernel::Kernel;
use super::operand::{Bases, Operand, ValueId};
use super::tape::Load;

/// A window, and where it goes.
struct Part {
    load: Load,
    /// The elements that lie beside each other in the result.
    run: usize,
    /// Where they begin among those of all windows.
    at: usize,
}

/// Copies windows of one dtype so that they follow each other along an axis.
pub(crate) struct ConcatKernel {
    parts: Vec<Part>,
    /// How many runs there are of each window.
    outer: usize,
    /// The elements from a run to the next one.
    step: usize,
    size: usize,
    out: ValueId,
}

impl ConcatKernel {
    pub(crate) fn new(operands: &[Operand], axis: usize, out: ValueId) -> Option<ConcatKernel> {
        let first = operands.first()?;
        let outer = first.shape[..axis].iter().product();
        let size = first.dtype.size();
        let mut step = 0;
        let mut parts = Vec::new();
        for operand in operands {
            let run = operand.shape[axis..].iter().product();
            let walk = operand.walk(&operand.shape).ok()?;
            let load = Load::new(operand, walk);
            parts.push(Part { load, run, at: step });
            step += run;
        }
        Some(ConcatKernel { parts, outer, step, size, out })
    }
}

/// The bytes that a thread copies at least.
const GRAIN: usize = 1 << 16;

impl Kernel for ConcatKernel {
    unsafe fn run(&self, bases: Bases<'_>) {
        let run = |task: usize| {
            let (i, part) = (task / self.parts.len(), &self.parts[task % self.parts.len()]);
            let to = bases.at::<u8>(self.out, (i * self.step + part.at) * self.size);
            // SAFETY: the plan gives this kernel its operands and its result, of which runs are disjoint.
            unsafe { part.load.copy(bases, i * part.run, part.run, to) };
        };
        let n = self.outer * self.parts.len();
        let bytes = self.outer * self.step * self.size;
        if bytes < 2 * GRAIN {
            return (0..n).for_each(run);
        }
        let at_once = n.div_ceil(bytes / GRAIN).max(1);
        parallel::each(n.div_ceil(at_once), |task| {
            (task * at_once..((task + 1) * at_once).min(n)).for_each(run)
        });
    }

    fn reads(&self) -> Vec<ValueId> {
        self.parts.iter().map(|part| part.load.value).collect()
    }

    fn describe(&self) -> String {
        format!("join {} parts, {} elements", self.parts.len(), self.outer * self.step)
    }
}
