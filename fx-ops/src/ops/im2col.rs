//! Windows of images as columns, and columns added up to images.

use fx_core::array::checked_numel;
use fx_core::op::kind::{DimVec, IntVec};
use fx_core::{Array, DType, Dim, Element, Op, Result, Shape, TensorType, bail, err, kernels};

use crate::kernel::chunks::fill_rows;
use crate::ops::check::{at_least, sizes, slice, type_of};
use crate::ops::conv::each;
use crate::ops::infer::expect_same;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[IM2COL];

kernels! {
    /// Windows of images.
    pub trait Im2Col; pub static IM2COL;

    /// The windows of `[n, c, h, w]` as columns: `[n, c kh kw, windows]`. PyTorch's `nn.functional.unfold`.
    ///
    /// Along an axis there are `(size + 2 padding - dilation (k - 1) - 1) / stride + 1` windows, row by row;
    /// the border is zeros. Without a batch the input is `[c, h, w]`.
    im2col(x: Tensor, kernel_size: Ints, dilation: Ints = &[1], padding: Ints = &[0], stride: Ints = &[1])
        = columns_type, columns;
    /// Adds the columns of `im2col` up to images of `output_size`: `[n, c kh kw, windows]` becomes
    /// `[n, c, h, w]`. PyTorch's `nn.functional.fold`.
    col2im(x: Tensor, output_size: Shape, kernel_size: Ints, dilation: Ints = &[1], padding: Ints = &[0],
        stride: Ints = &[1]) = images_type, images;
}

/// The windows over an image.
struct Windows {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

impl Windows {
    fn new(kernel: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Result<Windows> {
        Ok(Windows {
            kernel: each("kernel_size", kernel, 1)?,
            dilation: each("dilation", dilation, 1)?,
            padding: each("padding", padding, 0)?,
            stride: each("stride", stride, 1)?,
        })
    }

    /// Returns the number of windows along axis `i`.
    fn count(&self, i: usize, size: &Dim) -> Result<Dim> {
        let span = Dim::new(self.dilation[i]) * (self.kernel[i] - 1) + 1;
        let count = (size + 2 * Dim::new(self.padding[i]) - span).floor_div(&Dim::new(self.stride[i])) + 1;
        at_least(format_args!("windows along spatial axis {i}"), 1, &count)?;
        Ok(count)
    }

    fn elements(&self) -> Dim {
        Dim::new(self.kernel[0]) * self.kernel[1]
    }

    /// Returns where element `k` of window `at` is along axis `i` of `size` elements, if not in the border.
    fn position(&self, i: usize, at: usize, k: usize, size: usize) -> Option<usize> {
        let position = at as i128 * i128::from(self.stride[i]) + k as i128 * i128::from(self.dilation[i])
            - i128::from(self.padding[i]);
        usize::try_from(position).ok().filter(|&position| position < size)
    }
}

fn columns_type(
    x: &TensorType,
    kernel: IntVec,
    dilation: IntVec,
    padding: IntVec,
    stride: IntVec,
) -> Result<TensorType> {
    let windows = Windows::new(&kernel, &dilation, &padding, &stride)?;
    let (batch, [c, h, w]) = match &x.shape[..] {
        [n, c, h, w] => (Some(n), [c, h, w]),
        [c, h, w] => (None, [c, h, w]),
        _ => bail!(Shape, "expected images [n, c, h, w] or [c, h, w], got {x}"),
    };
    for size in [c, h, w] {
        at_least("a size of an image", 1, size)?;
    }
    let count = windows.count(0, h)? * windows.count(1, w)?;
    let rows = c * windows.elements();
    Ok(TensorType::new(x.dtype, batch.into_iter().chain([&rows, &count]).collect::<Shape>()))
}

fn columns(x: &Array, kernel: IntVec, dilation: IntVec, padding: IntVec, stride: IntVec) -> Result<Array> {
    let windows = Windows::new(&kernel, &dilation, &padding, &stride)?;
    let ty = columns_type(&type_of(x), kernel, dilation, padding, stride)?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let rank = x.rank();
    let [c, h, w] = [x.shape()[rank - 3], x.shape()[rank - 2], x.shape()[rank - 1]];
    let known = |dim: Dim| dim.known().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let across = known(windows.count(1, &w.into())?);
    let elements = known(windows.elements());
    let images: usize = x.shape()[..rank - 3].iter().product();
    let (n_rows, width) = (images * c * elements, shape[shape.len() - 1]);
    let x = x.contiguous()?;
    fx_core::array::dispatch_dtype!(x.dtype(), T => {
        let data = slice::<T>(&x);
        let kw = windows.kernel[1] as usize;
        let out = fill_rows::<T>(n_rows, width, width, |row, out| {
            let (plane, k) = (&data[row / elements * h * w..][..h * w], row % elements);
            for (at, out) in out.chunks_mut(across).enumerate() {
                let Some(line) = windows.position(0, at, k / kw, h) else { continue };
                for (at, out) in out.iter_mut().enumerate() {
                    if let Some(column) = windows.position(1, at, k % kw, w) {
                        *out = plane[line * w + column];
                    }
                }
            }
        })?;
        Array::from_vec(out, &shape)
    })
}

fn images_type(
    x: &TensorType,
    size: DimVec,
    kernel: IntVec,
    dilation: IntVec,
    padding: IntVec,
    stride: IntVec,
) -> Result<TensorType> {
    let windows = Windows::new(&kernel, &dilation, &padding, &stride)?;
    let (h, w) = match &size[..] {
        [one] => (one, one),
        [h, w] => (h, w),
        _ => bail!(Argument, "expected 1 or 2 numbers in output_size, got {}", size.len()),
    };
    if x.dtype == DType::Bool {
        bail!(DType, "expected numbers, got bool");
    }
    let (batch, [rows, count]) = match &x.shape[..] {
        [n, rows, count] => (Some(n), [rows, count]),
        [rows, count] => (None, [rows, count]),
        _ => bail!(Shape, "expected columns [n, c kh kw, windows] or [c kh kw, windows], got {x}"),
    };
    let elements = windows.elements();
    if rows.modulo(&elements).same(&Dim::new(0)).is_no() {
        bail!(Shape, "expected columns in multiples of the {elements} elements of a window, got {rows}");
    }
    expect_same(&(windows.count(0, h)? * windows.count(1, w)?), count, "the number of windows")?;
    Ok(TensorType::new(
        x.dtype,
        batch.into_iter().chain([&rows.floor_div(&elements), h, w]).collect::<Shape>(),
    ))
}

/// A number that adds up; integers wrap.
trait Sum: Element {
    fn plus(self, other: Self) -> Self;
}
macro_rules! sums {
    ($($t:ty => |$a:ident, $b:ident| $sum:expr),*) => {$(
        impl Sum for $t {
            fn plus(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $sum
            }
        }
    )*};
}
sums!(f32 => |a, b| a + b, f64 => |a, b| a + b, u8 => |a, b| a.wrapping_add(b), i8 => |a, b| a.wrapping_add(b),
    i32 => |a, b| a.wrapping_add(b), i64 => |a, b| a.wrapping_add(b));

fn images(
    x: &Array,
    size: IntVec,
    kernel: IntVec,
    dilation: IntVec,
    padding: IntVec,
    stride: IntVec,
) -> Result<Array> {
    let windows = Windows::new(&kernel, &dilation, &padding, &stride)?;
    let dims = size.iter().map(|&size| Dim::new(size)).collect();
    let ty = images_type(&type_of(x), dims, kernel, dilation, padding, stride)?;
    let wide = x.cast(crate::ops::check::wide(x.dtype())).contiguous()?;
    let out = match wide.dtype() {
        DType::F32 => added::<f32>(&wide, &ty, &windows),
        DType::F64 => added::<f64>(&wide, &ty, &windows),
        DType::U8 => added::<u8>(&wide, &ty, &windows),
        DType::I8 => added::<i8>(&wide, &ty, &windows),
        DType::I32 => added::<i32>(&wide, &ty, &windows),
        DType::I64 => added::<i64>(&wide, &ty, &windows),
        dtype => Err(err!(DType, "expected numbers, got {dtype}")),
    }?;
    Ok(out.cast(x.dtype()))
}

/// Adds columns up; a plane is summed window by window by one thread.
fn added<T: Sum>(x: &Array, ty: &TensorType, windows: &Windows) -> Result<Array> {
    let shape = sizes(&ty.shape)?;
    let [.., h, w] = shape[..] else { bail!(Shape, "expected images, got {ty}") };
    let planes: usize = shape[..shape.len() - 2].iter().product();
    checked_numel(&shape)?;
    let count = x.shape()[x.rank() - 1];
    let [kh, kw] = windows.kernel.map(|k| k as usize);
    let known = |dim: Dim| dim.known().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let across = known(windows.count(1, &w.into())?).max(1);
    let data = slice::<T>(x);
    let out = fill_rows::<T>(planes, h * w, kh * kw * count, |plane, out| {
        for k in 0..kh * kw {
            let column = &data[(plane * kh * kw + k) * count..][..count];
            for (at, line) in column.chunks(across).enumerate() {
                let Some(row) = windows.position(0, at, k / kw, h) else { continue };
                for (at, &x) in line.iter().enumerate() {
                    if let Some(column) = windows.position(1, at, k % kw, w) {
                        let out = &mut out[row * w + column];
                        *out = out.plus(x);
                    }
                }
            }
        }
    })?;
    Array::from_vec(out, &shape)
}
