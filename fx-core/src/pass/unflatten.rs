//! The hierarchy of modules as a pass.

use super::Pass;

/// Makes a graph module of the nodes of each module.
pub const UNFLATTEN: Pass = Pass {
    name: "unflatten",
    doc: "Makes a graph module of the nodes that were recorded in a module, which one node calls: the inverse of \
          `inline`. The report names the modules that stay in line, and why.",
    run: |gm, cx| {
        for left in gm.unflatten()? {
            cx.note(left.to_string());
        }
        Ok(())
    },
    ..Pass::BASE
};
