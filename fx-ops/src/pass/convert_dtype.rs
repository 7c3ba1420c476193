//! Computing in another dtype: operands of chosen operations are converted, and their results converted back.

use fx_core::op::Default as Value;
use fx_core::pass::{Context, Pass, PassOption};
use fx_core::{Arg, DType, Graph, GraphModule, NodeId, Op, Result, Target, TypeTree, err};

use crate::ops::view::to;

/// Computes in another dtype.
pub const CONVERT_DTYPE: Pass = Pass {
    name: "convert_dtype",
    doc: "Computes chosen operations in another float dtype: their `f32` operands are converted, and their results back, so that \
          inputs and results of the program keep their types. `simplify` removes conversions between neighbours, `const_fold` those \
          of weights.",
    options: &[
        PassOption { name: "dtype", default: Value::Str("bf16"), doc: "the dtype, f16, bf16 or f64" },
        PassOption {
            name: "only",
            default: Value::Str(
                "linear matmul mm bmm addmm baddbmm conv1d conv2d conv3d scaled_dot_product_attention",
            ),
            doc: "the operations to convert, separated by blanks",
        },
        PassOption {
            name: "except",
            default: Value::Str(""),
            doc: "names of nodes that stay, separated by blanks",
        },
    ],
    after: &["inline", "shape_prop"],
    exact: false,
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let dtype = cx.dtype("dtype")?;
    if !dtype.is_float() {
        return Err(err!(DType, "expected a float dtype, got {dtype}").help("use f16, bf16 or f64"));
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (only, except) = (words(cx.text("only")?), words(cx.text("except")?));
    gm.graph_mut().transaction(|graph| {
        for id in graph.ids() {
            let node = graph.node(id)?;
            let Some(op) = node.op() else { continue };
            let is_chosen =
                only.iter().any(|name| name == op.name) && !except.iter().any(|name| name == node.name());
            let is_f32 = node.ty().and_then(TypeTree::tensor).is_some_and(|ty| ty.dtype == DType::F32);
            if !is_chosen || !is_f32 || dtype == DType::F32 {
                continue;
            }
            if !cx.allow(|| format!("convert %{}", node.name())) {
                break;
            }
            convert(graph, id, op, dtype)?;
        }
        Ok(())
    })
}

fn convert(graph: &mut Graph, id: NodeId, op: Op, dtype: DType) -> Result<()> {
    let node = graph.node(id)?;
    let bound = op.canonical(node.args(), node.kwargs())?;
    let mut args = Vec::with_capacity(bound.len());
    for arg in bound {
        args.push(arg.try_flat_map(&mut |input| {
            let ty = graph.node(*input)?.ty().and_then(TypeTree::tensor).cloned();
            match ty {
                Some(ty) if ty.dtype == DType::F32 => Ok(Arg::Leaf(cast(graph, *input, id, dtype)?)),
                _ => Ok(Arg::Leaf(*input)),
            }
        })?);
    }
    let (args, kwargs) = op.spell(&args);
    let meta = graph.node(id)?.meta().clone();
    let name = graph.node(id)?.name().to_owned();
    let new = graph
        .inserting_before(id, |graph| graph.create(Target::CallFunction(op), args, kwargs, Some(&name)))??;
    *graph.meta_mut(new)? = meta;
    let mut ty = graph.node(id)?.ty().and_then(TypeTree::tensor).cloned();
    if let Some(ty) = &mut ty {
        ty.dtype = dtype;
    }
    graph.meta_mut(new)?.ty = ty.map(|ty| std::sync::Arc::new(ty.into()));
    let back = cast(graph, new, id, DType::F32)?;
    graph.replace_all_uses(id, back)?;
    graph.erase(id)
}

/// Converts a value just before a node.
fn cast(graph: &mut Graph, x: NodeId, before: NodeId, dtype: DType) -> Result<NodeId> {
    let mut meta = graph.node(x)?.meta().clone();
    let mut ty = graph.node(x)?.ty().and_then(TypeTree::tensor).cloned();
    if let Some(ty) = &mut ty {
        ty.dtype = dtype;
    }
    meta.ty = ty.map(|ty| std::sync::Arc::new(ty.into()));
    let new = graph
        .inserting_before(before, |graph| graph.call_function(to::OP, [x.into(), Arg::DType(dtype)]))??;
    *graph.meta_mut(new)? = meta;
    Ok(new)
}
