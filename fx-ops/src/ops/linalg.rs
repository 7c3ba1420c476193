//! Matrix products.
//!
//! Operands are passed to the GEMM by their strides, so that a transposed operand is not copied. Half precision is
//! computed in `f32`; integers wrap; bools are refused.

use fx_core::array::{StridedIndex, reshaped};
use fx_core::op::Default::Int;
use fx_core::op::Flops::{PerOutput, Rule};
use fx_core::pointwise::{broadcast_dims, broadcast_shapes, held};
use fx_core::{
    Array, Category, DType, Dim, Element, Op, Result, Scalar, Shape, Stored, TensorType, bail, err, kernels,
};
use fx_simd::parallel;

use crate::kernel::gemm::{MANY, gemm_by, gemm_int};
use crate::ops::check::{opt_type_of, same_dtype, same_size, type_of, wide, zeroed};
use crate::ops::flops;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[LINALG];

kernels! {
    /// Matrix products.
    pub trait Linalg; pub static LINALG;

    /// The matrix product of the last two axes, over broadcast leading axes:
    /// `[.., m, k] @ [.., k, n] = [.., m, n]`.
    ///
    /// An operand of rank 1 is a row on the left or a column on the right, whose axis the result does not
    /// have. Both are of one dtype, which is not bool.
    #[flops = Rule(flops::product::<0>)]
    matmul(x: Tensor, other: Tensor) = matmul_type, product;
    /// The matrix product `[m, k] @ [k, n] = [m, n]`, without broadcasting.
    #[flops = Rule(flops::product::<0>)]
    mm(x: Tensor, mat2: Tensor) = mm_type, mm_kernel;
    /// The matrix products of a batch: `[b, m, k] @ [b, k, n] = [b, m, n]`, without broadcasting.
    #[flops = Rule(flops::product::<0>)]
    bmm(x: Tensor, mat2: Tensor) = bmm_type, bmm_kernel;
    /// The product of a matrix and a vector: `[m, k] @ [k] = [m]`.
    #[flops = Rule(flops::product::<0>)]
    mv(x: Tensor, vec: Tensor) = mv_type, mv_kernel;
    /// The sum of the products of two vectors: `[k] . [k] = []`.
    #[flops = Rule(flops::product::<0>)]
    dot(x: Tensor, tensor: Tensor) = dot_type, dot_kernel;
    /// All products of two vectors: `[m] x [n] = [m, n]`, in the promoted dtype.
    #[flops = PerOutput(1)]
    outer(x: Tensor, vec2: Tensor) = outer_type, outer_kernel;
    /// `beta * x + alpha * mat1 @ mat2`; `x` broadcasts to `[m, n]`, and is not read if `beta` is 0.
    ///
    /// For integers `beta` and `alpha` are rounded towards zero.
    #[flops = Rule(flops::product::<1>)]
    addmm(x: Tensor, mat1: Tensor, mat2: Tensor; beta: Number = Int(1), alpha: Number = Int(1)) = addmm_type, addmm_kernel;
    /// `beta * x + alpha * mat @ vec`; `x` broadcasts to `[m]`, and is not read if `beta` is 0.
    #[flops = Rule(flops::product::<1>)]
    addmv(x: Tensor, mat: Tensor, vec: Tensor; beta: Number = Int(1), alpha: Number = Int(1)) = addmv_type, addmv_kernel;
    /// `beta * x + alpha * batch1 @ batch2`; `x` broadcasts to `[b, m, n]`, and is not read if `beta` is 0.
    #[flops = Rule(flops::product::<1>)]
    baddbmm(x: Tensor, batch1: Tensor, batch2: Tensor; beta: Number = Int(1), alpha: Number = Int(1))
        = baddbmm_type, baddbmm_kernel;
    /// `x @ weight.T + bias`: `[.., in] -> [.., out]` for a weight `[out, in]` and a bias `[out]`.
    ///
    /// A weight `[in]` gives `[..]`.
    #[flops = Rule(flops::product::<0>)]
    linear(x: Tensor, weight: Tensor, bias: OptTensor = None) = linear_type, linear_kernel;
}

fn matmul_type(a: &TensorType, b: &TensorType) -> Result<TensorType> {
    same_dtype("a right operand", a.dtype, b.dtype)?;
    if a.dtype == DType::Bool {
        bail!(DType, "expected numbers, got bool");
    }
    let (Some((inner, rest_a)), false) = (a.shape.split_last(), b.rank() == 0) else {
        bail!(Shape, "expected matrices or vectors, got {a} and {b}");
    };
    let (rows, batch_a): (&[Dim], &[Dim]) = match rest_a.split_last() {
        Some((row, batch)) => (std::slice::from_ref(row), batch),
        None => (&[], &[]),
    };
    let (inner_b, columns, batch_b): (&Dim, &[Dim], &[Dim]) = match &b.shape[..] {
        [batch @ .., inner, column] => (inner, std::slice::from_ref(column), batch),
        [inner] => (inner, &[], &[]),
        [] => bail!(Shape, "expected a matrix or a vector, got {b}"),
    };
    if inner.same(inner_b).is_no() {
        return Err(err!(Shape, "expected a right operand with {inner} rows, got {inner_b}")
            .help(format!("cannot multiply {a} with {b}")));
    }
    let batch = broadcast_dims([batch_a, batch_b].into_iter())?;
    Ok(TensorType::new(a.dtype, batch.iter().chain(rows).chain(columns).cloned().collect::<Shape>()))
}

fn ranks(what: &str, expected: [usize; 2], a: &TensorType, b: &TensorType) -> Result<()> {
    if [a.rank(), b.rank()] != expected {
        let [first, second] = expected;
        return Err(err!(Shape, "{what} takes ranks {first} and {second}, got {a} and {b}")
            .help("use `matmul` for other ranks"));
    }
    Ok(())
}

fn mm_type(a: &TensorType, b: &TensorType) -> Result<TensorType> {
    ranks("mm", [2, 2], a, b)?;
    matmul_type(a, b)
}

fn bmm_type(a: &TensorType, b: &TensorType) -> Result<TensorType> {
    ranks("bmm", [3, 3], a, b)?;
    same_size("a batch of", &a.shape[0], &b.shape[0])?;
    same_dtype("a right operand", a.dtype, b.dtype)?;
    if a.dtype == DType::Bool {
        bail!(DType, "expected numbers, got bool");
    }
    same_size("a right operand with rows:", &a.shape[2], &b.shape[1])?;
    Ok(TensorType::new(a.dtype, [&a.shape[0], &a.shape[1], &b.shape[2]].into_iter().collect::<Shape>()))
}

fn mv_type(a: &TensorType, b: &TensorType) -> Result<TensorType> {
    ranks("mv", [2, 1], a, b)?;
    matmul_type(a, b)
}

fn dot_type(a: &TensorType, b: &TensorType) -> Result<TensorType> {
    ranks("dot", [1, 1], a, b)?;
    matmul_type(a, b)
}

fn outer_type(a: &TensorType, b: &TensorType) -> Result<TensorType> {
    ranks("outer", [1, 1], a, b)?;
    let dtype = a.dtype.promote(b.dtype);
    Ok(TensorType::new(dtype, [&a.shape[0], &b.shape[0]].into_iter().collect::<Shape>()))
}

/// Returns the type of a product to which `x` is added.
fn added(x: &TensorType, product: TensorType) -> Result<TensorType> {
    same_dtype("an addend", product.dtype, x.dtype)?;
    let extra = x.rank() > product.rank();
    let fits = x.shape.iter().rev().zip(product.shape.iter().rev());
    let one = Dim::new(1);
    if extra || fits.into_iter().any(|(from, to)| from.same(&one).is_no() && from.same(to).is_no()) {
        bail!(Shape, "expected an addend that broadcasts to {}, got {}", product.shape, x.shape);
    }
    Ok(product)
}

fn addmm_type(
    x: &TensorType,
    a: &TensorType,
    b: &TensorType,
    _beta: Category,
    _alpha: Category,
) -> Result<TensorType> {
    added(x, mm_type(a, b)?)
}

fn addmv_type(
    x: &TensorType,
    a: &TensorType,
    b: &TensorType,
    _beta: Category,
    _alpha: Category,
) -> Result<TensorType> {
    added(x, mv_type(a, b)?)
}

fn baddbmm_type(
    x: &TensorType,
    a: &TensorType,
    b: &TensorType,
    _beta: Category,
    _alpha: Category,
) -> Result<TensorType> {
    added(x, bmm_type(a, b)?)
}

fn linear_type(x: &TensorType, weight: &TensorType, bias: Option<&TensorType>) -> Result<TensorType> {
    if x.rank() == 0 || !(1..=2).contains(&weight.rank()) {
        bail!(Shape, "linear takes an input [.., in] and a weight [out, in] or [in], got {x} and {weight}");
    }
    same_dtype("a weight", x.dtype, weight.dtype)?;
    if x.dtype == DType::Bool {
        bail!(DType, "expected numbers, got bool");
    }
    let (inner, rest) = (&x.shape[x.rank() - 1], &x.shape[..x.rank() - 1]);
    let inner_w = &weight.shape[weight.rank() - 1];
    if inner.same(inner_w).is_no() {
        return Err(err!(Shape, "expected an input with {inner_w} features, got {inner}")
            .help(format!("the weight is {weight}, the input {x}")));
    }
    let out = &weight.shape[..weight.rank() - 1];
    if let Some(bias) = bias {
        same_dtype("a bias", x.dtype, bias.dtype)?;
        if bias.rank() > 0 {
            crate::ops::check::same_shape("a bias", out, &bias.shape)?;
        }
    }
    Ok(TensorType::new(x.dtype, rest.iter().chain(out).cloned().collect::<Shape>()))
}

pub(crate) fn product(a: &Array, b: &Array) -> Result<Array> {
    matmul_type(&type_of(a), &type_of(b))?;
    multiply(a, b, None)
}

fn mm_kernel(a: &Array, b: &Array) -> Result<Array> {
    mm_type(&type_of(a), &type_of(b))?;
    multiply(a, b, None)
}

fn bmm_kernel(a: &Array, b: &Array) -> Result<Array> {
    bmm_type(&type_of(a), &type_of(b))?;
    multiply(a, b, None)
}

fn mv_kernel(a: &Array, b: &Array) -> Result<Array> {
    mv_type(&type_of(a), &type_of(b))?;
    multiply(a, b, None)
}

fn dot_kernel(a: &Array, b: &Array) -> Result<Array> {
    dot_type(&type_of(a), &type_of(b))?;
    multiply(a, b, None)
}

fn outer_kernel(a: &Array, b: &Array) -> Result<Array> {
    outer_type(&type_of(a), &type_of(b))?;
    crate::ops::outer::outer(a, b, a.dtype().promote(b.dtype()))
}

/// What is added to a product: `beta * x + alpha * product`.
struct Addend<'a> {
    x: &'a Array,
    beta: Scalar,
    alpha: Scalar,
}

macro_rules! add_kernels {
    ($($name:ident = $rule:ident;)*) => {$(
        fn $name(x: &Array, a: &Array, b: &Array, beta: Scalar, alpha: Scalar) -> Result<Array> {
            $rule(&type_of(x), &type_of(a), &type_of(b), beta.category(), alpha.category())?;
            multiply(a, b, Some(Addend { x, beta, alpha }))
        }
    )*};
}
add_kernels! {
    addmm_kernel = addmm_type;
    addmv_kernel = addmv_type;
    baddbmm_kernel = baddbmm_type;
}

fn linear_kernel(x: &Array, weight: &Array, bias: Option<&Array>) -> Result<Array> {
    linear_type(&type_of(x), &type_of(weight), opt_type_of(bias).as_ref())?;
    let weight = if weight.rank() == 2 { weight.transpose(0, 1)? } else { weight.clone() };
    let one = Scalar::Int(1);
    multiply(x, &weight, bias.map(|x| Addend { x, beta: one, alpha: one }))
}

/// Multiplies operands that the rule of `matmul` takes.
fn multiply(a: &Array, b: &Array, addend: Option<Addend<'_>>) -> Result<Array> {
    let dtype = a.dtype();
    let wide = wide(dtype);
    let (a, b) = (a.cast(wide), b.cast(wide));
    let out = match wide {
        DType::F32 => multiply_in::<f32>(&a, &b, addend),
        DType::F64 => multiply_in::<f64>(&a, &b, addend),
        DType::U8 => multiply_in::<u8>(&a, &b, addend),
        DType::I8 => multiply_in::<i8>(&a, &b, addend),
        DType::I32 => multiply_in::<i32>(&a, &b, addend),
        DType::I64 => multiply_in::<i64>(&a, &b, addend),
        DType::Bool | DType::F16 | DType::BF16 => bail!(DType, "expected numbers, got {dtype}"),
    }?;
    Ok(out.cast(dtype))
}

/// A matrix in a slice: the slice, and its strides by rows and columns.
type Matrix<'a, T> = (&'a [T], (usize, usize));

trait Multiply: Element {
    /// Stores `alpha * a @ b + beta * c` in the row-major `c`; `c` is not read when `beta` is zero. Threads
    /// may share the work.
    fn multiply(
        shared: bool,
        sizes: [usize; 3],
        alpha: Self,
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        beta: Self,
        c: &mut [Self],
    );
}

macro_rules! multiply_floats {
    ($($t:ty)*) => {$(
        impl Multiply for $t {
            fn multiply(
                shared: bool,
                [m, k, n]: [usize; 3],
                alpha: $t,
                (a, sa): Matrix<'_, $t>,
                (b, sb): Matrix<'_, $t>,
                beta: $t,
                c: &mut [$t],
            ) {
                gemm_by(shared, m, k, n, alpha, a, sa, b, sb, beta, c, (n, 1));
            }
        }
    )*};
}
multiply_floats!(f32 f64);

macro_rules! multiply_ints {
    ($($t:ty)*) => {$(
        impl Multiply for $t {
            fn multiply(
                _shared: bool,
                [m, k, n]: [usize; 3],
                alpha: $t,
                (a, sa): Matrix<'_, $t>,
                (b, sb): Matrix<'_, $t>,
                beta: $t,
                c: &mut [$t],
            ) {
                if beta == 0 {
                    gemm_int(m, k, n, a, sa, b, sb, c);
                    c.iter_mut().for_each(|c| *c = alpha.wrapping_mul(*c));
                    return;
                }
                let mut product = vec![0; c.len()];
                gemm_int(m, k, n, a, sa, b, sb, &mut product);
                for (c, product) in c.iter_mut().zip(product) {
                    *c = beta.wrapping_mul(*c).wrapping_add(alpha.wrapping_mul(product));
                }
            }
        }
    )*};
}
multiply_ints!(u8 i8 i32 i64);

fn multiply_in<T: Multiply + Stored>(a: &Array, b: &Array, addend: Option<Addend<'_>>) -> Result<Array> {
    let (row, column) = (a.rank() > 1, b.rank() > 1);
    let a = if row { a.clone() } else { a.unsqueeze(0)? };
    let b = if column { b.clone() } else { b.unsqueeze(1)? };
    let (m, k) = (a.shape()[a.rank() - 2], a.shape()[a.rank() - 1]);
    let n = b.shape()[b.rank() - 1];
    let batch = broadcast_shapes([&a.shape()[..a.rank() - 2], &b.shape()[..b.rank() - 2]].into_iter())?;
    let mut shape = batch.clone();
    shape.extend(row.then_some(m));
    shape.extend(column.then_some(n));
    let numel = fx_core::array::checked_numel(&shape)?;

    let (alpha, beta, mut out) = match addend {
        Some(Addend { x, beta, alpha }) => {
            let beta = T::from_scalar(held(beta, T::DTYPE)?);
            let out = if beta == T::from_scalar(Scalar::Int(0)) {
                zeroed(numel)?
            } else {
                x.cast(T::DTYPE).broadcast_to(&shape)?.to_vec::<T>()?
            };
            (T::from_scalar(held(alpha, T::DTYPE)?), beta, out)
        }
        None => (T::from_scalar(Scalar::Int(1)), T::default(), zeroed(numel)?),
    };
    if numel == 0 {
        return Array::from_vec(out, &shape);
    }
    let (a_data, b_data) = (a.data::<T>()?, b.data::<T>()?);
    let matrix = |array: &Array| {
        let [.., rows, columns] = array.strides() else { unreachable!("both operands are matrices by now") };
        (*rows as usize, *columns as usize)
    };
    let rows_of_a: usize = a.shape()[..a.rank() - 1].iter().product();
    let as_one = (b.rank() == 2).then(|| reshaped(a.shape(), a.strides(), &[rows_of_a, k])).flatten();
    if let Some(strides) = as_one {
        let sa = (strides[0] as usize, strides[1] as usize);
        T::multiply(true, [rows_of_a, k, n], alpha, (a_data, sa), (b_data, matrix(&b)), beta, &mut out);
        return Array::from_vec(out, &shape);
    }
    let broadcast = |array: &Array, rows: usize, columns: usize| {
        let mut shape = batch.clone();
        shape.extend([rows, columns]);
        array.broadcast_to(&shape)
    };
    let (a, b) = (broadcast(&a, m, k)?, broadcast(&b, k, n)?);
    let starts: Vec<[usize; 2]> =
        StridedIndex::new(&batch, [(&a.strides()[..batch.len()], 0), (&b.strides()[..batch.len()], 0)])
            .collect();
    let (sa, sb) = (matrix(&a), matrix(&b));
    let shared = starts.len() < MANY;
    let run = |[at_a, at_b]: [usize; 2], out: &mut [T]| {
        // With k = 0 an operand has no elements, and nothing is read.
        let (a, b) = (a_data.get(at_a..).unwrap_or(&[]), b_data.get(at_b..).unwrap_or(&[]));
        T::multiply(shared, [m, k, n], alpha, (a, sa), (b, sb), beta, out);
    };
    let at_once = GRAIN.div_ceil(m.saturating_mul(n).saturating_mul(k).max(1));
    parallel::chunks(&mut out, m * n, at_once, |i, out| run(starts[i], out));
    Array::from_vec(out, &shape)
}

/// The multiply-adds below which a second thread does not pay.
const GRAIN: usize = 1 << 18;
