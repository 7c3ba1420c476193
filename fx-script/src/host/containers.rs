//! Lists and dictionaries.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::Arc;

use fx_core::portable::select;
use fx_core::{Error, Result, bail, err};

use super::numbers::order;
use super::{Row, arg};
use crate::value::{Dict, Key, List, Value, is_same, shown, transaction, values_equal};

fn list<'a>(args: &[&'a Value]) -> Result<&'a Arc<List>> {
    arg(args, 0)?.to_list()
}

fn dict<'a>(args: &[&'a Value]) -> Result<&'a Arc<Dict>> {
    arg(args, 0)?.to_dict()
}

fn out_of_range() -> Error {
    err!(Index, "list index out of range")
}

/// The place of an index, which counts from the end if it is negative.
fn place(index: i64, n: usize) -> Result<usize> {
    let at = if index < 0 { index + n as i64 } else { index };
    usize::try_from(at).ok().filter(|&at| at < n).ok_or_else(out_of_range)
}

/// Returns the places that a slice of `n` items takes, in its order; the arguments, start, end and step, follow
/// the sliced value. Fails if the step is zero.
pub(super) fn slice_places(
    args: &[&Value],
    n: usize,
) -> Result<impl ExactSizeIterator<Item = usize> + use<>> {
    let n = n as i64;
    let step = args.get(3).map_or(Ok(1), |step| step.to_int())?;
    if step == 0 {
        return Err(err!(Index, "a slice has a step that is not zero"));
    }
    // A step backwards begins at the last item, and ends before the first.
    let (least, most) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let bound = |at: usize, default: i64| -> Result<i64> {
        match args.get(at) {
            None | Some(Value::None) => Ok(default),
            Some(value) => {
                let index = value.to_int()?;
                let index = if index < 0 { index.saturating_add(n) } else { index };
                Ok(index.clamp(least, most))
            }
        }
    };
    let (start, end) = match step > 0 {
        true => (bound(1, 0)?, bound(2, n)?),
        false => (bound(1, n - 1)?, bound(2, -1)?),
    };
    let distance = if step > 0 { end - start } else { start - end };
    let width = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
    let count = usize::try_from(distance).unwrap_or(0).div_ceil(width);
    Ok((0..count).map(move |i| (start + i as i64 * step) as usize))
}

fn none(_: ()) -> Result<Value> {
    Ok(Value::None)
}

fn repeated(items: &Value, n: &Value) -> Result<Vec<Value>> {
    let (items, n) = (items.to_items()?, usize::try_from(n.to_int()?).unwrap_or(0));
    transaction::charge(items.len() as u128 * n as u128 * size_of::<Value>() as u128)?;
    let mut out = Vec::with_capacity(items.len() * n);
    (0..n).for_each(|_| out.extend(items.iter().cloned()));
    Ok(out)
}

/// Removes and returns an item, which is dropped when the list is free again.
fn remove_at(list: &Arc<List>, index: i64) -> Result<Value> {
    list.edit(|items| {
        if items.is_empty() {
            return Err(err!(Index, "pop from empty list"));
        }
        let at = place(index, items.len())?;
        Ok(items.remove(at))
    })
}

fn position(args: &[&Value]) -> Result<Option<usize>> {
    let wanted = arg(args, 1)?;
    for (at, item) in list(args)?.read(Clone::clone).iter().enumerate() {
        if values_equal(item, wanted)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Sorts as `std::sort` of C++ does, also where NaN makes the order inconsistent.
fn sort(items: &mut Vec<Value>, reverse: bool) -> Result<()> {
    let wanted = if reverse { Ordering::Greater } else { Ordering::Less };
    let failed = RefCell::new(None);
    let less = |a: &usize, b: &usize| match ordering(&items[*a], &items[*b]) {
        Ok(order) => order == wanted,
        Err(error) => {
            failed.borrow_mut().get_or_insert(error);
            false
        }
    };
    let mut places: Vec<usize> = (0..items.len()).collect();
    select::sort(&mut places, &less);
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    *items = places.into_iter().map(|place| items[place].clone()).collect();
    Ok(())
}

/// Orders numbers, texts, and tuples of them; NaN is neither less nor greater than anything.
fn ordering(a: &Value, b: &Value) -> Result<Ordering> {
    match (a, b) {
        (Value::Tuple(a), Value::Tuple(b)) => {
            for (a, b) in a.items.iter().zip(&b.items) {
                match ordering(a, b)? {
                    Ordering::Equal => {}
                    other => return Ok(other),
                }
            }
            Ok(a.items.len().cmp(&b.items.len()))
        }
        (Value::Tensor(a), Value::Tensor(b)) => ordering(&a.item()?, &b.item()?),
        _ => Ok(order(a, b)?.unwrap_or(Ordering::Equal)),
    }
}

fn sum(args: &[&Value]) -> Result<Value> {
    let items = arg(args, 0)?.to_items()?;
    if items.iter().any(|item| matches!(item, Value::Complex(_))) {
        let mut total = (0.0, 0.0);
        for item in &items {
            let (re, im) = item.to_complex()?;
            total = (total.0 + re, total.1 + im);
        }
        return Ok(Value::complex(total.0, total.1));
    }
    if items.iter().any(|item| matches!(item, Value::Float(_))) {
        return items.iter().try_fold(0.0, |total, item| Ok(total + item.to_float()?)).map(Value::Float);
    }
    items.iter().try_fold(0i64, |total, item| Ok(total.wrapping_add(item.to_int()?))).map(Value::Int)
}

fn is_true(value: &Value) -> Result<bool> {
    match value {
        Value::Str(text) => Ok(!text.is_empty()),
        other => Ok(other.to_float()? != 0.0),
    }
}

fn key(args: &[&Value]) -> Result<Key> {
    Key::of(arg(args, 1)?)
}

fn missing_key(args: &[&Value]) -> Result<Value> {
    Err(err!(Index, "KeyError: {}", shown(arg(args, 1)?)?))
}

fn get(args: &[&Value]) -> Result<Option<Value>> {
    let key = key(args)?;
    Ok(dict(args)?.read(|entries| entries.get(&key).cloned()))
}

fn entries(args: &[&Value], f: fn(&(Value, Value)) -> Value) -> Result<Value> {
    Ok(Value::list(dict(args)?.read(|entries| entries.iter().map(f).collect())))
}

fn pop_key(args: &[&Value]) -> Result<Value> {
    let key = key(args)?;
    match (dict(args)?.edit(|entries| entries.remove(&key)), args.get(2)) {
        (Some((_, value)), _) => Ok(value),
        (None, Some(default)) => Ok((*default).clone()),
        (None, None) => missing_key(args),
    }
}

fn update(args: &[&Value]) -> Result<Value> {
    let (target, source) = (dict(args)?, arg(args, 1)?.to_dict()?);
    if is_same(args[0], args[1]) {
        return Ok(Value::None);
    }
    let added = source.read(Clone::clone);
    target
        .edit(|entries| added.iter().try_for_each(|(key, value)| entries.insert(key.clone(), value.clone())))
        .and_then(none)
}

fn dict_of(args: &[&Value]) -> Result<Value> {
    match arg(args, 0)? {
        Value::Dict(dict) => Value::dict(dict.read(Clone::clone).iter().cloned()),
        other => {
            let mut pairs = Vec::new();
            for item in other.to_items()? {
                match &*item.to_items()? {
                    [key, value] => pairs.push((key.clone(), value.clone())),
                    _ => bail!(Structure, "expected pairs of keys and values"),
                }
            }
            Value::dict(pairs)
        }
    }
}

fn flag(args: &[&Value], at: usize) -> Result<bool> {
    args.get(at).map_or(Ok(false), |flag| flag.to_bool())
}

const KEYS: &str = "str int bool float complex Tensor";
const DICTS: &str = "Dict_str Dict_int Dict_bool Dict_float Dict_complex Dict_Tensor";

#[rustfmt::skip]
pub(super) static TABLE: &[Row] = &[
    ("aten::len", "t any", |_, a| match arg(a, 0)? {
        Value::Tuple(tuple) => Ok(Value::Int(tuple.items.len() as i64)),
        _ => Ok(Value::Int(list(a)?.read(Vec::len) as i64)) }),
    ("aten::__getitem__", "t", |_, a| { let index = arg(a, 1)?.to_int()?; list(a)?.read(|items| Ok(items[place(index, items.len())?].clone())) }),
    ("aten::select", "t", |_, a| { let index = arg(a, 1)?.to_int()?; list(a)?.read(|items| Ok(items[place(index, items.len())?].clone())) }),
    ("aten::_set_item", "t", |_, a| { let (index, item) = (arg(a, 1)?.to_int()?, arg(a, 2)?.clone());
        let old = list(a)?.edit(|items| { let at = place(index, items.len())?; Ok::<_, Error>(std::mem::replace(&mut items[at], item)) })?;
        drop(old); Ok(a[0].clone()) }),
    ("aten::append", "t", |_, a| { let item = arg(a, 1)?.clone(); list(a)?.edit(|items| items.push(item)); Ok(a[0].clone()) }),
    ("aten::extend", "t", |_, a| { let more = arg(a, 1)?.to_items()?; list(a)?.edit(|items| items.extend(more)); Ok(Value::None) }),
    ("aten::add_", "t", |_, a| { let more = arg(a, 1)?.to_items()?; list(a)?.edit(|items| items.extend(more)); Ok(a[0].clone()) }),
    ("aten::add", "t", |_, a| { let (mut items, more) = (arg(a, 0)?.to_items()?, arg(a, 1)?.to_items()?); items.extend(more); Ok(Value::list(items)) }),
    ("aten::mul", "left_t", |_, a| repeated(arg(a, 0)?, arg(a, 1)?).map(Value::list)),
    ("aten::mul", "right_", |_, a| repeated(arg(a, 1)?, arg(a, 0)?).map(Value::list)),
    ("aten::mul_", "t", |_, a| { let items = repeated(arg(a, 0)?, arg(a, 1)?)?; let old = list(a)?.edit(|old| std::mem::replace(old, items)); drop(old); Ok(a[0].clone()) }),
    ("aten::insert", "t", |_, a| { let (index, item) = (arg(a, 1)?.to_int()?, arg(a, 2)?.clone()); list(a)?.edit(|items| {
        let n = items.len() as i64; let at = if index < 0 { (index + n).max(0) } else { index.min(n) }; items.insert(at as usize, item); }); Ok(Value::None) }),
    ("aten::pop", "t", |_, a| remove_at(list(a)?, args_or(a, 1, -1)?)),
    ("aten::Delete", "t", |_, a| remove_at(list(a)?, arg(a, 1)?.to_int()?).map(|_| Value::None)),
    ("aten::clear", "t", |_, a| { let old = list(a)?.edit(std::mem::take); drop(old); Ok(Value::None) }),
    ("aten::reverse", "t", |_, a| { list(a)?.edit(|items| items.reverse()); Ok(Value::None) }),
    ("aten::copy", "t", |_, a| Ok(Value::list(list(a)?.read(Clone::clone)))), ("aten::list", "t", |_, a| Ok(Value::list(arg(a, 0)?.to_items()?))),
    ("aten::slice", "t", |_, a| { let places = slice_places(a, list(a)?.read(Vec::len))?;
        Ok(Value::list(list(a)?.read(|items| places.map(|at| items[at].clone()).collect()))) }),
    ("aten::sort", "int float bool str any Tensor", |_, a| { let mut items = list(a)?.read(Clone::clone); sort(&mut items, flag(a, 1)?)?;
        let old = list(a)?.edit(|old| std::mem::replace(old, items)); drop(old); Ok(Value::None) }),
    ("aten::sorted", "int float bool str any Tensor", |_, a| { let mut items = arg(a, 0)?.to_items()?; sort(&mut items, false)?; Ok(Value::list(items)) }),
    ("aten::count", "int float bool str Tensor", |_, a| { let mut n = 0;
        for item in list(a)?.read(Clone::clone) { n += i64::from(values_equal(&item, arg(a, 1)?)?); } Ok(Value::Int(n)) }),
    ("aten::index", "list_int list_float list_bool list_str list_Tensor", |_, a| match position(a)? {
        Some(at) => Ok(Value::Int(at as i64)), None => Err(err!(Argument, "'{}' is not in list", shown(arg(a, 1)?)?)) }),
    ("aten::remove", "int float bool str Tensor", |_, a| match position(a)? {
        Some(at) => remove_at(list(a)?, at as i64).map(|_| Value::None), None => Err(err!(Argument, "list.remove(x): x not in list")) }),
    ("aten::__contains__", "int_list str_list float_list", |_, a| Ok(Value::Bool(position(a)?.is_some()))),
    ("aten::all", "int float bool", |_, a| { for item in arg(a, 0)?.to_items()? { if !is_true(&item)? { return Ok(Value::Bool(false)); } } Ok(Value::Bool(true)) }),
    ("aten::any", "str int float bool", |_, a| { for item in arg(a, 0)?.to_items()? { if is_true(&item)? { return Ok(Value::Bool(true)); } } Ok(Value::Bool(false)) }),
    ("aten::sum", "int float complex bool", |_, a| sum(a)),
    ("prim::rangelist", "-", |_, a| { let n = arg(a, 0)?.to_int()?.max(0); transaction::charge(n as u128 * size_of::<Value>() as u128)?; Ok(Value::ints(0..n)) }),
    ("aten::Size", "-", |_, a| Ok(Value::list(arg(a, 0)?.to_items()?))),
    ("aten::len", DICTS, |_, a| Ok(Value::Int(dict(a)?.read(crate::value::Entries::len) as i64))),
    ("aten::__getitem__", DICTS, |_, a| get(a)?.map_or_else(|| missing_key(a), Ok)),
    ("aten::get", KEYS, |_, a| Ok(get(a)?.unwrap_or_default())),
    ("aten::get", "default_str default_int default_bool default_float default_complex default_Tensor", |_, a| get(a)?.map_or_else(|| arg(a, 2).cloned(), Ok)),
    ("aten::__contains__", KEYS, |_, a| Ok(Value::Bool(get(a)?.is_some()))),
    ("aten::_set_item", KEYS, |_, a| { let (key, value) = (arg(a, 1)?.clone(), arg(a, 2)?.clone()); dict(a)?.edit(|entries| entries.insert(key, value)).and_then(none) }),
    ("aten::setdefault", KEYS, |_, a| match get(a)? { Some(value) => Ok(value), None => { let value = arg(a, 2)?.clone();
        dict(a)?.edit(|entries| entries.insert(a[1].clone(), value.clone()))?; Ok(value) } }),
    ("aten::Delete", DICTS, |_, a| pop_key(&a[..2]).map(|_| Value::None)), ("aten::pop", DICTS, |_, a| pop_key(a)),
    ("aten::pop", "Dict_default_str Dict_default_int Dict_default_bool Dict_default_float Dict_default_complex Dict_default_Tensor", |_, a| pop_key(a)),
    ("aten::popitem", KEYS, |_, a| match dict(a)?.edit(crate::value::Entries::pop_last) {
        Some((key, value)) => Ok(Value::tuple([key, value])), None => Err(err!(Index, "popitem(): dictionary is empty")) }),
    ("aten::clear", KEYS, |_, a| { let old = dict(a)?.edit(std::mem::take); drop(old); Ok(Value::None) }),
    ("aten::update", KEYS, |_, a| update(a)), ("aten::copy", DICTS, |_, a| dict_of(a)), ("aten::dict", "-", |_, _| Value::dict([])),
    ("aten::dict", DICTS, |_, a| dict_of(a)), ("aten::dict", KEYS, |_, a| dict_of(a)),
    ("aten::keys", KEYS, |_, a| entries(a, |(key, _)| key.clone())), ("aten::values", KEYS, |_, a| entries(a, |(_, value)| value.clone())),
    ("aten::items", KEYS, |_, a| entries(a, |(key, value)| Value::tuple([key.clone(), value.clone()]))),
];

fn args_or(args: &[&Value], at: usize, default: i64) -> Result<i64> {
    args.get(at).map_or(Ok(default), |value| value.to_int())
}
