//! Fourier transforms: PyTorch's `fft_*` as the three primitives on pairs of reals.

use super::build::{Attempt, Builder, Out};
use super::call::{Call, leaf, named, node, with};
use super::complex::{joined, part, takes};
use crate::{Arg, DType, Dim, NodeId, err};

/// Returns whether an operator is one of these.
pub(super) fn knows(base: &str) -> bool {
    KNOWN.contains(&base) || matches!(base, "_fft_c2c" | "_fft_r2c" | "_fft_c2r" | "stft" | "istft")
}

const KNOWN: &[&str] = &[
    "fft_fft",
    "fft_ifft",
    "fft_rfft",
    "fft_irfft",
    "fft_hfft",
    "fft_ihfft",
    "fft_fft2",
    "fft_ifft2",
    "fft_rfft2",
    "fft_irfft2",
    "fft_fftn",
    "fft_ifftn",
    "fft_rfftn",
    "fft_irfftn",
    "fft_hfft2",
    "fft_ihfft2",
    "fft_hfftn",
    "fft_ihfftn",
];

/// What is at an end of a transform.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Real,
    Pairs,
}

/// Imports a transform of, or to, complex numbers.
pub(super) fn import<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    match call.base {
        "_fft_c2c" | "_fft_r2c" | "_fft_c2r" => {
            let (args, flag) = match call.base {
                "_fft_c2c" => (call.need("forward")?, "forward"),
                "_fft_r2c" => (call.need("onesided")?, "onesided"),
                _ => (call.need("last_dim_size")?, "last_dim_size"),
            };
            let kwargs = [("normalization", call.need("normalization")?), (flag, args)];
            return with(builder, call.base, [x, call.need("dim")?], &kwargs).map(Out::Node);
        }
        "stft" => return stft(builder, call),
        "istft" => return istft(builder, call),
        _ => {}
    }
    let is_complex = call.node.inputs.first().is_some_and(|input| takes(builder, &input.arg));
    let name = call.base.trim_start_matches("fft_").trim_end_matches(['2', 'n']);
    let (from, to, forward) = match name {
        "fft" => (End::Pairs, End::Pairs, true),
        "ifft" => (End::Pairs, End::Pairs, false),
        "rfft" => (End::Real, End::Pairs, true),
        "irfft" => (End::Pairs, End::Real, false),
        "hfft" => (End::Pairs, End::Real, true),
        _ => (End::Real, End::Pairs, false),
    };
    let mut x = node(&x)?;
    let ty = builder.tensor_type(x)?;
    if !ty.dtype.is_float() {
        x = builder.call("to", [leaf(x), Arg::DType(DType::F32)])?;
    }
    let rank = ty.rank() - usize::from(is_complex);
    if from == End::Pairs && !is_complex {
        let zeros = builder.call("zeros_like", [leaf(x)])?;
        let Out::Node(pairs) = joined(builder, leaf(x), leaf(zeros))? else { return Ok(Out::Nothing) };
        x = pairs;
    }
    let (axes, sizes) = axes_and_sizes(call, rank)?;
    let Some(&last) = axes.last() else { return Err(err!(Axis, "expected axes of a transform").into()) };
    // Signals are cut or filled with zeros to the sizes that are given.
    let mut size_out = None;
    for (i, &axis) in axes.iter().enumerate() {
        let at = builder.tensor_type(x)?.shape[axis].clone();
        let given = sizes.get(i).and_then(Option::clone);
        let wanted = match (to, axis == last) {
            (End::Real, true) => {
                let n = given.unwrap_or_else(|| 2 * (at.clone() - 1));
                size_out = Some(n.clone());
                n.floor_div(&Dim::new(2)) + 1
            }
            _ => given.unwrap_or_else(|| at.clone()),
        };
        x = fitted(builder, x, axis, &at, &wanted, from == End::Pairs)?;
    }
    let normalization = match (call.arg("norm"), forward) {
        (Arg::Str(norm), _) if &*norm == "ortho" => 1,
        (Arg::Str(norm), forward) if (&*norm == "forward") == forward => 2,
        (Arg::Str(_), _) => 0,
        (_, forward) => {
            if forward {
                0
            } else {
                2
            }
        }
    };
    let dims = Arg::ints(axes.iter().map(|&axis| axis as i64));
    let scale = ("normalization", Arg::Int(normalization));
    let out = match (from, to) {
        (End::Pairs, End::Pairs) => {
            with(builder, "_fft_c2c", [leaf(x), dims], &[scale, ("forward", Arg::Bool(forward))])?
        }
        (End::Real, _) => {
            let out = with(builder, "_fft_r2c", [leaf(x), dims], &[scale, ("onesided", Arg::Bool(true))])?;
            if forward { out } else { conjugate(builder, out)? }
        }
        (End::Pairs, End::Real) => {
            let x = if forward { conjugate(builder, x)? } else { x };
            let n = size_out.map_or(Arg::Int(1), Arg::dim);
            with(builder, "_fft_c2r", [leaf(x), dims], &[scale, ("last_dim_size", n)])?
        }
    };
    Ok(Out::Node(out))
}

fn conjugate<'a>(builder: &mut Builder<'a>, x: NodeId) -> Attempt<NodeId> {
    let (re, im) = (part(builder, &leaf(x), 0)?, part(builder, &leaf(x), 1)?);
    let im = builder.call("neg", [im])?;
    match joined(builder, re, leaf(im))? {
        Out::Node(node) => Ok(node),
        _ => Err(err!(Load, "expected one tensor").into()),
    }
}

/// Returns the axes of a transform and the sizes that are asked for.
fn axes_and_sizes(call: &Call<'_>, rank: usize) -> Attempt<(Vec<usize>, Vec<Option<Dim>>)> {
    let size = |arg: &Arg| match arg {
        Arg::Int(-1) => Ok(None),
        Arg::Int(n) => Ok(Some(Dim::new(*n))),
        Arg::Dim(dim) => Ok(Some(dim.clone())),
        Arg::None => Ok(None),
        other => Err(err!(Load, "expected a size, got {}", other.kind_name())),
    };
    let axis = |arg: &Arg| match arg {
        Arg::Int(axis) => crate::ops::axis(*axis, rank),
        other => Err(err!(Load, "expected an axis, got {}", other.kind_name())),
    };
    if !call.base.ends_with(['2', 'n']) {
        return Ok((vec![axis(&call.or("dim", Arg::Int(-1)))?], vec![size(&call.arg("n"))?]));
    }
    let sizes = match call.arg("s") {
        Arg::List(items) => items.iter().map(size).collect::<crate::Result<Vec<_>>>()?,
        other => vec![size(&other)?].into_iter().filter(Option::is_some).collect(),
    };
    let axes = match call.arg("dim") {
        Arg::List(items) => items.iter().map(axis).collect::<crate::Result<Vec<_>>>()?,
        Arg::Int(one) => vec![axis(&Arg::Int(one))?],
        _ if call.base.ends_with('2') => vec![axis(&Arg::Int(-2))?, axis(&Arg::Int(-1))?],
        _ if !sizes.is_empty() => (rank.saturating_sub(sizes.len())..rank).collect(),
        _ => (0..rank).collect(),
    };
    Ok((axes, sizes))
}

/// Cuts an axis, or fills it with zeros at its end.
fn fitted<'a>(
    builder: &mut Builder<'a>,
    x: NodeId,
    axis: usize,
    have: &Dim,
    want: &Dim,
    is_pairs: bool,
) -> Attempt<NodeId> {
    if have.same(want).is_yes() {
        return Ok(x);
    }
    if want.less(have).is_yes() {
        let args = [leaf(x), Arg::Int(axis as i64), Arg::Int(0), Arg::dim(want.clone())];
        return builder.call("slice", args);
    }
    let rank = builder.tensor_type(x)?.rank();
    debug_assert!(!is_pairs || axis + 1 < rank, "the pairs are not transformed");
    // From the last axis on, two numbers each.
    let mut pads = vec![Arg::Int(0); 2 * (rank - axis)];
    if let Some(after) = pads.last_mut() {
        *after = Arg::dim(want.clone() - have.clone());
    }
    builder.call("constant_pad_nd", [leaf(x), Arg::list(pads)])
}

/// `stft`, whose first form does not move windows to the middle.
pub(super) fn stft<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let mut args = call.args.clone();
    if call.is_true("align_to_window") {
        return Err(err!(Load, "stft with align_to_window is not supported").into());
    }
    args.retain(|(name, _)| !matches!(*name, "return_complex" | "align_to_window" | "center"));
    args.push(("center", call.or("center", Arg::Bool(call.overload == "center"))));
    args.push(("return_complex", Arg::Bool(false)));
    named(builder, "stft", args).map(Out::Node)
}

/// `istft` of pairs `[.., frequencies, windows, 2]`: windows are transformed back, added where they overlap,
/// and divided by the sum of the squares of the window there.
pub(super) fn istft<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let int = |name: &str| match call.arg(name) {
        Arg::Int(n) if n > 0 => Ok(Some(n)),
        Arg::None => Ok(None),
        _ => Err(err!(Load, "expected a known {name} of istft")),
    };
    let n = int("n_fft")?.ok_or_else(|| err!(Load, "istft without n_fft"))?;
    let hop = int("hop_length")?.unwrap_or((n / 4).max(1));
    let width = int("win_length")?.unwrap_or(n);
    if call.is_true("return_complex") {
        return Err(err!(Load, "istft with a complex result is not supported").into());
    }
    let mut x = node(&call.first()?)?;
    let ty = builder.tensor_type(x)?;
    let (rank, dtype) = (ty.rank(), Arg::DType(ty.dtype));
    if !(3..=4).contains(&rank) || width > n {
        return Err(
            err!(Load, "expected spectra [f, t] or [b, f, t] and a win_length up to {n}, got {ty}").into()
        );
    }
    if rank == 3 {
        x = builder.call("unsqueeze", [leaf(x), Arg::Int(0)])?;
    }
    let shape = builder.tensor_type(x)?.shape;
    let (frequencies, count) = (shape[1].clone(), shape[2].clone());
    let onesided = match call.arg("onesided") {
        Arg::Bool(onesided) => onesided,
        _ => frequencies.known() != Some(n),
    };
    let scale = ("normalization", Arg::Int(if call.is_true("normalized") { 1 } else { 2 }));
    let axis = Arg::ints([1]);
    let frames = if onesided {
        with(builder, "_fft_c2r", [leaf(x), axis], &[scale, ("last_dim_size", Arg::Int(n))])?
    } else {
        let pairs = with(builder, "_fft_c2c", [leaf(x), axis], &[scale, ("forward", Arg::Bool(false))])?;
        node(&part(builder, &leaf(pairs), 0)?)?
    };
    let window = match call.arg("window") {
        Arg::None => leaf(with(builder, "ones", [Arg::ints([width])], &[("dtype", dtype)])?),
        window => window,
    };
    let before = (n - width) / 2;
    let pads = Arg::ints([before, n - width - before]);
    let window = builder.call("constant_pad_nd", [window, pads])?;
    let window = builder.call("reshape", [leaf(window), Arg::ints([1, n, 1])])?;
    let frames = builder.call("mul", [leaf(frames), leaf(window)])?;
    let square = builder.call("square", [leaf(window)])?;
    let one = Arg::list([Arg::Int(1), Arg::Int(n), Arg::dim(count.clone())]);
    let square = builder.call("expand", [leaf(square), one])?;
    let total = (count - 1) * Dim::new(hop) + Dim::new(n);
    let mut overlapped = |columns: NodeId| -> Attempt<NodeId> {
        let size = Arg::list([Arg::Int(1), Arg::dim(total.clone())]);
        let kwargs = [("stride", Arg::ints([1, hop]))];
        let sum = with(builder, "col2im", [leaf(columns), size, Arg::ints([1, n])], &kwargs)?;
        let flat = builder.call("squeeze", [leaf(sum), Arg::ints([1, 2])])?;
        Ok(flat)
    };
    let (signal, weight) = (overlapped(frames)?, overlapped(square)?);
    let start = if matches!(call.get("center"), Some(Arg::Bool(false))) { 0 } else { n / 2 };
    let end = match int("length")? {
        Some(length) => Dim::new(start + length),
        None => total.clone() - Dim::new(start),
    };
    let cut = |builder: &mut Builder<'a>, x: NodeId| {
        builder.call("slice", [leaf(x), Arg::Int(1), Arg::Int(start), Arg::dim(end.clone().min(&total))])
    };
    let (signal, weight) = (cut(builder, signal)?, cut(builder, weight)?);
    let mut out = builder.call("div", [leaf(signal), leaf(weight)])?;
    if total.less(&end).is_yes() {
        let missing = Arg::dim(end - total);
        out = builder.call("constant_pad_nd", [leaf(out), Arg::list([Arg::Int(0), missing])])?;
    }
    if rank == 3 {
        out = builder.call("squeeze", [leaf(out), Arg::ints([0])])?;
    }
    Ok(Out::Node(out))
}

/// `fft_fftshift` and `fft_ifftshift`: rolls by half of each axis.
pub(super) fn shift<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let ty = builder.tensor_type(node(&x)?)?;
    let axes: Vec<Arg> = match call.arg("dim") {
        Arg::None => (0..ty.rank() as i64).map(Arg::Int).collect(),
        Arg::List(items) => items.into_vec(),
        one => vec![one],
    };
    let mut shifts = Vec::new();
    for axis in &axes {
        let Arg::Int(axis) = axis else { return Err(err!(Load, "expected a known axis").into()) };
        let size = ty.shape[crate::ops::axis(*axis, ty.rank())?].clone();
        let up = if call.base == "fft_ifftshift" { Dim::new(1) } else { Dim::new(0) };
        shifts.push(Arg::dim((size + up).floor_div(&Dim::new(2))));
    }
    builder.call("roll", [x, Arg::list(shifts), Arg::list(axes)]).map(Out::Node)
}

/// `fft_fftfreq(n, d)` and `fft_rfftfreq(n, d)`: the frequencies of a transform of `n` elements.
pub(super) fn frequencies<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (Arg::Int(n @ 1..), spacing) = (call.first()?, call.or("d", Arg::Float(1.0))) else {
        return Err(err!(Load, "expected a known number of elements").into());
    };
    let spacing = match spacing {
        Arg::Float(x) => x,
        Arg::Int(x) => x as f64,
        _ => return Err(err!(Load, "expected a known spacing").into()),
    };
    let dtype = match call.arg("dtype") {
        Arg::None => Arg::DType(DType::F32),
        dtype => dtype,
    };
    let line = |builder: &mut Builder<'a>, from: i64, to: i64| {
        with(builder, "arange", [Arg::Int(from), Arg::Int(to)], &[("dtype", dtype.clone())])
    };
    let places = if call.base == "fft_rfftfreq" {
        line(builder, 0, n / 2 + 1)?
    } else {
        let (up, down) = (line(builder, 0, (n + 1) / 2)?, line(builder, -(n / 2), 0)?);
        builder.call("cat", [Arg::list([leaf(up), leaf(down)])])?
    };
    builder.call("mul", [leaf(places), Arg::Float(1.0 / (n as f64 * spacing))]).map(Out::Node)
}
