//! Images of sizes that are not known before a call at other sizes, and bags of embeddings.

use super::{Call, Composition, run, stays, with};
use crate::{Arg, DType, Dim, Op, Result, Tensor, Value};

pub(super) static COMPOSITIONS: &[(Op, Composition)] =
    &[(crate::interpolate::OP, interpolate), (crate::embedding_bag::OP, embedding_bag)];

/// Returns the new sizes of the spatial axes; scales must be whole.
fn new_sizes(c: &Call<'_>, old: &[Dim]) -> Result<Vec<Dim>> {
    let each = |arg: &Value| -> Result<Vec<Value>> {
        match arg.items() {
            Some(items) if items.len() == old.len() => Ok(items.to_vec()),
            Some(_) => Err(stays()),
            None => Ok(vec![arg.clone(); old.len()]),
        }
    };
    match (c.get("size")?, c.get("scale_factor")?) {
        (Arg::None, Arg::None) => Err(stays()),
        (Arg::None, scales) => {
            let scaled = each(&scales)?.into_iter().zip(old).map(|(scale, size)| {
                let scale = scale.scalar().ok_or_else(stays)?.to_f64();
                let is_whole = scale.fract() == 0.0 && (1.0..=1024.0).contains(&scale);
                if is_whole { Ok(size * scale as i64) } else { Err(stays()) }
            });
            scaled.collect()
        }
        (sizes, _) => {
            let size = |arg: Value| match arg {
                Arg::Int(n) => Ok(Dim::new(n)),
                Arg::Dim(size) => Ok(size),
                _ => Err(stays()),
            };
            each(&sizes)?.into_iter().map(size).collect()
        }
    }
}

/// Composes an enlargement by whole numbers of the nearest elements, or linear mixtures of neighbours.
fn interpolate(c: &Call<'_>) -> Result<Value> {
    let x = c.tensor("x")?;
    let ty = x.ty()?;
    let (Some(old), Arg::Str(mode)) = (ty.shape.get(2..), c.get("mode")?) else { return Err(stays()) };
    if old.iter().all(Dim::is_known) || c.is("antialias")? {
        return Err(stays());
    }
    let new = new_sizes(c, old)?;
    let aligned = matches!(c.get("align_corners")?, Arg::Bool(true));
    let wide = if ty.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let mut y = run(crate::to::OP, [Arg::Leaf(x), Arg::DType(wide)])?;
    let rank = old.len();
    for (i, (old, new)) in old.iter().zip(&new).enumerate() {
        if old == new {
            continue;
        }
        let axis = Arg::Int(i as i64 + 2);
        y = match &*mode {
            "nearest" | "nearest-exact" => {
                let factor = (2..=1024).find(|factor| old * *factor == *new).ok_or_else(stays)?;
                run(crate::repeat_interleave::OP, [y, Arg::Int(factor), axis])?
            }
            "linear" | "bilinear" | "trilinear" => mixed(y, axis, old, new, aligned, wide, rank - i)?,
            _ => return Err(stays()),
        };
    }
    run(crate::to::OP, [y, Arg::DType(ty.dtype)])
}

/// Mixes the two neighbours of each new element along an axis, which is the `from_end`th of the last ones.
fn mixed(
    x: Value,
    axis: Value,
    old: &Dim,
    new: &Dim,
    aligned: bool,
    dtype: DType,
    from_end: usize,
) -> Result<Value> {
    let places =
        with(crate::arange::OP, [Arg::Int(0), Arg::dim(new.clone())], [("dtype", Arg::DType(dtype))])?;
    let scaled = |x: Value, old: &Dim, new: &Dim| {
        run(crate::div::OP, [run(crate::mul::OP, [x, Arg::dim(old.clone())])?, Arg::dim(new.clone())])
    };
    let places = match aligned {
        true => scaled(places, &(old - 1), &(new - 1).max(&Dim::new(1)))?,
        false => {
            let middle = scaled(run(crate::add::OP, [places, Arg::Float(0.5)])?, old, new)?;
            run(crate::clamp_min::OP, [run(crate::sub::OP, [middle, Arg::Float(0.5)])?, Arg::Float(0.0)])?
        }
    };
    let first = run(crate::to::OP, [places.clone(), Arg::DType(DType::I64)])?;
    let last = Arg::dim(old - 1);
    let second = run(crate::clamp_max::OP, [run(crate::add::OP, [first.clone(), Arg::Int(1)])?, last])?;
    let share = run(crate::sub::OP, [places, first.clone()])?;
    let line = std::iter::once(-1).chain(std::iter::repeat_n(1, from_end - 1));
    let share = run(crate::reshape::OP, [share, Arg::ints(line)])?;
    let at = |places: Value| run(crate::index_select::OP, [x.clone(), axis.clone(), places]);
    let (a, b) = (at(first)?, at(second)?);
    let gap = run(crate::sub::OP, [b, a.clone()])?;
    run(crate::add::OP, [a, run(crate::mul::OP, [gap, share])?])
}

fn embedding_bag(c: &Call<'_>) -> Result<Value> {
    if let Arg::Leaf(offsets) = c.get("offsets")? {
        return bags(c, &offsets);
    }
    let (Arg::None, Arg::None) = (c.get("offsets")?, c.get("max_norm")?) else { return Err(stays()) };
    if c.op.params.iter().any(|param| param.name == "padding_idx")
        && !matches!(c.get("padding_idx")?, Arg::None)
    {
        return Err(stays());
    }
    let mut rows = run(crate::embedding::OP, [c.get("x")?, c.get("weight")?])?;
    if let Arg::Leaf(weights) = c.get("per_sample_weights")? {
        let weights = run(crate::unsqueeze::OP, [Arg::Leaf(weights), Arg::Int(-1)])?;
        rows = run(crate::mul::OP, [rows, weights])?;
    }
    let op = match c.get("mode")? {
        Arg::Str(mode) if *mode == *"sum" => crate::sum::OP,
        Arg::Str(mode) if *mode == *"mean" => crate::mean::OP,
        _ => crate::amax::OP,
    };
    run(op, [rows, Arg::Int(1)])
}

/// Sums, means or maxima of the bags that begin at offsets.
fn bags(c: &Call<'_>, offsets: &Tensor) -> Result<Value> {
    let is_plain = |name: &str| Ok::<_, crate::Error>(matches!(c.get(name)?, Arg::None));
    if !(is_plain("max_norm")? && is_plain("padding_idx")?) {
        return Err(stays());
    }
    let (x, weight, dtype) = (c.tensor("x")?, c.tensor("weight")?, c.tensor("weight")?.dtype()?);
    let mut n = offsets.ty()?.shape.first().cloned().ok_or_else(stays)?;
    let mut starts = Arg::Leaf(offsets.clone());
    if c.is("include_last_offset")? {
        n -= 1;
        starts = run(crate::narrow::OP, [starts, Arg::Int(0), Arg::Int(0), Arg::dim(n.clone())])?;
    }
    let (Some(count), Some(width)) = (x.ty()?.shape.first().cloned(), weight.ty()?.shape.get(1).cloned())
    else {
        return Err(stays());
    };
    let mut rows = run(crate::embedding::OP, [Arg::Leaf(x), Arg::Leaf(weight)])?;
    if let Arg::Leaf(weights) = c.get("per_sample_weights")? {
        rows = run(crate::mul::OP, [rows, run(crate::unsqueeze::OP, [Arg::Leaf(weights), Arg::Int(-1)])?])?;
    }
    // The bag of each row is the last one that begins at it or before. Bag 0 has what is before the first one.
    let numbers = run(crate::arange::OP, [Arg::Int(0), Arg::dim(count.clone())])?;
    let bag = with(crate::searchsorted::OP, [starts, numbers], [("right", Arg::Bool(true))])?;
    let zeros =
        |sizes: Vec<Value>| with(crate::zeros::OP, [Arg::list(sizes)], [("dtype", Arg::DType(dtype))]);
    let all = Arg::dim(&n + 1);
    let rest = |x: Value| run(crate::slice::OP, [x, Arg::Int(0), Arg::Int(1), Arg::None]);
    let out = zeros(vec![all.clone(), Arg::dim(width.clone())])?;
    let mode = c.get("mode")?;
    if matches!(&mode, Arg::Str(mode) if **mode == *"max") {
        let args = [out, Arg::Int(0), bag, rows, Arg::str("amax")];
        return rest(with(crate::index_reduce::OP, args, [("include_self", Arg::Bool(false))])?);
    }
    let sums = rest(run(crate::index_add::OP, [out, Arg::Int(0), bag.clone(), rows])?)?;
    if matches!(&mode, Arg::Str(mode) if **mode == *"sum") {
        return Ok(sums);
    }
    let ones = with(crate::ones_like::OP, [bag.clone()], [("dtype", Arg::DType(dtype))])?;
    let counts = rest(run(crate::index_add::OP, [zeros(vec![all])?, Arg::Int(0), bag, ones])?)?;
    let counts = run(crate::clamp_min::OP, [counts, Arg::Int(1)])?;
    run(crate::div::OP, [sums, run(crate::unsqueeze::OP, [counts, Arg::Int(-1)])?])
}
