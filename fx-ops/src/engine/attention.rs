//! Attention of a plan: heads read in place wherever they lie, keys and values in several parts, results in
//! the order in which they are used next.

use fx_core::math::Real;
use fx_core::pointwise::broadcast_shapes;
use fx_core::{DType, Element};
use fx_simd::parallel;
use smallvec::SmallVec;

use super::kernel::{Kernel, PRODUCT_FLOPS};
use super::operand::{Bases, Operand, ValueId};
use crate::kernel::attention::{BLOCK, Head, Mask, Part};
use crate::kernel::gemm::GemmElement;

/// What a call of attention says besides its operands.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) is_causal: bool,
    pub(crate) scale: Option<f64>,
    pub(crate) grouped: bool,
    pub(crate) safe_softmax: bool,
}

/// Where a head begins in each operand.
struct Start {
    q: usize,
    mask: usize,
    /// Keys and values of each part.
    parts: SmallVec<[(usize, usize); 2]>,
    out: usize,
}

/// Attention, for operands of one float dtype.
pub(crate) struct AttentionKernel<T> {
    head: Head,
    starts: Vec<Start>,
    q: Operand,
    parts: Vec<(Operand, Operand)>,
    mask: Option<Operand>,
    mask_strides: (usize, usize),
    out: ValueId,
    /// The distance of the results of a head.
    out_stride: usize,
    out_len: usize,
    element: std::marker::PhantomData<fn() -> T>,
}

/// Returns the strides of the last two axes.
fn tail(x: &Operand) -> Option<(usize, usize)> {
    let [.., rows, columns] = x.strides[..] else { return None };
    Some((rows as usize, columns as usize))
}

/// Returns the number of elements from the first to the last of a matrix.
fn extent(rows: usize, columns: usize, (rs, cs): (usize, usize)) -> usize {
    if rows == 0 || columns == 0 { 0 } else { (rows - 1) * rs + (columns - 1) * cs + 1 }
}

impl<T: GemmElement + Real + Element> AttentionKernel<T> {
    /// Makes the kernel for operands whose shapes the rule of the operation takes. The result, of shape
    /// `[.., heads, queries, values]`, lies as `out` says.
    pub(crate) fn new(
        q: &Operand,
        parts: &[(Operand, Operand)],
        mask: Option<&Operand>,
        options: Options,
        out: &Operand,
    ) -> Option<Self> {
        let rank = out.shape.len();
        let (batch, queries, values) = (&out.shape[..rank - 2], out.shape[rank - 2], out.shape[rank - 1]);
        let n_heads: usize = batch.iter().product();
        let depth = *q.shape.last()?;
        let keys = parts.iter().map(|(k, _)| k.shape[k.shape.len() - 2]).sum();
        // The places of the heads of an operand; heads that share a key head read the same.
        let places = |x: &Operand, shared: bool| -> Option<Vec<usize>> {
            let n = x.shape.len() - 2;
            let heads = Operand { shape: x.shape[..n].into(), strides: x.strides[..n].into(), ..x.clone() };
            let repeat = match (options.grouped && shared, batch.last(), heads.shape.last()) {
                (true, Some(&all), Some(&own)) => all / own.max(1),
                _ => 1,
            };
            let mut shape = batch.to_vec();
            if let Some(last) = shape.last_mut() {
                *last /= repeat.max(1);
            }
            let walk = heads.walk(&shape).ok()?;
            Some((0..n_heads).map(|i| walk.locate(i / repeat.max(1)).0).collect())
        };
        let q_at = places(q, false)?;
        let parts_at: Vec<(Vec<usize>, Vec<usize>)> =
            parts.iter().map(|(k, v)| Some((places(k, true)?, places(v, true)?))).collect::<Option<_>>()?;
        let out_at = places(out, false)?;
        let (mask_at, mask_strides) = match mask {
            None => (vec![0; n_heads], (0, 0)),
            Some(mask) => {
                let scores = [batch, &[queries, keys]].concat();
                let shape = broadcast_shapes([&mask.shape[..], &scores].into_iter()).ok()?;
                if shape[..] != scores[..] {
                    return None;
                }
                let missing = scores.len() - mask.shape.len();
                let stride = |axis: usize| match axis.checked_sub(missing) {
                    Some(axis) if mask.shape[axis] != 1 => mask.strides[axis],
                    _ => 0,
                };
                let all: SmallVec<[isize; 6]> = (0..scores.len()).map(stride).collect();
                let wide = Operand {
                    shape: batch.into(),
                    strides: all[..batch.len()].iter().copied().collect(),
                    ..mask.clone()
                };
                let walk = wide.walk(batch).ok()?;
                let n = batch.len();
                ((0..n_heads).map(|i| walk.locate(i).0).collect(), (all[n] as usize, all[n + 1] as usize))
            }
        };
        let starts = (0..n_heads).map(|i| Start {
            q: q_at[i],
            mask: mask_at[i],
            parts: parts_at.iter().map(|(k, v)| (k[i], v[i])).collect(),
            out: out_at[i],
        });
        let (out_stride, 1) = tail(out)? else { return None };
        let head = Head {
            queries,
            keys,
            depth,
            values,
            q_strides: tail(q)?,
            scale: options.scale.unwrap_or(1.0 / (depth as f64).sqrt()),
            is_causal: options.is_causal,
            safe_softmax: options.safe_softmax,
            factor: 1.0,
        };
        Some(AttentionKernel {
            head,
            starts: starts.collect(),
            q: q.clone(),
            parts: parts.to_vec(),
            mask: mask.cloned(),
            mask_strides,
            out: out.value,
            out_stride,
            out_len: out.numel(),
            element: std::marker::PhantomData,
        })
    }
}

/// The multiply-adds from which a second thread pays.
const GRAIN: usize = 1 << 19;

impl<T: GemmElement + Real + Element> Kernel for AttentionKernel<T> {
    unsafe fn run(&self, bases: Bases<'_>) {
        let head = &self.head;
        if self.out_len == 0 {
            return;
        }
        // SAFETY: the plan gives this kernel its operands, of which a head has these extents.
        let slice = |x: &Operand, at: usize, rows: usize, columns: usize| unsafe {
            let len = extent(rows, columns, tail(x).unwrap_or((0, 0)));
            std::slice::from_raw_parts(bases.at::<T>(x.value, x.offset + at).cast_const(), len)
        };
        let blocks = head.queries.div_ceil(BLOCK);
        let run = |task: usize| {
            let (start, first) = (&self.starts[task / blocks], task % blocks * BLOCK);
            let q = slice(&self.q, start.q, head.queries, head.depth);
            let parts: SmallVec<[Part<'_, T>; 2]> = self
                .parts
                .iter()
                .zip(&start.parts)
                .map(|((k, v), &(k_at, v_at))| {
                    let len = k.shape[k.shape.len() - 2];
                    Part {
                        keys: (slice(k, k_at, len, head.depth), tail(k).unwrap_or((0, 0))),
                        values: (slice(v, v_at, len, head.values), tail(v).unwrap_or((0, 0))),
                        len,
                    }
                })
                .collect();
            let count = BLOCK.min(head.queries - first);
            // SAFETY: the mask has these extents.
            let mask = unsafe {
                let len = extent(head.queries, head.keys, self.mask_strides);
                match &self.mask {
                    None => Mask::None,
                    Some(mask) if mask.dtype == DType::Bool => {
                        let from = bases.at::<bool>(mask.value, mask.offset + start.mask);
                        Mask::Keep(std::slice::from_raw_parts(from.cast_const(), len), self.mask_strides)
                    }
                    Some(mask) => {
                        let from = bases.at::<T>(mask.value, mask.offset + start.mask);
                        Mask::Add(std::slice::from_raw_parts(from.cast_const(), len), self.mask_strides)
                    }
                }
            };
            let width = head.values;
            // SAFETY: the rows of the result are this task's alone, though those of other heads may lie
            // between them.
            let row = |i: usize, n: usize| unsafe {
                let at = start.out + (first + i) * self.out_stride;
                std::slice::from_raw_parts_mut(bases.at::<T>(self.out, at), n)
            };
            if self.out_stride == width || count == 1 {
                return head.block(first, q, &parts, mask, None, row(0, count * width));
            }
            T::with_scratch(count * width, |out| {
                head.block(first, q, &parts, mask, None, out);
                out.chunks(width.max(1)).enumerate().for_each(|(i, out)| row(i, width).copy_from_slice(out));
            });
        };
        let n = self.starts.len() * blocks;
        let work = BLOCK.min(head.queries) * head.keys * (head.depth + head.values);
        if n.saturating_mul(work) <= GRAIN {
            (0..n).for_each(run);
        } else {
            parallel::each(n, run);
        }
    }

    fn reads(&self) -> Vec<ValueId> {
        let parts = self.parts.iter().flat_map(|(k, v)| [k.value, v.value]);
        [self.q.value].into_iter().chain(parts).chain(self.mask.as_ref().map(|mask| mask.value)).collect()
    }

    fn flops(&self) -> f64 {
        PRODUCT_FLOPS
    }

    fn describe(&self) -> String {
        let Head { queries, keys, depth, .. } = self.head;
        format!("attention of {} heads, {queries} queries of {depth}, {keys} keys", self.starts.len())
    }
}
