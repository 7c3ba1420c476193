//! Lists of tensors whose number data decide: tensors with the items along the first axis.

use fx_core::{Arg, Dim, Result, bail, err};

use super::{Args, Emit};
use crate::standalone::lower::Lowering;
use crate::standalone::value::{StandsFor, Value, View};

pub(super) const TABLE: &[(&str, Emit)] = &[("list_push", push), ("list_get", get), ("list_len", length)];

impl Lowering<'_> {
    /// Returns a list as one tensor, with items like those of another one.
    pub(super) fn list(&mut self, value: &Value, like: &View) -> Result<View> {
        let items = match value {
            Arg::Leaf(view) if view.is_list() => return Ok(view.clone()),
            Arg::List(items) => items,
            other => bail!(Unresolved, "expected a list, got {}", other.kind_name()),
        };
        let mut shape = like.shape.clone();
        shape[0] = Dim::from(items.len());
        let list = self.buffer(like.dtype, &shape);
        for (i, item) in items.iter().enumerate() {
            let fits = |item: &&View| item.shape[..] == shape[1..] && item.dtype == list.dtype;
            let Some(item) = item.leaf().filter(fits) else {
                bail!(Unresolved, "a list has items of several types");
            };
            self.copy(item, &item_of(&list, Dim::from(i)));
        }
        Ok(list.standing_for(StandsFor::List))
    }
}

/// Returns the item at a position.
fn item_of(list: &View, at: Dim) -> View {
    let mut item = View { offset: &list.offset + at * &list.strides[0], ..list.clone() };
    item.shape.remove(0);
    item.strides.remove(0);
    item.standing_for(StandsFor::Tensor)
}

fn push(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (xs, x) = (args.get("xs")?, args.get("x")?);
    if let (Arg::List(items), Arg::List(_)) = (xs, args.ty) {
        return Ok(Arg::list(items.iter().chain([x]).cloned()));
    }
    let Some(x) = x.leaf() else { bail!(Unresolved, "an item is {}", x.kind_name()) };
    let like = View { shape: [&[Dim::new(0)], &x.shape[..]].concat(), ..x.clone() };
    let xs = l.list(xs, &like)?;
    if xs.shape[1..] != x.shape[..] || xs.dtype != x.dtype {
        bail!(Unresolved, "a list of {} gets {}", xs.ty(), x.ty());
    }
    let mut shape = xs.shape.clone();
    shape[0] = &shape[0] + 1;
    let out = l.buffer(xs.dtype, &shape);
    l.copy(&xs, &View { shape: xs.shape.clone(), ..out.clone() });
    l.copy(x, &item_of(&out, xs.shape[0].clone()));
    Ok(Arg::Leaf(out.standing_for(StandsFor::List)))
}

fn get(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (xs, i) = (args.get("xs")?, args.get("i")?);
    match (xs, i) {
        (Arg::List(items), Arg::Int(i)) => {
            let n = items.len() as i64;
            let at = usize::try_from(if *i < 0 { i + n } else { *i }).ok().and_then(|at| items.get(at));
            at.cloned().ok_or_else(|| err!(Index, "there is no item {i} of {n}"))
        }
        (Arg::Leaf(list), _) if list.is_list() => {
            let at = super::from_front(i, &list.shape[0])?;
            l.require(at.clone());
            l.require(&list.shape[0] - &at - 1);
            Ok(Arg::Leaf(item_of(list, at)))
        }
        _ => bail!(Unresolved, "the position {} is not known", i.kind_name()),
    }
}

fn length(_: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    match args.get("xs")? {
        Arg::List(items) => Ok(Arg::Int(items.len() as i64)),
        Arg::Leaf(list) if list.is_list() => Ok(Arg::dim(list.shape[0].clone())),
        other => bail!(Unresolved, "expected a list, got {}", other.kind_name()),
    }
}

/// Stacks the items of a list along an axis.
pub(super) fn stacked(l: &mut Lowering<'_>, args: &Args<'_>, list: &View) -> Result<Value> {
    let axis = args.axis("dim", list.rank())?;
    l.require(&list.shape[0] - 1);
    l.adopted(&Arg::Leaf(with_items_at(list, axis)), args.ty)
}

/// Joins the items of a list along an axis.
pub(super) fn joined(l: &mut Lowering<'_>, args: &Args<'_>, list: &View) -> Result<Value> {
    let axis = args.axis("dim", list.rank() - 1)?;
    l.require(&list.shape[0] - 1);
    let dense = l.contiguous(&with_items_at(list, axis));
    let mut shape = dense.shape.clone();
    let n = shape.remove(axis);
    shape[axis] = &shape[axis] * n;
    let joined = View { offset: dense.offset, ..View::whole(dense.home, dense.dtype, &shape) };
    l.adopted(&Arg::Leaf(joined), args.ty)
}

/// Returns a list as a tensor with the items along an axis.
fn with_items_at(list: &View, axis: usize) -> View {
    let mut order: Vec<usize> = (1..list.rank()).collect();
    order.insert(axis, 0);
    list.permute(&order).standing_for(StandsFor::Tensor)
}
