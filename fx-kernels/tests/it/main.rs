//! Tests of fx-kernels. They are outside of the crate, which would be compiled a second time for tests inside of
//! it.

mod conv;
mod conv_channels_last;
mod eigen;
mod fft;
mod fold;
mod gemm;
mod gemm_tile;
mod group_norm;
mod householder;
mod lanes;
mod lu;
mod pool;
mod radix_sort;
mod recurrent;
mod rows;
mod select;
mod softmax;
