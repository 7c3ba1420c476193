//! Norms of vectors and matrices, distances, and statistics of pairs: compositions of reductions.

use fx_core::op::Default::{Float, None as Nothing, Str};
use fx_core::op::Flops::{PerInput, Unknown};
use fx_core::op::kind::{self, IntVec};
use fx_core::op::{ParamKind, unknown_type};
use fx_core::{Arg, Array, DType, Dim, Op, Result, TensorType, TypeTree, Value, bail, err, kernels};

use crate::ops::check::float_only;
use crate::ops::compose::{Number, Operand, float, promoted};
use crate::ops::infer::{axis, axis_or_only, known};
use crate::ops::reduce::{amax, amin, linalg_vector_norm, sum};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[NORMS];

kernels! {
    /// Norms of vectors and matrices.
    pub trait Norms; pub static NORMS;

    /// The `p`-norm `(sum |x|^p)^(1/p)` over `dim`, or over all axes; `"fro"` is 2, `"nuc"` the sum of
    /// singular values.
    #[flops = PerInput(2)]
    norm(x: Tensor, p: Any = Str("fro"), dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) =
        |x: &TensorType, p: &TypeTree, dim, keepdim, dtype| norm_of(x, order_type(p)?, dim, keepdim, dtype),
        |x: &Array, p: &Value, dim, keepdim, dtype| norm_of(x, order_value(p)?, dim, keepdim, dtype);
    /// The norm of vectors for one axis in `dim`, of matrices for two; without `ord` the 2-norm of all elements.
    ///
    /// Without `dim` it is that of a vector or matrix `x`. Orders are those of `linalg_vector_norm` and
    /// `linalg_matrix_norm`.
    #[flops = PerInput(2)]
    linalg_norm(x: Tensor, ord: Any = Nothing, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) =
        |x: &TensorType, p: &TypeTree, dim, keepdim, dtype| vector_or_matrix(x, order_type(p)?, dim, keepdim, dtype),
        |x: &Array, p: &Value, dim, keepdim, dtype| vector_or_matrix(x, order_value(p)?, dim, keepdim, dtype);
    /// The norm of the matrices in the two axes `dim`: `"fro"` the root of the sum of squares, `"nuc"` the
    /// sum of singular values, 2 and -2 the greatest and least of them, 1 and -1 the greatest and least sum
    /// of magnitudes of a column, infinity and minus infinity of a row.
    #[flops = Unknown]
    linalg_matrix_norm(x: Tensor, ord: Any = Str("fro"), dim: Ints = &[-2, -1], keepdim: Bool = false;
        dtype: OptDType = None) =
        |x: &TensorType, p: &TypeTree, dim: IntVec, keepdim, dtype| matrix_norm(x, order_type(p)?, &dim, keepdim, dtype),
        |x: &Array, p: &Value, dim: IntVec, keepdim, dtype| matrix_norm(x, order_value(p)?, &dim, keepdim, dtype);
    /// Scales down the parts `x[.., i, ..]` along `dim` whose `p`-norm is above `maxnorm`, to that norm.
    #[flops = PerInput(3)]
    renorm(x: Tensor, p: Number, dim: Int, maxnorm: Number) = bounded, bounded;
    /// The `p`-norm of `x - other`, which broadcast.
    #[flops = PerInput(3)]
    dist(x: Tensor, other: Tensor, p: Number = Float(2.0)) =
        |x: &TensorType, other: &TensorType, p| apart(x, other, p), |x: &Array, other: &Array, p| apart(x, other, p);
    /// The `p`-norm of `x1 - x2 + eps` over the last axis.
    #[flops = PerInput(3)]
    pairwise_distance(x: Tensor, x2: Tensor, p: Float = 2.0, eps: Float = 1e-6, keepdim: Bool = false) = pairs, pairs;
    /// `sum(a * b)` over `dim` for `a = x / max(|x|, eps)` and `b = x2 / max(|x2|, eps)`; operands broadcast.
    #[flops = PerInput(6)]
    cosine_similarity(x: Tensor, x2: Tensor, dim: Int = 1, eps: Float = 1e-8) = cosine, cosine;
    /// The covariances of variables, which are rows, over observations, which are columns: `[v, n]` becomes
    /// `[v, v]`.
    ///
    /// `fweights` says how often each observation was made, `aweights` how much it counts; neither is
    /// negative. It is `w (x - mean) (x - mean).T / (sum(w) - correction sum(w aweights) / sum(w))`. A vector is
    /// one variable, whose variance is of rank 0.
    #[flops = Unknown]
    cov(x: Tensor; correction: Int = 1, fweights: OptTensor = None, aweights: OptTensor = None) = covariance, weighted_covariance;
    /// The covariances divided by standard deviations, within -1 and 1.
    #[flops = Unknown]
    corrcoef(x: Tensor) = correlation, correlation;
}

/// The order of a norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    Unspecified,
    Number(f64),
    Frobenius,
    Nuclear,
}

pub(crate) fn order<L>(arg: &Arg<L>, leaf: impl FnOnce(&Arg<L>) -> Result<f64>) -> Result<Order> {
    match arg {
        Arg::None => Ok(Order::Unspecified),
        Arg::Str(text) if &**text == "fro" => Ok(Order::Frobenius),
        Arg::Str(text) if &**text == "nuc" => Ok(Order::Nuclear),
        Arg::Leaf(_) => leaf(arg).map(Order::Number),
        other => match other.scalar() {
            Some(x) => Ok(Order::Number(x.to_f64())),
            None => bail!(
                Argument,
                "expected \"fro\", \"nuc\" or a number as the order of a norm, got {}",
                other.kind_name()
            ),
        },
    }
}

fn order_type(arg: &TypeTree) -> Result<Order> {
    order(arg, |_| Err(unknown_type()))
}

fn order_value(arg: &Value) -> Result<Order> {
    order(arg, <kind::Float as ParamKind>::value)
}

/// Returns axes as an argument; no axes means all.
fn axes_arg<V>(dim: Option<&[i64]>) -> Arg<V> {
    dim.map_or(Arg::None, |dim| Arg::ints(dim.iter().copied()))
}

fn vector_norm<V: Operand>(
    x: &V,
    p: f64,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<V> {
    let dtype = dtype.map(|dtype| ("dtype", Arg::DType(dtype)));
    x.apply_with(
        linalg_vector_norm::OP,
        &[Arg::Float(p), axes_arg(dim), Arg::Bool(keepdim)],
        dtype.as_slice(),
    )
}

fn norm_of<V: Operand>(
    x: &V,
    p: Order,
    dim: Option<IntVec>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<V> {
    match p {
        Order::Unspecified | Order::Frobenius => vector_norm(x, 2.0, dim.as_deref(), keepdim, dtype),
        Order::Number(p) => vector_norm(x, p, dim.as_deref(), keepdim, dtype),
        Order::Nuclear => {
            let dim = dim.unwrap_or_else(|| (0..x.dims().len() as i64).collect());
            matrix_norm(x, p, &dim, keepdim, dtype)
        }
    }
}

fn vector_or_matrix<V: Operand>(
    x: &V,
    p: Order,
    dim: Option<IntVec>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<V> {
    let rank = x.dims().len();
    if p == Order::Unspecified {
        return vector_norm(x, 2.0, dim.as_deref(), keepdim, dtype);
    }
    let dim = match dim {
        Some(dim) => dim,
        None if rank == 1 || rank == 2 => (0..rank as i64).collect(),
        None => bail!(Shape, "expected a vector or a matrix for an ord without dim, got {}", x.ty()),
    };
    match (&dim[..], p) {
        ([_], Order::Number(p)) => vector_norm(x, p, Some(&dim), keepdim, dtype),
        ([_], _) => bail!(Argument, "expected a number as the order of a norm of vectors"),
        _ => matrix_norm(x, p, &dim, keepdim, dtype),
    }
}

pub(crate) fn matrix_norm<V: Operand>(
    x: &V,
    p: Order,
    dim: &[i64],
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<V> {
    let rank = x.dims().len();
    let &[first, second] = dim else { bail!(Argument, "expected two axes of matrices, got {dim:?}") };
    let (rows, columns) = (axis(first, rank)?, axis(second, rank)?);
    if rows == columns {
        bail!(Axis, "expected two different axes of matrices, got {dim:?}");
    }
    let x = dtype.map_or_else(|| Ok(x.clone()), |dtype| x.to_dtype(dtype))?;
    float_only(x.ty().dtype)?;
    let both = [rows as i64, columns as i64];
    let squeezed = |y: V| match keepdim {
        true => Ok(y),
        false => y.apply(crate::ops::view::squeeze::OP, &[Arg::ints(both)]),
    };
    // The greatest of none is 0, the norm of an empty matrix.
    let extreme = |greatest: bool, n: &Dim| match greatest {
        true if *n == Dim::new(0) => sum::OP,
        true => amax::OP,
        false => amin::OP,
    };
    // The sums of magnitudes along one axis, then the greatest or least along the other.
    let sums = |summed: usize, other: usize, greatest: bool| {
        let sums = x.apply(crate::ops::pointwise::abs::OP, &[])?.sum_over(&[summed], true)?;
        let pick = extreme(greatest, &sums.dims()[other]);
        squeezed(sums.apply(pick, &[Arg::Int(other as i64), Arg::Bool(true)])?)
    };
    let reduce = |op: Op| {
        let others = (0..rank).filter(|&i| i != rows && i != columns);
        let order: Vec<usize> = others.chain([rows, columns]).collect();
        let values = x.reorder(&order)?.apply(crate::ops::linalg_solve::linalg_svdvals::OP, &[])?;
        let n = values.dims().last().cloned().unwrap_or(Dim::new(1));
        let op = if op == amax::OP { extreme(true, &n) } else { op };
        let mut y = values.apply(op, &[Arg::Int(-1)])?;
        if keepdim {
            y = y.insert_axis(rows.min(columns))?.insert_axis(rows.max(columns))?;
        }
        Ok(y)
    };
    match p {
        Order::Frobenius => vector_norm(&x, 2.0, Some(&both), keepdim, None),
        Order::Nuclear => reduce(sum::OP),
        Order::Number(2.0) => reduce(amax::OP),
        Order::Number(-2.0) => reduce(amin::OP),
        Order::Number(p) if p.abs() == 1.0 => sums(rows, columns, p > 0.0),
        Order::Number(p) if p.is_infinite() => sums(columns, rows, p > 0.0),
        _ => Err(err!(Argument, "there is no such norm of matrices")
            .help("orders are \"fro\", \"nuc\", inf, -inf, 1, -1, 2 and -2")),
    }
}

pub(crate) fn bounded<V: Operand>(
    x: &V,
    p: impl Number,
    dim: impl Into<Dim>,
    most: impl Number,
) -> Result<V> {
    let (p, most) = (p.scalar().to_f64(), most.scalar().to_f64());
    float_only(x.ty().dtype)?;
    let rank = x.dims().len();
    if rank < 2 {
        bail!(Shape, "expected an input of rank 2 or more, got {}", x.ty());
    }
    if p.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) || most < 0.0 {
        bail!(Argument, "expected an order above 0 and a maxnorm of at least 0, got {p} and {most}");
    }
    let at = axis(known(&dim.into())?, rank)?;
    let others: Vec<i64> = (0..rank as i64).filter(|&i| i != at as i64).collect();
    let dtype = x.ty().dtype;
    let norm = vector_norm(x, p, Some(&others), true, Some(crate::ops::check::wide(dtype)))?;
    let factor = norm.add(1e-7)?.apply(crate::ops::pointwise::reciprocal::OP, &[])?.mul(most)?;
    let is_above = norm.apply(fx_core::ops::gt::OP, &[Arg::Float(most)])?;
    let scale = V::run(crate::ops::view::where_::OP, &[is_above.arg(), factor.arg(), Arg::Float(1.0)], &[])?;
    x.mul(&scale.to_dtype(dtype)?)
}

fn apart<V: Operand>(x: &V, other: &V, p: impl Number) -> Result<V> {
    vector_norm(&x.sub(other)?, p.scalar().to_f64(), None, false, None)
}

fn pairs<V: Operand>(
    x: &V,
    other: &V,
    p: impl Into<Option<f64>>,
    eps: impl Into<Option<f64>>,
    keepdim: bool,
) -> Result<V> {
    let gap = x.sub(other)?.add(float(eps.into()))?;
    vector_norm(&gap, float(p.into()), Some(&[-1]), keepdim, None)
}

pub(crate) fn cosine<V: Operand>(
    x: &V,
    other: &V,
    dim: impl Into<Dim>,
    eps: impl Into<Option<f64>>,
) -> Result<V> {
    let dtype = promoted(&[x, other]);
    float_only(dtype)?;
    let shape = fx_core::pointwise::broadcast_dims([&x.dims()[..], &other.dims()[..]].into_iter())?;
    let (dim, eps) = (known(&dim.into())?, float(eps.into()));
    axis_or_only(dim, shape.len())?;
    let size = Arg::list(shape.iter().map(|size| Arg::dim(size.clone())));
    let unit = |x: &V| {
        let x = x.to_dtype(dtype)?.apply(crate::ops::view::expand::OP, std::slice::from_ref(&size))?;
        let norm = vector_norm(&x, 2.0, Some(&[dim]), true, None)?;
        x.div(&norm.apply(crate::ops::pointwise::clamp_min::OP, &[Arg::Float(eps)])?)
    };
    unit(x)?.mul(&unit(other)?)?.apply(sum::OP, &[Arg::Int(dim)])
}

fn weighted_covariance(
    x: &Array,
    correction: i64,
    fweights: Option<&Array>,
    aweights: Option<&Array>,
) -> Result<Array> {
    for (what, weight) in [("fweights", fweights), ("aweights", aweights)] {
        if let Some(weight) = weight
            && weight.cast(DType::F64).to_vec::<f64>()?.iter().any(|&weight| weight < 0.0)
        {
            bail!(Argument, "expected {what} that are not negative");
        }
    }
    covariance(x, correction, fweights, aweights)
}

pub(crate) fn covariance<V: Operand>(
    x: &V,
    correction: impl Into<Dim>,
    fweights: Option<&V>,
    aweights: Option<&V>,
) -> Result<V> {
    let ty = x.ty();
    if ty.rank() > 2 {
        bail!(Shape, "expected variables [v, n] or one variable [n], got {ty}");
    }
    if ty.dtype == DType::Bool {
        bail!(DType, "expected numbers, got bool");
    }
    let matrix = match ty.rank() {
        0 => x.insert_axis(0)?.insert_axis(0)?,
        1 => x.insert_axis(0)?,
        _ => x.clone(),
    };
    let n = matrix.dims()[1].clone();
    for (what, weight) in [("fweights", fweights), ("aweights", aweights)] {
        if let Some(weight) = weight {
            crate::ops::check::same_shape(what, std::slice::from_ref(&n), &weight.dims())?;
        }
    }
    if let Some(weight) = fweights.filter(|weight| !weight.ty().dtype.is_int()) {
        bail!(DType, "expected fweights of integers, got {}", weight.ty());
    }
    if let Some(weight) = aweights {
        float_only(weight.ty().dtype)?;
    }
    let weights = match (fweights, aweights) {
        (None, None) => None,
        (Some(w), None) | (None, Some(w)) => Some(w.clone()),
        (Some(f), Some(a)) => Some(f.mul(a)?),
    };
    let own = if ty.dtype.is_float() { ty.dtype } else { DType::F32 };
    let dtype = aweights.map_or(own, |weight| own.promote(weight.ty().dtype));
    let matrix = matrix.to_dtype(dtype)?;
    let total = |w: &V| w.to_dtype(dtype)?.apply(sum::OP, &[]);
    // What the weighted sums are divided by, without and with the correction.
    let (weighted, size) = match &weights {
        Some(w) => (matrix.mul(&w.to_dtype(dtype)?)?, total(w)?),
        None => {
            // The number of observations, as a tensor.
            let ones = V::run(
                crate::ops::creation::ones::OP,
                &[Arg::list([Arg::dim(n.clone())])],
                &[("dtype", Arg::DType(dtype))],
            )?;
            let count = ones.apply(sum::OP, &[])?;
            (matrix.clone(), count)
        }
    };
    let mean = weighted.sum_over(&[1], true)?.div(&size)?;
    let correction = correction.into().known().unwrap_or(1) as f64;
    let share = match (&weights, aweights) {
        (Some(w), Some(a)) if correction != 0.0 => total(&w.mul(a)?)?.div(&size)?.mul(correction)?,
        _ => size.mul(0.0)?.add(correction)?,
    };
    let divisor = size.sub(&share)?.apply(crate::ops::pointwise::clamp_min::OP, &[Arg::Float(0.0)])?;
    let centred = matrix.sub(&mean)?;
    let right = match &weights {
        Some(w) => centred.mul(&w.to_dtype(dtype)?)?,
        None => centred.clone(),
    };
    let out = centred.matmul(&right.reorder(&[1, 0])?)?.div(&divisor)?;
    out.apply(crate::ops::view::squeeze::OP, &[])
}

pub(crate) fn correlation<V: Operand>(x: &V) -> Result<V> {
    let c = covariance(x, 1, None, None)?;
    if c.dims().is_empty() {
        return c.div(&c);
    }
    let deviation =
        c.apply(crate::ops::view::diagonal::OP, &[])?.apply(crate::ops::pointwise::sqrt::OP, &[])?;
    let rows = c.div(&deviation.insert_axis(1)?)?;
    let out = rows.div(&deviation.insert_axis(0)?)?;
    out.apply(crate::ops::pointwise::clamp::OP, &[Arg::Float(-1.0), Arg::Float(1.0)])
}
