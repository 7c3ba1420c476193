//! [`Items`]: one tensor in a list that stands for all that the rounds of a recorded loop push.
//!
//! Such a tensor is an error for all operations but `stack` and `cat`, because the number of items is not known
//! while tracing. These two take the items as one tensor, which has a row for each item.

use std::sync::Arc;

use crate::ops::{check, lt};
use crate::region::refill;
use crate::tensor::Repr;
use crate::trace::apply_at;
use crate::{Arg, DType, Dim, Error, Op, Result, Scalar, SourceLoc, Tensor, Value, bail, err};

/// The operations that make tensors of lists.
#[derive(Debug)]
pub struct ListOps {
    /// `cat(tensors, dim)`
    pub cat: Op,
    /// `flatten(x, start, end)`
    pub flatten: Op,
    /// `full(size, fill_value, dtype=)`
    pub full: Op,
    /// `movedim(x, source, destination)`
    pub movedim: Op,
    /// `select_scatter(x, src, dim, index)`
    pub select_scatter: Op,
    /// `stack(tensors, dim)`
    pub stack: Op,
}

/// The items that the rounds of a loop push to a list.
#[derive(Debug)]
pub(crate) struct Items {
    /// What is wrong with reading the items, without a place.
    read: Error,
    /// The same, in the place of the last push.
    error: Error,
    /// A tensor with a row for each item; none within the loop.
    rows: Option<(Tensor, &'static ListOps)>,
}

impl Items {
    /// Returns the error of an operation that would have to know the items.
    pub(crate) fn error(&self) -> &Error {
        &self.error
    }

    /// Returns the same error without a place, for the operation to add its own.
    pub(crate) fn read(&self) -> &Error {
        &self.read
    }

    fn tensor(read: Error, rows: Option<(Tensor, &'static ListOps)>, pushed: &SourceLoc) -> Tensor {
        let error = read.clone().at(pushed.clone());
        Tensor(Repr::Items(Arc::new(Items { read, error, rows })))
    }

    /// Returns what stands for the items of `name` behind the loop.
    pub(super) fn behind(name: &str, rows: Tensor, ops: &'static ListOps, pushed: &SourceLoc) -> Tensor {
        let read =
            err!(Trace, "a loop pushes to `{name}` as often as it runs, which is not known while tracing")
                .help(format!(
                    "`fx::stack(&{name}, 0)` and `fx::cat(&{name}, 0)` take all items; nothing takes some"
                ));
        Items::tensor(read, Some((rows, ops)), pushed)
    }

    /// Returns what stands for the items of earlier rounds within a round.
    pub(super) fn within(name: &str, pushed: &SourceLoc) -> Tensor {
        let read =
            err!(Trace, "a round of a recorded loop reads the items that earlier rounds pushed to `{name}`")
                .help("keep what the next round needs in a variable of its own");
        Items::tensor(read, None, pushed)
    }
}

fn items(tensor: &Tensor) -> Option<&Items> {
    match &tensor.0 {
        Repr::Items(items) => Some(items),
        _ => None,
    }
}

/// Returns the tensors of a value but those that stand for items.
pub(super) fn symbols(value: &Value) -> Vec<&Tensor> {
    let mut leaves = value.leaves();
    leaves.retain(|leaf| items(leaf).is_none());
    leaves
}

/// Puts tensors in the place of those that [`symbols`] returns. Fails if there are too few.
pub(super) fn replace_symbols(structure: &Value, new: &[Value]) -> Result<Value> {
    let mut new = new.iter();
    let leaves = structure.leaves().into_iter().map(|leaf| match items(leaf) {
        Some(_) => Some(Arg::Leaf(leaf.clone())),
        None => new.next().cloned(),
    });
    refill(structure, &leaves.map_while(|leaf| leaf).collect::<Vec<_>>())
}

/// Returns the error of a value, unless it is one of items.
pub(super) fn failure(value: &Value) -> Option<&Error> {
    let mut error = None;
    value.walk(&mut |part| match part {
        Arg::Leaf(tensor) if items(tensor).is_none() => error = error.or(tensor.error()),
        Arg::Failed(failed) => error = error.or(Some(failed)),
        _ => {}
    });
    error
}

/// Returns the items in a value.
pub(super) fn unknown_items(value: &Value) -> Option<&Items> {
    value.leaves().into_iter().find_map(items)
}

/// Calls `stack` or `cat` on a list with items. `None` if the operation is another one, or if it has other
/// errors.
pub(crate) fn join_items(
    op: Op,
    args: &[Value],
    kwargs: &[(&str, Value)],
    source: &SourceLoc,
) -> Option<Result<Value>> {
    let bound = op.bind(args, kwargs).ok()?;
    let [list @ (Arg::List(_) | Arg::Tuple(_)), dim] = &bound[..] else { return None };
    let list = list.leaves();
    let ops = list.iter().filter_map(|tensor| items(tensor)).find_map(|items| items.rows.as_ref())?.1;
    let is_known = list.iter().all(|tensor| match items(tensor) {
        Some(items) => items.rows.is_some(),
        None => tensor.error().is_none(),
    });
    let call = Call { ops, source };
    match is_known {
        true if op == ops.stack => Some(call.check_any(&list).and_then(|()| call.stack(&list, dim))),
        true if op == ops.cat => Some(call.check_any(&list).and_then(|()| call.cat(&list, dim))),
        _ => None,
    }
}

/// Calls of operations in one place of the user's.
pub(super) struct Call<'a> {
    pub(super) ops: &'static ListOps,
    pub(super) source: &'a SourceLoc,
}

impl Call<'_> {
    fn apply(&self, op: Op, args: &[Value]) -> Result<Value> {
        apply_at(op, false, args, &[], self.source.clone())
    }

    /// Records a check that a list of items has any: without one there is nothing to stack, as in an eager call.
    fn check_any(&self, list: &[&Tensor]) -> Result<()> {
        const NONE: &str = "expected at least one tensor";
        let mut n = Dim::from(0);
        for tensor in list {
            n += match items(tensor).and_then(|items| items.rows.as_ref()) {
                Some((rows, _)) => rows.ty()?.shape.iter().next().cloned().unwrap_or(Dim::from(0)),
                None => Dim::from(1),
            };
        }
        if n.bounds().0 > 0 {
            return Ok(());
        }
        if n.bounds().1 == Some(0) {
            bail!(Argument, "{NONE}");
        }
        let dtype = [("dtype", Arg::DType(DType::I64))];
        let n = apply_at(self.ops.full, false, &[Arg::list([]), n.into()], &dtype, self.source.clone())?;
        let any = self.apply(lt::OP, &[Arg::Int(0), n])?;
        self.apply(check::OP, &[any, Arg::str(NONE)]).map(|_| ())
    }

    fn movedim(&self, x: Value, to: &Value) -> Result<Value> {
        if matches!(to, Arg::Int(0)) {
            Ok(x)
        } else {
            self.apply(self.ops.movedim, &[x, Arg::Int(0), to.clone()])
        }
    }

    fn stack(&self, list: &[&Tensor], dim: &Value) -> Result<Value> {
        self.movedim(self.rows(list)?, dim)
    }

    /// Returns a tensor with a row for each item of a list.
    pub(super) fn rows(&self, list: &[&Tensor]) -> Result<Value> {
        let mut parts: Vec<Value> = Vec::new();
        for run in list.chunk_by(|a, b| items(a).is_none() && items(b).is_none()) {
            parts.push(match run {
                [tensor] if let Some(items) = items(tensor) => match &items.rows {
                    Some((rows, _)) => rows.into(),
                    None => return Err(items.error.clone()),
                },
                run => self
                    .apply(self.ops.stack, &[Arg::list(run.iter().map(|x| Value::from(*x))), Arg::Int(0)])?,
            });
        }
        match &parts[..] {
            [rows] => Ok(rows.clone()),
            _ => self.apply(self.ops.cat, &[Arg::list(parts), Arg::Int(0)]),
        }
    }

    fn cat(&self, list: &[&Tensor], dim: &Value) -> Result<Value> {
        let mut parts: Vec<Value> = Vec::new();
        for tensor in list {
            let Some(items) = items(tensor) else {
                parts.push(Value::from(*tensor));
                continue;
            };
            parts.push(match &items.rows {
                None => return Err(items.error.clone()),
                Some((rows, _)) => {
                    let rank = rows.ty()?.rank() as i64 - 1;
                    let axis = match dim.scalar() {
                        Some(Scalar::Int(axis)) if axis < 0 => axis + rank,
                        Some(Scalar::Int(axis)) => axis,
                        _ => {
                            return Err(err!(
                                Argument,
                                "`cat` of a list that a loop fills takes a number as axis"
                            ));
                        }
                    };
                    let moved = self.movedim(rows.into(), &Arg::Int(axis))?;
                    self.apply(self.ops.flatten, &[moved, Arg::Int(axis), Arg::Int(axis + 1)])?
                }
            });
        }
        match &parts[..] {
            [part] => Ok(part.clone()),
            _ => self.apply(self.ops.cat, &[Arg::list(parts), dim.clone()]),
        }
    }
}
