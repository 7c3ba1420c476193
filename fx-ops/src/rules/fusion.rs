//! Operations recognised from their parts, as programs that were exported write them.
//!
//! Results are equal within rounding, and finite, infinite or NaN as those of the parts are: for operands whose
//! squares are normal numbers, and at zeros, infinities and NaN. What is finite only as one operation is in
//! `stable`. In half precision each part rounds its result, so there only those rules apply that leave no
//! rounding out.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, SQRT_2};

use fx_core::ops::*;
use fx_core::rewrite::{Match, any_of, capture, exactly, integer, near, number};
use fx_core::{Arg, DType, GraphModule, Result, Tensor, call, rules, symbolic_trace};

use crate::ops::arrange::mT;
use crate::ops::attention::scaled_dot_product_attention;
use crate::ops::conv::{conv1d, conv2d, conv3d};
use crate::ops::linalg::{addmm, bmm, linear, matmul};
use crate::ops::normalization::{layer_norm, rms_norm, softmax};
use crate::ops::pad::pad;
use crate::ops::pointwise::*;
use crate::ops::reduce::{amax, mean, sum, var};
use crate::ops::view::*;

/// `sqrt(2 / pi)`, of the approximation of `gelu`.
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;

rules! {
    /// Operations recognised from their parts; equal within rounding.
    pub static FUSION;

    /// A square.
    pow_two: |x: &Tensor| pow(x, exactly(2.0)) => |x: &Tensor| square(x), when "x is of floats" |m| m.is_float("x");
    /// A square root.
    pow_half: |x: &Tensor| pow(x, exactly(0.5)) => |x: &Tensor| sqrt(x), when "x is of floats other than f16" has_roots;
    /// The reciprocal of a square root.
    rsqrt: |x: &Tensor| any_of([reciprocal(sqrt(x)), div(exactly(1.0), sqrt(x))]) => |x: &Tensor| rsqrt(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;
    /// The reciprocal of a square root, as a power.
    pow_minus_half: |x: &Tensor| pow(x, exactly(-0.5)) => |x: &Tensor| rsqrt(x), when "x is of floats other than f16" has_roots;
    /// Factors one after the other, none of which can make infinite or zero what the other brings back.
    mul_mul: |x: &Tensor| (x * number("a")) * number("b"), build |m| {
        joined(m).map(|product| symbolic_trace(move |x: &Tensor| x * product)).transpose()
    }, when "x is of f32 or f64" |m| m.is_float("x") && is_wide(m);
    /// `log(1 + x)`.
    log1p: |x: &Tensor| log(x + exactly(1.0)) => |x: &Tensor| log1p(x), when "x is of f32 or f64" |m| m.is_float("x") && is_wide(m);
    /// `exp(x) - 1`.
    expm1: |x: &Tensor| exp(x) - exactly(1.0) => |x: &Tensor| expm1(x), when "x is of f32 or f64" |m| m.is_float("x") && is_wide(m);
    /// A logarithm to base 2.
    log2: |x: &Tensor| any_of([log(x) / near(LN_2), log(x) * near(1.0 / LN_2)]) => |x: &Tensor| log2(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;

    /// A lower bound of zero.
    relu: |x: &Tensor| any_of([maximum(x, exactly(0.0)), clamp_min(x, exactly(0.0)), clamp(x, exactly(0.0), ())])
        => |x: &Tensor| relu(x);
    /// Bounds of zero and six.
    relu6: |x: &Tensor| any_of([
        clamp(x, exactly(0.0), exactly(6.0)), clamp_max(relu(x), exactly(6.0)), minimum(relu(x), exactly(6.0)),
        hardtanh(x, exactly(0.0), exactly(6.0)),
    ]) => |x: &Tensor| relu6(x);
    /// The logistic function.
    sigmoid: |x: &Tensor| {
        let sum = exp(-x) + exactly(1.0);
        any_of([reciprocal(&sum), div(exactly(1.0), &sum)])
    } => |x: &Tensor| sigmoid(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;
    /// `x * sigmoid(x)`, or `x / (1 + exp(-x))`.
    silu: |x: &Tensor| any_of([x * sigmoid(x), x / (exp(-x) + exactly(1.0))]) => |x: &Tensor| silu(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;
    /// `-softplus(-x)`.
    logsigmoid: |x: &Tensor| -plain_softplus(&-x) => |x: &Tensor| logsigmoid(x),
        when "x is not of f64, where it shows that softplus is linear above 20" is_coarse;
    /// `x * tanh(softplus(x))`.
    mish: |x: &Tensor| x * tanh(plain_softplus(x)) => |x: &Tensor| mish(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;
    /// `x - tanh(x)`.
    tanhshrink: |x: &Tensor| x - tanh(x) => |x: &Tensor| tanhshrink(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;
    /// `x / (1 + |x|)`.
    softsign: |x: &Tensor| x / (abs(x) + exactly(1.0)) => |x: &Tensor| softsign(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;
    /// `relu6(x + 3) / 6`.
    hardsigmoid: |x: &Tensor| any_of([relu6(x + exactly(3.0)) / exactly(6.0), relu6(x + exactly(3.0)) * near(1.0 / 6.0)])
        => |x: &Tensor| hardsigmoid(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;
    /// `x * relu6(x + 3) / 6`.
    hardswish: |x: &Tensor| x * relu6(x + exactly(3.0)) / exactly(6.0) => |x: &Tensor| hardswish(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;
    /// A choice of slopes.
    leaky_relu: |x: &Tensor| where_(any_of([gt(x, exactly(0.0)), ge(x, exactly(0.0))]), x, x * number("slope"))
        => |x: &Tensor| sloped(x, number("slope"));
    /// `x / 2 * (1 + erf(x / sqrt(2)))`, its factors in any order.
    gelu: |x: &Tensor| {
        let phi = erf(any_of([x / near(SQRT_2), x * near(FRAC_1_SQRT_2)])) + exactly(1.0);
        any_of([x * exactly(0.5) * &phi, x / exactly(2.0) * &phi, x * (&phi * exactly(0.5)), x * &phi * exactly(0.5), x * &phi / exactly(2.0)])
    } => |x: &Tensor| gelu(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;
    /// The approximation of `gelu` by a hyperbolic tangent.
    gelu_tanh: |x: &Tensor| {
        let cube = any_of([pow(x, exactly(3.0)), square(x) * x, x * x * x]);
        let inner = any_of([(x + cube * near(0.044715)) * near(SQRT_2_OVER_PI), x * near(SQRT_2_OVER_PI) * (square(x) * near(0.044715) + exactly(1.0))]);
        let phi = tanh(inner) + exactly(1.0);
        any_of([x * exactly(0.5) * &phi, x * (&phi * exactly(0.5)), x * &phi * exactly(0.5)])
    } => |x: &Tensor| gelu_tanh(x), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;

    /// `exp(y) / sum(exp(y))` of `y = x - max(x)`.
    softmax: |x: &Tensor| {
        let e = exp(x - amax(x, integer("d"), true));
        &e / sum(&e, integer("d"), true)
    } => |x: &Tensor| softmax(x, integer("d")), when "x is of f32 or f64, so that no part is rounded to a half" is_wide;
    /// `x / sqrt(mean(x^2) + eps)` over the last axis.
    rms_norm: |x: &Tensor| {
        let ms = mean(any_of([square(x), pow(x, exactly(2.0)), x * x]), integer("d"), true) + number("eps");
        any_of([x * rsqrt(&ms), x / sqrt(&ms), x * reciprocal(sqrt(&ms))])
    }, build |m| last_axis(m, |x, size, eps| rms_norm(x, [size], (), eps)), when "d is the last axis, and x of f32 or f64" |m| is_last(m) && is_wide(m);
    /// The factors of a root-mean-square norm.
    rms_norm_weight: |x: &Tensor, w: &Tensor| capture(rms_norm(x, [0], (), number("eps")), "n") * w, build |m| {
        let Some(shape) = m.ints("n.normalized_shape") else { return Ok(None) };
        symbolic_trace(move |x: &Tensor, w: &Tensor| rms_norm(x, shape.clone(), w, number("eps"))).map(Some)
    }, free "n.normalized_shape", when "the factors have the normalised shape and dtype" |m| is_weight(m, "y", "n") && is_wide(m);
    /// `(x - mean(x)) / sqrt(var(x) + eps)` over the last axis.
    layer_norm: |x: &Tensor| {
        let c = x - mean(x, integer("d"), true);
        let v = any_of([
            mean(any_of([square(&c), pow(&c, exactly(2.0)), &c * &c]), integer("d"), true),
            var(x, integer("d"), exactly(0.0), true),
        ]) + number("eps");
        any_of([&c / sqrt(&v), &c * rsqrt(&v), &c * reciprocal(sqrt(&v))])
    }, build |m| last_axis(m, |x, size, eps| layer_norm(x, [size], (), (), eps)), when "d is the last axis, and x of f32 or f64" |m| is_last(m) && is_wide(m);
    /// The factors of a layer norm.
    layer_norm_weight: |x: &Tensor, w: &Tensor| capture(layer_norm(x, [0], (), (), number("eps")), "n") * w, build |m| {
        let Some(shape) = m.ints("n.normalized_shape") else { return Ok(None) };
        symbolic_trace(move |x: &Tensor, w: &Tensor| layer_norm(x, shape.clone(), w, (), number("eps"))).map(Some)
    }, free "n.normalized_shape", when "the factors have the normalised shape and dtype" |m| is_weight(m, "y", "n") && is_wide(m);
    /// What is added to a layer norm with factors.
    layer_norm_bias: |x: &Tensor, w: &Tensor, b: &Tensor| capture(layer_norm(x, [0], w, (), number("eps")), "n") + b, build |m| {
        let Some(shape) = m.ints("n.normalized_shape") else { return Ok(None) };
        symbolic_trace(move |x: &Tensor, w: &Tensor, b: &Tensor| layer_norm(x, shape.clone(), w, b, number("eps"))).map(Some)
    }, free "n.normalized_shape", when "what is added has the normalised shape and dtype" |m| is_weight(m, "z", "n") && is_wide(m);

    /// A product with a transposed matrix.
    linear: |x: &Tensor, w: &Tensor| matmul(x, any_of([t(w), transpose(w, integer("i"), integer("j")), permute(w, [1, 0]), mT(w)]))
        => |x: &Tensor, w: &Tensor| linear(x, w, ()), when "w is a matrix and x has axes" |m| {
            m.rank("y") == Some(2) && m.rank("x") >= Some(1) && (m.int("i").is_none() || m.axis("i", "y") != m.axis("j", "y"))
        };
    /// What is added to a linear map.
    linear_bias: |x: &Tensor, w: &Tensor, b: &Tensor| linear(x, w, ()) + b => |x: &Tensor, w: &Tensor, b: &Tensor| linear(x, w, b),
        when "b has the size of the last axis" |m| {
            is_wide(m) && m.rank("z") == Some(1) && m.dtype("z") == m.dtype("x") && m.ty("z").zip(m.ty("y")).is_some_and(|(b, w)| b.shape[0] == w.shape[0])
        };
    /// A product with a transposed matrix, and what is added.
    addmm_linear: |x: &Tensor, w: &Tensor, b: &Tensor| addmm(b, x, t(w)) => |x: &Tensor, w: &Tensor, b: &Tensor| linear(x, w, b),
        when "b has one axis" |m| m.rank("z") == Some(1) && m.ty("z").zip(m.ty("y")).is_some_and(|(b, w)| b.shape[0] == w.shape[0]);
    /// `softmax(q @ k.T * scale) @ v`, the scale at any place. A query that sees no key gives NaN, as of
    /// `softmax`.
    attention: |q: &Tensor, k: &Tensor, v: &Tensor| product(softmax(scores(q, k), integer("d")), v), build |m| attended(m, false), free "t.dims",
        when "operands have the same rank of at least 3, and the last axes are meant" are_heads;
    /// Attention with a mask of floats that is added.
    attention_mask: |q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor| product(softmax(scores(q, k) + mask, integer("d")), v),
        build |m| attended(m, true), free "t.dims",
        when "operands have the same rank of at least 3, and the last axes are meant" are_heads,
        when "the mask is of the dtype of the operands" |m| m.dtype("x3") == m.dtype("x");
    /// Zeros around what is convolved, the same on both sides, as padding of the convolution.
    pad_conv: |x: &Tensor, w: &Tensor| convolved(capture(pad(x, [0], "constant", ()), "p"), w, None), build |m| padded(m, false),
        free "p.pad", free "p.value",
        free "c1.stride", free "c1.padding", free "c1.dilation", free "c1.groups",
        free "c2.stride", free "c2.padding", free "c2.dilation", free "c2.groups",
        free "c3.stride", free "c3.padding", free "c3.dilation", free "c3.groups";
    /// As `pad_conv`, with a bias.
    pad_conv_bias: |x: &Tensor, w: &Tensor, b: &Tensor| convolved(capture(pad(x, [0], "constant", ()), "p"), w, Some(b)), build |m| padded(m, true),
        free "p.pad", free "p.value",
        free "c1.stride", free "c1.padding", free "c1.dilation", free "c1.groups",
        free "c2.stride", free "c2.padding", free "c2.dilation", free "c2.groups",
        free "c3.stride", free "c3.padding", free "c3.dilation", free "c3.groups";
    /// Attention of which some query heads share a key head, instead of copies of keys and values for each.
    shared_heads: |q: &Tensor, k: &Tensor, v: &Tensor| capture(scaled_dot_product_attention(q, repeated(k, "k"), repeated(v, "v"), (), 0.0, false), "a"),
        build |m| grouped(m, false), free "a.is_causal", free "a.scale", free "a.safe_softmax", free "k1.size", free "k2.shape", free "v1.size", free "v2.shape",
        when "each head is repeated as often as the others, for as many query heads" are_repeated;
    /// As `shared_heads`, with a mask.
    shared_heads_mask: |q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor| {
        capture(scaled_dot_product_attention(q, repeated(k, "k"), repeated(v, "v"), mask, 0.0, false), "a")
    }, build |m| grouped(m, true), free "a.is_causal", free "a.scale", free "a.safe_softmax", free "k1.size", free "k2.shape", free "v1.size", free "v2.shape",
        when "each head is repeated as often as the others, for as many query heads" are_repeated;
}

/// Whether powers by 0.5 and -0.5 are roots; see `pow`.
fn has_roots(m: &Match<'_>) -> bool {
    m.is_float("x") && m.dtype("x") != Some(DType::F16)
}

/// A convolution over one to three axes, the parts of which are `c1` to `c3`.
fn convolved(x: Tensor, w: &Tensor, b: Option<&Tensor>) -> Tensor {
    let [one, two, three]: [Tensor; 3] = [
        call!(conv1d(&x, w, b, [0], [0], dilation = [0], groups = 0)),
        call!(conv2d(&x, w, b, [0], [0], dilation = [0], groups = 0)),
        call!(conv3d(&x, w, b, [0], [0], dilation = [0], groups = 0)),
    ];
    any_of([capture(one, "c1"), capture(two, "c2"), capture(three, "c3")])
}

/// Writes borders as padding of the convolution, if it has them on both sides of its axes alone.
fn padded(m: &Match<'_>, has_bias: bool) -> Result<Option<GraphModule>> {
    let Some((rank, op)) = [conv1d::OP, conv2d::OP, conv3d::OP]
        .into_iter()
        .enumerate()
        .map(|(i, op)| (i + 1, op))
        .find(|(rank, _)| m.node(&format!("c{rank}")).is_some())
    else {
        return Ok(None);
    };
    let part = |name: &str| m.arg(&format!("c{rank}.{name}"));
    let is_zero = match m.arg("p.value") {
        None | Some(Arg::None) => true,
        Some(value) => value.scalar().is_some_and(|value| value.to_f64() == 0.0),
    };
    let own = match part("padding") {
        None => Some(vec![0; rank]),
        Some(Arg::Int(n)) => Some(vec![*n; rank]),
        Some(Arg::Str(name)) if &**name == "valid" => Some(vec![0; rank]),
        Some(_) => m.ints(&format!("c{rank}.padding")),
    };
    let (Some(sides), Some(mut padding)) = (m.ints("p.pad"), own) else { return Ok(None) };
    if padding.len() == 1 {
        padding = vec![padding[0]; rank];
    }
    // A pair for each axis, the last one first; calls that are wrong stay as they are.
    let (pairs, []) = sides.as_chunks::<2>() else { return Ok(None) };
    let (own, others) = pairs.split_at(pairs.len().min(rank));
    let is_padding = own.iter().all(|[before, after]| before == after && *before >= 0)
        && others.iter().all(|pair| *pair == [0, 0]);
    if !is_zero || !m.is_float("x") || m.rank("x") != Some(rank + 2) || !is_padding || padding.len() != rank {
        return Ok(None);
    }
    for (padding, [side, _]) in padding.iter_mut().rev().zip(own) {
        match padding.checked_add(*side) {
            Some(sum) => *padding = sum,
            None => return Ok(None),
        }
    }
    let or = |name: &str, default: Arg<Tensor>| match part(name) {
        None => Some(default),
        Some(arg) => arg.try_flat_map(&mut |_| fx_core::bail!(Argument, "it is no number")).ok(),
    };
    let (Some(stride), Some(dilation), Some(groups)) =
        (or("stride", Arg::ints([1])), or("dilation", Arg::ints([1])), or("groups", Arg::Int(1)))
    else {
        return Ok(None);
    };
    let convolve = move |x: &Tensor, w: &Tensor, bias: Arg<Tensor>| -> Tensor {
        let args = [x.into(), w.into(), bias, stride.clone(), Arg::ints(padding.iter().copied())];
        let options = [("dilation", dilation.clone()), ("groups", groups.clone())];
        fx_core::trace::apply_with(op, false, args, &options)
    };
    match has_bias {
        true => symbolic_trace(move |x: &Tensor, w: &Tensor, b: &Tensor| convolve(x, w, b.into())),
        false => symbolic_trace(move |x: &Tensor, w: &Tensor| convolve(x, w, Arg::None)),
    }
    .map(Some)
}

/// Heads each of which is repeated some times; the names of its parts begin with `name`.
fn repeated(x: &Tensor, name: &str) -> Tensor {
    let part = |i: usize| format!("{name}{i}");
    let split = expand(unsqueeze(x, integer(&part(3))), [0]);
    let joined = capture(reshape(capture(split, part(1)), [0]), part(2));
    let interleaved: Tensor = call!(repeat_interleave(x, integer(&part(4)), integer(&part(5))));
    any_of([joined, capture(interleaved, part(6))])
}

/// Returns whether keys and values are repeated head by head, to as many as the queries have.
fn are_repeated(m: &Match<'_>) -> bool {
    let is_repeated = |of: &str, name: &str| -> Option<bool> {
        let part = |i: usize| format!("{name}{i}");
        let (ty, q) = (m.ty(of)?, m.ty("x")?);
        let heads = ty.rank().checked_sub(3)?;
        let whole = match m.ty(&part(6)) {
            Some(whole) if m.axis(&part(5), of) == Some(heads) => whole,
            Some(_) => return None,
            None => {
                let (split, whole) = (m.ty(&part(1))?, m.ty(&part(2))?);
                // A new axis after that of the heads is the only one that grows.
                let at = fx_core::ops::axis(m.int(&part(3))?, ty.rank() + 1).ok()?;
                let kept = split.shape.iter().enumerate().filter(|(axis, _)| *axis != heads + 1);
                if at != heads + 1
                    || split.rank() != ty.rank() + 1
                    || !kept.map(|(_, dim)| dim).eq(ty.shape.iter())
                {
                    return None;
                }
                whole
            }
        };
        let beside = |axis: usize| axis == heads || whole.shape[axis] == ty.shape[axis];
        let all = (q.rank() == ty.rank() && whole.rank() == ty.rank()) && (0..ty.rank()).all(beside);
        let (own, repeated) = (ty.shape[heads].known()?, whole.shape[heads].known()?);
        Some(all && own > 0 && repeated % own == 0 && q.shape[heads].known() == Some(repeated))
    };
    let heads = |of: &str| m.ty(of).and_then(|ty| ty.shape.get(ty.rank().wrapping_sub(3))).cloned();
    is_repeated("y", "k") == Some(true) && is_repeated("z", "v") == Some(true) && heads("y") == heads("z")
}

fn grouped(m: &Match<'_>, masked: bool) -> Result<Option<GraphModule>> {
    let Some(is_causal) = flag(m, "a.is_causal") else { return Ok(None) };
    let safe_softmax = flag(m, "a.safe_softmax").unwrap_or(true);
    let scale = match m.arg("a.scale") {
        None | Some(Arg::None) => None,
        Some(_) => match m.number("a.scale") {
            Some(scale) => Some(scale),
            None => return Ok(None),
        },
    };
    let attend = move |q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>| -> Tensor {
        call!(scaled_dot_product_attention(
            q,
            k,
            v,
            mask,
            0.0,
            is_causal,
            scale = scale,
            enable_gqa = true,
            safe_softmax = safe_softmax
        ))
    };
    match masked {
        true => symbolic_trace(move |q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor| {
            attend(q, k, v, Some(mask))
        }),
        false => symbolic_trace(move |q: &Tensor, k: &Tensor, v: &Tensor| attend(q, k, v, None)),
    }
    .map(Some)
}

/// Returns whether `x` is not of halves, which round what each part gives.
pub(super) fn is_wide(m: &Match<'_>) -> bool {
    m.dtype("x").is_some_and(|dtype| !matches!(dtype, DType::F16 | DType::BF16))
}

/// Returns the product of the factors `a` and `b`, if the result with it is finite, and not zero, where that of
/// one after the other is: both enlarge or both diminish, and the product is a normal number.
fn joined(m: &Match<'_>) -> Option<f64> {
    let (a, b) = m.number("a").zip(m.number("b"))?;
    let product = a * b;
    let is_normal = match m.dtype("x")? {
        DType::F32 => (product as f32).is_normal(),
        _ => product.is_normal(),
    };
    let same = (a.abs() >= 1.0 && b.abs() >= 1.0) || (a.abs() <= 1.0 && b.abs() <= 1.0);
    (is_normal && same).then_some(product)
}

/// Returns whether what softplus leaves out above its threshold, 2e-9, is below the rounding unit.
pub(super) fn is_coarse(m: &Match<'_>) -> bool {
    m.is_float("x") && is_wide(m) && m.dtype("x") != Some(DType::F64)
}

/// `softplus` with its defaults.
pub(super) fn plain_softplus(x: &Tensor) -> Tensor {
    call!(softplus(x))
}

fn sloped(x: &Tensor, slope: f64) -> Tensor {
    call!(leaky_relu(x, negative_slope = slope))
}

fn product(a: impl AsRef<Tensor>, b: &Tensor) -> Tensor {
    let a = a.as_ref();
    any_of([matmul(a, b), bmm(a, b)])
}

/// The scaled products of queries and keys.
fn scores(q: &Tensor, k: &Tensor) -> Tensor {
    let kt = any_of([transpose(k, integer("i"), integer("j")), mT(k), capture(permute(k, [0]), "t")]);
    any_of([
        product(q, &kt) * number("mul"),
        product(q, &kt) / number("div"),
        product(q * number("mul_q"), &kt),
        product(q / number("div_q"), &kt),
        product(q, &kt),
    ])
}

fn are_heads(m: &Match<'_>) -> bool {
    let Some(rank) = m.rank("x").filter(|rank| *rank >= 3 && is_wide(m)) else { return false };
    let transposed = [m.axis("i", "y"), m.axis("j", "y")];
    let is_last = |axis: Option<usize>| axis == Some(rank - 1);
    m.rank("y") == Some(rank)
        && m.rank("z") == Some(rank)
        && is_last(m.axis("d", "x"))
        && (m.int("i").is_none()
            || transposed.iter().any(|axis| is_last(*axis)) && transposed.contains(&Some(rank - 2)))
}

fn attended(m: &Match<'_>, masked: bool) -> Result<Option<GraphModule>> {
    let scale = m.number("mul").or_else(|| m.number("div").map(|x| 1.0 / x)).unwrap_or(1.0);
    if !(scale as f32).is_normal() {
        return Ok(None);
    }
    // Queries that are scaled before are still, for their products with keys may be too large.
    let (factor, divisor) = (m.number("mul_q"), m.number("div_q"));
    // The order of axes that brings keys where queries are.
    let order = match m.arg("t.dims") {
        None => None,
        Some(_) => match m.ints("t.dims") {
            Some(mut order) if order.len() >= 2 => {
                let rank = order.len();
                order.swap(rank - 2, rank - 1);
                Some(order)
            }
            _ => return Ok(None),
        },
    };
    let attend = move |q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>| -> Tensor {
        let turned = order.clone().map(|order| permute(k, order));
        let k = turned.as_ref().unwrap_or(k);
        let scaled = factor.map(|factor| q * factor).or_else(|| divisor.map(|divisor| q / divisor));
        let q = scaled.as_ref().unwrap_or(q);
        match mask {
            Some(mask) => {
                call!(scaled_dot_product_attention(q, k, v, mask, scale = scale, safe_softmax = false))
            }
            None => call!(scaled_dot_product_attention(q, k, v, scale = scale, safe_softmax = false)),
        }
    };
    match masked {
        true => symbolic_trace(move |q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor| {
            attend(q, k, v, Some(mask))
        }),
        false => symbolic_trace(move |q: &Tensor, k: &Tensor, v: &Tensor| attend(q, k, v, None)),
    }
    .map(Some)
}

pub(super) fn flag(m: &Match<'_>, name: &str) -> Option<bool> {
    match m.arg(name)? {
        Arg::Bool(x) => Some(*x),
        _ => None,
    }
}

fn is_last(m: &Match<'_>) -> bool {
    m.axis("d", "x").zip(m.rank("x")).is_some_and(|(axis, rank)| axis + 1 == rank)
}

/// A norm over the last axis, whose size is known.
fn last_axis(m: &Match<'_>, norm: fn(&Tensor, i64, f64) -> Tensor) -> Result<Option<GraphModule>> {
    let size = m.ty("x").and_then(|ty| ty.shape.last()?.known());
    let (Some(size), Some(eps)) = (size, m.number("eps")) else { return Ok(None) };
    symbolic_trace(move |x: &Tensor| norm(x, size, eps)).map(Some)
}

/// Returns whether a tensor can be the factors of a norm.
fn is_weight(m: &Match<'_>, weight: &str, norm: &str) -> bool {
    let shape = m.ints(&format!("{norm}.normalized_shape"));
    let sizes = m.sizes(weight).map(|sizes| sizes.into_iter().map(|size| size as i64).collect::<Vec<_>>());
    shape.is_some() && shape == sizes && m.dtype(weight) == m.dtype("x")
}
