//! Tests of fx-script. They are outside of the crate, which would be compiled a second time for tests inside of
//! it.

mod archive;
mod emit;
mod fuzz;
mod host;
mod ir;
mod load;
mod parse;
mod pickle;
mod print;
mod schema;
mod value_tensor;
mod vm;
