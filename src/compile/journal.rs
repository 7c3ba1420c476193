//! [`Journal`]: what happened in the calls of a compiled function. Counts are taken without a lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fx_simd::PerThread;

use super::report::{Break, Code, Counters, Miss};
use super::tell::{self, Teller, Told};
use crate::SourceLoc;

/// What happened so far: all counts, the last misses, and each break once.
pub(super) struct Journal {
    teller: Teller,
    counts: Counts,
    entries: Mutex<Entries>,
}

/// Counts, as [`Counters`] says.
#[derive(Default)]
pub(super) struct Counts {
    of_calls: PerThread<CallCounts>,
    misses: AtomicU64,
    pub(super) compiled: AtomicU64,
    pub(super) loaded: AtomicU64,
    pub(super) narrowed: AtomicU64,
}

/// What each call counts.
#[derive(Default)]
pub(super) struct CallCounts {
    /// Calls that were followed.
    pub(super) followed: AtomicU64,
    /// Calls that were followed and ran compiled code only.
    pub(super) hits: AtomicU64,
    /// Calls that a path could serve.
    pub(super) served: AtomicU64,
    /// Those of them that were followed nevertheless, or left the path.
    pub(super) unserved: AtomicU64,
    pub(super) runs: AtomicU64,
    pub(super) reads: AtomicU64,
}

impl Counts {
    /// Returns the counts of this thread's calls.
    pub(super) fn of_calls(&self) -> &CallCounts {
        self.of_calls.own()
    }
}

/// Returns the sum of a count of all threads.
pub(super) fn sum<T>(all: &PerThread<T>, count: impl Fn(&T) -> &AtomicU64) -> u64 {
    all.all().map(|one| count(one).load(Ordering::Relaxed)).sum()
}

#[derive(Default)]
struct Entries {
    misses: VecDeque<Miss>,
    breaks: Vec<Entry>,
}

struct Entry {
    code: Code,
    what: Arc<str>,
    at: Option<SourceLoc>,
    count: Arc<AtomicU64>,
}

/// Adds to a count.
pub(super) fn add(count: &AtomicU64, n: u64) {
    count.fetch_add(n, Ordering::Relaxed);
}

/// Sets a number that is mostly the same: then no other thread has to fetch it again.
pub(super) fn keep(number: &AtomicU64, now: u64) {
    if number.load(Ordering::Relaxed) != now {
        number.store(now, Ordering::Relaxed);
    }
}

impl Journal {
    const MOST_MISSES: usize = 256;
    const MOST_BREAKS: usize = 256;

    pub(super) fn new(function: &str, place: &SourceLoc) -> Journal {
        Journal { teller: Teller::new(function, place), counts: Counts::default(), entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns how many calls a path served.
    pub(super) fn replayed(&self) -> u64 {
        let of_calls = &self.counts.of_calls;
        let unserved = sum(of_calls, |counts| &counts.unserved);
        sum(of_calls, |counts| &counts.served).saturating_sub(unserved)
    }

    /// Returns the counts.
    pub(super) fn counters(&self) -> Counters {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { of_calls, misses, compiled, loaded, narrowed } = &self.counts;
        let replayed = self.replayed();
        Counters {
            calls: sum(of_calls, |counts| &counts.followed) + replayed,
            hits: sum(of_calls, |counts| &counts.hits) + replayed,
            misses: of(misses),
            compiled: of(compiled),
            loaded: of(loaded),
            narrowed: of(narrowed),
            runs: sum(of_calls, |counts| &counts.runs),
            reads: sum(of_calls, |counts| &counts.reads),
        }
    }

    /// Tells an event.
    pub(super) fn tell(&self, told: Told<'_>) {
        self.teller.tell(told);
    }

    pub(super) fn miss(&self, miss: Miss) {
        add(&self.counts.misses, 1);
        self.tell(Told::Miss(&miss));
        let mut entries = self.entries();
        if entries.misses.len() == Journal::MOST_MISSES {
            entries.misses.pop_front();
        }
        entries.misses.push_back(miss);
    }

    /// Counts a break, and returns the count; each place is listed once.
    pub(super) fn note(&self, code: Code, what: &str, at: Option<SourceLoc>) -> Arc<AtomicU64> {
        let mut entries = self.entries();
        let is_same = |other: &&Entry| other.code == code && *other.what == *what && other.at == at;
        if let Some(known) = entries.breaks.iter().find(is_same) {
            add(&known.count, 1);
            return known.count.clone();
        }
        let count = Arc::new(AtomicU64::new(1));
        if entries.breaks.len() < Journal::MOST_BREAKS {
            let entry = Entry { code, what: what.into(), at: at.clone(), count: count.clone() };
            entries.breaks.push(entry);
            drop(entries);
            let found = Break { code, what: what.to_owned(), at, count: 1 };
            self.tell(Told::Break(tell::Broken::new(&found)));
        }
        count
    }

    pub(super) fn misses(&self) -> Vec<Miss> {
        self.entries().misses.iter().cloned().collect()
    }

    pub(super) fn breaks(&self) -> Vec<Break> {
        let entries = self.entries();
        let each = entries.breaks.iter().map(|entry| Break {
            code: entry.code,
            what: entry.what.to_string(),
            at: entry.at.clone(),
            count: entry.count.load(Ordering::Relaxed),
        });
        each.collect()
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        let Counts { of_calls, misses, compiled, loaded, narrowed } = &self.counts;
        let of_calls = of_calls.all().flat_map(|counts| {
            let CallCounts { followed, hits, served, unserved, runs, reads } = counts;
            [followed, hits, served, unserved, runs, reads]
        });
        of_calls
            .chain([misses, compiled, loaded, narrowed])
            .for_each(|count| count.store(0, Ordering::Relaxed));
        *self.entries() = Entries::default();
    }
}
