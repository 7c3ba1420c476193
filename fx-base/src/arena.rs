//! Places in one block of memory: values that are not needed together share them.

/// The bytes to which places are aligned.
const ALIGN: usize = 64;

/// What a step does with values, which are numbered from 0.
#[derive(Clone, Debug, Default)]
pub struct Use {
    /// When the step runs; steps that run side by side have one time.
    pub time: usize,
    /// The values that it reads and writes.
    pub touches: Vec<usize>,
    /// The operands over which it may write a result: an operand and the result.
    pub reuses: Vec<(usize, usize)>,
}

/// The places of values in a block of memory.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    /// The bytes of the block.
    pub bytes: usize,
    /// The first byte of each value that lies in it.
    pub places: Vec<Option<usize>>,
    /// The most bytes that values in the block take at a time: no plan can do with less.
    pub bound: usize,
    /// The results that take the place of an operand: the step, the operand and the result.
    pub reuses: Vec<(usize, usize, usize)>,
    lives: Vec<Option<Life>>,
    /// The value whose place each one has.
    owner: Vec<usize>,
}

/// The times during which a value is needed, both included.
#[derive(Clone, Copy, Debug)]
struct Life {
    from: usize,
    to: usize,
}

impl Arena {
    /// Lets results take the places of operands that are not needed any more, and gives out places. `bytes` has
    /// the size of each value that lies in the block.
    pub fn plan(bytes: &[Option<usize>], uses: &[Use]) -> Arena {
        let n = bytes.len();
        let mut lives: Vec<Option<Life>> = vec![None; n];
        // Whether several steps use a value in the last time in which it is used.
        let mut is_shared = vec![false; n];
        let mut last_user = vec![usize::MAX; n];
        for (i, step) in uses.iter().enumerate() {
            for &value in &step.touches {
                let life = lives[value].get_or_insert(Life { from: step.time, to: step.time });
                let is_other = last_user[value] != usize::MAX && last_user[value] != i;
                is_shared[value] = life.to == step.time && (is_shared[value] || is_other);
                (life.to, last_user[value]) = (step.time, i);
            }
        }
        let mut reuses = Vec::new();
        let mut owner: Vec<usize> = (0..n).collect();
        // The last step in which a result took a place: one that nobody reads needs it no longer than this step.
        let mut taken = vec![usize::MAX; n];
        for (i, step) in uses.iter().enumerate() {
            for &(from, to) in &step.reuses {
                let is_free = bytes[from].is_some()
                    && bytes[from] == bytes[to]
                    && owner[to] == to
                    && !is_shared[from]
                    && taken[owner[from]] != i
                    && lives[owner[from]].is_some_and(|life| life.to == step.time)
                    && lives[to].is_some_and(|life| life.from == step.time);
                if !is_free {
                    continue;
                }
                let root = owner[from];
                (owner[to], taken[root]) = (root, i);
                if let (Some(to), Some(life)) = (lives[to], &mut lives[root]) {
                    life.to = to.to;
                }
                reuses.push((i, from, to));
            }
        }
        Arena { lives, owner, reuses, ..Arena::default() }.placed(bytes)
    }

    /// Gives out places to values of other sizes in the same steps; `None` if one does not fit in the place that
    /// it takes.
    pub fn bind(&self, bytes: &[Option<usize>]) -> Option<Arena> {
        let fits = self.reuses.iter().all(|&(_, from, by)| bytes[from] == bytes[by]);
        fits.then(|| self.clone().placed(bytes))
    }

    /// Gives out places: the largest values first, each in the smallest gap.
    fn placed(mut self, bytes: &[Option<usize>]) -> Arena {
        let size = |value: usize| bytes[value].unwrap_or(0).next_multiple_of(ALIGN).max(ALIGN);
        let mut order: Vec<(usize, Life)> = (0..bytes.len())
            .filter(|&value| bytes[value].is_some() && self.owner[value] == value)
            .filter_map(|value| Some((value, self.lives[value]?)))
            .collect();
        order.sort_by_key(|&(value, _)| std::cmp::Reverse(bytes[value]));
        self.places = vec![None; bytes.len()];
        self.bytes = 0;
        let mut placed: Vec<(usize, usize, Life)> = Vec::new();
        let end = self.lives.iter().flatten().map(|life| life.to).max().unwrap_or(0);
        let mut change = vec![0isize; end + 2];
        for &(value, life) in &order {
            let size = size(value);
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
            self.places[value] = Some(place);
            self.bytes = self.bytes.max(place + size);
            let index = placed.partition_point(|other| other.0 <= place);
            placed.insert(index, (place, size, life));
            change[life.from] += size as isize;
            change[life.to + 1] -= size as isize;
        }
        for value in 0..bytes.len() {
            self.places[value] = self.places[self.owner[value]];
        }
        let alive = change.iter().scan(0, |alive, change| {
            *alive += change;
            Some(*alive)
        });
        self.bound = alive.max().unwrap_or(0) as usize;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            // The last value is returned: it lies elsewhere.
            let mut bytes = Vec::new();
            let mut reads_of: Vec<Vec<usize>> = Vec::new();
            for i in 0..n {
                bytes.push((i + 1 < n).then(|| 4 * [0, 1, 100, 1000, 1000, 4096][below(6)]));
                let mut reads = if i == 0 { Vec::new() } else { (0..below(3)).map(|_| below(i)).collect() };
                reads.sort_unstable();
                reads.dedup();
                reads_of.push(reads);
            }
            // Steps that do not need each other run side by side, some of them.
            let mut times = vec![0; n];
            let mut first = 0;
            while first < n {
                let is_free = |at: &usize| (first..*at).all(|other| !reads_of[*at].contains(&other));
                let most = (first + 1..n).take_while(is_free).count();
                let concurrent = if below(2) == 0 { 0 } else { most.min(3) };
                times[first..=first + concurrent].fill(first);
                n_concurrent += concurrent;
                first += 1 + concurrent;
            }
            let uses: Vec<Use> = (0..n)
                .map(|i| Use {
                    time: times[i],
                    touches: reads_of[i].iter().copied().chain([i]).collect(),
                    reuses: reads_of[i].iter().map(|&from| (from, i)).collect(),
                })
                .collect();
            let arena = Arena::plan(&bytes, &uses);
            assert_eq!(arena.places[n - 1], None);
            let taken = |value: usize| arena.reuses.iter().filter(|&&(_, _, to)| to == value).count();
            assert!((0..n).all(|value| taken(value) <= 1), "a result takes the place of one operand");
            let last = |value: usize| {
                let reads = |i: &usize| reads_of[*i].contains(&value);
                (0..n).filter(reads).max().unwrap_or(value).max(value)
            };
            let readers_at = |value: usize, time: usize| {
                (0..n).filter(|&i| times[i] == time && reads_of[i].contains(&value)).count()
            };
            for a in 0..n - 1 {
                for b in a + 1..n - 1 {
                    let (Some(at_a), Some(at_b)) = (arena.places[a], arena.places[b]) else {
                        panic!("no place")
                    };
                    let (len_a, len_b) = (bytes[a].unwrap(), bytes[b].unwrap());
                    let apart = at_a + len_a <= at_b || at_b + len_b <= at_a;
                    // A result may take the place of an operand that is not needed any more.
                    let takes = last(a) == b
                        && readers_at(a, times[b]) == 1
                        && at_a == at_b
                        && len_a == len_b
                        && reads_of[b].contains(&a);
                    reused += usize::from(takes && len_a > 0);
                    assert!(apart || times[last(a)] < times[b] || takes, "{a} and {b} lie on each other");
                }
            }
            assert!(arena.bytes >= arena.bound);
            assert_eq!(arena.bind(&bytes).unwrap().places, arena.places);
            total += arena.bytes;
            bound += arena.bound;
        }
        assert!(n_concurrent > 500, "{n_concurrent} steps run beside others");
        assert!(reused > 100, "{reused} results take the place of an operand");
        assert!(total as f64 <= 1.05 * bound as f64, "{total} bytes, at least {bound} are needed");
    }

    #[test]
    fn results_of_one_step_that_nobody_reads_lie_apart() {
        let uses = [
            Use { time: 0, touches: vec![0], reuses: Vec::new() },
            Use { time: 1, touches: vec![0, 1, 2, 3], reuses: vec![(0, 1), (0, 2), (0, 3)] },
        ];
        let arena = Arena::plan(&[Some(64); 4], &uses);
        let mut places: Vec<usize> = arena.places[1..].iter().map(|place| place.unwrap()).collect();
        assert_eq!((places[0], arena.reuses.as_slice()), (arena.places[0].unwrap(), &[(1, 0, 1)][..]));
        places.sort_unstable();
        assert_eq!(places, [0, 64, 128]);
    }

    #[test]
    fn results_that_do_not_fit_any_more_have_no_plan() {
        let step = |time: usize, touches: &[usize], reuses: &[(usize, usize)]| Use {
            time,
            touches: touches.to_vec(),
            reuses: reuses.to_vec(),
        };
        let uses = [step(0, &[0], &[]), step(1, &[0, 1], &[(0, 1)])];
        let arena = Arena::plan(&[Some(40), Some(40)], &uses);
        assert_eq!((arena.bytes, arena.places.as_slice()), (64, &[Some(0), Some(0)][..]));
        assert_eq!(arena.bind(&[Some(400), Some(400)]).unwrap().bytes, 448);
        assert!(arena.bind(&[Some(400), Some(40)]).is_none());
    }
}
