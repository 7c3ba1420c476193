//! Lists of the host, of known or unknown length. A list is a value: a row returns the changed list. It changes
//! the list in place if nobody else has it, so that building a list in a loop takes time in proportion to its
//! length.

use fx_core::op::Default::{Int, None as Nothing};
use fx_core::op::kind::{self, IntOrTensorType, OperandValue, ParamKind};
use fx_core::op::unknown_type;
use fx_core::ops::{join_types, renewed};
use fx_core::{
    Arg, Category, Dim, Items, Op, Result, Scalar, Symbol, Tensor, Type, TypeTree, Value, bail, err,
    functions,
};

use super::optional::equal;

/// The tables of this family.
pub static TABLES: &[&[Op]] = &[LISTS];

functions! {
    pub static LISTS;

    /// The list `xs` with `x` at its end.
    #[in_place = push_in_place]
    list_push(xs: Any, x: Any) -> Value = infer_push, |xs: &Value, x: &Value| push_in_place(&mut [xs.clone(), x.clone()]);

    /// The item of `xs` at position `i`, counted from the end if negative. Fails if there is none.
    #[in_place = get_in_place]
    list_get(xs: Any, i: IntOrTensor) -> Value = infer_get,
        |xs: &Value, i: OperandValue<'_>| item(items(xs)?, position(i)?).cloned();

    /// The list `xs` with `x` at position `i`, counted from the end if negative. Fails if there is no such item.
    #[in_place = set_in_place]
    list_set(xs: Any, i: IntOrTensor, x: Any) -> Value = infer_set,
        |xs: &Value, i: OperandValue<'_>, x: &Value| set_in_place(&mut [xs.clone(), Arg::Int(position(i)?), x.clone()]);

    /// The length of a list.
    #[in_place = len_in_place]
    list_len(xs: Any) -> Value = infer_len, length;

    /// The items of `xs`, then those of `ys`.
    list_concat(xs: Any, ys: Any) -> Value = infer_concat, eval_concat;

    /// The items from `start` to before `stop`, each `step`-th, with the meaning of Python's slices.
    list_slice(xs: Any, start: Any = Nothing, stop: Any = Nothing, step: Any = Int(1)) -> Value = infer_slice, eval_slice;

    /// The item at position `i` and the list without it. Fails if there is none.
    #[in_place = pop_in_place]
    list_pop(xs: Any, i: Any = Int(-1)) -> (Value, Value) = infer_pop,
        |xs: &Value, i: &Value| pop_in_place(&mut [xs.clone(), i.clone()]);

    /// The list with `x` before position `i`, which Python brings into range.
    list_insert(xs: Any, i: IntOrTensor, x: Any) -> Value = infer_insert, eval_insert;

    /// The items in the opposite order.
    list_reverse(xs: Any) -> Value = |xs: &TypeTree| reordered(xs, |xs| xs.iter().rev().cloned().collect()),
        eval_reverse;

    /// The items of `xs`, `n` times; none below 1.
    list_repeat(xs: Any, n: IntOrTensor) -> Value = infer_repeat, eval_repeat;

    /// Whether an item of `xs` equals `x`, as `value_eq` says.
    list_contains(xs: Any, x: Any) -> Value = |xs: &TypeTree, _x: &TypeTree| types(xs).map(|_| Arg::Leaf(Type::Bool)),
        |xs: &Value, x: &Value| find(xs, x).map(|at| Arg::Bool(at.is_some()));

    /// The position of the first item of `xs` that equals `x`. Fails if there is none.
    list_index(xs: Any, x: Any) -> Value = |xs: &TypeTree, _x: &TypeTree| types(xs).map(|_| Arg::Leaf(Type::Int)), eval_index;
}

/// What is known of a list.
pub(super) enum Types<'a> {
    /// The type of each item.
    Known(&'a [TypeTree]),
    /// The type of all items.
    Each(&'a TypeTree),
}

/// Reads the type of a list. Fails if it is none.
pub(super) fn types(xs: &TypeTree) -> Result<Types<'_>> {
    match xs {
        Arg::List(items) => Ok(Types::Known(items)),
        Arg::Leaf(Type::List(item)) => Ok(Types::Each(item)),
        Arg::Leaf(Type::Any) => Err(unknown_type()),
        other => bail!(Argument, "expected a list, got {other}"),
    }
}

/// Reads a list. Fails if it is none.
pub(super) fn items(xs: &Value) -> Result<&[Value]> {
    match xs {
        Arg::List(items) => Ok(items),
        Arg::Failed(error) => Err(error.clone()),
        other => bail!(Argument, "expected a list, got {}", other.kind_name()),
    }
}

/// Takes a list out of an argument.
pub(super) fn take_items(xs: &mut Value) -> Result<Items<Tensor>> {
    match std::mem::replace(xs, Arg::None) {
        Arg::List(items) => Ok(items),
        Arg::Failed(error) => Err(error),
        other => bail!(Argument, "expected a list, got {}", other.kind_name()),
    }
}

/// Returns a position that may be counted from the end.
fn place(i: i64, n: usize) -> Result<usize> {
    let at = if i < 0 { i.wrapping_add(n as i64) } else { i };
    usize::try_from(at).ok().filter(|at| *at < n).ok_or_else(|| {
        err!(Index, "the position {i} is out of range for a list of {n} items")
            .help("compare it with `list_len` first")
    })
}

fn item<T>(items: &[T], i: i64) -> Result<&T> {
    Ok(&items[place(i, items.len())?])
}

/// Reads an integer, which may be a tensor of one element.
fn int(i: &Value) -> Result<i64> {
    match i {
        Arg::Int(i) => Ok(*i),
        Arg::Leaf(tensor) => position(OperandValue::Array(tensor.array()?)),
        other => bail!(Argument, "a position is an integer, got {}", other.kind_name()),
    }
}

fn position(i: OperandValue<'_>) -> Result<i64> {
    let i = match i {
        OperandValue::Scalar(i) => i,
        OperandValue::Array(array) => array.item()?,
    };
    match i {
        Scalar::Int(i) => Ok(i),
        other => bail!(Argument, "a position is an integer, got {other:?}"),
    }
}

/// Returns an integer that is known while types are propagated.
fn known(i: IntOrTensorType<'_>) -> Result<Option<i64>> {
    match i {
        IntOrTensorType::Int(i) => Ok(i.and_then(|i| i.known())),
        IntOrTensorType::Tensor(ty)
            if ty.dtype.category() == Category::Int && ty.shape.numel().known().is_none_or(|n| n == 1) =>
        {
            Ok(None)
        }
        IntOrTensorType::Tensor(ty) => bail!(Argument, "a position is an integer, got {ty}"),
    }
}

/// Returns the bound of a slice, if it has one.
fn bound(at: &Value) -> Result<Option<i64>> {
    if matches!(at, Arg::None) { Ok(None) } else { int(at).map(Some) }
}

/// Returns the bound of a slice while types are propagated; `None` if it is not known.
fn known_bound(at: &TypeTree) -> Result<Option<Option<i64>>> {
    match at {
        Arg::None => Ok(Some(None)),
        Arg::Leaf(Type::Optional(inner)) => known_bound(inner).map(|_| None),
        at => Ok(known(<kind::IntOrTensor as ParamKind>::ty(at)?)?.map(Some)),
    }
}

/// The join of the types of all items and another one; `None` if there is none at all.
pub(super) fn joined<'a>(items: impl IntoIterator<Item = &'a TypeTree>) -> Result<Option<TypeTree>> {
    let mut items = items.into_iter();
    let Some(first) = items.next() else { return Ok(None) };
    items.try_fold(first.clone(), |joined, item| join_types(&joined, item)).map(Some)
}

fn push_in_place(args: &mut [Value]) -> Result<Value> {
    let [xs, x] = args else { return fx_core::op::wrong_arity(&list_push::OP, args.len()) };
    let mut items = take_items(xs)?;
    items.push(std::mem::replace(x, Arg::None))?;
    Ok(Arg::List(items))
}

fn infer_push(xs: &TypeTree, x: &TypeTree) -> Result<TypeTree> {
    match types(xs)? {
        Types::Known(items) => Ok(Arg::list(items.iter().cloned().chain([x.clone()]))),
        Types::Each(item) => Ok(join_types(item, x)?.list_of()),
    }
}

fn get_in_place(args: &mut [Value]) -> Result<Value> {
    let [xs, i] = args else { return fx_core::op::wrong_arity(&list_get::OP, args.len()) };
    item(items(xs)?, int(i)?).cloned()
}

/// A position as types are propagated: an integer that may be known.
fn infer_get(xs: &TypeTree, i: IntOrTensorType<'_>) -> Result<TypeTree> {
    match (types(xs)?, known(i)?) {
        (Types::Known(items), Some(i)) => item(items, i).cloned(),
        (Types::Known(items), None) => {
            joined(items)?.map(|ty| renewed(&ty.general())).ok_or_else(unknown_type)
        }
        (Types::Each(item), _) => Ok(renewed(item)),
    }
}

fn set_in_place(args: &mut [Value]) -> Result<Value> {
    let [xs, i, x] = args else { return fx_core::op::wrong_arity(&list_set::OP, args.len()) };
    let (mut items, i) = (take_items(xs)?, int(i)?);
    let at = place(i, items.len())?;
    items.replace(at, std::mem::replace(x, Arg::None))?;
    Ok(Arg::List(items))
}

fn infer_set(xs: &TypeTree, i: IntOrTensorType<'_>, x: &TypeTree) -> Result<TypeTree> {
    match (types(xs)?, known(i)?) {
        (Types::Known(items), Some(i)) => {
            let at = place(i, items.len())?;
            let new = |(j, item): (usize, &TypeTree)| if j == at { x.clone() } else { item.clone() };
            Ok(Arg::list(items.iter().enumerate().map(new)))
        }
        (Types::Known(items), None) => {
            let new = items.iter().map(|item| join_types(item, x)).collect::<Result<Vec<_>>>()?;
            Ok(Arg::list(new))
        }
        (Types::Each(item), _) => Ok(join_types(item, x)?.list_of()),
    }
}

fn len_in_place(args: &mut [Value]) -> Result<Value> {
    let [xs] = args else { return fx_core::op::wrong_arity(&list_len::OP, args.len()) };
    length(xs)
}

pub(super) fn length(xs: &Value) -> Result<Value> {
    Ok(Value::from(items(xs)?.len()))
}

/// A length that is not known is a size that depends on data.
pub(super) fn infer_len(xs: &TypeTree) -> Result<TypeTree> {
    Ok(match types(xs)? {
        Types::Known(items) => Arg::Int(items.len() as i64),
        Types::Each(_) => Arg::dim(Dim::symbol(Symbol::fresh(0))),
    })
}

fn eval_concat(xs: &Value, ys: &Value) -> Result<Value> {
    Ok(Arg::list(items(xs)?.iter().chain(items(ys)?).cloned()))
}

fn eval_reverse(xs: &Value) -> Result<Value> {
    Ok(Arg::list(items(xs)?.iter().rev().cloned()))
}

fn infer_concat(xs: &TypeTree, ys: &TypeTree) -> Result<TypeTree> {
    Ok(match (types(xs)?, types(ys)?) {
        (Types::Known(xs), Types::Known(ys)) => Arg::list(xs.iter().chain(ys).cloned()),
        (Types::Each(x), Types::Each(y)) => join_types(x, y)?.list_of(),
        (Types::Each(x), Types::Known(items)) | (Types::Known(items), Types::Each(x)) => {
            joined(items.iter().chain([x]))?.ok_or_else(unknown_type)?.list_of()
        }
    })
}

/// Returns the positions of a slice.
pub(super) fn positions(n: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> Result<Vec<usize>> {
    if step == 0 {
        bail!(Argument, "the step of a slice is not 0");
    }
    let n = n as i64;
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let bound = |at: i64| (if at < 0 { at.saturating_add(n) } else { at }).clamp(low, high);
    let mut at = start.map_or(if step > 0 { low } else { high }, bound);
    let stop = stop.map_or(if step > 0 { high } else { low }, bound);
    let mut found = Vec::new();
    while if step > 0 { at < stop } else { at > stop } {
        found.push(at as usize);
        at = at.saturating_add(step);
    }
    Ok(found)
}

fn eval_slice(xs: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value> {
    let items = items(xs)?;
    let at = positions(items.len(), bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1))?;
    Ok(Arg::list(at.into_iter().map(|at| items[at].clone())))
}

fn infer_slice(xs: &TypeTree, start: &TypeTree, stop: &TypeTree, step: &TypeTree) -> Result<TypeTree> {
    match (types(xs)?, known_bound(start)?, known_bound(stop)?, known_bound(step)?) {
        (Types::Known(items), Some(start), Some(stop), Some(step)) => {
            let at = positions(items.len(), start, stop, step.unwrap_or(1))?;
            Ok(Arg::list(at.into_iter().map(|at| items[at].clone())))
        }
        (Types::Known(items), ..) => Ok(joined(items)?.ok_or_else(unknown_type)?.list_of()),
        (Types::Each(_), ..) => Ok(xs.clone()),
    }
}

fn pop_in_place(args: &mut [Value]) -> Result<Value> {
    let [xs, i] = args else { return fx_core::op::wrong_arity(&list_pop::OP, args.len()) };
    let (mut items, i) = (take_items(xs)?, int(i)?);
    let at = place(i, items.len())?;
    let item = items.remove(at)?;
    Ok(Arg::tuple([item, Arg::List(items)]))
}

fn infer_pop(xs: &TypeTree, i: &TypeTree) -> Result<TypeTree> {
    Ok(match (types(xs)?, known(<kind::IntOrTensor as ParamKind>::ty(i)?)?) {
        (Types::Known(items), Some(i)) => {
            let at = place(i, items.len())?;
            let rest = items.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, item)| item.clone());
            Arg::tuple([items[at].clone(), Arg::list(rest)])
        }
        (Types::Known(items), None) => {
            let item = joined(items)?.ok_or_else(unknown_type)?;
            Arg::tuple([item.clone(), item.list_of()])
        }
        (Types::Each(item), _) => Arg::tuple([renewed(item), xs.clone()]),
    })
}

fn eval_insert(xs: &Value, i: OperandValue<'_>, x: &Value) -> Result<Value> {
    let i = position(i)?;
    let mut items = take_items(&mut xs.clone())?;
    items.insert(insertion(i, items.len()), x.clone())?;
    Ok(Arg::List(items))
}

/// Returns where Python inserts: the ends stand for what lies beyond.
fn insertion(i: i64, n: usize) -> usize {
    let at = if i < 0 { i.saturating_add(n as i64) } else { i };
    at.clamp(0, n as i64) as usize
}

fn infer_insert(xs: &TypeTree, i: IntOrTensorType<'_>, x: &TypeTree) -> Result<TypeTree> {
    match (types(xs)?, known(i)?) {
        (Types::Known(items), Some(i)) => {
            let mut items = items.to_vec();
            items.insert(insertion(i, items.len()), x.clone());
            Ok(Arg::list(items))
        }
        (Types::Known(items), None) => {
            Ok(joined(items.iter().chain([x]))?.ok_or_else(unknown_type)?.list_of())
        }
        (Types::Each(item), _) => Ok(join_types(item, x)?.list_of()),
    }
}

/// The type of a list of the same items in another order.
fn reordered(xs: &TypeTree, order: fn(&[TypeTree]) -> Vec<TypeTree>) -> Result<TypeTree> {
    match types(xs)? {
        Types::Known(items) => Ok(Arg::list(order(items))),
        Types::Each(_) => Ok(xs.clone()),
    }
}

/// The most items of a list that is repeated.
const MAX_ITEMS: usize = 1 << 28;

fn eval_repeat(xs: &Value, n: OperandValue<'_>) -> Result<Value> {
    let items = items(xs)?;
    let n = usize::try_from(position(n)?).unwrap_or(0);
    if items.len().saturating_mul(n) > MAX_ITEMS {
        bail!(
            Limit,
            "a list of {} items is repeated {n} times, which are more than {MAX_ITEMS}",
            items.len()
        );
    }
    Ok(Arg::list((0..n).flat_map(|_| items).cloned()))
}

fn infer_repeat(xs: &TypeTree, n: IntOrTensorType<'_>) -> Result<TypeTree> {
    match (types(xs)?, known(n)?) {
        (Types::Known(items), Some(n))
            if items.len().saturating_mul(usize::try_from(n).unwrap_or(0)) <= 4096 =>
        {
            Ok(Arg::list((0..n.max(0)).flat_map(|_| items).cloned()))
        }
        (Types::Known(items), _) => Ok(joined(items)?.ok_or_else(unknown_type)?.list_of()),
        (Types::Each(_), _) => Ok(xs.clone()),
    }
}

/// Returns the position of the first item that equals a value.
fn find(xs: &Value, x: &Value) -> Result<Option<usize>> {
    for (at, item) in items(xs)?.iter().enumerate() {
        if equal(item, x)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn eval_index(xs: &Value, x: &Value) -> Result<Value> {
    match find(xs, x)? {
        Some(at) => Ok(Value::from(at)),
        None => Err(err!(Index, "{x} is not in the list").help("ask with `list_contains` first")),
    }
}
