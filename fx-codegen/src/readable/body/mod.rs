//! The body of a function: a statement for each node.

mod arguments;
mod control;
mod result;

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use fx_core::{
    Arg, Attribute, Class, Graph, GraphModule, NodeId, Op, OpCode, Result, SourceLoc, Target, Type, TypeTree,
    bail, err, ops,
};

use super::layout::Expr;
use super::names::{Names, comment, variable};
use super::structure::{Fields, Generator, Member};
use super::types::{Ty, float, int};

/// What a node is in the body.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Var {
    /// A variable that owns a tensor.
    Owned(String),
    /// A variable that is a reference of a tensor.
    Borrowed(String),
    /// A place that holds a tensor, such as `pair.0`.
    Place(String),
    /// A parameter of the module, such as `self.weight`.
    Parameter(String),
    /// A size.
    Dim(String),
    /// A value of any kind.
    Value(String),
    /// A list of tensors.
    Tensors(String),
    /// The future of a fork, which only `wait` takes.
    Future(String),
    /// A struct of tensors, with its fields.
    Struct(String, Vec<String>),
    /// The parts of a tuple, those that are used.
    Parts(Vec<Option<String>>),
}

/// A line of a body.
#[derive(Clone, Debug)]
pub(super) enum Statement {
    /// `let pattern: ty = expr;`
    Let { pattern: String, ty: Option<String>, expr: Expr, nodes: Vec<NodeId> },
    /// `expr;`
    Do { expr: Expr, nodes: Vec<NodeId> },
    /// The result.
    Tail { expr: Expr, nodes: Vec<NodeId> },
    /// A comment.
    Comment(String),
}

/// A function under construction.
pub(super) struct Body<'a, 'g> {
    pub(super) gm: &'a GraphModule,
    pub(super) graph: &'a Graph,
    pub(super) generator: &'g mut Generator,
    pub(super) fields: Fields,
    /// The path of the module whose function it is, and its depth in the stacks of nodes.
    pub(super) path: String,
    pub(super) depth: usize,
    pub(super) vars: HashMap<NodeId, Var>,
    pub(super) names: Names,
    pub(super) dims: HashMap<String, String>,
    pub(super) statements: Vec<Statement>,
    /// Whether a statement may fail, so that the function returns a `Result`.
    pub(super) fails: bool,
    /// Whether variables have the full names of nodes.
    pub(super) exact_names: bool,
    pub(super) last_source: Option<(String, u32)>,
    /// The buffers that the graph updates.
    pub(super) updated: Rc<BTreeSet<Arc<str>>>,
    /// How many nodes each call of an inner module has.
    pub(super) frames: HashMap<(Arc<str>, u32), usize>,
}

impl<'a, 'g> Body<'a, 'g> {
    /// Begins the function of a graph.
    pub(super) fn new(
        gm: &'a GraphModule,
        graph: &'a Graph,
        generator: &'g mut Generator,
        updated: Rc<BTreeSet<Arc<str>>>,
    ) -> Self {
        Body {
            gm,
            graph,
            generator,
            fields: Fields::default(),
            path: String::new(),
            depth: 0,
            vars: HashMap::new(),
            names: Names::default(),
            dims: HashMap::new(),
            statements: Vec::new(),
            fails: false,
            exact_names: false,
            last_source: None,
            updated,
            frames: HashMap::new(),
        }
    }
}

impl Body<'_, '_> {
    /// Returns a name for the variable of a node.
    pub(super) fn name(&mut self, id: NodeId) -> Result<String> {
        let name = self.graph.node(id)?.name();
        let base = match (self.exact_names, self.graph.node(id)?.target()) {
            (true, _) => name,
            (false, Target::CallModule(path)) => &self.relative(path).replace('.', "_"),
            (false, _) => name
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .strip_suffix('_')
                .filter(|x| !x.is_empty())
                .unwrap_or(name),
        };
        let unused = !is_used(self.graph, id);
        let name = variable(base);
        Ok(self.names.claim(if unused && !name.starts_with('_') { format!("_{name}") } else { name }))
    }

    pub(super) fn var(&self, id: NodeId) -> Result<&Var> {
        self.vars.get(&id).ok_or_else(|| {
            err!(Graph, "%{} is used before it is there", self.graph.node(id).map_or("?", |node| node.name()))
        })
    }

    /// Writes a statement for each node; those that belong to an inner module become a call of it.
    pub(super) fn nodes(&mut self, ids: &[NodeId]) -> Result<()> {
        let ids: Vec<NodeId> = ids.iter().copied().filter(|id| self.read_where_used(*id).is_none()).collect();
        let mut at = 0;
        while at < ids.len() {
            let run = &ids[at..at + self.run_of_module(&ids[at..]).max(1)];
            at += run.len();
            if self.frame(run[0]).is_none() || !self.module_call(run)? {
                run.iter().try_for_each(|id| self.one(*id))?;
            }
        }
        Ok(())
    }

    /// Returns the path of a node that reads an attribute which no node updates: code reads it at each use.
    pub(super) fn read_where_used(&self, id: NodeId) -> Option<&str> {
        let node = self.graph.node(id).ok()?;
        match node.target() {
            Target::GetAttr(path) if !self.updated.contains(path) => Some(path),
            _ => None,
        }
    }

    /// Returns how many nodes from the first on belong to one call of one inner module.
    fn run_of_module(&self, ids: &[NodeId]) -> usize {
        let Some(first) = ids.first().and_then(|id| self.frame(*id)) else { return 0 };
        ids.iter().take_while(|id| self.frame(**id).as_ref() == Some(&first)).count()
    }

    /// Returns the call of an inner module that a node belongs to.
    pub(super) fn frame(&self, id: NodeId) -> Option<(Arc<str>, u32)> {
        let node = self.graph.node(id).ok()?;
        let frame = node.meta().stack.as_deref()?.get(self.depth)?;
        // A leaf module is on the stack of its own call.
        let is_own = matches!(node.target(), Target::CallModule(path) if *path == frame.path);
        (!is_own).then(|| (frame.path.clone(), frame.call))
    }

    fn one(&mut self, id: NodeId) -> Result<()> {
        if self.vars.contains_key(&id) {
            return Ok(());
        }
        let inputs: Vec<NodeId> = self.graph.node(id)?.inputs().collect();
        inputs.into_iter().try_for_each(|input| self.read(input))?;
        let (before, source_before) = (self.statements.len(), self.last_source.clone());
        let node = self.graph.node(id)?;
        if !matches!(node.opcode(), OpCode::GetAttr | OpCode::Placeholder | OpCode::Output) {
            self.comments(id)?;
        }
        let n_statements = self.statements.len();
        let node = self.graph.node(id)?;
        match node.target().clone() {
            Target::Placeholder | Target::Output => Ok(()),
            Target::GetAttr(path) => self.attribute(id, &path),
            Target::CallModule(path) => self.call_module(id, &path),
            Target::CallFunction(op) => self.call(id, op, false),
            Target::CallMethod(op) => self.call(id, op, true),
        }?;
        // Nothing is written for what takes an item out, nor where that comes from.
        if self.statements.len() == n_statements {
            self.statements.truncate(before);
            self.last_source = source_before;
        }
        Ok(())
    }

    /// Makes sure that there is a variable for an attribute that is read where it is used.
    pub(super) fn read(&mut self, id: NodeId) -> Result<()> {
        match self.read_where_used(id).map(ToOwned::to_owned) {
            Some(path) if !self.vars.contains_key(&id) => self.attribute(id, &path),
            _ => Ok(()),
        }
    }

    /// Writes where the next nodes come from, if that is another line than before.
    fn comments(&mut self, id: NodeId) -> Result<()> {
        let node = self.graph.node(id)?;
        for provenance in node.meta().provenance() {
            let from: Vec<&str> = provenance.from.iter().take(8).map(|name| &**name).collect();
            let text = format!("{} of {}", provenance.pass, from.join(", "));
            self.statements.push(Statement::Comment(comment(&text)));
        }
        let place = |source: &SourceLoc| (source.file().to_owned(), source.line);
        let source = node.meta().source.as_ref().map(place);
        if source.is_some() && source != self.last_source {
            if let Some((file, line)) = &source {
                self.statements.push(Statement::Comment(comment(&format!("{file}:{line}"))));
            }
            self.last_source = source;
        }
        Ok(())
    }

    fn attribute(&mut self, id: NodeId, path: &str) -> Result<()> {
        let relative = self.relative(path);
        let mut field = |member| format!("self.{}", self.fields.add(&relative, member));
        let var = match self.gm.attribute(path)? {
            Attribute::Parameter(_) => Var::Parameter(field(Member::Parameter)),
            Attribute::State(_) => bail!(Unresolved, "code has no state that is no tensor, such as {path:?}"),
            Attribute::Constant(_) => Var::Place(field(Member::Constant)),
            Attribute::Buffer(_) => {
                let field = self.fields.add(&relative, Member::Buffer);
                let name = if self.exact_names { self.name(id)? } else { self.names.claim(field.clone()) };
                let expr = Expr::Method(format!("self.{field}"), "get".into(), Vec::new());
                self.push(name.clone(), None, expr, id);
                Var::Owned(name)
            }
        };
        self.vars.insert(id, var);
        Ok(())
    }

    /// Returns a path from the module of this function on.
    pub(super) fn relative(&self, path: &str) -> String {
        match self.path.is_empty() {
            true => path.to_owned(),
            false => path
                .strip_prefix(&*self.path)
                .and_then(|rest| rest.strip_prefix('.'))
                .unwrap_or(path)
                .to_owned(),
        }
    }

    pub(super) fn push(&mut self, pattern: String, ty: Option<String>, expr: Expr, id: NodeId) {
        self.statements.push(Statement::Let { pattern, ty, expr, nodes: vec![id] });
    }

    /// Returns a variable as an argument that is a tensor or stands for one.
    pub(super) fn argument(&self, id: NodeId) -> Result<String> {
        Ok(match self.var(id)? {
            Var::Borrowed(name) => name.clone(),
            Var::Owned(name)
            | Var::Place(name)
            | Var::Parameter(name)
            | Var::Dim(name)
            | Var::Value(name)
            | Var::Tensors(name)
            | Var::Struct(name, _) => {
                format!("&{name}")
            }
            Var::Parts(_) => format!("&{}", self.owned(id)?),
            Var::Future(_) => return self.receiver(id),
        })
    }

    /// Returns a variable as an argument whose type is that of a reference of a tensor.
    pub(super) fn reference(&self, id: NodeId) -> Result<String> {
        Ok(match self.var(id)? {
            Var::Parameter(name) => format!("{name}.tensor()"),
            _ => self.argument(id)?,
        })
    }

    /// Returns a variable before a dot.
    pub(super) fn receiver(&self, id: NodeId) -> Result<String> {
        Ok(match self.var(id)? {
            Var::Owned(name)
            | Var::Borrowed(name)
            | Var::Place(name)
            | Var::Parameter(name)
            | Var::Dim(name)
            | Var::Value(name)
            | Var::Tensors(name)
            | Var::Struct(name, _) => name.clone(),
            Var::Parts(_) => {
                bail!(Structure, "%{} is a tuple, which has no methods", self.graph.node(id)?.name())
            }
            Var::Future(_) => {
                let name = self.graph.node(id)?.name();
                return Err(err!(
                    Unresolved,
                    "code for the fork %{name} is written if only one `wait` takes it"
                )
                .help("run the pass `inline_forks` before"));
            }
        })
    }

    /// Returns an expression that gives the value away.
    pub(super) fn owned(&self, id: NodeId) -> Result<String> {
        Ok(match self.var(id)? {
            Var::Parameter(name) => format!("{name}.tensor().clone()"),
            Var::Parts(parts) => {
                let parts: Vec<String> =
                    parts.iter().flatten().map(|part| format!("{part}.clone()")).collect();
                format!("({})", parts.join(", "))
            }
            _ => format!("{}.clone()", self.receiver(id)?),
        })
    }

    /// Returns what the value of a node is, as far as it is known.
    fn ty(&self, id: NodeId) -> Option<&TypeTree> {
        self.graph.node(id).ok()?.ty()
    }

    fn call(&mut self, id: NodeId, op: Op, method: bool) -> Result<()> {
        let node = self.graph.node(id)?;
        let bound = op.bind(node.args(), node.kwargs())?;
        if op == ops::set_buffer::OP {
            return self.set_buffer(id, &bound);
        }
        if op == ops::size::OP
            && let [Arg::Leaf(x), Arg::Int(axis)] = &bound[..]
            && matches!(self.var(*x)?, Var::Owned(_) | Var::Borrowed(_) | Var::Place(_) | Var::Parameter(_))
        {
            let expr = Expr::Method(self.receiver(*x)?, "dim".into(), vec![Expr::text(axis.to_string())]);
            let name = self.name(id)?;
            self.push(name.clone(), None, expr, id);
            self.vars.insert(id, Var::Dim(name));
            return Ok(());
        }
        if op == ops::getitem::OP && self.part(id, &bound)? {
            return Ok(());
        }
        if op == ops::getitem::OP
            && let [Arg::Leaf(x), index] = &bound[..]
            && self.is_tensor(*x)
            && let Some(index) = self.index(index)?
        {
            let expr = Expr::Method(self.receiver(*x)?, "i".into(), vec![index]);
            return self.bind_result(id, op.returns, expr, false);
        }
        if let Some(text) = self.arithmetic_of_sizes(op, &bound)? {
            let name = self.name(id)?;
            self.push(name.clone(), None, Expr::Text(text), id);
            self.vars.insert(id, Var::Dim(name));
            return Ok(());
        }
        if matches!(op.class, Class::Control) {
            return self.control(id, op, &bound);
        }
        let custom = self.generator.options.custom(op).cloned();
        let (expr, annotated) = match custom {
            Some(custom) => {
                let args: Vec<String> = bound
                    .iter()
                    .map(|arg| Ok(self.any(arg)?.flat().unwrap_or_default()))
                    .collect::<Result<_>>()?;
                (Expr::Text(custom(&args)), true)
            }
            None => {
                // What returns any value is asked for what it is here.
                let is_known =
                    self.ty(id).is_some_and(|ty| *ty != Arg::Leaf(Type::Any)) || self.is_tensor_result(id)?;
                let any_result = is_known
                    && (is_any(op.returns) || op == ops::getitem::OP && self.is_structure(id))
                    && self.graph.node(id)?.n_users() > 0;
                self.expression(op, method, any_result, &bound)?
            }
        };
        self.bind_result(id, op.returns, expr, annotated)
    }

    /// Returns whether the result of an operation that returns any value is a tensor. Where types are not
    /// known, `print` and `check` give what they are given.
    fn is_tensor_result(&self, id: NodeId) -> Result<bool> {
        if let Some(ty) = self.ty(id) {
            return Ok(ty.tensor().is_some());
        }
        let node = self.graph.node(id)?;
        let Some(Arg::Leaf(x)) = node.args().first() else { return Ok(false) };
        let is_tensor =
            matches!(self.var(*x)?, Var::Owned(_) | Var::Borrowed(_) | Var::Place(_) | Var::Parameter(_));
        Ok(is_tensor && node.op().is_some_and(|op| op == ops::print::OP || op == ops::check::OP))
    }

    /// Returns whether a value is known to be something else than a tensor, such as a list.
    fn is_structure(&self, id: NodeId) -> bool {
        self.ty(id).is_some_and(|ty| ty.tensor().is_none() && *ty != Arg::Leaf(Type::Any))
    }

    /// Stores the result of a call in variables.
    fn bind_result(&mut self, id: NodeId, returns: &str, expr: Expr, annotated: bool) -> Result<()> {
        let annotation = |ty: &str| annotated.then(|| ty.to_owned());
        let compact = compact(returns);
        // An operator on a tensor gives a tensor, also where the graph has a number, such as that of a round.
        let is_number = is_number(self.ty(id)) && (annotated || compact != "Tensor");
        let (var, pattern, ty) = if is_number {
            let name = self.name(id)?;
            (Var::Value(name.clone()), name, annotation("fx::Value"))
        } else if compact == "Tensor" && !(annotated && self.is_structure(id))
            || compact == "Value" && self.is_tensor_result(id)?
        {
            let name = self.name(id)?;
            (Var::Owned(name.clone()), name, annotation("Tensor"))
        } else if let Some(n) = tuple_of_tensors(&compact) {
            let ty = annotation(&format!("({})", vec!["Tensor"; n].join(", ")));
            let (var, pattern) = self.parts(id, n)?;
            (var, pattern, ty)
        } else if compact == "Vec<Tensor>" {
            let name = self.name(id)?;
            (Var::Tensors(name.clone()), name, annotation("Vec<Tensor>"))
        } else if annotated
            && compact == "Value"
            && let Some(Arg::Tuple(items)) = self.ty(id)
            && items.iter().all(|item| item.tensor().is_some())
        {
            let n = items.len();
            let (var, pattern) = self.parts(id, n)?;
            (var, pattern, Some(format!("({})", vec!["Tensor"; n].join(", "))))
        } else {
            let name = self.name(id)?;
            (Var::Value(name.clone()), name, annotation("fx::Value"))
        };
        self.push(pattern, ty, expr, id);
        self.vars.insert(id, var);
        Ok(())
    }

    /// Names the parts of a tuple after the nodes that take them out.
    pub(super) fn parts(&mut self, id: NodeId, n: usize) -> Result<(Var, String)> {
        let mut parts: Vec<Option<String>> = vec![None; n];
        let mut whole = false;
        for user in self.graph.users(id)? {
            match self.item_of(user, id) {
                Some(at) if at < n => {
                    if parts[at].is_none() && self.graph.node(user)?.n_users() > 0 {
                        parts[at] = Some(self.name(user)?);
                    }
                }
                _ => whole = true,
            }
        }
        if whole {
            for (i, part) in parts.iter_mut().enumerate() {
                if part.is_none() {
                    let name = variable(&format!("{}_{i}", self.graph.node(id)?.name()));
                    *part = Some(self.names.claim(name));
                }
            }
        }
        let names: Vec<&str> = parts.iter().map(|part| part.as_deref().unwrap_or("_")).collect();
        let pattern = format!("({})", names.join(", "));
        Ok((Var::Parts(parts), pattern))
    }

    /// Returns which item of a tuple a node takes out.
    fn item_of(&self, user: NodeId, tuple: NodeId) -> Option<usize> {
        let node = self.graph.node(user).ok()?;
        if node.op() != Some(ops::getitem::OP) {
            return None;
        }
        match &ops::getitem::OP.bind(node.args(), node.kwargs()).ok()?[..] {
            [Arg::Leaf(x), Arg::Int(at)] if *x == tuple => usize::try_from(*at).ok(),
            _ => None,
        }
    }

    /// Takes an item out of several tensors; returns whether the operand is that.
    fn part(&mut self, id: NodeId, bound: &[Arg]) -> Result<bool> {
        let [Arg::Leaf(x), index] = bound else { return Ok(false) };
        let var = match (self.var(*x)?, index) {
            (Var::Parts(parts), Arg::Int(at)) => {
                let at = if *at < 0 { at + parts.len() as i64 } else { *at };
                match usize::try_from(at).ok().and_then(|at| parts.get(at)) {
                    Some(Some(name)) => Var::Owned(name.clone()),
                    // Nobody uses it.
                    Some(None) => Var::Owned("_".into()),
                    None => return Ok(false),
                }
            }
            (Var::Struct(name, fields), Arg::Str(key)) if fields.iter().any(|field| **field == **key) => {
                Var::Place(format!("{name}.{key}"))
            }
            (Var::Tensors(name), Arg::Int(at)) if *at >= 0 => Var::Place(format!("{name}[{at}]")),
            _ => return Ok(false),
        };
        self.vars.insert(id, var);
        Ok(true)
    }

    /// Writes an index as users do: `3`, `fx::s![.., 1..;2, None]`; nothing if it can only be written as a value.
    fn index(&mut self, index: &Arg) -> Result<Option<Expr>> {
        let Arg::Tuple(items) = index else {
            return Ok(match index {
                Arg::Int(_) => Some(self.any(index)?),
                Arg::Leaf(id) if self.is_tensor(*id) => Some(self.any(index)?),
                _ => None,
            });
        };
        let mut entries = Vec::new();
        for item in items.iter() {
            entries.push(match item {
                Arg::None => "None".to_owned(),
                Arg::Ellipsis => "..".to_owned(),
                Arg::Slice(slice) => {
                    let [start, stop, step] = slice.parts();
                    let mut bounds = Vec::new();
                    for bound in [start, stop, step] {
                        bounds.push(match bound {
                            Arg::None => String::new(),
                            Arg::Int(x) => int(*x),
                            // A range of other bounds needs parentheses.
                            _ => return Ok(None),
                        });
                    }
                    match &bounds[..] {
                        [start, stop, step] if !step.is_empty() => format!("{start}..{stop};{step}"),
                        [start, stop, _] if start.is_empty() && stop.is_empty() => return Ok(None),
                        [start, stop, ..] => format!("{start}..{stop}"),
                        _ => return Ok(None),
                    }
                }
                Arg::Int(x) => int(*x),
                Arg::Leaf(id) if self.is_tensor(*id) => self.argument(*id)?,
                _ => return Ok(None),
            });
        }
        Ok(Some(Expr::Text(format!("fx::s![{}]", entries.join(", ")))))
    }

    fn set_buffer(&mut self, id: NodeId, bound: &[Arg]) -> Result<()> {
        let [Arg::Str(path), Arg::Leaf(value)] = bound else {
            bail!(Graph, "an update takes a buffer and a tensor")
        };
        let relative = self.relative(path);
        let field = self.fields.add(&relative, Member::Buffer);
        let expr =
            Expr::Method(format!("self.{field}"), "set".into(), vec![Expr::Text(self.reference(*value)?)]);
        self.fails = true;
        self.statements.push(Statement::Do { expr: Expr::Try(Box::new(expr)), nodes: vec![id] });
        Ok(())
    }

    /// Writes arithmetic on sizes, if it is that.
    fn arithmetic_of_sizes(&self, op: Op, bound: &[Arg]) -> Result<Option<String>> {
        let operator = match op {
            _ if op == ops::add::OP => "+",
            _ if op == ops::sub::OP => "-",
            _ if op == ops::mul::OP => "*",
            _ if op == ops::floor_divide::OP => "/",
            _ if op == ops::remainder::OP => "%",
            _ => return Ok(None),
        };
        let rest_is_default = bound
            .iter()
            .zip(op.params)
            .skip(2)
            .all(|(arg, param)| param.default.is_some_and(|default| default.is(arg)));
        let [a, b, ..] = bound else { return Ok(None) };
        let size = |arg: &Arg| match arg {
            Arg::Leaf(id) => match self.vars.get(id) {
                Some(Var::Dim(name)) => Some(format!("&{name}")),
                _ => None,
            },
            Arg::Int(x) => Some(int(*x)),
            _ => None,
        };
        let (Some(left), Some(right), true) = (size(a), size(b), rest_is_default) else { return Ok(None) };
        let has_size = matches!(a, Arg::Leaf(_)) || matches!(b, Arg::Leaf(_));
        Ok(has_size.then(|| format!("{left} {operator} {right}")))
    }

    /// Writes the call of an operation; the flag says whether the type of the result must be written out.
    fn expression(&mut self, op: Op, method: bool, any_result: bool, bound: &[Arg]) -> Result<(Expr, bool)> {
        if let Some(expr) = self.operator(op, method, bound)? {
            // Which type a number on the left has is not known before the result is.
            return Ok((expr, matches!(bound.first(), Some(Arg::Int(_) | Arg::Float(_) | Arg::Bool(_)))));
        }
        let given = |i: usize| !op.params[i].default.is_some_and(|default| default.is(&bound[i]));
        let by_keyword = (0..bound.len()).any(|i| op.params[i].keyword_only && given(i));
        let n_positional = op.params.iter().filter(|param| !param.keyword_only).count();
        let left_out = (0..n_positional).filter(|i| !given(*i)).count();
        let path = self.generator.options.path_of(op)?;
        // The trait of other methods may not be in scope.
        let has_method = method && op.method && path.starts_with("fx::");
        if has_method
            && !any_result
            && !by_keyword
            && n_positional <= 4 + usize::from(left_out == 0) * 4
            && let Arg::Leaf(x) = &bound[0]
            && !matches!(self.var(*x)?, Var::Dim(_) | Var::Value(_) | Var::Tensors(_) | Var::Parts(_))
        {
            let args =
                (1..n_positional).map(|i| self.typed(op.params[i].kind, &bound[i])).collect::<Result<_>>()?;
            let name = path.rsplit("::").next().unwrap_or(op.name).to_owned();
            return Ok((Expr::Method(self.receiver(*x)?, name, args), false));
        }
        if !any_result && !by_keyword && (left_out == 0 || n_positional <= 3) {
            let args =
                (0..n_positional).map(|i| self.typed(op.params[i].kind, &bound[i])).collect::<Result<_>>()?;
            return Ok((Expr::Call(path, args), false));
        }
        let mut args = Vec::new();
        let mut named = false;
        for (i, (param, arg)) in op.params.iter().zip(bound).enumerate() {
            if !given(i) {
                named = true;
                continue;
            }
            let canonical = param.kind.canonical(arg);
            let value = self.any(canonical.as_ref().unwrap_or(arg))?;
            named |= param.default.is_some();
            args.push(match named || param.keyword_only {
                true => Expr::Prefixed(format!("{} = ", param.name), Box::new(value)),
                false => value,
            });
        }
        Ok((Expr::Call("fx::call!".into(), vec![Expr::Call(path, args)]), true))
    }

    /// Writes a Rust operator, where there is one for the operation.
    fn operator(&self, op: Op, method: bool, bound: &[Arg]) -> Result<Option<Expr>> {
        if method {
            return Ok(None);
        }
        let rest_is_default = bound
            .iter()
            .zip(op.params)
            .skip(2)
            .all(|(arg, param)| param.default.is_some_and(|default| default.is(arg)));
        let binary = [
            (ops::add::OP, "+"),
            (ops::sub::OP, "-"),
            (ops::mul::OP, "*"),
            (ops::div::OP, "/"),
            (ops::remainder::OP, "%"),
            (ops::bitwise_and::OP, "&"),
            (ops::bitwise_or::OP, "|"),
            (ops::bitwise_xor::OP, "^"),
            (ops::bitwise_left_shift::OP, "<<"),
            (ops::bitwise_right_shift::OP, ">>"),
        ];
        let operand = |arg: &Arg, left: bool| -> Result<Option<String>> {
            Ok(match arg {
                Arg::Leaf(id) => match self.var(*id)? {
                    Var::Value(_) | Var::Tensors(_) | Var::Parts(_) => None,
                    Var::Dim(name) if left => Some(format!("{name}.clone()")),
                    _ => Some(self.argument(*id)?),
                },
                Arg::Bool(x) => Some(x.to_string()),
                // A sign before an operator binds, but reads badly.
                Arg::Int(x) if !left || i32::try_from(*x).is_ok() => Some(int(*x)),
                Arg::Float(x) if !left || x.is_finite() => Some(float(*x)),
                _ => None,
            })
        };
        let is_tensor =
            |arg: &Arg| matches!(arg, Arg::Leaf(id) if !matches!(self.vars.get(id), Some(Var::Dim(_))));
        if let Some((_, sign)) = binary.iter().find(|(other, _)| *other == op)
            && rest_is_default
            && let [a, b, ..] = bound
            && (is_tensor(a) || is_tensor(b))
            && let (Some(left), Some(right)) = (operand(a, true)?, operand(b, false)?)
        {
            return Ok(Some(Expr::Binary(left, sign, right)));
        }
        let unary = [(ops::neg::OP, "-"), (ops::bitwise_not::OP, "!")];
        if let Some((_, sign)) = unary.iter().find(|(other, _)| *other == op)
            && let [Arg::Leaf(id)] = bound
            && matches!(self.var(*id)?, Var::Owned(_) | Var::Borrowed(_) | Var::Place(_))
        {
            return Ok(Some(Expr::Text(format!("{sign}{}", self.argument(*id)?))));
        }
        Ok(None)
    }

    /// Returns the outside values that nodes use, in the order of their first use, and the values of theirs
    /// that others use. What is read below `path` where it is used is not among them.
    pub(super) fn border(&self, ids: &[NodeId], path: &str) -> Result<(Vec<NodeId>, Vec<NodeId>)> {
        let inside: BTreeSet<NodeId> = ids.iter().copied().collect();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for id in ids {
            for input in self.graph.node(*id)?.inputs() {
                let is_below = self.read_where_used(input).is_some_and(|read| is_below(read, path));
                if !is_below && !inside.contains(&input) && !inputs.contains(&input) {
                    inputs.push(input);
                }
            }
            if self.graph.users(*id)?.iter().any(|user| !inside.contains(user)) {
                outputs.push(*id);
            }
        }
        Ok((inputs, outputs))
    }
}

/// Returns whether a path is below another.
pub(super) fn is_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns a type as it is written, without spaces and paths.
fn compact(returns: &str) -> String {
    let compact: String = returns.chars().filter(|c| !c.is_whitespace()).collect();
    compact.replace("fx_core::", "").replace("crate::", "").replace("fx::", "")
}

/// Returns whether a function returns any value, or a tuple with one.
fn is_any(returns: &str) -> bool {
    compact(returns).split(['(', ',', ')']).any(|part| part == "Value")
}

/// Returns whether a type is that of a number of the host.
fn is_number(ty: Option<&TypeTree>) -> bool {
    matches!(
        ty,
        Some(
            Arg::Leaf(Type::Int | Type::Float | Type::Bool)
                | Arg::Int(_)
                | Arg::Dim(_)
                | Arg::Float(_)
                | Arg::Bool(_)
        )
    )
}

/// Returns whether a node uses the value of another one, also as a size.
pub(super) fn is_used(graph: &Graph, id: NodeId) -> bool {
    let Ok(node) = graph.node(id) else { return false };
    let Some(Arg::Dim(size)) = node.ty().filter(|_| node.n_users() == 0) else { return node.n_users() > 0 };
    let (symbols, mut found) = (size.symbols(), false);
    for (_, node) in graph.nodes() {
        for arg in node.args().iter().chain(node.kwargs().iter().map(|(_, arg)| arg)) {
            arg.walk(&mut |arg| {
                if let Arg::Dim(other) = arg {
                    found |= other.symbols().iter().any(|symbol| symbols.contains(symbol));
                }
            });
        }
    }
    found
}

/// Returns the type of a node of a graph: a tensor, or a number of the host.
pub(super) fn type_in(graph: &Graph, id: &NodeId) -> Ty {
    match graph.node(*id).ok().and_then(fx_core::Node::ty) {
        ty if is_number(ty) => Ty::Value,
        _ => Ty::Tensor,
    }
}

/// Returns how many tensors a tuple type has, if it has only tensors.
fn tuple_of_tensors(returns: &str) -> Option<usize> {
    let inner = returns.strip_prefix('(')?.strip_suffix(')')?;
    let items: Vec<&str> = inner.split(',').filter(|item| !item.is_empty()).collect();
    (!items.is_empty() && items.iter().all(|item| *item == "Tensor")).then_some(items.len())
}
