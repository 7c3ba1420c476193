//! [`RowCall`]: a call of an operator that is a call of one row, whatever the sizes of its operands.

use super::aten::{How, entry};
use super::call::{adapted, places};
use super::{complex, out};
use crate::{Arg, Op, Registry, Result};

/// A row that an operator is, if no argument is complex.
pub(crate) struct RowCall {
    pub(crate) op: Op,
    /// Whether the result is a view of the first argument.
    pub(crate) shares: bool,
    /// Whether the result is written to the first argument.
    pub(crate) writes: bool,
    /// What arguments are called in the row; `""` leaves one out.
    renamed: &'static [(&'static str, &'static str)],
}

impl RowCall {
    /// Returns the row that an operator is, such as for `aten`, `add_` and `Tensor`; `None` if it is more than a
    /// row.
    pub(crate) fn of(registry: &Registry, space: &str, base: &str, overload: &str) -> Option<RowCall> {
        if !matches!(space, "aten" | "prims") || out::is_out(overload) || base.starts_with("__i") {
            return None;
        }
        let how = entry(base, overload);
        let stripped = base.strip_suffix('_').filter(|name| !name.ends_with('_'));
        let (base, how) = match (stripped, how) {
            (Some(functional), None) => (functional, entry(functional, overload)),
            (None, how) => (base, how),
            // The name itself says that the operator changes how its argument is seen.
            (Some(_), Some(_)) => return None,
        };
        if complex::makes_complex(base, false, false, true) {
            return None;
        }
        let (row, renamed) = match how {
            None => (base, &[][..]),
            Some(How::Row(row)) => (*row, &[][..]),
            Some(How::Renamed(row, names)) => (*row, *names),
            Some(How::View(_)) if stripped.is_none() => (base, &[][..]),
            Some(_) => return None,
        };
        let shares = matches!(how, Some(How::View(_)));
        Some(RowCall { op: registry.get(row)?, shares, writes: stripped.is_some(), renamed })
    }

    /// Returns the name that the row has for an argument; `None` if it leaves it out.
    pub(crate) fn name<'n>(&self, name: &'n str) -> Option<&'n str> {
        match self.renamed.iter().find(|(from, _)| *from == name) {
            Some((_, "")) => None,
            Some((_, to)) => Some(to),
            None => Some(name),
        }
    }

    /// Returns the parameter of the row for each argument, by the names of [`name`](RowCall::name); `None` for an
    /// argument that says nothing about values. Names and kinds decide. Fails if there is no parameter.
    pub(crate) fn places<L>(&self, args: &[(&str, Arg<L>)]) -> Result<Vec<Option<usize>>> {
        places(&self.op, self.op.name, args)
    }

    /// Returns an argument as the row takes it at a place. Fails if it has no meaning there.
    pub(crate) fn adapted<L>(&self, name: &str, place: usize, arg: Arg<L>) -> Result<Arg<L>> {
        adapted(&self.op, self.op.name, name, place, spelled(name, arg))
    }
}

/// Returns an argument as rows spell it.
pub(super) fn spelled<L>(name: &str, arg: Arg<L>) -> Arg<L> {
    match (name, arg) {
        // How PyTorch spells a slice without an end.
        ("end", Arg::Int(i64::MAX)) => Arg::None,
        (_, arg) => arg,
    }
}
