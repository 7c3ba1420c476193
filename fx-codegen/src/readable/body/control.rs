//! Control flow: sub-graphs as closures.

use fx_core::{Arg, Graph, NodeId, Op, Result, bail, err, ops};

use super::super::layout::Expr;
use super::super::structure::write;
use super::super::types::Ty;
use super::{Body, Var, is_used, type_in};

/// What a sub-graph takes and gives besides the operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A branch of `cond`.
    Branch,
    /// The test of a loop, which borrows the operands.
    Test,
    /// The body of a loop, which gives a list.
    Body,
    /// The body of a loop that takes the number of the round first.
    Round,
    /// The body of a fork.
    Task,
}

impl Body<'_, '_> {
    /// Writes operations of control flow, whose sub-graphs become closures.
    pub(super) fn control(&mut self, id: NodeId, op: Op, bound: &[Arg]) -> Result<()> {
        if op == ops::wait::OP {
            return self.wait(id, &bound[0]);
        }
        let items = |arg: &Arg| arg.items().map(<[Arg]>::to_vec).unwrap_or_default();
        let none = Vec::new();
        let (regions, carried, captured) = match bound {
            [_, Arg::Graph(then), Arg::Graph(otherwise), operands] if op == ops::cond::OP => {
                (vec![(then, Part::Branch), (otherwise, Part::Branch)], items(operands), none)
            }
            [Arg::Graph(test), Arg::Graph(body), carried, captured] if op == ops::while_loop::OP => {
                (vec![(test, Part::Test), (body, Part::Body)], items(carried), items(captured))
            }
            [_, Arg::Graph(body), carried, captured] if op == ops::for_loop::OP => {
                (vec![(body, Part::Round)], items(carried), items(captured))
            }
            [Arg::Graph(body), operands] if op == ops::fork::OP => {
                (vec![(body, Part::Task)], items(operands), none)
            }
            _ => {
                return Err(err!(Unresolved, "code for {} is not written yet", op.name)
                    .help("run the graph module, or write code for the operation by an option"));
            }
        };
        if carried.iter().chain(&captured).any(|arg| !matches!(arg, Arg::Leaf(id) if self.is_tensor(*id))) {
            return Err(err!(Unresolved, "code for {} is written for operands that are tensors", op.name)
                .help("run the graph module, or write code for the operation by an option"));
        }
        let mut args = Vec::new();
        if op != ops::while_loop::OP && op != ops::fork::OP {
            args.push(match &bound[0] {
                Arg::Leaf(p) if op == ops::cond::OP => Expr::Text(self.reference(*p)?),
                Arg::Bool(p) => Expr::text(p.to_string()),
                n @ (Arg::Leaf(_) | Arg::Int(_) | Arg::Dim(_)) if op == ops::for_loop::OP => self.any(n)?,
                other => bail!(
                    Unresolved,
                    "code for {} with {} as the first operand is not written yet",
                    op.name,
                    other.kind_name()
                ),
            });
        }
        for (region, part) in &regions {
            args.push(self.closure(region, &carried, &captured, *part)?);
        }
        let operands: Vec<Expr> = carried
            .iter()
            .filter_map(|arg| arg.leaf())
            .map(|id| self.owned(*id).map(Expr::Text))
            .collect::<Result<_>>()?;
        args.push(if operands.is_empty() { Expr::text("()") } else { Expr::Array(operands) });
        if op == ops::fork::OP {
            let name = self.name(id)?;
            self.push(name.clone(), None, Expr::Call("fx::fork_with".into(), args), id);
            self.vars.insert(id, Var::Future(name));
            return Ok(());
        }
        let result = match regions.last() {
            Some((region, part)) => part.result(region),
            None => bail!(Graph, "{} has no sub-graph", op.name),
        };
        self.bind_parts(id, &result, Expr::Call(format!("fx::{}", op.name), args))
    }

    /// Writes the wait for a fork, which gives its result once.
    fn wait(&mut self, id: NodeId, future: &Arg) -> Result<()> {
        let Some(fork) = future.leaf() else { bail!(Unresolved, "code for a wait is written for a fork") };
        let node = self.graph.node(*fork)?;
        let name = match self.vars.get(fork) {
            Some(Var::Future(name)) if node.n_users() == 1 => name.clone(),
            _ => return self.receiver(*fork).map(drop),
        };
        let result = match node.subgraphs().first() {
            Some(body) => Part::Task.result(body),
            None => bail!(Graph, "a fork has no sub-graph"),
        };
        let expr = Expr::Text(format!("{name}.wait()"));
        self.bind_parts(id, &result, expr)
    }

    /// Stores the result of control flow in variables.
    fn bind_parts(&mut self, id: NodeId, result: &Ty, expr: Expr) -> Result<()> {
        let (n, open, close) = match result {
            Ty::Tensor => return self.bind_result(id, "Tensor", expr, true),
            Ty::Tuple(items) if result.is_flat() => {
                (items.len(), '(', if items.len() == 1 { ",)" } else { ")" })
            }
            Ty::Array(_, n) if result.is_flat() => (*n, '[', "]"),
            other => {
                bail!(Unresolved, "code for a sub-graph that returns {} is not written yet", other.rust())
            }
        };
        let (var, pattern) = self.parts(id, n)?;
        let names = pattern.trim_matches(['(', ')']);
        self.push(format!("{open}{names}{close}"), Some(result.rust()), expr, id);
        self.vars.insert(id, var);
        Ok(())
    }

    fn closure(&mut self, region: &Graph, carried: &[Arg], captured: &[Arg], part: Part) -> Result<Expr> {
        let placeholders = region.placeholders();
        let n_rounds = usize::from(part == Part::Round);
        let expected = n_rounds + carried.len() + captured.len();
        if placeholders.len() != expected {
            bail!(Graph, "a sub-graph takes {} operands, got {expected}", placeholders.len());
        }
        let (round, operands) = placeholders.split_at(n_rounds);
        let (own, outer) = operands.split_at(carried.len());
        let mut inner = Body::new(self.gm, region, self.generator, self.updated.clone());
        // A closed graph has no modules.
        inner.depth = usize::MAX;
        inner.exact_names = true;
        inner.last_source = self.last_source.clone();
        // Outer variables that the closure uses keep their names, so they are claimed first.
        for (placeholder, arg) in outer.iter().zip(captured) {
            let Some(var) = arg.leaf().and_then(|id| self.vars.get(id)) else { continue };
            let var = match var {
                // It is not the closure's to give away.
                Var::Owned(name) => Var::Place(name.clone()),
                var => var.clone(),
            };
            if let Var::Place(place) | Var::Borrowed(place) = &var {
                inner.names.keep(place.split(['.', '[']).next().unwrap_or_default());
            }
            inner.vars.insert(*placeholder, var);
        }
        let by_reference = part == Part::Test;
        let ty = match own.len() {
            0 => "()".to_owned(),
            n => format!("[Tensor; {n}]"),
        };
        let ty = format!("{}{ty}", if by_reference { "&" } else { "" });
        let mut first = String::new();
        for id in round {
            let name = if is_used(region, *id) { inner.name(*id)? } else { "_".to_owned() };
            first = format!("{name}, ");
            inner.vars.insert(*id, Var::Owned(name));
        }
        let mut pattern = own.iter().map(|id| inner.name(*id)).collect::<Result<Vec<_>>>()?;
        let mut head = match pattern.len() {
            0 => format!("|{first}(): {ty}|"),
            _ => format!("|{first}[{}]: {ty}|", pattern.join(", ")),
        };
        if head.len() > 72 {
            let operands = inner.names.claim("operands".into());
            head = format!("|{first}{operands}: {ty}|");
            pattern = (0..own.len()).map(|i| format!("{operands}[{i}]")).collect();
            own.iter()
                .zip(&pattern)
                .for_each(|(id, place)| drop(inner.vars.insert(*id, Var::Place(place.clone()))));
        } else {
            let var = |name: &String| {
                if by_reference { Var::Borrowed(name.clone()) } else { Var::Owned(name.clone()) }
            };
            own.iter().zip(&pattern).for_each(|(id, name)| drop(inner.vars.insert(*id, var(name))));
        }
        let ids = region.ids();
        inner.nodes(&ids)?;
        let output = region.output().clone();
        inner.tail(&output, &part.result(region))?;
        let lines = write(&inner.statements, 0);
        let body: Vec<String> = lines.into_iter().map(|line| line.text).collect();
        Ok(match &body[..] {
            [one] if head.len() + one.len() < 80 => Expr::Text(format!("{head} {one}")),
            _ => Expr::Closure(head, body),
        })
    }
}

impl Part {
    /// Returns the type of what the sub-graph gives.
    fn result(self, region: &Graph) -> Ty {
        match (region.output(), self) {
            (Arg::List(items), Part::Body | Part::Round | Part::Task) => {
                Ty::Array(Box::new(Ty::Tensor), items.len())
            }
            (output, _) => Ty::of(output, &|id| type_in(region, id), &mut || String::new()),
        }
    }
}
