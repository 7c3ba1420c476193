//! Identities that keep every bit of the result.

use fx_core::ops::*;
use fx_core::rewrite::{Match, any_of, capture, exactly, integer, number};
use fx_core::trace::apply_with;
use fx_core::{Arg, DType, GraphModule, Result, Tensor, rules, symbolic_trace};

use crate::ops::concat::cat;
use crate::ops::creation::{new_zeros, zeros};
use crate::ops::pad::pad;
use crate::ops::pointwise::*;
use crate::ops::random::dropout;
use crate::ops::reduce::{amax, amin, linalg_vector_norm, logsumexp, mean, std, sum, var};
use crate::ops::view::*;

rules! {
    /// Identities that keep every bit, but for the payload of NaNs.
    pub static ALGEBRA;

    /// A number negated twice is itself.
    neg_neg: |x: &Tensor| -(-x) => |x: &Tensor| x.clone();
    /// A bit inverted twice is itself.
    not_not: |x: &Tensor| bitwise_not(bitwise_not(x)) => |x: &Tensor| x.clone();
    /// A truth value inverted twice is itself; of numbers it is whether they are zero.
    logical_not_not: |x: &Tensor| logical_not(logical_not(x)) => |x: &Tensor| x.clone();
    /// Not equal is different.
    not_eq: |x: &Tensor, y: &Tensor| logical_not(eq(x, y)) => |x: &Tensor, y: &Tensor| ne(x, y);
    /// Not different is equal.
    not_ne: |x: &Tensor, y: &Tensor| logical_not(ne(x, y)) => |x: &Tensor, y: &Tensor| eq(x, y);
    /// Multiplication by one.
    mul_one: |x: &Tensor| x * exactly(1.0) => |x: &Tensor| x.clone();
    /// Multiplication by minus one.
    mul_minus_one: |x: &Tensor| x * exactly(-1.0) => |x: &Tensor| -x;
    /// Division by one.
    div_one: |x: &Tensor| x / exactly(1.0) => |x: &Tensor| x.clone();
    /// One divided by a number.
    one_div: |x: &Tensor| div(exactly(1.0), x) => |x: &Tensor| reciprocal(x);
    /// Adding zero. To floats only that with a sign: `-0.0 + 0.0` is `0.0`.
    add_zero: |x: &Tensor| x + number("c") => |x: &Tensor| x.clone(),
        when "c is zero, and x is of integers or c is -0.0" |m| is_zero(m, true);
    /// Subtracting zero; from floats only that without a sign.
    sub_zero: |x: &Tensor| x - number("c") => |x: &Tensor| x.clone(),
        when "c is zero, and x is of integers or c is 0.0" |m| is_zero(m, false);
    /// Adding what is negated. An integer zero has no sign, and integers wrap before they are promoted.
    add_neg: |x: &Tensor, y: &Tensor| x + -y => |x: &Tensor, y: &Tensor| x - y,
        when "y is of floats, or of the dtype of x" negates_exactly;
    /// Subtracting what is negated.
    sub_neg: |x: &Tensor, y: &Tensor| x - -y => |x: &Tensor, y: &Tensor| x + y,
        when "y is of floats, or of the dtype of x" negates_exactly;
    /// Numbers added to integers one after the other.
    add_add: |x: &Tensor| (x + integer("a")) + integer("b"), build |m| {
        let sum = m.int("a").zip(m.int("b")).and_then(|(a, b)| a.checked_add(b));
        sum.map(|sum| symbolic_trace(move |x: &Tensor| x + sum)).transpose()
    }, when "x is of integers" |m| m.dtype("x").is_some_and(|dtype| !dtype.is_float());
    /// The first power.
    pow_one: |x: &Tensor| pow(x, exactly(1.0)) => |x: &Tensor| x.clone();
    /// The magnitude has no sign; what has no sign cannot be negated.
    abs_abs: |x: &Tensor| abs(any_of([abs(x), neg(x)])) => |x: &Tensor| abs(x),
        when "x is of a dtype with a sign" |m| m.dtype("x").is_some_and(|dtype| dtype != DType::U8);
    /// What is not negative stays.
    relu_relu: |x: &Tensor| relu(relu(x)) => |x: &Tensor| relu(x);
    /// The greater of a value and itself.
    max_self: |x: &Tensor| any_of([maximum(x, x), minimum(x, x)]) => |x: &Tensor| x.clone();
    /// The bits that a value has in common with itself.
    and_self: |x: &Tensor| any_of([bitwise_and(x, x), bitwise_or(x, x)]) => |x: &Tensor| x.clone();
    /// A choice between a value and itself.
    where_same: |p: &Tensor, x: &Tensor| where_(p, x, x) => |_p: &Tensor, x: &Tensor| x.clone();
    /// Dropout that drops nothing.
    dropout_eval: |x: &Tensor| dropout(x, number("p"), false) => |x: &Tensor| x.clone();
    /// Copies and marks that change nothing in a program of values.
    no_copy: |x: &Tensor| any_of([clone(x), contiguous(x), detach(x), alias(x), positive(x)]) => |x: &Tensor| x.clone();
    /// A conversion to the dtype that it has.
    to_same: |x: &Tensor| capture(to(x, DType::F32), "to") => |x: &Tensor| x.clone(), free "to.dtype";
    /// A conversion by way of a dtype that holds every value.
    to_to: |x: &Tensor| capture(to(capture(to(x, DType::F32), "a"), DType::F32), "b"), build |m| {
        dtype(m, "b.dtype").map(|dtype| symbolic_trace(move |x: &Tensor| to(x, dtype))).transpose()
    }, free "a.dtype", free "b.dtype", when "the first conversion is exact" |m| {
        m.dtype("x").zip(dtype(m, "a.dtype")).is_some_and(|(from, to)| is_exact(from, to))
    };
    /// A shape that it has.
    reshape_same: |x: &Tensor| capture(any_of([
        capture(reshape(x, [0]), "a"), capture(view(x, [0]), "b"), capture(flatten(x, 0, 0), "c"),
    ]), "y") => |x: &Tensor| x.clone(),
        free "a.shape", free "b.shape", free "c.start_dim", free "c.end_dim";
    /// A shape after another.
    reshape_reshape: |x: &Tensor| {
        let inner = any_of([
            capture(reshape(x, [0]), "a"), capture(view(x, [0]), "b"), capture(flatten(x, 0, 0), "c"),
            capture(unsqueeze(x, 0), "d"), capture(squeeze(x, [0]), "e"),
        ]);
        any_of([capture(reshape(&inner, [0]), "r"), capture(view(&inner, [0]), "v")])
    }, build |m| reshaped(m, "r.shape", "v.shape"),
        free "a.shape", free "b.shape", free "c.start_dim", free "c.end_dim", free "d.dim", free "e.dim",
        free "r.shape", free "v.shape";
    /// An axis of size one put in and taken out.
    squeeze_unsqueeze: |x: &Tensor| capture(squeeze(capture(unsqueeze(x, 0), "a"), [0]), "b") => |x: &Tensor| x.clone(),
        free "a.dim", free "b.dim";
    /// An axis put back where it was reduced stays there.
    keep_reduced: |x: &Tensor| {
        let reduced = any_of([
            capture(sum(x, 0, false), "sum"), capture(mean(x, 0, false), "mean"), capture(amax(x, 0, false), "amax"),
            capture(amin(x, 0, false), "amin"), capture(var(x, 0, 1.0, false), "var"), capture(std(x, 0, 1.0, false), "std"),
            capture(logsumexp(x, 0, false), "logsumexp"), capture(linalg_vector_norm(x, 2.0, 0, false), "norm"),
        ]);
        capture(unsqueeze(reduced, 0), "u")
    }, build kept,
        free "u.dim", free "sum.dim", free "mean.dim", free "amax.dim", free "amin.dim", free "var.dim",
        free "var.correction", free "std.dim", free "std.correction", free "logsumexp.dim", free "norm.dim", free "norm.ord";
    /// An expansion to the size that it has.
    expand_same: |x: &Tensor| any_of([capture(expand(x, [0]), "a"), capture(broadcast_to(x, [0]), "b")]) => |x: &Tensor| x.clone(),
        free "a.size", free "b.size";
    /// An expansion of an expansion.
    expand_expand: |x: &Tensor| capture(expand(capture(expand(x, [0]), "a"), [0]), "b"), build expanded,
        free "a.size", free "b.size";
    /// Two axes exchanged twice.
    transpose_transpose: |x: &Tensor| transpose(transpose(x, integer("a"), integer("b")), integer("c"), integer("d"))
        => |x: &Tensor| x.clone(), when "both exchange the same axes" |m| {
            let pair = |a, b| m.axis(a, "x").zip(m.axis(b, "x")).map(|(a, b)| (a.min(b), a.max(b)));
            pair("a", "b").is_some() && pair("a", "b") == pair("c", "d")
        };
    /// An axis exchanged with itself.
    transpose_same: |x: &Tensor| transpose(x, integer("a"), integer("b")) => |x: &Tensor| x.clone(),
        when "both are one axis" |m| m.axis("a", "x").is_some() && m.axis("a", "x") == m.axis("b", "x");
    /// A transposition of a transposition.
    t_t: |x: &Tensor| t(t(x)) => |x: &Tensor| x.clone();
    /// Axes in the order that they have.
    permute_same: |x: &Tensor| capture(permute(x, [0]), "p") => |x: &Tensor| x.clone(), free "p.dims",
        when "the axes are in order" |m| order(m, "p.dims").is_some_and(|axes| axes.iter().enumerate().all(|(i, axis)| i == *axis));
    /// Axes ordered twice.
    permute_permute: |x: &Tensor| capture(permute(capture(permute(x, [0]), "a"), [0]), "b"), build |m| {
        let Some((a, b)) = order(m, "a.dims").zip(order(m, "b.dims")) else { return Ok(None) };
        let axes: Vec<i64> = b.into_iter().map(|axis| a[axis] as i64).collect();
        symbolic_trace(move |x: &Tensor| permute(x, axes.clone())).map(Some)
    }, free "a.dims", free "b.dims";
    /// Two axes exchanged before axes are ordered.
    permute_transpose: |x: &Tensor| capture(permute(transpose(x, integer("i"), integer("j")), [0]), "b"), build |m| {
        let (Some(b), Some(i), Some(j)) = (order(m, "b.dims"), m.axis("i", "x"), m.axis("j", "x")) else { return Ok(None) };
        let axes: Vec<i64> = b.into_iter().map(|k| if k == i { j } else if k == j { i } else { k } as i64).collect();
        symbolic_trace(move |x: &Tensor| permute(x, axes.clone())).map(Some)
    }, free "b.dims";
    /// Axes turned round twice.
    flip_flip: |x: &Tensor| capture(flip(capture(flip(x, [0]), "a"), [0]), "b") => |x: &Tensor| x.clone(),
        free "a.dims", free "b.dims", when "both turn the same axes" |m| {
            m.ints("a.dims").is_some() && m.ints("a.dims") == m.ints("b.dims")
        };
    /// A slice of everything.
    slice_all: |x: &Tensor| capture(slice(x, 0, 0, 0, 1), "s") => |x: &Tensor| x.clone(),
        free "s.dim", free "s.start", free "s.end";
    /// A part of everything.
    narrow_all: |x: &Tensor| capture(narrow(x, 0, 0, 0), "n") => |x: &Tensor| x.clone(),
        free "n.dim", free "n.start", free "n.length";
    /// Borders of no size.
    pad_nothing: |x: &Tensor| capture(pad(x, [0], "constant", ()), "p") => |x: &Tensor| x.clone(),
        free "p.pad", free "p.mode", free "p.value",
        when "nothing is added or taken away" |m| m.ints("p.pad").is_some_and(|pad| pad.iter().all(|&side| side == 0));
    /// Zeros whose dtype is known need no model.
    new_zeros: |x: &Tensor| capture(new_zeros(x, [0]), "n"), build |m| {
        let (Some(sizes), Some(dtype)) = (m.ints("n.size"), dtype(m, "n.dtype").or(m.dtype("x"))) else { return Ok(None) };
        symbolic_trace(move |_x: &Tensor| to(zeros(sizes.clone()), dtype)).map(Some)
    }, free "n.size", free "n.dtype";
    /// One tensor joined with nothing.
    cat_one: |x: &Tensor| cat([x], integer("d")) => |x: &Tensor| x.clone();
    /// A lower triangle of a lower triangle.
    tril_tril: |x: &Tensor| tril(tril(x, integer("k")), integer("k")) => |x: &Tensor| tril(x, integer("k"));
    /// An upper triangle of an upper triangle.
    triu_triu: |x: &Tensor| triu(triu(x, integer("k")), integer("k")) => |x: &Tensor| triu(x, integer("k"));
}

/// Returns whether the sum with `-y` is the difference from `y`.
fn negates_exactly(m: &Match<'_>) -> bool {
    m.is_float("y") || m.dtype("y").is_some() && m.dtype("y") == m.dtype("x")
}

/// Returns whether the number `c` is a zero that leaves `x` as it is when it is added, with the sign that
/// floats need.
fn is_zero(m: &Match<'_>, negative: bool) -> bool {
    m.number("c").is_some_and(|c| c == 0.0 && (!m.is_float("x") || c.is_sign_negative() == negative))
}

fn dtype(m: &Match<'_>, name: &str) -> Option<DType> {
    match m.arg(name)? {
        Arg::DType(dtype) => Some(*dtype),
        _ => None,
    }
}

/// Returns whether every value of a dtype is one of another.
fn is_exact(from: DType, to: DType) -> bool {
    use DType::*;
    from == to
        || match from {
            Bool => true,
            U8 => !matches!(to, Bool | I8),
            I8 => !matches!(to, Bool | U8),
            I32 => matches!(to, I64 | F64),
            F16 | BF16 => matches!(to, F32 | F64),
            F32 => to == F64,
            _ => false,
        }
}

/// Returns the axes of a permutation, counted from the front.
fn order(m: &Match<'_>, name: &str) -> Option<Vec<usize>> {
    let rank = m.rank("x")?;
    let axes = m
        .ints(name)?
        .into_iter()
        .map(|axis| fx_core::ops::axis(axis, rank).ok())
        .collect::<Option<Vec<_>>>()?;
    (axes.len() == rank).then_some(axes)
}

/// A reshape to the known sizes of the result, of which one may be a symbol.
fn reshaped(m: &Match<'_>, a: &str, b: &str) -> Result<Option<GraphModule>> {
    let Some(sizes) = m.ints(a).or_else(|| m.ints(b)) else { return Ok(None) };
    symbolic_trace(move |x: &Tensor| reshape(x, sizes.clone())).map(Some)
}

/// An expansion to the sizes of the second, where `-1` keeps what the first gave.
/// The reduction with the axis that is put back where it was; `None` if it is put elsewhere, or the reduction is
/// used without it, too.
fn kept(m: &Match<'_>) -> Result<Option<GraphModule>> {
    let names = ["sum", "mean", "amax", "amin", "var", "std", "logsumexp", "norm"];
    let found = names.into_iter().find_map(|name| Some((name, m.node(name)?)));
    let Some((node, op)) =
        found.filter(|(name, _)| m.has_one_use(name)).and_then(|(_, node)| Some((node, node.op()?)))
    else {
        return Ok(None);
    };
    let mut args = op.bind(node.args(), node.kwargs())?;
    let mut dim = None;
    for (param, arg) in op.params.iter().zip(&mut args) {
        match (param.name, &*arg) {
            ("dim", Arg::Int(axis)) => dim = Some(*axis),
            ("dim", list) => {
                dim = list.items().and_then(|items| match items {
                    [Arg::Int(axis)] => Some(*axis),
                    _ => None,
                })
            }
            ("keepdim", _) => *arg = Arg::Bool(true),
            _ => {}
        }
    }
    let (Some(dim), Some(put), Some(rank)) = (dim, m.int("u.dim"), m.rank("x")) else { return Ok(None) };
    let at = |axis: i64| fx_core::ops::axis(axis, rank).ok();
    if rank == 0 || at(dim) != at(put) {
        return Ok(None);
    }
    symbolic_trace(move |x: &Tensor| -> Result<Tensor> {
        let args = args.iter().map(|arg| arg.try_flat_map(&mut |_| Ok(Arg::Leaf(x.clone()))));
        let (args, kwargs) = op.spell(&args.collect::<Result<Vec<_>>>()?);
        let kwargs: Vec<(&str, Arg<Tensor>)> =
            kwargs.iter().map(|(name, arg)| (&**name, arg.clone())).collect();
        Ok(apply_with(op, false, args, &kwargs))
    })
    .map(Some)
}

fn expanded(m: &Match<'_>) -> Result<Option<GraphModule>> {
    let (Some(a), Some(b)) = (m.ints("a.size"), m.ints("b.size")) else { return Ok(None) };
    let Some(added) = b.len().checked_sub(a.len()) else { return Ok(None) };
    let size = |(i, size): (usize, &i64)| if *size == -1 && i >= added { a[i - added] } else { *size };
    let sizes: Vec<i64> = b.iter().enumerate().map(size).collect();
    symbolic_trace(move |x: &Tensor| expand(x, sizes.clone())).map(Some)
}
