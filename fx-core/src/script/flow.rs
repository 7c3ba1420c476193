//! [`Flow`]: where a scripted function is, among branches and loops that are recorded.

use std::panic::Location;

use super::items::{ListOps, failure, unknown_items};
use super::merge::{Merging, Side, Taken, merge};
use super::variable::Variable;
use crate::ops::logical_or;
use crate::trace::{OpenRegion, Scope, apply_as, note_error};
use crate::{Error, Result, SourceLoc, Tensor, Tree, Value, err};

/// A way out of a block. Loops have numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Out of the function.
    Return,
    /// Out of a loop.
    Break(u32),
    /// To the next round of a loop.
    Continue(u32),
}

/// The present values of variables, by number.
pub(super) type Values = Vec<(u32, &'static str, Value)>;

/// How a piece of the function ended.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) variables: Values,
    /// The exits that it may take, each with the condition; `None` if it does.
    pub(super) exits: Vec<(Exit, Option<Tensor>)>,
    /// Whether it takes one of them for sure.
    pub(super) leaves: bool,
    /// The values that exits take along: the result of the function, and those of loops.
    pub(super) results: Vec<(Exit, Value)>,
}

impl Outcome {
    fn exit(exit: Exit, result: Option<Value>) -> Outcome {
        let results = result.into_iter().map(|result| (exit, result)).collect();
        Outcome { exits: vec![(exit, None)], leaves: true, results, ..Outcome::default() }
    }

    /// Returns the value that an exit takes along.
    pub(super) fn result(&self, exit: Exit) -> Option<&Value> {
        self.results.iter().find(|(other, _)| *other == exit).map(|(_, result)| result)
    }

    pub(super) fn flag(&self, exit: Exit) -> Taken {
        match self.exits.iter().find(|(other, _)| *other == exit) {
            None => Taken::Never,
            Some((_, None)) => Taken::Always,
            Some((_, Some(tensor))) => Taken::If(tensor.clone()),
        }
    }

    /// Returns whether it may take one of these exits.
    pub(super) fn may(&self, is_asked: impl Fn(Exit) -> bool) -> bool {
        self.exits.iter().any(|(exit, _)| is_asked(*exit))
    }

    /// Forgets an exit that leads to where it ends anyway.
    pub(super) fn arrive(&mut self, exit: Exit) {
        let n = self.exits.len();
        self.exits.retain(|(other, _)| *other != exit);
        self.leaves &= self.exits.len() == n;
    }
}

/// A branch of which one side has left; the other side goes on, within its sub-graph.
struct Fork {
    predicate: Tensor,
    /// Whether the side that has left is the one for which the condition holds.
    left_first: bool,
    left: Side,
    staying: OpenRegion,
    place: SourceLoc,
}

/// A side of a branch, or a loop, in which the function is.
struct Frame {
    kind: FrameKind,
    forks: Vec<Fork>,
    pending: Option<Outcome>,
}

#[derive(PartialEq, Clone, Copy)]
pub(super) enum FrameKind {
    Function,
    /// A side of a branch that is recorded.
    Side,
    /// A loop that runs natively.
    Loop(u32),
    /// The body of a loop that is recorded.
    Body,
}

/// The state of one call of a scripted function.
pub struct Flow {
    frames: Vec<Frame>,
    scopes: Vec<Scope>,
    /// The number of sub-graphs that are open.
    n_open: usize,
    failed: Option<Error>,
    /// The operations by which a recorded loop pushes to lists.
    pub(super) lists: Option<&'static ListOps>,
    /// Whether a loop has pushed to a list.
    pub(super) has_items: bool,
    pub(super) pushes: Pushes,
}

/// Where variables were pushed to last, by number.
#[derive(Default)]
pub(super) struct Pushes(Vec<(u32, &'static Location<'static>)>);

impl Pushes {
    /// Returns the error with the place of the push to this variable, unless it has one.
    pub(super) fn locate(&self, id: u32, error: Error) -> Error {
        match self.place(id) {
            Some(place) => error.at(place),
            None => error,
        }
    }

    /// Returns the place of the push to this variable.
    pub(super) fn place(&self, id: u32) -> Option<SourceLoc> {
        self.0.iter().find(|(other, _)| *other == id).map(|(_, place)| (*place).into())
    }
}

impl Default for Flow {
    /// Begins a call.
    fn default() -> Self {
        let function = Frame { kind: FrameKind::Function, forks: Vec::new(), pending: None };
        Flow {
            frames: vec![function],
            scopes: Vec::new(),
            n_open: 0,
            failed: None,
            lists: None,
            has_items: false,
            pushes: Pushes::default(),
        }
    }
}

impl Flow {
    /// Begins a call whose recorded loops may push to lists.
    pub fn with_lists(lists: &'static ListOps) -> Flow {
        Flow { lists: Some(lists), ..Flow::default() }
    }

    /// Returns whether a value holds items whose number is not known, and ends the call with an error then.
    #[track_caller]
    pub fn reads_items(&mut self, value: impl FnOnce() -> Option<Value>) -> bool {
        if !self.has_items || self.failed.is_some() {
            return self.failed.is_some();
        }
        let error = value().as_ref().and_then(unknown_items).map(|items| items.read().clone());
        let is_unknown = error.is_some();
        if let Some(error) = error {
            self.fail(error.at(SourceLoc::caller()));
        }
        is_unknown
    }

    /// Notes that the function pushes to a variable here.
    #[track_caller]
    pub fn pushes(&mut self, id: u32) {
        let (here, all) = (Location::caller(), &mut self.pushes.0);
        match all.iter_mut().find(|(other, _)| *other == id) {
            Some((_, place)) => *place = here,
            None => all.push((id, here)),
        }
    }

    /// Returns whether nothing of the call is recorded within a sub-graph, so that `return` may be one of Rust.
    pub fn is_native(&self) -> bool {
        self.n_open == 0
    }

    /// Returns whether a `break` or `continue` of a loop may be one of Rust.
    pub fn is_local(&self, id: u32) -> bool {
        for frame in self.frames.iter().rev() {
            match frame.kind {
                _ if !frame.forks.is_empty() => return false,
                FrameKind::Loop(other) if other == id => return true,
                FrameKind::Loop(_) => {}
                _ => return false,
            }
        }
        false
    }

    /// Takes an exit of a loop.
    pub fn exit(&mut self, exit: Exit) {
        self.set_pending(Outcome::exit(exit, None));
    }

    /// Takes an exit of a loop with a value.
    pub(super) fn exit_with(&mut self, exit: Exit, value: &Value) {
        match failure(value) {
            Some(error) => self.fail(error.clone()),
            None => self.set_pending(Outcome::exit(exit, Some(value.clone()))),
        }
    }

    /// Returns from the function.
    pub fn returns(&mut self, result: &Value) {
        self.exit_with(Exit::Return, result);
    }

    /// Returns the result of the function from its value at the end.
    #[track_caller]
    pub fn finish<R: Tree>(&mut self, result: R) -> R {
        if self.has_items
            && let Some(items) = unknown_items(&result.to_value())
        {
            self.fail(items.error().clone());
        }
        if self.is_native() && self.failed.is_none() {
            return result;
        }
        if self.failed.is_none() {
            self.returns(&result.to_value());
        }
        self.leave()
    }

    /// Returns the result of the function, which has returned within sub-graphs or failed.
    #[track_caller]
    pub fn leave<R: Tree>(&mut self) -> R {
        let place = SourceLoc::caller();
        let run = |flow: &mut Flow| -> Result<R> {
            let last = flow.top().pending.take().unwrap_or_default();
            let outcome = flow.close_forks(0, last)?;
            let value = outcome
                .result(Exit::Return)
                .ok_or_else(|| err!(Trace, "the function ended without a result").at(place))?;
            R::from_value(value)
        };
        let result = match self.failed.take() {
            Some(error) => Err(error),
            None => run(self),
        };
        result.unwrap_or_else(|error| {
            self.fail(error.clone());
            R::failed(&error)
        })
    }

    /// Returns whether the call has failed, so that it must end.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Ends the call with an error; the trace around it reports it.
    pub(super) fn fail(&mut self, error: Error) {
        for frame in &mut self.frames {
            frame.forks.clear();
        }
        self.scopes.clear();
        self.n_open = 0;
        self.failed = Some(note_error(error));
    }

    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the frame of the function stays")
    }

    fn set_pending(&mut self, outcome: Outcome) {
        self.top().pending = Some(outcome);
    }

    /// Ends what goes on in this frame with an outcome that was found.
    pub(super) fn end_with(&mut self, outcome: Outcome) {
        self.set_pending(outcome);
    }

    /// Returns whether an exit was taken that the innermost block does not catch.
    pub fn is_leaving(&self) -> bool {
        self.failed.is_some() || self.frames.last().is_some_and(|frame| frame.pending.is_some())
    }

    /// Goes into a sub-graph.
    pub(super) fn enter(&mut self, region: &OpenRegion) {
        self.scopes.push(region.enter());
        self.n_open += 1;
    }

    /// Goes out of the innermost sub-graph.
    pub(super) fn leave_region(&mut self) {
        self.scopes.pop();
        self.n_open -= 1;
    }

    pub(super) fn push(&mut self, kind: FrameKind) {
        self.frames.push(Frame { kind, forks: Vec::new(), pending: None });
    }

    /// Ends the innermost frame, a side or a body, and the forks in it; returns how it ended. Fails if the
    /// values of two sides cannot be merged.
    pub(super) fn pop(&mut self, variables: &[Variable<'_>]) -> Result<Outcome> {
        let mut last = self.top().pending.take().unwrap_or_default();
        last.variables = values(variables)?;
        let outcome = self.close_forks(0, last)?;
        self.frames.pop();
        Ok(outcome)
    }

    /// Begins a fork: one side has left, the other one goes on.
    pub(super) fn fork(
        &mut self,
        predicate: Tensor,
        left_first: bool,
        left: Side,
        staying: OpenRegion,
        place: SourceLoc,
    ) {
        self.enter(&staying);
        self.top().forks.push(Fork { predicate, left_first, left, staying, place });
    }

    /// Begins a fork on exits that may have been taken, if there are any: where none was taken, the function
    /// goes on.
    pub(super) fn fork_on_exits(&mut self, outcome: Outcome, place: &SourceLoc) {
        let flags: Vec<Tensor> = outcome.exits.iter().filter_map(|(_, flag)| flag.clone()).collect();
        let Some(predicate) =
            flags.into_iter().reduce(|a, b| apply_as(logical_or::OP, false, [a.into(), b.into()]))
        else {
            return;
        };
        let left = Side { region: OpenRegion::new("then"), outcome: Outcome { leaves: true, ..outcome } };
        self.fork(predicate, true, left, OpenRegion::new("otherwise"), place.clone());
    }

    /// Closes the forks of the innermost frame down to the one with number `first`. `last` is how the side that
    /// went on has ended.
    fn close_forks(&mut self, first: usize, mut last: Outcome) -> Result<Outcome> {
        while self.top().forks.len() > first {
            let Some(fork) = self.top().forks.pop() else { break };
            self.leave_region();
            let asked: Vec<u32> = last.variables.iter().map(|(id, ..)| *id).collect();
            let staying = Side { region: fork.staying, outcome: last };
            let (then, otherwise) =
                if fork.left_first { (&fork.left, &staying) } else { (&staying, &fork.left) };
            last = merge(
                &fork.predicate,
                then,
                otherwise,
                None,
                &|id| asked.contains(&id),
                Merging { place: &fork.place, lists: self.lists, pushes: &self.pushes },
            )
            .map_err(|error| error.at(fork.place.clone()))?
            .0;
        }
        Ok(last)
    }

    /// Ends a round of the native loop `id`, or the loop itself: where a fork has taken an exit that `arrives`,
    /// the function is in one place again. Returns whether the loop goes on.
    pub(super) fn arrive(
        &mut self,
        id: u32,
        arrives: &[Exit],
        variables: &mut [Variable<'_>],
        place: &SourceLoc,
    ) -> Result<bool> {
        let pending = self.top().pending.take();
        let leaves = pending.is_some();
        let of_loop = [Exit::Break(id), Exit::Continue(id)];
        let asked: &[Exit] = if leaves { &of_loop } else { arrives };
        let first =
            self.top().forks.iter().position(|fork| fork.left.outcome.may(|exit| asked.contains(&exit)));
        let mut last = pending.unwrap_or_default();
        if let Some(first) = first {
            last.variables = values(variables)?;
            last = self.close_forks(first, last)?;
            set(variables, &last.variables)?;
        }
        for exit in arrives {
            last.arrive(*exit);
        }
        if last.leaves {
            let stops_here = matches!(last.exits[..], [(Exit::Break(other), None)] if other == id);
            if !stops_here {
                self.set_pending(last);
            }
            return Ok(false);
        }
        if !last.exits.is_empty() {
            last.variables = values(variables)?;
            self.fork_on_exits(last, place);
        }
        Ok(true)
    }

    /// Returns whether the round of the innermost frame, that of a native loop, may leave the loop for a
    /// symbol.
    pub(super) fn may_leave(&mut self, id: u32) -> bool {
        let leaves = |exit| exit != Exit::Continue(id);
        let top = self.top();
        // What the side that goes on does for sure, the round does where the other side has not left it.
        let is_open =
            |outcome: &Outcome| !top.forks.is_empty() || outcome.exits.iter().any(|(_, flag)| flag.is_some());
        top.forks.iter().any(|fork| fork.left.outcome.may(leaves))
            || top.pending.as_ref().is_some_and(|outcome| is_open(outcome) && outcome.may(leaves))
    }

    /// Forgets the forks and exits of the innermost frame.
    pub(super) fn discard_forks(&mut self) {
        for _ in 0..self.top().forks.len() {
            self.leave_region();
        }
        let top = self.top();
        top.pending = None;
        top.forks.clear();
    }

    /// Ends the frame of a native loop; its forks and exits are those of the frame around it.
    pub(super) fn pop_loop(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        let top = self.top();
        top.forks.extend(frame.forks);
        if frame.pending.is_some() {
            top.pending = frame.pending;
        }
    }

    /// Ends the frames of native loops that were left by a `break` or `continue` of Rust, down to the loop
    /// `id`.
    pub(super) fn unwind_to(&mut self, id: u32) {
        while let Some(FrameKind::Loop(other)) = self.frames.last().map(|frame| frame.kind)
            && other != id
        {
            self.pop_loop();
        }
    }
}

/// Returns the present values of variables. Fails if one is not a value.
pub(super) fn values(variables: &[Variable<'_>]) -> Result<Values> {
    variables.iter().map(|variable| Ok((variable.id, variable.name, variable.get()?))).collect()
}

/// Gives variables the values of their numbers.
pub(super) fn set(variables: &mut [Variable<'_>], values: &Values) -> Result<()> {
    for variable in variables {
        if let Some((.., value)) = values.iter().find(|(id, ..)| *id == variable.id) {
            variable.set(value)?;
        }
    }
    Ok(())
}
