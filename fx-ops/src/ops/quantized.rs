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

#[cfg(test)]
mod tests {
    use fx_core::{DType, Tensor};

    use super::Quantized;
    use crate::ops::view::Shapes;

    // PyTorch 2.15: `torch._weight_int8pack_mm(x, mat2, scales)`.
    #[test]
    fn products_are_those_of_pytorch() {
        let x = Tensor::new([[1.5f32, -2.0, 0.25], [0.0, 1.0, -4.0]]);
        let mat2 = Tensor::new([[127i8, -128, 3], [1, 2, 3]]);
        let scales = Tensor::new([0.5f32, 0.125]);
        let y = x._weight_int8pack_mm(&mat2, &scales);
        assert_eq!(y.to_vec::<f32>().unwrap(), [223.625, -0.21875, -70.0, -1.25]);
        let halves = x.to(DType::BF16)._weight_int8pack_mm(&mat2, scales.to(DType::BF16));
        assert_eq!(halves.to(DType::F32).to_vec::<f32>().unwrap(), [224.0, -0.21875, -70.0, -1.25]);
    }
}
