//! What shape rules share: axes, sizes, and checks on sizes that may be symbolic.
//!
//! Invariant: a rule refuses only what is wrong for all values of the symbols. What depends on them is left
//! to the kernel if the shape of the result does not depend on it; else the rule says that the type is
//! unknown.

use fx_core::array::Sizes;
use fx_core::op::kind::{DimVec, IntVec};
use fx_core::op::unknown_type;
pub(crate) use fx_core::ops::axis;
use fx_core::{Array, DType, Dim, Result, Shape, Symbol, TensorType, bail, err};
use smallvec::SmallVec;

/// Returns the type of an array.
pub(crate) fn type_of(x: &Array) -> TensorType {
    TensorType::new(x.dtype(), x.shape())
}

/// Returns the concrete sizes that a rule found.
pub(crate) fn sizes(ty: &TensorType) -> Result<Sizes> {
    ty.shape.known().ok_or_else(|| err!(Shape, "expected sizes of at least 0, got {ty}"))
}

/// Makes a type; an error that one of its sizes carries, or a negative size, is an error.
pub(crate) fn typed(dtype: DType, dims: impl IntoIterator<Item = Dim>) -> Result<TensorType> {
    let shape: Shape = dims.into_iter().collect();
    for dim in shape.iter() {
        if let Some(error) = dim.error() {
            return Err(error.clone());
        }
        if dim.bounds().1.is_some_and(|high| high < 0) {
            bail!(Shape, "expected sizes of at least 0, got {shape}");
        }
    }
    Ok(TensorType { dtype, shape })
}

/// Returns the sizes of a shape argument.
pub(crate) fn dims(sizes: &[i64]) -> DimVec {
    sizes.iter().map(|&size| Dim::new(size)).collect()
}

/// Returns the number that an integer argument must be known to be.
pub(crate) fn known(dim: &Dim) -> Result<i64> {
    match dim.error() {
        Some(error) => Err(error.clone()),
        None => dim.known().ok_or_else(unknown_type),
    }
}

/// Returns an axis argument as a position.
pub(crate) fn axis_of(dim: &Dim, rank: usize) -> Result<usize> {
    axis(known(dim)?, rank)
}

/// Returns a possibly negative axis as a position, where a tensor of rank 0 counts as one of rank 1.
pub(crate) fn axis_or_only(dim: i64, rank: usize) -> Result<usize> {
    axis(dim, rank.max(1))
}

/// Returns for each axis whether it is among `dims`; no axes at all means all of them.
pub(crate) fn mask(dims: Option<&[i64]>, rank: usize) -> Result<SmallVec<[bool; 4]>> {
    let Some(dims) = dims.filter(|dims| !dims.is_empty()) else { return Ok(SmallVec::from_elem(true, rank)) };
    let mut mask = SmallVec::from_elem(false, rank.max(1));
    for &dim in dims {
        if std::mem::replace(&mut mask[axis_or_only(dim, rank)?], true) {
            bail!(Axis, "axis {dim} appears twice in {dims:?}");
        }
    }
    mask.truncate(rank);
    Ok(mask)
}

/// Returns a shape after a reduction over the axes of `mask`.
pub(crate) fn reduced<T: Clone>(shape: &[T], mask: &[bool], keepdim: bool, one: T) -> SmallVec<[T; 4]> {
    let each = shape.iter().zip(mask);
    each.filter_map(|(size, &gone)| if !gone { Some(size.clone()) } else { keepdim.then(|| one.clone()) })
        .collect()
}

/// Returns the distinct axes of a list as positions.
pub(crate) fn distinct_axes(dims: &[i64], rank: usize) -> Result<SmallVec<[usize; 4]>> {
    let mut out = SmallVec::new();
    for &dim in dims {
        let position = axis_or_only(dim, rank)?;
        if out.contains(&position) {
            bail!(Axis, "axis {dim} appears twice in {dims:?}");
        }
        out.push(position);
    }
    Ok(out)
}

/// Refuses sizes that can never be equal.
pub(crate) fn expect_same(expected: &Dim, got: &Dim, what: &str) -> Result<()> {
    if expected.same(got).is_no() {
        bail!(Shape, "expected {expected} as {what}, got {got}");
    }
    Ok(())
}

/// Returns `numel / divisor` for a divisor that the kernel knows to be a divisor and not zero.
pub(crate) fn exact_div(numel: &Dim, divisor: &Dim) -> Dim {
    let vanishes = |symbol: &Symbol| {
        divisor.substitute(&|other| (other == symbol).then(|| Dim::new(0))).known() == Some(0)
            && symbol.min() == 0
    };
    let lifted: Vec<Symbol> = divisor.symbols().into_iter().filter(vanishes).collect();
    let lift = |symbol: &Symbol| lifted.contains(symbol).then(|| Dim::symbol(symbol.ranged(1, symbol.max())));
    let lower = |symbol: &Symbol| lifted.iter().find(|other| *other == symbol).cloned().map(Dim::symbol);
    numel.substitute(&lift).floor_div(&divisor.substitute(&lift)).substitute(&lower)
}

/// Resolves one -1 among the sizes into which `numel` elements go, and checks their number.
pub(crate) fn fill_in(numel: &Dim, sizes: &[Dim]) -> Result<DimVec> {
    let mut out: DimVec = sizes.iter().cloned().collect();
    let mut open = None;
    let mut rest = Dim::new(1);
    for (i, size) in sizes.iter().enumerate() {
        match size.known() {
            Some(-1) if open.is_none() => open = Some(i),
            Some(-1) => bail!(Shape, "only one size can be -1, got {}", text(sizes)),
            Some(n) if n < 0 => bail!(Shape, "expected sizes of at least 0 or one -1, got {}", text(sizes)),
            _ => rest *= size,
        }
    }
    let refuse = || err!(Shape, "cannot arrange {numel} elements as {}", text(sizes));
    match open {
        Some(i) => {
            if rest.known() == Some(0) {
                bail!(
                    Shape,
                    "cannot arrange {numel} elements as {}: -1 is ambiguous beside a size of 0",
                    text(sizes)
                );
            }
            if rest.is_known() && (numel % &rest).known().is_some_and(|left| left != 0) {
                return Err(refuse());
            }
            out[i] = exact_div(numel, &rest);
        }
        None if numel.same(&rest).is_no() => return Err(refuse()),
        None => {}
    }
    Ok(out)
}

fn text(sizes: &[Dim]) -> String {
    sizes.iter().cloned().collect::<Shape>().to_string()
}

/// Returns a position that Python's slicing counts from the end if negative, clamped to `0..=size`.
///
/// Its sign must be known.
pub(crate) fn clamp_position(at: &Dim, size: &Dim) -> Result<Dim> {
    let zero = Dim::new(0);
    match at.less(&zero) {
        fx_core::Truth::Yes => Ok((at + size).max(&zero)),
        fx_core::Truth::No => Ok(at.min(size)),
        fx_core::Truth::Unknown => Err(unknown_type()),
    }
}

/// Returns the one axis of an optional axis argument as a position.
pub(crate) fn opt_axis(dim: Option<&Dim>, rank: usize) -> Result<Option<usize>> {
    dim.map(|dim| axis_or_only(known(dim)?, rank)).transpose()
}

/// Returns axes that came as integers.
pub(crate) fn as_slice(dims: &Option<IntVec>) -> Option<&[i64]> {
    dims.as_deref()
}
