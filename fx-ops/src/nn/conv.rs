//! [`Conv1d`], [`Conv2d`] and [`Conv3d`]: one definition for all ranks.

use fx_core::{Parameter, Tensor, call, err};
use fx_macros::{Module, forward};

use super::extent::Extent;
use super::init;
use crate::ops::conv::{conv1d, conv2d, conv3d};

/// Returns the channels of one group of a convolution, or the error.
pub(super) fn channels_of_group(channels: usize, groups: usize) -> fx_core::Result<usize> {
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(err!(Shape, "{groups} groups do not divide {channels} channels"));
    }
    Ok(channels / groups)
}

/// Makes the initial weight `[a, b, kernel..]` and bias, or parameters that carry the error.
pub(super) fn parameters(
    shape: fx_core::Result<[usize; 2]>,
    outputs: usize,
    kernel: &[usize],
) -> (Parameter, Parameter) {
    let [first, second] = match shape {
        Ok(shape) => shape,
        Err(error) => return (Tensor::failed(error.clone()).into(), Tensor::failed(error).into()),
    };
    let fan_in = kernel.iter().fold(second, |n, size| n.saturating_mul(*size));
    let shape: Vec<usize> = [first, second].iter().chain(kernel).copied().collect();
    (init::fan_in_uniform(&shape, fan_in), init::fan_in_uniform(&[outputs], fan_in))
}

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident($rank:literal) = $function:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Weights alone do not make it, because they do not hold stride, padding, dilation and groups.
        #[derive(Module)]
        #[module(leaf, no_load, repr = "Self::repr")]
        pub struct $name {
            /// `[out_channels, in_channels / groups, kernel..]`.
            pub weight: Parameter,
            /// `[out_channels]`.
            pub bias: Option<Parameter>,
            /// The step of the window.
            #[module(skip)]
            pub stride: [usize; $rank],
            /// The zeros on both sides of each axis.
            #[module(skip)]
            pub padding: [usize; $rank],
            /// The distance of the window's elements.
            #[module(skip)]
            pub dilation: [usize; $rank],
            /// The number of groups of channels that do not mix.
            #[module(skip)]
            pub groups: usize,
            #[module(skip)]
            channels: [usize; 2],
            #[module(skip)]
            kernel: [usize; $rank],
        }

        impl $name {
            /// Makes a convolution of stride 1 with a bias, without padding.
            pub fn new(in_channels: usize, out_channels: usize, kernel: impl Into<Extent<$rank>>) -> Self {
                Self::grouped(in_channels, out_channels, kernel.into().0, 1)
            }

            /// Makes a convolution of each channel by itself, as `new(n, n, kernel).groups(n)` does.
            pub fn depthwise(channels: usize, kernel: impl Into<Extent<$rank>>) -> Self {
                Self::grouped(channels, channels, kernel.into().0, channels)
            }

            fn grouped(inputs: usize, outputs: usize, kernel: [usize; $rank], groups: usize) -> Self {
                let shape = channels_of_group(outputs, groups)
                    .and_then(|_| Ok([outputs, channels_of_group(inputs, groups)?]));
                let (weight, bias) = parameters(shape, outputs, &kernel);
                $name {
                    weight,
                    bias: Some(bias),
                    stride: [1; $rank],
                    padding: [0; $rank],
                    dilation: [1; $rank],
                    groups,
                    channels: [inputs, outputs],
                    kernel,
                }
            }

            /// Sets the step of the window.
            #[must_use]
            pub fn stride(self, stride: impl Into<Extent<$rank>>) -> Self {
                $name { stride: stride.into().0, ..self }
            }

            /// Sets the zeros on both sides of each axis.
            #[must_use]
            pub fn padding(self, padding: impl Into<Extent<$rank>>) -> Self {
                $name { padding: padding.into().0, ..self }
            }

            /// Sets the distance of the window's elements.
            #[must_use]
            pub fn dilation(self, dilation: impl Into<Extent<$rank>>) -> Self {
                $name { dilation: dilation.into().0, ..self }
            }

            /// Sets the number of groups of channels that do not mix, and makes new parameters, whose shape
            /// follows.
            #[must_use]
            pub fn groups(self, groups: usize) -> Self {
                let [inputs, outputs] = self.channels;
                let made = Self::grouped(inputs, outputs, self.kernel, groups);
                let bias = if self.bias.is_some() { made.bias } else { None };
                $name { weight: made.weight, bias, groups, ..self }
            }

            /// Sets whether there is a bias; a new one is random.
            #[must_use]
            pub fn bias(self, bias: bool) -> Self {
                let bias = match (bias, self.bias) {
                    (false, _) => None,
                    (true, Some(bias)) => Some(bias),
                    (true, None) => {
                        let inputs = self.channels[0] / self.groups.max(1);
                        let fan_in = self.kernel.iter().fold(inputs, |n, size| n.saturating_mul(*size));
                        Some(init::fan_in_uniform(&[self.channels[1]], fan_in))
                    }
                };
                $name { bias, ..self }
            }

            /// Returns the size of the window.
            pub fn kernel_size(&self) -> [usize; $rank] {
                self.kernel
            }

            fn repr(&self) -> String {
                let extent = |sizes| Extent::<$rank>(sizes).repr();
                let [inputs, outputs] = self.channels;
                let mut text = format!(
                    "{inputs}, {outputs}, kernel_size={}, stride={}", extent(self.kernel), extent(self.stride)
                );
                if self.padding != [0; $rank] {
                    text += &format!(", padding={}", extent(self.padding));
                }
                if self.dilation != [1; $rank] {
                    text += &format!(", dilation={}", extent(self.dilation));
                }
                if self.groups != 1 {
                    text += &format!(", groups={}", self.groups);
                }
                if self.bias.is_none() {
                    text += ", bias=false";
                }
                text
            }
        }

        #[forward]
        impl $name {
            /// Convolves `[batch, in_channels, sizes..]`.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                let bias = self.bias.as_ref().map(Parameter::tensor);
                call!($function(
                    x, &self.weight, bias, self.stride, self.padding,
                    dilation = self.dilation, groups = self.groups
                ))
            }
        }
    )*};
}
convolutions! {
    /// Slides a window over one axis: `Conv1d::new(1, 16, 3).padding(1)`.
    Conv1d(1) = conv1d;
    /// Slides a window over two axes: `Conv2d::new(3, 32, 3).stride(2).padding(1).bias(false)`.
    Conv2d(2) = conv2d;
    /// Slides a window over three axes: `Conv3d::new(3, 32, [1, 3, 3])`.
    Conv3d(3) = conv3d;
}
