//! Tests of compiled functions: the worked programs, and single behaviours.

mod behaviour;
mod integers;
mod narrow;
mod programs;
mod pure;
mod pure_integers;
mod random;
mod reuse;
mod stored;
mod told;

use fx::{Result, Tensor, Value};

/// Makes a tensor of these elements.
fn vector(elements: &[f32]) -> Tensor {
    Tensor::from_vec(elements.to_vec(), &[elements.len()])
}

/// Makes a tensor of small numbers that differ.
fn filled(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 7 + 3) % 11) as f32 * 0.25 - 1.0).collect::<Vec<f32>>(), shape)
}

/// Compares results: tensors within rounding, errors by text and line.
#[track_caller]
fn same(got: &Result<Value>, expected: &Result<Value>) {
    match (got, expected) {
        (Ok(got), Ok(expected)) => {
            let (a, b) = (got.leaves(), expected.leaves());
            assert_eq!(a.len(), b.len());
            for (a, b) in a.into_iter().zip(b) {
                a.all_close(b, 1e-5, 1e-6).unwrap();
            }
        }
        (Err(got), Err(expected)) => assert_eq!(got.to_string(), expected.to_string()),
        (got, expected) => panic!("got {got:?}, expected {expected:?}"),
    }
}
