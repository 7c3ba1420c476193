//! What a function returns.

use std::collections::HashMap;

use fx_core::{Arg, NodeId, Result};

use super::super::layout::Expr;
use super::super::types::{Ty, float, int, string};
use super::{Body, Statement, Var};

impl Body<'_, '_> {
    /// Writes the result. The last statement becomes it, where it is just that.
    pub(in crate::readable) fn tail(&mut self, output: &Arg, ty: &Ty) -> Result<()> {
        if let (Arg::Leaf(id), Ty::Tensor) = (output, ty)
            && let Some(Var::Owned(name)) = self.vars.get(id)
            && let Some(Statement::Let { pattern, expr, nodes, .. }) = self.statements.last()
            && pattern == name
        {
            let expr = match expr.clone() {
                Expr::Try(result) => *result,
                expr => self.returned(expr),
            };
            let tail = Statement::Tail { expr, nodes: nodes.clone() };
            self.statements.pop();
            self.statements.push(tail);
            return Ok(());
        }
        for id in output.leaves() {
            self.read(*id)?;
        }
        let mut uses: HashMap<NodeId, usize> = HashMap::new();
        output.for_each_leaf(&mut |id: &NodeId| *uses.entry(*id).or_default() += 1);
        let expr = self.result(output, ty, &uses)?;
        let expr = self.returned(expr);
        self.statements.push(Statement::Tail { expr, nodes: Vec::new() });
        Ok(())
    }

    /// Returns an expression as the result of the function.
    fn returned(&self, expr: Expr) -> Expr {
        if self.fails { Expr::Call("Ok".into(), vec![expr]) } else { expr }
    }

    pub(in crate::readable) fn result(
        &mut self,
        arg: &Arg,
        ty: &Ty,
        uses: &HashMap<NodeId, usize>,
    ) -> Result<Expr> {
        Ok(match (ty, arg) {
            (Ty::Tensor, Arg::Leaf(id)) => match self.var(*id)? {
                // What is used once here is given away.
                Var::Owned(name) if uses.get(id) == Some(&1) && !self.has_alias(*id) => {
                    Expr::Text(name.clone())
                }
                _ => Expr::Text(self.owned(*id)?),
            },
            (Ty::Tuple(types), Arg::Tuple(items)) => Expr::Tuple(
                items
                    .iter()
                    .zip(types)
                    .map(|(item, ty)| self.result(item, ty, uses))
                    .collect::<Result<_>>()?,
            ),
            (Ty::Array(ty, _), Arg::List(items)) => {
                Expr::Array(items.iter().map(|item| self.result(item, ty, uses)).collect::<Result<_>>()?)
            }
            (Ty::Struct(name, fields), Arg::Dict(entries)) => {
                let mut parts = Vec::new();
                for ((field, ty), (_, item)) in fields.iter().zip(entries.iter()) {
                    let value = self.result(item, ty, uses)?;
                    parts.push(match value.flat() {
                        Some(text) if text == *field => Expr::Text(text),
                        _ => Expr::Prefixed(format!("{field}: "), Box::new(value)),
                    });
                }
                Expr::Struct(name.clone(), parts)
            }
            (Ty::Absent, _) => Expr::text("None"),
            (Ty::Dim, Arg::Leaf(id)) => match self.var(*id)?.clone() {
                Var::Dim(name) => Expr::Text(format!("{name}.clone()")),
                Var::Value(name) => self.size_of(&name),
                _ => self.value(arg)?,
            },
            (Ty::Dim, Arg::Dim(size)) => Expr::Text(self.dim(size)?),
            (Ty::Dim, Arg::Int(x)) => Expr::Text(format!("Dim::new({})", int(*x))),
            (Ty::Int, Arg::Int(x)) => Expr::Text(int(*x)),
            (Ty::Float, Arg::Float(x)) => Expr::Text(float(*x)),
            (Ty::Bool, Arg::Bool(x)) => Expr::text(x.to_string()),
            (Ty::Str, Arg::Str(text)) => Expr::Text(format!("{}.to_owned()", string(text))),
            _ => self.value(arg)?,
        })
    }

    /// Returns whether another node is the same variable.
    fn has_alias(&self, id: NodeId) -> bool {
        let var = self.vars.get(&id);
        self.vars.iter().any(|(other, found)| *other != id && Some(found) == var)
    }
}
