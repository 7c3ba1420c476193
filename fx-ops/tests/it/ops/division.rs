//! Quotients and remainders of integers. Blocks of small ones are divided as floats.

use fx_core::Array;

use crate::testing::{call1, tensor};

#[test]
fn quotients_of_integers_are_those_of_rust() {
    let numbers = [1, -1, 2, 3, -7, 49, 1000, -999_999, (1 << 51) - 1, 1 - (1 << 51), (1 << 50) + 1];
    let pairs = numbers.into_iter().chain([0]).flat_map(|x| numbers.map(|y| (x, y)));
    let floor = |x: i64, y: i64| x.wrapping_div(y) - i64::from(x.wrapping_rem(y) != 0 && (x < 0) != (y < 0));
    type Of<'a> = &'a dyn Fn(i64, i64) -> i64;
    let rows: [(&str, Of<'_>); 4] = [
        ("trunc_divide", &i64::wrapping_div),
        ("fmod", &i64::wrapping_rem),
        ("floor_divide", &floor),
        ("remainder", &|x, y| x.wrapping_sub(floor(x, y).wrapping_mul(y))),
    ];
    // The last pair makes a block that is not divided as floats.
    for wide in [None, Some((i64::MIN, -1))] {
        let (x, y): (Vec<i64>, Vec<i64>) = pairs.clone().chain(wide).unzip();
        for (name, of) in rows {
            let expected: Vec<i64> = x.iter().zip(&y).map(|(&x, &y)| of(x, y)).collect();
            let got = call1(name, &[tensor(Array::from(x.clone())), tensor(Array::from(y.clone()))]).unwrap();
            assert_eq!(got.to_vec::<i64>().unwrap(), expected, "{name}");
        }
    }
}
