//! Convolutions and pooling.

use fx_core::{Arg, DType, Dim, Result, bail};

use super::{Args, Emit, GEMM_WORK, fields, list, optional, read, size, text, wrap};
use crate::standalone::kernels;
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Piece, Pieces, Room};
use crate::standalone::value::{Value, View, count};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("conv1d", conv),
    ("conv2d", conv),
    ("conv3d", conv),
    ("convolution", convolution),
    ("conv_transpose1d", conv_transpose),
    ("conv_transpose2d", conv_transpose),
    ("conv_transpose3d", conv_transpose),
    ("max_pool1d", max_pool),
    ("max_pool2d", max_pool),
    ("max_pool3d", max_pool),
    ("max_pool1d_with_indices", max_pool),
    ("max_pool2d_with_indices", max_pool),
    ("max_pool3d_with_indices", max_pool),
    ("fractional_max_pool2d", fractional_pool),
    ("fractional_max_pool3d", fractional_pool),
    ("avg_pool1d", average_pool),
    ("avg_pool2d", average_pool),
    ("avg_pool3d", average_pool),
    ("adaptive_avg_pool1d", adaptive_pool),
    ("adaptive_avg_pool2d", adaptive_pool),
    ("adaptive_avg_pool3d", adaptive_pool),
    ("adaptive_max_pool1d", adaptive_pool),
    ("adaptive_max_pool2d", adaptive_pool),
    ("adaptive_max_pool3d", adaptive_pool),
    ("adaptive_max_pool1d_with_indices", adaptive_pool),
    ("adaptive_max_pool2d_with_indices", adaptive_pool),
    ("adaptive_max_pool3d_with_indices", adaptive_pool),
];

/// Puts sizes of 1 in front of those of the last axes.
fn three(dims: &[Dim]) -> Vec<Dim> {
    let mut all = vec![Dim::new(1); 3 - dims.len().min(3)];
    all.extend(dims.iter().cloned());
    all
}

/// Puts numbers in front of those of the last axes; one number is for all of them.
fn three_numbers(numbers: &[i64], n: usize, front: i64) -> Vec<Dim> {
    let at =
        |i: usize| if numbers.len() == 1 { numbers[0] } else { numbers.get(i).copied().unwrap_or(front) };
    let mut all = vec![Dim::new(front); 3 - n];
    all.extend((0..n).map(|i| Dim::new(at(i))));
    all
}

fn geometry(args: &Args<'_>, name: &str, n: usize, front: i64) -> Result<Vec<Dim>> {
    Ok(three_numbers(&args.ints(name)?.unwrap_or_default(), n, front))
}

/// Returns the padding before the input, by number or by name.
fn padding(args: &Args<'_>, kernel: &[Dim], dilation: &[Dim], n: usize) -> Result<Vec<Dim>> {
    match args.get("padding")? {
        Arg::Str(name) if **name == *"valid" => Ok(three_numbers(&[0], n, 0)),
        Arg::Str(name) if **name == *"same" => {
            let half = |(kernel, dilation): (&Dim, &Dim)| ((kernel - 1) * dilation).floor_div(&Dim::new(2));
            Ok(kernel.iter().zip(dilation).map(half).collect())
        }
        _ => geometry(args, "padding", n, 0),
    }
}

/// The most windows of a convolution with fewer of them than tiles have columns.
const FEW_WINDOWS: i64 = 64;

const FEW_WORK: Room = Room {
    path: "conv::few_work",
    of: |sizes| kernels::conv::few_work(sizes[0], sizes[1], sizes[2], sizes[3]),
};

fn convolution(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    convolve(l, args, args.flag("transposed")?)
}

fn conv(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    convolve(l, args, false)
}

fn conv_transpose(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    convolve(l, args, true)
}

fn convolve(l: &mut Lowering<'_>, args: &Args<'_>, is_transposed: bool) -> Result<Value> {
    let (x, weight, bias) = (args.view("x")?, args.view("weight")?, args.opt_view("bias")?);
    args.expect_float(x)?;
    let (dtype, shape) = args.result()?;
    let n = weight.rank() - 2;
    if x.rank() != n + 2 {
        bail!(Unresolved, "its input has no batch");
    }
    let groups = args.int("groups")?;
    let (x, weight) = (l.contiguous(x), l.contiguous(weight));
    let bias = optional(bias.map(|bias| read(&l.contiguous(bias))));
    let kernel = three(&weight.shape[2..]);
    let dilation = geometry(args, "dilation", n, 1)?;
    // The first axis of the weight has all groups.
    let (of_all, of_one) = (weight.shape[0].floor_div(&Dim::new(groups)), weight.shape[1].clone());
    let (inputs, outputs) = if is_transposed { (of_all, of_one) } else { (of_one, of_all) };
    let output = three(&shape[2..]);
    let (stride, padding) = (geometry(args, "stride", n, 1)?, padding(args, &kernel, &dilation, n)?);
    let window = fields(
        "conv::Window",
        vec![
            ("input", list(&three(&x.shape[2..]))),
            ("kernel", list(&kernel)),
            ("output", list(&output)),
            ("stride", list(&stride)),
            ("padding", list(&padding)),
            ("dilation", list(&dilation)),
        ],
    );
    let conv = fields(
        "conv::Conv",
        vec![
            ("groups", text(groups.to_string())),
            ("inputs", size(&inputs)),
            ("outputs", size(&outputs)),
            ("window", window),
        ],
    );
    let (view, written) = l.out(dtype, &shape);
    if !is_transposed && inputs == Dim::new(0) {
        l.call("conv::biases", vec![size(&shape[1]), size(&count(&output)), bias, written]);
        return Ok(Arg::Leaf(view));
    }
    let is = |dims: &[Dim], n: i64| dims.iter().all(|dim| *dim == Dim::new(n));
    let is_one_apart = is(&stride, 1) && is(&dilation, 1) && groups == 1 && !is_transposed;
    let is_plane = is(&kernel[..1], 1) && is(&output[..1], 1) && is(&kernel[1..], 3);
    if is_plane
        && is_one_apart
        && winograd_pays(&inputs, &outputs, &output)
        && let Some(i) = l.filtered(&weight)
    {
        let work = l.work(dtype, WINOGRAD_WORK, vec![inputs, output[1].clone(), output[2].clone()]);
        l.call("winograd::conv", vec![conv, read(&x), vec![Piece::Weight(i)], bias, work, written]);
        return Ok(Arg::Leaf(view));
    }
    let is_depthwise = !is_transposed && is(&[inputs.clone(), outputs.clone()], 1);
    let input = three(&x.shape[2..]);
    if is_depthwise
        && [&input, &output].into_iter().all(|sizes| count(sizes).known().is_some_and(|n| n <= FEW_RESULTS))
        && let Some(i) = l.side_by_side(&weight)
    {
        let work = l.work(dtype, DEPTHWISE_WORK, vec![count(&input), count(&output)]);
        l.call("depthwise::conv", vec![conv, read(&x), vec![Piece::Weight(i)], bias, work, written]);
        return Ok(Arg::Leaf(view));
    }
    let k = &inputs * &count(&kernel);
    let is_pointwise = is(&kernel, 1) && is(&stride, 1) && is(&padding, 0);
    if !is_transposed
        && let Some(factor) = packed_for_few(l, &weight, groups == 1, [&outputs, &count(&output), &k])
    {
        let n = count(&output);
        let unfolded = if is_pointwise { Dim::new(0) } else { &n * &k };
        let work = l.work(dtype, FEW_WORK, vec![n, outputs, k, unfolded]);
        l.call("conv::few", vec![conv, read(&x), factor, bias, work, written]);
        return Ok(Arg::Leaf(view));
    }
    let (function, factor, work) = match () {
        () if is_transposed => ("conv::transposed", read(&weight), Vec::new()),
        () if is_pointwise => {
            ("conv::pointwise", read(&weight), vec![l.work(dtype, GEMM_WORK, vec![outputs, inputs])])
        }
        () => {
            let work = enclosed(l, dtype, &inputs, [&output, &kernel, &stride, &dilation]);
            ("conv::conv", read(&weight), work)
        }
    };
    let operands = [conv, read(&x), factor, bias];
    l.call(function, operands.into_iter().chain(work).chain([written]).collect());
    Ok(Arg::Leaf(view))
}

/// The most elements of a plane, and the most results, for which channels are convolved side by side.
const FEW_RESULTS: i64 = 256;

const DEPTHWISE_WORK: Room =
    Room { path: "depthwise::work", of: |sizes| kernels::depthwise::work(sizes[0], sizes[1]) };

/// The fewest channels of input and result for which the products of Winograd's filtering take longer than its
/// transforms.
const FILTERED_CHANNELS: i64 = 32;

/// The fewest results of a plane for which it pays to transform kernels.
const FILTERED_RESULTS: i64 = 36;

const WINOGRAD_WORK: Room =
    Room { path: "winograd::work", of: |sizes| kernels::winograd::work(sizes[0], sizes[1], sizes[2]) };

/// Returns whether Winograd's filtering is the fastest way to convolve planes with windows of 3 by 3, one apart.
fn winograd_pays(inputs: &Dim, outputs: &Dim, output: &[Dim]) -> bool {
    let has_many_channels = [inputs, outputs].into_iter().all(|n| n.bounds().0 >= FILTERED_CHANNELS);
    has_many_channels && count(output).known().is_none_or(|n| n >= FILTERED_RESULTS)
}

/// Returns the weight of a convolution with few windows and many channels as a packed right operand, of which each
/// window has `k` elements; `None` if it is none.
fn packed_for_few(
    l: &mut Lowering<'_>,
    weight: &View,
    is_one_group: bool,
    [outputs, n, k]: [&Dim; 3],
) -> Option<Pieces> {
    let is_few = n.known().is_some_and(|n| n <= FEW_WINDOWS) && outputs.bounds().0 >= FEW_WINDOWS;
    if !is_few || !is_one_group {
        return None;
    }
    let (shape, strides) = (vec![k.clone(), outputs.clone()], vec![Dim::new(1), k.clone()]);
    let packed = l.packed(&View { shape, strides, ..weight.clone() })?;
    Some(wrap("gemm::Packed(", vec![Piece::Weight(packed)], ")"))
}

/// Makes room for a copy of an input in which the elements that windows read at one of their positions follow
/// each other, as `conv::work` of the kernels says, and for where these positions begin.
fn enclosed(
    l: &mut Lowering<'_>,
    dtype: DType,
    inputs: &Dim,
    [output, kernel, stride, dilation]: [&[Dim]; 4],
) -> Vec<Pieces> {
    let (mut parts, mut len) = (inputs.clone(), Dim::new(1));
    for axis in 0..3 {
        let reach = (&kernel[axis] - 1) * &dilation[axis];
        parts *= (&reach + 1).min(&stride[axis]);
        len *= &output[axis] + reach.floor_div(&stride[axis]);
    }
    let len = (parts + 1) * len + (kernels::gemm::WIDEST + kernels::gemm::SUMS) as i64;
    vec![l.spare(dtype, len), l.spare(DType::I64, count(kernel))]
}

/// Returns how many of the last axes an operation such as `max_pool2d` works on.
fn axes_of(name: &str) -> usize {
    name.chars().find_map(|c| c.to_digit(10)).map_or(2, |n| n as usize)
}

/// Returns the contiguous operand of pooling, its geometry, and its room.
fn pool(l: &mut Lowering<'_>, args: &Args<'_>, shape: &[Dim]) -> Result<(View, Pieces, Vec<Pieces>)> {
    let n = axes_of(args.op.name);
    let x = l.contiguous(args.view("x")?);
    shape[shape.len() - n..].iter().for_each(|size| l.require(size - 1));
    let kernel = args.ints("kernel_size")?.unwrap_or_default();
    let stride = args.ints("stride")?.filter(|stride| !stride.is_empty()).unwrap_or_else(|| kernel.clone());
    let dilation =
        if args.has("dilation") { geometry(args, "dilation", n, 1)? } else { three_numbers(&[1], n, 1) };
    let (kernel, stride) = (three_numbers(&kernel, n, 1), three_numbers(&stride, n, 1));
    let output = three(&shape[shape.len() - n..]);
    let pool = fields(
        "pool::Window",
        vec![
            ("input", list(&three(&x.shape[x.rank() - n..]))),
            ("kernel", list(&kernel)),
            ("output", list(&output)),
            ("stride", list(&stride)),
            ("padding", list(&geometry(args, "padding", n, 0)?)),
            ("dilation", list(&dilation)),
        ],
    );
    let line = (&output[2] - 1) * &stride[2] + (&kernel[2] - 1) * &dilation[2] + 1;
    let work = vec![l.spare(x.dtype, line)];
    Ok((x, pool, work))
}

fn max_pool(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let results = args.results();
    let Some((dtype, shape)) = results.first() else { bail!(Unresolved, "it has no result") };
    let (x, geometry, work) = pool(l, args, shape)?;
    let least = match dtype {
        dtype if dtype.is_float() => format!("{dtype}::NEG_INFINITY"),
        DType::Bool => "false".to_owned(),
        dtype => format!("{dtype}::MIN"),
    };
    let (view, out) = l.out(*dtype, shape);
    let operands = [geometry.clone(), text(least), read(&x)];
    l.call("pool::max", operands.into_iter().chain(work).chain([out]).collect());
    if results.len() == 1 {
        return Ok(Arg::Leaf(view));
    }
    let (positions, out) = l.out(DType::I64, shape);
    l.call("pool::max_positions", vec![geometry, read(&x), out]);
    Ok(Arg::tuple([Arg::Leaf(view), Arg::Leaf(positions)]))
}

fn fractional_pool(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, samples) = (args.view("x")?, args.view("random_samples")?);
    args.expect_float(x)?;
    let n = if args.op.name == "fractional_max_pool2d" { 2 } else { 3 };
    let results = args.results();
    let Some((dtype, shape)) = results.first() else { bail!(Unresolved, "it has no result") };
    let input = three(&x.shape[x.rank() - n..]);
    let kernel = three_numbers(&args.ints("kernel_size")?.unwrap_or_default(), n, 1);
    let output = three(&shape[shape.len() - n..]);
    for ((size, kernel), output) in input.iter().zip(&kernel).zip(&output) {
        l.require(size - &(kernel + output) + 1);
    }
    let windows = [("input", list(&input)), ("kernel", list(&kernel)), ("output", list(&output))];
    let windows = fields("fractional::Windows", windows.into());
    let (x, samples) = (l.contiguous(x), l.contiguous(samples));
    let (view, out) = l.out(*dtype, shape);
    let (places, found) = l.out(DType::I64, shape);
    let axes = text(n.to_string());
    l.call(
        "fractional::Windows::planes",
        vec![wrap("&", windows, ""), axes, read(&samples), read(&x), out, found],
    );
    Ok(Arg::tuple([Arg::Leaf(view), Arg::Leaf(places)]))
}

fn average_pool(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    args.expect_float(args.view("x")?)?;
    let (x, pool, work) = pool(l, args, &shape)?;
    let divisor = match args.has("divisor_override") && !args.is_none("divisor_override")? {
        true => optional(Some(text(format!("{}_i64", args.int("divisor_override")?)))),
        false => text("None"),
    };
    let with_padding = text(args.flag("count_include_pad")?.to_string());
    let (view, out) = l.out(dtype, &shape);
    let operands = [pool, with_padding, divisor, read(&x)];
    l.call("pool::average", operands.into_iter().chain(work).chain([out]).collect());
    Ok(Arg::Leaf(view))
}

fn adaptive_pool(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let n = axes_of(args.op.name);
    let x = args.view("x")?;
    if args.op.name.contains("avg") {
        args.expect_float(x)?;
    }
    let results = args.results();
    let Some((dtype, shape)) = results.first() else { bail!(Unresolved, "it has no result") };
    let x = l.contiguous(x);
    x.shape[x.rank() - n..].iter().for_each(|size| l.require(size - 1));
    let [input, output] = [&x.shape, shape].map(|shape| list(&three(&shape[shape.len() - n..])));
    let (view, out) = l.out(*dtype, shape);
    if args.op.name.contains("avg") {
        l.call("pool::adaptive_average", vec![input, output, read(&x), out]);
        return Ok(Arg::Leaf(view));
    }
    if results.len() == 1 {
        l.call("pool::adaptive_max", vec![input, output, read(&x), out, text("None")]);
        return Ok(Arg::Leaf(view));
    }
    let (positions, places) = l.out(DType::I64, shape);
    l.call("pool::adaptive_max", vec![input, output, read(&x), out, optional(Some(places))]);
    Ok(Arg::tuple([Arg::Leaf(view), Arg::Leaf(positions)]))
}
