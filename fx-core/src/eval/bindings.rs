//! [`Bindings`]: the values of symbolic sizes.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::dim::Truth;
use crate::{Arg, Dim, Result, Symbol, Tensor, TensorType, Type, TypeTree, Value, bail, err};

/// The values of symbolic sizes, bound by the shapes that arrive. In a graph that is traced again they may be
/// sizes of the outer trace.
#[derive(Default, Debug, Clone)]
pub(crate) struct Bindings {
    known: FxHashMap<Arc<str>, Dim>,
    /// Symbols of the outer trace without a known shape, by the axis at which a symbol stands alone.
    unread: Vec<(Arc<str>, Tensor, i64)>,
    /// Sizes that tell no symbol and have symbols that are not bound yet, with what they are.
    unchecked: Vec<(Dim, Dim)>,
    /// A declared size, and the expression of other symbols that may or may not be equal to it.
    undecided: Option<(Dim, Dim)>,
}

impl Bindings {
    pub(crate) fn get(&self, symbol: &Symbol) -> Option<Dim> {
        self.known.get(symbol.name()).cloned()
    }

    /// Fails if a declared size may or may not be that of a type which was bound to it.
    pub(crate) fn check_decided(&self) -> Result<()> {
        match &self.undecided {
            Some((dim, size)) => {
                bail!(Shape, "{size} is not always the size {dim}, which the graph declares")
            }
            None => Ok(()),
        }
    }

    /// Returns the value of a size, if all its symbols are bound.
    pub(super) fn value(&mut self, dim: &Dim) -> Option<Dim> {
        for symbol in dim.symbols() {
            if self.get(&symbol).is_none() {
                let (name, tensor, axis) = self.unread.iter().find(|(name, ..)| **name == *symbol.name())?;
                let (name, size) = (name.clone(), tensor.dim(*axis));
                self.known.insert(name, size);
            }
        }
        Some(dim.substitute(&|symbol| self.get(symbol)))
    }

    /// Binds the symbols of a declared type to the sizes of a value, and checks everything that is known.
    pub(crate) fn bind(&mut self, declared: &TypeTree, value: &Value) -> Result<()> {
        match (declared, value) {
            (Arg::Leaf(Type::Tensor(ty)), Arg::Leaf(tensor)) => {
                // The type of a lazy tensor is enough.
                if tensor.as_lazy().is_none()
                    && let Ok(array) = tensor.array()
                {
                    if array.dtype() != ty.dtype || array.rank() != ty.rank() {
                        bail!(Shape, "expected {ty}, got {}", array.describe());
                    }
                    for (dim, &size) in ty.shape.iter().zip(array.shape()) {
                        if dim.known() != Some(size as i64) {
                            self.bind_dim(dim, &Dim::from(size)).map_err(|error| {
                                err!(Shape, "expected {ty}, got {}: {}", array.describe(), error.message())
                            })?;
                        }
                    }
                    return Ok(());
                }
                match tensor.ty() {
                    Ok(got) => self.bind_tensor(ty, &got),
                    Err(_) => {
                        for (axis, dim) in ty.shape.iter().enumerate() {
                            if let Some(symbol) = dim.as_symbol() {
                                self.unread.push((Arc::from(symbol.name()), tensor.clone(), axis as i64));
                            }
                        }
                        Ok(())
                    }
                }
            }
            // Operations take numbers for tensors without axes.
            (Arg::Leaf(Type::Tensor(ty)), Arg::Bool(_) | Arg::Int(_) | Arg::Float(_) | Arg::Dim(_))
                if ty.rank() > 0 =>
            {
                bail!(Structure, "expected {ty}, got {value}")
            }
            (Arg::Leaf(Type::Optional(_)), Arg::None) => Ok(()),
            (Arg::Leaf(Type::Optional(inner)), value) => self.bind(inner, value),
            (Arg::Dim(dim), Arg::Int(n)) => self.bind_dim(dim, &Dim::new(*n)),
            (Arg::Dim(dim), Arg::Dim(size)) => self.bind_dim(dim, size),
            (Arg::Dim(_), Arg::Leaf(tensor)) if tensor.shared_array().is_some() => {
                bail!(Structure, "expected an integer, got {}", tensor.ty()?)
            }
            (Arg::Dim(_), Arg::Float(_) | Arg::Bool(_) | Arg::Str(_)) => {
                bail!(Structure, "expected an integer, got {}", value.kind_name())
            }
            (Arg::Tuple(a) | Arg::List(a), Arg::Tuple(b) | Arg::List(b)) => {
                a.iter().zip(b.iter()).try_for_each(|(a, b)| self.bind(a, b))
            }
            (Arg::Dict(a), Arg::Dict(b)) => {
                a.iter().try_for_each(|(key, a)| b.get(key).map_or(Ok(()), |b| self.bind(a, b)))
            }
            _ => Ok(()),
        }
    }

    fn bind_tensor(&mut self, ty: &TensorType, got: &TensorType) -> Result<()> {
        let seen = || TensorType { dtype: got.dtype, shape: got.shape.iter().map(shown).collect() };
        if got.dtype != ty.dtype || got.rank() != ty.rank() {
            bail!(Shape, "expected {ty}, got {}", seen());
        }
        ty.shape.iter().zip(got.shape.iter()).try_for_each(|(dim, size)| {
            self.bind_dim(dim, size)
                .map_err(|error| err!(Shape, "expected {ty}, got {}: {}", seen(), error.message()))
        })
    }

    /// Binds the symbols of a declared type to the sizes of another, and checks everything that is known.
    pub(crate) fn bind_type(&mut self, declared: &TypeTree, given: &TypeTree) -> Result<()> {
        match (declared, given) {
            (Arg::Leaf(Type::Tensor(ty)), Arg::Leaf(Type::Tensor(got))) => self.bind_tensor(ty, got),
            (Arg::Dim(dim), Arg::Int(n)) => self.bind_dim(dim, &Dim::new(*n)),
            (Arg::Dim(dim), Arg::Dim(size)) => self.bind_dim(dim, size),
            (Arg::Tuple(a) | Arg::List(a), Arg::Tuple(b) | Arg::List(b)) => {
                a.iter().zip(b.iter()).try_for_each(|(a, b)| self.bind_type(a, b))
            }
            (Arg::Leaf(Type::Tensor(ty)), other) if !matches!(other, Arg::Leaf(Type::Any)) => {
                bail!(Structure, "expected {ty}, got {other}")
            }
            _ => Ok(()),
        }
    }

    fn bind_dim(&mut self, dim: &Dim, size: &Dim) -> Result<()> {
        let n_known = self.known.len();
        self.bind_one(dim, size)?;
        if self.known.len() > n_known {
            for (dim, size) in std::mem::take(&mut self.unchecked) {
                self.bind_dim(&dim, &size)?;
            }
        }
        Ok(())
    }

    fn bind_one(&mut self, dim: &Dim, size: &Dim) -> Result<()> {
        let free: Vec<Symbol> =
            dim.symbols().into_iter().filter(|symbol| self.get(symbol).is_none()).collect();
        if let (Some(symbol), [_]) = (dim.as_symbol(), &free[..])
            && !size.is_known()
        {
            let below = size.less(&Dim::new(symbol.min()));
            let above = symbol.max().map_or(Truth::No, |max| Dim::new(max).less(size));
            if below.is_yes() || above.is_yes() {
                let (name, range) = (symbol.name(), symbol.range());
                bail!(Shape, "{name} is {}, outside of its range {range}", shown(size));
            }
            if !(below.is_no() && above.is_no()) {
                self.undecided.get_or_insert_with(|| (dim.clone(), size.clone()));
            }
            self.known.insert(Arc::from(symbol.name()), size.clone());
            return Ok(());
        }
        let rest = dim.substitute(&|symbol| self.get(symbol));
        if free.is_empty() {
            match rest.same(size) {
                Truth::Yes => return Ok(()),
                Truth::No => match (rest.value_at_hand(), size.value_at_hand()) {
                    (Some(known), Some(_)) if dim.is_known() => {
                        bail!(Shape, "a size is {}, expected {known}", shown(size))
                    }
                    (Some(known), Some(_)) => {
                        bail!(Shape, "{dim} is {known} by the other sizes, got {}", shown(size))
                    }
                    _ => bail!(Shape, "{dim} cannot be {size}"),
                },
                Truth::Unknown => {
                    self.undecided.get_or_insert_with(|| (dim.clone(), size.clone()));
                    return Ok(());
                }
            }
        }
        let Some(size_known) = size.known() else {
            self.undecided.get_or_insert_with(|| (dim.clone(), size.clone()));
            return Ok(());
        };
        if let Some((symbol, value)) = rest.solve(size_known) {
            if value < symbol.min() || symbol.max().is_some_and(|max| value > max) {
                bail!(Shape, "{} is {value}, outside of its range {}", symbol.name(), symbol.range());
            }
            self.known.insert(Arc::from(symbol.name()), Dim::new(value));
        } else if rest.linear().is_some() {
            bail!(Shape, "no {dim} is {}", shown(size));
        } else {
            self.unchecked.push((dim.clone(), size.clone()));
        }
        Ok(())
    }
}

/// Returns a size as people know it: of one that a compiled function observes, the value.
fn shown(size: &Dim) -> Dim {
    size.value_at_hand().map_or_else(|| size.clone(), Dim::new)
}
