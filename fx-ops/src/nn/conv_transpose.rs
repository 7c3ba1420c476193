//! [`ConvTranspose1d`] and [`ConvTranspose2d`].

use fx_core::{Parameter, Tensor, call};
use fx_macros::{Module, forward};

use super::conv::{channels_of_group, parameters};
use super::extent::Extent;
use crate::ops::conv::{conv_transpose1d, conv_transpose2d};

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident($rank:literal) = $function:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Weights alone do not make it, because they do not hold stride, paddings, dilation and groups.
        #[derive(Module)]
        #[module(leaf, no_load, repr = "Self::repr")]
        pub struct $name {
            /// `[in_channels, out_channels / groups, kernel..]`.
            pub weight: Parameter,
            /// `[out_channels]`.
            pub bias: Option<Parameter>,
            /// The distance of the windows that one element after the other is spread over.
            #[module(skip)]
            pub stride: [usize; $rank],
            /// The padding, which is cut off on both sides of each axis.
            #[module(skip)]
            pub padding: [usize; $rank],
            /// The output padding, which is added at the end of each axis.
            #[module(skip)]
            pub output_padding: [usize; $rank],
            /// The number of groups of channels that do not mix.
            #[module(skip)]
            pub groups: usize,
            /// The distance of the window's elements.
            #[module(skip)]
            pub dilation: [usize; $rank],
            #[module(skip)]
            channels: [usize; 2],
            #[module(skip)]
            kernel: [usize; $rank],
        }

        impl $name {
            /// Makes a transposed convolution of stride 1 with a bias, without padding.
            pub fn new(in_channels: usize, out_channels: usize, kernel: impl Into<Extent<$rank>>) -> Self {
                Self::grouped(in_channels, out_channels, kernel.into().0, 1)
            }

            fn grouped(inputs: usize, outputs: usize, kernel: [usize; $rank], groups: usize) -> Self {
                let shape = channels_of_group(inputs, groups)
                    .and_then(|_| Ok([inputs, channels_of_group(outputs, groups)?]));
                let (weight, bias) = parameters(shape, outputs, &kernel);
                $name {
                    weight,
                    bias: Some(bias),
                    stride: [1; $rank],
                    padding: [0; $rank],
                    output_padding: [0; $rank],
                    groups,
                    dilation: [1; $rank],
                    channels: [inputs, outputs],
                    kernel,
                }
            }

            /// Sets the distance of the windows.
            #[must_use]
            pub fn stride(self, stride: impl Into<Extent<$rank>>) -> Self {
                $name { stride: stride.into().0, ..self }
            }

            /// Sets the padding, which is cut off on both sides of each axis.
            #[must_use]
            pub fn padding(self, padding: impl Into<Extent<$rank>>) -> Self {
                $name { padding: padding.into().0, ..self }
            }

            /// Sets the output padding, which is added at the end of each axis.
            #[must_use]
            pub fn output_padding(self, padding: impl Into<Extent<$rank>>) -> Self {
                $name { output_padding: padding.into().0, ..self }
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
                        let outputs = self.channels[1] / self.groups.max(1);
                        let fan_in = self.kernel.iter().fold(outputs, |n, size| n.saturating_mul(*size));
                        Some(super::init::fan_in_uniform(&[self.channels[1]], fan_in))
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
                if self.output_padding != [0; $rank] {
                    text += &format!(", output_padding={}", extent(self.output_padding));
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
            /// Spreads `[batch, in_channels, sizes..]`.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                let bias = self.bias.as_ref().map(Parameter::tensor);
                call!($function(
                    x, &self.weight, bias, self.stride, self.padding,
                    output_padding = self.output_padding, groups = self.groups, dilation = self.dilation
                ))
            }
        }
    )*};
}
convolutions! {
    /// The gradient of [`Conv1d`](super::Conv1d) by its input: makes one axis longer.
    ConvTranspose1d(1) = conv_transpose1d;
    /// The gradient of [`Conv2d`](super::Conv2d) by its input: makes two axes longer.
    ConvTranspose2d(2) = conv_transpose2d;
}
