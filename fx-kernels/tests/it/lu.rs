//! LU factors.

use fx_kernels::lu::*;

/// The columns of a band, and the largest matrix that is small.
const BAND: usize = 32;
const SMALL: usize = 8;

fn numbers(n: usize) -> Vec<f64> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    (0..n).map(|_| next()).collect()
}

fn product(a: &[f64], b: &[f64], n: usize, m: usize) -> Vec<f64> {
    let at = |i: usize, j: usize| (0..n).map(|k| a[i * n + k] * b[k * m + j]).sum();
    (0..n * m).map(|at_| at(at_ / m, at_ % m)).collect()
}

#[test]
fn solutions_solve_for_sizes_around_the_band() {
    for n in [1, 2, 5, SMALL, SMALL + 1, BAND - 1, BAND, BAND + 1, 2 * BAND, 100] {
        for m in [1, 3, 40] {
            let (a, want) = (numbers(n * n), numbers(n * m));
            let b = product(&a, &want, n, m);
            let mut decomposed = a.clone();
            let (rows, _) = lu(&mut decomposed, n);
            let mut x: Vec<f64> = rows.iter().flat_map(|&row| b[row * m..][..m].to_vec()).collect();
            solve_lu(&decomposed, n, &mut x, m);
            let worst = x.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-7, "{n} by {m}: {worst:e}");
        }
    }
}

#[test]
fn triangles_multiply_to_the_matrix() {
    for n in [1, 3, BAND, BAND + 1, 3 * BAND + 5] {
        let x = numbers(n * n);
        let turned: Vec<f64> = (0..n * n).map(|at| x[at % n * n + at / n]).collect();
        let mut a = product(&x, &turned, n, n);
        a.iter_mut().step_by(n + 1).for_each(|x| *x += n as f64);
        let mut l = a.clone();
        cholesky(&mut l, n).unwrap();
        let l_turned: Vec<f64> = (0..n * n).map(|at| l[at % n * n + at / n]).collect();
        let back = product(&l, &l_turned, n, n);
        let worst = back.iter().zip(&a).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-10, "{n}: {worst:e}");
        assert!((0..n).all(|i| l[i * n + i + 1..(i + 1) * n].iter().all(|&x| x == 0.0)));
    }
    assert_eq!(cholesky(&mut [1.0, 2.0, 2.0, 1.0], 2), Err(2));
}
