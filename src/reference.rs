//! The reference of all operations, written from their rows: `fx ops` and `OPS.md`.

use std::fmt::Write;

use crate::op::Class;
use crate::pointwise::Rule;
use crate::{DType, Op, registry};

/// The classes in the order of the reference, with what unites their operations.
const CLASSES: [(&str, &str); 6] = [
    ("Pointwise", "Element by element, with broadcasting. Groups of them become one loop."),
    ("Reductions", "Over axes."),
    ("Views", "No element is computed."),
    ("Kernels", "Everything that has a kernel of its own."),
    ("Composites", "Functions over other operations that are kept as one node."),
    ("Control flow", "Operations that run sub-graphs."),
];

fn class(op: Op) -> usize {
    match op.class {
        Class::Pointwise(_) => 0,
        Class::Reduce => 1,
        Class::View => 2,
        Class::Kernel => 3,
        Class::Composite => 4,
        Class::Control => 5,
    }
}

/// Returns the built-in operations by name.
fn operations() -> Vec<Op> {
    let mut ops: Vec<Op> = registry().iter().collect();
    ops.sort_unstable_by_key(|op| op.name);
    ops
}

/// Returns a line for each operation: its schema.
pub fn list() -> String {
    operations().iter().map(|op| format!("{}\n", **op)).collect()
}

/// Returns the schema of an operation and what it computes.
pub fn operation(op: Op) -> String {
    format!("{}\n\n{}\n{}", *op, paragraphs(op), notes(op))
}

/// Returns the text of `OPS.md`.
pub fn markdown() -> String {
    let ops = operations();
    let mut out = String::from(
        "# Operations\n\n\
         Made from the rows by `fx ops --markdown > OPS.md`; a test keeps it fresh. Names, order of arguments, defaults,\n\
         promotion and broadcasting are PyTorch's. A parameter after `*` is given by name. An operation with a method is called\n\
         `x.name(..)` or `name(&x, ..)`.\n",
    );
    for (i, (title, united)) in CLASSES.iter().enumerate() {
        let members: Vec<&Op> = ops.iter().filter(|op| class(**op) == i).collect();
        if members.is_empty() {
            continue;
        }
        let _ = write!(out, "\n## {title}\n\n{united}\n");
        for op in members {
            let (name, schema) = (op.name, &**op);
            let _ = write!(out, "\n### {name}\n\n```text\n{schema}\n```\n\n{}\n", paragraphs(*op));
            let notes = notes(*op);
            if !notes.is_empty() {
                let _ = write!(out, "\n{notes}\n");
            }
        }
    }
    out
}

/// Returns the documentation of a row without the blank that rustdoc leaves before each line.
fn paragraphs(op: Op) -> String {
    let lines: Vec<&str> = op.doc.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n").trim().to_owned()
}

/// Returns what else is true of an operation, in one line.
fn notes(op: Op) -> String {
    let mut notes = Vec::new();
    let dtypes;
    if let Class::Pointwise(def) = op.class {
        let names: Vec<&str> = def.dtypes().map(DType::name).collect();
        dtypes = match (names.len() == DType::ALL.len(), def.rule) {
            (true, rule) => format!("Takes every dtype; {}.", result(rule)),
            (false, rule) => format!("Takes {}; {}.", names.join(", "), result(rule)),
        };
        notes.push(&*dtypes);
    }
    if op.method {
        notes.push("Method.");
    }
    if op.commutative {
        notes.push("Commutative.");
    }
    if op.effects.random {
        notes.push("Draws random numbers.");
    }
    if op.effects.state {
        notes.push("Writes a buffer.");
    }
    if op.effects.host {
        notes.push("Acts on the host.");
    }
    notes.join(" ")
}

/// Says which dtype a pointwise operation gives.
fn result(rule: Rule) -> &'static str {
    match rule {
        Rule::Same => "gives the promoted dtype",
        Rule::Number => "gives the promoted dtype, i64 for bools",
        Rule::Float => "gives the promoted dtype, f32 for integers and bools",
        Rule::Bool => "gives bool",
    }
}
