//! Layers of neural networks, as `torch.nn` has them: names of parameters, layouts and defaults are
//! PyTorch's, so that its state dicts load.
//!
//! Layers are ordinary modules, written with `#[derive(Module)]` and `#[forward]` as a user's are. All but
//! the containers are leaves: a trace records a call as one node.
//!
//! A new layer is in evaluation mode, unlike PyTorch's: most programs here run trained models. `train()` of a
//! model makes dropout random and lets batch norms use, and update, the statistics of the batch.
//!
//! New layers are filled from the random generator in force ([`fx_core::rng::default_generator`]), so that
//! `manual_seed` makes them reproducible. A layer of impossible sizes holds the error in its parameters, and
//! a call returns it.
//!
//! A layer that its weights determine, perhaps with PyTorch's default for one setting, can be loaded without
//! being made first; its documentation says so. The others, such as convolutions, are made with `new` and
//! filled from a state dict.

mod activation;
mod attention;
mod bilinear;
mod conv;
mod conv_transpose;
mod dropout;
mod embedding;
mod embedding_bag;
mod extent;
mod flatten;
mod identity;
mod init;
mod linear;
mod norm;
mod pool;
mod rearrange;
mod recurrent;
mod sequential;
pub use activation::{GELU, Hardswish, LeakyReLU, ReLU, ReLU6, SiLU, Sigmoid, Softmax, Tanh};
pub use attention::MultiheadAttention;
pub use bilinear::Bilinear;
pub use conv::{Conv1d, Conv2d, Conv3d};
pub use conv_transpose::{ConvTranspose1d, ConvTranspose2d};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use embedding_bag::EmbeddingBag;
pub use extent::{Extent, Sizes};
pub use flatten::Flatten;
pub use identity::Identity;
pub use linear::Linear;
pub use norm::{BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, RMSNorm};
pub use pool::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AvgPool1d, AvgPool2d,
    MaxPool1d, MaxPool2d,
};
pub use rearrange::{ChannelShuffle, Fold, GLU, PReLU, PixelShuffle, PixelUnshuffle, Unfold, Upsample};
pub use recurrent::{GRU, GRUCell, LSTM, LSTMCell};
pub use sequential::Sequential;

/// Lets weights make a layer whose settings have PyTorch's defaults.
macro_rules! load_default {
    ($($ty:ty),*) => {$(
        impl<W: fx_core::module::load::WeightSource + ?Sized> fx_core::module::load::FromWeights<W> for $ty {
            fn from_weights(_: &W, _: &str) -> fx_core::Result<Self> {
                Ok(Self::default())
            }
        }
    )*};
}
use load_default;
