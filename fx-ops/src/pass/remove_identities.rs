//! Removing modules that return their input.

use fx_core::pass::{Context, Pass};
use fx_core::{GraphModule, Module, Result, Target};

use crate::nn::{Dropout, Identity};

/// Removes modules and calls that return their input.
pub const REMOVE_IDENTITIES: Pass = Pass {
    name: "remove_identities",
    doc: "Removes calls of `Identity`, and of `Dropout` that is not in training; for operations see `simplify`.",
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    for id in gm.graph().ids() {
        let node = gm.graph().node(id)?;
        let (Target::CallModule(path), [x]) = (node.target(), node.args()) else { continue };
        let (x, path) = (x.clone(), path.clone());
        if !is_identity(gm.child(&path)?.as_module()) {
            continue;
        }
        if !cx.allow(|| format!("remove %{}", node.name())) {
            return Ok(());
        }
        gm.graph_mut().transaction(|graph| {
            graph.replace_all_uses(id, x)?;
            graph.erase(id)
        })?;
    }
    Ok(())
}

fn is_identity(module: &dyn Module) -> bool {
    let any = module.as_any();
    any.is::<Identity>()
        || any.downcast_ref::<Dropout>().is_some_and(|dropout| !dropout.training || dropout.p == 0.0)
}
