//! Where the elements of arrays lie.

use fx_core::DType;
use fx_core::{Array, Scalar};

#[test]
fn arrays_begin_where_lines_and_large_ones_where_pages_do() {
    for (n, place) in [(256, 64), (1000, 64), (32_768, 4096), (100_003, 4096)] {
        let array = Array::full(DType::F32, &[n], Scalar::Float(1.5)).unwrap();
        let slice = array.as_slice::<f32>().unwrap();
        assert_eq!((slice.as_ptr().align_offset(place), slice), (0, &vec![1.5; n][..]));
        let bytes = array.to_le_bytes().unwrap();
        for again in [
            Array::from_le_bytes(DType::F32, &[n], &bytes).unwrap(),
            Array::from_le_reader(DType::F32, &[n], &mut &bytes[..]).unwrap(),
        ] {
            assert_eq!(again.data::<f32>().unwrap().as_ptr().align_offset(place), 0);
            assert_eq!(again.into_vec::<f32>().unwrap(), vec![1.5; n]);
        }
    }
}

#[test]
fn elements_that_begin_late_are_written_and_taken_out() {
    let mut array = Array::zeros(DType::I64, &[10, 100]).unwrap();
    array.get_mut::<i64>().unwrap().iter_mut().zip(0..).for_each(|(x, i)| *x = i);
    assert_eq!((array.storage().len(), array.offset()), (1000, 0));
    assert_eq!(array.into_vec::<i64>().unwrap(), (0..1000).collect::<Vec<_>>());
}
