//! Graphviz: one record a node, coloured by opcode; sub-graphs are clusters, joined by dashed edges.

use std::fmt::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::print::{SubgraphNames, format_node};
use crate::{Graph, Node, NodeId, OpCode};

/// Longer fields of a record are cut.
const MAX_FIELD: usize = 80;

impl Graph {
    /// Returns the graph in Graphviz's language, for `dot -Tsvg`.
    pub fn to_dot(&self) -> String {
        let mut out = String::from(
            "digraph fx {\n  compound=true;\n  node [shape=record, style=\"filled,rounded\", fontname=\"Helvetica\", \
             fontsize=10];\n  edge [color=\"#7a8594\", arrowsize=0.7];\n",
        );
        let mut names = SubgraphNames::new(self.name());
        let mut numbers: FxHashMap<*const Graph, usize> = FxHashMap::default();
        let mut calls = String::new();
        write_cluster(self, 0, self.name(), &mut names, &mut numbers, &mut calls, &mut out);
        while let Some((graph, label)) = names.queue.pop_front() {
            let number = numbers[&Arc::as_ptr(&graph)];
            write_cluster(&graph, number, &label, &mut names, &mut numbers, &mut calls, &mut out);
        }
        out.push_str(&calls);
        out.push_str("}\n");
        out
    }
}

/// The fill and line colours of an opcode, for all pictures.
pub(super) fn colours(opcode: OpCode) -> (&'static str, &'static str) {
    match opcode {
        OpCode::Placeholder => ("#e8f1fc", "#2f6fd0"),
        OpCode::GetAttr => ("#fdf4dc", "#b98510"),
        OpCode::CallFunction => ("#e8f6ee", "#2c8f5a"),
        OpCode::CallMethod => ("#f2ecfc", "#7c4fd0"),
        OpCode::CallModule => ("#fdebe8", "#cc4b40"),
        OpCode::Output => ("#edf0f4", "#4b5666"),
    }
}

fn write_cluster(
    graph: &Graph,
    number: usize,
    label: &str,
    names: &mut SubgraphNames,
    numbers: &mut FxHashMap<*const Graph, usize>,
    calls: &mut String,
    out: &mut String,
) {
    let positions: FxHashMap<NodeId, usize> = graph.nodes().enumerate().map(|(i, (id, _))| (id, i)).collect();
    let mut write = || -> std::fmt::Result {
        if number > 0 {
            writeln!(out, "  subgraph cluster_{number} {{")?;
            writeln!(
                out,
                "  label=\"@{}\"; color=\"#b7c0cc\"; style=rounded; fontname=\"Helvetica\";",
                escape(label)
            )?;
        }
        for (i, (id, node)) in graph.nodes().enumerate() {
            let (fill, line) = colours(node.opcode());
            let label = record(graph, id, node);
            writeln!(out, "  g{number}n{i} [label=\"{label}\", fillcolor=\"{fill}\", color=\"{line}\"];")?;
            for input in node.inputs() {
                writeln!(out, "  g{number}n{} -> g{number}n{i};", positions[&input])?;
            }
            for inner in node.subgraphs() {
                names.label(inner);
                let next = numbers.len() + 1;
                let to = *numbers.entry(Arc::as_ptr(inner)).or_insert(next);
                writeln!(calls, "  g{number}n{i} -> g{to}n0 [lhead=cluster_{to}, style=dashed];")?;
            }
        }
        out.write_str(if number > 0 { "  }\n" } else { "" })
    };
    write().expect("writing to a string cannot fail");
}

fn record(graph: &Graph, id: NodeId, node: &Node) -> String {
    let mut fields = vec![format!("%{}", node.name()), node.opcode().name().to_owned()];
    if !matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) {
        fields.push(node.target().to_string());
    }
    let line = format_node(graph, id);
    if node.all_args().next().is_some() {
        fields.push(line.split_once(" = ").map_or(&*line, |(_, call)| call).to_owned());
    }
    fields.extend(node.ty().map(ToString::to_string));
    fields.extend(node.meta().source.as_ref().map(ToString::to_string));
    let fields: Vec<String> = fields.iter().map(|field| escape(&cut(field, MAX_FIELD))).collect();
    format!("{{{}}}", fields.join("|"))
}

/// Shortens text to `max` characters.
pub(super) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}..", &text[..end]),
    }
}

/// Escapes text for a record inside double quotes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '"' | '{' | '}' | '|' | '<' | '>' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => write!(out, "\\\\u\\{{{:x}\\}}", c as u32).expect("writing to a string cannot fail"),
        }
    }
    out
}
