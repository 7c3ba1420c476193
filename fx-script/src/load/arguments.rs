//! Arguments of a call from outside: each is made the type of its parameter, as PyTorch does.
//!
//! Lists and dictionaries are copied, so that a program never changes those of its caller. An int is taken where
//! a float is wanted, a tuple where a list or a named tuple is.

use std::sync::Arc;

use fx_core::{Error, Result, bail, err};

use super::Program;
use super::literal::literal_with;
use crate::emit::Unit;
use crate::types::{Type, is_subtype};
use crate::value::{Device, Tuple, Value};

/// The most levels that containers in an argument may nest.
const MAX_DEPTH: u32 = 128;

impl Program {
    /// Arranges arguments in the order of the parameters of a function but the first ones, with the types of
    /// these, and with defaults for those that are not given.
    ///
    /// Fails if there is no such function, or the arguments do not fit its parameters.
    pub fn bind(
        &self,
        unit: &Unit,
        name: &str,
        first: usize,
        args: Vec<Value>,
        kwargs: Vec<(String, Value)>,
    ) -> Result<Vec<Value>> {
        let signature = unit.signature(name)?;
        let parameters = signature.parameters.get(first..).unwrap_or_default();
        let positional = signature.positional.saturating_sub(first);
        if args.len() > positional {
            let by_name = if positional < parameters.len() { " by position" } else { "" };
            bail!(Argument, "{name} takes {positional} arguments{by_name}, got {}", args.len());
        }
        let mut bound: Vec<Option<Value>> = args.into_iter().map(Some).collect();
        bound.resize(parameters.len(), None);
        for (key, value) in kwargs {
            let names = || parameters.iter().map(|parameter| &*parameter.0);
            let Some(at) = names().position(|own| own == key) else {
                return Err(err!(Argument, "{name} has no parameter {key:?}")
                    .help(fx_core::names::suggest(&key, names())));
            };
            if bound[at].replace(value).is_some() {
                bail!(Argument, "the argument {key:?} of {name} is given twice");
            }
        }
        let source = unit.function(name).map(|(source, _)| source);
        let complete = bound.into_iter().zip(parameters).map(|(value, (key, ty, default))| {
            match (value, default, source) {
                (Some(value), _, _) => self
                    .argument(&value, ty)
                    .map_err(|error| err!(Argument, "the argument {key:?} of {name}: {}", error.message())),
                (None, Some(default), Some(source)) => {
                    let globals = |constant: &str| unit.constant_of(name, constant);
                    let value = literal_with(default, source, &self.constants, &globals)?;
                    self.argument(&value, ty)
                }
                _ => bail!(Argument, "the argument {key:?} of {name} is missing"),
            }
        });
        complete.collect()
    }

    /// Returns a value as one of a type. Fails if it is of another type; the error says which part of it.
    fn argument(&self, value: &Value, ty: &Type) -> Result<Value> {
        self.converted(value, ty, 0)
    }

    fn converted(&self, value: &Value, ty: &Type, depth: u32) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(err!(Limit, "containers nest deeper than {MAX_DEPTH} levels"));
        }
        let wrong = || Err(err!(Argument, "expected {ty}, got {}", described(value)));
        let next = depth + 1;
        Ok(match (ty, value) {
            (Type::Any | Type::AnyList | Type::AnyTuple | Type::AnyClass | Type::AnyEnum, _) => {
                self.copied(value, next)?
            }
            (Type::None, Value::None)
            | (Type::Tensor, Value::Tensor(_))
            | (Type::Bool, Value::Bool(_))
            | (Type::Str, Value::Str(_))
            | (Type::Int, Value::Int(_))
            | (Type::Float, Value::Float(_))
            | (Type::Complex, Value::Complex(_))
            | (Type::Number, Value::Int(_) | Value::Float(_) | Value::Complex(_))
            | (Type::Device, Value::Device(_))
            | (Type::Future(_), Value::Future(_)) => value.clone(),
            (Type::Int | Type::Number, Value::Bool(x)) => Value::Int(i64::from(*x)),
            (Type::Float, Value::Int(_) | Value::Bool(_)) => Value::Float(value.to_float()?),
            (Type::Complex, Value::Int(_) | Value::Bool(_) | Value::Float(_)) => {
                Value::complex(value.to_float()?, 0.0)
            }
            (Type::Device, Value::Str(text)) => Value::Device(Arc::new(Device::parse(text)?)),
            (Type::Optional(_), Value::None) => Value::None,
            (Type::Optional(item), _) => self.converted(value, item, depth)?,
            (Type::Union(items), _) => {
                // The type that the value has goes before one that it could be made.
                let exact = items.iter().find(|item| self.is_exact(value, item));
                let found = exact.map(|item| self.converted(value, item, next));
                match found.or_else(|| {
                    items.iter().map(|item| self.converted(value, item, next)).find(Result::is_ok)
                }) {
                    Some(converted) => converted?,
                    None => return wrong(),
                }
            }
            (Type::List(item), Value::List(_) | Value::Tuple(_)) => {
                let items = value.to_items()?;
                let items = items.iter().enumerate().map(|(at, value)| {
                    self.converted(value, item, next).map_err(|error| within(error, &format!("item {at}")))
                });
                Value::list(items.collect::<Result<_>>()?)
            }
            (Type::Dict(key_type, value_type), Value::Dict(dict)) => {
                let entries = dict.read(Clone::clone);
                let entries = entries.iter().map(|(key, value)| {
                    let key = self.converted(key, key_type, next).map_err(|error| within(error, "a key"))?;
                    let at = |error| within(error, &format!("the value of {}", described(&key)));
                    let value = self.converted(value, value_type, next).map_err(at)?;
                    Ok((key, value))
                });
                Value::dict(entries.collect::<Result<Vec<_>>>()?)?
            }
            (Type::Tuple(types), Value::Tuple(_) | Value::List(_)) => {
                Value::tuple(self.each(&value.to_items()?, types, ty, next)?)
            }
            (Type::NamedTuple(name), Value::Tuple(tuple)) => {
                let class = self.definitions.classes.get(name);
                let types: Vec<Type> = class
                    .iter()
                    .flat_map(|class| &class.attributes)
                    .map(|field| field.declared.clone())
                    .collect();
                let items = self.each(&tuple.items, &types, ty, next)?.into();
                let named = self.runtime.named_tuples.get(name).cloned();
                Value::Tuple(Arc::new(Tuple { items, named }))
            }
            (Type::Enum(name), Value::Enum(member)) if **name == *member.class => value.clone(),
            (Type::Class(_) | Type::Interface(_), Value::Object(object)) => {
                let own = Type::Class(object.class.name.as_str().into());
                if !is_subtype(&own, ty, &self.definitions.classes) {
                    return wrong();
                }
                value.clone()
            }
            _ => return wrong(),
        })
    }

    fn each(&self, items: &[Value], types: &[Type], ty: &Type, depth: u32) -> Result<Vec<Value>> {
        if items.len() != types.len() {
            return Err(err!(Argument, "expected {ty} of {} items, got {}", types.len(), items.len()));
        }
        let items = items.iter().zip(types).enumerate();
        items
            .map(|(at, (value, ty))| {
                self.converted(value, ty, depth).map_err(|error| within(error, &format!("item {at}")))
            })
            .collect()
    }

    /// Whether a value is of a type as it is.
    fn is_exact(&self, value: &Value, ty: &Type) -> bool {
        match (ty, value) {
            (Type::Int, Value::Bool(_)) | (Type::Float | Type::Complex, Value::Int(_) | Value::Bool(_)) => {
                false
            }
            (Type::Complex, Value::Float(_)) | (Type::List(_), Value::Tuple(_)) => false,
            _ => self.converted(value, ty, 1).is_ok(),
        }
    }

    /// Returns a value whose lists and dictionaries are others.
    fn copied(&self, value: &Value, depth: u32) -> Result<Value> {
        Ok(match value {
            Value::List(_) => {
                let items = value.to_items()?;
                let items = items.iter().map(|item| self.converted(item, &Type::Any, depth));
                Value::list(items.collect::<Result<_>>()?)
            }
            Value::Dict(dict) => {
                let entries = dict.read(Clone::clone);
                let entries = entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.converted(value, &Type::Any, depth)?)));
                Value::dict(entries.collect::<Result<Vec<_>>>()?)?
            }
            Value::Tuple(tuple) => {
                let items = tuple.items.iter().map(|item| self.converted(item, &Type::Any, depth));
                let items = items.collect::<Result<Box<[Value]>>>()?;
                Value::Tuple(Arc::new(Tuple { items, named: tuple.named.clone() }))
            }
            other => other.clone(),
        })
    }
}

/// Returns a short description of a value, with the value itself if it is a small one.
fn described(value: &Value) -> String {
    let name = value.type_name();
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => {
            let text = crate::value::shown(value).unwrap_or_default();
            let short: String = text.chars().take(40).collect();
            format!("{name} {short}{}", if short.len() < text.len() { ".." } else { "" })
        }
        _ => name.to_owned(),
    }
}

fn within(error: Error, part: &str) -> Error {
    let message = format!("{part}: {}", error.message());
    Error::new(error.kind(), message)
}
