//! What model code imports: `use fx::prelude::*;`.

pub use crate::Compile as _;
pub use crate::ops::{Arithmetic as _, Comparison as _};
pub use crate::{
    Buffer, DType, Dim, Error, Forward, Module, Parameter, Result, Tensor, Tree, forward, nn, wrap,
};
pub use fx_codegen::GraphCode as _;
pub use fx_ops::ops::activation::Slopes as _;
pub use fx_ops::ops::arrange::Turns as _;
pub use fx_ops::ops::attention::Attention as _;
pub use fx_ops::ops::close::Closeness as _;
pub use fx_ops::ops::columns::Columns as _;
pub use fx_ops::ops::conv::Convolution as _;
pub use fx_ops::ops::count::Counts as _;
pub use fx_ops::ops::create::Likes as _;
pub use fx_ops::ops::decompose::Decompositions as _;
pub use fx_ops::ops::distance::Distances as _;
pub use fx_ops::ops::einsum::Contractions as _;
pub use fx_ops::ops::factor::Factors as _;
pub use fx_ops::ops::fft::Transforms as _;
pub use fx_ops::ops::fractional::Fractional as _;
pub use fx_ops::ops::histogram::Histograms as _;
pub use fx_ops::ops::indices::Unravels as _;
pub use fx_ops::ops::linalg::Linalg as _;
pub use fx_ops::ops::lookup::Lookup as _;
pub use fx_ops::ops::loss::Losses as _;
pub use fx_ops::ops::margin::Margins as _;
pub use fx_ops::ops::masked::Masks as _;
pub use fx_ops::ops::norm::Normalization as _;
pub use fx_ops::ops::norms::Norms as _;
pub use fx_ops::ops::pad::Padding as _;
pub use fx_ops::ops::patch::Patches as _;
pub use fx_ops::ops::pointwise::{Activation as _, Elementary as _};
pub use fx_ops::ops::pool::Pooling as _;
pub use fx_ops::ops::products::Products as _;
pub use fx_ops::ops::put::Puts as _;
pub use fx_ops::ops::random::Randoms as _;
pub use fx_ops::ops::recurrent::Recurrent as _;
pub use fx_ops::ops::reduce::{
    Differences as _, Extremes as _, Orders as _, Quantiles as _, Ranks as _, Totals as _,
};
pub use fx_ops::ops::regions::Regions as _;
pub use fx_ops::ops::resize::Resize as _;
pub use fx_ops::ops::sample::Sampling as _;
pub use fx_ops::ops::scatter::Scatters as _;
pub use fx_ops::ops::search::Searches as _;
pub use fx_ops::ops::shuffle::Shuffles as _;
pub use fx_ops::ops::special::{FloatParts as _, Special as _};
pub use fx_ops::ops::spectral::Spectral as _;
pub use fx_ops::ops::spectrum::Spectra as _;
pub use fx_ops::ops::strided::Strided as _;
pub use fx_ops::ops::unique::Uniques as _;
pub use fx_ops::ops::view::{Parts as _, Picks as _, Shapes as _};
pub use fx_ops::weights::{Load as _, ModuleExt as _, Weights};
