//! Tokens as text, for people.

use std::fmt::Write as _;

use super::{Token, Tokens};
use crate::source::Source;

/// Lists tokens: those of a line of the text in a line, or each in a line with its column and kind.
pub(crate) fn listing(source: &Source, tokens: &Tokens, in_full: bool) -> String {
    let mut out = String::new();
    let mut line = 0;
    for &(token, span) in &tokens.tokens {
        let place = source.location(span.start);
        let text = match token {
            Token::Newline => "newline",
            Token::Indent => "indent",
            Token::Dedent => "dedent",
            Token::End => "end",
            _ => source.slice(span),
        };
        let written = match (in_full, kind(token)) {
            (true, Some(kind)) => writeln!(out, "{}:{} {kind} {text}", place.line, place.column),
            (true, None) => writeln!(out, "{}:{} {text}", place.line, place.column),
            (false, _) if place.line == line => write!(out, " {text}"),
            (false, _) => write!(out, "{}{}: {text}", if line > 0 { "\n" } else { "" }, place.line),
        };
        written.expect("strings take all text");
        line = place.line;
    }
    out
}

/// Returns the word for a kind of tokens whose text does not say it.
fn kind(token: Token) -> Option<&'static str> {
    Some(match token {
        Token::Name => "name",
        Token::Keyword(_) => "keyword",
        Token::Int => "int",
        Token::Float => "float",
        Token::Imaginary => "imaginary",
        Token::Str => "str",
        Token::Op(_) => "operator",
        Token::Newline | Token::Indent | Token::Dedent | Token::End => return None,
    })
}
