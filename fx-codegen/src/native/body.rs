//! Whether the body of a row stands alone: then it can be pasted into code that knows nothing of the crate of
//! the row.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use fx_core::pointwise::PointwiseDef;
use fx_core::rowwise::RowwiseDef;

/// Types, whose associated items need no path.
const TYPES: &[&str] =
    &["f32", "f64", "bool", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "usize", "isize"];

const KEYWORDS: &[&str] = &[
    "if", "else", "let", "mut", "while", "loop", "for", "in", "break", "continue", "as", "true", "false",
    "match", "move", "ref", "_", "Some", "None", "Option",
];

/// The functions of [`fx_core::math`], which is pasted beside the bodies.
fn math() -> &'static BTreeSet<&'static str> {
    static FUNCTIONS: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| functions(fx_core::math_source::SOURCE))
}

/// The functions of [`fx_core::row`], which is pasted beside the bodies of row-wise operations.
fn row() -> &'static BTreeSet<&'static str> {
    static FUNCTIONS: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| functions(fx_core::math_source::ROW))
}

/// Returns the names of the functions of a text that others may call.
fn functions(source: &'static str) -> BTreeSet<&'static str> {
    let name = |line: &'static str| {
        let line = line.trim();
        // A function, or a row of the table of those that are methods of its numbers.
        let (name, is_row) = match line.strip_prefix("pub fn ") {
            Some(rest) => (rest.split(['(', '<']).next()?, false),
            None => (line.split_once('(')?.0, true),
        };
        let is_row = is_row && (line.ends_with(");") || line.contains(") = ") && line.ends_with(';'));
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
        (is_name && (is_row || line.starts_with("pub fn "))).then_some(name)
    };
    source.lines().filter_map(name).collect()
}

/// Returns how many functions a body calls.
pub(super) fn calls(text: &str) -> usize {
    text.matches("math").count()
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'a> {
    Word(&'a str),
    Path,
    Number,
    Other(char),
}

/// Returns the tokens of a body; `None` if it has literals of text.
fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let len = match c {
            c if c.is_whitespace() => c.len_utf8(),
            '"' | '\'' | '#' => return None,
            c if c.is_ascii_digit() => {
                let mut len = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                let after = &rest[len..];
                if let Some(fraction) = after.strip_prefix('.')
                    && fraction.starts_with(|c: char| c.is_ascii_digit())
                {
                    len += 1 + fraction.find(|c: char| !is_word(c)).unwrap_or(fraction.len());
                }
                tokens.push(Token::Number);
                len
            }
            c if is_word(c) => {
                let len = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                tokens.push(Token::Word(&rest[..len]));
                len
            }
            ':' if rest.starts_with("::") => {
                tokens.push(Token::Path);
                2
            }
            c => {
                tokens.push(Token::Other(c));
                c.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    Some(tokens)
}

/// Returns whether what follows these tokens is `core`, or an item of it, in a path that begins with `::`.
fn is_of_core(before: &[Token<'_>]) -> bool {
    let is_part = |token: &&Token<'_>| matches!(token, Token::Word(_) | Token::Path);
    let start = before.len() - before.iter().rev().take_while(is_part).count();
    matches!(before[start..], [Token::Path] | [Token::Path, Token::Word("core"), ..])
}

/// Returns whether a body names nothing but its operands, its own variables, methods, types of numbers, and
/// functions of `math`.
pub(crate) fn stands_alone(def: &PointwiseDef, text: &str) -> bool {
    names_only(def.operands.iter().chain(def.params).copied().collect(), false, text)
}

/// As [`stands_alone`], of the body of a row-wise operation, which may call functions of `row`, too.
pub(crate) fn row_stands_alone(def: &RowwiseDef) -> bool {
    names_only(def.operands.iter().chain(def.params).copied().chain(def.out).collect(), true, def.body)
}

/// Returns the words in the patterns of the arms of a `match`: those before `=>`.
fn arm_patterns<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let mut words = Vec::new();
    for (i, pair) in tokens.windows(2).enumerate() {
        if pair != [Token::Other('='), Token::Other('>')] {
            continue;
        }
        let mut depth = 0;
        for token in tokens[..i].iter().rev() {
            match token {
                Token::Other(')' | ']') => depth += 1,
                Token::Other('(' | '[') => depth -= 1,
                Token::Other('{' | '}' | ',') if depth == 0 => break,
                Token::Word(word) => words.push(*word),
                _ => {}
            }
        }
    }
    words
}

/// Returns whether a text names nothing but these, its own variables, methods, types of numbers and functions of
/// `math`, and, in the body of a row, `T` and functions of `row`.
fn names_only<'a>(mut bound: Vec<&'a str>, is_row: bool, text: &'a str) -> bool {
    let Some(tokens) = tokens(text) else { return false };
    bound.extend(arm_patterns(&tokens));
    if is_row {
        bound.push("T");
    }
    let mut is_pattern = false;
    let mut is_closure = false;
    for (i, &token) in tokens.iter().enumerate() {
        let next = tokens.get(i + 1).copied();
        let before = i.checked_sub(1).map(|i| tokens[i]);
        let word = match token {
            Token::Word(word) => word,
            Token::Other('=') if !is_closure => {
                is_pattern = false;
                continue;
            }
            // The parameters of a closure stand where no operand is before.
            Token::Other('|') if is_closure => {
                (is_pattern, is_closure) = (false, false);
                continue;
            }
            Token::Other('|') => {
                is_closure = matches!(before, None | Some(Token::Other('(' | ',' | '=' | '{' | ';' | '>')))
                    || before == Some(Token::Word("move"));
                is_pattern |= is_closure;
                continue;
            }
            _ => continue,
        };
        let is_macro = next == Some(Token::Other('!')) && tokens.get(i + 2) != Some(&Token::Other('='));
        if is_macro && !KEYWORDS.contains(&word) {
            return false;
        }
        match (before, word) {
            // A method; two dots are a range.
            (Some(Token::Other('.')), _) if i < 2 || tokens[i - 2] != Token::Other('.') => {}
            // From the root of all crates.
            (Some(Token::Path), _) if is_of_core(&tokens[..i]) => {}
            (Some(Token::Path), _) => {
                let root = i.checked_sub(2).map(|i| tokens[i]);
                match root {
                    Some(Token::Word("math")) if math().contains(word) => {}
                    Some(Token::Word("row")) if is_row && row().contains(word) => {}
                    Some(Token::Word(root)) if TYPES.contains(&root) || is_row && root == "T" => {}
                    _ => return false,
                }
            }
            (_, "let" | "for") => is_pattern = true,
            (_, "in") => is_pattern = false,
            (_, "math") if next == Some(Token::Path) => {}
            (_, "row") if is_row && next == Some(Token::Path) => {}
            (_, word) if KEYWORDS.contains(&word) || TYPES.contains(&word) => {}
            (_, word) if is_pattern => bound.push(word),
            (_, word) if bound.contains(&word) => {}
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_stands_alone_if_it_names_only_what_is_pasted_beside_it() {
        let def = PointwiseDef { operands: &["x", "other"], params: &["alpha"], ..PointwiseDef::BASE };
        for text in [
            "x + other * alpha",
            "math::exp(x) - 1.5e-3",
            "{ let (mut a, b) = (x, other); while a > b { a = a - 1.0; } a }",
            "if x != x { f32::NAN } else { x.max(0.0) }",
            "{ let mut sum = x; for i in 0..3 { sum = sum + x; } sum }",
            "x as u8 as f32",
            "8 * (::core::mem::size_of_val(&x) as i64)",
            "math::i0(x) + math::zeta(x, other)",
            "match x > 0.0 { true => x, _ => other }",
        ] {
            assert!(stands_alone(&def, text), "{text}");
        }
        for text in [
            "own_function(x)",
            "x + SCALE",
            "other_math::exp(x)",
            "math::no_such_function(x)",
            "crate::math::exp(x)",
            "own::core::mem::size_of_val(&x)",
            "std::process::exit(1)",
            "return x",
            "panic!(\"no\")",
            "vec![x][0]",
            "{ println!() ; x }",
            "row::sum(x)",
        ] {
            assert!(!stands_alone(&def, text), "{text}");
        }
    }

    #[test]
    fn the_body_of_a_row_may_have_closures_and_options() {
        let row = |body: &'static str| {
            let kernel = |_: &fx_core::rowwise::Rows<'_, f32>, _: &mut [f32]| {};
            let double = |_: &fx_core::rowwise::Rows<'_, f64>, _: &mut [f64]| {};
            let kernels = fx_core::rowwise::Kernels { f32: kernel, f64: double };
            row_stands_alone(&RowwiseDef {
                name: "own",
                operands: &["x", "weight"],
                optional: &[false, true],
                params: &["eps"],
                out: Some("out"),
                kernels,
                portable: None,
                body,
            })
        };
        for body in [
            "{ let n = x.len() as T; let sum = row::sum_of(x, |x| x * x) / n + eps; out.fill(sum); }",
            "{ for (i, out) in out.iter_mut().enumerate() { *out = x[i]; } }",
            "{ if let Some(weight) = weight { for (out, w) in out.iter_mut().zip(weight) { *out = *w; } } }",
            "{ match weight { Some(w) => out.copy_from_slice(w), None => out.fill(T::MAX), } }",
            "{ out.iter_mut().zip(x).for_each(|(out, &x)| *out = if x > 0.0 || x < eps { x } else { 0.0 }); }",
        ] {
            assert!(row(body), "{body}");
        }
        for body in [
            "{ out.fill(own(x)); }",
            "{ out.fill(SCALE); }",
            "{ out.iter_mut().for_each(scale); }",
            "{ out.fill(row::no_such_function(x)); }",
            "{ out.fill(other::row::sum(x)); }",
            "{ assert!(x.len() > 1); }",
        ] {
            assert!(!row(body), "{body}");
        }
    }
}
