//! Operators on tensors that compute no elements: sizes, dtypes, conversions from and to numbers, copies and
//! parts.

use std::sync::Arc;

use fx_core::{Array, DType, Result, Scalar, bail, err};

use super::numbers::truncated;
use super::{Row, arg};
use crate::value::{TensorCell, TensorRef, Value, transaction};

fn tensor<'a>(args: &[&'a Value]) -> Result<&'a TensorRef> {
    arg(args, 0)?.to_tensor()
}

/// PyTorch's numbers of dtypes in programs, and the dtype of the elements or of the parts of complex ones.
const DTYPES: &[(i64, DType, bool)] = &[
    (0, DType::U8, false),
    (1, DType::I8, false),
    (3, DType::I32, false),
    (4, DType::I64, false),
    (5, DType::F16, false),
    (6, DType::F32, false),
    (7, DType::F64, false),
    (8, DType::F16, true),
    (9, DType::F32, true),
    (10, DType::F64, true),
    (11, DType::Bool, false),
    (15, DType::BF16, false),
];

/// Returns the dtype that a program names by a number. Fails for numbers of dtypes that fx does not have.
pub fn dtype_of(code: i64) -> Result<(DType, bool)> {
    match DTYPES.iter().find(|(number, _, _)| *number == code) {
        Some(&(_, dtype, is_complex)) => Ok((dtype, is_complex)),
        None => {
            let name =
                usize::try_from(code).ok().and_then(|code| MISSING.iter().find(|(own, _)| *own == code));
            let name = name.map_or(String::new(), |(_, name)| format!(" {name}"));
            Err(err!(DType, "fx does not have the dtype{name} (PyTorch's number {code})")
                .help("use another dtype; integers have 8, 32 or 64 bits"))
        }
    }
}

/// The names of dtypes that programs name and fx does not have.
const MISSING: &[(usize, &str)] = &[
    (2, "int16"),
    (12, "qint8"),
    (13, "quint8"),
    (14, "qint32"),
    (23, "float8_e5m2"),
    (24, "float8_e4m3fn"),
    (27, "uint16"),
    (28, "uint32"),
    (29, "uint64"),
];

/// The kind of a dtype by its number, lowest first: bool, integers, floats, complex numbers; and its place there.
fn rank(code: i64) -> Result<(u8, u8)> {
    Ok(match code {
        11 => (0, 0),
        0 => (1, 0),
        1..=4 => (1, code as u8),
        5 => (2, 0),
        15 => (2, 1),
        6 | 7 => (2, code as u8),
        8..=10 => (3, code as u8),
        _ => return dtype_of(code).and_then(|_| Err(err!(DType, "the dtype {code} has no order"))),
    })
}

/// The number of the dtype that both dtypes fit in.
fn promoted(a: i64, b: i64) -> Result<i64> {
    let ((kind, place), (other, second)) = (rank(a)?, rank(b)?);
    let (low, high) = if (kind, place) <= (other, second) { (a, b) } else { (b, a) };
    let ((low_kind, _), (high_kind, _)) = (rank(low)?, rank(high)?);
    Ok(match (low, high) {
        // No integer of 8 bits holds both.
        (0, 1) => 2,
        // Neither float of 16 bits holds the other.
        (5, 15) => 6,
        (7, 8 | 9) => 10,
        (6 | 15, 8) => 9,
        _ if low_kind <= high_kind => high,
        _ => low,
    })
}

/// Whether values of a dtype may be written to one of another.
fn can_cast(from: i64, to: i64) -> Result<bool> {
    let ((from, _), (to, _)) = (rank(from)?, rank(to)?);
    Ok(match (from, to) {
        (3, to) => to == 3,
        (2, to) => to >= 2,
        (1, to) => to >= 1,
        _ => true,
    })
}

/// Returns the number by which programs name a dtype.
pub fn code_of(dtype: DType, is_complex: bool) -> i64 {
    let row = DTYPES.iter().find(|(_, other, complex)| *other == dtype && *complex == is_complex);
    row.map_or(0, |(code, _, _)| *code)
}

fn axis(value: &Value, rank: usize) -> Result<usize> {
    let axis = value.to_int()?;
    let at = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(at).ok().filter(|&at| at < rank).ok_or_else(|| {
        err!(
            Axis,
            "Dimension out of range (expected to be in range of [-{rank}, {}], but got {axis})",
            rank as i64 - 1
        )
    })
}

fn ints(sizes: &[usize]) -> Value {
    Value::ints(sizes.iter().map(|&size| size as i64))
}

fn numel(tensor: &TensorCell) -> i64 {
    tensor.shape().iter().product::<usize>() as i64
}

/// The elements of nested lists in order, and the sizes of the lists. Fails if lists of one depth differ.
fn nested(value: &Value, depth: usize, sizes: &mut Vec<usize>, out: &mut Vec<Value>) -> Result<()> {
    match value {
        Value::List(_) | Value::Tuple(_) => {
            let items = value.to_items()?;
            match sizes.get(depth) {
                None if depth >= 64 => bail!(Limit, "lists are nested deeper than 64"),
                None => sizes.push(items.len()),
                Some(&size) if size == items.len() => {}
                Some(&size) => {
                    bail!(Shape, "expected a list of {size} items, as the others have, got {}", items.len())
                }
            }
            items.iter().try_for_each(|item| nested(item, depth + 1, sizes, out))
        }
        item if depth == sizes.len() => {
            out.push(match item {
                Value::Tensor(tensor) => tensor.item()?,
                item => item.clone(),
            });
            Ok(())
        }
        _ => Err(err!(Shape, "expected lists of the same depth")),
    }
}

fn make_tensor(args: &[&Value]) -> Result<Value> {
    let data = arg(args, 0)?;
    let wanted = match args.get(1) {
        Some(Value::Int(code)) => Some(dtype_of(*code)?),
        _ => None,
    };
    if let Value::Tensor(tensor) = data {
        let array = tensor.array()?;
        let dtype = wanted.map_or(array.dtype(), |(dtype, _)| dtype);
        let made = array.cast(dtype);
        return Ok(Value::Tensor(if tensor.is_complex() {
            TensorCell::complex_of(made)?
        } else {
            TensorCell::of(made)?
        }));
    }
    let (mut sizes, mut items) = (Vec::new(), Vec::new());
    nested(data, 0, &mut sizes, &mut items)?;
    transaction::charge(items.len() as u128 * 8)?;
    let has = |test: fn(&Value) -> bool| items.iter().any(test);
    let is_complex = wanted.map_or(has(|item| matches!(item, Value::Complex(_))), |(_, complex)| complex);
    if is_complex {
        let mut parts = Vec::with_capacity(2 * items.len());
        for item in &items {
            let (re, im) = item.to_complex()?;
            parts.extend([re, im]);
        }
        sizes.push(2);
        let array = Array::from_vec(parts, &sizes)?.cast(wanted.map_or(DType::F32, |(dtype, _)| dtype));
        return TensorCell::complex_of(array).map(Value::Tensor);
    }
    let inferred = if items.is_empty() || has(|item| matches!(item, Value::Float(_))) {
        DType::F32
    } else if has(|item| matches!(item, Value::Int(_))) {
        DType::I64
    } else {
        DType::Bool
    };
    let array = match inferred {
        DType::F32 => {
            Array::from_vec(items.iter().map(Value::to_float).collect::<Result<Vec<f64>>>()?, &sizes)?
        }
        _ => Array::from_vec(items.iter().map(Value::to_int).collect::<Result<Vec<i64>>>()?, &sizes)?,
    };
    Value::tensor(array.cast(wanted.map_or(inferred, |(dtype, _)| dtype)))
}

fn number_to_tensor(args: &[&Value]) -> Result<Value> {
    Value::tensor(match arg(args, 0)? {
        Value::Bool(x) => Array::scalar(*x),
        Value::Int(x) => Array::scalar(*x),
        Value::Float(x) => Array::scalar(*x),
        Value::Complex(parts) => {
            let array = Array::from_vec(vec![parts.0, parts.1], &[2])?;
            return TensorCell::complex_of(array).map(Value::Tensor);
        }
        other => return Err(err!(Argument, "expected a number, got {}", other.type_name())),
    })
}

/// Parts of an axis with these sizes, as views.
fn parts(tensor: &TensorRef, axis: usize, sizes: impl IntoIterator<Item = usize>) -> Result<Value> {
    let array = tensor.array()?;
    let mut start = 0;
    let mut views = Vec::new();
    for size in sizes {
        let view = array.slice_axis(axis, start, start + size, 1)?;
        views.push(Value::Tensor(tensor.view_of(view, tensor.is_complex())?));
        start += size;
    }
    Ok(Value::list(views))
}

fn even_parts(tensor: &TensorRef, axis: usize, size: i64) -> Result<Value> {
    let whole = tensor.shape()[axis];
    let Some(size) = usize::try_from(size).ok().filter(|&size| size > 0 || whole == 0) else {
        bail!(Argument, "expected a size of parts of at least 1, got {size}");
    };
    let n = if whole == 0 { 1 } else { whole.div_ceil(size) };
    parts(tensor, axis, (0..n).map(|i| size.min(whole - (i * size).min(whole))))
}

fn split_with_sizes(args: &[&Value]) -> Result<Value> {
    let tensor = tensor(args)?;
    let axis = axis(arg(args, 2)?, tensor.shape().len())?;
    let sizes: Option<Vec<usize>> =
        arg(args, 1)?.to_ints()?.into_iter().map(|size| usize::try_from(size).ok()).collect();
    let whole = tensor.shape()[axis];
    match sizes {
        Some(sizes) if sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size)) == Some(whole) => {
            parts(tensor, axis, sizes)
        }
        _ => Err(err!(Shape, "expected sizes of parts whose sum is {whole}, the size of the axis")),
    }
}

fn unbind(args: &[&Value]) -> Result<Value> {
    let tensor = tensor(args)?;
    let axis = axis(arg(args, 1)?, tensor.shape().len())?;
    let array = tensor.array()?;
    let each = (0..array.shape()[axis]).map(|index| {
        let view = array.select(axis, index)?;
        Ok(Value::Tensor(tensor.view_of(view, tensor.is_complex())?))
    });
    Ok(Value::list(each.collect::<Result<Vec<_>>>()?))
}

fn copied(tensor: &TensorRef) -> Result<Value> {
    let array = tensor.array()?;
    Ok(Value::Tensor(if tensor.is_complex() {
        TensorCell::complex_of(array)?
    } else {
        TensorCell::of(array)?
    }))
}

fn write(args: &[&Value]) -> Result<Value> {
    let (target, source) = (tensor(args)?, arg(args, 1)?);
    if let Value::Tensor(source) = source {
        if source.is_complex() != target.is_complex() {
            bail!(DType, "real and complex tensors cannot be written to each other");
        }
        target.write(&source.array()?)?;
    } else if target.is_complex() {
        let (re, im) = source.to_complex()?;
        target.write(&Array::from_vec(vec![re, im], &[2])?)?;
    } else {
        let x = match source {
            Value::Bool(x) => Scalar::Bool(*x),
            Value::Int(x) => Scalar::Int(*x),
            other => Scalar::Float(other.to_float()?),
        };
        target.write(&Array::full(target.dtype(), &[], x)?)?;
    }
    Ok(args[0].clone())
}

/// The dtype of a sum: tensors with axes are before those without, and these before numbers, within a kind of
/// dtype.
fn result_type(args: &[&Value]) -> Result<Value> {
    let operand = |value: &Value| -> Result<(u8, DType, bool)> {
        Ok(match value {
            Value::Tensor(tensor) => {
                (u8::from(tensor.shape().is_empty()), tensor.dtype(), tensor.is_complex())
            }
            Value::Bool(_) => (2, DType::Bool, false),
            Value::Int(_) => (2, DType::I64, false),
            Value::Float(_) => (2, DType::F32, false),
            Value::Complex(_) => (2, DType::F32, true),
            other => return Err(err!(Argument, "expected a tensor or a number, got {}", other.type_name())),
        })
    };
    let (a, b) = (operand(arg(args, 0)?)?, operand(arg(args, 1)?)?);
    let kind = |(_, dtype, is_complex): (u8, DType, bool)| match (is_complex, dtype) {
        (true, _) => 3,
        (false, dtype) if dtype.is_float() => 2,
        (false, DType::Bool) => 0,
        _ => 1,
    };
    let (strong, weak) = if a.0 <= b.0 { (a, b) } else { (b, a) };
    let dtype = match (strong.0 == weak.0, kind(weak) > kind(strong)) {
        (true, _) => strong.1.promote(weak.1),
        // A complex number beside floats keeps their width.
        (false, true) if kind(strong) == 2 => strong.1,
        (false, true) => weak.1,
        (false, false) => strong.1,
    };
    Ok(Value::Int(code_of(dtype, strong.2 || weak.2)))
}

/// The only element as an integer; elements of floats are truncated.
fn whole(value: Value) -> Result<Value> {
    match value {
        Value::Float(x) => truncated(x).map(Value::Int),
        other => other.to_int().map(Value::Int),
    }
}

fn truth(value: &Value) -> Result<Value> {
    let (re, im) = value.to_complex()?;
    Ok(Value::Bool(re != 0.0 || im != 0.0))
}

/// Returns the elements as numbers in lists of the annotated depth. Fails if the annotation is that of another
/// tensor.
fn to_list(args: &[&Value]) -> Result<Value> {
    let (x, depth, element) = (tensor(args)?, arg(args, 1)?.to_int()?, arg(args, 2)?.to_int()?);
    let shape = x.shape();
    if shape.len() as i64 != depth {
        let error =
            err!(Argument, "tolist() of a tensor of rank {} gives no list of depth {depth}", shape.len());
        return Err(error.help("annotate the result with a `List[..]` for each axis"));
    }
    let fits = match element {
        0 => x.dtype() == DType::I64,
        1 => x.dtype().is_float() && !x.is_complex(),
        2 => x.dtype() == DType::Bool,
        _ => x.is_complex(),
    };
    if !fits {
        let dtype = if x.is_complex() { "complex" } else { x.dtype().name() };
        let wanted = ["int", "float", "bool", "complex"][element.clamp(0, 3) as usize];
        let error = err!(Argument, "tolist() of a tensor of {dtype} gives no lists of {wanted}");
        return Err(
            error.help("annotate the result with the type of its elements, or convert the tensor first")
        );
    }
    transaction::charge(shape.iter().product::<usize>() as u128 * size_of::<Value>() as u128)?;
    let array = x.array()?;
    let mut items: Vec<Value> = match x.is_complex() {
        true => {
            let parts: Vec<f64> = array.iter_scalars().map(Scalar::to_f64).collect();
            parts.chunks_exact(2).map(|part| Value::complex(part[0], part[1])).collect()
        }
        false => array.iter_scalars().map(Value::from).collect(),
    };
    for axis in (0..shape.len()).rev() {
        let outer: usize = shape[..axis].iter().product();
        let mut rest = items.into_iter();
        items = (0..outer).map(|_| Value::list(rest.by_ref().take(shape[axis]).collect())).collect();
    }
    items.pop().ok_or_else(|| err!(Argument, "tolist() of no elements gives no number"))
}

/// Returns false: said of tensors of kinds that fx does not have.
fn is_never(a: &[&Value]) -> Result<Value> {
    tensor(a)?;
    Ok(Value::Bool(false))
}

#[rustfmt::skip]
pub(super) static TABLE: &[Row] = &[
    ("aten::size", "-", |_, a| Ok(ints(&tensor(a)?.shape()))),
    ("aten::size", "int", |_, a| { let shape = tensor(a)?.shape(); Ok(Value::Int(shape[axis(arg(a, 1)?, shape.len())?] as i64)) }),
    ("aten::stride", "-", |_, a| Ok(Value::ints(tensor(a)?.strides().iter().map(|&stride| stride as i64)))),
    ("aten::stride", "int", |_, a| { let strides = tensor(a)?.strides(); Ok(Value::Int(strides[axis(arg(a, 1)?, strides.len())?] as i64)) }),
    ("aten::storage_offset", "-", |_, a| Ok(Value::Int(tensor(a)?.storage_offset() as i64))),
    ("aten::dim", "-", |_, a| Ok(Value::Int(tensor(a)?.shape().len() as i64))), ("aten::numel", "-", |_, a| Ok(Value::Int(numel(tensor(a)?)))),
    ("aten::len", "Tensor", |_, a| tensor(a)?.shape().first().map(|&n| Value::Int(n as i64)).ok_or_else(|| err!(Argument, "len() of a 0-d tensor"))),
    ("aten::is_contiguous", "-", |_, a| Ok(Value::Bool(tensor(a)?.is_contiguous()))),
    ("aten::is_floating_point", "-", |_, a| { let x = tensor(a)?; Ok(Value::Bool(!x.is_complex() && x.dtype().is_float())) }),
    ("aten::is_complex", "-", |_, a| Ok(Value::Bool(tensor(a)?.is_complex()))),
    ("prim::dtype", "-", |_, a| { let x = tensor(a)?; Ok(Value::Int(code_of(x.dtype(), x.is_complex()))) }),
    ("prim::requires_grad", "-", |_, a| Ok(Value::Bool(tensor(a)?.requires_grad()))),
    ("aten::requires_grad_", "-", |_, a| { tensor(a)?.set_requires_grad(arg(a, 1)?.to_bool()?); Ok(a[0].clone()) }),
    ("prim::is_cuda", "-", |_, a| is_never(a)), ("prim::is_ipu", "-", |_, a| is_never(a)), ("prim::is_maia", "-", |_, a| is_never(a)),
    ("prim::is_meta", "-", |_, a| is_never(a)), ("prim::is_mkldnn", "-", |_, a| is_never(a)), ("prim::is_mps", "-", |_, a| is_never(a)),
    ("prim::is_mtia", "-", |_, a| is_never(a)), ("prim::is_nested", "-", |_, a| is_never(a)), ("prim::is_quantized", "-", |_, a| is_never(a)),
    ("prim::is_sparse", "-", |_, a| is_never(a)), ("prim::is_sparse_csr", "-", |_, a| is_never(a)), ("prim::is_vulkan", "-", |_, a| is_never(a)),
    ("prim::is_xla", "-", |_, a| is_never(a)), ("prim::is_xpu", "-", |_, a| is_never(a)),
    ("aten::retains_grad", "-", |_, a| is_never(a)), ("aten::is_inference", "-", |_, a| is_never(a)),
    ("aten::is_leaf", "-", |_, a| { tensor(a)?; Ok(Value::Bool(true)) }),
    ("prim::layout", "-", |_, _| Ok(Value::Int(0))), ("prim::is_cpu", "-", |_, _| Ok(Value::Bool(true))),
   
   
    ("prim::tolist", "-", |_, a| to_list(a)), ("aten::item", "-", |_, a| tensor(a)?.item()), ("aten::ScalarImplicit", "-", |_, a| tensor(a)?.item()),
    ("aten::Int", "Tensor", |_, a| whole(tensor(a)?.item()?)), ("aten::IntImplicit", "-", |_, a| whole(tensor(a)?.item()?)),
    ("aten::Float", "Tensor", |_, a| Ok(Value::Float(tensor(a)?.item()?.to_float()?))), ("aten::FloatImplicit", "-", |_, a| Ok(Value::Float(tensor(a)?.item()?.to_float()?))),
    ("aten::Bool", "Tensor", |_, a| truth(&tensor(a)?.item()?)),
    ("prim::NumToTensor", "Scalar bool", |_, a| number_to_tensor(a)), ("aten::scalar_tensor", "-", |_, a| make_tensor(a)),
    ("aten::tensor", "- float int bool complex", |_, a| make_tensor(a)),
    ("aten::as_tensor", "- float int bool complex list", |_, a| match (arg(a, 0)?, a.get(1)) { (x @ Value::Tensor(_), None | Some(Value::None)) => Ok(x.clone()), _ => make_tensor(a) }),
    ("aten::detach", "-", |_, a| Ok(Value::Tensor(tensor(a)?.alias()))), ("aten::cpu", "-", |_, a| { tensor(a)?; Ok(a[0].clone()) }),
    ("aten::detach_", "-", |_, a| { tensor(a)?.set_requires_grad(false); Ok(a[0].clone()) }), ("prim::data", "-", |_, a| Ok(Value::Tensor(tensor(a)?.alias()))),
    ("aten::contiguous", "-", |_, a| if tensor(a)?.is_contiguous() { Ok(a[0].clone()) } else { copied(tensor(a)?) }),
    ("aten::clone", "-", |_, a| copied(tensor(a)?)),
    ("aten::copy_", "- Tensor int float", |_, a| write(a)), ("aten::fill_", "Scalar Tensor", |_, a| write(a)),
    ("aten::zero_", "-", |_, a| write(&[arg(a, 0)?, &Value::Int(0)])),
    ("aten::set_", "source_Tensor", |_, a| { let source = arg(a, 1)?.to_tensor()?; if !Arc::ptr_eq(tensor(a)?, source) { tensor(a)?.become_alias(source); } Ok(a[0].clone()) }),
    ("aten::promote_types", "-", |_, a| promoted(arg(a, 0)?.to_int()?, arg(a, 1)?.to_int()?).map(Value::Int)),
    ("aten::can_cast", "-", |_, a| can_cast(arg(a, 0)?.to_int()?, arg(a, 1)?.to_int()?).map(Value::Bool)),
    ("aten::result_type", "Tensor Scalar Scalar_Tensor Scalar_Scalar", |_, a| result_type(a)),
    ("aten::unbind", "int", |_, a| unbind(a)),
    ("aten::split", "Tensor", |_, a| { let x = tensor(a)?; even_parts(x, axis(arg(a, 2)?, x.shape().len())?, arg(a, 1)?.to_int()?) }),
    ("aten::split", "sizes", |_, a| split_with_sizes(a)), ("aten::split_with_sizes", "-", |_, a| split_with_sizes(a)),
    ("aten::chunk", "-", |_, a| { let x = tensor(a)?; let (axis, n) = (axis(arg(a, 2)?, x.shape().len())?, arg(a, 1)?.to_int()?);
        if n < 1 { bail!(Argument, "chunk expects `chunks` to be greater than 0, got: {n}"); }
        let whole = x.shape()[axis];
        if whole == 0 { return parts(x, axis, (0..n).map(|_| 0)); }
        even_parts(x, axis, whole.div_ceil(n as usize) as i64) }),
];
