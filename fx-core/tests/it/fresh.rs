//! Names and ranges of sizes that depend on data.

use std::sync::Arc;

use fx_core::__test::{settle, symbols};
use fx_core::{Arg, Dim, Symbol, TypeTree};

#[test]
fn numbers_out_of_data_keep_the_range_of_their_rule() {
    let of = |symbol: &Symbol| -> TypeTree { Arg::dim(Dim::symbol(symbol.clone())) };
    let mut name = || Arc::from("u0");
    for (min, max) in [(i64::MIN, None), (0, Some(6)), (-3, Some(3)), (2, None)] {
        let ruled = of(&Symbol::fresh(0).ranged(min, max));
        let found = symbols(&settle(ruled.clone(), &[], None, &mut name)).remove(0);
        assert_eq!((found.name(), found.min(), found.max()), ("u0", min, max));

        // What the rule leaves open is as recorded.
        let recorded = of(&Symbol::new("n").ranged(1, Some(4)));
        let found = symbols(&settle(ruled, &[], Some(&recorded), &mut name)).remove(0);
        let min = if min == i64::MIN { 1 } else { min };
        assert_eq!((found.name(), found.min(), found.max()), ("n", min, max.or(Some(4))));
    }
}
