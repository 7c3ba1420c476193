//! Tensors that share elements.

use fx_core::Array;
use fx_script::value::{TensorCell, TensorRef, transaction};

fn tensor(data: &[f32], shape: &[usize]) -> TensorRef {
    TensorCell::of(Array::from_vec(data.to_vec(), shape).unwrap()).unwrap()
}

fn elements(tensor: &TensorRef) -> Vec<f32> {
    tensor.array().unwrap().to_vec().unwrap()
}

#[test]
fn write_to_a_row_is_seen_through_all_views() {
    let x = tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let transposed = x.view_of(x.array().unwrap().transpose(0, 1).unwrap(), false).unwrap();
    let row = x.view_of(x.array().unwrap().select(0, 1).unwrap(), false).unwrap();
    row.write(&Array::scalar(9i64)).unwrap();
    assert_eq!(elements(&x), [1.0, 2.0, 9.0, 9.0]);
    assert_eq!(elements(&transposed), [1.0, 9.0, 2.0, 9.0]);
}

#[test]
fn failed_call_puts_elements_back() {
    let x = tensor(&[1.0, 2.0], &[2]);
    let call = transaction::begin(1 << 20);
    x.write(&Array::scalar(7.0f32)).unwrap();
    assert_eq!(elements(&x), [7.0, 7.0]);
    drop(call);
    assert_eq!(elements(&x), [1.0, 2.0]);
}

#[test]
fn expanded_tensor_is_not_written() {
    let x = tensor(&[1.0], &[1]);
    let wide = x.view_of(x.array().unwrap().broadcast_to(&[3]).unwrap(), false).unwrap();
    assert!(wide.write(&Array::scalar(2.0f32)).is_err());
}
