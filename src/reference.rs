//! The reference of all operations, written from their rows: `fx ops` and `OPS.md`.

use std::fmt::Write;

use crate::op::Class;
use crate::pointwise::Rule;
use crate::{DType, Op, opcheck, registry};

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

/// Returns the text of `OPS.md`: every operation under its family, after a table of contents.
pub fn markdown() -> String {
    let core: Vec<Op> = crate::ops::TABLES.iter().copied().flatten().copied().collect();
    let mut families = vec![("Operators, indexing, control flow and effects", core)];
    families.extend(
        fx_ops::families().map(|(name, tables)| (name, tables.iter().copied().flatten().copied().collect())),
    );
    let mut out = String::from(
        "# Operations\n\n\
         Made from the rows by `fx ops --markdown > OPS.md`; a test keeps it fresh. Names, order of arguments, defaults,\n\
         promotion and broadcasting are PyTorch's. A parameter after `*` is given by name only:\n\
         `let y: Tensor = fx::call!(fx::sum(&x, 1, keepdim = true));` writes any argument by name. Errors travel in the result;\n\
         see `Tensor::ok`. Dtypes and examples are what `fx ops --check` runs.\n",
    );
    for (family, ops) in &mut families {
        ops.sort_unstable_by_key(|op| op.name);
        let links: Vec<String> = ops.iter().map(|op| format!("[{0}](#{0})", op.name)).collect();
        let _ = write!(out, "\n**{family}**: {}\n", links.join(", "));
    }
    for (family, ops) in &families {
        let _ = write!(out, "\n## {family}\n");
        for op in ops {
            let (name, schema, doc, notes) = (op.name, &**op, paragraphs(*op), notes(*op));
            let _ =
                write!(out, "\n### {name}\n\n```text\n{schema}\n{}```\n\n{doc}\n\n{notes}\n", example(*op));
        }
    }
    out
}

/// Returns a call with types and the type of its result, from the first sample of an operation; nothing for
/// one that acts on the host, which must not run here.
fn example(op: Op) -> String {
    if op.effects.host || op.effects.state {
        return String::new();
    }
    let Some(sample) = opcheck::samples(op).ok().and_then(|samples| samples.into_iter().next()) else {
        return String::new();
    };
    match opcheck::call::run(op, &sample) {
        Ok(value) => format!("{}({sample}) -> {}\n", op.name, opcheck::rule::describe(&value)),
        Err(_) => String::new(),
    }
}

/// Returns the documentation of a row without the blank that rustdoc leaves before each line.
fn paragraphs(op: Op) -> String {
    let lines: Vec<&str> = op.doc.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n").trim().to_owned()
}

/// Returns what else is true of an operation, in one line.
fn notes(op: Op) -> String {
    let kind = match op.class {
        Class::Pointwise(_) => "Pointwise",
        Class::Reduce => "Reduction",
        Class::View => "View",
        Class::Kernel if op.gufunc.is_some() => "Gufunc",
        Class::Kernel => "Kernel",
        Class::Composite => "Composite",
        Class::Control => "Control flow",
    };
    let mut notes = vec![match op.method {
        true => format!("{kind}, method and function."),
        false => format!("{kind}, function."),
    }];
    if let Class::Pointwise(def) = op.class {
        let dtypes: Vec<DType> = def.dtypes().collect();
        notes.push(format!("Computes in {}; {}.", listed(&dtypes), result(def.rule)));
    } else if let Some(def) = op.gufunc {
        notes.push(format!("`{def}`, where `T` is one dtype of floats; axes before these broadcast."));
    } else if !op.takes_no_tensor() && !op.effects.host {
        let groups = opcheck::samples(op).and_then(|samples| {
            samples.first().map_or(Ok(Vec::new()), |sample| opcheck::accepted_dtypes(op, sample))
        });
        for (names, dtypes) in groups.unwrap_or_default() {
            notes.push(format!("`{}`: {}.", names.join("`, `"), listed(&dtypes)));
        }
    }
    let facts = [
        (op.commutative, "Commutative."),
        (op.effects.random, "Draws random numbers."),
        (op.effects.state, "Writes a buffer."),
        (op.effects.host, "Acts on the host."),
    ];
    notes.extend(facts.into_iter().filter(|(holds, _)| *holds).map(|(_, note)| note.to_owned()));
    notes.join(" ")
}

/// Lists dtypes, in short where they are those of a kind.
fn listed(dtypes: &[DType]) -> String {
    let of =
        |keep: fn(DType) -> bool| DType::ALL.iter().copied().filter(|dtype| keep(*dtype)).collect::<Vec<_>>();
    type Is = fn(DType) -> bool;
    let kinds: [(&str, Is); 5] = [
        ("every dtype", |_| true),
        ("floats", DType::is_float),
        ("integers", DType::is_int),
        ("numbers", |dtype| dtype != DType::Bool),
        ("integers and bools", |dtype| !dtype.is_float()),
    ];
    match kinds.into_iter().find(|(_, keep)| of(*keep) == dtypes) {
        Some((name, _)) => name.to_owned(),
        None => dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", "),
    }
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
