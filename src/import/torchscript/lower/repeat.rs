//! Loops: rounds are written out where their number and the conditions are known; else the loop is a `while_loop`.
//!
//! A `while_loop` carries what its body changes: variables, attributes, items of containers, storages of tensors.
//! What that is, is found by carrying out the body until no round changes anything else.

use std::collections::{BTreeMap, BTreeSet};

use fx_script::ir::{Function, Operation, Region};
use fx_script::value::{Tuple, Value};

use super::branch::{Kind, number_type};
use super::number::Number;
use super::scope::{CellRef, Inner, Snapshot, same, unchanged};
use super::{Lowerer, Meaning, Step, Stop};
use crate::region::CarriedTypes;
use crate::{Arg, Dim, NodeId, TensorType, Type, TypeTree};

/// The most nodes that the rounds of a loop are written out as.
const MAX_NODES: usize = 20_000;

/// The most times that a body is carried out to find what it changes.
const MAX_PASSES: usize = 12;

/// Which parts of a value change from round to round.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Invariant,
    Leaf(Kind),
    /// A tensor that nothing has set before the loop, and of which type a round gives it.
    Unset(TensorType),
    /// Items, or keys and values in turn.
    Many(Vec<Shape>),
}

/// What a loop carries.
#[derive(Clone, PartialEq)]
struct Plan {
    variables: Vec<Shape>,
    /// The content of cells, by their place in the snapshot.
    cells: BTreeMap<usize, Vec<Shape>>,
    storages: BTreeSet<usize>,
    /// Whether it ends by a condition, not only by the number of rounds.
    has_flag: bool,
}

/// A part of a value that changes from round to round.
struct Leaf {
    value: Value,
    kind: Kind,
    /// The type of a tensor that nothing has set before the loop.
    unset: Option<TensorType>,
}

/// What carrying out the body once gave.
struct Round {
    /// The plan that is right for what the body changed.
    plan: Plan,
    body: Inner,
    /// The results, if the plan was right, and their types.
    outputs: Vec<NodeId>,
    types: Vec<TypeTree>,
    /// The versions of storages after it.
    versions: Vec<u32>,
}

/// A loop on its way to a `while_loop`.
struct Loop<'s, 'b> {
    function: &'s Function,
    body: &'s Region,
    limit: Dim,
    first: Value,
    goes_on: Value,
    carried: Vec<Value>,
    before: &'b Snapshot,
}

impl<'s> Lowerer<'s> {
    /// Carries out a loop.
    pub(super) fn repeat(&mut self, function: &'s Function, operation: &'s Operation) -> Step<()> {
        let body = &operation.regions[0];
        let args: Vec<Value> = operation.operands.iter().map(|&id| self.value(id)).collect();
        let limit = match self.number(&args[0]) {
            Some(Number::Int(limit)) => limit,
            _ => return Err(self.unknown("a number of rounds", &args[0])),
        };
        let (mut goes_on, mut carried) = (args[1].clone(), args[2..].to_vec());
        let mut round = 0i64;
        if let Some(limit) = limit.known() {
            let nodes_before = self.builder().graph.len();
            let is_open = limit == i64::MAX;
            loop {
                let is_last = match self.number(&goes_on) {
                    Some(Number::Bool(goes_on)) => !goes_on || round >= limit,
                    _ => false,
                };
                if is_last {
                    return self.define(function, operation, carried);
                }
                if !matches!(goes_on, Value::Bool(true)) {
                    break;
                }
                let added = self.builder().graph.len() - nodes_before;
                let expected = match is_open {
                    true => added,
                    false => {
                        added.saturating_mul(usize::try_from(limit / round.max(1)).unwrap_or(usize::MAX))
                    }
                };
                let rounds = if is_open { round } else { limit };
                if expected > MAX_NODES || usize::try_from(rounds).is_ok_and(|rounds| rounds > self.unroll) {
                    break;
                }
                let results = self.round(function, body, Value::Int(round), carried)?;
                let mut results = results.into_iter();
                goes_on = results.next().unwrap_or(Value::Bool(false));
                carried = results.collect();
                round += 1;
            }
        }
        let before = self.snapshot()?;
        let place = self.source.clone();
        let first = Value::Int(round);
        let task = Loop { function, body, limit, first, goes_on, carried, before: &before };
        let results = self.while_loop(operation, &task)?;
        self.source = place;
        self.define(function, operation, results)
    }

    /// Carries out the body once.
    fn round(
        &mut self,
        function: &'s Function,
        body: &'s Region,
        number: Value,
        carried: Vec<Value>,
    ) -> Step<Vec<Value>> {
        for (&param, value) in body.params.iter().zip(std::iter::once(number).chain(carried)) {
            self.frame()[param.index()] = Some(value);
        }
        self.region(function, body)
    }

    fn while_loop(&mut self, operation: &Operation, task: &Loop<'s, '_>) -> Step<Vec<Value>> {
        let mut plan = Plan {
            variables: vec![Shape::Invariant; task.carried.len()],
            cells: BTreeMap::new(),
            storages: BTreeSet::new(),
            has_flag: !matches!(task.goes_on, Value::Bool(true)),
        };
        let mut carried: Option<(Vec<NodeId>, CarriedTypes)> = None;
        for _ in 0..MAX_PASSES {
            let (outer, mut types) = match carried.take() {
                Some(carried) => carried,
                None => {
                    let outer = self.carried_nodes(operation, task, &plan)?;
                    let types = self.types_of(&outer)?;
                    self.n_loops += 1;
                    (outer, CarriedTypes::new(types, format!("round{}_", self.n_loops)))
                }
            };
            let place = self.source.clone();
            let round = self.pass(operation, task, &plan, types.types())?;
            self.source = place;
            if round.plan != plan {
                plan = round.plan;
                continue;
            }
            // What a round computes from a size must hold for the sizes of all rounds.
            match types.widen("the loop", &round.types) {
                Ok(false) => return self.finish_loop(operation, task, &plan, outer, types.types(), round),
                Ok(true) => carried = Some((outer, types)),
                Err(error) => return Err(self.obstacle(error.message())),
            }
        }
        Err(self.obstacle(format!("what a loop carries is not found in {MAX_PASSES} rounds")))
    }

    /// Returns the parts of values that a loop carries.
    fn leaves(&self, task: &Loop<'_, '_>, plan: &Plan) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        for (shape, value) in plan.variables.iter().zip(&task.carried) {
            collect(shape, value, &mut leaves);
        }
        for (&cell, shapes) in &plan.cells {
            for (shape, value) in shapes.iter().zip(&task.before.contents[cell]) {
                collect(shape, value, &mut leaves);
            }
        }
        let storage = |&storage| Leaf { value: Value::None, kind: Kind::Storage(storage), unset: None };
        leaves.extend(plan.storages.iter().map(storage));
        leaves
    }

    /// Returns the nodes that a loop begins with: the number of the round, whether it goes on, and the leaves.
    fn carried_nodes(
        &mut self,
        operation: &Operation,
        task: &Loop<'s, '_>,
        plan: &Plan,
    ) -> Step<Vec<NodeId>> {
        self.describe(task.function, operation, "carried");
        let mut nodes = vec![self.kind_node(&task.first, Kind::Int)?];
        if plan.has_flag {
            nodes.push(self.kind_node(&task.goes_on, Kind::Bool)?);
        }
        for Leaf { value, kind, unset } in self.leaves(task, plan) {
            if self.is_uninitialized(&value) {
                let Some(ty) = number_type(kind).or(unset) else {
                    return Err(self.obstacle("a tensor is carried by a loop that is not set before it"));
                };
                nodes.push(self.filler(&ty)?);
                continue;
            }
            nodes.push(self.kind_node(&value, kind)?);
        }
        Ok(nodes)
    }

    /// Makes inputs of a sub-graph for what a loop carries.
    fn carried_inputs(&mut self, types: &[TypeTree]) -> Step<Vec<NodeId>> {
        let mut inputs = Vec::with_capacity(types.len());
        for (i, ty) in types.iter().enumerate() {
            let input = self.builder().graph.placeholder(&format!("carried_{i}"))?;
            if ty.is_complete() {
                self.builder().declare(input, ty.clone())?;
            }
            inputs.push(input);
        }
        Ok(inputs)
    }

    fn types_of(&mut self, nodes: &[NodeId]) -> Step<Vec<TypeTree>> {
        let graph = &self.builder().graph;
        let ty = |&node| Ok(graph.node(node)?.ty().cloned().unwrap_or(Arg::Leaf(Type::Any)));
        Ok(nodes.iter().map(ty).collect::<crate::Result<_>>()?)
    }

    /// Carries out the body on what the plan carries, which has these types.
    fn pass(
        &mut self,
        operation: &Operation,
        task: &Loop<'s, '_>,
        plan: &Plan,
        types: &[TypeTree],
    ) -> Step<Round> {
        let depth = self.scopes.len();
        self.enter("body");
        self.describe(task.function, operation, "carried");
        let inputs = self.carried_inputs(types)?;
        let mut next_input = inputs.iter().copied();
        let counter = next_input.next();
        if plan.has_flag {
            next_input.next();
        }
        let Some(counter) = counter else { return Err(self.obstacle("a loop without a counter")) };
        let leaves = self.leaves(task, plan);
        let mut values = Vec::with_capacity(leaves.len());
        for (Leaf { value: initial, kind, .. }, input) in leaves.iter().zip(next_input) {
            let value = self.slot_value(*kind, input)?;
            if let (Value::Symbol(made), Some(source)) = (&value, self.storage_of(initial))
                && let Some(storage) = self.storage_of(&value)
                && source < task.before.storages.len()
            {
                let names = (self.name_of(&Value::Symbol(made.clone())), self.name_of(initial));
                self.frozen.insert(storage, names);
            }
            if let Kind::Storage(storage) = *kind {
                let storage = &mut self.builder().storages[storage];
                (storage.value, storage.version) = (input, storage.version + 1);
            }
            values.push(value);
        }
        let mut values = values.into_iter();
        let variables: Vec<Value> = plan
            .variables
            .iter()
            .zip(&task.carried)
            .map(|(shape, value)| filled(shape, value, &mut values))
            .collect::<Step<_>>()?;
        let mut contents: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
        for (&cell, shapes) in &plan.cells {
            let content = shapes.iter().zip(&task.before.contents[cell]);
            let content =
                content.map(|(shape, value)| filled(shape, value, &mut values)).collect::<Step<Vec<_>>>()?;
            task.before.cells[cell].set_content(content.clone())?;
            contents.insert(cell, content);
        }
        let entered: Vec<u32> = self.builder().storages.iter().map(|storage| storage.version).collect();
        let number = self.int_of_node(counter)?;
        let results = match self.round(task.function, task.body, number, variables.clone()) {
            Ok(results) => results,
            Err(Stop::Raised(message)) => {
                while self.scopes.len() > depth {
                    self.leave();
                }
                return Err(self.obstacle(format!("a round of a loop always raises {message:?}")));
            }
            Err(stop) => return Err(stop),
        };
        let after = self.after(task.before);
        let goes_on = results[0].clone();
        let mut next = plan.clone();
        next.has_flag |= !matches!(goes_on, Value::Bool(true));
        for (i, (before, after)) in variables.iter().zip(&results[1..]).enumerate() {
            let name = operation.results.get(i).and_then(|id| task.function.values[id.index()].name.clone());
            let what = name.map_or_else(|| "a value".to_owned(), |name| format!("%{name}"));
            next.variables[i] = self.varied(&plan.variables[i], before, after, &what)?;
        }
        for (at, cell) in task.before.cells.iter().enumerate() {
            let entered = contents.get(&at).unwrap_or(&task.before.contents[at]);
            let now = &after.contents[at];
            if plan.cells.contains_key(&at) || !unchanged(entered, now) {
                if entered.len() != now.len() {
                    return Err(self.obstacle_with(
                        "a list or dictionary grows in a loop whose rounds are not known",
                        None,
                        Some("give the sizes of the inputs as numbers, so that the rounds are written out"),
                    ));
                }
                let old = plan.cells.get(&at).cloned();
                let old = old.unwrap_or_else(|| vec![Shape::Invariant; now.len()]);
                let mut shapes = Vec::with_capacity(now.len());
                for (i, ((shape, a), b)) in old.iter().zip(entered).zip(now).enumerate() {
                    shapes.push(self.varied(shape, a, b, &cell.place(i))?);
                }
                next.cells.insert(at, shapes);
            }
        }
        for (storage, (_, version)) in after.storages.iter().enumerate() {
            if *version != entered[storage] {
                next.storages.insert(storage);
            }
        }
        let mut outputs = Vec::new();
        if next == *plan {
            self.describe(task.function, operation, "carried");
            outputs.push(self.row("add", [Arg::Leaf(counter), Arg::Int(1)])?);
            if plan.has_flag {
                outputs.push(self.kind_node(&goes_on, Kind::Bool)?);
            }
            let results = Loop {
                carried: results[1..].to_vec(),
                first: Value::None,
                limit: Dim::new(0),
                goes_on,
                before: &after,
                ..*task
            };
            for Leaf { value, kind, .. } in self.leaves(&results, plan) {
                // A value that nothing uses stays what it was.
                outputs.push(match self.is_uninitialized(&value) {
                    true => inputs[outputs.len()],
                    false => self.kind_node(&value, kind)?,
                });
            }
        }
        let versions = after.storages.iter().map(|(_, version)| *version).collect();
        let types = self.types_of(&outputs)?;
        let body = self.leave();
        self.restore(task.before)?;
        Ok(Round { plan: next, body, outputs, types, versions })
    }

    fn finish_loop(
        &mut self,
        operation: &Operation,
        task: &Loop<'s, '_>,
        plan: &Plan,
        outer: Vec<NodeId>,
        types: &[TypeTree],
        round: Round,
    ) -> Step<Vec<Value>> {
        let Round { body, outputs, versions, .. } = round;
        self.enter("test");
        self.describe(task.function, operation, "test");
        let inputs = self.carried_inputs(types)?;
        let in_range = match task.limit.known() {
            Some(i64::MAX) => None,
            _ => {
                let limit = self.number_node(&Number::Int(task.limit.clone()))?;
                Some(self.row("lt", [Arg::Leaf(inputs[0]), Arg::Leaf(limit)])?)
            }
        };
        let test = match (in_range, plan.has_flag) {
            (Some(in_range), true) => self.row("logical_and", [Arg::Leaf(inputs[1]), Arg::Leaf(in_range)])?,
            (Some(in_range), false) => in_range,
            (None, true) => inputs[1],
            (None, false) => self.number_node(&Number::Bool(true))?,
        };
        let test_graph = self.leave();
        self.describe(task.function, operation, "while_loop");
        let mut captures: Vec<NodeId> = Vec::new();
        for node in test_graph.captures().chain(body.captures()) {
            if !captures.contains(&node) {
                captures.push(node);
            }
        }
        let graph = &self.builder().graph;
        let test = test_graph.close(graph, &captures, Arg::Leaf(test))?;
        let body = body.close(graph, &captures, Arg::list(outputs.into_iter().map(Arg::Leaf)))?;
        let list = |nodes: &[NodeId]| Arg::list(nodes.iter().copied().map(Arg::Leaf));
        let node = self.row("while_loop", [test.into(), body.into(), list(&outer), list(&captures)])?;
        let leaves = self.leaves(task, plan);
        let skipped = outer.len() - leaves.len();
        let mut values = Vec::with_capacity(leaves.len());
        for (i, Leaf { value: initial, kind, .. }) in leaves.iter().enumerate() {
            let part = self.row("getitem", [Arg::Leaf(node), Arg::Int((i + skipped) as i64)])?;
            let value = self.slot_value(*kind, part)?;
            // Without a round the result is what the loop began with.
            if let (Some(source), Some(made)) = (self.storage_of(initial), self.storage_of(&value)) {
                let names = (self.name_of(&value), self.name_of(initial));
                self.frozen.insert(source, names.clone());
                self.frozen.insert(made, names);
            }
            if let Kind::Storage(storage) = *kind {
                let storage_state = &mut self.builder().storages[storage];
                (storage_state.value, storage_state.version) = (part, versions[storage] + 1);
            }
            values.push(value);
        }
        let mut values = values.into_iter();
        let variables = plan.variables.iter().zip(&task.carried);
        let variables =
            variables.map(|(shape, value)| filled(shape, value, &mut values)).collect::<Step<Vec<_>>>()?;
        for (&cell, shapes) in &plan.cells {
            let content = shapes.iter().zip(&task.before.contents[cell]);
            let content =
                content.map(|(shape, value)| filled(shape, value, &mut values)).collect::<Step<_>>()?;
            task.before.cells[cell].set_content(content)?;
        }
        Ok(variables)
    }

    fn storage_of(&self, value: &Value) -> Option<usize> {
        match value {
            Value::Symbol(symbol) => match self.meaning(symbol) {
                Meaning::Tensor(view) => Some(view.storage),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns which parts of a value change, where some are known to.
    fn varied(&mut self, shape: &Shape, before: &Value, after: &Value, what: &str) -> Step<Shape> {
        let differs = |this: &Self| {
            this.obstacle_with(
                format!(
                    "{what} is {} in one round of a loop and {} in the next",
                    before.type_name(),
                    after.type_name()
                ),
                Some((this.name_of(before), this.name_of(after))),
                Some("a loop carries tensors and numbers only"),
            )
        };
        match shape {
            Shape::Leaf(kind) => match self.kind_of(after) {
                Some(other) if other == *kind => Ok(Shape::Leaf(*kind)),
                None if self.is_uninitialized(after) => Ok(Shape::Leaf(*kind)),
                _ => Err(differs(self)),
            },
            Shape::Unset(ty) => match self.kind_of(after) {
                Some(Kind::Tensor) => Ok(Shape::Unset(ty.clone())),
                None if self.is_uninitialized(after) => Ok(Shape::Unset(ty.clone())),
                _ => Err(differs(self)),
            },
            Shape::Invariant if self.is_uninitialized(before) && self.is_uninitialized(after) => {
                Ok(Shape::Invariant)
            }
            Shape::Invariant if same(before, after) => Ok(Shape::Invariant),
            _ => {
                let kind = match (self.kind_of(before), self.kind_of(after)) {
                    (Some(a), Some(b)) if a == b => Some(a),
                    (None, kind) if self.is_uninitialized(before) => kind,
                    (kind, None) if self.is_uninitialized(after) => kind,
                    _ => None,
                };
                if kind == Some(Kind::Tensor) && self.is_uninitialized(before) {
                    let node = self.node_of(after)?;
                    return self.tensor_type(node).map(Shape::Unset);
                }
                if let Some(kind) = kind {
                    return Ok(Shape::Leaf(kind));
                }
                let (Some(a), Some(b)) = (parts(before), parts(after)) else { return Err(differs(self)) };
                if a.len() != b.len() {
                    return Err(self.obstacle_with(
                        format!(
                            "{what} is a list of {} items in one round of a loop and of {} in the next",
                            a.len(),
                            b.len()
                        ),
                        None,
                        Some("give the sizes of the inputs as numbers, so that the rounds are written out"),
                    ));
                }
                let old = match shape {
                    Shape::Many(shapes) => shapes.clone(),
                    _ => vec![Shape::Invariant; a.len()],
                };
                let mut items = Vec::with_capacity(a.len());
                for (i, (shape, (a, b))) in old.iter().zip(a.iter().zip(&b)).enumerate() {
                    items.push(self.varied(shape, a, b, &format!("{what}[{i}]"))?);
                }
                Ok(Shape::Many(items))
            }
        }
    }
}

/// Returns the parts of a container.
fn parts(value: &Value) -> Option<Vec<Value>> {
    match value {
        Value::List(list) => Some(list.read(Clone::clone)),
        Value::Tuple(tuple) => Some(tuple.items.to_vec()),
        Value::Dict(dict) => Some(CellRef::Dict(dict.clone()).content()),
        _ => None,
    }
}

/// Collects the parts of a value that change.
fn collect(shape: &Shape, value: &Value, leaves: &mut Vec<Leaf>) {
    match shape {
        Shape::Invariant => {}
        Shape::Leaf(kind) => leaves.push(Leaf { value: value.clone(), kind: *kind, unset: None }),
        Shape::Unset(ty) => {
            leaves.push(Leaf { value: value.clone(), kind: Kind::Tensor, unset: Some(ty.clone()) });
        }
        Shape::Many(shapes) => {
            let parts = parts(value).unwrap_or_default();
            shapes.iter().zip(&parts).for_each(|(shape, part)| collect(shape, part, leaves));
        }
    }
}

/// Returns a value with others in the place of the parts that change.
fn filled(shape: &Shape, value: &Value, values: &mut dyn Iterator<Item = Value>) -> Step<Value> {
    match shape {
        Shape::Invariant => Ok(value.clone()),
        Shape::Leaf(_) | Shape::Unset(_) => Ok(values.next().unwrap_or_default()),
        Shape::Many(shapes) => {
            let parts = parts(value).unwrap_or_default();
            let parts = shapes.iter().zip(&parts).map(|(shape, part)| filled(shape, part, values));
            let parts = parts.collect::<Step<Vec<_>>>()?;
            Ok(match value {
                Value::Tuple(tuple) => Value::Tuple(std::sync::Arc::new(Tuple {
                    items: parts.into(),
                    named: tuple.named.clone(),
                })),
                Value::Dict(_) => {
                    Value::dict(parts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())))?
                }
                _ => Value::list(parts),
            })
        }
    }
}
