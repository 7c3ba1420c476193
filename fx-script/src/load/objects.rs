//! The objects of a pickle, with attributes of their declared types.

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::{Array, Error, Result, bail, err};

use super::{Definitions, Runtime};
use crate::archive::Values;
use crate::pickle::{Node, NodeRef};
use crate::types::{self, ClassKind, Type};
use crate::value::{Device, Object, Storages, Tuple, Value};

/// Makes the values of a pickle. A node becomes one value, however often it is referred to.
pub(super) struct Reader<'a> {
    origin: &'a str,
    values: &'a Values,
    member: &'static str,
    storages: Storages,
    made: HashMap<NodeRef, (Value, Type)>,
    pending: Vec<(Arc<Object>, Value)>,
    /// How many values may still be tried: alternatives of unions could multiply.
    budget: usize,
    /// The path of the attribute that is read, for messages.
    path: Vec<String>,
}

/// What all conversions need.
#[derive(Clone, Copy)]
struct Known<'a> {
    definitions: &'a Definitions,
    runtime: &'a Runtime,
}

impl<'a> Reader<'a> {
    pub(super) fn new(origin: &'a str, values: &'a Values, member: &'static str) -> Reader<'a> {
        Reader {
            origin,
            values,
            member,
            storages: Storages::default(),
            made: HashMap::new(),
            pending: Vec::new(),
            budget: 1 << 24,
            path: Vec::new(),
        }
    }

    /// Returns the objects that must be given their state by a method.
    pub(super) fn pending(self) -> Vec<(Arc<Object>, Value)> {
        self.pending
    }

    /// Returns a constant of the code, which has no objects.
    pub(super) fn constant(&mut self, node: NodeRef) -> Result<Value> {
        let (definitions, runtime) = (Definitions::default(), Runtime::default());
        self.value(node, &Type::Any, Known { definitions: &definitions, runtime: &runtime })
            .map_err(|error| error.in_file(self.origin, Some(self.member)))
    }

    /// Returns the top module.
    pub(super) fn root(&mut self, definitions: &Definitions, runtime: &Runtime) -> Result<Arc<Object>> {
        let root = self.values.pickle().root();
        let Node::Object { class, .. } = self.values.pickle().node(root) else {
            let kind = self.values.pickle().node(root).kind();
            return Err(err!(Load, "expected a module, got {kind}")
                .in_file(self.origin, Some(self.member))
                .help("save the program with `torch.jit.save`; weights of `torch.save` are no program"));
        };
        let ty = Type::Class(class.clone());
        match self.value(root, &ty, Known { definitions, runtime }) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => bail!(Load, "{}: the top value is no module", self.origin),
            Err(error) => {
                let path = self.path.join(".");
                let place = match path.as_str() {
                    "" => self.member.to_owned(),
                    path => format!("{}, self.{path}", self.member),
                };
                Err(error.in_file(self.origin, Some(&place)))
            }
        }
    }

    /// Returns the value of a node as a value of a type.
    fn value(&mut self, node: NodeRef, declared: &Type, known: Known<'_>) -> Result<Value> {
        if let Some((value, ty)) = self.made.get(&node) {
            if ty == declared || types::is_subtype(ty, declared, &known.definitions.classes) {
                return Ok(value.clone());
            }
            if types::is_subtype(declared, ty, &known.definitions.classes) {
                return Ok(value.clone());
            }
            bail!(Load, "a value that is shared is declared as {ty} and as {declared}");
        }
        self.budget =
            self.budget.checked_sub(1).ok_or_else(|| err!(Limit, "the value has too many parts"))?;
        let value = self.convert(node, declared, known)?;
        if matches!(value, Value::Tensor(_) | Value::List(_) | Value::Dict(_) | Value::Object(_)) {
            self.made.insert(node, (value.clone(), declared.clone()));
        }
        Ok(value)
    }

    fn convert(&mut self, node: NodeRef, declared: &Type, known: Known<'_>) -> Result<Value> {
        let pickle = self.values.pickle();
        let found = pickle.node(node);
        let alternatives = match declared {
            Type::Optional(_) | Type::Union(_) => declared.alternatives(),
            _ => vec![declared.clone()],
        };
        let mut first_error = None;
        for ty in alternatives.iter() {
            match self.convert_as(node, ty, known) {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => {}
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| err!(Load, "expected {declared}, got {}", found.kind())))
    }

    /// Returns the value of a node as a value of a type that is no union, or `None` if it is of another kind.
    fn convert_as(&mut self, node: NodeRef, ty: &Type, known: Known<'_>) -> Result<Option<Value>> {
        let is = |own: &[Type]| *ty == Type::Any || own.contains(ty);
        let values = self.values;
        let pickle = values.pickle();
        Ok(match pickle.node(node) {
            Node::None => is(&[Type::None]).then_some(Value::None),
            Node::Bool(x) => is(&[Type::Bool]).then_some(Value::Bool(*x)),
            Node::Int(x) => is(&[Type::Int, Type::Number]).then_some(Value::Int(*x)),
            Node::Float(x) => is(&[Type::Float, Type::Number]).then_some(Value::Float(*x)),
            Node::Complex(re, im) => is(&[Type::Complex, Type::Number]).then(|| Value::complex(*re, *im)),
            Node::Str(text) => is(&[Type::Str]).then(|| Value::str(&**text)),
            Node::Device(device) => match is(&[Type::Device]) {
                true => Some(Value::Device(Arc::new(Device::parse(device)?))),
                false => None,
            },
            Node::Tensor(_) => match is(&[Type::Tensor]) {
                true => Some(self.tensor(node)?),
                false => None,
            },
            Node::Tagged { value, .. } => match ty {
                Type::Any | Type::List(_) | Type::Dict(..) | Type::AnyList => {
                    Some(self.value(*value, ty, known)?)
                }
                _ => None,
            },
            Node::List(items) => {
                let item = match ty {
                    Type::List(item) => &**item,
                    Type::Any | Type::AnyList => &Type::Any,
                    _ => return Ok(None),
                };
                let items = items.iter().map(|&node| self.value(node, item, known));
                Some(Value::list(items.collect::<Result<Vec<_>>>()?))
            }
            Node::Dict(entries) => {
                let (key, value) = match ty {
                    Type::Dict(key, value) => (&**key, &**value),
                    Type::Any => (&Type::Any, &Type::Any),
                    _ => return Ok(None),
                };
                let entries = entries
                    .iter()
                    .map(|&(k, v)| Ok((self.value(k, key, known)?, self.value(v, value, known)?)));
                Some(Value::dict(entries.collect::<Result<Vec<_>>>()?)?)
            }
            Node::Tuple(items) => self.tuple(items, ty, known)?,
            Node::Object { class, state } => self.object(node, class, *state, ty, known)?,
            Node::Enum { class, value } => self.member_of(class, *value, ty, known)?,
            Node::Storage(_) => bail!(Load, "a storage is no value of a program"),
        })
    }

    fn tensor(&mut self, node: NodeRef) -> Result<Value> {
        let values = self.values;
        let stored = values.tensor(node).ok_or_else(|| err!(Load, "the tensor was not read"))?;
        let array = &stored.array;
        let strides: Vec<usize> = array.strides().iter().map(|&stride| stride.unsigned_abs()).collect();
        let flat: &Array = &stored.storage;
        let is_complex = stored.scalar_type.is_complex();
        let tensor = self.storages.tensor(flat, array.shape(), &strides, array.offset(), is_complex)?;
        tensor.set_requires_grad(stored.requires_grad);
        Ok(Value::Tensor(tensor))
    }

    fn tuple(&mut self, items: &[NodeRef], ty: &Type, known: Known<'_>) -> Result<Option<Value>> {
        let mut each = |types: &[Type]| -> Result<Option<Vec<Value>>> {
            if types.len() != items.len() {
                return Ok(None);
            }
            items
                .iter()
                .zip(types)
                .map(|(&node, ty)| self.value(node, ty, known))
                .collect::<Result<_>>()
                .map(Some)
        };
        match ty {
            Type::Tuple(types) => Ok(each(types)?.map(Value::tuple)),
            Type::Any | Type::AnyTuple => Ok(each(&vec![Type::Any; items.len()])?.map(Value::tuple)),
            Type::NamedTuple(name) => {
                let class = known.definitions.classes.get(name).ok_or_else(|| no_class(name))?;
                let types: Vec<Type> = class.attributes.iter().map(|field| field.declared.clone()).collect();
                let Some(items) = each(&types)? else { return Ok(None) };
                let named = known.runtime.named_tuples.get(name).cloned();
                Ok(Some(Value::Tuple(Arc::new(Tuple { items: items.into(), named }))))
            }
            _ => Ok(None),
        }
    }

    fn member_of(
        &mut self,
        class: &Arc<str>,
        value: NodeRef,
        ty: &Type,
        known: Known<'_>,
    ) -> Result<Option<Value>> {
        if !matches!(ty, Type::Any) && *ty != Type::Enum(class.clone()) {
            return Ok(None);
        }
        let value = self.value(value, &Type::Any, known)?;
        for (name, own) in known.definitions.members(class) {
            if crate::value::values_equal(own, &value)? && own.type_name() == value.type_name() {
                return Ok(known.runtime.enums.get(&(class.clone(), name.clone())).cloned().map(Value::Enum));
            }
        }
        Err(err!(Load, "the enumeration {class} has no member of this value"))
    }

    fn object(
        &mut self,
        node: NodeRef,
        name: &Arc<str>,
        state: NodeRef,
        ty: &Type,
        known: Known<'_>,
    ) -> Result<Option<Value>> {
        if name.starts_with("__torch__.torch.classes.") {
            return Err(err!(Load, "objects of the C++ class {name} are not supported")
                .help("save the program before it is quantised or packed"));
        }
        if !types::is_subtype(&Type::Class(name.clone()), ty, &known.definitions.classes) {
            return Err(err!(Load, "expected {ty}, got an object of {name}"));
        }
        let class = known.definitions.classes.get(name).ok_or_else(|| no_class(name))?.clone();
        if !matches!(class.kind, ClassKind::Class | ClassKind::Module) {
            bail!(Load, "{name} is no class of objects");
        }
        let own = known.runtime.classes.get(name).ok_or_else(|| no_class(name))?;
        let object = Object::new(own.clone());
        let value = Value::Object(object.clone());
        self.made.insert(node, (value.clone(), Type::Class(name.clone())));
        for attribute in class.attributes.iter().filter(|attribute| attribute.is_final) {
            if let Some(value) = known.definitions.final_value(name, &attribute.name) {
                object.set(&attribute.name, value.clone())?;
            }
        }
        if class.method("__setstate__").is_some() {
            let state = self.value(state, &Type::Any, known)?;
            self.pending.push((object, state));
            return Ok(Some(value));
        }
        let pickle = self.values.pickle();
        let Node::Dict(entries) = pickle.node(state) else {
            bail!(Load, "expected the attributes of {name}, got {}", pickle.node(state).kind());
        };
        let mut given: HashMap<&str, NodeRef> = HashMap::new();
        for &(key, value) in entries {
            let Node::Str(key) = pickle.node(key) else { bail!(Load, "an attribute of {name} has no name") };
            if given.insert(key, value).is_some() {
                bail!(Load, "the attribute {key:?} of {name} is given twice");
            }
        }
        for attribute in class.attributes.iter().filter(|attribute| !attribute.is_final) {
            let Some(found) = given.remove(&*attribute.name) else {
                bail!(Load, "the attribute {:?} of {name} is missing", &*attribute.name);
            };
            self.path.push(attribute.name.to_string());
            let value = self.value(found, &attribute.declared, known)?;
            self.path.pop();
            object.set(&attribute.name, value)?;
        }
        if let Some(extra) = given.keys().min() {
            bail!(Load, "the class {name} has no attribute {extra:?}");
        }
        Ok(Some(value))
    }
}

fn no_class(name: &str) -> Error {
    err!(Load, "there is no class {name:?} in the code").help("the archive is incomplete; save it again")
}
