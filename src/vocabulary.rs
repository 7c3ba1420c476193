//! The operations as functions at the top level: `fx::softmax`.
#![allow(unused_imports, unreachable_pub, reason = "a module may have rows as methods only")]
#![allow(
    ambiguous_glob_reexports,
    reason = "every module of operations has its `TABLES`, which nobody reads from here"
)]

pub use fx_core::ops::*;
pub use fx_ops::ops::activation::*;
pub use fx_ops::ops::arrange::*;
pub use fx_ops::ops::attention::*;
pub use fx_ops::ops::close::*;
pub use fx_ops::ops::columns::*;
pub use fx_ops::ops::conv::*;
pub use fx_ops::ops::count::*;
pub use fx_ops::ops::create::*;
pub use fx_ops::ops::decompose::*;
pub use fx_ops::ops::distance::*;
pub use fx_ops::ops::einsum::*;
pub use fx_ops::ops::factor::*;
pub use fx_ops::ops::fft::*;
pub use fx_ops::ops::fractional::*;
pub use fx_ops::ops::histogram::*;
pub use fx_ops::ops::indices::*;
pub use fx_ops::ops::join::*;
pub use fx_ops::ops::linalg::*;
pub use fx_ops::ops::lookup::*;
pub use fx_ops::ops::loss::*;
pub use fx_ops::ops::margin::*;
pub use fx_ops::ops::masked::*;
pub use fx_ops::ops::norm::*;
pub use fx_ops::ops::norms::*;
pub use fx_ops::ops::pad::*;
pub use fx_ops::ops::patch::*;
pub use fx_ops::ops::pointwise::*;
pub use fx_ops::ops::pool::*;
pub use fx_ops::ops::products::*;
pub use fx_ops::ops::put::*;
pub use fx_ops::ops::random::*;
pub use fx_ops::ops::recurrent::*;
pub use fx_ops::ops::reduce::*;
pub use fx_ops::ops::regions::*;
pub use fx_ops::ops::resize::*;
pub use fx_ops::ops::sample::*;
pub use fx_ops::ops::scatter::*;
pub use fx_ops::ops::search::*;
pub use fx_ops::ops::shuffle::*;
pub use fx_ops::ops::special::*;
pub use fx_ops::ops::spectral::*;
pub use fx_ops::ops::spectrum::*;
pub use fx_ops::ops::strided::*;
pub use fx_ops::ops::unique::*;
pub use fx_ops::ops::view::*;
pub use fx_ops::ops::window::*;
