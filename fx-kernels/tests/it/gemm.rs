//! Matrix products of all layouts.

use fx_kernels::gemm::tile::tile_f64;
use fx_kernels::gemm::*;
use proptest::prelude::*;

/// Returns the number of elements from the first to the last of a matrix.
fn extent(rows: usize, cols: usize, (rs, cs): Strides) -> usize {
    if rows == 0 || cols == 0 { 0 } else { (rows - 1) * rs + (cols - 1) * cs + 1 }
}

/// Lays a matrix out with the strides of one of three layouts; returns data and strides.
fn lay_out(rows: usize, cols: usize, layout: u8, seed: u32) -> (Vec<f64>, Strides) {
    let strides = match layout {
        0 => (cols, 1),
        1 => (1, rows),
        _ => (2 * cols + 1, 2),
    };
    let data = (0..extent(rows, cols, strides) as u32)
        .map(|i| f64::from((i + 1).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 24) - 128.0)
        .collect();
    (data, strides)
}

fn naive(m: usize, k: usize, n: usize, a: &[f64], sa: Strides, b: &[f64], sb: Strides) -> Vec<f64> {
    let cell = |i: usize, j: usize| (0..k).map(|p| a[i * sa.0 + p * sa.1] * b[p * sb.0 + j * sb.1]).sum();
    (0..m * n).map(|at| cell(at / n, at % n)).collect()
}

proptest! {
    #[test]
    fn gemm_is_the_definition(
        (m, k, n) in (0usize..9, 0usize..40, 0usize..9), layouts in [0u8..3, 0u8..3, 0u8..3], seed: u32,
        (alpha, beta) in (-2i8..3, -1i8..2),
    ) {
        let (alpha, beta) = (f64::from(alpha), f64::from(beta));
        let (a, sa) = lay_out(m, k, layouts[0], seed);
        let (b, sb) = lay_out(k, n, layouts[1], !seed);
        let (mut c, sc) = lay_out(m, n, layouts[2], seed / 3);
        let product = naive(m, k, n, &a, sa, &b, sb);
        let mut want = c.clone();
        for i in 0..m * n {
            let slot = &mut want[i / n * sc.0 + i % n * sc.1];
            *slot = alpha * product[i] + beta * *slot;
        }
        if beta == 0.0 {
            for i in 0..m * n {
                c[i / n * sc.0 + i % n * sc.1] = f64::NAN;
            }
        }
        let single = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<_>>();
        let mut c32 = single(&c);
        gemm_f32(m, k, n, alpha as f32, &single(&a), sa, &single(&b), sb, beta as f32, &mut c32, sc);
        gemm_f64(m, k, n, alpha, &a, sa, &b, sb, beta, &mut c, sc);
        prop_assert_eq!(&c, &want);
        prop_assert_eq!(c32, single(&want));
    }

    #[test]
    fn products_are_finished_tile_by_tile(
        (m, k) in prop_oneof![
            (1usize..40, prop::sample::select(vec![1usize, 7, 385, 800])),
            (Just(1), prop::sample::select(vec![7usize, 800, 5000])),
        ],
        n in 1usize..80, seed: u32,
        (has_bias, has_other, is_bounded, packs) in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let Some(tile) = tile_f64() else { return Ok(()) };
        let (a, sa) = lay_out(m, k, 0, seed);
        let (b, sb) = lay_out(k, n, 1, !seed);
        let [(bias, _), (other, sc)] = [lay_out(1, n, 0, seed / 5), lay_out(m, n, 0, seed / 7)];
        let bounds = is_bounded.then_some((-3000.0, 500.0));
        let mut want = naive(m, k, n, &a, sa, &b, sb);
        for (i, x) in want.iter_mut().enumerate() {
            *x += if has_bias { bias[i % n] } else { 0.0 };
            *x += if has_other { other[i] } else { 0.0 };
            *x = bounds.map_or(*x, |(low, high)| x.clamp(low, high));
        }
        let product =
            Product { tile, m, k, n, alpha: 1.0, beta: 0.0, shared: true, wide_parts: seed % 2 == 0 };
        let epilogue = TileEpilogue { bias: has_bias.then_some(&bias[..]), other: has_other.then_some(&other[..]), bounds };
        let (right, mut left) = (product.packed_right(&b, sb), vec![0.0; product.left_len()]);
        let columns: Vec<f64> = (0..n * k).map(|i| b[i % k * sb.0 + i / k * sb.1]).collect();
        prop_assert_eq!(&product.packed_columns(columns), &right);
        product.pack_left(&a, sa, &mut left);
        let left = if packs { Left::Packed(&left) } else { Left::Strided(&a, sa) };
        let mut got = vec![f64::NAN; m * n];
        // SAFETY: the elements are distinct and lie in the slice.
        unsafe { product.run_then(&left, &Right::Packed(&right), &Output::new(&mut got, sc), epilogue, &|_, _| {}) };
        prop_assert_eq!(got, want);
    }

    #[test]
    fn integers_wrap((m, k, n) in (0usize..11, 0usize..20, 0usize..40), layouts in [0u8..3, 0u8..3], seed: u32) {
        let (a, sa) = lay_out(m, k, layouts[0], seed);
        let (b, sb) = lay_out(k, n, layouts[1], !seed);
        let product = naive(m, k, n, &a, sa, &b, sb);
        let narrow = |x: &[f64]| x.iter().map(|&x| x as i64 as i8).collect::<Vec<_>>();
        let mut c = vec![1i8; m * n];
        gemm_int(m, k, n, &narrow(&a), sa, &narrow(&b), sb, &mut c);
        prop_assert_eq!(c, narrow(&product));
    }

    #[test]
    fn bmm_is_gemm_of_each(batch in 0usize..5, (m, k, n) in (0usize..5, 0usize..5, 0usize..5), shared: bool) {
        let a: Vec<f64> = (0..batch * m * k).map(|x| x as f64).collect();
        let b: Vec<f64> = (0..batch.max(1) * k * n).map(|x| x as f64 - 7.0).collect();
        let bsb = if shared { 0 } else { k * n };
        let mut c = vec![f64::NAN; batch * m * n];
        bmm(batch, m, k, n, 1.0, &a, (m * k, k, 1), &b, (bsb, n, 1), 0.0, &mut c, (m * n, n, 1));
        let want: Vec<f64> = (0..batch)
            .flat_map(|i| naive(m, k, n, &a[i * m * k..], (k, 1), &b[i * bsb..], (n, 1)))
            .collect();
        prop_assert_eq!(c, want);
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    // Among them one whose blocks of `k` are done one after the other by few threads only, and one by all,
    // for it would need much memory.
    let sizes = [
        (300, 301, 70),
        (70, 300, 517),
        (1, 700, 3001),
        (3001, 700, 1),
        (500, 770, 1400),
        (100, 10_240, 300),
    ];
    for (m, k, n) in sizes {
        let fill =
            |len: usize| (0..len).map(|i| ((i * 7919) % 1013) as f32 / 1013.0 - 0.5).collect::<Vec<_>>();
        let (a, b) = (fill(m * k), fill(k * n));
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut c = vec![0.5; m * n];
            pool.install(|| gemm_f32(m, k, n, 0.7, &a, (k, 1), &b, (n, 1), 0.3, &mut c, (n, 1)));
            c
        };
        let c = run(1);
        assert_eq!(c, run(3));
        assert_eq!(c, run(16));
        for at in (0..m * n).step_by(997) {
            let (i, j) = (at / n, at % n);
            let exact: f64 = (0..k).map(|p| f64::from(a[i * k + p]) * f64::from(b[p * n + j])).sum();
            assert!((f64::from(c[at]) - (0.7 * exact + 0.15)).abs() < 1e-4 + 1e-8 * k as f64, "{m} {k} {n}");
        }
    }
}

#[test]
fn short_or_overlapping_slices_are_refused() {
    let run = |a: usize, c: usize, sc: Strides| {
        std::panic::catch_unwind(|| {
            gemm_f32(2, 3, 2, 1.0, &vec![1.0; a], (3, 1), &[1.0; 6], (2, 1), 0.0, &mut vec![0.0; c], sc)
        })
    };
    assert!(run(6, 4, (2, 1)).is_ok());
    assert!(run(5, 4, (2, 1)).is_err());
    assert!(run(6, 3, (2, 1)).is_err());
    assert!(run(6, 4, (1, 1)).is_err());
    assert!(run(6, 4, (usize::MAX, 1)).is_err());
}

#[test]
fn bounds_leave_what_is_no_number_and_the_sign_of_zero() {
    let Some(tile) = tile_f64() else { return };
    let n = tile.cols + 3;
    let product = Product { tile, m: 1, k: 1, n, alpha: 1.0, beta: 0.0, shared: false, wide_parts: false };
    let b: Vec<f64> = (0..n).map(|i| [f64::NAN, -0.0, 7.0, f64::NEG_INFINITY][i % 4]).collect();
    let mut got = vec![1.0; n];
    let epilogue = TileEpilogue { bounds: Some((0.0, 6.0)), ..TileEpilogue::NONE };
    let right = product.packed_right(&b, (n, 1));
    // SAFETY: the elements are distinct and lie in the slice.
    unsafe {
        let out = Output::new(&mut got, (n, 1));
        product.run_then(&Left::Strided(&[1.0], (1, 1)), &Right::Packed(&right), &out, epilogue, &|_, _| {});
    }
    for (i, x) in got.iter().enumerate() {
        // A sum from 0 on is never -0.
        let want = [f64::NAN, 0.0, 6.0, 0.0][i % 4];
        assert!(x.to_bits() == want.to_bits() || (x.is_nan() && want.is_nan()), "{i}: {x}");
    }
}
