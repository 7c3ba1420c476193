//! Matrix products of a plan: weights packed once, and what follows done to each part of the result while it
//! is in the cache.

use fx_core::Op;
use fx_core::math::Real;
use fx_simd::parallel;

use super::epilogue::Epilogue;
use super::kernel::{Kernel, PRODUCT_FLOPS};
use super::operand::{Bases, Operand, ValueId, Walk};
use super::packed_weights::Packed;
use super::tape::{EpilogueTape, Tape};
use crate::kernel::gemm::{GemmElement, Left, MANY, Output, Product, Right, Tile, gemm_by};
use crate::ops::linalg::linear;

/// The operands of a product, as matrices.
pub(crate) struct Matrices {
    pub(crate) a: Operand,
    pub(crate) b: Operand,
}

/// Returns the two operands of a product without a bias; the second of [`linear`] is still to be [turned](turned).
pub(crate) fn matrices(op: Op, operands: &[Operand]) -> Option<Matrices> {
    match operands {
        [a, b] if op != linear::OP || b.shape.len() == 2 => Some(Matrices { a: a.clone(), b: b.clone() }),
        _ => None,
    }
}

/// The places of the matrices of a batch.
struct Batch {
    n: usize,
    a: Walk,
    b: Walk,
}

/// A right operand.
pub(crate) enum Weights<T> {
    /// Packed for the tiles.
    Packed(Packed<Vec<T>>),
    /// As it is.
    Plain,
}

/// A product, or a batch of them.
pub(crate) struct ProductKernel<T: 'static> {
    tile: Option<&'static Tile<T>>,
    sizes: [usize; 3],
    batch: Batch,
    a: Operand,
    a_strides: (usize, usize),
    b: Operand,
    b_strides: (usize, usize),
    weights: Weights<T>,
    out: ValueId,
    /// Only where the right operand is packed.
    epilogue: Epilogue,
    epilogue_tape: EpilogueTape,
}

impl<T: GemmElement> ProductKernel<T> {
    /// Makes the kernel, whose result is row-major; `None` if the rows of `a` are not equally far apart.
    pub(crate) fn new(a: &Operand, b: &Operand, out: ValueId) -> Option<Self> {
        let (b_batch, [k, n]) = b.shape.split_last_chunk::<2>()?;
        let (k, n) = (*k, *n);
        let b_strides = (b.strides[b.shape.len() - 2] as usize, b.strides[b.shape.len() - 1] as usize);
        let (&columns, leading) = a.shape.split_last()?;
        if columns != k {
            return None;
        }
        let a_column = *a.strides.last()? as usize;
        let one = Walk { shape: Default::default(), strides: Default::default() };
        let (m, a_row, batch) = if b_batch.iter().all(|&size| size == 1) {
            let rows =
                Operand { shape: leading.into(), strides: a.strides[..leading.len()].into(), ..a.clone() };
            let walk = rows.walk(leading).ok()?;
            let row = match walk.shape.len() {
                0 => k,
                1 => walk.step(),
                _ => return None,
            };
            (leading.iter().product(), row, Batch { n: 1, a: one.clone(), b: one })
        } else {
            let (&m, a_batch) = leading.split_last()?;
            let shape = fx_core::pointwise::broadcast_shapes([a_batch, b_batch].into_iter()).ok()?;
            let part = |x: &Operand, n: usize| {
                Operand { shape: x.shape[..n].into(), strides: x.strides[..n].into(), ..x.clone() }
                    .walk(&shape)
                    .ok()
            };
            let batch =
                Batch { n: shape.iter().product(), a: part(a, a_batch.len())?, b: part(b, b_batch.len())? };
            (m, a.strides[leading.len() - 1] as usize, batch)
        };
        Some(ProductKernel {
            tile: T::tile(),
            sizes: [m, k, n],
            batch,
            a: a.clone(),
            a_strides: (a_row, a_column),
            b: b.clone(),
            b_strides,
            weights: Weights::Plain,
            out,
            epilogue: Epilogue::default(),
            epilogue_tape: EpilogueTape::default(),
        })
    }

    /// Returns the product for which the right operand can be packed, if that is a constant.
    pub(crate) fn packable(&self) -> Option<Product<T>> {
        let is_one = self.batch.n == 1 && self.sizes.iter().all(|&size| size > 0);
        self.tile.filter(|_| is_one).map(|tile| self.packed_product(tile))
    }

    /// Returns the elements of the result.
    pub(crate) fn numel(&self) -> usize {
        let [m, _, n] = self.sizes;
        self.batch.n * m * n
    }

    /// Returns the strides of the right operand.
    pub(crate) fn b_strides(&self) -> (usize, usize) {
        self.b_strides
    }

    /// Takes the right operand packed.
    pub(crate) fn set_packed(&mut self, packed: Packed<Vec<T>>) {
        self.weights = Weights::Packed(packed);
    }

    /// Returns the product by a packed right operand.
    fn packed_product(&self, tile: &'static Tile<T>) -> Product<T> {
        let [m, k, n] = self.sizes;
        let wide_parts = self.epilogue_tape.0.is_some();
        Product { tile, m, k, n, alpha: T::one(), beta: T::zero(), shared: true, wide_parts }
    }

    /// Notes what is done with the result; `None` if that cannot be done tile by tile.
    pub(crate) fn then(mut self, epilogue: Epilogue, epilogue_tape: EpilogueTape) -> Option<Self> {
        if matches!(self.weights, Weights::Plain) && !epilogue.is_empty() {
            return None;
        }
        (self.epilogue, self.epilogue_tape) = (epilogue, epilogue_tape);
        Some(self)
    }
}

/// Returns the number of elements from the first to the last of a matrix.
fn extent(rows: usize, cols: usize, (rs, cs): (usize, usize)) -> usize {
    if rows == 0 || cols == 0 { 0 } else { (rows - 1) * rs + (cols - 1) * cs + 1 }
}

impl<T: GemmElement + Real> Kernel for ProductKernel<T> {
    unsafe fn run(&self, bases: Bases<'_>) {
        let [m, k, n] = self.sizes;
        let (one, zero) = (T::one(), T::zero());
        // SAFETY: the plan gives this kernel its operands, which have these extents, and its result alone.
        unsafe {
            let a_of = |at: usize| {
                let len = extent(m, k, self.a_strides);
                std::slice::from_raw_parts(bases.at::<T>(self.a.value, self.a.offset + at).cast_const(), len)
            };
            let out_of = |i: usize| std::slice::from_raw_parts_mut(bases.at::<T>(self.out, i * m * n), m * n);
            if let (Weights::Packed(packed), Some(tile)) = (&self.weights, self.tile) {
                let product = self.packed_product(tile);
                let out = Output::new(out_of(0), (n, 1));
                let done = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
                    self.epilogue_tape.run(bases, rows, columns);
                };
                let epilogue = self.epilogue.of(bases);
                return product.run_then(
                    &Left::Strided(a_of(0), self.a_strides),
                    &Right::Packed(packed),
                    &out,
                    epilogue,
                    &done,
                );
            }
            let b_of = |at: usize| {
                let len = extent(k, n, self.b_strides);
                std::slice::from_raw_parts(bases.at::<T>(self.b.value, self.b.offset + at).cast_const(), len)
            };
            let run = |i: usize, shared: bool| {
                let (a, b) = (a_of(self.batch.a.locate(i).0), b_of(self.batch.b.locate(i).0));
                gemm_by(shared, m, k, n, one, a, self.a_strides, b, self.b_strides, zero, out_of(i), (n, 1));
                if self.batch.n > 1 {
                    self.epilogue_tape.run(bases, i * m..(i + 1) * m, 0..n);
                }
            };
            if self.batch.n < MANY {
                (0..self.batch.n).for_each(|i| run(i, true));
            } else {
                parallel::each(self.batch.n, |i| run(i, false));
            }
            if let Some(tape) = &self.epilogue_tape.0
                && self.batch.n <= 1
            {
                tape.run(bases);
            }
        }
    }

    fn reads(&self) -> Vec<ValueId> {
        let weights = matches!(self.weights, Weights::Plain).then_some(self.b.value);
        self.epilogue_tape.reads([self.a.value].into_iter().chain(weights).chain(self.epilogue.reads()))
    }

    fn tape(&mut self) -> Option<&mut Tape> {
        self.epilogue_tape.0.as_mut()
    }

    fn flops(&self) -> f64 {
        PRODUCT_FLOPS
    }

    fn describe(&self) -> String {
        let [m, k, n] = self.sizes;
        let packed = if matches!(self.weights, Weights::Packed(_)) { ", packed weights" } else { "" };
        let batch = if self.batch.n == 1 { String::new() } else { format!("{} x ", self.batch.n) };
        format!("product {batch}[{m}, {k}] x [{k}, {n}]{packed}{}{}", self.epilogue, self.epilogue_tape)
    }
}
