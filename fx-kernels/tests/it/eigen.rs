//! Eigenvalues and singular values, by what they rebuild.

use fx_kernels::eigen::*;

fn numbers<T: Decomposed>(len: usize) -> Vec<T> {
    (0..len).map(|i| T::from(((i * i * 7919 % 1009) as f64 * 0.37).sin()).unwrap()).collect()
}

fn values_of<T: Decomposed>(a: &[T], m: usize, n: usize) -> Vec<T> {
    let mut values = vec![T::zero(); m.min(n)];
    singular_values(&mut a.to_vec(), (m, n), &mut values, None).unwrap();
    values
}

#[test]
fn known_values_are_found_also_where_squares_leave_the_range() {
    for scale in [1e-30f32, 1.0, 1e30] {
        let values = values_of(&[3.0 * scale, 0.0, 4.0 * scale, 5.0 * scale], 2, 2);
        assert!(
            (values[0] / scale - 45f32.sqrt()).abs() < 1e-5 && (values[1] / scale - 5f32.sqrt()).abs() < 1e-5
        );
        let mut a = [2.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 4.0, 9.0].map(|x| x * scale);
        let mut values = [0.0; 3];
        eigenvalues(&mut a, 3, &mut values, None).unwrap();
        assert!(values.iter().zip([1.0, 2.0, 11.0]).all(|(x, y)| (x / scale - y).abs() < 1e-5), "{values:?}");
    }
    assert_eq!(values_of(&[0.0f64; 6], 2, 3), [0.0; 2]);
}

#[test]
fn what_is_not_finite_gives_nan() {
    for n in [1, 5, 70] {
        for x in [f32::NAN, f32::INFINITY] {
            let mut a = numbers::<f32>(n * n);
            a[n * n - 1] = x;
            assert!(values_of(&a, n, n).iter().all(|x| x.is_nan()));
            let (mut values, mut vectors) = (vec![0.0; n], vec![0.0; n * n]);
            eigenvalues(&mut a, n, &mut values, Some(&mut vectors)).unwrap();
            assert!(values.iter().chain(&vectors).all(|x| x.is_nan()));
        }
    }
}

#[test]
fn vectors_rebuild_matrices_of_all_shapes_and_ranks_and_are_orthonormal() {
    for (m, n) in [(1, 1), (5, 3), (3, 5), (17, 17), (70, 35), (30, 90), (100, 100), (4, 0), (0, 4)] {
        for rank in [n, n / 2] {
            for full in [false, true] {
                let mut a = numbers::<f64>(m * n);
                a.iter_mut().enumerate().filter(|(i, _)| i % n >= rank).for_each(|(_, x)| *x = 0.0);
                let k = m.min(n);
                let (columns, rows) = if full { (m, n) } else { (k, k) };
                let (mut s, mut u, mut v) = (vec![0.0; k], vec![0.0; m * columns], vec![0.0; rows * n]);
                let vectors = Vectors { left: &mut u, columns, right: &mut v };
                singular_values(&mut a.clone(), (m, n), &mut s, Some(vectors)).unwrap();
                assert!(s.is_sorted_by(|a, b| a >= b) && s.iter().all(|&x| x >= 0.0));
                let near =
                    |sum: f64, want: f64| assert!((sum - want).abs() < 1e-12, "{m} by {n}: {sum}, {want}");
                for i in 0..m * n {
                    near((0..k).map(|l| u[i / n * columns + l] * s[l] * v[l * n + i % n]).sum(), a[i]);
                }
                let one = |i: usize, j: usize| f64::from(u8::from(i == j));
                for (i, j) in (0..columns).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                    near((0..m).map(|l| u[l * columns + i] * u[l * columns + j]).sum(), one(i, j));
                }
                for (i, j) in (0..rows).flat_map(|i| (0..rows).map(move |j| (i, j))) {
                    near((0..n).map(|l| v[i * n + l] * v[j * n + l]).sum(), one(i, j));
                }
            }
        }
    }
}

#[test]
fn eigenvectors_rebuild_matrices_also_with_equal_eigenvalues_and_are_orthonormal() {
    for n in [0, 1, 2, 17, 47, 48, 49, 130] {
        let at = |i: usize, j: usize| ((i.min(j) * 31 + i.max(j) * 7919) as f64 * 0.37).sin();
        for size in [n, n / 2] {
            let a: Vec<f64> = (0..n * n)
                .map(|k| if k / n < size && k % n < size { at(k / n, k % n) } else { 0.0 })
                .collect();
            let (mut values, mut vectors) = (vec![0.0; n], vec![0.0; n * n]);
            eigenvalues(&mut a.clone(), n, &mut values, Some(&mut vectors)).unwrap();
            assert!(values.is_sorted());
            for (k, want) in a.iter().enumerate() {
                let (i, j) = (k / n, k % n);
                let sum: f64 = (0..n).map(|l| vectors[i * n + l] * values[l] * vectors[j * n + l]).sum();
                assert!((sum - want).abs() < 1e-12, "{n}, {size}: {sum} at {i}, {j}");
                let sum: f64 = (0..n).map(|l| vectors[i * n + l] * vectors[j * n + l]).sum();
                assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for n in [3, 64, 200] {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let (mut values, mut left, mut right) =
                    (vec![0f32; 2 * n], vec![0.0; n * n], vec![0.0; n * n]);
                let (singular, eigen) = values.split_at_mut(n);
                let mut symmetric = vec![0.0; n * n];
                eigenvalues(&mut numbers(n * n), n, eigen, Some(&mut symmetric)).unwrap();
                let vectors = Vectors { left: &mut left, columns: n, right: &mut right };
                singular_values(&mut numbers(n * n), (n, n), singular, Some(vectors)).unwrap();
                [values, symmetric, left, right].concat().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            })
        };
        let one = run(1);
        assert!([2, 3, 8].into_iter().all(|threads| run(threads) == one));
    }
}
