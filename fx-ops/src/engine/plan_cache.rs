//! [`PlanCache`]: the plans of a program, one for each set of input sizes, and the memory of their calls.
//!
//! A call finds its plan by a hash of the sizes. When there are too many, one goes that was not used lately;
//! the memory of calls is shared by all, so that many sizes take no more of it than one.

use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use fx_core::array::Sizes;
use fx_core::{Arg, DType, Result, Type, TypeTree, Value};
use rustc_hash::FxHasher;

use super::run::{Ready, Workspace};

/// The most plans that are kept.
const PLANS: usize = 64;

/// The most plans that are kept to be bound to other sizes.
const VARIANTS: usize = 16;

/// The most workspaces that are kept, unless more calls than that run at the same time.
const SPARE: usize = 16;

/// The sizes that a plan is for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Key {
    Tensor(DType, Sizes),
    Int(i64),
    Other,
}

/// What was found out for inputs of some sizes.
pub(super) struct Entry {
    number: u64,
    key: Vec<Key>,
    /// The plan, or why there is none: then the program is called operation by operation.
    pub(super) ready: Result<Ready>,
    /// Whether it was used since somebody looked for one that was not.
    is_used: AtomicBool,
}

/// The plans of a program.
#[derive(Default)]
pub(super) struct PlanCache {
    /// Which inputs are integers that are no sizes, so that a plan serves all of them; empty for none.
    changing: Vec<bool>,
    /// With the hashes of their sizes, the oldest first.
    entries: RwLock<Vec<(u64, Arc<Entry>)>>,
    /// Those that can be bound to other sizes, the one that was made or used last at the end.
    variants: RwLock<Vec<Arc<Entry>>>,
    spare: Mutex<Spare>,
}

/// Workspaces that no call has.
#[derive(Default)]
struct Spare {
    /// With the numbers of their plans, the one that was used last at the end.
    list: Vec<(u64, Workspace)>,
    lent: usize,
    most_lent: usize,
}

impl PlanCache {
    /// Makes the plans of a program, some of whose inputs are integers that are no sizes.
    pub(super) fn of_changing(changing: Vec<bool>) -> PlanCache {
        PlanCache { changing, ..PlanCache::default() }
    }

    /// Returns the sizes of inputs.
    pub(super) fn key(&self, inputs: &[Value]) -> Vec<Key> {
        let key = |(i, input)| if self.is_changing(i) { Key::Other } else { Key::of(input) };
        inputs.iter().enumerate().map(key).collect()
    }

    /// Returns the sizes of an input of this type, if all values of the type have the same ones.
    pub(super) fn only_key(&self, input: usize, ty: &TypeTree) -> Option<Key> {
        match ty {
            Arg::Leaf(Type::Tensor(ty)) => {
                Some(Key::Tensor(ty.dtype, ty.shape.known()?.iter().copied().collect()))
            }
            Arg::Leaf(Type::Int) if self.is_changing(input) => Some(Key::Other),
            Arg::Leaf(Type::Bool | Type::Float | Type::Str) => Some(Key::Other),
            _ => None,
        }
    }

    fn is_changing(&self, input: usize) -> bool {
        self.changing.get(input).is_some_and(|changing| *changing)
    }

    /// Returns the plan for inputs of these sizes, if there is one.
    pub(super) fn find(&self, inputs: &[Value]) -> Option<Arc<Entry>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let fits = |entry: &Entry| {
            let mut pairs = entry.key.iter().zip(inputs).enumerate();
            pairs.all(|(i, (key, input))| self.is_changing(i) || key.fits(input))
        };
        if let [(_, entry)] = &entries[..] {
            return fits(entry).then(|| entry.clone());
        }
        let hash = self.hash_of(inputs);
        let (_, entry) = entries.iter().find(|(other, entry)| *other == hash && fits(entry))?;
        if !entry.is_used.load(Ordering::Relaxed) {
            entry.is_used.store(true, Ordering::Relaxed);
        }
        Some(entry.clone())
    }

    /// Returns the number of the sizes of inputs.
    fn hash_of(&self, inputs: &[Value]) -> u64 {
        let mut hasher = FxHasher::default();
        for (i, input) in inputs.iter().enumerate() {
            match input {
                Arg::Leaf(tensor) => {
                    if let Ok(array) = tensor.array() {
                        Key::note(&mut hasher, array.dtype(), array.shape());
                    }
                }
                Arg::Int(n) if !self.is_changing(i) => hasher.write_i64(*n),
                _ => {}
            }
        }
        hasher.finish()
    }

    /// Binds one of the plans to inputs of these sizes.
    pub(super) fn bind(&self, key: &[Key]) -> Option<Ready> {
        let variants = self.variants.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (variant, ready) = variants.iter().rev().find_map(|variant| {
            let Ok(Ready { gm, plan, routines }) = &variant.ready else { return None };
            // What is wrong with these sizes, if anything is, planning says.
            let plan = plan.bind(key).ok().flatten()?;
            Some((variant, Ready { gm: gm.clone(), plan, routines: routines.clone() }))
        })?;
        if variants.last().is_some_and(|last| last.number != variant.number) {
            let mut variants = self.variants.write().unwrap_or_else(PoisonError::into_inner);
            let at = variants.iter().position(|other| other.number == variant.number);
            if let Some(used) = at.map(|at| variants.remove(at)) {
                variants.push(used);
            }
        }
        Some(ready)
    }

    /// Keeps a plan for inputs of these sizes.
    pub(super) fn keep(&self, key: Vec<Key>, ready: Result<Ready>) -> Arc<Entry> {
        let hash = Key::hash(&key);
        let entry = self.offer(key, ready);
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let mut gone = None;
        if entries.len() >= PLANS {
            let was_idle = |(_, entry): &(u64, Arc<Entry>)| !entry.is_used.swap(false, Ordering::Relaxed);
            let idle = entries.iter().position(was_idle).unwrap_or(0);
            gone = Some(entries.remove(idle));
        }
        entries.push((hash, entry.clone()));
        drop(entries);
        if let Some((_, gone)) = gone {
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            spare.list.retain(|(number, _)| *number != gone.number);
        }
        entry
    }

    /// Lets a plan for inputs of these sizes be bound to others, if it can be.
    pub(super) fn offer(&self, key: Vec<Key>, ready: Result<Ready>) -> Arc<Entry> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let entry = Arc::new(Entry { number, key, ready, is_used: AtomicBool::new(true) });
        if entry.ready.as_ref().is_ok_and(|ready| ready.plan.is_recorded()) {
            let mut variants = self.variants.write().unwrap_or_else(PoisonError::into_inner);
            if variants.len() >= VARIANTS {
                variants.remove(0);
            }
            variants.push(entry.clone());
        }
        entry
    }

    /// Returns all plans.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().map(|(_, entry)| entry.clone()).collect()
    }

    /// Returns the bytes of the memory that is not lent.
    pub(super) fn spare_bytes(&self) -> usize {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.list.iter().map(|(_, workspace)| workspace.bytes()).sum()
    }

    /// Lends the memory of a call.
    pub(super) fn lend(&self, entry: &Entry, ready: &Ready) -> Result<Workspace> {
        let block = {
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            spare.lent += 1;
            spare.most_lent = spare.most_lent.max(spare.lent);
            if let Some(at) = spare.list.iter().rposition(|(number, _)| *number == entry.number) {
                return Ok(spare.list.remove(at).1);
            }
            match spare.list.len() + spare.lent > spare.limit() {
                true => spare.list.remove(0).1.block,
                false => Vec::new(),
            }
        };
        ready.workspace(block).inspect_err(|_| {
            self.spare.lock().unwrap_or_else(PoisonError::into_inner).lent -= 1;
        })
    }

    /// Takes the memory of a call back.
    pub(super) fn give_back(&self, entry: &Entry, workspace: Workspace) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.lent -= 1;
        spare.list.push((entry.number, workspace));
        let too_many = spare.list.len() > spare.limit();
        let gone = too_many.then(|| spare.list.remove(0));
        drop(spare);
        drop(gone);
    }
}

impl Spare {
    /// Returns how many workspaces there are at most.
    fn limit(&self) -> usize {
        SPARE.max(self.most_lent)
    }
}

impl Key {
    pub(super) fn of(input: &Value) -> Key {
        match input {
            Arg::Leaf(tensor) => match tensor.array() {
                Ok(array) => Key::Tensor(array.dtype(), array.shape().into()),
                Err(_) => Key::Other,
            },
            Arg::Int(n) => Key::Int(*n),
            _ => Key::Other,
        }
    }

    fn fits(&self, input: &Value) -> bool {
        match (self, input) {
            (Key::Tensor(dtype, shape), Arg::Leaf(tensor)) => {
                tensor.array().is_ok_and(|array| array.dtype() == *dtype && array.shape() == &shape[..])
            }
            (Key::Int(a), Arg::Int(b)) => a == b,
            (Key::Other, Arg::Leaf(_) | Arg::Int(_)) => false,
            (Key::Other, _) => true,
            _ => false,
        }
    }

    /// Returns a number that differs for most other sizes.
    fn hash(keys: &[Key]) -> u64 {
        let mut hasher = FxHasher::default();
        for key in keys {
            match key {
                Key::Tensor(dtype, shape) => Key::note(&mut hasher, *dtype, shape),
                Key::Int(n) => hasher.write_i64(*n),
                Key::Other => {}
            }
        }
        hasher.finish()
    }

    fn note(hasher: &mut FxHasher, dtype: DType, shape: &[usize]) {
        shape.iter().for_each(|&size| hasher.write_usize(size));
        hasher.write_u8(dtype as u8);
    }
}
