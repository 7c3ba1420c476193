//! Graphs within graphs: imported in place of the node that runs them, or as closed sub-graphs.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::{Attempt, Builder, Entry, ViewStep, input_name, shorten};
use crate::import::alias::Origin;
use crate::import::schema::{self, Argument};
use crate::import::symbols::Symbols;
use crate::{Arg, Dim, Graph, NodeId, NodeMeta, Registry, Symbol, TypeTree, err};

/// How deep graphs within graphs may be nested.
const MAX_NESTING: usize = 32;

/// What a closed sub-graph returns.
pub(in crate::import) enum Output {
    Tuple,
    List,
    One,
}

/// What belongs to the graph around a closed sub-graph, while the sub-graph is built.
pub(in crate::import) struct Suspended {
    pub(in crate::import) graph: Graph,
    replayed: HashMap<(usize, u32, usize), (NodeId, Rc<ViewStep>)>,
    bound: HashSet<String>,
    data_sizes: HashMap<String, (NodeId, Option<i64>)>,
}

impl Suspended {
    /// Returns an empty graph, in which no size is known.
    pub(in crate::import) fn new(name: &str) -> Suspended {
        Suspended {
            graph: Graph::new(name),
            replayed: HashMap::new(),
            bound: HashSet::new(),
            data_sizes: HashMap::new(),
        }
    }

    /// Returns the node that is a size, or whose axis has it, for a size that depends on data.
    pub(in crate::import) fn data_size(&self, symbol: &str) -> Option<(NodeId, Option<i64>)> {
        self.data_sizes.get(symbol).copied()
    }
}

impl<'a> Builder<'a> {
    /// Goes on with the nodes of another graph of an archive, whose names are new.
    pub(in crate::import) fn resume<'b>(
        self,
        registry: &'b Registry,
        symbols: &'b Symbols,
        source: &'b schema::Graph,
    ) -> Builder<'b> {
        Builder {
            registry,
            symbols,
            source,
            values: HashMap::new(),
            graph: self.graph,
            storages: self.storages,
            replayed: self.replayed,
            meta: self.meta,
            hint: self.hint,
            expected: self.expected,
            made_up: self.made_up,
            bound: self.bound,
            data_sizes: self.data_sizes,
            restricted: self.restricted,
            nesting: self.nesting,
            numbers: self.numbers,
            autocast: self.autocast,
            problems: self.problems,
        }
    }

    /// Turns to another graph, and returns the one that was built until now.
    pub(in crate::import) fn swap(&mut self, other: Suspended) -> Suspended {
        Suspended {
            graph: std::mem::replace(&mut self.graph, other.graph),
            replayed: std::mem::replace(&mut self.replayed, other.replayed),
            bound: std::mem::replace(&mut self.bound, other.bound),
            data_sizes: std::mem::replace(&mut self.data_sizes, other.data_sizes),
        }
    }

    /// Says what the nodes to come are made of, and what they are called.
    pub(in crate::import) fn describe(&mut self, meta: NodeMeta, hint: &str) {
        self.meta = meta;
        self.hint.clear();
        self.hint.push_str(hint);
        self.expected.clear();
    }

    /// Returns a symbol for an integer that depends on data.
    pub(in crate::import) fn data_symbol(&mut self, min: i64) -> Dim {
        let name = (0..)
            .map(|i| format!("d{i}"))
            .find(|name| !self.symbols.contains(name) && !self.made_up.contains(name))
            .expect("some number is free");
        self.made_up.insert(name.clone());
        Dim::symbol(Symbol::with_range(name, min, None))
    }

    /// Says that a name of a symbol is taken.
    pub(in crate::import) fn reserve_symbol(&mut self, name: &str) {
        self.made_up.insert(name.to_owned());
    }

    /// Returns whether a placeholder gives a symbol its value, or a node of this graph does.
    pub(in crate::import) fn knows_size(&self, symbol: &str) -> bool {
        self.bound.contains(symbol) || self.data_sizes.contains_key(symbol)
    }

    /// Imports a graph of the archive in place of the node that runs it.
    pub(in crate::import) fn inline(
        &mut self,
        inner: &'a schema::Graph,
        args: Vec<Entry>,
    ) -> Attempt<Vec<Entry>> {
        self.nested(|this| {
            let values = std::mem::take(&mut this.values);
            let (source, meta, hint) = (this.source, this.meta.clone(), this.hint.clone());
            this.source = inner;
            let result = this.run_inner(inner, args);
            this.source = source;
            (this.values, this.meta, this.hint) = (values, meta, hint);
            result
        })
    }

    fn run_inner(&mut self, inner: &'a schema::Graph, args: Vec<Entry>) -> Attempt<Vec<Entry>> {
        if inner.inputs.len() != args.len() {
            return Err(err!(Load, "a graph takes {} inputs, got {}", inner.inputs.len(), args.len()).into());
        }
        for (input, entry) in inner.inputs.iter().zip(args) {
            if let Some(name) = input_name(input) {
                self.define(name, entry)?;
            }
        }
        self.run(&inner.nodes)?;
        let mut entries = Vec::new();
        for output in &inner.outputs {
            entries.push(match output {
                Argument::AsTensor(tensor) => self.entry(&tensor.name)?.clone(),
                other => Entry::Value(self.argument(other)?),
            });
        }
        Ok(entries)
    }

    /// Imports a graph of the archive as a closed sub-graph that takes values of these types.
    pub(in crate::import) fn closed(
        &mut self,
        graph: &'a schema::GraphArgument,
        args: &[Arg],
        output: Output,
    ) -> Attempt<Arc<Graph>> {
        let inner = &graph.graph;
        if inner.inputs.len() != args.len() {
            return Err(err!(
                Load,
                "the graph {:?} takes {} inputs, got {}",
                shorten(&graph.name),
                inner.inputs.len(),
                args.len()
            )
            .into());
        }
        let names: Vec<Option<&'a str>> = inner.inputs.iter().map(input_name).collect();
        self.region(&graph.name, &names, args, |builder, entries| {
            builder.source = inner;
            for (name, entry) in names.iter().zip(entries) {
                if let Some(name) = name {
                    builder.define(name, entry)?;
                }
            }
            builder.run(&inner.nodes)?;
            let outputs =
                inner.outputs.iter().map(|output| builder.argument(output)).collect::<Attempt<Vec<_>>>()?;
            Ok(match output {
                Output::Tuple => Arg::tuple(outputs),
                Output::List => Arg::list(outputs),
                Output::One => match <[Arg; 1]>::try_from(outputs) {
                    Ok([one]) => one,
                    Err(outputs) => {
                        return Err(err!(Load, "expected one output, got {}", outputs.len()).into());
                    }
                },
            })
        })
    }

    /// Builds a closed sub-graph that takes values of the types of `args`, and returns what `body` makes of them.
    pub(in crate::import) fn region(
        &mut self,
        name: &str,
        names: &[Option<&'a str>],
        args: &[Arg],
        body: impl FnOnce(&mut Builder<'a>, Vec<Entry>) -> Attempt<Arg>,
    ) -> Attempt<Arc<Graph>> {
        let types: Vec<Option<TypeTree>> = args.iter().map(|arg| self.type_tree(arg)).collect();
        let mut builder = Builder::new(name, self.registry, self.symbols, self.source);
        std::mem::swap(&mut builder.problems, &mut self.problems);
        std::mem::swap(&mut builder.made_up, &mut self.made_up);
        builder.nesting = self.nesting;
        builder.meta = self.meta.clone();
        builder.autocast = self.autocast;
        let result = builder.nested(|builder| {
            let mut entries = Vec::new();
            for (i, ty) in types.into_iter().enumerate() {
                let name = names.get(i).copied().flatten();
                let node = builder.graph.placeholder(name.unwrap_or(&format!("arg_{i}")))?;
                let value = match &ty {
                    Some(Arg::Dim(dim)) => Some(Arg::Dim(dim.clone())),
                    Some(ty) if ty.leaf().is_none() => ty.try_flat_map(&mut |_| Ok(Arg::None)).ok(),
                    _ => None,
                };
                if let Some(ty) = ty {
                    builder.declare(node, ty)?;
                }
                entries.push(match value {
                    Some(value) => Entry::Value(value),
                    None => Entry::Tensor(builder.fresh(node, Origin::Input)),
                });
            }
            let output = body(builder, entries)?;
            builder.graph.set_output(output)?;
            builder.graph.eliminate_dead_code(|_| true);
            Ok(())
        });
        self.problems = builder.problems;
        self.made_up = builder.made_up;
        result?;
        Ok(Arc::new(builder.graph))
    }

    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Attempt<T>) -> Attempt<T> {
        if self.nesting >= MAX_NESTING {
            return Err(err!(Limit, "graphs nested deeper than {MAX_NESTING} levels").into());
        }
        self.nesting += 1;
        let result = f(self);
        self.nesting -= 1;
        result
    }
}
