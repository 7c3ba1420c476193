//! Fourier transforms of complex numbers.

use fx_core::{Arg, Array};

use crate::testing::{call1, tensor};

fn close(got: &Array, expected: &[f64]) {
    let got = got.to_vec::<f64>().unwrap();
    assert!(
        got.len() == expected.len() && got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9),
        "{got:?}\nexpected {expected:?}"
    );
}

/// By the definition of the transform over both axes.
#[test]
fn two_axes_are_the_double_sum() {
    let (rows, columns) = (3usize, 4usize);
    let data: Vec<f64> = (0..24).map(|i| (i as f64 * 1.7).sin()).collect();
    let x = Array::from_vec(data.clone(), &[rows, columns, 2]).unwrap();
    let mut expected = Vec::new();
    for (u, v) in (0..rows).flat_map(|u| (0..columns).map(move |v| (u, v))) {
        let (mut sum_re, mut sum_im) = (0.0, 0.0);
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let turn = (u * i) as f64 / rows as f64 + (v * j) as f64 / columns as f64;
            let at = 2 * (i * columns + j);
            let (sin, cos) = (-std::f64::consts::TAU * turn).sin_cos();
            sum_re += data[at] * cos - data[at + 1] * sin;
            sum_im += data[at] * sin + data[at + 1] * cos;
        }
        expected.extend([sum_re / 12.0, sum_im / 12.0]);
    }
    let args = [tensor(x), Arg::ints([0, 1]), Arg::Int(2)];
    close(&call1("_fft_c2c", &args).unwrap(), &expected);
}

#[test]
fn there_and_back_is_the_signal() {
    for n in [1usize, 2, 5, 6] {
        let data: Vec<f64> = (0..3 * n).map(|i| (i as f64).cos()).collect();
        let x = tensor(Array::from_vec(data.clone(), &[n, 3]).unwrap());
        let half = call1("_fft_r2c", &[x, Arg::ints([1, 0]), Arg::Int(1)]).unwrap();
        assert_eq!(half.shape(), [n / 2 + 1, 3, 2]);
        let args = [tensor(half), Arg::ints([1, 0]), Arg::Int(1), Arg::Int(n as i64)];
        close(&call1("_fft_c2r", &args).unwrap(), &data);
    }
}

#[test]
fn wrong_axes_are_refused() {
    let x = || tensor(Array::from_vec(vec![0.0f32; 8], &[4, 2]).unwrap());
    assert!(call1("_fft_c2c", &[x(), Arg::ints([1])]).is_err());
    assert!(call1("_fft_c2c", &[x(), Arg::ints([])]).is_err());
    assert!(call1("_fft_r2c", &[x(), Arg::ints([0, 0])]).is_err());
    assert!(call1("_fft_c2r", &[x(), Arg::ints([0]), Arg::Int(0), Arg::Int(1 << 60)]).is_err());
}
