//! [`PlanCache`]: the plans of a program, one for each set of input sizes, and the memory of their calls.
//!
//! A call finds its plan by a hash of the sizes, without a lock. When there are too many, one goes that was not
//! used lately; the memory of calls is shared by all, so that many sizes take no more of it than one. Each thread
//! keeps the memory of its last call at hand.

use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use arc_swap::{ArcSwap, Guard};
use fx_core::array::Sizes;
use fx_core::eval::Inputs;
use fx_core::{Arg, DType, Result, Tensor, Type, TypeTree};
use fx_simd::PerThread;
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
    entries: ArcSwap<Entries>,
    /// Held while the entries change.
    keeping: Mutex<()>,
    /// Those that can be bound to other sizes, the one that was made or used last at the end.
    variants: RwLock<Vec<Arc<Entry>>>,
    /// The workspace of the last call of each thread, with the number of its plan.
    at_hand: PerThread<Mutex<Option<Numbered>>>,
    spare: Mutex<Spare>,
}

/// Plans with the hashes of their sizes, the oldest first.
type Entries = Vec<(u64, Arc<Entry>)>;

/// A workspace with the number of its plan.
type Numbered = (u64, Box<Workspace>);

/// The memory of a call that lasts.
pub(super) struct Lent {
    pub(super) workspace: Box<Workspace>,
    /// Whether it is one of [`Spare::lent`].
    is_counted: bool,
}

/// Workspaces that no call has.
#[derive(Default)]
struct Spare {
    /// With the numbers of their plans, the one that was used last at the end.
    list: Vec<Numbered>,
    lent: usize,
    most_lent: usize,
}

impl PlanCache {
    /// Makes the plans of a program, some of whose inputs are integers that are no sizes.
    pub(super) fn of_changing(changing: Vec<bool>) -> PlanCache {
        PlanCache { changing, ..PlanCache::default() }
    }

    /// Returns the sizes of inputs.
    pub(super) fn key(&self, inputs: Inputs<'_>) -> Vec<Key> {
        let key = |i| if self.is_changing(i) { Key::Other } else { Key::of(inputs, i) };
        (0..inputs.len()).map(key).collect()
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

    /// Returns all plans, among which [`find`](Self::find) finds one.
    pub(super) fn entries(&self) -> Guard<Arc<Entries>> {
        self.entries.load()
    }

    /// Returns the plan for inputs of these sizes, if there is one.
    pub(super) fn find<'e>(&self, entries: &'e Entries, inputs: Inputs<'_>) -> Option<&'e Arc<Entry>> {
        let fits = |entry: &Entry| {
            let mut keys = entry.key.iter().enumerate();
            keys.all(|(i, key)| self.is_changing(i) || key.fits(inputs, i))
        };
        if let [(_, entry)] = &entries[..] {
            return fits(entry).then_some(entry);
        }
        let hash = self.hash_of(inputs);
        let (_, entry) = entries.iter().find(|(other, entry)| *other == hash && fits(entry))?;
        if !entry.is_used.load(Ordering::Relaxed) {
            entry.is_used.store(true, Ordering::Relaxed);
        }
        Some(entry)
    }

    /// Returns the number of the sizes of inputs.
    fn hash_of(&self, inputs: Inputs<'_>) -> u64 {
        let mut hasher = FxHasher::default();
        for i in 0..inputs.len() {
            if let Some(tensor) = inputs.tensor(i) {
                if let Ok(array) = tensor.array() {
                    Key::note(&mut hasher, array.dtype(), array.shape());
                }
            } else if let Some(n) = inputs.int(i)
                && !self.is_changing(i)
            {
                hasher.write_i64(n);
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
        let _keeping = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = Entries::clone(&self.entries.load());
        let mut gone = None;
        if entries.len() >= PLANS {
            let was_idle = |(_, entry): &(u64, Arc<Entry>)| !entry.is_used.swap(false, Ordering::Relaxed);
            let idle = entries.iter().position(was_idle).unwrap_or(0);
            gone = Some(entries.remove(idle));
        }
        entries.push((hash, entry.clone()));
        self.entries.store(Arc::new(entries));
        if let Some((_, gone)) = gone {
            for at_hand in self.at_hand.all() {
                let mut at_hand = lock(at_hand);
                if at_hand.as_ref().is_some_and(|(number, _)| *number == gone.number) {
                    *at_hand = None;
                }
            }
            lock(&self.spare).list.retain(|(number, _)| *number != gone.number);
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
        self.entries.load().iter().map(|(_, entry)| entry.clone()).collect()
    }

    /// Returns the bytes of the memory that is not lent.
    pub(super) fn spare_bytes(&self) -> usize {
        let mut bytes = 0;
        for at_hand in self.at_hand.all() {
            bytes += lock(at_hand).as_ref().map_or(0, |(_, workspace)| workspace.bytes());
        }
        bytes + lock(&self.spare).list.iter().map(|(_, workspace)| workspace.bytes()).sum::<usize>()
    }

    /// Lends the memory of a call.
    pub(super) fn lend(&self, entry: &Entry, ready: &Ready) -> Result<Lent> {
        let other = match lock(self.at_hand.own()).take() {
            Some((number, workspace)) if number == entry.number => {
                return Ok(Lent { workspace, is_counted: false });
            }
            other => other,
        };
        let block = {
            let mut spare = lock(&self.spare);
            spare.list.extend(other);
            spare.lent += 1;
            spare.most_lent = spare.most_lent.max(spare.lent);
            if let Some(at) = spare.list.iter().rposition(|(number, _)| *number == entry.number) {
                return Ok(Lent { workspace: spare.list.remove(at).1, is_counted: true });
            }
            match spare.list.len() + spare.lent > spare.limit() {
                true => spare.list.remove(0).1.block,
                false => Vec::new(),
            }
        };
        let workspace = ready.workspace(block).inspect_err(|_| lock(&self.spare).lent -= 1)?;
        Ok(Lent { workspace: Box::new(workspace), is_counted: true })
    }

    /// Takes the memory of a call back.
    pub(super) fn give_back(&self, entry: &Entry, lent: Lent) {
        let other = lock(self.at_hand.own()).replace((entry.number, lent.workspace));
        if other.is_none() && !lent.is_counted {
            return;
        }
        let mut spare = lock(&self.spare);
        spare.lent -= usize::from(lent.is_counted);
        spare.list.extend(other);
        let too_many = spare.list.len() > spare.limit();
        let gone = too_many.then(|| spare.list.remove(0));
        drop(spare);
        drop(gone);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spare {
    /// Returns how many workspaces there are at most.
    fn limit(&self) -> usize {
        SPARE.max(self.most_lent)
    }
}

impl Key {
    /// Returns the sizes of an input.
    fn of(inputs: Inputs<'_>, i: usize) -> Key {
        match (inputs.tensor(i).map(Tensor::array), inputs.int(i)) {
            (Some(Ok(array)), _) => Key::Tensor(array.dtype(), array.shape().into()),
            (_, Some(n)) => Key::Int(n),
            _ => Key::Other,
        }
    }

    fn fits(&self, inputs: Inputs<'_>, i: usize) -> bool {
        match (self, inputs.tensor(i)) {
            (Key::Tensor(dtype, shape), Some(tensor)) => {
                tensor.array().is_ok_and(|array| array.dtype() == *dtype && array.shape() == &shape[..])
            }
            (Key::Int(a), None) => inputs.int(i) == Some(*a),
            (Key::Other, None) => inputs.int(i).is_none(),
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
