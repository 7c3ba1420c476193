//! The imports of model code: `use fx::prelude::*;`.

pub use crate::export::ToTorchScript as _;
pub use crate::ops::{Arithmetic as _, Comparison as _};
pub use crate::{
    Buffer, DType, Dim, Error, Forward, Module, Parameter, Result, Tensor, Tree, forward, nn, wrap,
};
pub use crate::{Compile as _, ToCrate as _};
pub use fx_codegen::GraphCode as _;
pub use fx_ops::ops::methods::*;
pub use fx_ops::weights::{Load as _, ModuleExt as _, Weights};
