//! Builds a graph from the nodes of an archive, one after the other.
//!
//! A value has the name that the archive gives it; what it is in the graph is an [`Entry`]. A node that cannot be imported is
//! noted in [`Problems`] and poisons what it gives, so that everything that is wrong is found in one go.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::alias::{Origin, Step as ViewStep, Storage, View, sizes_of};
use super::schema::{
    self, Argument, OptionalTensor, SymBool, SymBoolArgument, SymExpr, SymFloat, SymFloatArgument, SymInt,
    SymIntArgument, TensorMeta,
};
use super::symbols::{Expr, Symbols};
use super::{aten, metadata};
use crate::dim::Step;
use crate::{
    Arg, DType, Dim, Error, ErrorKind, Graph, NodeId, NodeMeta, Op, Registry, Result, Symbol, Target,
    TensorType, Type, TypeTree, bail, err, ops,
};

/// How deep graphs within graphs may be nested.
const MAX_NESTING: usize = 32;
/// How many errors are reported, and lines for an unknown operator.
const MAX_REPORTED: usize = 20;

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

/// What a closed sub-graph returns.
pub(super) enum Output {
    Tuple,
    List,
    One,
}

/// Everything that is wrong with a program.
#[derive(Default)]
pub(super) struct Problems {
    /// Missing operations by target: what is missing, and the lines.
    unknown: BTreeMap<String, (String, Vec<String>, usize)>,
    errors: Vec<Error>,
    n_errors: usize,
}

impl Problems {
    pub(super) fn error(&mut self, error: Error) {
        self.n_errors += 1;
        if self.errors.len() < MAX_REPORTED {
            self.errors.push(error);
        }
    }

    fn unknown(&mut self, target: &str, row: &str, place: String) {
        let (_, places, n) =
            self.unknown.entry(target.to_owned()).or_insert_with(|| (row.to_owned(), Vec::new(), 0));
        *n += 1;
        if places.len() < MAX_REPORTED && !places.contains(&place) {
            places.push(place);
        }
    }

    /// Returns one error that lists everything.
    pub(super) fn finish(self, registry: &Registry) -> Result<()> {
        let mut errors = self.errors;
        if !self.unknown.is_empty() {
            let mut message = format!("{} unknown operators", self.unknown.len());
            if self.unknown.len() == 1 {
                "an unknown operator".clone_into(&mut message);
            }
            let mut rows = Vec::new();
            for (i, (target, (row, places, n))) in self.unknown.iter().enumerate() {
                let sign = if i == 0 { ':' } else { ';' };
                message.push_str(&format!("{sign} {} at {}", shorten(target), places.join(", ")));
                if *n > places.len() {
                    message.push_str(&format!(" ({n} calls)"));
                }
                rows.push(row.as_str());
            }
            rows.sort_unstable();
            rows.dedup();
            let similar = match rows.as_slice() {
                [row] => crate::names::suggest(row, registry.iter().map(|op| op.name)),
                _ => String::new(),
            };
            let similar = if similar.starts_with("did") { format!("; {similar}") } else { String::new() };
            let error = Error::new(ErrorKind::Unresolved, message)
                .help(format!("give rows called {} to `Pt2::registry`{similar}", rows.join(", ")));
            errors.insert(0, error);
        }
        if self.n_errors > MAX_REPORTED {
            errors.push(err!(Load, "{} more errors", self.n_errors - MAX_REPORTED));
        }
        if errors.is_empty() { Ok(()) } else { Err(Error::many(errors)) }
    }
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
    nesting: usize,
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
            nesting: 0,
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
        match self.entry(name)?.clone() {
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
        Ok(TensorType { dtype: super::dtype(meta.dtype)?, shape: shape.into_iter().collect() })
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
            // What PyTorch put in between, such as asserts, has no place of its own: it keeps that of the node before.
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
                outputs.iter().zip(parts).try_for_each(|(output, part)| self.bind(output, part))
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
        Ok(id)
    }

    /// Turns sizes that depend on data into arithmetic on nodes, so that passes see where they come from.
    pub(super) fn lower(&mut self, arg: &Arg) -> Attempt<Arg> {
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
    fn note_data_sizes(&mut self, id: NodeId) {
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

    fn type_tree(&self, arg: &Arg) -> Option<TypeTree> {
        let known = |id: &NodeId| self.graph.node(*id).ok()?.ty().filter(|ty| ty.is_complete()).cloned();
        arg.try_flat_map(&mut |id| known(id).ok_or_else(crate::op::unknown_type)).ok()
    }

    /// Gives sizes that depend on data the names that they have in the archive.
    fn settle(&mut self, ty: TypeTree) -> TypeTree {
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
    pub(super) fn declare(&mut self, node: NodeId, ty: TypeTree) -> Result<()> {
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

    /// Says that a node is a number of the host: a size that depends on data, or any.
    pub(super) fn set_number(&mut self, node: NodeId, ty: TypeTree) -> Result<()> {
        if let Arg::Dim(dim) = &ty
            && let Some(symbol) = dim.as_symbol()
            && !self.bound.contains(symbol.name())
        {
            self.data_sizes.insert(symbol.name().to_owned(), (node, None));
        }
        self.graph.meta_mut(node)?.ty = Some(Arc::new(ty));
        Ok(())
    }

    /// Adds a read of an attribute.
    pub(super) fn get_attr(&mut self, path: &str, ty: TensorType) -> Result<NodeId> {
        let node = self.graph.get_attr(path)?;
        self.graph.meta_mut(node)?.ty = Some(Arc::new(ty.into()));
        Ok(node)
    }

    /// Reads an argument of a node.
    pub(super) fn argument(&mut self, argument: &'a Argument) -> Attempt<Arg> {
        Ok(match argument {
            Argument::AsNone(_) | Argument::AsToken(_) => Arg::None,
            Argument::AsTensor(tensor) | Argument::AsOptionalTensor(OptionalTensor::AsTensor(tensor)) => {
                self.value_named(&tensor.name)?
            }
            Argument::AsOptionalTensor(OptionalTensor::AsNone(_)) => Arg::None,
            Argument::AsTensors(tensors) => Arg::list(
                tensors.iter().map(|tensor| self.value_named(&tensor.name)).collect::<Attempt<Vec<_>>>()?,
            ),
            Argument::AsOptionalTensors(tensors) => {
                let item = |tensor: &'a OptionalTensor| match tensor {
                    OptionalTensor::AsTensor(tensor) => self.value_named(&tensor.name),
                    OptionalTensor::AsNone(_) => Ok(Arg::None),
                };
                Arg::list(tensors.iter().map(item).collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsNestedTensors(lists) => {
                let list = |tensors: &'a Vec<schema::Named>| -> Attempt<Arg> {
                    let items = tensors.iter().map(|tensor| self.value_named(&tensor.name));
                    items.collect::<Attempt<Vec<_>>>().map(Arg::list)
                };
                Arg::list(lists.iter().map(list).collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsInt(n) => Arg::Int(*n),
            Argument::AsInts(items) => Arg::ints(items.iter().copied()),
            Argument::AsIntLists(lists) => {
                Arg::list(lists.iter().map(|items| Arg::ints(items.iter().copied())))
            }
            Argument::AsFloat(x) => Arg::Float(x.0),
            Argument::AsFloats(items) => Arg::list(items.iter().map(|x| Arg::Float(x.0))),
            Argument::AsFloatLists(lists) => {
                Arg::list(lists.iter().map(|items| Arg::list(items.iter().map(|x| Arg::Float(x.0)))))
            }
            Argument::AsString(text) | Argument::AsOperator(text) => Arg::str(text.as_str()),
            Argument::AsStrings(items) => Arg::list(items.iter().map(|text| Arg::str(text.as_str()))),
            Argument::AsBool(x) => Arg::Bool(*x),
            Argument::AsBools(items) => Arg::list(items.iter().map(|x| Arg::Bool(*x))),
            Argument::AsSymInt(item) => self.sym_int(item)?,
            Argument::AsSymInts(items) => {
                Arg::list(items.iter().map(|item| self.sym_int(item)).collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsSymFloat(item) => self.sym_float(item)?,
            Argument::AsSymFloats(items) => {
                Arg::list(items.iter().map(|item| self.sym_float(item)).collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsSymBool(item) => self.sym_bool(item)?,
            Argument::AsSymBools(items) => {
                Arg::list(items.iter().map(|item| self.sym_bool(item)).collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsScalarType(code) => Arg::DType(super::dtype(*code)?),
            Argument::AsMemoryFormat(code) => Arg::Str(Arc::from(format!("memory_format {code}"))),
            Argument::AsLayout(super::STRIDED) => Arg::str("strided"),
            Argument::AsLayout(code) => {
                return Err(err!(Load, "expected the strided layout, got {code}").into());
            }
            Argument::AsDevice(_) => Arg::str("device"),
            Argument::AsStringToArgument(entries) => {
                let entries = entries.iter().map(|(key, item)| Ok((key.as_str(), self.argument(item)?)));
                Arg::dict(entries.collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsGraph(graph) => {
                return Err(err!(
                    Load,
                    "the graph {:?} is no argument of this operator",
                    shorten(&graph.name)
                )
                .into());
            }
            Argument::AsCustomObj(object) => {
                return Err(err!(Load, "the custom object {:?} needs Python", shorten(&object.name)).into());
            }
            Argument::AsComplex(_) => return Err(err!(DType, "complex numbers are not supported").into()),
        })
    }

    fn sym_int(&mut self, item: &SymIntArgument) -> Attempt<Arg> {
        match item {
            SymIntArgument::AsInt(n) => Ok(Arg::Int(*n)),
            SymIntArgument::AsName(name) => self.value_named(name),
        }
    }

    fn sym_float(&mut self, item: &SymFloatArgument) -> Attempt<Arg> {
        match item {
            SymFloatArgument::AsFloat(x) => Ok(Arg::Float(x.0)),
            SymFloatArgument::AsName(name) => self.value_named(name),
        }
    }

    fn sym_bool(&mut self, item: &SymBoolArgument) -> Attempt<Arg> {
        match item {
            SymBoolArgument::AsBool(x) => Ok(Arg::Bool(*x)),
            SymBoolArgument::AsName(name) => self.value_named(name),
        }
    }

    /// Returns the value that the archive gives for a number: an expression over sizes.
    pub(super) fn number(&mut self, output: &Argument) -> Attempt<Option<Arg>> {
        let source = self.source;
        let expr: Option<&SymExpr> = match output {
            Argument::AsSymInt(SymIntArgument::AsName(name)) => match source.sym_int_values.get(name) {
                Some(SymInt::AsInt(n)) => return Ok(Some(Arg::Int(*n))),
                Some(SymInt::AsExpr(expr)) => Some(expr),
                None => None,
            },
            Argument::AsSymBool(SymBoolArgument::AsName(name)) => match source.sym_bool_values.get(name) {
                Some(SymBool::AsBool(x)) => return Ok(Some(Arg::Bool(*x))),
                Some(SymBool::AsExpr(expr)) => Some(expr),
                None => None,
            },
            Argument::AsSymFloat(SymFloatArgument::AsName(name)) => match source.sym_float_values.get(name) {
                Some(SymFloat::AsFloat(x)) => return Ok(Some(Arg::Float(x.0))),
                Some(SymFloat::AsExpr(expr)) => {
                    let expr = super::symbols::parse(&expr.expr_str)?;
                    return self.float_expr(&expr).map(Some);
                }
                None => None,
            },
            _ => None,
        };
        Ok(expr.map(|expr| self.symbols.dim(&expr.expr_str)).transpose()?.map(Arg::dim))
    }

    /// Computes a float from sizes, as tensors of rank 0.
    fn float_expr(&mut self, expr: &Expr) -> Attempt<Arg> {
        if let Expr::Float(x) = expr {
            return Ok(Arg::Float(*x));
        }
        if let Ok(dim) = self.symbols.value(expr)
            && dim.error().is_none()
            && !dim.symbols().iter().any(|symbol| symbol.name().starts_with('z'))
        {
            let number = Arg::dim(dim);
            if let Arg::Int(n) = number {
                return Ok(Arg::Float(n as f64));
            }
            let args = vec![Arg::list([]), number];
            let full = self.row("full")?;
            return self.emit(full, args, &[("dtype", Arg::DType(DType::F64))]).map(Arg::Leaf);
        }
        let Expr::Call(name, args) = expr else {
            return Err(err!(Load, "a float that depends on data cannot be imported").into());
        };
        let row = match (name.as_str(), args.len()) {
            ("Add", _) => "add",
            ("Mul", _) => "mul",
            ("IntTrueDiv" | "FloatTrueDiv", 2) => "div",
            ("Pow" | "FloatPow" | "PowByNatural", 2) => "pow",
            ("OpaqueUnaryFn_sqrt" | "sqrt", 1) => "sqrt",
            ("OpaqueUnaryFn_exp" | "exp", 1) => "exp",
            ("OpaqueUnaryFn_log" | "log", 1) => "log",
            ("OpaqueUnaryFn_cos" | "cos", 1) => "cos",
            ("OpaqueUnaryFn_sin" | "sin", 1) => "sin",
            ("ToFloat", 1) => return self.float_expr(&args[0]),
            _ => return Err(err!(Load, "unknown function {name:?} of floats").into()),
        };
        let mut items = Vec::new();
        for arg in args {
            let value = self.float_expr(arg)?;
            items.push(match value {
                Arg::Float(_) => {
                    let full = self.row("full")?;
                    Arg::Leaf(self.emit(
                        full,
                        vec![Arg::list([]), value],
                        &[("dtype", Arg::DType(DType::F64))],
                    )?)
                }
                value => value,
            });
        }
        let mut items = items.into_iter();
        let first = items.next().ok_or_else(|| err!(Load, "{name} without arguments"))?;
        let rest: Vec<Arg> = items.collect();
        if rest.is_empty() {
            return self.call(row, [first]).map(Arg::Leaf);
        }
        rest.into_iter().try_fold(first, |a, b| self.call(row, [a, b]).map(Arg::Leaf))
    }

    /// Imports a graph of the archive in place of the node that runs it.
    pub(super) fn inline(&mut self, inner: &'a schema::Graph, args: Vec<Entry>) -> Attempt<Vec<Entry>> {
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
    pub(super) fn closed(
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
        let types: Vec<Option<TypeTree>> = args.iter().map(|arg| self.type_tree(arg)).collect();
        let mut builder = Builder::new(&graph.name, self.registry, self.symbols, inner);
        std::mem::swap(&mut builder.problems, &mut self.problems);
        std::mem::swap(&mut builder.made_up, &mut self.made_up);
        builder.nesting = self.nesting;
        builder.meta = self.meta.clone();
        let result = builder.nested(|builder| {
            for (i, (input, ty)) in inner.inputs.iter().zip(types).enumerate() {
                let name = input_name(input);
                let node = builder.graph.placeholder(name.unwrap_or(&format!("arg_{i}")))?;
                let value = match &ty {
                    Some(Arg::Dim(dim)) => Some(Arg::Dim(dim.clone())),
                    Some(ty) if ty.leaf().is_none() => ty.try_flat_map(&mut |_| Ok(Arg::None)).ok(),
                    _ => None,
                };
                if let Some(ty) = ty {
                    builder.declare(node, ty)?;
                }
                if let Some(name) = name {
                    let entry = match value {
                        Some(value) => Entry::Value(value),
                        None => Entry::Tensor(builder.fresh(node, Origin::Input)),
                    };
                    builder.define(name, entry)?;
                }
            }
            builder.run(&inner.nodes)?;
            let outputs =
                inner.outputs.iter().map(|output| builder.argument(output)).collect::<Attempt<Vec<_>>>()?;
            builder.graph.set_output(match output {
                Output::Tuple => Arg::tuple(outputs),
                Output::List => Arg::list(outputs),
                Output::One => match <[Arg; 1]>::try_from(outputs) {
                    Ok([one]) => one,
                    Err(outputs) => {
                        return Err(err!(Load, "expected one output, got {}", outputs.len()).into());
                    }
                },
            })?;
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
