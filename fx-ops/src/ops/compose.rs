//! Rows written as compositions of other rows, once for arrays and for types, so that rule and kernel agree
//! by construction.

use fx_core::op::kind::DimVec;
use fx_core::pointwise::result_dtype_of_types;
use fx_core::{Arg, Array, DType, Dim, Op, Result, Scalar, Tensor, TensorType, Type, bail};

use crate::ops::concat::cat;
use crate::ops::linalg::matmul;
use crate::ops::reduce::sum;
use crate::ops::view::{narrow, permute, reshape, to, unsqueeze};

/// What a composition is computed on: an array, or its type.
pub(crate) trait Operand: Clone + Sized {
    /// Returns the type.
    fn ty(&self) -> TensorType;

    /// Runs a row that gives one tensor, or infers its type.
    fn run(op: Op, args: &[Arg<Self>], kwargs: &[(&str, Arg<Self>)]) -> Result<Self>;

    /// Runs a row on this operand and further arguments.
    fn apply(&self, op: Op, args: &[Arg<Self>]) -> Result<Self> {
        self.apply_with(op, args, &[])
    }

    /// Runs a row on this operand, further arguments and named ones.
    fn apply_with(&self, op: Op, args: &[Arg<Self>], kwargs: &[(&str, Arg<Self>)]) -> Result<Self> {
        let args: Vec<Arg<Self>> = std::iter::once(self.arg()).chain(args.iter().cloned()).collect();
        Self::run(op, &args, kwargs)
    }

    /// Returns whether what is done for these sizes will be done for all that its symbols stand for.
    fn is_for_all_sizes() -> bool {
        false
    }

    /// Returns this operand as an argument.
    fn arg(&self) -> Arg<Self> {
        Arg::Leaf(self.clone())
    }

    fn dims(&self) -> DimVec {
        self.ty().shape.iter().cloned().collect()
    }

    fn add(&self, other: impl IntoOperand<Self>) -> Result<Self> {
        self.apply(fx_core::ops::add::OP, &[other.operand()])
    }

    fn sub(&self, other: impl IntoOperand<Self>) -> Result<Self> {
        self.apply(fx_core::ops::sub::OP, &[other.operand()])
    }

    fn mul(&self, other: impl IntoOperand<Self>) -> Result<Self> {
        self.apply(fx_core::ops::mul::OP, &[other.operand()])
    }

    fn div(&self, other: impl IntoOperand<Self>) -> Result<Self> {
        self.apply(fx_core::ops::div::OP, &[other.operand()])
    }

    fn matmul(&self, other: &Self) -> Result<Self> {
        self.apply(matmul::OP, &[other.arg()])
    }

    fn arrange(&self, sizes: &[Dim]) -> Result<Self> {
        let (dims, is_same) = (self.dims(), |(a, b): (&Dim, &Dim)| a.same(b).is_yes());
        if dims.len() == sizes.len() && dims.iter().zip(sizes).all(is_same) {
            return Ok(self.clone());
        }
        self.apply(reshape::OP, &[Arg::list(sizes.iter().map(|size| Arg::dim(size.clone())))])
    }

    fn reorder(&self, axes: &[usize]) -> Result<Self> {
        if axes.iter().copied().eq(0..self.dims().len()) {
            return Ok(self.clone());
        }
        self.apply(permute::OP, &[Arg::ints(axes.iter().map(|&axis| axis as i64))])
    }

    fn insert_axis(&self, axis: usize) -> Result<Self> {
        self.apply(unsqueeze::OP, &[Arg::Int(axis as i64)])
    }

    fn part(&self, axis: usize, start: &Dim, length: &Dim) -> Result<Self> {
        self.apply(narrow::OP, &[Arg::Int(axis as i64), Arg::dim(start.clone()), Arg::dim(length.clone())])
    }

    /// Sums over `axes` in the operand's own dtype; over no axes it is the operand.
    fn sum_over(&self, axes: &[usize], keepdim: bool) -> Result<Self> {
        if axes.is_empty() {
            return Ok(self.clone());
        }
        let axes = Arg::ints(axes.iter().map(|&axis| axis as i64));
        self.apply_with(sum::OP, &[axes, Arg::Bool(keepdim)], &[("dtype", Arg::DType(self.ty().dtype))])
    }

    fn to_dtype(&self, dtype: DType) -> Result<Self> {
        if self.ty().dtype == dtype {
            return Ok(self.clone());
        }
        self.apply(to::OP, &[Arg::DType(dtype)])
    }

    /// Joins operands along an axis.
    fn join(parts: &[Self], axis: usize) -> Result<Self> {
        Self::run(cat::OP, &[Arg::list(parts.iter().map(Self::arg)), Arg::Int(axis as i64)], &[])
    }
}

/// An operand or a number.
pub(crate) trait IntoOperand<V> {
    fn operand(self) -> Arg<V>;
}
impl<V: Operand> IntoOperand<V> for &V {
    fn operand(self) -> Arg<V> {
        self.arg()
    }
}
impl<V> IntoOperand<V> for Scalar {
    fn operand(self) -> Arg<V> {
        match self {
            Scalar::Bool(x) => Arg::Bool(x),
            Scalar::Int(x) => Arg::Int(x),
            Scalar::Float(x) => Arg::Float(x),
        }
    }
}
impl<V> IntoOperand<V> for f64 {
    fn operand(self) -> Arg<V> {
        Arg::Float(self)
    }
}

impl Operand for Array {
    fn ty(&self) -> TensorType {
        crate::ops::check::type_of(self)
    }

    fn run(op: Op, args: &[Arg<Self>], kwargs: &[(&str, Arg<Self>)]) -> Result<Self> {
        let bound = op.bind(args, kwargs)?;
        let mut value = |array: &Array| Ok(Arg::Leaf(Tensor::from(array.clone())));
        let bound = bound.iter().map(|arg| arg.try_flat_map(&mut value)).collect::<Result<Vec<_>>>()?;
        match (op.eval)(&bound)? {
            Arg::Leaf(tensor) => tensor.array().cloned(),
            other => bail!(Argument, "expected a tensor from {}, got {}", op.name, other.kind_name()),
        }
    }
}

impl Operand for TensorType {
    fn ty(&self) -> TensorType {
        self.clone()
    }

    fn run(op: Op, args: &[Arg<Self>], kwargs: &[(&str, Arg<Self>)]) -> Result<Self> {
        let bound = op.bind(args, kwargs)?;
        let mut leaf = |ty: &TensorType| Ok(Arg::Leaf(Type::Tensor(ty.clone())));
        let bound = bound.iter().map(|arg| arg.try_flat_map(&mut leaf)).collect::<Result<Vec<_>>>()?;
        match (op.infer)(&bound)? {
            Arg::Leaf(Type::Tensor(ty)) => Ok(ty),
            _ => Err(fx_core::op::unknown_type()),
        }
    }
}

/// Stands for a float that a shape rule need not know.
pub(crate) fn float(x: Option<f64>) -> f64 {
    x.unwrap_or(1.0)
}

/// Stands for a number of which a shape rule knows the category.
pub(crate) fn number(category: fx_core::Category) -> Scalar {
    match category {
        fx_core::Category::Bool => Scalar::Bool(true),
        fx_core::Category::Int => Scalar::Int(1),
        fx_core::Category::Float => Scalar::Float(1.0),
    }
}

/// Returns the dtype to which operands are promoted, the rank 0 ones with less weight.
pub(crate) fn promoted<V: Operand>(operands: &[&V]) -> DType {
    let types: Vec<TensorType> = operands.iter().map(|x| x.ty()).collect();
    let types: Vec<_> = types.iter().map(fx_core::op::kind::OperandType::Tensor).collect();
    result_dtype_of_types(&types)
}

/// A number at run time, or its category while shapes are propagated.
pub(crate) trait Number {
    /// Returns the number, or one that stands for its category.
    fn scalar(self) -> Scalar;
}
impl Number for Scalar {
    fn scalar(self) -> Scalar {
        self
    }
}
impl Number for fx_core::Category {
    fn scalar(self) -> Scalar {
        number(self)
    }
}

#[cfg(test)]
mod tests {
    use fx_core::Value;

    use super::*;
    use crate::ops::testing::{call, tensor};

    fn numbers(shape: &[usize]) -> Value {
        let n = shape.iter().product::<usize>();
        let data: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 * 0.7).sin()).collect();
        tensor(Array::from_vec(data, shape).unwrap())
    }

    #[test]
    fn rules_agree_with_kernels_for_symbolic_sizes_too() {
        let x = numbers;
        let i = Arg::Int;
        let list = Arg::list;
        let cases: Vec<(&str, Vec<Value>)> = vec![
            ("pixel_shuffle", vec![x(&[2, 8, 3, 5]), i(2)]),
            ("pixel_unshuffle", vec![x(&[2, 3, 4, 6]), i(2)]),
            ("channel_shuffle", vec![x(&[2, 6, 4]), i(3)]),
            ("glu", vec![x(&[2, 6]), i(-1)]),
            ("einsum", vec![Arg::str("bij,bjk->bik"), list([x(&[2, 3, 4]), x(&[2, 4, 5])])]),
            ("einsum", vec![Arg::str("...ii,i"), list([x(&[2, 3, 3]), x(&[3])])]),
            ("inner", vec![x(&[2, 3]), x(&[4, 3])]),
            ("kron", vec![x(&[2, 3]), x(&[4])]),
            ("tensordot", vec![x(&[2, 3, 4]), x(&[3, 4, 5])]),
            ("addbmm", vec![x(&[3, 5]), x(&[2, 3, 4]), x(&[2, 4, 5])]),
            ("addr", vec![x(&[3, 4]), x(&[3]), x(&[4])]),
            ("cross", vec![x(&[2, 3]), x(&[2, 3]), i(1)]),
            ("linalg_cross", vec![x(&[2, 3]), x(&[2, 3])]),
            ("linalg_vander", vec![x(&[2, 4])]),
            ("linalg_matrix_power", vec![x(&[2, 3, 3]), i(3)]),
            ("bilinear", vec![x(&[5, 3]), x(&[5, 4]), x(&[2, 3, 4]), x(&[2])]),
            ("linalg_multi_dot", vec![Arg::list([x(&[2, 3]), x(&[3, 4]), x(&[4])])]),
            ("linalg_det", vec![x(&[2, 3, 3])]),
            ("linalg_slogdet", vec![x(&[2, 3, 3])]),
            ("linalg_inv", vec![x(&[2, 3, 3])]),
            ("linalg_solve", vec![x(&[2, 3, 3]), x(&[2, 3, 4])]),
            ("linalg_svdvals", vec![x(&[2, 3, 4])]),
            ("norm", vec![x(&[2, 3])]),
            ("linalg_norm", vec![x(&[2, 3]), Arg::str("nuc")]),
            ("linalg_matrix_norm", vec![x(&[2, 3, 4]), i(1)]),
            ("renorm", vec![x(&[2, 3]), i(2), i(0), Arg::Float(0.5)]),
            ("dist", vec![x(&[2, 3]), x(&[3])]),
            ("pairwise_distance", vec![x(&[2, 3]), x(&[2, 3])]),
            ("cosine_similarity", vec![x(&[2, 3]), x(&[2, 3])]),
            ("cov", vec![x(&[2, 3])]),
            ("corrcoef", vec![x(&[2, 3])]),
            ("cdist", vec![x(&[2, 4, 3]), x(&[2, 5, 3])]),
            ("pdist", vec![x(&[5, 3])]),
            ("huber_loss", vec![x(&[2, 3]), x(&[2, 3])]),
            ("kl_div", vec![x(&[2, 3]), x(&[2, 3])]),
            ("gaussian_nll_loss", vec![x(&[2, 3]), x(&[2, 3]), x(&[2, 3])]),
            ("interpolate", vec![x(&[2, 3, 4, 5]), list([i(3), i(7)]), Arg::None, Arg::str("bilinear")]),
            ("grid_sample", vec![x(&[2, 3, 4, 5]), x(&[2, 3, 7, 2])]),
            ("affine_grid", vec![x(&[2, 2, 3]), Arg::ints([2, 3, 4, 5])]),
            ("im2col", vec![x(&[2, 3, 4, 5]), i(2)]),
            ("col2im", vec![x(&[2, 12, 12]), Arg::ints([4, 5]), i(2)]),
            ("prelu", vec![x(&[2, 3, 4]), x(&[3])]),
            ("rrelu", vec![x(&[2, 3])]),
            ("fft_irfft", vec![x(&[2, 5])]),
            ("stft", vec![x(&[2, 50]), i(10)]),
            ("hann_window", vec![i(5)]),
            ("embedding_bag", vec![tensor([[0i64, 1], [2, 0]]), x(&[3, 4])]),
            ("max_pool2d", vec![x(&[2, 3, 6, 7]), i(2)]),
        ];
        for (name, args) in cases {
            call(name, &args, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn an_equation_that_does_not_fit_is_an_error() {
        let message = |equation: &str| {
            let operands = Arg::list([numbers(&[2, 3]), numbers(&[3, 2])]);
            call("einsum", &[Arg::str(equation), operands], &[]).unwrap_err().message().to_owned()
        };
        assert!(message("ij").contains("expected 1 operands"), "{}", message("ij"));
        assert!(message("ijk,jl").contains("axes"), "{}", message("ijk,jl"));
        assert!(message("ij,kl->im").contains("no operand"), "{}", message("ij,kl->im"));
        assert!(message("ij,ij->i").contains("share"), "{}", message("ij,ij->i"));
    }
}
