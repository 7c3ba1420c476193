//! Whether the body of a row stands alone: then it can be pasted into code that knows nothing of the crate of
//! the row.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use fx_core::gufunc::{CoreAxis, GufuncDef};
use fx_core::pointwise::PointwiseDef;
use fx_core::rowwise::RowwiseDef;
use fx_core::{Error, Result, err};

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

/// Returns a body as it is pasted beside `math` and `row`, which users may name as those of fx.
pub(crate) fn pasted(text: &str) -> String {
    text.replace("fx::math::", "math::").replace("fx::row::", "row::")
}

/// Checks that a body names nothing but its operands, its own variables, methods, types of numbers, and
/// functions of `math`. Fails with what else it names.
pub(crate) fn stands_alone(def: &PointwiseDef, text: &str) -> Result<()> {
    let bound = def.operands.iter().chain(def.params).copied().collect();
    names_only(bound, false, text).map_err(|other| outside(&other, "`math::…`"))
}

/// As [`stands_alone`], of the body of a row-wise operation, which may call functions of `row`, too.
pub(crate) fn row_stands_alone(def: &RowwiseDef) -> Result<()> {
    let bound = def.operands.iter().chain(def.params).copied().chain(def.out).collect();
    names_only(bound, true, def.body).map_err(|other| outside(&other, "`math::…`, `row::…`"))
}

/// As [`row_stands_alone`], of the body of a gufunc, which may name its core sizes, too.
pub(crate) fn gufunc_stands_alone(def: &GufuncDef) -> Result<()> {
    let operands = def.operands.iter().map(|operand| operand.name);
    let results = def.results.iter().map(|result| result.name);
    let axes = def.operands.iter().flat_map(|operand| operand.axes).filter_map(|axis| match axis {
        CoreAxis::Named(name) => Some(*name),
        CoreAxis::Known(_) => None,
    });
    let bound = operands.chain(results).chain(axes).chain(def.params.iter().copied()).collect();
    names_only(bound, true, def.body).map_err(|other| outside(&other, "`math::…`, `row::…`"))
}

fn outside(name: &str, modules: &str) -> Error {
    err!(Unresolved, "its body names `{name}`, which is outside of it").help(format!(
        "a body that generated code contains names its operands, parameters and variables, methods and types of numbers, and {modules} of fx"
    ))
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

/// Checks that a text names nothing but these, its own variables, methods, types of numbers and functions of
/// `math`, and, in the body of a row, `T` and functions of `row`. Fails with the first other name.
fn names_only(bound: Vec<&str>, is_row: bool, text: &str) -> Result<(), String> {
    let text = pasted(text);
    let mut bound = bound;
    let Some(tokens) = tokens(&text) else { return Err("a text".to_owned()) };
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
            return Err(format!("{word}!"));
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
                    Some(Token::Word(root)) => return Err(format!("{root}::{word}")),
                    _ => return Err(format!("::{word}")),
                }
            }
            (_, "let" | "for") => is_pattern = true,
            (_, "in") => is_pattern = false,
            (_, "math") if next == Some(Token::Path) => {}
            (_, "row") if is_row && next == Some(Token::Path) => {}
            (_, word) if KEYWORDS.contains(&word) || TYPES.contains(&word) => {}
            (_, word) if is_pattern => bound.push(word),
            (_, word) if bound.contains(&word) => {}
            // What follows in a path says more.
            _ if next == Some(Token::Path) => match tokens.get(i + 2) {
                Some(Token::Word(item)) => return Err(format!("{word}::{item}")),
                _ => return Err(word.to_owned()),
            },
            _ => return Err(word.to_owned()),
        }
    }
    Ok(())
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
            "fx::math::exp(x) * fx::math::i0(other)",
        ] {
            assert!(stands_alone(&def, text).is_ok(), "{text}");
        }
        for text in [
            "own_function(x)",
            "x + SCALE",
            "other_math::exp(x)",
            "math::no_such_function(x)",
            "crate::math::exp(x)",
            "own::core::mem::size_of_val(&x)",
            "own::fx::math::exp(x)",
            "fx::exp(x)",
            "std::process::exit(1)",
            "return x",
            "panic!(\"no\")",
            "vec![x][0]",
            "{ println!() ; x }",
            "row::sum(x)",
        ] {
            assert!(stands_alone(&def, text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_a_body_names_is_told() {
        let def = PointwiseDef { operands: &["x"], ..PointwiseDef::BASE };
        for (text, name) in [
            ("own(x)", "`own`"),
            ("x * SCALE", "`SCALE`"),
            ("other::exp(x)", "`other::exp`"),
            ("std::f32::consts::PI * x", "`std::f32`"),
            ("math::no_such_function(x)", "`math::no_such_function`"),
            ("{ println!(); x }", "`println!`"),
        ] {
            let error = stands_alone(&def, text).unwrap_err();
            assert!(error.message().starts_with(&format!("its body names {name}, ")), "{error}");
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
            assert!(row(body).is_ok(), "{body}");
        }
        for body in [
            "{ out.fill(own(x)); }",
            "{ out.fill(SCALE); }",
            "{ out.iter_mut().for_each(scale); }",
            "{ out.fill(row::no_such_function(x)); }",
            "{ out.fill(other::row::sum(x)); }",
            "{ assert!(x.len() > 1); }",
        ] {
            assert!(row(body).is_err(), "{body}");
        }
    }
}
