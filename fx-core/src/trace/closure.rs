//! Closures as functions that can be traced.

use super::builder::Traceable;
use crate::module::InputDecl;
use crate::{Result, Tensor, Tree, Value, bail};

/// Marks the arguments of closures for [`Traceable`].
#[derive(Debug)]
pub struct ByArguments<Args>(std::marker::PhantomData<Args>);

/// Marks an argument that is a value.
#[derive(Debug)]
pub struct ByValue<T>(std::marker::PhantomData<T>);

/// Marks an argument that is a borrowed tensor.
#[derive(Debug)]
pub enum ByRef {}

/// The names of a closure's arguments, which the language does not tell.
#[doc(hidden)]
pub const ARGUMENT_NAMES: [&str; 8] = ["x", "y", "z", "x3", "x4", "x5", "x6", "x7"];

/// Calls a macro for each list of arguments that a closure may have: its type parameters, the types, `Tensor` for
/// a borrowed one, and the numbers of the arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __closures {
    ($implement:ident) => {
        $implement!([];);
        $implement!([] Tensor; 0);
        $implement!([A] A; 0);
        $implement!([] Tensor Tensor; 0 1);
        $implement!([B] Tensor B; 0 1);
        $implement!([A] A Tensor; 0 1);
        $implement!([A B] A B; 0 1);
        $implement!([] Tensor Tensor Tensor; 0 1 2);
        $implement!([C] Tensor Tensor C; 0 1 2);
        $implement!([B] Tensor B Tensor; 0 1 2);
        $implement!([B C] Tensor B C; 0 1 2);
        $implement!([A] A Tensor Tensor; 0 1 2);
        $implement!([A C] A Tensor C; 0 1 2);
        $implement!([A B] A B Tensor; 0 1 2);
        $implement!([A B C] A B C; 0 1 2);
        $implement!([] Tensor Tensor Tensor Tensor; 0 1 2 3);
        $implement!([D] Tensor Tensor Tensor D; 0 1 2 3);
        $implement!([C] Tensor Tensor C Tensor; 0 1 2 3);
        $implement!([C D] Tensor Tensor C D; 0 1 2 3);
        $implement!([B] Tensor B Tensor Tensor; 0 1 2 3);
        $implement!([B D] Tensor B Tensor D; 0 1 2 3);
        $implement!([B C] Tensor B C Tensor; 0 1 2 3);
        $implement!([B C D] Tensor B C D; 0 1 2 3);
        $implement!([A] A Tensor Tensor Tensor; 0 1 2 3);
        $implement!([A D] A Tensor Tensor D; 0 1 2 3);
        $implement!([A C] A Tensor C Tensor; 0 1 2 3);
        $implement!([A C D] A Tensor C D; 0 1 2 3);
        $implement!([A B] A B Tensor Tensor; 0 1 2 3);
        $implement!([A B D] A B Tensor D; 0 1 2 3);
        $implement!([A B C] A B C Tensor; 0 1 2 3);
        $implement!([A B C D] A B C D; 0 1 2 3);
        $implement!([] Tensor Tensor Tensor Tensor Tensor; 0 1 2 3 4);
        $implement!([A B C D E] A B C D E; 0 1 2 3 4);
        $implement!([] Tensor Tensor Tensor Tensor Tensor Tensor; 0 1 2 3 4 5);
        $implement!([A B C D E G] A B C D E G; 0 1 2 3 4 5);
        $implement!([] Tensor Tensor Tensor Tensor Tensor Tensor Tensor; 0 1 2 3 4 5 6);
        $implement!([A B C D E G H] A B C D E G H; 0 1 2 3 4 5 6);
        $implement!([] Tensor Tensor Tensor Tensor Tensor Tensor Tensor Tensor; 0 1 2 3 4 5 6 7);
        $implement!([A B C D E G H I] A B C D E G H I; 0 1 2 3 4 5 6 7);
    };
}

/// Returns an argument's type, marker, or value for a closure: a borrowed one for `Tensor`.
#[doc(hidden)]
#[macro_export]
macro_rules! __closure_argument {
    (type Tensor) => {
        &Tensor
    };
    (type $t:ident) => {
        $t
    };
    (marker Tensor) => {
        $crate::trace::ByRef
    };
    (marker $t:ident) => {
        $crate::trace::ByValue<$t>
    };
    (pass Tensor $value:expr) => {
        &$value
    };
    (pass $t:ident $value:expr) => {
        $value
    };
}

macro_rules! closure {
    ([$($g:ident)*] $($t:ident)*; $($i:tt)*) => {
        impl<F, R: Tree, $($g: Tree),*> Traceable<ByArguments<(($(__closure_argument!(marker $t),)*), R)>> for F
        where
            F: Fn($(__closure_argument!(type $t)),*) -> R,
        {
            fn name(&self) -> String {
                "main".into()
            }
            fn arguments(&self) -> Vec<InputDecl> {
                vec![$(InputDecl::of::<$t>(ARGUMENT_NAMES[$i])),*]
            }
            fn run(&self, args: &[Value]) -> Result<Value> {
                check_arity(<[usize]>::len(&[$($i),*]), args.len())?;
                let result = self($(__closure_argument!(pass $t <$t as Tree>::from_value(&args[$i])?)),*);
                Ok(result.to_value())
            }
        }
    };
}
__closures!(closure);

/// Checks the number of arguments of a call. Fails if they differ.
#[doc(hidden)]
pub fn check_arity(expected: usize, got: usize) -> Result<()> {
    if expected != got {
        bail!(Argument, "expected {expected} arguments, got {got}");
    }
    Ok(())
}
