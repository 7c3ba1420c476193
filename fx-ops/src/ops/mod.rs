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

/// Every table of this crate, in the order of the files.
pub fn tables() -> impl Iterator<Item = &'static [Op]> {
    families().flat_map(|(_, tables)| tables.iter().copied())
}

/// The tables of this crate by family, with what unites its operations.
pub fn families() -> impl Iterator<Item = (&'static str, &'static [&'static [Op]])> {
    [
        ("Element by element", pointwise::TABLES),
        ("Special functions", special::TABLES),
        ("Reductions", reduce::TABLES),
        ("Views and selection", view::TABLES),
        ("Factories", create::TABLES),
        ("Joining", join::TABLES),
        ("Random numbers", random::TABLES),
        ("Matrix products", linalg::TABLES),
        ("Convolution", conv::TABLES),
        ("Pooling", pool::TABLES),
        ("Pooling at random places", fractional::TABLES),
        ("Padding", pad::TABLES),
        ("Normalisation", norm::TABLES),
        ("Embeddings", lookup::TABLES),
        ("Losses", loss::TABLES),
        ("Losses by margins and alignments", margin::TABLES),
        ("Pixels and channels", shuffle::TABLES),
        ("Contractions", einsum::TABLES),
        ("Products", products::TABLES),
        ("Factorisations", decompose::TABLES),
        ("Factors", factor::TABLES),
        ("Eigenvalues and singular values", spectral::TABLES),
        ("Norms", norms::TABLES),
        ("Distances", distance::TABLES),
        ("Windows", window::TABLES),
        ("Activations with weights", activation::TABLES),
        ("Fourier transforms", fft::TABLES),
        ("Fourier transforms of complex numbers", spectrum::TABLES),
        ("Resizing", resize::TABLES),
        ("Sampling", sample::TABLES),
        ("Columns of windows", columns::TABLES),
        ("Attention", attention::TABLES),
        ("Regions of images", regions::TABLES),
        ("Recurrent networks", recurrent::TABLES),
        ("Arranging", arrange::TABLES),
        ("Closeness", close::TABLES),
        ("Counting", count::TABLES),
        ("Histograms", histogram::TABLES),
        ("Indices", indices::TABLES),
        ("Masks", masked::TABLES),
        ("Patching", patch::TABLES),
        ("Writing at indices", put::TABLES),
        ("Scattering", scatter::TABLES),
        ("Searching", search::TABLES),
        ("Strides", strided::TABLES),
        ("Unique elements", unique::TABLES),
    ]
    .into_iter()
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
