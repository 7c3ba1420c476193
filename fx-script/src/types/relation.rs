//! How types relate: subtypes, the join of branches, narrowing, and the match of a schema's type.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ClassTable, Type};

/// The types that the variables of a schema stand for.
pub type Bindings = BTreeMap<Arc<str>, Type>;

/// Returns whether every value of type `sub` is one of type `sup`.
///
/// Optionals, unions and tuples are covariant, lists and dictionaries are not; `Any` is above everything, `number`
/// above int, float and complex, a named tuple below the tuple of its fields, a class below the interfaces whose
/// methods it has.
pub fn is_subtype(sub: &Type, sup: &Type, classes: &ClassTable) -> bool {
    if sub == sup {
        return true;
    }
    match (sub, sup) {
        (_, Type::Any) => true,
        (Type::Optional(_) | Type::Union(_), _) => {
            sub.alternatives().iter().all(|item| is_subtype(item, sup, classes))
        }
        (_, Type::Optional(item)) => *sub == Type::None || is_subtype(sub, item, classes),
        (_, Type::Union(items)) => items.iter().any(|item| is_subtype(sub, item, classes)),
        (Type::Int | Type::Float | Type::Complex, Type::Number) => true,
        (Type::List(_), Type::AnyList) => true,
        (Type::Tuple(_) | Type::NamedTuple(_), Type::AnyTuple) => true,
        (Type::Enum(_), Type::AnyEnum) | (Type::Class(_), Type::AnyClass) => true,
        (Type::Tuple(subs), Type::Tuple(sups)) => {
            subs.len() == sups.len()
                && subs.iter().zip(&**sups).all(|(sub, sup)| is_subtype(sub, sup, classes))
        }
        (Type::NamedTuple(_), Type::Tuple(sups)) => classes.of(sub).is_some_and(|class| {
            class.attributes.len() == sups.len()
                && class
                    .attributes
                    .iter()
                    .zip(&**sups)
                    .all(|(field, sup)| is_subtype(&field.declared, sup, classes))
        }),
        (Type::Future(sub), Type::Future(sup)) => is_subtype(sub, sup, classes),
        (Type::Class(_) | Type::Interface(_), Type::Interface(_)) => match (classes.of(sub), classes.of(sup))
        {
            (Some(class), Some(interface)) => interface.methods.iter().all(|method| {
                class.method(&method.name).is_some_and(|own| own.parameters.len() == method.parameters.len())
            }),
            _ => false,
        },
        _ => false,
    }
}

/// Returns the type of a value that comes from either of two places, such as the branches of an `if`.
///
/// Equal types join to themselves, a type and `None` to the optional, a subtype and its supertype to the latter,
/// tuples item by item. Others have no join.
pub fn join(left: &Type, right: &Type, classes: &ClassTable) -> Option<Type> {
    if is_subtype(left, right, classes) {
        return Some(right.clone());
    }
    if is_subtype(right, left, classes) {
        return Some(left.clone());
    }
    match (left, right) {
        (Type::None, other) | (other, Type::None) => Some(Type::optional(other.clone())),
        (Type::Optional(item), other) | (other, Type::Optional(item)) => {
            let other = excluding(other, &Type::None, classes);
            Some(Type::optional(join(item, &other, classes)?))
        }
        (Type::Tuple(lefts), Type::Tuple(rights)) if lefts.len() == rights.len() => {
            let items = lefts.iter().zip(&**rights).map(|(left, right)| join(left, right, classes));
            Some(Type::Tuple(items.collect::<Option<_>>()?))
        }
        (Type::Union(_), _) | (_, Type::Union(_)) => Some(Type::union([left.clone(), right.clone()])),
        _ => None,
    }
}

/// Returns a type without the alternatives that are subtypes of `other`: what remains when `isinstance` says no.
/// A type all of whose alternatives are `other` stays as it is.
pub fn excluding(from: &Type, other: &Type, classes: &ClassTable) -> Type {
    let rest: Vec<Type> =
        from.alternatives().into_iter().filter(|item| !is_subtype(item, other, classes)).collect();
    if rest.is_empty() { from.clone() } else { Type::union(rest) }
}

/// Returns the alternatives of a type that a value may have when `isinstance(value, other)` says yes; `None`
/// if there are none. `Any` narrows to `other`.
pub fn contains(from: &Type, other: &Type, classes: &ClassTable) -> Option<Type> {
    if *from == Type::Any {
        return Some(other.clone());
    }
    let mut kept = Vec::new();
    for item in from.alternatives() {
        if is_subtype(&item, other, classes) {
            kept.push(item);
        } else if is_subtype(other, &item, classes) {
            kept.push(other.clone());
        }
    }
    if kept.is_empty() { None } else { Some(Type::union(kept)) }
}

/// Binds the variables of a schema's type so that it is `actual` or above it; returns whether that is possible.
/// A variable that is bound already may widen by [`join`].
pub fn matches(formal: &Type, actual: &Type, bindings: &mut Bindings, classes: &ClassTable) -> bool {
    match (formal, actual) {
        (Type::Var(name), _) => match bindings.get(name) {
            None => {
                bindings.insert(name.clone(), actual.clone());
                true
            }
            Some(bound) => match join(bound, actual, classes) {
                Some(joined) => {
                    bindings.insert(name.clone(), joined);
                    true
                }
                None => false,
            },
        },
        (Type::Optional(_), Type::None) => true,
        (Type::Optional(formal), Type::Optional(actual)) => matches(formal, actual, bindings, classes),
        (Type::Optional(formal), actual) => matches(formal, actual, bindings, classes),
        (Type::List(formal), Type::List(actual)) if has_variable(formal) => {
            matches(formal, actual, bindings, classes)
        }
        (Type::Future(formal), Type::Future(actual)) => matches(formal, actual, bindings, classes),
        (Type::Dict(key, value), Type::Dict(actual_key, actual_value)) => {
            matches_exactly(key, actual_key, bindings, classes)
                && matches_exactly(value, actual_value, bindings, classes)
        }
        (Type::Tuple(formals), Type::Tuple(actuals)) => {
            formals.len() == actuals.len()
                && formals
                    .iter()
                    .zip(&**actuals)
                    .all(|(formal, actual)| matches(formal, actual, bindings, classes))
        }
        _ => is_subtype(actual, formal, classes),
    }
}

/// Returns a type with its variables replaced by what they stand for.
pub fn substitute(formal: &Type, bindings: &Bindings) -> Type {
    match formal {
        Type::Var(name) => bindings.get(name).unwrap_or(formal).clone(),
        Type::Optional(item) => Type::optional(substitute(item, bindings)),
        Type::List(item) => Type::list(substitute(item, bindings)),
        Type::Future(item) => Type::future(substitute(item, bindings)),
        Type::Dict(key, value) => Type::dict(substitute(key, bindings), substitute(value, bindings)),
        Type::Tuple(items) => Type::tuple(items.iter().map(|item| substitute(item, bindings))),
        other => other.clone(),
    }
}

fn matches_exactly(formal: &Type, actual: &Type, bindings: &mut Bindings, classes: &ClassTable) -> bool {
    if has_variable(formal) { matches(formal, actual, bindings, classes) } else { formal == actual }
}

fn has_variable(formal: &Type) -> bool {
    match formal {
        Type::Var(_) => true,
        Type::Optional(item) | Type::List(item) | Type::Future(item) => has_variable(item),
        Type::Dict(key, value) => has_variable(key) || has_variable(value),
        Type::Tuple(items) | Type::Union(items) => items.iter().any(has_variable),
        _ => false,
    }
}
