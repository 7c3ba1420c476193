//! The end of a segment: what was applied is a known one, or becomes a new one, and runs.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::super::cache::{Cache, Entered, New};
use super::super::event::{Difference, Event, Identity};
use super::super::journal::{add, keep};
use super::super::miss::Missed;
use super::super::narrow::LeftOut;
use super::super::report::{Code, End, Place};
use super::super::segment::Segment;
use super::super::stance::Permission;
use super::{Mode, Session, State, match_log, next_run};
use crate::lazy::without_following;
use crate::{Error, Symbol};

impl Session {
    /// Runs the events since the last segment, and enters the values of all tensors that somebody has.
    pub(super) fn end_segment(&self, state: &mut State, place: Place) {
        let set_computing = |thread| *self.computing.lock().unwrap_or_else(PoisonError::into_inner) = thread;
        set_computing(Some(std::thread::current().id()));
        // The generator, the backend and what they call would wait for the lock of this call.
        without_following(|| self.end_events(state, place));
        set_computing(None);
        let bound = std::mem::take(&mut state.bound);
        if std::mem::take(&mut state.leaves_out)
            && let Some(segment) = state.last.clone()
        {
            // The list of a run whose results are gone is used again.
            if let Some(gone) = state.left_out.iter().position(|left_out| !left_out.is_wanted()) {
                let mut gone = state.left_out.swap_remove(gone);
                gone.locals.end();
                state.spare.push(gone.locals);
            }
            let locals = state.spare.pop().unwrap_or_default();
            let locals = std::mem::replace(&mut state.locals, locals);
            state.left_out.push(LeftOut { run: self.run(), segment, bound, locals });
        } else {
            state.locals.end();
        }
        state.random = None;
        self.run.store(next_run(), Ordering::Release);
    }

    fn end_events(&self, state: &mut State, place: Place) {
        let mode = std::mem::replace(&mut state.mode, Mode::Start);
        let found = match mode {
            Mode::Start => Found::Nothing,
            Mode::Following { segment, at } if at == segment.events.len() => Found::Kept(segment),
            Mode::Following { segment, at } => {
                let missed = segment.describe(at, Difference::Shorter, None);
                state.bound.leave(&segment);
                match state.log(&segment, at) {
                    Ok(log) => self.settle(state, log, Some(missed), &place),
                    Err(error) => Found::Refused(error),
                }
            }
            Mode::Recording { log, .. } if log.is_empty() => Found::Nothing,
            Mode::Recording { log, miss } => self.settle(state, log, miss, &place),
        };
        match &found {
            Found::Kept(_) | Found::Nothing => {}
            Found::Once(segment) => {
                state.run_events(segment);
                if let Some(recorder) = &mut state.recorder {
                    recorder.stop(Code::C09, "operations run one by one", place.at.clone());
                }
            }
            Found::Refused(error) => {
                state.fail(error);
                state.refused.get_or_insert_with(|| error.clone());
            }
        }
        if let Found::Kept(segment) = found {
            if matches!(place.end, End::Read(_)) {
                add(&state.cache.journal.counts().of_calls().reads, 1);
            }
            let place = Place {
                at: place.at.clone().or_else(|| state.locals.sources.last().cloned()),
                ..place.clone()
            };
            segment.note_end(&place, &state.cache.journal);
            match &state.last {
                Some(last) => keep(&last.next, segment.id),
                None => state.cache.set_first(segment.id),
            }
            segment.note_used(state.call);
            state.execute(&segment, self.run());
            state.last = Some(segment);
        }
    }

    /// Returns the segment of a log: a known one, or a new one.
    fn settle(&self, state: &mut State, log: Vec<Event>, miss: Option<Missed>, place: &Place) -> Found {
        let outside = std::mem::take(&mut state.bound).known();
        let fits = |other: &Arc<Segment>| {
            if other.events.len() != log.len() {
                return None;
            }
            match_log(other, &log, &outside).map(|bound| (other.clone(), bound))
        };
        if let Some((segment, bound)) = state.cache.segments().iter().find_map(fits) {
            state.bound = bound;
            return Found::Kept(segment);
        }
        state.is_hit = false;
        let place =
            Place { at: place.at.clone().or_else(|| state.locals.sources.last().cloned()), ..place.clone() };
        let names = state.argument_names.take();
        let arguments = self.arguments;
        let cache = state.cache.clone();
        let argument_names = &cache.argument_names[..];
        let name = |identity: Identity| match identity {
            (run, index) if run == arguments => {
                names.as_deref().unwrap_or(argument_names).get(index).cloned()
            }
            _ => None,
        };
        let (call, place) = (state.call, place);
        let is_quiet = state.recorder.is_some();
        if let Some(recorder) = &mut state.recorder
            && recorder.difference.is_none()
        {
            recorder.difference.clone_from(&miss);
        }
        let marks = std::mem::take(&mut state.marks);
        let mark = |identity: Identity, axis: usize| match identity {
            (run, index) if run == arguments => {
                marks.get(index)?.as_ref()?.shape.get(axis)?.as_symbol().cloned()
            }
            _ => None,
        };
        let has_marks = marks.iter().any(Option::is_some);
        let mark: Option<&dyn Fn(Identity, usize) -> Option<Symbol>> =
            if has_marks { Some(&mark) } else { None };
        let new = New { log, outside: &outside, miss, place, call, is_quiet, name: &name, mark };
        let entered = match state.permission {
            Permission::Compile => state.cache.enter(new),
            Permission::RunOnce => Cache::once(new),
            Permission::Fail => Entered::Refused(state.cache.no_code(&new)),
        };
        state.marks = marks;
        state.argument_names = names;
        match entered {
            Entered::Kept(segment, bound) => {
                state.bound = bound;
                Found::Kept(segment)
            }
            Entered::Once(segment, bound) => {
                state.bound = bound;
                Found::Once(segment)
            }
            Entered::Refused(error) => Found::Refused(error),
        }
    }
}

/// The segment of what a call applied.
enum Found {
    /// It applied nothing.
    Nothing,
    /// This one.
    Kept(Arc<Segment>),
    /// One that is used once: operations run one by one.
    Once(Arc<Segment>),
    /// None may be made.
    Refused(Error),
}
