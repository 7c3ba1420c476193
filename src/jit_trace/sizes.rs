//! The sizes of the arguments: each axis begins as a symbol of its own; equalities that operations need make
//! some of them numbers or expressions of others.

use std::collections::HashMap;

use crate::dim::Step;
use crate::trace::{EqualSizes, Observations, Place};
use crate::{Arg, Dim, Error, Result, SourceLoc, Symbol, TensorType, Type, TypeTree, Value, err};

/// The types of the arguments, and how their symbols came about.
#[derive(Clone)]
pub(super) struct Sizes {
    /// The type of each argument, in the symbols that are free.
    pub(super) types: Vec<TypeTree>,
    axes: Vec<Axis>,
    /// The value of each symbol in the example.
    values: HashMap<Symbol, i64>,
}

/// One axis of one tensor of the arguments.
#[derive(Clone)]
struct Axis {
    tensor: String,
    axis: usize,
    value: i64,
    /// The size when the trace began.
    first: Dim,
    size: Dim,
    by: Option<Place>,
}

impl Sizes {
    /// Gives each axis of the examples a symbol, except where the user gave a spec. Fails if a spec does not
    /// fit its example, or an example holds something other than concrete tensors.
    pub(super) fn new(
        names: &[String],
        examples: &[Value],
        specs: &[(String, TypeTree)],
        ranges: &[(String, i64, Option<i64>)],
    ) -> Result<Sizes> {
        let mut sizes = Sizes { types: Vec::new(), axes: Vec::new(), values: HashMap::new() };
        let taken: Vec<Symbol> = specs.iter().flat_map(|(_, ty)| symbols_of(ty)).collect();
        for (name, example) in names.iter().zip(examples) {
            let spec = specs.iter().find(|(other, _)| other == name).map(|(_, ty)| ty);
            let ty = match spec {
                Some(ty) => ranged(ty, ranges),
                None => symbolic(name, example, &taken)?,
            };
            sizes.enter(name, &ty, example)?;
            sizes.types.push(ty);
        }
        for (name, ..) in ranges {
            if !sizes.values.keys().any(|symbol| symbol.name() == name) {
                return Err(err!(Argument, "no input has the symbol {name:?}")
                    .help("name the sizes of an input with `.input(\"x\", \"f32[batch, 3]\")`"));
            }
        }
        Ok(sizes)
    }

    /// Enters the axes of an argument and the values of their symbols.
    fn enter(&mut self, name: &str, ty: &TypeTree, example: &Value) -> Result<()> {
        let (types, tensors) = (ty.leaves(), example.leaves());
        if ty.map(&mut |_| ()) != example.map(&mut |_| ()) {
            let text = |tree: Arg<()>| tree.map(&mut |()| "tensor").to_string();
            return Err(err!(
                Structure,
                "argument {name:?}: its spec is {}, its example {}",
                text(ty.map(&mut |_| ())),
                text(example.map(&mut |_| ()))
            )
            .help("give the spec and the example the same structure"));
        }
        let is_single = matches!(ty, Arg::Leaf(_));
        for (i, (ty, tensor)) in types.into_iter().zip(tensors).enumerate() {
            let tensor_name = if is_single { name.to_owned() } else { format!("{name}[{i}]") };
            let (Type::Tensor(ty), shape) = (ty, tensor.array()?.shape()) else { continue };
            let got = TensorType::new(tensor.array()?.dtype(), shape);
            if ty.dtype != got.dtype || ty.rank() != got.rank() {
                return Err(err!(Shape, "argument {name:?}: its spec is {ty}, its example {got}"));
            }
            for (axis, (size, &value)) in ty.shape.iter().zip(shape).enumerate() {
                let value = value as i64;
                if let Some(symbol) = size.as_symbol() {
                    self.values.entry(symbol.clone()).or_insert(value);
                }
                self.axes.push(Axis {
                    tensor: tensor_name.clone(),
                    axis,
                    value,
                    first: size.clone(),
                    size: size.clone(),
                    by: None,
                });
            }
        }
        Ok(())
    }

    /// Takes over the equalities that a recording needed. Returns whether a symbol became a number or an
    /// expression.
    pub(super) fn learn(&mut self, observations: &Observations) -> bool {
        let mut changed = false;
        for equal in &observations.equal {
            changed |= self.unify(equal);
        }
        changed
    }

    /// Fixes the symbols in the types of operations that have no rule for symbols. Returns whether there
    /// were any.
    pub(super) fn fix_failed(&mut self, observations: &Observations) -> bool {
        let mut changed = false;
        for (symbol, place) in &observations.failed {
            changed |= self.fix(symbol, Some(place.clone()));
        }
        changed
    }

    /// Makes a symbol the number that it is in the example. Returns whether it was free.
    pub(super) fn fix(&mut self, symbol: &Symbol, by: Option<Place>) -> bool {
        match self.values.get(symbol).copied() {
            Some(value) => self.replace(symbol, &Dim::new(value), by),
            None => false,
        }
    }

    fn unify(&mut self, equal: &EqualSizes) -> bool {
        let current = |dim: &Dim| self.current(dim);
        let difference = current(&equal.left) - current(&equal.right);
        if difference.is_known() || has_functions(&difference) {
            return false;
        }
        // The symbols of later arguments follow those of earlier ones.
        let mut symbols = difference.symbols();
        symbols.sort_by_key(|symbol| std::cmp::Reverse(self.position(symbol)));
        for symbol in &symbols {
            let rest = difference.substitute(&|other| (other == symbol).then(|| Dim::new(0)));
            let alone = Dim::symbol(symbol.clone());
            let solution = match () {
                () if &rest + &alone == difference => -rest,
                () if &rest - &alone == difference => rest,
                () => continue,
            };
            return self.replace(symbol, &solution, equal.place.clone());
        }
        let mut changed = false;
        for symbol in &symbols {
            changed |= self.fix(symbol, equal.place.clone());
        }
        changed
    }

    /// Returns a size of an earlier recording in the symbols that are free now.
    fn current(&self, dim: &Dim) -> Dim {
        let now = |symbol: &Symbol| {
            let axis = self.axes.iter().find(|axis| axis.first.as_symbol() == Some(symbol))?;
            Some(axis.size.clone())
        };
        dim.substitute(&now)
    }

    fn position(&self, symbol: &Symbol) -> usize {
        let position = self.axes.iter().position(|axis| axis.first.as_symbol() == Some(symbol));
        position.unwrap_or(usize::MAX)
    }

    fn replace(&mut self, symbol: &Symbol, by: &Dim, place: Option<Place>) -> bool {
        if !self.axes.iter().any(|axis| axis.size.symbols().contains(symbol)) {
            return false;
        }
        let replacement = |other: &Symbol| (other == symbol).then(|| by.clone());
        for axis in &mut self.axes {
            if axis.size.symbols().contains(symbol) {
                axis.size = axis.size.substitute(&replacement);
                axis.by = axis.by.take().or_else(|| place.clone());
            }
        }
        for ty in &mut self.types {
            *ty = substituted(ty, &replacement);
        }
        true
    }

    /// Returns the symbols that are still free, in order, with their values.
    pub(super) fn free(&self) -> Vec<(Symbol, i64)> {
        let mut free: Vec<(Symbol, i64)> = Vec::new();
        for symbol in self.axes.iter().flat_map(|axis| axis.size.symbols()) {
            if let (Some(value), false) =
                (self.values.get(&symbol), free.iter().any(|(other, _)| *other == symbol))
            {
                free.push((symbol.clone(), *value));
            }
        }
        free
    }

    /// Returns the arguments and axes whose sizes have a symbol.
    pub(super) fn axes_of(&self, symbols: &[Symbol]) -> Vec<(String, usize)> {
        let has = |axis: &&Axis| {
            axis.first.symbols().iter().chain(&axis.size.symbols()).any(|symbol| symbols.contains(symbol))
        };
        self.axes.iter().filter(has).map(|axis| (axis.tensor.clone(), axis.axis)).collect()
    }

    /// Returns the sizes for the report.
    pub(super) fn report(&self) -> Vec<super::Size> {
        let size = |axis: &Axis| super::Size {
            argument: axis.tensor.clone(),
            axis: axis.axis,
            value: axis.value,
            size: axis.size.clone(),
            by: axis.by.clone(),
        };
        self.axes.iter().map(size).collect()
    }

    /// Returns the types with another dtype of floats.
    pub(super) fn with_dtype(&self, dtype: crate::DType) -> Vec<TypeTree> {
        let cast = |leaf: &Type| match leaf {
            Type::Tensor(ty) if ty.dtype.is_float() => {
                Type::Tensor(TensorType { dtype, shape: ty.shape.clone() })
            }
            other => other.clone(),
        };
        self.types.iter().map(|ty| ty.map(&mut |leaf| cast(leaf))).collect()
    }
}

/// Names the sizes of an example: `x0`, `x1`; in a structure `xs0_1` for axis 1 of tensor 0.
fn symbolic(name: &str, example: &Value, taken: &[Symbol]) -> Result<TypeTree> {
    let is_single = matches!(example, Arg::Leaf(_));
    let mut n = 0;
    example.try_flat_map(&mut |tensor| {
        let array = tensor.array().map_err(|error| {
            let text = format!("the example of argument {name:?}: {}", error.message());
            Error::new(error.kind(), text).help("give concrete tensors as examples")
        })?;
        let prefix = if is_single { name.to_owned() } else { format!("{name}{n}_") };
        n += 1;
        let size = |axis: usize| {
            let mut text = format!("{prefix}{axis}");
            while taken.iter().any(|symbol| symbol.name() == text) {
                text.push('_');
            }
            Dim::symbol(Symbol::new(text))
        };
        let shape = (0..array.rank()).map(size).collect();
        Ok(Arg::Leaf(Type::Tensor(TensorType { dtype: array.dtype(), shape })))
    })
}

fn symbols_of(ty: &TypeTree) -> Vec<Symbol> {
    let shapes = ty.leaves().into_iter().filter_map(Type::tensor);
    shapes.flat_map(|ty| ty.shape.iter().flat_map(Dim::symbols).collect::<Vec<_>>()).collect()
}

fn ranged(ty: &TypeTree, ranges: &[(String, i64, Option<i64>)]) -> TypeTree {
    substituted(ty, &|symbol| {
        let (_, min, max) = ranges.iter().find(|(name, ..)| name == symbol.name())?;
        Some(Dim::symbol(symbol.ranged(*min, *max)))
    })
}

fn substituted(ty: &TypeTree, replacement: &dyn Fn(&Symbol) -> Option<Dim>) -> TypeTree {
    ty.map(&mut |leaf| match leaf {
        Type::Tensor(ty) => Type::Tensor(TensorType {
            dtype: ty.dtype,
            shape: ty.shape.iter().map(|dim| dim.substitute(replacement)).collect(),
        }),
        other => other.clone(),
    })
}

/// Returns whether a size is more than a polynomial, which no equality of the example determines.
fn has_functions(dim: &Dim) -> bool {
    let found = dim.fold(&mut |step: Step<'_, bool>| {
        Ok(match step {
            Step::Const(_) | Step::Symbol(_) => false,
            Step::Add(a, b) | Step::Mul(a, b) => a || b,
            Step::FloorDiv(..) | Step::Mod(..) | Step::Min(..) | Step::Max(..) => true,
        })
    });
    found.unwrap_or(true)
}

/// Returns the place of a read as that of an operation.
pub(super) fn place_of(what: &str, at: &SourceLoc) -> Place {
    Place { what: what.to_owned(), at: at.clone() }
}
