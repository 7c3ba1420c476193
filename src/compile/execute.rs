//! The run of a segment: its program, or its operations one by one where there is none or it fails.

use std::sync::Arc;

use smallvec::SmallVec;

use super::build::replay;
use super::event::{Bound, Event};
use super::journal::add;
use super::narrow::Observed;
use super::replay::Results;
use super::segment::{Made, Prepared, Segment, Slot};
use super::session::{Locals, State};
use crate::eval::Inputs;
use crate::rng::{Generator, with_generator};
use crate::{Arg, Error, Scalar, Tensor, Value, err};

impl State {
    /// Enters an error as the value of every tensor of the present run.
    pub(super) fn fail(&mut self, error: &Error) {
        fail(&mut self.locals, error);
    }

    /// Runs a segment whose operands are bound, as the run with this number.
    pub(super) fn execute(&mut self, segment: &Arc<Segment>, run: u64) {
        let mut wanted: SmallVec<[u32; 8]> = self.locals.held().collect();
        // What somebody has is a step of a path, also if the program leaves all of it out.
        let is_step = !wanted.is_empty() && self.recorder.is_some();
        let may_narrow = self.may_narrow && !segment.is_random();
        if may_narrow && let Some(dropped) = &*segment.narrowing.dropped() {
            let n = wanted.len();
            wanted.retain(|local| dropped.binary_search(local).is_err());
            self.leaves_out = wanted.len() < n;
        }
        if may_narrow && segment.narrowing.begin(&self.cache) {
            let result = |local: &u32| (*local, self.locals.get(*local as usize).clone());
            let results = wanted.iter().map(result).collect();
            self.observed.push(Observed { segment: segment.clone(), results });
        }
        if wanted.is_empty() && !is_step && !segment.is_random() {
            if let Some(recorder) = &mut self.recorder {
                recorder.skipped();
            }
            return;
        }
        let generator = self.random.take();
        let done = match &generator {
            Some(generator) => {
                with_generator(generator, || self.run_program(segment, &wanted, Some(generator)))
            }
            None => self.run_program(segment, &wanted, None),
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.ran(segment, &self.bound, run, done);
        }
    }

    /// Runs the program of a segment, or its operations. Returns the program and its results, if it ran well.
    fn run_program(
        &mut self,
        segment: &Arc<Segment>,
        wanted: &[u32],
        generator: Option<&Generator>,
    ) -> Option<(Arc<Prepared>, Results)> {
        let (prepared, made) = segment.prepare(wanted, &**self.cache.backend(), &self.cache.constants());
        let is_new = made != Made::Before;
        if is_new {
            self.is_hit = false;
            self.cache.note_compiled(segment, &prepared, made, self.locals.sources.first());
        }
        if let Some(recorder) = &mut self.recorder
            && let Some(results) = recorder.ahead(segment, &self.bound, &prepared)
            && self.enter(&prepared.outputs, &results)
        {
            return Some((prepared, results));
        }
        let saved = generator.cloned();
        let started = segment.begin_run();
        let mut results = Results::new();
        let ran = match &prepared.program {
            Ok(program) => segment.inputs(&self.bound).and_then(|inputs| {
                program.call_with(Inputs::Values(&inputs), &mut |value| results.push(value))
            }),
            Err(error) => Err(error.clone()),
        };
        let is_right = ran.is_ok() && self.enter(&prepared.outputs, &results);
        segment.end_run(started);
        add(&self.cache.journal.counts().of_calls().runs, 1);
        if is_new {
            self.cache.tell_compiled(segment);
            self.cache.keep_limit(segment);
        }
        if is_right {
            return Some((prepared, results));
        }
        if let (Some(generator), Some(saved)) = (generator, &saved) {
            generator.restore(saved);
        }
        let is_clean = self.run_events(segment);
        // An error of the program that the operations do not have is one of the backend.
        if is_clean && prepared.program.is_ok() {
            let error = ran.err().unwrap_or_else(|| {
                err!(Check, "the backend {} returned results of other types", self.cache.backend().name())
            });
            self.cache.note_failed(segment, &error);
        }
        None
    }

    /// Enters the results of a program. Returns `false`, and enters nothing, if they have other types.
    fn enter(&mut self, outputs: &[u32], results: &[Value]) -> bool {
        let array = |value: &'_ Value| value.leaf().and_then(Tensor::shared_array).cloned();
        let fits = |(local, value): (&u32, &Value)| {
            if !self.locals.is_held(*local as usize) {
                return true;
            }
            let ty = self.locals.get(*local as usize).ty();
            value.leaf().and_then(Tensor::shared_array).is_some_and(|array| {
                array.dtype() == ty.dtype
                    && array.rank() == ty.rank()
                    && ty.shape.iter().zip(array.shape()).all(|(dim, n)| dim.known() == Some(*n as i64))
            })
        };
        if results.len() != outputs.len() || !outputs.iter().zip(results).all(fits) {
            return false;
        }
        for (local, value) in outputs.iter().zip(results) {
            if let Some(array) = array(value) {
                self.locals.set(*local as usize, Ok(array));
            }
        }
        true
    }

    /// Runs the events of a segment one by one. Returns whether none failed.
    pub(super) fn run_events(&mut self, segment: &Segment) -> bool {
        run_events(segment, &self.bound, &mut self.locals)
    }
}

/// Runs the events of a segment one by one, as eager code does, and enters their results. Returns whether none
/// failed.
pub(super) fn run_events(segment: &Segment, bound: &Bound, locals: &mut Locals) -> bool {
    let outside: Vec<Tensor> =
        bound.arrays(segment).map(|array| Tensor::from_shared(array.clone())).collect();
    let number = |literal: u32| {
        let number = match segment.slot(literal)? {
            Slot::Size(size) => Scalar::Int(segment.value_of(size, bound)?),
            Slot::Number { .. } => bound.number(literal)?,
        };
        Some(match number {
            Scalar::Bool(x) => Arg::Bool(x),
            Scalar::Int(x) => Arg::Int(x),
            Scalar::Float(x) => Arg::Float(x),
        })
    };
    let events: Vec<Event> = segment
        .events
        .iter()
        .zip(&locals.sources)
        .map(|(event, source)| Event { source: source.clone(), ..event.clone() })
        .collect();
    let mut is_clean = true;
    let values = replay(&events, &outside, &number, &mut |_, result| {
        Ok(result.unwrap_or_else(|error| {
            is_clean = false;
            Arg::Leaf(Tensor::failed(error))
        }))
    });
    let values = match values {
        Ok(values) => values,
        Err(error) => {
            fail(locals, &error);
            return false;
        }
    };
    for (local, value) in values.into_iter().enumerate().take(locals.len()) {
        let no_value = || err!(Trace, "an operation gave no value");
        let array = value.shared_array().cloned();
        locals.set(local, array.ok_or_else(|| value.error().cloned().unwrap_or_else(no_value)));
    }
    is_clean
}

fn fail(locals: &mut Locals, error: &Error) {
    for local in 0..locals.len() {
        locals.set(local, Err(error.clone()));
    }
}
