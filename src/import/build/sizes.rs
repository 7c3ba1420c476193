//! Sizes that depend on data: symbols that an operation makes, and the nodes from which they can be computed.
//!
//! A size of a placeholder has a value from the start. Any other symbol is the size of a node's axis, or a
//! number that a node takes out of a tensor; where such a size is an argument, it becomes arithmetic on those
//! nodes.

use std::sync::Arc;

use super::{Attempt, Builder};
use crate::dim::Step;
use crate::{Arg, Dim, NodeId, Op, Result, Symbol, TensorType, Type, TypeTree, ops};

impl Builder<'_> {
    /// Turns sizes that depend on data into arithmetic on nodes, so that passes see where they come from.
    pub(in crate::import) fn lower(&mut self, arg: &Arg) -> Attempt<Arg> {
        let mut depends = false;
        arg.walk(&mut |arg| depends |= matches!(arg, Arg::Dim(dim) if self.depends_on_data(dim)));
        if !depends {
            return Ok(arg.clone());
        }
        Ok(arg.try_rewrite(&mut |arg| match arg {
            Arg::Dim(dim) if self.depends_on_data(dim) => self.lower_dim(dim).map(Some),
            Arg::Leaf(node) => Ok(Some(Arg::Leaf(*node))),
            _ => Ok(None),
        })?)
    }

    fn depends_on_data(&self, dim: &Dim) -> bool {
        !self.data_sizes.is_empty()
            && dim.symbols().iter().any(|symbol| self.data_sizes.contains_key(symbol.name()))
    }

    fn lower_dim(&mut self, dim: &Dim) -> Result<Arg> {
        let lowered = dim.fold(&mut |step: Step<'_, (Arg, Dim)>| {
            let (op, (a, x), (b, y)) = match step {
                Step::Const(n) => return Ok((Arg::Int(n), Dim::new(n))),
                Step::Symbol(symbol) => {
                    let dim = Dim::symbol(symbol.clone());
                    let arg = match self.data_sizes.get(symbol.name()).copied() {
                        None => Arg::Dim(dim.clone()),
                        Some((node, None)) => Arg::Leaf(node),
                        Some((node, Some(axis))) => {
                            let args = [Arg::Leaf(node), Arg::Int(axis)];
                            let size = self.number_node(ops::size::OP, args, &dim)?;
                            self.data_sizes.insert(symbol.name().to_owned(), (size, None));
                            Arg::Leaf(size)
                        }
                    };
                    return Ok((arg, dim));
                }
                Step::Add(a, b) => (ops::add::OP, a, b),
                Step::Mul(a, b) => (ops::mul::OP, a, b),
                Step::FloorDiv(a, b) => (ops::floor_divide::OP, a, b),
                Step::Mod(a, b) => (ops::remainder::OP, a, b),
                Step::Min(a, b) => (ops::minimum::OP, a, b),
                Step::Max(a, b) => (ops::maximum::OP, a, b),
            };
            let dim = match op.name {
                "add" => &x + &y,
                "mul" => &x * &y,
                "floor_divide" => x.floor_div(&y),
                "remainder" => x.modulo(&y),
                "minimum" => x.min(&y),
                _ => x.max(&y),
            };
            Ok((Arg::Leaf(self.number_node(op, [a, b], &dim)?), dim))
        })?;
        Ok(lowered.0)
    }

    fn number_node(&mut self, op: Op, args: [Arg; 2], dim: &Dim) -> Result<NodeId> {
        let node = self.graph.call_function(op, args)?;
        let meta = self.graph.meta_mut(node)?;
        *meta = self.meta.clone();
        meta.ty = Some(Arc::new(Arg::dim(dim.clone())));
        Ok(node)
    }

    /// Remembers which node has a size that depends on data, where it is the first.
    pub(super) fn note_data_sizes(&mut self, id: NodeId) {
        let Some(TypeTree::Leaf(Type::Tensor(ty))) = self.graph.node(id).ok().and_then(crate::Node::ty)
        else {
            return;
        };
        let places: Vec<(String, i64)> = (0..)
            .zip(ty.shape.iter())
            .filter_map(|(axis, dim)| Some((dim.as_symbol()?.name().to_owned(), axis)))
            .filter(|(name, _)| !self.bound.contains(name) && !self.data_sizes.contains_key(name))
            .collect();
        for (name, axis) in places {
            self.data_sizes.entry(name).or_insert((id, Some(axis)));
        }
    }

    /// Gives sizes that depend on data the names that they have in the archive.
    pub(super) fn settle(&mut self, ty: TypeTree) -> TypeTree {
        let mut found: Vec<(Symbol, Dim)> = Vec::new();
        let mut expected = self.expected.clone();
        ty.walk(&mut |part| match part {
            Arg::Leaf(Type::Tensor(ty)) => {
                let place = expected.iter().position(|e| e.dtype == ty.dtype && e.rank() == ty.rank());
                let declared = place.map(|place| expected.remove(place));
                for (axis, dim) in ty.shape.iter().enumerate() {
                    for symbol in dim.symbols().into_iter().filter(Symbol::is_fresh) {
                        if found.iter().any(|(known, _)| *known == symbol) {
                            continue;
                        }
                        let declared = declared.as_ref().map(|ty| &ty.shape[axis]);
                        let plain = dim.as_symbol().is_some();
                        match declared.filter(|d| plain && (d.is_known() || d.as_symbol().is_some())) {
                            Some(name) => found.push((symbol, name.clone())),
                            None => found.push((symbol.clone(), Dim::new(-1))),
                        }
                    }
                }
            }
            Arg::Dim(dim) => {
                found.extend(dim.symbols().into_iter().filter(Symbol::is_fresh).map(|s| (s, Dim::new(-1))));
            }
            _ => {}
        });
        if found.is_empty() {
            return ty;
        }
        for (symbol, dim) in &mut found {
            if dim.known() == Some(-1) {
                let name = (0..)
                    .map(|i| format!("d{i}"))
                    .find(|name| !self.symbols.contains(name) && !self.made_up.contains(name))
                    .expect("some number is free");
                self.made_up.insert(name.clone());
                *dim = Dim::symbol(Symbol::with_range(name, symbol.min(), symbol.max()));
            }
        }
        substitute(&ty, &|symbol| found.iter().find(|(from, _)| from == symbol).map(|(_, to)| to.clone()))
    }

    /// Notes which numbers out of data are not negative, because a result has them as its sizes.
    ///
    /// The node that takes such a number out of data has this range in its type from now on, so that each run
    /// checks it there. That is sound for numbers of this graph: all of its nodes run. A number of a graph around
    /// it may be negative where this one does not run.
    pub(super) fn note_not_negative(&mut self, op: Op, args: &[TypeTree], id: NodeId) -> Result<()> {
        if self.data_sizes.is_empty() {
            return Ok(());
        }
        let node = self.graph.node(id)?;
        let Some(ty) = node.ty() else { return Ok(()) };
        let mut found: Vec<Symbol> = Vec::new();
        ty.walk(&mut |part| {
            if let Arg::Leaf(Type::Tensor(ty)) = part {
                found.extend(ty.shape.iter().flat_map(not_negative));
            }
        });
        if op.name == "arange" {
            found.extend(span(args).iter().flat_map(not_negative));
        }
        for symbol in found {
            let Some((number, None)) = self.data_sizes.get(symbol.name()).copied() else { continue };
            let is_number = |ty: &TypeTree| matches!(ty, Arg::Dim(dim) if dim.as_symbol() == Some(&symbol));
            if self.graph.node(number)?.ty().is_some_and(is_number) {
                self.restrict(symbol.ranged(0, symbol.max()))?;
            }
        }
        Ok(())
    }

    /// Gives a symbol this range in all types.
    fn restrict(&mut self, symbol: Symbol) -> Result<()> {
        let restricted = Dim::symbol(symbol.clone());
        for id in self.graph.ids() {
            let node = self.graph.node(id)?;
            let Some(ty) = node.ty() else { continue };
            let mut has_symbol = false;
            ty.walk(&mut |part| match part {
                Arg::Leaf(Type::Tensor(ty)) => {
                    has_symbol |= ty.shape.iter().any(|dim| dim.symbols().contains(&symbol));
                }
                Arg::Dim(dim) => has_symbol |= dim.symbols().contains(&symbol),
                _ => {}
            });
            if has_symbol {
                let ty = substitute(ty, &|other| (*other == symbol).then(|| restricted.clone()));
                self.graph.meta_mut(id)?.ty = Some(Arc::new(ty));
            }
        }
        self.restricted.push(symbol);
        Ok(())
    }

    /// Returns the symbols that have other ranges since the last time.
    pub(in crate::import) fn take_restricted(&mut self) -> Vec<Symbol> {
        std::mem::take(&mut self.restricted)
    }

    /// Sets the type of a placeholder, which gives its symbols values.
    pub(in crate::import) fn declare(&mut self, node: NodeId, ty: TypeTree) -> Result<()> {
        ty.walk(&mut |part| match part {
            Arg::Leaf(Type::Tensor(ty)) => {
                self.bound
                    .extend(ty.shape.iter().flat_map(Dim::symbols).map(|symbol| symbol.name().to_owned()));
            }
            Arg::Dim(dim) => self.bound.extend(dim.symbols().iter().map(|symbol| symbol.name().to_owned())),
            _ => {}
        });
        self.graph.meta_mut(node)?.ty = Some(Arc::new(ty));
        Ok(())
    }

    /// Returns whether a size that depends on data has been computed.
    pub(super) fn has_data_size(&self, name: &str) -> bool {
        self.data_sizes.contains_key(name)
    }

    /// Says that a node is a number of the host: a size that depends on data, or any.
    pub(in crate::import) fn set_number(&mut self, node: NodeId, ty: TypeTree) -> Result<()> {
        if let Arg::Dim(dim) = &ty
            && let Some(symbol) = dim.as_symbol()
            && !self.bound.contains(symbol.name())
        {
            self.data_sizes.insert(symbol.name().to_owned(), (node, None));
        }
        self.graph.meta_mut(node)?.ty = Some(Arc::new(ty));
        Ok(())
    }
}

/// Returns how far it is from the start of a range to its end, which the steps must lead to.
fn span(args: &[TypeTree]) -> Option<Dim> {
    let number = |arg: &TypeTree| match arg {
        Arg::Int(n) => Some(Dim::new(*n)),
        Arg::Dim(dim) => Some(dim.clone()),
        _ => None,
    };
    let [start, end, Arg::Int(step), ..] = args else { return None };
    let (start, end) = match end {
        Arg::None => (Dim::new(0), number(start)?),
        end => (number(start)?, number(end)?),
    };
    Some(if *step < 0 { start - end } else { end - start })
}

/// Returns symbols that may be negative by their ranges, and are not because this size is not.
fn not_negative(size: &Dim) -> Vec<Symbol> {
    if size.bounds().0 >= 0 {
        return Vec::new();
    }
    let symbols = size.fold(&mut |step: Step<'_, (Option<i64>, Vec<Symbol>)>| {
        Ok(match step {
            Step::Const(n) => (Some(n), Vec::new()),
            Step::Symbol(symbol) => (None, vec![symbol.clone()]),
            Step::Min((_, a), (_, b)) => (None, [a, b].concat()),
            Step::Mul((_, symbols), (Some(n), _)) if n > 0 => (None, symbols),
            _ => (None, Vec::new()),
        })
    });
    let symbols = symbols.map_or_else(|_| Vec::new(), |(_, symbols)| symbols);
    symbols.into_iter().filter(|symbol| symbol.min() < 0).collect()
}

/// Replaces symbols in the sizes of a type.
fn substitute(ty: &TypeTree, replacement: &dyn Fn(&Symbol) -> Option<Dim>) -> TypeTree {
    let rewritten = ty.try_rewrite(&mut |arg| {
        Ok(match arg {
            Arg::Leaf(Type::Tensor(ty)) => Some(Arg::Leaf(Type::Tensor(TensorType {
                dtype: ty.dtype,
                shape: ty.shape.iter().map(|dim| dim.substitute(replacement)).collect(),
            }))),
            Arg::Leaf(other) => Some(Arg::Leaf(other.clone())),
            Arg::Dim(dim) => Some(Arg::dim(dim.substitute(replacement))),
            _ => None,
        })
    });
    rewritten.unwrap_or_else(|_: crate::Error| ty.clone())
}
