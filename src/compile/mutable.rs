//! [`mutable`]: closures that change the variables that they capture.

use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread::ThreadId;

use fx_core::__closure_argument;

use crate::module::InputDecl;
use crate::trace::{ARGUMENT_NAMES, Traceable, check_arity};
use crate::{Result, Tensor, Tree, Value, err};

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

/// Marks closures that change what they capture, by their arguments.
#[derive(Debug)]
pub struct ByMutable<Args>(std::marker::PhantomData<Args>);

macro_rules! mutable_closure {
    ([$($g:ident)*] $($t:ident)*; $($i:tt)*) => {
        impl<F, R: Tree, $($g: Tree),*> Traceable<ByMutable<(($(__closure_argument!(marker $t),)*), R)>> for Mutable<F>
        where
            F: FnMut($(__closure_argument!(type $t)),*) -> R,
        {
            fn name(&self) -> String {
                "main".into()
            }
            fn arguments(&self) -> Vec<InputDecl> {
                vec![$(InputDecl::of::<$t>(ARGUMENT_NAMES[$i])),*]
            }
            fn is_mutable(&self) -> bool {
                true
            }
            fn run(&self, args: &[Value]) -> Result<Value> {
                check_arity(<[usize]>::len(&[$($i),*]), args.len())?;
                #[allow(unused_variables, reason = "functions without arguments")]
                let args = ($(<$t as Tree>::from_value(&args[$i])?,)*);
                Ok(self.with(|function| function($(__closure_argument!(pass $t args.$i)),*))?.to_value())
            }
        }
    };
}
fx_core::__closures!(mutable_closure);
