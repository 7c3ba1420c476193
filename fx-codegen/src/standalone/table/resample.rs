//! Images at another size, and sampled at places that are data.

use fx_core::array::Array;
use fx_core::{Arg, DType, Dim, Result, Scalar, Tensor, bail, err};

use super::data::around;
use super::{Args, Emit, fields, read, size, text};
use crate::standalone::lower::{Lowering, known};
use crate::standalone::value::{Value, View, count};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("interpolate", interpolate),
    ("upsample_nearest", interpolate),
    ("upsample_bilinear", interpolate),
    ("grid_sample", grid_sample),
];

/// The elements along one axis that make up each of the result, with their weights.
struct Taps {
    starts: Vec<i64>,
    from: Vec<i64>,
    weights: Vec<f64>,
}

/// The size of the other axes when one axis is asked for: their middle is an element that stays as it is.
const OTHERS: usize = 3;

/// Asks the row what it makes of one axis: each of its elements alone, as 1, which shows its weight, and as
/// infinity, which shows also where a weight is 0.
fn taps(args: &Args<'_>, dtype: DType, axis: usize, rank: usize, from: usize, to: usize) -> Result<Taps> {
    let sizes = |n: usize| (0..rank).map(move |other| if other == axis { n } else { OTHERS });
    let alone = |n: usize| Arg::list(sizes(n).map(|n| Arg::Int(n as i64)));
    let mut given = Vec::new();
    for (param, arg) in args.op.params.iter().zip(args.args) {
        given.push(match (param.name, arg) {
            ("x", _) => Arg::None,
            ("size", Arg::None) => Arg::None,
            ("size", _) => alone(to),
            ("scale_factor", Arg::List(items) | Arg::Tuple(items)) => {
                let scale = items.get(axis).or(items.first()).and_then(Arg::scalar);
                let scale = scale.ok_or_else(|| err!(Unresolved, "a scale is not known"))?;
                Arg::list((0..rank).map(|other| Arg::Float(if other == axis { scale.to_f64() } else { 1.0 })))
            }
            ("scale_factor", Arg::None) => Arg::None,
            ("scale_factor", one) => {
                let scale = one.scalar().ok_or_else(|| err!(Unresolved, "the scale is not known"))?;
                Arg::list((0..rank).map(|other| Arg::Float(if other == axis { scale.to_f64() } else { 1.0 })))
            }
            (name, arg) => arg.try_flat_map(&mut |_| Err(err!(Unresolved, "{name} is a tensor")))?,
        });
    }
    let shape = [from, 1].into_iter().chain(sizes(from)).collect::<Vec<usize>>();
    // Where an element of an image is that is in the middle of all other axes.
    let place = |image: usize, at: usize, n: usize| {
        let along = |place: usize, (other, n): (usize, usize)| {
            place * n + if other == axis { at } else { OTHERS / 2 }
        };
        sizes(n).enumerate().fold(image, along)
    };
    let mut seen = |value: f64| -> Result<Vec<f64>> {
        let mut x = vec![0.0; shape.iter().product()];
        (0..from).for_each(|i| x[place(i, i, from)] = value);
        given[0] = Arg::Leaf(Tensor::new(Array::from_vec(x, &shape)?.cast(dtype)));
        match (args.op.eval)(&given)? {
            Arg::Leaf(tensor) if tensor.array()?.numel() == from * sizes(to).product::<usize>() => {
                let all: Vec<f64> = tensor.array()?.iter_scalars().map(Scalar::to_f64).collect();
                Ok((0..from * to).map(|i| all[place(i / to, i % to, to)]).collect())
            }
            _ => bail!(Unresolved, "its weights are not known"),
        }
    };
    let (weights, marks) = (seen(1.0)?, seen(f64::INFINITY)?);
    let mut taps = Taps { starts: vec![0], from: Vec::new(), weights: Vec::new() };
    for out in 0..to {
        for (i, at) in (0..from).map(|i| (i, i * to + out)).filter(|(_, at)| marks[*at] != 0.0) {
            taps.from.push(i as i64);
            taps.weights.push(weights[at]);
            // The element is taken once more, without weight or with opposite ones.
            if marks[at].is_nan() && weights[at] != 0.0 {
                taps.from.push(i as i64);
                taps.weights.push(0.0);
            }
        }
        taps.starts.push(taps.from.len() as i64);
    }
    Ok(taps)
}

fn interpolate(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let (_, shape) = args.result()?;
    let rank = x.rank().saturating_sub(2);
    let (from, to) = match (known(&x.shape[2..]), known(&shape[2..])) {
        (Ok(from), Ok(to)) => (from, to),
        _ => bail!(
            Unresolved,
            "it needs sizes of images that are known; trace with them, or make the crate of fixed sizes"
        ),
    };
    let mut x = l.contiguous(x);
    for axis in 0..rank {
        let within = if x.dtype.is_float() { x.dtype } else { DType::F32 };
        let taps = taps(args, within, axis, rank, from[axis], to[axis])?;
        let is_same = taps.from.iter().copied().eq(0..from[axis] as i64);
        let is_copy = taps.weights.iter().all(|weight| *weight == 1.0);
        if is_same && is_copy && from[axis] == to[axis] {
            continue;
        }
        let mut shape = x.shape.clone();
        shape[axis + 2] = Dim::from(to[axis]);
        let (_, n, inner) = around(&x, axis + 2);
        let constant = |l: &mut Lowering<'_>, hint: &str, numbers: Vec<i64>| {
            let n = numbers.len();
            l.constant(hint, Tensor::from_vec(numbers, &[n]))
        };
        let places = constant(l, "positions", taps.from)?;
        let (view, out) = l.out(x.dtype, &shape);
        if is_copy && places.shape[0] == Dim::from(to[axis]) {
            let pieces = vec![read(&x), size(&n), size(&inner), read(&places), text("false"), out];
            l.call_checked("lookup::select", pieces);
        } else {
            let starts = constant(l, "starts", taps.starts)?;
            let n_taps = taps.weights.len();
            let weights = Array::from_vec(taps.weights, &[n_taps])?.cast(x.dtype);
            let weights = l.constant("weights", Tensor::new(weights))?;
            let pieces =
                vec![read(&x), size(&n), size(&inner), read(&starts), read(&places), read(&weights), out];
            l.call("resize::along", pieces);
        }
        x = view;
    }
    Ok(Arg::Leaf(x))
}

fn grid_sample(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, grid) = (args.view("x")?, args.view("grid")?);
    args.expect_float(x)?;
    let (dtype, shape) = args.result()?;
    let (x, grid) = (l.contiguous(x), l.contiguous(grid));
    let axes = x.rank() - 2;
    let mut input = vec![Dim::new(1); 3 - axes];
    input.extend(x.shape[2..].iter().cloned());
    input.iter().for_each(|size| l.require(size - 1));
    let mode = match args.text("mode")? {
        "nearest" => "Nearest",
        "bicubic" => "Cubic",
        _ => "Linear",
    };
    let beyond = match args.text("padding_mode")? {
        "zeros" => "Zeros",
        "border" => "Border",
        _ => "Reflection",
    };
    let align = match args.get("align_corners")? {
        Arg::None => false,
        flag => flag.scalar().ok_or_else(|| err!(Unresolved, "align_corners is not known"))?.to_bool(),
    };
    let sampling = fields(
        "grid::Sampling",
        vec![
            ("channels", size(&x.shape[1])),
            ("input", super::list(&input)),
            ("axes", text(axes.to_string())),
            ("places", size(&count(&shape[2..]))),
            ("mode", text(format!("grid::Mode::{mode}"))),
            ("beyond", text(format!("grid::Beyond::{beyond}"))),
            ("align", text(align.to_string())),
        ],
    );
    let (view, out): (View, _) = l.out(dtype, &shape);
    l.call("grid::sample", vec![sampling, read(&x), read(&grid), out]);
    Ok(Arg::Leaf(view))
}
