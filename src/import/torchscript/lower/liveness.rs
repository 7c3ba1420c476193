//! Which values a function uses: the results of an `if` or `fork` that nothing uses need no place in a graph.

use std::collections::BTreeSet;
use std::rc::Rc;

use fx_script::ir::{Function, Instruction, Region, ValueId};

use super::Lowerer;

impl Lowerer<'_> {
    /// Returns the values that a function uses.
    pub(super) fn live(&mut self, function: &Function) -> Rc<BTreeSet<ValueId>> {
        let key = std::ptr::from_ref(function) as usize;
        let found = self.live.entry(key).or_insert_with(|| {
            let mut live: BTreeSet<ValueId> = function.body.results.iter().copied().collect();
            mark(&function.body, &mut live);
            Rc::new(live)
        });
        Rc::clone(found)
    }
}

/// Goes through a region from its end, so that a value is known to be used before it is defined.
fn mark(region: &Region, live: &mut BTreeSet<ValueId>) {
    for operation in region.operations.iter().rev() {
        live.extend(operation.operands.iter().copied());
        for inner in &operation.regions {
            match operation.instruction {
                Instruction::If => {
                    let used = operation.results.iter().zip(&inner.results);
                    let used: Vec<ValueId> =
                        used.filter(|(outer, _)| live.contains(outer)).map(|(_, id)| *id).collect();
                    live.extend(used);
                }
                _ => live.extend(inner.results.iter().copied()),
            }
            mark(inner, live);
        }
    }
}
