//! What `?` returns early, by types that stable Rust can name.

use std::convert::Infallible;

/// Operands of `?`.
#[diagnostic::on_unimplemented(
    message = "the `?` operator of a script takes a `Result` or an `Option`, got `{Self}`",
    label = "no `Result` or `Option`"
)]
pub trait Fallible {
    /// What goes on.
    type Output;
    /// What is returned early.
    type Early;

    /// Takes them apart. Fails with what is returned early.
    fn ask(self) -> Result<Self::Output, Self::Early>;
}

impl<T, E> Fallible for Result<T, E> {
    type Output = T;
    type Early = Result<Infallible, E>;

    fn ask(self) -> Result<T, Self::Early> {
        self.map_err(Err)
    }
}

impl<T> Fallible for Option<T> {
    type Output = T;
    type Early = Option<Infallible>;

    fn ask(self) -> Result<T, Self::Early> {
        self.ok_or(None)
    }
}

/// What `?` returns early, as the result `R` of the function.
#[diagnostic::on_unimplemented(
    message = "the `?` operator cannot return this from a function with the result `{R}`",
    label = "the result of the function has another error"
)]
pub trait Early<R> {
    /// Returns the result.
    fn early(self) -> R;
}

impl<T, E, F: From<E>> Early<Result<T, F>> for Result<Infallible, E> {
    fn early(self) -> Result<T, F> {
        self.map(|never| match never {}).map_err(F::from)
    }
}

impl<T> Early<Option<T>> for Option<Infallible> {
    fn early(self) -> Option<T> {
        self.map(|never| match never {})
    }
}
