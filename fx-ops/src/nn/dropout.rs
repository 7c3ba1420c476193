//! [`Dropout`].

use fx_core::Tensor;
use fx_macros::{Module, forward};

use super::load_default;
use crate::ops::random::dropout;

/// In training, zeroes each element with probability `p` and scales the others up; otherwise it does nothing.
/// Loading gives it PyTorch's default probability, 0.5.
#[derive(Module, Debug)]
#[module(leaf, impure = "Self::drops", no_load, repr = "Self::repr")]
pub struct Dropout {
    /// The probability of zero.
    #[module(skip)]
    pub p: f64,
    /// Whether elements are dropped.
    #[module(training)]
    pub training: bool,
}

impl Default for Dropout {
    fn default() -> Self {
        Dropout::new(0.5)
    }
}
load_default!(Dropout);

impl Dropout {
    /// Makes a layer that drops with probability `p`, in evaluation mode.
    pub fn new(p: f64) -> Self {
        Dropout { p, training: false }
    }

    /// Returns whether a call draws random numbers.
    fn drops(&self) -> bool {
        self.training
    }

    fn repr(&self) -> String {
        format!("p={}", self.p)
    }
}

#[forward]
impl Dropout {
    /// Drops elements, in training.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if self.training { dropout(x, self.p, true) } else { x.clone() }
    }
}
