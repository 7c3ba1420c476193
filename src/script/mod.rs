//! TorchScript programs that run: the operators on tensors for the virtual machine of [`fx_script`].

mod operators;

pub use operators::AtenOperators;
