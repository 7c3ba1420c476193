//! What model code imports: `use fx::prelude::*;`.

pub use crate::Compile as _;
pub use crate::ops::{Arithmetic as _, Comparison as _};
pub use crate::{
    Buffer, DType, Dim, Error, Forward, Module, Parameter, Result, Tensor, Tree, forward, nn, wrap,
};
pub use fx_codegen::GraphCode as _;
pub use fx_ops::activation::Slopes as _;
pub use fx_ops::arrange::Turns as _;
pub use fx_ops::attention::Attention as _;
pub use fx_ops::close::Closeness as _;
pub use fx_ops::columns::Columns as _;
pub use fx_ops::conv::Convolution as _;
pub use fx_ops::count::Counts as _;
pub use fx_ops::create::Likes as _;
pub use fx_ops::decompose::Decompositions as _;
pub use fx_ops::distance::Distances as _;
pub use fx_ops::einsum::Contractions as _;
pub use fx_ops::factor::Factors as _;
pub use fx_ops::fft::Transforms as _;
pub use fx_ops::fractional::Fractional as _;
pub use fx_ops::histogram::Histograms as _;
pub use fx_ops::indices::Unravels as _;
pub use fx_ops::linalg::Linalg as _;
pub use fx_ops::lookup::Lookup as _;
pub use fx_ops::loss::Losses as _;
pub use fx_ops::margin::Margins as _;
pub use fx_ops::masked::Masks as _;
pub use fx_ops::norm::Normalization as _;
pub use fx_ops::norms::Norms as _;
pub use fx_ops::pad::Padding as _;
pub use fx_ops::patch::Patches as _;
pub use fx_ops::pointwise::{Activation as _, Elementary as _};
pub use fx_ops::pool::Pooling as _;
pub use fx_ops::products::Products as _;
pub use fx_ops::put::Puts as _;
pub use fx_ops::random::Randoms as _;
pub use fx_ops::recurrent::Recurrent as _;
pub use fx_ops::reduce::{
    Differences as _, Extremes as _, Orders as _, Quantiles as _, Ranks as _, Totals as _,
};
pub use fx_ops::regions::Regions as _;
pub use fx_ops::resize::Resize as _;
pub use fx_ops::sample::Sampling as _;
pub use fx_ops::scatter::Scatters as _;
pub use fx_ops::search::Searches as _;
pub use fx_ops::shuffle::Shuffles as _;
pub use fx_ops::special::{FloatParts as _, Special as _};
pub use fx_ops::spectral::Spectral as _;
pub use fx_ops::spectrum::Spectra as _;
pub use fx_ops::strided::Strided as _;
pub use fx_ops::unique::Uniques as _;
pub use fx_ops::view::{Parts as _, Picks as _, Shapes as _};
pub use fx_ops::weights::{Load as _, ModuleExt as _, Weights};
