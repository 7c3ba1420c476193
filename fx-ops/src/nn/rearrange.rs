//! Layers that rearrange or resize: thin modules over rows, with PyTorch's parameter names.

use fx_core::{Arg, Tensor, Value, call};
use fx_macros::{Module, forward};

use super::extent::{Extent, Sizes};
use crate::ops::activation::prelu;
use crate::ops::im2col::{col2im, im2col};
use crate::ops::interpolate::interpolate;
use crate::ops::pixel_shuffle::{channel_shuffle, glu, pixel_shuffle, pixel_unshuffle};
use fx_core::Parameter;

macro_rules! one_number {
    ($($(#[$doc:meta])* $name:ident($(#[$field_doc:meta])* $field:ident: $ty:ty) = $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Debug)]
        #[module(leaf, no_load, repr = "Self::repr")]
        pub struct $name {
            $(#[$field_doc])*
            #[module(skip)]
            pub $field: $ty,
        }

        impl $name {
            /// Makes the layer.
            pub fn new($field: $ty) -> Self {
                $name { $field }
            }

            fn repr(&self) -> String {
                format!(concat!(stringify!($field), "={}"), self.$field)
            }
        }

        #[forward]
        impl $name {
            /// Applies the function.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                $function(x, self.$field)
            }
        }
    )*};
}
one_number! {
    /// The gated linear unit: the first half of an axis times the sigmoid of the second.
    GLU(/// The axis.
        dim: i64) = glu;
    /// Spreads channels over pixels.
    PixelShuffle(/// How many times as high and wide images become.
        upscale_factor: i64) = pixel_shuffle;
    /// Gathers pixels in channels.
    PixelUnshuffle(/// How many times less high and wide images become.
        downscale_factor: i64) = pixel_unshuffle;
    /// Interleaves groups of channels.
    ChannelShuffle(/// The number of groups.
        groups: i64) = channel_shuffle;
}

/// Positive elements as they are, others times a learnt weight, or one for each channel. Weights determine it.
#[derive(Module)]
#[module(leaf, repr = "Self::repr")]
pub struct PReLU {
    /// `[num_parameters]`.
    pub weight: Parameter,
}

impl PReLU {
    /// Makes a layer of this many weights, all 0.25.
    pub fn new(num_parameters: usize) -> Self {
        let quarter = fx_core::Scalar::Float(0.25);
        let weight = fx_core::Array::full(fx_core::DType::F32, &[num_parameters], quarter);
        PReLU { weight: Tensor::from(weight).into() }
    }

    fn repr(&self) -> String {
        format!("num_parameters={}", super::init::size(&self.weight, 0))
    }
}

#[forward]
impl PReLU {
    /// Applies the function to each element.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        prelu(x, &self.weight)
    }
}

/// Resizes `[n, c, spatial..]` by a factor, `Upsample::new(2.0).mode("bilinear")`, or to a size,
/// `Upsample::to_size([7, 5])`.
#[derive(Module, Debug)]
#[module(leaf, no_load, repr = "Self::repr")]
pub struct Upsample {
    /// How many times as large every spatial size becomes.
    #[module(skip)]
    pub scale_factor: f64,
    /// The spatial sizes of the result, instead of a factor.
    #[module(skip)]
    pub size: Option<Sizes>,
    /// The mode of `interpolate`.
    #[module(skip)]
    pub mode: String,
    /// Whether the centres of the outer pixels stay in place; for linear and cubic modes.
    #[module(skip)]
    pub align_corners: bool,
}

impl Upsample {
    /// Makes a layer of the mode `"nearest"`.
    pub fn new(scale_factor: f64) -> Self {
        Upsample { scale_factor, size: None, mode: "nearest".to_owned(), align_corners: false }
    }

    /// Makes a layer of the mode `"nearest"` whose results have these spatial sizes; one size stands for all axes.
    pub fn to_size(size: impl Into<Sizes>) -> Self {
        Upsample { size: Some(size.into()), ..Upsample::new(1.0) }
    }

    /// Sets the mode.
    #[must_use]
    pub fn mode(self, mode: &str) -> Self {
        Upsample { mode: mode.to_owned(), ..self }
    }

    /// Sets whether the centres of the outer pixels stay in place.
    #[must_use]
    pub fn align_corners(self, align_corners: bool) -> Self {
        Upsample { align_corners, ..self }
    }

    fn repr(&self) -> String {
        match &self.size {
            Some(size) => format!("size={}, mode={:?}", size.repr(), self.mode),
            None => format!("scale_factor={}, mode={:?}", self.scale_factor, self.mode),
        }
    }
}

#[forward]
impl Upsample {
    /// Resizes an image.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let (size, factor): (Value, Value) = match &self.size {
            Some(Sizes(sizes)) if sizes.len() == 1 => (Arg::Int(sizes[0] as i64), Arg::None),
            Some(Sizes(sizes)) => (Arg::ints(sizes.iter().map(|&n| n as i64)), Arg::None),
            None => (Arg::None, Arg::Float(self.scale_factor)),
        };
        let align_corners: Value = if self.align_corners { Arg::Bool(true) } else { Arg::None };
        call!(interpolate(x, size, factor, mode = self.mode.as_str(), align_corners = align_corners))
    }
}

macro_rules! windows {
    ($($(#[$doc:meta])* $name:ident($($extra:ident)?) = $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Debug)]
        #[module(leaf, no_load, repr = "Self::repr")]
        pub struct $name {
            $(
                /// The height and width of the images.
                #[module(skip)]
                pub $extra: [usize; 2],
            )?
            /// The size of the window.
            #[module(skip)]
            pub kernel_size: [usize; 2],
            /// The distance of the window's elements.
            #[module(skip)]
            pub dilation: [usize; 2],
            /// The zeros on both sides of each axis.
            #[module(skip)]
            pub padding: [usize; 2],
            /// The step of the window.
            #[module(skip)]
            pub stride: [usize; 2],
        }

        impl $name {
            /// Makes windows of stride 1 without padding.
            pub fn new($($extra: impl Into<Extent<2>>,)? kernel_size: impl Into<Extent<2>>) -> Self {
                $name {
                    $($extra: $extra.into().0,)?
                    kernel_size: kernel_size.into().0,
                    dilation: [1; 2],
                    padding: [0; 2],
                    stride: [1; 2],
                }
            }

            /// Sets the step of the window.
            #[must_use]
            pub fn stride(self, stride: impl Into<Extent<2>>) -> Self {
                $name { stride: stride.into().0, ..self }
            }

            /// Sets the zeros on both sides of each axis.
            #[must_use]
            pub fn padding(self, padding: impl Into<Extent<2>>) -> Self {
                $name { padding: padding.into().0, ..self }
            }

            /// Sets the distance of the window's elements.
            #[must_use]
            pub fn dilation(self, dilation: impl Into<Extent<2>>) -> Self {
                $name { dilation: dilation.into().0, ..self }
            }

            fn repr(&self) -> String {
                let extent = |sizes| Extent::<2>(sizes).repr();
                format!(
                    "kernel_size={}, dilation={}, padding={}, stride={}",
                    extent(self.kernel_size), extent(self.dilation), extent(self.padding), extent(self.stride)
                )
            }
        }

        #[forward]
        impl $name {
            /// Applies the function.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                $function(x, $(self.$extra,)? self.kernel_size, self.dilation, self.padding, self.stride)
            }
        }
    )*};
}
windows! {
    /// The windows of images as columns.
    Unfold() = im2col;
    /// Columns added up to images.
    Fold(output_size) = col2im;
}
