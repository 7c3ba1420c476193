//! Searching: places in sorted sequences, membership, and the positions of elements that are not zero.

use fx_core::array::{BLOCK, Sizes, build_blocks, checked_numel, compacted, dispatch_dtype, try_vec};
use fx_core::op::kind::{IntoType, IntoValue, OperandType, OperandValue};
use fx_core::pointwise::{result_dtype, result_dtype_of_types};
use fx_core::{
    Array, DType, Dim, Element, Op, Result, Symbol, TensorType, TypeTree, Value, bail, functions, kernels,
};

use crate::kernel::chunks::{PARALLEL, fill, fill_rows};
use crate::ops::check::{dense, same_shape, same_size, slice};
use crate::ops::infer::{type_of, typed};
use crate::ops::reduce::min_max::{Ordered, comparable, dispatch_ordered};
use crate::ops::view::positions;

kernels! {
    /// Operations that search for elements.
    pub trait Searches; pub static SEARCHES;

    /// For each element of `input`, a tensor or a number, where in `sorted_sequence` it could be inserted and
    /// leave it sorted.
    ///
    /// `sorted_sequence` has rank 1, or the leading axes of `input`, and is sorted along its last axis, or is
    /// if taken in the order `sorter`. Among equal elements the place is before the first, or with `right`,
    /// or `side` "right", after the last. Of i64, or i32 with `out_int32`.
    searchsorted(sorted_sequence: Tensor, input: Operand; out_int32: Bool = false, right: Bool = false, side: Any = fx_core::op::Default::None, sorter: OptTensor = None) =
        search_type, search_array;
    /// The positions of the elements that are not zero, in row-major order: a matrix of one row each, or with
    /// `as_tuple` one tensor for each axis.
    nonzero(x: Tensor; as_tuple: Bool = false) = nonzero_type, nonzero_array;
    /// The positions of the elements that are not zero, as the rows of a matrix.
    argwhere(x: Tensor) = |x| nonzero_type(x, false), |x: &Array| nonzero_array(x, false);
}

functions! {
    pub static MEMBERS;

    /// For each element of `input`, a tensor or a number, in which of the intervals between the sorted
    /// `boundaries` it is.
    ///
    /// An interval includes its right boundary, or with `right` its left one. Of i64, or i32 with `out_int32`.
    bucketize(input: Operand, boundaries: Tensor; out_int32: Bool = false, right: Bool = false) = bucket_type, bucket_array;
    /// Whether each element of `elements` is among `test_elements`, or with `invert` is not. One of both may
    /// be a number.
    isin(elements: Operand, test_elements: Operand; assume_unique: Bool = false, invert: Bool = false) = isin_type, isin_array;
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[SEARCHES, MEMBERS];

/// Returns a size that depends on data, at most `most` if that is known.
pub(crate) fn fresh_size(most: &Dim) -> Dim {
    Dim::symbol(Symbol::fresh(0).ranged(0, most.known()))
}

fn index_dtype(out_int32: bool) -> DType {
    if out_int32 { DType::I32 } else { DType::I64 }
}

fn operand_shape<'a>(operand: &OperandType<'a>) -> &'a [Dim] {
    match operand {
        OperandType::Tensor(ty) => &ty.shape,
        OperandType::Scalar(_) => &[],
    }
}

fn operand_type(operand: OperandValue<'_>) -> Option<TensorType> {
    match operand {
        OperandValue::Array(x) => Some(type_of(x)),
        OperandValue::Scalar(_) => None,
    }
}

fn scalar_or<'a>(ty: &'a Option<TensorType>, operand: OperandValue<'_>) -> OperandType<'a> {
    match (ty, operand) {
        (Some(ty), _) => OperandType::Tensor(ty),
        (None, OperandValue::Scalar(x)) => OperandType::Scalar(x.category()),
        (None, OperandValue::Array(_)) => unreachable!("an array has a type"),
    }
}

fn operand_array(operand: OperandValue<'_>, dtype: DType) -> Result<Array> {
    match operand {
        OperandValue::Array(x) => dense(x, dtype),
        OperandValue::Scalar(x) => Array::full(dtype, &[], x),
    }
}

/// Returns whether the place is after equal elements.
fn is_right<L>(right: bool, side: &fx_core::Arg<L>) -> Result<bool> {
    match side {
        fx_core::Arg::None => Ok(right),
        fx_core::Arg::Str(side) if **side == *"right" => Ok(true),
        fx_core::Arg::Str(side) if **side == *"left" && !right => Ok(false),
        fx_core::Arg::Str(side) if **side == *"left" => {
            bail!(Argument, "expected side \"right\" with right, got \"left\"")
        }
        other => bail!(Argument, "expected \"left\" or \"right\" as side, got {}", other.kind_name()),
    }
}

fn search_type(
    sequence: &TensorType,
    input: OperandType<'_>,
    out_int32: bool,
    right: bool,
    side: &TypeTree,
    sorter: Option<&TensorType>,
) -> Result<TensorType> {
    is_right(right, side)?;
    let shape = operand_shape(&input);
    let Some((_, leading)) = sequence.shape.split_last() else {
        bail!(Shape, "expected a sequence of rank 1 or more, got {sequence}");
    };
    if !leading.is_empty() {
        if shape.len() != sequence.rank() {
            bail!(
                Shape,
                "expected an input of rank {} for the sequence {sequence}, got rank {}",
                sequence.rank(),
                shape.len()
            );
        }
        for (expected, got) in leading.iter().zip(shape) {
            same_size("a leading size of the input of", expected, got)?;
        }
    }
    if let Some(sorter) = sorter {
        same_shape("a sorter", &sequence.shape, &sorter.shape)?;
        if sorter.dtype != DType::I64 {
            bail!(DType, "expected a sorter of i64, got {sorter}");
        }
    }
    if result_dtype_of_types(&[OperandType::Tensor(sequence), input]) == DType::Bool {
        bail!(DType, "expected numbers to search, got {sequence}");
    }
    typed(index_dtype(out_int32), shape.iter().cloned())
}

fn search_array(
    sequence: &Array,
    input: OperandValue<'_>,
    out_int32: bool,
    right: bool,
    side: &Value,
    sorter: Option<&Array>,
) -> Result<Array> {
    let right = is_right(right, side)?;
    let ty = operand_type(input);
    let side = fx_core::Arg::None;
    let sorter_type = sorter.map(type_of);
    search_type(&type_of(sequence), scalar_or(&ty, input), out_int32, right, &side, sorter_type.as_ref())?;
    let dtype = result_dtype(&[OperandValue::Array(sequence), input]);
    let mut sequence = dense(sequence, dtype)?;
    let n = sequence.shape()[sequence.rank() - 1];
    if let Some(sorter) = sorter {
        sequence = sorted_by(&sequence, sorter, n)?;
    }
    let values = operand_array(input, dtype)?;
    // All values are searched in one row, or the values of each row in its own.
    let (n_rows, width) = match sequence.rank() {
        1 => (values.numel(), 1),
        rank => (values.numel() / values.shape()[rank - 1].max(1), values.shape()[rank - 1]),
    };
    let is_shared = sequence.rank() == 1;
    let cost = n.max(2).ilog2() as usize * width;
    let wide = comparable(&sequence);
    let values = comparable(&values);
    let out = dispatch_ordered!(dtype, T => {
        let (data, wanted) = (slice::<T>(&wide), slice::<T>(&values));
        fill_rows::<i64>(n_rows, width, cost, |row, out| {
            let sequence = if is_shared { data } else { &data[row * n..][..n] };
            for (out, &x) in out.iter_mut().zip(&wanted[row * width..]) {
                *out = place(sequence, x, right) as i64;
            }
        })?
    });
    Ok(Array::from_vec(out, values.shape())?.cast(index_dtype(out_int32)))
}

/// Returns rows in the order that `sorter` names.
fn sorted_by(sequence: &Array, sorter: &Array, n: usize) -> Result<Array> {
    let order = positions(sorter, n)?;
    dispatch_dtype!(sequence.dtype(), T => {
        let data = slice::<T>(sequence);
        let sorted = order.iter().enumerate().map(|(i, &at)| data[i / n * n + at]).collect::<Vec<T>>();
        Array::from_vec(sorted, sequence.shape())
    })
}

/// Returns how many elements are before the place.
///
/// Halved as in PyTorch, which decides where a sequence with NaN, to which no order applies, leads.
fn place<T: Ordered>(sequence: &[T], x: T, right: bool) -> usize {
    let is_before = |y: T| if right { !x.below(y) } else { x.is_nan() || y.is_nan() || y.below(x) };
    let (mut start, mut end) = (0, sequence.len());
    while start < end {
        let middle = start + (end - start) / 2;
        if is_before(sequence[middle]) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}

fn bucket_type(
    input: OperandType<'_>,
    boundaries: &TensorType,
    out_int32: bool,
    right: bool,
) -> Result<TensorType> {
    if boundaries.rank() != 1 {
        bail!(Shape, "expected boundaries of rank 1, got {boundaries}");
    }
    search_type(boundaries, input, out_int32, right, &fx_core::Arg::None, None)
}

fn bucket_array(input: OperandValue<'_>, boundaries: &Array, out_int32: bool, right: bool) -> Result<Array> {
    let ty = operand_type(input);
    bucket_type(scalar_or(&ty, input), &type_of(boundaries), out_int32, right)?;
    search_array(boundaries, input, out_int32, right, &fx_core::Arg::None, None)
}

fn isin_type(
    elements: OperandType<'_>,
    test_elements: OperandType<'_>,
    _assume_unique: bool,
    _invert: bool,
) -> Result<TensorType> {
    if let (OperandType::Scalar(_), OperandType::Scalar(_)) = (&elements, &test_elements) {
        bail!(Argument, "expected a tensor and a number, or two tensors, got two numbers");
    }
    typed(DType::Bool, operand_shape(&elements).iter().cloned())
}

fn isin_array(
    elements: OperandValue<'_>,
    test_elements: OperandValue<'_>,
    assume_unique: bool,
    invert: bool,
) -> Result<Array> {
    let (a, b) = (operand_type(elements), operand_type(test_elements));
    isin_type(scalar_or(&a, elements), scalar_or(&b, test_elements), assume_unique, invert)?;
    let dtype = crate::ops::check::wide(result_dtype(&[elements, test_elements]));
    let (elements, tests) =
        (comparable(&operand_array(elements, dtype)?), comparable(&operand_array(test_elements, dtype)?));
    let out = dispatch_ordered!(dtype, T => {
        let mut tests: Vec<u64> = slice::<T>(&tests).iter().filter(|x| !x.is_nan()).map(|x| x.key()).collect();
        tests.sort_unstable();
        let data = slice::<T>(&elements);
        fill(data.len(), |start, out: &mut [bool]| {
            for (out, &x) in out.iter_mut().zip(&data[start..]) {
                *out = (!x.is_nan() && tests.binary_search(&x.key()).is_ok()) != invert;
            }
        })?
    });
    Array::from_vec(out, elements.shape())
}

fn nonzero_type(x: &TensorType, as_tuple: bool) -> Result<TypeTree> {
    let count = fresh_size(&x.shape.numel());
    if as_tuple {
        let ty = typed(DType::I64, [count])?;
        return Ok(fx_core::Arg::tuple(vec![ty.into_type(); x.rank().max(1)]));
    }
    Ok(typed(DType::I64, [count, x.rank().into()])?.into_type())
}

/// Returns where in row-major order the elements are that are not zero.
pub(crate) fn nonzero_positions(x: &Array) -> Result<Vec<i64>> {
    let x = x.contiguous()?;
    dispatch_dtype!(x.dtype(), T => {
        let data = slice::<T>(&x);
        let mark = |at: usize, marks: &mut [bool]| fx_simd::call_256::<set, _>((&data[at..at + marks.len()], marks));
        compacted(data.len(), &mark, |i| i as i64)
    })
}

fx_simd::wide! {
    /// Marks the elements that are not zero.
    fn set[T: Element]((data, marks): (&[T], &mut [bool])) {
        marks.iter_mut().zip(data).for_each(|(mark, &x)| *mark = x != T::default());
    }
}

fn nonzero_array(x: &Array, as_tuple: bool) -> Result<Value> {
    let found = nonzero_positions(x)?;
    if !as_tuple {
        let rank = x.rank();
        let shape = Sizes::from_slice(x.shape());
        let numel = checked_numel(&[found.len(), rank])?;
        let count = found.len();
        if rank < 2 {
            let found = if rank == 0 { Vec::new() } else { found };
            return Ok(Array::from_vec(found, &[count, rank])?.into_value());
        }
        let rows = BLOCK / rank + 1;
        let out = build_blocks(numel, rows * rank, PARALLEL.div_ceil(BLOCK), &|at, out: &mut [i64]| {
            for (out, &at) in out.chunks_exact_mut(rank).zip(&found[at / rank..]) {
                indices(at, &shape, out);
            }
        })?;
        return Ok(Array::from_vec(out, &[found.len(), rank])?.into_value());
    }
    let shape = if x.rank() == 0 { &[1][..] } else { x.shape() };
    let mut stride = x.numel().max(1);
    let mut axes = Vec::new();
    for &size in shape {
        stride /= size.max(1);
        let mut axis = try_vec::<i64>(found.len())?;
        axis.extend(found.iter().map(|&at| (at as usize / stride % size) as i64));
        axes.push(Array::from_vec(axis, &[found.len()])?.into_value());
    }
    Ok(fx_core::Arg::tuple(axes))
}

/// Stores the index of a position in row-major order.
#[inline]
fn indices(at: i64, shape: &[usize], out: &mut [i64]) {
    let mut rest = at as usize;
    for (out, &size) in out.iter_mut().zip(shape).skip(1).rev() {
        // Short numbers are divided faster.
        let (quotient, remainder) = match (u32::try_from(rest), u32::try_from(size)) {
            (Ok(rest), Ok(size)) => ((rest / size) as usize, (rest % size) as usize),
            _ => (rest / size, rest % size),
        };
        (*out, rest) = (remainder as i64, quotient);
    }
    out[0] = rest as i64;
}
