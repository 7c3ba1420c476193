//! Linear algebra: operators of which a row takes the arguments in another form, or that are several rows.

use super::build::{Attempt, Builder, Out};
use super::call::{Call, generic, ints, leaf, named, node, with, without};
use crate::{Arg, DType, Dim, NodeId, err};

pub(super) fn norm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (p, ord) = (call.arg("p"), call.arg("ord"));
    let p = match (p, ord) {
        (Arg::None, Arg::None) => Arg::Float(2.0),
        (Arg::None, ord) => ord,
        (p, _) => p,
    };
    let is_matrix =
        call.base == "linalg_norm" && matches!(call.get("ord"), Some(arg) if !matches!(arg, Arg::None));
    let mut args = vec![("x", call.first()?)];
    if let Arg::Str(_) = p {
        args.extend([
            ("ord", p),
            ("dim", call.arg("dim")),
            ("keepdim", call.or("keepdim", Arg::Bool(false))),
        ]);
        return named(builder, "linalg_matrix_norm", args).map(Out::Node);
    }
    let rank = builder.tensor_type(node(&call.first()?)?)?.rank();
    let n_axes = ints(&call.arg("dim")).map_or(rank, |dims| dims.len());
    args.extend([("ord", p), ("dim", call.arg("dim")), ("keepdim", call.or("keepdim", Arg::Bool(false)))]);
    args.push(("dtype", call.arg("dtype")));
    let row = if is_matrix && n_axes == 2 { "linalg_matrix_norm" } else { "linalg_vector_norm" };
    named(builder, row, args).map(Out::Node)
}

/// Factorisations that also give what a backward pass or a check needs: the result, and that there was no
/// error, for an error is one of the call.
pub(super) fn first_only<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let row = match call.base {
        "_linalg_det" => "linalg_det",
        "linalg_inv_ex" => "linalg_inv",
        "linalg_cholesky_ex" => "linalg_cholesky",
        _ => "linalg_solve",
    };
    let left_out = [("check_errors", ""), ("left", "left")];
    let Out::Node(result) = generic(builder, row, call, &left_out)? else { return Ok(Out::Nothing) };
    let mut outs = vec![Out::Node(result)];
    match call.base {
        "_linalg_det" => {}
        // Factors and pivots are not computed.
        "_linalg_solve_ex" => outs.extend([Out::Nothing, Out::Nothing, no_error(builder, call)?]),
        _ => outs.push(no_error(builder, call)?),
    }
    Ok(Out::Many(outs))
}

/// `tensordot(self, other, dims_self, dims_other)`, whose row takes both lists as one argument.
pub(super) fn tensordot<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let dims = Arg::list([call.need("dims_self")?, call.need("dims_other")?]);
    builder.call("tensordot", [call.first()?, call.need("other")?, dims]).map(Out::Node)
}

/// The sign and the logarithm of a determinant, and what is saved beside them.
pub(super) fn slogdet<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let [sign, log] = sign_and_log(builder, call)?;
    Ok(Out::Many(vec![Out::Node(sign), Out::Node(log)]))
}

fn sign_and_log<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<[NodeId; 2]> {
    let both = builder.call("linalg_slogdet", [call.first()?])?;
    Ok([
        builder.call("getitem", [leaf(both), Arg::Int(0)])?,
        builder.call("getitem", [leaf(both), Arg::Int(1)])?,
    ])
}

pub(super) fn logdet<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let [sign, log] = sign_and_log(builder, call)?;
    let negative = builder.call("lt", [leaf(sign), Arg::Int(0)])?;
    builder.call("masked_fill", [leaf(log), leaf(negative), Arg::Float(f64::NAN)]).map(Out::Node)
}

/// Solutions of `A x = b` where `A = L L.t()`, for `(b, L, upper)` or, as the inverse of `A`, for `(L, upper)`.
pub(super) fn cholesky_solve<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (factor, b) = match call.get("input2") {
        Some(factor) => (factor.clone(), Some(call.first()?)),
        None => (call.first()?, None),
    };
    let factor = triangle(builder, factor, call.is_true("upper"), false)?;
    let flipped = builder.call("transpose", [leaf(factor), Arg::Int(-2), Arg::Int(-1)])?;
    let product = match call.is_true("upper") {
        true => builder.call("matmul", [leaf(flipped), leaf(factor)])?,
        false => builder.call("matmul", [leaf(factor), leaf(flipped)])?,
    };
    match b {
        Some(b) => builder.call("linalg_solve", [leaf(product), b]),
        None => builder.call("linalg_inv", [leaf(product)]),
    }
    .map(Out::Node)
}

/// A triangle of a matrix, with ones on the diagonal if `unit`.
fn triangle<'a>(builder: &mut Builder<'a>, matrix: Arg, upper: bool, unit: bool) -> Attempt<NodeId> {
    let (row, first) = if upper { ("triu", 1) } else { ("tril", -1) };
    let ty = builder.tensor_type(node(&matrix)?)?;
    if !unit {
        return builder.call(row, [matrix]);
    }
    let Some(n) = ty.shape.last().cloned() else {
        return Err(err!(Load, "expected a matrix, got {ty}").into());
    };
    let inner = builder.call(row, [matrix, Arg::Int(first)])?;
    let ones = with(builder, "eye", [Arg::dim(n)], &[("dtype", Arg::DType(ty.dtype))])?;
    builder.call("add", [leaf(inner), leaf(ones)])
}

/// `linalg_solve_triangular(A, b, upper, left, unitriangular)`.
pub(super) fn solve_triangular<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let matrix = triangle(builder, call.first()?, call.is_true("upper"), call.is_true("unitriangular"))?;
    let left = call.or("left", Arg::Bool(true));
    with(builder, "linalg_solve", [leaf(matrix), call.need("B")?], &[("left", left)]).map(Out::Node)
}

/// `triangular_solve(b, A, upper, transpose, unitriangular)`: the solution and `A`.
pub(super) fn triangular_solve<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (b, a) = (call.first()?, call.need("A")?);
    let upper = !matches!(call.get("upper"), Some(Arg::Bool(false)));
    let mut matrix = triangle(builder, a.clone(), upper, call.is_true("unitriangular"))?;
    if call.is_true("transpose") {
        matrix = builder.call("transpose", [leaf(matrix), Arg::Int(-2), Arg::Int(-1)])?;
    }
    let out = builder.call("linalg_solve", [leaf(matrix), b])?;
    let copy = builder.call("clone", [a])?;
    Ok(Out::Many(vec![Out::Node(out), Out::Node(copy)]))
}

/// `linalg_cross`, along the last axis unless told otherwise.
pub(super) fn cross<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let args = [call.first()?, call.need("other")?];
    with(builder, "cross", args, &[("dim", call.or("dim", Arg::Int(-1)))]).map(Out::Node)
}

/// `vander(x, N, increasing)`: the greatest power first, unless increasing. There may be one power, or none.
pub(super) fn vander<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let size = builder.tensor_type(node(&call.first()?)?)?.shape.first().and_then(Dim::known);
    let n = match call.arg("N") {
        Arg::Int(n) => Some(n),
        _ => size,
    };
    // The row has at least two powers.
    let powers = match n {
        Some(n @ 0..=1) => {
            let two = with(builder, "linalg_vander", [call.first()?], &[("N", Arg::Int(2))])?;
            builder.call("narrow", [leaf(two), Arg::Int(-1), Arg::Int(0), Arg::Int(n)])?
        }
        _ => with(builder, "linalg_vander", [call.first()?], &[("N", call.arg("N"))])?,
    };
    if call.is_true("increasing") {
        return Ok(Out::Node(powers));
    }
    builder.call("flip", [leaf(powers), Arg::ints([-1])]).map(Out::Node)
}

/// The sum of products along an axis.
pub(super) fn vecdot<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let product = builder.call("mul", [call.first()?, call.need("y")?])?;
    with(builder, "sum", [leaf(product)], &[("dim", call.or("dim", Arg::Int(-1)))]).map(Out::Node)
}

/// `frobenius_norm(x, dim, keepdim)` and `nuclear_norm`.
pub(super) fn matrix_norm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let mut args = without(call, &[]);
    if call.base == "frobenius_norm" {
        args.push(("ord", Arg::Float(2.0)));
        return named(builder, "linalg_vector_norm", args).map(Out::Node);
    }
    args.push(("ord", Arg::str("nuc")));
    named(builder, "linalg_matrix_norm", args).map(Out::Node)
}

/// Returns the output that says where the factorisation of each matrix failed: nowhere.
fn no_error<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let ty = builder.tensor_type(node(&call.first()?)?)?;
    let batch = &ty.shape[..ty.rank().saturating_sub(2)];
    let sizes = Arg::list(batch.iter().map(|size| Arg::dim(size.clone())));
    let kwargs = [("dtype", Arg::DType(DType::I32))];
    with(builder, "full", [sizes, Arg::Int(0)], &kwargs).map(Out::Node)
}

/// Returns the parts of a row's result.
fn parts_of<'a, const N: usize>(builder: &mut Builder<'a>, whole: NodeId) -> Attempt<[NodeId; N]> {
    let mut parts = [whole; N];
    for (i, part) in parts.iter_mut().enumerate() {
        *part = builder.call("getitem", [leaf(whole), Arg::Int(i as i64)])?;
    }
    Ok(parts)
}

/// `linalg_lu_factor_ex`: factors, pivots, and that there was no error.
pub(super) fn lu_factor<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let pivot = call.or("pivot", Arg::Bool(true));
    let whole = with(builder, "linalg_lu_factor", [call.first()?], &[("pivot", pivot)])?;
    let [factors, pivots] = parts_of(builder, whole)?;
    Ok(Out::Many(vec![Out::Node(factors), Out::Node(pivots), no_error(builder, call)?]))
}

/// `lu_solve(b, LU, pivots)`.
pub(super) fn lu_solve<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let args = [call.need("LU_data")?, call.need("LU_pivots")?, call.first()?];
    builder.call("linalg_lu_solve", args).map(Out::Node)
}

/// `linalg_svd`, `_linalg_svd` and `svd`, whose last part is the transpose.
pub(super) fn svd<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let full = match call.base {
        "svd" => matches!(call.get("some"), Some(Arg::Bool(false))),
        "_linalg_svd" => call.is_true("full_matrices"),
        _ => !matches!(call.get("full_matrices"), Some(Arg::Bool(false))),
    };
    if matches!(call.get("compute_uv"), Some(Arg::Bool(false))) {
        let values = builder.call("linalg_svdvals", [call.first()?])?;
        if call.base == "svd" {
            return Err(err!(Load, "svd without vectors is not supported")
                .help("call `torch.linalg.svdvals`")
                .into());
        }
        let dtype = Arg::DType(builder.tensor_type(values)?.dtype);
        let empty =
            |builder: &mut Builder<'a>| with(builder, "empty", [Arg::ints([0])], &[("dtype", dtype.clone())]);
        let (u, v) = (empty(builder)?, empty(builder)?);
        return Ok(Out::Many(vec![Out::Node(u), Out::Node(values), Out::Node(v)]));
    }
    let whole = builder.call("linalg_svd", [call.first()?, Arg::Bool(full)])?;
    let [u, values, mut v] = parts_of(builder, whole)?;
    if call.base == "svd" {
        v = builder.call("transpose", [leaf(v), Arg::Int(-2), Arg::Int(-1)])?;
    }
    Ok(Out::Many(vec![Out::Node(u), Out::Node(values), Out::Node(v)]))
}

/// `_linalg_eigh(A, UPLO, compute_v)`.
pub(super) fn eigh<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let args = [call.first()?, call.or("UPLO", Arg::str("L"))];
    if matches!(call.get("compute_v"), Some(Arg::Bool(false))) {
        let values = builder.call("linalg_eigvalsh", args)?;
        let dtype = Arg::DType(builder.tensor_type(values)?.dtype);
        let empty = with(builder, "empty", [Arg::ints([0])], &[("dtype", dtype)])?;
        return Ok(Out::Many(vec![Out::Node(values), Out::Node(empty)]));
    }
    builder.call("linalg_eigh", args).map(Out::Node)
}

/// `linalg_pinv`, `pinverse` and `linalg_matrix_rank`, whose tolerances have several names.
pub(super) fn by_tolerance<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (row, other) = match call.base {
        "linalg_matrix_rank" => ("linalg_matrix_rank", [("tol", "atol"), ("rcond", "rtol")]),
        _ => ("linalg_pinv", [("rcond", "rtol"), ("tol", "atol")]),
    };
    let mut kwargs = Vec::new();
    for (name, arg) in &call.args[1..] {
        let name = other.iter().find(|(from, _)| from == name).map_or(*name, |(_, to)| *to);
        if !matches!(arg, Arg::None) {
            kwargs.push((name, arg.clone()));
        }
    }
    if call.base == "pinverse" && kwargs.is_empty() {
        kwargs.push(("rtol", Arg::Float(1e-15)));
    }
    with(builder, row, [call.first()?], &kwargs).map(Out::Node)
}

/// `linalg_cond(x, p)`: a norm times that of the inverse; of singular values their ratio.
pub(super) fn condition<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, p) = (call.first()?, call.arg("p"));
    let two = |p: &Arg| match p {
        Arg::None => Some(2.0),
        Arg::Int(n) if n.abs() == 2 => Some(*n as f64),
        Arg::Float(x) if x.abs() == 2.0 => Some(*x),
        _ => None,
    };
    if let Some(p) = two(&p) {
        let values = builder.call("linalg_svdvals", [x])?;
        let greatest = builder.call("select", [leaf(values), Arg::Int(-1), Arg::Int(0)])?;
        let least = builder.call("select", [leaf(values), Arg::Int(-1), Arg::Int(-1)])?;
        let (a, b) = if p > 0.0 { (greatest, least) } else { (least, greatest) };
        return builder.call("div", [leaf(a), leaf(b)]).map(Out::Node);
    }
    let inverse = builder.call("linalg_inv", [x.clone()])?;
    let norm = |builder: &mut Builder<'a>, x: Arg| {
        named(builder, "linalg_matrix_norm", vec![("x", x), ("ord", p.clone())])
    };
    let (a, b) = (norm(builder, x)?, norm(builder, leaf(inverse))?);
    builder.call("mul", [leaf(a), leaf(b)]).map(Out::Node)
}

/// The solution of `linalg_lstsq` by the pseudo-inverse, and what the driver gives: squares of residuals of tall
/// matrices, which have full rank, but for `gelsy`; ranks, but for `gels`; singular values of `gelsd` and `gelss`.
pub(super) fn least_squares<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, b) = (call.first()?, call.need("b")?);
    let rcond = match call.arg("rcond") {
        Arg::None => Vec::new(),
        rcond => vec![("rtol", rcond)],
    };
    let ty = builder.tensor_type(node(&x)?)?;
    // A vector for each matrix is a matrix of one column.
    let is_vector = builder.tensor_type(node(&b)?)?.rank() + 1 == ty.rank();
    let b = if is_vector { leaf(builder.call("unsqueeze", [b, Arg::Int(-1)])?) } else { b };
    let inverse = with(builder, "linalg_pinv", [x.clone()], &rcond)?;
    let solution = builder.call("matmul", [leaf(inverse), b.clone()])?;
    let [.., m, n] = &ty.shape[..] else { return Err(err!(Load, "expected a matrix, got {ty}").into()) };
    let empty = |builder: &mut Builder<'a>, dtype: DType| {
        with(builder, "empty", [Arg::ints([0])], &[("dtype", Arg::DType(dtype))]).map(Out::Node)
    };
    let driver = match call.arg("driver") {
        Arg::Str(driver) => driver.to_string(),
        _ => "gelsy".to_owned(),
    };
    let residuals = match (m.known(), n.known()) {
        _ if driver == "gelsy" => empty(builder, ty.dtype)?,
        (Some(m), Some(n)) if m > n => {
            let product = builder.call("matmul", [x.clone(), leaf(solution)])?;
            let apart = builder.call("sub", [leaf(product), b])?;
            let squares = builder.call("mul", [leaf(apart), leaf(apart)])?;
            Out::Node(builder.call("sum", [leaf(squares), Arg::Int(-2)])?)
        }
        (Some(_), Some(_)) => empty(builder, ty.dtype)?,
        _ => Out::Nothing,
    };
    let rank = match &*driver {
        "gels" => empty(builder, DType::I64)?,
        _ => Out::Node(with(builder, "linalg_matrix_rank", [x.clone()], &rcond)?),
    };
    let values = match &*driver {
        "gelsd" | "gelss" => Out::Node(builder.call("linalg_svdvals", [x])?),
        _ => empty(builder, ty.dtype)?,
    };
    let solution =
        if is_vector { builder.call("squeeze", [leaf(solution), Arg::Int(-1)])? } else { solution };
    Ok(Out::Many(vec![Out::Node(solution), residuals, rank, values]))
}

/// `linalg_tensorinv(x, ind)` and `linalg_tensorsolve(x, other)`: as those of a matrix.
pub(super) fn tensor_inverse<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let ty = builder.tensor_type(node(&x)?)?;
    let sizes = |dims: &[Dim]| dims.iter().cloned().map(Arg::dim).collect::<Vec<_>>();
    let numel = |dims: &[Dim]| dims.iter().fold(Dim::new(1), |product, dim| product * dim.clone());
    if call.base == "linalg_tensorinv" {
        let at = match call.or("ind", Arg::Int(2)) {
            Arg::Int(n) if n > 0 && (n as usize) < ty.rank() => n as usize,
            _ => return Err(err!(Load, "expected ind inside the {} axes", ty.rank()).into()),
        };
        let (rows, columns) = ty.shape.split_at(at);
        let matrix = [numel(rows), numel(columns)].map(Arg::dim);
        let matrix = builder.call("reshape", [x, Arg::list(matrix)])?;
        let inverse = builder.call("linalg_inv", [leaf(matrix)])?;
        let shape = [sizes(columns), sizes(rows)].concat();
        return builder.call("reshape", [leaf(inverse), Arg::list(shape)]).map(Out::Node);
    }
    if call.get("dims").is_some_and(|dims| !matches!(dims, Arg::None)) {
        return Err(err!(Load, "linalg_tensorsolve with dims is not supported")
            .help("permute before")
            .into());
    }
    let other = call.need("other")?;
    let rank = builder.tensor_type(node(&other)?)?.rank();
    let Some((rows, columns)) = ty.shape.split_at_checked(rank) else {
        return Err(err!(Load, "expected at least {rank} axes, got {ty}").into());
    };
    let matrix = [numel(rows), numel(columns)].map(Arg::dim);
    let matrix = builder.call("reshape", [x, Arg::list(matrix)])?;
    let vector = builder.call("reshape", [other, Arg::ints([-1])])?;
    let solution = builder.call("linalg_solve", [leaf(matrix), leaf(vector)])?;
    builder.call("reshape", [leaf(solution), Arg::list(sizes(columns))]).map(Out::Node)
}
