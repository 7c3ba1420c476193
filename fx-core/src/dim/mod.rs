//! Symbolic sizes: a [`Dim`] is a number, an integer expression over named [`Symbol`]s, or an error.
//!
//! Invariant: an expression is always in canonical form (`polynomial`), so that structural equality
//! proves equality. Simplification is exact over the integers: wherever an expression as it was written has
//! a value, for values of its symbols in their ranges, its canonical form has the same value. It may have a
//! value where the written one divides by zero (`0*(a//b)` is `0`), but the rules of division do not cancel a
//! divisor that may be zero: `a//a` is `1` only for a symbol whose range excludes zero.
//!
//! `divide` holds the rules of `//` and `%`, `extremum` those of `min` and `max`, `interval` and `compare` prove
//! inequalities, `text` reads and prints, `operators` and `order` are the Rust operators, `observed`
//! are sizes with a value at hand.

mod compare;
mod divide;
mod extremum;
mod interval;
pub(crate) mod observed;
mod operators;
mod order;
mod polynomial;
mod text;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{Error, Result, SourceLoc, bail, err};
use interval::Interval;
use polynomial::{Atom, Expr, Function};

/// A tensor size: a number, an expression over named symbols, or a recorded error. Cheap to clone.
///
/// Equality and hashing are those of the canonical form: `2*b + b == 3*b`. The range of a symbol takes no part.
/// An invalid operation (a constant divided by zero, an overflow, an expression beyond the limits) gives a
/// `Dim` that carries the error, which flows through everything computed from it.
#[derive(Clone)]
pub struct Dim(Repr);

#[derive(Clone)]
enum Repr {
    Const(i64),
    Expr(Arc<Expr>),
    Failed(Error),
    /// Only in the hands of Rust code while it is recorded with examples.
    Observed(Arc<observed::Observed>),
}

/// One step of an expression; see [`Dim::fold`].
#[derive(Debug)]
pub enum Step<'a, T> {
    /// A number.
    Const(i64),
    /// A symbol.
    Symbol(&'a Symbol),
    /// A sum.
    Add(T, T),
    /// A product.
    Mul(T, T),
    /// A quotient, rounded down.
    FloorDiv(T, T),
    /// The remainder that belongs to `FloorDiv`.
    Mod(T, T),
    /// The lesser.
    Min(T, T),
    /// The greater.
    Max(T, T),
}

/// A named unknown with an inclusive range of values.
///
/// Two symbols are the same if name and owner are equal; give a symbol one range wherever it occurs, since
/// simplification relies on it.
#[derive(Clone)]
pub struct Symbol(Arc<SymbolData>);

struct SymbolData {
    name: Arc<str>,
    min: i64,
    max: Option<i64>,
    owner: u64,
}

/// The answer to a question about symbolic sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It holds for all values of the symbols.
    Yes,
    /// It holds for no values of the symbols.
    No,
    /// It depends on the values, or it could not be proven.
    Unknown,
}

impl Truth {
    /// Returns whether the answer is [`Truth::Yes`].
    pub fn is_yes(self) -> bool {
        self == Truth::Yes
    }

    /// Returns whether the answer is [`Truth::No`].
    pub fn is_no(self) -> bool {
        self == Truth::No
    }
}

impl Symbol {
    /// The owner of a node symbol that was read from text by [`Dim::from_str`](std::str::FromStr), which
    /// names none.
    pub const UNKNOWN_OWNER: u64 = u64::MAX;
    const FRESH_OWNER: u64 = u64::MAX - 1;

    /// Makes a symbol of a signature with the range of a size: zero and above.
    pub fn new(name: impl Into<Arc<str>>) -> Symbol {
        Symbol::with_range(name, 0, None)
    }

    /// Makes a symbol of a signature with an inclusive range.
    pub fn with_range(name: impl Into<Arc<str>>, min: i64, max: Option<i64>) -> Symbol {
        Symbol(Arc::new(SymbolData { name: name.into(), min, max, owner: 0 }))
    }

    /// Makes a symbol that stands for the value of the node `name` of the trace `owner`, zero or above.
    pub fn of_node(name: impl Into<Arc<str>>, owner: u64) -> Symbol {
        Symbol(Arc::new(SymbolData { name: name.into(), min: 0, max: None, owner }))
    }

    /// Makes a symbol for a size that depends on data, numbered by the shape rule that returns it.
    ///
    /// It exists only between the rule and its caller, which gives it a name that is free in the graph.
    pub fn fresh(number: u32) -> Symbol {
        Symbol::of_node(format!("u{number}"), Symbol::FRESH_OWNER)
    }

    /// Returns whether this was made by [`fresh`](Symbol::fresh) and has no name in a graph yet.
    pub fn is_fresh(&self) -> bool {
        self.0.owner == Symbol::FRESH_OWNER
    }

    /// Returns the same symbol with another inclusive range.
    #[must_use]
    pub fn ranged(&self, min: i64, max: Option<i64>) -> Symbol {
        Symbol(Arc::new(SymbolData { name: self.0.name.clone(), min, max, owner: self.0.owner }))
    }

    /// Returns the name, without the `%` of a node symbol.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the least value; `i64::MIN` if there is none.
    pub fn min(&self) -> i64 {
        self.0.min
    }

    /// Returns the greatest value, if there is one.
    pub fn max(&self) -> Option<i64> {
        self.0.max
    }

    /// Returns the trace whose node the name refers to, or 0 for a symbol of a signature.
    pub fn owner(&self) -> u64 {
        self.0.owner
    }

    fn key(&self) -> (&str, u64) {
        (&self.0.name, self.0.owner)
    }
}

impl PartialEq for Symbol {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.key() == other.key()
    }
}
impl Eq for Symbol {}
impl Hash for Symbol {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
impl Dim {
    /// Makes a known size.
    pub const fn new(n: i64) -> Dim {
        Dim(Repr::Const(n))
    }

    /// Makes the size that a symbol stands for; an error if the name is not an identifier or the range is empty.
    pub fn symbol(symbol: Symbol) -> Dim {
        if !text::is_identifier(symbol.name()) {
            return Dim::failed(
                err!(Argument, "expected an identifier as the name of a symbol, got {:?}", symbol.name())
                    .help("a name consists of letters, digits and `_`, and does not begin with a digit"),
            );
        }
        if symbol.max().is_some_and(|max| max < symbol.min()) {
            return Dim::failed(err!(Argument, "a symbol has an empty range: {symbol:?}"));
        }
        if symbol.max() == Some(symbol.min()) {
            return Dim::new(symbol.min());
        }
        Dim::atom(Atom::Symbol(symbol))
    }

    /// Makes a size that carries an error.
    pub fn failed(error: Error) -> Dim {
        Dim(Repr::Failed(error))
    }

    /// Returns the error that this size carries.
    pub fn error(&self) -> Option<&Error> {
        match &self.0 {
            Repr::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the number, if it is known.
    ///
    /// While a function is recorded with examples, a symbolic size of an example gives its number. The
    /// recording notes the place, since the graph then holds for this number only.
    #[track_caller]
    pub fn known(&self) -> Option<i64> {
        match self.0 {
            Repr::Const(n) => Some(n),
            Repr::Observed(_) => self.use_number(SourceLoc::caller()),
            _ => None,
        }
    }

    /// Returns the number, if it is the same for all values of symbols.
    const fn constant(&self) -> Option<i64> {
        match self.0 {
            Repr::Const(n) => Some(n),
            _ => None,
        }
    }

    /// Returns whether the number is known for all values of symbols.
    pub const fn is_known(&self) -> bool {
        matches!(self.0, Repr::Const(_))
    }

    /// Returns whether this is the same expression in memory; equal ones need not be.
    pub(crate) fn is(&self, other: &Dim) -> bool {
        matches!((&self.plain().0, &other.plain().0), (Repr::Expr(a), Repr::Expr(b)) if Arc::ptr_eq(a, b))
    }

    /// Returns the symbol, if the size is exactly one symbol.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match self.as_atom()? {
            Atom::Symbol(symbol) => Some(symbol),
            Atom::Call(_) => None,
        }
    }

    /// Returns the distinct symbols in order of first appearance in the text.
    pub fn symbols(&self) -> Vec<Symbol> {
        let mut found = Vec::new();
        self.collect_symbols(&mut found);
        found
    }

    /// Adds the symbols that are not among `found` yet.
    pub(crate) fn collect_symbols(&self, found: &mut Vec<Symbol>) {
        let Repr::Expr(expr) = &self.plain().0 else { return };
        for (atom, _) in expr.terms.iter().flat_map(|term| &term.monomial.0) {
            match atom {
                Atom::Symbol(symbol) if !found.contains(symbol) => found.push(symbol.clone()),
                Atom::Symbol(_) => {}
                Atom::Call(call) => {
                    call.left.collect_symbols(found);
                    call.right.collect_symbols(found);
                }
            }
        }
    }

    /// Returns an inclusive lower and upper bound that follow from the ranges of the symbols.
    ///
    /// The lower bound is `i64::MIN` and the upper bound is `None` where nothing is known.
    pub fn bounds(&self) -> (i64, Option<i64>) {
        let Interval { low, high } = self.interval();
        (low.unwrap_or(i64::MIN), high)
    }

    /// Returns whether two sizes are equal for all values of their symbols.
    #[track_caller]
    pub fn same(&self, other: &Dim) -> Truth {
        let (text, at) = (|| self.shown("==", other), SourceLoc::caller());
        match observed::decide(self, other, &text, observed::Comparison::Same, at) {
            Truth::Unknown => observed::same(self, other),
            truth => truth,
        }
    }

    /// Returns whether this size is less than the other for all values of their symbols.
    #[track_caller]
    pub fn less(&self, other: &Dim) -> Truth {
        let (text, at) = (|| self.shown("<", other), SourceLoc::caller());
        match observed::decide(self, other, &text, observed::Comparison::Less, at) {
            Truth::Unknown => observed::less(self, other),
            truth => truth,
        }
    }

    /// Returns whether this size is less than or equal to the other for all values of their symbols.
    #[track_caller]
    pub fn less_equal(&self, other: &Dim) -> Truth {
        match other.less(self) {
            Truth::Yes => Truth::No,
            Truth::No => Truth::Yes,
            Truth::Unknown => Truth::Unknown,
        }
    }

    /// Computes the number from the values of the symbols.
    ///
    /// Fails for a symbol without a value, a division by zero, or a result that does not fit in `i64`.
    pub fn eval(&self, lookup: &dyn Fn(&Symbol) -> Option<i64>) -> Result<i64> {
        let value = self.eval_wide(lookup)?;
        i64::try_from(value).map_err(|_| err!(Shape, "size {self} overflows: its value is {value}"))
    }

    /// Computes in `i128`, so that the terms of a sum may cancel beyond the range of `i64`.
    fn eval_wide(&self, lookup: &dyn Fn(&Symbol) -> Option<i64>) -> Result<i128> {
        let expr = match &self.0 {
            Repr::Const(n) => return Ok(*n as i128),
            Repr::Expr(expr) => expr,
            Repr::Failed(error) => return Err(error.clone()),
            Repr::Observed(observed) => return observed.size.eval_wide(lookup),
        };
        let overflow = || err!(Shape, "size {self} overflows");
        let mut sum = expr.constant as i128;
        for term in &expr.terms {
            let mut product = term.coefficient as i128;
            for (atom, power) in &term.monomial.0 {
                let value = match atom {
                    Atom::Symbol(symbol) => match lookup(symbol) {
                        Some(value) => value as i128,
                        None => bail!(Unresolved, "symbol {symbol} has no value"),
                    },
                    Atom::Call(call) => {
                        let (left, right) = (call.left.eval_wide(lookup)?, call.right.eval_wide(lookup)?);
                        if right == 0 && matches!(call.function, Function::FloorDiv | Function::Mod) {
                            bail!(Shape, "division by zero: {} is 0 in {self}", call.right);
                        }
                        call.function.apply(left, right).ok_or_else(overflow)?
                    }
                };
                let power = value.checked_pow(*power).ok_or_else(overflow)?;
                product = product.checked_mul(power).ok_or_else(overflow)?;
            }
            sum = sum.checked_add(product).ok_or_else(overflow)?;
        }
        Ok(sum)
    }

    /// Replaces the symbols for which `replacement` gives a size, and simplifies.
    ///
    /// What replaces a symbol must lie in the symbol's range, since the expression may rely on it.
    pub fn substitute(&self, replacement: &dyn Fn(&Symbol) -> Option<Dim>) -> Dim {
        let Repr::Expr(expr) = &self.plain().0 else { return self.clone() };
        let mut sum = Dim::new(expr.constant);
        for term in &expr.terms {
            let mut product = Dim::new(term.coefficient);
            for (atom, power) in &term.monomial.0 {
                let value = match atom {
                    Atom::Symbol(symbol) => {
                        replacement(symbol).unwrap_or_else(|| Dim::atom(Atom::Symbol(symbol.clone())))
                    }
                    Atom::Call(call) => {
                        let (left, right) =
                            (call.left.substitute(replacement), call.right.substitute(replacement));
                        observed::lift(|left, right| Dim::call(call.function, left, right), &left, &right)
                    }
                };
                for _ in 0..*power {
                    product = observed::lift(polynomial::multiply, &product, &value);
                }
            }
            sum = observed::lift(polynomial::add, &sum, &product);
        }
        sum
    }

    /// Rebuilds the expression from its steps, innermost first; `step` gives what each becomes. Fails with
    /// the first error of `step`, or the error that the size carries.
    pub fn fold<T: Clone>(&self, step: &mut dyn FnMut(Step<'_, T>) -> Result<T>) -> Result<T> {
        let expr = match &self.0 {
            Repr::Const(n) => return step(Step::Const(*n)),
            Repr::Failed(error) => return Err(error.clone()),
            Repr::Observed(observed) => return observed.size.fold(step),
            Repr::Expr(expr) => expr,
        };
        let mut sum: Option<T> = None;
        for term in &expr.terms {
            let mut product: Option<T> = None;
            for (atom, power) in &term.monomial.0 {
                let value = match atom {
                    Atom::Symbol(symbol) => step(Step::Symbol(symbol))?,
                    Atom::Call(call) => {
                        let (left, right) = (call.left.fold(step)?, call.right.fold(step)?);
                        step(match call.function {
                            Function::FloorDiv => Step::FloorDiv(left, right),
                            Function::Mod => Step::Mod(left, right),
                            Function::Min => Step::Min(left, right),
                            Function::Max => Step::Max(left, right),
                        })?
                    }
                };
                for _ in 0..*power {
                    product = Some(match product {
                        Some(product) => step(Step::Mul(product, value.clone()))?,
                        None => value.clone(),
                    });
                }
            }
            let product = match (product, term.coefficient) {
                (Some(product), 1) => product,
                (Some(product), n) => {
                    let n = step(Step::Const(n))?;
                    step(Step::Mul(product, n))?
                }
                (None, n) => step(Step::Const(n))?,
            };
            sum = Some(match sum {
                Some(sum) => step(Step::Add(sum, product))?,
                None => product,
            });
        }
        match (sum, expr.constant) {
            (Some(sum), 0) => Ok(sum),
            (Some(sum), n) => {
                let n = step(Step::Const(n))?;
                step(Step::Add(sum, n))
            }
            (None, n) => step(Step::Const(n)),
        }
    }

    /// Solves `self == value` for the only symbol of an expression of the form `a*s + b`.
    ///
    /// Returns the symbol and its value, if there is an integral one; it may lie outside the symbol's range.
    pub fn solve(&self, value: i64) -> Option<(Symbol, i64)> {
        let (symbol, coefficient, constant) = self.linear()?;
        let rest = i128::from(value) - i128::from(constant);
        let coefficient = i128::from(coefficient);
        if rest % coefficient != 0 {
            return None;
        }
        Some((symbol.clone(), i64::try_from(rest / coefficient).ok()?))
    }

    /// Returns the symbol, factor and constant of an expression of the form `a*s + b`, whose value tells that
    /// of its symbol.
    pub(crate) fn linear(&self) -> Option<(&Symbol, i64, i64)> {
        let Repr::Expr(expr) = &self.plain().0 else { return None };
        let [term] = expr.terms.as_slice() else { return None };
        let [(Atom::Symbol(symbol), 1)] = term.monomial.0.as_slice() else { return None };
        Some((symbol, term.coefficient, expr.constant))
    }

    /// Divides, rounding towards minus infinity, as Python's `//`.
    pub fn floor_div(&self, divisor: &Dim) -> Dim {
        observed::lift(|a, b| divide::floor_div(a, b).unwrap_or_else(Dim::failed), self, divisor)
    }

    /// Divides, rounding towards plus infinity.
    pub fn ceil_div(&self, divisor: &Dim) -> Dim {
        observed::lift(|a, b| divide::ceil_div(a, b).unwrap_or_else(Dim::failed), self, divisor)
    }

    /// Returns the remainder of [`floor_div`](Dim::floor_div), which has the sign of the divisor, as Python's `%`.
    pub fn modulo(&self, divisor: &Dim) -> Dim {
        observed::lift(|a, b| divide::modulo(a, b).unwrap_or_else(Dim::failed), self, divisor)
    }

    /// Returns the lesser of two sizes.
    pub fn min(&self, other: &Dim) -> Dim {
        let min = |a: &Dim, b: &Dim| extremum::extremum(Function::Min, a, b).unwrap_or_else(Dim::failed);
        observed::lift(min, self, other)
    }

    /// Returns the greater of two sizes.
    pub fn max(&self, other: &Dim) -> Dim {
        let max = |a: &Dim, b: &Dim| extremum::extremum(Function::Max, a, b).unwrap_or_else(Dim::failed);
        observed::lift(max, self, other)
    }

    /// Reads text, with `symbol` to say which symbol a name is; its second argument is whether it began with
    /// `%`. Fails if the text is no size, or `symbol` fails.
    pub fn parse_with(text: &str, symbol: &dyn Fn(&str, bool) -> Symbol) -> Result<Dim> {
        text::parse(text, symbol)
    }

    /// Applies a function with all its simplifications.
    fn call(function: Function, left: &Dim, right: &Dim) -> Dim {
        match function {
            Function::FloorDiv => left.floor_div(right),
            Function::Mod => left.modulo(right),
            Function::Min => left.min(right),
            Function::Max => left.max(right),
        }
    }

    fn interval(&self) -> Interval {
        match &self.0 {
            Repr::Const(n) => Interval::point(*n),
            Repr::Expr(expr) => expr.interval,
            Repr::Failed(_) => Interval::ALL,
            Repr::Observed(observed) => observed.size.interval(),
        }
    }
}

impl PartialEq for Dim {
    #[track_caller]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Observed(_), _) | (_, Repr::Observed(_)) => {
                observed::equal(self, other, SourceLoc::caller())
            }
            (Repr::Const(a), Repr::Const(b)) => a == b,
            (Repr::Expr(a), Repr::Expr(b)) => Arc::ptr_eq(a, b) || a == b,
            (Repr::Failed(a), Repr::Failed(b)) => a.kind() == b.kind() && a.message() == b.message(),
            _ => false,
        }
    }
}
impl Eq for Dim {}
impl Hash for Dim {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let this = self.plain();
        std::mem::discriminant(&this.0).hash(state);
        match &this.0 {
            Repr::Const(n) => n.hash(state),
            Repr::Expr(expr) => expr.hash(state),
            Repr::Failed(error) => error.message().hash(state),
            Repr::Observed(_) => {}
        }
    }
}
