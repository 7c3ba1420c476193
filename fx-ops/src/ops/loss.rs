//! Losses: how far predictions are from targets.
//!
//! `reduction` is `"mean"`, `"sum"` or `"none"`. Half precision is computed in `f32`.

use fx_core::array::{BLOCK, checked_numel};
use fx_core::math::{self, Real};
use fx_core::op::Flops::PerInput;
use fx_core::{Arg, Array, DType, Dim, Element, Op, Result, Shape, TensorType, bail, kernels};
use fx_simd::{Work, widest};

use crate::kernel::chunks::{fill, fill_rows};
use crate::kernel::rows;
use crate::ops::check::{
    dense, float_only, in_float, opt_dense, opt_slice, opt_type_of, same_dtype, same_shape, same_size, slice,
    type_of, wide, zeroed,
};
use crate::ops::compose::{Operand, float};
use crate::ops::embedding::integers_only;
use crate::ops::normalization::log_softmax_kernel;
use crate::ops::pointwise::{clamp_min, exp, log, log1p, xlogy};
use crate::ops::reduce::{mean, sum};
use crate::ops::view::where_;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[LOSSES];

kernels! {
    /// Losses.
    pub trait Losses; pub static LOSSES;

    /// The mean, or with `reduction` `"sum"` or `"none"` the sum or each, of `(x - target)^2`, times `weight`.
    ///
    /// `weight` is of the shape of `x`; the mean is over the sum of the weights.
    #[flops = PerInput(3)]
    mse_loss(x: Tensor, target: Tensor; reduction: Str = "mean", weight: OptTensor = None) = weighted_type, mse_kernel;
    /// The mean, sum or each of `|x - target|`, times `weight`, as in `mse_loss`.
    #[flops = PerInput(3)]
    l1_loss(x: Tensor, target: Tensor; reduction: Str = "mean", weight: OptTensor = None) = weighted_type, l1_kernel;
    /// The mean, sum or each of `-(target log(x) + (1 - target) log(1 - x))`, logarithms at least -100, times
    /// `weight`.
    #[flops = PerInput(5)]
    binary_cross_entropy(x: Tensor, target: Tensor, weight: OptTensor = None; reduction: Str = "mean")
        = bce_type, bce_kernel;
    /// `binary_cross_entropy` of `sigmoid(x)`; `pos_weight` multiplies the first term.
    #[flops = PerInput(5)]
    binary_cross_entropy_with_logits(x: Tensor, target: Tensor, weight: OptTensor = None; reduction: Str = "mean",
        pos_weight: OptTensor = None) = bce_logits_type, bce_logits_kernel;
    /// `-x[target]` of logarithms `[n, c, ..]` and classes `[n, ..]`, or `[c]` and `[]`, each times
    /// `weight[class]`.
    ///
    /// The mean is over the sum of the weights; targets `ignore_index` do not count.
    nll_loss(x: Tensor, target: Tensor, weight: OptTensor = None; ignore_index: Int = -100, reduction: Str = "mean")
        = nll_type, nll_kernel;
    /// `nll_loss` of `log_softmax(x)`; or, for targets of floats like `x`, `-sum(target * log_softmax(x))`.
    ///
    /// `label_smoothing` gives that much of each target to all classes alike.
    #[flops = PerInput(5)]
    cross_entropy(x: Tensor, target: Tensor, weight: OptTensor = None; ignore_index: Int = -100, reduction: Str = "mean",
        label_smoothing: Float = 0.0) = cross_entropy_type, cross_entropy_kernel;
    /// The mean, sum or each of `(x - target)^2 / 2` where `|x - target| < delta`, of
    /// `delta (|x - target| - delta / 2)` elsewhere, times `weight`.
    #[flops = PerInput(3)]
    huber_loss(x: Tensor, target: Tensor, reduction: Str = "mean", delta: Float = 1.0, weight: OptTensor = None)
        = huber_type, huber_kernel;
    /// The mean, sum or each of `(x - target)^2 / (2 beta)` where `|x - target| < beta`, of
    /// `|x - target| - beta / 2` elsewhere.
    #[flops = PerInput(3)]
    smooth_l1_loss(x: Tensor, target: Tensor; reduction: Str = "mean", beta: Float = 1.0) = smooth_type, smooth_kernel;
    /// `target (log(target) - x)` for logarithms `x`, or with `log_target` `exp(target) (target - x)`.
    ///
    /// The reduction may also be `"batchmean"`, the sum divided by the first size.
    #[flops = PerInput(3)]
    kl_div(x: Tensor, target: Tensor; reduction: Str = "mean", log_target: Bool = false) = divergence, divergence;
    /// The mean, sum or each of `log(1 + exp(-target x))` for targets 1 and -1.
    #[flops = PerInput(3)]
    soft_margin_loss(x: Tensor, target: Tensor; reduction: Str = "mean") = soft_margin, soft_margin;
    /// The mean, sum or each of `x` where `target` is 1 and `max(margin - x, 0)` where it is -1.
    #[flops = PerInput(3)]
    hinge_embedding_loss(x: Tensor, target: Tensor; margin: Float = 1.0, reduction: Str = "mean") = hinge, hinge;
    /// The mean, sum or each of `max(-target (x - input2) + margin, 0)`.
    #[flops = PerInput(3)]
    margin_ranking_loss(x: Tensor, input2: Tensor, target: Tensor; margin: Float = 0.0, reduction: Str = "mean")
        = ranking, ranking;
    /// The mean, sum or each of `exp(x) - target x`, or without `log_input` of `x - target log(x + eps)`.
    ///
    /// `full` adds Stirling's `target log(target) - target + log(2 pi target) / 2` where `target > 1`.
    #[flops = PerInput(3)]
    poisson_nll_loss(x: Tensor, target: Tensor; log_input: Bool = true, full: Bool = false, eps: Float = 1e-8,
        reduction: Str = "mean") = poisson, poisson;
    /// The mean, sum or each of `(log(v) + (x - target)^2 / v) / 2` for `v = max(var, eps)`; `full` adds
    /// `log(2 pi) / 2`.
    ///
    /// `var` is of the shape of `x`, or with a last size of 1 or without the last axis.
    #[flops = PerInput(5)]
    gaussian_nll_loss(x: Tensor, target: Tensor, var: Tensor; full: Bool = false, eps: Float = 1e-6,
        reduction: Str = "mean") = gaussian, gaussian;
}

pub(crate) fn check_reduction(reduction: &str) -> Result<()> {
    if !["none", "mean", "sum"].contains(&reduction) {
        bail!(Argument, "expected the reduction \"none\", \"mean\" or \"sum\", got {reduction:?}");
    }
    Ok(())
}

/// Returns the type of a loss that is `each` without a reduction.
pub(crate) fn reduced_type(each: TensorType, reduction: &str) -> Result<TensorType> {
    check_reduction(reduction)?;
    Ok(if reduction == "none" { each } else { TensorType::new(each.dtype, Shape::default()) })
}

/// Reduces losses, computed in `T`, over `count`.
pub(crate) fn reduced<T: Real + Element>(
    each: Vec<T>,
    shape: &[usize],
    reduction: &str,
    count: Option<T>,
) -> Result<Array> {
    if reduction == "none" {
        return Array::from_vec(each, shape);
    }
    let sum = rows::sum(&each, |x| x);
    let count = count.unwrap_or(T::from_f64(each.len() as f64));
    Ok(Array::scalar(if reduction == "mean" { sum / count } else { sum }))
}

fn pair_loss_type(x: &TensorType, target: &TensorType, reduction: &str) -> Result<TensorType> {
    let dtype = x.dtype.promote(target.dtype);
    float_only(dtype)?;
    let shape = fx_core::pointwise::broadcast_dims([&x.shape[..], &target.shape[..]].into_iter())?;
    reduced_type(TensorType::new(dtype, shape), reduction)
}

/// Computes losses block by block and reduces them as [`reduced`] does, in sums of blocks that are added as a
/// tree.
///
/// `each` gets the position of a block and the block.
fn reduced_blocks<T: Real + Element>(
    shape: &[usize],
    reduction: &str,
    each: impl Fn(usize, &mut [T]) + Sync,
) -> Result<Array> {
    let numel = checked_numel(shape)?;
    if reduction == "none" {
        return Array::from_vec(fill(numel, each)?, shape);
    }
    let sums = fill_rows::<T>(numel.div_ceil(BLOCK), 1, BLOCK, |i, out| {
        let mut block = [T::ZERO; BLOCK];
        let block = &mut block[..BLOCK.min(numel - i * BLOCK)];
        each(i * BLOCK, block);
        out[0] = fx_simd::call::<block_sum, _>(block);
    })?;
    reduced(sums, shape, reduction, Some(T::from_f64(numel as f64)))
}

fx_simd::wide! {
    fn block_sum[T: Real](block: &mut [T]) -> T {
        rows::sum(block, |x| x)
    }
}

/// Makes kernels of losses; a third name is the parameter of the loss.
macro_rules! pair_losses {
    ($($name:ident = |$x:ident, $y:ident $(, $p:ident)?| $body:expr;)*) => {$(
        fn $name(x: &Array, target: &Array, reduction: &str $(, $p: f64)?) -> Result<Array> {
            pair_loss_type(&type_of(x), &type_of(target), reduction)?;
            let dtype = x.dtype().promote(target.dtype());
            let shape = fx_core::pointwise::broadcast_shapes([x.shape(), target.shape()].into_iter())?;
            let wide = wide(dtype);
            let (x, y) = (dense(&x.broadcast_to(&shape)?, wide)?, dense(&target.broadcast_to(&shape)?, wide)?);
            in_float!(wide, T => {
                $(let $p = $p as T;)?
                let (x, y) = (slice::<T>(&x), slice::<T>(&y));
                let out = reduced_blocks(&shape, reduction, |at, out: &mut [T]| {
                    let n = out.len();
                    fx_simd::call::<pairs, _>((out, &x[at..at + n], &y[at..at + n], |$x, $y| $body));
                })?;
                Ok(out.cast(dtype))
            })
        }
    )*};
}

fx_simd::wide! {
    /// Fills a block with a function of two others.
    fn pairs[T: Copy, F: Fn(T, T) -> T]((out, x, y, f): (&mut [T], &[T], &[T], F)) {
        out.iter_mut().zip(x).zip(y).for_each(|((out, &x), &y)| *out = f(x, y));
    }
}

pair_losses! {
    squared_each = |x, y| (x - y) * (x - y);
    absolute_each = |x, y| Real::abs(x - y);
    huber_each = |x, y, delta| {
        let gap = Real::abs(x - y);
        if gap <= delta { 0.5 * gap * gap } else { delta * (gap - 0.5 * delta) }
    };
    smooth_each = |x, y, beta| {
        let gap = Real::abs(x - y);
        if gap < beta { 0.5 * gap * gap / beta } else { gap - 0.5 * beta }
    };
}

fn weighted_type(
    x: &TensorType,
    target: &TensorType,
    reduction: &str,
    weight: Option<&TensorType>,
) -> Result<TensorType> {
    let ty = pair_loss_type(x, target, reduction)?;
    let Some(weight) = weight else { return Ok(ty) };
    same_shape("a weight", &x.shape, &weight.shape)?;
    weighted(&pair_loss_type(x, target, "none")?, weight, reduction)
}

fn mse_kernel(x: &Array, target: &Array, reduction: &str, weight: Option<&Array>) -> Result<Array> {
    weighted_type(&type_of(x), &type_of(target), reduction, opt_type_of(weight).as_ref())?;
    match weight {
        None => squared_each(x, target, reduction),
        Some(weight) => weighted(&squared_each(x, target, "none")?, weight, reduction),
    }
}

fn l1_kernel(x: &Array, target: &Array, reduction: &str, weight: Option<&Array>) -> Result<Array> {
    weighted_type(&type_of(x), &type_of(target), reduction, opt_type_of(weight).as_ref())?;
    match weight {
        None => absolute_each(x, target, reduction),
        Some(weight) => weighted(&absolute_each(x, target, "none")?, weight, reduction),
    }
}

/// Reduces losses times weights; the mean is over the sum of the weights.
fn weighted<V: Operand>(each: &V, weight: &V, reduction: &str) -> Result<V> {
    check_reduction(reduction)?;
    let product = each.mul(weight)?;
    let total = |x: &V| x.apply(sum::OP, &[]);
    match reduction {
        "none" => Ok(product),
        "sum" => total(&product),
        _ => total(&product)?.div(&total(weight)?),
    }
}

fn huber_type(
    x: &TensorType,
    target: &TensorType,
    reduction: &str,
    delta: Option<f64>,
    weight: Option<&TensorType>,
) -> Result<TensorType> {
    if delta.is_some_and(|delta| delta.is_nan() || delta <= 0.0) {
        bail!(Argument, "expected a delta above 0, got {}", delta.unwrap_or(0.0));
    }
    let ty = pair_loss_type(x, target, reduction)?;
    let Some(weight) = weight else { return Ok(ty) };
    same_shape("a weight", &x.shape, &weight.shape)?;
    scaled(&pair_loss_type(x, target, "none")?, weight, reduction)
}

fn huber_kernel(
    x: &Array,
    target: &Array,
    reduction: &str,
    delta: f64,
    weight: Option<&Array>,
) -> Result<Array> {
    let weight_ty = opt_type_of(weight);
    huber_type(&type_of(x), &type_of(target), reduction, Some(delta), weight_ty.as_ref())?;
    match weight {
        None => huber_each(x, target, reduction, delta),
        Some(weight) => scaled(&huber_each(x, target, "none", delta)?, weight, reduction),
    }
}

fn smooth_type(
    x: &TensorType,
    target: &TensorType,
    reduction: &str,
    beta: Option<f64>,
) -> Result<TensorType> {
    if beta.is_some_and(|beta| beta.is_nan() || beta < 0.0) {
        bail!(Argument, "expected a beta of at least 0, got {}", beta.unwrap_or(0.0));
    }
    pair_loss_type(x, target, reduction)
}

fn smooth_kernel(x: &Array, target: &Array, reduction: &str, beta: f64) -> Result<Array> {
    smooth_type(&type_of(x), &type_of(target), reduction, Some(beta))?;
    smooth_each(x, target, reduction, beta)
}

fn bce_type(
    x: &TensorType,
    target: &TensorType,
    weight: Option<&TensorType>,
    reduction: &str,
) -> Result<TensorType> {
    float_only(x.dtype)?;
    same_dtype("a target", x.dtype, target.dtype)?;
    same_shape("a target", &x.shape, &target.shape)?;
    if let Some(weight) = weight {
        fits("a weight", &weight.shape, &x.shape)?;
    }
    reduced_type(x.clone(), reduction)
}

/// Refuses a shape that does not broadcast to another.
fn fits(what: &str, from: &[Dim], to: &[Dim]) -> Result<()> {
    let one = Dim::new(1);
    let bad = from.len() > to.len()
        || from
            .iter()
            .rev()
            .zip(to.iter().rev())
            .any(|(from, to)| from.same(&one).is_no() && from.same(to).is_no());
    if bad {
        let show = |dims: &[Dim]| dims.iter().collect::<Shape>();
        bail!(Shape, "expected {what} that broadcasts to {}, got {}", show(to), show(from));
    }
    Ok(())
}

fn bce_kernel(x: &Array, target: &Array, weight: Option<&Array>, reduction: &str) -> Result<Array> {
    bce_type(&type_of(x), &type_of(target), opt_type_of(weight).as_ref(), reduction)?;
    let wide = wide(x.dtype());
    let (dense_x, target) = (dense(x, wide)?, dense(target, wide)?);
    let weight = broadcast_weight(weight, x.shape(), wide)?;
    in_float!(wide, T => {
        let data = slice::<T>(&dense_x);
        if let Some(x) = data.iter().find(|&&x| !(0.0..=1.0).contains(&x)) {
            bail!(Argument, "expected probabilities between 0 and 1, got {x}");
        }
        let mut each = slice::<T>(&target).to_vec();
        fx_simd::call::<entropies, _>((data, &mut each[..]));
        if let Some(weight) = opt_slice::<T>(&weight) {
            each.iter_mut().zip(weight).for_each(|(x, &w)| *x *= w);
        }
        Ok(reduced(each, x.shape(), reduction, None)?.cast(x.dtype()))
    })
}

fn broadcast_weight(weight: Option<&Array>, shape: &[usize], dtype: DType) -> Result<Option<Array>> {
    weight.map(|weight| dense(&weight.broadcast_to(shape)?, dtype)).transpose()
}

fn bce_logits_type(
    x: &TensorType,
    target: &TensorType,
    weight: Option<&TensorType>,
    reduction: &str,
    pos_weight: Option<&TensorType>,
) -> Result<TensorType> {
    if let Some(weight) = pos_weight {
        fits("a pos_weight", &weight.shape, &x.shape)?;
    }
    bce_type(x, target, weight, reduction)
}

fn bce_logits_kernel(
    x: &Array,
    target: &Array,
    weight: Option<&Array>,
    reduction: &str,
    pos_weight: Option<&Array>,
) -> Result<Array> {
    let (weight_ty, pos_ty) = (opt_type_of(weight), opt_type_of(pos_weight));
    bce_logits_type(&type_of(x), &type_of(target), weight_ty.as_ref(), reduction, pos_ty.as_ref())?;
    let wide = wide(x.dtype());
    let (dense_x, target) = (dense(x, wide)?, dense(target, wide)?);
    let (weight, pos) =
        (broadcast_weight(weight, x.shape(), wide)?, broadcast_weight(pos_weight, x.shape(), wide)?);
    in_float!(wide, T => {
        let (pos, weight) = (opt_slice::<T>(&pos), opt_slice::<T>(&weight));
        let (data, target) = (slice::<T>(&dense_x), slice::<T>(&target));
        let out = reduced_blocks(x.shape(), reduction, |at, out: &mut [T]| {
            let n = out.len();
            let y = &target[at..at + n];
            match pos {
                None => out.fill(1.0),
                Some(pos) => {
                    let factor = |pos: T, y: T| 1.0 + (pos - 1.0) * y;
                    fx_simd::call::<pairs, _>((&mut *out, &pos[at..at + n], y, factor));
                }
            }
            widest(Logistic(out, &data[at..at + n], y));
            if let Some(weight) = weight {
                out.iter_mut().zip(&weight[at..]).for_each(|(x, &w)| *x *= w);
            }
        })?;
        Ok(out.cast(x.dtype()))
    })
}

fx_simd::wide! {
    /// Replaces targets by the cross entropies of probabilities.
    fn entropies[T: Real]((x, y): (&[T], &mut [T])) {
        let least = T::from_f64(-100.0);
        for (y, &x) in y.iter_mut().zip(x) {
            let (no, yes) = (math::log1p(-x), math::log(x));
            let no = if no < least { least } else { no };
            let yes = if yes < least { least } else { yes };
            *y = (*y - T::ONE) * no - *y * yes;
        }
    }
}

/// Replaces the factors of `log(sigmoid(x))` in the cross entropies of logits and targets by these.
struct Logistic<'a, T>(&'a mut [T], &'a [T], &'a [T]);

impl<T: Real> Work for Logistic<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for ((out, &x), &y) in self.0.iter_mut().zip(self.1).zip(self.2) {
            // log(sigmoid(x)), without overflow.
            let log = (if x < T::ZERO { x } else { T::ZERO }) - math::log1p(math::exp(-math::abs(x)));
            *out = (T::ONE - y) * x - *out * log;
        }
    }
}

/// Returns the axis of the classes: 0 of `[c]`, else 1.
fn class_axis(x: &TensorType) -> Result<usize> {
    match x.rank() {
        0 => bail!(Shape, "expected scores [c] or [n, c, ..], got {x}"),
        1 => Ok(0),
        _ => Ok(1),
    }
}

fn nll_type(
    x: &TensorType,
    target: &TensorType,
    weight: Option<&TensorType>,
    _ignore_index: Dim,
    reduction: &str,
) -> Result<TensorType> {
    float_only(x.dtype)?;
    integers_only("a target", target.dtype)?;
    let axis = class_axis(x)?;
    let mut each = x.shape.clone();
    let classes = each.dims_mut().remove(axis);
    same_shape("a target", &each, &target.shape)?;
    if let Some(weight) = weight {
        same_shape("a weight", &[classes], &weight.shape)?;
    }
    reduced_type(TensorType::new(x.dtype, each), reduction)
}

fn nll_kernel(
    x: &Array,
    target: &Array,
    weight: Option<&Array>,
    ignore_index: i64,
    reduction: &str,
) -> Result<Array> {
    nll_type(&type_of(x), &type_of(target), opt_type_of(weight).as_ref(), ignore_index.into(), reduction)?;
    picked(x, target, weight, ignore_index, reduction, 0.0)
}

/// Reduces `-x[target]`, mixed with the mean over all classes by `smoothing`.
fn picked(
    x: &Array,
    target: &Array,
    weight: Option<&Array>,
    ignore_index: i64,
    reduction: &str,
    smoothing: f64,
) -> Result<Array> {
    let axis = class_axis(&type_of(x))?;
    let (classes, plane) = (x.shape()[axis], x.shape()[axis + 1..].iter().product::<usize>());
    let wide = wide(x.dtype());
    let (dense_x, weight) = (dense(x, wide)?, opt_dense(weight, wide)?);
    let targets = target.cast(DType::I64).to_vec::<i64>()?;
    in_float!(wide, T => {
        let (data, weight) = (slice::<T>(&dense_x), opt_slice::<T>(&weight));
        let weight_of = |class: usize| weight.map_or(1.0, |weight| weight[class]);
        let mut each = zeroed::<T>(targets.len())?;
        let mut total: T = 0.0;
        for (i, (&class, out)) in targets.iter().zip(&mut each).enumerate() {
            if class == ignore_index {
                continue;
            }
            let Some(class) = usize::try_from(class).ok().filter(|&class| class < classes) else {
                bail!(Index, "expected classes in 0..{classes}, got {class}");
            };
            let start = i / plane.max(1) * classes * plane + i % plane.max(1);
            let (smoothing, weight) = (smoothing as T, weight_of(class));
            total += weight;
            *out = -(1.0 - smoothing) * weight * data[start + class * plane];
            if smoothing > 0.0 {
                let all = (0..classes).fold(0.0, |sum, class| sum + weight_of(class) * data[start + class * plane]);
                *out -= smoothing / classes as T * all;
            }
        }
        Ok(reduced(each, target.shape(), reduction, Some(total))?.cast(x.dtype()))
    })
}

fn cross_entropy_type(
    x: &TensorType,
    target: &TensorType,
    weight: Option<&TensorType>,
    ignore_index: Dim,
    reduction: &str,
    _label_smoothing: Option<f64>,
) -> Result<TensorType> {
    if !target.dtype.is_float() {
        return nll_type(x, target, weight, ignore_index, reduction);
    }
    float_only(x.dtype)?;
    let axis = class_axis(x)?;
    same_shape("a target", &x.shape, &target.shape)?;
    let mut each = x.shape.clone();
    let classes = each.dims_mut().remove(axis);
    if let Some(weight) = weight {
        same_size(
            "as many weights as classes:",
            &classes,
            &weight.shape.first().cloned().unwrap_or(Dim::new(1)),
        )?;
    }
    reduced_type(TensorType::new(x.dtype, each), reduction)
}

fn cross_entropy_kernel(
    x: &Array,
    target: &Array,
    weight: Option<&Array>,
    ignore_index: i64,
    reduction: &str,
    smoothing: f64,
) -> Result<Array> {
    let (x_ty, target_ty, weight_ty) = (type_of(x), type_of(target), opt_type_of(weight));
    let ty = cross_entropy_type(&x_ty, &target_ty, weight_ty.as_ref(), ignore_index.into(), reduction, None)?;
    if !(0.0..=1.0).contains(&smoothing) {
        bail!(Argument, "expected a label_smoothing between 0 and 1, got {smoothing}");
    }
    let axis = class_axis(&x_ty)?;
    let logs = log_softmax_kernel(x, axis as i64, Some(wide(x.dtype())))?;
    if !target.dtype().is_float() {
        return Ok(picked(&logs, target, weight, ignore_index, reduction, smoothing)?.cast(x.dtype()));
    }
    let last = x.rank() - 1;
    let classes = x.shape()[axis];
    let wide = logs.dtype();
    // Classes become the last axis, the others keep their order.
    let axes: Vec<usize> = (0..=last).filter(|&k| k != axis).chain([axis]).collect();
    let (logs, target) = (dense(&logs.permute(&axes)?, wide)?, dense(&target.permute(&axes)?, wide)?);
    let weight = opt_dense(weight, wide)?;
    let mut shape = x.shape().to_vec();
    shape.remove(axis);
    let batch = if x.rank() == 1 { 1 } else { x.shape()[0] * x.shape()[2..].iter().product::<usize>() };
    let out = in_float!(wide, T => {
        let weight = opt_slice::<T>(&weight);
        let smoothing = smoothing as T;
        let mut each = zeroed::<T>(checked_numel(&shape)?)?;
        for (i, out) in each.iter_mut().enumerate() {
            let (logs, target) = (&slice::<T>(&logs)[i * classes..][..classes], &slice::<T>(&target)[i * classes..][..classes]);
            *out = (0..classes).fold(0.0, |sum, class| {
                let share = target[class] * (1.0 - smoothing) + smoothing / classes as T;
                sum - share * weight.map_or(1.0, |weight| weight[class]) * logs[class]
            });
        }
        reduced(each, &shape, reduction, Some(batch as T))
    })?;
    Ok(out.cast(ty.dtype))
}

/// Reduces the losses of a composition.
fn over<V: Operand>(each: V, reduction: &str) -> Result<V> {
    check_reduction(reduction)?;
    match reduction {
        "mean" => each.apply(mean::OP, &[]),
        "sum" => each.apply(sum::OP, &[]),
        _ => Ok(each),
    }
}

/// Multiplies losses with weights of their shape and reduces them: the mean is over the sum of weights' number.
fn scaled<V: Operand>(each: &V, weight: &V, reduction: &str) -> Result<V> {
    over(each.mul(weight)?, reduction)
}

pub(crate) fn divergence<V: Operand>(x: &V, target: &V, reduction: &str, log_target: bool) -> Result<V> {
    let each = if log_target {
        target.apply(exp::OP, &[])?.mul(&target.sub(x)?)?
    } else {
        target.apply(xlogy::OP, &[target.arg()])?.sub(&target.mul(x)?)?
    };
    if reduction != "batchmean" {
        return over(each, reduction);
    }
    let dims = x.dims();
    let total = each.apply(sum::OP, &[])?;
    match dims.first().map(Dim::known) {
        None => Ok(total),
        Some(size) => total.div(size.unwrap_or(1) as f64),
    }
}

pub(crate) fn soft_margin<V: Operand>(x: &V, target: &V, reduction: &str) -> Result<V> {
    float_only(x.ty().dtype)?;
    let power = target.apply(fx_core::ops::neg::OP, &[])?.mul(x)?;
    over(power.apply(exp::OP, &[])?.apply(log1p::OP, &[])?, reduction)
}

pub(crate) fn hinge<V: Operand>(
    x: &V,
    target: &V,
    margin: impl Into<Option<f64>>,
    reduction: &str,
) -> Result<V> {
    let margin = float(margin.into());
    let gap = x.apply(fx_core::ops::neg::OP, &[])?.add(margin)?.apply(clamp_min::OP, &[Arg::Float(0.0)])?;
    let pick = |label: i64, value: &V| {
        let is_other = target.apply(fx_core::ops::ne::OP, &[Arg::Int(label)])?;
        V::run(where_::OP, &[is_other.arg(), value.arg(), Arg::Float(0.0)], &[])
    };
    over(pick(1, &gap)?.add(&pick(-1, x)?)?, reduction)
}

pub(crate) fn ranking<V: Operand>(
    x: &V,
    other: &V,
    target: &V,
    margin: impl Into<Option<f64>>,
    reduction: &str,
) -> Result<V> {
    let gap = target.apply(fx_core::ops::neg::OP, &[])?.mul(&x.sub(other)?)?.add(float(margin.into()))?;
    over(gap.apply(clamp_min::OP, &[Arg::Float(0.0)])?, reduction)
}

pub(crate) fn poisson<V: Operand>(
    x: &V,
    target: &V,
    log_input: bool,
    full: bool,
    eps: impl Into<Option<f64>>,
    reduction: &str,
) -> Result<V> {
    let mut each = if log_input {
        x.apply(exp::OP, &[])?.sub(&target.mul(x)?)?
    } else {
        x.sub(&target.mul(&x.add(float(eps.into()))?.apply(log::OP, &[])?)?)?
    };
    if full {
        let stirling = target.apply(xlogy::OP, &[target.arg()])?.sub(target)?;
        let stirling = stirling.add(&target.mul(std::f64::consts::TAU)?.apply(log::OP, &[])?.mul(0.5)?)?;
        let is_large = target.apply(fx_core::ops::gt::OP, &[Arg::Int(1)])?;
        each = each.add(&V::run(where_::OP, &[is_large.arg(), stirling.arg(), Arg::Float(0.0)], &[])?)?;
    }
    over(each, reduction)
}

pub(crate) fn gaussian<V: Operand>(
    x: &V,
    target: &V,
    variance: &V,
    full: bool,
    eps: impl Into<Option<f64>>,
    reduction: &str,
) -> Result<V> {
    let (dims, of_variance) = (x.dims(), variance.dims());
    let variance = if of_variance.len() + 1 == dims.len() && !dims.is_empty() {
        variance.insert_axis(of_variance.len())?
    } else {
        variance.clone()
    };
    let fit = |from: &[Dim], to: &[Dim]| {
        from.len() == to.len() && !from.iter().zip(to).any(|(a, b)| a.same(b).is_no())
    };
    let of_variance = variance.dims();
    let last = dims.len().saturating_sub(1);
    let is_column = of_variance.len() == dims.len()
        && fit(&of_variance[..last], &dims[..last])
        && of_variance.last().is_none_or(|size| !size.same(&Dim::new(1)).is_no());
    if !fit(&of_variance, &dims) && !is_column {
        bail!(Shape, "expected a var of the shape of the input, got {} and {}", variance.ty(), x.ty());
    }
    let variance = variance.apply(clamp_min::OP, &[Arg::Float(float(eps.into()))])?;
    let gap = x.sub(target)?;
    let mut each = variance.apply(log::OP, &[])?.add(&gap.mul(&gap)?.div(&variance)?)?.mul(0.5)?;
    if full {
        each = each.add(0.5 * std::f64::consts::TAU.ln())?;
    }
    over(each, reduction)
}
