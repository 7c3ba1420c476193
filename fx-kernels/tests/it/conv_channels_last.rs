//! Convolutions of inputs whose channels lie last.

use fx_kernels::conv::channels_last::*;
use fx_kernels::conv::{ConvSpec, conv_nd};
use fx_kernels::gemm::TileEpilogue;
use proptest::prelude::*;

fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 31 + seed * 17) % 23) as f32 - 11.0).collect()
}

/// Returns the elements of `[n, c, positions]` as `[n, positions, c]`.
fn turned(x: &[f32], c: usize, positions: usize) -> Vec<f32> {
    let at = |i: usize| (i / (positions * c), i / c % positions, i % c);
    (0..x.len()).map(at).map(|(n, p, channel)| x[(n * c + channel) * positions + p]).collect()
}

/// Compares with the convolution of inputs whose channels lie first; numbers are so small that both are exact.
fn compare(
    spec: &ConvSpec,
    xs: &[usize],
    ws: &[usize],
    turns: bool,
    (has_bias, has_other, is_bounded): (bool, bool, bool),
    is_winograd: bool,
) -> Result<(), TestCaseError> {
    let rank = xs.len() - 2;
    let Ok(os) = spec.output_shape(xs, ws) else { return Ok(()) };
    let (x, w) = (numbers(xs.iter().product(), 1), numbers(ws.iter().product(), 2));
    let mut want = vec![0.0; os.iter().product()];
    conv_nd(spec, &x, xs, &w, ws, None, &mut want).unwrap();
    let Some(conv) = ChannelsLast::<f32>::new(spec, xs, ws).unwrap() else { return Ok(()) };
    prop_assert_eq!(conv.algorithm() == "winograd", is_winograd);
    let positions: usize = xs[2..].iter().product();
    // The input as it is, or with its channels last.
    let mut strides = [0; 5];
    let (mut step, turned_x) = (1, turned(&x, xs[1], positions));
    let scale = if turns { xs[1] } else { 1 };
    for d in (0..rank).rev() {
        strides[5 - rank + d] = step * scale;
        step *= xs[2 + d];
    }
    (strides[0], strides[1]) = (step * xs[1], if turns { 1 } else { step });
    let mut enclosed = vec![f32::NAN; conv.enclosed_len()];
    conv.enclose(if turns { &turned_x } else { &x }, strides, &mut enclosed);
    if !conv.has_border() {
        prop_assert_eq!(&enclosed, &turned_x);
    }
    let mut got = vec![f32::NAN; conv.out_len()];
    let complete = std::sync::Mutex::new(vec![0; got.len()]);
    let (bias, other) = (numbers(os[1], 3), numbers(got.len(), 4));
    let epilogue = TileEpilogue {
        bias: has_bias.then_some(&bias[..]),
        other: has_other.then_some(&other[..]),
        bounds: is_bounded.then_some((-90.0, 300.0)),
    };
    let packed = conv.pack(&w);
    prop_assert_eq!(&conv.pack_vec(w), &packed);
    conv.run(&enclosed, &packed, &mut got, epilogue, &|rows, columns| {
        let mut complete = complete.lock().unwrap();
        for row in rows {
            columns.clone().for_each(|column| complete[row * os[1] + column] += 1);
        }
    });
    let mut want = turned(&want, os[1], os[2..].iter().product());
    for (i, x) in want.iter_mut().enumerate() {
        *x += if has_bias { bias[i % os[1]] } else { 0.0 };
        *x += if has_other { other[i] } else { 0.0 };
        *x = if is_bounded { x.clamp(-90.0, 300.0) } else { *x };
    }
    prop_assert_eq!(got, want);
    prop_assert!(complete.lock().unwrap().iter().all(|&n| n == 1), "every element is complete once");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_order_of_axes_changes_no_convolution(
        rank in 1usize..4, batch in 1usize..3, depthwise: bool, turns: bool,
        (groups, c_in, c_out) in prop_oneof![(1usize..4, 1usize..9, 10usize..70), (2usize..30, 1usize..9, 1usize..17)],
        dims in prop::collection::vec((1usize..9, 1usize..4, 1usize..4, 0usize..3, 1usize..3), 3),
        (has_bias, has_other, is_bounded) in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let part = |f: fn(&(usize, usize, usize, usize, usize)) -> usize| dims[..rank].iter().map(f).collect::<Vec<_>>();
        let (groups, c_in, c_out) = if depthwise { (c_out, 1, 1) } else { (groups, c_in, c_out) };
        let spec = ConvSpec {
            stride: part(|d| d.2), padding: part(|d| d.3), dilation: part(|d| d.4), groups, ..ConvSpec::new(rank)
        };
        let ws: Vec<usize> = [groups * c_out, c_in].into_iter().chain(part(|d| d.1)).collect();
        let xs: Vec<usize> = [batch, groups * c_in].into_iter().chain(part(|d| d.0)).collect();
        compare(&spec, &xs, &ws, turns, (has_bias, has_other, is_bounded), false)?;
    }
}

#[test]
fn many_channels_are_a_product() {
    for (xs, c_out) in
        [([1, 384, 3, 5], 40), ([2, 1030, 2, 1], 12), ([1, 200, 33, 32], 21), ([1, 20, 1, 1], 37)]
    {
        let ws = [c_out, xs[1], 1, 1];
        let conv = ChannelsLast::<f32>::new(&ConvSpec::new(2), &xs, &ws).unwrap();
        assert!(conv.is_none_or(|conv| conv.algorithm() == "product"));
        for with in [false, true] {
            compare(&ConvSpec::new(2), &xs, &ws, with, (with, with, with), false).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn fewer_multiplications_give_the_same(
        (batch, depth) in (1usize..3, 1usize..5), deep in (1usize..4, 1usize..3, 1usize..3, 0usize..3),
        c_in in prop_oneof![32usize..40, 128usize..131], c_out in prop_oneof![32usize..70, 150usize..153],
        (height, width) in (14usize..24, 14usize..24), padding in prop::collection::vec(0usize..3, 2), turns: bool,
        (has_bias, has_other, is_bounded) in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let (kernel, stride, dilation, border) = deep;
        let spec = ConvSpec {
            padding: vec![border, padding[0], padding[1]],
            stride: vec![stride, 1, 1],
            dilation: vec![dilation, 1, 1],
            ..ConvSpec::new(3)
        };
        let (xs, ws) = ([batch, c_in, depth, height, width], [c_out, c_in, kernel, 3, 3]);
        compare(&spec, &xs, &ws, turns, (has_bias, has_other, is_bounded), true)?;
    }
}
