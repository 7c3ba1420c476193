//! Passes that know operations by name. [`all`] has them together with those of fx-core.

mod convert_dtype;
mod decompose;
mod fold_batch_norm;
mod fuse;
mod merge_linears;
mod remove_identities;
mod simplify;
mod split_reductions;

pub use convert_dtype::CONVERT_DTYPE;
pub use decompose::{DECOMPOSE, decomposed};
pub use fold_batch_norm::FOLD_BATCH_NORM;
pub use fuse::{Border, FUSE, Fusion, independent_parts};
use fx_core::pass::{self, Pass};
use fx_core::rewrite::merged_meta;
use fx_core::{Arg, GraphModule, NodeId, Result, Tensor, Tree};
pub use merge_linears::MERGE_LINEARS;
pub use remove_identities::REMOVE_IDENTITIES;
use rustc_hash::FxHashSet;
pub use simplify::{RECOGNIZE, SIMPLIFY, STABILIZE};
pub use split_reductions::SPLIT_REDUCTIONS;

/// The passes of this crate.
static PASSES: &[Pass] = &[
    REMOVE_IDENTITIES,
    SIMPLIFY,
    RECOGNIZE,
    STABILIZE,
    FOLD_BATCH_NORM,
    MERGE_LINEARS,
    CONVERT_DTYPE,
    DECOMPOSE,
    SPLIT_REDUCTIONS,
    FUSE,
];

/// Inserts before a node what `f` makes of the values of others, with its origin; returns what `f` returned,
/// in terms of the graph.
fn rewritten<R: Tree>(
    gm: &mut GraphModule,
    id: NodeId,
    inputs: &[NodeId],
    pass: &str,
    f: impl FnOnce(&[Tensor]) -> R,
) -> Result<Arg> {
    let old: FxHashSet<NodeId> = gm.graph().ids().into_iter().collect();
    let made = gm.append(id, inputs, f)?;
    gm.graph_mut().transaction(|graph| {
        let meta = merged_meta(graph, &[id], pass);
        for new in graph.ids().into_iter().filter(|id| !old.contains(id)) {
            let ty = graph.node(new)?.meta().ty.clone();
            *graph.meta_mut(new)? = meta.clone();
            graph.meta_mut(new)?.ty = ty;
        }
        Ok(())
    })?;
    Ok(made)
}

/// Returns every pass, those of fx-core first.
pub fn all() -> Vec<Pass> {
    pass::PASSES.iter().chain(PASSES).copied().collect()
}

/// Writes the pipeline for inference, with options for the passes that fold weights.
macro_rules! pipeline {
    ($before:literal, $typed:literal, $options:literal, $norms:literal, $after:literal) => {
        concat!(
            $before,
            "inline, normalize, shape_prop, ",
            $typed,
            "remove_identities, simplify_sizes, repeat(simplify, recognize, cse, dead_code), ",
            "fold_batch_norm",
            $norms,
            ", merge_linears",
            $options,
            ", const_fold",
            $options,
            $after,
            ", dead_code"
        )
    };
}

/// The pipeline that makes a program for inference smaller and changes no result beyond rounding.
pub const DEFAULT: &str = pipeline!("", "", "", "", "");

/// Returns the pipeline [`ENGINE`], in which these operations are not decomposed.
pub(crate) fn engine(except: &[fx_core::Op]) -> String {
    ENGINE.replacen("decompose", &decompose_except(except), 1)
}

/// Returns the pass [`DECOMPOSE`] of all operations but these, as a step of a pipeline.
pub fn decompose_except(except: &[fx_core::Op]) -> String {
    let names: Vec<&str> = except.iter().map(|op| op.name).collect();
    format!("{}(except=\"{}\")", DECOMPOSE.name, names.join(" "))
}

/// The pipeline before planning: [`DEFAULT`], with calls of leaf modules inlined, and with composed
/// operations and reductions written as operations that have kernels. Folded constants do not follow their
/// sources, which are removed.
pub(crate) const ENGINE: &str = pipeline!(
    "inline_leaves, inline, inline_forks, ",
    "decompose, ",
    "(freeze=true)",
    "(freeze=true, rest=true)",
    ", split_reductions, cse"
);
