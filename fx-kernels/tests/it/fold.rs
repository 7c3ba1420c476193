//! The loops of reductions for old and new machines.

use fx_kernels::fold::*;

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919) % 1000) as f32 * 1e-3 - 0.4).collect()
}

/// Calls the loops themselves, whatever the machine and the build would choose.
fn check<S: Step<Item = f32>>(step: S) -> Vec<S::State> {
    let mut all = Vec::new();
    for n in [0, 1, 7, 16, 29, 63, 64, 95, 100, 511, 512, 515, 1000, BLOCK] {
        let data = numbers(3 * n);
        let (mut out, mut small) = ([S::INIT; 3], [S::INIT; 3]);
        <rows as fx_simd::Wide<_>>::run((step, &data[..], n, &mut out[..]));
        small_rows((step, &data[..], n, &mut small[..]));
        all.extend(out.iter().chain(&small));
    }
    for (n_rows, n) in [(1, 5), (7, 90), (8, 21), (19, 200)] {
        let data = numbers(n_rows * n);
        let (mut out, mut small) = (vec![S::INIT; n - 1], vec![S::INIT; n - 1]);
        <lines as fx_simd::Wide<_>>::run((step, &data[..], n, n_rows, &mut out[..]));
        small_lines((step, &data[..], n, n_rows, &mut small[..]));
        all.extend(out.into_iter().chain(small));
    }
    all
}

#[test]
fn loops_for_old_machines_give_the_same_bits() {
    fn halves_agree<A: Copy + PartialEq + std::fmt::Debug>(mut all: &[A]) {
        let widths = [3; 14].into_iter().chain([4, 89, 20, 199]);
        for width in widths {
            assert_eq!(all[..width], all[width..2 * width]);
            all = &all[2 * width..];
        }
        assert!(all.is_empty());
    }
    halves_agree(&check(Sum::<f32>::default()));
    halves_agree(&check(Sum::<f32, f64>::default()));
    halves_agree(&check(Product::<f32>::default()));
    halves_agree(&check(Squares::<f32>::around(0.3)));
    halves_agree(&check(Magnitudes));
    halves_agree(&check(Numbers::<f32>::default()));
}
