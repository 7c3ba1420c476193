//! Unique, readable, deterministic names: `add`, `add_1`, `layers_0_conv1`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// The longest name that is made; longer hints are cut.
const MAX_LEN: usize = 100;

/// The longest beginning of a name to which a number is added, so that the whole stays within [`MAX_LEN`].
const MAX_BASE: usize = MAX_LEN - 21;

/// Words that are never a node's name: Rust's keywords and the text format's own words.
const RESERVED: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "bool", "box", "break", "const", "continue",
    "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "graph", "if",
    "impl", "in", "inf", "let", "loop", "macro", "main", "match", "mod", "move", "mut", "nan", "none",
    "override", "priv", "pub", "raw", "ref", "return", "self", "slice", "static", "str", "struct", "super",
    "trait", "true", "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where",
    "while", "yield",
];

/// The length of the longest of them.
const LONGEST_RESERVED: usize = 8;

/// The names in use, and the largest number given to each base.
#[derive(Clone, Debug)]
pub struct Namespace<T> {
    used: FxHashMap<Arc<str>, T>,
    counts: FxHashMap<Arc<str>, u64>,
}

impl<T> Default for Namespace<T> {
    fn default() -> Self {
        Namespace { used: FxHashMap::default(), counts: FxHashMap::default() }
    }
}

/// What [`Namespace::claim`] changed, so that it can be undone.
#[derive(Debug)]
pub struct Claim {
    base: Arc<str>,
    old_count: Option<u64>,
}

impl<T: Copy> Namespace<T> {
    /// Makes room for more names.
    pub(crate) fn reserve(&mut self, additional: usize) {
        self.used.reserve(additional);
        self.counts.reserve(additional);
    }

    pub(crate) fn get(&self, name: &str) -> Option<T> {
        self.used.get(name).copied()
    }

    /// Returns how many names are in use.
    pub(crate) fn len(&self) -> usize {
        self.used.len()
    }

    pub(crate) fn set(&mut self, name: &Arc<str>, owner: T) {
        self.used.insert(name.clone(), owner);
    }

    /// Makes a unique name from `hint` and gives it to `owner`.
    pub fn claim(&mut self, hint: &str, owner: T) -> (Arc<str>, Claim) {
        let hint = sanitise(hint);
        let (base, number) = split_number(&hint);
        let base = &base[..base.len().min(MAX_BASE)];
        let (base, count) = match self.counts.get_key_value(base) {
            Some((base, count)) => (base.clone(), Some(*count)),
            None => (Arc::from(base), None),
        };
        let is_free = |name: &str| !self.used.contains_key(name);
        let mut last = number.unwrap_or(0);
        let name: Arc<str> = if is_free(&hint) && !is_reserved(&hint) {
            if base.len() == hint.len() { base.clone() } else { Arc::from(&*hint) }
        } else {
            last = last.max(count.unwrap_or(0));
            let mut text = String::with_capacity(base.len() + 8);
            loop {
                last += 1;
                text.clear();
                text.push_str(&base);
                text.push('_');
                push_number(&mut text, last);
                if is_free(&text) {
                    break Arc::from(text);
                }
            }
        };
        let claim = Claim { base: base.clone(), old_count: count };
        self.counts.insert(base, last.max(count.unwrap_or(0)));
        self.used.insert(name.clone(), owner);
        (name, claim)
    }

    /// Takes a name back; the counters stay, so that it is not given to another node.
    pub(crate) fn release(&mut self, name: &str) {
        self.used.remove(name);
    }

    /// Undoes the last claim.
    pub(crate) fn undo(&mut self, name: &str, claim: Claim) {
        self.used.remove(name);
        match claim.old_count {
            Some(count) => self.counts.insert(claim.base, count),
            None => self.counts.remove(&claim.base),
        };
    }
}

/// Appends a number in decimal, without the machinery of formatting.
fn push_number(text: &mut String, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    text.extend(digits[at..].iter().map(|&digit| digit as char));
}

/// Returns whether `name` is a word that no node may be called.
pub fn is_reserved(name: &str) -> bool {
    name.len() <= LONGEST_RESERVED && RESERVED.binary_search(&name).is_ok()
}

/// Returns whether `name` could be the name of a node.
pub fn is_identifier(name: &str) -> bool {
    name.len() <= MAX_LEN
        && name
            .bytes()
            .enumerate()
            .all(|(i, b)| b == b'_' || b.is_ascii_alphabetic() || (i > 0 && b.is_ascii_digit()))
        && !name.is_empty()
        && !is_reserved(name)
}

/// Returns an identifier: every illegal character becomes `_`.
fn sanitise(hint: &str) -> std::borrow::Cow<'_, str> {
    if hint.len() <= MAX_LEN
        && hint.bytes().next().is_some_and(|b| !b.is_ascii_digit())
        && hint.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
    {
        return hint.into();
    }
    let mut name: String =
        hint.chars().take(MAX_LEN).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.is_empty() {
        name.push_str("_unnamed");
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name.truncate(MAX_LEN);
    name.into()
}

/// Splits `add_12` into `add` and 12; numbers with leading zeros belong to the base.
fn split_number(name: &str) -> (&str, Option<u64>) {
    if let Some((base, digits)) = name.rsplit_once('_') {
        let canonical = !digits.is_empty()
            && digits.len() <= 15
            && digits.bytes().all(|b| b.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        if canonical && !base.is_empty() {
            return (base, digits.parse().ok());
        }
    }
    (name, None)
}

/// Returns a name hint in snake case: `layers.0.Conv1` gives `layers_0_conv1`, `MyNorm` gives `my_norm`,
/// `ALL_CAPS` gives `all_caps`, `__call__` gives `call`.
pub fn snake_case(name: &str) -> String {
    let name = name.strip_prefix("__").and_then(|n| n.strip_suffix("__")).unwrap_or(name);
    let name = name.as_bytes();
    let mut out = String::with_capacity(name.len() + 4);
    let mut previous = b'_';
    for (at, &byte) in name.iter().enumerate() {
        if byte.is_ascii_uppercase() {
            let next_is_lower = name.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            let boundary = previous.is_ascii_lowercase()
                || previous.is_ascii_digit() && next_is_lower
                || previous.is_ascii_uppercase() && next_is_lower;
            if boundary {
                out.push('_');
            }
            out.push(byte.to_ascii_lowercase() as char);
        } else if byte.is_ascii_alphanumeric() {
            out.push(byte as char);
        } else if !is_continuation(byte) {
            out.push('_');
        }
        previous = byte;
    }
    out
}

/// Returns whether a byte is not the first of its character in UTF-8.
fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Returns advice that names up to three candidates similar to `name`.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let wanted = &name[..name.floor_char_boundary(40)];
    let mut close: Vec<(usize, &str)> = candidates
        .into_iter()
        .map(|candidate| (edit_distance(wanted, &candidate[..candidate.floor_char_boundary(40)]), candidate))
        .filter(|(distance, candidate)| {
            *distance <= 1 + name.len() / 4 || (name.len() > 2 && candidate.contains(name))
        })
        .collect();
    close.sort_unstable();
    close.dedup();
    close.truncate(3);
    if close.is_empty() {
        return String::from("check the spelling");
    }
    let names: Vec<String> = close.iter().map(|(_, candidate)| format!("{candidate:?}")).collect();
    format!("did you mean {}?", names.join(" or "))
}

/// Levenshtein's distance, in bytes.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
