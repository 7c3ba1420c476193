//! Products with weights of few bits.

use fx_core::{Dim, Op, Type, TypeTree, gufunc};

/// The tables of this family.
pub static TABLES: &[&[Op]] = &[QUANTIZED];

gufunc! {
    /// Products with quantized weights.
    pub trait Quantized; pub static QUANTIZED;

    /// The product of `x` with a transposed matrix of 8-bit weights, whose rows have a scale each.
    ///
    /// It is `x.matmul(mat2.T) * scales`; halves are summed in `f32`. The time of a product with one row or a few
    /// goes into reading the weights, which are a quarter of the bytes of `f32`.
    #[flops = fx_core::Flops::Rule(multiply_adds)]
    #[split = n]
    _weight_int8pack_mm(x: T[k], mat2: i8[n, k], scales: T[n]) -> (out: T[n]) {
        for ((out, scale), weights) in out.iter_mut().zip(scales).zip(mat2.chunks_exact(k.max(1))) {
            *out = row::sum_of_pairs(weights, x, |weight, x| weight as T * x) * *scale;
        }
    }
}

/// Two for each weight and row.
fn multiply_adds(args: &[TypeTree], result: &TypeTree) -> Option<Dim> {
    let (Some(Type::Tensor(x)), Some(Type::Tensor(out))) = (args.first()?.leaf(), result.leaf()) else {
        return None;
    };
    Some(out.shape.numel() * x.shape.last()? * 2)
}
