//! Control flow: sub-graphs as branches and loops. What a loop carries, and what one of two branches gives, has a
//! place; where its sizes differ from round to round or between branches, they are sizes of the program.

use fx_core::{Arg, DType, Dim, Graph, Result, Symbol, TensorType, Type, TypeTree, bail};

use super::{Args, Emit};
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Failure, Source, Step};
use crate::standalone::value::{Home, StandsFor, Value, View};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("cond", cond),
    ("while_loop", while_loop),
    ("for_loop", for_loop),
    ("check", check),
    ("item", read),
    ("num_int", read),
    ("num_float", read),
    ("num_bool", read),
];

/// Returns a sub-graph for these operands.
fn region(l: &mut Lowering<'_>, args: &Args<'_>, name: &str, operands: &[Value]) -> Result<Graph> {
    match args.get(name)? {
        Arg::Graph(graph) => l.region(graph, operands),
        other => bail!(Unresolved, "{name} is {}", other.kind_name()),
    }
}

/// Returns the operands of a list, which become the arguments of a region.
fn operands(args: &Args<'_>, name: &str) -> Result<Vec<Value>> {
    match args.get(name)?.items() {
        Some(items) => Ok(items.to_vec()),
        None => bail!(Unresolved, "{name} is no list"),
    }
}

/// Pairs the leaves of what a region returns with the places for them. A list of known items takes the place of
/// one of any length.
fn pair(
    l: &mut Lowering<'_>,
    from: &Value,
    to: &Value,
    all_from: &mut Vec<Value>,
    all_to: &mut Vec<Value>,
) -> Result<()> {
    match (from, to) {
        (_, Arg::Leaf(place)) if place.is_list() => {
            all_from.push(Arg::Leaf(l.list(from, place)?));
            all_to.push(to.clone());
        }
        (Arg::Tuple(a) | Arg::List(a), Arg::Tuple(b) | Arg::List(b)) if a.len() == b.len() => {
            a.iter().zip(b.iter()).try_for_each(|(a, b)| pair(l, a, b, all_from, all_to))?;
        }
        (Arg::Dict(a), Arg::Dict(b)) if a.len() == b.len() => {
            for (key, b) in b.iter() {
                let Some(a) = a.get(key) else { bail!(Structure, "a region returns no {key:?}") };
                pair(l, a, b, all_from, all_to)?;
            }
        }
        (_, Arg::Tuple(_) | Arg::List(_) | Arg::Dict(_)) => {
            bail!(Structure, "a region returns values of another structure than expected")
        }
        _ => {
            all_from.push(from.clone());
            all_to.push(to.clone());
        }
    }
    Ok(())
}

/// The places of values that differ from round to round, or between branches.
struct Places {
    value: Value,
    /// The sizes and integers among them.
    symbols: Vec<Symbol>,
}

impl Places {
    /// Makes places for values of a type.
    fn new(l: &mut Lowering<'_>, ty: &TypeTree) -> Result<Places> {
        let mut symbols = l.declare(ty);
        let value = ty.try_flat_map(&mut |ty| {
            let number = |view: View| Ok(Arg::Leaf(view.standing_for(StandsFor::Number)));
            match ty {
                Type::Tensor(ty) => Ok(Arg::Leaf(l.place(ty.dtype, &ty.shape))),
                Type::Float => number(l.place(DType::F64, &[])),
                Type::Bool => number(l.place(DType::Bool, &[])),
                Type::Int => {
                    symbols.push(l.local("n", i64::MIN, None));
                    Ok(Arg::dim(Dim::symbol(symbols[symbols.len() - 1].clone())))
                }
                Type::List(item) if l.has_sizes(item) => {
                    let Some(TensorType { dtype, shape }) = item.tensor() else {
                        bail!(Unresolved, "a list of {item} has no place in memory");
                    };
                    let n = l.local("items", 0, None);
                    let shape = [&[Dim::symbol(n.clone())], &shape[..]].concat();
                    symbols.push(n);
                    Ok(Arg::Leaf(l.place(*dtype, &shape).standing_for(StandsFor::List)))
                }
                ty => bail!(Unresolved, "{ty} has no place in memory that a loop or a branch could change"),
            }
        })?;
        Ok(Places { value, symbols })
    }

    /// Returns what a loop carries, as arguments of its regions.
    fn carried(&self) -> Vec<Value> {
        self.value.items().map_or_else(|| vec![self.value.clone()], <[Value]>::to_vec)
    }

    fn is_home(&self, home: Home) -> bool {
        self.value.leaves().iter().any(|view| view.home == home)
    }

    /// Puts values in the places. In a round, the values may be those of the places, with their sizes; outside
    /// of one, nothing is there yet.
    fn give(&self, l: &mut Lowering<'_>, value: &Value, is_round: bool) -> Result<()> {
        let (mut from, mut to) = (Vec::new(), Vec::new());
        pair(l, value, &self.value, &mut from, &mut to)?;
        let mut sizes: Vec<(Symbol, Source)> = Vec::new();
        for (from, to) in from.iter().zip(&to) {
            let mut size = |l: &mut Lowering<'_>, from: &Value, to: &Dim| -> Result<()> {
                let Some(symbol) = to.as_symbol().filter(|symbol| self.symbols.contains(symbol)) else {
                    return Ok(());
                };
                let is_same = matches!(from, Arg::Dim(from) if from == to);
                if !is_same && !sizes.iter().any(|(known, _)| known == symbol) {
                    sizes.push((symbol.clone(), l.integer(from)?));
                }
                Ok(())
            };
            match (from, to) {
                (Arg::Leaf(from), Arg::Leaf(to)) => {
                    let pairs = from.shape.iter().zip(&to.shape);
                    pairs.into_iter().try_for_each(|(from, to)| size(l, &Arg::dim(from.clone()), to))?;
                }
                (from, Arg::Dim(to)) => size(l, from, to)?,
                _ => {}
            }
        }
        // What the new sizes tell, and what another place gets first, is kept before.
        let changes =
            |size: &Dim| size.symbols().iter().any(|symbol| sizes.iter().any(|(new, _)| new == symbol));
        let mut moves: Vec<(View, View)> = Vec::new();
        for (from, to) in from.iter().zip(&to) {
            let Arg::Leaf(to) = to else { continue };
            let to = to.clone().standing_for(StandsFor::Tensor);
            let from = match from {
                Arg::Leaf(view) => l.converted(&view.clone().standing_for(StandsFor::Tensor), to.dtype)?,
                other => {
                    let number = l.number(other)?;
                    l.converted(&number, to.dtype)?
                }
            };
            if !is_round {
                moves.push((from, to));
                continue;
            }
            let is_changed = from.shape.iter().chain(&to.shape).any(&changes);
            if !is_changed && from == to {
                continue;
            }
            let is_dense = from.is_contiguous() && from.offset == Dim::new(0);
            let from = if self.is_home(from.home) || (is_changed && !is_dense) {
                let kept = l.buffer(from.dtype, &from.shape);
                l.copy(&from, &kept);
                kept
            } else {
                from
            };
            // Its shape is told by the new sizes from here on.
            let from = if is_changed { View::whole(from.home, from.dtype, &to.shape) } else { from };
            moves.push((from, to));
        }
        l.bind(sizes);
        for (from, to) in moves {
            if let Home::Buffer(id) = to.home {
                l.grow(id);
            }
            l.copy(&from, &to);
        }
        Ok(())
    }
}

/// Returns the bool that decides.
fn test(l: &mut Lowering<'_>, value: &Value) -> Result<View> {
    match value {
        Arg::Leaf(_) | Arg::Bool(_) => {
            let number = l.number(value)?;
            l.converted(&number, DType::Bool)
        }
        other => bail!(Unresolved, "the condition is {}", other.kind_name()),
    }
}

fn cond(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let operands = operands(args, "operands")?;
    if let Some(x) = args.get("predicate")?.scalar() {
        let graph = region(l, args, if x.to_bool() { "then" } else { "otherwise" }, &operands)?;
        let result = l.graph(&graph, operands)?;
        if l.has_sizes(args.ty) {
            return Ok(result);
        }
        // The node calls the sizes of the result otherwise.
        let out = Places::new(l, args.ty)?;
        out.give(l, &result, false)?;
        return Ok(out.value);
    }
    let test = test(l, args.get("predicate")?)?;
    let out = Places::new(l, args.ty)?;
    let mut branch = |name: &str| -> Result<Vec<Step>> {
        let graph = region(l, args, name, &operands)?;
        let (steps, ()) = l.steps_of(|l| {
            let result = l.graph(&graph, operands.clone())?;
            out.give(l, &result, false)
        })?;
        Ok(steps)
    };
    let (then, otherwise) = (branch("then")?, branch("otherwise")?);
    l.push(Step::Branch { test, then, otherwise });
    Ok(out.value)
}

fn while_loop(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let state = Places::new(l, args.ty)?;
    state.give(l, args.get("carried")?, false)?;
    let mut all = state.carried();
    all.extend(operands(args, "captured")?);
    let graph = region(l, args, "test", &all)?;
    let (before, decides) = l.steps_of(|l| {
        let result = l.graph(&graph, all.clone())?;
        test(l, &result)
    })?;
    let graph = region(l, args, "body", &all)?;
    let (body, ()) = l.steps_of(|l| {
        let result = l.graph(&graph, all)?;
        state.give(l, &result, true)
    })?;
    l.push(Step::While { before, test: decides, body });
    Ok(state.value)
}

fn for_loop(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let n = args.get("n")?;
    let rounds = l.integer(n)?;
    let state = Places::new(l, args.ty)?;
    state.give(l, args.get("carried")?, false)?;
    let last = match n {
        Arg::Int(n) => Some((*n - 1).max(0)),
        _ => None,
    };
    let index = l.local("round", 0, last);
    let mut all = vec![Arg::dim(Dim::symbol(index.clone()))];
    all.extend(state.carried());
    all.extend(operands(args, "captured")?);
    let graph = region(l, args, "body", &all)?;
    let (body, ()) = l.steps_of(|l| {
        let result = l.graph(&graph, all)?;
        state.give(l, &result, true)
    })?;
    l.push(Step::For { index, rounds, body });
    Ok(state.value)
}

/// Fails with the message of the program if a condition does not hold.
fn check(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let condition = args.get("condition")?;
    let holds = test(l, condition)?;
    l.refuse_as(&holds, "!x", args.text("message")?, Failure::Check);
    Ok(condition.clone())
}

/// Reads the one element of a tensor as a number.
fn read(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.get("x")?;
    match (args.ty, x) {
        (Arg::Dim(size), x) => {
            let symbols = l.declare(args.ty);
            let source = l.integer(x)?;
            match &symbols[..] {
                [symbol] if size.as_symbol() == Some(symbol) => {
                    l.bind(vec![(symbol.clone(), source)]);
                    l.check_range(symbol);
                }
                _ => bail!(Unresolved, "its result {size} is no new size"),
            }
            Ok(Arg::Dim(size.clone()))
        }
        (Arg::Leaf(ty), x) => {
            let number = l.number(x)?;
            let one = View { shape: Vec::new(), strides: Vec::new(), ..number };
            let dtype = match ty {
                Type::Bool => DType::Bool,
                Type::Float => DType::F64,
                ty => bail!(Unresolved, "it gives {ty}"),
            };
            let view = l.converted(&one, dtype)?;
            Ok(Arg::Leaf(view.standing_for(StandsFor::Number)))
        }
        (ty, other) => bail!(Unresolved, "it makes {ty} of {}", other.kind_name()),
    }
}
