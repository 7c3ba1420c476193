//! The operations: one file or folder a family; each has its tables of rows first, then the shape rules and
//! kernels that the rows name.

pub mod activation;
pub mod allclose;
pub mod arrange;
pub mod attention;
pub(crate) mod check;
pub(crate) mod compose;
pub mod concat;
pub mod conv;
pub mod count;
pub mod creation;
pub mod detection;
pub mod dictionaries;
pub mod distance;
pub mod eigen;
pub mod einsum;
pub mod embedding;
pub mod fft;
pub mod fft_complex;
mod flops;
pub mod fractional_max_pool;
pub mod grid_sample;
pub mod histogram;
pub mod im2col;
pub mod index_write;
pub mod indices;
mod infer;
pub mod interpolate;
pub mod linalg;
pub mod linalg_factor;
pub mod linalg_solve;
pub mod lists;
pub mod loss;
pub mod margin_loss;
pub mod masked;
pub mod normalization;
pub mod norms;
pub mod numbers;
pub mod optional;
mod outer;
pub mod pad;
pub mod pixel_shuffle;
pub mod pointwise;
pub mod pool;
pub mod products;
pub mod quantized;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub(crate) mod rowwise;
pub mod scatter;
pub mod search;
pub mod signal_windows;
pub mod slice_scatter;
pub mod special;
pub mod strided;
pub mod text;
pub mod unique;
pub mod view;

use fx_core::{Op, Registry};

/// Makes `families`, `functions` and `methods` from one row per family: module, title, traits with methods.
macro_rules! families {
    ($($module:ident $title:literal [$($methods:ident),*])*) => {
        /// The tables of this crate by family, with what unites its operations.
        pub fn families() -> impl Iterator<Item = (&'static str, &'static [&'static [Op]])> {
            [$(($title, $module::TABLES)),*].into_iter()
        }

        /// The operations as functions.
        pub mod functions {
            #![allow(unused_imports, unreachable_pub, reason = "a family may have rows as methods only")]
            $(pub use super::$module::*;)*
        }

        /// The traits whose methods are operations of tensors.
        pub mod methods {
            $($(pub use super::$module::$methods as _;)*)*
        }
    };
}

// The compiler reports a family without a row as an unused `TABLES`. The modules are declared above, since
// rustfmt does not format the files of modules that a macro declares.
families! {
    pointwise "Element by element" [Activation, Elementary]
    special "Special functions" [FloatParts, Special]
    reduce "Reductions" [Differences, MinMax, Orders, Quantiles, Ranks, Sums]
    view "Views and selection" [Indexing, Shapes, Slicing]
    creation "Factories" [Likes]
    concat "Joining" []
    random "Random numbers" [Randoms]
    linalg "Matrix products" [Linalg]
    conv "Convolution" [Convolution]
    pool "Pooling" [Pooling]
    fractional_max_pool "Pooling at random places" [FractionalMaxPooling]
    pad "Padding" [Padding]
    normalization "Normalisation" [Normalization]
    embedding "Embeddings" [Embeddings]
    loss "Losses" [Losses]
    margin_loss "Losses by margins and alignments" [MarginLosses]
    pixel_shuffle "Pixels and channels" [PixelShuffles]
    einsum "Contractions" [Contractions]
    products "Products" [Products]
    quantized "Products with quantized weights" [Quantized]
    linalg_solve "Factorisations" [Decompositions]
    linalg_factor "Factors" [Factors]
    eigen "Eigenvalues and singular values" [Eigenvalues]
    norms "Norms" [Norms]
    distance "Distances" [Distances]
    signal_windows "Windows" []
    activation "Activations with weights" [Slopes]
    fft "Fourier transforms" [Transforms]
    fft_complex "Fourier transforms of complex numbers" [ComplexTransforms]
    interpolate "Resizing" [Interpolation]
    grid_sample "Sampling" [GridSampling]
    im2col "Columns of windows" [Im2Col]
    attention "Attention" [Attention]
    detection "Regions of images" [Detection]
    recurrent "Recurrent networks" [Recurrent]
    arrange "Arranging" [Turns]
    allclose "Closeness" [Closeness]
    count "Counting" [Counts]
    histogram "Histograms" [Histograms]
    indices "Indices" [Unravels]
    masked "Masks" [Masks]
    slice_scatter "Patching" [SliceScatters]
    index_write "Writing at indices" [IndexWrites]
    scatter "Scattering" [Scatters]
    search "Searching" [Searches]
    strided "Strides" [Strided]
    unique "Unique elements" [Uniques]
    numbers "Numbers" []
    text "Text" []
    lists "Lists" []
    dictionaries "Dictionaries" []
    optional "Optional values" []
}

/// Every table of this crate, in the order of the families.
pub fn tables() -> impl Iterator<Item = &'static [Op]> {
    families().flat_map(|(_, tables)| tables.iter().copied())
}

/// Returns the registry of all built-in operations.
pub fn registry() -> Registry {
    let mut registry = Registry::core();
    for table in tables() {
        registry.add(table).expect("built-in names are distinct; a test checks it");
    }
    registry
}
