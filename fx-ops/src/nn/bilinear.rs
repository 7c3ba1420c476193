//! [`Bilinear`].

use fx_core::{Parameter, Tensor};
use fx_macros::{Module, forward};

use super::init;
use crate::ops::products::bilinear;

/// `x1 @ weight[o] @ x2 + bias[o]` for each output `o`, over the last axes. Weights determine it; without a
/// stored bias it has none.
#[derive(Module)]
#[module(leaf, repr = "Self::repr")]
pub struct Bilinear {
    /// `[out_features, in1_features, in2_features]`.
    pub weight: Parameter,
    /// `[out_features]`.
    pub bias: Option<Parameter>,
}

impl Bilinear {
    /// Makes a layer with a bias.
    pub fn new(in1_features: usize, in2_features: usize, out_features: usize) -> Self {
        Bilinear {
            bias: Some(init::fan_in_uniform(&[out_features], in1_features)),
            ..Bilinear::without_bias(in1_features, in2_features, out_features)
        }
    }

    /// Makes a layer without a bias.
    pub fn without_bias(in1_features: usize, in2_features: usize, out_features: usize) -> Self {
        let weight = init::fan_in_uniform(&[out_features, in1_features, in2_features], in1_features);
        Bilinear { weight, bias: None }
    }

    fn repr(&self) -> String {
        let [outputs, first, second] = [0, 1, 2].map(|axis| init::size(&self.weight, axis));
        let bias = self.bias.is_some();
        format!("in1_features={first}, in2_features={second}, out_features={outputs}, bias={bias}")
    }
}

#[forward]
impl Bilinear {
    /// Maps the last axes, of sizes `in1_features` and `in2_features`, to `out_features`; the others are equal.
    #[track_caller]
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Tensor {
        bilinear(x1, x2, &self.weight, &self.bias)
    }
}
