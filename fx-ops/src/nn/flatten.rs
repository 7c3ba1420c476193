//! [`Flatten`].

use fx_core::Tensor;
use fx_macros::{Module, forward};

use super::load_default;
use crate::ops::view::flatten;

/// Makes one axis of several: by default of all but the first, the batch. Loading gives it the default axes.
#[derive(Module, Debug)]
#[module(leaf, no_load, repr = "Self::repr")]
pub struct Flatten {
    /// The first of the axes.
    #[module(skip)]
    pub start_dim: i64,
    /// The last of the axes.
    #[module(skip)]
    pub end_dim: i64,
}

impl Default for Flatten {
    fn default() -> Self {
        Flatten { start_dim: 1, end_dim: -1 }
    }
}
load_default!(Flatten);

impl Flatten {
    /// Flattens the axes from `start_dim` to `end_dim`, both included; negative ones count from the end.
    pub fn new(start_dim: i64, end_dim: i64) -> Self {
        Flatten { start_dim, end_dim }
    }

    fn repr(&self) -> String {
        format!("start_dim={}, end_dim={}", self.start_dim, self.end_dim)
    }
}

#[forward]
impl Flatten {
    /// Flattens the axes.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        flatten(x, self.start_dim, self.end_dim)
    }
}
