//! The text format (in construction).

use std::fmt::Write;

use crate::{Graph, NodeId};

/// Returns a node as one line of the text format, without metadata.
pub(crate) fn format_node(graph: &Graph, id: NodeId) -> String {
    let mut out = String::new();
    let Ok(node) = graph.node(id) else { return out };
    let arg = |arg: &crate::Arg, out: &mut String| {
        arg.write(
            out,
            &mut |id, f| write!(f, "%{}", graph.node(*id).map_or("?", |node| node.name())),
            &mut |graph, f| write!(f, "@{}", graph.name()),
        )
    };
    let mut write = || -> std::fmt::Result {
        write!(out, "%{} = {}(", node.name(), node.target())?;
        for (i, a) in node.args().iter().enumerate() {
            if i > 0 {
                out.write_str(", ")?;
            }
            arg(a, &mut out)?;
        }
        for (key, a) in node.kwargs() {
            write!(out, ", {key}=")?;
            arg(a, &mut out)?;
        }
        out.write_str(")")
    };
    write().expect("writing to a string cannot fail");
    out
}
