//! Convolution as a matrix product whose right operand is packed right out of the input.

use std::ops::Range;

use fx_simd::parallel;

use super::super::gemm::{GemmElement, Left, MANY, Output, Product, Right, Tile};
use super::Geometry;

/// Neighbouring elements under the windows of neighbouring output positions, for one element of the kernel and every channel.
struct Piece {
    /// Where they go in the rows of a channel.
    to: usize,
    /// Where they are in the input of a channel.
    from: usize,
    len: usize,
}

impl Geometry {
    pub(super) fn tiled<T: GemmElement>(
        &self,
        tile: &'static Tile<T>,
        x: &[T],
        weight: &[T],
        bias: Option<&[T]>,
        out: &mut [T],
    ) {
        let (size, depth) = (self.out_size(), self.c_in * self.kernel_size());
        let beta = if bias.is_some() { T::one() } else { T::zero() };
        let shared = out.len() / (self.c_out * size) < MANY;
        let (m, alpha) = (self.c_out, T::one());
        let product = Product { tile, m, k: depth, n: size, alpha, beta, shared, wide_parts: false };
        if depth == 0 {
            return (0..).zip(out.chunks_mut(size)).for_each(|(channel, row): (usize, _)| {
                row.fill(bias.map_or(T::zero(), |bias| bias[channel % bias.len()]));
            });
        }
        let weights: Vec<&[T]> = weight.chunks(self.c_out * depth).collect();
        let len = if product.packs_left((depth, 1)) { product.left_len() } else { 0 };
        T::with_scratch(len * self.groups, |packed| {
            if len > 0 {
                for (weight, packed) in weights.iter().zip(packed.chunks_mut(len)) {
                    product.pack_left(weight, (depth, 1), packed);
                }
            }
            let packed: Vec<&[T]> = packed.chunks(len.max(1)).collect();
            self.images(&product, x, &weights, &packed, bias, out);
        });
    }

    /// Computes the output of each image and group.
    fn images<T: GemmElement>(
        &self,
        product: &Product<T>,
        x: &[T],
        weights: &[&[T]],
        packed: &[&[T]],
        bias: Option<&[T]>,
        out: &mut [T],
    ) {
        let (in_size, size, depth) = (self.in_size(), self.out_size(), product.k);
        let cols = product.tile.cols;
        parallel::chunks(out, self.c_out * size, 1, |i, out| {
            let group = i % self.groups;
            if let Some(bias) = bias {
                for (row, &b) in out.chunks_mut(size).zip(&bias[group * self.c_out..]) {
                    row.fill(b);
                }
            }
            let x = &x[i * self.c_in * in_size..][..self.c_in * in_size];
            let columns = |first: usize, sliver: &mut [T]| {
                fx_simd::call::<columns, _>((self, x, first..(first + cols).min(size), cols, sliver));
            };
            let left = match packed.get(group) {
                Some(packed) => Left::Packed(packed),
                None => Left::Strided(weights[group], (depth, 1)),
            };
            if depth == 0 {
                return if bias.is_none() {
                    out.fill(T::zero())
                };
            }
            // SAFETY: the rows and columns of the output are those of a matrix that lies in the slice.
            unsafe { product.run(&left, &Right::Columns(&columns), &Output::new(out, (size, 1))) };
        });
    }
}

fx_simd::wide! {
    /// Writes the input elements under each window of `range` into a column of `out`, whose rows have `width` elements.
    pub(super) fn columns[T: GemmElement](
        (geometry, x, range, width, out): (&Geometry, &[T], Range<usize>, usize, &mut [T])
    ) {
        out.fill(T::zero());
        let mut pieces = Vec::new();
        geometry.taps(|tap, [td, th, tw]| {
            Geometry::pieces(range.clone(), geometry.output, |at, [od, oh], piece| {
                let (Some(d), Some(h)) = (geometry.source(0, od, td), geometry.source(1, oh, th)) else { return };
                let inside = geometry.inside(tw, piece.clone());
                if inside.is_empty() {
                    return;
                }
                let first = inside.start * geometry.stride[2] + tw * geometry.dilation[2] - geometry.padding[2];
                pieces.push(Piece {
                    to: tap * width + at + inside.start - piece.start,
                    from: (d * geometry.input[1] + h) * geometry.input[2] + first,
                    len: inside.len(),
                });
            });
        });
        let rows = geometry.kernel_size() * width;
        for (x, out) in x.chunks(geometry.in_size().max(1)).zip(out.chunks_mut(rows)) {
            for piece in &pieces {
                let out = &mut out[piece.to..][..piece.len];
                match geometry.stride[2] {
                    1 => copy_short(&x[piece.from..][..piece.len], out),
                    2 => copy_second(&x[piece.from..], out),
                    stride => {
                        let x = x[piece.from..].iter().step_by(stride);
                        out.iter_mut().zip(x).for_each(|(y, &x)| *y = x);
                    }
                }
            }
        }
    }
}

/// Copies a few elements without a call.
#[inline(always)]
fn copy_short<T: Copy>(from: &[T], to: &mut [T]) {
    const RUN: usize = 8;
    let (from_runs, from_rest) = from.as_chunks::<RUN>();
    let (to_runs, to_rest) = to.as_chunks_mut::<RUN>();
    for (to, from) in to_runs.iter_mut().zip(from_runs) {
        *to = *from;
    }
    for (to, from) in to_rest.iter_mut().zip(from_rest) {
        *to = *from;
    }
}

/// Copies every second element.
#[inline(always)]
fn copy_second<T: Copy>(from: &[T], to: &mut [T]) {
    let (pairs, rest) = from.as_chunks::<2>();
    let (n, last) = (to.len().min(pairs.len()), rest.first());
    for (to, from) in to[..n].iter_mut().zip(pairs) {
        *to = from[0];
    }
    if let (Some(to), Some(&from)) = (to.get_mut(n), last) {
        *to = from;
    }
}
