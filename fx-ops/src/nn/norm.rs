//! Normalisation: batch, layer, group and root-mean-square norms.

use fx_core::module::load::{FromWeights, WeightSource, join};
use fx_core::{Array, Buffer, Parameter, Result, Tensor, call, err};
use fx_macros::{Module, forward};

use super::extent::Sizes;
use super::init;
use crate::ops::normalization::{batch_norm, group_norm, layer_norm, rms_norm};
use crate::ops::reduce::{mean, var};
use crate::ops::view::{flatten, transpose};

/// The default of every norm's `eps` but the root-mean-square norm's.
const EPS: f64 = 1e-5;

macro_rules! batch_norms {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// It uses the running statistics; in training, and if it has none, those of the batch. In training
        /// it updates them. Loading gives it PyTorch's default `eps` (1e-5) and `momentum` (0.1).
        #[derive(Module)]
        #[module(leaf, impure = "Self::tracks", no_load, repr = "Self::repr")]
        pub struct $name {
            /// The factor of each channel.
            pub weight: Option<Parameter>,
            /// The bias of each channel.
            pub bias: Option<Parameter>,
            /// The mean of each channel over past batches.
            pub running_mean: Option<Buffer>,
            /// The variance of each channel over past batches.
            pub running_var: Option<Buffer>,
            /// The number of past batches.
            pub num_batches_tracked: Option<Buffer>,
            /// The epsilon, which is added to the variance.
            #[module(skip)]
            pub eps: f64,
            /// The share of a new batch in the running statistics.
            #[module(skip)]
            pub momentum: f64,
            /// Whether statistics of the batch are used and tracked.
            #[module(training)]
            pub training: bool,
            #[module(skip)]
            num_features: usize,
        }

        impl $name {
            /// Makes a norm of this many channels, with factors 1.
            pub fn new(num_features: usize) -> Self {
                let shape = [num_features];
                $name {
                    weight: Some(init::ones(&shape)),
                    bias: Some(init::zeros(&shape)),
                    running_mean: Some(Buffer::new(init::full(&shape, 0.0))),
                    running_var: Some(Buffer::new(init::full(&shape, 1.0))),
                    num_batches_tracked: Some(Buffer::new(Array::scalar(0i64))),
                    eps: EPS,
                    momentum: 0.1,
                    training: false,
                    num_features,
                }
            }

            /// Sets the epsilon, which is added to the variance.
            #[must_use]
            pub fn eps(self, eps: f64) -> Self {
                $name { eps, ..self }
            }

            /// Sets the share of a new batch in the running statistics.
            #[must_use]
            pub fn momentum(self, momentum: f64) -> Self {
                $name { momentum, ..self }
            }

            /// Removes the weight and the bias.
            #[must_use]
            pub fn without_affine(self) -> Self {
                $name { weight: None, bias: None, ..self }
            }

            /// Removes the running statistics: those of the batch are always used.
            #[must_use]
            pub fn without_running_stats(self) -> Self {
                $name { running_mean: None, running_var: None, num_batches_tracked: None, ..self }
            }

            /// Returns whether a call updates the running statistics.
            fn tracks(&self) -> bool {
                self.training
                    && [&self.running_mean, &self.running_var, &self.num_batches_tracked].iter().any(|buffer| buffer.is_some())
            }

            fn repr(&self) -> String {
                format!(
                    "{}, eps={:?}, momentum={}, affine={}, track_running_stats={}",
                    self.num_features, self.eps, self.momentum, self.weight.is_some(), self.running_mean.is_some()
                )
            }
        }

        impl<W: WeightSource + ?Sized> FromWeights<W> for $name {
            fn from_weights(weights: &W, path: &str) -> Result<Self> {
                let parameter = |name| Option::<Parameter>::from_weights(weights, &join(path, name));
                let buffer = |name| Option::<Buffer>::from_weights(weights, &join(path, name));
                let (weight, running_mean) = (parameter("weight")?, buffer("running_mean")?);
                let one = match (&weight, &running_mean) {
                    (Some(weight), _) => weight.tensor().clone(),
                    (None, Some(mean)) => mean.get(),
                    (None, None) => weights.require(&join(path, "weight"))?,
                };
                Ok($name {
                    weight,
                    bias: parameter("bias")?,
                    running_mean,
                    running_var: buffer("running_var")?,
                    num_batches_tracked: buffer("num_batches_tracked")?,
                    num_features: one.array()?.numel(),
                    ..$name::new(0)
                })
            }
        }

        #[forward]
        impl $name {
            /// Normalises each channel of `[batch, channels, sizes..]`.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                let (mean, var) = (self.running_mean.as_ref(), self.running_var.as_ref());
                let of_batch = self.training || mean.is_none() || var.is_none();
                let y = batch_norm(
                    x, mean.map(Buffer::get), var.map(Buffer::get), &self.weight, &self.bias,
                    of_batch, self.momentum, self.eps,
                );
                if !self.training {
                    return y;
                }
                match track(x, self.momentum, mean, var, self.num_batches_tracked.as_ref()) {
                    Ok(()) => y,
                    Err(error) => Tensor::failed(error),
                }
            }
        }
    )*};
}
batch_norms! {
    /// Normalises channels of `[batch, channels]` or `[batch, channels, length]` over all other axes.
    BatchNorm1d;
    /// Normalises channels of `[batch, channels, height, width]` over all other axes.
    BatchNorm2d;
}

/// Moves running statistics towards those of a batch.
fn track(
    x: &Tensor,
    momentum: f64,
    running_mean: Option<&Buffer>,
    running_var: Option<&Buffer>,
    num_batches: Option<&Buffer>,
) -> Result<()> {
    // The same whether the type of x is known, so that inlining changes no bit.
    let channels = flatten(transpose(x, 0, 1), 1, -1);
    let update =
        |running: &Buffer, batch: Tensor| running.set(&(running.get() * (1.0 - momentum) + batch * momentum));
    if let Some(running) = running_mean {
        update(running, mean(&channels, 1, false))?;
    }
    if let Some(running) = running_var {
        update(running, var(&channels, 1, 1.0, false))?;
    }
    if let Some(n) = num_batches {
        n.set(&(n.get() + 1))?;
    }
    Ok(())
}

/// Normalises over the last axes, of fixed sizes. Loading takes their sizes from the weight and PyTorch's
/// default `eps`, 1e-5.
#[derive(Module)]
#[module(leaf, no_load, repr = "Self::repr")]
pub struct LayerNorm {
    /// The factor of each element.
    pub weight: Option<Parameter>,
    /// The bias of each element.
    pub bias: Option<Parameter>,
    /// The sizes of the last axes.
    #[module(skip)]
    pub normalized_shape: Vec<usize>,
    /// The epsilon, which is added to the variance.
    #[module(skip)]
    pub eps: f64,
}

impl LayerNorm {
    /// Makes a norm over the last axes, of these sizes: `LayerNorm::new(384)`.
    pub fn new(normalized_shape: impl Into<Sizes>) -> Self {
        let Sizes(normalized_shape) = normalized_shape.into();
        LayerNorm {
            weight: Some(init::ones(&normalized_shape)),
            bias: Some(init::zeros(&normalized_shape)),
            normalized_shape,
            eps: EPS,
        }
    }

    /// Sets the epsilon, which is added to the variance.
    #[must_use]
    pub fn eps(self, eps: f64) -> Self {
        LayerNorm { eps, ..self }
    }

    /// Removes the bias.
    #[must_use]
    pub fn without_bias(self) -> Self {
        LayerNorm { bias: None, ..self }
    }

    /// Removes factors and bias.
    #[must_use]
    pub fn without_affine(self) -> Self {
        LayerNorm { weight: None, bias: None, ..self }
    }

    fn repr(&self) -> String {
        let shape = Sizes(self.normalized_shape.clone()).repr();
        format!("{shape}, eps={:?}, elementwise_affine={}", self.eps, self.weight.is_some())
    }
}

impl<W: WeightSource + ?Sized> FromWeights<W> for LayerNorm {
    fn from_weights(weights: &W, path: &str) -> Result<Self> {
        let weight = Parameter::from_weights(weights, &join(path, "weight"))?;
        Ok(LayerNorm {
            normalized_shape: weight.array()?.shape().to_vec(),
            weight: Some(weight),
            bias: Option::from_weights(weights, &join(path, "bias"))?,
            eps: EPS,
        })
    }
}

#[forward]
impl LayerNorm {
    /// Normalises over the last axes.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        layer_norm(x, &self.normalized_shape, &self.weight, &self.bias, self.eps)
    }
}

/// Divides by the root of the mean of squares over the last axes. Loading takes their sizes from the weight
/// and PyTorch's default `eps`, the smallest step of the dtype above 1.
#[derive(Module)]
#[module(leaf, no_load, repr = "Self::repr")]
pub struct RMSNorm {
    /// The factor of each element.
    pub weight: Option<Parameter>,
    /// The sizes of the last axes.
    #[module(skip)]
    pub normalized_shape: Vec<usize>,
    /// The epsilon, which is added to the mean of squares; nothing stands for the smallest step of the dtype
    /// above 1.
    #[module(skip)]
    pub eps: Option<f64>,
}

impl RMSNorm {
    /// Makes a norm over the last axes, of these sizes.
    pub fn new(normalized_shape: impl Into<Sizes>) -> Self {
        let Sizes(normalized_shape) = normalized_shape.into();
        RMSNorm { weight: Some(init::ones(&normalized_shape)), normalized_shape, eps: None }
    }

    /// Sets the epsilon, which is added to the mean of squares.
    #[must_use]
    pub fn eps(self, eps: f64) -> Self {
        RMSNorm { eps: Some(eps), ..self }
    }

    /// Removes the factors.
    #[must_use]
    pub fn without_affine(self) -> Self {
        RMSNorm { weight: None, ..self }
    }

    fn repr(&self) -> String {
        let shape = Sizes(self.normalized_shape.clone()).repr();
        let eps = self.eps.map_or_else(|| "none".to_owned(), |eps| format!("{eps:?}"));
        format!("{shape}, eps={eps}, elementwise_affine={}", self.weight.is_some())
    }
}

impl<W: WeightSource + ?Sized> FromWeights<W> for RMSNorm {
    fn from_weights(weights: &W, path: &str) -> Result<Self> {
        let weight = Parameter::from_weights(weights, &join(path, "weight"))?;
        Ok(RMSNorm { normalized_shape: weight.array()?.shape().to_vec(), weight: Some(weight), eps: None })
    }
}

#[forward]
impl RMSNorm {
    /// Normalises over the last axes.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        rms_norm(x, &self.normalized_shape, &self.weight, self.eps)
    }
}

/// Normalises groups of channels of `[batch, channels, sizes..]`, each example by itself.
#[derive(Module)]
#[module(leaf, no_load, repr = "Self::repr")]
pub struct GroupNorm {
    /// The factor of each channel.
    pub weight: Option<Parameter>,
    /// The bias of each channel.
    pub bias: Option<Parameter>,
    /// The number of groups.
    #[module(skip)]
    pub num_groups: usize,
    /// The epsilon, which is added to the variance.
    #[module(skip)]
    pub eps: f64,
    #[module(skip)]
    num_channels: usize,
}

impl GroupNorm {
    /// Makes a norm of `num_groups` groups, which must divide `num_channels`.
    pub fn new(num_groups: usize, num_channels: usize) -> Self {
        let (weight, bias) = if num_groups != 0 && num_channels.is_multiple_of(num_groups) {
            (init::ones(&[num_channels]), init::zeros(&[num_channels]))
        } else {
            let error = err!(Shape, "{num_groups} groups do not divide {num_channels} channels");
            (Tensor::failed(error.clone()).into(), Tensor::failed(error).into())
        };
        GroupNorm { weight: Some(weight), bias: Some(bias), num_groups, eps: EPS, num_channels }
    }

    /// Sets the epsilon, which is added to the variance.
    #[must_use]
    pub fn eps(self, eps: f64) -> Self {
        GroupNorm { eps, ..self }
    }

    /// Removes the weight and the bias.
    #[must_use]
    pub fn without_affine(self) -> Self {
        GroupNorm { weight: None, bias: None, ..self }
    }

    fn repr(&self) -> String {
        let affine = self.weight.is_some();
        format!("{}, {}, eps={:?}, affine={affine}", self.num_groups, self.num_channels, self.eps)
    }
}

#[forward]
impl GroupNorm {
    /// Normalises each group of each example.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let parameter = |parameter: &Option<Parameter>| parameter.as_ref().map(|it| it.tensor().clone());
        let (weight, bias) = (parameter(&self.weight), parameter(&self.bias));
        call!(group_norm(x, self.num_groups, weight, bias, eps = self.eps))
    }
}
