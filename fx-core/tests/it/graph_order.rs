//! The order of nodes.

use fx_core::__test::{NIL, Order};
use proptest::prelude::*;

proptest! {
    #[test]
    fn labels_follow_the_list(spots in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..400)) {
        let mut order = Order::new();
        let mut model: Vec<u32> = Vec::new();
        for (i, (spot, reuse)) in spots.into_iter().enumerate() {
            let at = if reuse { model.len() / 2 } else { spot.index(model.len() + 1) };
            let next = model.get(at).copied().unwrap_or(NIL);
            order.insert_before(i as u32, next);
            model.insert(at, i as u32);
        }
        let labels: Vec<u64> = model.iter().map(|&i| order.label(i)).collect();
        prop_assert!(labels.windows(2).all(|w| w[0] < w[1]));
    }
}

#[test]
fn many_insertions_at_one_spot_are_cheap() {
    for before_fixed in [false, true] {
        let mut order = Order::new();
        order.insert_before(0, NIL);
        order.insert_before(1, NIL);
        let mut fixed = 1;
        for i in 2..200_000 {
            order.insert_before(i, fixed);
            if !before_fixed {
                fixed = i;
            }
        }
        let mut at = order.first();
        while order.next(at) != NIL {
            assert!(order.label(at) < order.label(order.next(at)));
            at = order.next(at);
        }
    }
}
