//! Operations that are no events: they run by themselves, or compute numbers of the host.

use std::sync::MutexGuard;

use super::{Session, State, known_type, next_run, refusal};
use crate::compile::event::{acts, infer_tree};
use crate::compile::replay::Recorder;
use crate::lazy::{Call, without_following};
use crate::{Arg, Result, Tensor, Type, TypeTree, Value, ops};

impl State {
    /// Applies an operation between numbers, or one that tells a size. No segment ends for it. `None` for all
    /// others.
    pub(super) fn number(&mut self, call: &Call<'_>) -> Option<Result<Value>> {
        let mut all = call.args.iter().chain(call.kwargs.iter().map(|(_, arg)| arg));
        let is_size = call.op == ops::size::OP;
        let acts = || call.op.effects.random || acts(call.op, call.args, call.kwargs);
        if !is_size && (all.any(has_tensor) || acts()) {
            return None;
        }
        let inferred = match &self.recorder {
            Some(recorder) => recorder.infer(call)?,
            None => {
                let mut type_of = |tensor: &Tensor| known_type(tensor).map(TypeTree::from);
                infer_tree(call.op, call.args, call.kwargs, &mut type_of)?
            }
        };
        match (sizes(&inferred, &self.recorder), &self.recorder) {
            (Some(sizes), _) => Some(Ok(sizes)),
            (None, _) if is_size || inferred.leaves().iter().any(|ty| matches!(ty, Type::Tensor(_))) => None,
            (None, None) => Some(without_following(|| {
                crate::trace::apply_at(call.op, call.method, call.args, call.kwargs, call.source.clone())
            })),
            (None, Some(recorder)) => {
                let (args, kwargs) = recorder.pinned(call);
                Some(without_following(|| {
                    crate::trace::apply_at(call.op, call.method, &args, &kwargs, call.source.clone())
                }))
            }
        }
    }
}

impl Session {
    /// Runs an operation by itself, after the operations before it.
    pub(super) fn run_alone(&self, state: MutexGuard<'_, State>, call: &Call<'_>) -> Result<Value> {
        drop(state);
        // What the program before left out is wanted now.
        self.settle_foreign(call)?;
        let mut state = self.lock();
        let Some(recorder) = &mut state.recorder else {
            drop(state);
            return without_following(|| {
                crate::trace::apply_at(call.op, call.method, call.args, call.kwargs, call.source.clone())
            });
        };
        let (args, kwargs) = recorder.known_sizes_of(call);
        // A kernel's use of a tensor is no read by Rust code.
        let settle = |arg: &Value| {
            arg.map(&mut |tensor: &Tensor| {
                tensor
                    .shared_array()
                    .map_or_else(|| tensor.clone(), |array| Tensor::from_shared(array.clone()))
            })
        };
        let args: Vec<Value> = args.iter().map(settle).collect();
        let kwargs: Vec<(&str, Value)> = kwargs.iter().map(|(key, arg)| (*key, settle(arg))).collect();
        let ahead = recorder.ahead_of(call);
        drop(state);
        let value = match ahead {
            Some(value) => value,
            None => without_following(|| {
                crate::trace::apply_at(call.op, call.method, &args, &kwargs, call.source.clone())
            })?,
        };
        let mut state = self.lock();
        Ok(match &mut state.recorder {
            Some(recorder) => recorder.ran_alone(call, value, next_run(), &self.link),
            None => value,
        })
    }

    /// Runs an operation that cannot be in a graph, in a function that must be one. Fails with the error that
    /// it has, or as a read does.
    pub(super) fn refuse_operation(&self, call: &Call<'_>) -> Result<Value> {
        let refused = refusal(call.op.name, Some(call.source.clone()));
        let types =
            call.args.iter().all(|arg| arg.leaves().iter().all(|tensor| tensor.shared_array().is_some()));
        if types {
            without_following(|| {
                crate::trace::apply_at(call.op, call.method, call.args, call.kwargs, call.source.clone())
            })?;
        }
        self.lock().refused.get_or_insert_with(|| refused.clone());
        Err(refused)
    }
}

fn has_tensor(arg: &Value) -> bool {
    let mut found = false;
    arg.for_each_leaf(&mut |_: &Tensor| found = true);
    found
}

/// Returns a result that is made of sizes. `None` if another one is among them, or if one is not known.
fn sizes(inferred: &TypeTree, recorder: &Option<Recorder>) -> Option<Value> {
    let mut is_known = true;
    let sizes = inferred.try_rewrite(&mut |arg: &TypeTree| {
        let size = match (arg, recorder) {
            (Arg::Dim(size), Some(recorder)) => recorder.seen_size(size),
            (Arg::Dim(size), None) => size.known().map(Arg::Int),
            (Arg::Leaf(_) | Arg::Failed(_), _) => None,
            _ => return Ok(None),
        };
        is_known &= size.is_some();
        Ok(Some(size.unwrap_or(Arg::None)))
    });
    sizes.ok().filter(|_| is_known)
}
