//! Products with quantized weights.

use fx_core::{DType, Tensor};
use fx_ops::ops::quantized::Quantized;
use fx_ops::ops::view::Shapes;

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
