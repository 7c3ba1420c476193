//! TorchScript programs that run: [`AtenOperators`] are the operators on tensors for the virtual machine of
//! [`fx_script`], [`check_case`] compares a program with PyTorch.

mod check;
mod operators;

pub use check::check_case;
pub use operators::AtenOperators;
