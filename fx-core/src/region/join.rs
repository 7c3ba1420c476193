//! The join of types: what is known of a value that one of two branches gives, or any of the rounds of a loop.
//!
//! Structure, dtypes and ranks must agree. Sizes that differ become a new symbol, one for each pair of sizes,
//! so that axes that are equal in both stay equal. Nothing beside a value is an optional value, and numbers of
//! one type are a number of that type.

use crate::{Arg, Dim, Error, Result, Symbol, Tensor, TensorType, Type, TypeTree, Value, err, fresh, trace};

/// Returns the type of a value that has one of two types, as the items of a list do. Fails if structure, dtypes
/// or ranks differ.
pub fn join_types(a: &TypeTree, b: &TypeTree) -> Result<TypeTree> {
    Join::of_branches(&[a.clone(), b.clone()]).join(a, b).map_err(|error| {
        err!(Structure, "expected values of one type, got {} and {}", error.first, error.second)
            .help(error.advice())
    })
}

/// How often the body of a loop is looked at until the types of the carried values are found.
const MAX_ROUNDS: usize = 3;

/// Two types that have no join.
pub(super) struct Mismatch {
    /// The items that lead to the types, innermost first.
    path: Vec<String>,
    pub(super) first: Box<TypeTree>,
    pub(super) second: Box<TypeTree>,
}

impl Mismatch {
    fn new(first: &TypeTree, second: &TypeTree) -> Mismatch {
        Mismatch { path: Vec::new(), first: Box::new(first.clone()), second: Box::new(second.clone()) }
    }

    fn within(mut self, item: impl ToString) -> Mismatch {
        self.path.push(item.to_string());
        self
    }

    /// Returns where the types are, such as `item 1 of the result`.
    pub(super) fn place(&self, whole: &str) -> String {
        let path: Vec<&str> = self.path.iter().rev().map(|item| &**item).collect();
        if path.is_empty() { whole.to_owned() } else { format!("item {} of {whole}", path.join(".")) }
    }

    /// Returns what differs, for advice.
    pub(super) fn advice(&self) -> &'static str {
        match (self.first.tensor(), self.second.tensor()) {
            (Some(a), Some(b)) if a.dtype != b.dtype => "convert one with `to`; sizes alone may differ",
            (Some(_), Some(_)) => "give both the same number of axes, by `unsqueeze`; sizes alone may differ",
            _ => "give both the same structure and dtypes; sizes alone may differ",
        }
    }
}

type Joined = std::result::Result<TypeTree, Mismatch>;

/// Hands out symbols that no operand has. Whoever infers the type of the call gives them names that are free
/// there.
#[derive(Default)]
pub(crate) struct Names {
    taken: Vec<Symbol>,
    next: u32,
    in_trace: bool,
    /// What names begin with instead of `joined`.
    prefix: Option<String>,
}

impl Names {
    /// Avoids the symbols of the operands.
    pub(super) fn avoiding(operands: &[TypeTree]) -> Names {
        Names { taken: operands.iter().flat_map(fresh::symbols).collect(), ..Names::default() }
    }

    /// As [`avoiding`](Self::avoiding), for symbols that stay in the graphs that are traced now.
    pub(super) fn in_trace(operands: &[TypeTree]) -> Names {
        Names { in_trace: true, ..Names::avoiding(operands) }
    }

    pub(super) fn next(&mut self) -> Symbol {
        if let (true, Some(name)) = (self.in_trace, trace::free_size_name()) {
            return Symbol::new(name);
        }
        loop {
            let prefix = self.prefix.as_deref().unwrap_or("joined");
            let symbol = Symbol::new(format!("{prefix}{}", self.next));
            self.next += 1;
            if !self.taken.contains(&symbol) {
                return symbol;
            }
        }
    }
}

/// Joins types, and knows which sizes became which symbols.
#[derive(Default)]
pub(crate) struct Join {
    /// The symbol for each pair of sizes that differ.
    pairs: Vec<((Dim, Dim), Dim)>,
    /// The symbols that stand for a size of any round; empty for branches.
    widened: Vec<Symbol>,
    names: Names,
    is_loop: bool,
    /// Whether a range became wider.
    changed: bool,
}

impl Join {
    /// Begins a join of the results of branches that take these operands.
    pub(super) fn of_branches(operands: &[TypeTree]) -> Join {
        Join { names: Names::avoiding(operands), ..Join::default() }
    }

    /// Returns the type of a value that has one of two types.
    pub(super) fn join(&mut self, a: &TypeTree, b: &TypeTree) -> Joined {
        let all = |join: &mut Self, a: &[TypeTree], b: &[TypeTree]| {
            let pairs = a.iter().zip(b).enumerate();
            pairs
                .map(|(i, (a, b))| join.join(a, b).map_err(|error| error.within(i)))
                .collect::<std::result::Result<Vec<_>, _>>()
        };
        Ok(match (a, b) {
            (Arg::Leaf(Type::Any), _) | (_, Arg::Leaf(Type::Any)) => Arg::Leaf(Type::Any),
            (Arg::Leaf(Type::Tensor(x)), Arg::Leaf(Type::Tensor(y))) => {
                if x.dtype != y.dtype || x.rank() != y.rank() {
                    return Err(Mismatch::new(a, b));
                }
                let shape = x.shape.iter().zip(y.shape.iter()).map(|(x, y)| self.dim(x, y)).collect();
                TypeTree::from(TensorType { dtype: x.dtype, shape })
            }
            (Arg::Leaf(Type::Optional(a)), Arg::Leaf(Type::Optional(b))) => self.join(a, b)?.optional(),
            (Arg::Leaf(Type::Optional(_)), Arg::None) => a.clone(),
            (Arg::None, Arg::Leaf(Type::Optional(_))) => b.clone(),
            (Arg::Leaf(Type::Optional(inner)), other) => self.join(inner, other)?.optional(),
            (other, Arg::Leaf(Type::Optional(inner))) => self.join(other, inner)?.optional(),
            (Arg::None, Arg::None) => Arg::None,
            (Arg::None, known) | (known, Arg::None) => known.clone().optional(),
            (Arg::Leaf(Type::List(a)), Arg::Leaf(Type::List(b))) => self.join(a, b)?.list_of(),
            (Arg::Leaf(Type::List(item)), Arg::List(items)) => {
                items.iter().try_fold((**item).clone(), |item, other| self.join(&item, other))?.list_of()
            }
            (Arg::List(items), Arg::Leaf(Type::List(item))) => {
                items.iter().try_fold((**item).clone(), |item, other| self.join(other, &item))?.list_of()
            }
            (Arg::Tuple(x), Arg::Tuple(y)) if x.len() == y.len() => Arg::tuple(all(self, x, y)?),
            (Arg::List(x), Arg::List(y)) if x.len() == y.len() => Arg::list(all(self, x, y)?),
            (Arg::List(x), Arg::List(y)) => {
                let mut items = x.iter().chain(y.iter());
                let first = items.next().cloned().unwrap_or(Arg::Leaf(Type::Any));
                items.try_fold(first, |item, other| self.join(&item, other))?.list_of()
            }
            (Arg::Dict(x), Arg::Dict(y))
                if x.len() == y.len() && x.iter().all(|(key, _)| y.get(key).is_some()) =>
            {
                let mut entries = Vec::new();
                for (key, x) in x.iter() {
                    let y = y.get(key).unwrap_or(&Arg::None);
                    entries.push((key.clone(), self.join(x, y).map_err(|error| error.within(key))?));
                }
                Arg::dict(entries)
            }
            _ if a == b => a.clone(),
            _ if a.general() == b.general() => a.general(),
            _ => return Err(Mismatch::new(a, b)),
        })
    }

    fn dim(&mut self, a: &Dim, b: &Dim) -> Dim {
        let widened = a.as_symbol().filter(|symbol| self.widened.contains(symbol)).cloned();
        if a == b && widened.is_none() {
            return a.clone();
        }
        let is_pair = |(pair, _): &&((Dim, Dim), Dim)| pair.0 == *a && pair.1 == *b;
        if let Some((_, joined)) = self.pairs.iter().find(is_pair) {
            return joined.clone();
        }
        let is_first = !self.pairs.iter().any(|(pair, _)| pair.0 == *a);
        let joined = match widened {
            // The symbol stands for this size already; another size of another axis needs a symbol of its own.
            Some(symbol) if is_first => {
                // No size is negative, whatever its expression may be.
                if b.bounds().0.max(0) >= symbol.min() {
                    a.clone()
                } else {
                    self.changed = true;
                    Dim::symbol(symbol.ranged(0, symbol.max()))
                }
            }
            _ => self.new_symbol(a, b),
        };
        self.pairs.push(((a.clone(), b.clone()), joined.clone()));
        joined
    }

    fn new_symbol(&mut self, a: &Dim, b: &Dim) -> Dim {
        let ((a_low, a_high), (b_low, b_high)) = (a.bounds(), b.bounds());
        let symbol = self.names.next();
        let symbol = if self.is_loop {
            symbol.ranged(if b_low >= a_low { a_low.max(0) } else { 0 }, None)
        } else {
            symbol.ranged(a_low.min(b_low).max(0), a_high.zip(b_high).map(|(a, b)| a.max(b)))
        };
        self.widened.push(symbol.clone());
        Dim::symbol(symbol)
    }
}

/// The search for the types of the carried values of a loop: the least that the given values and the results of
/// every round have.
pub(crate) struct Fixpoint {
    carried: CarriedTypes,
    rounds: usize,
}

impl Fixpoint {
    pub(super) fn new(names: Names, given: &[TypeTree]) -> Fixpoint {
        Fixpoint { carried: CarriedTypes::named(given.to_vec(), names), rounds: 0 }
    }

    /// As [`new`](Self::new), for a body that is traced now.
    pub(crate) fn in_trace(given: &[TypeTree]) -> Fixpoint {
        Fixpoint::new(Names::in_trace(given), given)
    }

    /// Returns the types that the next round takes.
    pub(crate) fn carried(&self) -> &[TypeTree] {
        self.carried.types()
    }

    /// Takes the types that a round gave, and returns whether they are those that it took; if not, the next
    /// round takes wider ones. Fails if a result cannot have the type of the value that it takes the place of;
    /// the type is unknown if the body cannot take the joined types, or if it is not found after a few rounds.
    pub(crate) fn step(&mut self, name: &str, out: Result<TypeTree>) -> Result<bool> {
        let out = match out {
            Ok(out) => out,
            Err(error) if self.rounds == 0 => return Err(error),
            // Wrong for the joined type may be right for each size.
            Err(_) => return Err(crate::op::unknown_type()),
        };
        let items = match &out {
            Arg::List(items) | Arg::Tuple(items) if items.len() == self.carried().len() => items,
            Arg::Leaf(Type::Any) => return Err(crate::op::unknown_type()),
            _ => {
                let list = Arg::list(self.carried().to_vec());
                return Err(err!(Structure, "the body of {name} gives {out}, it was given {list}")
                    .help("return a list of one value for each carried value"));
            }
        };
        if !self.carried.widen(name, items)? {
            return Ok(true);
        }
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(crate::op::unknown_type());
        }
        Ok(false)
    }
}

/// Returns the types of the carried values of a loop. `body` returns the types of its results for carried
/// values of some types, as a list. Fails as [`Fixpoint::step`] does.
pub(super) fn fixpoint(
    name: &str,
    names: Names,
    given: &[TypeTree],
    body: &mut dyn FnMut(&[TypeTree]) -> Result<TypeTree>,
) -> Result<Vec<TypeTree>> {
    let mut search = Fixpoint::new(names, given);
    loop {
        let out = body(search.carried());
        if search.step(name, out)? {
            return Ok(search.carried.types);
        }
    }
}

/// The types of the values that a loop carries, as far as its rounds are known.
pub struct CarriedTypes {
    types: Vec<TypeTree>,
    join: Join,
}

impl CarriedTypes {
    /// Begins with the types of the values before the loop. A size that changes from round to round becomes a
    /// symbol whose name begins with `prefix`.
    pub fn new(given: Vec<TypeTree>, prefix: impl Into<String>) -> CarriedTypes {
        let names = Names { prefix: Some(prefix.into()), ..Names::avoiding(&given) };
        CarriedTypes::named(given, names)
    }

    fn named(types: Vec<TypeTree>, names: Names) -> CarriedTypes {
        CarriedTypes { types, join: Join { is_loop: true, names, ..Join::default() } }
    }

    /// Returns the types that the values have before any round.
    pub fn types(&self) -> &[TypeTree] {
        &self.types
    }

    /// Joins the types that a round gives for values of the types so far, and returns whether these changed. The
    /// loop is called `name` in errors. Fails if a value cannot take the place of the one before it.
    pub fn widen(&mut self, name: &str, after: &[TypeTree]) -> Result<bool> {
        self.join.pairs.clear();
        self.join.changed = false;
        let mut next = Vec::with_capacity(self.types.len());
        for (i, (before, after)) in self.types.iter().zip(after).enumerate() {
            next.push(self.join.join(before, after).map_err(|error| changed(name, &error, i))?);
        }
        let is_changed = next != self.types || self.join.changed;
        self.types = next;
        Ok(is_changed)
    }
}

fn changed(name: &str, error: &Mismatch, item: usize) -> Error {
    let place = error.place(&format!("carried value {item}"));
    err!(Structure, "the body of {name} gives {} for {place}, it was given {}", error.second, error.first)
        .help(error.advice())
}

/// Refuses a value that cannot take the place of another one of a loop at run time; a value that is an error
/// passes.
pub(super) fn check_round(name: &str, before: &[Value], after: &[Value]) -> Result<()> {
    let ty = |value: &Value| value.try_flat_map(&mut |tensor: &Tensor| tensor.type_tree());
    if before.len() != after.len() {
        return Err(err!(
            Structure,
            "the body of {name} gives {} values, it was given {}",
            after.len(),
            before.len()
        ));
    }
    for (i, (before, after)) in before.iter().zip(after).enumerate() {
        // Most values are tensors of the same dtype and rank.
        if let (Arg::Leaf(a), Arg::Leaf(b)) = (before, after)
            && let (Ok(a), Ok(b)) = (a.array(), b.array())
            && a.dtype() == b.dtype()
            && a.rank() == b.rank()
        {
            continue;
        }
        let (Ok(a), Ok(b)) = (ty(before), ty(after)) else { continue };
        Join::default().join(&a, &b).map_err(|error| changed(name, &error, i))?;
    }
    Ok(())
}
