//! The operations: one file or folder a family; each has its tables of rows first, then the shape rules and kernels that the rows name.

pub mod activation;
pub mod arrange;
pub mod attention;
pub(crate) mod check;
pub mod close;
pub mod columns;
pub(crate) mod compose;
pub mod conv;
pub mod count;
pub mod create;
pub mod decompose;
pub mod distance;
pub mod einsum;
pub mod factor;
pub mod fft;
mod flops;
pub mod fractional;
pub mod histogram;
pub mod indices;
mod infer;
pub mod join;
pub mod linalg;
pub mod lookup;
pub mod loss;
pub mod margin;
pub mod masked;
pub mod norm;
pub mod norms;
mod outer;
pub mod pad;
pub mod patch;
pub mod pointwise;
pub mod pool;
pub mod products;
pub mod put;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod regions;
pub mod resize;
pub mod sample;
pub mod scatter;
pub mod search;
pub mod shuffle;
pub mod special;
pub mod spectral;
pub mod spectrum;
pub mod strided;
#[cfg(test)]
mod testing;
pub mod unique;
pub mod view;
pub mod window;

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

// The compiler reports a family without a row as an unused `TABLES`. The modules are declared above, since rustfmt does
// not format the files of modules that a macro declares.
families! {
    pointwise "Element by element" [Activation, Elementary]
    special "Special functions" [FloatParts, Special]
    reduce "Reductions" [Differences, Extremes, Orders, Quantiles, Ranks, Totals]
    view "Views and selection" [Parts, Picks, Shapes]
    create "Factories" [Likes]
    join "Joining" []
    random "Random numbers" [Randoms]
    linalg "Matrix products" [Linalg]
    conv "Convolution" [Convolution]
    pool "Pooling" [Pooling]
    fractional "Pooling at random places" [Fractional]
    pad "Padding" [Padding]
    norm "Normalisation" [Normalization]
    lookup "Embeddings" [Lookup]
    loss "Losses" [Losses]
    margin "Losses by margins and alignments" [Margins]
    shuffle "Pixels and channels" [Shuffles]
    einsum "Contractions" [Contractions]
    products "Products" [Products]
    decompose "Factorisations" [Decompositions]
    factor "Factors" [Factors]
    spectral "Eigenvalues and singular values" [Spectral]
    norms "Norms" [Norms]
    distance "Distances" [Distances]
    window "Windows" []
    activation "Activations with weights" [Slopes]
    fft "Fourier transforms" [Transforms]
    spectrum "Fourier transforms of complex numbers" [Spectra]
    resize "Resizing" [Resize]
    sample "Sampling" [Sampling]
    columns "Columns of windows" [Columns]
    attention "Attention" [Attention]
    regions "Regions of images" [Regions]
    recurrent "Recurrent networks" [Recurrent]
    arrange "Arranging" [Turns]
    close "Closeness" [Closeness]
    count "Counting" [Counts]
    histogram "Histograms" [Histograms]
    indices "Indices" [Unravels]
    masked "Masks" [Masks]
    patch "Patching" [Patches]
    put "Writing at indices" [Puts]
    scatter "Scattering" [Scatters]
    search "Searching" [Searches]
    strided "Strides" [Strided]
    unique "Unique elements" [Uniques]
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

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_distinct() {
        assert!(super::registry().iter().count() > 30);
    }
}
