//! Control flow: sub-graphs as closures.

use fx_core::{Arg, Graph, NodeId, Op, Result, bail, err, ops};

use super::super::layout::Expr;
use super::super::structure::write;
use super::super::types::Ty;
use super::{Body, Var, number_in};

impl Body<'_, '_> {
    /// Writes `cond` and `while_loop`, whose sub-graphs become closures.
    pub(super) fn control(&mut self, id: NodeId, op: Op, bound: &[Arg]) -> Result<()> {
        let items = |arg: &Arg| arg.items().map(<[Arg]>::to_vec);
        let (regions, carried, captured): (Vec<_>, Vec<Arg>, Vec<Arg>) = match bound {
            [_, Arg::Graph(then), Arg::Graph(otherwise), operands] if op == ops::cond::OP => {
                (vec![then.clone(), otherwise.clone()], items(operands).unwrap_or_default(), Vec::new())
            }
            [Arg::Graph(test), Arg::Graph(body), carried, captured] if op == ops::while_loop::OP => (
                vec![test.clone(), body.clone()],
                items(carried).unwrap_or_default(),
                items(captured).unwrap_or_default(),
            ),
            _ => {
                return Err(err!(Unresolved, "code for {} is not written yet", op.name)
                    .help("only `cond` and `while_loop` have Rust code; run the graph module, or write code for it by an option"));
            }
        };
        if carried.iter().chain(&captured).any(|arg| !matches!(arg, Arg::Leaf(id) if self.is_tensor(*id))) {
            bail!(Unresolved, "code for {} is written for operands that are tensors", op.name);
        }
        let is_loop = op == ops::while_loop::OP;
        let operand_ty = match carried.len() {
            0 => "()".to_owned(),
            n => format!("[Tensor; {n}]"),
        };
        let mut closures = Vec::new();
        for (i, region) in regions.iter().enumerate() {
            let by_reference = is_loop && i == 0;
            let returns_list = is_loop && i == 1;
            closures.push(self.closure(
                region,
                &carried,
                &captured,
                by_reference,
                returns_list,
                &operand_ty,
            )?);
        }
        let operands: Vec<Expr> = carried
            .iter()
            .filter_map(|arg| arg.leaf())
            .map(|id| self.owned(*id).map(Expr::Text))
            .collect::<Result<_>>()?;
        let operands = if operands.is_empty() { Expr::text("()") } else { Expr::Array(operands) };
        let otherwise = closures.pop().unwrap_or(Expr::text("()"));
        let then = closures.pop().unwrap_or(Expr::text("()"));
        let result = match (regions[1].output(), is_loop) {
            (Arg::List(items), true) => Ty::Array(Box::new(Ty::Tensor), items.len()),
            (output, _) => Ty::of(output, &|id| number_in(&regions[1], id), &mut || String::new()),
        };
        let args = match &bound[0] {
            _ if is_loop => vec![then, otherwise, operands],
            Arg::Leaf(p) => vec![Expr::Text(self.reference(*p)?), then, otherwise, operands],
            Arg::Bool(p) => vec![Expr::text(p.to_string()), then, otherwise, operands],
            other => {
                bail!(Unresolved, "code for a predicate that is {} is not written yet", other.kind_name())
            }
        };
        let expr = Expr::Call(format!("fx::{}", op.name), args);
        let (n, open, close) = match &result {
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

    fn closure(
        &mut self,
        region: &Graph,
        carried: &[Arg],
        captured: &[Arg],
        by_reference: bool,
        returns_list: bool,
        operand_ty: &str,
    ) -> Result<Expr> {
        let placeholders = region.placeholders();
        if placeholders.len() != carried.len() + captured.len() {
            bail!(
                Graph,
                "a sub-graph takes {} operands, got {}",
                placeholders.len(),
                carried.len() + captured.len()
            );
        }
        let mut inner = Body::new(self.gm, region, self.generator, self.updated.clone());
        // A closed graph has no modules.
        inner.depth = usize::MAX;
        inner.exact_names = true;
        inner.last_source = self.last_source.clone();
        // Outer variables that the closure uses keep their names, so they are claimed first.
        for (placeholder, arg) in placeholders[carried.len()..].iter().zip(captured) {
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
        let own = &placeholders[..carried.len()];
        let mut pattern = own.iter().map(|id| inner.name(*id)).collect::<Result<Vec<_>>>()?;
        let reference = if by_reference { "&" } else { "" };
        let mut head = match pattern.len() {
            0 => format!("|(): {reference}()|"),
            _ => format!("|[{}]: {reference}{operand_ty}|", pattern.join(", ")),
        };
        if head.len() > 72 {
            let operands = inner.names.claim("operands".into());
            head = format!("|{operands}: {reference}{operand_ty}|");
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
        let ty = match (&output, returns_list) {
            (Arg::List(items), true) => Ty::Array(Box::new(Ty::Tensor), items.len()),
            _ => Ty::of(&output, &|id| number_in(region, id), &mut || String::new()),
        };
        inner.tail(&output, &ty)?;
        let lines = write(&inner.statements, 0);
        let body: Vec<String> = lines.into_iter().map(|line| line.text).collect();
        Ok(match &body[..] {
            [one] if head.len() + one.len() < 80 => Expr::Text(format!("{head} {one}")),
            _ => Expr::Closure(head, body),
        })
    }
}
