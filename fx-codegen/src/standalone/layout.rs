//! Lays out the text of a body: a statement a line, blocks indented.
//!
//! The compiler gives the text of a body without its lines. A body has no comments and no literals of text
//! (see `native::row_stands_alone`), so that braces, brackets and semicolons tell its structure.

/// The longest block that stays on its line.
const SHORT: usize = 60;

/// Returns a block, such as `{ a(); b() }`, with its statements on lines of their own; `depth` is that of the line
/// on which it begins.
pub(super) fn lay_out(block: &str, depth: usize) -> String {
    let text: String = block.split_whitespace().collect::<Vec<_>>().join(" ");
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(&text);
    broken(inner, depth, false)
}

/// Returns a block as an expression: what is between the braces if it is one expression on one line.
pub(super) fn lay_out_value(block: &str, depth: usize) -> String {
    let text = lay_out(block, depth);
    match text.lines().collect::<Vec<_>>()[..] {
        ["{", value, _] if !value.ends_with(';') => value.trim().to_owned(),
        _ => text,
    }
}

/// Writes the statements between two braces, or the arms of a `match`.
fn broken(inner: &str, depth: usize, are_arms: bool) -> String {
    let indent = "    ".repeat(depth + 1);
    let mut out = "{\n".to_owned();
    for statement in statements(inner, are_arms) {
        out.push_str(&format!("{indent}{}\n", written(statement, depth + 1)));
    }
    out.push_str(&"    ".repeat(depth));
    out.push('}');
    out
}

/// Returns whether a statement is a block with a head, which needs no semicolon.
fn has_head(statement: &str) -> bool {
    let first = statement.split([' ', '{', '(']).next().unwrap_or_default();
    matches!(first, "for" | "while" | "loop" | "if" | "match" | "unsafe") || statement.starts_with('{')
}

/// Cuts a text into its statements, or into the arms of a `match`.
fn statements(text: &str, are_arms: bool) -> Vec<&str> {
    let mut all = Vec::new();
    let (mut start, mut depth) = (0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        let next = at + c.len_utf8();
        let (statement, rest) = (text[start..next].trim_start(), text[next..].trim_start());
        let ends = match c {
            ';' => !are_arms,
            ',' => are_arms,
            '}' if are_arms => !rest.starts_with(',') && statement.contains("=> {"),
            '}' => has_head(statement) && !rest.starts_with("else") && !rest.starts_with('.'),
            _ => false,
        };
        if depth == 0 && ends {
            all.push(statement);
            start = next;
        }
    }
    all.extend(Some(text[start..].trim()).filter(|rest| !rest.is_empty()));
    all
}

/// Returns the position behind the brace that closes the one with which a text begins.
fn end_of_block(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// Writes a statement, whose blocks may be on lines of their own.
fn written(statement: &str, depth: usize) -> String {
    let is_loop = ["for ", "while ", "loop "].iter().any(|head| statement.starts_with(head));
    let is_short = |text: &str| text.len() <= SHORT && !text.contains(';');
    if !is_loop && !statement.contains("match ") && (is_short(statement) || !statement.contains('{')) {
        return statement.to_owned();
    }
    let mut out = String::new();
    let mut rest = statement;
    while let Some(at) = rest.find('{') {
        let end = at + end_of_block(&rest[at..]);
        let block = &rest[at..end];
        let inner = block.trim_start_matches('{').strip_suffix('}').unwrap_or_default();
        // The words since the last block or bracket tell what the block is of.
        let head = rest[..at].rsplit(['{', '}', '(', '=', ';']).next().unwrap_or_default().trim_start();
        let is_match = head.starts_with("match ");
        out.push_str(&rest[..at]);
        let stays = !is_loop && !is_match && !has_head(statement) && is_short(block);
        out.push_str(&match stays || inner.trim().is_empty() {
            true => block.to_owned(),
            false => broken(inner, depth, is_match),
        });
        rest = &rest[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_lines() {
        let block = "{ let n = x.len(); let y = if n > 0 { 1.0 } else { 0.0 }; for (out, x) in out.iter_mut().zip(x) \
                     { let z = *x; *out = z * y; } if let Some(w) = w { out.fill(w[0]); } else { out.fill(0.0); } \
                     x.iter().for_each(|x| { a(x); b(x); }); match w { Some(w) => { c(w); } None => {} \
                     _ => d(0, 1), } row::sum_of(x, |x| if x > 0.0 { x } else { 0.0 }) }";
        let expected = "\
{
        let n = x.len();
        let y = if n > 0 { 1.0 } else { 0.0 };
        for (out, x) in out.iter_mut().zip(x) {
            let z = *x;
            *out = z * y;
        }
        if let Some(w) = w {
            out.fill(w[0]);
        } else {
            out.fill(0.0);
        }
        x.iter().for_each(|x| {
            a(x);
            b(x);
        });
        match w {
            Some(w) => {
                c(w);
            }
            None => {}
            _ => d(0, 1),
        }
        row::sum_of(x, |x| if x > 0.0 { x } else { 0.0 })
    }";
        assert_eq!(lay_out(block, 1), expected);
        assert_eq!(lay_out("{}", 0), "{\n}");
        assert_eq!(lay_out_value("{ row::sum(x) }", 1), "row::sum(x)");
        assert_eq!(lay_out_value("{ let a = 1.0; a }", 0), "{\n    let a = 1.0;\n    a\n}");
    }

    #[test]
    fn no_character_is_lost() {
        for block in
            ["{ a { b } c", "{ { { a; } } }", "{ x[{ 1 }] = (a, |b| { c; d }); }", "{ if a { if b { c; } } }"]
        {
            let squeeze = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(
                squeeze(&lay_out(&format!("{{ {block} }}"), 0)),
                squeeze(&format!("{{{block}}}")),
                "{block}"
            );
        }
    }
}
