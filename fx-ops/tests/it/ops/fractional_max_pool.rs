//! Pooling at random places.

use fx_core::{Arg, Array};

use crate::testing::{call, tensor};

#[test]
fn windows_begin_where_the_numbers_say() {
    // Computed by PyTorch 2.15.
    let x: Vec<f32> = (0..36).map(|i| (i * 7 % 36) as f32).collect();
    let x = tensor(Array::from_vec(x, &[1, 6, 6]).unwrap());
    let random = tensor([[[0.3f32, 0.8]]]);
    let out = call("fractional_max_pool2d", &[x, Arg::Int(2), Arg::ints([3, 3]), random], &[]).unwrap();
    let Some([Arg::Leaf(values), Arg::Leaf(places)]) = out.items() else { panic!() };
    assert_eq!(
        values.array().unwrap().to_vec::<f32>().unwrap(),
        [13.0, 27.0, 35.0, 25.0, 33.0, 17.0, 31.0, 15.0, 29.0]
    );
    assert_eq!(places.array().unwrap().to_vec::<i64>().unwrap(), [7, 9, 5, 19, 15, 23, 25, 33, 35]);
}
