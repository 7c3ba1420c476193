//! Pooling: the maximum or average of each window.

use fx_core::{Tensor, call};
use fx_macros::{Module, forward};

use super::extent::Extent;
use crate::ops::pool::{
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_max_pool1d, adaptive_max_pool2d, avg_pool1d,
    avg_pool2d, max_pool1d, max_pool2d,
};

macro_rules! max_pools {
    ($($(#[$doc:meta])* $name:ident($rank:literal) = $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Debug)]
        #[module(leaf, no_load, repr = "Self::repr")]
        pub struct $name {
            /// The size of the window.
            #[module(skip)]
            pub kernel_size: [usize; $rank],
            /// The step of the window.
            #[module(skip)]
            pub stride: [usize; $rank],
            /// What lies on both sides of each axis and is never the maximum.
            #[module(skip)]
            pub padding: [usize; $rank],
            /// The distance of the window's elements.
            #[module(skip)]
            pub dilation: [usize; $rank],
            /// Whether a window may reach beyond the end, so that every element is in one.
            #[module(skip)]
            pub ceil_mode: bool,
        }

        impl $name {
            /// Makes windows beside one another.
            pub fn new(kernel_size: impl Into<Extent<$rank>>) -> Self {
                let kernel_size = kernel_size.into().0;
                $name {
                    kernel_size,
                    stride: kernel_size,
                    padding: [0; $rank],
                    dilation: [1; $rank],
                    ceil_mode: false,
                }
            }

            /// Sets the step of the window.
            #[must_use]
            pub fn stride(self, stride: impl Into<Extent<$rank>>) -> Self {
                $name { stride: stride.into().0, ..self }
            }

            /// Sets what lies on both sides of each axis.
            #[must_use]
            pub fn padding(self, padding: impl Into<Extent<$rank>>) -> Self {
                $name { padding: padding.into().0, ..self }
            }

            /// Sets the distance of the window's elements.
            #[must_use]
            pub fn dilation(self, dilation: impl Into<Extent<$rank>>) -> Self {
                $name { dilation: dilation.into().0, ..self }
            }

            /// Sets whether a window may reach beyond the end.
            #[must_use]
            pub fn ceil_mode(self, ceil_mode: bool) -> Self {
                $name { ceil_mode, ..self }
            }

            fn repr(&self) -> String {
                let extent = |sizes| Extent::<$rank>(sizes).repr();
                format!(
                    "kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                    extent(self.kernel_size), extent(self.stride), extent(self.padding), extent(self.dilation),
                    self.ceil_mode
                )
            }
        }

        #[forward]
        impl $name {
            /// Takes the maximum of each window of `[batch, channels, sizes..]`.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                call!($function(
                    x, self.kernel_size, self.stride, self.padding,
                    dilation = self.dilation, ceil_mode = self.ceil_mode
                ))
            }
        }
    )*};
}
max_pools! {
    /// The maximum of each window over one axis.
    MaxPool1d(1) = max_pool1d;
    /// The maximum of each window over two axes: `MaxPool2d::new(3).stride(2).padding(1)`.
    MaxPool2d(2) = max_pool2d;
}

macro_rules! average_pools {
    ($($(#[$doc:meta])* $name:ident($rank:literal) = $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Debug)]
        #[module(leaf, no_load, repr = "Self::repr")]
        pub struct $name {
            /// The size of the window.
            #[module(skip)]
            pub kernel_size: [usize; $rank],
            /// The step of the window.
            #[module(skip)]
            pub stride: [usize; $rank],
            /// The zeros on both sides of each axis.
            #[module(skip)]
            pub padding: [usize; $rank],
            /// Whether a window may reach beyond the end, so that every element is in one.
            #[module(skip)]
            pub ceil_mode: bool,
            /// Whether the zeros count as elements.
            #[module(skip)]
            pub count_include_pad: bool,
        }

        impl $name {
            /// Makes windows beside one another.
            pub fn new(kernel_size: impl Into<Extent<$rank>>) -> Self {
                let kernel_size = kernel_size.into().0;
                $name {
                    kernel_size,
                    stride: kernel_size,
                    padding: [0; $rank],
                    ceil_mode: false,
                    count_include_pad: true,
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

            /// Sets whether a window may reach beyond the end.
            #[must_use]
            pub fn ceil_mode(self, ceil_mode: bool) -> Self {
                $name { ceil_mode, ..self }
            }

            /// Sets whether the zeros count as elements.
            #[must_use]
            pub fn count_include_pad(self, count_include_pad: bool) -> Self {
                $name { count_include_pad, ..self }
            }

            fn repr(&self) -> String {
                let extent = |sizes| Extent::<$rank>(sizes).repr();
                format!(
                    "kernel_size={}, stride={}, padding={}",
                    extent(self.kernel_size), extent(self.stride), extent(self.padding)
                )
            }
        }

        #[forward]
        impl $name {
            /// Takes the average of each window of `[batch, channels, sizes..]`.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                call!($function(
                    x, self.kernel_size, self.stride, self.padding,
                    ceil_mode = self.ceil_mode, count_include_pad = self.count_include_pad
                ))
            }
        }
    )*};
}
average_pools! {
    /// The average of each window over one axis.
    AvgPool1d(1) = avg_pool1d;
    /// The average of each window over two axes.
    AvgPool2d(2) = avg_pool2d;
}

macro_rules! adaptive_pools {
    ($($(#[$doc:meta])* $name:ident($rank:literal, $what:literal) = $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Debug)]
        #[module(leaf, no_load, repr = "Self::repr")]
        pub struct $name {
            /// The sizes of the result.
            #[module(skip)]
            pub output_size: [usize; $rank],
        }

        impl $name {
            /// Makes windows for this many results an axis.
            pub fn new(output_size: impl Into<Extent<$rank>>) -> Self {
                $name { output_size: output_size.into().0 }
            }

            fn repr(&self) -> String {
                format!("output_size={}", Extent::<$rank>(self.output_size).repr())
            }
        }

        #[forward]
        impl $name {
            #[doc = concat!("Takes the ", $what, " of `[batch, channels, sizes..]`.")]
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                $function(x, self.output_size)
            }
        }
    )*};
}
adaptive_pools! {
    /// The averages of windows that cut one axis into a given number of parts.
    AdaptiveAvgPool1d(1, "averages") = adaptive_avg_pool1d;
    /// The averages of windows that cut two axes into a given number of parts: `AdaptiveAvgPool2d::new(1)`.
    AdaptiveAvgPool2d(2, "averages") = adaptive_avg_pool2d;
    /// The maxima of windows that cut one axis into a given number of parts.
    AdaptiveMaxPool1d(1, "maxima") = adaptive_max_pool1d;
    /// The maxima of windows that cut two axes into a given number of parts.
    AdaptiveMaxPool2d(2, "maxima") = adaptive_max_pool2d;
}
