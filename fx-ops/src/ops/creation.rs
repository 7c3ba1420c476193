//! Rows that make tensors out of numbers and sizes.

use fx_core::array::{Cast, Sizes, dispatch_dtype};
use fx_core::dtype::default_dtype;
use fx_core::op::kind::{DimVec, IntVec};
use fx_core::op::unknown_type;
use fx_core::pointwise::held;
use fx_core::{
    Arg, Array, Category, DType, Dim, Op, Result, Scalar, Stored, Symbol, TensorType, Type, TypeTree, Value,
    bail, err, functions, kernels,
};

use crate::kernel::chunks::{blank, fill};
use crate::ops::infer::{dims, known, sizes, type_of, typed};

functions! {
    pub static CREATE;

    /// A tensor of zeros; of f32 by default.
    zeros(size: Shape; dtype: OptDType = None) = size_type, |size, dtype| constant(size, dtype, Scalar::Int(0));
    /// A tensor of ones; of f32 by default.
    ones(size: Shape; dtype: OptDType = None) = size_type, |size, dtype| constant(size, dtype, Scalar::Int(1));
    /// A tensor whose elements do not matter: zeros, so that programs are reproducible.
    empty(size: Shape; dtype: OptDType = None) = size_type, |size, dtype| constant(size, dtype, Scalar::Int(0));
    /// A tensor of copies of `fill_value`; a bool gives bool, an integer i64, a float f32 by default.
    full(size: Shape, fill_value: Number; dtype: OptDType = None) = full_type, full_array;
    /// `start, start + step, ...` up to, not including, `end`; `arange(n, (), 1)` starts at 0. i64 if all are
    /// integers, else f32.
    arange(start: Any, end: Any = fx_core::op::Default::None, step: Any = fx_core::op::Default::Int(1); dtype: OptDType = None) =
        arange_type, arange_array;
    /// `steps` numbers at equal distances from `start` to `end`, both included; of f32 by default.
    linspace(start: Float, end: Float, steps: Int; dtype: OptDType = None) =
        |_start: Option<f64>, _end: Option<f64>, steps, dtype: Option<DType>| typed(dtype.unwrap_or(DType::F32), [steps]), linspace_array;
    /// A matrix of `n` rows and `m` columns, by default `n`, with ones on the diagonal and zeros elsewhere.
    eye(n: Int, m: OptInt = None; dtype: OptDType = None) = eye_type, eye_array;
    /// A tensor of rank 0; a bool gives bool, an integer i64, a float f32 by default.
    scalar_tensor(s: Number; dtype: OptDType = None) =
        |s: Category, dtype: Option<DType>| typed(dtype.unwrap_or(default_dtype(s)), []),
        |s: Scalar, dtype: Option<DType>| full_array(IntVec::new(), s, dtype);
}

kernels! {
    /// Operations that make a tensor after the model of another.
    pub trait Likes; pub static LIKES;

    /// Zeros of the shape and dtype of `x`.
    zeros_like(x: Tensor; dtype: OptDType = None) = like_type, |x: &Array, dtype| like(x, dtype, Scalar::Int(0));
    /// Ones of the shape and dtype of `x`.
    ones_like(x: Tensor; dtype: OptDType = None) = like_type, |x: &Array, dtype| like(x, dtype, Scalar::Int(1));
    /// Zeros of the shape and dtype of `x`, for elements that do not matter.
    empty_like(x: Tensor; dtype: OptDType = None) = like_type, |x: &Array, dtype| like(x, dtype, Scalar::Int(0));
    /// Copies of `fill_value` in the shape and dtype of `x`.
    full_like(x: Tensor, fill_value: Number; dtype: OptDType = None) =
        |x, _value: Category, dtype| like_type(x, dtype), |x: &Array, value, dtype| like(x, dtype, value);
    /// Zeros of another shape in the dtype of `x`.
    new_zeros(x: Tensor, size: Shape; dtype: OptDType = None) = new_type, |x: &Array, size, dtype| new(x, size, dtype, Scalar::Int(0));
    /// Ones of another shape in the dtype of `x`.
    new_ones(x: Tensor, size: Shape; dtype: OptDType = None) = new_type, |x: &Array, size, dtype| new(x, size, dtype, Scalar::Int(1));
    /// Zeros of another shape in the dtype of `x`, for elements that do not matter.
    new_empty(x: Tensor, size: Shape; dtype: OptDType = None) = new_type, |x: &Array, size, dtype| new(x, size, dtype, Scalar::Int(0));
    /// Copies of `fill_value` in another shape in the dtype of `x`.
    new_full(x: Tensor, size: Shape, fill_value: Number; dtype: OptDType = None) =
        |x, size, _value: Category, dtype| new_type(x, size, dtype), |x: &Array, size, value, dtype| new(x, size, dtype, value);
    /// A new last axis with 1 at the position that each element names and 0 elsewhere, as i64.
    ///
    /// With `num_classes` -1 its size is one more than the greatest position, which is not known before it
    /// has run.
    one_hot(x: Tensor, num_classes: Int = -1) = one_hot_type, one_hot_array;
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[CREATE, LIKES];

pub(crate) fn size_type(size: DimVec, dtype: Option<DType>) -> Result<TensorType> {
    let ty = typed(dtype.unwrap_or(DType::F32), size)?;
    if ty.shape.iter().any(|size| size.known().is_some_and(|n| n < 0)) {
        bail!(Shape, "expected sizes of at least 0, got {}", ty.shape);
    }
    Ok(ty)
}

/// Returns the sizes of a shape argument.
pub(crate) fn concrete(size: &IntVec) -> Result<Sizes> {
    sizes(&size_type(dims(size), None)?)
}

fn constant(size: IntVec, dtype: Option<DType>, value: Scalar) -> Result<Array> {
    let dtype = dtype.unwrap_or(DType::F32);
    Array::full(dtype, &concrete(&size)?, held(value, dtype)?)
}

fn full_type(size: DimVec, value: Category, dtype: Option<DType>) -> Result<TensorType> {
    size_type(size, Some(dtype.unwrap_or(default_dtype(value))))
}

fn full_array(size: IntVec, value: Scalar, dtype: Option<DType>) -> Result<Array> {
    constant(size, Some(dtype.unwrap_or(default_dtype(value.category()))), value)
}

/// A number of `arange`, as far as it is known.
enum RangeArg {
    Int(Dim),
    Float(f64),
}

impl RangeArg {
    fn of_type(arg: &TypeTree) -> Result<RangeArg> {
        match arg {
            Arg::Int(x) => Ok(RangeArg::Int(Dim::new(*x))),
            Arg::Bool(x) => Ok(RangeArg::Int(Dim::new(i64::from(*x)))),
            Arg::Dim(x) => Ok(RangeArg::Int(x.clone())),
            Arg::Float(x) => Ok(RangeArg::Float(*x)),
            Arg::Leaf(Type::Int | Type::Float | Type::Bool | Type::Any | Type::Tensor(_)) => {
                Err(unknown_type())
            }
            other => bail!(Argument, "expected a number, got {}", other.kind_name()),
        }
    }

    fn of_value(arg: &Value) -> Result<Scalar> {
        match arg {
            Arg::Leaf(tensor) => tensor.array()?.item(),
            _ => arg.scalar().ok_or_else(|| err!(Argument, "expected a number, got {}", arg.kind_name())),
        }
    }
}

/// Exchanges the arguments of `arange(end)`.
fn from_zero<'a, L>(start: &'a Arg<L>, end: &'a Arg<L>, zero: &'a Arg<L>) -> [&'a Arg<L>; 2] {
    if matches!(end, Arg::None) { [zero, start] } else { [start, end] }
}

fn arange_type(
    start: &TypeTree,
    end: &TypeTree,
    step: &TypeTree,
    dtype: Option<DType>,
) -> Result<TensorType> {
    let zero = Arg::Int(0);
    let [start, end] = from_zero(start, end, &zero);
    let bounds = [RangeArg::of_type(start)?, RangeArg::of_type(end)?, RangeArg::of_type(step)?];
    let are_ints = bounds.iter().all(|bound| matches!(bound, RangeArg::Int(_)));
    let is_symbolic = |bound: &RangeArg| matches!(bound, RangeArg::Int(x) if x.known().is_none());
    // Floats without a fraction count as integers do.
    let whole = |bound: &RangeArg| match bound {
        RangeArg::Int(x) => Some(x.clone()),
        RangeArg::Float(x) => (x.fract() == 0.0 && x.abs() < 9e15).then_some(Dim::new(*x as i64)),
    };
    let wholes: Option<Vec<Dim>> = bounds.iter().map(whole).collect();
    if let (Some([start, end, step]), true) = (wholes.as_deref(), are_ints || bounds.iter().any(is_symbolic))
    {
        let dtype = dtype.unwrap_or(if are_ints { DType::I64 } else { DType::F32 });
        let step = known(step)?;
        let span = if step < 0 { start - end } else { end - start };
        check_direction(step as f64, span.less(&Dim::new(0)).is_yes())?;
        return typed(dtype, [span.ceil_div(&Dim::new(step.saturating_abs())).max(&Dim::new(0))]);
    }
    let number = |bound: &RangeArg| -> Result<f64> {
        match bound {
            RangeArg::Int(x) => Ok(known(x)? as f64),
            RangeArg::Float(x) => Ok(*x),
        }
    };
    let n = float_count(number(&bounds[0])?, number(&bounds[1])?, number(&bounds[2])?)?;
    typed(dtype.unwrap_or(DType::F32), [Dim::from(n)])
}

fn check_direction(step: f64, backwards: bool) -> Result<()> {
    if step == 0.0 || step.is_nan() {
        bail!(Argument, "expected a step other than 0, got {step}");
    }
    if backwards {
        bail!(Argument, "expected an end that steps of {step} lead to");
    }
    Ok(())
}

fn float_count(start: f64, end: f64, step: f64) -> Result<usize> {
    check_direction(step, (end - start) * step.signum() < 0.0)?;
    let n = ((end - start) / step).ceil();
    if !n.is_finite() || n > 9e15 {
        bail!(Limit, "expected a range of finitely many numbers, got {start} to {end} by {step}");
    }
    Ok(n.max(0.0) as usize)
}

fn arange_array(start: &Value, end: &Value, step: &Value, dtype: Option<DType>) -> Result<Array> {
    let zero = Arg::Int(0);
    let [start, end] = from_zero(start, end, &zero);
    let numbers = [RangeArg::of_value(start)?, RangeArg::of_value(end)?, RangeArg::of_value(step)?];
    let [start, end, step] = numbers;
    if numbers.iter().any(|x| x.category() == Category::Float) {
        let (first, step) = (start.to_f64(), step.to_f64());
        let n = float_count(first, end.to_f64(), step)?;
        if dtype.is_some_and(|dtype| !dtype.is_float()) {
            // Integers count in whole steps, as in PyTorch.
            let (first, step) = (first as i64, step as i64);
            return whole_ramp(n, dtype.unwrap_or(DType::I64), first, step);
        }
        return ramp(n, dtype.unwrap_or(DType::F32), |i| first + i as f64 * step);
    }
    let (first, end, step) = (start.to_i64(), end.to_i64(), step.to_i64());
    let span =
        if step < 0 { i128::from(first) - i128::from(end) } else { i128::from(end) - i128::from(first) };
    check_direction(step as f64, span < 0)?;
    let n = (span + i128::from(step.unsigned_abs()) - 1) / i128::from(step.unsigned_abs());
    let n = usize::try_from(n).map_err(|_| err!(Limit, "expected fewer numbers than {n}"))?;
    whole_ramp(n, dtype.unwrap_or(DType::I64), first, step)
}

/// Makes a tensor of rank 1 from its positions.
fn ramp(n: usize, dtype: DType, at: impl Fn(usize) -> f64 + Sync) -> Result<Array> {
    fx_core::array::checked_numel(&[n])?;
    dispatch_dtype!(dtype, T => {
        let at = |i: usize| Cast::<T>::cast(at(i));
        Array::from_vec(fill(n, |start, out: &mut [T]| fx_simd::call_256::<positions, _>((start, out, at)))?, &[n])
    })
}

/// Makes the numbers from `first` on, `step` apart; they wrap.
fn whole_ramp(n: usize, dtype: DType, first: i64, step: i64) -> Result<Array> {
    fx_core::array::checked_numel(&[n])?;
    dispatch_dtype!(dtype, T => {
        let at = |i: usize| Cast::<T>::cast(first.wrapping_add((i as i64).wrapping_mul(step)));
        Array::from_vec(fill(n, |start, out: &mut [T]| fx_simd::call_256::<positions, _>((start, out, at)))?, &[n])
    })
}

fx_simd::wide! {
    fn positions[T, F: Fn(usize) -> T]((start, out, at): (usize, &mut [T], F)) {
        out.iter_mut().enumerate().for_each(|(i, out)| *out = at(start + i));
    }
}

fn linspace_array(start: f64, end: f64, steps: i64, dtype: Option<DType>) -> Result<Array> {
    let n = usize::try_from(steps).map_err(|_| err!(Argument, "expected at least 0 steps, got {steps}"))?;
    // Bounds are converted first, as in PyTorch.
    let bound = |x: f64| if dtype.is_some_and(|dtype| !dtype.is_float()) { x.trunc() } else { x };
    let (start, end) = (bound(start), bound(end));
    let step = if n > 1 { (end - start) / (n - 1) as f64 } else { 0.0 };
    // From both ends, so that the end is exact.
    let at =
        |i: usize| if i < n.div_ceil(2) { start + step * i as f64 } else { end - step * (n - 1 - i) as f64 };
    ramp(n, dtype.unwrap_or(DType::F32), at)
}

fn eye_type(n: Dim, m: Option<Dim>, dtype: Option<DType>) -> Result<TensorType> {
    size_type([n.clone(), m.unwrap_or(n)].into_iter().collect(), dtype)
}

fn eye_array(n: i64, m: Option<i64>, dtype: Option<DType>) -> Result<Array> {
    let ty = eye_type(n.into(), m.map(Dim::new), dtype)?;
    let shape = sizes(&ty)?;
    fx_core::array::checked_numel(&shape)?;
    dispatch_dtype!(ty.dtype, T => {
        let mut data = blank::<T>(shape[0] * shape[1])?;
        for i in 0..shape[0].min(shape[1]) {
            data[i * shape[1] + i] = T::from_scalar(Scalar::Int(1));
        }
        Array::from_vec(data, &shape)
    })
}

fn like_type(x: &TensorType, dtype: Option<DType>) -> Result<TensorType> {
    Ok(TensorType { dtype: dtype.unwrap_or(x.dtype), shape: x.shape.clone() })
}

fn like(x: &Array, dtype: Option<DType>, value: Scalar) -> Result<Array> {
    let dtype = dtype.unwrap_or(x.dtype());
    Array::full(dtype, x.shape(), held(value, dtype)?)
}

fn new_type(x: &TensorType, size: DimVec, dtype: Option<DType>) -> Result<TensorType> {
    size_type(size, Some(dtype.unwrap_or(x.dtype)))
}

fn new(x: &Array, size: IntVec, dtype: Option<DType>, value: Scalar) -> Result<Array> {
    constant(size, Some(dtype.unwrap_or(x.dtype())), value)
}

fn one_hot_type(x: &TensorType, num_classes: Dim) -> Result<TensorType> {
    if !x.dtype.is_int() {
        return Err(err!(DType, "expected positions of i64, got {x}").help("convert with `.to(DType::I64)`"));
    }
    if num_classes.known() == Some(-1) {
        if x.shape.numel().known() == Some(0) {
            bail!(Argument, "the number of classes of no elements is not known; give num_classes");
        }
        let classes = Dim::symbol(Symbol::fresh(0).ranged(1, None));
        return typed(DType::I64, x.shape.iter().cloned().chain([classes]));
    }
    if num_classes.less(&Dim::new(1)).is_yes() {
        bail!(Argument, "expected at least 1 class or -1, got {num_classes}");
    }
    typed(DType::I64, x.shape.iter().cloned().chain([num_classes]))
}

fn one_hot_array(x: &Array, num_classes: i64) -> Result<Array> {
    one_hot_type(&type_of(x), num_classes.into())?;
    let classes: Vec<i64> = x.cast(DType::I64).to_vec()?;
    let n = match num_classes {
        -1 => classes.iter().copied().max().unwrap_or(0).saturating_add(1),
        n => n,
    };
    if let Some(class) = classes.iter().find(|class| !(0..n).contains(*class)) {
        bail!(Index, "class {class} is out of range for {n} classes");
    }
    let mut shape = Sizes::from_slice(x.shape());
    shape.push(n as usize);
    let mut data = blank::<i64>(fx_core::array::checked_numel(&shape)?)?;
    for (row, &class) in data.chunks_mut(n as usize).zip(&classes) {
        row[class as usize] = 1;
    }
    Array::from_vec(data, &shape)
}
