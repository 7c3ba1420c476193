//! Overloads that write their results to tensors that are given, such as `clamp.out`: the overload without
//! them is called, and its results are written to what they alias.

use super::alias::{Origin, View};
use super::aten::{alias, functional};
use super::build::{Attempt, Builder, Out, shorten};
use super::call::Call;
use super::complex;
use super::schema::Argument;
use crate::{Arg, DType, NodeId, TypeTree, err};

/// The overloads whose names do not end in `out`.
const OVERLOADS: &[&str] = &[
    "out_",
    "out_mode",
    "out_rcond_tensor",
    "out_tol_tensor",
    "OutTensor",
    "OutScalar_Self",
    "OutScalar_Other",
    "grad_input",
    "output",
    "result",
    "inverse",
    "eigvals",
    "eigenvalues",
    "values",
    "values_stable",
    "dim_max",
    "dim_min",
    "dim_values",
    "L",
    "U",
    "X",
    "a",
    "sign",
];

/// What operators call the tensors that they write to, if it is not `out`, or `out0`, `out1`, …
static NAMES: &[(&str, &[&str])] = &[
    ("topk", &["values", "indices"]),
    ("kthvalue", &["values", "indices"]),
    ("mode", &["values", "indices"]),
    ("sort", &["values", "indices"]),
    ("median.dim_values", &["values", "indices"]),
    ("nanmedian.dim_values", &["values", "indices"]),
    ("cummax", &["values", "indices"]),
    ("cummin", &["values", "indices"]),
    ("max.dim_max", &["max", "max_values"]),
    ("min.dim_min", &["min", "min_indices"]),
    ("aminmax", &["min", "max"]),
    ("adaptive_max_pool2d", &["out", "indices"]),
    ("adaptive_max_pool3d", &["out", "indices"]),
    ("max_pool2d_with_indices", &["out", "indices"]),
    ("max_pool3d_with_indices", &["out", "indices"]),
    ("fractional_max_pool2d", &["output", "indices"]),
    ("fractional_max_pool3d", &["output", "indices"]),
    ("nll_loss_forward", &["output", "total_weight"]),
    ("nll_loss2d_forward", &["output", "total_weight"]),
    ("multilabel_margin_loss_forward", &["output", "is_target"]),
    ("log_sigmoid_forward", &["output", "buffer"]),
    ("slow_conv3d_forward", &["output"]),
    ("_slow_conv2d_forward", &["output"]),
    ("slogdet", &["sign", "logabsdet"]),
    ("linalg_slogdet", &["sign", "logabsdet"]),
    ("_linalg_slogdet", &["sign", "logabsdet", "LU", "pivots"]),
    ("linalg_eigh", &["eigvals", "eigvecs"]),
    ("_linalg_eigh", &["eigenvalues", "eigenvectors"]),
    ("linalg_eig", &["eigenvalues", "eigenvectors"]),
    ("svd", &["U", "S", "V"]),
    ("linalg_svd", &["U", "S", "Vh"]),
    ("_linalg_svd", &["U", "S", "Vh"]),
    ("linalg_polar", &["U", "H"]),
    ("linalg_qr", &["Q", "R"]),
    ("geqrf", &["a", "tau"]),
    ("linalg_lu", &["P", "L", "U"]),
    ("lu_unpack", &["P", "L", "U"]),
    ("linalg_lu_factor", &["LU", "pivots"]),
    ("linalg_lu_factor_ex", &["LU", "pivots", "info"]),
    ("linalg_ldl_factor", &["LD", "pivots"]),
    ("linalg_ldl_factor_ex", &["LD", "pivots", "info"]),
    ("linalg_inv_ex", &["inverse", "info"]),
    ("linalg_cholesky_ex", &["L", "info"]),
    ("linalg_solve_ex", &["result", "info"]),
    ("_linalg_solve_ex", &["result", "LU", "pivots", "info"]),
    ("_linalg_det", &["result", "LU", "pivots"]),
    ("linalg_lstsq", &["solution", "residuals", "rank", "singular_values"]),
    ("triangular_solve", &["X", "M"]),
    ("frexp", &["mantissa", "exponent"]),
    ("histogram", &["hist", "bin_edges"]),
    ("native_batch_norm", &["out", "save_mean", "save_invstd"]),
    ("_native_batch_norm_legit", &["out", "save_mean", "save_invstd"]),
    ("_batch_norm_with_update", &["out", "save_mean", "save_invstd", "reserve"]),
];

/// Overloads that are called otherwise without `out`.
static WITHOUT: &[(&str, &str)] = &[
    ("max.dim_max", "dim"),
    ("min.dim_min", "dim"),
    ("max.unary_out", ""),
    ("min.unary_out", ""),
    ("max.out", "other"),
    ("min.out", "other"),
    ("median.dim_values", "dim"),
    ("nanmedian.dim_values", "dim"),
    ("sort.values_stable", "stable"),
    ("sum.IntList_out", "dim_IntList"),
    ("prod.int_out", "dim_int"),
    ("mean.out", "dim"),
    ("mean.dtype_out", ""),
    ("var.out", "dim"),
    ("std.out", "dim"),
    ("all.out", "dim"),
    ("any.out", "dim"),
    ("all.all_out", ""),
    ("any.all_out", ""),
    ("norm.out", "ScalarOpt_dim"),
    ("norm.dtype_out", "ScalarOpt_dim_dtype"),
    ("frobenius_norm.out", "dim"),
    ("arange.start_out", "start_step"),
    ("range.out", "step"),
    ("bernoulli.float_out", "p"),
    ("div.out_mode", "Tensor_mode"),
    ("divide.out_mode", "Tensor_mode"),
    ("linalg_pinv.out_rcond_tensor", "rcond_tensor"),
    ("linalg_matrix_rank.out_tol_tensor", "tol_tensor"),
];

/// Operators that make a tensor of the dtype of `out`.
const CREATES: &[&str] = &[
    "arange",
    "range",
    "linspace",
    "logspace",
    "full",
    "ones",
    "zeros",
    "empty",
    "eye",
    "rand",
    "randn",
    "randint",
    "randperm",
    "scalar_tensor",
];

/// Reductions that are computed in the dtype of `out`.
const REDUCES: &[&str] = &["sum", "nansum", "prod", "cumsum", "cumprod"];

/// Returns whether an overload writes to tensors that are given.
pub fn is_out(overload: &str) -> bool {
    overload == "out" || overload.ends_with("_out") || OVERLOADS.contains(&overload)
}

/// Returns the name of the overload that gives what one with `out` writes.
pub fn without<'a>(base: &str, overload: &'a str) -> &'a str {
    let full = format!("{base}.{overload}");
    if let Some((_, other)) = WITHOUT.iter().find(|(name, _)| *name == full) {
        return other;
    }
    overload.strip_suffix("_out").unwrap_or_default()
}

/// Returns whether an argument of an operator is a tensor that it writes to.
pub fn is_target(base: &str, overload: &str, name: &str) -> bool {
    let full = format!("{base}.{overload}");
    if let Some((_, names)) = NAMES.iter().find(|(other, _)| *other == full || *other == base) {
        return names.contains(&name);
    }
    if base.ends_with("_backward") || base.ends_with("_backward_data") {
        return matches!(name, "grad_input" | "grad_weight" | "grad_bias" | "out");
    }
    name.strip_prefix("out").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Imports a call of an overload with `out`.
pub(super) fn import<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let target = shorten(&call.node.target);
    let is_target = |name: &str| is_target(call.base, call.overload, name);
    let mut views: Vec<View> = Vec::new();
    for input in call.node.inputs.iter().filter(|input| is_target(&input.name)) {
        match &input.arg {
            Argument::AsTensor(tensor) => views.push(builder.view_named(&tensor.name)?),
            Argument::AsTensors(tensors) => {
                for tensor in tensors {
                    views.push(builder.view_named(&tensor.name)?);
                }
            }
            _ => return Err(err!(Load, "expected tensors as {:?} of {target}", input.name).into()),
        }
    }
    if views.is_empty() {
        return Err(err!(Load, "{target} has no tensor to write to").into());
    }
    let overload = without(call.base, call.overload);
    let mut args: Vec<(&str, Arg)> = call.args.iter().filter(|(name, _)| !is_target(name)).cloned().collect();
    let decides = CREATES.contains(&call.base) || REDUCES.contains(&call.base);
    if decides && args.iter().all(|(name, arg)| *name != "dtype" || matches!(arg, Arg::None)) {
        args.retain(|(name, _)| *name != "dtype");
        args.push(("dtype", Arg::DType(builder.tensor_type(views[0].node)?.dtype)));
    }
    let plain = Call { overload, args, ..*call };
    let made = match complex::import(builder, &plain)? {
        Some(made) => Some(made),
        None => alias(builder, &plain)?,
    };
    let made = match made {
        Some(made) => made,
        None => functional(builder, &plain)?,
    };
    let made = values(builder, made, views.len(), target)?;
    if made.len() < views.len() {
        return Err(err!(
            Load,
            "{target} writes {} tensors, of which fx computes {}",
            views.len(),
            made.len()
        )
        .help("export the model without `out=`")
        .into());
    }
    let written = views.iter().zip(made).map(|(view, new)| write(builder, view, new, target));
    let mut written = written.collect::<Attempt<Vec<Out>>>()?;
    Ok(if written.len() == 1 { written.remove(0) } else { Out::Many(written) })
}

/// Returns the values that an operator gives.
fn values(builder: &mut Builder<'_>, out: Out, n: usize, target: &str) -> Attempt<Vec<NodeId>> {
    Ok(match out {
        Out::Node(node) => {
            let items = builder.graph.node(node)?.ty().and_then(TypeTree::items).map(<[_]>::len);
            match items {
                None => vec![node],
                Some(items) => {
                    let item = |i: usize| builder.call("getitem", [Arg::Leaf(node), Arg::Int(i as i64)]);
                    (0..items.min(n)).map(item).collect::<Attempt<_>>()?
                }
            }
        }
        Out::View(view) => vec![builder.current(&view)?],
        Out::Many(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(values(builder, part, 1, target)?);
            }
            all
        }
        Out::Value(_) | Out::Nothing => return Err(err!(Load, "{target} gives no tensor").into()),
    })
}

/// Writes a value to a tensor, as its dtype. A tensor takes the shape of the value, unless others that it shares
/// its memory with are part of the graph.
fn write(builder: &mut Builder<'_>, view: &View, new: NodeId, target: &str) -> Attempt<Out> {
    let old = builder.current(view)?;
    let (like, ty) = (builder.tensor_type(old)?, builder.tensor_type(new)?);
    let is_kept =
        like.rank() == ty.rank() && like.shape.iter().zip(ty.shape.iter()).all(|(a, b)| !a.same(b).is_no());
    let storage = &builder.storages[view.storage];
    let may_resize = match storage.origin {
        Origin::Local => !storage.is_viewed,
        Origin::Resizable => true,
        Origin::Input | Origin::Fixed(_) | Origin::Buffer(_) => false,
    };
    if !(is_kept || view.is_whole() && may_resize) {
        return Err(err!(Load, "{target} writes {ty} to a tensor of {like}, which others share")
            .help("give `out` the shape of the result, or export the model without `out=`")
            .into());
    }
    if ty.dtype.is_float() && !like.dtype.is_float() || like.dtype == DType::Bool && ty.dtype != DType::Bool {
        return Err(err!(Load, "{target} cannot write {} to {}", ty.dtype, like.dtype).into());
    }
    let new = match ty.dtype == like.dtype {
        true => new,
        false => builder.call("to", [Arg::Leaf(new), Arg::DType(like.dtype)])?,
    };
    builder.write(view, new)?;
    let version = builder.storages[view.storage].version;
    Ok(Out::View(View { node: new, version, ..view.clone() }))
}
