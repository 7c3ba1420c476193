//! [`Match`]: a match, as conditions and replacements see it.

use crate::module::Module;
use crate::node::{Node, NodeId, Target};
use crate::{Arg, Attribute, DType, Graph, Tensor, TensorType};

use super::matcher::{self, Place};
use super::pattern::{Pattern, PatternKind};

/// A match: what the captures, arguments and wildcards of a pattern are. Asked for a name that the pattern
/// does not have, or that an alternative not taken has, every method answers that there is nothing.
#[derive(Clone, Copy)]
pub struct Match<'a> {
    place: Place<'a>,
    pattern: &'a Pattern,
    values: &'a [Option<Arg>],
}

impl<'a> Match<'a> {
    pub(super) fn new(place: Place<'a>, pattern: &'a Pattern, values: &'a [Option<Arg>]) -> Self {
        Match { place, pattern, values }
    }

    /// Returns the graph.
    pub fn graph(&self) -> &'a Graph {
        self.place.graph
    }

    /// Returns the value of a name: a node, or a literal.
    pub fn arg(&self, name: &str) -> Option<&'a Arg> {
        let at = self.pattern.names.get(name)?;
        self.values.get(*at as usize)?.as_ref()
    }

    /// Returns the handle of a node.
    pub fn id(&self, name: &str) -> Option<NodeId> {
        self.arg(name)?.leaf().copied()
    }

    /// Returns a node.
    pub fn node(&self, name: &str) -> Option<&'a Node> {
        self.place.graph.node(self.id(name)?).ok()
    }

    /// Returns the type of a tensor, if it is known.
    pub fn ty(&self, name: &str) -> Option<&'a TensorType> {
        self.node(name)?.ty()?.tensor()
    }

    /// Returns the dtype of a tensor, if it is known.
    pub fn dtype(&self, name: &str) -> Option<DType> {
        self.ty(name).map(|ty| ty.dtype)
    }

    /// Returns whether a tensor is known to be of floats.
    pub fn is_float(&self, name: &str) -> bool {
        self.dtype(name).is_some_and(DType::is_float)
    }

    /// Returns the number of axes of a tensor, if it is known.
    pub fn rank(&self, name: &str) -> Option<usize> {
        self.ty(name).map(TensorType::rank)
    }

    /// Returns the known sizes of a tensor.
    pub fn sizes(&self, name: &str) -> Option<Vec<usize>> {
        self.ty(name)?.shape.known().map(|sizes| sizes.to_vec())
    }

    /// Returns a number: a literal, or a constant of rank 0.
    pub fn number(&self, name: &str) -> Option<f64> {
        matcher::scalar(self.place, self.arg(name)?).map(|x| x.to_f64())
    }

    /// Returns an integer literal.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.arg(name)? {
            Arg::Int(x) => Some(*x),
            _ => None,
        }
    }

    /// Returns a list of integer literals.
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        let int = |arg: &Arg| match arg {
            Arg::Int(x) => Some(*x),
            _ => None,
        };
        self.arg(name)?.items()?.iter().map(int).collect()
    }

    /// Returns an axis literal counted from the front, for a tensor of known rank.
    pub fn axis(&self, name: &str, of: &str) -> Option<usize> {
        crate::ops::axis(self.int(name)?, self.rank(of)?).ok()
    }

    /// Returns the present value of an attribute, which may be a parameter or buffer that changes later.
    pub fn value(&self, name: &str) -> Option<Tensor> {
        self.attribute(name).map(Attribute::tensor)
    }

    /// Returns the value of a constant.
    pub fn constant(&self, name: &str) -> Option<Tensor> {
        match self.attribute(name)? {
            Attribute::Constant(tensor) => Some(tensor.clone()),
            _ => None,
        }
    }

    fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        match self.node(name)?.target() {
            Target::GetAttr(path) => self.place.parts.attribute(path),
            _ => None,
        }
    }

    /// Returns whether every element of a number or constant is `value`, within `tolerance` times its magnitude.
    pub fn is_near(&self, name: &str, value: f64, tolerance: f64) -> bool {
        let near = |x: f64| x == value || (x - value).abs() <= tolerance * value.abs();
        if let Some(x) = self.number(name) {
            return near(x);
        }
        let constant = self.constant(name);
        constant
            .as_ref()
            .and_then(|x| x.array().ok())
            .is_some_and(|x| x.iter_scalars().all(|x| near(x.to_f64())))
    }

    /// Returns whether a node has exactly one user.
    pub fn has_one_use(&self, name: &str) -> bool {
        self.node(name).is_some_and(|node| node.n_users() == 1)
    }

    /// Returns the module that a captured call calls.
    pub fn module<M: Module>(&self, name: &str) -> Option<&'a M> {
        match self.node(name)?.target() {
            Target::CallModule(path) => self.place.parts.child(path)?.as_module().as_any().downcast_ref(),
            _ => None,
        }
    }

    /// Returns the values of the pattern's arguments, in order; `None` for those that only an alternative not
    /// taken uses.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Option<&'a Arg>> {
        let Match { pattern, values, .. } = *self;
        pattern.inputs.iter().map(move |at| values[*at as usize].as_ref())
    }

    /// Returns the nodes that the pattern computes, in program order, without its arguments.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = Vec::new();
        for (node, value) in self.pattern.nodes.iter().zip(self.values) {
            if let (
                PatternKind::Call { .. } | PatternKind::Module { .. } | PatternKind::Attr(_),
                Some(Arg::Leaf(id)),
            ) = (&node.kind, value)
            {
                nodes.push(*id);
            }
        }
        nodes.sort_unstable_by_key(|id| self.place.graph.position(*id));
        nodes.dedup();
        nodes
    }

    /// Returns the nodes that the pattern returns, in the order in which it does.
    pub fn outputs(&self) -> Vec<NodeId> {
        let leaves = self.pattern.output.leaves();
        leaves.into_iter().filter_map(|at| self.values[*at as usize].as_ref()?.leaf().copied()).collect()
    }

    pub(super) fn place(&self) -> Place<'a> {
        self.place
    }

    pub(super) fn pattern(&self) -> &'a Pattern {
        self.pattern
    }

    pub(super) fn values(&self) -> &'a [Option<Arg>] {
        self.values
    }
}
