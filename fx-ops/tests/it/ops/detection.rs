//! Regions of images, and convolutions with offsets.

use fx_core::{Arg, Array, DType};

use crate::testing::{call, call1, tensor};

#[test]
fn boxes_that_overlap_a_better_one_go() {
    let boxes =
        tensor([[0.0f32, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [3.0, 3.0, 4.0, 4.0], [0.0, 0.0, 2.0, 0.5]]);
    let scores = tensor([0.5f32, 0.9, 0.1, 0.7]);
    let kept = call1("nms", &[boxes, scores, Arg::Float(0.5)]).unwrap();
    assert_eq!(kept.to_vec::<i64>().unwrap(), [1, 3, 2]);
}

#[test]
fn a_region_of_a_ramp_has_the_means_of_its_bins() {
    let image: Vec<f64> = (0..36).map(|i| f64::from(i % 6) + 10.0 * f64::from(i / 6)).collect();
    let image = || tensor(Array::from_vec(image.clone(), &[1, 1, 6, 6]).unwrap());
    let roi = || tensor([[0.0f64, 1.0, 1.0, 3.0, 5.0]]);
    let (two, one) = (Arg::Int(2), Arg::Float(1.0));
    let args = [image(), roi(), one.clone(), two.clone(), two.clone(), Arg::Int(2), Arg::Bool(true)];
    let got = call1("roi_align", &args).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(got, [16.0, 17.0, 36.0, 37.0]);
    let pooled = call("roi_pool", &[image(), roi(), one, two.clone(), two], &[]).unwrap();
    let Some([Arg::Leaf(values), Arg::Leaf(places)]) = pooled.items() else { panic!("{pooled:?}") };
    assert_eq!(values.array().unwrap().to_vec::<f64>().unwrap(), [32.0, 33.0, 52.0, 53.0]);
    assert_eq!(places.array().unwrap().to_vec::<i32>().unwrap(), [20, 21, 32, 33]);
}

#[test]
fn wrong_regions_are_refused() {
    let image = || tensor(Array::from_vec(vec![0.0f32; 4], &[1, 1, 2, 2]).unwrap());
    let align = |roi: [f32; 5]| call1("roi_align", &[image(), tensor([roi])]);
    assert!(align([1.0, 0.0, 0.0, 1.0, 1.0]).unwrap_err().message().contains("image"));
    assert!(align([f32::NAN, 0.0, 0.0, 1.0, 1.0]).is_err());
    assert!(align([0.0, 0.0, 0.0, 1e30, 1.0]).unwrap_err().message().contains("samples"));
    assert!(align([0.0, 0.0, 0.0, 1.0, 1.0]).is_ok());
}

#[test]
fn without_offsets_a_deformable_convolution_is_a_convolution() {
    let fill = |n: usize, shape: &[usize]| {
        let data: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin()).collect();
        tensor(Array::from_vec(data, shape).unwrap())
    };
    let (x, w, b) = (fill(2 * 4 * 6 * 5, &[2, 4, 6, 5]), fill(6 * 2 * 6, &[6, 2, 3, 2]), fill(6, &[6]));
    let zeros = tensor(Array::zeros(DType::F32, &[2, 24, 3, 6]).unwrap());
    let mask = tensor(Array::zeros(DType::F32, &[1]).unwrap());
    let i = Arg::Int;
    let numbers = [i(2), i(1), i(1), i(1), i(1), i(1), i(2), i(2), Arg::Bool(false)];
    let args: Vec<_> = [x.clone(), w.clone(), zeros, mask, b.clone()].into_iter().chain(numbers).collect();
    let got = call1("deform_conv2d", &args).unwrap();
    let named = [("stride", Arg::ints([2, 1])), ("padding", Arg::ints([1, 1])), ("groups", i(2))];
    let Arg::Leaf(expected) = call("conv2d", &[x, w, b], &named).unwrap() else { panic!() };
    let expected = expected.array().unwrap().to_vec::<f32>().unwrap();
    let got = got.to_vec::<f32>().unwrap();
    assert!(got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?}\n{expected:?}");
}
