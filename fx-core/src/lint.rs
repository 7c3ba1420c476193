//! Lint: every violation of an invariant, each at its node.
//!
//! By construction, checked all the same: one output, last; placeholders first; edges mirrored; every node
//! defined before its use; names unique identifiers; the signature in the order of the placeholders. Beyond
//! that:
//!
//! - **Arguments**: number, keywords and kinds of arguments fit the schema of the operation; a method has a
//!   method form; modules take no keywords; the operands of `cond` and `while_loop` are as many as their
//!   sub-graphs take.
//! - **Type**: the recorded type of a node is the one that its operation gives for the recorded types of its
//!   inputs, where all are known; a size that depends on data may have any recorded size. The same for
//!   attributes, buffers and operands.
//! - **Path**: attributes, sub-modules and buffers resolve in the graph module.
//! - **Closed**: a sub-graph reads no attribute, calls no module and updates no buffer.
//! - **Effect**: a buffer is updated at most once.
//! - **Symbol**: a symbolic size among the arguments is bound by a placeholder or by a node before.
//!
//! Sub-modules are not inferred: [`GraphModule::infer`] does that.

use std::fmt;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::infer::type_of;
use crate::node::{Node, NodeId, Target};
use crate::{
    Arg, Attribute, Dim, Error, ErrorKind, Graph, GraphModule, Op, OpCode, SourceLoc, Symbol, TensorType,
    Type, TypeTree, fresh, ops,
};

/// What a [`Violation`] breaks; the module's header says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ViolationKind {
    /// The graph's own bookkeeping.
    Structure,
    /// A node is used before it is defined, or is not in the graph.
    Order,
    /// A name is not a unique identifier.
    Name,
    /// The signature does not agree with the placeholders.
    Signature,
    /// Arguments do not fit.
    Arguments,
    /// A recorded type is wrong.
    Type,
    /// A path does not resolve.
    Path,
    /// A sub-graph is not closed.
    Closed,
    /// A buffer is updated twice.
    Effect,
    /// A symbolic size has no value when it is used.
    Symbol,
}

/// One violation.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// The broken invariant.
    pub kind: ViolationKind,
    /// The node, such as `%add`, or `@then %add` inside of a sub-graph; empty for the graph as a whole.
    pub node: String,
    /// One sentence, expected before got.
    pub message: String,
    /// The line of the user's program that recorded the node.
    pub source: Option<SourceLoc>,
}

/// One line: `%add: expected f32[3], got f32[4]`, and the place in the user's program where it is known.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.node.is_empty() {
            write!(f, "{}: ", self.node)?;
        }
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, "  at {source}"),
            None => Ok(()),
        }
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        let source = violation.source.clone();
        let error = Error::new(ErrorKind::Graph, Violation { source: None, ..violation }.to_string());
        match source {
            Some(source) => error.at(source),
            None => error,
        }
    }
}

/// Returns every violation in a graph and its sub-graphs; paths are not looked up.
pub fn lint(graph: &Graph) -> Vec<Violation> {
    let mut linter = Linter::default();
    linter.graph(graph, None, "");
    linter.found
}

impl Graph {
    /// Returns every violation in this graph and its sub-graphs; see [`lint`](mod@crate::lint). Paths are not
    /// looked up.
    pub fn lint(&self) -> Vec<Violation> {
        lint(self)
    }
}

impl GraphModule {
    /// Returns every violation in the graph and in those of its methods, with all paths looked up; see
    /// [`lint`](mod@crate::lint).
    pub fn lint(&self) -> Vec<Violation> {
        let mut linter = Linter::default();
        linter.graph(self.graph(), Some(self), "");
        for (name, graph) in self.methods() {
            let before = linter.found.len();
            linter.graph(graph, Some(self), "");
            for violation in &mut linter.found[before..] {
                violation.node = format!("{name}: {}", violation.node);
            }
        }
        linter.found
    }
}

#[derive(Default)]
struct Linter {
    found: Vec<Violation>,
    /// The sub-graphs that were looked at, by address.
    seen: FxHashSet<usize>,
}

/// One graph while it is looked at.
struct Scope<'a> {
    graph: &'a Graph,
    module: Option<&'a GraphModule>,
    /// `@then ` for each sub-graph around.
    prefix: &'a str,
    bound: FxHashSet<Symbol>,
    updated: FxHashMap<Arc<str>, NodeId>,
}

impl Scope<'_> {
    fn is_closed(&self) -> bool {
        !self.prefix.is_empty()
    }
}

impl Linter {
    fn report(&mut self, scope: &Scope<'_>, kind: ViolationKind, id: Option<NodeId>, message: String) {
        let node = id.and_then(|id| scope.graph.node(id).ok());
        let node_text = match node {
            Some(node) => format!("{}%{}", scope.prefix, node.name()),
            None => scope.prefix.trim_end().to_owned(),
        };
        let source = node.and_then(|node| node.meta().source.clone());
        self.found.push(Violation { kind, node: node_text, message: message.replace('\n', " "), source });
    }

    fn graph(&mut self, graph: &Graph, module: Option<&GraphModule>, prefix: &str) {
        let mut scope =
            Scope { graph, module, prefix, bound: FxHashSet::default(), updated: FxHashMap::default() };
        let mut broken = Vec::new();
        let can_walk = graph.check_invariants(&mut |kind, id, message| broken.push((kind, id, message)));
        let is_sound = broken.is_empty();
        for (kind, id, message) in broken {
            self.report(&scope, kind, id, message);
        }
        if !can_walk {
            return;
        }
        for (id, node) in graph.nodes() {
            self.symbols(&scope, id, node);
            match node.target() {
                Target::GetAttr(path) => self.get_attr(&scope, id, node, path),
                Target::CallModule(path) => self.call_module(&scope, id, node, path),
                Target::CallFunction(op) | Target::CallMethod(op) if is_sound => {
                    self.call(&mut scope, id, node, *op)
                }
                _ => {}
            }
            if let Some(ty) = node.ty() {
                bind(&mut scope.bound, ty);
            }
            if graph.depth() > 0 {
                for inner in node.subgraphs() {
                    if self.seen.insert(Arc::as_ptr(inner) as usize) {
                        self.graph(inner, None, &format!("{prefix}@{} ", inner.name()));
                    }
                }
            }
        }
    }

    /// Checks that symbolic sizes among the arguments have a value by now.
    fn symbols(&mut self, scope: &Scope<'_>, id: NodeId, node: &Node) {
        for arg in node.all_args() {
            arg.walk(&mut |arg| {
                let Arg::Dim(dim) = arg else { return };
                for symbol in dim.symbols() {
                    if !scope.bound.contains(&symbol) {
                        let message = format!(
                            "no placeholder and no node before says what {} is in <{dim}>",
                            symbol.name()
                        );
                        self.report(scope, ViolationKind::Symbol, Some(id), message);
                    }
                }
            });
        }
    }

    fn get_attr(&mut self, scope: &Scope<'_>, id: NodeId, node: &Node, path: &str) {
        if scope.is_closed() {
            let message = format!("a closed sub-graph reads the attribute {path:?}");
            return self.report(scope, ViolationKind::Closed, Some(id), message);
        }
        let Some(module) = scope.module else { return };
        match module.attribute(path) {
            Err(error) => self.report(scope, ViolationKind::Path, Some(id), error.message().to_owned()),
            Ok(attribute) => {
                if let (Some(recorded), Ok(ty)) = (node.ty(), attribute.type_tree()) {
                    self.compare(scope, id, &ty, recorded, &[]);
                }
            }
        }
    }

    fn call_module(&mut self, scope: &Scope<'_>, id: NodeId, node: &Node, path: &str) {
        if !node.kwargs().is_empty() {
            let message = "a module takes no keyword arguments".to_owned();
            self.report(scope, ViolationKind::Arguments, Some(id), message);
        }
        if scope.is_closed() {
            let message = format!("a closed sub-graph calls the module {path:?}");
            return self.report(scope, ViolationKind::Closed, Some(id), message);
        }
        let Some(module) = scope.module else { return };
        match module.child(path) {
            Err(error) => self.report(scope, ViolationKind::Path, Some(id), error.message().to_owned()),
            Ok(child) => {
                let expected = match child.as_module().as_any().downcast_ref::<GraphModule>() {
                    Some(child) => child.graph().inputs().len(),
                    None => child.inputs().len(),
                };
                if expected != node.args().len() {
                    let message = format!("{path:?} takes {expected} arguments, got {}", node.args().len());
                    self.report(scope, ViolationKind::Arguments, Some(id), message);
                }
            }
        }
    }

    fn call(&mut self, scope: &mut Scope<'_>, id: NodeId, node: &Node, op: Op) {
        if node.opcode() == OpCode::CallMethod && !op.method {
            self.report(scope, ViolationKind::Arguments, Some(id), format!("{} is not a method", op.name));
        }
        let bound;
        let in_order = node.kwargs().is_empty() && node.args().len() == op.params.len();
        let args =
            if in_order && node.args().iter().zip(op.params).all(|(arg, param)| param.kind.accepts(arg)) {
                node.args()
            } else {
                match op.bind(node.args(), node.kwargs()) {
                    Ok(args) => {
                        bound = args;
                        &bound[..]
                    }
                    Err(error) => {
                        return self.report(
                            scope,
                            ViolationKind::Arguments,
                            Some(id),
                            error.message().to_owned(),
                        );
                    }
                }
            };
        if ops::is_store(op) {
            self.store(scope, id, op, args);
        } else if op.effects.state && scope.is_closed() {
            self.report(
                scope,
                ViolationKind::Closed,
                Some(id),
                format!("a closed sub-graph calls {}", op.name),
            );
        }
        if !self.operands(scope, id, op, args) {
            return;
        }
        let mut types: SmallVec<[TypeTree; 4]> = SmallVec::new();
        for arg in args {
            match type_of(scope.graph, arg) {
                Some(ty) => types.push(ty),
                None => return,
            }
        }
        match op.infer(&types) {
            Ok(None) => {}
            Err(error) => self.report(scope, ViolationKind::Type, Some(id), error.message().to_owned()),
            Ok(Some(ty)) => {
                if let Some(recorded) = node.ty()
                    && ty != *recorded
                {
                    let new = fresh::new_symbols(&ty, &types);
                    self.compare(scope, id, &ty, recorded, &new);
                }
            }
        }
    }

    fn store(&mut self, scope: &mut Scope<'_>, id: NodeId, op: Op, args: &[Arg]) {
        let [Arg::Str(path), value] = args else { return };
        let what = if op == ops::set_buffer::OP { "buffer" } else { "state" };
        if scope.is_closed() {
            let message = format!("a closed sub-graph updates the {what} {path:?}");
            return self.report(scope, ViolationKind::Closed, Some(id), message);
        }
        if let Some(first) = scope.updated.insert(path.clone(), id) {
            let first = scope.graph.node(first).map_or("?", Node::name);
            let message = format!("the {what} {path:?} is updated by %{first} already");
            self.report(scope, ViolationKind::Effect, Some(id), message);
        }
        let Some(module) = scope.module else { return };
        match module.attribute(path) {
            Err(error) => self.report(scope, ViolationKind::Path, Some(id), error.message().to_owned()),
            Ok(Attribute::State(state)) if op == ops::set_state::OP => {
                if let Some(got) = type_of(scope.graph, value) {
                    self.compare(scope, id, state.ty(), &got, &fresh::symbols(state.ty()));
                }
            }
            Ok(Attribute::Buffer(buffer)) if op == ops::set_buffer::OP => {
                if let (Ok(expected), Some(got)) = (buffer.load().type_tree(), type_of(scope.graph, value)) {
                    self.compare(scope, id, &expected, &got, &[]);
                }
            }
            Ok(_) => {
                let message = format!("{path:?} is updated by {}, but it is no {what}", op.name);
                self.report(scope, ViolationKind::Path, Some(id), message);
            }
        }
    }

    /// Checks that sub-graphs take as many operands as they are given, of those types; returns whether they do.
    fn operands(&mut self, scope: &Scope<'_>, id: NodeId, op: Op, args: &[Arg]) -> bool {
        let mut first = None;
        let (graphs, given): (Vec<&Arg>, Vec<&Arg>) = match args {
            [_, then, otherwise, operands] if op == ops::cond::OP => (vec![then, otherwise], vec![operands]),
            [test, body, carried, captured] if op == ops::while_loop::OP => {
                (vec![test, body], vec![carried, captured])
            }
            [n, body, carried, captured] if op == ops::for_loop::OP => {
                first = Some(n);
                (vec![body], vec![carried, captured])
            }
            [body, operands] if op == ops::fused::OP || op == ops::fork::OP => (vec![body], vec![operands]),
            _ => return true,
        };
        // The number of the round has the type of the number of rounds.
        let mut operands: Vec<&Arg> = first.into_iter().collect();
        for list in given {
            match list.items() {
                Some(items) => operands.extend(items),
                None => {
                    let message = format!("expected a list of operands, got {}", list.kind_name());
                    self.report(scope, ViolationKind::Arguments, Some(id), message);
                    return false;
                }
            }
        }
        let mut fits = true;
        for graph in graphs {
            let Arg::Graph(graph) = graph else { continue };
            let placeholders = graph.placeholders();
            if placeholders.len() != operands.len() {
                let (n, name) = (placeholders.len(), graph.name());
                let message = format!("@{name} takes {n} operands, got {}", operands.len());
                self.report(scope, ViolationKind::Arguments, Some(id), message);
                fits = false;
                continue;
            }
            for (placeholder, operand) in placeholders.into_iter().zip(&operands) {
                let Ok(placeholder) = graph.node(placeholder) else { continue };
                let (Some(declared), Some(ty)) = (placeholder.ty(), type_of(scope.graph, operand)) else {
                    continue;
                };
                if let (Some(a), Some(b)) = (declared.tensor(), ty.tensor())
                    && !could_be_same(a, b)
                {
                    let message =
                        format!("%{} of @{} expects {a}, got {b}", placeholder.name(), graph.name());
                    self.report(scope, ViolationKind::Type, Some(id), message);
                    fits = false;
                }
            }
        }
        fits
    }

    fn compare(
        &mut self,
        scope: &Scope<'_>,
        id: NodeId,
        expected: &TypeTree,
        got: &TypeTree,
        new: &[Symbol],
    ) {
        if !agrees(expected, got, new) {
            let message = format!("expected {expected}, got {got}");
            self.report(scope, ViolationKind::Type, Some(id), message);
        }
    }
}

/// Returns whether a recorded type is the inferred one, as far as both are known; sizes with new symbols may
/// be any.
pub(crate) fn agrees(expected: &TypeTree, got: &TypeTree, new: &[Symbol]) -> bool {
    match (expected, got) {
        (Arg::Leaf(Type::Any), _) | (_, Arg::Leaf(Type::Any)) => true,
        (Arg::Leaf(Type::Tensor(a)), Arg::Leaf(Type::Tensor(b))) => {
            let same = |(a, b): (&Dim, &Dim)| a == b || a.symbols().iter().any(|symbol| new.contains(symbol));
            a.dtype == b.dtype && a.rank() == b.rank() && a.shape.iter().zip(b.shape.iter()).all(same)
        }
        (Arg::Leaf(Type::Int), Arg::Int(_) | Arg::Dim(_))
        | (Arg::Int(_) | Arg::Dim(_), Arg::Leaf(Type::Int)) => true,
        (Arg::Leaf(Type::Float), Arg::Float(_)) | (Arg::Float(_), Arg::Leaf(Type::Float)) => true,
        (Arg::Leaf(Type::Bool), Arg::Bool(_)) | (Arg::Bool(_), Arg::Leaf(Type::Bool)) => true,
        (Arg::Leaf(Type::Str), Arg::Str(_)) | (Arg::Str(_), Arg::Leaf(Type::Str)) => true,
        (Arg::Leaf(Type::Optional(a)), Arg::Leaf(Type::Optional(b)))
        | (Arg::Leaf(Type::List(a)), Arg::Leaf(Type::List(b))) => agrees(a, b, new),
        (Arg::Leaf(Type::Optional(_)), Arg::None) | (Arg::None, Arg::Leaf(Type::Optional(_))) => true,
        (Arg::Leaf(Type::Optional(a)), b) | (b, Arg::Leaf(Type::Optional(a))) => agrees(a, b, new),
        (Arg::Leaf(Type::List(a)), Arg::List(b)) | (Arg::List(b), Arg::Leaf(Type::List(a))) => {
            b.iter().all(|b| agrees(a, b, new))
        }
        (Arg::Dim(a), Arg::Dim(_) | Arg::Int(_)) if a.symbols().iter().any(|symbol| new.contains(symbol)) => {
            true
        }
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| agrees(a, b, new))
        }
        (Arg::Dict(a), Arg::Dict(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((k, a), (l, b))| k == l && agrees(a, b, new))
        }
        (a, b) => a == b,
    }
}

/// Returns whether an operand may be passed where another type is declared: the symbols of the two are unrelated.
fn could_be_same(declared: &TensorType, given: &TensorType) -> bool {
    let differ = |(a, b): (&Dim, &Dim)| a.known().zip(b.known()).is_some_and(|(a, b)| a != b);
    declared.dtype == given.dtype
        && declared.rank() == given.rank()
        && !declared.shape.iter().zip(given.shape.iter()).any(differ)
}

/// Adds the symbols to which a value of this type gives a value.
pub(crate) fn bind(bound: &mut FxHashSet<Symbol>, ty: &TypeTree) {
    fresh::for_each_dim(ty, &mut |dim| {
        if dim.is_known() {
            return;
        }
        // Any number will do for what is bound: it asks whether the size tells the one symbol that is not.
        let rest = dim.substitute(&|symbol| bound.contains(symbol).then(|| Dim::new(7)));
        if let Some((symbol, ..)) = rest.linear() {
            bound.insert(symbol.clone());
        }
    });
}
