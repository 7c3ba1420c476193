//! A convolution whose weights are packed once, and that says which parts of its result are complete.

use std::ops::Range;

use fx_base::{Result, bail};
use fx_simd::parallel;

use super::super::gemm::{Done, GemmElement, Left, MANY, Output, Product, Right, TileEpilogue, pack};
use super::{ConvSpec, Geometry, conv_nd, plane, tiled};

/// How a convolution is computed.
enum Algorithm<T: 'static> {
    /// As matrix products, a packed weight for each group.
    Product { product: Product<T>, weights: Vec<Vec<T>> },
    /// A plane for each channel, with the kernels.
    Depthwise(Vec<T>),
    /// As [`conv_nd`] does, with the weights.
    Plain(Vec<T>),
}

/// A convolution for inputs of one shape.
pub struct Prepared<T: 'static> {
    spec: ConvSpec,
    geometry: Geometry,
    x_shape: Vec<usize>,
    weight_shape: Vec<usize>,
    out_len: usize,
    way: Algorithm<T>,
}

impl<T: GemmElement> Prepared<T> {
    /// Prepares a convolution that is not transposed.
    ///
    /// Fails when shapes do not fit together or to the length of the weight.
    pub fn new(spec: &ConvSpec, x_shape: &[usize], weight: &[T], weight_shape: &[usize]) -> Result<Self> {
        if spec.transposed || weight.len() != weight_shape.iter().product::<usize>() {
            bail!(Shape, "a weight of {} elements is not {weight_shape:?}", weight.len());
        }
        let geometry = Geometry::new(spec, x_shape, weight_shape)?;
        let out_len = spec.output_shape(x_shape, weight_shape)?.iter().product();
        let (depth, size) = (geometry.c_in * geometry.kernel_size(), geometry.out_size());
        let way = match T::tile() {
            _ if geometry.c_in == 1 && geometry.groups > 1 => Algorithm::Depthwise(weight.to_vec()),
            Some(tile) if depth > 0 && size > 0 => {
                let shared = out_len / (geometry.c_out * size).max(1) < MANY;
                let (alpha, beta) = (T::one(), T::zero());
                let m = geometry.c_out;
                let product = Product { tile, m, k: depth, n: size, alpha, beta, shared, wide_parts: true };
                let packed = |weight: &[T]| {
                    let mut packed = fx_simd::in_huge_pages(vec![T::zero(); product.left_len()]);
                    product.pack_left(weight, (depth, 1), &mut packed);
                    packed
                };
                let weights = weight.chunks((geometry.c_out * depth).max(1)).map(packed).collect();
                Algorithm::Product { product, weights }
            }
            _ => Algorithm::Plain(weight.to_vec()),
        };
        let (x_shape, weight_shape) = (x_shape.to_vec(), weight_shape.to_vec());
        Ok(Prepared { spec: spec.clone(), geometry, x_shape, weight_shape, out_len, way })
    }

    /// Stores the convolution of `x` in `out`, and calls `done` with each part that is complete, on the
    /// thread that has written it: a range of channels, counted through all images, and the positions in each
    /// of them.
    ///
    /// # Panics
    ///
    /// When a slice has not the length of its shape.
    pub fn run(&self, x: &[T], out: &mut [T], done: &Done<'_>) {
        assert_eq!(x.len(), self.x_shape.iter().product::<usize>(), "the input has its shape");
        assert_eq!(out.len(), self.out_len, "the result has its shape");
        if out.is_empty() {
            return;
        }
        let geometry = &self.geometry;
        let (in_size, size) = (geometry.in_size(), geometry.out_size());
        match &self.way {
            Algorithm::Depthwise(weight) => {
                let kernel = geometry.kernel_size();
                let channels = geometry.groups * geometry.c_out;
                let at_once = (1usize << 14).div_ceil(size.saturating_mul(kernel));
                parallel::chunks(out, size, at_once, |i, out| {
                    let (batch, channel) = (i / channels, i % channels);
                    let x = &x[(batch * geometry.groups + channel / geometry.c_out) * in_size..][..in_size];
                    let weight = &weight[channel * kernel..][..kernel];
                    fx_simd::call::<plane, _>((geometry, x, weight, T::zero(), out));
                    done(i..i + 1, 0..size);
                });
            }
            Algorithm::Product { product, weights } => {
                parallel::chunks(out, geometry.c_out * size, 1, |i, out| {
                    let x = &x[i * geometry.c_in * in_size..][..geometry.c_in * in_size];
                    let left = Left::Packed(&weights[i % geometry.groups]);
                    let first = i * geometry.c_out;
                    let then = |rows: Range<usize>, columns: Range<usize>| {
                        done(first + rows.start..first + rows.end, columns);
                    };
                    let (tile, out) = (product.tile, Output::new(out, (size, 1)));
                    // SAFETY: the rows and columns of the output are those of a matrix that lies in the slice.
                    let run = |right: &Right<'_, T>| unsafe {
                        product.run_then(&left, right, &out, TileEpilogue::NONE, &then)
                    };
                    if !geometry.is_pointwise() {
                        geometry.with_rows(x, |x, rows| {
                            run(&Right::Columns(&|from, sliver| {
                                let range = from..(from + tile.cols).min(size);
                                let to = (tile.cols, 0);
                                fx_simd::call::<tiled::columns, _>((geometry, x, rows, range, to, sliver));
                            }));
                        });
                    } else if geometry.c_out <= 2 * tile.rows {
                        run(&Right::Rows(x, size));
                    } else {
                        run(&Right::Columns(&|from, sliver| {
                            pack(&x[from..], (1, size), tile.cols.min(size - from), tile.cols, sliver);
                        }));
                    }
                });
            }
            Algorithm::Plain(weight) => {
                let result = conv_nd(&self.spec, x, &self.x_shape, weight, &self.weight_shape, None, out);
                assert!(result.is_ok(), "the shapes were checked when it was prepared");
                let rows = self.out_len / size;
                parallel::each(rows, |row| done(row..row + 1, 0..size));
            }
        }
    }

    /// Says what it is, in a few words.
    pub fn describe(&self) -> String {
        let way = match self.way {
            Algorithm::Product { .. } => "packed weights",
            Algorithm::Depthwise(_) => "depthwise",
            Algorithm::Plain(_) => "plain",
        };
        format!("convolution {:?} by {:?}, {way}", self.x_shape, self.weight_shape)
    }
}
