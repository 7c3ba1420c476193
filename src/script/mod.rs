//! TorchScript programs that run: [`script`](fn@script) compiles a text, [`AtenOperators`] are the operators on
//! tensors for the virtual machine of [`fx_script`], [`check_case`] compares a program with PyTorch.

pub(crate) mod check;
mod leaves;
mod operators;
pub(crate) mod program;
mod sizes;
mod text;

pub(crate) use check::declared;
#[doc(hidden)]
pub use check::graphs;
pub use check::{Checked, Report, Runtime, Way, cases, check_case, check_folder};
pub(crate) use leaves::{CallKey, call_key};
pub use leaves::{arguments, tensors};
pub use operators::AtenOperators;
pub use text::{Script, script, script_file};
