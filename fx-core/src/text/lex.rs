//! [`Cursor`]: the lexer. It reads tokens at a position, on demand, and never looks at what the tokens mean.

use std::borrow::Cow;

use crate::{Error, err};

/// A mistake in the text and the position at which it begins.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) at: usize,
    pub(super) error: Error,
}

pub(super) type Parsed<T> = Result<T, Problem>;

/// A number as it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

/// A position in the text.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    pub(super) pos: usize,
}

impl<'a> Cursor<'a> {
    /// Reads `text` from `pos`; positions are those of the whole text.
    pub(super) fn new(text: &'a str, pos: usize) -> Self {
        Cursor { text, pos }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.pos + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.pos..]
    }

    /// Returns the text from here to a later position.
    pub(super) fn until_position(&self, end: usize) -> &'a str {
        &self.text[self.pos..end]
    }

    /// Returns whether the text here begins with `text`.
    pub(super) fn starts_with(&self, text: &str) -> bool {
        self.rest().starts_with(text.as_bytes())
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.pos >= self.text.len()
    }

    /// Moves by one character if nothing was read since `before`.
    pub(super) fn step_if_at(&mut self, before: usize) {
        if self.pos == before {
            self.pos += self.text[before..].chars().next().map_or(1, char::len_utf8);
        }
    }

    /// Skips spaces and comments, not the end of the line.
    pub(super) fn skip_in_line(&mut self) {
        loop {
            match self.byte(0) {
                b' ' | b'\t' | b'\r' => self.pos += 1,
                b'/' if self.byte(1) == b'/' => self.skip_to_line_end(),
                _ => return,
            }
        }
    }

    /// Skips spaces, lines and comments.
    pub(super) fn skip(&mut self) {
        self.skip_in_line();
        while self.byte(0) == b'\n' {
            self.pos += 1;
            self.skip_in_line();
        }
    }

    pub(super) fn skip_to_line_end(&mut self) {
        self.pos += self.rest().iter().take_while(|b| **b != b'\n').count();
    }

    /// Returns the first byte of the next token, and 0 at the end.
    pub(super) fn peek(&mut self) -> u8 {
        self.skip();
        self.byte(0)
    }

    /// Returns the byte at the position itself.
    pub(super) fn here(&self) -> u8 {
        self.byte(0)
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.skip();
        let found = self.rest().starts_with(token.as_bytes());
        self.pos += if found { token.len() } else { 0 };
        found
    }

    pub(super) fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    /// Returns the longest run of letters, digits and underscores at the position itself.
    pub(super) fn segment(&mut self) -> &'a str {
        let start = self.pos;
        self.pos += self.rest().iter().take_while(|b| **b == b'_' || b.is_ascii_alphanumeric()).count();
        &self.text[start..self.pos]
    }

    /// Returns the next word, without moving unless there is one.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        match self.peek() {
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => Some(self.segment()),
            _ => None,
        }
    }

    /// Returns the text up to `close`, which must come on the same line, and moves beyond it.
    pub(super) fn until(&mut self, close: u8) -> Parsed<&'a str> {
        let start = self.pos;
        match self.rest().iter().position(|b| *b == close || *b == b'\n') {
            Some(n) if self.byte(n) == close => {
                self.pos += n + 1;
                Ok(&self.text[start..start + n])
            }
            _ => Err(self.expected(&format!("`{}` on the same line", close as char))),
        }
    }

    /// Reads text in double quotes.
    pub(super) fn string(&mut self) -> Parsed<Cow<'a, str>> {
        if self.peek() != b'"' {
            return Err(self.expected("a string in double quotes"));
        }
        let open = self.pos;
        self.pos += 1;
        let mut out = String::new();
        loop {
            let start = self.pos;
            self.pos += self.rest().iter().take_while(|b| !matches!(b, b'"' | b'\\' | b'\n')).count();
            let plain = &self.text[start..self.pos];
            match self.byte(0) {
                b'"' => {
                    self.pos += 1;
                    if out.is_empty() {
                        return Ok(plain.into());
                    }
                    out.push_str(plain);
                    return Ok(out.into());
                }
                b'\\' => {
                    out.push_str(plain);
                    out.push(self.escape()?);
                }
                _ => {
                    let error = err!(Parse, "expected `\"` on the same line, got an unfinished string");
                    return Err(Problem { at: open, error });
                }
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let at = self.pos;
        let plain = match self.byte(1) {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            c @ (b'"' | b'\\') => c as char,
            b'u' => {
                let rest = &self.rest()[2..];
                let n = rest.iter().take(8).take_while(|b| **b != b'}').count();
                let digits = rest.get(1..n).and_then(|digits| std::str::from_utf8(digits).ok());
                let code = digits
                    .filter(|digits| rest[0] == b'{' && digits.bytes().all(|b| b.is_ascii_hexdigit()))
                    .and_then(|digits| u32::from_str_radix(digits, 16).ok());
                match code.and_then(char::from_u32) {
                    Some(c) if rest.get(n) == Some(&b'}') => {
                        self.pos += 3 + n;
                        return Ok(c);
                    }
                    _ => {
                        return Err(Problem {
                            at,
                            error: err!(Parse, "expected `\\u{{..}}` with a code point"),
                        });
                    }
                }
            }
            _ => {
                let error = err!(Parse, "unknown escape in a string")
                    .help("use \\n, \\t, \\r, \\\", \\\\ or \\u{..}");
                return Err(Problem { at, error });
            }
        };
        self.pos += 2;
        Ok(plain)
    }

    /// Reads an integer or float that begins with a digit or a minus.
    pub(super) fn number(&mut self) -> Parsed<Number> {
        self.skip();
        let start = self.pos;
        self.pos += usize::from(self.byte(0) == b'-');
        let digits = |cursor: &mut Self| {
            let n = cursor.rest().iter().take_while(|b| b.is_ascii_digit()).count();
            cursor.pos += n;
            n > 0
        };
        if self.rest().starts_with(b"inf") {
            self.pos += 3;
            return self.finish(start, Some(Number::Float(f64::NEG_INFINITY)));
        }
        let mut well_formed = digits(self);
        let mut is_float = false;
        if self.byte(0) == b'.' && self.byte(1) != b'.' {
            is_float = true;
            self.pos += 1;
            well_formed &= digits(self);
        }
        if matches!(self.byte(0), b'e' | b'E') {
            is_float = true;
            self.pos += 1;
            self.pos += usize::from(matches!(self.byte(0), b'+' | b'-'));
            well_formed &= digits(self);
        }
        let text = &self.text[start..self.pos];
        let number = match (well_formed, is_float) {
            (false, _) => None,
            (true, true) => text.parse().ok().filter(|x: &f64| x.is_finite()).map(Number::Float),
            (true, false) => text.parse().ok().map(Number::Int),
        };
        self.finish(start, number)
    }

    /// Refuses a number that runs on into a word, or that does not fit.
    fn finish(&mut self, start: usize, number: Option<Number>) -> Parsed<Number> {
        let runs_on = !self.segment().is_empty();
        match number {
            Some(number) if !runs_on => Ok(number),
            _ => {
                let text = cut(&self.text[start..self.pos], 30);
                self.pos = start;
                let error = err!(Parse, "expected a number within i64 or f64, got `{text}`");
                Err(Problem { at: start, error })
            }
        }
    }

    /// Reads an integer.
    pub(super) fn integer(&mut self) -> Parsed<i64> {
        let at = {
            self.skip();
            self.pos
        };
        match self.here() {
            b'-' | b'0'..=b'9' => match self.number()? {
                Number::Int(n) => Ok(n),
                Number::Float(_) => {
                    Err(Problem { at, error: err!(Parse, "expected an integer, got a float") })
                }
            },
            _ => Err(self.expected("an integer")),
        }
    }

    /// Says that something else was expected here.
    pub(super) fn expected(&mut self, what: &str) -> Problem {
        self.skip();
        Problem { at: self.pos, error: err!(Parse, "expected {what}, got {}", self.token()) }
    }

    /// Returns the token here, for messages.
    fn token(&self) -> String {
        let mut next = *self;
        let first = match self.text[self.pos..].chars().next() {
            None => return "the end of the text".to_owned(),
            Some('\n') => return "the end of the line".to_owned(),
            Some(c) => c,
        };
        let length = match first {
            '%' | '@' => {
                next.pos += 1;
                1 + next.segment().len()
            }
            '"' => next.string().map_or(1, |_| next.pos - self.pos),
            c if c == '_' || c.is_ascii_alphanumeric() => next.segment().len(),
            c => c.len_utf8(),
        };
        format!("`{}`", cut(&self.text[self.pos..self.pos + length], 30))
    }
}

fn cut(text: &str, max: usize) -> String {
    match text.len() <= max {
        true => text.to_owned(),
        false => format!("{}..", &text[..text.floor_char_boundary(max)]),
    }
}
