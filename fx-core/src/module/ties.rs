//! Copies that keep ties.
//!
//! The identity of state is the cell of its [`Buffer`]: modules share state if their buffers share cells, whether
//! they are one module at several paths or copies that were split for writing. A clone of a single buffer is
//! independent. [`Ties::keep`] makes a copy of many buffers, such as those of a graph module: buffers that share a
//! cell share one in the copy. [`sharing_state`] makes a copy with the same cells, for writing to parameters.

use std::cell::RefCell;
use std::sync::{Arc, RwLock};

use rustc_hash::FxHashMap;

use super::Forward;
use crate::{Tensor, Value};

type Cell<T = Tensor> = Arc<RwLock<T>>;
type Child = Arc<dyn Forward>;

/// The cells and shared modules that were copied, by address, each kept alive with its copy.
#[derive(Clone, Default)]
pub(crate) struct Ties {
    cells: FxHashMap<usize, (Cell, Cell)>,
    states: Copies<Value>,
    modules: FxHashMap<usize, (Child, Child)>,
}

/// What a clone of a buffer becomes.
enum Mode {
    Copy(Ties),
    Share,
}

thread_local! {
    static MODE: RefCell<Option<Mode>> = const { RefCell::new(None) };
}

/// Puts the mode of before back when dropped.
struct Restore(Option<Mode>);

impl Drop for Restore {
    fn drop(&mut self) {
        MODE.set(self.0.take());
    }
}

impl Ties {
    /// Runs `copy`, in which clones of buffers that have one cell have one cell, also with those of earlier calls.
    /// Where state is shared, it stays shared.
    pub(crate) fn keep<T>(&mut self, copy: impl FnOnce() -> T) -> T {
        if MODE.with_borrow(|mode| matches!(mode, Some(Mode::Share))) {
            return copy();
        }
        let _restore = Restore(MODE.replace(Some(Mode::Copy(std::mem::take(self)))));
        let result = copy();
        if let Some(Mode::Copy(ties)) = MODE.take() {
            *self = ties;
        }
        result
    }
}

/// Runs `copy` inside the copy that is being made, or as one of its own.
pub(crate) fn keeping_ties<T>(copy: impl FnOnce() -> T) -> T {
    match MODE.with_borrow(Option::is_some) {
        true => copy(),
        false => Ties::default().keep(copy),
    }
}

/// Runs `copy`, in which clones of buffers are handles of the same cells.
pub(crate) fn sharing_state<T>(copy: impl FnOnce() -> T) -> T {
    let _restore = Restore(MODE.replace(Some(Mode::Share)));
    copy()
}

/// Returns the cell of a clone, if a copy of many buffers is being made.
pub(super) fn cell_of_clone(cell: &Cell) -> Option<Cell> {
    of_clone(cell, |ties| &mut ties.cells)
}

/// Returns the cell of a clone of state, if a copy of many is being made.
pub(super) fn state_of_clone(cell: &Cell<Value>) -> Option<Cell<Value>> {
    of_clone(cell, |ties| &mut ties.states)
}

/// The cells that were copied, by address, each with its copy.
type Copies<T> = FxHashMap<usize, (Cell<T>, Cell<T>)>;

fn of_clone<T: Clone>(cell: &Cell<T>, copies: fn(&mut Ties) -> &mut Copies<T>) -> Option<Cell<T>> {
    MODE.with_borrow_mut(|mode| match mode {
        None => None,
        Some(Mode::Share) => Some(cell.clone()),
        Some(Mode::Copy(ties)) => {
            let copy = || {
                let value = cell.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
                (cell.clone(), Arc::new(RwLock::new(value)))
            };
            let address = Arc::as_ptr(cell).cast::<()>() as usize;
            Some(copies(ties).entry(address).or_insert_with(copy).1.clone())
        }
    })
}

/// Returns a copy of a module that several paths may share; within one copy of many they share it, too.
pub(crate) fn copy_shared(module: &Arc<dyn Forward>) -> Arc<dyn Forward> {
    let address = Arc::as_ptr(module).cast::<()>() as usize;
    let known = MODE.with_borrow(|mode| match mode {
        Some(Mode::Copy(ties)) => ties.modules.get(&address).map(|(_, copy)| copy.clone()),
        _ => None,
    });
    if let Some(copy) = known {
        return copy;
    }
    let copy: Arc<dyn Forward> = Arc::from(dyn_clone::clone_box(&**module));
    MODE.with_borrow_mut(|mode| {
        if let Some(Mode::Copy(ties)) = mode {
            ties.modules.insert(address, (module.clone(), copy.clone()));
        }
    });
    copy
}
