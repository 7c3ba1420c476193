//! The row-wise operations among those of this crate: which calls they are, their bodies, and the tuned kernels
//! that engines run.

use fx_core::math::Real;
use fx_core::row_kernel;
use fx_core::rowwise::{Compute, RowCall, Rows, Rowwise, RowwiseDef};
use fx_core::{Arg, Op, TensorType};

use super::normalization::normalize_row;
use super::reduce::fold::join_rows_alone;
use super::reduce::{self, Spread};
use crate::fusible::{axes_of, reduction};
use crate::kernel::fold::{Number, Sum, SumOfSquares};
use crate::kernel::{call_real, rows};

static SOFTMAX: RowwiseDef = row_kernel! {
    #[tuned = softmax_rows]
    softmax(x) -> out {
        let greatest = row::max(x);
        for (out, x) in out.iter_mut().zip(x) {
            *out = math::exp(*x - greatest);
        }
        let factor = 1.0 / row::sum(out);
        for out in out {
            *out = *out * factor;
        }
    }
};

static SOFTMIN: RowwiseDef = row_kernel! {
    #[tuned = softmin_rows]
    softmin(x) -> out {
        let least = row::min(x);
        for (out, x) in out.iter_mut().zip(x) {
            *out = math::exp(least - *x);
        }
        let factor = 1.0 / row::sum(out);
        for out in out {
            *out = *out * factor;
        }
    }
};

static LOG_SOFTMAX: RowwiseDef = row_kernel! {
    #[tuned = log_softmax_rows]
    log_softmax(x) -> out {
        let greatest = row::max(x);
        let log = math::log(row::sum_of(x, |x| math::exp(x - greatest)));
        for (out, x) in out.iter_mut().zip(x) {
            *out = (*x - greatest) - log;
        }
    }
};

static LAYER_NORM: RowwiseDef = row_kernel! {
    #[tuned = layer_norm_rows]
    layer_norm(x, weight: Option, bias: Option; eps) -> out {
        let n = x.len() as T;
        let mean = row::sum(x) / n;
        let scale = 1.0 / math::sqrt(row::sum_of(x, |x| (x - mean) * (x - mean)) / n + eps);
        for (out, x) in out.iter_mut().zip(x) {
            *out = (*x - mean) * scale;
        }
        if let Some(weight) = weight {
            for (out, weight) in out.iter_mut().zip(weight) {
                *out = *out * *weight;
            }
        }
        if let Some(bias) = bias {
            for (out, bias) in out.iter_mut().zip(bias) {
                *out = *out + *bias;
            }
        }
    }
};

static RMS_NORM: RowwiseDef = row_kernel! {
    #[tuned = rms_norm_rows]
    rms_norm(x, weight: Option; eps) -> out {
        let scale = 1.0 / math::sqrt(row::sum_squares(x) / x.len() as T + eps);
        for (out, x) in out.iter_mut().zip(x) {
            *out = *x * scale;
        }
        if let Some(weight) = weight {
            for (out, weight) in out.iter_mut().zip(weight) {
                *out = *out * *weight;
            }
        }
    }
};

static NORMALIZE: RowwiseDef = row_kernel! {
    #[tuned = normalize_rows]
    normalize(x; p, eps) -> out {
        let norm = if p == 2.0 {
            math::sqrt(row::sum_squares(x))
        } else if p == 1.0 {
            row::sum_of(x, |x| math::abs(x))
        } else if p == 0.0 {
            row::sum_of(x, |x| if x == 0.0 { 0.0 } else { 1.0 })
        } else if p == T::INFINITY {
            math::maximum(row::max_of(x, |x| math::abs(x)), 0.0)
        } else if p == -T::INFINITY {
            row::min_of(x, |x| math::abs(x))
        } else {
            math::pow(row::sum_of(x, |x| math::pow(math::abs(x), p)), 1.0 / p)
        };
        let divisor = if norm < eps { eps } else { norm };
        for (out, x) in out.iter_mut().zip(x) {
            *out = *x / divisor;
        }
    }
};

static SUM: RowwiseDef = row_kernel! {
    #[tuned = sum_rows]
    sum(x) -> T { row::sum(x) }
};

static MEAN: RowwiseDef = row_kernel! {
    #[tuned = mean_rows]
    mean(x) -> T { row::mean(x) }
};

static AMAX: RowwiseDef = row_kernel! {
    #[tuned = amax_rows]
    amax(x) -> T { row::max(x) }
};

static AMIN: RowwiseDef = row_kernel! {
    #[tuned = amin_rows]
    amin(x) -> T { row::min(x) }
};

static LOG_SUM_EXP: RowwiseDef = row_kernel! {
    #[tuned = log_sum_exp_rows]
    logsumexp(x) -> T {
        let greatest = row::max(x);
        if math::abs(greatest) == T::INFINITY {
            greatest
        } else {
            greatest + math::log(row::sum_of(x, |x| math::exp(x - greatest)))
        }
    }
};

static VARIANCE: RowwiseDef = row_kernel! {
    #[tuned = variance_rows]
    variance(x; correction, root) -> T {
        let n = x.len() as f64;
        let mean = row::sum_in_f64(x, |x| x as f64) / n;
        let squares = row::sum_in_f64(x, |x| (x as f64 - mean) * (x as f64 - mean));
        let free = n - correction as f64;
        let variance = squares / if free > 0.0 { free } else { 0.0 };
        (if root == 0.0 { variance } else { math::sqrt(variance) }) as T
    }
};

static VECTOR_NORM: RowwiseDef = row_kernel! {
    #[tuned = vector_norm_rows]
    vector_norm(x) -> T { math::sqrt(row::sum_in_f64(x, |x| x as f64 * x as f64)) as T }
};

fn softmax_rows<T: Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    call_real::<T, rows::softmax_of_rows, _>((rows.x, out, rows.width));
}

fn log_softmax_rows<T: Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    call_real::<T, rows::log_softmax_of_rows, _>((rows.x, out, rows.width));
}

fn layer_norm_rows<T: Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    let affine = [0, 1].map(|i| rows.others.get(i).copied().flatten());
    call_real::<T, rows::layer_norm_of_rows, _>((rows.x, out, rows.width, affine, rows.params[0]));
}

fn rms_norm_rows<T: Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    let weight = rows.others.first().copied().flatten();
    call_real::<T, rows::rms_norm_of_rows, _>((rows.x, out, rows.width, weight, rows.params[0]));
}

fn softmin_rows<T: Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    let width = rows.width.max(1);
    for (x, out) in rows.x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        out.iter_mut().zip(x).for_each(|(out, x)| *out = -*x);
        rows::softmax_row(out, false);
    }
}

fn normalize_rows<T: Compute + Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    out.copy_from_slice(rows.x);
    out.chunks_exact_mut(rows.width.max(1))
        .for_each(|row| normalize_row(row, rows.params[0], rows.params[1]));
}

fn sum_rows<T: Compute + Number>(rows: &Rows<'_, T>, out: &mut [T]) {
    join_rows_alone(Sum::<T>::default(), rows.x, out);
}

fn mean_rows<T: Compute + Number + Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    sum_rows(rows, out);
    let n = T::from_f64(rows.width as f64);
    out.iter_mut().for_each(|x| *x = *x / n);
}

/// Computes the one element of each row.
fn each<T>(rows: &Rows<'_, T>, out: &mut [T], f: impl Fn(&[T]) -> T) {
    out.iter_mut().enumerate().for_each(|(i, out)| *out = f(&rows.x[i * rows.width..][..rows.width]));
}

fn amax_rows<T: Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    each(rows, out, rows::row_greatest);
}

fn amin_rows<T: Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    each(rows, out, rows::row_least);
}

fn log_sum_exp_rows<T: Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    each(rows, out, rows::log_sum_exp);
}

fn variance_rows<T: Compute + Real>(rows: &Rows<'_, T>, out: &mut [T])
where
    f64: From<T>,
{
    Spread { correction: rows.params[0], root: rows.params[1] != 0.0 }.fold_rows(rows.x, out);
}

fn vector_norm_rows<T: Compute + Real>(rows: &Rows<'_, T>, out: &mut [T]) {
    let mut squares = [0.0; 64];
    for (at, out) in out.chunks_mut(squares.len()).enumerate() {
        let squares = &mut squares[..out.len()];
        let x = &rows.x[at * 64 * rows.width..][..out.len() * rows.width];
        join_rows_alone(SumOfSquares::<T>::default(), x, squares);
        out.iter_mut().zip(squares).for_each(|(out, squares)| *out = T::from_f64(squares.sqrt()));
    }
}

/// Returns whether an argument asks for no other dtype than that of `x`.
fn keeps_dtype(arg: &Arg<()>, x: &TensorType) -> bool {
    matches!(arg, Arg::None) || matches!(arg, Arg::DType(dtype) if *dtype == x.dtype)
}

/// Returns a call along one axis of `x`.
fn along(call: RowCall, dim: &Arg<()>, x: &TensorType) -> Option<Rowwise> {
    let Arg::Int(dim) = dim else { return None };
    Some(Rowwise::new(call, [fx_core::ops::axis(*dim, x.rank()).ok()?]))
}

fn softmax_of(def: &'static RowwiseDef, args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    let [_, dim, dtype] = args else { return None };
    keeps_dtype(dtype, x).then(|| along(RowCall::new(def, &[]), dim, x))?
}

pub(crate) fn softmax(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    softmax_of(&SOFTMAX, args, x)
}

pub(crate) fn log_softmax(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    softmax_of(&LOG_SOFTMAX, args, x)
}

pub(crate) fn softmin(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    softmax_of(&SOFTMIN, args, x)
}

pub(crate) fn normalize(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    let [_, p, dim, eps] = args else { return None };
    along(RowCall::new(&NORMALIZE, &[p.scalar()?.to_f64(), eps.scalar()?.to_f64()]), dim, x)
}

/// Returns a call over the last axes of `x`, as many as a shape has.
fn over_last(
    def: &'static RowwiseDef,
    shape: &Arg<()>,
    others: &[&Arg<()>],
    eps: f64,
    x: &TensorType,
) -> Option<Rowwise> {
    let (n, rank) = (shape.items().map_or(1, <[Arg<()>]>::len), x.rank());
    let mut call = RowCall::new(def, &[eps]);
    for (present, arg) in call.present[1..].iter_mut().zip(others) {
        *present = !matches!(arg, Arg::None);
    }
    (1..=rank).contains(&n).then(|| Rowwise::new(call, rank - n..rank))
}

pub(crate) fn layer_norm(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    let [_, shape, weight, bias, eps] = args else { return None };
    over_last(&LAYER_NORM, shape, &[weight, bias], eps.scalar()?.to_f64(), x)
}

pub(crate) fn rms_norm(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    let [_, shape, weight, eps] = args else { return None };
    let eps = if matches!(eps, Arg::None) { x.dtype.epsilon()? } else { eps.scalar()?.to_f64() };
    over_last(&RMS_NORM, shape, &[weight], eps, x)
}

fn reduced(op: Op, def: &'static RowwiseDef, args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    Some(Rowwise::new(RowCall::new(def, &[]), reduction(op, args, x)?.1))
}

pub(crate) fn sum(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    reduced(reduce::sum::OP, &SUM, args, x)
}

pub(crate) fn mean(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    reduced(reduce::mean::OP, &MEAN, args, x)
}

pub(crate) fn amax(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    reduced(reduce::amax::OP, &AMAX, args, x)
}

pub(crate) fn amin(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    reduced(reduce::amin::OP, &AMIN, args, x)
}

pub(crate) fn logsumexp(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    let [_, dim, _] = args else { return None };
    Some(Rowwise::new(RowCall::new(&LOG_SUM_EXP, &[]), axes_of(dim, x.rank())?))
}

pub(crate) fn linalg_vector_norm(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    let [_, ord, dim, _, dtype] = args else { return None };
    let is_euclidean = ord.scalar()?.to_f64() == 2.0 && keeps_dtype(dtype, x);
    is_euclidean.then(|| Some(Rowwise::new(RowCall::new(&VECTOR_NORM, &[]), axes_of(dim, x.rank())?)))?
}

fn spread(op: Op, args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    let Spread { correction, root } = Spread::of(op, args)?;
    let call = RowCall::new(&VARIANCE, &[correction, f64::from(u8::from(root))]);
    Some(Rowwise::new(call, axes_of(&args[1], x.rank())?))
}

pub(crate) fn var(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    spread(reduce::var::OP, args, x)
}

pub(crate) fn std(args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
    spread(reduce::std::OP, args, x)
}
