//! The operations as functions at the top level: `fx::softmax`.
#![allow(unused_imports, unreachable_pub, reason = "a module may have rows as methods only")]
#![allow(
    ambiguous_glob_reexports,
    reason = "every module of operations has its `TABLES`, which nobody reads from here"
)]

pub use fx_core::ops::*;
pub use fx_ops::activation::*;
pub use fx_ops::arrange::*;
pub use fx_ops::attention::*;
pub use fx_ops::close::*;
pub use fx_ops::columns::*;
pub use fx_ops::conv::*;
pub use fx_ops::count::*;
pub use fx_ops::create::*;
pub use fx_ops::decompose::*;
pub use fx_ops::distance::*;
pub use fx_ops::einsum::*;
pub use fx_ops::factor::*;
pub use fx_ops::fft::*;
pub use fx_ops::fractional::*;
pub use fx_ops::histogram::*;
pub use fx_ops::indices::*;
pub use fx_ops::join::*;
pub use fx_ops::linalg::*;
pub use fx_ops::lookup::*;
pub use fx_ops::loss::*;
pub use fx_ops::margin::*;
pub use fx_ops::masked::*;
pub use fx_ops::norm::*;
pub use fx_ops::norms::*;
pub use fx_ops::pad::*;
pub use fx_ops::patch::*;
pub use fx_ops::pointwise::*;
pub use fx_ops::pool::*;
pub use fx_ops::products::*;
pub use fx_ops::put::*;
pub use fx_ops::random::*;
pub use fx_ops::recurrent::*;
pub use fx_ops::reduce::*;
pub use fx_ops::regions::*;
pub use fx_ops::resize::*;
pub use fx_ops::sample::*;
pub use fx_ops::scatter::*;
pub use fx_ops::search::*;
pub use fx_ops::shuffle::*;
pub use fx_ops::special::*;
pub use fx_ops::spectral::*;
pub use fx_ops::spectrum::*;
pub use fx_ops::strided::*;
pub use fx_ops::unique::*;
pub use fx_ops::view::*;
pub use fx_ops::window::*;
