//! Several methods of a program as one graph module, and its hierarchy of modules.

use fx_script::load::Program;

use super::builder::Lowered;
use super::lower::{Request, lower};
use crate::{Attribute, GraphModule, Registry, Result};

/// Lowers methods: the first is the graph of the module, the others are its methods. Fails as
/// [`TorchScript::load`](super::TorchScript::load) does.
pub(super) fn lower_all(
    program: &Program,
    requests: &[Request],
    registry: &Registry,
    keep_hierarchy: bool,
) -> Result<Lowered> {
    let mut lowered =
        requests.iter().map(|request| lower(program, request, registry)).collect::<Result<Vec<_>>>()?;
    share(lowered.iter_mut().filter_map(|lowered| lowered.module.as_mut()))?;
    let mut lowered = lowered.into_iter();
    let mut whole = lowered.next().expect("there is at least one request");
    for (request, further) in requests[1..].iter().zip(lowered) {
        if let (Some(module), Some(method)) = (&mut whole.module, further.module) {
            module.add_method(&request.method, method)?;
        }
        whole.further.push(further.report);
    }
    if let (true, Some(module)) = (keep_hierarchy, &mut whole.module) {
        for left in module.unflatten()? {
            let at = requests[1..].iter().position(|request| request.method == left.method);
            let report = at.map_or(&mut whole.report, |at| &mut whole.further[at]);
            report.inline.push(left.to_string());
        }
    }
    Ok(whole)
}

/// Lets modules of one program share state. A tensor that one of them updates is a buffer in all.
fn share<'m>(modules: impl Iterator<Item = &'m mut GraphModule>) -> Result<()> {
    let mut modules: Vec<&mut GraphModule> = modules.collect();
    for at in 0..modules.len() {
        let (before, after) = modules.split_at_mut(at + 1);
        let first = &mut before[at];
        for other in after {
            for path in first.attributes().map(|(path, _)| path.to_owned()).collect::<Vec<_>>() {
                let (Ok(a), Ok(b)) = (first.attribute(&path), other.attribute(&path)) else { continue };
                match (a, b) {
                    (Attribute::Buffer(_), Attribute::Buffer(_)) => {}
                    (Attribute::Buffer(buffer), _) => {
                        let shared = Attribute::Buffer(buffer.clone());
                        other.set_attribute(&path, shared)?;
                    }
                    (_, Attribute::Buffer(buffer)) => {
                        let shared = Attribute::Buffer(buffer.clone());
                        first.set_attribute(&path, shared)?;
                    }
                    _ => {}
                }
            }
            other.share_state(first);
        }
    }
    Ok(())
}
