//! Program order: a doubly linked list through the arena with labels that make "is it before?" one comparison.
//!
//! Labels are spread over `0..2^62`. Where no label is free between two neighbours, a small range around them
//! is relabelled (Bender et al., "Two simplified algorithms for maintaining order in a list", 2002), so that
//! n insertions anywhere cost O(n log n) in total.

const GAP: u64 = 1 << 20;
const LIMIT: u64 = 1 << 62;
/// No entry.
pub const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
    label: u64,
}

/// The order of the entries of an arena, by index.
#[derive(Clone, Debug)]
pub struct Order {
    links: Vec<Link>,
    first: u32,
    last: u32,
}

impl Default for Order {
    fn default() -> Self {
        Order::new()
    }
}

impl Order {
    /// Makes an order without entries.
    pub fn new() -> Self {
        Order { links: Vec::new(), first: NIL, last: NIL }
    }

    /// Returns the first entry.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Returns the last entry.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// Returns the entry after one.
    pub fn next(&self, index: u32) -> u32 {
        self.links[index as usize].next
    }

    /// Returns the entry before one.
    pub fn prev(&self, index: u32) -> u32 {
        self.links[index as usize].prev
    }

    /// Returns the label of an entry: greater than those of the entries before it.
    pub fn label(&self, index: u32) -> u64 {
        self.links[index as usize].label
    }

    /// Links `index` in before `next`, or last if `next` is [`NIL`]. It must not be linked.
    pub fn insert_before(&mut self, index: u32, next: u32) {
        let prev = if next == NIL { self.last } else { self.prev(next) };
        if self.links.len() <= index as usize {
            self.links.resize(index as usize + 1, Link { prev: NIL, next: NIL, label: 0 });
        }
        let label = match self.free_label(prev, next) {
            Some(label) => label,
            None => {
                self.make_room(if prev == NIL { next } else { prev });
                self.free_label(prev, next).expect("relabelling leaves a gap beside each entry of the range")
            }
        };
        self.links[index as usize] = Link { prev, next, label };
        match prev {
            NIL => self.first = index,
            _ => self.links[prev as usize].next = index,
        }
        match next {
            NIL => self.last = index,
            _ => self.links[next as usize].prev = index,
        }
    }

    /// Takes an entry out.
    pub fn unlink(&mut self, index: u32) {
        let Link { prev, next, .. } = self.links[index as usize];
        match prev {
            NIL => self.first = next,
            _ => self.links[prev as usize].next = next,
        }
        match next {
            NIL => self.last = prev,
            _ => self.links[next as usize].prev = prev,
        }
    }

    fn free_label(&self, prev: u32, next: u32) -> Option<u64> {
        let low = if prev == NIL { 0 } else { self.label(prev) + 1 };
        // The entry that is last keeps far away, so that appending before it never runs out.
        let high = if next == NIL { LIMIT } else { self.label(next) };
        if low >= high {
            return None;
        }
        if next == NIL && prev == NIL {
            return Some(LIMIT / 2 + LIMIT / 4);
        }
        if prev == NIL && self.next(next) == NIL {
            // Between the first entry and the last, which is the output, is room for everything.
            return Some(high / 2);
        }
        if prev == NIL {
            return Some(high - (high - low).div_ceil(2).min(GAP));
        }
        Some(low + ((high - low) / 2).min(GAP))
    }

    /// Spreads the labels of a range around `index` that is not too full.
    fn make_room(&mut self, index: u32) {
        let label = self.label(index);
        let (mut first, mut last, mut count) = (index, index, 1u64);
        for bits in 1..=62u32 {
            let low = label >> bits << bits;
            let high = low + ((1u64 << bits) - 1);
            while self.prev(first) != NIL && self.label(self.prev(first)) >= low {
                first = self.prev(first);
                count += 1;
            }
            while self.next(last) != NIL && self.label(self.next(last)) <= high {
                last = self.next(last);
                count += 1;
            }
            // Allowed density falls as 1.5^-bits, which gives the logarithmic bound.
            let room = (1u64 << bits) as f64;
            if (count as f64) * 1.5f64.powi(bits as i32) <= room && room / count as f64 >= 4.0 {
                let step = (1u64 << bits) / (count + 1);
                let mut at = first;
                for i in 0..count {
                    self.links[at as usize].label = low + (i + 1) * step;
                    at = self.next(at);
                }
                return;
            }
        }
        unreachable!("u32 entries fit into 2^62 labels at every density that the loop allows");
    }
}
