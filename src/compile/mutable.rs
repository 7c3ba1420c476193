//! [`mutable`]: closures that change the variables that they capture.

use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread::ThreadId;

use crate::trace::Traceable;
use crate::{Arg, Result, Tensor, Tree, Value, err};

/// A closure that changes what it captures: see [`mutable`].
pub struct Mutable<F> {
    function: Mutex<F>,
    holder: Mutex<Option<ThreadId>>,
}

/// Lets [`compile`](super::compile()) take a closure that changes the variables that it captures. Calls take
/// turns.
///
/// ```
/// use fx::prelude::*;
///
/// let mut sizes = Vec::new();
/// let f = fx::compile(fx::compile::mutable(|x: &Tensor| {
///     sizes.push(x.dim(0));
///     x + 1
/// }));
/// f.call(&[Tensor::new([1.0f32, 2.0])])?;
/// f.call(&[Tensor::new([1.0f32])])?;
/// drop(f);
/// assert_eq!(sizes, [2, 1]);
/// # Ok::<(), fx::Error>(())
/// ```
pub fn mutable<F>(function: F) -> Mutable<F> {
    Mutable { function: Mutex::new(function), holder: Mutex::new(None) }
}

impl<F> Mutable<F> {
    fn with<R>(&self, call: impl FnOnce(&mut F) -> R) -> Result<R> {
        struct Release<'a>(&'a Mutex<Option<ThreadId>>);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        let me = std::thread::current().id();
        let mut function = match self.function.try_lock() {
            Ok(function) => function,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                if *self.holder.lock().unwrap_or_else(PoisonError::into_inner) == Some(me) {
                    return Err(err!(Trace, "C12: a function that changes captured variables calls itself")
                        .help("use a closure that is `Fn`, with a `Mutex` or an atomic for what changes"));
                }
                self.function.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        *self.holder.lock().unwrap_or_else(PoisonError::into_inner) = Some(me);
        let _release = Release(&self.holder);
        Ok(call(&mut function))
    }
}

/// Marks closures that change what they capture, and borrow their arguments.
#[derive(Debug)]
pub struct ByMutable<Args>(std::marker::PhantomData<Args>);

const NAMES: [&str; 4] = ["x", "y", "z", "x3"];

fn check_arity(expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(err!(Argument, "expected {expected} arguments, got {got}"))
}

macro_rules! mutable_closures {
    ($n:literal: $($r:ident)*; $($i:tt)*) => {
        impl<F: FnMut($(&$r),*) -> R, R: Tree> Traceable<ByMutable<fn($(&$r),*) -> R>> for Mutable<F> {
            fn name(&self) -> String {
                "main".into()
            }
            fn arguments(&self) -> Vec<(String, Result<Arg<()>>)> {
                vec![$((NAMES[$i].to_owned(), <$r as Tree>::structure())),*]
            }
            fn run(&self, args: &[Value]) -> Result<Value> {
                check_arity($n, args.len())?;
                let args = ($(<$r as Tree>::from_value(&args[$i])?,)*);
                Ok(self.with(|function| function($(&args.$i),*))?.to_value())
            }
        }
    };
}

macro_rules! mutable_value_closures {
    ($n:literal: $($t:ident)*; $($i:tt)*) => {
        impl<F: FnMut($($t),*) -> R, R: Tree, $($t: Tree),*> Traceable<ByMutable<(($($t,)*), R)>> for Mutable<F> {
            fn name(&self) -> String {
                "main".into()
            }
            fn arguments(&self) -> Vec<(String, Result<Arg<()>>)> {
                vec![$((NAMES[$i].to_owned(), <$t as Tree>::structure())),*]
            }
            fn run(&self, args: &[Value]) -> Result<Value> {
                check_arity($n, args.len())?;
                let args = ($(<$t as Tree>::from_value(&args[$i])?,)*);
                Ok(self.with(|function| function($(args.$i),*))?.to_value())
            }
        }
    };
}

mutable_closures!(1: Tensor; 0);
mutable_closures!(2: Tensor Tensor; 0 1);
mutable_closures!(3: Tensor Tensor Tensor; 0 1 2);
mutable_closures!(4: Tensor Tensor Tensor Tensor; 0 1 2 3);
mutable_value_closures!(1: A; 0);
mutable_value_closures!(2: A B; 0 1);
mutable_value_closures!(3: A B C; 0 1 2);
mutable_value_closures!(4: A B C D; 0 1 2 3);
