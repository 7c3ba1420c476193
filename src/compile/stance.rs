//! [`Stance`]: whether compiled functions of this thread compile, for a while.

use std::cell::Cell;

use crate::SourceLoc;
use crate::lazy::{is_following, without_following};

/// Whether compiled functions compile: see [`with_stance`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stance {
    /// They do.
    #[default]
    Default,
    /// They run as ordinary functions.
    ForceEager,
    /// They use the code that they have; what is new runs operation by operation.
    EagerOnMiss,
    /// They use the code that they have; what is new is an error that says what was expected.
    FailOnMiss,
    /// Each runs its first calls as an ordinary function.
    EagerThenCompile(u64),
}

/// What a call may do that no compiled code fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    Compile,
    RunOnce,
    Fail,
}

thread_local! {
    static STANCE: Cell<Stance> = const { Cell::new(Stance::Default) };
}

/// Runs `f` with a stance for the compiled functions that this thread calls; also a panic restores the one
/// before.
///
/// ```
/// use fx::compile::{Stance, with_stance};
/// use fx::prelude::*;
///
/// let f = fx::compile(|x: &Tensor| x * 2.0);
/// with_stance(Stance::ForceEager, || f.call(&[Tensor::new([1.0f32])]))?;
/// assert_eq!(f.counters().compiled, 0);
/// # Ok::<(), fx::Error>(())
/// ```
pub fn with_stance<R>(stance: Stance, f: impl FnOnce() -> R) -> R {
    struct Restore(Stance);
    impl Drop for Restore {
        fn drop(&mut self) {
            STANCE.set(self.0);
        }
    }
    let _restore = Restore(STANCE.replace(stance));
    f()
}

/// Returns what a call may do, whose number `call` tells. `None` if it runs as an ordinary function.
pub(super) fn permission(call: impl FnOnce() -> u64) -> Option<Permission> {
    match STANCE.get() {
        Stance::Default => Some(Permission::Compile),
        Stance::ForceEager => None,
        Stance::EagerOnMiss => Some(Permission::RunOnce),
        Stance::FailOnMiss => Some(Permission::Fail),
        Stance::EagerThenCompile(n) => (call() > n).then_some(Permission::Compile),
    }
}

/// Returns whether a compiled function is running on this thread, on its first call as on later ones.
pub fn is_compiling() -> bool {
    is_following()
}

/// Runs `f` as ordinary code inside a compiled function: its operations compute at once.
///
/// ```
/// use fx::prelude::*;
///
/// let f = fx::compile(|x: &Tensor| {
///     assert!(fx::is_compiling());
///     let h = x * 2.0;
///     fx::without_compile(|| {
///         assert!(!fx::is_compiling());
///         &h + 1.0
///     })
/// });
/// assert_eq!(f.call(&[Tensor::new([1.0f32])])?.to_vec::<f32>()?, [3.0]);
/// # Ok::<(), fx::Error>(())
/// ```
pub fn without_compile<R>(f: impl FnOnce() -> R) -> R {
    without_following(f)
}

/// Ends the graph of the compiled function that is running. A loop that ends its graph in each round is one
/// graph, however many rounds it has.
#[track_caller]
pub fn cut() {
    if let Some(session) = crate::lazy::follower() {
        session.cut(SourceLoc::caller());
    }
}
