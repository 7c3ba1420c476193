//! Metadata of nodes as trailing attributes: `#{src: "a.rs:1:2", stack: [("fc1", "Linear", 0)], tags: ["hot"]}`.

use std::fmt::{self, Write};

use super::print::{WriteGraph, write_type};
use crate::arg::write_str;
use crate::{Node, OpCode};

/// The name that the output has if nobody renamed it.
pub(super) const OUTPUT_NAME: &str = "output";

/// Returns whether a node has metadata beyond what its own line shows.
pub(super) fn is_printed(node: &Node) -> bool {
    let meta = node.meta();
    let is_output = node.opcode() == OpCode::Output;
    meta.source.is_some()
        || meta.stack.is_some()
        || !meta.provenance().is_empty()
        || !meta.tags().is_empty()
        || meta.ext().next().is_some()
        || is_output && (node.name() != OUTPUT_NAME || node.ty().is_some())
}

/// Writes the attributes of a node.
pub(super) fn write(node: &Node, subgraph: &mut WriteGraph<'_>, f: &mut dyn Write) -> fmt::Result {
    let meta = node.meta();
    let mut separator = "#{";
    let mut key = |key: &str, f: &mut dyn Write| {
        let result = write!(f, "{separator}{key}: ");
        separator = ", ";
        result
    };
    if node.opcode() == OpCode::Output {
        if node.name() != OUTPUT_NAME {
            key("name", f)?;
            write_str(node.name(), f)?;
        }
        if let Some(ty) = node.ty() {
            key("type", f)?;
            write_type(ty, subgraph, f)?;
        }
    }
    if let Some(source) = &meta.source {
        key("src", f)?;
        write_str(&source.to_string(), f)?;
    }
    if let Some(stack) = &meta.stack {
        key("stack", f)?;
        write_list(stack, f, &mut |frame, f| {
            f.write_str("(")?;
            write_str(&frame.path, f)?;
            f.write_str(", ")?;
            write_str(&frame.type_name, f)?;
            write!(f, ", {}", frame.call)?;
            if let Some(source) = &frame.source {
                f.write_str(", ")?;
                write_str(&source.to_string(), f)?;
            }
            f.write_str(")")
        })?;
    }
    if !meta.provenance().is_empty() {
        key("by", f)?;
        write_list(meta.provenance(), f, &mut |provenance, f| {
            f.write_str("(")?;
            write_str(&provenance.pass, f)?;
            f.write_str(", ")?;
            write_list(&provenance.from, f, &mut |name, f| write_str(name, f))?;
            f.write_str(")")
        })?;
    }
    if !meta.tags().is_empty() {
        key("tags", f)?;
        write_list(meta.tags(), f, &mut |tag, f| write_str(tag, f))?;
    }
    if meta.ext().next().is_some() {
        key("ext", f)?;
        let mut separator = "{";
        for (name, value) in meta.ext() {
            f.write_str(separator)?;
            write_str(name, f)?;
            f.write_str(": ")?;
            value.write(f, &mut |leaf, _| match *leaf {}, subgraph)?;
            separator = ", ";
        }
        f.write_str("}")?;
    }
    f.write_str("}")
}

fn write_list<T>(
    items: &[T],
    f: &mut dyn Write,
    item: &mut dyn FnMut(&T, &mut dyn Write) -> fmt::Result,
) -> fmt::Result {
    f.write_str("[")?;
    for (i, entry) in items.iter().enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        item(entry, f)?;
    }
    f.write_str("]")
}
