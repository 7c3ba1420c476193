//! [`Growing`]: a list to which every round of a recorded loop pushes.
//!
//! Its items become the rows of one tensor, which the loop carries: each round writes its row. Where a round
//! pushes several items, a row has all of them.

use super::items::{Call, Items, ListOps};
use crate::tensor::Repr;
use crate::trace::{apply_at, with_type};
use crate::{
    Arg, Dim, Result, SourceLoc, Symbol, Tensor, TensorType, Type, TypeTree, Value, bail, err, fresh,
};

/// A list that grows by the rounds of a loop.
pub(super) struct Growing {
    pub(super) id: u32,
    pub(super) name: &'static str,
    /// The tensor before the first round.
    pub(super) rows: Tensor,
    /// What a round writes.
    row: TensorType,
    /// Whether a round pushes one item, which is the row.
    is_single: bool,
    /// What stands for the items of earlier rounds.
    marker: Tensor,
    /// Where a round pushes.
    pushed: SourceLoc,
    ops: &'static ListOps,
}

/// What a round pushes.
pub(super) struct Pushed<'a> {
    pub(super) id: u32,
    pub(super) name: &'static str,
    items: &'a [Value],
}

impl<'a> Pushed<'a> {
    /// Returns what a round pushes to a list, given the list before and after it; none if it is no list or does
    /// not grow.
    pub(super) fn find(
        (id, name, before): &(u32, &'static str, Value),
        after: &'a Value,
    ) -> Option<Pushed<'a>> {
        let (Arg::List(before), Arg::List(after)) = (before, after) else { return None };
        let items = after.get(before.len()..).filter(|items| !items.is_empty())?;
        Some(Pushed { id: *id, name, items })
    }

    /// Records the row of what a round pushes, within the round. Fails if an item is no tensor, or an error.
    fn row(&self, call: &Call<'_>) -> Result<Tensor> {
        let tensor = |item: &Value| match item {
            Arg::Leaf(tensor) => Ok(tensor.clone()),
            other => Err(err!(Structure, "a recorded loop pushes {other:?} to `{}`", self.name)
                .help("push tensors; a structure needs a list for each of its tensors")),
        };
        let items: Vec<Tensor> = self.items.iter().map(tensor).collect::<Result<_>>()?;
        match &items[..] {
            [item @ Tensor(Repr::Value(_) | Repr::Proxy(_))] => Ok(item.clone()),
            items => Tensor::try_from(call.rows(&items.iter().collect::<Vec<_>>())?),
        }
    }

    /// Returns the type of the row. Fails if it is not known, or has sizes of this round alone.
    pub(super) fn row_type(
        &self,
        call: &Call<'_>,
        is_of_round: &dyn Fn(&Symbol) -> bool,
    ) -> Result<(TensorType, bool)> {
        let is_single = matches!(self.items, [Arg::Leaf(Tensor(Repr::Value(_) | Repr::Proxy(_)))]);
        let row = self.row(call)?;
        let Arg::Leaf(Type::Tensor(ty)) = row.type_tree()? else {
            return Err(err!(
                Trace,
                "dtype and shape of what a recorded loop pushes to `{}` are not known",
                self.name
            )
            .help("give the inputs of the trace specs, such as `.input(\"x\", \"f32[n, 3]\")`"));
        };
        let mut symbols = Vec::new();
        ty.shape.iter().for_each(|dim| dim.collect_symbols(&mut symbols));
        if symbols.iter().any(is_of_round) {
            return Err(err!(
                Trace,
                "a recorded loop pushes {ty} to `{}`, of sizes that change by the round",
                self.name
            )
            .help("push tensors of one shape"));
        }
        Ok((ty, is_single))
    }
}

/// Returns the symbols in types.
pub(super) fn symbols_of<'a>(types: impl Iterator<Item = &'a TypeTree>) -> Vec<Symbol> {
    let mut found = Vec::new();
    types.for_each(|ty| fresh::for_each_dim(ty, &mut |dim| dim.collect_symbols(&mut found)));
    found
}

impl Growing {
    /// Records the tensor before the first of `n` rounds. Fails if `n` is no size.
    pub(super) fn new(
        (id, name): (u32, &'static str),
        (row, is_single): (TensorType, bool),
        n: &Value,
        (call, pushed): (&Call<'_>, &SourceLoc),
    ) -> Result<Growing> {
        let n = match n {
            Arg::Int(n) => Dim::from((*n).max(0)),
            Arg::Dim(n) => n.max(&Dim::from(0)),
            _ => {
                return Err(err!(
                    Trace,
                    "a loop over a number of rounds that a tensor holds pushes to `{name}`"
                )
                .help("loop over a range of sizes, or over the rows of a tensor"));
            }
        };
        let size = Arg::list([n].iter().chain(row.shape.iter()).map(|dim| Value::from(dim.clone())));
        let dtype = [("dtype", Arg::DType(row.dtype))];
        let rows = apply_at(call.ops.full, false, &[size, Arg::Int(0)], &dtype, call.source.clone())?;
        let (rows, marker) = (Tensor::try_from(rows)?, Items::within(name, pushed));
        Ok(Growing { id, name, rows, row, is_single, marker, pushed: pushed.clone(), ops: call.ops })
    }

    /// Returns the list as a round sees it: after the items from before the loop, one stands for those of
    /// earlier rounds.
    pub(super) fn marked(&self, list: &Value) -> Value {
        self.with_last(list, self.marker.clone())
    }

    fn with_last(&self, list: &Value, last: Tensor) -> Value {
        let items = list.items().unwrap_or_default();
        Arg::list(items.iter().cloned().chain([Arg::Leaf(last)]))
    }

    /// Takes the list after a round apart: returns its items from before the loop, and the tensor with the row
    /// of this round. Fails if the round does more than push, or pushes something else than the first one.
    pub(super) fn write(
        &self,
        (list, n_before): (&Value, usize),
        (rows, index): (&Tensor, &Tensor),
        source: &SourceLoc,
    ) -> Result<(Value, Tensor)> {
        let items = list.items().unwrap_or_default();
        let (before, rest) = items.split_at(n_before.min(items.len()));
        let pushed = match rest {
            [Arg::Leaf(marker), pushed @ ..] if marker.identity() == self.marker.identity() => pushed,
            _ => {
                return Err(err!(
                    Trace,
                    "a round of a recorded loop does more with `{}` than to push",
                    self.name
                )
                .help("push once in a round, and read the list behind the loop"));
            }
        };
        let call = Call { ops: self.ops, source };
        let row = Pushed { id: self.id, name: self.name, items: pushed }.row(&call)?;
        let found = row.type_tree()?;
        if found != self.row.clone().into() {
            let expected = &self.row;
            return Err(err!(
                Structure,
                "a recorded loop pushes {found} to `{}`, before {expected}",
                self.name
            )
            .help("push tensors of one dtype and shape"));
        }
        let args = [rows.into(), row.into(), Arg::Int(0), index.into()];
        let written = apply_at(self.ops.select_scatter, false, &args, &[], source.clone())?;
        // The type does not depend on the position, which no type holds.
        let written = with_type(Tensor::try_from(written)?, &rows.type_tree()?)?;
        Ok((Arg::list(before.iter().cloned()), written))
    }

    /// Returns the list behind the loop.
    pub(super) fn finished(&self, list: &Value, rows: &Value, source: &SourceLoc) -> Result<Value> {
        let rows = if self.is_single {
            rows.clone()
        } else {
            let args = [rows.clone(), Arg::Int(0), Arg::Int(1)];
            apply_at(self.ops.flatten, false, &args, &[], source.clone())?
        };
        let Arg::Leaf(rows) = rows else { bail!(Trace, "the rows of `{}` are no tensor", self.name) };
        Ok(self.with_last(list, Items::behind(self.name, rows, self.ops, &self.pushed)))
    }
}
