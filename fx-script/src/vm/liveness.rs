//! Where values are used for the last time.

use std::collections::HashSet;

use crate::ir::{Function, Instruction, Region, ValueId};

/// The uses after which a value is not needed any more.
pub(super) struct LastUses(HashSet<*const ValueId>);

impl LastUses {
    /// Finds the last uses of a function. They are known by their address, so the function must stay where it is.
    pub(super) fn of(function: &Function) -> LastUses {
        let mut last = LastUses(HashSet::new());
        last.region(&function.body, &mut HashSet::new());
        last
    }

    /// Whether a use, which is an element of operands or results, is the last one.
    pub(super) fn contains(&self, used: &ValueId) -> bool {
        self.0.contains(&std::ptr::from_ref(used))
    }

    fn uses(&mut self, ids: &[ValueId], live: &mut HashSet<ValueId>) {
        // Of two equal operands only one is the last use.
        for id in ids.iter().rev() {
            if live.insert(*id) {
                self.0.insert(std::ptr::from_ref(id));
            }
        }
    }

    /// Walks a region backwards; `live` are the values that are used after it, then those that it needs.
    fn region(&mut self, region: &Region, live: &mut HashSet<ValueId>) {
        self.uses(&region.results, live);
        for operation in region.operations.iter().rev() {
            for result in &operation.results {
                live.remove(result);
            }
            match &operation.instruction {
                Instruction::If => {
                    let after = live.clone();
                    for branch in &operation.regions {
                        let mut own = after.clone();
                        self.region(branch, &mut own);
                        live.extend(own);
                    }
                }
                // A later round, or the program beside a task, uses the same values again.
                Instruction::Loop | Instruction::Fork => {
                    for body in &operation.regions {
                        outer_uses(body, live);
                        let mut own = live.clone();
                        self.region(body, &mut own);
                    }
                }
                _ => {}
            }
            self.uses(&operation.operands, live);
        }
        for param in &region.params {
            live.remove(param);
        }
    }
}

/// Adds all values that a region uses; those of its own do no harm.
fn outer_uses(region: &Region, out: &mut HashSet<ValueId>) {
    let mut own = HashSet::new();
    collect(region, &mut own, out);
}

fn collect(region: &Region, own: &mut HashSet<ValueId>, out: &mut HashSet<ValueId>) {
    own.extend(&region.params);
    for operation in &region.operations {
        out.extend(operation.operands.iter().filter(|id| !own.contains(id)));
        operation.regions.iter().for_each(|inner| collect(inner, own, out));
        own.extend(&operation.results);
    }
    out.extend(region.results.iter().filter(|id| !own.contains(id)));
}

/// When values are needed, in positions that number the operations of a function in the order of the code.
///
/// A value may take the register of another if their spans do not meet, except that one may end where the other
/// begins: an operation reads its operands before it writes its results.
pub(super) struct Spans {
    /// The first position of each value, and the last one at which it is used.
    spans: Vec<(u32, u32)>,
    now: u32,
}

impl Spans {
    /// Finds the spans of a function.
    pub(super) fn of(function: &Function) -> Spans {
        let mut spans = Spans { spans: vec![(0, 0); function.values.len()], now: 0 };
        spans.region(&function.body);
        spans
    }

    /// Returns whether a value is ever used.
    pub(super) fn is_used(&self, value: ValueId) -> bool {
        let (start, end) = self.spans[value.index()];
        end > start
    }

    /// Returns whether both values are needed at some position.
    pub(super) fn meet(&self, a: ValueId, b: ValueId) -> bool {
        let ((start, end), (other_start, other_end)) = (self.spans[a.index()], self.spans[b.index()]);
        start < other_end && other_start < end
    }

    fn start(&mut self, values: &[ValueId]) {
        for value in values {
            self.spans[value.index()] = (self.now, self.now);
        }
    }

    fn uses(&mut self, values: &[ValueId]) {
        for value in values {
            self.spans[value.index()].1 = self.now;
        }
    }

    fn region(&mut self, region: &Region) {
        self.start(&region.params);
        for operation in &region.operations {
            self.now += 1;
            self.uses(&operation.operands);
            self.start(&operation.results);
            operation.regions.iter().for_each(|region| self.region(region));
            if !operation.regions.is_empty() {
                self.now += 1;
            }
            match &operation.instruction {
                // Branches write the results at their ends.
                Instruction::If => self.start(&operation.results),
                // Another round, or the program beside a task, uses the same values again.
                Instruction::Loop | Instruction::Fork => {
                    let mut outer = HashSet::new();
                    operation.regions.iter().for_each(|body| outer_uses(body, &mut outer));
                    for value in &outer {
                        self.spans[value.index()].1 = self.now;
                    }
                }
                _ => {}
            }
        }
        self.now += 1;
        self.uses(&region.results);
    }
}
