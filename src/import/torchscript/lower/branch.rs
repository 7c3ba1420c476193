//! `if` on a condition that is not known: a branch that raises is a check, two branches are a `cond` of what
//! differs between them.
//!
//! Both branches are carried out, each in a closed sub-graph and from the same state. What is another thing after
//! one of them than before, or than after the other, becomes a result: values that are used later, attributes
//! of objects, items of containers, and storages of tensors.

use std::sync::Arc;

use fx_script::ir::{Function, Operation, Region};
use fx_script::types::Type;
use fx_script::value::{Tuple, Value};

use super::number::Number;
use super::scope::{CellRef, Inner, Snapshot, same, unchanged};
use super::{Lowerer, Meaning, Step, Stop};
use crate::{Arg, DType, Dim, NodeId, TensorType};

/// A branch that was carried out.
struct Branch {
    inner: Inner,
    results: Vec<Value>,
    after: Snapshot,
}

/// A value after the branches.
pub(super) enum Joined {
    /// The value that it is in both.
    Same(Value),
    /// The result of this number.
    Slot(usize),
    List(Vec<Joined>),
    Tuple(Vec<Joined>, Arc<Tuple>),
    /// Keys and values in turn.
    Dict(Vec<Joined>),
}

/// What a value becomes in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tensor,
    Int,
    Float,
    Bool,
    /// The present value of a storage.
    Storage(usize),
}

/// What differs: a value of the first branch, one of the second, and what they are for people.
struct Slot {
    then: Value,
    otherwise: Value,
    kind: Kind,
    what: String,
}

impl<'s> Lowerer<'s> {
    /// Carries out an `if`.
    pub(super) fn branches(&mut self, function: &'s Function, operation: &'s Operation) -> Step<()> {
        let [then, otherwise] = &operation.regions[..] else {
            return Err(self.obstacle("an `if` without two branches"));
        };
        let condition = self.value(operation.operands[0]);
        let predicate = match self.number(&condition) {
            Some(Number::Bool(true)) => return self.in_line(function, operation, then),
            Some(Number::Bool(false)) => return self.in_line(function, operation, otherwise),
            Some(Number::BoolNode(node)) => self.local(node)?,
            _ => return Err(self.unknown("a condition", &condition)),
        };
        let place = self.source.clone();
        let before = self.snapshot()?;
        let first = self.branch("then", function, operation, then, &before)?;
        let second = self.branch("otherwise", function, operation, otherwise, &before)?;
        self.source = place;
        match (first, second) {
            (Ok(first), Ok(second)) => self.join(function, operation, predicate, &before, first, second),
            (Err(message), Ok(_)) => {
                self.describe(function, operation, "check");
                self.check(predicate, false, &message)?;
                self.in_line(function, operation, otherwise)
            }
            (Ok(_), Err(message)) => {
                self.describe(function, operation, "check");
                self.check(predicate, true, &message)?;
                self.in_line(function, operation, then)
            }
            (Err(first), Err(second)) => {
                self.check(predicate, false, &first)?;
                Err(Stop::Raised(second))
            }
        }
    }

    /// Carries out a branch in the graph that is being built.
    fn in_line(&mut self, function: &'s Function, operation: &'s Operation, region: &'s Region) -> Step<()> {
        let results = self.region(function, region)?;
        self.define(function, operation, results)
    }

    /// Carries out a branch in a sub-graph; gives the message if it raises.
    fn branch(
        &mut self,
        name: &str,
        function: &'s Function,
        operation: &Operation,
        region: &'s Region,
        before: &Snapshot,
    ) -> Step<Result<Branch, String>> {
        let depth = self.scopes.len();
        self.enter(name);
        let live = self.live(function);
        let outcome = region.operations.iter().try_for_each(|inner| self.operation(function, inner));
        let outcome = match outcome {
            Ok(()) => {
                let used = operation.results.iter().zip(&region.results);
                let results = used.map(|(outer, &inner)| match live.contains(outer) {
                    true => self.value(inner),
                    false => Value::None,
                });
                Ok(results.collect::<Vec<_>>())
            }
            Err(Stop::Raised(message)) => {
                while self.scopes.len() > depth + 1 {
                    self.leave();
                }
                Err(message)
            }
            Err(stop) => return Err(stop),
        };
        let after = self.after(before);
        let inner = self.leave();
        self.restore(before)?;
        Ok(outcome.map(|results| Branch { inner, results, after }))
    }

    fn join(
        &mut self,
        function: &Function,
        operation: &Operation,
        predicate: NodeId,
        before: &Snapshot,
        first: Branch,
        second: Branch,
    ) -> Step<()> {
        let mut slots: Vec<Slot> = Vec::new();
        let mut results = Vec::new();
        for ((a, b), id) in first.results.iter().zip(&second.results).zip(&operation.results) {
            let name = function.values[id.index()].name.as_deref();
            let what = name.map_or_else(|| "a value".to_owned(), |name| format!("%{name}"));
            results.push(self.joined(a, b, &what, before, &mut slots)?);
        }
        let mut cells: Vec<(CellRef, Vec<Joined>)> = Vec::new();
        for (at, cell) in before.cells.iter().enumerate() {
            let (old, a, b) = (&before.contents[at], &first.after.contents[at], &second.after.contents[at]);
            if unchanged(old, a) && unchanged(old, b) {
                continue;
            }
            if a.len() != b.len() {
                return Err(self.obstacle_with(
                    "a condition says how long a list or dictionary is",
                    None,
                    Some("add to it in both branches, or in neither"),
                ));
            }
            let mut content = Vec::with_capacity(a.len());
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                content.push(self.joined(a, b, &cell.place(i), before, &mut slots)?);
            }
            cells.push((cell.clone(), content));
        }
        let mut storages: Vec<(usize, usize, u32)> = Vec::new();
        for (storage, old) in before.storages.iter().enumerate() {
            let (a, b) = (first.after.storages[storage], second.after.storages[storage]);
            if a != *old || b != *old {
                storages.push((storage, slots.len(), a.1.max(b.1) + 1));
                let what = self.origin_name(storage);
                let kind = Kind::Storage(storage);
                slots.push(Slot { then: Value::None, otherwise: Value::None, kind, what });
            }
        }
        self.describe(function, operation, "cond");
        let nodes = match slots.is_empty() && first.inner.graph().is_pure() && second.inner.graph().is_pure()
        {
            true => Vec::new(),
            false => self.cond(predicate, before, &slots, first, second)?,
        };
        let mut values = Vec::with_capacity(slots.len());
        for (slot, &node) in slots.iter().zip(&nodes) {
            values.push(self.slot_value(slot.kind, node)?);
        }
        self.freeze(&slots, &values, before.storages.len());
        for (storage, slot, version) in storages {
            let storage = &mut self.builder().storages[storage];
            (storage.value, storage.version) = (nodes[slot], version);
        }
        for (cell, content) in cells {
            let content = content.into_iter().map(|joined| resolved(joined, &values)).collect::<Step<_>>()?;
            cell.set_content(content)?;
        }
        let results = results.into_iter().map(|joined| resolved(joined, &values)).collect::<Step<_>>()?;
        self.define(function, operation, results)
    }

    /// Returns what a value is after two branches, and notes what they have to give for it.
    fn joined(
        &self,
        a: &Value,
        b: &Value,
        what: &str,
        before: &Snapshot,
        slots: &mut Vec<Slot>,
    ) -> Step<Joined> {
        if same(a, b) {
            return Ok(Joined::Same(a.clone()));
        }
        if self.is_uninitialized(a) && self.is_uninitialized(b) {
            return Ok(Joined::Same(a.clone()));
        }
        if let Some(kind) = self.kind(a, b) {
            slots.push(Slot { then: a.clone(), otherwise: b.clone(), kind, what: what.to_owned() });
            return Ok(Joined::Slot(slots.len() - 1));
        }
        let items = |a: &[Value], b: &[Value], slots: &mut Vec<Slot>| -> Step<Vec<Joined>> {
            let pairs = a.iter().zip(b).enumerate();
            pairs.map(|(i, (a, b))| self.joined(a, b, &format!("{what}[{i}]"), before, slots)).collect()
        };
        let lengths = |a: usize, b: usize| {
            self.obstacle_with(
                format!("{what} is a list of {a} or of {b} items, as a condition says"),
                None,
                Some("a graph has lists whose length is known"),
            )
        };
        match (a, b) {
            (Value::Tuple(a), Value::Tuple(b)) if a.items.len() == b.items.len() => {
                Ok(Joined::Tuple(items(&a.items, &b.items, slots)?, Arc::clone(a)))
            }
            (Value::List(x), Value::List(y)) => {
                let (a, b) = (x.read(Clone::clone), y.read(Clone::clone));
                if a.len() != b.len() {
                    return Err(lengths(a.len(), b.len()));
                }
                Ok(Joined::List(items(&a, &b, slots)?))
            }
            (Value::Dict(x), Value::Dict(y)) => {
                let flat = |dict: &Arc<fx_script::value::Dict>| CellRef::Dict(Arc::clone(dict)).content();
                let (a, b) = (flat(x), flat(y));
                let keys_differ = a.iter().step_by(2).zip(b.iter().step_by(2)).any(|(a, b)| !same(a, b));
                if a.len() != b.len() || keys_differ {
                    return Err(self.obstacle(format!("the keys of {what} depend on a condition")));
                }
                Ok(Joined::Dict(items(&a, &b, slots)?))
            }
            (Value::Symbol(symbol), other) | (other, Value::Symbol(symbol))
                if matches!(self.meaning(symbol), Meaning::Uninitialized) =>
            {
                // A container that the branch makes holds what it gives, item by item.
                let is_first = self.is_uninitialized(b);
                let mut item = |(i, item): (usize, &Value)| match item {
                    Value::Int(_) | Value::Float(_) | Value::Bool(_) => Ok(Joined::Same(item.clone())),
                    item => {
                        let (a, b) = if is_first { (item, b) } else { (a, item) };
                        self.joined(a, b, &format!("{what}[{i}]"), before, slots)
                    }
                };
                match other {
                    Value::Tuple(tuple) => {
                        let items = tuple.items.iter().enumerate().map(item).collect::<Step<_>>()?;
                        Ok(Joined::Tuple(items, Arc::clone(tuple)))
                    }
                    Value::List(list) if !before.has(&CellRef::List(Arc::clone(list))) => {
                        let items = list.read(Clone::clone);
                        Ok(Joined::List(items.iter().enumerate().map(item).collect::<Step<_>>()?))
                    }
                    Value::Dict(dict) if !before.has(&CellRef::Dict(Arc::clone(dict))) => {
                        let content = CellRef::Dict(Arc::clone(dict)).content();
                        let entries = content.iter().enumerate().map(|(i, value)| match i % 2 {
                            0 => Ok(Joined::Same(value.clone())),
                            _ => item((i, value)),
                        });
                        Ok(Joined::Dict(entries.collect::<Step<_>>()?))
                    }
                    other => Ok(Joined::Same(other.clone())),
                }
            }
            (Value::None, other) | (other, Value::None) => Err(self.obstacle_with(
                format!("{what} is None or {}, as a condition says", other.type_name()),
                None,
                Some("give it a value in both branches"),
            )),
            _ => Err(self.obstacle_with(
                format!("{what} is one of two things, as a condition says"),
                Some((self.name_of(a), self.name_of(b))),
                Some("a graph chooses between tensors and numbers only"),
            )),
        }
    }

    /// Returns what two values are in a graph; a value that is never used is as the other.
    fn kind(&self, a: &Value, b: &Value) -> Option<Kind> {
        match (self.kind_of(a), self.kind_of(b)) {
            (Some(a), Some(b)) if a == b => Some(a),
            (Some(kind), None) if self.is_uninitialized(b) => Some(kind),
            (None, Some(kind)) if self.is_uninitialized(a) => Some(kind),
            _ => None,
        }
    }

    pub(super) fn is_uninitialized(&self, value: &Value) -> bool {
        matches!(value, Value::Symbol(symbol) if matches!(self.meaning(symbol), Meaning::Uninitialized))
    }

    /// Returns what a value is in a graph; `None` if it is only known while the method is lowered.
    pub(super) fn kind_of(&self, value: &Value) -> Option<Kind> {
        match value {
            Value::Int(_) => Some(Kind::Int),
            Value::Float(_) => Some(Kind::Float),
            Value::Bool(_) => Some(Kind::Bool),
            Value::Tensor(_) => Some(Kind::Tensor),
            Value::Symbol(symbol) => match self.meaning(symbol) {
                Meaning::Tensor(_) | Meaning::Attribute(_) => Some(Kind::Tensor),
                Meaning::Int(_) => Some(Kind::Int),
                Meaning::Float(_) => Some(Kind::Float),
                Meaning::Bool(_) => Some(Kind::Bool),
                Meaning::Uninitialized => None,
            },
            _ => None,
        }
    }

    /// Returns the node of a value in the graph that is being built; numbers are tensors of rank 0.
    pub(super) fn kind_node(&mut self, value: &Value, kind: Kind) -> Step<NodeId> {
        match kind {
            Kind::Tensor => self.node_of(value),
            Kind::Storage(storage) => {
                let node = self.builder().storages[storage].value;
                self.local(node)
            }
            Kind::Int | Kind::Float | Kind::Bool => match self.number(value) {
                Some(number) => self.number_node(&number),
                None => Err(self.unknown("a number", value)),
            },
        }
    }

    /// Returns the value that a result of a sub-graph is.
    pub(super) fn slot_value(&mut self, kind: Kind, node: NodeId) -> Step<Value> {
        Ok(match kind {
            Kind::Tensor => self.fresh(node),
            Kind::Storage(_) => Value::None,
            Kind::Int => self.int_of_node(node)?,
            Kind::Float => {
                self.builder().note_number(node);
                self.symbol(Type::Float, Meaning::Float(node))
            }
            Kind::Bool => self.symbol(Type::Bool, Meaning::Bool(node)),
        })
    }

    /// Adds the `cond` and returns its results.
    fn cond(
        &mut self,
        predicate: NodeId,
        before: &Snapshot,
        slots: &[Slot],
        first: Branch,
        second: Branch,
    ) -> Step<Vec<NodeId>> {
        let (mut first_nodes, first) =
            self.outputs_of(before, first, slots.iter().map(|slot| (&slot.then, slot.kind)))?;
        let others = slots.iter().map(|slot| (&slot.otherwise, slot.kind));
        let (mut second_nodes, second) = self.outputs_of(before, second, others)?;
        // A value that is never used has the type of the other.
        let types: Vec<Option<TensorType>> =
            first_nodes.iter().zip(&second_nodes).map(|(a, b)| a.ty().or(b.ty()).cloned()).collect();
        let first = self.complete(first, &mut first_nodes, &types)?;
        let second = self.complete(second, &mut second_nodes, &types)?;
        for (slot, (a, b)) in slots.iter().zip(first_nodes.iter().zip(&second_nodes)) {
            if let (Some(a), Some(b)) = (a.ty(), b.ty())
                && (a.dtype != b.dtype || a.rank() != b.rank())
            {
                return Err(self.obstacle_with(
                    format!("{} is {a} or {b}, as a condition says", slot.what),
                    None,
                    Some("give it one dtype and rank in both branches"),
                ));
            }
        }
        let mut captures: Vec<NodeId> = Vec::new();
        for node in first.captures().chain(second.captures()) {
            if !captures.contains(&node) {
                captures.push(node);
            }
        }
        let output = |nodes: &[Output]| Arg::list(nodes.iter().map(|output| Arg::Leaf(output.node())));
        let graph = &self.builder().graph;
        let then = first.close(graph, &captures, output(&first_nodes))?;
        let otherwise = second.close(graph, &captures, output(&second_nodes))?;
        let operands = Arg::list(captures.into_iter().map(Arg::Leaf));
        let node = self.row("cond", [Arg::Leaf(predicate), then.into(), otherwise.into(), operands])?;
        let n = slots.len();
        (0..n).map(|i| self.row("getitem", [Arg::Leaf(node), Arg::Int(i as i64)])).collect()
    }

    /// Makes the results of a branch, as it was at its end.
    fn outputs_of<'v>(
        &mut self,
        before: &Snapshot,
        branch: Branch,
        values: impl Iterator<Item = (&'v Value, Kind)>,
    ) -> Step<(Vec<Output>, Inner)> {
        self.reenter(branch.inner);
        self.restore(&branch.after)?;
        let mut nodes = Vec::new();
        for (value, kind) in values {
            if self.is_uninitialized(value) {
                nodes.push(Output::Missing);
                continue;
            }
            let node = self.kind_node(value, kind)?;
            let ty = self.tensor_type(node)?;
            nodes.push(Output::Node(node, ty));
        }
        let inner = self.leave();
        self.restore(before)?;
        Ok((nodes, inner))
    }

    /// Gives values that are never used any value of their type.
    fn complete(&mut self, inner: Inner, nodes: &mut [Output], types: &[Option<TensorType>]) -> Step<Inner> {
        if nodes.iter().all(|output| matches!(output, Output::Node(..))) {
            return Ok(inner);
        }
        self.reenter(inner);
        for (output, ty) in nodes.iter_mut().zip(types) {
            if let (Output::Missing, Some(ty)) = (&output, ty) {
                *output = Output::Node(self.filler(ty)?, ty.clone());
            }
        }
        Ok(self.leave())
    }

    /// Returns a tensor of zeros for a value that the program never uses.
    pub(super) fn filler(&mut self, ty: &TensorType) -> Step<NodeId> {
        let mut sizes = Vec::new();
        for dim in ty.shape.iter() {
            sizes.push(self.dim_arg(dim)?);
        }
        let zero = if ty.dtype == DType::Bool { Arg::Bool(false) } else { Arg::Int(0) };
        self.row_with("full", vec![Arg::list(sizes), zero], &[("dtype", Arg::DType(ty.dtype))])
    }

    /// Notes which tensors may be one after the branches: nothing may be written to them.
    fn freeze(&mut self, slots: &[Slot], values: &[Value], n_before: usize) {
        let storage = |this: &Self, value: &Value| match value {
            Value::Symbol(symbol) => match this.meaning(symbol) {
                Meaning::Tensor(view) => Some(view.storage),
                _ => None,
            },
            _ => None,
        };
        let mut seen: Vec<(usize, usize)> = Vec::new();
        for (at, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.kind == Kind::Tensor) {
            for value in [&slot.then, &slot.otherwise] {
                let Some(source) = storage(self, value) else { continue };
                let shared = seen.iter().find(|(known, _)| *known == source).map(|(_, other)| *other);
                seen.push((source, at));
                let names = (slot.what.clone(), self.name_of(value));
                let made = storage(self, &values[at]);
                if source < n_before {
                    self.frozen.insert(source, names.clone());
                    made.into_iter().for_each(|made| drop(self.frozen.insert(made, names.clone())));
                } else if let Some(other) = shared.filter(|other| *other != at) {
                    let names = (slot.what.clone(), slots[other].what.clone());
                    for made in [made, storage(self, &values[other])].into_iter().flatten() {
                        self.frozen.insert(made, names.clone());
                    }
                }
            }
        }
    }
}

/// A result of a branch.
enum Output {
    Node(NodeId, TensorType),
    /// A value that the program never uses.
    Missing,
}

impl Output {
    fn ty(&self) -> Option<&TensorType> {
        match self {
            Output::Node(_, ty) => Some(ty),
            Output::Missing => None,
        }
    }

    fn node(&self) -> NodeId {
        match self {
            Output::Node(node, _) => *node,
            Output::Missing => unreachable!("a value that is missing in one branch is there in the other"),
        }
    }
}

/// Returns a value after the branches.
pub(super) fn resolved(joined: Joined, values: &[Value]) -> Step<Value> {
    let all =
        |items: Vec<Joined>| items.into_iter().map(|item| resolved(item, values)).collect::<Step<Vec<_>>>();
    Ok(match joined {
        Joined::Same(value) => value,
        Joined::Slot(at) => values[at].clone(),
        Joined::List(items) => Value::list(all(items)?),
        Joined::Tuple(items, like) => {
            Value::Tuple(Arc::new(Tuple { items: all(items)?.into(), named: like.named.clone() }))
        }
        Joined::Dict(items) => {
            let items = all(items)?;
            Value::dict(items.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())))?
        }
    })
}

/// Returns the type of a number of the program as a tensor of rank 0.
pub(super) fn number_type(kind: Kind) -> Option<TensorType> {
    let dtype = match kind {
        Kind::Int => DType::I64,
        Kind::Float => DType::F64,
        Kind::Bool => DType::Bool,
        Kind::Tensor | Kind::Storage(_) => return None,
    };
    Some(TensorType { dtype, shape: std::iter::empty::<Dim>().collect() })
}
