//! [`PackedWeights`]: what kernels make of constants, once for all plans of a program: packed weights.
//!
//! While a plan is made, kernels are promised what they will need ([`Packed`]), and the work is noted
//! ([`Job`]). It is done when the plan is complete, constant after constant: then it is known which of them
//! nobody reads as they are, and these can be freed one by one.

use std::any::{Any, TypeId};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use fx_core::array::{Sizes, Strides};
use fx_core::{Array, Result, Tensor};
use rustc_hash::FxHashMap;

use super::operand::Operand;

/// Something made of a constant, which is there when the [jobs](Job) of the plan are done.
pub(crate) struct Packed<P>(Arc<OnceLock<P>>);

impl<P> Clone for Packed<P> {
    fn clone(&self) -> Self {
        Packed(self.0.clone())
    }
}

impl<P> Deref for Packed<P> {
    type Target = P;

    fn deref(&self) -> &P {
        self.0.get().expect("the jobs of a plan are done before it runs")
    }
}

/// Something that is to be made of a constant.
pub(crate) struct Job {
    constant: Tensor,
    make: Box<dyn FnOnce(Array) -> Result<()> + Send + Sync>,
}

impl Job {
    /// Does it, in the memory of the constant if nobody else has it.
    pub(crate) fn run(self) -> Result<()> {
        (self.make)(self.constant.into_array()?)
    }
}

/// What plans have.
#[derive(Default)]
pub(crate) struct PackedWeights {
    packs: Mutex<FxHashMap<Key, Known>>,
    /// The bytes of what was packed when the constants were let go.
    closed: usize,
}

/// Which part of a constant is packed, as what and in which way.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    address: usize,
    offset: usize,
    shape: Sizes,
    strides: Strides,
    packing: usize,
    made: TypeId,
}

struct Known {
    made: Weak<dyn Any + Send + Sync>,
    /// What it is made of, so that nothing else comes to lie at its address.
    of: Tensor,
}

impl PackedWeights {
    /// Promises what `pack` makes of the array of a constant, of which a window is packed; `packing` tells
    /// ways to do that apart. Plans share it.
    pub(crate) fn promise<P: Any + Send + Sync>(
        &self,
        constant: &Tensor,
        window: &Operand,
        packing: usize,
        jobs: &mut Vec<Job>,
        pack: impl FnOnce(Array) -> Result<P> + Send + Sync + 'static,
    ) -> Result<Packed<P>> {
        let key = Key {
            address: super::run::address(constant.array()?) as usize,
            offset: window.offset,
            shape: window.shape.clone(),
            strides: window.strides.clone(),
            packing,
            made: TypeId::of::<P>(),
        };
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = packs.get(&key).and_then(|known| known.made.upgrade()?.downcast().ok());
        let made = known.unwrap_or_else(|| {
            packs.retain(|_, known| known.made.strong_count() > 0);
            let made = Arc::new(OnceLock::<P>::new());
            let weak: Weak<OnceLock<P>> = Arc::downgrade(&made);
            packs.insert(key, Known { made: weak, of: constant.clone() });
            made
        });
        // Another thread may have been promised the same, and not have made it yet.
        if made.get().is_none() {
            let promised = Arc::downgrade(&made);
            let make = move |constant: Array| {
                // A kernel that did not come about needs nothing.
                if let Some(made) = promised.upgrade().filter(|made| made.get().is_none()) {
                    let _ = made.set(pack(constant)?);
                }
                Ok(())
            };
            jobs.push(Job { constant: constant.clone(), make: Box::new(make) });
        }
        Ok(Packed(made))
    }

    /// Lets go of the constants: no other plan will be made.
    pub(crate) fn close(&mut self) {
        self.closed += self.bytes();
        self.packs.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns about how many bytes are packed: as many as the parts of the constants have.
    pub(crate) fn bytes(&self) -> usize {
        let packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = packs.iter().filter(|(_, known)| known.made.strong_count() > 0);
        let size = |(key, known): (&Key, &Known)| {
            let item = known.of.array().map_or(0, |array| array.dtype().size());
            key.shape.iter().product::<usize>() * item
        };
        alive.map(size).sum::<usize>() + self.closed
    }
}
