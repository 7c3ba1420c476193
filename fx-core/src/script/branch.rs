//! [`Branch`]: one `if` of a scripted function.

use super::condition::{Condition, Test};
use super::flow::{Flow, FrameKind, Outcome, Values, set, values};
use super::merge::{Merging, Side, merge};
use super::variable::Variable;
use crate::trace::OpenRegion;
use crate::{Result, SourceLoc, Tensor, Tree, Value, err};

/// An `if`. The macro calls its methods in order: [`then`](Self::then), [`between`](Self::between),
/// [`otherwise`](Self::otherwise), and the `join` of the two values.
pub struct Branch {
    state: State,
    place: SourceLoc,
}

enum State {
    Native(bool),
    Traced(Box<Traced>),
    Failed,
}

struct Traced {
    predicate: Tensor,
    before: Values,
    then: Option<Side>,
    otherwise: Option<OpenRegion>,
}

impl Flow {
    /// Begins an `if`.
    #[track_caller]
    pub fn branch(&mut self, condition: impl Test) -> Branch {
        let place = SourceLoc::caller();
        let state = match condition.test() {
            Condition::Known(holds) => State::Native(holds),
            Condition::Traced(predicate) => State::Traced(Box::new(Traced {
                predicate,
                before: Values::new(),
                then: None,
                otherwise: None,
            })),
            Condition::Failed(error) => {
                self.fail(error.at(place.clone()));
                State::Failed
            }
        };
        Branch { state, place }
    }
}

impl Branch {
    fn attempt<T: Default>(
        &mut self,
        flow: &mut Flow,
        run: impl FnOnce(&mut Flow, &mut Traced) -> Result<T>,
    ) -> T {
        let State::Traced(traced) = &mut self.state else { return T::default() };
        if flow.has_failed() {
            return T::default();
        }
        run(flow, traced).unwrap_or_else(|error| {
            flow.fail(error.at(self.place.clone()));
            self.state = State::Failed;
            T::default()
        })
    }

    /// Returns whether the side for which the condition holds runs, and begins it.
    pub fn then(&mut self, flow: &mut Flow, variables: &mut [Variable<'_>]) -> bool {
        if let State::Native(holds) = self.state {
            return holds;
        }
        self.attempt(flow, |flow, traced| {
            traced.before = values(variables)?;
            let region = OpenRegion::new("then");
            flow.enter(&region);
            flow.push(FrameKind::Side);
            traced.then = Some(Side { region, outcome: Outcome::default() });
            Ok(true)
        })
    }

    /// Ends the first side.
    pub fn between(&mut self, flow: &mut Flow, variables: &mut [Variable<'_>]) {
        self.attempt(flow, |flow, traced| {
            let outcome = flow.pop(variables)?;
            flow.leave_region();
            if let Some(then) = &mut traced.then {
                then.outcome = outcome;
            }
            set(variables, &traced.before)
        });
    }

    /// Returns whether the other side runs, and begins it.
    pub fn otherwise(&mut self, flow: &mut Flow) -> bool {
        if let State::Native(holds) = self.state {
            return !holds;
        }
        self.attempt(flow, |flow, traced| {
            let region = OpenRegion::new("otherwise");
            flow.enter(&region);
            flow.push(FrameKind::Side);
            traced.otherwise = Some(region);
            Ok(true)
        })
    }

    /// Ends the second side. Returns which of the values is that of the `if`; none if the function leaves here.
    fn join<T>(
        &mut self,
        flow: &mut Flow,
        variables: &mut [Variable<'_>],
        (then, otherwise): (Option<T>, Option<T>),
        merge_values: impl FnOnce(&T, &T) -> Result<(Value, Value)>,
        read: impl FnOnce(&Value) -> Result<T>,
    ) -> Option<T> {
        if let State::Native(holds) = self.state {
            return if holds { then } else { otherwise };
        }
        let place = self.place.clone();
        self.attempt(flow, |flow, traced| {
            let outcome = flow.pop(variables)?;
            flow.leave_region();
            let (Some(first), Some(region)) = (traced.then.take(), traced.otherwise.take()) else {
                return Ok(None);
            };
            let second = Side { region, outcome };
            let predicate = traced.predicate.clone();
            if first.outcome.leaves != second.outcome.leaves {
                let left_first = first.outcome.leaves;
                let (left, mut staying, value) =
                    if left_first { (first, second, otherwise) } else { (second, first, then) };
                set(variables, &staying.outcome.variables)?;
                let outcome = std::mem::take(&mut staying.outcome);
                flow.fork(predicate, left_first, left, staying.region, place.clone());
                flow.fork_on_exits(outcome, &place);
                return Ok(value);
            }
            let pair = match (&then, &otherwise) {
                (Some(then), Some(otherwise)) => Some(merge_values(then, otherwise)?),
                _ => None,
            };
            let pair = pair.as_ref().map(|(a, b)| (a, b));
            let merging = Merging { place: &place, lists: flow.lists, pushes: &flow.pushes };
            let (merged, value) = merge(&predicate, &first, &second, pair, &|_| true, merging)?;
            set(variables, &merged.variables)?;
            if merged.leaves {
                flow.end_with(merged);
                return Ok(None);
            }
            flow.fork_on_exits(merged, &place);
            value.as_ref().map(read).transpose()
        })
    }
}

/// The values of the sides that ran, by whose type the compiler chooses between [`PairOfTrees`] and
/// [`PairOfAny`].
pub struct Pair<T> {
    /// The value of the first side.
    pub then: Option<T>,
    /// The value of the second side.
    pub otherwise: Option<T>,
}

impl<T> Pair<T> {
    /// Returns the pair before a side has run.
    #[allow(clippy::new_without_default, reason = "only the macro calls it")]
    pub fn new() -> Pair<T> {
        Pair { then: None, otherwise: None }
    }

    fn take(&mut self) -> (Option<T>, Option<T>) {
        (self.then.take(), self.otherwise.take())
    }
}

/// Values that a symbol can stand for.
pub trait PairOfTrees<T> {
    /// Ends an `if`. Returns its value; none if the function leaves here.
    fn join(&mut self, branch: &mut Branch, flow: &mut Flow, variables: &mut [Variable<'_>]) -> Option<T>;
}

impl<T: Tree> PairOfTrees<T> for Pair<T> {
    fn join(&mut self, branch: &mut Branch, flow: &mut Flow, variables: &mut [Variable<'_>]) -> Option<T> {
        let values = |a: &T, b: &T| Ok((a.to_value(), b.to_value()));
        branch.join(flow, variables, self.take(), values, T::from_value)
    }
}

/// Values of any other type: only a condition that is known chooses between them.
pub trait PairOfAny<T> {
    /// Ends an `if`. Returns its value; none if the function leaves here.
    fn join(&mut self, branch: &mut Branch, flow: &mut Flow, variables: &mut [Variable<'_>]) -> Option<T>;
}

impl<T> PairOfAny<T> for &mut Pair<T> {
    fn join(&mut self, branch: &mut Branch, flow: &mut Flow, variables: &mut [Variable<'_>]) -> Option<T> {
        let opaque = || {
            let name = std::any::type_name::<T>();
            err!(Trace, "an `if` on a tensor cannot choose between values of the type {name}")
                .help("give tensors or structures of tensors that own their data; clone what is borrowed")
        };
        let values = self.take();
        branch.join(flow, variables, values, |_, _| Err(opaque()), |_| Err(opaque()))
    }
}
