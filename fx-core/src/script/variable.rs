//! The variables that a branch or a loop may change, seen without their types.

use std::marker::PhantomData;

use super::flow::{Exit, Flow};
use super::repeat::Repeat;
use crate::{Error, Result, SourceLoc, Tree, Value, err};

/// A variable at hand: read and written as a value.
pub struct Variable<'a> {
    pub(super) id: u32,
    pub(super) name: &'static str,
    slot: Slot<'a>,
}

enum Slot<'a> {
    Tree(&'a mut (dyn AnyTree + 'a)),
    Opaque(&'static str),
}

trait AnyTree {
    fn get(&self) -> Value;
    fn set(&mut self, value: &Value) -> Result<()>;
}

impl<T: Tree> AnyTree for T {
    fn get(&self) -> Value {
        self.to_value()
    }
    fn set(&mut self, value: &Value) -> Result<()> {
        *self = T::from_value(value)?;
        Ok(())
    }
}

impl Variable<'_> {
    /// Returns the present value. Fails if no symbol can stand for a part of it.
    pub(super) fn get(&self) -> Result<Value> {
        match &self.slot {
            Slot::Tree(tree) => Ok(tree.get()),
            Slot::Opaque(type_name) => Err(opaque(self.name, type_name)),
        }
    }

    pub(super) fn set(&mut self, value: &Value) -> Result<()> {
        match &mut self.slot {
            Slot::Tree(tree) => tree.set(value),
            Slot::Opaque(type_name) => Err(opaque(self.name, type_name)),
        }
    }
}

fn opaque(name: &str, type_name: &str) -> Error {
    err!(
        Trace,
        "`{name}` may change under a condition on a tensor, but no symbol can stand for a {type_name}"
    )
    .help("make it a tensor or a structure of tensors; if nothing changes it, bind it again without `mut`")
}

/// The type of a variable, by which the compiler chooses between [`OfTree`] and [`OfAny`].
pub struct Probe<T>(PhantomData<fn() -> T>);

impl<T> Probe<T> {
    /// Returns the type of a variable.
    pub fn of(_: &T) -> Probe<T> {
        Probe(PhantomData)
    }

    /// Returns the type of a value that may be there.
    pub fn of_option(_: &Option<T>) -> Probe<T> {
        Probe(PhantomData)
    }
}

/// Variables whose type is a [`Tree`].
pub trait OfTree<T> {
    /// Returns the variable.
    fn variable<'a>(&self, id: u32, name: &'static str, variable: &'a mut T) -> Variable<'a>
    where
        T: 'a;

    /// Returns the value of the variable, if it has one.
    fn value(&self, variable: &T) -> Option<Value>;

    /// Takes an exit of a recorded loop with a value.
    #[track_caller]
    fn exit(&self, flow: &mut Flow, exit: Exit, value: &T);

    /// Returns the value of a loop, given that of a native one.
    fn broken(&self, native: Option<T>, repeat: &mut Repeat, flow: &mut Flow) -> Option<T>;
}

impl<T: Tree> OfTree<T> for Probe<T> {
    fn variable<'a>(&self, id: u32, name: &'static str, variable: &'a mut T) -> Variable<'a>
    where
        T: 'a,
    {
        Variable { id, name, slot: Slot::Tree(variable) }
    }

    fn value(&self, variable: &T) -> Option<Value> {
        Some(variable.to_value())
    }

    fn exit(&self, flow: &mut Flow, exit: Exit, value: &T) {
        flow.exit_with(exit, &value.to_value());
    }

    fn broken(&self, native: Option<T>, repeat: &mut Repeat, flow: &mut Flow) -> Option<T> {
        native.or_else(|| T::from_value(&repeat.value()?).map_err(|error| flow.fail(error)).ok())
    }
}

/// Variables of any other type.
pub trait OfAny<T> {
    /// Returns the variable.
    fn variable<'a>(&self, id: u32, name: &'static str, variable: &'a mut T) -> Variable<'a>
    where
        T: 'a;

    /// Returns the value of the variable, if it has one.
    fn value(&self, variable: &T) -> Option<Value>;

    /// Takes an exit of a recorded loop with a value.
    #[track_caller]
    fn exit(&self, flow: &mut Flow, exit: Exit, value: &T);

    /// Returns the value of a loop, given that of a native one.
    fn broken(&self, native: Option<T>, repeat: &mut Repeat, flow: &mut Flow) -> Option<T>;
}

impl<T> OfAny<T> for &Probe<T> {
    fn variable<'a>(&self, id: u32, name: &'static str, _: &'a mut T) -> Variable<'a>
    where
        T: 'a,
    {
        Variable { id, name, slot: Slot::Opaque(std::any::type_name::<T>()) }
    }

    fn value(&self, _: &T) -> Option<Value> {
        None
    }

    #[track_caller]
    fn exit(&self, flow: &mut Flow, _: Exit, _: &T) {
        let name = std::any::type_name::<T>();
        let error = err!(
            Trace,
            "`break` under a condition on a tensor takes a value along, but no symbol can stand for a {name}"
        )
        .help("give a tensor or a structure of tensors that own their data");
        flow.fail(error.at(SourceLoc::caller()));
    }

    fn broken(&self, native: Option<T>, _: &mut Repeat, _: &mut Flow) -> Option<T> {
        native
    }
}

/// Types whose values a branch may use up: it uses up a clone, because the other branch may run, too.
#[diagnostic::on_unimplemented(
    message = "a branch or loop of a script uses up this `{Self}`, which cannot be cloned",
    label = "used up here",
    note = "take a reference, or implement `Clone`"
)]
pub trait Keep: Sized {
    /// Returns another handle of the same value.
    fn keep(&self) -> Self;
}

impl<T: Clone> Keep for T {
    fn keep(&self) -> T {
        self.clone()
    }
}
