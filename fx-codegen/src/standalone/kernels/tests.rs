use super::float::Float;
use super::gemm::{Matrix, Packed, Sizes, Start, batched, work};
use super::{
    attention, conv, copy, depthwise, gemm, lookup, pack, pool, reduce, rows, simd, sort, threads, tile,
    winograd,
};

/// Numbers between -1 and 1 that look like chance.
fn noise(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect()
}

fn near(got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= tolerance * (1.0 + expected.abs()), "{i}: {got} is not {expected}");
    }
}

#[test]
fn products_of_all_sizes_and_layouts() {
    for (m, n, k) in
        [(1, 1, 1), (1, 40, 9), (3, 5, 0), (5, 33, 7), (130, 17, 300), (13, 530, 40), (25, 64, 257)]
    {
        let (a, b, bias) = (noise(m * k), noise(n * k), noise(m.max(n)));
        for (a_row, a_column, b_row, b_column) in [(k, 1, n, 1), (k, 1, 1, k), (1, m, n, 1), (1, m, 1, k)] {
            for (start, first) in
                [(Start::Zero, 0), (Start::Columns(&bias[..n]), 1), (Start::Rows(&bias[..m]), 2)]
            {
                let expected: Vec<f32> = (0..m * n)
                    .map(|at| {
                        let (i, j) = (at / n, at % n);
                        let sum: f64 = (0..k)
                            .map(|p| {
                                f64::from(a[i * a_row + p * a_column])
                                    * f64::from(b[p * b_row + j * b_column])
                            })
                            .sum();
                        sum as f32 + [0.0, bias[j], bias[i]][first]
                    })
                    .collect();
                let (mut room, mut out) = (vec![0.0; work(m, k)], vec![f32::NAN; m * n]);
                let a = Matrix { data: &a, row: a_row, column: a_column };
                let b = Matrix { data: &b, row: b_row, column: b_column };
                gemm::gemm(Sizes { m, n, k }, a, b, start, &mut room, &mut out);
                near(&out, &expected, 1e-5);
                let (packed, mut again) = (pack::packed(n, k, b), vec![f32::NAN; m * n]);
                gemm::gemm(Sizes { m, n, k }, a, Packed(&packed), start, &mut room, &mut again);
                near(&again, &expected, 1e-5);
            }
        }
    }
}

/// Convolves by definition.
fn convolved(c: conv::Conv, x: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
    let w = c.window;
    let ([kz, ky, kx], [oz, oy, ox]) = (w.kernel, w.output);
    let batch = x.len() / (c.groups * c.inputs * w.input.iter().product::<usize>());
    let mut out = Vec::new();
    for at in 0..batch * c.groups * c.outputs * oz * oy * ox {
        let place = [at / (oy * ox) % oz, at / ox % oy, at % ox];
        let channel = at / (oz * oy * ox) % (c.groups * c.outputs);
        let batch = at / (oz * oy * ox) / (c.groups * c.outputs);
        let mut sum = bias[channel];
        for i in 0..c.inputs {
            for tap in 0..kz * ky * kx {
                let tap_at = [tap / (ky * kx), tap / kx % ky, tap % kx];
                let position = [0, 1, 2].map(|a| {
                    (place[a] * w.stride[a] + tap_at[a] * w.dilation[a]) as isize - w.padding[a] as isize
                });
                if (0..3).any(|a| position[a] < 0 || position[a] >= w.input[a] as isize) {
                    continue;
                }
                let place = position.map(|p| p as usize);
                let from = batch * c.groups * c.inputs + channel / c.outputs * c.inputs + i;
                let from = w.input.iter().zip(place).fold(from, |from, (size, p)| from * size + p);
                sum += x[from] * weight[(channel * c.inputs + i) * kz * ky * kx + tap];
            }
        }
        out.push(sum);
    }
    out
}

#[test]
fn filtering_is_convolution() {
    // Blocks of several lines, tiles that cross the border, padding on all sides of more than a window.
    for (inputs, outputs, [height, width], padding) in [
        (1, 1, [3, 3], [0, 0]),
        (2, 3, [1, 1], [1, 1]),
        (3, 5, [7, 9], [1, 1]),
        (5, 25, [8, 6], [0, 2]),
        (70, 26, [14, 14], [1, 1]),
        (33, 13, [37, 29], [5, 0]),
        (200, 2, [4, 60], [1, 3]),
        (64, 3, [20, 56], [1, 1]),
        (2, 3, [0, 4], [2, 1]),
    ] {
        let output = [1, height + 2 * padding[0] - 2, width + 2 * padding[1] - 2];
        let window = conv::Window {
            input: [1, height, width],
            kernel: [1, 3, 3],
            output,
            stride: [1; 3],
            padding: [0, padding[0], padding[1]],
            dilation: [1; 3],
        };
        let c = conv::Conv { groups: 1, inputs, outputs, window };
        let (x, weight, bias) =
            (noise(2 * inputs * height * width), noise(outputs * inputs * 9), noise(outputs));
        let kernels = winograd::parted(outputs * inputs, &weight);
        let mut out = vec![f32::NAN; 2 * outputs * output[1] * output[2]];
        let mut room = vec![f32::NAN; winograd::work(inputs, output[1], output[2])];
        winograd::conv(c, &x, &kernels, Some(&bias), &mut room, &mut out);
        let expected = match x.is_empty() {
            true => (0..out.len()).map(|i| bias[i / (output[1] * output[2]) % outputs]).collect(),
            false => convolved(c, &x, &weight, &bias),
        };
        near(&out, &expected, 1e-4);
    }
}

#[test]
fn convolutions_with_groups_strides_padding_and_dilation() {
    let sizes = |input: [usize; 3],
                 kernel: [usize; 3],
                 stride: [usize; 3],
                 padding: [usize; 3],
                 dilation: [usize; 3]| {
        [0, 1, 2].map(|a| (input[a] + 2 * padding[a] - dilation[a] * (kernel[a] - 1) - 1) / stride[a] + 1)
    };
    for (groups, inputs, outputs, input, kernel, stride, padding, dilation) in [
        (1, 3, 5, [1, 9, 11], [1, 3, 3], [1, 2, 2], [0, 1, 1], [1, 1, 1]),
        (2, 3, 4, [1, 8, 8], [1, 3, 2], [1, 1, 1], [0, 1, 0], [1, 2, 1]),
        (4, 1, 1, [1, 7, 9], [1, 3, 5], [1, 1, 2], [0, 1, 2], [1, 1, 1]),
        (4, 1, 1, [3, 7, 9], [2, 3, 3], [1, 1, 1], [1, 1, 1], [1, 2, 2]),
        (1, 6, 7, [1, 5, 5], [1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1]),
        (1, 6, 7, [1, 9, 7], [1, 1, 1], [1, 2, 3], [0, 0, 0], [1, 1, 1]),
        (2, 40, 13, [1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1]),
        (1, 40, 83, [1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1]),
        (1, 9, 37, [1, 2, 2], [1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1]),
        (33, 1, 1, [1, 2, 3], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        (17, 1, 1, [1, 1, 1], [1, 5, 5], [1, 2, 2], [0, 2, 2], [1, 1, 1]),
        (16, 1, 1, [2, 4, 3], [2, 3, 2], [2, 1, 3], [1, 4, 2], [1, 2, 1]),
        (3, 1, 1, [1, 40, 37], [1, 5, 5], [1, 2, 2], [0, 2, 2], [1, 1, 1]),
        (2, 3, 1, [1, 9, 37], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        (3, 1, 1, [1, 1, 90], [1, 1, 3], [1, 1, 1], [0, 0, 0], [1, 1, 40]),
        (1, 70, 17, [1, 12, 14], [1, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1]),
        (1, 4, 3, [1, 2, 3], [1, 4, 5], [1, 3, 2], [0, 3, 4], [1, 1, 1]),
        (1, 2, 2, [1, 11, 11], [1, 3, 3], [1, 3, 4], [0, 2, 3], [1, 2, 3]),
        (1, 2, 3, [4, 5, 6], [3, 3, 3], [2, 1, 2], [1, 1, 1], [1, 1, 1]),
    ] {
        let output = sizes(input, kernel, stride, padding, dilation);
        let window = conv::Window { input, kernel, output, stride, padding, dilation };
        let c = conv::Conv { groups, inputs, outputs, window };
        let taps: usize = kernel.iter().product();
        let x = noise(2 * groups * inputs * input.iter().product::<usize>());
        let weight = noise(groups * outputs * inputs * taps);
        let bias = noise(groups * outputs);
        let expected = convolved(c, &x, &weight, &bias);
        let (mut room, mut places) =
            (vec![f32::NAN; conv::work(inputs, output, kernel, stride, dilation) + 5], vec![0; taps + 3]);
        let mut out = vec![f32::NAN; expected.len()];
        conv::conv(c, &x, &weight, Some(&bias), &mut room, &mut places, &mut out);
        near(&out, &expected, 1e-5);
        if groups == 1 {
            let (n, k) = (output.iter().product(), inputs * taps);
            let packed = pack::packed(outputs, k, Matrix { data: &weight, row: 1, column: k });
            let mut room = vec![f32::NAN; conv::few_work(n, outputs, k, n * k)];
            out.fill(f32::NAN);
            conv::few(c, &x, Packed(&packed), Some(&bias), &mut room, &mut out);
            near(&out, &expected, 1e-5);
        }
        if [inputs, outputs] == [1, 1] {
            let kernels = depthwise::side_by_side(groups, &weight);
            let (from, to) = (input.iter().product(), output.iter().product());
            let mut room = vec![f32::NAN; depthwise::work(from, to)];
            out.fill(f32::NAN);
            depthwise::conv(c, &x, &kernels, Some(&bias), &mut room, &mut out);
            near(&out, &expected, 1e-5);
        }
        if taps == 1 && stride == [1; 3] {
            let mut room = vec![f32::NAN; work(outputs, inputs)];
            out.fill(f32::NAN);
            conv::pointwise(c, &x, &weight, Some(&bias), &mut room, &mut out);
            near(&out, &expected, 1e-5);
        }
    }
}

#[test]
fn windows_of_pools_are_joined() {
    for (input, kernel, output, stride, padding, dilation) in [
        ([1, 9, 11], [1, 3, 3], [1, 4, 5], [1, 2, 2], [0, 0, 0], [1, 1, 1]),
        // The last windows reach over the border, or lie in it.
        ([1, 6, 8], [1, 3, 2], [1, 3, 5], [1, 2, 2], [0, 0, 1], [1, 1, 1]),
        ([4, 5, 7], [2, 3, 1], [3, 5, 3], [1, 1, 3], [0, 1, 0], [1, 1, 1]),
        ([1, 13, 17], [1, 3, 4], [1, 9, 8], [1, 1, 1], [0, 0, 1], [1, 2, 3]),
        ([1, 1, 1], [1, 2, 2], [1, 1, 1], [1, 2, 2], [0, 0, 0], [1, 1, 1]),
        ([1, 2, 3], [1, 1, 1], [1, 0, 3], [1, 5, 1], [0, 0, 0], [1, 1, 1]),
    ] {
        let window = conv::Window { input, kernel, output, stride, padding, dilation };
        let (size, n): (usize, usize) = (input.iter().product(), output.iter().product());
        let x = noise(3 * size);
        let mut room = vec![f32::NAN; pool::work(output[2], kernel[2], stride[2], dilation[2])];
        let (mut most, mut places, mut means) =
            (vec![f32::NAN; 3 * n], vec![-1; 3 * n], vec![f32::NAN; 3 * n]);
        pool::max(window, f32::NEG_INFINITY, &x, &mut room, &mut most);
        pool::max_positions(window, &x, &mut places);
        let of = |i: usize| x[i / n * size + places[i] as usize];
        assert_eq!(most, (0..3 * n).map(of).collect::<Vec<_>>());
        // A convolution with a kernel of ones is the sum.
        pool::average(window, true, Some(1), &x, &mut room, &mut means);
        let sums = conv::Conv { groups: 3, inputs: 1, outputs: 1, window };
        let ones = vec![1.0; 3 * kernel.iter().product::<usize>()];
        near(&means, &convolved(sums, &x, &ones, &[0.0; 3]), 1e-5);
    }
}

#[test]
fn products_of_no_terms_are_zeros() {
    let empty = |row: usize| Matrix { data: &[] as &[f32], row, column: 1 };
    let mut out = [7.0; 12];
    let sizes = Sizes { m: 2, n: 1, k: 0 };
    // The steps of a view may lead beyond what has no elements.
    batched([6], sizes, empty(2), [2], empty(1), [1], &mut [], &mut out);
    assert_eq!(out, [0.0; 12]);
}

#[test]
fn a_transposed_convolution_is_the_adjoint() {
    let window = conv::Window {
        input: [1, 4, 5],
        kernel: [1, 3, 2],
        output: [1, 8, 9],
        stride: [1, 2, 2],
        padding: [0, 1, 0],
        dilation: [1, 1, 1],
    };
    let c = conv::Conv { groups: 2, inputs: 3, outputs: 2, window };
    let (x, y, weight) = (noise(2 * 6 * 20), noise(2 * 4 * 72), noise(6 * 2 * 6));
    let mut up = vec![0.0; y.len()];
    conv::transposed(c, &x, &weight, None, &mut up);
    let window = conv::Window { input: window.output, output: window.input, ..window };
    let back = conv::Conv { inputs: 2, outputs: 3, window, ..c };
    let down = convolved(back, &y, &weight, &[0.0; 6]);
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    assert!((product(&up, &y) - product(&x, &down)).abs() < 1e-3);
}

#[test]
fn threads_change_no_bit() {
    let window = |input: usize, kernel: usize| {
        let [input, kernel, output] = [input, kernel, input - kernel + 1].map(|n| [1, n, n]);
        conv::Window { input, kernel, output, stride: [1; 3], padding: [0; 3], dilation: [1; 3] }
    };
    let product = |m: usize, n: usize, k: usize, out: &mut Vec<f32>| {
        let (a, b, mut room) = (noise(m * k), noise(k * n), vec![0.0; work(m, k)]);
        let [a, b] = [(&a, k), (&b, n)].map(|(data, row)| Matrix { data, row, column: 1 });
        let start = noise(n);
        out.resize(m * n, 0.0);
        gemm::gemm(Sizes { m, n, k }, a, b, Start::Columns(&start), &mut room, out);
    };
    let convolve = |batch: usize, channels: usize, size: usize, out: &mut Vec<f32>| {
        let window = window(size, 3);
        let c = conv::Conv { groups: 1, inputs: channels, outputs: channels, window };
        let (x, weight) = (noise(batch * channels * size * size), noise(channels * channels * 9));
        let pixels = (size - 2) * (size - 2);
        out.resize(batch * channels * pixels, 0.0);
        let mut room =
            vec![0.0; conv::work(channels, window.output, window.kernel, window.stride, window.dilation)];
        conv::conv(c, &x, &weight, Some(&weight[..channels]), &mut room, &mut [0; 9], out);
        let c = conv::Conv { groups: channels, inputs: 1, outputs: 1, window };
        let mut deep = vec![0.0; out.len()];
        conv::conv(c, &x, &weight, None, &mut room, &mut [0; 9], &mut deep);
        out.extend(deep);
        let mut most = vec![0.0; out.len() / 2];
        pool::max(window, f32::NEG_INFINITY, &x, &mut room, &mut most);
        out.extend(most);
        let up = conv::Window { output: [1, size + 2, size + 2], ..window };
        let c = conv::Conv { groups: 1, inputs: channels, outputs: channels, window: up };
        let mut larger = vec![0.0; batch * channels * (size + 2) * (size + 2)];
        conv::transposed(c, &x, &weight, None, &mut larger);
        out.extend(larger);
    };
    let attend = |out: &mut Vec<f32>| {
        let sizes = attention::Sizing {
            batch: 2,
            heads: 3,
            shared: 1,
            queries: 150,
            keys: 130,
            width: 40,
            values: 40,
        };
        let x = noise(2 * 3 * 150 * 40);
        let heads = attention::Heads { data: &x, strides: [18_000, 6000, 40, 1] };
        let mut room = vec![0.0; attention::work(150, 130, 40)];
        out.resize(x.len(), 0.0);
        attention::attention(sizes, heads, heads, heads, attention::Mask::All, 0.2, true, &mut room, out);
    };
    // Some thread has one channel more than tiles have rows.
    let filter = |out: &mut Vec<f32>| {
        let (channels, window) = (98, window(40, 3));
        let c = conv::Conv { groups: 1, inputs: channels, outputs: channels, window };
        let (x, weight) = (noise(channels * 1600), noise(channels * channels * 9));
        let kernels = winograd::parted(channels * channels, &weight);
        out.resize(channels * 38 * 38, 0.0);
        winograd::conv(c, &x, &kernels, None, &mut vec![0.0; winograd::work(channels, 38, 38)], out);
    };
    type Work<'a> = &'a dyn Fn(&mut Vec<f32>);
    let works: [Work<'_>; 7] = [
        &filter,
        &|out| product(613, 200, 150, out),
        &|out| product(1, 2100, 4001, out),
        &|out| product(3, 2100, 1300, out),
        &|out| convolve(31, 16, 18, out),
        &|out| convolve(1, 64, 40, out),
        &attend,
    ];
    for (i, work) in works.into_iter().enumerate() {
        let [one, two, many] = [1, 2, 5].map(|n| {
            threads::set_threads(n);
            let mut out = Vec::new();
            work(&mut out);
            out
        });
        assert!(one == two && one == many && one.iter().any(|x| *x != 0.0), "{i}");
    }
}

#[test]
fn copies_between_layouts() {
    let x: Vec<i64> = (0..24).collect();
    let mut out = [0; 24];
    copy::copy([2, 3, 4], &x, [12, 4, 1], &mut out, [1, 2, 6]);
    for (i, j, k) in (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| (i, j, k)))) {
        assert_eq!(out[i + 2 * j + 6 * k], (12 * i + 4 * j + k) as i64);
    }
    copy::copy([], &[7], [], &mut out[..1], []);
    assert_eq!(out[0], 7);
    copy::copy::<i64, 2>([3, 0], &[], [1, 1], &mut [], [1, 1]);
}

#[test]
fn softmax_of_infinities_and_nan() {
    let softmax = |mut row: [f32; 3], masked: bool| {
        rows::softmax_row(&mut row, masked);
        row
    };
    assert_eq!(softmax([f32::NEG_INFINITY, 0.0, 0.0], false), [0.0, 0.5, 0.5]);
    assert!(softmax([1.0, f32::NAN, 0.0], true).iter().all(|x| x.is_nan()));
    assert!(softmax([f32::NEG_INFINITY; 3], false).iter().all(|x| x.is_nan()));
    assert_eq!(softmax([f32::NEG_INFINITY; 3], true), [0.0; 3]);
}

#[test]
fn reductions_of_middle_axes() {
    let x = [1.0f32, 2.0, 3.0, 4.0, f32::NAN, 6.0];
    let mut out = [0.0; 2];
    reduce::maxima(&x, 3, 2, &mut [0.0; 2]);
    reduce::sums(&x[..4], 2, 2, 0.5, &mut out);
    assert_eq!(out, [2.0, 3.0]);
    reduce::maxima(&x, 3, 2, &mut out);
    assert!(out[0].is_nan() && out[1] == 6.0);
    let mut at = [0; 2];
    reduce::positions(&x[..4], 2, 2, |x, best| x > best, &mut at);
    assert_eq!(at, [1, 1]);
}

#[test]
fn positions_that_do_not_exist_are_errors() {
    let mut out = [0; 2];
    assert_eq!(lookup::select(&[5, 6, 7], 3, 1, &[-1, 0], true, &mut out), Ok(()));
    assert_eq!(out, [7, 5]);
    assert_eq!(lookup::select(&[5, 6, 7], 3, 1, &[0, 3], true, &mut out), Err(3));
    assert_eq!(lookup::select(&[5, 6, 7], 3, 1, &[0, -1], false, &mut out), Err(-1));
    assert_eq!(lookup::gather(&[5, 6, 7], 3, 1, &[-4, 0], 2, &mut out), Err(-4));
}

#[test]
fn sorting_keeps_the_order_of_equals() {
    let x = [2.0f32, f32::NAN, 1.0, 2.0, -1.0];
    let (mut out, mut index, mut spare) = ([0.0; 5], [0; 5], [0; 5]);
    sort::sort(&x, 5, false, &mut out, &mut index, &mut spare);
    assert_eq!(index, [4, 2, 0, 3, 1]);
    sort::sort(&x, 5, true, &mut out, &mut index, &mut spare);
    assert_eq!(index, [1, 0, 3, 2, 4]);
}

#[test]
fn functions_without_std_are_those_of_std() {
    let close = |name: &str, x: f64, got: f64, expected: f64| {
        let same = got == expected || (got.is_nan() && expected.is_nan());
        assert!(
            same || (got - expected).abs() <= 1e-12 * expected.abs().max(1e-3),
            "{name}({x}): {got} is not {expected}"
        );
    };
    let points = (-400..400).map(|i| f64::from(i) * 0.377 + 0.01);
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        1e-9,
        1e-300,
        5e-324,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for x in points.chain(special) {
        macro_rules! same {
            ($($name:ident)*) => { $(close(stringify!($name), x, Float::$name(x), f64::$name(x));)* };
        }
        same!(sqrt floor ceil trunc round round_ties_even exp exp2 exp_m1 ln ln_1p log2 log10 cbrt atan sinh cosh tanh asinh acosh asin acos atanh);
        if x.abs() < 1e5 {
            same!(sin cos);
        }
        for y in [0.0, 1.0, -2.0, 0.5, 3.3] {
            if x.abs() < 1e3 && x.abs() > 1e-3 {
                close("powf", x, Float::powf(x, y), x.powf(y));
            }
            close("atan2", x, Float::atan2(x, y), x.atan2(y));
        }
    }
}

#[test]
fn halves_are_rounded_and_widened_as_by_the_eager_operations() {
    use fx_core::array::{bf16, f16};

    use super::half;
    for bits in 0..=u16::MAX {
        let (ours, eager) = (half::f16::from_bits(bits), f16::from_bits(bits));
        assert!(
            ours.to_f32().to_bits() == eager.to_f32().to_bits() || eager.is_nan() && ours != ours,
            "{bits:#x}"
        );
        let (ours, eager) = (half::bf16::from_bits(bits), bf16::from_bits(bits));
        assert!(
            ours.to_f32().to_bits() == eager.to_f32().to_bits() || eager.is_nan() && ours != ours,
            "{bits:#x}"
        );
    }
    let mut bits = 0u32;
    loop {
        let x = f32::from_bits(bits);
        if x.is_nan() {
            assert!(half::f16::from_f32(x).to_f32().is_nan() && half::bf16::from_f32(x).to_f32().is_nan());
        } else {
            assert_eq!(half::f16::from_f32(x).to_bits(), f16::from_f32(x).to_bits(), "{x:e}");
            assert_eq!(half::bf16::from_f32(x).to_bits(), bf16::from_f32(x).to_bits(), "{x:e}");
        }
        // A step that meets the ties of both roundings.
        bits = match bits.checked_add(0x0000_0800 | bits & 1) {
            Some(bits) => bits ^ 1,
            None => break,
        };
    }
}

/// Multiplies tiles of a height and of both widths, and compares with the definition.
fn tile_is_its_sums(
    height: usize,
    wide: usize,
    multiply: impl Fn(tile::Tile<'_, f32, gemm::Even>, tile::First<'_, f32>, tile::Place<'_, f32>),
) {
    for (terms, is_half, is_alone) in [
        (0, false, false),
        (1, true, false),
        (5, false, false),
        (37, false, height == 1),
        (38, true, height == 1),
    ] {
        let width = if is_half { wide / 2 } else { wide };
        let (step, b_step, out_step) = (terms + 3, wide + 1, wide + 5);
        let (a, b, start) = (noise(height * step), noise((terms + 1) * b_step), noise(wide.max(height)));
        let old = noise(height * out_step);
        for (first, add) in [
            (tile::First::Zero, 0),
            (tile::First::Columns(&start), 1),
            (tile::First::Rows(&start), 2),
            (tile::First::Sums, 3),
        ] {
            let rows = gemm::Even::by(b_step);
            let tile = tile::Tile { height, is_alone, is_half, a: &a, step, terms, b: &b, rows };
            let mut out = old.clone();
            multiply(tile, first, tile::Place { data: &mut out, step: out_step });
            let expected: Vec<f32> = (0..out.len())
                .map(|at| {
                    let (i, j) = (at / out_step, at % out_step);
                    if j >= width {
                        return old[at];
                    }
                    let sum: f32 = (0..terms).map(|p| a[i * step + p] * b[p * b_step + j]).sum();
                    sum + [0.0, start[j.min(wide - 1)], start[i], old[at]][add]
                })
                .collect();
            near(&out, &expected, 1e-5);
        }
    }
}

#[test]
fn tiles_of_all_machines_are_their_sums() {
    for &height in tile::PORTABLE {
        tile_is_its_sums(height, 8, tile::portable::<f32, _, 8, 4>);
    }
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! each {
            ($function:ident, $wide:literal, $($height:literal $chains:literal),*) => {$(
                tile_is_its_sums($height, $wide, |tile, first, out| {
                    // SAFETY: the processor has the features.
                    unsafe {
                        match tile.is_half {
                            true => simd::$function::<_, $height, 1, $chains>(tile, first, out),
                            false => simd::$function::<_, $height, 2, $chains>(tile, first, out),
                        }
                    }
                });
            )*};
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            each!(avx2_f32, 16, 6 1, 4 1, 2 1, 1 1, 1 4);
        }
        if is_x86_feature_detected!("avx512f") {
            each!(avx512_f32, 32, 12 1, 8 1, 4 1, 2 1, 1 1, 1 4);
        }
    }
}

#[test]
fn each_group_of_rows_has_its_matrix() {
    for [m, n, k] in [[7, 5, 3], [40, 33, 17], [6, 1, 4], [5, 4, 0], [0, 3, 2], [9, 0, 2]] {
        let numbers = |n: usize| (0..n).map(|i| ((i * 7 + 3) % 11) as f32 - 5.0).collect::<Vec<f32>>();
        let (a, b) = (numbers(m * k), numbers(4 * k * n));
        let sizes = Sizes { m, n, k };
        let matrix = |data, row| Matrix { data, row, column: 1 };
        let mut work = vec![0.0; gemm::work(m, k)];
        let third = (m / 3) as i64;
        for ends in [[third, third, 2 * third, m as i64], [0, third, third, third], [0, 0, 0, 0]] {
            let mut out = vec![f32::NAN; m * n];
            gemm::grouped(&ends, sizes, matrix(&a, k), matrix(&b, n), k * n, &mut work, &mut out).unwrap();
            for (at, got) in out.iter().enumerate() {
                let (row, column) = (at / n, at % n);
                let group = ends.iter().position(|&end| (row as i64) < end);
                let sum = |group| (0..k).map(|i| a[row * k + i] * b[(group * k + i) * n + column]).sum();
                assert_eq!(*got, group.map_or(0.0, sum), "{m} {n} {k} {ends:?} {at}");
            }
        }
        for ends in [[1, 0, 0, 0], [0, 0, 0, m as i64 + 1], [-1, 0, 0, 0]] {
            let mut out = vec![0.0; m * n];
            gemm::grouped(&ends, sizes, matrix(&a, k), matrix(&b, n), k * n, &mut work, &mut out)
                .unwrap_err();
        }
    }
}
