//! Control flow: sub-graphs as branches and loops. What a loop carries, and what one of two branches gives, has a
//! place; where its sizes differ from round to round or between branches, they are sizes of the program.

use fx_core::{Arg, DType, Dim, Graph, Result, Symbol, Type, TypeTree, bail};

use super::{Args, Emit};
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Failure, Source, Step};
use crate::standalone::value::{Home, Value, View};

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

/// Returns the leaves of a value, which become the arguments of a region.
fn leaves(value: &Value, out: &mut Vec<Value>) {
    match value {
        Arg::Tuple(items) | Arg::List(items) => items.iter().for_each(|item| leaves(item, out)),
        Arg::Dict(entries) => entries.iter().for_each(|(_, item)| leaves(item, out)),
        other => out.push(other.clone()),
    }
}

fn operands(args: &Args<'_>, name: &str) -> Result<Vec<Value>> {
    let mut out = Vec::new();
    leaves(args.get(name)?, &mut out);
    Ok(out)
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
            let number = |view: View| Ok(Arg::Leaf(View { is_number: true, ..view }));
            match ty {
                Type::Tensor(ty) => Ok(Arg::Leaf(l.place(ty.dtype, &ty.shape))),
                Type::Float => number(l.place(DType::F64, &[])),
                Type::Bool => number(l.place(DType::Bool, &[])),
                Type::Int => {
                    symbols.push(l.local("n", i64::MIN, None));
                    Ok(Arg::dim(Dim::symbol(symbols[symbols.len() - 1].clone())))
                }
                ty => bail!(Unresolved, "{ty} has no place in memory that a loop or a branch could change"),
            }
        })?;
        Ok(Places { value, symbols })
    }

    fn leaves(&self) -> Vec<Value> {
        let mut out = Vec::new();
        leaves(&self.value, &mut out);
        out
    }

    fn is_home(&self, home: Home) -> bool {
        self.value.leaves().iter().any(|view| view.home == home)
    }

    /// Puts values in the places. In a round, the values may be those of the places, with their sizes; outside
    /// of one, nothing is there yet.
    fn give(&self, l: &mut Lowering<'_>, value: &Value, is_round: bool) -> Result<()> {
        let (mut from, to) = (Vec::new(), self.leaves());
        leaves(value, &mut from);
        if from.len() != to.len() {
            bail!(Structure, "a region returns {} values, expected {}", from.len(), to.len());
        }
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
            let to = View { is_number: false, ..to.clone() };
            let from = match from {
                Arg::Leaf(view) => l.converted(&View { is_number: false, ..view.clone() }, to.dtype)?,
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
    let mut all = state.leaves();
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
    all.extend(state.leaves());
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
                [symbol] if size.as_symbol() == Some(symbol) => l.bind(vec![(symbol.clone(), source)]),
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
            Ok(Arg::Leaf(View { is_number: true, ..view }))
        }
        (ty, other) => bail!(Unresolved, "it makes {ty} of {}", other.kind_name()),
    }
}
