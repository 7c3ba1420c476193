//! Where the values of a plan lie: one block of memory, in which values that are not alive together share places.

use super::operand::ValueId;
use super::step::{Home, Info, Source, Step, Task, sources};
use fx_core::Arg;

/// The bytes to which places are aligned.
const ALIGN: usize = 64;

/// The places of values in a block of memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The bytes of the block.
    pub(crate) bytes: usize,
    /// The first byte of each value that lies in it.
    pub(crate) places: Vec<Option<usize>>,
    /// The bytes of values that are arrays of their own.
    pub(crate) arrays: usize,
    /// The most bytes that values in the block take at a time: no plan can do with less.
    pub(crate) bound: usize,
    lives: Vec<Option<Life>>,
    /// The value whose place each one has.
    owner: Vec<usize>,
    /// The steps whose results take the place of an operand: the step, the operand and the result.
    pub(crate) reuses: Vec<(usize, ValueId, ValueId)>,
}

/// The times during which a value is needed, both included.
#[derive(Clone, Copy, Debug)]
struct Life {
    from: usize,
    to: usize,
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
        let mut lives: Vec<Option<Life>> = vec![None; values.len()];
        // Steps that run side by side have one time.
        let times = times(steps);
        // Whether several steps use a value in the last time in which it is used.
        let mut is_shared = vec![false; values.len()];
        let mut last_user = vec![usize::MAX; values.len()];
        for (i, step) in steps.iter().enumerate() {
            let Task::Kernel { kernel, writes } = &step.task else { continue };
            for &value in kernel.reads().iter().chain(writes) {
                let value = value as usize;
                let life = lives[value].get_or_insert(Life { from: times[i], to: times[i] });
                let is_other = last_user[value] != usize::MAX && last_user[value] != i;
                is_shared[value] = life.to == times[i] && (is_shared[value] || is_other);
                (life.to, last_user[value]) = (times[i], i);
            }
        }
        let bytes = |value: usize| values[value].numel * values[value].dtype.size();
        let mut reuses = Vec::new();
        let mut owner: Vec<usize> = (0..values.len()).collect();
        for (i, step) in steps.iter_mut().enumerate() {
            let Task::Kernel { kernel, .. } = &mut step.task else { continue };
            for (from, to) in kernel.reuses() {
                let (from, to) = (from as usize, to as usize);
                let is_free = values[from].home == Home::Memory
                    && values[to].home == Home::Memory
                    && owner[to] == to
                    && bytes(from) == bytes(to)
                    && !is_shared[from]
                    && lives[owner[from]].is_some_and(|life| life.to == times[i])
                    && lives[to].is_some_and(|life| life.from == times[i]);
                if !is_free {
                    continue;
                }
                let root = owner[from];
                owner[to] = root;
                if let (Some(to), Some(life)) = (lives[to], &mut lives[root]) {
                    life.to = to.to;
                }
                kernel.reuse(from as ValueId, to as ValueId);
                reuses.push((i, from as ValueId, to as ValueId));
            }
        }
        let memory = Memory { lives, owner, reuses, ..Memory::default() };
        memory.placed(values)
    }

    /// Gives out places to values of other sizes in the same steps; `None` if one does not fit in the place
    /// that it takes.
    pub(crate) fn bind(&self, values: &[Info]) -> Option<Memory> {
        let bytes = |value: ValueId| values[value as usize].numel * values[value as usize].dtype.size();
        if self.reuses.iter().any(|&(_, from, by)| bytes(from) != bytes(by)) {
            return None;
        }
        let (lives, owner, reuses) = (self.lives.clone(), self.owner.clone(), self.reuses.clone());
        Some(Memory { lives, owner, reuses, ..Memory::default() }.placed(values))
    }

    /// Gives out places.
    fn placed(self, values: &[Info]) -> Memory {
        let Memory { lives, owner, reuses, .. } = self;
        let bytes = |value: usize| values[value].numel * values[value].dtype.size();
        let mut order: Vec<usize> = (0..values.len())
            .filter(|&value| {
                values[value].home == Home::Memory && owner[value] == value && lives[value].is_some()
            })
            .collect();
        order.sort_by_key(|&value| std::cmp::Reverse(bytes(value)));
        let mut places: Vec<Option<usize>> = vec![None; values.len()];
        let mut placed: Vec<(usize, usize, Life)> = Vec::new();
        let mut total = 0;
        for &value in &order {
            let Some(life) = lives[value] else { continue };
            let size = bytes(value).next_multiple_of(ALIGN).max(ALIGN);
            // The smallest gap between places, in order, that are taken in the meantime.
            let meets = |other: &&(usize, usize, Life)| other.2.from <= life.to && life.from <= other.2.to;
            let (mut at, mut best) = (0, None);
            for &(start, len, _) in placed.iter().filter(meets) {
                if start >= at + size && best.is_none_or(|(gap, _)| start - at < gap) {
                    best = Some((start - at, at));
                }
                at = at.max(start + len);
            }
            let place = best.map_or(at, |(_, place)| place);
            places[value] = Some(place);
            total = total.max(place + size);
            let index = placed.partition_point(|other| other.0 <= place);
            placed.insert(index, (place, size, life));
        }
        for value in 0..values.len() {
            if owner[value] != value {
                places[value] = places[owner[value]];
            }
        }
        let end = lives.iter().flatten().map(|life| life.to).max().unwrap_or(0);
        let mut change = vec![0isize; end + 2];
        for &value in &order {
            if let Some(life) = lives[value] {
                let size = bytes(value).next_multiple_of(ALIGN).max(ALIGN) as isize;
                change[life.from] += size;
                change[life.to + 1] -= size;
            }
        }
        let mut alive = 0;
        let bound = change.iter().map(|change| {
            alive += change;
            alive
        });
        let bound = bound.max().unwrap_or(0) as usize;
        let arrays = (0..values.len()).filter(|&value| values[value].home == Home::Array).map(bytes).sum();
        Memory { bytes: total, places, arrays, bound, lives, owner, reuses }
    }
}

/// Returns when each step runs.
fn times(steps: &[Step]) -> Vec<usize> {
    let (mut times, mut left) = (Vec::with_capacity(steps.len()), 0);
    for (i, step) in steps.iter().enumerate() {
        times.push(if left > 0 { times[i - 1] } else { i });
        left = if left > 0 { left - 1 } else { step.concurrent };
    }
    times
}

#[cfg(test)]
mod tests {
    use fx_core::DType;

    use super::*;
    use crate::engine::kernel::Kernel;
    use crate::engine::operand::Bases;

    /// A kernel that does nothing.
    struct Fake {
        reads: Vec<ValueId>,
        writes: ValueId,
        reused: Option<ValueId>,
    }

    impl Kernel for Fake {
        unsafe fn run(&self, _bases: Bases<'_>) {}

        fn reads(&self) -> Vec<ValueId> {
            self.reads.clone()
        }

        fn reuses(&self) -> Vec<(ValueId, ValueId)> {
            self.reads.iter().map(|&from| (from, self.writes)).collect()
        }

        fn reuse(&mut self, from: ValueId, _by: ValueId) {
            assert!(self.reused.replace(from).is_none(), "a result takes the place of one operand");
        }

        fn describe(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn values_that_are_needed_together_lie_apart() {
        let mut state = 1u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let (mut total, mut bound, mut reused, mut n_concurrent) = (0, 0, 0, 0);
        for _ in 0..300 {
            let n = 2 + below(40);
            let mut values = Vec::new();
            let mut steps = Vec::new();
            let graph = fx_core::Graph::new("main");
            let node = graph.output_node();
            let mut reads_of = Vec::new();
            for i in 0..n {
                let numel = [0, 1, 100, 1000, 1000, 4096][below(6)];
                values.push(Info {
                    home: Home::Memory,
                    dtype: DType::F32,
                    shape: [numel].into_iter().collect(),
                    numel,
                });
                let mut reads: Vec<ValueId> =
                    if i == 0 { Vec::new() } else { (0..below(3)).map(|_| below(i) as ValueId).collect() };
                reads.sort_unstable();
                reads.dedup();
                reads_of.push(reads.clone());
                let kernel = Box::new(Fake { reads, writes: i as ValueId, reused: None });
                let task = Task::Kernel { kernel, writes: vec![i as ValueId] };
                steps.push(Step { task, node, frees: Vec::new(), concurrent: 0, made: 0 });
            }
            // Steps that do not need each other run side by side, some of them.
            let mut first = 0;
            while first < n {
                let is_free =
                    |at: &usize| (first..*at).all(|other| !reads_of[*at].contains(&(other as ValueId)));
                let most = (first + 1..n).take_while(is_free).count();
                let concurrent = if below(2) == 0 { 0 } else { most.min(3) };
                steps[first].concurrent = concurrent;
                n_concurrent += concurrent;
                first += 1 + concurrent;
            }
            let times = times(&steps);
            let memory = Memory::plan(&mut values, &mut steps, &Arg::Leaf(Source::Whole(n as ValueId - 1)));
            assert_eq!(values[n - 1].home, Home::Array, "what is returned is the caller's");
            let last = |value: usize| {
                let reads = |i: &usize| reads_of[*i].contains(&(value as ValueId));
                (0..n).filter(reads).max().unwrap_or(value).max(value)
            };
            let readers_at = |value: usize, time: usize| {
                let reads = |i: &usize| times[*i] == time && reads_of[*i].contains(&(value as ValueId));
                (0..n).filter(reads).count()
            };
            for a in 0..n - 1 {
                for b in a + 1..n - 1 {
                    let (Some(at_a), Some(at_b)) = (memory.places[a], memory.places[b]) else {
                        panic!("no place")
                    };
                    let (len_a, len_b) = (values[a].numel * 4, values[b].numel * 4);
                    let apart = at_a + len_a <= at_b || at_b + len_b <= at_a;
                    // A result may take the place of an operand that is not needed any more.
                    let takes = last(a) == b
                        && readers_at(a, times[b]) == 1
                        && at_a == at_b
                        && len_a == len_b
                        && reads_of[b].contains(&(a as ValueId));
                    reused += usize::from(takes && len_a > 0);
                    assert!(apart || times[last(a)] < times[b] || takes, "{a} and {b} lie on each other");
                }
            }
            assert!(memory.bytes >= memory.bound);
            total += memory.bytes;
            bound += memory.bound;
        }
        assert!(n_concurrent > 500, "{n_concurrent} steps run beside others");
        assert!(reused > 100, "{reused} results take the place of an operand");
        assert!(total as f64 <= 1.05 * bound as f64, "{total} bytes, at least {bound} are needed");
    }
}
