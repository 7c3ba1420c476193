//! The operation that is expected: a call that follows a segment mostly applies its next event.
//!
//! Most of the time of a hit is spent here, so nothing is converted, and no tensor but the new one is counted.

use std::sync::Arc;

use super::super::event::{Comparison, Operand, View};
use super::{Mode, State};
use crate::lazy::Link;
use crate::{Arg, Given, Op, SourceLoc, Tensor};

/// The tensors of a run of a segment. Each other tensor has a value.
#[derive(Clone, Copy)]
pub(super) struct InRun(pub(super) u64);

impl View for InRun {
    type Leaf = Tensor;
    #[inline]
    fn operand<'l>(self, tensor: &'l Tensor) -> Operand<'l>
    where
        Self: 'l,
    {
        let identity = match tensor.as_lazy() {
            Some(lazy) if lazy.run() == self.0 => return Operand::Local(lazy.index()),
            Some(lazy) => Some((lazy.run(), lazy.index() as usize)),
            None => None,
        };
        match tensor.shared_array() {
            Some(array) => {
                Operand::Known(identity.unwrap_or((0, Arc::as_ptr(array).cast::<()>() as usize)), array)
            }
            // Such a tensor is refused before, or is not expected.
            None => Operand::Local(u32::MAX),
        }
    }
}

impl State {
    /// Applies an operation if it is the next event of the segment that is followed. Otherwise, nothing has
    /// happened.
    pub(super) fn apply_expected(
        &mut self,
        (link, run): (&Arc<Link>, u64),
        (op, method, args): (Op, bool, &[Given<'_>]),
        source: &SourceLoc,
    ) -> Option<Tensor> {
        let Mode::Following { segment, at } = &mut self.mode else { return None };
        let event = segment.events.get(*at)?;
        if event.op != op || op.effects.random || self.recorder.is_some() {
            return None;
        }
        let mark = self.bound.mark();
        let compared =
            Comparison::new(segment, &mut self.bound, InRun(run)).run_given(event, op, method, args);
        let seen = match (&event.seen, compared) {
            (Some(seen), Ok(())) => seen.find(&self.bound.symbols),
            (None, Ok(())) => None,
            (_, Err(_)) => {
                self.bound.return_to(mark);
                return None;
            }
        };
        let types = if event.seen.is_some() { seen.as_ref() } else { Some(&event.result) };
        let Some(Arg::Leaf(ty)) = types else {
            self.bound.return_to(mark);
            return None;
        };
        *at += 1;
        self.locals.sources.push(source.clone());
        Some(self.locals.add(link, run, ty))
    }
}
