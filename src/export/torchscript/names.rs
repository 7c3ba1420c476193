//! Names of locals, attributes and classes.

use std::collections::HashSet;

/// Words that TorchScript or Python gives a meaning.
const RESERVED: &[&str] = &[
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
    "torch",
    "ops",
    "CONSTANTS",
    "self",
    "print",
    "annotate",
    "uninitialized",
    "unchecked_cast",
    "getattr",
    "fork",
    "range",
    "isinstance",
    "int",
    "float",
    "bool",
    "str",
    "complex",
    "sorted",
    "len",
    "min",
    "max",
    "abs",
    "round",
    "tuple",
    "list",
    "dict",
    "enumerate",
    "zip",
    "inf",
    "nan",
    "Tensor",
    "number",
    "Scalar",
    "Any",
    "NoneType",
    "Device",
    "Generator",
    "Layout",
    "Optional",
    "List",
    "Dict",
    "Tuple",
    "Union",
    "Future",
    "Final",
    "Module",
    "hash",
    "super",
    "any",
    "all",
    "divmod",
    "ord",
    "chr",
    "bin",
    "hex",
    "oct",
    "math",
];

/// Returns whether a name can be written after a dot.
pub(super) fn is_plain(name: &str) -> bool {
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    rest && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && !RESERVED.contains(&name)
}

/// Returns the expression that reads an attribute of an expression.
pub(super) fn attribute(of: &str, name: &str) -> String {
    if is_plain(name) { format!("{of}.{name}") } else { format!("getattr({of}, {})", text(name)) }
}

/// Returns the expression that reads what is at a dotted path below `self`.
pub(super) fn path(path: &str) -> String {
    path.split('.').fold("self".to_owned(), |of, name| attribute(&of, name))
}

/// Returns text as a literal.
pub(super) fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\{:03o}", c as u32)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Names that are in use.
#[derive(Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// Returns a name like `wanted` that is valid and not in use, and uses it.
    pub(super) fn fresh(&mut self, wanted: &str) -> String {
        let keep = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        let mut base: String = wanted.chars().map(keep).collect();
        if base.is_empty() || base.starts_with(|c: char| c.is_ascii_digit()) {
            base.insert(0, '_');
        }
        let mut name = base.clone();
        let mut count = 0;
        while RESERVED.contains(&&*name) || self.0.contains(&name) {
            name = format!("{base}_{count}");
            count += 1;
        }
        self.0.insert(name.clone());
        name
    }
}

/// Returns a word in the form of names of classes: `encoder_layer` is `EncoderLayer`.
pub(super) fn camel_case(word: &str) -> String {
    let mut out = String::new();
    for part in word.split(|c: char| !c.is_ascii_alphanumeric()) {
        let mut chars = part.chars();
        out.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        out.push_str(chars.as_str());
    }
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert_str(0, "Module");
    }
    out
}
