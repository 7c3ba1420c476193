//! [`Repeat`]: one loop of a scripted function.
//!
//! A loop begins natively. It becomes a recorded one if its test is a symbol, if it runs over a symbolic number
//! of rounds, or if a `loop` is left under a condition that is a symbol. Then its body runs once within a
//! sub-graph, and again as long as the types of the variables widen; the test, too. Variables that no round
//! changes are captured.

use std::sync::Arc;

use super::condition::{Condition, Test};
use super::flow::{Exit, Flow, FrameKind, Outcome, Pushes, Values, set, values};
use super::grow::{Growing, Pushed, symbols_of};
use super::items::{Call, failure, replace_symbols, symbols, unknown_items};
use super::merge::{Absent, Taken, is_same};
use super::rounds::Rounds;
use super::variable::Variable;
use crate::ops::{add, for_loop, logical_and, logical_not, logical_or, lt, while_loop};
use crate::region::{Fixpoint, refill};
use crate::trace::{Mark, OpenRegion, Region, apply_at, is_tracing};
use crate::{
    Arg, Array, ErrorKind, Result, SourceLoc, Symbol, Tensor, TensorType, Type, TypeTree, Value, bail, err,
};

/// What the test of a `while` makes the loop do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tested {
    /// Run the body.
    Go,
    /// Begin again, as a loop that is recorded.
    Again,
    /// End.
    Stop,
}

/// A loop.
pub struct Repeat {
    id: u32,
    kind: Kind,
    state: State,
    /// What the loop does besides changing variables, once it has ended.
    after: Option<Outcome>,
    /// The value of the loop, if it was recorded.
    value: Option<Value>,
    place: SourceLoc,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    While,
    Loop,
    For { ignores_item: bool },
}

enum State {
    Native(Native),
    Traced(Box<Traced>),
    Ended,
}

/// A native loop: where its present round began.
#[derive(Default)]
struct Native {
    has_begun: bool,
    start: Option<(Mark, Values)>,
    /// How many rounds are left, if their items may be any.
    n_left: Option<i64>,
}

/// A loop that is recorded.
struct Traced {
    /// The number of rounds of a `for`.
    count: Option<Value>,
    before: Values,
    /// The lists that every round pushes to.
    growing: Vec<Growing>,
    /// The exits that a round may take.
    exits: Vec<Exit>,
    /// Values in the place of those that exits take along, until a round takes the exit.
    results: Vec<(Exit, Value)>,
    search: Option<Fixpoint>,
    /// Whether nothing is known of the types of the carried values.
    is_untyped: bool,
    region: Option<OpenRegion>,
    /// The symbols of the arguments.
    arguments: Vec<Tensor>,
    /// The body, and the arguments of its own that it carries.
    body: Option<(Region, Vec<usize>)>,
}

/// A list that grows, by number and name, and the type of its rows, with whether a row is one item.
type FoundRow = ((u32, &'static str), (TensorType, bool));

/// A value that a round takes and gives.
struct Carried {
    name: String,
    value: Value,
    ty: TypeTree,
}

impl Traced {
    fn new(count: Option<Value>, before: Values) -> Traced {
        Traced {
            count,
            before,
            growing: Vec::new(),
            exits: Vec::new(),
            results: Vec::new(),
            search: None,
            is_untyped: false,
            region: None,
            arguments: Vec::new(),
            body: None,
        }
    }

    /// Returns whether it is a `for_loop`; one that may be left early is a `while_loop` with a counter.
    fn is_counted(&self) -> bool {
        self.count.is_some() && self.exits.is_empty()
    }

    /// Returns what a round takes: the number of the round if there is one, the leaves of the variables, the
    /// rows of lists that grow, a flag for each exit, and the leaves of the values that exits take along.
    fn carried(&self) -> Result<Vec<Carried>> {
        let mut all = Vec::new();
        if self.count.is_some() {
            all.push(Carried { name: "i".into(), value: Arg::Int(0), ty: Arg::Leaf(Type::Int) });
        }
        let mut add = |name: &str, value: &Value| -> Result<()> {
            let leaves = symbols(value);
            for (i, leaf) in leaves.iter().enumerate() {
                let name = if leaves.len() == 1 { name.to_owned() } else { format!("{name}_{i}") };
                all.push(Carried { name, value: Arg::Leaf((*leaf).clone()), ty: leaf.type_tree()? });
            }
            Ok(())
        };
        for (_, name, value) in &self.before {
            add(name, value)?;
        }
        for list in &self.growing {
            add(list.name, &Arg::Leaf(list.rows.clone()))?;
        }
        for exit in &self.exits {
            let name = if *exit == Exit::Return { "returned" } else { "stop" };
            add(name, &Arg::Leaf(Tensor::new(Array::scalar(false))))?;
        }
        for (_, result) in &self.results {
            add("result", result)?;
        }
        Ok(all)
    }

    /// Returns the position of the first list that grows among what a round takes.
    fn first_list(&self) -> usize {
        let n: usize = self.before.iter().map(|(.., value)| symbols(value).len()).sum();
        n + usize::from(self.count.is_some())
    }

    /// Returns the position of the first flag among what a round takes.
    fn first_flag(&self) -> usize {
        self.first_list() + self.growing.len()
    }

    fn result(&self, exit: Exit) -> Option<&Value> {
        self.results.iter().find(|(other, _)| *other == exit).map(|(_, result)| result)
    }

    fn growing(&self, id: u32) -> Option<usize> {
        self.growing.iter().position(|list| list.id == id)
    }

    /// Opens a sub-graph with an argument for each value that a round takes, and gives the variables its
    /// symbols.
    fn open(&mut self, name: &str, flow: &mut Flow, variables: &mut [Variable<'_>]) -> Result<()> {
        let carried = self.carried()?;
        let given: Vec<TypeTree> = carried.iter().map(|value| value.ty.clone()).collect();
        let types = if self.is_untyped {
            vec![Arg::Leaf(Type::Any); given.len()]
        } else {
            self.search.get_or_insert_with(|| Fixpoint::in_trace(&given)).carried().to_vec()
        };
        let region = OpenRegion::new(name);
        self.arguments = carried
            .iter()
            .zip(types)
            .map(|(value, ty)| region.argument(&value.name, ty))
            .collect::<Result<_>>()?;
        flow.enter(&region);
        flow.push(FrameKind::Body);
        self.region = Some(region);
        let arguments: Vec<Value> = self.arguments.iter().map(Value::from).collect();
        let mut seen = self.filled(&arguments)?;
        for (id, _, value) in &mut seen {
            if let Some(i) = self.growing(*id) {
                *value = self.growing[i].marked(value);
            }
        }
        set(variables, &seen)
    }

    /// Returns the variables with the leaves of a round.
    fn filled(&self, leaves: &[Value]) -> Result<Values> {
        let mut rest = &leaves[usize::from(self.count.is_some())..];
        self.before
            .iter()
            .map(|(id, name, value)| {
                let (own, others) = rest.split_at(symbols(value).len());
                rest = others;
                Ok((*id, *name, replace_symbols(value, own)?))
            })
            .collect()
    }

    /// Records whether there is another round, in the sub-graph of the test.
    fn another_round(&self, condition: Option<Tensor>, place: &SourceLoc) -> Result<Value> {
        let call = |op, args: &[Value]| apply_at(op, false, args, &[], place.clone());
        let mut all: Vec<Value> = condition.iter().map(Value::from).collect();
        if let (Some(count), Some(index)) = (&self.count, self.arguments.first()) {
            all.push(call(lt::OP, &[index.into(), count.clone()])?);
        }
        let flags = &self.arguments[self.first_flag()..][..self.exits.len()];
        let stop = flags.iter().map(Value::from).map(Ok);
        if let Some(stop) = stop.reduce(|a, b| call(logical_or::OP, &[a?, b?])) {
            all.push(call(logical_not::OP, &[stop?])?);
        }
        let test = all.into_iter().map(Ok).reduce(|a, b| call(logical_and::OP, &[a?, b?]));
        test.unwrap_or_else(|| Ok(Arg::Leaf(Tensor::new(Array::scalar(true)))))
    }
}

impl Traced {
    /// Returns what the round pushed to lists that are not known to grow.
    fn pushed<'a>(&'a self, outcome: &'a Outcome) -> impl Iterator<Item = Pushed<'a>> {
        let pairs = self.before.iter().zip(&outcome.variables);
        pairs
            .filter(|((id, ..), _)| self.growing(*id).is_none())
            .filter_map(|(a, (.., b))| Pushed::find(a, b))
    }

    /// Returns the types of the rows of lists that grow, within a round. Fails if such a list does not become a
    /// tensor.
    fn rows(&self, outcome: &Outcome, call: &Call<'_>, pushes: &Pushes) -> Result<Vec<FoundRow>> {
        if !self.is_counted()
            && let Some(list) = self.pushed(outcome).next()
        {
            let how =
                if self.exits.is_empty() { "runs as long as a tensor says" } else { "may be left early" };
            let error = err!(Trace, "a recorded loop that {how} pushes to `{}`", list.name).help(
                "loop over a range without an exit, or write the rows of a tensor with `select_scatter`",
            );
            return Err(pushes.locate(list.id, error));
        }
        let Some((region, search)) = self.region.as_ref().zip(self.search.as_ref()) else {
            return Ok(Vec::new());
        };
        let given: Vec<TypeTree> = self.carried()?.into_iter().map(|value| value.ty).collect();
        let (given, taken) = (symbols_of(given.iter()), symbols_of(search.carried().iter()));
        let is_of_round =
            |symbol: &Symbol| region.names(symbol) || (taken.contains(symbol) && !given.contains(symbol));
        let row = |list: Pushed<'_>| {
            let ty = list.row_type(call, &is_of_round).map_err(|error| pushes.locate(list.id, error))?;
            Ok(((list.id, list.name), ty))
        };
        self.pushed(outcome).map(row).collect()
    }

    /// Makes lists grow, before the loop.
    fn grow(&mut self, found: Vec<FoundRow>, call: &Call<'_>, pushes: &Pushes) -> Result<()> {
        let count = self.count.clone().unwrap_or(Arg::None);
        for (list, row) in found {
            let pushed = pushes.place(list.0).unwrap_or_else(|| call.source.clone());
            let list = Growing::new(list, row, &count, (call, &pushed)).map_err(|error| error.at(pushed))?;
            self.growing.push(list);
        }
        self.search = None;
        Ok(())
    }
}

// These are methods because a call of a path of the macro's would have the place of the attribute.
impl Flow {
    /// Begins a `while`.
    #[track_caller]
    pub fn repeat_while(&self, id: u32) -> Repeat {
        Repeat::new(id, Kind::While)
    }

    /// Begins a `loop`.
    #[track_caller]
    pub fn repeat_loop(&self, id: u32) -> Repeat {
        Repeat::new(id, Kind::Loop)
    }

    /// Begins a `for`; `ignores_item` says that its pattern is `_`.
    #[track_caller]
    pub fn repeat_for(&self, id: u32, ignores_item: bool) -> Repeat {
        Repeat::new(id, Kind::For { ignores_item })
    }
}

impl Repeat {
    #[track_caller]
    fn new(id: u32, kind: Kind) -> Repeat {
        let state = State::Native(Native::default());
        Repeat { id, kind, state, after: None, value: None, place: SourceLoc::caller() }
    }

    fn attempt<T: Default>(
        &mut self,
        flow: &mut Flow,
        run: impl FnOnce(&mut Self, &mut Flow) -> Result<T>,
    ) -> T {
        if flow.has_failed() {
            return T::default();
        }
        run(self, flow).unwrap_or_else(|error| {
            flow.fail(error.at(self.place.clone()));
            self.state = State::Ended;
            T::default()
        })
    }

    /// Begins a round of a `while` or `loop`. Returns whether there is one.
    pub fn begin(&mut self, flow: &mut Flow, variables: &mut [Variable<'_>]) -> bool {
        self.attempt(flow, |this, flow| match &mut this.state {
            State::Native(_) => {
                this.begin_native(flow, variables, None);
                Ok(true)
            }
            State::Traced(traced) => {
                let name = if traced.body.is_some() { "test" } else { "body" };
                traced.open(name, flow, variables)?;
                Ok(true)
            }
            State::Ended => Ok(false),
        })
    }

    fn begin_native(&mut self, flow: &mut Flow, variables: &mut [Variable<'_>], n_left: Option<i64>) {
        let State::Native(native) = &mut self.state else { return };
        if native.has_begun {
            flow.unwind_to(self.id);
        } else {
            flow.push(FrameKind::Loop(self.id));
            native.has_begun = true;
        }
        native.n_left = n_left;
        let may_become_traced = match self.kind {
            Kind::While | Kind::Loop => true,
            Kind::For { .. } => n_left.is_some(),
        };
        native.start = None;
        if may_become_traced && is_tracing() {
            // A loop with a variable that no symbol can stand for stays native, if its condition does.
            native.start = Mark::new().zip(values(variables).ok());
        }
    }

    /// Begins a round of a `for`. Returns its item, if there is one.
    pub fn item<R: Rounds>(
        &mut self,
        flow: &mut Flow,
        variables: &mut [Variable<'_>],
        rounds: &mut R,
    ) -> Option<R::Item> {
        let Kind::For { ignores_item } = self.kind else { return None };
        self.attempt(flow, |this, flow| {
            if let State::Native(native) = &this.state {
                let has_begun = native.has_begun;
                this.begin_native(flow, variables, rounds.n_rounds().filter(|_| ignores_item));
                let count = if has_begun { None } else { rounds.traced()? };
                match count {
                    Some(count) => {
                        this.state = State::Traced(Box::new(Traced::new(Some(count), values(variables)?)))
                    }
                    None => return rounds.next(),
                }
            }
            match &mut this.state {
                State::Traced(traced) => {
                    traced.open("body", flow, variables)?;
                    traced.arguments.first().map(|index| rounds.symbolic(index)).transpose()
                }
                _ => Ok(None),
            }
        })
    }

    /// Returns whether the test of a `while` runs in this round.
    pub fn tests(&self) -> bool {
        match &self.state {
            State::Native(_) => true,
            State::Traced(traced) => traced.body.is_some(),
            State::Ended => false,
        }
    }

    /// Takes what the test of a `while` says.
    pub fn test(&mut self, flow: &mut Flow, condition: impl Test, variables: &mut [Variable<'_>]) -> Tested {
        let condition = condition.test();
        self.attempt(flow, |this, flow| {
            if let Condition::Failed(error) = condition {
                return Err(error);
            }
            match (&mut this.state, condition) {
                (State::Native(_), Condition::Known(true)) => Ok(Some(Tested::Go)),
                (State::Native(_), Condition::Known(false)) => Ok(Some(Tested::Stop)),
                (State::Native(native), _) => {
                    // The first test is recorded again, in the sub-graph.
                    let before = match native.start.take() {
                        Some((mark, before)) => {
                            mark.rewind()?;
                            before
                        }
                        None => values(variables)?,
                    };
                    set(variables, &before)?;
                    this.state = State::Traced(Box::new(Traced::new(None, before)));
                    Ok(Some(Tested::Again))
                }
                (State::Traced(traced), condition) => {
                    let condition = match condition {
                        Condition::Traced(tensor) => tensor,
                        known => Tensor::new(Array::scalar(matches!(known, Condition::Known(true)))),
                    };
                    let test = traced.another_round(Some(condition), &this.place)?;
                    let outcome = flow.pop(variables)?;
                    if !outcome.exits.is_empty() {
                        return Err(err!(Trace, "the condition of a `while` on a tensor leaves the loop")
                            .help("write `loop { if .. { break } .. }`"));
                    }
                    this.close_test(flow, test, variables)?;
                    Ok(Some(Tested::Stop))
                }
                (State::Ended, _) => Ok(Some(Tested::Stop)),
            }
        })
        .unwrap_or(Tested::Stop)
    }

    /// Ends a round.
    pub fn end(&mut self, flow: &mut Flow, variables: &mut [Variable<'_>]) {
        self.attempt(flow, |this, flow| match &mut this.state {
            State::Native(native) => {
                flow.unwind_to(this.id);
                let converts = this.kind == Kind::Loop || native.n_left.is_some();
                if converts
                    && native.start.is_some()
                    && flow.may_leave(this.id)
                    && let Some((mark, before)) = native.start.take()
                {
                    flow.discard_forks();
                    mark.rewind()?;
                    set(variables, &before)?;
                    let count = native.n_left.map(Arg::Int);
                    this.state = State::Traced(Box::new(Traced::new(count, before)));
                    return Ok(());
                }
                if !flow.arrive(this.id, &[Exit::Continue(this.id)], variables, &this.place)? {
                    this.state = State::Ended;
                }
                Ok(())
            }
            State::Traced(_) => this.end_body(flow, variables),
            State::Ended => Ok(()),
        });
    }

    fn end_body(&mut self, flow: &mut Flow, variables: &mut [Variable<'_>]) -> Result<()> {
        let State::Traced(traced) = &mut self.state else { return Ok(()) };
        let mut outcome = flow.pop(variables)?;
        outcome.arrive(Exit::Continue(self.id));
        let exits: Vec<Exit> = outcome.exits.iter().map(|(exit, _)| *exit).collect();
        let has_new_exits = exits.iter().any(|exit| !traced.exits.contains(exit));
        let has_new_results = outcome.results.iter().any(|(exit, _)| traced.result(*exit).is_none());
        if has_new_exits || has_new_results {
            flow.leave_region();
            let given: Vec<TypeTree> = traced.carried()?.into_iter().map(|value| value.ty).collect();
            let mut known = symbols_of(given.iter());
            known.extend(traced.region.iter().flat_map(OpenRegion::outer_symbols));
            let absent = Absent { known, lists: flow.lists, place: &self.place };
            let results = outcome.results.iter().map(|(exit, result)| Ok((*exit, absent.like(result)?)));
            traced.results = results.collect::<Result<_>>()?;
            traced.exits = exits;
            traced.search = None;
            return set(variables, &traced.before);
        }
        let pushes = traced.pushed(&outcome).next().map(|list| list.name);
        if let Some(name) = pushes {
            let Some(ops) = flow.lists else {
                return Err(err!(Trace, "a recorded loop pushes to `{name}` without the operations of `fx`")
                    .help("`#[fx::script]` takes them from the crate `tensor-fx`, not from `fx-core`"));
            };
            let call = Call { ops, source: &self.place };
            let found = traced.rows(&outcome, &call, &flow.pushes)?;
            flow.leave_region();
            traced.grow(found, &call, &flow.pushes)?;
            flow.has_items = true;
            return set(variables, &traced.before);
        }
        let outputs = outputs(traced, &outcome, &self.place, &flow.pushes)?;
        flow.leave_region();
        let name = if traced.is_counted() { "for_loop" } else { "while_loop" };
        if !traced.is_untyped
            && let Some(search) = &mut traced.search
        {
            let types = outputs.iter().map(Tensor::type_tree).collect::<Result<Vec<_>>>()?;
            match search.step(name, Ok(Arg::list(types))) {
                Ok(true) => {}
                Ok(false) => return set(variables, &traced.before),
                Err(error) if error.kind() == ErrorKind::UnknownType => {
                    traced.is_untyped = true;
                    return set(variables, &traced.before);
                }
                Err(error) => return Err(error),
            }
        }
        let first_flag = traced.first_flag();
        let is_carried = |i: usize| {
            let is_index = i == 0 && traced.count.is_some();
            is_index || i >= first_flag || outputs[i].identity() != traced.arguments[i].identity()
        };
        let kept: Vec<usize> = (0..outputs.len()).filter(|i| is_carried(*i)).collect();
        let skipped = usize::from(traced.is_counted());
        let list = Arg::list(kept[skipped..].iter().map(|i| Arg::Leaf(outputs[*i].clone())));
        let Some(region) = traced.region.take() else { bail!(Trace, "the body of a loop has ended twice") };
        traced.body = Some((region.close(list)?, kept));
        if self.kind == Kind::While {
            return Ok(());
        }
        if traced.is_counted() {
            return self.emit(None, variables);
        }
        traced.open("test", flow, variables)?;
        let test = traced.another_round(None, &self.place)?;
        flow.pop(&[])?;
        self.close_test(flow, test, variables)
    }

    /// Ends the sub-graph of the test, and the loop.
    fn close_test(&mut self, flow: &mut Flow, test: Value, variables: &mut [Variable<'_>]) -> Result<()> {
        flow.leave_region();
        let State::Traced(traced) = &mut self.state else { return Ok(()) };
        let Some(region) = traced.region.take() else { bail!(Trace, "the test of a loop has ended twice") };
        let test = region.close(test)?;
        self.emit(Some(test), variables)
    }

    /// Records the loop, and gives the variables its results.
    fn emit(&mut self, test: Option<Region>, variables: &mut [Variable<'_>]) -> Result<()> {
        let State::Traced(traced) = std::mem::replace(&mut self.state, State::Ended) else { return Ok(()) };
        let Some((body, kept)) = &traced.body else { bail!(Trace, "a loop has no body") };
        let given: Vec<Value> = traced.carried()?.into_iter().map(|carried| carried.value).collect();
        let mut all: Vec<(Value, String)> = Vec::new();
        for region in [Some(body), test.as_ref()].into_iter().flatten() {
            for (value, name) in region.used(&given, kept)? {
                if !all.iter().any(|(other, _)| is_same(other, &value)) {
                    all.push((value, name));
                }
            }
        }
        let arranged = |region: &Region| region.rearranged(&given, kept, &all, &is_same);
        let is_counted = traced.is_counted();
        let carried = &kept[usize::from(is_counted)..];
        let mut results = given.clone();
        if !carried.is_empty() || !body.graph.is_pure() {
            let graph: Value = Arc::new(arranged(body)?).into();
            let operands = Arg::list(carried.iter().map(|i| given[*i].clone()));
            let captured = Arg::list(all.iter().map(|(value, _)| value.clone()));
            let out = match (&test, &traced.count) {
                (Some(test), _) => {
                    let test = Arc::new(arranged(test)?).into();
                    apply_at(
                        while_loop::OP,
                        false,
                        &[test, graph, operands, captured],
                        &[],
                        self.place.clone(),
                    )?
                }
                (None, Some(count)) => {
                    let args = [count.clone(), graph, operands, captured];
                    apply_at(for_loop::OP, false, &args, &[], self.place.clone())?
                }
                (None, None) => bail!(Trace, "a loop has neither a test nor a number of rounds"),
            };
            // The number of the round and the flag of the loop's own end are of no use behind it.
            let own_flag = traced.exits.iter().position(|exit| *exit == Exit::Break(self.id));
            let is_of_loop = |i: usize| {
                i == 0 && traced.count.is_some()
                    || own_flag.is_some_and(|flag| i == traced.first_flag() + flag)
            };
            let used: Vec<usize> = carried.iter().copied().filter(|i| !is_of_loop(*i)).collect();
            for i in used {
                let position = carried.iter().position(|other| *other == i).unwrap_or_default();
                let item = [out.clone(), Arg::Int(position as i64)];
                results[i] = match &out {
                    Arg::List(items) => items[position].clone(),
                    _ => apply_at(crate::ops::getitem::OP, false, &item, &[], self.place.clone())?,
                };
            }
        }
        let mut ends = traced.filled(&results)?;
        for (id, _, value) in &mut ends {
            if let Some(i) = traced.growing(*id) {
                *value = traced.growing[i].finished(value, &results[traced.first_list() + i], &self.place)?;
            }
        }
        set(variables, &ends)?;
        self.after = self.exits_after(&traced, &results)?;
        Ok(())
    }

    /// Returns the exits that the recorded loop may have taken, beyond its own end, and takes its value.
    fn exits_after(&mut self, traced: &Traced, results: &[Value]) -> Result<Option<Outcome>> {
        let rest = &results[traced.first_flag()..];
        let (flags, mut rest) = rest.split_at(traced.exits.len());
        let own = Exit::Break(self.id);
        let mut outcome = Outcome::default();
        for (exit, flag) in traced.exits.iter().zip(flags).filter(|(exit, _)| **exit != own) {
            outcome.exits.push((*exit, Some(Tensor::try_from(flag.clone())?)));
        }
        for (exit, structure) in &traced.results {
            let (leaves, others) = rest.split_at(structure.leaves().len());
            rest = others;
            let result = refill(structure, leaves)?;
            if *exit == own {
                self.value = Some(result);
            } else {
                outcome.results.push((*exit, result));
            }
        }
        let ends = self.kind != Kind::Loop || traced.exits.contains(&own);
        if !ends && let [(_, flag)] = &mut outcome.exits[..] {
            *flag = None;
        }
        outcome.leaves = !ends;
        Ok((!outcome.exits.is_empty()).then_some(outcome))
    }

    /// Returns the value that a recorded loop ended with.
    pub(super) fn value(&mut self) -> Option<Value> {
        self.value.take()
    }

    /// Ends the loop. Returns whether the function goes on behind it.
    pub fn finish(&mut self, flow: &mut Flow, variables: &mut [Variable<'_>]) -> bool {
        self.attempt(flow, |this, flow| {
            flow.unwind_to(this.id);
            // The recorded loop lies within the forks of the rounds before it, which end here.
            if let Some(after) = this.after.take() {
                flow.end_with(after);
            }
            let arrives = [Exit::Break(this.id), Exit::Continue(this.id)];
            flow.arrive(this.id, &arrives, variables, &this.place)?;
            flow.pop_loop();
            Ok(!flow.is_leaving())
        })
    }
}

/// Returns what a round gives for each value that it takes.
fn outputs(traced: &Traced, outcome: &Outcome, place: &SourceLoc, pushes: &Pushes) -> Result<Vec<Tensor>> {
    let mut outputs: Vec<Tensor> = Vec::new();
    if traced.count.is_some() {
        let index = &traced.arguments[0];
        outputs.push(if traced.is_counted() {
            index.clone()
        } else {
            let next = apply_at(add::OP, false, &[index.into(), Arg::Int(1)], &[], place.clone())?;
            Tensor::try_from(next)?
        });
    }
    let mut rows = Vec::new();
    for ((id, name, before), (.., after)) in traced.before.iter().zip(&outcome.variables) {
        if let Some(error) = failure(after) {
            return Err(error.clone());
        }
        let written;
        let after = match traced.growing(*id) {
            None => after,
            Some(i) => {
                let (index, tensor) = (&traced.arguments[0], &traced.arguments[traced.first_list() + i]);
                let n_before = before.items().map_or(0, <[_]>::len);
                let written_row = traced.growing[i].write((after, n_before), (tensor, index), place);
                let (list, row) = written_row.map_err(|error| pushes.locate(*id, error))?;
                rows.push((i, row));
                written = list;
                &written
            }
        };
        if before.map(&mut |_| ()) != after.map(&mut |_| ()) {
            return Err(pushes.locate(*id, changed(name, before, after)));
        }
        for (a, b) in before.leaves().into_iter().zip(after.leaves()) {
            if let Some(items) = unknown_items(&Arg::Leaf(b.clone())).filter(|_| a.identity() != b.identity())
            {
                return Err(items.error().clone());
            }
        }
        outputs.extend(symbols(after).into_iter().cloned());
    }
    rows.sort_by_key(|(i, _)| *i);
    outputs.extend(rows.into_iter().map(|(_, row)| row));
    for exit in &traced.exits {
        // A flag that was taken stays: the loop ends with this round.
        let flag: Taken = outcome.flag(*exit);
        outputs.push(flag.tensor());
    }
    for (exit, before) in &traced.results {
        let after = outcome.result(*exit).unwrap_or(before);
        if before.map(&mut |_| ()) != after.map(&mut |_| ()) {
            return Err(changed("result", before, after));
        }
        outputs.extend(after.leaves().into_iter().cloned());
    }
    match outputs.iter().find_map(Tensor::error) {
        Some(error) => Err(error.clone()),
        None => Ok(outputs),
    }
}

fn changed(name: &str, before: &Value, after: &Value) -> crate::Error {
    let error =
        err!(Structure, "a round of a loop on a tensor changes `{name}` from {before:?} to {after:?}");
    match (before, after) {
        (Arg::List(a), Arg::List(b)) if a.len() != b.len() => {
            error.help("the number of rounds is not known while tracing; make it a tensor and write its rows with `select_scatter`")
        }
        _ if before.leaves().is_empty() => {
            error.help("while tracing, a number, text or flag has one value; make it a tensor: `fx::Tensor::new(..)`")
        }
        _ => error.help("keep the structure; sizes alone may change"),
    }
}
