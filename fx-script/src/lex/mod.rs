//! The lexer: text to tokens, with the indentation of Python as tokens.
//!
//! A token is its kind and its span; names and literals are read from the text when the parser needs them.
//! The tokens end with a line end, the open dedents and [`Token::End`], whatever the text ends with.

mod listing;
mod literal;

use fx_core::{ErrorKind, Result};

pub(crate) use self::listing::listing;
pub(crate) use self::literal::{float, imaginary, integer, string, string_body, unescape};
use crate::ast::MAX_NESTING;
use crate::source::{Source, Span};

/// The longest text in bytes.
const MAX_TEXT: usize = 1 << 30;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name that is no keyword.
    Name,
    /// A keyword of Python.
    Keyword(&'static str),
    /// An int.
    Int,
    /// A float.
    Float,
    /// An imaginary number.
    Imaginary,
    /// A text with its quotes and its prefix.
    Str,
    /// An operator or bracket.
    Op(&'static str),
    /// The end of a logical line.
    Newline,
    /// The begin of a deeper block.
    Indent,
    /// The end of a block.
    Dedent,
    /// The end of the text.
    End,
}

/// The tokens of a text.
pub(crate) struct Tokens {
    /// Kinds and places, in order.
    pub(crate) tokens: Vec<(Token, Span)>,
    /// Comments `# type: ..`: the place of the text after the colon.
    pub(crate) type_comments: Vec<Span>,
}

const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Operators, longer ones before their prefixes.
const OPERATORS: &[&str] = &[
    "**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "<=", ">=", "==", "!=", "->", "+=", "-=",
    "*=", "/=", "%=", "&=", "|=", "^=", "@=", ":=", "+", "-", "*", "/", "%", "@", "&", "|", "^", "~", "<",
    ">", "(", ")", "[", "]", "{", "}", ",", ":", ".", ";", "=",
];

/// Splits a text into tokens.
///
/// Fails if a character, a literal or the indentation is wrong, or the text is too long.
pub(crate) fn tokens(source: &Source) -> Result<Tokens> {
    let text = source.text();
    if text.len() > MAX_TEXT {
        let message = format!("a text has {} bytes, more than {MAX_TEXT}", text.len());
        return Err(source.error(ErrorKind::Limit, Span::default(), &message));
    }
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut lexer = Lexer::new(source, span(start, text.len()));
    lexer.run(LineStart::Block)?;
    Ok(lexer.out)
}

/// Splits a part of a line into tokens, such as the text of a type comment.
///
/// Fails if a character or a literal is wrong.
pub(crate) fn tokens_within(source: &Source, part: Span) -> Result<Tokens> {
    let mut lexer = Lexer::new(source, part);
    lexer.run(LineStart::Inside)?;
    Ok(lexer.out)
}

/// Whether the next character is the first of a line of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineStart {
    Block,
    Inside,
}

struct Lexer<'a> {
    source: &'a Source,
    bytes: &'a [u8],
    at: usize,
    /// The open brackets with their places.
    brackets: Vec<(u8, usize)>,
    /// The widths of the open blocks; the first is 0.
    indents: Vec<usize>,
    out: Tokens,
}

impl<'a> Lexer<'a> {
    fn new(source: &'a Source, part: Span) -> Self {
        let bytes = &source.text().as_bytes()[..part.end as usize];
        Lexer {
            source,
            bytes,
            at: part.start as usize,
            brackets: Vec::new(),
            indents: vec![0],
            out: Tokens { tokens: Vec::new(), type_comments: Vec::new() },
        }
    }

    fn fail<T>(&self, start: usize, end: usize, message: &str) -> Result<T> {
        Err(self.source.error(ErrorKind::Parse, span(start, end), message))
    }

    fn push(&mut self, token: Token, start: usize) {
        self.out.tokens.push((token, span(start, self.at)));
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn run(&mut self, begin: LineStart) -> Result<()> {
        let mut line_start = begin == LineStart::Block;
        while self.at < self.bytes.len() {
            if line_start && self.brackets.is_empty() {
                line_start = false;
                if !self.indentation()? {
                    line_start = true;
                    continue;
                }
            }
            let start = self.at;
            match self.bytes[start] {
                b' ' | b'\t' | b'\x0c' => self.at += 1,
                b'#' => self.comment(),
                b'\n' | b'\r' => {
                    self.line_end();
                    if self.brackets.is_empty() {
                        self.push(Token::Newline, start);
                        line_start = true;
                    }
                }
                b'\\' => {
                    self.at += 1;
                    if !matches!(self.peek(0), b'\n' | b'\r') {
                        return self.fail(start, start + 1, "a backslash continues a line only at its end");
                    }
                    self.line_end();
                }
                b'0'..=b'9' => self.number()?,
                b'.' if self.peek(1).is_ascii_digit() => self.number()?,
                b'"' | b'\'' => self.text(start)?,
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word()?,
                _ => self.operator()?,
            }
        }
        if let Some(&(bracket, at)) = self.brackets.last() {
            return self.fail(at, at + 1, &format!("'{}' is never closed", bracket as char));
        }
        let end = self.at;
        if !line_start {
            self.push(Token::Newline, end);
        }
        for _ in 1..self.indents.len() {
            self.push(Token::Dedent, end);
        }
        self.push(Token::End, end);
        Ok(())
    }

    /// Reads the spaces at the start of a line; returns whether the line has code.
    fn indentation(&mut self) -> Result<bool> {
        let start = self.at;
        let mut width = 0usize;
        loop {
            match self.peek(0) {
                b' ' => width += 1,
                b'\t' => width = (width / 8 + 1) * 8,
                b'\x0c' => width = 0,
                _ => break,
            }
            self.at += 1;
        }
        match self.peek(0) {
            b'#' => {
                self.comment();
                self.line_end();
                return Ok(false);
            }
            b'\n' | b'\r' => {
                self.line_end();
                return Ok(false);
            }
            0 if self.at >= self.bytes.len() => return Ok(false),
            _ => {}
        }
        let current = *self.indents.last().expect("the outermost block is never closed");
        if width > current {
            if self.indents.len() as u32 > MAX_NESTING {
                let message = format!("blocks nest deeper than {MAX_NESTING} levels");
                return Err(self.source.error(ErrorKind::Limit, span(start, self.at), &message));
            }
            self.indents.push(width);
            self.push(Token::Indent, start);
        }
        while width < *self.indents.last().expect("the outermost block is never closed") {
            self.indents.pop();
            self.push(Token::Dedent, start);
        }
        if width != *self.indents.last().expect("the outermost block is never closed") {
            let help = "every line of a block begins in the same column";
            return self
                .fail(start, self.at, "the indentation fits no block that is open")
                .map_err(|e: fx_core::Error| e.help(help));
        }
        Ok(true)
    }

    fn line_end(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (b'\r', b'\n') => self.at += 2,
            (b'\r' | b'\n', _) => self.at += 1,
            _ => {}
        }
    }

    fn comment(&mut self) {
        let start = self.at;
        while self.at < self.bytes.len() && !matches!(self.bytes[self.at], b'\n' | b'\r') {
            self.at += 1;
        }
        let text = &self.source.text()[start..self.at];
        let body = text[1..].trim_start();
        if let Some(annotation) = body.strip_prefix("type:")
            && !annotation.trim_start().starts_with("ignore")
        {
            self.out.type_comments.push(span(self.at - annotation.len(), self.at));
        }
    }

    fn number(&mut self) -> Result<()> {
        let start = self.at;
        let digits = |lexer: &mut Self| {
            while lexer.peek(0).is_ascii_digit() || (lexer.peek(0) == b'_' && lexer.peek(1).is_ascii_digit())
            {
                lexer.at += 1;
            }
        };
        let mut kind = Token::Int;
        if self.peek(0) == b'0' && matches!(self.peek(1), b'x' | b'X' | b'o' | b'O' | b'b' | b'B') {
            self.at += 2;
            while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
                self.at += 1;
            }
            self.push(Token::Int, start);
            return Ok(());
        }
        digits(self);
        if self.peek(0) == b'.' {
            kind = Token::Float;
            self.at += 1;
            digits(self);
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + sign).is_ascii_digit() {
                kind = Token::Float;
                self.at += 1 + sign;
                digits(self);
            }
        }
        if matches!(self.peek(0), b'j' | b'J') {
            kind = Token::Imaginary;
            self.at += 1;
        }
        if self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
            return self.fail(start, self.at + 1, "a number ends in a letter");
        }
        self.push(kind, start);
        Ok(())
    }

    fn word(&mut self) -> Result<()> {
        let start = self.at;
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
            self.at += 1;
        }
        let word = &self.source.text()[start..self.at];
        let is_prefix = matches!(
            word,
            "r" | "R" | "f" | "F" | "u" | "U" | "rf" | "fr" | "Rf" | "rF" | "RF" | "fR" | "Fr" | "FR"
        );
        if matches!(self.peek(0), b'"' | b'\'') {
            if is_prefix {
                return self.text(start);
            }
            if matches!(word, "b" | "B" | "br" | "rb") {
                return self.fail(start, self.at, "bytes are no values of TorchScript");
            }
        }
        match KEYWORDS.iter().find(|keyword| **keyword == word) {
            Some(keyword) => self.push(Token::Keyword(keyword), start),
            None => self.push(Token::Name, start),
        }
        Ok(())
    }

    /// Reads a text in quotes, whose prefix begins at `start`.
    fn text(&mut self, start: usize) -> Result<()> {
        let quote = self.peek(0);
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        self.at += if triple { 3 } else { 1 };
        loop {
            match self.bytes.get(self.at) {
                None => return self.fail(start, start + 1, "a text is never closed"),
                Some(b'\\') => self.at = (self.at + 2).min(self.bytes.len()),
                Some(b'\n' | b'\r') if !triple => {
                    return self.fail(start, self.at, "a text in single quotes ends on its line");
                }
                Some(&byte) if byte == quote => {
                    if !triple {
                        self.at += 1;
                        break;
                    }
                    if self.peek(1) == quote && self.peek(2) == quote {
                        self.at += 3;
                        break;
                    }
                    self.at += 1;
                }
                Some(_) => self.at += 1,
            }
        }
        self.push(Token::Str, start);
        Ok(())
    }

    fn operator(&mut self) -> Result<()> {
        let start = self.at;
        let rest = &self.bytes[start..];
        let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(operator.as_bytes())) else {
            let character = self.source.text()[start..].chars().next().unwrap_or_default();
            let message = format!("the character {character:?} begins no token");
            return self.fail(start, start + character.len_utf8(), &message);
        };
        self.at += operator.len();
        match operator.as_bytes()[0] {
            bracket @ (b'(' | b'[' | b'{') => self.brackets.push((bracket, start)),
            bracket @ (b')' | b']' | b'}') => {
                let wanted = match bracket {
                    b')' => b'(',
                    b']' => b'[',
                    _ => b'{',
                };
                match self.brackets.pop() {
                    Some((open, _)) if open == wanted => {}
                    Some((open, _)) => {
                        let message = format!("'{}' closes '{}'", bracket as char, open as char);
                        return self.fail(start, self.at, &message);
                    }
                    None => {
                        return self.fail(start, self.at, &format!("'{}' closes nothing", bracket as char));
                    }
                }
            }
            _ => {}
        }
        self.push(Token::Op(operator), start);
        Ok(())
    }
}

fn span(start: usize, end: usize) -> Span {
    Span { start: start as u32, end: end as u32 }
}
