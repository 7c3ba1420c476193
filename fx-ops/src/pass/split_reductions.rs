//! Writing reductions without a kernel as reductions with kernels.

use std::ops::Range;

use fx_core::pass::{Context, Pass};
use fx_core::trace::apply_with;
use fx_core::{
    Arg, DType, Dim, Graph, GraphModule, NodeId, Op, OpCode, Result, Tensor, TensorType, TypeTree, ops,
};

use super::rewritten;
use crate::fusible::{are_columns, axes_of};
use crate::ops::pointwise::{clamp_min, sqrt};
use crate::ops::reduce::{self, Spread, amax, amin, mean, std_mean, sum, var, var_mean};
use crate::ops::view::{squeeze, to};

/// Writes reductions over several groups of axes, and variances over columns, as reductions that have
/// kernels.
pub const SPLIT_REDUCTIONS: Pass = Pass {
    name: "split_reductions",
    doc: "Replaces sums, means and extremes of floats over axes that are no neighbours by one reduction for each group of neighbours, \
          and variances and standard deviations over other axes than the last ones by means of squared deviations. Engines have \
          kernels for these.",
    after: &["inline", "normalize", "shape_prop"],
    exact: false,
    run,
    ..Pass::BASE
};

/// What a reduction computes.
#[derive(Clone, Copy)]
enum Kind {
    Fold(Op),
    /// Of squared deviations, and whether their mean is returned as well.
    Spread(Spread, bool),
}

/// A reduction of floats.
struct Reduction {
    kind: Kind,
    x: NodeId,
    ty: TensorType,
    /// Groups of neighbouring axes that are reduced.
    groups: Vec<Range<usize>>,
    keepdim: bool,
}

/// Returns which of two results a node takes.
fn item_of(graph: &Graph, user: NodeId) -> Result<Option<usize>> {
    let node = graph.node(user)?;
    if node.op() != Some(ops::getitem::OP) {
        return Ok(None);
    }
    Ok(match ops::getitem::OP.bind(node.args(), node.kwargs())?[..] {
        [_, Arg::Int(0 | -2)] => Some(0),
        [_, Arg::Int(1 | -1)] => Some(1),
        _ => None,
    })
}

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    for id in gm.graph().ids() {
        // Items of pairs go with these.
        if gm.graph().node(id).is_err() {
            continue;
        }
        let Some(reduction) = Reduction::at(gm, id)?.filter(Reduction::is_split) else { continue };
        if !cx.allow(|| format!("split %{}", gm.graph().node(id).map_or("?", |node| node.name()))) {
            return Ok(());
        }
        reduction.split(gm, id)?;
    }
    Ok(())
}

impl Reduction {
    fn at(gm: &GraphModule, id: NodeId) -> Result<Option<Reduction>> {
        let node = gm.graph().node(id)?;
        let Some(op) = node.op() else { return Ok(None) };
        let bound = op.bind(node.args(), node.kwargs())?;
        // Who takes neither of two results must be one that returns both.
        let graph = gm.graph();
        let is_known = |user: &NodeId| match graph.node(*user) {
            Ok(node) => node.opcode() == OpCode::Output || matches!(item_of(graph, *user), Ok(Some(_))),
            Err(_) => false,
        };
        let (kind, keepdim) = match &bound[..] {
            [_, _, Arg::Bool(keepdim), rest @ ..]
                if [sum::OP, mean::OP, amax::OP, amin::OP].contains(&op)
                    && rest.iter().all(|dtype| matches!(dtype, Arg::None)) =>
            {
                (Kind::Fold(op), *keepdim)
            }
            [_, _, _, Arg::Bool(keepdim), _] => match Spread::of(op, &bound) {
                Some(spread) => {
                    let is_pair = op == var_mean::OP || op == std_mean::OP;
                    if is_pair && !graph.users(id)?.iter().all(is_known) {
                        return Ok(None);
                    }
                    (Kind::Spread(spread, is_pair), *keepdim)
                }
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Some(x) = bound[0].leaf().copied() else { return Ok(None) };
        let Some(ty) = gm.graph().node(x)?.ty().and_then(TypeTree::tensor).cloned() else { return Ok(None) };
        let (Some(axes), true) = (axes_of(&bound[1], ty.rank()), matches!(ty.dtype, DType::F32 | DType::F64))
        else {
            return Ok(None);
        };
        let mut groups: Vec<Range<usize>> = Vec::new();
        for axis in axes {
            match groups.last_mut() {
                Some(last) if last.end == axis => last.end += 1,
                _ => groups.push(axis..axis + 1),
            }
        }
        Ok(Some(Reduction { kind, x, ty, groups, keepdim }))
    }

    /// Returns whether kernels do it in several steps, and better so.
    fn is_split(&self) -> bool {
        let Some(last) = self.groups.last() else { return false };
        let is_several = self.groups.len() > 1;
        match self.kind {
            Kind::Fold(_) => is_several,
            Kind::Spread(_, is_pair) if self.is_of_rows() => is_pair,
            Kind::Spread(spread, _) => {
                (is_several || are_columns(&self.ty.shape[last.end..])) && self.divisor(spread).is_some()
            }
        }
    }

    fn is_of_rows(&self) -> bool {
        matches!(&self.groups[..], [axes] if axes.end == self.ty.rank())
    }

    /// Returns how many elements are folded into one.
    fn size(&self) -> Dim {
        self.groups.iter().flat_map(|axes| &self.ty.shape[axes.clone()]).product()
    }

    fn count(&self) -> Arg<Tensor> {
        let n = self.size();
        n.known().map_or_else(|| Arg::dim(n.clone()), |n| Arg::Float(n as f64))
    }

    /// Returns by what the sum of squared deviations is divided.
    fn divisor(&self, spread: Spread) -> Option<Arg<Tensor>> {
        let n = self.size();
        if let Some(n) = n.known() {
            return Some(Arg::Float((n as f64 - spread.correction).max(0.0)));
        }
        // A size has no fraction.
        let is_integer = spread.correction.fract() == 0.0 && spread.correction.abs() < 1e9;
        let rest = &n - &Dim::new(spread.correction as i64);
        is_integer.then(|| Arg::dim(rest.max(&Dim::new(0))))
    }

    fn axes(&self) -> Vec<i64> {
        self.groups.iter().cloned().flatten().map(|axis| axis as i64).collect()
    }

    /// Folds each group of axes, the last one first.
    fn fold(&self, op: Op, x: &Tensor, keepdim: bool) -> Tensor {
        self.groups.iter().rev().fold(x.clone(), |x, axes| {
            let axes = Arg::ints(axes.clone().map(|axis| axis as i64));
            apply_with(op, false, [x.into(), axes, Arg::Bool(keepdim)], &[])
        })
    }

    /// Returns variance or standard deviation, and the mean.
    fn spread(&self, x: &Tensor, spread: Spread, divisor: Arg<Tensor>) -> [Tensor; 2] {
        if self.is_of_rows() {
            let of = if spread.root { reduce::std::OP } else { var::OP };
            let args =
                [x.into(), Arg::ints(self.axes()), Arg::Float(spread.correction), Arg::Bool(self.keepdim)];
            // As the operation, the mean is one of f64.
            let wide = self.fold(mean::OP, &to(x, DType::F64), self.keepdim);
            return [apply_with(of, false, args, &[]), to(wide, self.ty.dtype)];
        }
        let center = self.fold(mean::OP, x, true);
        let apart = x - &center;
        let [squares, drift] =
            [&(&apart * &apart), &apart].map(|terms| self.fold(sum::OP, terms, self.keepdim));
        // Deviations from the rounded mean have a sum, by which the sum of their squares is too large.
        let divide =
            |x: Tensor, by: Arg<Tensor>| -> Tensor { apply_with(ops::div::OP, false, [x.into(), by], &[]) };
        let surplus = divide(&drift * &drift, self.count());
        let variance = divide(clamp_min(squares - surplus, 0.0), divisor);
        let center = if self.keepdim { center } else { squeeze(center, self.axes()) };
        let mean = center + divide(drift, self.count());
        [if spread.root { sqrt(variance) } else { variance }, mean]
    }

    fn split(&self, gm: &mut GraphModule, id: NodeId) -> Result<()> {
        let (name, mut is_pair) = (SPLIT_REDUCTIONS.name, false);
        let made = match self.kind {
            Kind::Fold(op) => rewritten(gm, id, &[self.x], name, |x| [self.fold(op, &x[0], self.keepdim)])?,
            Kind::Spread(spread, pair) => {
                is_pair = pair;
                let divisor = self.divisor(spread).unwrap_or(Arg::None);
                rewritten(gm, id, &[self.x], name, |x| self.spread(&x[0], spread, divisor))?
            }
        };
        let Some(made) = made.items() else { fx_core::bail!(Graph, "a reduction gives no tensor") };
        gm.graph_mut().transaction(|graph| {
            if !is_pair {
                graph.replace_all_uses(id, made[0].clone())?;
                return graph.erase(id);
            }
            for user in graph.users(id)? {
                if let Some(i) = item_of(graph, user)? {
                    graph.replace_all_uses(user, made[i].clone())?;
                    graph.erase(user)?;
                }
            }
            // What is left returns both.
            graph.replace_all_uses(id, Arg::tuple(made.to_vec()))?;
            graph.erase(id)
        })
    }
}
