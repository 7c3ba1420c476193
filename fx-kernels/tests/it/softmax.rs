//! Softmax over columns.

use fx_kernels::softmax::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn columns_are_those_of_rows(
        outer in 0usize..4, n in prop::sample::select(vec![1usize, 2, 21, 300, 5000]),
        inner in prop::sample::select(vec![1usize, 16, 17, 100, 515, 1200]), log: bool, mark in 0usize..4,
    ) {
        let n = if inner > 100 { n.min(300) } else { n };
        let number = |i: usize| ((i * 7919 + i / 13) % 1009) as f64 / 30.0 - 16.0;
        let mut x: Vec<f64> = (0..outer * n * inner).map(number).collect();
        if let (Some(x), Some(&mark)) = (x.last_mut(), [f64::NAN, f64::NEG_INFINITY, f64::INFINITY].get(mark)) {
            *x = mark;
        }
        let mut got = vec![0.5; x.len()];
        Softmax { n, inner, log }.run(&x, &mut got);
        for column in 0..outer * inner {
            let at = |i: usize| (column / inner * n + i) * inner + column % inner;
            let line: Vec<f64> = (0..n).map(|i| x[at(i)]).collect();
            let most = line.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let sum: f64 = line.iter().map(|x| (x - most).exp()).sum();
            for i in 0..n {
                let want = if log { line[i] - most - sum.ln() } else { (line[i] - most).exp() / sum };
                let got = got[at(i)];
                let is_same = got == want || (got.is_nan() && want.is_nan());
                prop_assert!(is_same || (got - want).abs() < 1e-12 * (1.0 + want.abs()), "{got} {want}");
            }
        }
    }
}
