//! Arrays: views, copies, conversions and printing.

use expect_test::{Expect, expect};
use fx_core::ErrorKind;
use fx_core::array::*;
use fx_core::{DType, Element, Result, Scalar};
use half::{bf16, f16};
use ndarray::{ArrayD, Axis, IxDyn, Slice};
use proptest::prelude::*;

fn arange(shape: &[usize]) -> Array {
    let numel = shape.iter().product::<usize>();
    Array::from_vec((0..numel as i32).collect(), shape).unwrap()
}

fn message(result: Result<Array>) -> String {
    result.unwrap_err().to_string()
}

/// Checks everything that reads an array against the ndarray that holds the same elements.
fn check_same(array: &Array, reference: &ArrayD<i32>) {
    let expected: Vec<i32> = reference.iter().copied().collect();
    assert_eq!(array.shape(), reference.shape());
    assert_eq!(array.to_vec::<i32>().unwrap(), expected);
    assert_eq!(array.clone().into_vec::<i32>().unwrap(), expected);
    assert_eq!(&array.view::<i32>().unwrap(), reference);
    assert_eq!(
        array.iter_scalars().map(Scalar::to_i64).collect::<Vec<_>>(),
        expected.iter().map(|&x| x.into()).collect::<Vec<i64>>()
    );
    let storage = i32::slice(array.storage()).unwrap();
    let by_runs: Vec<i32> = array
        .runs()
        .flat_map(|(start, len, stride)| {
            (0..len).map(move |k| start.wrapping_add_signed(k as isize * stride))
        })
        .map(|at| storage[at])
        .collect();
    assert_eq!(by_runs, expected);
    let dense = array.contiguous().unwrap();
    assert_eq!(dense.as_slice::<i32>().unwrap(), expected);
    assert_eq!(array.as_slice::<i32>().is_some(), array.is_contiguous());
    assert!(array.bits_eq(&dense) && array.all_close(&dense, 0.0, 0.0).is_ok());
    let floats: Vec<f32> = expected.iter().map(|&x| x as f32).collect();
    assert_eq!(array.cast(DType::F32).to_vec::<f32>().unwrap(), floats);
    let bytes = array.to_le_bytes().unwrap();
    assert!(Array::from_le_bytes(DType::I32, array.shape(), &bytes).unwrap().bits_eq(array));
    assert!(Array::from_ndarray(reference.clone()).bits_eq(array));
    let all: Vec<usize> = (0..array.rank()).collect();
    let mut flipped = reference.clone();
    all.iter().for_each(|&axis| flipped.invert_axis(Axis(axis)));
    assert!(array.flip(&all).unwrap().bits_eq(&flipped.clone().into()));
    assert!(Array::from(flipped.view()).bits_eq(&array.flip(&all).unwrap()));
    array.to_string();
}

/// Applies the view that the numbers choose to both, if the shape has room for it.
fn step(
    array: &Array,
    reference: &ArrayD<i32>,
    kind: usize,
    a: usize,
    b: usize,
    c: usize,
) -> (Array, ArrayD<i32>) {
    let rank = array.rank();
    let standard = |view: ndarray::ArrayViewD<'_, i32>| view.as_standard_layout().into_owned();
    if rank == 0 || kind == 0 {
        let axis = a % (rank + 1);
        return (array.unsqueeze(axis).unwrap(), reference.clone().insert_axis(Axis(axis)));
    }
    let (axis, other) = (a % rank, b % rank);
    let size = array.shape()[axis];
    match kind {
        1 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            axes.rotate_left(axis);
            axes.swap(0, other);
            (array.permute(&axes).unwrap(), standard(reference.view().permuted_axes(axes)))
        }
        2 => {
            let (start, stop, step) = (b % (size + 1), c % (size + 1), 1 + (b + c) % 3);
            let stop_or_start = stop.max(start) as isize;
            let slice = Slice::new(start as isize, Some(stop_or_start), step as isize);
            (
                array.slice_axis(axis, start, stop, step).unwrap(),
                standard(reference.slice_axis(Axis(axis), slice)),
            )
        }
        3 if size > 0 => {
            (array.select(axis, b % size).unwrap(), standard(reference.index_axis(Axis(axis), b % size)))
        }
        4 => {
            let mut shape: Vec<usize> =
                array.shape().iter().map(|&size| if size == 1 { 1 + b % 3 } else { size }).collect();
            if array.numel() < 500 {
                shape.insert(0, 1 + c % 3);
            }
            (array.broadcast_to(&shape).unwrap(), standard(reference.broadcast(IxDyn(&shape)).unwrap()))
        }
        5 if axis != other => {
            let offset = c as isize % 4 - 1;
            let diagonal = array.diagonal(offset, axis, other).unwrap();
            let expected = ArrayD::from_shape_fn(IxDyn(diagonal.shape()), |index| {
                let mut outer = (0..rank - 2).map(|k| index[k]);
                let at = index[rank - 2];
                let source: Vec<usize> = (0..rank)
                    .map(|k| match k {
                        k if k == axis => at + (-offset).max(0) as usize,
                        k if k == other => at + offset.max(0) as usize,
                        _ => outer.next().unwrap(),
                    })
                    .collect();
                reference[IxDyn(&source)]
            });
            (diagonal, expected)
        }
        6 => {
            let (window, step) = (b % (size + 1), 1 + c % 3);
            let unfolded = array.unfold(axis, window, step).unwrap();
            let expected = ArrayD::from_shape_fn(IxDyn(unfolded.shape()), |index| {
                let mut source = (0..rank).map(|k| index[k]).collect::<Vec<_>>();
                source[axis] = source[axis] * step + index[rank];
                reference[IxDyn(&source)]
            });
            (unfolded, expected)
        }
        7 => {
            let numel = array.numel();
            let divisor = (1..=1 + b % 12).rev().find(|d: &usize| numel.is_multiple_of(*d)).unwrap();
            let mut shape = vec![divisor, numel / divisor];
            shape.insert(c % 3, 1);
            (array.reshape(&shape).unwrap(), reference.clone().into_shape_with_order(IxDyn(&shape)).unwrap())
        }
        8 if rank > 1 => {
            let mut shape = array.shape().to_vec();
            let axis = axis.min(rank - 2);
            let joined = shape.remove(axis + 1);
            shape[axis] *= joined;
            (array.reshape(&shape).unwrap(), reference.clone().into_shape_with_order(IxDyn(&shape)).unwrap())
        }
        9 => {
            let k = 1 + b % 2;
            let room = array.numel() / (k + 1);
            let shape = [room.min(3), room.min(2)];
            let strides = [k as isize, (c % 2) as isize];
            let offset = if room > 0 { c % room.min(2) } else { 0 };
            let reach =
                shape.iter().zip(strides).map(|(&n, s)| n.saturating_sub(1) * s as usize).sum::<usize>();
            if room > 0 && offset + reach >= array.numel() {
                assert_eq!(array.as_strided(&shape, &strides, offset).unwrap_err().kind(), ErrorKind::Index);
                return (array.clone(), reference.clone());
            }
            let flat: Vec<i32> = reference.iter().copied().collect();
            let expected = ArrayD::from_shape_fn(IxDyn(&shape), |index| {
                flat[offset + index[0] * strides[0] as usize + index[1] * strides[1] as usize]
            });
            (array.as_strided(&shape, &strides, offset).unwrap(), expected)
        }
        _ => (array.clone(), reference.clone()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn chains_of_views_agree_with_ndarray(
        shape in prop::collection::vec(0usize..6, 0..5),
        steps in prop::collection::vec((0usize..10, 0usize..64, 0usize..64, 0usize..64), 0..6),
    ) {
        let mut array = arange(&shape);
        let mut reference = array.to_ndarray::<i32>().unwrap();
        for (kind, a, b, c) in steps {
            if array.numel() > 5000 { break }
            (array, reference) = step(&array, &reference, kind, a, b, c);
        }
        check_same(&array, &reference);
    }

    #[test]
    fn large_permutations_agree_with_ndarray(
        shape in prop::collection::vec(1usize..40, 3),
        axes in Just(vec![0usize, 1, 2]).prop_shuffle(),
    ) {
        let array = arange(&shape).permute(&axes).unwrap();
        let reference = arange(&shape).to_ndarray::<i32>().unwrap().permuted_axes(axes);
        prop_assert_eq!(array.to_vec::<i32>().unwrap(), reference.iter().copied().collect::<Vec<_>>());
    }

    #[test]
    fn slices_cast_as_their_elements(values in prop::collection::vec(any::<f64>(), 0..600), from in 0usize..9, to in 0usize..9) {
        let (from, to) = (DType::ALL[from], DType::ALL[to]);
        let array = Array::from(values).cast(from);
        let cast = array.cast(to);
        for k in 0..array.numel() {
            let single = array.select(0, k).unwrap().cast(to);
            prop_assert!(cast.select(0, k).unwrap().bits_eq(&single), "element {} of {} to {}", k, from, to);
        }
    }

    #[test]
    fn bytes_round_trip(bytes in prop::collection::vec(any::<u8>(), 24), dtype in 0usize..9) {
        let dtype = DType::ALL[dtype];
        let bytes: Vec<u8> = bytes.iter().map(|b| if dtype == DType::Bool { b & 1 } else { *b }).collect();
        let array = Array::from_le_bytes(dtype, &[3, 8 / dtype.size()], &bytes).unwrap();
        prop_assert_eq!(array.to_le_bytes().unwrap(), bytes);
    }
}

#[test]
fn views_share_storage_and_expand_uses_no_memory() {
    let array = arange(&[4, 1, 3]);
    let huge = array.broadcast_to(&[1 << 40, 4, 1 << 10, 3]).unwrap();
    assert!(huge.shares_storage(&array));
    assert_eq!(huge.strides(), [0, 3, 0, 1]);
    assert_eq!(huge.cast(DType::F64).storage().len(), 12);
    assert_eq!(huge.contiguous().unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(huge.to_vec::<i32>().unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(huge.get(&[7, 3, 5, 1]), Some(Scalar::Int(10)));
    assert!(huge.view::<i32>().is_ok());
    assert!(array.permute(&[2, 0, 1]).unwrap().reshape(&[3, 2, 2]).unwrap().shares_storage(&array));
    assert!(!array.permute(&[2, 0, 1]).unwrap().reshape(&[12]).unwrap().shares_storage(&array));
    assert!(
        array.cast(DType::I32).shares_storage(&array) && array.contiguous().unwrap().shares_storage(&array)
    );
}

#[test]
fn writing_needs_the_only_handle() {
    let mut array = arange(&[2, 2]);
    let other = array.clone();
    assert!(array.get_mut::<i32>().is_none());
    drop(other);
    assert!(array.get_mut::<f32>().is_none());
    array.get_mut::<i32>().unwrap()[3] = 7;
    assert_eq!(array.to_vec::<i32>().unwrap(), [0, 1, 2, 7]);
    let mut transposed = array.transpose(0, 1).unwrap();
    drop(array);
    assert!(transposed.get_mut::<i32>().is_none());
}

#[test]
fn owned_ndarrays_move_in_without_a_copy() {
    let mut reference = ndarray::Array2::<f32>::from_shape_fn((3, 4), |(i, j)| (i * 4 + j) as f32);
    reference.swap_axes(0, 1);
    reference.slice_axis_inplace(Axis(0), Slice::from(1..));
    let (expected, address) = (reference.clone(), reference.as_ptr());
    let array = Array::from(reference);
    assert_eq!(array.view::<f32>().unwrap(), expected.into_dyn());
    assert_eq!(array.data::<f32>().unwrap().as_ptr(), address);
}

fn cast<T: Element, U: Element>(from: &[T]) -> Vec<U> {
    Array::from(from).cast(U::DTYPE).to_vec().unwrap()
}

#[test]
fn casts_follow_the_table() {
    let special = [f64::NAN, f64::INFINITY, -f64::INFINITY, -1.9, 300.0, -0.0, 1e-300];
    assert_eq!(cast::<_, bool>(&special), [true, true, true, true, true, false, true]);
    assert_eq!(cast::<_, u8>(&special), [0, 255, 0, 0, 255, 0, 0]);
    assert_eq!(cast::<_, i64>(&special), [0, i64::MAX, i64::MIN, -1, 300, 0, 0]);
    assert_eq!(cast::<_, i8>(&special.map(f16::from_f64)), [0, 127, -128, -1, 127, 0, 0]);
    assert_eq!(cast::<i64, u8>(&[-1, 256, 511]), [255, 0, 255]);
    assert_eq!(cast::<i64, i32>(&[i64::MAX, 1 << 31]), [-1, i32::MIN]);
    assert_eq!(cast::<i64, bool>(&[1 << 40, 0]), [true, false]);
    assert_eq!(cast::<bool, bf16>(&[true, false]), [bf16::ONE, bf16::ZERO]);
    assert_eq!(cast::<f64, f16>(&[65519.0, 65520.0, 1e-8]), [f16::MAX, f16::INFINITY, f16::ZERO]);
    let ties = [2049.0, 2051.0].map(|x: f32| x);
    assert_eq!(cast::<f32, f16>(&ties).map_f32(), [2048.0, 2052.0]);
    assert_eq!(cast::<i32, bf16>(&[257, 259]).map_f32(), [256.0, 260.0]);
    assert_eq!(u8::from_scalar(Scalar::Int(-1)), 255);
    assert!(bool::from_scalar(Scalar::Float(f64::NAN)));
    assert_eq!(
        Array::full(DType::F16, &[2], Scalar::Float(0.1)).unwrap().to_vec::<f16>().unwrap(),
        [f16::from_f32(0.1); 2]
    );
}

trait MapF32 {
    fn map_f32(&self) -> Vec<f32>;
}

impl<T: Cast<f32>> MapF32 for Vec<T> {
    fn map_f32(&self) -> Vec<f32> {
        self.iter().map(|x| x.cast()).collect()
    }
}

#[test]
fn equality_of_bits_and_closeness_differ() {
    let a = Array::from([0.0f32, f32::NAN, f32::INFINITY, 1.0]);
    let b = Array::from([-0.0f32, -f32::NAN, f32::INFINITY, 1.0 + 1e-6]);
    assert!(a.bits_eq(&a) && !a.bits_eq(&b));
    assert_eq!(a.all_close(&b, 1e-5, 0.0), Ok(()));
    expect!["expected 1.0000009536743164 at [3], got 1.0 (greatest difference 9.5367431640625e-7)"]
        .assert_eq(&a.all_close(&b, 0.0, 0.0).unwrap_err().to_string());
    let far = Array::from([0.0f32, 0.0, f32::INFINITY, f32::INFINITY]);
    for (x, y) in [(&a, &far), (&far, &a)] {
        let Err(Mismatch::Value { index, max_abs_error, .. }) = x.all_close(y, 1e9, 1e9) else { panic!() };
        assert_eq!((&index[..], max_abs_error), (&[1][..], f64::INFINITY));
    }
    let ints = Array::from([i64::MAX, 0]);
    assert!(ints.all_close(&Array::from([i64::MAX - 1, 0]), 1.0, 10.0).is_err());
    assert!(ints.all_close(&ints.cast(DType::I32), 1.0, 1.0).is_err());
}

#[test]
fn impossible_requests_are_errors() {
    for shape in [&[usize::MAX, 2][..], &[1 << 62, 4, 0], &[1 << 60]] {
        assert_eq!(Array::zeros(DType::F64, shape).unwrap_err().kind(), ErrorKind::Limit, "{shape:?}");
    }
    let a = arange(&[2, 3]);
    let check = |result: Result<Array>, expected: Expect| expected.assert_eq(&message(result));
    check(Array::from_vec(vec![1i32], &[2]), expect!["expected 2 elements for shape [2], got 1"]);
    check(
        Array::try_from(vec![vec![1u8, 2], vec![3]]),
        expect![[r#"
        expected 2 elements in row 1, got 1
          help: all rows must be as long as the first"#]],
    );
    check(a.permute(&[0, 0]), expect!["axis 0 is repeated in permutation [0, 0]"]);
    check(
        a.transpose(0, 2),
        expect![[r#"
        axis 2 is out of range for i32[2, 3]
          help: axes are 0 to 1"#]],
    );
    check(a.reshape(&[4]), expect!["cannot reshape i32[2, 3], 6 elements, to [4], 4"]);
    check(
        a.broadcast_to(&[2, 2, 6]),
        expect![[r#"
        cannot broadcast i32[2, 3] to [2, 2, 6]
          help: axis 1 has size 3; only axes of size 1 expand"#]],
    );
    check(a.slice_axis(1, 0, 4, 1), expect!["slice 0..4 is out of range for axis 1 of i32[2, 3]"]);
    check(a.select(0, 2), expect!["index 2 is out of range for axis 0 of i32[2, 3]"]);
    check(a.squeeze(0), expect!["expected size 1 to squeeze axis 0, got i32[2, 3]"]);
    check(a.unfold(0, 3, 1), expect!["a window of 3 does not fit axis 0 of i32[2, 3]"]);
    check(
        a.as_strided(&[2], &[isize::MAX], 1),
        expect![[r#"
        shape [2] with strides [9223372036854775807] from 1 is out of range for i32[2, 3]
          help: there are 6 elements"#]],
    );
    check(
        Array::from_le_bytes(DType::Bool, &[2], &[1, 2]),
        expect!["expected 0 or 1 for a bool, got 2 at byte 1"],
    );
    check(Array::from_le_bytes(DType::F32, &[2], &[0; 9]), expect!["expected 8 bytes for f32[2], got 9"]);
    expect![[r#"
        expected f32, got i32
          help: use .to(f32) to convert"#]]
    .assert_eq(&a.to_vec::<f32>().unwrap_err().to_string());
    expect!["expected one element, got i32[2, 3]"].assert_eq(&a.item().unwrap_err().to_string());
    assert_eq!(a.select(0, 1).unwrap().select(0, 2).unwrap().item().unwrap(), Scalar::Int(5));
}

#[test]
fn empty_views_stay_in_range() {
    let strange = arange(&[3]).as_strided(&[0, 5], &[isize::MAX, isize::MAX], 3).unwrap();
    let sliced = strange.slice_axis(1, 1, 5, 2).unwrap().unfold(1, 2, 1).unwrap();
    assert_eq!(sliced.shape(), [0, 1, 2]);
    check_same(&sliced, &ArrayD::zeros(IxDyn(&[0, 1, 2])));
    let end = arange(&[5, 3]).transpose(0, 1).unwrap().select(0, 2).unwrap().slice_axis(0, 5, 5, 1).unwrap();
    check_same(&end, &ArrayD::zeros(IxDyn(&[0])));
}

fn check_text(array: impl Into<Array>, expected: Expect) {
    expected.assert_eq(&array.into().to_string());
}

#[test]
fn arrays_print_as_in_pytorch() {
    check_text(1.0f32, expect!["1."]);
    check_text(true, expect!["true"]);
    check_text(0.5f64, expect!["0.5000"]);
    check_text(Array::zeros(DType::F32, &[2, 0]).unwrap(), expect!["[]"]);
    check_text([1.0f32, -2.0, 0.0], expect!["[ 1., -2.,  0.]"]);
    check_text([1.0f32, f32::NAN, f32::INFINITY], expect!["[ 1., nan, inf]"]);
    check_text([0.1f32, 2.5, -10.0], expect!["[  0.1000,   2.5000, -10.0000]"]);
    check_text([1e-5f32, 1.0], expect!["[1.0000e-05, 1.0000e+00]"]);
    check_text([1e9f32], expect!["[1.0000e+09]"]);
    check_text([1.0f64, 1001.0, -f64::INFINITY], expect!["[1.0000e+00, 1.0010e+03,       -inf]"]);
    check_text(
        [[[1i64, 2], [3, 40]], [[-5, 6], [7, 8]]],
        expect![[r#"
        [[[ 1,  2],
          [ 3, 40]],

         [[-5,  6],
          [ 7,  8]]]"#]],
    );
    check_text(
        arange(&[1, 30]),
        expect![[r#"
        [[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
          19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]]"#]],
    );
    check_text(
        arange(&[40, 30]),
        expect![[r#"
        [[   0,    1,    2,  ...,   27,   28,   29],
         [  30,   31,   32,  ...,   57,   58,   59],
         [  60,   61,   62,  ...,   87,   88,   89],
         ...,
         [1110, 1111, 1112,  ..., 1137, 1138, 1139],
         [1140, 1141, 1142,  ..., 1167, 1168, 1169],
         [1170, 1171, 1172,  ..., 1197, 1198, 1199]]"#]],
    );
    assert_eq!(format!("{:?}", arange(&[2, 3])), "Array(i32[2, 3])");
}

#[test]
fn printing_does_bounded_work() {
    let one = Array::scalar(1u8);
    let deep = one.broadcast_to(&[2; 60]).unwrap().to_string();
    assert!(deep.len() < 1_000_000, "{} bytes", deep.len());
    let long = one.reshape(&[1; 3000]).unwrap().to_string();
    assert_eq!(long.len(), 6001);
    expect!["[1, 1, 1,  ..., 1, 1, 1]"].assert_eq(&one.broadcast_to(&[1 << 62]).unwrap().to_string());
}

#[test]
fn halves_convert_alike_one_by_one_and_in_slices() {
    let x: Vec<f32> = (0..=u32::MAX).step_by(65_213).map(f32::from_bits).collect();
    let narrow = Array::from_vec(x.clone(), &[x.len()]).unwrap().cast(DType::BF16);
    let expected = x.iter().map(|&x| bf16::from_f32(x).to_bits());
    assert!(narrow.as_slice::<bf16>().unwrap().iter().map(|x| x.to_bits()).eq(expected));
    let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    let wide = Array::from_vec(all.clone(), &[all.len()]).unwrap().cast(DType::F32);
    assert!(
        wide.as_slice::<f32>().unwrap().iter().zip(&all).all(|(x, y)| x.to_bits() == y.to_f32().to_bits())
    );
}
