//! Builds a graph from the nodes of an archive, one after the other.
//!
//! A value has the name that the archive gives it; what it is in the graph is an [`Entry`]. A node that
//! cannot be imported is noted in [`Problems`] and poisons what it gives, so that everything that is wrong is
//! found in one go.

mod arguments;
mod problems;
mod regions;
mod sizes;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

pub(super) use self::problems::Problems;
pub(super) use self::regions::{Output, Suspended};
use super::alias::{Origin, Step as ViewStep, Storage, View, sizes_of};
use super::schema::{
    self, Argument, OptionalTensor, SymBoolArgument, SymFloatArgument, SymInt, SymIntArgument, TensorMeta,
};
use super::symbols::Symbols;
use super::{aten, complex, metadata};
use crate::{
    Arg, Class, DType, Dim, Error, Graph, NodeId, NodeMeta, Op, Registry, Result, Symbol, Target, TensorType,
    TypeTree, bail, err,
};

/// Why a node could not be imported.
pub(super) enum Failure {
    /// An operation is missing; what it is needed for is known to the caller.
    Missing(String),
    /// An argument could not be imported, which has been noted.
    Poisoned,
    /// Anything else.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

pub(super) type Attempt<T> = Result<T, Failure>;

/// What a name of the archive stands for.
#[derive(Clone)]
pub(super) enum Entry {
    Tensor(View),
    Value(Arg),
    Poisoned,
}

/// What a node gives.
pub(super) enum Out {
    /// Nothing.
    Nothing,
    /// A new value; a tuple or list if there are several outputs.
    Node(NodeId),
    /// An alias.
    View(View),
    /// A value that is no tensor.
    Value(Arg),
    /// Several.
    Many(Vec<Out>),
}

pub(super) fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(120)]
}

/// A graph while it is built.
pub(super) struct Builder<'a> {
    pub(super) registry: &'a Registry,
    pub(super) symbols: &'a Symbols,
    pub(super) graph: Graph,
    /// The graph of the archive that is read now.
    source: &'a schema::Graph,
    values: HashMap<&'a str, Entry>,
    pub(super) storages: Vec<Storage>,
    pub(super) replayed: HashMap<(usize, u32, usize), (NodeId, Rc<ViewStep>)>,
    /// The facts about the node of the archive that is imported now.
    meta: NodeMeta,
    /// The name that its value has there.
    hint: String,
    /// The types that its outputs have there.
    expected: Vec<TensorType>,
    /// Names of symbols that were made up here.
    made_up: HashSet<String>,
    /// The symbols that placeholders give a value.
    bound: HashSet<String>,
    /// Where sizes that depend on data come from: the axis of a node, or a node that is the number.
    data_sizes: HashMap<String, (NodeId, Option<i64>)>,
    /// The symbols that have another range than before; see [`take_restricted`](Self::take_restricted).
    restricted: Vec<Symbol>,
    nesting: usize,
    /// Numbers of the host that are computed as tensors of rank 0; they do not widen the dtype of tensors.
    numbers: HashSet<NodeId>,
    /// The dtype to which automatic casts lower operands, in a part of the program that has them.
    pub(super) autocast: Option<DType>,
    pub(super) problems: Problems,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        name: &str,
        registry: &'a Registry,
        symbols: &'a Symbols,
        source: &'a schema::Graph,
    ) -> Self {
        Builder {
            registry,
            symbols,
            graph: Graph::new(name),
            source,
            values: HashMap::new(),
            storages: Vec::new(),
            replayed: HashMap::new(),
            meta: NodeMeta::default(),
            hint: String::new(),
            expected: Vec::new(),
            made_up: HashSet::new(),
            bound: HashSet::new(),
            data_sizes: HashMap::new(),
            restricted: Vec::new(),
            nesting: 0,
            numbers: HashSet::new(),
            autocast: None,
            problems: Problems::default(),
        }
    }

    /// Says what a name stands for; a name is given once.
    pub(super) fn define(&mut self, name: &'a str, entry: Entry) -> Result<()> {
        if self.values.insert(name, entry).is_some() {
            bail!(Load, "two values are called {:?}", shorten(name));
        }
        Ok(())
    }

    /// Says that a name stands for something else from now on.
    pub(super) fn redefine(&mut self, name: &'a str, view: View) {
        self.values.insert(name, Entry::Tensor(view));
    }

    pub(super) fn entry(&self, name: &str) -> Attempt<&Entry> {
        match self.values.get(name) {
            Some(Entry::Poisoned) => Err(Failure::Poisoned),
            Some(entry) => Ok(entry),
            None => {
                Err(err!(Load, "the value {:?} is used before it is computed, or never is", shorten(name))
                    .into())
            }
        }
    }

    pub(super) fn view_named(&self, name: &str) -> Attempt<View> {
        match self.entry(name)? {
            Entry::Tensor(view) => Ok(view.clone()),
            _ => Err(err!(Load, "the value {:?} is no tensor", shorten(name)).into()),
        }
    }

    /// Returns the present value of a name.
    pub(super) fn value_named(&mut self, name: &str) -> Attempt<Arg> {
        let entry = self.entry(name)?.clone();
        self.present(entry)
    }

    /// Returns the present value of an entry.
    pub(super) fn present(&mut self, entry: Entry) -> Attempt<Arg> {
        match entry {
            Entry::Tensor(view) => self.current(&view).map(Arg::Leaf),
            Entry::Value(value) => Ok(value),
            Entry::Poisoned => Err(Failure::Poisoned),
        }
    }

    pub(super) fn tensor_type(&self, node: NodeId) -> Result<TensorType> {
        let node = self.graph.node(node)?;
        node.ty()
            .and_then(TypeTree::tensor)
            .cloned()
            .ok_or_else(|| err!(Load, "the type of {} is not known, which is needed here", node.name()))
    }

    /// Returns the type that the archive gives for a name.
    pub(super) fn declared(&self, name: &str) -> Result<Option<TensorType>> {
        self.source.tensor_values.get(name).map(|meta| self.type_of(meta)).transpose()
    }

    pub(super) fn tensor_meta(&self, name: &str) -> Option<&'a TensorMeta> {
        self.source.tensor_values.get(name)
    }

    fn type_of(&self, meta: &TensorMeta) -> Result<TensorType> {
        let shape = meta.sizes.iter().map(|size| self.size(size)).collect::<Result<Vec<Dim>>>()?;
        if let Some(dim) = shape.iter().find(|dim| dim.known().is_some_and(|n| n < 0)) {
            bail!(Load, "expected a size of at least 0, got {dim}");
        }
        Ok(match complex::part_dtype(meta.dtype) {
            Some(dtype) => TensorType { dtype, shape: shape.into_iter().chain([Dim::new(2)]).collect() },
            None => TensorType { dtype: super::dtype(meta.dtype)?, shape: shape.into_iter().collect() },
        })
    }

    fn size(&self, size: &SymInt) -> Result<Dim> {
        match size {
            SymInt::AsInt(n) => Ok(Dim::new(*n)),
            SymInt::AsExpr(expr) => self.symbols.dim(&expr.expr_str),
        }
    }

    /// Imports the nodes of a graph of the archive.
    pub(super) fn run(&mut self, nodes: &'a [schema::Node]) -> Result<()> {
        for node in nodes {
            let meta = metadata::of(node);
            // What PyTorch put in between, such as asserts, has no place of its own: it keeps that of the
            // node before.
            if meta.source.is_some() || meta.stack.is_some() {
                self.meta = meta;
            } else {
                self.meta.stack = None;
            }
            let mut names = Vec::new();
            node.outputs.iter().for_each(|output| output_names(output, &mut names));
            self.hint = match names.as_slice() {
                [name] => (*name).to_owned(),
                _ => node.name.clone().unwrap_or_else(|| names.first().copied().unwrap_or("node").to_owned()),
            };
            let attempt = self.node(node, &names);
            match attempt {
                Ok(()) => continue,
                Err(Failure::Poisoned) => {
                    let mut found = Vec::new();
                    aten::lacking(self, node, &mut found);
                    for (inner, row) in found {
                        let place = place_of(inner, &metadata::of(inner));
                        self.problems.unknown(&inner.target, &row, place);
                    }
                }
                Err(Failure::Missing(row)) => {
                    let place = place_of(node, &self.meta);
                    self.problems.unknown(&node.target, &row, place);
                }
                Err(Failure::Error(error)) => {
                    let text = format!(
                        "{} in node {:?}, {}",
                        error.message(),
                        shorten(&self.hint),
                        shorten(&node.target)
                    );
                    let mut located = Error::new(error.kind(), text);
                    if let Some(help) = error.advice() {
                        located = located.help(help);
                    }
                    if let Some(source) = &self.meta.source {
                        located = located.at(source.clone());
                    }
                    self.problems.error(located);
                }
            }
            for name in names {
                self.values.insert(name, Entry::Poisoned);
            }
        }
        Ok(())
    }

    fn node(&mut self, node: &'a schema::Node, names: &[&'a str]) -> Attempt<()> {
        self.expected.clear();
        for name in names {
            if let Some(ty) = self.declared(name)? {
                self.expected.push(ty);
            }
        }
        let out = aten::import(self, node)?;
        self.bind_outputs(node, out)
    }

    fn bind_outputs(&mut self, node: &'a schema::Node, out: Out) -> Attempt<()> {
        match node.outputs.as_slice() {
            [] => Ok(()),
            [output] => self.bind(output, out),
            outputs => {
                let parts = self.parts(out, outputs.len())?;
                let mut computed =
                    outputs.iter().zip(parts).filter(|(_, part)| !matches!(part, Out::Nothing));
                computed.try_for_each(|(output, part)| self.bind(output, part))
            }
        }
    }

    /// Takes apart what a node gives.
    fn parts(&mut self, out: Out, n: usize) -> Attempt<Vec<Out>> {
        match out {
            // Outputs that only a backward pass needs are not computed; a use of one is an error.
            Out::Many(parts) if parts.len() <= n => Ok(parts),
            Out::Node(node) => {
                if let Some(ty) = self.graph.node(node)?.ty() {
                    match ty.items() {
                        Some(items) if items.len() == n => {}
                        Some(items) => {
                            return Err(err!(Load, "expected {n} outputs, got {}", items.len()).into());
                        }
                        None => return Err(err!(Load, "expected {n} outputs, got {ty}").into()),
                    }
                }
                let item = |i| self.call("getitem", [Arg::Leaf(node), Arg::Int(i as i64)]).map(Out::Node);
                (0..n).map(item).collect()
            }
            Out::Many(parts) => Err(err!(Load, "expected {n} outputs, got {}", parts.len()).into()),
            Out::View(_) | Out::Value(_) | Out::Nothing => {
                Err(err!(Load, "expected {n} outputs, got one").into())
            }
        }
    }

    fn bind(&mut self, output: &'a Argument, out: Out) -> Attempt<()> {
        match output {
            Argument::AsNone(_) => Ok(()),
            Argument::AsTensor(tensor) => {
                let out = match out {
                    Out::Many(mut parts) if parts.len() == 1 => parts.remove(0),
                    Out::Node(node) if self.graph.node(node)?.ty().is_some_and(|ty| ty.items().is_some()) => {
                        self.parts(Out::Node(node), 1)?.remove(0)
                    }
                    out => out,
                };
                let view = match out {
                    Out::Node(node) => self.fresh(node, Origin::Local),
                    Out::View(view) => view,
                    Out::Value(value) => return Ok(self.define(&tensor.name, Entry::Value(value))?),
                    Out::Nothing | Out::Many(_) => {
                        return Err(err!(Load, "expected one tensor as {:?}", shorten(&tensor.name)).into());
                    }
                };
                self.check_type(&tensor.name, view.node)?;
                Ok(self.define(&tensor.name, Entry::Tensor(view))?)
            }
            Argument::AsTensors(tensors) => {
                let parts = self.parts(out, tensors.len())?;
                for (tensor, part) in tensors.iter().zip(parts) {
                    let view = match part {
                        Out::Node(node) => self.fresh(node, Origin::Local),
                        Out::View(view) => view,
                        _ => {
                            return Err(err!(Load, "expected a tensor as {:?}", shorten(&tensor.name)).into());
                        }
                    };
                    self.check_type(&tensor.name, view.node)?;
                    self.define(&tensor.name, Entry::Tensor(view))?;
                }
                Ok(())
            }
            Argument::AsOptionalTensor(OptionalTensor::AsNone(_)) => Ok(()),
            Argument::AsSymInt(SymIntArgument::AsName(name))
            | Argument::AsSymFloat(SymFloatArgument::AsName(name))
            | Argument::AsSymBool(SymBoolArgument::AsName(name)) => {
                let value = match out {
                    Out::Value(value) => value,
                    Out::Node(node) => Arg::Leaf(node),
                    _ => return Err(err!(Load, "expected a number as {:?}", shorten(name)).into()),
                };
                Ok(self.define(name, Entry::Value(value))?)
            }
            Argument::AsSymInt(_) | Argument::AsSymFloat(_) | Argument::AsSymBool(_) => Ok(()),
            Argument::AsInt(_) | Argument::AsFloat(_) | Argument::AsBool(_) => Ok(()),
            _ => Err(err!(Load, "an output of this kind cannot be imported").into()),
        }
    }

    /// Compares the type of a value with what the archive says of it.
    fn check_type(&mut self, name: &str, node: NodeId) -> Attempt<()> {
        let Some(declared) = self.declared(name)? else { return Ok(()) };
        let inferred = match self.graph.node(node)?.ty() {
            None => {
                self.graph.meta_mut(node)?.ty = Some(Arc::new(declared.into()));
                return Ok(());
            }
            Some(ty) => ty.clone(),
        };
        let fits = inferred.tensor().is_some_and(|inferred| {
            let differ = |(a, b): (&Dim, &Dim)| a.same(b).is_no();
            inferred.dtype == declared.dtype
                && inferred.rank() == declared.rank()
                && !inferred.shape.iter().zip(declared.shape.iter()).any(differ)
        });
        if fits {
            return Ok(());
        }
        Err(err!(Load, "PyTorch recorded {declared}, fx infers {inferred}")
            .help("an argument may be read wrongly, or the archive is damaged; please report it")
            .into())
    }

    /// Finds a row.
    pub(super) fn row(&self, name: &str) -> Attempt<Op> {
        self.registry.get(name).ok_or_else(|| Failure::Missing(name.to_owned()))
    }

    /// Adds a call by position.
    pub(super) fn call(&mut self, row: &str, args: impl IntoIterator<Item = Arg>) -> Attempt<NodeId> {
        let op = self.row(row)?;
        self.emit(op, args.into_iter().collect(), &[])
    }

    /// Adds a call.
    pub(super) fn emit(&mut self, op: Op, args: Vec<Arg>, kwargs: &[(&str, Arg)]) -> Attempt<NodeId> {
        let mut bound = op.bind(&args, kwargs)?;
        for arg in &mut bound {
            *arg = self.lower(arg)?;
        }
        if let Class::Pointwise(_) = op.class {
            self.settle_numbers(&mut bound)?;
        }
        let types: Option<Vec<TypeTree>> = bound.iter().map(|arg| self.type_tree(arg)).collect();
        let ty = match &types {
            Some(types) => op.infer(types)?,
            None => None,
        };
        let (args, kwargs) = op.spell(&bound);
        let hint = if self.hint.is_empty() { op.name.to_owned() } else { self.hint.clone() };
        let id = self.graph.create(Target::CallFunction(op), args, kwargs, Some(&hint))?;
        let ty = ty.map(|ty| self.settle(ty));
        let meta = self.graph.meta_mut(id)?;
        *meta = self.meta.clone();
        meta.ty = ty.map(Arc::new);
        self.note_data_sizes(id);
        self.note_not_negative(op, types.as_deref().unwrap_or_default(), id)?;
        Ok(id)
    }

    fn type_tree(&self, arg: &Arg) -> Option<TypeTree> {
        let known = |id: &NodeId| self.graph.node(*id).ok()?.ty().filter(|ty| ty.is_complete()).cloned();
        arg.try_flat_map(&mut |id| known(id).ok_or_else(crate::op::unknown_type)).ok()
    }

    /// Adds a read of an attribute.
    pub(super) fn get_attr(&mut self, path: &str, ty: TensorType) -> Result<NodeId> {
        let node = self.graph.get_attr(path)?;
        self.graph.meta_mut(node)?.ty = Some(Arc::new(ty.into()));
        Ok(node)
    }

    /// Returns `node` as the type of `like`: cast and expanded.
    pub(super) fn conform(&mut self, node: NodeId, like: &TensorType) -> Attempt<NodeId> {
        let mut node = node;
        let ty = self.tensor_type(node)?;
        if ty.dtype != like.dtype {
            node = self.call("to", [Arg::Leaf(node), Arg::DType(like.dtype)])?;
        }
        if ty.shape != like.shape {
            node = self.call("expand", [Arg::Leaf(node), sizes_of(like)])?;
        }
        Ok(node)
    }
}

/// Returns the name of a graph's input.
pub(super) fn input_name(input: &Argument) -> Option<&str> {
    match input {
        Argument::AsTensor(tensor) | Argument::AsCustomObj(tensor) => Some(&tensor.name),
        Argument::AsSymInt(SymIntArgument::AsName(name))
        | Argument::AsSymFloat(SymFloatArgument::AsName(name))
        | Argument::AsSymBool(SymBoolArgument::AsName(name)) => Some(name),
        _ => None,
    }
}

/// Says where a node comes from, for messages.
fn place_of(node: &schema::Node, meta: &NodeMeta) -> String {
    match (&meta.source, &node.name) {
        (Some(source), _) => format!("{}:{}", source.file(), source.line),
        (None, Some(name)) => format!("node {}", shorten(name)),
        (None, None) => "a node without a name".to_owned(),
    }
}

/// Collects the names that an output gives.
fn output_names<'a>(output: &'a Argument, names: &mut Vec<&'a str>) {
    match output {
        Argument::AsTensors(tensors) => names.extend(tensors.iter().map(|tensor| tensor.name.as_str())),
        Argument::AsOptionalTensors(tensors) => {
            names.extend(tensors.iter().filter_map(|tensor| match tensor {
                OptionalTensor::AsTensor(tensor) => Some(tensor.name.as_str()),
                OptionalTensor::AsNone(_) => None,
            }))
        }
        Argument::AsOptionalTensor(OptionalTensor::AsTensor(tensor)) => names.push(&tensor.name),
        output => names.extend(input_name(output)),
    }
}
