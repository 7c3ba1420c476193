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
        let replace =
            |symbol: &Symbol| found.iter().find(|(from, _)| from == symbol).map(|(_, to)| to.clone());
        let rewritten = ty.try_rewrite(&mut |arg| {
            Ok(match arg {
                Arg::Leaf(Type::Tensor(ty)) => Some(Arg::Leaf(Type::Tensor(TensorType {
                    dtype: ty.dtype,
                    shape: ty.shape.iter().map(|dim| dim.substitute(&replace)).collect(),
                }))),
                Arg::Leaf(other) => Some(Arg::Leaf(other.clone())),
                Arg::Dim(dim) => Some(Arg::dim(dim.substitute(&replace))),
                _ => None,
            })
        });
        rewritten.unwrap_or(ty)
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
