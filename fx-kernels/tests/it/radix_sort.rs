//! Sorting by digits.

use fx_kernels::radix_sort::*;
use proptest::prelude::*;

fn check(keys: &[u64], bits: u32) {
    let mut pairs: Vec<(u64, u32)> = keys.iter().copied().zip(0..).collect();
    let mut expected = pairs.clone();
    expected.sort_by_key(|pair| pair.0);
    let mut other = pairs.clone();
    sort(&mut pairs, &mut other, bits);
    assert!(pairs == expected);
}

proptest! {
    #[test]
    fn pairs_are_sorted_and_equal_ones_stay_in_order(keys in prop::collection::vec(any::<u64>(), 0..600), bits in 0u32..65) {
        let keys: Vec<u64> = keys.iter().map(|key| key.checked_shr(64 - bits).unwrap_or(0)).collect();
        check(&keys, bits);
    }
}

#[test]
fn large_inputs_are_sorted_however_their_keys_lie() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 24
    };
    let spread: Vec<u64> = (0..200_000).map(|_| random()).collect();
    check(&spread, 40);
    let close: Vec<u64> = (0..200_000).map(|_| (1 << 39) + random() % 3).collect();
    check(&close, 40);
}
