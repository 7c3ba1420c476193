//! Names for generated code: whatever a graph or file calls something, an identifier comes out, and comments
//! stay comments.

use std::collections::HashSet;

/// The longest identifier that is made.
const LONGEST: usize = 40;

/// Words that no identifier may be.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "union", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// Returns whether a text is a plain identifier as it stands.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    let rest = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    first && rest && text != "_" && !text.contains("__") && text.len() <= LONGEST && !KEYWORDS.contains(&text)
}

/// Returns whether a text is a word that no identifier may be.
pub(crate) fn is_keyword(text: &str) -> bool {
    KEYWORDS.contains(&text) || text == "Self"
}

/// Returns the text as a lower-case identifier.
pub(crate) fn variable(text: &str) -> String {
    if is_identifier(text) {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if out.len() == LONGEST {
            break;
        }
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        if !(c == '_' && out.ends_with('_')) {
            out.push(c);
        }
    }
    let begins = out.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if !begins || out == "_" {
        out.insert(0, '_');
        out.truncate(LONGEST);
    }
    if out.bytes().all(|b| b == b'_') {
        out.push('x');
    }
    if KEYWORDS.contains(&&*out) {
        out.push('_');
    }
    out
}

/// Returns the text as the name of a type.
pub(crate) fn type_name(text: &str) -> String {
    let mut out = String::new();
    let mut upper = true;
    for c in text.chars() {
        if out.len() == LONGEST {
            break;
        }
        match c {
            _ if !c.is_ascii_alphanumeric() => upper = true,
            _ if out.is_empty() && c.is_ascii_digit() => {
                out.push_str("Part");
                out.push(c);
                upper = true;
            }
            _ => {
                out.push(if upper { c.to_ascii_uppercase() } else { c });
                upper = false;
            }
        }
    }
    // These are in scope.
    const TAKEN: &[&str] = &[
        "",
        "Self",
        "Box",
        "Vec",
        "Option",
        "Some",
        "None",
        "Ok",
        "Err",
        "String",
        "Result",
        "Tensor",
        "Tree",
        "Module",
        "Parameter",
        "Buffer",
        "Forward",
        "DType",
        "Dim",
        "Error",
        "Weights",
    ];
    if TAKEN.contains(&&*out) {
        out.push_str("Part");
    }
    out
}

/// Returns the text as it may stand in a comment of one line: without what ends a line or turns its direction.
pub(crate) fn comment(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().take(200) {
        let is_plain = !c.is_control() && !('\u{2000}'..='\u{206f}').contains(&c) && c != '\u{feff}';
        match is_plain && (c.is_ascii() || c.is_alphanumeric()) {
            true => out.push(c),
            false => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// Names that are given once.
#[derive(Default)]
pub(crate) struct Names(HashSet<String>);

impl Names {
    /// Gives a name to nobody else.
    pub(crate) fn keep(&mut self, name: &str) {
        self.0.insert(name.to_owned());
    }

    /// Returns the name, with a number if it is taken.
    pub(crate) fn claim(&mut self, name: String) -> String {
        if self.0.insert(name.clone()) {
            return name;
        }
        let base = name.trim_end_matches('_');
        let numbered = (1u64..).map(|i| format!("{base}_{i}")).find(|name| !self.0.contains(name));
        let numbered = numbered.unwrap_or(name);
        self.0.insert(numbered.clone());
        numbered
    }
}
