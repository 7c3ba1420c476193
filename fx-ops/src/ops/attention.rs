//! Scaled dot-product attention as one kernel, which never holds all scores at once.

use fx_core::array::{StridedIndex, Strides, checked_numel};
use fx_core::op::Flops::Rule;
use fx_core::pointwise::{broadcast_dims, broadcast_shapes};
use fx_core::{Array, DType, Dim, Op, Result, Shape, TensorType, bail, err, kernels};
use fx_simd::parallel;

use crate::kernel::attention::{BLOCK, Head, Mask, Part};
use crate::ops::check::{
    float_only, in_float, opt_type_of, same_dtype, same_size, sizes, type_of, wide, zeroed,
};
use crate::ops::flops;
use crate::ops::random::kept;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[ATTENTION];

kernels! {
    /// Attention.
    pub trait Attention; pub static ATTENTION;

    /// `softmax(x @ key.T * scale + mask) @ value` for queries `x: [.., l, e]`, `key: [.., s, e]`,
    /// `value: [.., s, d]`.
    ///
    /// Leading axes broadcast. `scale` is `1 / sqrt(e)` if nothing is given. A mask broadcasts to
    /// `[.., l, s]`: bools say what takes part, floats are added. `is_causal` lets query `i` see keys up to
    /// `i`. A query that sees no key gives zeros, but NaN without `safe_softmax`, as `softmax` does; a mask
    /// hides no NaN. With `enable_gqa` each key head (axis -3) serves as many query heads as there are per key
    /// head. `dropout_p` must be 0: [`scaled_dot_product_attention_dropout`] drops.
    #[flops = Rule(flops::attention)]
    scaled_dot_product_attention(x: Tensor, key: Tensor, value: Tensor, attn_mask: OptTensor = None,
        dropout_p: Float = 0.0, is_causal: Bool = false; scale: OptFloat = None, enable_gqa: Bool = false,
        safe_softmax: Bool = true)
        = pure_type, pure_kernel;
    /// As [`scaled_dot_product_attention`], but sets each weight that a query gives to a key to zero with
    /// probability `dropout_p` and scales the others by `1 / (1 - dropout_p)`.
    #[effects = RANDOM]
    #[flops = Rule(flops::attention)]
    scaled_dot_product_attention_dropout(x: Tensor, key: Tensor, value: Tensor, attn_mask: OptTensor = None,
        dropout_p: Float = 0.0, is_causal: Bool = false; scale: OptFloat = None, enable_gqa: Bool = false)
        = attention_type, attention_kernel;
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn pure_type(
    query: &TensorType,
    key: &TensorType,
    value: &TensorType,
    mask: Option<&TensorType>,
    dropout_p: Option<f64>,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
    _safe_softmax: bool,
) -> Result<TensorType> {
    no_dropout(dropout_p)?;
    attention_type(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa)
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn pure_kernel(
    query: &Array,
    key: &Array,
    value: &Array,
    mask: Option<&Array>,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
    safe_softmax: bool,
) -> Result<Array> {
    no_dropout(Some(dropout_p))?;
    attend(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa, safe_softmax)
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn attention_kernel(
    query: &Array,
    key: &Array,
    value: &Array,
    mask: Option<&Array>,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
) -> Result<Array> {
    attend(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa, true)
}

/// Refuses dropout where no random number may be drawn.
fn no_dropout(p: Option<f64>) -> Result<()> {
    match p {
        Some(p) if p != 0.0 => Err(err!(Argument, "expected a dropout_p of 0, got {p}").help(
            "call `scaled_dot_product_attention_dropout`, which is random, or trace the model in eval mode",
        )),
        _ => Ok(()),
    }
}

/// Returns how many query heads share a key head, if that is known.
fn group(query: &TensorType, key: &TensorType, value: &TensorType) -> Result<Option<i64>> {
    let head = |ty: &TensorType| match ty.rank() {
        0..3 => Err(err!(Shape, "expected heads at axis -3 for enable_gqa, got {ty}")),
        rank => Ok(ty.shape[rank - 3].clone()),
    };
    let (heads, of_key, of_value) = (head(query)?, head(key)?, head(value)?);
    same_size("value heads:", &of_key, &of_value)?;
    let zero = Dim::new(0);
    let is_served = if of_key == zero { heads.same(&zero) } else { heads.modulo(&of_key).same(&zero) };
    if is_served.is_no() {
        bail!(Shape, "expected query heads in multiples of the {of_key} key heads, got {heads}");
    }
    Ok(heads
        .known()
        .zip(of_key.known())
        .filter(|&(_, of_key)| of_key > 0)
        .map(|(heads, of_key)| heads / of_key))
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn attention_type(
    query: &TensorType,
    key: &TensorType,
    value: &TensorType,
    mask: Option<&TensorType>,
    dropout_p: Option<f64>,
    is_causal: bool,
    _scale: Option<f64>,
    enable_gqa: bool,
) -> Result<TensorType> {
    float_only(query.dtype)?;
    same_dtype("a key", query.dtype, key.dtype)?;
    same_dtype("a value", query.dtype, value.dtype)?;
    if let Some(p) = dropout_p.filter(|p| !(0.0..=1.0).contains(p)) {
        bail!(Argument, "expected a dropout_p from 0 to 1, got {p}");
    }
    if is_causal && mask.is_some() {
        bail!(Argument, "expected either attn_mask or is_causal, got both");
    }
    let (
        [batch_q @ .., queries, depth],
        [batch_k @ .., keys, key_depth],
        [batch_v @ .., values, value_depth],
    ) = (&query.shape[..], &key.shape[..], &value.shape[..])
    else {
        bail!(Shape, "expected query, key and value of rank 2 or more, got {query}, {key} and {value}");
    };
    same_size("a key of depth", depth, key_depth)?;
    same_size("as many values as keys:", keys, values)?;
    let batch = if enable_gqa {
        let heads = batch_q.last().cloned();
        group(query, key, value)?;
        let outer = |dims: &[Dim]| dims[..dims.len() - 1].to_vec();
        let outer = [outer(batch_q), outer(batch_k), outer(batch_v)];
        broadcast_dims(outer.iter().map(|dims| &dims[..]))?.iter().cloned().chain(heads).collect()
    } else {
        broadcast_dims([batch_q, batch_k, batch_v].into_iter())?
    };
    if let Some(mask) = mask {
        if mask.dtype != DType::Bool {
            float_only(mask.dtype)?;
        }
        let one = Dim::new(1);
        let scores: Shape = batch.iter().chain([queries, keys]).collect();
        let pairs = || mask.shape.iter().rev().zip(scores.iter().rev());
        if mask.rank() > scores.len()
            || pairs().any(|(from, to)| from.same(&one).is_no() && from.same(to).is_no())
        {
            bail!(Shape, "expected an attn_mask that broadcasts to {scores}, got {}", mask.shape);
        }
    }
    Ok(TensorType::new(query.dtype, batch.iter().chain([queries, value_depth]).collect::<Shape>()))
}

/// Returns the elements of a mask from a head on; a mask for no keys has no elements.
fn head_of<T>(mask: &[T], start: usize) -> &[T] {
    mask.get(start..).unwrap_or_default()
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn attend(
    query: &Array,
    key: &Array,
    value: &Array,
    mask: Option<&Array>,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
    safe_softmax: bool,
) -> Result<Array> {
    let types = [type_of(query), type_of(key), type_of(value)];
    let mask_ty = opt_type_of(mask);
    let ty = attention_type(
        &types[0],
        &types[1],
        &types[2],
        mask_ty.as_ref(),
        Some(dropout_p),
        is_causal,
        scale,
        enable_gqa,
    )?;
    let dtype = query.dtype();
    let wide = wide(dtype);
    let shape = sizes(&ty.shape)?;
    let (batch, [queries, _]) = shape.split_at(shape.len() - 2) else {
        bail!(Shape, "expected a result of rank 2 or more, got {ty}");
    };
    if shape.contains(&0) {
        return Array::zeros(ty.dtype, &shape);
    }
    let queries = *queries;
    let depth = query.shape()[query.rank() - 1];
    let keys = key.shape()[key.rank() - 2];
    let repeat = if enable_gqa { group(&types[0], &types[1], &types[2])?.unwrap_or(1) as usize } else { 1 };
    // Repeated heads become an axis of their own, of stride 0.
    let mut walk = batch.to_vec();
    if enable_gqa && let Some(heads) = walk.pop() {
        walk.extend([heads / repeat.max(1), repeat]);
    }
    let strides = |x: &Array, repeated: bool| -> Result<(Array, Strides)> {
        let x = x.cast(wide);
        let rank = x.rank();
        let tail = [x.shape()[rank - 2], x.shape()[rank - 1]];
        let x = match enable_gqa {
            true if repeated => x.unsqueeze(rank - 2)?,
            true => {
                let mut shape = x.shape().to_vec();
                let heads = shape[rank - 3];
                shape.splice(rank - 3..rank - 2, [heads / repeat.max(1), repeat]);
                x.reshape(&shape)?
            }
            false => x,
        };
        let x = x.broadcast_to(&[&walk[..], &tail[..]].concat())?;
        let strides = x.strides().into();
        Ok((x, strides))
    };
    let ((q, qs), (k, ks), (v, vs)) = (strides(query, false)?, strides(key, true)?, strides(value, true)?);
    let mask = mask
        .map(|mask| {
            let mask = if mask.dtype() == DType::Bool { mask.clone() } else { mask.cast(wide) };
            let all = broadcast_shapes([mask.shape(), &[batch, &[queries, keys]].concat()].into_iter())?;
            mask.broadcast_to(&all)
        })
        .transpose()?;
    let n = walk.len();
    let starts: Vec<[usize; 3]> =
        StridedIndex::new(&walk, [(&qs[..n], 0), (&ks[..n], 0), (&vs[..n], 0)]).collect();
    let mask_starts: Vec<usize> = match &mask {
        Some(mask) => {
            StridedIndex::new(batch, [(&mask.strides()[..batch.len()], 0)]).map(|[at]| at).collect()
        }
        None => Vec::new(),
    };
    let stride = |strides: &[isize]| (strides[n] as usize, strides[n + 1] as usize);
    let head = Head {
        queries,
        keys,
        depth,
        values: shape[shape.len() - 1],
        q_strides: stride(&qs),
        scale: scale.unwrap_or(1.0 / (depth as f64).sqrt()),
        is_causal,
        safe_softmax,
        factor: if dropout_p < 1.0 { 1.0 / (1.0 - dropout_p) } else { 0.0 },
    };
    let mask_strides = mask.as_ref().map_or((0, 0), |mask| {
        let strides = &mask.strides()[batch.len()..];
        (strides[0] as usize, strides[1] as usize)
    });
    let kept = match dropout_p {
        0.0 => None,
        p => Some(kept(checked_numel(&[batch, &[queries, keys]].concat())?, p)?),
    };
    in_float!(wide, T => {
        let data = [q.data::<T>()?, k.data::<T>()?, v.data::<T>()?];
        let mask_at = |i: usize| -> Result<Mask<'_, T>> {
            Ok(match &mask {
                None => Mask::None,
                Some(mask) if mask.dtype() == DType::Bool => Mask::Keep(head_of(mask.data()?, mask_starts[i]), mask_strides),
                Some(mask) => Mask::Add(head_of(mask.data()?, mask_starts[i]), mask_strides),
            })
        };
        let mut out = zeroed::<T>(checked_numel(&shape)?)?;
        if !out.is_empty() {
            let width = head.values;
            // The blocks of a head follow each other, the last one may be shorter.
            let tasks: Vec<(usize, usize, &mut [T])> = out
                .chunks_mut(queries * width)
                .enumerate()
                .flat_map(|(i, out)| out.chunks_mut(BLOCK * width).enumerate().map(move |(block, out)| (i, block, out)))
                .collect();
            let run = |_, (i, block, out): (usize, usize, &mut [T])| {
                let [q, k, v] = [0, 1, 2].map(|j| data[j].get(starts[i][j]..).unwrap_or(&[]));
                let part = Part { keys: (k, stride(&ks)), values: (v, stride(&vs)), len: keys };
                let kept = kept.as_ref().map(|kept| &kept[i * queries * keys..][..queries * keys]);
                // A mask whose dtype was found above is of that dtype.
                let mask = mask_at(i).unwrap_or(Mask::None);
                head.block(block * BLOCK, q, &[part], mask, kept, out);
            };
            let work = BLOCK.saturating_mul(keys).saturating_mul(head.depth + width).max(1);
            if tasks.len().saturating_mul(work) <= 1 << 19 {
                tasks.into_iter().enumerate().for_each(|(i, task)| run(i, task));
            } else {
                parallel::items(tasks, run);
            }
        }
        Ok(Array::from_vec(out, &shape)?.cast(dtype))
    })
}
