//! [`Attribute`], and the tables of what the paths of a graph refer to.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::module::{Buffer, Forward, Parameter};
use crate::{Error, Node, OpCode, Tensor, err};

/// A tensor that a graph reads by path.
#[derive(Clone, Debug)]
pub enum Attribute {
    /// A trained tensor.
    Parameter(Parameter),
    /// State; a call may update it.
    Buffer(Buffer),
    /// A tensor that the traced function captured.
    Constant(Tensor),
}

impl Attribute {
    /// Returns the present value.
    pub fn tensor(&self) -> Tensor {
        match self {
            Attribute::Parameter(parameter) => parameter.tensor().clone(),
            Attribute::Buffer(buffer) => buffer.load(),
            Attribute::Constant(tensor) => tensor.clone(),
        }
    }
}

/// Attributes by path.
pub(crate) type Attributes = BTreeMap<Arc<str>, Attribute>;
/// Sub-modules by path.
pub(crate) type Children = BTreeMap<Arc<str>, Arc<dyn Forward>>;

/// What the paths of a graph refer to: nothing at all for a closed sub-graph.
#[derive(Clone, Copy, Default)]
pub(crate) struct Parts<'a> {
    attributes: Option<&'a Attributes>,
    children: Option<&'a Children>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(attributes: &'a Attributes, children: &'a Children) -> Self {
        Parts { attributes: Some(attributes), children: Some(children) }
    }

    /// Returns whether the graph is a closed sub-graph, which can refer to nothing.
    pub(crate) fn is_closed(&self) -> bool {
        self.attributes.is_none()
    }

    pub(crate) fn attribute(&self, path: &str) -> Option<&'a Attribute> {
        self.attributes.and_then(|attributes| attributes.get(path))
    }

    pub(crate) fn child(&self, path: &str) -> Option<&'a dyn Forward> {
        self.children.and_then(|children| children.get(path)).map(|child| &**child)
    }

    /// Returns the error of reading an attribute that is not there, of the graph module of this name.
    pub(crate) fn no_attribute(&self, name: &str, path: &str) -> Error {
        let paths = self.attributes.into_iter().flat_map(Attributes::keys);
        let similar = crate::names::suggest(path, paths.map(|path| &**path));
        err!(Unresolved, "{name} has no attribute {path:?}").help(similar)
    }

    /// Returns the error of calling a sub-module that is not there, of the graph module of this name.
    pub(crate) fn no_child(&self, name: &str, path: &str) -> Error {
        let paths = self.children.into_iter().flat_map(Children::keys);
        let similar = crate::names::suggest(path, paths.map(|path| &**path));
        err!(Unresolved, "{name} has no sub-module {path:?}").help(similar)
    }

    /// Returns whether a path is an attribute or a module already.
    pub(crate) fn is_taken(&self, path: &str) -> bool {
        self.attribute(path).is_some() || self.child(path).is_some()
    }

    /// Returns whether a call of the module has no effect.
    pub(crate) fn is_pure(&self, path: &str) -> bool {
        self.child(path).is_some_and(|child| child.as_module().is_pure())
    }

    /// Returns whether a node must be kept and keeps its place among others like it.
    pub(crate) fn has_effect(&self, node: &Node) -> bool {
        !matches!(node.opcode(), OpCode::Placeholder | OpCode::Output)
            && crate::graph::is_impure(node, &|path| self.is_pure(path))
    }
}
