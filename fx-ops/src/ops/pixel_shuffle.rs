//! Channels and pixels rearranged: compositions of `reshape`, `permute` and `narrow`.

use fx_core::math::{self, Real};
use fx_core::op::Flops::PerOutput;
use fx_core::op::kind::DimVec;
use fx_core::{Array, DType, Dim, Op, Result, TensorType, bail, kernels};

use crate::kernel::chunks::fill_rows;
use crate::ops::check::{at_least, float_only, in_float, sizes, slice, type_of};
use crate::ops::compose::Operand;
use crate::ops::infer::{axis, known};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[PIXEL_SHUFFLES];

kernels! {
    /// Rearranged channels and pixels.
    pub trait PixelShuffles; pub static PIXEL_SHUFFLES;

    /// Spreads channels over pixels: `[.., c r r, h, w]` becomes `[.., c, h r, w r]` for `r = upscale_factor`.
    pixel_shuffle(x: Tensor, upscale_factor: Int) = shuffled_pixels, shuffled_pixels;
    /// Gathers pixels in channels: `[.., c, h r, w r]` becomes `[.., c r r, h, w]` for `r = downscale_factor`.
    pixel_unshuffle(x: Tensor, downscale_factor: Int) = gathered_pixels, gathered_pixels;
    /// Interleaves the `groups` of channels of `[n, c, ..]`: channel `g (c / groups) + i` becomes `i groups + g`.
    channel_shuffle(x: Tensor, groups: Int) = shuffled_channels, shuffled_channels;
    /// The gated linear unit, of floats: `a * sigmoid(b)` for the halves `a` and `b` of axis `dim`, whose
    /// size is even.
    #[flops = PerOutput(2)]
    glu(x: Tensor, dim: Int = -1) = |x: &TensorType, dim: Dim| gated(x, dim), gated_array;
}

/// Refuses a size that is definitely no multiple.
fn multiple_of(what: &str, divisor: &Dim, size: &Dim) -> Result<()> {
    if !size.modulo(divisor).same(&Dim::new(0)).is_no() {
        return Ok(());
    }
    bail!(Shape, "expected {what} in multiples of {divisor}, got {size}");
}

/// Permutes the last axes, given by their positions among the last ones, and reshapes the result.
fn rearranged<V: Operand>(x: &V, cut: &[Dim], order: &[usize], sizes: &[Dim]) -> Result<V> {
    let leading = cut.len() - order.len();
    let axes: Vec<usize> = (0..leading).chain(order.iter().map(|axis| leading + axis)).collect();
    x.arrange(cut)?.reorder(&axes)?.arrange(sizes)
}

fn image<V: Operand>(what: &str, x: &V) -> Result<DimVec> {
    let dims = x.dims();
    if dims.len() < 3 {
        bail!(Shape, "expected an input [.., c, h, w] of {what}, got {}", x.ty());
    }
    Ok(dims)
}

pub(crate) fn shuffled_pixels<V: Operand>(x: &V, factor: impl Into<Dim>) -> Result<V> {
    let (dims, r) = (image("pixel_shuffle", x)?, factor.into());
    at_least("an upscale_factor", 1, &r)?;
    let [leading @ .., c, h, w] = &dims[..] else { unreachable!("an image has three axes") };
    let square = &r * &r;
    multiple_of("channels", &square, c)?;
    let c = c.floor_div(&square);
    let join = |tail: &[Dim]| -> Vec<Dim> { leading.iter().chain(tail).cloned().collect() };
    let cut = join(&[c.clone(), r.clone(), r.clone(), h.clone(), w.clone()]);
    rearranged(x, &cut, &[0, 3, 1, 4, 2], &join(&[c, h * &r, w * &r]))
}

pub(crate) fn gathered_pixels<V: Operand>(x: &V, factor: impl Into<Dim>) -> Result<V> {
    let (dims, r) = (image("pixel_unshuffle", x)?, factor.into());
    at_least("a downscale_factor", 1, &r)?;
    let [leading @ .., c, h, w] = &dims[..] else { unreachable!("an image has three axes") };
    multiple_of("a height", &r, h)?;
    multiple_of("a width", &r, w)?;
    let (h, w) = (h.floor_div(&r), w.floor_div(&r));
    let join = |tail: &[Dim]| -> Vec<Dim> { leading.iter().chain(tail).cloned().collect() };
    let cut = join(&[c.clone(), h.clone(), r.clone(), w.clone(), r.clone()]);
    rearranged(x, &cut, &[0, 2, 4, 1, 3], &join(&[c * &r * &r, h, w]))
}

pub(crate) fn shuffled_channels<V: Operand>(x: &V, groups: impl Into<Dim>) -> Result<V> {
    let (dims, groups) = (x.dims(), groups.into());
    let [n, c, rest @ ..] = &dims[..] else { bail!(Shape, "expected an input [n, c, ..], got {}", x.ty()) };
    if rest.is_empty() {
        bail!(Shape, "expected an input [n, c, ..] of rank 3 or more, got {}", x.ty());
    }
    at_least("groups", 1, &groups)?;
    multiple_of("channels", &groups, c)?;
    let cut: Vec<Dim> = [n, &groups, &c.floor_div(&groups)].into_iter().chain(rest).cloned().collect();
    let axes: Vec<usize> = [0, 2, 1].into_iter().chain(3..cut.len()).collect();
    x.arrange(&cut)?.reorder(&axes)?.arrange(&dims)
}

fn gated_array(x: &Array, dim: i64) -> Result<Array> {
    let ty = gated(&type_of(x), Dim::new(dim))?;
    let at = axis(dim, x.rank())?;
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return gated(x, dim);
    }
    let (shape, x) = (sizes(&ty.shape)?, x.contiguous()?);
    let half: usize = shape[at..].iter().product();
    let outer: usize = shape[..at].iter().product();
    in_float!(x.dtype(), T => {
        let data = slice::<T>(&x);
        let out = fill_rows::<T>(outer, half, 16 * half, |row, out| {
            let (value, gate) = data[2 * row * half..][..2 * half].split_at(half);
            fx_simd::call::<gate_row, _>((out, value, gate));
        })?;
        Array::from_vec(out, &shape)
    })
}

fx_simd::wide! {
    fn gate_row[T: Real]((out, value, gate): (&mut [T], &[T], &[T])) {
        for ((out, &x), &gate) in out.iter_mut().zip(value).zip(gate) {
            *out = x * math::sigmoid(gate);
        }
    }
}

pub(crate) fn gated<V: Operand>(x: &V, dim: impl Into<Dim>) -> Result<V> {
    let dims = x.dims();
    float_only(x.ty().dtype)?;
    if dims.is_empty() {
        bail!(Shape, "expected an input with an axis to halve, got {}", x.ty());
    }
    let at = axis(known(&dim.into())?, dims.len())?;
    multiple_of(&format!("a size of axis {at}"), &Dim::new(2), &dims[at])?;
    let half = dims[at].floor_div(&Dim::new(2));
    let gate = x.part(at, &half, &half)?.apply(crate::ops::pointwise::sigmoid::OP, &[])?;
    x.part(at, &Dim::new(0), &half)?.mul(&gate)
}
