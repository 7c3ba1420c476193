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
