//! Convolution as a matrix product whose right operand is packed right out of the input.

use std::ops::Range;

use fx_simd::parallel;

use super::super::gemm::{GemmElement, Left, MANY, Output, Product, Right, Tile};
use super::Geometry;

/// Neighbouring elements under the windows of neighbouring output positions, for one element of the kernel
/// and every channel.
struct Piece {
    /// Where they go in the rows of a channel.
    to: usize,
    /// Where they are in the input of a channel.
    from: usize,
    len: usize,
}

/// How the rows of an input lie when they are unfolded: every row cut into `parts`, each with those elements
/// that are as many apart.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    parts: usize,
    /// The elements of a part.
    len: usize,
}

/// The elements of rows that a task cuts.
const CUT_AT_ONCE: usize = 1 << 14;

impl Geometry {
    /// Returns how rows are cut, so that what neighbouring windows read lies side by side.
    fn rows(&self) -> Rows {
        let (width, stride) = (self.input[2], self.stride[2]);
        // It pays if elements are read more than once.
        let pays = self.kernel_size() >= 2 * self.stride.iter().product::<usize>();
        let parts = if pays { stride.clamp(1, width.max(1)) } else { 1 };
        Rows { parts, len: width.div_ceil(parts) }
    }

    /// Calls `f` with channels of the input, of which the rows were cut.
    pub(super) fn with_rows<T: GemmElement, R>(&self, x: &[T], f: impl FnOnce(&[T], Rows) -> R) -> R {
        let rows = self.rows();
        if rows.parts == 1 {
            return f(x, rows);
        }
        let (width, cut) = (self.input[2], rows.parts * rows.len);
        T::with_scratch(x.len() / width.max(1) * cut, |out| {
            parallel::chunks(out, cut, CUT_AT_ONCE.div_ceil(cut), |i, out| {
                fx_simd::call::<cut_row, _>((&x[i * width..][..width], rows, out));
            });
            f(out, rows)
        })
    }

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
        let n_images = out.len() / (self.groups * self.c_out * size);
        let slivers = |columns: usize| columns.div_ceil(tile.cols);
        // Images share slivers if that saves a tenth of the work, and it is much beside moving the result.
        let joins = slivers(n_images * size) * 10 <= slivers(size) * n_images * 9 && depth >= 64;
        let product = if joins { Product { n: n_images * size, shared: true, ..product } } else { product };
        let weights: Vec<&[T]> = weight.chunks(self.c_out * depth).collect();
        let len = if product.packs_left((depth, 1)) { product.left_len() } else { 0 };
        T::with_scratch(len * self.groups, |packed| {
            if len > 0 {
                for (weight, packed) in weights.iter().zip(packed.chunks_mut(len)) {
                    product.pack_left(weight, (depth, 1), packed);
                }
            }
            let packed: Vec<&[T]> = packed.chunks(len.max(1)).collect();
            if joins {
                self.joined(&product, x, &weights, &packed, bias, out);
            } else {
                self.images(&product, x, &weights, &packed, bias, out);
            }
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
            let left = match packed.get(group) {
                Some(packed) => Left::Packed(packed),
                None => Left::Strided(weights[group], (depth, 1)),
            };
            if depth == 0 {
                return if bias.is_none() {
                    out.fill(T::zero())
                };
            }
            self.with_rows(x, |x, rows| {
                let columns = |first: usize, sliver: &mut [T]| {
                    let range = first..(first + cols).min(size);
                    fx_simd::call::<columns, _>((self, x, rows, range, (cols, 0), sliver));
                };
                // SAFETY: the rows and columns of the output are those of a matrix that lies in the slice.
                unsafe { product.run(&left, &Right::Columns(&columns), &Output::new(out, (size, 1))) };
            });
        });
    }

    /// Computes the output of all images in one product a group, and moves it to its place.
    fn joined<T: GemmElement>(
        &self,
        product: &Product<T>,
        x: &[T],
        weights: &[&[T]],
        packed: &[&[T]],
        bias: Option<&[T]>,
        out: &mut [T],
    ) {
        let (size, n, cols) = (self.out_size(), product.n, product.tile.cols);
        let product = Product { beta: T::zero(), ..*product };
        self.with_rows(x, |x, rows| {
            let image = x.len() / (n / size * self.groups);
            T::with_scratch(self.c_out * n, |joined| {
                for group in 0..self.groups {
                    let left = match packed.get(group) {
                        Some(packed) => Left::Packed(packed),
                        None => Left::Strided(weights[group], (product.k, 1)),
                    };
                    let columns = |first: usize, sliver: &mut [T]| {
                        let (mut at, end) = (0, cols.min(n - first));
                        while at < end {
                            let (i, start) = ((first + at) / size, (first + at) % size);
                            let range = start..size.min(start + end - at);
                            let (x, to) = (&x[(i * self.groups + group) * image..][..image], (cols, at));
                            at += range.len();
                            fx_simd::call::<columns, _>((self, x, rows, range, to, &mut *sliver));
                        }
                    };
                    // SAFETY: the rows and columns of the output are those of a matrix that lies in the slice.
                    unsafe { product.run(&left, &Right::Columns(&columns), &Output::new(joined, (n, 1))) };
                    for (i, out) in
                        out.chunks_mut(self.c_out * size).enumerate().skip(group).step_by(self.groups)
                    {
                        let from = joined.chunks(n).map(|row| &row[i / self.groups * size..][..size]);
                        for (channel, (out, from)) in out.chunks_mut(size).zip(from).enumerate() {
                            let bias = bias.map_or(T::zero(), |bias| bias[group * self.c_out + channel]);
                            out.iter_mut().zip(from).for_each(|(out, &x)| *out = x + bias);
                        }
                    }
                }
            });
        });
    }
}

fx_simd::wide! {
    /// Writes the input elements under each window of `range` into columns of `out` from one on, whose rows
    /// have `width` elements. If that is the first one, all others become zero.
    pub(super) fn columns[T: GemmElement](
        (geometry, x, lines, range, (width, column), out): (
            &Geometry, &[T], Rows, Range<usize>, (usize, usize), &mut [T]
        )
    ) {
        if column == 0 {
            out.fill(T::zero());
        }
        let Rows { parts, len } = lines;
        let mut pieces = Vec::with_capacity(2 * geometry.kernel_size());
        geometry.taps(|tap, [td, th, tw]| {
            Geometry::pieces(range.clone(), geometry.output, |at, [od, oh], piece| {
                let (Some(d), Some(h)) = (geometry.source(0, od, td), geometry.source(1, oh, th)) else { return };
                let inside = geometry.inside(tw, piece.clone());
                if inside.is_empty() {
                    return;
                }
                let first = inside.start * geometry.stride[2] + tw * geometry.dilation[2] - geometry.padding[2];
                pieces.push(Piece {
                    to: tap * width + column + at + inside.start - piece.start,
                    from: (d * geometry.input[1] + h) * parts * len + first % parts * len + first / parts,
                    len: inside.len(),
                });
            });
        });
        let rows = geometry.kernel_size() * width;
        let channel = geometry.input[0] * geometry.input[1] * parts * len;
        for (x, out) in x.chunks(channel.max(1)).zip(out.chunks_mut(rows)) {
            for piece in &pieces {
                let out = &mut out[piece.to..][..piece.len];
                match geometry.stride[2] / parts {
                    1 => copy_short(&x[piece.from..][..piece.len], out),
                    stride => copy_apart(&x[piece.from..], stride, out),
                }
            }
        }
    }

    /// Writes those elements of a row that are as many apart as it has parts, one part after the other.
    fn cut_row[T: GemmElement]((x, rows, out): (&[T], Rows, &mut [T])) {
        for (part, out) in out.chunks_mut(rows.len.max(1)).enumerate() {
            let x = x.get(part..).unwrap_or_default();
            let n = x.len().div_ceil(rows.parts);
            copy_apart(x, rows.parts, &mut out[..n]);
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

/// Copies elements that are `step` apart.
#[inline(always)]
fn copy_apart<T: Copy>(from: &[T], step: usize, to: &mut [T]) {
    if step != 2 {
        return to.iter_mut().zip(from.iter().step_by(step)).for_each(|(to, &from)| *to = from);
    }
    let (pairs, rest) = from.as_chunks::<2>();
    let (n, last) = (to.len().min(pairs.len()), rest.first());
    for (to, from) in to[..n].iter_mut().zip(pairs) {
        *to = from[0];
    }
    if let (Some(to), Some(&from)) = (to.get_mut(n), last) {
        *to = from;
    }
}
