//! [`Sequential`].

use std::any::Any;
use std::fmt;

use fx_core::module::{Visitor, VisitorMut, display_tree};
use fx_core::{Forward, Module, Tensor};
use fx_macros::forward;

/// Modules of one tensor, called one after the other. They are named `0`, `1`, and so on, and a trace looks
/// inside.
///
/// ```ignore
/// let mlp = Sequential::new().push(Linear::new(64, 32)).push(ReLU).push(Linear::new(32, 10));
/// ```
/// A list of modules that are called in another way is a `Vec`, PyTorch's `ModuleList`.
#[derive(Clone, Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Forward>>,
}

impl Sequential {
    /// Makes a sequence without modules, which returns its input.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a module at the end. It must take one tensor and return one.
    #[must_use]
    pub fn push(mut self, module: impl Forward) -> Self {
        self.layers.push(Box::new(module));
        self
    }

    /// Returns the number of modules.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Returns whether there are no modules.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns the modules in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &dyn Forward> {
        self.layers.iter().map(|layer| &**layer)
    }
}

impl<M: Forward> FromIterator<M> for Sequential {
    fn from_iter<I: IntoIterator<Item = M>>(modules: I) -> Self {
        modules.into_iter().fold(Sequential::new(), Sequential::push)
    }
}

/// Written by hand, because the names are numbers without the name of a field before them.
impl Module for Sequential {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        for (i, layer) in self.layers.iter().enumerate() {
            visitor.module(&i.to_string(), layer.as_module());
        }
    }

    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
        for (i, layer) in self.layers.iter_mut().enumerate() {
            visitor.module(&i.to_string(), layer.as_module_mut());
        }
    }

    fn type_name(&self) -> &'static str {
        "Sequential"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl fmt::Display for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_tree(self, f)
    }
}

#[forward]
impl Sequential {
    /// Calls the modules in order.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.call(&x);
        }
        x
    }
}
