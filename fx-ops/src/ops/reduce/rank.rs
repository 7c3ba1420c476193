//! Elements by their place in the order of a row: medians, the k-th least, the most frequent.
//!
//! Which of several equal elements is named is as in PyTorch; for `kthvalue` and `mode` that follows from its
//! algorithms: see [`select`](crate::kernel::select).

use fx_core::{Array, DType, Dim, Result, Tensor, TensorType, bail, kernels};

use super::fold::Lines;
use super::min_max::{Ordered, comparable, dispatch_ordered, pair_type};
use super::order::{Item, keyed};
use crate::kernel::chunks::fill_row_pairs;
use crate::kernel::select::{quick_select, sort};
use crate::ops::infer::{axis_or_only, type_of, typed};

kernels! {
    /// Elements by their place in the order.
    pub trait Ranks; pub static RANKS;

    /// The median of all elements: of an even number the lower one; NaN if there is one. `median_dim` is
    /// PyTorch's `median` along an axis.
    #[class = Reduce]
    median(x: Tensor) = all_type, |x: &Array| median_of_all(x, false);
    /// As `median`, of the elements that are not NaN; NaN if there are none.
    #[class = Reduce]
    nanmedian(x: Tensor) = all_type, |x: &Array| median_of_all(x, true);
    /// The median along the axis `dim` and its position, where a stable sort would find it: of an even number
    /// the lower one; the first NaN if there is one.
    #[class = Reduce]
    median_dim(x: Tensor, dim: Int, keepdim: Bool = false) -> (Tensor, Tensor) = along_type, |x: &Array, dim, keepdim| median_along(x, dim, keepdim, false);
    /// As `median_dim`, of the elements that are not NaN.
    #[class = Reduce]
    nanmedian_dim(x: Tensor, dim: Int, keepdim: Bool = false) -> (Tensor, Tensor) = along_type, |x: &Array, dim, keepdim| median_along(x, dim, keepdim, true);
    /// The `k`-th least element along the axis `dim`, counted from 1, and its position; NaN counts as the
    /// greatest.
    #[class = Reduce]
    kthvalue(x: Tensor, k: Int, dim: Int = -1, keepdim: Bool = false) -> (Tensor, Tensor) = kth_type, kth_array;
    /// The most frequent element along the axis `dim`, of several the least, and a position of it.
    #[class = Reduce]
    mode(x: Tensor, dim: Int = -1, keepdim: Bool = false) -> (Tensor, Tensor) = pair_type, mode_array;
}

fn numbers(x: &TensorType) -> Result<()> {
    if x.dtype == DType::Bool {
        bail!(DType, "expected numbers, got {x}");
    }
    Ok(())
}

fn all_type(x: &TensorType) -> Result<TensorType> {
    numbers(x)?;
    typed(x.dtype, [])
}

fn along_type(x: &TensorType, dim: Dim, keepdim: bool) -> Result<(TensorType, TensorType)> {
    numbers(x)?;
    pair_type(x, dim, keepdim)
}

/// Finds an element of each row: `find` gets the row, not empty, as items to rearrange, and the key of NaN; it
/// returns the position.
fn along(
    x: &Array,
    dim: i64,
    keepdim: bool,
    find: &(dyn Fn(&mut [Item], Option<u64>) -> i64 + Sync),
) -> Result<(Array, Array)> {
    let lines = Lines::new(&comparable(x), dim)?;
    let n = lines.n;
    let (values, indices) = dispatch_ordered!(x.dtype(), T => {
        let data = lines.data::<T>()?;
        let (values, indices) = fill_row_pairs::<T, i64>(lines.n_rows, 1, n * 4, |row, value, index| {
            let row = &data[row * n..][..n];
            let at = find(&mut keyed(row, false), T::NAN_KEY);
            (value[0], index[0]) = (row[at as usize], at);
        })?;
        (lines.reduce(values, keepdim)?, indices)
    });
    Ok((values.cast(x.dtype()), lines.reduce(indices, keepdim)?))
}

fn median_item(items: &mut [Item], nan: Option<u64>, ignore_nan: bool) -> i64 {
    let is_nan = |item: &Item| Some(item.0) == nan;
    let n_nan = items.iter().filter(|item| is_nan(item)).count();
    if n_nan > 0 && !ignore_nan {
        return items.iter().find(|item| is_nan(item)).unwrap_or(&items[0]).1;
    }
    let middle = (items.len() - n_nan).saturating_sub(1) / 2;
    items.select_nth_unstable(middle).1.1
}

fn median_along(x: &Array, dim: i64, keepdim: bool, ignore_nan: bool) -> Result<(Array, Array)> {
    along_type(&type_of(x), dim.into(), keepdim)?;
    along(x, dim, keepdim, &|items, nan| median_item(items, nan, ignore_nan))
}

fn median_of_all(x: &Array, ignore_nan: bool) -> Result<Array> {
    all_type(&type_of(x))?;
    if x.is_empty() {
        // PyTorch's value for none: NaN, or the least integer, which is 0 in narrow types.
        let none = if x.dtype().is_float() {
            fx_core::Scalar::Float(f64::NAN)
        } else {
            fx_core::Scalar::Int(i64::MIN)
        };
        return Array::full(x.dtype(), &[], none);
    }
    let (value, _) = median_along(&x.reshape(&[x.numel()])?, 0, false, ignore_nan)?;
    Ok(value)
}

fn kth_type(x: &TensorType, k: Dim, dim: Dim, keepdim: bool) -> Result<(TensorType, TensorType)> {
    let types = along_type(x, dim.clone(), keepdim)?;
    let at = axis_or_only(crate::ops::infer::known(&dim)?, x.rank())?;
    let size = x.shape.get(at).cloned().unwrap_or(Dim::new(1));
    if k.less(&Dim::new(1)).is_yes() || size.less(&k).is_yes() {
        bail!(Argument, "expected k from 1 to {size}, got {k}");
    }
    Ok(types)
}

fn kth_array(x: &Array, k: i64, dim: i64, keepdim: bool) -> Result<(Array, Array)> {
    kth_type(&type_of(x), k.into(), dim.into(), keepdim)?;
    let nth = k as usize - 1;
    along(x, dim, keepdim, &|items, _| {
        quick_select(items, nth, &|a: &Item, b: &Item| a.0 > b.0);
        items[nth].1
    })
}

fn mode_array(x: &Array, dim: i64, keepdim: bool) -> Result<(Array, Array)> {
    pair_type(&type_of(x), dim.into(), keepdim)?;
    along(x, dim, keepdim, &|items, nan| {
        // Nothing is less than NaN, which is no number's equal.
        sort(items, &|a: &Item, b: &Item| a.0 < b.0 && Some(b.0) != nan);
        let (mut best, mut most) = (items[0], 0);
        for run in items.chunk_by(|a, b| a.0 == b.0 && Some(a.0) != nan) {
            if run.len() > most {
                (best, most) = (run[run.len() - 1], run.len());
            }
        }
        best.1
    })
}
