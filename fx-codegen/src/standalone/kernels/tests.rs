use super::float::Float;
use super::gemm::{Matrix, Sizes, Start, gemm, work};
use super::{conv, copy, lookup, reduce, rows, sort};

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
                let (mut room, mut out) = (vec![0.0; work(m, n, k)], vec![f32::NAN; m * n]);
                let a = Matrix { data: &a, row: a_row, column: a_column };
                let b = Matrix { data: &b, row: b_row, column: b_column };
                gemm(Sizes { m, n, k }, a, b, start, &mut room, &mut out);
                near(&out, &expected, 1e-5);
            }
        }
    }
}

/// Convolves by definition.
fn convolved(c: conv::Conv, x: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
    let [kz, ky, kx] = c.kernel;
    let mut out = Vec::new();
    for at in 0..c.batch * c.groups * c.outputs * c.output.iter().product::<usize>() {
        let [oz, oy, ox] = c.output;
        let place = [at / (oy * ox) % oz, at / ox % oy, at % ox];
        let channel = at / (oz * oy * ox) % (c.groups * c.outputs);
        let batch = at / (oz * oy * ox) / (c.groups * c.outputs);
        let mut sum = bias[channel];
        for i in 0..c.inputs {
            for tap in 0..kz * ky * kx {
                let tap_at = [tap / (ky * kx), tap / kx % ky, tap % kx];
                let position = [0, 1, 2].map(|a| {
                    (place[a] * c.stride[a] + tap_at[a] * c.dilation[a]) as isize - c.padding[a] as isize
                });
                if (0..3).any(|a| position[a] < 0 || position[a] >= c.input[a] as isize) {
                    continue;
                }
                let [z, y, w] = position.map(|p| p as usize);
                let from = batch * c.groups * c.inputs + channel / c.outputs * c.inputs + i;
                let from = ((from * c.input[0] + z) * c.input[1] + y) * c.input[2] + w;
                sum += x[from] * weight[(channel * c.inputs + i) * kz * ky * kx + tap];
            }
        }
        out.push(sum);
    }
    out
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
        (1, 2, 3, [4, 5, 6], [3, 3, 3], [2, 1, 2], [1, 1, 1], [1, 1, 1]),
    ] {
        let output = sizes(input, kernel, stride, padding, dilation);
        let c = conv::Conv {
            batch: 2,
            groups,
            inputs,
            outputs,
            input,
            kernel,
            output,
            stride,
            padding,
            dilation,
        };
        let taps: usize = kernel.iter().product();
        let x = noise(2 * groups * inputs * input.iter().product::<usize>());
        let weight = noise(groups * outputs * inputs * taps);
        let bias = noise(groups * outputs);
        let expected = convolved(c, &x, &weight, &bias);
        let (mut room, mut out) =
            (vec![0.0; work(outputs, output.iter().product(), inputs * taps)], vec![0.0; expected.len()]);
        conv::conv(c, &x, &weight, Some(&bias), &mut room, &mut out);
        near(&out, &expected, 1e-5);
    }
}

#[test]
fn a_transposed_convolution_is_the_adjoint() {
    let c = conv::Conv {
        batch: 2,
        groups: 2,
        inputs: 3,
        outputs: 2,
        input: [1, 4, 5],
        kernel: [1, 3, 2],
        output: [1, 8, 9],
        stride: [1, 2, 2],
        padding: [0, 1, 0],
        dilation: [1, 1, 1],
    };
    let (x, y, weight) = (noise(2 * 6 * 20), noise(2 * 4 * 72), noise(6 * 2 * 6));
    let mut up = vec![0.0; y.len()];
    conv::transposed(c, &x, &weight, None, &mut up);
    let back = conv::Conv { inputs: 2, outputs: 3, input: c.output, output: c.input, ..c };
    let down = convolved(back, &y, &weight, &[0.0; 6]);
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    assert!((product(&up, &y) - product(&x, &down)).abs() < 1e-3);
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
    let mut out = [0.0; 3];
    rows::softmax(&[f32::NEG_INFINITY, 0.0, 0.0], 3, &mut out);
    assert_eq!(out, [0.0, 0.5, 0.5]);
    rows::softmax(&[1.0, f32::NAN, 0.0], 3, &mut out);
    assert!(out.iter().all(|x| x.is_nan()));
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
    reduce::variances(&x[..4], 2, 2, 1.0, false, &mut out);
    assert_eq!(out, [2.0, 2.0]);
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
