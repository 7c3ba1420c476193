//! Singular values and inverses.

use fx_core::Array;

use crate::testing::{call1, tensor};

#[test]
fn singular_values_of_a_known_matrix() {
    let x = Array::from_vec(vec![3.0f64, 0.0, 4.0, 5.0], &[2, 2]).unwrap();
    let values = call1("linalg_svdvals", &[tensor(x)]).unwrap().to_vec::<f64>().unwrap();
    assert!(
        (values[0] - 45f64.sqrt()).abs() < 1e-12 && (values[1] - 5f64.sqrt()).abs() < 1e-12,
        "{values:?}"
    );
    let flat = Array::from_vec(vec![0.0f64; 0], &[2, 0]).unwrap();
    assert_eq!(call1("linalg_svdvals", &[tensor(flat)]).unwrap().shape(), [0]);
}

#[test]
fn a_batch_of_systems_gives_the_same_bits_for_any_number_of_threads() {
    let (batch, n) = (300, 9);
    let data: Vec<f32> = (0..batch * n * n).map(|i| ((i * i % 1009 * 7919 % 1013) as f32).sin()).collect();
    let x = Array::from_vec(data, &[batch, n, n]).unwrap();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| call1("linalg_inv", &[tensor(x.clone())]).unwrap())
    };
    assert!(run(1).bits_eq(&run(3)));
}
