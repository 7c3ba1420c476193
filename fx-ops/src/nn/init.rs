//! Initial values of parameters, as PyTorch's layers choose them, from the random generator in force.
//!
//! A shape that is impossible gives a parameter that carries the error.

use fx_core::array::{checked_numel, try_vec};
use fx_core::rng::{Generator, default_generator};
use fx_core::{Array, DType, Parameter, Result, Scalar, Tensor};

fn random(shape: &[usize], fill: impl FnOnce(&Generator, &mut [f32])) -> Parameter {
    let array = || -> Result<Array> {
        let numel = checked_numel(shape)?;
        let mut data: Vec<f32> = try_vec(numel)?;
        data.resize(numel, 0.0);
        fill(&default_generator(), &mut data);
        Array::from_vec(data, shape)
    };
    Parameter::new(Tensor::from(array()))
}

/// Uniform between `-bound` and `bound`.
pub(super) fn uniform(shape: &[usize], bound: f64) -> Parameter {
    random(shape, |generator, data| {
        generator.fill_uniform_f32(data);
        let bound = bound as f32;
        data.iter_mut().for_each(|x| *x = (2.0 * *x - 1.0) * bound);
    })
}

/// Uniform with the bound that PyTorch takes for the weights and biases of layers with `fan_in` inputs an output.
pub(super) fn fan_in_uniform(shape: &[usize], fan_in: usize) -> Parameter {
    uniform(shape, if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() })
}

/// Uniform with Glorot and Bengio's bound for a matrix `[outputs, inputs]`.
pub(super) fn xavier_uniform(outputs: usize, inputs: usize) -> Parameter {
    uniform(&[outputs, inputs], (6.0 / (outputs as f64 + inputs as f64).max(1.0)).sqrt())
}

/// Standard normal.
pub(super) fn normal(shape: &[usize]) -> Parameter {
    random(shape, Generator::fill_normal_f32)
}

/// The same number everywhere.
pub(super) fn full(shape: &[usize], x: f32) -> Tensor {
    Array::full(DType::F32, shape, Scalar::Float(x.into())).into()
}

/// Ones.
pub(super) fn ones(shape: &[usize]) -> Parameter {
    Parameter::new(full(shape, 1.0))
}

/// Zeros.
pub(super) fn zeros(shape: &[usize]) -> Parameter {
    Parameter::new(full(shape, 0.0))
}

/// Returns size `axis` of a parameter, for the printed tree; `?` if it holds an error.
pub(super) fn size(parameter: &Parameter, axis: usize) -> String {
    match parameter.array() {
        Ok(array) if axis < array.rank() => array.shape()[axis].to_string(),
        _ => "?".to_owned(),
    }
}
