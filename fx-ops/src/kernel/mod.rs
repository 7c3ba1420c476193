//! The loops of fx-kernels, and those that know dtypes and arrays.

pub(crate) mod chunks;
pub(crate) mod pad;

pub(crate) use fx_kernels::{
    attention, call_real, conv, eigen, fft, fold, gemm, group_norm, householder, interpolate, lu, pool,
    radix_sort, recurrent, rows, select, softmax,
};
