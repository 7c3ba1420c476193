//! [`Members`]: where generated modules take their tensors and sub-modules from, by path.

use std::sync::{Arc, Mutex, PoisonError};

use crate::module::load::{WeightSource, join};
use crate::module::ties::Ties;
use crate::{Attribute, Buffer, Forward, GraphModule, Parameter, Result, Tensor, bail};

/// The tensors and sub-modules below a path of a graph module, or the tensors of a file of weights.
///
/// Generated code makes its modules of them: `Mlp::new(&gm.members())`.
#[derive(Clone)]
pub struct Members<'a> {
    source: Source<'a>,
    prefix: String,
    /// The copies that were made so far: what is one in the graph module is one in the generated modules.
    ties: Arc<Mutex<Ties>>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Module(&'a GraphModule),
    Weights(&'a dyn WeightSource),
}

impl GraphModule {
    /// Returns the attributes and sub-modules, of which generated code makes modules.
    pub fn members(&self) -> Members<'_> {
        Members { source: Source::Module(self), prefix: String::new(), ties: Arc::default() }
    }
}

impl<'a> Members<'a> {
    /// Returns the tensors of a file; it has no sub-modules that are written in Rust.
    pub fn of_weights(weights: &'a dyn WeightSource) -> Self {
        Members { source: Source::Weights(weights), prefix: String::new(), ties: Arc::default() }
    }

    /// Returns the members below a name.
    pub fn at(&self, name: &str) -> Self {
        Members { prefix: join(&self.prefix, name), ..self.clone() }
    }

    /// Returns the members of the sub-module of this name, a graph module. Fails if there is none, or it is
    /// no graph module.
    pub fn child(&self, name: &str) -> Result<Members<'a>> {
        let path = join(&self.prefix, name);
        match self.source {
            Source::Weights(_) => Ok(self.at(name)),
            Source::Module(gm) => match gm.child(&path)?.as_module().as_any().downcast_ref::<GraphModule>() {
                Some(child) => Ok(Members { ties: self.ties.clone(), ..child.members() }),
                None => bail!(Structure, "the sub-module {path:?} is not a graph module"),
            },
        }
    }

    /// Returns the parameter of this name. Fails if there is none.
    pub fn parameter(&self, name: &str) -> Result<Parameter> {
        match self.find(name)? {
            Found::Attribute(Attribute::Parameter(parameter)) => Ok(parameter.clone()),
            Found::Tensor(tensor) => Ok(Parameter::new(tensor)),
            Found::Attribute(_) => self.wrong(name, "a parameter"),
        }
    }

    /// Returns a copy of the buffer of this name. Fails if there is none.
    pub fn buffer(&self, name: &str) -> Result<Buffer> {
        match self.find(name)? {
            Found::Attribute(Attribute::Buffer(buffer)) => Ok(self.copy(|| buffer.clone())),
            Found::Tensor(tensor) => Ok(Buffer::new(tensor)),
            Found::Attribute(_) => self.wrong(name, "a buffer"),
        }
    }

    /// Returns the constant of this name. Fails if there is none.
    pub fn constant(&self, name: &str) -> Result<Tensor> {
        match self.find(name)? {
            Found::Attribute(Attribute::Constant(tensor)) => tensor.clone().ok(),
            Found::Tensor(tensor) => Ok(tensor),
            Found::Attribute(_) => self.wrong(name, "a constant"),
        }
    }

    /// Returns a copy of the sub-module of this name, which is of the type `M`. Fails if there is none, or it
    /// has another type.
    pub fn module<M: Forward + Clone>(&self, name: &str) -> Result<M> {
        let path = join(&self.prefix, name);
        match self.source.module(&path)?.as_module().as_any().downcast_ref::<M>() {
            Some(module) => Ok(self.copy(|| module.clone())),
            None => bail!(Structure, "the sub-module {path:?} is no {}", std::any::type_name::<M>()),
        }
    }

    /// Returns a copy of the sub-module of this name, whatever its type. Fails if there is none.
    pub fn any_module(&self, name: &str) -> Result<Box<dyn Forward>> {
        let path = join(&self.prefix, name);
        let module = self.source.module(&path)?;
        Ok(self.copy(|| dyn_clone::clone_box(module)))
    }

    fn copy<T>(&self, copy: impl FnOnce() -> T) -> T {
        self.ties.lock().unwrap_or_else(PoisonError::into_inner).keep(copy)
    }

    fn find(&self, name: &str) -> Result<Found<'a>> {
        let path = join(&self.prefix, name);
        match self.source {
            Source::Module(gm) => gm.attribute(&path).map(Found::Attribute),
            Source::Weights(weights) => weights.require(&path).map(Found::Tensor),
        }
    }

    fn wrong<T>(&self, name: &str, what: &str) -> Result<T> {
        bail!(Structure, "the attribute {:?} is not {what}", join(&self.prefix, name))
    }
}

impl<'a> Source<'a> {
    fn module(self, path: &str) -> Result<&'a dyn Forward> {
        match self {
            Source::Module(gm) => gm.child(path),
            Source::Weights(_) => Err(crate::err!(Load, "weights hold no module {path:?} that is written in Rust")
                .help("inline the modules before code is generated: `fx::pass::INLINE_LEAVES`, or take the members of a graph module")),
        }
    }
}

enum Found<'a> {
    Attribute(&'a Attribute),
    Tensor(Tensor),
}

impl std::fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Members({:?})", self.prefix)
    }
}
