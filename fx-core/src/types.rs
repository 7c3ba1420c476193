//! Types of values, known without computing them: dtype and shape, with symbolic sizes.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use smallvec::SmallVec;

use crate::{Arg, DType, Dim, Error, Result, bail, err};

/// The sizes of a tensor, each a number or an expression over symbols.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[Dim; 4]>);

impl Shape {
    /// Returns the sizes, if all are numbers.
    pub fn known(&self) -> Option<SmallVec<[usize; 4]>> {
        self.0.iter().map(|dim| dim.known().and_then(|n| usize::try_from(n).ok())).collect()
    }

    /// Returns the number of elements.
    pub fn numel(&self) -> Dim {
        self.0.iter().fold(Dim::new(1), |n, dim| n * dim)
    }

    /// Returns the sizes for changing.
    pub fn dims_mut(&mut self) -> &mut SmallVec<[Dim; 4]> {
        &mut self.0
    }
}

impl Deref for Shape {
    type Target = [Dim];
    fn deref(&self) -> &[Dim] {
        &self.0
    }
}

impl<D: Into<Dim>> FromIterator<D> for Shape {
    fn from_iter<I: IntoIterator<Item = D>>(dims: I) -> Self {
        Shape(dims.into_iter().map(Into::into).collect())
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        dims.iter().copied().collect()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.0.iter().enumerate() {
            write!(f, "{}{dim}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The dtype and shape of a tensor; prints and parses as `f32[batch, 3]`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub shape: Shape,
}

impl TensorType {
    /// Makes a type.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        TensorType { dtype, shape: shape.into() }
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

impl fmt::Debug for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TensorType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let help = "write a dtype and sizes, such as f32[batch, 3] or i64[]";
        let text = text.trim();
        let (dtype, rest) =
            text.split_once('[').ok_or_else(|| err!(Parse, "no sizes in the type {text:?}").help(help))?;
        let dims = rest
            .strip_suffix(']')
            .ok_or_else(|| err!(Parse, "missing ] in the type {text:?}").help(help))?
            .trim();
        let dtype: DType = dtype.trim().parse()?;
        let mut shape = Shape::default();
        for part in split_top_level(dims) {
            let dim: Dim = part.trim().parse().map_err(|e: Error| {
                err!(Parse, "bad size {:?} in the type {text:?}: {}", part.trim(), e.message()).help(help)
            })?;
            if dim.known().is_some_and(|n| n < 0) {
                bail!(Parse, "negative size {dim} in the type {text:?}");
            }
            shape.0.push(dim);
        }
        Ok(TensorType { dtype, shape })
    }
}

/// Splits at commas that are not inside parentheses; nothing for empty text.
fn split_top_level(text: &str) -> Vec<&str> {
    if text.is_empty() {
        return Vec::new();
    }
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The type of one leaf of a value. Known scalars are [`Arg::Int`], [`Arg::Dim`] and so on instead.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// A tensor.
    Tensor(TensorType),
    /// An integer that is not known.
    Int,
    /// A float that is not known.
    Float,
    /// A bool that is not known.
    Bool,
    /// Anything: nothing is known.
    Any,
}

/// The type of a nested value.
pub type TypeTree = Arg<Type>;

impl Type {
    /// Returns the tensor type, if this is one.
    pub fn tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(ty) => Some(ty),
            _ => None,
        }
    }
}

impl TypeTree {
    /// Returns the tensor type, if this is a single tensor of known type.
    pub fn tensor(&self) -> Option<&TensorType> {
        self.leaf().and_then(Type::tensor)
    }

    /// Returns whether nothing at all is missing: no leaf is [`Type::Any`].
    pub fn is_complete(&self) -> bool {
        if let Arg::Leaf(leaf) = self {
            return !matches!(leaf, Type::Any);
        }
        let mut complete = true;
        self.for_each_leaf(&mut |leaf| complete &= !matches!(leaf, Type::Any));
        complete
    }
}

impl From<TensorType> for TypeTree {
    fn from(ty: TensorType) -> Self {
        Arg::Leaf(Type::Tensor(ty))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tensor(ty) => write!(f, "{ty}"),
            Type::Int => f.write_str("int"),
            Type::Float => f.write_str("float"),
            Type::Bool => f.write_str("boolean"),
            Type::Any => f.write_str("any"),
        }
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
