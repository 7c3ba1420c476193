//! Families of nodes, by which the page colours them.

use std::collections::HashMap;

use crate::op::Class;
use crate::{Node, Op, Target, ops};

/// The families in the order of the legend: the key of the style sheet, and what the legend says.
pub(super) const FAMILIES: [(&str, &str); 18] = [
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
const TABLES: &[(&str, &str)] = &[
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
pub(super) struct Families {
    of: HashMap<Op, usize>,
}

impl Families {
    pub(super) fn new() -> Self {
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

    /// Returns the position in [`FAMILIES`].
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

fn position(key: &str) -> usize {
    FAMILIES.iter().position(|(other, _)| *other == key).expect("families are named as in their list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_a_family() {
        let known: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
        let all: Vec<&str> = fx_ops::families().map(|(name, _)| name).collect();
        assert_eq!(known, all);
        TABLES.iter().for_each(|(_, family)| assert!(position(family) > 0));
    }

    #[test]
    fn operations_have_the_family_that_people_expect() {
        let families = Families::new();
        let of = |name: &str| FAMILIES[families.of[&crate::registry().find(name).unwrap()]].0;
        let found =
            ["relu", "add", "linear", "conv2d", "getitem", "cond", "size", "sum", "randn", "print"].map(of);
        assert_eq!(
            found,
            [
                "activation",
                "pointwise",
                "linear",
                "convolution",
                "view",
                "control",
                "view",
                "reduce",
                "create",
                "control"
            ]
        );
    }
}
