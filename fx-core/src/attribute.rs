//! [`Attribute`], and the tables of what the paths of a graph refer to.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::module::{Buffer, Forward, Parameter, StateCell};
use crate::{Arg, Error, Node, OpCode, Result, Tensor, TypeTree, Value, err};

/// A value that a graph reads by path: a tensor, but for `State`.
#[derive(Clone, Debug)]
pub enum Attribute {
    /// A trained tensor.
    Parameter(Parameter),
    /// State; a call may update it.
    Buffer(Buffer),
    /// A tensor that the traced function captured.
    Constant(Tensor),
    /// State that is no single tensor; a call may update it.
    State(StateCell),
}

impl Attribute {
    /// Returns the present tensor; a tensor that is an error for state that is none.
    pub fn tensor(&self) -> Tensor {
        match self {
            Attribute::Parameter(parameter) => parameter.tensor().clone(),
            Attribute::Buffer(buffer) => buffer.load(),
            Attribute::Constant(tensor) => tensor.clone(),
            Attribute::State(state) => match state.load() {
                Arg::Leaf(tensor) => tensor,
                other => Tensor::failed(
                    err!(Structure, "expected a tensor, the state is {}", other.kind_name())
                        .help("read it with `Attribute::value`"),
                ),
            },
        }
    }

    /// Returns the present value.
    pub fn value(&self) -> Value {
        match self {
            Attribute::State(state) => state.load(),
            other => Arg::Leaf(other.tensor()),
        }
    }

    /// Returns the type: of state the type of all its values. Fails if a tensor is an error.
    pub fn type_tree(&self) -> Result<TypeTree> {
        match self {
            Attribute::State(state) => Ok(state.ty().clone()),
            other => other.tensor().type_tree(),
        }
    }

    /// Identifies the cell of state that calls may update, while it lives.
    pub(crate) fn cell(&self) -> Option<usize> {
        match self {
            Attribute::Buffer(buffer) => Some(buffer.address()),
            Attribute::State(state) => Some(state.address()),
            Attribute::Parameter(_) | Attribute::Constant(_) => None,
        }
    }

    /// Returns the attribute with the same cell of state.
    pub(crate) fn share(&self) -> Attribute {
        match self {
            Attribute::Buffer(buffer) => Attribute::Buffer(buffer.share()),
            Attribute::State(state) => Attribute::State(state.share()),
            other => other.clone(),
        }
    }

    /// Stores the new value of a buffer or of state. Fails if it is none, or a buffer is given no tensor.
    pub(crate) fn store(&self, path: &str, value: Value) -> Result<()> {
        match (self, value) {
            (Attribute::Buffer(buffer), Arg::Leaf(tensor)) => match crate::lazy::follower() {
                Some(follower) => follower.write_buffer(buffer, &tensor)?,
                None => buffer.store(tensor),
            },
            (Attribute::State(state), value) => {
                state.store(value.map(&mut |tensor| tensor.clone().settled()));
            }
            (Attribute::Buffer(_), other) => {
                return Err(err!(Structure, "the buffer {path:?} takes a tensor, got {}", other.kind_name()));
            }
            _ => return Err(err!(Graph, "{path:?} is updated, but it is neither a buffer nor state")),
        }
        Ok(())
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
        let help = match self.attributes {
            Some(attributes) if attributes.is_empty() => "it has none; a program that was read \
                from text gets its tensors by `set_attribute`, or on the command line by `--weights FILE`"
                .to_owned(),
            _ => crate::names::suggest(path, paths.map(|path| &**path)),
        };
        err!(Unresolved, "{name} has no attribute {path:?}").help(help)
    }

    /// Returns the error of calling a sub-module that is not there, of the graph module of this name.
    pub(crate) fn no_child(&self, name: &str, path: &str) -> Error {
        let paths = self.children.into_iter().flat_map(Children::keys);
        let help = match self.children {
            Some(children) if children.is_empty() => "it has none; text holds no sub-modules, so \
                replace their calls by operations before you print it, with `pass::INLINE_LEAVES`"
                .to_owned(),
            _ => crate::names::suggest(path, paths.map(|path| &**path)),
        };
        err!(Unresolved, "{name} has no sub-module {path:?}").help(help)
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
