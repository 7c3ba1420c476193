//! Symbolic sizes as archives write them: the text of sympy expressions,
//! `Add(Symbol('s0', integer=True), Integer(1))` or `s0 + 1`, read into [`Dim`]s.
//!
//! A condition becomes a size that is 1 where it holds and 0 elsewhere, so that one arithmetic serves both.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::schema::{RangeConstraint, Table};
use crate::{Dim, Result, Symbol, bail, err};

/// How deep an expression may be nested.
const MAX_DEPTH: usize = 64;
/// How long an expression may be.
const MAX_LEN: usize = 1 << 16;
/// How many bits a float may have after the point to be a fraction.
const MAX_FRACTION_BITS: u32 = 20;
/// The greatest exponent of a power.
const MAX_POWER: i64 = 16;

/// The least size that PyTorch assumes of a dynamic axis and does not check.
const ASSUMED: i64 = 2;

/// The symbols of a program with their ranges.
#[derive(Clone, Default)]
pub struct Symbols {
    ranges: BTreeMap<String, (i64, Option<i64>)>,
    /// Numbers that are computed in floats and rounded, each a symbol of its own.
    rounded: RefCell<Vec<Rounded>>,
}

/// A float that is rounded to an integer.
#[derive(Clone)]
pub(super) struct Rounded {
    /// The symbol that stands for the integer.
    symbol: String,
    /// The row that rounds, such as `trunc`.
    pub(super) row: &'static str,
    /// What is rounded.
    pub(super) float: Expr,
}

impl Symbols {
    /// Makes symbols with these ranges, both ends included.
    pub fn of(ranges: BTreeMap<String, (i64, Option<i64>)>) -> Symbols {
        Symbols { ranges, rounded: RefCell::default() }
    }

    pub(super) fn new(ranges: &Table<RangeConstraint>) -> Result<Symbols> {
        let mut found = BTreeMap::new();
        for (name, range) in ranges.iter() {
            let (min, max) = (range.min_val.unwrap_or(i64::MIN), range.max_val);
            if max.is_some_and(|max| max < min) {
                bail!(Load, "the range of the symbol {name:?} is empty: {min}..={}", max.unwrap_or(min));
            }
            found.insert(name.clone(), (min, max));
        }
        Ok(Symbols::of(found))
    }

    /// Returns the symbols that are taken for 2 or more without a check.
    pub(super) fn assumed(&self) -> Vec<String> {
        let assumed = self
            .ranges
            .iter()
            .filter(|(_, (min, max))| *min == ASSUMED && max.is_none_or(|max| max > ASSUMED));
        assumed.map(|(name, _)| name.clone()).collect()
    }

    /// Lets symbols be any size.
    pub(super) fn relax(&mut self, names: &[String]) {
        for name in names {
            if let Some((min, _)) = self.ranges.get_mut(name) {
                *min = 0;
            }
        }
    }

    /// Returns how a symbol is computed that stands for a rounded float.
    pub(super) fn rounding(&self, name: &str) -> Option<Rounded> {
        self.rounded.borrow().iter().find(|rounded| rounded.symbol == name).cloned()
    }

    /// Returns the symbol that stands for a float that is rounded.
    fn symbol_of(&self, row: &'static str, float: &Expr) -> Dim {
        let mut rounded = self.rounded.borrow_mut();
        let found = rounded.iter().find(|other| other.row == row && other.float == *float);
        let name = match found {
            Some(found) => found.symbol.clone(),
            None => {
                let free = |name: &String| !self.ranges.contains_key(name);
                let names = (rounded.len()..).map(|i| format!("{row}{i}"));
                let name = { names }.find(free).expect("there are fewer symbols than names");
                rounded.push(Rounded { symbol: name.clone(), row, float: float.clone() });
                name
            }
        };
        let min = if float.is_negative() { i64::MIN } else { 0 };
        Dim::symbol(Symbol::with_range(name, min, None))
    }

    /// Returns the symbol of this name; without a range it is a size.
    pub(super) fn get(&self, name: &str) -> Dim {
        let (min, max) = self.ranges.get(name).copied().unwrap_or((0, None));
        Dim::symbol(Symbol::with_range(name, min, max))
    }

    /// Returns whether a program's symbol has this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.ranges.contains_key(name)
    }

    /// Reads an expression over integers. Fails if it is none that sizes can be.
    pub fn dim(&self, text: &str) -> Result<Dim> {
        let dim =
            self.value(&parse(text)?).map_err(|error| err!(Parse, "{}, in {text:?}", error.message()))?;
        match dim.error() {
            Some(error) => Err(err!(Parse, "{}, in {text:?}", error.message())),
            None => Ok(dim),
        }
    }

    /// Returns the size that an expression is.
    pub(super) fn value(&self, expr: &Expr) -> Result<Dim> {
        let (name, args) = match expr {
            Expr::Int(n) => return Ok(Dim::new(*n)),
            Expr::Float(x) => bail!(Parse, "expected an integer, got {x}"),
            Expr::Symbol(name) => return Ok(self.get(name)),
            Expr::Call(name, args) => (name.as_str(), args),
        };
        if let [inner] = args.as_slice()
            && let Some(row) = rounding_row(name)
        {
            return match (self.fraction(inner), name) {
                (Ok((above, 1)), _) => Ok(above),
                (Ok((above, below)), "TruncToInt" | "FloorToInt" | "CeilToInt") => {
                    Ok(round(name, above, below))
                }
                // Python rounds floats, which are not always the fractions.
                _ => Ok(self.symbol_of(row, inner)),
            };
        }
        let args = args.iter().map(|arg| self.value(arg)).collect::<Result<Vec<Dim>>>()?;
        let (zero, one) = (Dim::new(0), Dim::new(1));
        let not = |x: Dim| &one - &x;
        let fold = |f: &dyn Fn(&Dim, &Dim) -> Dim| -> Result<Dim> {
            let (first, rest) = args.split_first().ok_or_else(|| err!(Parse, "{name} without arguments"))?;
            Ok(rest.iter().fold(first.clone(), |a, b| f(&a, b)))
        };
        // 1 if a <= b.
        let le = |a: &Dim, b: &Dim| (b - a + Dim::new(1)).max(&zero).min(&one);
        let pair = || match args.as_slice() {
            [a, b] => Ok((a, b)),
            _ => Err(err!(Parse, "expected 2 arguments of {name}, got {}", args.len())),
        };
        Ok(match name {
            "Add" => return fold(&|a, b| a + b),
            "Mul" => return fold(&|a, b| a * b),
            "Max" => return fold(&Dim::max),
            "Min" => return fold(&Dim::min),
            "And" => return fold(&Dim::min),
            "Or" => return fold(&Dim::max),
            "FloorDiv" | "CleanDiv" | "IntDiv" => pair().map(|(a, b)| a.floor_div(b))?,
            "CeilDiv" => pair().map(|(a, b)| a.ceil_div(b))?,
            "Mod" | "PythonMod" | "ModularIndexing2" => pair().map(|(a, b)| a.modulo(b))?,
            "ModularIndexing" => match args.as_slice() {
                [a, b, c] => a.floor_div(b).modulo(c),
                _ => bail!(Parse, "expected 3 arguments of ModularIndexing, got {}", args.len()),
            },
            "Pow" | "PowByNatural" => {
                let (base, exponent) = pair()?;
                match exponent.known() {
                    Some(n) if (0..=MAX_POWER).contains(&n) => {
                        (0..n).fold(one.clone(), |power, _| &power * base)
                    }
                    _ => bail!(Parse, "expected an exponent of 0 to {MAX_POWER}, got {exponent}"),
                }
            }
            "Abs" => fold(&|a, _| a.clone()).map(|a| a.max(&(&zero - &a)))?,
            "Integer" | "ToFloat" | "Identity" if args.len() == 1 => args[0].clone(),
            "Equality" | "Eq" => pair().map(|(a, b)| le(a, b).min(&le(b, a)))?,
            "Unequality" | "Ne" => not(pair().map(|(a, b)| le(a, b).min(&le(b, a)))?),
            "LessThan" | "Le" => pair().map(|(a, b)| le(a, b))?,
            "GreaterThan" | "Ge" => pair().map(|(a, b)| le(b, a))?,
            "StrictLessThan" | "Lt" => not(pair().map(|(a, b)| le(b, a))?),
            "StrictGreaterThan" | "Gt" => not(pair().map(|(a, b)| le(a, b))?),
            "Not" if args.len() == 1 => not(args[0].clone()),
            "Where" | "ITE" if args.len() == 3 => &args[2] + &args[0] * (&args[1] - &args[2]),
            _ => bail!(Parse, "unknown function {name:?} of {} arguments", args.len()),
        })
    }
}

impl Symbols {
    /// Returns an expression as a fraction with a denominator that is a number.
    fn fraction(&self, expr: &Expr) -> Result<(Dim, i64)> {
        let (name, args) = match expr {
            Expr::Float(x) => {
                // Floats that people write as scales, such as 1.5, have a small power of 2 below.
                let scaled = (0..=MAX_FRACTION_BITS).map(|bits| (x * f64::from(1u32 << bits), 1i64 << bits));
                let whole = |(above, _): &(f64, i64)| above.fract() == 0.0 && above.abs() < 1e12;
                let (above, below) = { scaled }
                    .find(whole)
                    .ok_or_else(|| err!(Parse, "expected a fraction of integers, got {x}"))?;
                return Ok((Dim::new(above as i64), below));
            }
            Expr::Call(name, args) => (name.as_str(), args.as_slice()),
            other => return Ok((self.value(other)?, 1)),
        };
        let limit = |below: Option<i64>| {
            below
                .filter(|below| *below <= 1 << 30)
                .ok_or_else(|| err!(Parse, "a fraction with too great a denominator"))
        };
        match (name, args) {
            ("Mul", [first, rest @ ..]) => rest.iter().try_fold(self.fraction(first)?, |(a, b), factor| {
                let (above, below) = self.fraction(factor)?;
                Ok((a * above, limit(b.checked_mul(below))?))
            }),
            ("Add", [first, rest @ ..]) => rest.iter().try_fold(self.fraction(first)?, |(a, b), term| {
                let (above, below) = self.fraction(term)?;
                let both = limit(b.checked_mul(below))?;
                Ok((a * Dim::new(below) + above * Dim::new(b), both))
            }),
            ("IntTrueDiv" | "FloatTrueDiv", [a, b]) => {
                let ((above, below), (divisor, by)) = (self.fraction(a)?, self.fraction(b)?);
                match divisor.known() {
                    Some(n) if n > 0 => Ok((above * Dim::new(by), limit(below.checked_mul(n))?)),
                    _ => bail!(Parse, "expected a known divisor, got {divisor}"),
                }
            }
            ("ToFloat" | "Identity", [inner]) => self.fraction(inner),
            _ => Ok((self.value(expr)?, 1)),
        }
    }
}

/// Returns the row that rounds as a function of expressions does.
fn rounding_row(name: &str) -> Option<&'static str> {
    Some(match name {
        "TruncToInt" => "trunc",
        "FloorToInt" => "floor",
        "CeilToInt" => "ceil",
        "RoundToInt" => "round",
        _ => return None,
    })
}

/// Rounds a fraction of sizes, such as half a size, to an integer.
fn round(name: &str, above: Dim, below: i64) -> Dim {
    let below = Dim::new(below);
    let (floor, ceil) = (above.floor_div(&below), above.ceil_div(&below));
    match name {
        "CeilToInt" => ceil,
        "FloorToInt" => floor,
        _ if above.less(&Dim::new(0)).is_no() => floor,
        // Towards zero.
        _ => floor.max(&Dim::new(0)) + ceil.min(&Dim::new(0)),
    }
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    /// An integer; true is 1.
    Int(i64),
    /// A float.
    Float(f64),
    /// A symbol.
    Symbol(String),
    /// A function, by the last part of its name.
    Call(String, Vec<Expr>),
}

impl Expr {
    /// Returns whether an expression of sizes may be below zero.
    fn is_negative(&self) -> bool {
        match self {
            Expr::Int(n) => *n < 0,
            Expr::Float(x) => *x < 0.0,
            Expr::Symbol(_) => false,
            Expr::Call(name, args) => {
                let is_monotonic = matches!(
                    name.as_str(),
                    "Add"
                        | "Mul"
                        | "IntTrueDiv"
                        | "FloatTrueDiv"
                        | "ToFloat"
                        | "Max"
                        | "Min"
                        | "FloorDiv"
                        | "Integer"
                ) || rounding_row(name).is_some();
                let is_root = matches!(name.as_str(), "Pow" | "FloatPow" | "OpaqueUnaryFn_sqrt" | "sqrt");
                !(is_monotonic || is_root) || args.iter().any(Expr::is_negative)
            }
        }
    }
}

/// Reads the text of an expression.
pub(super) fn parse(text: &str) -> Result<Expr> {
    if text.len() > MAX_LEN {
        bail!(Limit, "a symbolic expression of {} bytes, expected at most {MAX_LEN}", text.len());
    }
    let mut parser = Parser { text, at: 0, depth: 0 };
    let expr = parser.comparison().map_err(|error| {
        err!(Parse, "{} at byte {} of the expression {:?}", error.message(), parser.at, shorten(text))
    })?;
    parser.skip_space();
    if parser.at != text.len() {
        bail!(Parse, "unexpected text at byte {} of the expression {:?}", parser.at, shorten(text));
    }
    Ok(expr)
}

fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(200)]
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { bail!(Parse, "expected {token:?}") }
    }

    fn comparison(&mut self) -> Result<Expr> {
        let left = self.sum()?;
        for (token, name) in
            [("==", "Eq"), ("!=", "Ne"), ("<=", "Le"), (">=", "Ge"), ("<", "Lt"), (">", "Gt")]
        {
            if self.eat(token) {
                let right = self.sum()?;
                return Ok(Expr::Call(name.to_owned(), vec![left, right]));
            }
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut left = self.product()?;
        loop {
            if self.eat("+") {
                left = Expr::Call("Add".to_owned(), vec![left, self.product()?]);
            } else if self.eat("-") {
                left = Expr::Call("Add".to_owned(), vec![left, negated(self.product()?)]);
            } else {
                return Ok(left);
            }
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.unary()?;
        loop {
            self.skip_space();
            let name = if self.rest().starts_with("**") {
                return Ok(left);
            } else if self.eat("//") {
                "FloorDiv"
            } else if self.eat("*") {
                "Mul"
            } else if self.eat("%") {
                "Mod"
            } else if self.eat("/") {
                "IntTrueDiv"
            } else {
                return Ok(left);
            };
            left = Expr::Call(name.to_owned(), vec![left, self.unary()?]);
        }
    }

    fn unary(&mut self) -> Result<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            bail!(Limit, "nested deeper than {MAX_DEPTH} levels");
        }
        let expr = if self.eat("-") { negated(self.unary()?) } else { self.power()? };
        self.depth -= 1;
        Ok(expr)
    }

    fn power(&mut self) -> Result<Expr> {
        let base = self.atom()?;
        if self.eat("**") {
            return Ok(Expr::Call("Pow".to_owned(), vec![base, self.unary()?]));
        }
        Ok(base)
    }

    fn atom(&mut self) -> Result<Expr> {
        if self.eat("(") {
            let expr = self.comparison()?;
            self.expect(")")?;
            return Ok(expr);
        }
        self.skip_space();
        let word_len = |rest: &str| {
            rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).count()
        };
        let n = word_len(self.rest());
        let word = self.rest()[..n].to_owned();
        self.at += n;
        match word.as_bytes().first() {
            None => bail!(Parse, "expected a number, symbol or function"),
            Some(b'0'..=b'9') => match word.parse::<i64>() {
                Ok(n) => Ok(Expr::Int(n)),
                Err(_) => match word.parse::<f64>() {
                    Ok(x) if word.contains('.') => Ok(Expr::Float(x)),
                    _ => bail!(Parse, "{word:?} is no number that fx has"),
                },
            },
            Some(_) if self.eat("(") => self.call(word.rsplit('.').next().unwrap_or_default()),
            Some(_) => Ok(match word.as_str() {
                "true" | "True" => Expr::Int(1),
                "false" | "False" => Expr::Int(0),
                "oo" | "int_oo" => Expr::Float(f64::INFINITY),
                _ => Expr::Symbol(word),
            }),
        }
    }

    /// Reads the arguments of a function whose parenthesis is open.
    fn call(&mut self, name: &str) -> Result<Expr> {
        match name {
            "Symbol" | "Dummy" => {
                let name = self.quoted()?;
                while self.eat(",") {
                    // Assumptions, `positive=True`.
                    self.skip_space();
                    let n = self.rest().find([',', ')']).ok_or_else(|| err!(Parse, "expected \")\""))?;
                    self.at += n;
                }
                self.expect(")")?;
                return Ok(Expr::Symbol(name));
            }
            "Float" => {
                let text = self.quoted()?;
                while self.eat(",") {
                    let n = self.rest().find([',', ')']).ok_or_else(|| err!(Parse, "expected \")\""))?;
                    self.at += n;
                }
                self.expect(")")?;
                return text.parse().map(Expr::Float).map_err(|_| err!(Parse, "{text:?} is no number"));
            }
            _ => {}
        }
        let mut args = Vec::new();
        if !self.eat(")") {
            loop {
                args.push(self.comparison()?);
                if self.eat(")") {
                    break;
                }
                self.expect(",")?;
                if self.eat("evaluate=False") {
                    self.expect(")")?;
                    break;
                }
            }
        }
        Ok(match (name, args.as_slice()) {
            ("Integer", [Expr::Int(n)]) => Expr::Int(*n),
            ("Rational", [Expr::Int(a), Expr::Int(b)]) if *b != 0 => Expr::Float(*a as f64 / *b as f64),
            _ => Expr::Call(name.to_owned(), args),
        })
    }

    fn quoted(&mut self) -> Result<String> {
        self.skip_space();
        let quote = match self.rest().chars().next() {
            Some(quote @ ('\'' | '"')) => quote,
            _ => bail!(Parse, "expected a quoted name"),
        };
        self.at += 1;
        let n = self.rest().find(quote).ok_or_else(|| err!(Parse, "expected a closing {quote}"))?;
        let text = self.rest()[..n].to_owned();
        self.at += n + 1;
        Ok(text)
    }
}

fn negated(expr: Expr) -> Expr {
    match expr {
        Expr::Int(n) => n.checked_neg().map_or(Expr::Float(-(n as f64)), Expr::Int),
        Expr::Float(x) => Expr::Float(-x),
        expr => Expr::Call("Mul".to_owned(), vec![Expr::Int(-1), expr]),
    }
}
