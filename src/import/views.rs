//! Operators whose result shares memory with their first argument.

use super::alias::{StepKind, View, is_viewable, sizes_of};
use super::build::{Attempt, Builder, Out};
use super::call::{Call, generic};
use super::schema::{Argument, SymExpr, SymInt};
use crate::ops::axis;
use crate::{Arg, Dim, NodeId, TensorType, err};

/// Turns views into values of their own.
pub(super) fn without_alias(out: Out) -> Out {
    match out {
        Out::View(view) => Out::Node(view.node),
        Out::Many(outs) => Out::Many(outs.into_iter().map(without_alias).collect()),
        other => other,
    }
}

/// The argument itself.
pub(super) fn alias<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    present(builder, call).map(Out::View)
}

/// Returns the first argument with its present value.
fn present<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<View> {
    let mut view = call.view(builder)?;
    view.node = builder.current(&view)?;
    view.version = builder.storages[view.storage].version;
    Ok(view)
}

/// An operator that changes how its argument is seen: the name stands for the view afterwards.
fn in_place<'a>(
    builder: &mut Builder<'a>,
    call: &Call<'a>,
    f: fn(&mut Builder<'a>, &Call<'a>) -> Attempt<Out>,
) -> Attempt<Out> {
    let inner = Call {
        base: call.base.trim_end_matches('_'),
        overload: call.overload,
        node: call.node,
        args: call.args.clone(),
    };
    let out = f(builder, &inner)?;
    if let Out::View(view) = &out {
        builder.redefine(call.tensor_name(0)?, view.clone());
    }
    Ok(out)
}

fn tensor(arg: &Arg) -> Attempt<NodeId> {
    Ok(arg.leaf().copied().ok_or_else(|| err!(Load, "expected a tensor, got {}", arg.kind_name()))?)
}

/// Calls the row of the operator; returns the result and its type.
fn emit<'a>(builder: &mut Builder<'a>, call: &Call<'a>, row: &str) -> Attempt<(NodeId, TensorType)> {
    let Out::Node(node) = generic(builder, row, call, &[])? else {
        return Err(err!(Load, "{row} gives no tensor").into());
    };
    let ty = match builder.tensor_type(node) {
        Ok(ty) => ty,
        Err(error) => match output_name(call) {
            Some(name) => builder.declared(name)?.ok_or(error)?,
            None => return Err(error.into()),
        },
    };
    Ok((node, ty))
}

fn output_name<'a>(call: &Call<'a>) -> Option<&'a str> {
    match call.node.outputs.first() {
        Some(Argument::AsTensor(tensor)) => Some(&tensor.name),
        _ => None,
    }
}

/// An operator that copies only where it must: it must if the dtype differs or the strides do.
pub(super) fn maybe_copy<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let input = tensor(&call.first()?)?;
    let ty = builder.tensor_type(input)?;
    let dtype = match (call.get("dtype"), call.get("other")) {
        (Some(Arg::DType(dtype)), _) => *dtype,
        (_, Some(Arg::Leaf(other))) => builder.tensor_type(*other)?.dtype,
        _ => match output_name(call).map(|name| builder.declared(name)).transpose()?.flatten() {
            Some(declared) => declared.dtype,
            None => ty.dtype,
        },
    };
    if dtype != ty.dtype {
        return builder.call("to", [Arg::Leaf(input), Arg::DType(dtype)]).map(Out::Node);
    }
    let strides = |name: &str| Some(builder.tensor_meta(name)?.strides.iter().map(hint).collect::<Vec<_>>());
    let same_strides = match output_name(call) {
        Some(name) => strides(call.tensor_name(0)?) == strides(name),
        None => true,
    };
    if call.is_true("copy") || !same_strides {
        return builder.call("contiguous", [Arg::Leaf(input)]).map(Out::Node);
    }
    alias(builder, call)
}

/// The same bytes as another dtype.
pub(super) fn bits<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let Arg::DType(dtype) = call.need("dtype")? else { return Err(err!(Load, "expected a dtype").into()) };
    let node = builder.call("view_dtype", [call.first()?, Arg::DType(dtype)])?;
    Ok(Out::View(builder.view(&of, StepKind::Bits(dtype), node)))
}

/// An operator that gives the same elements in other sizes, and copies them where it must.
pub(super) fn reshape<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    reshaped(builder, call, false)
}

/// An operator that gives the same elements in other sizes, always as an alias.
pub(super) fn view<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    reshaped(builder, call, true)
}

/// `unsqueeze_` and `squeeze_`.
pub(super) fn view_in_place<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    in_place(builder, call, view)
}

/// `transpose_` and its like.
pub(super) fn permute_in_place<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    in_place(builder, call, permute)
}

fn reshaped<'a>(builder: &mut Builder<'a>, call: &Call<'a>, always: bool) -> Attempt<Out> {
    let of = call.view(builder)?;
    let (node, ty) = match call.base {
        "view_as" | "reshape_as" => {
            let other = builder.tensor_type(tensor(&call.need("other")?)?)?;
            let node = builder.call("reshape", [call.first()?, sizes_of(&other)])?;
            (node, other)
        }
        "_unsafe_view" | "_reshape_alias" | "_reshape" => {
            let node = builder.call("reshape", [call.first()?, call.need("size")?])?;
            (node, builder.tensor_type(node)?)
        }
        "ravel" => {
            let dense = builder.call("contiguous", [call.first()?])?;
            let node = builder.call("reshape", [Arg::Leaf(dense), Arg::ints([-1])])?;
            (node, builder.tensor_type(node)?)
        }
        row => emit(builder, call, row)?,
    };
    if !always && !shares(builder, call, &ty) {
        return Ok(Out::Node(node));
    }
    let Arg::List(sizes) = sizes_of(&ty) else { return Ok(Out::Node(node)) };
    Ok(Out::View(builder.view(&of, StepKind::Reshape(sizes.into_vec()), node)))
}

/// Returns whether a reshape of the first argument is a view, as PyTorch decides by its strides.
fn shares<'a>(builder: &Builder<'a>, call: &Call<'a>, ty: &TensorType) -> bool {
    let Some(meta) = call.tensor_name(0).ok().and_then(|name| builder.tensor_meta(name)) else { return true };
    let sizes: Option<Vec<i64>> = meta.sizes.iter().map(hint).collect();
    let strides: Option<Vec<i64>> = meta.strides.iter().map(hint).collect();
    let new: Option<Vec<i64>> = match output_name(call).and_then(|name| builder.tensor_meta(name)) {
        Some(out) => out.sizes.iter().map(hint).collect(),
        None => ty.shape.iter().map(Dim::known).collect(),
    };
    match (sizes, strides, new) {
        (Some(sizes), Some(strides), Some(new)) => is_viewable(&sizes, &strides, &new),
        _ => true,
    }
}

/// Returns a size as it was when the program was exported.
fn hint(size: &SymInt) -> Option<i64> {
    match size {
        SymInt::AsInt(n) => Some(*n),
        SymInt::AsExpr(SymExpr { hint: Some(super::schema::Hint::AsInt(n)), .. }) => Some(*n),
        SymInt::AsExpr(_) => None,
    }
}

fn rank<'a>(builder: &Builder<'a>, call: &Call<'a>) -> Attempt<usize> {
    Ok(builder.tensor_type(tensor(&call.first()?)?)?.rank())
}

fn int(arg: &Arg) -> Attempt<i64> {
    match arg {
        Arg::Int(n) => Ok(*n),
        other => Err(err!(Load, "expected a known integer, got {}", other.kind_name()).into()),
    }
}

pub(super) fn permute<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let rank = rank(builder, call)?;
    let mut axes: Vec<usize> = (0..rank).collect();
    let at = |arg: Arg| -> Attempt<usize> { Ok(axis(int(&arg)?, rank)?) };
    match call.base {
        "permute" => {
            let dims = call.need("dims")?;
            axes =
                dims.items().unwrap_or_default().iter().map(|dim| at(dim.clone())).collect::<Attempt<_>>()?;
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..rank) {
                return Err(
                    err!(Axis, "expected each of {rank} axes once, got {dims}", dims = axes.len()).into()
                );
            }
        }
        "transpose" | "swapaxes" | "swapdims" if rank > 0 => {
            let names = if call.get("dim0").is_some() { ("dim0", "dim1") } else { ("axis0", "axis1") };
            axes.swap(at(call.need(names.0)?)?, at(call.need(names.1)?)?);
        }
        "transpose" | "swapaxes" | "swapdims" => {}
        "movedim" | "moveaxis" => {
            let list = |name: &str| -> Attempt<Vec<usize>> {
                let arg = call.need(name)?;
                let items = arg.items().map_or_else(|| vec![arg.clone()], <[Arg]>::to_vec);
                items.into_iter().map(at).collect()
            };
            let (from, to) = (list("source")?, list("destination")?);
            let mut rest = (0..rank).filter(|axis| !from.contains(axis));
            let moved =
                |place: usize| to.iter().position(|&axis| axis == place).and_then(|i| from.get(i).copied());
            axes = (0..rank).filter_map(|place| moved(place).or_else(|| rest.next())).collect();
        }
        "mT" | "mH" | "adjoint" if rank >= 2 => axes.swap(rank - 2, rank - 1),
        _ => axes.reverse(),
    }
    let node = match builder
        .registry
        .get(call.base)
        .is_some_and(|_| matches!(call.base, "permute" | "transpose" | "t"))
    {
        true => emit(builder, call, call.base)?.0,
        false => builder.call("permute", [call.first()?, Arg::ints(axes.iter().map(|&axis| axis as i64))])?,
    };
    Ok(Out::View(builder.view(&of, StepKind::Permute(axes), node)))
}

pub(super) fn select<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let dim = axis(int(&call.need("dim")?)?, rank(builder, call)?)? as i64;
    let index = call.need("index")?;
    let (node, _) = emit(builder, call, "select")?;
    Ok(Out::View(builder.view(&of, StepKind::Select { dim, index }, node)))
}

pub(super) fn slice<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let dim = axis(int(&call.or("dim", Arg::Int(0)))?, rank(builder, call)?)? as i64;
    let (start, end, step) = (call.arg("start"), call.arg("end"), call.or("step", Arg::Int(1)));
    let args = [call.first()?, Arg::Int(dim), start.clone(), end.clone(), step.clone()];
    let node = builder.call("slice", args)?;
    Ok(Out::View(builder.view(&of, StepKind::Slice { dim, start, end, step }, node)))
}

pub(super) fn narrow<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let ty = builder.tensor_type(tensor(&call.first()?)?)?;
    let dim = axis(int(&call.need("dim")?)?, ty.rank())?;
    let (start, length) = (call.need("start")?, call.need("length")?);
    let (node, _) = emit(builder, call, "narrow")?;
    let number = |arg: &Arg| match arg {
        Arg::Int(n) => Ok(Dim::new(*n)),
        Arg::Dim(dim) => Ok(dim.clone()),
        other => Err(err!(Load, "expected a size, got {}", other.kind_name())),
    };
    let (mut from, length) = (number(&start)?, number(&length)?);
    if from.known().is_some_and(|n| n < 0) {
        from += &ty.shape[dim];
    }
    let end = Arg::dim(&from + &length);
    let kind = StepKind::Slice { dim: dim as i64, start: Arg::dim(from), end, step: Arg::Int(1) };
    Ok(Out::View(builder.view(&of, kind, node)))
}

pub(super) fn diagonal<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let (first, second) = if call.base == "diagonal" { (0, 1) } else { (-2, -1) };
    let offset = call.or("offset", Arg::Int(0));
    let (dim1, dim2) = (call.or("dim1", Arg::Int(first)), call.or("dim2", Arg::Int(second)));
    let node = builder.call("diagonal", [call.first()?, offset.clone(), dim1.clone(), dim2.clone()])?;
    Ok(Out::View(builder.view(&of, StepKind::Diagonal { offset, dim1, dim2 }, node)))
}

pub(super) fn expand<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let size = match call.get("other") {
        Some(other) => sizes_of(&builder.tensor_type(tensor(other)?)?),
        None => call.need("size")?,
    };
    let node = builder.call("expand", [call.first()?, size])?;
    let ty = builder.tensor_type(node)?;
    let Arg::List(sizes) = sizes_of(&ty) else { return Ok(Out::Node(node)) };
    Ok(Out::View(builder.view(&of, StepKind::Expand(sizes.into_vec()), node)))
}

/// Windows along an axis, `(self, dimension, size, step)`: strides over the elements in row-major order.
pub(super) fn unfold<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let ty = builder.tensor_type(tensor(&call.first()?)?)?;
    let (node, out) = emit(builder, call, "unfold")?;
    let (Arg::Int(dim), Arg::Int(step)) = (call.need("dimension")?, call.need("step")?) else {
        return Ok(Out::Node(node));
    };
    let mut strides = row_major(&ty);
    if ty.rank() == 0 {
        strides.push(Dim::new(1));
    } else {
        let dim = axis(dim, ty.rank())?;
        let stride = strides[dim].clone();
        strides[dim] = &stride * Dim::new(step);
        strides.push(stride);
    }
    let kind = StepKind::Strided { size: sizes_of(&out), stride: dims(strides), offset: Arg::Int(0) };
    Ok(Out::View(builder.view(&of, kind, node)))
}

fn row_major(ty: &TensorType) -> Vec<Dim> {
    let mut strides = Vec::new();
    let mut stride = Dim::new(1);
    for size in ty.shape.iter().rev() {
        strides.push(stride.clone());
        stride = &stride * size;
    }
    strides.reverse();
    strides
}

fn dims(dims: Vec<Dim>) -> Arg {
    Arg::list(dims.into_iter().map(Arg::dim))
}

/// `(self, size, stride, storage_offset?)`: counts in the storage, which is what the tensor's own elements
/// are only if it is dense and begins where the storage does.
pub(super) fn as_strided<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let ty = builder.tensor_type(tensor(&call.first()?)?)?;
    let (size, stride) = (call.need("size")?, call.need("stride")?);
    let mut offset = call.arg("storage_offset");
    if let Some(meta) = builder.tensor_meta(call.tensor_name(0)?) {
        let strides: Option<Vec<i64>> = meta.strides.iter().map(hint).collect();
        let sizes: Option<Vec<i64>> = meta.sizes.iter().map(hint).collect();
        let is_dense = match (sizes, strides) {
            (Some(sizes), Some(strides)) => is_dense(&sizes, &strides),
            _ => false,
        };
        let start = meta.storage_offset.as_ref().map_or(Some(0), hint);
        offset = match (offset, start) {
            (Arg::None, _) => Arg::Int(0),
            (Arg::Int(n), Some(start)) if n >= start => Arg::Int(n - start),
            (offset, Some(0)) => offset,
            _ => Arg::None,
        };
        if !is_dense || matches!(offset, Arg::None) || reaches_out(&ty, &size, &stride, &offset) {
            return Err(err!(Load, "as_strided of a tensor that is part of another cannot be imported")
                .help("call it on a tensor that is contiguous")
                .into());
        }
    }
    let node = builder.call("as_strided", [call.first()?, size.clone(), stride.clone(), offset.clone()])?;
    Ok(Out::View(builder.view(&of, StepKind::Strided { size, stride, offset }, node)))
}

/// Returns whether elements lie one after the other in row-major order.
fn is_dense(sizes: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1i64;
    sizes.len() == strides.len()
        && sizes.iter().zip(strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == expected;
            expected = expected.saturating_mul(size);
            fits
        })
}

/// Returns whether strides certainly lead beyond the elements of a tensor.
fn reaches_out(ty: &TensorType, size: &Arg, stride: &Arg, offset: &Arg) -> bool {
    let known = |arg: &Arg| match arg {
        Arg::Int(n) => Some(*n),
        _ => None,
    };
    let last = |(size, stride): (&Arg, &Arg)| Some((known(size)? - 1).max(0).saturating_mul(known(stride)?));
    let (Some(sizes), Some(strides), Some(numel)) = (size.items(), stride.items(), ty.shape.numel().known())
    else {
        return false;
    };
    let lasts: Option<Vec<i64>> = sizes.iter().zip(strides).map(last).collect();
    match (lasts, known(offset)) {
        (Some(lasts), Some(offset)) => lasts.into_iter().fold(offset, i64::saturating_add) >= numel.max(1),
        _ => false,
    }
}

/// The parts of a split along an axis, each a view.
pub(super) fn split<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let ty = builder.tensor_type(tensor(&call.first()?)?)?;
    let default = match call.base {
        "hsplit" => i64::from(ty.rank() > 1),
        "dsplit" => 2,
        _ => 0,
    };
    let dim = axis(int(&call.or("dim", Arg::Int(default)))?, ty.rank())?;
    if call.base == "tensor_split" && matches!(call.arg("tensor_indices_or_sections"), Arg::Leaf(_)) {
        return Err(err!(Load, "tensor_split at positions out of a tensor is not supported")
            .help("cut with slices: `x[:, :i]` and `x[:, i:]` for `i = index.item()`")
            .into());
    }
    let row = match call.base {
        "split" if call.arg("split_size").items().is_some() => "split_with_sizes",
        "split" | "unsafe_split" => "split",
        "split_with_sizes" | "unsafe_split_with_sizes" => "split_with_sizes",
        "chunk" | "unsafe_chunk" => "chunk",
        _ => "",
    };
    // The bounds of the parts: as the call says, else sizes from the row or from the archive, one after the other.
    let whole = if row.is_empty() { None } else { Some(emit_list(builder, call, row)?) };
    let cut = if row.is_empty() { bounds_of_cuts(call, &ty.shape[dim])? } else { None };
    let names = match (&cut, whole) {
        (Some(bounds), _) => vec![""; bounds.len()],
        (None, Some(whole)) => part_names(builder, call, whole)?,
        (None, None) => list_names(call)?,
    };
    let mut parts = Vec::new();
    let mut next = Dim::new(0);
    for (i, name) in names.into_iter().enumerate() {
        let inferred = whole.and_then(|node| {
            let ty = builder.graph.node(node).ok()?.ty()?.items()?.get(i)?.tensor()?.clone();
            ty.shape.get(dim).cloned()
        });
        let [start, end] = match (cut.as_ref().and_then(|bounds| bounds.get(i)), inferred) {
            (Some(bounds), _) => bounds.clone(),
            (None, Some(size)) => [next.clone(), &next + &size],
            (None, None) => {
                let ty = builder.declared(name)?.filter(|ty| ty.rank() > dim);
                let ty = ty.ok_or_else(|| err!(Load, "the type of {name:?} is missing"))?;
                [next.clone(), &next + &ty.shape[dim]]
            }
        };
        next.clone_from(&end);
        let (from, to) = (Arg::dim(start), Arg::dim(end));
        let node = match whole {
            Some(whole) => builder.call("getitem", [Arg::Leaf(whole), Arg::Int(i as i64)])?,
            None => builder.call("slice", [call.first()?, Arg::Int(dim as i64), from.clone(), to.clone()])?,
        };
        let kind = StepKind::Slice { dim: dim as i64, start: from, end: to, step: Arg::Int(1) };
        parts.push(Out::View(builder.view(&of, kind, node)));
    }
    Ok(Out::Many(parts))
}

/// Returns where the parts begin and end into which an axis is cut, in so many parts or at places; `None` if that
/// is not known. Fails if there are no such parts.
fn bounds_of_cuts(call: &Call<'_>, size: &Dim) -> Attempt<Option<Vec<[Dim; 2]>>> {
    let names = ["sections", "indices", "indices_or_sections"];
    let Some(cuts) = names.iter().find_map(|name| call.get(name)) else { return Ok(None) };
    if let Arg::Int(n) = cuts {
        let n = *n;
        if !(1..=1 << 20).contains(&n) {
            return Err(err!(Load, "{} makes at least one part, got {n}", call.base).into());
        }
        // Only `tensor_split` makes parts that are not equal: the first ones are one longer.
        if call.base != "tensor_split" && size.known().is_some_and(|size| size % n != 0) {
            return Err(err!(Load, "{} cannot cut an axis of {size} into {n} equal parts", call.base).into());
        }
        let mut start = Dim::new(0);
        let part = |i: i64| {
            let end = &start + (size + (n - 1 - i)).floor_div(&Dim::new(n));
            [std::mem::replace(&mut start, end.clone()), end]
        };
        return Ok(Some((0..n).map(part).collect()));
    }
    let (Some(places), Some(size)) = (crate::import::call::ints(cuts), size.known()) else { return Ok(None) };
    let mut start = 0;
    let bounds = places.into_iter().chain([size]).map(|place| {
        let end = (if place < 0 { place + size } else { place }).clamp(0, size);
        // A place before the last one ends an empty part, and the next part begins there.
        let bounds = [start, end.max(start)].map(Dim::new);
        start = end;
        bounds
    });
    Ok(Some(bounds.collect()))
}

fn emit_list<'a>(builder: &mut Builder<'a>, call: &Call<'a>, row: &str) -> Attempt<NodeId> {
    match generic(builder, row, call, &[])? {
        Out::Node(node) => Ok(node),
        _ => Err(err!(Load, "{row} gives no list").into()),
    }
}

/// Returns the names of the items of a list that a row gives; a program that runs operator by operator has none.
fn part_names<'a>(builder: &Builder<'a>, call: &Call<'a>, whole: NodeId) -> Attempt<Vec<&'a str>> {
    let n = builder.graph.node(whole)?.ty().and_then(crate::TypeTree::items).map(<[_]>::len);
    match n {
        Some(n) if call.node.outputs.is_empty() => Ok(vec![""; n]),
        _ => list_names(call),
    }
}

fn list_names<'a>(call: &Call<'a>) -> Attempt<Vec<&'a str>> {
    match call.node.outputs.as_slice() {
        [Argument::AsTensors(tensors)] => Ok(tensors.iter().map(|tensor| tensor.name.as_str()).collect()),
        _ => Err(err!(Load, "expected a list of tensors as the output of {}", call.base).into()),
    }
}

pub(super) fn unbind<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let dim = axis(int(&call.or("dim", Arg::Int(0)))?, rank(builder, call)?)? as i64;
    let whole = emit_list(builder, call, "unbind")?;
    let names = part_names(builder, call, whole)?;
    let mut parts = Vec::new();
    for i in 0..names.len() as i64 {
        let node = builder.call("getitem", [Arg::Leaf(whole), Arg::Int(i)])?;
        parts.push(Out::View(builder.view(&of, StepKind::Select { dim, index: Arg::Int(i) }, node)));
    }
    Ok(Out::Many(parts))
}
