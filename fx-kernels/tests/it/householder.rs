//! QR factors.

use fx_kernels::householder::*;

fn numbers(len: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * i * 7919 % 1009) as f64 * 0.37).sin()).collect()
}

#[test]
fn factors_are_orthonormal_and_multiply_to_the_matrix() {
    for (m, n) in [(1, 1), (3, 5), (40, 31), (31, 40), (100, 70), (70, 7)] {
        let x = numbers(m * n);
        let mut a = x.clone();
        let mut scales = vec![0.0; m.min(n)];
        decompose(&mut a, n, &mut scales, false);
        let mut q = vec![0.0; m * m];
        orthogonal(&a, n, &scales, m, &mut q, false);
        for i in 0..m {
            for j in 0..n {
                let sum: f64 = (0..m.min(j + 1)).map(|k| q[i * m + k] * a[k * n + j]).sum();
                assert!((sum - x[i * n + j]).abs() < 1e-12, "{m} by {n} at {i}, {j}");
            }
            for j in 0..m {
                let sum: f64 = (0..m).map(|k| q[i * m + k] * q[j * m + k]).sum();
                assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-13);
            }
        }
    }
}

#[test]
fn elements_whose_squares_do_not_fit_are_reflected() {
    for scale in [1e-30f32, 1.0, 1e30] {
        let mut a = [3.0 * scale, 1.0, 4.0 * scale, 2.0];
        decompose(&mut a, 2, &mut [0.0; 2], false);
        assert!((a[0] / scale + 5.0).abs() < 1e-5, "{a:?}");
    }
}
