//! Losses that compare distances and classes by a margin, and the loss of alignments.
//!
//! `reduction` is `"mean"`, `"sum"` or `"none"`. Half precision is computed in `f32`.

use fx_core::op::Flops::{PerInput, Unknown};
use fx_core::portable::margin::multilabel;
use fx_core::{
    Arg, Array, DType, Dim, Op, Result, Shape, TensorType, Type, TypeTree, Value, bail, err, kernels,
};

use crate::ops::check::{
    dense, float_only, in_float, opt_dense, opt_slice, opt_type_of, same_dtype, same_shape, same_size, slice,
    type_of, wide, zeroed,
};
use crate::ops::compose::{Number, Operand};
use crate::ops::loss::{check_reduction, reduced, reduced_type};
use crate::ops::pointwise::clamp_min;
use crate::ops::reduce::sum;
use crate::ops::view::where_;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[MARGIN_LOSSES];

kernels! {
    /// Losses by margins, and of alignments.
    pub trait MarginLosses; pub static MARGIN_LOSSES;

    /// `1 - cos` of the angle between rows of `x` and `input2` where `target` is 1, `max(cos - margin, 0)`
    /// where it is -1.
    ///
    /// `x` and `input2` are `[.., d]`, the losses of the shape of `target`.
    #[flops = PerInput(6)]
    cosine_embedding_loss(x: Tensor, input2: Tensor, target: Tensor; margin: Float = 0.0, reduction: Str = "mean") =
        cosine_embedding, cosine_embedding;
    /// `max(d(x, positive) - d(x, negative) + margin, 0)` for the distances `d` of `pairwise_distance` with
    /// `p` and `eps`.
    ///
    /// With `swap` the distance of `positive` and `negative` counts if it is smaller than that of `x` and
    /// `negative`.
    #[flops = PerInput(6)]
    triplet_margin_loss(x: Tensor, positive: Tensor, negative: Tensor; margin: Float = 1.0, p: Float = 2.0, eps: Float = 1e-6,
        swap: Bool = false, reduction: Str = "mean") = triplet, triplet;
    /// For scores `[n, c]`, `[c]` or `[]` and classes `[n]` or `[]`, the sum of `max(margin - x[target] + x[i],
    /// 0)^p weight[target]` over the other classes `i`, divided by `c`. `p` is 1 or 2.
    #[flops = PerInput(3)]
    multi_margin_loss(x: Tensor, target: Tensor; p: Number = fx_core::op::Default::Int(1),
        margin: Number = fx_core::op::Default::Int(1), weight: OptTensor = None, reduction: Str = "mean") =
        multi_type, multi;
    /// For scores and classes `[n, c]`, `[c]` or `[]`, the sum of `max(1 - x[j] + x[i], 0)` over the classes `j`
    /// before the first -1 in `target` and the classes `i` that are not among them, divided by `c`.
    #[flops = Unknown]
    multilabel_margin_loss(x: Tensor, target: Tensor; reduction: Str = "mean") = labels_type, labels;
    /// The loss of connectionist temporal classification: minus the logarithm of the sum of the probabilities
    /// of all alignments.
    ///
    /// `log_probs` are `[t, n, c]` or `[t, c]`, `targets` `[n, s]` or one after the other `[sum of lengths]`.
    /// The lengths, integers or tensors of them, are those of each sequence; `blank` is the class between
    /// others. The mean is over losses divided by target lengths, of at least 1. With `zero_infinity` an
    /// impossible alignment counts 0.
    #[flops = Unknown]
    ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any; blank: Int = 0,
        reduction: Str = "mean", zero_infinity: Bool = false) = ctc_type, ctc;
}

fn reduce<V: Operand>(each: V, reduction: &str) -> Result<V> {
    check_reduction(reduction)?;
    match reduction {
        "none" => Ok(each),
        "sum" => each.apply(sum::OP, &[]),
        _ => each.apply(crate::ops::reduce::mean::OP, &[]),
    }
}

pub(crate) fn cosine_embedding<V: Operand>(
    x: &V,
    input2: &V,
    target: &V,
    margin: impl OrOne,
    reduction: &str,
) -> Result<V> {
    let (rank, own) = (target.ty().rank(), x.ty().rank());
    if rank > 1 || own != rank + 1 || input2.ty().rank() != own {
        bail!(
            Shape,
            "expected rows [n, d] and [n, d] with a target [n], or [d], [d] and [], got {}, {} and {}",
            x.ty(),
            input2.ty(),
            target.ty()
        );
    }
    let last = rank;
    let product = |a: &V, b: &V| a.mul(b)?.apply(sum::OP, &[Arg::Int(last as i64)]);
    // As PyTorch, which keeps lengths of 0 away from a division.
    let length = |a: &V| product(a, a)?.apply(fx_core::ops::add::OP, &[Arg::Float(1e-12)]);
    let lengths = length(x)?.mul(&length(input2)?)?.apply(crate::ops::pointwise::sqrt::OP, &[])?;
    let cosine = product(x, input2)?.div(&lengths)?;
    let zero = cosine.apply(crate::ops::creation::zeros_like::OP, &[])?;
    let alike = cosine.apply(crate::ops::pointwise::rsub::OP, &[Arg::Float(1.0)])?;
    let apart = cosine.sub(margin.or_one())?.apply(clamp_min::OP, &[Arg::Float(0.0)])?;
    let is = |n: i64| target.apply(fx_core::ops::eq::OP, &[Arg::Int(n)]);
    let alike = V::run(where_::OP, &[is(1)?.arg(), alike.arg(), zero.arg()], &[])?;
    let apart = V::run(where_::OP, &[is(-1)?.arg(), apart.arg(), zero.arg()], &[])?;
    reduce(alike.add(&apart)?, reduction)
}

/// A float at run time, or what stands for it while shapes are propagated.
pub(crate) trait OrOne {
    fn or_one(self) -> f64;
}
impl OrOne for f64 {
    fn or_one(self) -> f64 {
        self
    }
}
impl OrOne for Option<f64> {
    fn or_one(self) -> f64 {
        self.unwrap_or(1.0)
    }
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
pub(crate) fn triplet<V: Operand>(
    x: &V,
    positive: &V,
    negative: &V,
    margin: impl OrOne,
    p: impl OrOne,
    eps: impl OrOne,
    swap: bool,
    reduction: &str,
) -> Result<V> {
    let (p, eps) = (Arg::Float(p.or_one()), Arg::Float(eps.or_one()));
    let distance =
        |a: &V, b: &V| a.apply(crate::ops::norms::pairwise_distance::OP, &[b.arg(), p.clone(), eps.clone()]);
    let near = distance(x, positive)?;
    let mut far = distance(x, negative)?;
    if swap {
        far = far.apply(fx_core::ops::minimum::OP, &[distance(positive, negative)?.arg()])?;
    }
    let each = near.sub(&far)?.add(margin.or_one())?.apply(clamp_min::OP, &[Arg::Float(0.0)])?;
    reduce(each, reduction)
}

/// Returns the batch, if there is one, and the number of classes; a score without axes is one of one class.
fn classes(x: &TensorType) -> Result<(Option<Dim>, Dim)> {
    float_only(x.dtype)?;
    match &x.shape[..] {
        [] => Ok((None, Dim::new(1))),
        [c] => Ok((None, c.clone())),
        [n, c] => Ok((Some(n.clone()), c.clone())),
        _ => bail!(Shape, "expected scores [n, c], [c] or [], got {x}"),
    }
}

fn multi_type(
    x: &TensorType,
    target: &TensorType,
    _p: impl Number,
    _margin: impl Number,
    weight: Option<&TensorType>,
    reduction: &str,
) -> Result<TensorType> {
    let (n, c) = classes(x)?;
    if !target.dtype.is_int() {
        bail!(DType, "expected classes of integers, got {target}");
    }
    let one = [Dim::new(1)];
    // The class of one sample may have no axis, and so has its loss.
    let classes = if target.rank() == 0 { &one } else { &target.shape[..] };
    same_shape("classes", &[n.unwrap_or(Dim::new(1))], classes)?;
    if let Some(weight) = weight {
        same_dtype("weights", x.dtype, weight.dtype)?;
        same_shape("weights", &[c], &weight.shape)?;
    }
    reduced_type(TensorType::new(x.dtype, target.shape.clone()), reduction)
}

fn multi(
    x: &Array,
    target: &Array,
    p: fx_core::Scalar,
    margin: fx_core::Scalar,
    weight: Option<&Array>,
    reduction: &str,
) -> Result<Array> {
    let weight_ty = opt_type_of(weight);
    multi_type(&type_of(x), &type_of(target), p, margin, weight_ty.as_ref(), reduction)?;
    if ![1.0, 2.0].contains(&p.to_f64()) {
        bail!(Argument, "expected p = 1 or 2, got {}", p.to_f64());
    }
    let (is_square, c) = (p.to_f64() == 2.0, x.shape().last().copied().unwrap_or(1));
    let (wide, shape) = (wide(x.dtype()), target.shape());
    let (data, target, weight) = (dense(x, wide)?, dense(target, DType::I64)?, opt_dense(weight, wide)?);
    let out = in_float!(wide, T => {
        let (data, weight, margin) = (slice::<T>(&data), opt_slice::<T>(&weight), margin.to_f64() as T);
        let mut each = zeroed::<T>(slice::<i64>(&target).len())?;
        for ((out, row), &class) in each.iter_mut().zip(data.chunks(c.max(1))).zip(slice::<i64>(&target)) {
            let at = usize::try_from(class).ok().filter(|&at| at < c);
            let at = at.ok_or_else(|| err!(Index, "expected a class from 0 to {c}, got {class}"))?;
            for (_, &score) in row.iter().enumerate().filter(|(i, _)| *i != at) {
                let gap = margin - row[at] + score;
                if gap > 0.0 {
                    let loss = if is_square { gap * gap } else { gap };
                    *out += weight.map_or(loss, |weight| loss * weight[at]);
                }
            }
            *out /= c as T;
        }
        reduced(each, shape, reduction, None)
    })?;
    Ok(out.cast(x.dtype()))
}

fn labels_type(x: &TensorType, target: &TensorType, reduction: &str) -> Result<TensorType> {
    let (n, c) = classes(x)?;
    if !target.dtype.is_int() {
        bail!(DType, "expected classes of integers, got {target}");
    }
    // One class may have no axis, as its score.
    let (one, c) = ([Dim::new(1)], [c]);
    let target = if target.rank() == 0 { &one } else { &target.shape[..] };
    same_shape("classes", if x.rank() == 2 { &x.shape[..] } else { &c }, target)?;
    reduced_type(TensorType::new(x.dtype, n.into_iter().collect::<Shape>()), reduction)
}

fn labels(x: &Array, target: &Array, reduction: &str) -> Result<Array> {
    labels_type(&type_of(x), &type_of(target), reduction)?;
    let c = x.shape().last().copied().unwrap_or(1);
    let wide = wide(x.dtype());
    let (data, target) = (dense(x, wide)?, dense(target, DType::I64)?);
    let out = in_float!(wide, T => {
        let mut each = zeroed::<T>(if x.rank() < 2 { 1 } else { x.shape()[0] })?;
        let (data, target) = (slice::<T>(&data), slice::<i64>(&target));
        multilabel(data, target, c, &mut vec![false; c], &mut each)
            .map_err(|class| err!(Index, "expected a class from -1 to {c}, got {class}"))?;
        let shape = if x.rank() < 2 { &[][..] } else { &x.shape()[..1] };
        reduced(each, shape, reduction, None)
    })?;
    Ok(out.cast(x.dtype()))
}

fn ctc_type(
    log_probs: &TensorType,
    targets: &TensorType,
    input_lengths: &TypeTree,
    target_lengths: &TypeTree,
    blank: Dim,
    reduction: &str,
    _zero_infinity: bool,
) -> Result<TensorType> {
    float_only(log_probs.dtype)?;
    if !targets.dtype.is_int() {
        bail!(DType, "expected targets of integers, got {targets}");
    }
    let batch = match &log_probs.shape[..] {
        [_, _] => None,
        [_, n, _] => Some(n),
        _ => bail!(Shape, "expected logarithms [t, n, c] or [t, c], got {log_probs}"),
    };
    match (&targets.shape[..], batch) {
        ([_], _) => {}
        ([n, _], Some(batch)) => same_size("as many targets as sequences,", batch, n)?,
        _ => bail!(Shape, "expected targets [n, s] or [sum of lengths], got {targets}"),
    }
    let n = batch.map_or(Some(1), Dim::known);
    let classes = log_probs.shape[log_probs.rank() - 1].known();
    if let (Some(blank), Some(classes)) = (blank.known(), classes)
        && !(0..classes).contains(&blank)
    {
        bail!(Argument, "expected a blank from 0 to {classes}, got {blank}");
    }
    let width = if targets.rank() == 2 { targets.shape[1].known() } else { targets.shape[0].known() };
    for (lengths, most) in [(input_lengths, log_probs.shape[0].known()), (target_lengths, width)] {
        check_lengths(lengths, n, most)?;
    }
    reduced_type(TensorType::new(log_probs.dtype, batch.into_iter().collect::<Shape>()), reduction)
}

/// Checks lengths as far as they are known.
fn check_lengths(lengths: &TypeTree, n: Option<i64>, most: Option<i64>) -> Result<()> {
    let items = match lengths {
        Arg::Leaf(Type::Tensor(ty)) => {
            let count = ty.shape.iter().try_fold(1, |count, size| size.known().map(|size| count * size));
            return match (count, n) {
                (Some(count), Some(n)) if count != n => bail!(Argument, "expected {n} lengths, got {count}"),
                _ => Ok(()),
            };
        }
        other => other.items().map_or(std::slice::from_ref(other), |items| items),
    };
    if let Some(n) = n
        && items.len() as i64 != n
    {
        bail!(Argument, "expected {n} lengths, got {}", items.len());
    }
    for item in items {
        if let (Arg::Int(length), Some(most)) = (item, most)
            && !(0..=most).contains(length)
        {
            bail!(Argument, "expected lengths from 0 to {most}, got {length}");
        }
    }
    Ok(())
}

/// Returns lengths, of which each is at most `most`.
fn lengths(value: &Value, n: usize, most: usize) -> Result<Vec<usize>> {
    let numbers: Vec<i64> = match value {
        Arg::Leaf(tensor) => dense(tensor.array()?, DType::I64)?.to_vec::<i64>()?,
        other => {
            let items = other.items().map_or_else(|| vec![other.clone()], <[Value]>::to_vec);
            items
                .iter()
                .map(|item| match item {
                    Arg::Int(n) => Ok(*n),
                    Arg::Leaf(tensor) => {
                        let array = tensor.array()?;
                        if array.dtype() != DType::I64 {
                            bail!(DType, "expected lengths of i64, got {}", array.dtype());
                        }
                        Ok(array.item()?.to_i64())
                    }
                    other => bail!(Argument, "expected a length, got {}", other.kind_name()),
                })
                .collect::<Result<_>>()?
        }
    };
    if numbers.len() != n {
        bail!(Argument, "expected {n} lengths, got {}", numbers.len());
    }
    let length = |&number: &i64| usize::try_from(number).ok().filter(|&length| length <= most);
    let found: Option<Vec<usize>> = numbers.iter().map(length).collect();
    found.ok_or_else(|| err!(Index, "expected lengths from 0 to {most}, got {numbers:?}"))
}

/// Returns `log(exp(a) + exp(b) + exp(c))`.
fn log_sum(terms: [f64; 3]) -> f64 {
    let greatest = terms.into_iter().fold(f64::NEG_INFINITY, f64::max);
    if greatest == f64::NEG_INFINITY {
        return greatest;
    }
    greatest
        + terms.into_iter().map(|x| if x == greatest { 1.0 } else { (x - greatest).exp() }).sum::<f64>().ln()
}

fn ctc(
    log_probs: &Array,
    targets: &Array,
    input_lengths: &Value,
    target_lengths: &Value,
    blank: i64,
    reduction: &str,
    zero_infinity: bool,
) -> Result<Array> {
    check_reduction(reduction)?;
    float_only(log_probs.dtype())?;
    let has_batch = log_probs.rank() == 3;
    let whole = if has_batch { log_probs.clone() } else { log_probs.unsqueeze(1)? };
    let &[t, n, c] = whole.shape() else {
        bail!(Shape, "expected logarithms [t, n, c] or [t, c], got {}", type_of(log_probs));
    };
    let (data, classes) = (dense(&whole, DType::F64)?, dense(targets, DType::I64)?);
    let (data, classes) = (slice::<f64>(&data), slice::<i64>(&classes));
    if !targets.dtype().is_int() || targets.rank() > 2 || targets.rank() == 2 && targets.shape()[0] != n {
        bail!(Argument, "expected targets [n, s] or [sum of lengths] of integers, got {}", type_of(targets));
    }
    let width = if targets.rank() == 2 { targets.shape()[1] } else { classes.len() };
    let (inputs, outputs) = (lengths(input_lengths, n, t)?, lengths(target_lengths, n, width)?);
    let is_class = |class: i64| (0..c as i64).contains(&class);
    if !is_class(blank) {
        bail!(Argument, "expected a blank from 0 to {c}, got {blank}");
    }
    let mut each = zeroed::<f64>(n)?;
    let mut start = 0;
    let mut parts = Vec::with_capacity(each.len());
    for (i, &length) in outputs.iter().enumerate() {
        let from = if targets.rank() == 2 { i * width } else { start };
        start += length;
        let Some(classes) = classes.get(from..from + length) else {
            bail!(Index, "expected targets of {start} elements, got {}", classes.len());
        };
        if let Some(class) = classes.iter().find(|class| !is_class(**class)) {
            bail!(Index, "expected a class from 0 to {c}, got {class}");
        }
        parts.push(classes);
    }
    fx_simd::parallel::chunks(&mut each, 1, 1, |i, loss| {
        let (steps, length, classes, loss) = (inputs[i], outputs[i], parts[i], &mut loss[0]);
        // Blanks are between, before and behind the classes.
        let class_at = |s: usize| if s.is_multiple_of(2) { blank } else { classes[s / 2] };
        let log = |step: usize, s: usize| data[(step * n + i) * c + class_at(s) as usize];
        let states = 2 * length + 1;
        let mut alpha = vec![f64::NEG_INFINITY; states];
        if steps > 0 {
            alpha[0] = log(0, 0);
            if states > 1 {
                alpha[1] = log(0, 1);
            }
        } else {
            alpha[0] = if length == 0 { 0.0 } else { f64::NEG_INFINITY };
        }
        for step in 1..steps {
            let before = alpha.clone();
            for s in 0..states {
                let skips = s > 1 && s % 2 == 1 && class_at(s) != class_at(s - 2);
                let one = if s > 0 { before[s - 1] } else { f64::NEG_INFINITY };
                let two = if skips { before[s - 2] } else { f64::NEG_INFINITY };
                alpha[s] = log_sum([before[s], one, two]) + log(step, s);
            }
        }
        let last = if states > 1 { alpha[states - 2] } else { f64::NEG_INFINITY };
        *loss = -log_sum([alpha[states - 1], last, f64::NEG_INFINITY]);
        if zero_infinity && *loss == f64::INFINITY {
            *loss = 0.0;
        }
    });
    if reduction == "mean" {
        each.iter_mut().zip(&outputs).for_each(|(loss, &length)| *loss /= length.max(1) as f64);
    }
    let shape = if has_batch { vec![n] } else { Vec::new() };
    Ok(reduced(each, &shape, reduction, None)?.cast(log_probs.dtype()))
}
