//! Transactions: a call that fails leaves everything as it was; and the memory that values hold.
//!
//! A [`Cell`](super::Cell) that is changed for the first time in a call leaves a copy of its old content in the
//! journal. The content made within the call needs none. Both journal and count belong to the thread of the call.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use fx_core::{Result, bail};

/// Something that can be put back as it was.
pub(super) trait Undo {
    /// Puts the old content back.
    fn undo(self: Box<Self>);
}

thread_local! {
    static CALL: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static LIMIT: Cell<i64> = const { Cell::new(i64::MAX) };
    static JOURNAL: RefCell<Vec<Box<dyn Undo>>> = const { RefCell::new(Vec::new()) };
}

/// Numbers of calls, never used twice.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A call in progress; dropping it undoes its changes.
#[derive(Debug)]
pub struct Transaction {
    outer: u64,
    outer_limit: i64,
    journal_at: usize,
}

/// Begins a call, whose values may hold `memory` bytes more than there are now.
pub fn begin(memory: u64) -> Transaction {
    let limit = LIVE.get().saturating_add(i64::try_from(memory).unwrap_or(i64::MAX));
    Transaction {
        outer: CALL.replace(NEXT.fetch_add(1, Ordering::Relaxed)),
        outer_limit: LIMIT.replace(limit),
        journal_at: JOURNAL.with_borrow(Vec::len),
    }
}

impl Transaction {
    /// Keeps the changes.
    pub fn commit(self) {
        if self.outer == 0 {
            let journal = JOURNAL.with_borrow_mut(|journal| journal.split_off(self.journal_at));
            drop(journal);
        }
        self.close();
        std::mem::forget(self);
    }

    fn close(&self) {
        CALL.set(self.outer);
        LIMIT.set(self.outer_limit);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let journal = JOURNAL.with_borrow_mut(|journal| journal.split_off(self.journal_at));
        for entry in journal.into_iter().rev() {
            entry.undo();
        }
        self.close();
    }
}

/// Returns the number of the call in progress, 0 outside of calls.
pub(super) fn call() -> u64 {
    CALL.get()
}

pub(super) fn record(entry: Box<dyn Undo>) {
    JOURNAL.with_borrow_mut(|journal| journal.push(entry));
}

pub(super) fn grow(bytes: usize) {
    LIVE.set(LIVE.get().wrapping_add(bytes as i64));
}

pub(super) fn shrink(bytes: usize) {
    // A value may end while the thread does.
    let _ = LIVE.try_with(|live| live.set(live.get().wrapping_sub(bytes as i64)));
}

/// Checks that values may hold `bytes` more. Fails if the limit of the call does not allow it.
pub fn charge(bytes: u128) -> Result<()> {
    let free = i128::from(LIMIT.get()) - i128::from(LIVE.get());
    if i128::try_from(bytes).is_ok_and(|bytes| bytes <= free.max(0)) {
        return Ok(());
    }
    refuse(bytes, free)
}

#[cold]
fn refuse(bytes: u128, free: i128) -> Result<()> {
    let free = free.max(0);
    let error =
        fx_core::err!(Limit, "a value needs {bytes} bytes more, and the limit of memory leaves {free}");
    Err(error.help("raise `Limits::memory` if the program is trusted"))
}

/// Checks that the values of the call are within its limit. Fails if they are not.
pub fn check() -> Result<()> {
    if LIVE.get() > LIMIT.get() {
        bail!(Limit, "the values of the program need more memory than its limit allows");
    }
    Ok(())
}
