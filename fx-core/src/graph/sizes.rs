//! Symbolic sizes of a graph that is copied into another, or taken for operands of some types: what each symbol is
//! called there.
//!
//! A symbol of a placeholder becomes the size that the value given for the placeholder has; where that is not
//! known, the copied nodes lose the types that mention it. A symbol that a node made up, since its size
//! depends on data, gets a name that is free.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Graph, NodeMap};
use crate::fresh::{self, for_each_dim};
use crate::node::OpCode;
use crate::{Arg, Dim, Result, Symbol, TypeTree, bail, err};

/// What the symbols of a copied graph become.
#[derive(Default)]
pub(super) struct Sizes {
    known: FxHashMap<Symbol, Dim>,
    unknown: FxHashSet<Symbol>,
}

impl Sizes {
    /// Compares the types of the placeholders of `from` with those of what `map` gives for them in `to`.
    pub(super) fn of_copy(from: &Graph, to: &Graph, map: &NodeMap) -> Result<Self> {
        let given = from.placeholders().into_iter().map(|leaf| {
            Ok(match map.get(&leaf) {
                Some(Arg::Leaf(node)) => to.node(*node)?.ty().cloned(),
                Some(Arg::Int(n)) => Some(Arg::Int(*n)),
                Some(Arg::Dim(dim)) => Some(Arg::Dim(dim.clone())),
                _ => None,
            })
        });
        let given = given.collect::<Result<Vec<_>>>()?;
        let types: Vec<&TypeTree> = to.nodes().filter_map(|(_, node)| node.ty()).collect();
        Sizes::of(from, &given, &types)
    }

    /// Compares the types of the placeholders of `from` with those that are `given` for them. No size that data
    /// decides is called as one in `types`.
    fn of(from: &Graph, given: &[Option<TypeTree>], types: &[&TypeTree]) -> Result<Self> {
        let mut sizes = Sizes::default();
        let mut of_inputs = FxHashSet::default();
        for (leaf, given) in from.placeholders().into_iter().zip(given) {
            let Some(ty) = from.node(leaf)?.ty() else { continue };
            let symbols = fresh::symbols(ty);
            of_inputs.extend(symbols.iter().cloned());
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            for_each_dim(ty, &mut |dim| theirs.push(dim.clone()));
            match given {
                Some(Arg::Int(n)) => ours.push(Dim::new(*n)),
                Some(given) => for_each_dim(given, &mut |dim| ours.push(dim.clone())),
                None => {}
            }
            if theirs.len() == ours.len() {
                for (their, our) in theirs.iter().zip(ours) {
                    if let Some((symbol, size)) = told(their, &our) {
                        sizes.known.entry(symbol).or_insert(size);
                    } else if *their == our {
                        for symbol in our.symbols() {
                            sizes.known.entry(symbol.clone()).or_insert(Dim::symbol(symbol));
                        }
                    }
                }
            }
            sizes.unknown.extend(symbols);
        }
        sizes.unknown.retain(|symbol| !sizes.known.contains_key(symbol));
        sizes.name_data_sizes(from, types, &of_inputs)?;
        sizes.known.retain(|symbol, size| size.as_symbol() != Some(symbol));
        Ok(sizes)
    }

    /// Gives the symbols that nodes of `from` made up names that `types` do not use.
    fn name_data_sizes(
        &mut self,
        from: &Graph,
        types: &[&TypeTree],
        of_inputs: &FxHashSet<Symbol>,
    ) -> Result<()> {
        let mut made_up = Vec::new();
        for (_, node) in from.nodes() {
            let Some(ty) = node.ty() else { continue };
            let mut new = fresh::symbols(ty);
            new.retain(|symbol| !of_inputs.contains(symbol) && !made_up.contains(symbol));
            if new.is_empty() {
                continue;
            }
            let mut read = FxHashSet::default();
            for arg in node.all_args() {
                arg.walk(&mut |arg| match arg {
                    Arg::Dim(dim) => read.extend(dim.symbols()),
                    Arg::Leaf(id) => {
                        if let Some(ty) = from.get(*id).ty() {
                            read.extend(fresh::symbols(ty));
                        }
                    }
                    _ => {}
                });
            }
            made_up.extend(new.into_iter().filter(|symbol| !read.contains(symbol)));
        }
        if made_up.is_empty() {
            return Ok(());
        }
        let mut taken = FxHashSet::default();
        for ty in types {
            for symbol in fresh::symbols(ty) {
                taken.insert(symbol.name().to_owned());
            }
        }
        let mut names = fresh::Names::default();
        for symbol in made_up {
            if taken.contains(symbol.name()) {
                let name = Symbol::new(names.next(from, types.iter().copied()));
                let (min, max) = (symbol.min(), symbol.max());
                self.known.insert(symbol, Dim::symbol(name.ranged(min, max)));
            }
        }
        Ok(())
    }

    /// Returns whether every symbol stays what it is.
    pub(super) fn is_identity(&self) -> bool {
        self.known.is_empty() && self.unknown.is_empty()
    }

    /// Returns a type in terms of the other graph, if it can be said there.
    pub(super) fn ty(&self, ty: &TypeTree) -> Option<TypeTree> {
        if !self.unknown.is_empty() && fresh::symbols(ty).iter().any(|symbol| self.unknown.contains(symbol)) {
            return None;
        }
        Some(fresh::substitute(ty, &|symbol| self.known.get(symbol).cloned()))
    }

    /// Returns an argument whose sizes, also in sub-graphs, are in terms of the other graph.
    pub(super) fn arg(&self, arg: &Arg) -> Result<Arg> {
        arg.try_rewrite(&mut |arg| {
            Ok(Some(match arg {
                Arg::Leaf(id) => Arg::Leaf(*id),
                Arg::Dim(dim) => match dim.symbols().iter().find(|symbol| self.unknown.contains(symbol)) {
                    None => Arg::dim(dim.substitute(&|symbol| self.known.get(symbol).cloned())),
                    Some(symbol) => {
                        return Err(err!(
                            UnknownType,
                            "the size {dim} is used, but what {:?} is here is not known",
                            symbol.name()
                        )
                        .help("infer the types of the graph first, so that the operands have shapes"));
                    }
                },
                Arg::Graph(graph) => Arg::Graph(Arc::new(self.graph(graph)?)),
                _ => return Ok(None),
            }))
        })
    }

    fn graph(&self, graph: &Graph) -> Result<Graph> {
        let mut graph = graph.clone();
        for id in graph.ids() {
            let node = graph.node(id)?;
            let args = node.args.iter().map(|arg| self.arg(arg)).collect::<Result<Vec<_>>>()?;
            let kwargs = node.kwargs.iter().map(|(key, arg)| Ok((key.clone(), self.arg(arg)?)));
            let kwargs = kwargs.collect::<Result<Vec<_>>>()?;
            let ty = node.ty().and_then(|ty| self.ty(ty)).map(Arc::new);
            graph.set_args(id, args)?;
            graph.set_kwargs(id, kwargs)?;
            graph.meta_mut(id)?.ty = ty;
        }
        Ok(graph)
    }
}

/// Returns the symbol that an expression has alone, and what it is where the expression is `size`.
fn told(expression: &Dim, size: &Dim) -> Option<(Symbol, Dim)> {
    let (symbol, factor, constant) = expression.linear()?;
    let (factor, constant) = (Dim::new(factor), Dim::new(constant));
    let value = (size - &constant).floor_div(&factor);
    (&value * factor + constant == *size).then(|| (symbol.clone(), value))
}

impl Graph {
    /// Returns this closed graph for operands of these types: the symbols of its placeholders are the sizes that
    /// the operands have, also in arguments and sub-graphs, and its nodes have the types that follow. A size that
    /// data decides has a name of its own, none of `taken`.
    ///
    /// Fails if there are more or fewer types than placeholders, or they do not fit the nodes.
    pub fn for_operands(&self, types: &[TypeTree], taken: &[Symbol]) -> Result<Graph> {
        let n = self.placeholders().len();
        if n != types.len() {
            bail!(Argument, "the graph {:?} takes {n} operands, got {}", self.name(), types.len());
        }
        let taken: Vec<TypeTree> = taken.iter().map(|symbol| Arg::dim(Dim::symbol(symbol.clone()))).collect();
        let taken: Vec<&TypeTree> = taken.iter().collect();
        let given: Vec<Option<TypeTree>> = types.iter().cloned().map(Some).collect();
        let renamed = |graph: &Graph| -> Result<Graph> {
            let sizes = Sizes::of(graph, &given, &taken)?;
            if sizes.is_identity() { Ok(graph.clone()) } else { sizes.graph(graph) }
        };
        let mut graph = renamed(self)?;
        let has_types =
            graph.placeholders().into_iter().zip(types).all(|(id, ty)| graph.get(id).ty() == Some(ty))
                && graph.nodes().all(|(_, node)| node.ty().is_some() || node.opcode() == OpCode::Output);
        if has_types {
            return Ok(graph);
        }
        crate::infer::propagate(&mut graph, crate::attribute::Parts::default(), types)?;
        renamed(&graph)
    }
}
