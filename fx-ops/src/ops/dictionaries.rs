//! Dictionaries whose keys are found out while a program runs: integers or text.
//!
//! Such a dictionary is a list of pairs in the order of insertion, so that its type is that of a list; looking
//! up a key takes time in proportion to the length. A dictionary whose keys are written in the program is an
//! [`Arg::Dict`], whose entries `getitem` takes; [`dict_pairs`](dict_pairs()) makes it a list of pairs.

use fx_core::op::unknown_type;
use fx_core::ops::{join_types, renewed};
use fx_core::{Arg, Op, Result, Type, TypeTree, Value, bail, err, functions};

use super::lists::{Types, infer_len, items, joined, length, take_items, types};
use super::optional::equal;

/// The tables of this family.
pub static TABLES: &[&[Op]] = &[DICTIONARIES];

functions! {
    pub static DICTIONARIES;

    /// The list of pairs of a dictionary whose keys are written in the program.
    dict_pairs(d: Any) -> Value = pairs_of, pairs_of;

    /// The dictionary with the value `x` for `key`, at the place of the old value or at the end.
    #[in_place = set_in_place]
    dict_set(d: Any, key: Any, x: Any) -> Value = infer_set,
        |d: &Value, key: &Value, x: &Value| set_in_place(&mut [d.clone(), key.clone(), x.clone()]);

    /// The value for `key`. Fails if there is none.
    #[in_place = get_in_place]
    dict_get(d: Any, key: Any) -> Value = infer_get,
        |d: &Value, key: &Value| get_in_place(&mut [d.clone(), key.clone()]);

    /// The value for `key`, or `default` if there is none.
    dict_get_or(d: Any, key: Any, default: Any) -> Value = infer_get_or, eval_get_or;

    /// Whether there is a value for `key`.
    #[in_place = contains_in_place]
    dict_contains(d: Any, key: Any) -> Value = infer_contains,
        |d: &Value, key: &Value| contains_in_place(&mut [d.clone(), key.clone()]);

    /// The keys in order.
    dict_keys(d: Any) -> Value = |d: &TypeTree| infer_part(d, 0), |d: &Value| part(d, 0);

    /// The values in order.
    dict_values(d: Any) -> Value = |d: &TypeTree| infer_part(d, 1), |d: &Value| part(d, 1);

    /// The number of keys.
    dict_len(d: Any) -> Value = infer_len, length;

    /// The dictionary without `key`. Fails if it has no such key.
    #[in_place = delete_in_place]
    dict_delete(d: Any, key: Any) -> Value = infer_delete,
        |d: &Value, key: &Value| delete_in_place(&mut [d.clone(), key.clone()]);
}

fn pairs_of<L: Clone>(d: &Arg<L>) -> Result<Arg<L>> {
    match d {
        Arg::Dict(entries) => {
            Ok(Arg::list(entries.iter().map(|(key, x)| Arg::tuple([Arg::Str(key.clone()), x.clone()]))))
        }
        Arg::List(_) => Ok(d.clone()),
        other => bail!(Argument, "expected a dictionary, got {}", other.kind_name()),
    }
}

/// Takes a pair apart.
fn pair<L>(pair: &Arg<L>) -> Result<(&Arg<L>, &Arg<L>)> {
    match pair {
        Arg::Tuple(items) if items.len() == 2 => Ok((&items[0], &items[1])),
        other => bail!(Argument, "expected pairs of keys and values, got {}", other.kind_name()),
    }
}

/// Refuses keys of other types than integers and text.
fn check_key(key: &Value) -> Result<()> {
    match key {
        Arg::Int(_) | Arg::Str(_) | Arg::Bool(_) => Ok(()),
        other => bail!(Argument, "a key is an integer or text, got {}", other.kind_name()),
    }
}

fn position(d: &Value, key: &Value) -> Result<Option<usize>> {
    check_key(key)?;
    for (at, entry) in items(d)?.iter().enumerate() {
        if equal(pair(entry)?.0, key)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn no_key(key: &Value) -> fx_core::Error {
    err!(Index, "there is no key {key}").help("ask with `dict_contains` first")
}

/// Returns the type of a literal key, and of an entry that has it, if all keys are literals.
fn known_position(entries: &[TypeTree], key: &TypeTree) -> Result<Option<Option<usize>>> {
    let is_literal = |key: &TypeTree| matches!(key, Arg::Int(_) | Arg::Str(_) | Arg::Bool(_));
    for entry in entries {
        if !is_literal(pair(entry)?.0) {
            return Ok(None);
        }
    }
    if !is_literal(key) {
        return Ok(None);
    }
    Ok(Some(entries.iter().position(|entry| pair(entry).is_ok_and(|(other, _)| other == key))))
}

fn set_in_place(args: &mut [Value]) -> Result<Value> {
    let [d, key, x] = args else { return fx_core::op::wrong_arity(&dict_set::OP, args.len()) };
    if matches!(d, Arg::Dict(_)) {
        *d = pairs_of(d)?;
    }
    let at = position(d, key)?;
    let mut entries = take_items(d)?;
    let entry = Arg::tuple([std::mem::replace(key, Arg::None), std::mem::replace(x, Arg::None)]);
    match at {
        Some(at) => drop(entries.replace(at, entry)?),
        None => entries.push(entry)?,
    }
    Ok(Arg::List(entries))
}

fn infer_set(d: &TypeTree, key: &TypeTree, x: &TypeTree) -> Result<TypeTree> {
    let d = if matches!(d, Arg::Dict(_)) { &pairs_of(d)? } else { d };
    let new = Arg::tuple([key.clone(), x.clone()]);
    match types(d)? {
        Types::Known(entries) => match known_position(entries, key)? {
            Some(Some(at)) => {
                let entry =
                    |(i, entry): (usize, &TypeTree)| if i == at { new.clone() } else { entry.clone() };
                Ok(Arg::list(entries.iter().enumerate().map(entry)))
            }
            Some(None) => Ok(Arg::list(entries.iter().cloned().chain([new]))),
            None => Ok(joined(entries.iter().chain([&new]))?.ok_or_else(unknown_type)?.list_of()),
        },
        Types::Each(entry) => Ok(join_types(entry, &new)?.list_of()),
    }
}

fn get_in_place(args: &mut [Value]) -> Result<Value> {
    let [d, key] = args else { return fx_core::op::wrong_arity(&dict_get::OP, args.len()) };
    match position(d, key)? {
        Some(at) => Ok(pair(&items(d)?[at])?.1.clone()),
        None => Err(no_key(key)),
    }
}

/// Returns the type of the value for a key; `None` if there is surely none.
fn value_type(d: &TypeTree, key: &TypeTree) -> Result<Option<TypeTree>> {
    match types(d)? {
        Types::Known(entries) => match known_position(entries, key)? {
            Some(at) => at.map(|at| Ok(pair(&entries[at])?.1.clone())).transpose(),
            None => {
                let values = entries.iter().map(|entry| Ok(pair(entry)?.1)).collect::<Result<Vec<_>>>()?;
                joined(values)
            }
        },
        Types::Each(entry) => Ok(Some(renewed(pair(entry)?.1))),
    }
}

fn infer_get(d: &TypeTree, key: &TypeTree) -> Result<TypeTree> {
    value_type(d, key)?.ok_or_else(unknown_type)
}

fn infer_get_or(d: &TypeTree, key: &TypeTree, default: &TypeTree) -> Result<TypeTree> {
    match value_type(d, key)? {
        Some(value) => join_types(&value, default),
        None => Ok(default.clone()),
    }
}

fn eval_get_or(d: &Value, key: &Value, default: &Value) -> Result<Value> {
    match position(d, key)? {
        Some(at) => Ok(pair(&items(d)?[at])?.1.clone()),
        None => Ok(default.clone()),
    }
}

fn contains_in_place(args: &mut [Value]) -> Result<Value> {
    let [d, key] = args else { return fx_core::op::wrong_arity(&dict_contains::OP, args.len()) };
    position(d, key).map(|at| Arg::Bool(at.is_some()))
}

fn infer_contains(d: &TypeTree, key: &TypeTree) -> Result<TypeTree> {
    if let Types::Known(entries) = types(d)?
        && let Some(at) = known_position(entries, key)?
    {
        return Ok(Arg::Bool(at.is_some()));
    }
    Ok(Arg::Leaf(Type::Bool))
}

fn part(d: &Value, at: usize) -> Result<Value> {
    let parts = items(d)?.iter().map(|entry| pair(entry).map(|pair| [pair.0, pair.1][at].clone()));
    Ok(Arg::list(parts.collect::<Result<Vec<_>>>()?))
}

fn infer_part(d: &TypeTree, at: usize) -> Result<TypeTree> {
    let of = |entry: &TypeTree| pair(entry).map(|pair| [pair.0, pair.1][at].clone());
    match types(d)? {
        Types::Known(entries) => Ok(Arg::list(entries.iter().map(of).collect::<Result<Vec<_>>>()?)),
        Types::Each(entry) => Ok(of(entry)?.list_of()),
    }
}

fn delete_in_place(args: &mut [Value]) -> Result<Value> {
    let [d, key] = args else { return fx_core::op::wrong_arity(&dict_delete::OP, args.len()) };
    let at = position(d, key)?.ok_or_else(|| no_key(key))?;
    let mut entries = take_items(d)?;
    entries.remove(at)?;
    Ok(Arg::List(entries))
}

fn infer_delete(d: &TypeTree, key: &TypeTree) -> Result<TypeTree> {
    match types(d)? {
        Types::Known(entries) => match known_position(entries, key)? {
            Some(Some(at)) => {
                let rest = entries.iter().enumerate().filter(|(i, _)| *i != at);
                Ok(Arg::list(rest.map(|(_, entry)| entry.clone())))
            }
            Some(None) => Err(unknown_type()),
            None => Ok(joined(entries)?.ok_or_else(unknown_type)?.list_of()),
        },
        Types::Each(_) => Ok(d.clone()),
    }
}
