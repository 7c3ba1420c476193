//! Rearrangements of elements whose sizes are not known before a call, as views, joins and look-ups of positions.
//! Those of known sizes stay: a table tells them where each element comes from.

use super::{Call, Composition, run, stays, tensor};
use crate::{Arg, Dim, Op, Result, Tensor, Value};

pub(super) static COMPOSITIONS: &[(Op, Composition)] = &[
    (crate::roll::OP, roll),
    (crate::flip::OP, |c| flipped(unknown(c)?, &ints(c, "dims")?).map(Arg::Leaf)),
    (crate::fliplr::OP, |c| flipped(unknown(c)?, &[1]).map(Arg::Leaf)),
    (crate::flipud::OP, |c| flipped(unknown(c)?, &[0]).map(Arg::Leaf)),
    (crate::rot90::OP, rot90),
    (crate::repeat::OP, |c| repeated(c.tensor("x")?, dims(c, "repeats")?)),
    (crate::tile::OP, |c| repeated(c.tensor("x")?, dims(c, "dims")?)),
    (crate::repeat_interleave::OP, repeat_interleave),
    (crate::meshgrid::OP, meshgrid),
    (crate::hstack::OP, |c| joined(c, 1, |rank| i64::from(rank > 1))),
    (crate::vstack::OP, |c| joined(c, 2, |_| 0)),
    (crate::dstack::OP, |c| joined(c, 3, |_| 2)),
    (crate::column_stack::OP, |c| {
        let columns = unknown_list(c)?.into_iter().map(|x| match x.ty()?.rank() {
            0 | 1 => reshaped(x, [Dim::new(-1), Dim::new(1)]),
            _ => Ok(x),
        });
        cat(columns.collect::<Result<_>>()?, 1)
    }),
    (crate::pad::OP, pad),
    (crate::tril::OP, |c| triangle(c, crate::le::OP)),
    (crate::triu::OP, |c| triangle(c, crate::ge::OP)),
    (crate::diag_embed::OP, diag_embed),
];

/// Returns the operand if its sizes are not known.
fn unknown(c: &Call<'_>) -> Result<Tensor> {
    let x = c.tensor("x")?;
    if x.ty()?.shape.known().is_some() { Err(stays()) } else { Ok(x) }
}

/// Returns the tensors of a list if not all of their sizes are known.
fn unknown_list(c: &Call<'_>) -> Result<Vec<Tensor>> {
    let list = c.get("tensors")?;
    let tensors: Vec<Tensor> =
        list.items().ok_or_else(stays)?.iter().filter_map(Arg::leaf).cloned().collect();
    let types = tensors.iter().map(Tensor::ty).collect::<Result<Vec<_>>>()?;
    if types.iter().all(|ty| ty.shape.known().is_some()) { Err(stays()) } else { Ok(tensors) }
}

fn ints(c: &Call<'_>, name: &str) -> Result<Vec<i64>> {
    let int = |arg: &Value| arg.scalar().map(crate::Scalar::to_i64).ok_or_else(stays);
    match c.get(name)? {
        arg @ (Arg::Int(_) | Arg::Bool(_)) => Ok(vec![int(&arg)?]),
        list => list.items().ok_or_else(stays)?.iter().map(int).collect(),
    }
}

fn dims(c: &Call<'_>, name: &str) -> Result<Vec<Dim>> {
    let dim = |arg: &Value| match arg {
        Arg::Int(n) => Ok(Dim::new(*n)),
        Arg::Dim(dim) => Ok(dim.clone()),
        _ => Err(stays()),
    };
    match c.get(name)? {
        one @ (Arg::Int(_) | Arg::Dim(_)) => Ok(vec![dim(&one)?]),
        list => list.items().ok_or_else(stays)?.iter().map(dim).collect(),
    }
}

fn axis_of(axis: i64, x: &Tensor) -> Result<usize> {
    crate::ops::axis(axis, x.ty()?.rank())
}

fn reshaped(x: Tensor, shape: impl IntoIterator<Item = Dim>) -> Result<Tensor> {
    let shape = Arg::list(shape.into_iter().map(|size| Arg::dim(size.clone())));
    tensor(run(crate::reshape::OP, [Arg::Leaf(x), shape])?)
}

fn broadcast(x: Tensor, shape: &[Dim]) -> Result<Tensor> {
    tensor(run(crate::broadcast_to::OP, [Arg::Leaf(x), Arg::list(shape.iter().map(Arg::dim))])?)
}

fn cat(parts: Vec<Tensor>, axis: i64) -> Result<Value> {
    run(crate::cat::OP, [Arg::list(parts.into_iter().map(Arg::Leaf)), Arg::Int(axis)])
}

/// Returns the slices at positions along an axis.
fn selected(x: Tensor, axis: usize, places: Value) -> Result<Tensor> {
    tensor(run(crate::index_select::OP, [Arg::Leaf(x), Arg::Int(axis as i64), places])?)
}

fn arange(from: &Dim, to: &Dim) -> Result<Value> {
    run(crate::arange::OP, [Arg::dim(from.clone()), Arg::dim(to.clone())])
}

/// Puts what leaves an axis at one end to the other: by slices, or by positions if the axis has no known size.
fn roll(c: &Call<'_>) -> Result<Value> {
    let mut x = unknown(c)?;
    let (shifts, axes) = (dims(c, "shifts")?, ints(c, "dims")?);
    if axes.is_empty() || axes.len() != shifts.len() {
        return Err(stays());
    }
    for (shift, axis) in shifts.into_iter().zip(axes) {
        let axis = axis_of(axis, &x)?;
        let size = x.ty()?.shape[axis].clone();
        let (Some(n), Some(shift)) = (size.known(), shift.known()) else {
            let places = run(crate::sub::OP, [arange(&Dim::new(0), &size)?, Arg::dim(shift.clone())])?;
            // An empty axis has no places.
            let size = size.max(&Dim::new(1));
            x = selected(x, axis, run(crate::remainder::OP, [places, Arg::dim(size)])?)?;
            continue;
        };
        if n == 0 || shift.rem_euclid(n) == 0 {
            continue;
        }
        let cut = n - shift.rem_euclid(n);
        let part = |from: i64, to: i64| {
            let args = [from, to].map(Arg::Int);
            tensor(run(
                crate::slice::OP,
                [vec![Arg::Leaf(x.clone()), Arg::Int(axis as i64)], args.to_vec()].concat(),
            )?)
        };
        x = tensor(cat(vec![part(cut, n)?, part(0, cut)?], axis as i64)?)?;
    }
    Ok(Arg::Leaf(x))
}

fn flipped(mut x: Tensor, axes: &[i64]) -> Result<Tensor> {
    for &axis in axes {
        let axis = axis_of(axis, &x)?;
        let n = x.ty()?.shape[axis].clone();
        let places = run(crate::rsub::OP, [arange(&Dim::new(0), &n)?, Arg::dim(&n - 1)])?;
        x = selected(x, axis, places)?;
    }
    Ok(x)
}

fn rot90(c: &Call<'_>) -> Result<Value> {
    let x = unknown(c)?;
    let [a, b] = ints(c, "dims")?[..] else { return Err(stays()) };
    let turned = |x: Tensor| run(crate::transpose::OP, [Arg::Leaf(x), Arg::Int(a), Arg::Int(b)]);
    match (c.number("k")? as i64).rem_euclid(4) {
        0 => run(crate::clone::OP, [Arg::Leaf(x)]),
        1 => turned(flipped(x, &[b])?),
        2 => flipped(x, &[a, b]).map(Arg::Leaf),
        _ => turned(flipped(x, &[a])?),
    }
}

/// Repeats along axes, of which the last ones are those of the operand.
fn repeated(x: Tensor, mut repeats: Vec<Dim>) -> Result<Value> {
    if x.ty()?.shape.known().is_some() && repeats.iter().all(Dim::is_known) {
        return Err(stays());
    }
    let mut shape = x.ty()?.shape.to_vec();
    while repeats.len() < shape.len() {
        repeats.insert(0, Dim::new(1));
    }
    while shape.len() < repeats.len() {
        shape.insert(0, Dim::new(1));
    }
    let between = |first: &dyn Fn(&Dim) -> Dim| -> Vec<Dim> {
        repeats.iter().zip(&shape).flat_map(|(n, size)| [first(n), size.clone()]).collect()
    };
    let x = reshaped(x, between(&|_| Dim::new(1)))?;
    let x = broadcast(x, &between(&Dim::clone))?;
    reshaped(x, repeats.iter().zip(&shape).map(|(n, size)| n * size)).map(Arg::Leaf)
}

fn repeat_interleave(c: &Call<'_>) -> Result<Value> {
    let mut x = unknown(c)?;
    let [repeats] = &dims(c, "repeats")?[..] else { return Err(stays()) };
    let axis = match c.get("dim")? {
        Arg::None => {
            x = reshaped(x, [Dim::new(-1)])?;
            0
        }
        axis => axis_of(axis.scalar().map(crate::Scalar::to_i64).ok_or_else(stays)?, &x)?,
    };
    let mut shape = x.ty()?.shape.to_vec();
    if shape.is_empty() {
        return Err(stays());
    }
    let wide = [&shape[..=axis], std::slice::from_ref(repeats), &shape[axis + 1..]].concat();
    let x = tensor(run(crate::unsqueeze::OP, [Arg::Leaf(x), Arg::Int(axis as i64 + 1)])?)?;
    shape[axis] = &shape[axis] * repeats;
    reshaped(broadcast(x, &wide)?, shape).map(Arg::Leaf)
}

fn meshgrid(c: &Call<'_>) -> Result<Value> {
    let tensors = unknown_list(c)?;
    let mut axes: Vec<usize> = (0..tensors.len()).collect();
    if matches!(c.get("indexing")?, Arg::Str(text) if *text == *"xy") && axes.len() > 1 {
        axes.swap(0, 1);
    }
    let mut shape = vec![Dim::new(1); tensors.len()];
    for (x, &axis) in tensors.iter().zip(&axes) {
        shape[axis] = x.ty()?.shape.numel();
    }
    let grids = tensors.into_iter().zip(&axes).map(|(x, &axis)| {
        let line = (0..shape.len()).map(|other| Dim::new(if other == axis { -1 } else { 1 }));
        broadcast(reshaped(x, line)?, &shape).map(Arg::Leaf)
    });
    Ok(Arg::list(grids.collect::<Result<Vec<_>>>()?))
}

/// Joins tensors of at least so many axes along the axis that `axis` tells of that number.
fn joined(c: &Call<'_>, rank: usize, axis: fn(usize) -> i64) -> Result<Value> {
    let wide = unknown_list(c)?.into_iter().map(|x| {
        let sizes = x.ty()?.shape.to_vec();
        let one = Dim::new(1);
        match (rank, &sizes[..]) {
            (_, []) => reshaped(x, vec![one; rank]),
            (2, [n]) => reshaped(x, [one, n.clone()]),
            (3, [n]) => reshaped(x, [one.clone(), n.clone(), one]),
            (3, [m, n]) => reshaped(x, [m.clone(), n.clone(), one]),
            _ => Ok(x),
        }
    });
    let wide = wide.collect::<Result<Vec<_>>>()?;
    let rank = wide.first().ok_or_else(stays)?.ty()?.rank();
    cat(wide, axis(rank))
}

/// Returns the numbers of rows as a column, and those of columns as a row, of so many of each.
fn places_of(rows: &Dim, columns: &Dim) -> Result<[Value; 2]> {
    let rows = run(crate::unsqueeze::OP, [arange(&Dim::new(0), rows)?, Arg::Int(1)])?;
    Ok([rows, arange(&Dim::new(0), columns)?])
}

/// Keeps the elements whose column less their row compares so with the number of the diagonal.
fn triangle(c: &Call<'_>, keeps: Op) -> Result<Value> {
    let x = unknown(c)?;
    let shape = x.ty()?.shape.clone();
    let [.., rows, columns] = &shape[..] else { return Err(stays()) };
    let [row, column] = places_of(rows, columns)?;
    let diagonal = run(crate::add::OP, [row, c.get("diagonal")?])?;
    let kept = run(keeps, [column, diagonal])?;
    run(crate::masked_fill::OP, [Arg::Leaf(x), run(crate::logical_not::OP, [kept])?, Arg::Int(0)])
}

/// Puts the last axis on the diagonals of matrices.
fn diag_embed(c: &Call<'_>) -> Result<Value> {
    let x = unknown(c)?;
    let shape = x.ty()?.shape.to_vec();
    let (Some(n), [0, -2, -1]) =
        (shape.last(), [c.number("offset")?, c.number("dim1")?, c.number("dim2")?].map(|x| x as i64))
    else {
        return Err(stays());
    };
    let [row, column] = places_of(n, n)?;
    let others = run(crate::ne::OP, [row, column])?;
    let lines = tensor(run(crate::unsqueeze::OP, [Arg::Leaf(x), Arg::Int(-2)])?)?;
    let wide = [&shape[..], std::slice::from_ref(n)].concat();
    run(crate::masked_fill::OP, [Arg::Leaf(broadcast(lines, &wide)?), others, Arg::Int(0)])
}

/// Pads with elements of the tensor itself, which are looked up along one axis after the other.
fn pad(c: &Call<'_>) -> Result<Value> {
    let mut x = unknown(c)?;
    let Arg::Str(mode) = c.get("mode")? else { return Err(stays()) };
    let pads = ints(c, "pad")?;
    let rank = x.ty()?.rank();
    let sizes = x.ty()?.shape.clone();
    let is_known = |i: usize| rank.checked_sub(i + 1).is_some_and(|axis| sizes[axis].known().is_some());
    if *mode == *"constant" || (0..pads.len() / 2).all(is_known) {
        return Err(stays());
    }
    for (i, pair) in pads.chunks(2).enumerate() {
        let (Some(axis), &[before, after]) = (rank.checked_sub(i + 1), pair) else { return Err(stays()) };
        if before == 0 && after == 0 {
            continue;
        }
        let n = &sizes[axis];
        let places = arange(&Dim::new(-before), &(n + after))?;
        let last = Arg::dim(n - 1);
        let places = match &*mode {
            "replicate" => run(crate::clamp::OP, [places, Arg::Int(0), last])?,
            "reflect" => {
                let from_end = run(crate::rsub::OP, [run(crate::abs::OP, [places])?, last.clone()])?;
                run(crate::rsub::OP, [run(crate::abs::OP, [from_end])?, last])?
            }
            "circular" => {
                // What is cut off is not wrapped around.
                let first = (-before).max(0);
                let size = n - first - (-after).max(0);
                let inside = run(crate::sub::OP, [places, Arg::Int(first)])?;
                let inside = run(crate::remainder::OP, [inside, Arg::dim(size.clone())])?;
                run(crate::add::OP, [inside, Arg::Int(first)])?
            }
            _ => return Err(stays()),
        };
        x = selected(x, axis, places)?;
    }
    Ok(Arg::Leaf(x))
}
