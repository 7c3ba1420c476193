//! Families of nodes, by which the page colours them.

use std::collections::HashMap;

use crate::op::Class;
use crate::{Node, Op, Target, ops};

/// The families in the order of the legend: the key of the style sheet, and what the legend says.
pub const FAMILIES: [(&str, &str); 18] = [
    ("input", "Input"),
    ("parameter", "Parameter, buffer, constant"),
    ("module", "Module"),
    ("pointwise", "Element by element"),
    ("activation", "Activation"),
    ("linear", "Matrix product, linear algebra"),
    ("convolution", "Convolution"),
    ("pool", "Pooling, padding, resizing"),
    ("norm", "Normalisation"),
    ("attention", "Attention, recurrence, embedding"),
    ("reduce", "Reduction, loss, counting"),
    ("view", "View, selection, joining"),
    ("index", "Search, indexed writing"),
    ("create", "Factory, random numbers"),
    ("host", "Number, text, list"),
    ("control", "Control flow, effects"),
    ("other", "Other operation"),
    ("output", "Output"),
];

/// The families of the tables of fx-ops, by the name that the table has in `OPS.md`.
pub const TABLES: &[(&str, &str)] = &[
    ("Element by element", "pointwise"),
    ("Special functions", "pointwise"),
    ("Reductions", "reduce"),
    ("Views and selection", "view"),
    ("Factories", "create"),
    ("Joining", "view"),
    ("Random numbers", "create"),
    ("Matrix products", "linear"),
    ("Convolution", "convolution"),
    ("Pooling", "pool"),
    ("Pooling at random places", "pool"),
    ("Padding", "pool"),
    ("Normalisation", "norm"),
    ("Embeddings", "attention"),
    ("Losses", "reduce"),
    ("Losses by margins and alignments", "reduce"),
    ("Pixels and channels", "view"),
    ("Contractions", "linear"),
    ("Products", "linear"),
    ("Products with quantized weights", "linear"),
    ("Factorisations", "linear"),
    ("Factors", "linear"),
    ("Eigenvalues and singular values", "linear"),
    ("Norms", "reduce"),
    ("Distances", "linear"),
    ("Windows", "create"),
    ("Activations with weights", "activation"),
    ("Fourier transforms", "linear"),
    ("Fourier transforms of complex numbers", "linear"),
    ("Resizing", "pool"),
    ("Sampling", "pool"),
    ("Columns of windows", "convolution"),
    ("Attention", "attention"),
    ("Regions of images", "pool"),
    ("Recurrent networks", "attention"),
    ("Arranging", "view"),
    ("Closeness", "pointwise"),
    ("Counting", "reduce"),
    ("Histograms", "reduce"),
    ("Indices", "create"),
    ("Masks", "view"),
    ("Patching", "index"),
    ("Writing at indices", "index"),
    ("Scattering", "index"),
    ("Searching", "index"),
    ("Strides", "view"),
    ("Unique elements", "index"),
    ("Numbers", "host"),
    ("Text", "host"),
    ("Lists", "host"),
    ("Dictionaries", "host"),
    ("Optional values", "host"),
];

/// Knows the family of every operation.
pub struct Families {
    of: HashMap<Op, usize>,
}

impl Families {
    /// Notes the family of each built-in operation.
    pub fn built_in() -> Self {
        let mut of = HashMap::default();
        let tables: HashMap<&str, &str> = TABLES.iter().copied().collect();
        for (name, table) in fx_ops::families() {
            let family = position(tables.get(name).copied().unwrap_or("other"));
            of.extend(table.iter().copied().flatten().map(|op| (*op, family)));
        }
        of.extend(fx_ops::ops::pointwise::ACTIVATION.iter().map(|op| (*op, position("activation"))));
        for op in ops::TABLES.iter().copied().flatten() {
            of.insert(*op, position(by_class(*op)));
        }
        Families { of }
    }

    /// Returns the position of an operation in [`FAMILIES`].
    pub fn position(&self, op: Op) -> usize {
        self.of[&op]
    }

    /// Returns the position of a node in [`FAMILIES`].
    pub(super) fn of(&self, node: &Node) -> usize {
        match node.target() {
            Target::Placeholder => position("input"),
            Target::GetAttr(_) => position("parameter"),
            Target::CallModule(_) => position("module"),
            Target::Output => position("output"),
            Target::CallFunction(op) | Target::CallMethod(op) => match self.of.get(op) {
                Some(family) => *family,
                None => position(by_class(*op)),
            },
        }
    }
}

/// Returns the family of an operation that is in no table of fx-ops: an operator, or one of a user's crate.
fn by_class(op: Op) -> &'static str {
    match op.class {
        _ if !op.effects.is_pure() => "control",
        Class::Control => "control",
        Class::Pointwise(_) => "pointwise",
        Class::Reduce => "reduce",
        Class::View => "view",
        Class::Kernel | Class::Composite if ops::TABLES.iter().any(|table| table.contains(&op)) => "view",
        Class::Kernel | Class::Composite => "other",
    }
}

/// Returns the position of a family in [`FAMILIES`].
pub fn position(key: &str) -> usize {
    FAMILIES.iter().position(|(other, _)| *other == key).expect("families are named as in their list")
}
