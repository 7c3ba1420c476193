//! Division of blocks of integers.

use fx_core::{Array, Op, Tensor, ops};
use proptest::prelude::*;

/// Integers near those at which something changes.
fn integer() -> impl Strategy<Value = i64> {
    let edges = vec![
        0,
        1,
        7,
        1 << 31,
        (1 << 31) - 1,
        1 << 50,
        (1 << 51) - 1,
        1 << 51,
        1 << 52,
        1 << 53,
        i64::MAX - 4,
    ];
    prop_oneof![
        (prop::sample::select(edges), -3i64..4, any::<bool>()).prop_map(|(x, near, negative)| if negative {
            -x - near
        } else {
            x + near
        }),
        -1000i64..1000,
        any::<i64>(),
        Just(i64::MIN),
    ]
}

fn results(op: Op, x: Array, y: Array) -> Vec<i64> {
    let result =
        fx_core::trace::apply(op, false, &[Tensor::new(x).into(), Tensor::new(y).into()], &[]).unwrap();
    result.leaf().unwrap().array().unwrap().iter_scalars().map(fx_core::Scalar::to_i64).collect()
}

proptest! {
    #[test]
    fn integers_are_divided_as_the_definition_says(
        pairs in prop::collection::vec((integer(), integer().prop_filter("no zero", |y| *y != 0)), 1..80),
    ) {
        let (x, y): (Vec<i64>, Vec<i64>) = pairs.into_iter().unzip();
        let small = |x: &[i64]| x.iter().map(|x| *x as i32).collect::<Vec<i32>>();
        let (x32, y32) = (small(&x), small(&y).into_iter().map(|y| if y == 0 { -1 } else { y }).collect::<Vec<_>>());
        for (op, is_remainder) in [(ops::floor_divide::OP, false), (ops::remainder::OP, true)] {
            let floor = |x: i128, y: i128| {
                let quotient = x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0);
                if is_remainder { x - quotient * y } else { quotient }
            };
            let pairs = || x.iter().zip(&y).map(|(x, y)| (i128::from(*x), i128::from(*y)));
            let want: Vec<i64> = pairs().map(|(x, y)| floor(x, y) as i64).collect();
            prop_assert_eq!(results(op, Array::from(x.clone()), Array::from(y.clone())), want);
            let pairs = || x32.iter().zip(&y32).map(|(x, y)| (i128::from(*x), i128::from(*y)));
            let want: Vec<i64> = pairs().map(|(x, y)| i64::from(floor(x, y) as i32)).collect();
            prop_assert_eq!(results(op, Array::from(x32.clone()), Array::from(y32.clone())), want);
        }
    }
}
