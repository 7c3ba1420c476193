//! Fourier transforms, against their definition.

use fx_kernels::fft::*;

fn signal(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i as f64 * 1.7).sin() + i as f64 / 9.0).collect()
}

/// By the definition of the transform.
fn spectrum(x: &[f64], frequencies: usize) -> Vec<[f64; 2]> {
    let n = x.len();
    let term = |k: usize, j: usize| {
        let angle = -std::f64::consts::TAU * (j * k % n) as f64 / n as f64;
        [x[j] * angle.cos(), x[j] * angle.sin()]
    };
    let sum = |k| (0..n).map(|j| term(k, j)).fold([0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
    (0..frequencies).map(sum).collect()
}

#[test]
fn spectra_of_reals_are_sums_and_come_back() {
    for n in 1..40 {
        let x = signal(n);
        for frequencies in [n / 2 + 1, 1, n] {
            let load = |_, out: &mut [f64]| out.copy_from_slice(&x);
            let got = reals_to_pairs(1, n, frequencies, 1.0, load).unwrap();
            for (got, expected) in got.iter().zip(spectrum(&x, frequencies).as_flattened()) {
                assert!((got - expected).abs() < 1e-9, "{n}, {frequencies}: {got} {expected}");
            }
        }
        let pairs = spectrum(&x, n / 2 + 1);
        let load = |_, out: &mut [[f64; 2]]| out.copy_from_slice(&pairs);
        let got = pairs_to_reals(1, n, 1.0 / n as f64, load).unwrap();
        assert!(got.iter().zip(&x).all(|(got, x)| (got - x).abs() < 1e-9), "{n}: {got:?} {x:?}");
    }
}
