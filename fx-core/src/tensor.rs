//! [`Tensor`]: the one type that model code uses. It is a value, a symbol in a trace, a value that is computed
//! when it is read, or a recorded error.

use std::fmt;
use std::sync::Arc;

use crate::array::Mismatch;
use crate::lazy::Lazy;
use crate::script::Items;
use crate::trace::{Proxy, ReadKind};
use crate::{
    Arg, Array, DType, Dim, Element, Error, Result, Scalar, Shape, SourceLoc, TensorType, Type, bail, err,
};

macro_rules! bail_at {
    ($kind:ident, $($arg:expr),*; $help:expr) => {
        return Err(err!($kind, $($arg),*).help($help).at(SourceLoc::caller()))
    };
}

/// What flows along an edge of a graph at run time.
pub type Value = Arg<Tensor>;

/// An immutable tensor: a value, a symbol while a function is traced, or an error that flows on.
///
/// Cheap to clone. An invalid operation gives a tensor that carries the error with the place in the user's
/// program; operations on it give it again, and every function that returns a `Result` returns it.
#[derive(Clone)]
pub struct Tensor(pub(crate) Repr);

#[derive(Clone)]
pub(crate) enum Repr {
    Value(Arc<Array>),
    Proxy(Arc<Proxy>),
    Lazy(Arc<Lazy>),
    Failed(Error),
    /// The items that the rounds of a loop push to a list: an error but for `stack` and `cat`.
    Items(Arc<Items>),
}

impl Tensor {
    /// Makes a tensor from nested arrays, slices, numbers or an ndarray.
    pub fn new(value: impl Into<Array>) -> Self {
        Tensor(Repr::Value(Arc::new(value.into())))
    }

    /// Makes a tensor that carries an error.
    pub fn failed(error: Error) -> Self {
        Tensor(Repr::Failed(error))
    }

    /// Makes a tensor of rank 0 with the default dtype of the number's category.
    pub fn from_scalar(x: Scalar) -> Self {
        match x {
            Scalar::Bool(x) => Tensor::new(Array::scalar(x)),
            Scalar::Int(x) => Tensor::new(Array::scalar(x)),
            Scalar::Float(x) => Tensor::new(Array::scalar(x as f32)),
        }
    }

    /// Makes a tensor from elements in row-major order.
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: &[usize]) -> Self {
        Array::from_vec(data, shape).map_err(|error| error.at(SourceLoc::caller())).into()
    }

    /// Returns the error that this tensor carries.
    pub fn error(&self) -> Option<&Error> {
        match &self.0 {
            Repr::Failed(error) => Some(error),
            Repr::Items(items) => Some(items.error()),
            _ => None,
        }
    }

    /// Returns the tensor. Fails with the error that it carries.
    pub fn ok(self) -> Result<Tensor> {
        match self.0 {
            Repr::Failed(error) => Err(error),
            Repr::Items(items) => Err(items.error().clone()),
            repr => Ok(Tensor(repr)),
        }
    }

    /// Returns whether this is a symbol of a trace, whose value is not known.
    pub fn is_symbolic(&self) -> bool {
        matches!(&self.0, Repr::Proxy(proxy) if !proxy.is_value())
    }

    /// Returns the concrete value. Fails if it is a symbol, or with the error that it carries.
    #[track_caller]
    pub fn array(&self) -> Result<&Array> {
        match &self.0 {
            Repr::Value(array) => Ok(array),
            Repr::Failed(error) => Err(error.clone()),
            Repr::Items(items) => Err(items.error().clone()),
            Repr::Proxy(proxy) => match proxy.read(ReadKind::Elements, SourceLoc::caller()) {
                Some(example) => example.array(),
                None => Err(proxy.no_value("the value")),
            },
            Repr::Lazy(lazy) => lazy.force("array", Some(SourceLoc::caller())).map(|array| &**array),
        }
    }

    /// Returns the concrete value, without a copy of elements that are not shared. Fails as
    /// [`array`](Tensor::array) does.
    #[track_caller]
    pub fn into_array(self) -> Result<Array> {
        match self.0 {
            Repr::Value(array) => Ok(Arc::unwrap_or_clone(array)),
            _ => self.array().cloned(),
        }
    }

    /// Returns the concrete value for writing, if it is not shared.
    pub fn array_mut(&mut self) -> Option<&mut Array> {
        match &mut self.0 {
            Repr::Value(array) => Arc::get_mut(array),
            _ => None,
        }
    }

    /// Returns dtype and shape. Fails if it is a symbol without a type, or with the error that it carries.
    #[track_caller]
    pub fn ty(&self) -> Result<TensorType> {
        let source = SourceLoc::caller();
        match &self.0 {
            Repr::Value(array) => Ok(TensorType::new(array.dtype(), array.shape())),
            Repr::Failed(error) => Err(error.clone()),
            Repr::Items(items) => Err(items.error().clone()),
            Repr::Proxy(proxy) => proxy.observed_type().map_err(|error| error.at(source)),
            Repr::Lazy(lazy) => Ok(TensorType::clone(lazy.seen_type())),
        }
    }

    /// Returns the type for shape propagation; [`Type::Any`] for a symbol of unknown type.
    pub(crate) fn type_tree(&self) -> Result<crate::TypeTree> {
        match &self.0 {
            Repr::Value(array) => Ok(TensorType::new(array.dtype(), array.shape()).into()),
            Repr::Failed(error) => Err(error.clone()),
            Repr::Items(items) => Err(items.error().clone()),
            Repr::Proxy(proxy) if proxy.is_value() => proxy.tensor_type().map(crate::TypeTree::from),
            Repr::Proxy(proxy) => Ok(proxy.ty.as_deref().cloned().unwrap_or(Arg::Leaf(Type::Any))),
            Repr::Lazy(lazy) => Ok(TensorType::clone(lazy.ty()).into()),
        }
    }

    /// Returns the dtype. Fails as [`ty`](Tensor::ty) does.
    #[track_caller]
    pub fn dtype(&self) -> Result<DType> {
        self.ty().map(|ty| ty.dtype)
    }

    /// Returns the sizes. Fails as [`ty`](Tensor::ty) does.
    #[track_caller]
    pub fn shape(&self) -> Result<Shape> {
        self.ty().map(|ty| ty.shape)
    }

    /// Returns the number of axes. Fails as [`ty`](Tensor::ty) does.
    #[track_caller]
    pub fn rank(&self) -> Result<usize> {
        self.ty().map(|ty| ty.rank())
    }

    /// Returns the number of elements. Fails as [`ty`](Tensor::ty) does.
    #[track_caller]
    pub fn numel(&self) -> Result<Dim> {
        self.ty().map(|ty| ty.shape.numel())
    }

    /// Returns the only element. Fails if there is none or more than one, its type is not `T`, or as
    /// [`array`](Tensor::array) does.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        let array = self.concrete("item")?;
        if array.dtype() != T::DTYPE {
            bail_at!(DType, "expected {}, got {}", T::DTYPE, array.dtype(); "convert with `.to(DType::…)` first");
        }
        let source = SourceLoc::caller();
        array.item().map(T::from_scalar).map_err(|error| {
            error.at(source).help("reduce it to one element, pick one with `i`, or read all with `to_vec`")
        })
    }

    /// Returns the elements in row-major order. Fails if their type is not `T`, or as
    /// [`array`](Tensor::array) does.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let source = SourceLoc::caller();
        self.concrete("to_vec")?.to_vec().map_err(|error| error.at(source))
    }

    /// Returns an ndarray with the elements. Fails if their type is not `T`, or as [`array`](Tensor::array)
    /// does.
    #[track_caller]
    pub fn to_array<T: Element>(&self) -> Result<ndarray::ArrayD<T>> {
        let source = SourceLoc::caller();
        self.concrete("to_array")?.to_ndarray().map_err(|error| error.at(source))
    }

    /// Returns whether the only element is not zero. Fails if there is none or more than one, or if the
    /// tensor is a symbol, whose conditions cannot be captured.
    #[track_caller]
    pub fn to_bool(&self) -> Result<bool> {
        let source = SourceLoc::caller();
        let item = self.concrete("to_bool")?.item();
        item.map(Scalar::to_bool).map_err(|error| error.at(source).help("reduce it with `any` or `all`"))
    }

    #[track_caller]
    fn concrete(&self, what: &'static str) -> Result<&Array> {
        match &self.0 {
            Repr::Proxy(proxy) => {
                let kind = match what {
                    "item" => ReadKind::Item,
                    "to_bool" => ReadKind::Truth,
                    _ => ReadKind::Elements,
                };
                match proxy.read(kind, SourceLoc::caller()) {
                    Some(example) => example.array(),
                    // The trace keeps the error, for code may go on without the value.
                    None => Err(proxy.note(proxy.no_value(what))),
                }
            }
            Repr::Lazy(lazy) => lazy.force(what, Some(SourceLoc::caller())).map(|array| &**array),
            _ => self.array(),
        }
    }

    /// Compares with an expected tensor. Fails with the first mismatch: another dtype or shape, or elements
    /// with `|a - b| > atol + rtol * |b|`.
    #[track_caller]
    pub fn all_close(&self, expected: &Tensor, rtol: f64, atol: f64) -> Result<()> {
        let (got, expected) = (self.array()?, expected.array()?);
        got.all_close(expected, rtol, atol).map_err(|mismatch: Mismatch| err!(Check, "{mismatch}"))
    }

    /// Returns whether dtype, shape and every bit are the same.
    #[track_caller]
    pub fn bits_eq(&self, other: &Tensor) -> bool {
        matches!((self.array(), other.array()), (Ok(a), Ok(b)) if a.bits_eq(b))
    }
}

impl From<Array> for Tensor {
    fn from(array: Array) -> Self {
        Tensor(Repr::Value(Arc::new(array)))
    }
}

impl From<Result<Array>> for Tensor {
    fn from(array: Result<Array>) -> Self {
        array.map_or_else(Tensor::failed, Tensor::from)
    }
}

impl From<&Tensor> for Tensor {
    fn from(tensor: &Tensor) -> Self {
        tensor.clone()
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Arg::Leaf(tensor)
    }
}

impl From<&Tensor> for Value {
    fn from(tensor: &Tensor) -> Self {
        Arg::Leaf(tensor.clone())
    }
}

impl<T: Element, D: ndarray::Dimension> From<ndarray::Array<T, D>> for Tensor {
    fn from(array: ndarray::Array<T, D>) -> Self {
        Array::from_ndarray(array).into()
    }
}

impl<T: Element> TryFrom<&Tensor> for ndarray::ArrayD<T> {
    type Error = Error;
    #[track_caller]
    fn try_from(tensor: &Tensor) -> Result<Self> {
        tensor.to_array()
    }
}

impl Value {
    /// Returns the first error within, also that of a tensor that carries one.
    pub fn failure(&self) -> Option<&Error> {
        let mut failure = None;
        self.walk(&mut |arg| match arg {
            Arg::Failed(error) => failure = failure.or(Some(error)),
            Arg::Leaf(tensor) => failure = failure.or(tensor.error()),
            _ => {}
        });
        failure
    }

    /// Returns the value. Fails with the first error within, also that of a tensor that carries one.
    pub fn into_result(self) -> Result<Value> {
        match self.failure() {
            Some(error) => Err(error.clone()),
            None => Ok(self),
        }
    }
}

impl TryFrom<Value> for Tensor {
    type Error = Error;
    fn try_from(value: Value) -> Result<Self> {
        match value {
            Arg::Leaf(tensor) => tensor.ok(),
            Arg::Failed(error) => Err(error),
            other => bail!(Structure, "expected a tensor, got {}", other.kind_name()),
        }
    }
}

/// A size out of data, as of `num_int`: the integer, or what stands for it while tracing.
impl TryFrom<Value> for crate::Dim {
    type Error = Error;
    fn try_from(value: Value) -> Result<Self> {
        match value {
            Arg::Int(size) => Ok(crate::Dim::new(size)),
            Arg::Dim(size) => Ok(size),
            Arg::Failed(error) => Err(error),
            other => bail!(Structure, "expected an integer or a size, got {}", other.kind_name()),
        }
    }
}

impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

/// The value as NumPy prints it; a symbol with its type; the error.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Value(array) => fmt::Display::fmt(array, f),
            Repr::Proxy(_) => fmt::Debug::fmt(self, f),
            Repr::Lazy(lazy) => match lazy.force("Display", None) {
                Ok(array) => fmt::Display::fmt(array, f),
                Err(error) => write!(f, "error: {error}"),
            },
            Repr::Failed(error) => write!(f, "error: {error}"),
            Repr::Items(items) => write!(f, "error: {}", items.error()),
        }
    }
}

/// Short, and never computes: `f32[2, 3]`, `%relu: f32[batch, 3]`, `error: …`.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Value(array) => f.write_str(&array.describe()),
            Repr::Proxy(proxy) => write!(f, "{proxy}"),
            Repr::Lazy(lazy) => fmt::Display::fmt(lazy.ty(), f),
            Repr::Failed(error) => write!(f, "error: {}", error.message()),
            Repr::Items(items) => write!(f, "error: {}", items.error().message()),
        }
    }
}

impl Tensor {
    /// Identifies the same value or symbol while it lives.
    pub(crate) fn identity(&self) -> (usize, Option<crate::NodeId>) {
        match &self.0 {
            Repr::Value(array) => (Arc::as_ptr(array).cast::<()>() as usize, None),
            Repr::Proxy(proxy) => (0, Some(proxy.node)),
            Repr::Lazy(lazy) => (Arc::as_ptr(lazy).cast::<()>() as usize, None),
            Repr::Failed(_) => (0, None),
            Repr::Items(items) => (Arc::as_ptr(items).cast::<()>() as usize, None),
        }
    }
}
