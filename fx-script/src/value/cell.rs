//! [`Cell`]: the mutable part of a value, which a failed call puts back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::transaction::{self, Undo};

/// The bytes that the content of a cell holds beside itself.
pub trait Footprint {
    /// Returns the number of bytes.
    fn bytes(&self) -> usize;
}

impl<T> Footprint for Vec<T> {
    fn bytes(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}

/// Content that several values share and change.
///
/// A closure that reads or edits must not use the same cell again.
#[derive(Debug)]
pub struct Cell<T: Footprint>(Mutex<Content<T>>);

#[derive(Debug)]
struct Content<T: Footprint> {
    value: T,
    /// The call that made the content or has saved it.
    call: u64,
    bytes: usize,
}

impl<T: Footprint> Drop for Content<T> {
    fn drop(&mut self) {
        transaction::shrink(self.bytes);
    }
}

impl<T: Footprint> Cell<T> {
    /// Makes a cell.
    pub fn new(value: T) -> Self {
        let bytes = value.bytes();
        transaction::grow(bytes);
        Cell(Mutex::new(Content { value, call: transaction::call(), bytes }))
    }

    fn lock(&self) -> MutexGuard<'_, Content<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the content.
    pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.lock().value)
    }
}

impl<T: Footprint + Clone + 'static> Cell<T> {
    /// Changes the content; the old one comes back if the call in progress fails.
    pub fn edit<R>(self: &Arc<Self>, f: impl FnOnce(&mut T) -> R) -> R {
        let mut content = self.lock();
        let call = transaction::call();
        if content.call != call && call != 0 {
            transaction::record(Box::new(Saved { cell: Arc::clone(self), value: content.value.clone() }));
            content.call = call;
        }
        let result = f(&mut content.value);
        let bytes = content.value.bytes();
        if bytes != content.bytes {
            transaction::grow(bytes);
            transaction::shrink(content.bytes);
            content.bytes = bytes;
        }
        result
    }
}

struct Saved<T: Footprint> {
    cell: Arc<Cell<T>>,
    value: T,
}

impl<T: Footprint> Undo for Saved<T> {
    fn undo(self: Box<Self>) {
        let mut content = self.cell.lock();
        transaction::shrink(content.bytes);
        content.bytes = self.value.bytes();
        transaction::grow(content.bytes);
        content.value = self.value;
        content.call = 0;
    }
}
