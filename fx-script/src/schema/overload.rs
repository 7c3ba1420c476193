//! Overload resolution: which schema a call means, and how its arguments fill the parameters.

use std::sync::Arc;

use super::{Default, Parameter, Schema, overloads};
use crate::types::{Bindings, ClassTable, Type, is_subtype, matches, substitute};

/// A call whose overload is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The overload.
    pub schema: &'static Schema,
    /// How each parameter is filled, in order.
    pub slots: Vec<Slot>,
    /// The positional arguments beyond the parameters, of a variadic operator.
    pub variadic: Vec<usize>,
    /// The types of the results; `None` if the schema does not say.
    pub returns: Option<Vec<Type>>,
}

/// How a parameter is filled. Arguments are numbered: positional ones first, then those by name.
#[derive(Debug, Clone, PartialEq)]
pub enum Slot {
    /// An argument.
    Given(usize, Conversion),
    /// A list of arguments: `x.view(1, 2)`.
    Gathered(Vec<(usize, Conversion)>, Type),
    /// The default of the parameter.
    Default(Default),
}

/// How an argument becomes what a parameter takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Conversion {
    /// As it is.
    None,
    /// By an operator of one argument, such as `aten::IntImplicit`, which gives this type.
    Operator(&'static str, Type),
    /// A tuple to a list of its items, which have this type.
    TupleToList(Type),
    /// An item to a list of so many of it: 2 to `int[2]`.
    Repeated(u32, Type),
}

/// Whether values may be converted implicitly.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    Exact,
    Converting,
}

/// Returns the overload of an operator such as `aten::add` for the types of arguments.
///
/// Fails with one line for each overload that says why it does not fit.
pub fn resolve(
    name: &str,
    positional: &[Type],
    named: &[(Arc<str>, Type)],
    classes: &ClassTable,
) -> Result<Call, Vec<String>> {
    let mut reasons = Vec::new();
    for round in [Round::Exact, Round::Converting] {
        for schema in overloads(name).filter(|schema| !lacks_out(schema, named)) {
            match fit(schema, positional, named, classes, round) {
                Ok(call) => return Ok(call),
                Err(reason) if round == Round::Converting => reasons.push(format!("{schema}: {reason}")),
                Err(_) => {}
            }
        }
    }
    Err(reasons)
}

/// Returns whether an overload writes to a tensor such as `out`, which a call does not give.
fn lacks_out(schema: &Schema, named: &[(Arc<str>, Type)]) -> bool {
    let is_out = |parameter: &Parameter| parameter.is_written && parameter.keyword_only;
    schema
        .parameters
        .iter()
        .any(|parameter| is_out(parameter) && named.iter().all(|(name, _)| *name != parameter.name))
}

fn fit(
    schema: &'static Schema,
    positional: &[Type],
    named: &[(Arc<str>, Type)],
    classes: &ClassTable,
    round: Round,
) -> Result<Call, String> {
    let mut bindings = Bindings::new();
    let mut slots = Vec::with_capacity(schema.parameters.len());
    let mut next = 0;
    let mut used = vec![false; named.len()];
    // The arguments of parameters with variables are looked at again once all variables are known.
    let mut open: Vec<(&Type, &Type)> = Vec::new();
    for (index, parameter) in schema.parameters.iter().enumerate() {
        let by_name = named.iter().position(|(name, _)| {
            *name == parameter.name || (&**name == "input" && &*parameter.name == "self")
        });
        let positions_left = if parameter.keyword_only { 0 } else { positional.len() - next };
        let slot = if positions_left > 0 {
            if by_name.is_some() {
                return Err(format!("'{}' is given twice", parameter.name));
            }
            let is_last = schema.parameters[index + 1..].iter().all(|later| later.keyword_only);
            match gathered(parameter, &positional[next..], next, is_last, schema.is_variadic, classes, round)
            {
                Some(slot) => {
                    next = positional.len();
                    slot
                }
                None => {
                    let actual = &positional[next];
                    let conversion =
                        convert(&parameter.declared, parameter.length, actual, &mut bindings, classes, round)
                            .ok_or_else(|| mismatch(parameter, actual))?;
                    if conversion == Conversion::None {
                        open.push((&parameter.declared, actual));
                    }
                    next += 1;
                    Slot::Given(next - 1, conversion)
                }
            }
        } else if let Some(at) = by_name {
            used[at] = true;
            let actual = &named[at].1;
            let conversion =
                convert(&parameter.declared, parameter.length, actual, &mut bindings, classes, round)
                    .ok_or_else(|| mismatch(parameter, actual))?;
            Slot::Given(positional.len() + at, conversion)
        } else if let Some(default) = &parameter.default {
            Slot::Default(default.clone())
        } else {
            return Err(format!("'{}' is missing", parameter.name));
        };
        slots.push(slot);
    }
    if next < positional.len() && !schema.is_variadic {
        return Err(format!("takes {} positional arguments, got {}", next, positional.len()));
    }
    if let Some(at) = used.iter().position(|used| !used) {
        return Err(format!("there is no parameter '{}'", named[at].0));
    }
    for (formal, actual) in open {
        let formal = substitute(formal, &bindings);
        if !is_subtype(actual, &formal, classes) {
            return Err(format!("expected {formal}, got {actual}"));
        }
    }
    let returns =
        schema.returns.as_ref().map(|types| types.iter().map(|item| substitute(item, &bindings)).collect());
    Ok(Call { schema, slots, variadic: (next..positional.len()).collect(), returns })
}

fn mismatch(parameter: &Parameter, actual: &Type) -> String {
    format!("'{}' expected {}, got {actual}", parameter.name, parameter.declared)
}

/// Returns the slot of a last list parameter to which all remaining positional arguments belong: `x.view(1, 2)`.
fn gathered(
    parameter: &Parameter,
    rest: &[Type],
    offset: usize,
    is_last: bool,
    is_variadic: bool,
    classes: &ClassTable,
    round: Round,
) -> Option<Slot> {
    let Type::List(item) = &parameter.declared else { return None };
    // A fixed length takes one item for all, or a list.
    if !is_last || is_variadic || (parameter.length.is_some() && rest.len() == 1) {
        return None;
    }
    if matches!(**item, Type::Var(_))
        || rest.iter().any(|actual| matches!(actual, Type::List(_) | Type::Tuple(_)))
    {
        return None;
    }
    let mut bindings = Bindings::new();
    let mut items = Vec::with_capacity(rest.len());
    for (index, actual) in rest.iter().enumerate() {
        items.push((offset + index, convert(item, None, actual, &mut bindings, classes, round)?));
    }
    Some(Slot::Gathered(items, (**item).clone()))
}

/// Returns how an argument becomes a parameter's type, if it can.
fn convert(
    formal: &Type,
    length: Option<u32>,
    actual: &Type,
    bindings: &mut Bindings,
    classes: &ClassTable,
    round: Round,
) -> Option<Conversion> {
    let inner = match formal {
        Type::Optional(inner) if *actual != Type::None => &**inner,
        other => other,
    };
    if let Type::List(item) = inner {
        if let Type::Tuple(items) = actual {
            let all = items.iter().all(|actual| matches(item, actual, bindings, classes));
            let item = substitute(item, bindings);
            let exact = all && items.iter().all(|actual| is_subtype(actual, &item, classes));
            return exact.then_some(Conversion::TupleToList(item));
        }
        if let Some(length) = length
            && is_subtype(actual, item, classes)
        {
            return Some(Conversion::Repeated(length, (**item).clone()));
        }
    }
    if matches(formal, actual, bindings, classes) {
        return Some(Conversion::None);
    }
    if round == Round::Exact {
        return None;
    }
    Some(match (inner, actual) {
        (Type::Int, Type::Tensor) => Conversion::Operator("aten::IntImplicit", Type::Int),
        (Type::Float, Type::Tensor) => Conversion::Operator("aten::FloatImplicit", Type::Float),
        (Type::Complex, Type::Tensor) => Conversion::Operator("aten::ComplexImplicit", Type::Complex),
        (Type::Number, Type::Tensor) => Conversion::Operator("aten::ScalarImplicit", Type::Number),
        (Type::Int, Type::Bool) => Conversion::Operator("aten::Int.bool", Type::Int),
        (Type::Float, Type::Bool) => Conversion::Operator("aten::Float.bool", Type::Float),
        (Type::Int, Type::Number) => Conversion::Operator("aten::Int.Scalar", Type::Int),
        (Type::Float, Type::Number) => Conversion::Operator("aten::Float.Scalar", Type::Float),
        // A bool as a scalar keeps its kind, which decides the dtype of results.
        (Type::Number, Type::Bool) => Conversion::None,
        (Type::Device, Type::Str) => Conversion::Operator("aten::device", Type::Device),
        _ => return None,
    })
}
