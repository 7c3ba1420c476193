//! Modules: parameters, buffers and children by dotted path, as in PyTorch.
//!
//! `#[derive(Module)]` implements [`Module`], the structure; `#[fx::forward]` implements [`Forward`], the
//! call. Values are values: a clone of a module shares memory with the original until one of them changes; a
//! [`Buffer`]'s clone is independent of the original.

mod field;
pub mod load;
mod state_cell;
pub(crate) mod ties;
mod walk;

use std::any::Any;
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, RwLock};

use dyn_clone::DynClone;

pub use field::Field;
pub use state_cell::StateCell;
pub use walk::{Named, NamedModule, collect_buffers, collect_modules, collect_parameters, display_tree};

use crate::{Arg, Result, SourceLoc, Tensor, Tree, Value};

/// A trained tensor. Dereferences to its [`Tensor`].
#[derive(Clone, Debug)]
pub struct Parameter(Tensor);

impl Parameter {
    /// Makes a parameter from a concrete tensor.
    pub fn new(tensor: impl Into<Tensor>) -> Self {
        Parameter(tensor.into())
    }

    /// Returns the tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }

    /// Replaces the tensor.
    pub fn set(&mut self, tensor: Tensor) {
        self.0 = tensor;
    }
}

impl Deref for Parameter {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.0
    }
}

impl<T: Into<Tensor>> From<T> for Parameter {
    fn from(tensor: T) -> Self {
        Parameter(tensor.into())
    }
}

/// State that a module updates while it runs, such as running statistics.
///
/// While a module is traced, [`get`](Buffer::get) records a `get_attr` node and [`set`](Buffer::set) an
/// update. A graph reads every buffer as it was when the call began, and updates become visible when the call
/// has succeeded.
#[derive(Debug)]
pub struct Buffer {
    cell: Arc<RwLock<Tensor>>,
    persistent: bool,
}

impl Buffer {
    /// Makes a buffer that is saved in the state dict.
    pub fn new(tensor: impl Into<Tensor>) -> Self {
        Buffer { cell: Arc::new(RwLock::new(tensor.into())), persistent: true }
    }

    /// Makes a buffer that is not saved.
    pub fn transient(tensor: impl Into<Tensor>) -> Self {
        Buffer { persistent: false, ..Buffer::new(tensor) }
    }

    /// Returns whether the buffer is part of the state dict.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Returns the stored value, also while tracing.
    #[doc(hidden)]
    pub fn load(&self) -> Tensor {
        self.cell.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Stores a value of any dtype and shape, as loading weights does. No trace records it.
    #[track_caller]
    pub fn store(&self, value: Tensor) {
        if let Some(follower) = crate::lazy::follower().filter(|_| !crate::trace::is_tracing()) {
            follower.forget_buffer(self);
        }
        self.replace(crate::trace::note_store(self, value, crate::SourceLoc::caller()).settled());
    }

    /// Stores a value, and tells nobody.
    #[doc(hidden)]
    pub fn replace(&self, value: Tensor) {
        *self.cell.write().unwrap_or_else(std::sync::PoisonError::into_inner) = value;
    }

    /// Returns another handle of the same cell.
    #[doc(hidden)]
    pub fn share(&self) -> Self {
        Buffer { cell: self.cell.clone(), persistent: self.persistent }
    }

    /// Identifies the state while it lives: buffers with the same address are one, whatever their paths.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.cell).cast::<()>() as usize
    }
}

/// An independent copy of the present value. In a copy of a whole graph module, buffers that are one stay one.
impl Clone for Buffer {
    fn clone(&self) -> Self {
        let cell = ties::cell_of_clone(&self.cell);
        Buffer {
            cell: cell.unwrap_or_else(|| Arc::new(RwLock::new(self.load()))),
            persistent: self.persistent,
        }
    }
}

/// A visitor of the members of a module, each with its name.
pub trait Visitor<'a> {
    /// Visits a parameter.
    fn parameter(&mut self, name: &str, parameter: &'a Parameter);
    /// Visits a buffer.
    fn buffer(&mut self, name: &str, buffer: &'a Buffer);
    /// Visits a sub-module.
    fn module(&mut self, name: &str, module: &'a dyn Module);
    /// Visits a tensor that is no part of the state: a constant.
    fn constant(&mut self, _name: &str, _tensor: &'a Tensor) {}
}

/// A visitor that may change the members of a module. A sub-module that a graph module has at several paths is
/// visited at the first of them.
pub trait VisitorMut {
    /// Visits a parameter.
    fn parameter(&mut self, name: &str, parameter: &mut Parameter);
    /// Visits a buffer.
    fn buffer(&mut self, name: &str, buffer: &mut Buffer);
    /// Visits a sub-module.
    fn module(&mut self, name: &str, module: &mut dyn Module);
}

/// A part of a model: its parameters, buffers and sub-modules by name. Implemented by `#[derive(Module)]`.
pub trait Module: DynClone + Any + Send + Sync {
    /// Visits the direct members in order. Names may be dotted (`layers.0`).
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>);

    /// Visits the direct members for changing.
    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut);

    /// Returns the name of the type, such as `Linear`.
    fn type_name(&self) -> &'static str;

    /// Returns the path of the type, such as `my_crate::model::Block`, for generated code.
    fn type_path(&self) -> &'static str {
        std::any::type_name::<Self>()
    }

    /// Returns whether tracing records a call of this module as one node by default.
    fn is_leaf(&self) -> bool {
        false
    }

    /// Returns the configuration for the printed tree, such as `in_features=3`.
    fn extra_repr(&self) -> String {
        String::new()
    }

    /// Sets this module's own training flag, if it has one; children are not touched.
    fn set_training(&mut self, _training: bool) {}

    /// Returns this module as `Any`.
    fn as_any(&self) -> &dyn Any;

    /// Returns whether a call has no effect, so that it may be dropped when its result is not used. By
    /// default it has none if the sub-modules have none.
    fn is_pure(&self) -> bool {
        let mut children = walk::Purity(true);
        self.visit(&mut children);
        children.0
    }
}
dyn_clone::clone_trait_object!(Module);

/// One argument of a module's `forward`.
#[derive(Clone, Debug)]
pub struct InputDecl {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its structure, if its type determines it.
    pub structure: Result<Arg<()>>,
    /// Whether it [takes symbols](Tree::takes_symbols) for integers.
    pub takes_symbols: bool,
}

impl InputDecl {
    /// Makes the declaration of an argument that takes no symbols for integers.
    pub fn new(name: impl Into<Cow<'static, str>>, structure: Result<Arg<()>>) -> Self {
        InputDecl { name: name.into(), structure, takes_symbols: false }
    }

    /// Makes the declaration of an argument of a type.
    pub fn of<T: Tree>(name: impl Into<Cow<'static, str>>) -> Self {
        InputDecl { name: name.into(), structure: T::structure(), takes_symbols: T::takes_symbols() }
    }
}

/// A module that can be called. Implemented by `#[fx::forward]`.
pub trait Forward: Module {
    /// Returns the arguments of `forward` in order.
    fn inputs(&self) -> Vec<InputDecl>;

    /// Returns the structure of the result, if its type determines it.
    fn output(&self) -> Result<Arg<()>>;

    /// Restores the arguments from values and runs `forward`.
    fn forward_values(&self, args: &[Value]) -> Result<Value>;

    /// Returns the place that errors of `forward` have when `forward_values` runs it, if `forward` is
    /// `#[track_caller]`: the line that matters is that of the call.
    fn tracked(&self) -> Option<SourceLoc> {
        None
    }

    /// Returns this as a module.
    fn as_module(&self) -> &dyn Module;

    /// Returns this as a module for changing.
    fn as_module_mut(&mut self) -> &mut dyn Module;
}
dyn_clone::clone_trait_object!(Forward);

macro_rules! delegate {
    ($($ty:ty),*) => {$(
        impl Module for $ty {
            fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) { (**self).visit(visitor) }
            fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) { (**self).visit_mut(visitor) }
            fn type_name(&self) -> &'static str { (**self).type_name() }
            fn type_path(&self) -> &'static str { (**self).type_path() }
            fn is_leaf(&self) -> bool { (**self).is_leaf() }
            fn extra_repr(&self) -> String { (**self).extra_repr() }
            fn set_training(&mut self, training: bool) { (**self).set_training(training) }
            fn as_any(&self) -> &dyn Any { (**self).as_any() }
            fn is_pure(&self) -> bool { (**self).is_pure() }
        }
    )*};
}
delegate!(Box<dyn Forward>, Box<dyn Module>);

impl<M: Module + Clone> Module for Box<M> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        (**self).visit(visitor);
    }
    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
        (**self).visit_mut(visitor);
    }
    fn type_name(&self) -> &'static str {
        (**self).type_name()
    }
    fn type_path(&self) -> &'static str {
        (**self).type_path()
    }
    fn is_leaf(&self) -> bool {
        (**self).is_leaf()
    }
    fn extra_repr(&self) -> String {
        (**self).extra_repr()
    }
    fn set_training(&mut self, training: bool) {
        (**self).set_training(training);
    }
    fn as_any(&self) -> &dyn Any {
        (**self).as_any()
    }
    fn is_pure(&self) -> bool {
        (**self).is_pure()
    }
}

impl Forward for Box<dyn Forward> {
    fn inputs(&self) -> Vec<InputDecl> {
        (**self).inputs()
    }
    fn output(&self) -> Result<Arg<()>> {
        (**self).output()
    }
    fn forward_values(&self, args: &[Value]) -> Result<Value> {
        (**self).forward_values(args)
    }
    fn tracked(&self) -> Option<SourceLoc> {
        (**self).tracked()
    }
    fn as_module(&self) -> &dyn Module {
        (**self).as_module()
    }
    fn as_module_mut(&mut self) -> &mut dyn Module {
        (**self).as_module_mut()
    }
}
