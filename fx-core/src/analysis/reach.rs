//! Dependencies, direct or not: sets of positions, and reachability from a few nodes to all.

use super::Flow;

/// A set of positions, a bit for each.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BitSet(Vec<u64>);

impl BitSet {
    /// Makes an empty set of numbers below `n`.
    pub fn new(n: usize) -> BitSet {
        BitSet(vec![0; n.div_ceil(64)])
    }

    /// Makes a set of numbers below `n`.
    pub fn of(n: usize, items: impl IntoIterator<Item = usize>) -> BitSet {
        let mut set = BitSet::new(n);
        items.into_iter().for_each(|item| {
            set.insert(item);
        });
        set
    }

    /// Adds a number, which must be in range; returns whether it is new.
    pub fn insert(&mut self, i: usize) -> bool {
        let (word, bit) = (&mut self.0[i / 64], 1u64 << (i % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Returns whether a number is in the set.
    pub fn contains(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    /// Returns how many numbers there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Returns the numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.wrapping_sub(1);
                (bit < 64).then_some(i * 64 + bit)
            })
        })
    }
}

impl Flow {
    /// Returns the nodes of a set and everything that depends on them.
    pub fn descendants(&self, of: &BitSet) -> BitSet {
        let mut found = of.clone();
        for i in 0..self.len() {
            if self.inputs(i).iter().any(|input| found.contains(*input as usize)) {
                found.insert(i);
            }
        }
        found
    }

    /// Returns the nodes of a set and everything that they depend on.
    pub fn ancestors(&self, of: &BitSet) -> BitSet {
        let mut found = of.clone();
        for i in (0..self.len()).rev() {
            if found.contains(i) {
                self.inputs(i).iter().for_each(|input| {
                    found.insert(*input as usize);
                });
            }
        }
        found
    }

    /// Returns whether no path leaves a set and comes back, so that the nodes can become one.
    pub fn is_convex(&self, set: &BitSet) -> bool {
        let mut left = BitSet::new(self.len());
        for i in 0..self.len() {
            let from_left = self.inputs(i).iter().any(|input| left.contains(*input as usize));
            if set.contains(i) {
                if from_left {
                    return false;
                }
            } else if from_left || self.inputs(i).iter().any(|input| set.contains(*input as usize)) {
                left.insert(i);
            }
        }
        true
    }
}

/// Which of a few sources each node depends on: a bit for each pair, made in one walk.
#[derive(Clone, Debug)]
pub struct Reach {
    words: usize,
    bits: Vec<u64>,
}

impl Reach {
    /// Finds which nodes depend on which of the sources, given as positions. A source depends on itself.
    pub fn from(flow: &Flow, sources: &[usize]) -> Reach {
        let words = sources.len().div_ceil(64);
        let mut bits = vec![0u64; words * flow.len()];
        for (bit, source) in sources.iter().enumerate() {
            bits[source * words + bit / 64] |= 1 << (bit % 64);
        }
        for i in 0..flow.len() {
            let (before, own) = bits.split_at_mut(i * words);
            for input in flow.inputs(i) {
                let start = *input as usize * words;
                for (own, input) in own[..words].iter_mut().zip(&before[start..start + words]) {
                    *own |= input;
                }
            }
        }
        Reach { words, bits }
    }

    /// Returns whether the node at `position` depends on source number `source`.
    pub fn reaches(&self, source: usize, position: usize) -> bool {
        let word = self.bits.get(position * self.words + source / 64);
        source / 64 < self.words && word.is_some_and(|word| word >> (source % 64) & 1 == 1)
    }
}
