//! Fourier transforms of real numbers.

use fx_core::{Arg, Array};

use crate::testing::{call1, tensor};

#[test]
fn a_constant_spectrum_is_an_impulse() {
    let x = tensor(Array::from_vec(vec![1.0f64; 4], &[4]).unwrap());
    let y = call1("fft_irfft", &[x]).unwrap().to_vec::<f64>().unwrap();
    let expected = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert!(y.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{y:?}");
}

#[test]
fn threads_do_not_change_a_spectrum() {
    let x: Vec<f32> = (0..60_000).map(|i| (i as f32 * 0.37).sin()).collect();
    let x = tensor(Array::from_vec(x, &[2, 30_000]).unwrap());
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| call1("stft", &[x.clone(), Arg::Int(100)]).unwrap())
    };
    assert!(run(1).bits_eq(&run(3)));
}
