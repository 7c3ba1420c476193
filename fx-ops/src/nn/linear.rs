//! [`Linear`].

use fx_core::{Parameter, Tensor};
use fx_macros::{Module, forward};

use super::init;
use crate::ops::linalg::linear;

/// `x @ weight.T + bias` over the last axis. Weights determine it; without a stored bias it has none.
#[derive(Module)]
#[module(leaf, repr = "Self::repr")]
pub struct Linear {
    /// `[out_features, in_features]`.
    pub weight: Parameter,
    /// `[out_features]`.
    pub bias: Option<Parameter>,
}

impl Linear {
    /// Makes a layer with a bias.
    pub fn new(in_features: usize, out_features: usize) -> Self {
        Linear {
            weight: init::fan_in_uniform(&[out_features, in_features], in_features),
            bias: Some(init::fan_in_uniform(&[out_features], in_features)),
        }
    }

    /// Makes a layer without a bias.
    pub fn without_bias(in_features: usize, out_features: usize) -> Self {
        Linear { weight: init::fan_in_uniform(&[out_features, in_features], in_features), bias: None }
    }

    fn repr(&self) -> String {
        let (outputs, inputs) = (init::size(&self.weight, 0), init::size(&self.weight, 1));
        format!("in_features={inputs}, out_features={outputs}, bias={}", self.bias.is_some())
    }
}

#[forward]
impl Linear {
    /// Maps the last axis, of size `in_features`, to `out_features`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        linear(x, &self.weight, &self.bias)
    }
}
