//! The hierarchy of modules, restored from the module stacks of the nodes.

use crate::{GraphModule, Result};

/// Moves the nodes of each module into a graph module of its own.
pub(super) fn restore(_module: &mut GraphModule) -> Result<()> {
    Ok(())
}
