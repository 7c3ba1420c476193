//! Passes that know operations by name. [`all`] has them together with those of fx-core.

mod convert_dtype;
mod fold_batch_norm;
mod fuse;
mod merge_linears;
mod remove_identities;
mod simplify;

pub use convert_dtype::CONVERT_DTYPE;
pub use fold_batch_norm::FOLD_BATCH_NORM;
pub use fuse::{Border, FUSE, Fusion};
use fx_core::pass::{self, Pass};
pub use merge_linears::MERGE_LINEARS;
pub use remove_identities::REMOVE_IDENTITIES;
pub use simplify::{RECOGNIZE, SIMPLIFY};

/// The passes of this crate.
pub static PASSES: &[Pass] =
    &[REMOVE_IDENTITIES, SIMPLIFY, RECOGNIZE, FOLD_BATCH_NORM, MERGE_LINEARS, CONVERT_DTYPE, FUSE];

/// Returns every pass, those of fx-core first.
pub fn all() -> Vec<Pass> {
    pass::PASSES.iter().chain(PASSES).copied().collect()
}

/// The pipeline that makes a program for inference smaller and changes no result beyond rounding.
pub const DEFAULT: &str = "inline, normalize, shape_prop, remove_identities, simplify_sizes, repeat(simplify, recognize, cse, dead_code), \
                           fold_batch_norm, merge_linears, const_fold, dead_code";
