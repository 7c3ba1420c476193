//! [`owned`]: modules that belong to their compiled function, and can be changed between calls.

use std::sync::atomic::Ordering;

use super::Function;
use crate::module::InputDecl;
use crate::trace::Traceable;
use crate::{Forward, Module, Result, Value};

/// A module that belongs to its compiled function: see [`owned`].
#[derive(Debug)]
pub struct Owned<M>(M);

/// Marks modules that belong to their compiled function.
#[derive(Debug)]
pub enum ByOwned {}

/// Lets [`compile`](super::compile()) own a module, so that the function can live as long as it likes, and
/// [`module_mut`](Function::module_mut) can change the module between calls.
///
/// ```
/// use fx::nn;
/// use fx::prelude::*;
///
/// let mut dropout = nn::Dropout::new(0.5);
/// dropout.eval();
/// let mut f = fx::compile(fx::compile::owned(dropout));
/// let x = fx::ones([100]);
/// assert_eq!(f.call(&[x.clone()])?.to_vec::<f32>()?, [1.0; 100]);
///
/// f.module_mut().train();
/// assert!(f.call(&[x])?.to_vec::<f32>()?.contains(&0.0));
/// # Ok::<(), fx::Error>(())
/// ```
pub fn owned<M: Forward>(module: M) -> Owned<M> {
    Owned(module)
}

impl<M: Forward> Traceable<ByOwned> for Owned<M> {
    fn name(&self) -> String {
        self.0.type_name().to_owned()
    }

    fn arguments(&self) -> Vec<InputDecl> {
        self.0.inputs()
    }

    fn root(&self) -> Option<&dyn Module> {
        Some(self.0.as_module())
    }

    fn run(&self, args: &[Value]) -> Result<Value> {
        self.0.forward_values(args)
    }
}

impl<M: Forward> Function<Owned<M>, ByOwned> {
    /// Returns the module.
    pub fn module(&self) -> &M {
        &self.function.0
    }

    /// Returns the module for changing, such as `f.module_mut().train()`. Code that still fits stays in use.
    pub fn module_mut(&mut self) -> &mut M {
        self.is_changed.store(true, Ordering::Relaxed);
        &mut self.function.0
    }

    /// Returns the module, and lets go of the compiled code.
    pub fn into_module(self) -> M {
        self.function.0
    }
}
