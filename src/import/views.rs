//! Operators whose result shares memory with their first argument.

use super::alias::{StepKind, View, is_viewable, sizes_of};
use super::aten::{Call, functional, generic};
use super::build::{Attempt, Builder, Out};
use super::schema::{Argument, SymExpr, SymInt};
use crate::ops::axis;
use crate::{Arg, Dim, NodeId, TensorType, err};

/// Imports an operator that gives an alias; `None` if it is none.
pub(super) fn import<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Option<Out>> {
    let out = match call.base {
        "alias" | "detach" | "detach_" | "lift_fresh" | "lift" | "positive" | "resolve_conj"
        | "resolve_neg" | "real" | "conj" | "_conj" | "view_of" | "requires_grad_" => {
            Out::View(alias(builder, call)?)
        }
        "contiguous"
        | "to"
        | "type_as"
        | "_autocast_to_reduced_precision"
        | "_autocast_to_full_precision" => maybe_copy(builder, call)?,
        "reshape" | "flatten" | "reshape_as" | "ravel" => reshape(builder, call, false)?,
        "view" if call.overload == "dtype" => return Ok(None),
        "view" | "view_as" | "unflatten" | "unsqueeze" | "squeeze" | "_unsafe_view" | "_reshape_alias"
        | "atleast_1d" | "atleast_2d" | "atleast_3d" => reshape(builder, call, true)?,
        "unsqueeze_" | "squeeze_" => in_place(builder, call, |builder, call| reshape(builder, call, true))?,
        "permute" | "transpose" | "t" | "numpy_T" | "mT" | "mH" | "adjoint" | "matrix_H" | "swapaxes"
        | "swapdims" | "movedim" | "moveaxis" => permute(builder, call)?,
        "transpose_" | "t_" | "swapaxes_" | "swapdims_" => in_place(builder, call, permute)?,
        "select" => select(builder, call)?,
        "slice" => slice(builder, call)?,
        "narrow" => narrow(builder, call)?,
        "diagonal" | "linalg_diagonal" => diagonal(builder, call)?,
        "expand" | "expand_as" | "broadcast_to" => expand(builder, call)?,
        "unfold" | "as_strided" => opaque(builder, call)?,
        "split"
        | "split_with_sizes"
        | "chunk"
        | "tensor_split"
        | "unsafe_split"
        | "unsafe_chunk"
        | "unsafe_split_with_sizes"
        | "hsplit"
        | "vsplit"
        | "dsplit" => split(builder, call)?,
        "unbind" => unbind(builder, call)?,
        _ => return Ok(None),
    };
    Ok(Some(out))
}

/// Returns whether an operator without a row of its own may be one of these.
pub(super) fn is_view(base: &str) -> bool {
    const WITHOUT_ROW: &[&str] = &[
        "lift_fresh",
        "lift",
        "resolve_conj",
        "resolve_neg",
        "real",
        "conj",
        "_conj",
        "requires_grad",
        "type_as",
        "reshape_as",
        "ravel",
        "view_as",
        "_unsafe_view",
        "_reshape_alias",
        "numpy_T",
        "mT",
        "mH",
        "adjoint",
        "matrix_H",
        "swapdims",
        "moveaxis",
        "linalg_diagonal",
        "expand_as",
        "hsplit",
        "vsplit",
        "dsplit",
        "unsafe_split",
        "unsafe_chunk",
        "unsafe_split_with_sizes",
    ];
    WITHOUT_ROW.contains(&base)
}

/// Returns the first argument with its present value.
fn alias<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<View> {
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
    let out = match call.base == row {
        true => functional(builder, call)?,
        false => generic(builder, row, call, &[])?,
    };
    let Out::Node(node) = out else { return Err(err!(Load, "{row} gives no tensor").into()) };
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
fn maybe_copy<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
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
    alias(builder, call).map(Out::View)
}

/// An operator that gives the same elements in other sizes.
fn reshape<'a>(builder: &mut Builder<'a>, call: &Call<'a>, always: bool) -> Attempt<Out> {
    let of = call.view(builder)?;
    let (node, ty) = match call.base {
        "view_as" | "reshape_as" => {
            let other = builder.tensor_type(tensor(&call.need("other")?)?)?;
            let node = builder.call("reshape", [call.first()?, sizes_of(&other)])?;
            (node, other)
        }
        "_unsafe_view" | "_reshape_alias" => {
            let node = builder.call("reshape", [call.first()?, call.need("size")?])?;
            (node, builder.tensor_type(node)?)
        }
        "ravel" => {
            let node = builder.call("reshape", [call.first()?, Arg::ints([-1])])?;
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

fn permute<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
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

fn select<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let dim = axis(int(&call.need("dim")?)?, rank(builder, call)?)? as i64;
    let index = call.need("index")?;
    let (node, _) = emit(builder, call, "select")?;
    Ok(Out::View(builder.view(&of, StepKind::Select { dim, index }, node)))
}

fn slice<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let dim = axis(int(&call.or("dim", Arg::Int(0)))?, rank(builder, call)?)? as i64;
    let (start, end, step) = (call.arg("start"), call.arg("end"), call.or("step", Arg::Int(1)));
    let args = [call.first()?, Arg::Int(dim), start.clone(), end.clone(), step.clone()];
    let node = builder.call("slice", args)?;
    Ok(Out::View(builder.view(&of, StepKind::Slice { dim, start, end, step }, node)))
}

fn narrow<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
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

fn diagonal<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let (first, second) = if call.base == "diagonal" { (0, 1) } else { (-2, -1) };
    let offset = call.or("offset", Arg::Int(0));
    let (dim1, dim2) = (call.or("dim1", Arg::Int(first)), call.or("dim2", Arg::Int(second)));
    let node = builder.call("diagonal", [call.first()?, offset.clone(), dim1.clone(), dim2.clone()])?;
    Ok(Out::View(builder.view(&of, StepKind::Diagonal { offset, dim1, dim2 }, node)))
}

fn expand<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
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

fn opaque<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let row = if call.base == "unfold" { "unfold" } else { "as_strided" };
    let args: Vec<Arg> = call.args.iter().skip(1).map(|(_, arg)| arg.clone()).collect();
    let (node, _) = emit(builder, call, row)?;
    Ok(Out::View(builder.view(&of, StepKind::Opaque { row, args }, node)))
}

/// The parts of a split along an axis, each a view.
fn split<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let ty = builder.tensor_type(tensor(&call.first()?)?)?;
    let default = match call.base {
        "hsplit" => i64::from(ty.rank() > 1),
        "dsplit" => 2,
        _ => 0,
    };
    let dim = axis(int(&call.or("dim", Arg::Int(default)))?, ty.rank())?;
    let names = list_names(call)?;
    let row = match call.base {
        "split" if call.arg("split_size").items().is_some() => "split_with_sizes",
        "split" | "unsafe_split" => "split",
        "split_with_sizes" | "unsafe_split_with_sizes" => "split_with_sizes",
        "chunk" | "unsafe_chunk" => "chunk",
        _ => "",
    };
    // The sizes of the parts, from the row or from the archive.
    let whole = if row.is_empty() { None } else { Some(emit_list(builder, call, row)?) };
    let mut parts = Vec::new();
    let mut start = Dim::new(0);
    for (i, name) in names.into_iter().enumerate() {
        let inferred = whole.and_then(|node| {
            let ty = builder.graph.node(node).ok()?.ty()?.items()?.get(i)?.tensor()?.clone();
            ty.shape.get(dim).cloned()
        });
        let size = match inferred {
            Some(size) => size,
            None => {
                let ty = builder.declared(name)?.filter(|ty| ty.rank() > dim);
                ty.ok_or_else(|| err!(Load, "the type of {name:?} is missing"))?.shape[dim].clone()
            }
        };
        let end = &start + &size;
        let (from, to) = (Arg::dim(start), Arg::dim(end.clone()));
        let node = match whole {
            Some(whole) => builder.call("getitem", [Arg::Leaf(whole), Arg::Int(i as i64)])?,
            None => builder.call("slice", [call.first()?, Arg::Int(dim as i64), from.clone(), to.clone()])?,
        };
        let kind = StepKind::Slice { dim: dim as i64, start: from, end: to, step: Arg::Int(1) };
        parts.push(Out::View(builder.view(&of, kind, node)));
        start = end;
    }
    Ok(Out::Many(parts))
}

fn emit_list<'a>(builder: &mut Builder<'a>, call: &Call<'a>, row: &str) -> Attempt<NodeId> {
    match generic(builder, row, call, &[])? {
        Out::Node(node) => Ok(node),
        _ => Err(err!(Load, "{row} gives no list").into()),
    }
}

fn list_names<'a>(call: &Call<'a>) -> Attempt<Vec<&'a str>> {
    match call.node.outputs.as_slice() {
        [Argument::AsTensors(tensors)] => Ok(tensors.iter().map(|tensor| tensor.name.as_str()).collect()),
        _ => Err(err!(Load, "expected a list of tensors as the output of {}", call.base).into()),
    }
}

fn unbind<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let dim = axis(int(&call.or("dim", Arg::Int(0)))?, rank(builder, call)?)? as i64;
    let names = list_names(call)?;
    let whole = emit_list(builder, call, "unbind")?;
    let mut parts = Vec::new();
    for i in 0..names.len() as i64 {
        let node = builder.call("getitem", [Arg::Leaf(whole), Arg::Int(i)])?;
        parts.push(Out::View(builder.view(&of, StepKind::Select { dim, index: Arg::Int(i) }, node)));
    }
    Ok(Out::Many(parts))
}
