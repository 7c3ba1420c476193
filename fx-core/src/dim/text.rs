//! The text of sizes: `2*b + (n - 1)//4`, `max(a, b) % 8`, `%item*2`.
//!
//! What [`Dim`] prints parses back to an equal `Dim`, given the same symbols. From text alone, symbols have the
//! range of a size, and node symbols the owner [`Symbol::UNKNOWN_OWNER`].

use std::fmt;
use std::str::FromStr;

use super::polynomial::{Atom, Function, Term, add, multiply, negate, subtract};
use super::{Dim, Repr, Symbol};
use crate::{Error, Result, bail, err};

/// The greatest depth of parentheses that is read; more than any `Dim` prints.
const MAX_NESTING: usize = 100;

/// Returns whether a symbol may have this name.
pub(super) fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

impl FromStr for Dim {
    type Err = Error;

    fn from_str(text: &str) -> Result<Dim> {
        parse(text, &|name, is_node| match is_node {
            true => Symbol::of_node(name, Symbol::UNKNOWN_OWNER),
            false => Symbol::new(name),
        })
    }
}

pub(super) fn parse(text: &str, symbol: &dyn Fn(&str, bool) -> Symbol) -> Result<Dim> {
    let mut parser = Parser { text, position: 0, nesting: 0, symbol };
    let dim = parser.sum()?;
    match parser.peek() {
        None => Ok(dim),
        Some(_) => Err(parser.expected("an operator or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    nesting: usize,
    symbol: &'a dyn Fn(&str, bool) -> Symbol,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.position..];
        self.position += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.position).copied()
    }

    fn accept(&mut self, token: &str) -> bool {
        self.peek();
        let found = self.text.as_bytes()[self.position..].starts_with(token.as_bytes());
        self.position += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.accept(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> &'a str {
        let start = self.position;
        self.position += self.text.as_bytes()[start..].iter().take_while(|byte| accept(**byte)).count();
        &self.text[start..self.position]
    }

    fn expected(&mut self, what: &str) -> Error {
        let got = match self.peek() {
            Some(_) => format!("`{}`", self.text[self.position..].chars().take(12).collect::<String>()),
            None => "the end".to_owned(),
        };
        err!(Parse, "expected {what} in a size, got {got} at column {}", self.position + 1)
    }

    fn sum(&mut self) -> Result<Dim> {
        let mut sum = self.product()?;
        loop {
            sum = match self.peek() {
                Some(b'+') => {
                    self.position += 1;
                    add(&sum, &self.product()?)
                }
                Some(b'-') => {
                    self.position += 1;
                    subtract(&sum, &self.product()?)
                }
                _ => return Ok(sum),
            };
            sum.parts()?;
        }
    }

    fn product(&mut self) -> Result<Dim> {
        let mut product = self.factor()?;
        loop {
            product = match self.peek() {
                Some(b'*') => {
                    self.position += 1;
                    multiply(&product, &self.factor()?)
                }
                Some(b'/') => {
                    self.position += 1;
                    if self.text.as_bytes().get(self.position) == Some(&b'/') {
                        self.position += 1;
                    }
                    product.floor_div(&self.factor()?)
                }
                Some(b'%') => {
                    self.position += 1;
                    product.modulo(&self.factor()?)
                }
                _ => return Ok(product),
            };
            product.parts()?;
        }
    }

    fn factor(&mut self) -> Result<Dim> {
        let mut negative = false;
        while self.accept("-") {
            negative = !negative;
        }
        let dim = match self.peek() {
            Some(b'0'..=b'9') => return self.number(negative),
            Some(b'(') => self.group(1)?.remove(0),
            Some(b'%') => {
                self.position += 1;
                match self.take_while(is_name_byte) {
                    name if is_identifier(name) => Dim::symbol((self.symbol)(name, true)),
                    _ => return Err(self.expected("the name of a node")),
                }
            }
            Some(b'_' | b'a'..=b'z' | b'A'..=b'Z') => {
                let start = self.position;
                let name = self.take_while(is_name_byte);
                if self.peek() == Some(b'(') {
                    let function = match name {
                        "min" => Function::Min,
                        "max" => Function::Max,
                        _ => {
                            self.position = start;
                            return Err(self.expected("the function `min` or `max`"));
                        }
                    };
                    let operands = self.group(2)?;
                    Dim::call(function, &operands[0], &operands[1])
                } else {
                    Dim::symbol((self.symbol)(name, false))
                }
            }
            _ => return Err(self.expected("a number, a name or `(`")),
        };
        let dim = if negative { negate(&dim) } else { dim };
        dim.parts()?;
        Ok(dim)
    }

    /// Reads `count` sums in parentheses.
    fn group(&mut self, count: usize) -> Result<Vec<Dim>> {
        self.expect("(")?;
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            bail!(Limit, "a size is nested deeper than {MAX_NESTING} parentheses");
        }
        let mut sums = vec![self.sum()?];
        while sums.len() < count {
            self.expect(",")?;
            sums.push(self.sum()?);
        }
        self.expect(")")?;
        self.nesting -= 1;
        Ok(sums)
    }

    fn number(&mut self, negative: bool) -> Result<Dim> {
        let start = self.position;
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if self.text.as_bytes().get(self.position).is_some_and(|byte| is_name_byte(*byte)) {
            self.position = start;
            return Err(self.expected("a number"));
        }
        let sign = if negative { -1 } else { 1 };
        digits.parse::<i128>().ok().and_then(|n| i64::try_from(sign * n).ok()).map(Dim::new).ok_or_else(
            || {
                self.position = start;
                self.expected("a number that fits in i64")
            },
        )
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.owner() == 0 { "" } else { "%" })?;
        f.write_str(self.name())
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} in {}", self.range())
    }
}

impl Symbol {
    /// Returns the range as text, such as `1..=64` or `0..`.
    pub(crate) fn range(&self) -> String {
        let min = if self.min() == i64::MIN { String::new() } else { self.min().to_string() };
        let max = self.max().map_or(String::new(), |max| format!("={max}"));
        format!("{min}..{max}")
    }
}

/// Prints text that parses back to an equal size, or `<the message of the error>`.
impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expr = match &self.0 {
            Repr::Observed(_) => return fmt::Display::fmt(self.plain(), f),
            Repr::Const(n) => return write!(f, "{n}"),
            Repr::Failed(error) => return write!(f, "<{}>", error.message()),
            Repr::Expr(expr) => expr,
        };
        // A number goes first if it saves a leading minus: `5 - n`.
        let number_first = expr.constant > 0 && expr.terms[0].coefficient < 0;
        if number_first {
            write!(f, "{}", expr.constant)?;
        }
        for (index, term) in expr.terms.iter().enumerate() {
            let leading = index == 0 && !number_first;
            f.write_str(match (leading, term.coefficient < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            })?;
            write_term(f, term, leading && term.coefficient < 0)?;
        }
        match expr.constant {
            constant if constant > 0 && !number_first => write!(f, " + {constant}"),
            constant if constant < 0 => write!(f, " - {}", constant.unsigned_abs()),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes a term without its sign.
fn write_term(f: &mut fmt::Formatter<'_>, term: &Term, after_minus: bool) -> fmt::Result {
    let coefficient = term.coefficient.unsigned_abs();
    let factors = &term.monomial.0;
    let alone = coefficient == 1 && factors.len() == 1 && factors[0].1 == 1 && !after_minus;
    let mut separator = "";
    if coefficient != 1 {
        write!(f, "{coefficient}")?;
        separator = "*";
    }
    for (atom, power) in factors {
        for _ in 0..*power {
            f.write_str(separator)?;
            write_atom(f, atom, alone)?;
            separator = "*";
        }
    }
    Ok(())
}

fn write_atom(f: &mut fmt::Formatter<'_>, atom: &Atom, alone: bool) -> fmt::Result {
    let call = match atom {
        Atom::Symbol(symbol) => return write!(f, "{symbol}"),
        Atom::Call(call) => call,
    };
    let operator = match call.function {
        Function::Min => return write!(f, "min({}, {})", call.left, call.right),
        Function::Max => return write!(f, "max({}, {})", call.left, call.right),
        Function::FloorDiv => "//",
        Function::Mod => " % ",
    };
    f.write_str(if alone { "" } else { "(" })?;
    write_operand(f, &call.left)?;
    f.write_str(operator)?;
    write_operand(f, &call.right)?;
    f.write_str(if alone { "" } else { ")" })
}

fn write_operand(f: &mut fmt::Formatter<'_>, operand: &Dim) -> fmt::Result {
    let plain = match (operand.known(), operand.as_atom()) {
        (Some(n), _) => n >= 0,
        (None, Some(Atom::Symbol(_))) => true,
        (None, Some(Atom::Call(call))) => matches!(call.function, Function::Min | Function::Max),
        (None, None) => false,
    };
    if plain { write!(f, "{operand}") } else { write!(f, "({operand})") }
}
