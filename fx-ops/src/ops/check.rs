//! What shape rules and kernels of this crate share: questions about types, and dense operands.
//!
//! A kernel first asks its own shape rule about the concrete types, so the two agree by construction: what is
//! definitely wrong is refused with what was expected and what was given, and what is unknown passes.

use fx_core::array::Sizes;
use fx_core::{Array, DType, Dim, Element, Result, Shape, TensorType, bail, err};

/// Returns the type of an array.
pub(crate) fn type_of(x: &Array) -> TensorType {
    TensorType::new(x.dtype(), x.shape())
}

/// Returns the type of an array that may be absent.
pub(crate) fn opt_type_of(x: Option<&Array>) -> Option<TensorType> {
    x.map(type_of)
}

/// Returns the sizes of a type that a rule computed from concrete types.
pub(crate) fn sizes(shape: &Shape) -> Result<Sizes> {
    if let Some(error) = shape.iter().find_map(Dim::error) {
        return Err(error.clone());
    }
    shape.known().ok_or_else(|| err!(Shape, "expected sizes of at least 0, got {shape}"))
}

/// Refuses two sizes that cannot be equal.
pub(crate) fn same_size(what: &str, expected: &Dim, got: &Dim) -> Result<()> {
    if expected.same(got).is_no() {
        bail!(Shape, "expected {what} {expected}, got {got}");
    }
    Ok(())
}

/// Refuses shapes that cannot be equal.
pub(crate) fn same_shape(what: &str, expected: &[Dim], got: &[Dim]) -> Result<()> {
    let differs = expected.len() != got.len()
        || expected.iter().zip(got).any(|(expected, got)| expected.same(got).is_no());
    if differs {
        let show = |dims: &[Dim]| dims.iter().collect::<Shape>();
        bail!(Shape, "expected {what} of shape {}, got {}", show(expected), show(got));
    }
    Ok(())
}

/// Refuses a size that is definitely below `least`.
pub(crate) fn at_least(what: impl std::fmt::Display, least: i64, got: &Dim) -> Result<()> {
    if let Some(error) = got.error() {
        return Err(error.clone());
    }
    if got.less(&Dim::new(least)).is_yes() {
        bail!(Shape, "expected {what} of at least {least}, got {got}");
    }
    Ok(())
}

/// Refuses another dtype than the first operand's.
pub(crate) fn same_dtype(what: &str, expected: DType, got: DType) -> Result<()> {
    if expected != got {
        return Err(err!(DType, "expected {what} of {expected}, got {got}")
            .help("convert one of the operands with `to`, or all weights of a module with `to_dtype`"));
    }
    Ok(())
}

/// Refuses integers and bools.
pub(crate) fn float_only(dtype: DType) -> Result<()> {
    if !dtype.is_float() {
        return Err(err!(DType, "expected floats, got {dtype}").help("convert the operand with `to`"));
    }
    Ok(())
}

/// Returns the position of an axis that is known; a tensor of rank 0 counts as one of rank 1.
pub(crate) fn known_axis(dim: &Dim, rank: usize) -> Result<Option<usize>> {
    dim.known().map(|dim| fx_core::ops::axis(dim, rank.max(1))).transpose()
}

/// Returns the dtype in which floats are computed: `f32` for half precision.
pub(crate) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64 | DType::F32 | DType::F64 => dtype,
    }
}

/// Returns the operand in another dtype, in row-major order.
pub(crate) fn dense(x: &Array, dtype: DType) -> Result<Array> {
    x.cast(dtype).contiguous()
}

/// Returns an operand that may be absent in another dtype, in row-major order.
pub(crate) fn opt_dense(x: Option<&Array>, dtype: DType) -> Result<Option<Array>> {
    x.map(|x| dense(x, dtype)).transpose()
}

/// Returns the elements of a dense array.
pub(crate) fn slice<T: Element>(x: &Array) -> &[T] {
    x.as_slice().expect("the operand was made dense in this dtype")
}

/// Returns the elements of a dense array that may be absent.
pub(crate) fn opt_slice<T: Element>(x: &Option<Array>) -> Option<&[T]> {
    x.as_ref().map(slice)
}

/// Allocates zeros.
pub(crate) fn zeroed<T: Element>(numel: usize) -> Result<Vec<T>> {
    fx_core::array::build_slots(numel, |_, out| out.fill(T::default()))
}

/// Runs an expression with `$T` as the type in which floats of a dtype are computed; integers are an error.
macro_rules! in_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            fx_core::DType::F64 => {
                type $T = f64;
                $body
            }
            fx_core::DType::F32 | fx_core::DType::F16 | fx_core::DType::BF16 => {
                type $T = f32;
                $body
            }
            dtype => Err(fx_core::err!(DType, "expected floats, got {dtype}")),
        }
    };
}
pub(crate) use in_float;
