//! Spectra of signals and reductions at positions, which stand-alone code computes by other operations.

use super::{Call, Composition, run, stays, tensor, with};
use crate::{Arg, Dim, Op, Result, Tensor, Value};

pub(super) static COMPOSITIONS: &[(Op, Composition)] = &[
    (crate::stft::OP, stft),
    (crate::fft_irfft::OP, irfft),
    (crate::index_reduce::OP, index_reduce),
    (crate::pdist::OP, pdist),
];

/// Composes the spectra of windows that a signal is cut into.
fn stft(c: &Call<'_>) -> Result<Value> {
    let mut x = c.tensor("x")?;
    let n = c.number("n_fft")? as i64;
    let or = |name: &str, other: i64| match c.get(name)? {
        Arg::None => Ok(other),
        arg => arg.scalar().map(crate::Scalar::to_i64).ok_or_else(stays),
    };
    let (hop, width) = (or("hop_length", n / 4)?, or("win_length", n)?);
    let onesided = matches!(c.get("onesided")?, Arg::None | Arg::Bool(true));
    let rank = x.ty()?.rank() as i64;
    if c.is("center")? {
        let sides = Arg::ints([n / 2, n / 2]);
        x = tensor(run(crate::pad::OP, [Arg::Leaf(x), sides, c.get("pad_mode")?])?)?;
    }
    let mut frames = run(crate::unfold::OP, [Arg::Leaf(x), Arg::Int(-1), Arg::Int(n), Arg::Int(hop)])?;
    let window = match c.get("window")? {
        window @ Arg::Leaf(_) => Some(window),
        _ if width == n => None,
        _ => {
            let dtype = Arg::DType(tensor(frames.clone())?.dtype()?);
            Some(with(crate::ones::OP, [Arg::ints([width])], [("dtype", dtype)])?)
        }
    };
    if let Some(window) = window {
        let before = (n - width) / 2;
        let sides = Arg::ints([before, n - width - before]);
        let whole = run(crate::pad::OP, [window, sides, Arg::str("constant"), Arg::Float(0.0)])?;
        frames = run(crate::mul::OP, [frames, whole])?;
    }
    let scale = Arg::Int(i64::from(c.is("normalized")?));
    let spectra = run(crate::_fft_r2c::OP, [frames, Arg::ints([rank]), scale, Arg::Bool(onesided)])?;
    // Frequencies come before windows.
    run(crate::transpose::OP, [spectra, Arg::Int(rank - 1), Arg::Int(rank)])
}

/// Composes the signal of a real spectrum.
fn irfft(c: &Call<'_>) -> Result<Value> {
    let x = c.tensor("x")?;
    let ty = x.ty()?;
    let axis = crate::ops::axis(c.number("dim")? as i64, ty.rank())?;
    let n = match c.get("n")? {
        Arg::None => (&ty.shape[axis] - 1) * 2,
        Arg::Dim(n) => n,
        n => Dim::new(n.scalar().map(crate::Scalar::to_i64).ok_or_else(stays)?),
    };
    let scale = match c.get("norm")? {
        Arg::Str(norm) if *norm == *"ortho" => 1,
        Arg::Str(norm) if *norm == *"forward" => 0,
        _ => 2,
    };
    // Integers and bools are taken as f32.
    let x = match ty.dtype.is_float() {
        true => Arg::Leaf(x),
        false => run(crate::to::OP, [Arg::Leaf(x), Arg::DType(crate::DType::F32)])?,
    };
    let zeros = run(crate::zeros_like::OP, [x.clone()])?;
    let pairs = run(crate::stack::OP, [Arg::list([x, zeros]), Arg::Int(-1)])?;
    run(crate::_fft_c2r::OP, [pairs, Arg::ints([axis as i64]), Arg::Int(scale), Arg::dim(n.clone())])
}

/// Composes a reduction of slices at positions: each element is reduced where its slice goes.
fn index_reduce(c: &Call<'_>) -> Result<Value> {
    let (source, index) = (c.tensor("source")?, c.get("index")?);
    let ty = source.ty()?;
    if ty.rank() == 0 {
        return Err(stays());
    }
    let axis = crate::ops::axis(c.number("dim")? as i64, ty.rank())?;
    let line = (0..ty.rank()).map(|other| Arg::Int(if other == axis { -1 } else { 1 }));
    let index = run(crate::reshape::OP, [index, Arg::list(line)])?;
    let index = run(crate::broadcast_to::OP, [index, Arg::list(ty.shape.iter().map(Arg::dim))])?;
    let args = [c.get("x")?, c.get("dim")?, index, Arg::Leaf(source), c.get("reduce")?];
    with(crate::scatter_reduce::OP, args, [("include_self", c.get("include_self")?)])
}

/// Composes the distances of all pairs of rows.
fn pdist(c: &Call<'_>) -> Result<Value> {
    let x = c.tensor("x")?;
    let n = x.ty()?.shape[0].known().ok_or_else(stays)?;
    let pairs = || (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let rows = |of: fn((i64, i64)) -> i64| {
        let places: Vec<i64> = pairs().map(of).collect();
        let places = Tensor::from_vec(places.clone(), &[places.len()]);
        run(crate::index_select::OP, [Arg::Leaf(x.clone()), Arg::Int(0), Arg::Leaf(places)])
    };
    let gaps = run(crate::sub::OP, [rows(|(i, _)| i)?, rows(|(_, j)| j)?])?;
    run(crate::linalg_vector_norm::OP, [gaps, c.get("p")?, Arg::Int(-1)])
}
