//! Narrowing: results that variables hold where a segment ends, but that nobody uses, are no longer computed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwapOption, Guard};

use super::cache::Cache;
use super::event::Bound;
use super::execute::run_events;
use super::segment::{Made, Segment};
use super::session::Locals;
use crate::lazy::Lazy;

/// Which results of a segment are used.
#[derive(Default)]
pub(super) struct Narrowing {
    /// So many runs are being observed, or were.
    begun: AtomicU32,
    seen: Mutex<Seen>,
    is_settled: AtomicBool,
    /// The results that no program computes, in order.
    dropped: ArcSwapOption<Vec<u32>>,
}

#[derive(Default)]
struct Seen {
    runs: u32,
    /// The results that were held and never used.
    unused: Vec<u32>,
    used: Vec<u32>,
}

/// A run that is observed. Its results stay until the call ends.
pub(super) struct Observed {
    pub(super) segment: Arc<Segment>,
    pub(super) results: Vec<(u32, Arc<Lazy>)>,
}

impl Observed {
    /// Notes what the call used, after it ended well. A path does not follow the Rust code again before long, so
    /// that its program is made at once.
    pub(super) fn note(self, cache: &Cache) {
        let is_used = |lazy: &Arc<Lazy>| lazy.was_read() || Arc::strong_count(lazy) > 1;
        let results = self.results.iter().map(|(local, lazy)| (*local, is_used(lazy)));
        let narrows = self.segment.narrowing.note(results, cache);
        if narrows && cache.replay.is_some() {
            let (prepared, made) = self.segment.prepare(&[], &**cache.backend(), &cache.constants());
            if made != Made::Before {
                cache.note_compiled(&self.segment, &prepared, made, None);
                cache.tell_compiled(&self.segment);
            }
        }
    }

    /// Forgets the run of a call that failed.
    pub(super) fn forget(self) {
        self.segment.narrowing.begun.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Narrowing {
    /// Returns how many runs tell which results are used: all that are followed at first, of a pure function.
    fn runs(cache: &Cache) -> u32 {
        if cache.replay.is_some() { 2 } else { 8 }
    }

    /// Returns whether the run that is about to be is to be observed.
    pub(super) fn begin(&self, cache: &Cache) -> bool {
        let most = Self::runs(cache);
        !self.is_settled.load(Ordering::Relaxed)
            && self
                .begun
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < most).then_some(n + 1))
                .is_ok()
    }

    /// Notes which results a run used. Returns whether some are dropped from now on.
    fn note(&self, results: impl Iterator<Item = (u32, bool)>, cache: &Cache) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (local, is_used) in results {
            let list = if is_used { &mut seen.used } else { &mut seen.unused };
            if !list.contains(&local) {
                list.push(local);
            }
        }
        seen.runs += 1;
        let mut narrows = false;
        if seen.runs == Self::runs(cache) {
            let Seen { unused, used, .. } = std::mem::take(&mut *seen);
            let mut dropped: Vec<u32> = unused.into_iter().filter(|local| !used.contains(local)).collect();
            dropped.sort_unstable();
            // A step of a path has a program.
            narrows = !dropped.is_empty() && (cache.replay.is_none() || !used.is_empty());
            if narrows {
                self.dropped.store(Some(Arc::new(dropped)));
            }
            self.is_settled.store(true, Ordering::Relaxed);
        }
        narrows
    }

    /// Returns the results that no program computes.
    pub(super) fn dropped(&self) -> Guard<Option<Arc<Vec<u32>>>> {
        self.dropped.load()
    }

    /// Lets programs compute a result that is wanted after all.
    fn keep(&self, local: u32) {
        self.dropped.rcu(|dropped| {
            let rest: Vec<u32> =
                dropped.iter().flat_map(|all| all.iter().copied()).filter(|x| *x != local).collect();
            (!rest.is_empty()).then(|| Arc::new(rest))
        });
    }
}

/// What computes the results of a run that its program left out.
pub(super) struct LeftOut {
    pub(super) run: u64,
    pub(super) segment: Arc<Segment>,
    pub(super) bound: Bound,
    pub(super) locals: Locals,
}

impl LeftOut {
    /// Returns whether somebody has a result without its value.
    pub(super) fn is_wanted(&self) -> bool {
        self.missing().next().is_some()
    }

    fn missing(&self) -> impl Iterator<Item = u32> {
        self.locals.held().filter(|local| self.locals.get(*local as usize).known().is_none())
    }

    /// Computes every result that somebody has, operation by operation. Programs compute those from now on that
    /// `is_needed` names.
    pub(super) fn compute(&mut self, is_needed: impl Fn(u32) -> bool) {
        self.missing().filter(|local| is_needed(*local)).for_each(|local| self.segment.narrowing.keep(local));
        run_events(&self.segment, &self.bound, &mut self.locals);
    }
}
