//! Views of tensors whose sizes are expressions. Where all sizes are known, the rows themselves say how their
//! results lie.

use fx_core::{Arg, Dim, Result, Type, TypeTree, bail, err};

use super::{Args, front};
use crate::standalone::lower::Lowering;
use crate::standalone::value::{Value, View};

/// Writes a view: shapes are those of the type of the result.
pub(in crate::standalone) fn view(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let Some(Arg::Leaf(x)) = args.args.first() else { bail!(Unresolved, "its operand is no tensor") };
    let rank = x.rank();
    let leaf = |view: View| Ok(Arg::Leaf(view));
    match args.op.name {
        "clone" | "detach" | "alias" => leaf(x.clone()),
        "contiguous" => leaf(l.contiguous(x)),
        "view" | "reshape" | "flatten" | "unflatten" | "view_as" | "reshape_as" | "unsqueeze" | "squeeze" => {
            reshape(l, args, x)
        }
        "transpose" | "swapaxes" | "t" => {
            let mut axes: Vec<usize> = (0..rank).collect();
            match args.op.name {
                "t" if rank == 2 => axes.swap(0, 1),
                "t" => {}
                "transpose" => axes.swap(args.axis("dim0", rank)?, args.axis("dim1", rank)?),
                _ => axes.swap(args.axis("axis0", rank)?, args.axis("axis1", rank)?),
            }
            leaf(x.permute(&axes))
        }
        "permute" => {
            let axes = args.ints("dims")?.unwrap_or_default();
            leaf(x.permute(&axes.into_iter().map(|axis| front(axis, rank)).collect::<Result<Vec<_>>>()?))
        }
        "expand" | "expand_as" | "broadcast_to" => {
            let (_, shape) = args.result()?;
            leaf(View { strides: x.broadcast(&shape), shape, ..x.clone() })
        }
        "slice" | "narrow" => {
            let axis = args.axis("dim", rank)?;
            let (_, shape) = args.result()?;
            let step = if args.has("step") { args.int("step")? } else { 1 };
            let mut start = from_front(args.get("start")?, &x.shape[axis])?;
            if args.op.name == "narrow" {
                l.require(start.clone());
                l.require(&x.shape[axis] - &start - &shape[axis]);
            } else {
                start = clamped(&start, &x.shape[axis]);
            }
            let mut view = View { shape, offset: &x.offset + start * &x.strides[axis], ..x.clone() };
            view.strides[axis] = &view.strides[axis] * step;
            leaf(view)
        }
        "select" => {
            let axis = args.axis("dim", rank)?;
            let index = from_front(args.get("index")?, &x.shape[axis])?;
            l.require(index.clone());
            l.require(&x.shape[axis] - &index - 1);
            leaf(selected(x, axis, index))
        }
        "unbind" => {
            let axis = args.axis("dim", rank)?;
            let n = args.ty.items().map_or(0, <[TypeTree]>::len);
            Ok(Arg::list((0..n).map(|i| Arg::Leaf(selected(x, axis, Dim::from(i))))))
        }
        "split" | "chunk" | "split_with_sizes" => {
            let axis = args.axis("dim", rank)?;
            let mut offset = x.offset.clone();
            args.ty.try_flat_map(&mut |ty: &Type| {
                let ty = ty.tensor().ok_or_else(|| err!(Unresolved, "a part is no tensor"))?;
                let part = View { shape: ty.shape.to_vec(), offset: offset.clone(), ..x.clone() };
                offset = &offset + &ty.shape[axis] * &x.strides[axis];
                Ok(Arg::Leaf(part))
            })
        }
        "getitem" => index(l, args, x),
        "unfold" => {
            let axis = args.axis("dimension", rank)?;
            let (_, shape) = args.result()?;
            let mut view = View { shape, ..x.clone() };
            view.strides.push(x.strides[axis].clone());
            view.strides[axis] = &x.strides[axis] * args.int("step")?;
            leaf(view)
        }
        "diagonal" => {
            let (first, second) = (args.axis("dim1", rank)?, args.axis("dim2", rank)?);
            let (_, shape) = args.result()?;
            let start = match args.int("offset")? {
                offset @ 0.. => &x.strides[second] * offset,
                offset => &x.strides[first] * -offset,
            };
            let kept = (0..rank).filter(|axis| *axis != first && *axis != second);
            let mut strides: Vec<Dim> = kept.map(|axis| x.strides[axis].clone()).collect();
            strides.push(&x.strides[first] + &x.strides[second]);
            leaf(View { shape, strides, offset: &x.offset + start, ..x.clone() })
        }
        "atleast_1d" | "atleast_2d" | "atleast_3d" => reshape(l, args, x),
        _ => bail!(Unresolved, "it needs sizes that are known"),
    }
}

/// Returns the value without an axis, at an index of it.
fn selected(x: &View, axis: usize, index: Dim) -> View {
    let mut view = View { offset: &x.offset + index * &x.strides[axis], ..x.clone() };
    view.shape.remove(axis);
    view.strides.remove(axis);
    view
}

/// Returns a position that counts from the front; nothing is 0.
pub(super) fn from_front(arg: &Value, size: &Dim) -> Result<Dim> {
    match arg {
        Arg::None => Ok(Dim::new(0)),
        Arg::Int(x) if *x < 0 => Ok(size + *x),
        Arg::Int(x) => Ok(Dim::new(*x)),
        Arg::Dim(dim) if dim.bounds().0 >= 0 => Ok(dim.clone()),
        // A negative position counts from behind.
        Arg::Dim(dim) => Ok(dim + size * (-dim).min(&Dim::new(1)).max(&Dim::new(0))),
        other => bail!(Unresolved, "a position is {other}", other = other.kind_name()),
    }
}

/// Returns the position at which a slice begins or ends on an axis.
pub(super) fn clamped(position: &Dim, size: &Dim) -> Dim {
    position.max(&Dim::new(0)).min(size)
}

/// Gives the elements another shape. Axes of size 1 come and go without a copy.
fn reshape(l: &mut Lowering<'_>, args: &Args<'_>, x: &View) -> Result<Value> {
    let (_, shape) = args.result()?;
    let one = Dim::new(1);
    let kept = |shape: &[Dim]| shape.iter().filter(|size| **size != one).cloned().collect::<Vec<_>>();
    if kept(&x.shape) == kept(&shape) {
        let mut strides = x
            .shape
            .iter()
            .zip(&x.strides)
            .filter(|(size, _)| **size != one)
            .map(|(_, stride)| stride.clone());
        let strides = shape.iter().map(|size| {
            if *size == one { Dim::new(0) } else { strides.next().unwrap_or_else(|| one.clone()) }
        });
        return Ok(Arg::Leaf(View { strides: strides.collect(), shape, ..x.clone() }));
    }
    if let Some(view) = split_axis(x, &shape) {
        return Ok(Arg::Leaf(view));
    }
    let x = l.contiguous(x);
    let dense = View::whole(x.home, x.dtype, &shape);
    Ok(Arg::Leaf(View { offset: x.offset, ..dense }))
}

/// Returns the view in which one axis is cut into several, if that is all.
fn split_axis(x: &View, shape: &[Dim]) -> Option<View> {
    let before = x.shape.iter().zip(shape).take_while(|(a, b)| a == b).count();
    let rest = x.rank().checked_sub(before + 1)?;
    let cut = shape.len().checked_sub(before + rest)?;
    if x.shape[before + 1..] != shape[before + cut..] {
        return None;
    }
    let mut strides = x.strides.clone();
    let mut step = strides.remove(before);
    for size in shape[before..before + cut].iter().rev() {
        strides.insert(before, step.clone());
        step = &step * size;
    }
    Some(View { shape: shape.to_vec(), strides, ..x.clone() })
}

/// Writes an index of integers, slices and new axes.
fn index(l: &mut Lowering<'_>, args: &Args<'_>, x: &View) -> Result<Value> {
    let items = match args.get("index")? {
        Arg::Tuple(items) => items.to_vec(),
        one => vec![one.clone()],
    };
    let used = items.iter().filter(|item| !matches!(item, Arg::None | Arg::Ellipsis)).count();
    let (_, wanted) = args.result()?;
    let (mut shape, mut strides, mut offset) = (Vec::new(), Vec::new(), x.offset.clone());
    let mut axis = 0;
    let whole = |axis: &mut usize, n: usize, shape: &mut Vec<Dim>, strides: &mut Vec<Dim>| {
        for _ in 0..n {
            shape.push(x.shape[*axis].clone());
            strides.push(x.strides[*axis].clone());
            *axis += 1;
        }
    };
    for item in &items {
        match item {
            Arg::None => {
                shape.push(Dim::new(1));
                strides.push(Dim::new(0));
            }
            Arg::Ellipsis => whole(&mut axis, x.rank().saturating_sub(used), &mut shape, &mut strides),
            Arg::Int(_) | Arg::Dim(_) if axis < x.rank() => {
                let index = from_front(item, &x.shape[axis])?;
                l.require(index.clone());
                l.require(&x.shape[axis] - &index - 1);
                offset += index * &x.strides[axis];
                axis += 1;
            }
            Arg::Slice(slice) if axis < x.rank() => {
                let step = match slice.step() {
                    Arg::None => 1,
                    Arg::Int(step) if *step > 0 => *step,
                    _ => bail!(Unresolved, "a step is not a known number"),
                };
                let start = clamped(&from_front(slice.start(), &x.shape[axis])?, &x.shape[axis]);
                offset += start * &x.strides[axis];
                shape.push(
                    wanted.get(shape.len()).cloned().ok_or_else(|| err!(Shape, "its type has fewer axes"))?,
                );
                strides.push(&x.strides[axis] * step);
                axis += 1;
            }
            other => bail!(Unresolved, "it is indexed by {}", other.kind_name()),
        }
    }
    let rest = x.rank().saturating_sub(axis);
    whole(&mut axis, rest, &mut shape, &mut strides);
    Ok(Arg::Leaf(View { shape: wanted, strides, offset, ..x.clone() }))
}
