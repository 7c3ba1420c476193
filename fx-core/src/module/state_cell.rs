//! [`StateCell`]: state that is no single tensor, such as a counter, a list of tensors or nothing yet.

use std::sync::{Arc, PoisonError, RwLock};

use super::ties;
use crate::{Result, Tensor, TypeTree, Value};

/// A value that a call of a graph module may update, with the type that it always has.
///
/// A graph reads it by `get_attr`, as it was when the call began, and updates it by
/// [`set_state`](crate::ops::set_state()); the update is stored when the call has succeeded, as that of a
/// [`Buffer`](crate::Buffer).
#[derive(Debug)]
pub struct StateCell {
    cell: Arc<RwLock<Value>>,
    ty: Arc<TypeTree>,
}

impl StateCell {
    /// Makes state of the type of its first value. Fails if the value holds an error, or a tensor that has no
    /// type yet.
    pub fn new(value: impl Into<Value>) -> Result<StateCell> {
        let value = value.into();
        let ty = value.try_flat_map(&mut |tensor: &Tensor| tensor.type_tree())?.general();
        Ok(StateCell::with_type(value, ty))
    }

    /// Makes state of a type, such as `optional(f32[n, 64])` for what is nothing at first.
    pub fn with_type(value: impl Into<Value>, ty: TypeTree) -> StateCell {
        StateCell { cell: Arc::new(RwLock::new(value.into())), ty: Arc::new(ty) }
    }

    /// Returns the stored value.
    pub fn load(&self) -> Value {
        self.cell.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores a value.
    pub fn store(&self, value: Value) {
        *self.cell.write().unwrap_or_else(PoisonError::into_inner) = value;
    }

    /// Returns the type of all values.
    pub fn ty(&self) -> &TypeTree {
        &self.ty
    }

    /// Returns another handle of the same cell.
    pub(crate) fn share(&self) -> StateCell {
        StateCell { cell: self.cell.clone(), ty: self.ty.clone() }
    }

    /// Identifies the state while it lives: cells with the same address are one, whatever their paths.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.cell).cast::<()>() as usize
    }
}

/// An independent copy of the present value. In a copy of a whole graph module, cells that are one stay one.
impl Clone for StateCell {
    fn clone(&self) -> Self {
        let cell = ties::state_of_clone(&self.cell);
        StateCell { cell: cell.unwrap_or_else(|| Arc::new(RwLock::new(self.load()))), ty: self.ty.clone() }
    }
}
