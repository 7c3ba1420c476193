//! Parallel loops whose threads stay awake for a moment, so that the next loop starts at once.
//!
//! The threads are those of the current rayon pool, and as many as it has. The thread that calls takes part;
//! the others are asked for help by [`rayon::spawn`], and look out for further loops for `AWAKE` before they
//! return to the pool. The tasks are dealt out in runs of neighbours, the same to each thread in each loop of
//! the same size, which keeps caches warm; a thread that finishes early takes tasks from others.
//!
//! Invariant: a loop never waits for help that has not begun. The thread that calls would do all tasks
//! itself, so loops may be nested and called from any thread, and their results do not depend on the helpers.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::affinity;

/// How long a thread looks out for the next loop. Waking one up takes about a tenth of this.
const AWAKE: Duration = Duration::from_micros(100);

/// Calls `f` for every number below `n`, in parallel.
#[inline]
pub fn each(n: usize, f: impl Fn(usize) + Sync) {
    run(n, &|next| {
        while let Some(i) = next() {
            f(i);
        }
    });
}

/// As [`each`]; if there are tasks for all threads, the loops in them stay on the thread of their task.
///
/// This is for small tasks: asking for help costs more than it gains if all threads are busy.
pub fn each_whole(n: usize, f: impl Fn(usize) + Sync) {
    if n < threads() {
        return each(n, f);
    }
    each_with(n, || Limit::new(1), |_, i| f(i));
}

/// Calls `f`, whose loops have at most so many threads, this one included; no more than the pool has, and not
/// less than one.
///
/// Results do not depend on it. Threads that `f` starts itself are not limited.
pub fn with_threads<R>(n: usize, f: impl FnOnce() -> R) -> R {
    let _limit = Limit::new(n.max(1).min(MOST.get()));
    f()
}

/// Returns how many threads a loop of this thread has.
pub fn threads() -> usize {
    match MOST.get() {
        1 => 1,
        most => rayon::current_num_threads().min(most),
    }
}

thread_local! {
    /// The most threads that a loop of this thread has.
    static MOST: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Bounds the threads of loops of this thread.
struct Limit {
    before: usize,
}

impl Limit {
    fn new(most: usize) -> Limit {
        Limit { before: MOST.replace(most) }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        MOST.set(self.before);
    }
}

/// Calls `f` for every number below `n`, in parallel; each thread makes itself a scratch value first.
#[inline]
pub fn each_with<S>(n: usize, scratch: impl Fn() -> S + Sync, f: impl Fn(&mut S, usize) + Sync) {
    run(n, &|next| {
        let mut scratch = scratch();
        while let Some(i) = next() {
            f(&mut scratch, i);
        }
    });
}

/// Calls `f` with the number of each chunk of `width` elements and the chunk, in parallel; a task has
/// `at_once` chunks.
///
/// The last chunk may be shorter. If there are no more than `at_once`, all stays on this thread.
#[inline]
pub fn chunks<T: Send>(items: &mut [T], width: usize, at_once: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let tasks = Chunks::new(items, width, at_once);
    each(tasks.pieces.n, |task| {
        // SAFETY: each task is taken once.
        for (i, chunk) in unsafe { tasks.get(task) } {
            f(i, chunk);
        }
    });
}

/// As [`chunks`]; each thread makes itself a scratch value first.
#[inline]
pub fn chunks_with<T: Send, S>(
    items: &mut [T],
    width: usize,
    at_once: usize,
    scratch: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, usize, &mut [T]) + Sync,
) {
    let tasks = Chunks::new(items, width, at_once);
    each_with(tasks.pieces.n, scratch, |scratch, task| {
        // SAFETY: each task is taken once.
        for (i, chunk) in unsafe { tasks.get(task) } {
            f(scratch, i, chunk);
        }
    });
}

/// A slice in chunks, of which each task has some.
struct Chunks<T> {
    pieces: Pieces<T>,
    width: usize,
    at_once: usize,
}

impl<T> Chunks<T> {
    fn new(items: &mut [T], width: usize, at_once: usize) -> Chunks<T> {
        let (width, at_once) = (width.max(1), at_once.max(1));
        Chunks { pieces: Pieces::new(items, width.saturating_mul(at_once)), width, at_once }
    }

    /// Returns the chunks of a task with their numbers.
    ///
    /// # Safety
    ///
    /// The slice is still borrowed, and every task is asked for once.
    unsafe fn get(&self, task: usize) -> impl Iterator<Item = (usize, &mut [T])> {
        // SAFETY: the caller's promise.
        let piece = unsafe { self.pieces.get(task) };
        (task * self.at_once..).zip(piece.chunks_mut(self.width))
    }
}

/// Calls `f` for each tile of the matrices of `n` rows of `inner` elements that lie one after the other: with
/// the number of the matrix, the first column, and these at most `width` columns. A task has `at_once` tiles;
/// if there are no more, all stays on this thread.
///
/// # Panics
///
/// When the last matrix is not whole.
pub fn tiles<T: Send>(
    items: &mut [T],
    [n, inner]: [usize; 2],
    width: usize,
    at_once: usize,
    f: impl Fn(usize, usize, Tile<'_, T>) + Sync,
) {
    let (width, at_once) = (width.max(1), at_once.max(1));
    let n_matrices = items.len().checked_div(n * inner).unwrap_or(0);
    assert_eq!(n_matrices * n * inner, items.len(), "matrices are whole");
    let all = Pieces::new(items, inner.max(1));
    let n_wide = inner.div_ceil(width);
    let run = |i: usize| {
        let (matrix, first) = (i / n_wide, i % n_wide * width);
        let tile =
            Tile { all: &all, rows: matrix * n..(matrix + 1) * n, columns: first..inner.min(first + width) };
        f(matrix, first, tile);
    };
    let n_tiles = n_matrices * n_wide;
    each(n_tiles.div_ceil(at_once), |task| {
        for i in task * at_once..((task + 1) * at_once).min(n_tiles) {
            run(i);
        }
    });
}

/// Some columns of a matrix.
pub struct Tile<'a, T> {
    all: &'a Pieces<T>,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl<T> Tile<'_, T> {
    /// Returns the elements of a row.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    pub fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows.len(), "a row of the tile");
        // SAFETY: the tile lies within the slice. No other tile has these elements, and this one lends one
        // row at a time.
        unsafe {
            let start = self.all.start.add((self.rows.start + i) * self.all.step + self.columns.start);
            std::slice::from_raw_parts_mut(start, self.columns.len())
        }
    }
}

/// As [`chunks`], for two slices that have equally many chunks.
///
/// # Panics
///
/// When the numbers of chunks differ.
pub fn chunk_pairs<T: Send, U: Send>(
    (a, a_width): (&mut [T], usize),
    (b, b_width): (&mut [U], usize),
    at_once: usize,
    f: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let (a_width, b_width, at_once) = (a_width.max(1), b_width.max(1), at_once.max(1));
    assert_eq!(a.len().div_ceil(a_width), b.len().div_ceil(b_width), "two slices have equally many chunks");
    let a = Pieces::new(a, a_width.saturating_mul(at_once));
    let b = Pieces::new(b, b_width.saturating_mul(at_once));
    each(a.n, |task| {
        // SAFETY: each task is taken once.
        let (a, b) = unsafe { (a.get(task), b.get(task)) };
        let pairs = a.chunks_mut(a_width).zip(b.chunks_mut(b_width));
        for (i, (a, b)) in pairs.enumerate() {
            f(task * at_once + i, a, b);
        }
    });
}

/// Calls `f` with each item, in parallel.
pub fn items<T: Send>(items: Vec<T>, f: impl Fn(usize, T) + Sync) {
    items_with(items, || (), |(), i, item| f(i, item));
}

/// As [`items`]; each thread makes itself a scratch value first.
pub fn items_with<T: Send, S>(
    items: Vec<T>,
    scratch: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, usize, T) + Sync,
) {
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    chunks_with(&mut items, 1, 1, scratch, |scratch, i, item| {
        if let Some(item) = item[0].take() {
            f(scratch, i, item);
        }
    });
}

/// The most parts that a stage may have.
pub const STAGE_PARTS: usize = u64::BITS as usize;

/// Calls `f` with every stage below `n_stages` and, for each, every part below `n_parts`, in parallel: no
/// part begins before those of the stage before it are done.
///
/// This takes much less time than a loop for each stage. A thread does the same part in each, unless another
/// has time for it.
///
/// # Panics
///
/// When there are more parts than [`STAGE_PARTS`].
pub fn stages(n_stages: usize, n_parts: usize, f: impl Fn(usize, usize) + Sync) {
    assert!(n_parts <= STAGE_PARTS, "a stage has up to {STAGE_PARTS} parts");
    let threads = threads().min(n_parts);
    if threads <= 1 || n_stages == 0 {
        (0..n_stages).for_each(|stage| (0..n_parts).for_each(|part| f(stage, part)));
        return;
    }
    let stages = Stages {
        n_stages,
        n_parts,
        stage: AtomicUsize::new(0),
        taken: AtomicU64::new(0),
        done: AtomicUsize::new(0),
    };
    // A task is to take part: who does so alone does all the parts.
    run_on(threads, threads, &|next| {
        while let Some(own) = next() {
            stages.take_part(own, &f);
        }
    });
}

/// Stages that threads work on.
struct Stages {
    n_stages: usize,
    n_parts: usize,
    /// The stage that is being done.
    stage: AtomicUsize,
    /// A bit for each of its parts that a thread has taken.
    taken: AtomicU64,
    /// How many of them are done.
    done: AtomicUsize,
}

impl Stages {
    /// Works on parts until all stages are done.
    ///
    /// A thread waits only for parts that others have taken, which wait for nothing.
    fn take_part(&self, own: usize, f: &(dyn Fn(usize, usize) + Sync)) {
        let on_panic = GiveUp(self);
        let (mut spins, mut mine) = (0, 0);
        while self.stage.load(Ordering::Acquire) < self.n_stages {
            let Some(part) = self.take(own) else {
                mine = 0;
                pause(&mut spins);
                continue;
            };
            // The stage stays the same as long as a part of it was taken and is not done.
            let stage = self.stage.load(Ordering::Acquire);
            if stage >= self.n_stages {
                break;
            }
            f(stage, part);
            (spins, mine) = (0, mine + 1);
            if self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.n_parts {
                self.done.store(0, Ordering::Relaxed);
                self.stage.store(stage + 1, Ordering::Release);
                if stage + 1 < self.n_stages {
                    self.taken.store(0, Ordering::Release);
                }
                if mine >= self.n_parts {
                    // All that help may be on this very core, waiting for their turn to move away.
                    std::thread::yield_now();
                }
                mine = 0;
            }
        }
        std::mem::forget(on_panic);
    }

    /// Takes a part of this stage, the own one if nobody has it.
    fn take(&self, own: usize) -> Option<usize> {
        (own..self.n_parts).chain(0..own).find(|part| {
            let bit = 1 << part;
            let is_free = |taken: u64| taken & bit == 0;
            is_free(self.taken.load(Ordering::Relaxed))
                && is_free(self.taken.fetch_or(bit, Ordering::Acquire))
        })
    }
}

/// Ends the stages when a part panics, since nobody can go on without it.
struct GiveUp<'a>(&'a Stages);

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        self.0.stage.store(usize::MAX, Ordering::Release);
    }
}

/// A slice in pieces that different threads have.
struct Pieces<T> {
    start: *mut T,
    len: usize,
    step: usize,
    n: usize,
}

impl<T> Pieces<T> {
    fn new(items: &mut [T], step: usize) -> Pieces<T> {
        Pieces { start: items.as_mut_ptr(), len: items.len(), step, n: items.len().div_ceil(step) }
    }

    /// Returns a piece.
    ///
    /// # Safety
    ///
    /// The slice is still borrowed, and every piece is asked for once.
    #[expect(clippy::mut_from_ref, reason = "pieces are disjoint and each is asked for once")]
    unsafe fn get(&self, i: usize) -> &mut [T] {
        assert!(i < self.n, "a piece of the slice");
        let from = i * self.step;
        // SAFETY: the piece lies within the slice, and pieces are disjoint.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), self.step.min(self.len - from)) }
    }
}

// SAFETY: threads get disjoint pieces of what was borrowed exclusively.
unsafe impl<T: Send> Sync for Pieces<T> {}

/// What a thread does in a loop: it is given a function that deals out its tasks.
type Body<'a> = dyn Fn(&mut dyn FnMut() -> Option<usize>) + Sync + 'a;

/// A loop that threads work on.
struct Job {
    /// The function of the loop. It lives as long as tasks are unfinished.
    body: *const Body<'static>,
    /// One for each thread that may take part.
    runs: Vec<Run>,
    joined: AtomicUsize,
    /// The most threads of loops in its tasks.
    most: usize,
    /// The core of the thread that called.
    core: Option<usize>,
    unfinished: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Neighbouring tasks, those before `next` are taken. Runs lie on cache lines of their own.
#[repr(align(128))]
struct Run {
    next: AtomicUsize,
    end: usize,
}

// SAFETY: `body` is `Sync`, and is called only while the loop that made it waits (see `Job::help`).
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Takes a task, of the own run if there is one.
    fn take(&self, own: usize) -> Option<usize> {
        let (before, from) = self.runs.split_at(own % self.runs.len());
        from.iter().chain(before).find_map(|run| {
            if run.next.load(Ordering::Relaxed) >= run.end {
                return None;
            }
            let task = run.next.fetch_add(1, Ordering::Relaxed);
            (task < run.end).then_some(task)
        })
    }

    /// Helps the thread that called, unless there are enough that do.
    fn join(&self) {
        let own = self.joined.fetch_add(1, Ordering::Relaxed);
        if own < self.runs.len() {
            let _limit = Limit::new(self.most);
            self.help(own);
        }
    }

    /// Works on tasks until all are taken, those of the own run first.
    fn help(&self, own: usize) {
        let Some(first) = self.take(own) else { return };
        let (mut first, mut taken) = (Some(first), 1);
        let mut next = || {
            first.take().or_else(|| {
                let task = self.take(own)?;
                taken += 1;
                Some(task)
            })
        };
        // SAFETY: a task was taken and is not counted as finished before the end of this function. Until then
        // the loop's caller waits, so that the function is alive.
        let body = unsafe { &*self.body };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&mut next))) {
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            // What nobody has begun is given up, for there may be no other thread to do it.
            while self.take(own).is_some() {
                taken += 1;
            }
        }
        self.unfinished.fetch_sub(taken, Ordering::Release);
    }

    /// Waits until other threads have finished the tasks that they took.
    fn wait(&self) {
        let mut spins = 0;
        while self.unfinished.load(Ordering::Acquire) > 0 {
            pause(&mut spins);
        }
    }
}

/// Passes a moment while another thread works; after a while, others may have the core.
fn pause(spins: &mut u32) {
    *spins = spins.saturating_add(1);
    if *spins < 10_000 { std::hint::spin_loop() } else { std::thread::yield_now() }
}

/// The newest loop, and the threads that look out for one.
struct Hub {
    newest: Mutex<Option<Arc<Job>>>,
    /// Counts the loops.
    epoch: AtomicUsize,
    /// Counts the threads that help or look out.
    awake: AtomicUsize,
}

static HUB: Hub = Hub { newest: Mutex::new(None), epoch: AtomicUsize::new(0), awake: AtomicUsize::new(0) };

/// The loops of a thread that are kept to be used again: the newest one, and those that a late helper may
/// still have.
const SPARE: usize = 4;

/// Returns a loop as `prepare` makes it, in the memory of an earlier one that nobody has any more.
fn spare_job(prepare: impl FnOnce(&mut Job)) -> Arc<Job> {
    thread_local! {
        static JOBS: RefCell<Vec<Arc<Job>>> = const { RefCell::new(Vec::new()) };
    }
    let mut jobs = JOBS.take();
    let free = jobs.iter_mut().position(|job| Arc::get_mut(job).is_some());
    let mut job = match free {
        Some(at) => jobs.swap_remove(at),
        None => Arc::new(Job {
            body: &|_: &mut dyn FnMut() -> Option<usize>| {},
            runs: Vec::new(),
            joined: AtomicUsize::new(0),
            most: usize::MAX,
            core: None,
            unfinished: AtomicUsize::new(0),
            panic: Mutex::new(None),
        }),
    };
    if let Some(job) = Arc::get_mut(&mut job) {
        prepare(job);
    }
    if jobs.len() < SPARE {
        jobs.push(job.clone());
    }
    JOBS.replace(jobs);
    job
}

/// Runs `n` tasks on the threads that a loop of this thread has.
fn run(n: usize, body: &Body<'_>) {
    let threads = threads().min(n);
    if threads > 1 {
        return run_on(n, threads, body);
    }
    if n > 0 {
        let mut tasks = 0..n;
        body(&mut || tasks.next());
    }
}

/// Runs `n` tasks on `threads` threads, two or more.
fn run_on(n: usize, threads: usize, body: &Body<'_>) {
    let runs = (0..threads).map(|i| {
        let [from, end] = [i, i + 1].map(|i| (i as u128 * n as u128 / threads as u128) as usize);
        Run { next: AtomicUsize::new(from), end }
    });
    // SAFETY: only the lifetime changes; `wait` returns when nobody can call the function any more.
    let body = unsafe { std::mem::transmute::<*const Body<'_>, *const Body<'static>>(body) };
    let job = spare_job(|job| {
        job.body = body;
        job.runs.clear();
        job.runs.extend(runs);
        job.joined = AtomicUsize::new(1);
        job.most = MOST.get();
        job.core = affinity::core();
        job.unfinished = AtomicUsize::new(n);
    });
    *HUB.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(job.clone());
    HUB.epoch.fetch_add(1, Ordering::SeqCst);
    for _ in HUB.awake.load(Ordering::SeqCst)..threads - 1 {
        HUB.awake.fetch_add(1, Ordering::SeqCst);
        rayon::spawn(look_out);
    }
    job.help(0);
    if job.joined.load(Ordering::Relaxed) == 1 {
        // All that help may be on this very core, waiting for their turn to move away.
        std::thread::yield_now();
    }
    job.wait();
    let panic = job.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

thread_local! {
    /// Says that this thread looks out already: it may come by a second request when it does the work of others.
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// Helps with the newest loop, and with those that follow soon.
fn look_out() {
    if LOOKING.replace(true) {
        HUB.awake.fetch_sub(1, Ordering::SeqCst);
        return;
    }
    let mut seen = usize::MAX;
    while next_loop(&mut seen) {
        let newest = HUB.newest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(job) = newest {
            if job.core.is_some() && job.core == affinity::core() {
                affinity::leave_core();
            }
            job.join();
        }
    }
    LOOKING.set(false);
}

/// Waits for a loop that begins after the one that was `seen`; gives up after a while.
fn next_loop(seen: &mut usize) -> bool {
    let since = Instant::now();
    loop {
        let epoch = HUB.epoch.load(Ordering::SeqCst);
        if epoch != *seen {
            *seen = epoch;
            return true;
        }
        (0..32).for_each(|_| std::hint::spin_loop());
        let waited = since.elapsed();
        if waited > AWAKE {
            HUB.awake.fetch_sub(1, Ordering::SeqCst);
            // A loop that begins from now on asks for help again, but one that began just now counted on this
            // thread.
            if HUB.epoch.load(Ordering::SeqCst) == *seen {
                return false;
            }
            HUB.awake.fetch_add(1, Ordering::SeqCst);
        } else if waited > AWAKE / 4 {
            // The pool may have other work. It is too early before, when it only has requests that are meant
            // for its other threads.
            rayon::yield_now();
        }
    }
}

#[cfg(test)]
mod tests;
