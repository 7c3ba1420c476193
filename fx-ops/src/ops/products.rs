//! Products of several matrices and vectors: compositions of `matmul`, elementwise rows and reductions.
#![allow(non_snake_case, reason = "the parameter of vander is called N")]

use fx_core::op::Default::Int;
use fx_core::op::Flops::{PerOutput, Rule, Unknown};
use fx_core::op::kind;
use fx_core::op::kind::TensorsType;
use fx_core::op::{ParamKind, unknown_type};
use fx_core::{
    Arg, Array, Category, DType, Dim, Op, Result, Scalar, TensorType, TypeTree, Value, bail, functions,
    kernels,
};
use smallvec::SmallVec;

use crate::ops::check::{same_dtype, sizes, type_of};
use crate::ops::compose::{Number, Operand, promoted};
use crate::ops::einsum::contracted;
use crate::ops::flops;
use crate::ops::infer::{axis, expect_same, known};
use crate::ops::linalg::{addmm, product};
use crate::ops::outer;
use crate::ops::view::{expand, roll};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[PRODUCTS, CHAINS];

kernels! {
    /// Products of several operands.
    pub trait Products; pub static PRODUCTS;

    /// `beta * x + alpha * sum over i of batch1[i] @ batch2[i]` for `[b, m, k]` and `[b, k, n]`; `x`
    /// broadcasts to `[m, n]`, and is not read if `beta` is 0.
    #[flops = Rule(flops::summed_products)]
    addbmm(x: Tensor, batch1: Tensor, batch2: Tensor; beta: Number = Int(1), alpha: Number = Int(1))
        = summed_batch, summed_batch;
    /// `beta * x + alpha * outer(vec1, vec2)` in the promoted dtype; `x` broadcasts, and is not read if
    /// `beta` is 0.
    #[flops = PerOutput(2)]
    addr(x: Tensor, vec1: Tensor, vec2: Tensor; beta: Number = Int(1), alpha: Number = Int(1)) =
        |x: &TensorType, a: &TensorType, b: &TensorType, beta: Category, alpha: Category| added_outer(x, a, b, beta, alpha),
        addr_array;
    /// Sums products over axes of both: the last `dims` of `x` with the first of `other`, or
    /// `dims = [of_x, of_other]`.
    ///
    /// The result has the other axes of `x`, then those of `other`. A size of 1 repeats.
    #[flops = Rule(flops::tensordot)]
    tensordot(x: Tensor, other: Tensor, dims: Any = Int(2)) =
        |x: &TensorType, other: &TensorType, dims: &TypeTree| tensor_product(x, other, axes_of(dims, |_| Err(unknown_type()))?),
        |x: &Array, other: &Array, dims: &Value| tensor_product(x, other, axes_of(dims, <kind::Int as ParamKind>::value)?);
    /// The cross product along `dim`, which is of size 3; operands broadcast.
    #[flops = PerOutput(3)]
    linalg_cross(x: Tensor, other: Tensor; dim: Int = -1) =
        |x: &TensorType, other: &TensorType, dim: Dim| cross_along(x, other, dim), cross_array;
    /// `linalg_cross` along `dim`, or the first axis of size 3.
    #[flops = PerOutput(3)]
    cross(x: Tensor, other: Tensor, dim: OptInt = None) =
        |x: &TensorType, other: &TensorType, dim: Option<Dim>| cross_somewhere(x, other, dim),
        |x: &Array, other: &Array, dim: Option<i64>| {
            let dim = cross_axis(&type_of(x), &type_of(other), dim.map(Dim::new))?;
            cross_array(x, other, known(&dim)?)
        };
    /// The powers of each element: `[.., n]` becomes `[.., n, N]` with `out[.., i, j] = x[.., i]^j`; without
    /// `N` it is `n`. Those of integers are of i64.
    #[flops = PerOutput(1)]
    linalg_vander(x: Tensor; N: OptInt = None) =
        |x: &TensorType, n: Option<Dim>| powers(x, n),
        powers_array;
    /// The product of `n` matrices `x`: the identity for 0, and products of the inverse below 0.
    #[flops = Unknown]
    linalg_matrix_power(x: Tensor, n: Int) = power_type, power_array;
    /// The rows of `x`, `[n, k]`, in groups, each times a matrix of its own of `mat2`, `[groups, k, m]`.
    ///
    /// `offs` says behind which row each group ends; it rises. Rows behind the last group give zeros.
    #[flops = Rule(flops::grouped_product)]
    grouped_mm(x: Tensor, mat2: Tensor, offs: Tensor) = grouped_type, grouped_array;
    /// `out[.., o] = sum over i, j of x[.., i] * weight[o, i, j] * input2[.., j]`, plus `bias[o]`.
    #[flops = Rule(flops::bilinear)]
    bilinear(x: Tensor, input2: Tensor, weight: Tensor, bias: OptTensor = None) = bilinear_form, bilinear_form;
}

functions! {
    pub static CHAINS;

    /// The product of at least two matrices, in the order of fewest multiplications; the first and the last
    /// may be vectors.
    #[flops = Unknown]
    linalg_multi_dot(tensors: Tensors) =
        |tensors: TensorsType<'_>| chained(&tensors.known()?), |tensors: SmallVec<[&Array; 4]>| chained(&tensors);
    /// The product of matrices, in the order of fewest multiplications.
    #[flops = Unknown]
    chain_matmul(matrices: Tensors) =
        |tensors: TensorsType<'_>| chained_matrices(&tensors.known()?),
        |tensors: SmallVec<[&Array; 4]>| chained_matrices(&tensors);
}

fn grouped_type(x: &TensorType, mat2: &TensorType, offs: &TensorType) -> Result<TensorType> {
    same_dtype("the matrices", x.dtype, mat2.dtype)?;
    let ([n, k], [groups, k_b, m], [ends]) = (&x.shape[..], &mat2.shape[..], &offs.shape[..]) else {
        bail!(Shape, "expected [n, k], [groups, k, m] and [groups], got {x}, {mat2} and {offs}");
    };
    expect_same(k, k_b, "the rows of the matrices")?;
    expect_same(groups, ends, "the number of offsets")?;
    if !offs.dtype.is_int() {
        bail!(DType, "expected offsets of integers, got {}", offs.dtype);
    }
    Ok(TensorType::new(x.dtype, [n, m].into_iter().collect::<fx_core::Shape>()))
}

fn grouped_array(x: &Array, mat2: &Array, offs: &Array) -> Result<Array> {
    let ty = grouped_type(&type_of(x), &type_of(mat2), &type_of(offs))?;
    let n = x.shape()[0] as i64;
    let mut parts: Vec<Array> = Vec::new();
    let mut start = 0;
    for (group, end) in offs.cast(DType::I64).to_vec::<i64>()?.into_iter().enumerate() {
        if !(start..=n).contains(&end) {
            bail!(Argument, "expected offsets that rise to at most {n}, got {end} behind {start}");
        }
        if end > start {
            let rows = x.slice_axis(0, start as usize, end as usize, 1)?;
            parts.push(product(&rows, &mat2.select(0, group)?)?);
        }
        start = end;
    }
    let m = mat2.shape()[2];
    if start < n {
        parts.push(Array::zeros(x.dtype(), &[(n - start) as usize, m])?);
    }
    if parts.is_empty() {
        return Array::zeros(x.dtype(), &sizes(&ty.shape)?);
    }
    let parts: Vec<Value> = parts.into_iter().map(|part| Arg::Leaf(part.into())).collect();
    match (crate::ops::concat::cat::OP.eval)(&[Arg::list(parts), Arg::Int(0)])? {
        Arg::Leaf(tensor) => Ok(tensor.array()?.clone()),
        other => bail!(Graph, "a join gave {}", other.kind_name()),
    }
}

fn summed_batch<V: Operand>(x: &V, a: &V, b: &V, beta: impl Number, alpha: impl Number) -> Result<V> {
    let (left, right) = (a.dims(), b.dims());
    let ([batch, m, k], [batch_b, k_b, n]) = (&left[..], &right[..]) else {
        bail!(Shape, "expected batches of matrices, got {} and {}", a.ty(), b.ty());
    };
    expect_same(batch, batch_b, "the batch of the right operand")?;
    expect_same(k, k_b, "the rows of the right operand")?;
    let inner = batch * k;
    let a = a.reorder(&[1, 0, 2])?.arrange(&[m.clone(), inner.clone()])?;
    let b = b.arrange(&[inner, n.clone()])?;
    let args = [a.arg(), b.arg()];
    let number = crate::ops::compose::IntoOperand::operand;
    x.apply_with(addmm::OP, &args, &[("beta", number(beta.scalar())), ("alpha", number(alpha.scalar()))])
}

fn added_outer<V: Operand>(x: &V, a: &V, b: &V, beta: impl Number, alpha: impl Number) -> Result<V> {
    let (left, right) = (a.dims(), b.dims());
    let ([m], [n]) = (&left[..], &right[..]) else {
        bail!(Shape, "expected two vectors, got {} and {}", a.ty(), b.ty());
    };
    let dtype = promoted(&[x, a, b]);
    let (beta, alpha) = (beta.scalar(), alpha.scalar());
    let is_float = |x: Scalar| x.category() == fx_core::Category::Float;
    if !dtype.is_float() && (is_float(beta) || is_float(alpha)) {
        bail!(Argument, "expected integers for beta and alpha of {dtype}, got floats");
    }
    let size = Arg::list([m, n].map(|size| Arg::dim(size.clone())));
    // Halves are rounded once.
    let is_half = matches!(dtype, DType::F16 | DType::BF16);
    let [x, a, b] =
        if is_half { [x, a, b].map(|x| x.to_dtype(DType::F32)) } else { [x, a, b].map(|x| Ok(x.clone())) };
    let (a, b) = (a?, b?);
    let x = x?.apply(expand::OP, &[size])?;
    let product = a.insert_axis(1)?.mul(&b.insert_axis(0)?)?.mul(alpha)?;
    let out = if beta.to_f64() == 0.0 { product } else { product.add(&x.mul(beta)?)? };
    out.to_dtype(dtype)
}

fn addr_array(x: &Array, a: &Array, b: &Array, beta: Scalar, alpha: Scalar) -> Result<Array> {
    let ty = added_outer(&type_of(x), &type_of(a), &type_of(b), beta.category(), alpha.category())?;
    if !matches!(ty.dtype, DType::F32 | DType::F64) {
        return added_outer(x, a, b, beta, alpha);
    }
    let factors = [beta.to_f64(), alpha.to_f64()];
    outer::added_outer((factors[0] != 0.0).then_some(x), a, b, ty.dtype, factors)
}

/// Reads pairs of axes, or how many; a leaf is read by `leaf`.
pub(crate) fn axes_of<L>(dims: &Arg<L>, leaf: impl Fn(&Arg<L>) -> Result<i64>) -> Result<Pairs> {
    let int = |arg: &Arg<L>| match arg {
        Arg::Int(x) => Ok(*x),
        arg @ Arg::Leaf(_) => leaf(arg),
        other => bail!(Argument, "expected integers in dims, got {}", other.kind_name()),
    };
    let list = |arg: &Arg<L>| match arg.items() {
        Some(items) => items.iter().map(int).collect::<Result<Vec<_>>>(),
        None => Ok(vec![int(arg)?]),
    };
    match dims.items() {
        None => Ok(Pairs::Count(int(dims)?)),
        Some([of_x, of_other]) => Ok(Pairs::Axes([list(of_x)?, list(of_other)?])),
        Some(_) => bail!(Argument, "expected a number of axes or two lists of axes for dims"),
    }
}

/// The axes over which two tensors are contracted.
pub(crate) enum Pairs {
    Count(i64),
    Axes([Vec<i64>; 2]),
}

pub(crate) fn tensor_product<V: Operand>(x: &V, other: &V, pairs: Pairs) -> Result<V> {
    let (a, b) = (x.dims(), other.dims());
    same_dtype("a right operand", x.ty().dtype, other.ty().dtype)?;
    let [of_x, of_other] = match pairs {
        Pairs::Axes(axes) => axes,
        Pairs::Count(n) => {
            let least = a.len().min(b.len()) as i64;
            if !(0..=least).contains(&n) {
                bail!(Argument, "expected dims from 0 to {least}, got {n}");
            }
            [(a.len() as i64 - n..a.len() as i64).collect(), (0..n).collect()]
        }
    };
    if of_x.is_empty() && of_other.is_empty() && x.ty().dtype == DType::Bool {
        bail!(DType, "expected numbers, got bool");
    }
    contracted(x, other, [&of_x, &of_other])
}

fn cross_along<V: Operand>(x: &V, other: &V, dim: impl Into<Dim>) -> Result<V> {
    let dim = known(&dim.into())?;
    for operand in [x, other] {
        let dims = operand.dims();
        let at = axis(dim, dims.len())?;
        expect_same(&Dim::new(3), &dims[at], "the size of the axis of a cross product")?;
    }
    if x.dims().len() != other.dims().len() {
        bail!(Shape, "expected operands of one rank, got {} and {}", x.ty(), other.ty());
    }
    let turn = |x: &V, by: i64| x.apply(roll::OP, &[Arg::ints([-by]), Arg::ints([dim])]);
    let plus = turn(x, 1)?.mul(&turn(other, 2)?)?;
    plus.sub(&turn(x, 2)?.mul(&turn(other, 1)?)?)
}

fn cross_array(x: &Array, other: &Array, dim: i64) -> Result<Array> {
    let ty = cross_along(&type_of(x), &type_of(other), dim)?;
    let shape = sizes(&ty.shape)?;
    let spread = |x: &Array| x.cast(ty.dtype).broadcast_to(&shape);
    outer::cross(&spread(x)?, &spread(other)?, axis(dim, shape.len())?)
}

fn cross_somewhere(x: &TensorType, other: &TensorType, dim: Option<Dim>) -> Result<TensorType> {
    cross_along(x, other, cross_axis(x, other, dim)?)
}

/// Returns the axis of a cross product: the first of size 3 if none is given.
fn cross_axis(x: &TensorType, other: &TensorType, dim: Option<Dim>) -> Result<Dim> {
    if let Some(dim) = dim {
        return Ok(dim);
    }
    let shape = fx_core::pointwise::broadcast_dims([&x.shape[..], &other.shape[..]].into_iter())?;
    for (at, size) in shape.iter().enumerate() {
        match size.known() {
            Some(3) => return Ok(Dim::new(at as i64)),
            Some(_) => {}
            None => return Err(unknown_type()),
        }
    }
    bail!(Shape, "expected an axis of size 3, got {shape}")
}

pub(crate) fn powers<V: Operand>(x: &V, n: Option<Dim>) -> Result<V> {
    let x = if x.dims().is_empty() { x.insert_axis(0)? } else { x.clone() };
    let x = if x.ty().dtype.is_float() { x } else { x.to_dtype(DType::I64)? };
    let dims = x.dims();
    let n = n.unwrap_or_else(|| dims[dims.len() - 1].clone());
    crate::ops::check::at_least("N", 2, &n)?;
    let rank = dims.len();
    let column = x.insert_axis(rank)?;
    let ones = column.mul(Scalar::Int(0))?;
    // Zero times an infinity is not zero.
    let ones = ones.apply(crate::ops::creation::ones_like::OP, &[])?;
    let sizes = |size: &Dim| Arg::list(dims.iter().chain([size]).map(|size| Arg::dim(size.clone())));
    let base = column.apply(expand::OP, &[sizes(&(&n - 1))])?;
    let kept = [("dtype", Arg::DType(x.ty().dtype))];
    let rest = base.apply_with(crate::ops::reduce::cumprod::OP, &[Arg::Int(rank as i64)], &kept)?;
    V::join(&[ones, rest], rank)
}

fn powers_array(x: &Array, n: Option<i64>) -> Result<Array> {
    let ty = powers(&type_of(x), n.map(Dim::new))?;
    let shape = sizes(&ty.shape)?;
    let (&n, leading) = shape.split_last().expect("a result has the axis of the powers");
    outer::powers(&x.cast(ty.dtype).reshape(leading)?, n)
}

fn square(x: &TensorType) -> Result<()> {
    let [.., rows, columns] = &x.shape[..] else { bail!(Shape, "expected square matrices, got {x}") };
    expect_same(rows, columns, "the columns of a square matrix")
}

fn power_type(x: &TensorType, n: Dim) -> Result<TensorType> {
    square(x)?;
    if n.less(&Dim::new(0)).is_yes() {
        crate::ops::linalg_solve::decomposable(x.dtype)?;
    }
    if x.dtype == DType::Bool {
        bail!(DType, "expected numbers, got bool");
    }
    Ok(x.clone())
}

/// Returns a power of square matrices, not the zeroth, by squaring.
pub(crate) fn power<V: Operand>(x: &V, n: i64) -> Result<V> {
    let mut base = if n < 0 { x.apply(crate::ops::linalg_solve::linalg_inv::OP, &[])? } else { x.clone() };
    let mut left = n.unsigned_abs();
    let mut out: Option<V> = None;
    loop {
        if left & 1 == 1 {
            out = Some(match out {
                Some(out) => out.matmul(&base)?,
                None => base.clone(),
            });
        }
        left >>= 1;
        match out {
            Some(out) if left == 0 => return Ok(out),
            _ => base = base.matmul(&base)?,
        }
    }
}

fn power_array(x: &Array, n: i64) -> Result<Array> {
    power_type(&x.ty(), n.into())?;
    let size = x.shape()[x.rank() - 1];
    if n == 0 {
        let mut eye = vec![0i64; fx_core::array::checked_numel(&[size, size])?];
        eye.iter_mut().step_by(size + 1).for_each(|x| *x = 1);
        return Array::from_vec(eye, &[size, size])?.cast(x.dtype()).broadcast_to(x.shape())?.contiguous();
    }
    power(x, n)
}

pub(crate) fn bilinear_form<V: Operand>(x: &V, y: &V, weight: &V, bias: Option<&V>) -> Result<V> {
    let (left, right, sizes) = (x.dims(), y.dims(), weight.dims());
    let ([leading @ .., i], [leading_y @ .., j], [out, i_w, j_w]) = (&left[..], &right[..], &sizes[..])
    else {
        bail!(
            Shape,
            "expected inputs [.., i] and [.., j] and a weight [o, i, j], got {}, {} and {}",
            x.ty(),
            y.ty(),
            weight.ty()
        );
    };
    crate::ops::check::same_shape("the leading axes of input2", leading, leading_y)?;
    expect_same(i_w, i, "the last size of the input")?;
    expect_same(j_w, j, "the last size of input2")?;
    let rows: Dim = leading.iter().product();
    let x = x.arrange(&[rows.clone(), i.clone()])?;
    let weight = weight.reorder(&[1, 0, 2])?.arrange(&[i.clone(), out * j])?;
    let half = x.matmul(&weight)?.arrange(&[rows.clone(), out.clone(), j.clone()])?;
    let y = y.arrange(&[rows, j.clone(), Dim::new(1)])?;
    let sizes: Vec<Dim> = leading.iter().chain([out]).cloned().collect();
    let form = half.matmul(&y)?.arrange(&sizes)?;
    match bias {
        None => Ok(form),
        Some(bias) => {
            crate::ops::check::same_shape("a bias", std::slice::from_ref(out), &bias.dims())?;
            same_dtype("a bias", form.ty().dtype, bias.ty().dtype)?;
            form.add(bias)
        }
    }
}

fn chained_matrices<V: Operand>(tensors: &[&V]) -> Result<V> {
    if let Some(x) = tensors.iter().find(|x| x.dims().len() != 2) {
        bail!(Shape, "expected matrices, got {}", x.ty());
    }
    match tensors {
        [one] => Ok((*one).clone()),
        _ => chained(tensors),
    }
}

fn chained<V: Operand>(tensors: &[&V]) -> Result<V> {
    let n = tensors.len();
    if n < 2 {
        bail!(Argument, "expected at least 2 tensors, got {n}");
    }
    for (i, x) in tensors.iter().enumerate() {
        let rank = x.dims().len();
        if rank != 2 && !(rank == 1 && (i == 0 || i == n - 1)) {
            bail!(Shape, "expected matrices, and vectors first or last only, got {} at {i}", x.ty());
        }
    }
    // Sizes that are not known count alike.
    let size = |dim: &Dim| dim.known().unwrap_or(64) as f64;
    let mut sizes: Vec<f64> =
        vec![if tensors[0].dims().len() == 1 { 1.0 } else { size(&tensors[0].dims()[0]) }];
    sizes.extend(tensors.iter().enumerate().map(|(i, x)| match x.dims().as_slice() {
        [_] if i > 0 => 1.0,
        [only] => size(only),
        [.., last] => size(last),
        [] => 1.0,
    }));
    // best[i][j]: the cost of the product from i to j, and where it is cut.
    let mut best = vec![vec![(0.0, 0); n]; n];
    for length in 1..n {
        for i in 0..n - length {
            let j = i + length;
            let cost = |k: usize| best[i][k].0 + best[k + 1][j].0 + sizes[i] * sizes[k + 1] * sizes[j + 1];
            let cuts = (i..j).map(|k| (cost(k), k));
            let cut = cuts.fold((f64::INFINITY, i), |best, cut| if cut.0 < best.0 { cut } else { best });
            best[i][j] = cut;
        }
    }
    between(tensors, &best, 0, n - 1)
}

fn between<V: Operand>(tensors: &[&V], best: &[Vec<(f64, usize)>], i: usize, j: usize) -> Result<V> {
    // The list is one argument of a call, and a cut halves it at least by one.
    if i == j {
        return Ok(tensors[i].clone());
    }
    let cut = best[i][j].1;
    between(tensors, best, i, cut)?.matmul(&between(tensors, best, cut + 1, j)?)
}
