//! Selection by rank.

use fx_kernels::select::*;
use proptest::prelude::*;

type Item = (u8, usize);

fn less(a: &Item, b: &Item) -> bool {
    a.0 < b.0
}

proptest! {
    #[test]
    fn each_puts_elements_where_sorting_does(keys in prop::collection::vec(0u8..12, 1..200), at in any::<prop::sample::Index>()) {
        let items: Vec<Item> = keys.iter().copied().zip(0..).collect();
        let mut expected = keys.clone();
        expected.sort_unstable();
        let k = at.index(keys.len());
        let only_keys = |items: &[Item]| items.iter().map(|item| item.0).collect::<Vec<_>>();

        let mut sorted = items.clone();
        sort(&mut sorted, &less);
        prop_assert_eq!(only_keys(&sorted), expected.clone());
        let mut partly = items.clone();
        partial_sort(&mut partly, k, &less);
        prop_assert_eq!(only_keys(&partly[..k]), &expected[..k]);
        let mut nth = items.clone();
        nth_element(&mut nth, k, &less);
        let mut quick = items;
        quick_select(&mut quick, k, &|a, b| a.0 > b.0);
        prop_assert_eq!((nth[k].0, quick[k].0), (expected[k], expected[k]));
        prop_assert!(nth[..k].iter().all(|item| item.0 <= expected[k]));
    }

    #[test]
    fn inconsistent_orders_stay_in_bounds(keys in prop::collection::vec(prop::option::of(0i8..9), 1..120), k in 0usize..120) {
        let keys: Vec<f32> = keys.into_iter().map(|key| key.map_or(f32::NAN, f32::from)).collect();
        sort(&mut keys.clone(), &|a, b| a < b);
        nth_element(&mut keys.clone(), k, &|a, b| a < b);
        partial_sort(&mut keys.clone(), k.min(keys.len()), &|a, b| a < b);
        quick_select(&mut keys.clone(), k, &|a, b| a > b);
    }
}
