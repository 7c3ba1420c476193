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
    #[track_caller]
    pub fn known(&self) -> Option<SmallVec<[usize; 4]>> {
        let mut sizes = SmallVec::new();
        for dim in &self.0 {
            sizes.push(usize::try_from(dim.known()?).ok()?);
        }
        Some(sizes)
    }

    /// Returns the number of elements.
    pub fn numel(&self) -> Dim {
        self.0.iter().fold(Dim::new(1), |n, dim| n * dim)
    }

    /// Makes plain sizes of those that have a value at hand.
    fn forget_values(&mut self) {
        for dim in &mut self.0 {
            if !std::ptr::eq(dim.plain(), dim) {
                *dim = dim.plain().clone();
            }
        }
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

impl<D: Into<Dim>, const N: usize> From<[D; N]> for Shape {
    fn from(sizes: [D; N]) -> Self {
        sizes.into_iter().collect()
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
    /// Text that is not known.
    Str,
    /// Nothing, or a value of this type.
    Optional(Box<TypeTree>),
    /// A list of unknown length whose items have this type; an [`Arg::List`] of types has a known length.
    List(Box<TypeTree>),
    /// Anything: nothing is known.
    Any,
}

/// How deep optional types and lists of unknown length may be nested.
pub(crate) const MAX_NESTING: usize = 16;

/// Returns how deep optional types and lists of unknown length are nested in a type.
fn nesting(ty: &TypeTree) -> usize {
    let mut deepest = 0;
    ty.for_each_leaf(&mut |leaf| deepest = deepest.max(leaf.inner().map_or(0, |inner| 1 + nesting(inner))));
    deepest
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

    /// Returns the type that this one is made of: that of the value of an optional, or of the items of a list.
    pub fn inner(&self) -> Option<&TypeTree> {
        match self {
            Type::Optional(inner) | Type::List(inner) => Some(inner),
            _ => None,
        }
    }

    /// Returns a type made of `inner`; nothing is known of one that is nested too deep.
    fn within(make: fn(Box<TypeTree>) -> Type, inner: &TypeTree) -> TypeTree {
        if nesting(inner) < MAX_NESTING {
            Arg::Leaf(make(Box::new(inner.general())))
        } else {
            Arg::Leaf(Type::Any)
        }
    }

    /// Returns whether nothing is missing, within this type either.
    fn is_complete(&self) -> bool {
        !matches!(self, Type::Any) && self.inner().is_none_or(TypeTree::is_complete)
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
            return leaf.is_complete();
        }
        let mut complete = true;
        self.for_each_leaf(&mut |leaf| complete &= leaf.is_complete());
        complete
    }

    /// Returns the distinct symbols of its sizes, in order.
    pub fn symbols(&self) -> Vec<crate::Symbol> {
        crate::fresh::symbols(self)
    }

    /// Returns the structure of an input of this type: a leaf for each tensor, and for each integer that is a
    /// symbol. Fails with an error within the type.
    pub fn structure(&self) -> Result<Arg<()>> {
        self.try_rewrite(&mut |arg| {
            Ok(match arg {
                Arg::Leaf(_) | Arg::Dim(_) => Some(Arg::Leaf(())),
                Arg::Failed(error) => return Err(error.clone()),
                _ => None,
            })
        })
    }

    /// Returns the types of the leaves of [`structure`](TypeTree::structure), in order.
    pub fn inputs(&self) -> Vec<&TypeTree> {
        let mut found = Vec::new();
        self.walk(&mut |arg| {
            if matches!(arg, Arg::Leaf(_) | Arg::Dim(_)) {
                found.push(arg);
            }
        });
        found
    }

    /// Returns the type of nothing or a value of this type.
    #[must_use]
    pub fn optional(self) -> TypeTree {
        match self {
            Arg::Leaf(Type::Optional(_) | Type::Any) => self,
            known => Type::within(Type::Optional, &known),
        }
    }

    /// Returns the type of a list of unknown length with items of this type.
    #[must_use]
    pub fn list_of(self) -> TypeTree {
        Type::within(Type::List, &self)
    }

    /// Returns the type without what is known of numbers and text: `int` for 3.
    #[must_use]
    pub fn general(&self) -> TypeTree {
        let general = self.try_rewrite(&mut |arg: &TypeTree| {
            Ok(match arg {
                Arg::Int(_) | Arg::Dim(_) => Some(Arg::Leaf(Type::Int)),
                Arg::Float(_) => Some(Arg::Leaf(Type::Float)),
                Arg::Bool(_) => Some(Arg::Leaf(Type::Bool)),
                Arg::Str(_) => Some(Arg::Leaf(Type::Str)),
                Arg::Leaf(leaf) => Some(Arg::Leaf(leaf.clone())),
                _ => None,
            })
        });
        general.unwrap_or_else(Arg::Failed)
    }
}

impl From<TensorType> for TypeTree {
    fn from(mut ty: TensorType) -> Self {
        ty.shape.forget_values();
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
            Type::Str => f.write_str("str"),
            Type::Optional(inner) => write!(f, "optional({inner})"),
            Type::List(inner) => write!(f, "list({inner})"),
            Type::Any => f.write_str("any"),
        }
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
