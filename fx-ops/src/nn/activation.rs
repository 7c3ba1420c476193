//! Activation functions as modules, for places that take a module.

use fx_core::Tensor;
use fx_macros::{Module, forward};

use super::load_default;
use crate::ops::normalization::softmax;
use crate::ops::pointwise::{gelu, gelu_tanh, hardswish, leaky_relu, relu, relu6, sigmoid, silu, tanh};

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident = $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Debug, Default)]
        #[module(leaf)]
        pub struct $name;

        #[forward]
        impl $name {
            /// Applies the function to each element.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                $function(x)
            }
        }
    )*};
}
activations! {
    /// The greater of each element and zero.
    ReLU = relu;
    /// Each element, but at least 0 and at most 6.
    ReLU6 = relu6;
    /// `x * sigmoid(x)`.
    SiLU = silu;
    /// `1 / (1 + exp(-x))`.
    Sigmoid = sigmoid;
    /// The hyperbolic tangent.
    Tanh = tanh;
    /// `x * relu6(x + 3) / 6`.
    Hardswish = hardswish;
}

/// `x` times the normal distribution function of `x`, exact or approximated by tanh. Loading gives the exact one.
#[derive(Module, Debug, Default)]
#[module(leaf, no_load, repr = "Self::repr")]
pub struct GELU {
    /// Whether the approximation by tanh is used.
    #[module(skip)]
    pub tanh: bool,
}
load_default!(GELU);

impl GELU {
    /// Makes the approximation by tanh, PyTorch's `approximate="tanh"`.
    pub fn tanh() -> Self {
        GELU { tanh: true }
    }

    fn repr(&self) -> String {
        format!("approximate={:?}", if self.tanh { "tanh" } else { "none" })
    }
}

#[forward]
impl GELU {
    /// Applies the function to each element.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if self.tanh { gelu_tanh(x) } else { gelu(x) }
    }
}

/// Positive elements as they are, others times `negative_slope`. Loading gives it PyTorch's default slope, 0.01.
#[derive(Module, Debug)]
#[module(leaf, no_load, repr = "Self::repr")]
pub struct LeakyReLU {
    /// The factor of negative elements.
    #[module(skip)]
    pub negative_slope: f64,
}

impl Default for LeakyReLU {
    fn default() -> Self {
        LeakyReLU { negative_slope: 0.01 }
    }
}
load_default!(LeakyReLU);

impl LeakyReLU {
    /// Makes a layer with this slope.
    pub fn new(negative_slope: f64) -> Self {
        LeakyReLU { negative_slope }
    }

    fn repr(&self) -> String {
        format!("negative_slope={}", self.negative_slope)
    }
}

#[forward]
impl LeakyReLU {
    /// Applies the function to each element.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        leaky_relu(x, self.negative_slope)
    }
}

/// Makes positive numbers that sum to one along an axis.
#[derive(Module, Debug)]
#[module(leaf, no_load, repr = "Self::repr")]
pub struct Softmax {
    /// The axis.
    #[module(skip)]
    pub dim: i64,
}

impl Softmax {
    /// Makes a softmax over `dim`; negative axes count from the end.
    pub fn new(dim: i64) -> Self {
        Softmax { dim }
    }

    fn repr(&self) -> String {
        format!("dim={}", self.dim)
    }
}

#[forward]
impl Softmax {
    /// Applies the softmax over the axis.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        softmax(x, self.dim)
    }
}
