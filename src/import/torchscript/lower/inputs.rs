//! What a method begins with: its arguments as inputs of the graph, and the tensors of the module as attributes.

use std::collections::HashMap;
use std::sync::Arc;

use fx_script::load::literal;
use fx_script::types::{Class, Type as ScriptType};
use fx_script::value::{Key, Object, TensorRef, Tuple, Value};
use fx_script::vm::is_instance;

use super::{Attribute, AttributeKind, Given, Lowerer, Meaning, Request, Step, Stop};
use crate::import::alias::{Origin, View};
use crate::import::plain;
use crate::{Arg, DType, Dim, GraphModule, NodeId, Result, Symbol, TensorType, Type, TypeTree, bail, err};

/// Returns the module of which a method is, and the name of the method there: `encoder.0.forward` is one of the
/// module at `encoder.0`. Fails if there is no such module.
fn receiver<'n>(root: &Arc<Object>, method: &'n str) -> Result<(Arc<Object>, &'n str)> {
    let Some((path, method)) = method.rsplit_once('.') else { return Ok((Arc::clone(root), method)) };
    let mut object = Arc::clone(root);
    for name in path.split('.') {
        let Ok(Value::Object(inner)) = object.get(name) else {
            let slots = object.class.slots();
            let modules = slots.iter().filter(|name| matches!(object.get(name), Ok(Value::Object(_))));
            return Err(err!(Unresolved, "the program has no module {path:?}: there is no {name:?}")
                .help(fx_core::names::suggest(name, modules.map(|name| &**name))));
        };
        object = inner;
    }
    Ok((object, method))
}

/// The structure of an argument, whose leaves become placeholders, and their types in order.
#[derive(Default)]
struct Input {
    types: Vec<Leaf>,
    has_constants: bool,
}

/// A placeholder to be.
struct Leaf {
    ty: Type,
    /// The tensor whose type it is, so that one that is given twice is one.
    tensor: Option<TensorRef>,
}

impl Lowerer<'_> {
    /// Lowers the method of a request.
    pub(super) fn run(&mut self, request: &Request) -> Step<GraphModule> {
        let root = Arc::clone(&self.program.root);
        let (receiver, method) = receiver(&root, &request.method)?;
        let class = receiver.class.name.clone();
        let name = format!("{class}.{method}");
        self.report.method.clone_from(&name);
        let definitions = &self.program.definitions;
        let definition = definitions.classes.get(&class).cloned();
        let Some(definition) = definition else {
            return Err(err!(Unresolved, "there is no class {class:?}").into());
        };
        if !self.unit.has_function(&name) {
            let methods = definition.methods.iter().map(|method| &*method.name);
            return Err(err!(Unresolved, "the program has no method {:?}", request.method)
                .help(fx_core::names::suggest(method, methods))
                .into());
        }
        self.lift_module(&root)?;
        self.roots.push(Value::Object(Arc::clone(&root)));
        self.remember_module();
        let args = self.arguments(&name, request)?;
        self.roots.push(Value::tuple(args.clone()));
        match self.call(&definition, &receiver, method, args) {
            Ok(result) => {
                self.roots.push(result.clone());
                self.finish(&receiver, result)
            }
            // What always fails is a graph that always fails.
            Err(Stop::Raised(message)) => {
                while !self.scopes.is_empty() {
                    self.leave();
                }
                self.fail(&message)?;
                self.finish(&receiver, Value::None)
            }
            Err(stop) => Err(stop),
        }
    }

    /// Calls the method, `forward` with its hooks.
    fn call(
        &mut self,
        class: &Class,
        receiver: &Arc<Object>,
        name: &str,
        mut args: Vec<Value>,
    ) -> Step<Value> {
        let method = |name: &str| format!("{}.{name}", class.name);
        let with_self = |args: &[Value]| [&[Value::Object(Arc::clone(receiver))], args].concat();
        if name != "forward" {
            return self.function(&method(name), with_self(&args));
        }
        for hook in &class.forward_pre_hooks {
            match self.function(&method(hook), with_self(&[Value::tuple(args.clone())]))? {
                Value::None => {}
                Value::Tuple(changed) => args = changed.items.to_vec(),
                changed => args = vec![changed],
            }
        }
        let mut result = self.function(&method("forward"), with_self(&args))?;
        for hook in &class.forward_hooks {
            let given = [Value::tuple(args.clone()), result.clone()];
            match self.function(&method(hook), with_self(&given))? {
                Value::None => {}
                changed => result = changed,
            }
        }
        Ok(result)
    }

    /// Makes the inputs of the graph, and returns the values of the parameters in order.
    fn arguments(&mut self, name: &str, request: &Request) -> Step<Vec<Value>> {
        let signature = self.unit.signature(name)?;
        let parameters = signature.parameters.get(1..).unwrap_or_default();
        if request.args.len() > parameters.len() {
            let (takes, got) = (parameters.len(), request.args.len());
            return Err(err!(Argument, "{name} takes {takes} arguments, got {got}").into());
        }
        let mut given: HashMap<&str, &Given> = HashMap::new();
        for (key, input) in &request.inputs {
            let names = || parameters.iter().map(|parameter| &*parameter.0);
            let Some(at) = names().position(|own| own == key) else {
                return Err(err!(Argument, "{name} has no parameter {key:?}")
                    .help(fx_core::names::suggest(key, names()))
                    .into());
            };
            if at < request.args.len() || given.insert(key, input).is_some() {
                return Err(err!(Argument, "the argument {key:?} of {name} is given twice").into());
            }
        }
        let source = self.unit.function(name).map(|(source, _)| Arc::clone(source));
        let mut tensors: HashMap<usize, Value> = HashMap::new();
        let mut args = Vec::with_capacity(parameters.len());
        for (at, (key, ty, default)) in parameters.iter().enumerate() {
            let value = match (request.args.get(at), given.get(&**key), default, &source) {
                (Some(value), ..) => value.clone(),
                (None, Some(Given::Value(value)), ..) => value.clone(),
                (None, Some(Given::Spec(spec)), ..) => {
                    let spec = spec.clone().into_type()?;
                    let value = self.specified(key, &spec)?;
                    self.check_kind(key, ty, &value)?;
                    args.push(value);
                    continue;
                }
                (None, None, Some(default), Some(source)) => {
                    // An argument that nobody gives is its default, and no input of the graph.
                    args.push(literal(default, source, &self.program.constants)?);
                    continue;
                }
                (None, None, ..) => {
                    return Err(err!(Argument, "nothing is said of the argument {key:?} of {name}")
                        .help(format!("give its dtype and sizes: `.input({key:?}, \"f32[n, 3]\")`"))
                        .into());
                }
            };
            let mut input = Input::default();
            let structure = structure(&value, &mut input)?;
            let types: Vec<TypeTree> = input.types.iter().map(|leaf| Arg::Leaf(leaf.ty.clone())).collect();
            let nodes = self.placeholders(key, &structure, types.iter())?;
            let mut leaves = Vec::new();
            for (leaf, node) in input.types.iter().zip(nodes) {
                let known = leaf.tensor.as_ref().map(|tensor| Arc::as_ptr(tensor) as usize);
                match known.and_then(|known| tensors.get(&known)) {
                    Some(value) => leaves.push(value.clone()),
                    None => {
                        let value = self.input_symbol(key, node, &leaf.ty)?;
                        if let Some(known) = known {
                            tensors.insert(known, value.clone());
                        }
                        leaves.push(value);
                    }
                }
            }
            if input.has_constants {
                self.report.fixed.push(key.to_string());
            }
            let value = refill(&value, &mut leaves.into_iter())?;
            self.check_kind(key, ty, &value)?;
            args.push(value);
        }
        Ok(args)
    }

    /// Fails if a value is not of the type of its parameter.
    fn check_kind(&self, name: &str, ty: &ScriptType, value: &Value) -> Step<()> {
        let fits = is_instance(value, ty)
            || matches!(ty, ScriptType::Interface(_) | ScriptType::Device)
            || (*ty == ScriptType::Float && matches!(value, Value::Int(_)));
        if fits {
            return Ok(());
        }
        Err(err!(Argument, "the argument {name:?} is a {ty}, got {}", value.type_name()).into())
    }

    /// Adds an argument to the graph; returns its placeholders.
    fn placeholders<'t>(
        &mut self,
        name: &str,
        structure: &Arg<()>,
        types: impl Iterator<Item = &'t TypeTree>,
    ) -> Step<Vec<NodeId>> {
        let tree = self.builder().graph.structured_input(name, structure)?;
        let nodes: Vec<NodeId> = tree.leaves().into_iter().copied().collect();
        for (&node, ty) in nodes.iter().zip(types) {
            for symbol in ty.symbols() {
                self.builder().reserve_symbol(symbol.name());
            }
            self.builder().declare(node, ty.clone())?;
        }
        Ok(nodes)
    }

    /// Returns the value that a placeholder is.
    fn input_symbol(&mut self, name: &str, node: NodeId, ty: &Type) -> Step<Value> {
        let value = match ty {
            Type::Tensor(_) => {
                let view = self.builder().fresh(node, Origin::Input);
                self.inputs.push((name.to_owned(), view.storage));
                self.symbol(ScriptType::Tensor, Meaning::Tensor(view))
            }
            Type::Int => {
                // An integer is a size, so that arithmetic on it can be decided.
                let symbol = Symbol::with_range(name, i64::MIN, None);
                self.builder().reserve_symbol(name);
                let dim = Dim::symbol(symbol);
                self.builder().declare(node, Arg::Dim(dim.clone()))?;
                self.symbol(ScriptType::Int, Meaning::Int(dim))
            }
            Type::Float => {
                self.builder().note_number(node);
                self.symbol(ScriptType::Float, Meaning::Float(node))
            }
            Type::Bool => self.symbol(ScriptType::Bool, Meaning::Bool(node)),
            other => bail_kind(name, other)?,
        };
        if let Value::Symbol(symbol) = &value {
            self.names.insert(symbol.number, name.into());
        }
        Ok(value)
    }

    /// Makes an input of a type that is given.
    fn specified(&mut self, name: &str, spec: &TypeTree) -> Step<Value> {
        let types = spec.inputs();
        let nodes = self.placeholders(name, &spec.structure()?, types.iter().copied())?;
        let mut leaves = Vec::new();
        for (node, ty) in nodes.into_iter().zip(types) {
            leaves.push(match ty {
                Arg::Leaf(ty) => self.input_symbol(name, node, ty)?,
                Arg::Dim(size) => {
                    let value = self.symbol(ScriptType::Int, Meaning::Int(size.clone()));
                    if let Value::Symbol(symbol) = &value {
                        self.names.insert(symbol.number, name.into());
                    }
                    value
                }
                other => {
                    return Err(err!(Argument, "an input of a program is no {}", other.kind_name()).into());
                }
            });
        }
        Ok(value_of(spec, &mut leaves.into_iter())?)
    }

    /// Makes the tensors of the module attributes, and says which objects are modules.
    fn lift_module(&mut self, root: &Arc<Object>) -> Step<()> {
        let mut seen: HashMap<usize, ()> = HashMap::new();
        let mut pending = vec![(String::new(), Value::Object(Arc::clone(root)))];
        while let Some((path, value)) = pending.pop() {
            let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            match &value {
                Value::Object(object) => {
                    let address = Arc::as_ptr(object) as usize;
                    if seen.insert(address, ()).is_some() {
                        continue;
                    }
                    self.paths.insert(address, plain(&path));
                    let class = self.program.definitions.classes.get(&object.class.name).cloned();
                    let slots = object.slots.read(Clone::clone);
                    let mut lifted = Vec::with_capacity(slots.len());
                    for (name, slot) in object.class.slots().iter().zip(&slots) {
                        let kind = match &class {
                            Some(class) if class.parameters.iter().any(|own| **own == **name) => {
                                AttributeKind::Parameter
                            }
                            Some(class) if class.buffers.iter().any(|own| **own == **name) => {
                                AttributeKind::Buffer
                            }
                            _ => AttributeKind::Constant,
                        };
                        lifted.push(self.lift_attribute(slot, &join(name), kind));
                    }
                    // Paths are found in the order of the slots.
                    let inner =
                        object.class.slots().iter().map(|name| join(name)).zip(lifted.iter().cloned());
                    pending.extend(inner.rev().collect::<Vec<_>>());
                    object.slots.edit(|slots| *slots = lifted);
                }
                Value::List(list) => {
                    if seen.insert(Arc::as_ptr(list) as usize, ()).is_some() {
                        continue;
                    }
                    let items = list.read(Clone::clone);
                    let lifted: Vec<Value> = (0..)
                        .zip(&items)
                        .map(|(i, item)| {
                            self.lift_attribute(item, &join(&format!("{i}")), AttributeKind::Constant)
                        })
                        .collect();
                    pending.extend(
                        (0..).zip(&lifted).map(|(i, item): (usize, _)| (join(&i.to_string()), item.clone())),
                    );
                    list.edit(|items| *items = lifted);
                }
                Value::Dict(dict) => {
                    if seen.insert(Arc::as_ptr(dict) as usize, ()).is_some() {
                        continue;
                    }
                    let entries = dict.read(Clone::clone);
                    for (i, (key, item)) in (0usize..).zip(entries.iter()) {
                        let name = match Key::of(key) {
                            Ok(Key::Str(text)) => join(&text),
                            _ => join(&i.to_string()),
                        };
                        let lifted = self.lift_attribute(item, &name, AttributeKind::Constant);
                        pending.push((name, lifted.clone()));
                        dict.edit(|entries| entries.insert(key.clone(), lifted))?;
                    }
                }
                Value::Tuple(tuple) => {
                    let inner = tuple.items.iter().enumerate();
                    pending.extend(inner.map(|(i, item)| (join(&i.to_string()), item.clone())));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns a value of the module with symbols for its tensors. Containers are taken apart later, but tuples.
    fn lift_attribute(&mut self, value: &Value, path: &str, kind: AttributeKind) -> Value {
        match value {
            Value::Tensor(tensor) => self.attribute_of(tensor, path, kind),
            Value::Tuple(tuple) => {
                let items: Vec<Value> = (0..)
                    .zip(&tuple.items)
                    .map(|(i, item): (usize, _)| self.lift_attribute(item, &format!("{path}.{i}"), kind))
                    .collect();
                Value::Tuple(Arc::new(Tuple { items: items.into(), named: tuple.named.clone() }))
            }
            other => other.clone(),
        }
    }

    fn attribute_of(&mut self, tensor: &TensorRef, path: &str, kind: AttributeKind) -> Value {
        if let Some((_, value)) = self.lifted.get(&(Arc::as_ptr(tensor) as usize)) {
            return value.clone();
        }
        let storage = tensor.storage_id();
        let place = |tensor: &TensorRef| {
            (tensor.dtype(), tensor.is_complex(), tensor.shape(), tensor.strides(), tensor.storage_offset())
        };
        let is_empty = tensor.shape().contains(&0);
        let mates = self.attributes.iter().enumerate();
        let mates = mates.filter(|(_, other)| !is_empty && other.tensor.storage_id() == storage);
        let (mut tied, mut overlaps) = (None, None);
        for (at, mate) in mates {
            match place(&mate.tensor) == place(tensor) {
                true => tied = tied.or(Some(at)),
                false => overlaps = overlaps.or(Some(at)),
            }
        }
        let mut path = plain(path);
        while self.attributes.iter().any(|other| other.path == path) {
            path.push('_');
        }
        let number = self.attributes.len();
        self.attributes.push(Attribute {
            path,
            tensor: Arc::clone(tensor),
            kind,
            view: None,
            tied,
            overlaps,
        });
        if let Some(mate) = overlaps {
            self.attributes[mate].overlaps.get_or_insert(number);
        }
        let value = self.symbol(ScriptType::Tensor, Meaning::Attribute(number));
        self.lifted.insert(Arc::as_ptr(tensor) as usize, (Arc::clone(tensor), value.clone()));
        value
    }

    /// Returns the tensor that an attribute is.
    pub(super) fn attribute_view(&mut self, at: usize) -> Step<View> {
        if let Some(view) = &self.attributes[at].view {
            return Ok(view.clone());
        }
        if let Some(first) = self.attributes[at].tied {
            let view = self.attribute_view(first)?;
            self.attributes[at].view = Some(view.clone());
            return Ok(view);
        }
        let attribute = &self.attributes[at];
        let path = attribute.path.clone();
        if attribute.tensor.is_complex() {
            return Err(self.obstacle(format!("the tensor {path:?} is complex")));
        }
        let ty = type_of(&attribute.tensor);
        let node = self.get_attr(&path, ty)?;
        let view = self.builder().fresh(node, Origin::Buffer(path));
        self.attributes[at].view = Some(view.clone());
        Ok(view)
    }

    /// Adds a read of an attribute to the outermost graph, since closed sub-graphs have none.
    fn get_attr(&mut self, path: &str, ty: TensorType) -> Step<NodeId> {
        Ok(self.at_level(0, |builder| builder.get_attr(path, ty))?)
    }

    /// Makes a known tensor one of the graph.
    pub(super) fn lift(&mut self, tensor: &TensorRef) -> Step<Value> {
        if let Some((_, value)) = self.lifted.get(&(Arc::as_ptr(tensor) as usize)) {
            return Ok(value.clone());
        }
        if tensor.is_complex() {
            return Err(self.obstacle("a complex tensor"));
        }
        let shares = self.lifted.values().any(|(other, _)| other.storage_id() == tensor.storage_id());
        if shares && !tensor.shape().contains(&0) {
            return Err(self.obstacle("two constants that share memory"));
        }
        let ty = type_of(tensor);
        let array = tensor.array()?;
        let is_stored = self.environment.stored.values().any(|value| holds(value, tensor));
        let node = match array.numel() {
            1 if !is_stored && ty.dtype != DType::F16 && ty.dtype != DType::BF16 => {
                let number = match array.iter_scalars().next() {
                    Some(crate::Scalar::Bool(x)) => Arg::Bool(x),
                    Some(crate::Scalar::Int(x)) => Arg::Int(x),
                    Some(crate::Scalar::Float(x)) => Arg::Float(x),
                    None => return Err(err!(Graph, "a tensor of one element has none").into()),
                };
                let sizes = Arg::ints(array.shape().iter().map(|&size| size as i64));
                self.full_at_top(sizes, number, ty.dtype)?
            }
            _ => {
                let constants = self.attributes.iter().filter(|other| other.path.starts_with("constant_"));
                let path = format!("constant_{}", constants.count());
                self.attributes.push(Attribute {
                    path: path.clone(),
                    tensor: Arc::clone(tensor),
                    kind: AttributeKind::Constant,
                    view: None,
                    tied: None,
                    overlaps: None,
                });
                self.get_attr(&path, ty)?
            }
        };
        let origin = if is_stored { Origin::Fixed("a constant".to_owned()) } else { Origin::Local };
        let view = self.builder().fresh(node, origin);
        let value = self.symbol(ScriptType::Tensor, Meaning::Tensor(view));
        self.lifted.insert(Arc::as_ptr(tensor) as usize, (Arc::clone(tensor), value.clone()));
        Ok(value)
    }

    fn full_at_top(&mut self, sizes: Arg, number: Arg, dtype: DType) -> Step<NodeId> {
        let made = self.at_level(0, |builder| {
            let op = builder.row("full")?;
            builder.emit(op, vec![sizes, number], &[("dtype", Arg::DType(dtype))])
        });
        self.attempt(made, "full")
    }

    /// Gives all tensors of the module their reads, so that sub-graphs can write to them.
    pub(super) fn read_attributes(&mut self) -> Step<()> {
        for at in 0..self.attributes.len() {
            let is_constant = self.attributes[at].path.starts_with("constant_");
            if self.attributes[at].view.is_none() && !is_constant && !self.attributes[at].tensor.is_complex()
            {
                self.attribute_view(at)?;
            }
        }
        Ok(())
    }
}

fn bail_kind<T>(name: &str, ty: &Type) -> Result<T> {
    bail!(Argument, "the type of the input {name:?} is not known: {ty}")
}

/// Whether a value is a tensor, or has it in it.
fn holds(value: &Value, tensor: &TensorRef) -> bool {
    match value {
        Value::Tensor(own) => Arc::ptr_eq(own, tensor),
        Value::List(list) => list.read(|items| items.iter().any(|item| holds(item, tensor))),
        Value::Tuple(tuple) => tuple.items.iter().any(|item| holds(item, tensor)),
        Value::Dict(dict) => dict.read(|entries| entries.iter().any(|(_, item)| holds(item, tensor))),
        _ => false,
    }
}

/// Returns dtype and sizes of a known tensor.
pub(super) fn type_of(tensor: &TensorRef) -> TensorType {
    TensorType {
        dtype: tensor.dtype(),
        shape: tensor.shape().iter().map(|&size| Dim::new(size as i64)).collect(),
    }
}

/// Returns the structure of an argument: tensors are leaves, everything else is fixed.
fn structure(value: &Value, input: &mut Input) -> Result<Arg<()>> {
    let mut fixed = |arg| {
        input.has_constants = true;
        Ok(arg)
    };
    match value {
        Value::None => Ok(Arg::None),
        Value::Bool(x) => fixed(Arg::Bool(*x)),
        Value::Int(x) => fixed(Arg::Int(*x)),
        Value::Float(x) => fixed(Arg::Float(*x)),
        Value::Str(text) => fixed(Arg::str(&***text)),
        Value::Enum(member) => structure(&member.value, input),
        Value::Device(_) => fixed(Arg::str("cpu")),
        Value::Tensor(tensor) if tensor.is_complex() => Err(err!(DType, "complex inputs are not supported")
            .help("give real and imaginary parts, and `torch.view_as_complex` in the program")),
        Value::Tensor(tensor) => {
            let ty = Type::Tensor(type_of(tensor));
            input.types.push(Leaf { ty, tensor: Some(Arc::clone(tensor)) });
            Ok(Arg::Leaf(()))
        }
        Value::List(_) | Value::Tuple(_) => {
            let items = value.to_items()?;
            let items = items.iter().map(|item| structure(item, input)).collect::<Result<Vec<_>>>()?;
            Ok(if let Value::List(_) = value { Arg::list(items) } else { Arg::tuple(items) })
        }
        Value::Dict(dict) => {
            let mut entries = Vec::new();
            for (key, item) in dict.read(Clone::clone).iter() {
                let Ok(Key::Str(key)) = Key::of(key) else {
                    bail!(
                        Argument,
                        "a dictionary as an input of a graph has keys of text, got {}",
                        key.type_name()
                    );
                };
                entries.push((Arc::<str>::from(&**key), structure(item, input)?));
            }
            Ok(Arg::dict(entries))
        }
        other => Err(err!(Argument, "an input of a graph is no {}", other.type_name())),
    }
}

/// Puts symbols in the place of the tensors of an argument.
fn refill(value: &Value, leaves: &mut dyn Iterator<Item = Value>) -> Result<Value> {
    Ok(match value {
        Value::Tensor(_) => leaves.next().ok_or_else(|| err!(Structure, "too few inputs"))?,
        Value::List(list) => {
            let items = list.read(Clone::clone);
            Value::list(items.iter().map(|item| refill(item, leaves)).collect::<Result<_>>()?)
        }
        Value::Tuple(tuple) => {
            let items = tuple.items.iter().map(|item| refill(item, leaves)).collect::<Result<Vec<_>>>()?;
            Value::Tuple(Arc::new(Tuple { items: items.into(), named: tuple.named.clone() }))
        }
        Value::Dict(dict) => {
            let entries = dict.read(Clone::clone);
            let entries = entries.iter().map(|(key, item)| Ok((key.clone(), refill(item, leaves)?)));
            Value::dict(entries.collect::<Result<Vec<_>>>()?)?
        }
        other => other.clone(),
    })
}

/// Returns the value of a structure of types, whose leaves are symbols.
fn value_of(spec: &TypeTree, leaves: &mut dyn Iterator<Item = Value>) -> Result<Value> {
    Ok(match spec {
        Arg::Leaf(_) | Arg::Dim(_) => leaves.next().ok_or_else(|| err!(Structure, "too few inputs"))?,
        Arg::None => Value::None,
        Arg::Bool(x) => Value::Bool(*x),
        Arg::Int(x) => Value::Int(*x),
        Arg::Float(x) => Value::Float(*x),
        Arg::Str(text) => Value::str(&**text),
        Arg::List(items) => {
            Value::list(items.iter().map(|item| value_of(item, leaves)).collect::<Result<_>>()?)
        }
        Arg::Tuple(items) => {
            Value::tuple(items.iter().map(|item| value_of(item, leaves)).collect::<Result<Vec<_>>>()?)
        }
        Arg::Dict(entries) => {
            let pairs = entries.iter().map(|(key, item)| Ok((Value::str(&**key), value_of(item, leaves)?)));
            Value::dict(pairs.collect::<Result<Vec<_>>>()?)?
        }
        other => bail!(Argument, "an input of a program is no {}", other.kind_name()),
    })
}
