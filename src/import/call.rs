//! [`Call`]: a call of an operator in an archive; and how rows are called for it.

use super::alias::View;
use super::build::{Attempt, Builder, Out};
use super::schema::{Argument, Node};
use crate::{Arg, Kind, NodeId, Op, Result, err};

/// A call in an archive, with its arguments read.
pub(super) struct Call<'a> {
    /// The name, such as `add`, without the underscore of in-place ones.
    pub(super) base: &'a str,
    /// The overload, such as `Tensor`; empty for `default`.
    pub(super) overload: &'a str,
    pub(super) node: &'a Node,
    pub(super) args: Vec<(&'a str, Arg)>,
}

impl<'a> Call<'a> {
    /// Returns an argument that is given.
    pub(super) fn get(&self, name: &str) -> Option<&Arg> {
        self.args.iter().find(|(other, _)| *other == name).map(|(_, arg)| arg)
    }

    /// Returns an argument, none if it is not given.
    pub(super) fn arg(&self, name: &str) -> Arg {
        self.get(name).cloned().unwrap_or(Arg::None)
    }

    /// Returns an argument, or its default.
    pub(super) fn or(&self, name: &str, default: Arg) -> Arg {
        self.get(name).cloned().unwrap_or(default)
    }

    /// Returns an argument that must be given.
    pub(super) fn need(&self, name: &str) -> Attempt<Arg> {
        Ok(self
            .get(name)
            .cloned()
            .ok_or_else(|| err!(Load, "the argument {name:?} of {} is missing", self.base))?)
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Arg::Bool(true)))
    }

    /// Returns the first argument.
    pub(super) fn first(&self) -> Attempt<Arg> {
        Ok(self
            .args
            .first()
            .map(|(_, arg)| arg.clone())
            .ok_or_else(|| err!(Load, "{} without arguments", self.base))?)
    }

    /// Returns the name of the tensor that an argument is in the archive.
    pub(super) fn tensor_name(&self, position: usize) -> Attempt<&'a str> {
        match self.node.inputs.get(position).map(|input| &input.arg) {
            Some(Argument::AsTensor(tensor)) => Ok(&tensor.name),
            _ => Err(err!(Load, "expected a tensor as argument {position} of {}", self.base).into()),
        }
    }

    /// Returns the tensor that the first argument is.
    pub(super) fn view(&self, builder: &Builder<'a>) -> Attempt<View> {
        builder.view_named(self.tensor_name(0)?)
    }
}

pub(super) fn node(arg: &Arg) -> Attempt<NodeId> {
    Ok(arg.leaf().copied().ok_or_else(|| err!(Load, "expected a tensor, got {}", arg.kind_name()))?)
}

pub(super) fn ints(arg: &Arg) -> Option<Vec<i64>> {
    let int = |arg: &Arg| match arg {
        Arg::Int(n) => Some(*n),
        _ => None,
    };
    match arg {
        Arg::Int(n) => Some(vec![*n]),
        _ => arg.items()?.iter().map(int).collect(),
    }
}

/// Returns the arguments but some.
pub(super) fn without<'a>(call: &Call<'a>, names: &[&str]) -> Vec<(&'a str, Arg)> {
    call.args.iter().filter(|(name, _)| !names.contains(name)).cloned().collect()
}

pub(super) fn leaf(node: NodeId) -> Arg {
    Arg::Leaf(node)
}

/// Calls a row by position with keyword arguments.
pub(super) fn with<'a>(
    builder: &mut Builder<'a>,
    row: &str,
    args: impl IntoIterator<Item = Arg>,
    kwargs: &[(&str, Arg)],
) -> Attempt<NodeId> {
    let op = builder.row(row)?;
    builder.emit(op, args.into_iter().collect(), kwargs)
}

/// Writes a result to a tensor, as its type; returns the tensor.
pub(super) fn write(builder: &mut Builder<'_>, view: &View, new: NodeId) -> Attempt<Out> {
    let old = builder.current(view)?;
    let like = builder.tensor_type(old)?;
    let new = builder.conform(new, &like)?;
    builder.write(view, new)?;
    let version = builder.storages[view.storage].version;
    Ok(Out::View(View { node: new, version, ..view.clone() }))
}

/// Calls a row with the arguments of a call, by their names.
pub(super) fn generic<'a>(
    builder: &mut Builder<'a>,
    row: &str,
    call: &Call<'a>,
    renamed: &[(&str, &'static str)],
) -> Attempt<Out> {
    let op = builder.row(row)?;
    let mut named: Vec<(&str, Arg)> = Vec::new();
    for (name, arg) in &call.args {
        match renamed.iter().find(|(from, _)| from == name) {
            Some((_, "")) => {}
            Some((_, to)) => named.push((to, arg.clone())),
            None => named.push((name, arg.clone())),
        }
    }
    let kwargs = arrange(&op, call.base, named)?;
    builder.emit(op, Vec::new(), &kwargs).map(Out::Node)
}

/// Calls a row, with arguments by the names that PyTorch or the row gives them.
pub(super) fn named(builder: &mut Builder<'_>, row: &str, args: Vec<(&str, Arg)>) -> Attempt<NodeId> {
    let op = builder.row(row)?;
    let kwargs = arrange(&op, row, args)?;
    let (mut positional, mut by_name) = (Vec::new(), Vec::new());
    for (name, arg) in kwargs {
        let place = op.params.iter().position(|param| param.name == name);
        if place == Some(positional.len()) && by_name.is_empty() && !op.params[positional.len()].keyword_only
        {
            positional.push(arg);
        } else {
            by_name.push((name, arg));
        }
    }
    builder.emit(op, positional, &by_name)
}

/// Arguments about memory, devices and gradients, which say nothing about values.
const WITHOUT_EFFECT: &[&str] = &[
    "device",
    "layout",
    "memory_format",
    "pin_memory",
    "non_blocking",
    "requires_grad",
    "cudnn_enabled",
    "cudnn_enable",
    "benchmark",
    "deterministic",
    "allow_tf32",
    "generator",
    "implicit",
    "copy",
    // The order in which einsum takes its operands.
    "path",
];

/// Finds the parameter of a row for each argument: the one of the same name, else the one at the same place.
/// An argument that says nothing about values has none.
pub(super) fn places<L>(op: &Op, base: &str, args: &[(&str, Arg<L>)]) -> Result<Vec<Option<usize>>> {
    let params = op.params;
    let mut places: Vec<Option<usize>> =
        args.iter().map(|(name, _)| params.iter().position(|param| param.name == *name)).collect();
    for i in 0..args.len() {
        let (name, arg) = &args[i];
        if places[i].is_some() || WITHOUT_EFFECT.contains(name) {
            continue;
        }
        let is_free = |place: usize| {
            place < params.len() && !places.contains(&Some(place)) && params[place].kind.accepts(arg)
        };
        let place = match *name {
            "self" | "input" | "x" if i == 0 => Some(0),
            "other" => Some(1),
            _ => Some(i),
        };
        let spelled = params.iter().position(|param| {
            matches!(
                (*name, param.name),
                ("other", "y" | "exponent" | "value") | ("size", "shape") | ("shape", "size")
            )
        });
        let found = spelled.filter(|&place| is_free(place)).or(place.filter(|&place| is_free(place)));
        match (found, arg) {
            (Some(place), _) => places[i] = Some(place),
            // What is absent needs no place.
            (None, Arg::None) => {}
            (None, _) => {
                return Err(err!(Load, "the row {} has no parameter for {name:?} of {base}", op.name)
                    .help(format!("its schema is {}", **op)));
            }
        }
    }
    Ok(places)
}

/// Returns an argument of an operator as the row takes it at a place.
pub(super) fn adapted<L>(op: &Op, base: &str, name: &str, place: usize, arg: Arg<L>) -> Result<Arg<L>> {
    Ok(match (arg, op.params[place].kind) {
        // No axes are all axes.
        (Arg::List(items), Kind::Axes) if items.is_empty() && op.name != "squeeze" => Arg::None,
        (Arg::Int(code), Kind::Str) if name == "reduction" => Arg::str(match code {
            0 => "none",
            1 => "mean",
            2 => "sum",
            _ => return Err(err!(Load, "unknown reduction {code} of {base}")),
        }),
        (arg, _) => arg,
    })
}

/// Arranges the arguments of an operator for a row, in the order of its parameters.
fn arrange(op: &Op, base: &str, args: Vec<(&str, Arg)>) -> Result<Vec<(&'static str, Arg)>> {
    let places = places(op, base, &args)?;
    let mut out = Vec::new();
    // Archives leave out what is absent.
    for (place, param) in op.params.iter().enumerate() {
        let may_be_absent = param.default.is_none() && param.kind.accepts(&Arg::<NodeId>::None);
        if may_be_absent && !places.contains(&Some(place)) {
            out.push((place, param.name, Arg::None));
        }
    }
    for ((name, arg), place) in args.into_iter().zip(places) {
        let Some(place) = place else { continue };
        let param = &op.params[place];
        let arg = adapted(op, base, name, place, arg)?;
        // An absent argument is the row's default.
        if matches!(arg, Arg::None) && param.default.is_some() {
            continue;
        }
        out.push((place, param.name, arg));
    }
    out.sort_by_key(|(place, ..)| *place);
    Ok(out.into_iter().map(|(_, name, arg)| (name, arg)).collect())
}
