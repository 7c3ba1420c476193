//! [`Locals`]: the tensors of a run of a segment.
//!
//! The list has each tensor, so it knows which ones somebody else has. A tensor that nobody else has serves a
//! later run at the same place: no memory is taken for it, and its type is mostly the same. One that got a value
//! does not, since the value would stay.

use std::sync::Arc;

use crate::lazy::{Lazy, Link};
use crate::{Array, Result, SourceLoc, Tensor, TensorType};

/// What a call of a function leaves to the next one on its thread.
#[derive(Default)]
pub(in super::super) struct Spare {
    /// The link of all tensors in the lists.
    pub(super) link: Arc<Link>,
    pub(super) lists: Vec<Locals>,
}

/// The tensors of a run of a segment, and the lines of its operations.
#[derive(Default)]
pub(in super::super) struct Locals {
    /// Those of this run, then those of runs before.
    tensors: Vec<Option<Arc<Lazy>>>,
    len: usize,
    /// Those of this run that no later run takes.
    spent: Vec<u32>,
    pub(in super::super) sources: Vec<SourceLoc>,
}

impl Locals {
    pub(in super::super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn reserve(&mut self, more: usize) {
        self.tensors.reserve((self.len + more).saturating_sub(self.tensors.len()));
        self.sources.reserve(more);
    }

    /// Returns a tensor of this run.
    pub(in super::super) fn get(&self, local: usize) -> &Arc<Lazy> {
        self.tensors[..self.len][local].as_ref().expect("a tensor stays as long as its run")
    }

    /// Returns whether somebody else has a tensor.
    pub(in super::super) fn is_held(&self, local: usize) -> bool {
        Arc::strong_count(self.get(local)) > 1
    }

    /// Returns the tensors that somebody else has, by number.
    pub(in super::super) fn held(&self) -> impl Iterator<Item = u32> {
        (0..self.len).filter(|local| self.is_held(*local)).map(|local| local as u32)
    }

    /// Adds the next tensor, which is to be of this run and type.
    #[inline]
    pub(super) fn add(&mut self, link: &Arc<Link>, run: u64, ty: &Arc<TensorType>) -> Tensor {
        if let Some(Some(tensor)) = self.tensors.get_mut(self.len)
            && tensor.renew(run, ty)
        {
            self.len += 1;
            return Tensor::from_lazy(tensor.clone());
        }
        let tensor = Arc::new(Lazy::pending(link.clone(), run, self.len as u32, ty.clone()));
        self.put(tensor.clone());
        Tensor::from_lazy(tensor)
    }

    /// Adds a tensor that no later run takes.
    pub(super) fn add_once(&mut self, tensor: Arc<Lazy>) {
        self.spent.push(self.len as u32);
        self.put(tensor);
    }

    fn put(&mut self, tensor: Arc<Lazy>) {
        match self.tensors.get_mut(self.len) {
            Some(place) => *place = Some(tensor),
            None => self.tensors.push(Some(tensor)),
        }
        self.len += 1;
    }

    /// Enters the value of a tensor, if somebody else has it.
    pub(in super::super) fn set(&mut self, local: usize, value: Result<Arc<Array>>) {
        if self.is_held(local) {
            self.get(local).set(value);
            self.spent.push(local as u32);
        }
    }

    /// Ends the run.
    pub(super) fn end(&mut self) {
        for local in self.spent.drain(..) {
            self.tensors[local as usize] = None;
        }
        self.len = 0;
        self.sources.clear();
    }
}
