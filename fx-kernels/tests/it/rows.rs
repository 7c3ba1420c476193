//! Kernels of rows.

use fx_kernels::rows::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn softmax_is_as_exact_as_the_differences(
        row in prop::collection::vec(-60f32..60.0, 1..100), offset in prop::sample::select(vec![0f32, 1000.0, -1e6]),
    ) {
        let row: Vec<f32> = row.into_iter().map(|x| x + offset).collect();
        let greatest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let exponentials: Vec<f64> = row.iter().map(|&x| (f64::from(x) - greatest).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        let (mut got, mut also) = (row.clone(), vec![0.0; row.len()]);
        softmax_row(&mut got, false);
        fx_simd::call::<softmax_of_rows, _>((&row[..], &mut also[..], row.len()));
        prop_assert_eq!(&got, &also);
        for ((&x, got), e) in row.iter().zip(got).zip(exponentials) {
            let (want, relative) = (e / sum, 4e-7 + 1e-7 * (greatest - f64::from(x)));
            // Subnormals are rounded twice.
            prop_assert!((f64::from(got) - want).abs() < relative * want + 1.5e-45, "{} of {}", got, x);
        }
    }
}

#[test]
fn softmax_of_extremes() {
    let softmax = |row: &[f32]| {
        let (mut got, mut also) = (row.to_vec(), vec![0.0; row.len()]);
        softmax_row(&mut got, false);
        fx_simd::call::<softmax_of_rows, _>((row, &mut also[..], row.len()));
        assert!(got.iter().zip(&also).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()));
        got
    };
    let (least, most, inf) = (f32::MIN, f32::MAX, f32::INFINITY);
    assert_eq!(softmax(&[least; 4]), [0.25; 4]);
    assert_eq!(softmax(&[most, most, least]), [0.5, 0.5, 0.0]);
    assert_eq!(softmax(&[least, 5.0, least, 5.0]), [0.0, 0.5, 0.0, 0.5]);
    assert_eq!(softmax(&[-inf, 0.0, -inf]), [0.0, 1.0, 0.0]);
    assert_eq!(softmax(&[-3e38, 1.0]), [0.0, 1.0]);
    assert!(softmax(&[-inf; 3]).iter().all(|x| x.is_nan()));
    assert!(softmax(&[inf, 0.0])[0].is_nan());
    // NaN wins, whatever its bits are.
    for bits in [0x7fc0_0000, 0xffc0_0000, 0x7fc0_0001, 0x7fff_ffff] {
        assert!(softmax(&[0.0, f32::from_bits(bits), 1.0]).iter().all(|x| x.is_nan()), "{bits:x}");
    }
    assert_eq!(softmax(&[0.0, -100.0])[1], (-100f64).exp() as f32, "a subnormal");
}
