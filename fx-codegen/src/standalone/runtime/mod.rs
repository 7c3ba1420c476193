//! What generated crates have besides kernels: tensors, errors, and a reader of safetensors files. The text
//! is written as it is.
#![allow(dead_code, unreachable_pub, reason = "generated code calls it")]

pub mod error;
pub mod safetensors;
pub mod tensor;
#[cfg(test)]
mod tests;
