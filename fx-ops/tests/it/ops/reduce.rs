//! Reductions against naive references, their accuracy, and that threads change nothing.

use fx_core::array::StridedIndex;
use fx_core::{Arg, Array, DType, Value};
use proptest::prelude::*;

use crate::testing::{call, call1, tensor};

/// Folds naively over the axes of a mask, in f64.
fn naive(x: &Array, mask: &[bool], fold: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let kept: Vec<usize> = x.shape().iter().zip(mask).map(|(&n, &gone)| if gone { 1 } else { n }).collect();
    let strides: Vec<isize> = fx_core::array::row_major(&kept)
        .iter()
        .zip(mask)
        .map(|(&stride, &gone)| if gone { 0 } else { stride })
        .collect();
    let mut groups = vec![Vec::new(); kept.iter().product()];
    let order = StridedIndex::new(x.shape(), [(&strides[..], 0)]);
    for ([group], value) in order.zip(x.iter_scalars()) {
        groups[group].push(value.to_f64());
    }
    groups.iter().map(|group| fold(group)).collect()
}

fn check(got: &Array, expected: &[f64]) {
    let got: Vec<f64> = got.cast(DType::F64).to_vec().unwrap();
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        let near = (got - expected).abs() <= 1e-5 * (1.0 + expected.abs());
        assert!(
            near || got == expected || got.is_nan() && expected.is_nan(),
            "expected {expected}, got {got}"
        );
    }
}

/// Arrays of small numbers, contiguous or transposed, with the axes of a mask.
fn cases() -> impl Strategy<Value = (Array, Vec<bool>)> {
    (prop::collection::vec(1usize..6, 0..4), any::<bool>(), any::<u64>()).prop_flat_map(
        |(shape, turned, seed)| {
            let n: usize = shape.iter().product();
            let data =
                (0..n as u64).map(|i| ((i.wrapping_mul(seed | 1) >> 7) % 9) as f32 * 0.5 - 2.0).collect();
            let axes: Vec<usize> = (0..shape.len()).rev().collect();
            let x = Array::from_vec(data, &shape).unwrap();
            let x = if turned { x.permute(&axes).unwrap() } else { x };
            (Just(x), prop::collection::vec(any::<bool>(), shape.len()))
        },
    )
}

fn axes(mask: &[bool]) -> Value {
    Arg::ints(mask.iter().enumerate().filter(|(_, on)| **on).map(|(axis, _)| axis as i64 - mask.len() as i64))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn reductions_agree_with_their_definitions((x, mask) in cases(), keepdim in any::<bool>()) {
        let dim = axes(&mask);
        let mask = if mask.contains(&true) { mask } else { vec![true; mask.len()] };
        let keep = Arg::Bool(keepdim);
        let run = |name: &str| call1(name, &[tensor(x.clone()), dim.clone(), keep.clone()]).unwrap();
        let mean = |xs: &[f64]| xs.iter().sum::<f64>() / xs.len() as f64;
        let var = |xs: &[f64]| xs.iter().map(|x| (x - mean(xs)).powi(2)).sum::<f64>() / (xs.len() as f64 - 1.0).max(0.0);
        check(&run("sum"), &naive(&x, &mask, |xs| xs.iter().sum()));
        check(&run("prod"), &naive(&x, &mask, |xs| xs.iter().product()));
        check(&run("mean"), &naive(&x, &mask, mean));
        check(&run("amax"), &naive(&x, &mask, |xs| xs.iter().copied().fold(f64::MIN, f64::max)));
        check(&run("amin"), &naive(&x, &mask, |xs| xs.iter().copied().fold(f64::MAX, f64::min)));
        check(&run("all"), &naive(&x, &mask, |xs| f64::from(xs.iter().all(|x| *x != 0.0))));
        check(&run("any"), &naive(&x, &mask, |xs| f64::from(xs.iter().any(|x| *x != 0.0))));
        check(&run("logsumexp"), &naive(&x, &mask, |xs| xs.iter().map(|x| x.exp()).sum::<f64>().ln()));
        let spread = call1("var", &[tensor(x.clone()), dim.clone(), Arg::Float(1.0), keep.clone()]).unwrap();
        check(&spread, &naive(&x, &mask, var));
        let norm = call1("linalg_vector_norm", &[tensor(x.clone()), Arg::Int(3), dim.clone(), keep]).unwrap();
        check(&norm, &naive(&x, &mask, |xs| xs.iter().map(|x| x.abs().powi(3)).sum::<f64>().cbrt()));
        let count = call1("count_nonzero", &[tensor(x.clone()), dim]).unwrap();
        check(&count, &naive(&x, &mask, |xs| xs.iter().filter(|x| **x != 0.0).count() as f64));
    }

    #[test]
    fn orderings_agree_with_a_stable_sort((x, _) in cases(), axis in 0usize..3, descending in any::<bool>(), k in 0usize..6) {
        prop_assume!(x.rank() > 0);
        let axis = axis % x.rank();
        let n = x.shape()[axis];
        let dim = Arg::Int(axis as i64);
        let pair = |value: Value| match value.items() {
            Some([Arg::Leaf(a), Arg::Leaf(b)]) => (a.array().unwrap().clone(), b.array().unwrap().clone()),
            _ => panic!("expected a pair"),
        };
        let (values, indices) = pair(call("sort", &[tensor(x.clone()), dim.clone(), Arg::Bool(descending)], &[]).unwrap());
        let rows = |x: &Array| -> Vec<Vec<f64>> {
            let last = x.unsqueeze(x.rank()).unwrap().transpose(axis, x.rank()).unwrap();
            let data: Vec<f64> = last.cast(DType::F64).to_vec().unwrap();
            data.chunks(x.shape()[axis].max(1)).map(<[f64]>::to_vec).collect()
        };
        for (row, (values, indices)) in rows(&x).iter().zip(rows(&values).into_iter().zip(rows(&indices))) {
            let mut items: Vec<(f64, usize)> = row.iter().copied().zip(0..).collect();
            items.sort_by(|a, b| if descending { b.0.total_cmp(&a.0) } else { a.0.total_cmp(&b.0) });
            prop_assert_eq!(values, items.iter().map(|item| item.0).collect::<Vec<_>>());
            prop_assert_eq!(indices, items.iter().map(|item| item.1 as f64).collect::<Vec<_>>());
        }
        let k = k.min(n);
        let top = call("topk", &[tensor(x.clone()), Arg::Int(k as i64), dim.clone(), Arg::Bool(descending)], &[]).unwrap();
        let (top_values, top_indices) = pair(top);
        prop_assert!(top_values.bits_eq(&values.slice_axis(axis, 0, k, 1).unwrap().contiguous().unwrap()));
        let named = call1("gather", &[tensor(x.clone()), dim.clone(), tensor(top_indices.clone())]).unwrap();
        prop_assert!(named.bits_eq(&top_values));
        for row in rows(&top_indices) {
            prop_assert_eq!(row.iter().map(|at| *at as usize).collect::<std::collections::BTreeSet<_>>().len(), k);
        }
        let best = if descending { "argmax" } else { "argmin" };
        let first = call1(best, &[tensor(x.clone()), dim.clone()]).unwrap();
        prop_assert!(first.bits_eq(&indices.select(axis, 0).unwrap().contiguous().unwrap()));
        let total = call1("cumsum", &[tensor(x.clone()), dim]).unwrap();
        let last = total.select(axis, n - 1).unwrap();
        let mut mask = vec![false; x.rank()];
        mask[axis] = true;
        check(&last, &naive(&x, &mask, |xs| xs.iter().sum()));
    }
}

fn at_threads<R: Send>(n: usize, run: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap().install(run)
}

#[test]
fn threads_change_no_bit() {
    let n = 300 * 1000;
    let data: Vec<f32> = (0..n as u64).map(|i| ((i * 7919) % 1000) as f32 * 1e-3 + 1e-7).collect();
    let x = Array::from_vec(data, &[300, 1000]).unwrap();
    for (name, dim) in [
        ("sum", Arg::None),
        ("sum", Arg::Int(0)),
        ("mean", Arg::Int(1)),
        ("var", Arg::None),
        ("std", Arg::Int(0)),
    ] {
        let run = || call1(name, &[tensor(x.clone()), dim.clone()]).unwrap();
        assert!(at_threads(1, run).bits_eq(&at_threads(5, run)), "{name} {dim:?}");
    }
    let run = || call1("argmax", &[tensor(x.clone())]).unwrap();
    assert_eq!(at_threads(5, run).item().unwrap().to_i64(), 321);
}

#[test]
fn sums_of_many_numbers_stay_exact() {
    let n = 1 << 20;
    let x = Array::scalar(0.1f32).broadcast_to(&[n]).unwrap();
    for dim in [Arg::None, Arg::Int(0)] {
        let total = call1("sum", &[tensor(x.clone()), dim]).unwrap().item().unwrap().to_f64();
        assert!((total / (n as f64 * f64::from(0.1f32)) - 1.0).abs() < 1e-6, "{total}");
    }
    let half = x.slice_axis(0, 0, 4096, 1).unwrap().cast(DType::F16);
    let total = call1("sum", &[tensor(half)]).unwrap();
    assert_eq!((total.dtype(), total.item().unwrap().to_f64()), (DType::F16, 409.5));
}

#[test]
fn edges_are_those_of_pytorch() {
    let item = |name: &str, x: Array| call1(name, &[tensor(x)]).unwrap();
    let empty = || Array::zeros(DType::F32, &[0]).unwrap();
    assert_eq!(item("sum", Array::from([true, true])).item().unwrap(), fx_core::Scalar::Int(2));
    assert_eq!(item("sum", Array::from([200u8, 200])).item().unwrap(), fx_core::Scalar::Int(400));
    assert_eq!(item("sum", empty()).item().unwrap().to_f64(), 0.0);
    assert!(item("mean", empty()).item().unwrap().to_f64().is_nan());
    assert!(item("var", Array::scalar(1.0f32)).item().unwrap().to_f64().is_nan());
    assert_eq!(item("all", empty()).item().unwrap(), fx_core::Scalar::Bool(true));
    assert_eq!(item("all", Array::from([1u8, 2])).dtype(), DType::U8);
    assert!(item("max", Array::from([1.0f32, f32::NAN, 3.0])).item().unwrap().to_f64().is_nan());
    assert_eq!(item("argmin", Array::from([1.0f32, f32::NAN, 0.0])).item().unwrap().to_i64(), 1);
    let low = call1("logsumexp", &[tensor([f32::NEG_INFINITY; 2]), Arg::Int(0)]).unwrap();
    assert_eq!(low.item().unwrap().to_f64(), f64::NEG_INFINITY);
    let message = |name: &str, x: Array| call1(name, &[tensor(x)]).unwrap_err().message().to_owned();
    assert_eq!(message("amax", empty()), "expected at least one element to choose from, got f32[0]");
    assert_eq!(message("mean", Array::from([1i64])), "expected floats for a mean, got i64");
    let twice = call1("sum", &[tensor(Array::zeros(DType::F32, &[2, 2]).unwrap()), Arg::ints([0, -2])]);
    assert_eq!(twice.unwrap_err().message(), "axis -2 appears twice in [0, -2]");
    let order = item("argsort", Array::from([2.0f32, f32::NAN, 1.0]));
    assert_eq!(order.to_vec::<i64>().unwrap(), [2, 0, 1]);
}
