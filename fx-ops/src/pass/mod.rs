//! Passes that know operations by name. [`all`] has them together with those of fx-core.

mod convert_dtype;
mod fold_batch_norm;
mod fuse;
mod merge_linears;
mod remove_identities;
mod simplify;
mod split_reductions;

pub use convert_dtype::CONVERT_DTYPE;
pub use fold_batch_norm::FOLD_BATCH_NORM;
pub use fuse::{Border, FUSE, Fusion, independent_parts};
use fx_core::pass::{self, Pass};
pub use merge_linears::MERGE_LINEARS;
pub use remove_identities::REMOVE_IDENTITIES;
pub use simplify::{RECOGNIZE, SIMPLIFY};
pub use split_reductions::SPLIT_REDUCTIONS;

/// The passes of this crate.
pub static PASSES: &[Pass] = &[
    REMOVE_IDENTITIES,
    SIMPLIFY,
    RECOGNIZE,
    FOLD_BATCH_NORM,
    MERGE_LINEARS,
    CONVERT_DTYPE,
    SPLIT_REDUCTIONS,
    FUSE,
];

/// Returns every pass, those of fx-core first.
pub fn all() -> Vec<Pass> {
    pass::PASSES.iter().chain(PASSES).copied().collect()
}

/// Writes the pipeline for inference, with options for the passes that fold weights.
macro_rules! pipeline {
    ($before:literal, $options:literal, $norms:literal, $after:literal) => {
        concat!(
            $before,
            "inline, normalize, shape_prop, remove_identities, simplify_sizes, repeat(simplify, recognize, cse, dead_code), ",
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
pub const DEFAULT: &str = pipeline!("", "", "", "");

/// What programs go through before they are planned: [`DEFAULT`] with calls of leaf modules as what they compute, and reductions as those
/// that kernels do. Weights do not follow what
/// they were made from, which goes.
pub(crate) const ENGINE: &str = pipeline!("inline_leaves, ", "(freeze=true)", "(freeze=true, rest=true)", ", split_reductions, cse");
