//! Freezing: attributes that nothing changes become constants, and what nothing uses goes.
//!
//! A class that several objects share becomes a class for each, since their constants differ. Objects of classes
//! that are no modules, and modules in lists or among the arguments of functions, stay as they are. `effects`
//! finds the attributes that code changes.

mod effects;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use fx_core::{Result, err};

use self::effects::{Effects, effects, reachable};
use super::{Definitions, Program, Runtime};
use crate::ast::{Expr, ExprKind, Function, Parentheses, Sequence};
use crate::emit::Unit;
use crate::ir;
use crate::source::Span;
use crate::types::{Attribute, Class, ClassKind, ClassTable, Type};
use crate::value::{Object, Value};

/// The most levels of containers in an attribute that are looked into.
const MAX_DEPTH: usize = 64;

impl Program {
    /// Makes attributes that nothing changes constants, and leaves out methods and attributes that `forward` does
    /// not use, as `torch.jit.freeze` does. `keep` are further methods and attributes of the top module, which
    /// stay.
    ///
    /// Attributes that code assigns or writes to stay attributes. Results do not change. Fails if the program is
    /// in training mode, if it has neither `forward` nor a method to keep, if its code has errors, or if objects
    /// have yet to restore themselves.
    pub fn freeze(&mut self, keep: &[&str]) -> Result<()> {
        if matches!(self.root.get("training"), Ok(Value::Bool(true))) {
            return Err(err!(Argument, "a program in training mode cannot be frozen")
                .help("call `eval()` on the module before it is saved"));
        }
        if !self.pending.is_empty() {
            return Err(err!(
                Argument,
                "objects of the program restore themselves by `__setstate__` before it runs"
            )
            .help("freeze the program of a `Session`, which has restored them: `Session::into_program`"));
        }
        let root = self.definitions.classes.get(&self.root.class.name).cloned();
        let root = root.ok_or_else(|| err!(Load, "there is no class {:?}", self.root.class.name))?;
        let known = |name: &str| root.method(name).is_some() || root.attribute(name).is_some();
        if let Some(unknown) = keep.iter().find(|name| !known(name)) {
            let names = root.methods.iter().map(|method| &*method.name);
            let names = names.chain(root.attributes.iter().map(|attribute| &*attribute.name));
            return Err(err!(Unresolved, "the program has no method or attribute {unknown:?} to keep")
                .help(fx_core::names::suggest(unknown, names)));
        }
        let hooks = root.forward_pre_hooks.iter().chain(&root.forward_hooks).map(|name| &**name);
        let entries = keep.iter().copied().chain(["forward"]).chain(hooks);
        let entries: BTreeSet<Arc<str>> = entries
            .filter(|name| root.method(name).is_some())
            .map(|name| format!("{}.{name}", root.name).into())
            .collect();
        if entries.is_empty() {
            return Err(err!(Argument, "the program has no method `forward`").help("name a method to keep"));
        }
        let code = Unit::of(self)?.emit_all()?;
        let functions = reachable(&code, entries);
        let mut effects = effects(&code, &functions);
        for name in keep.iter().filter(|name| root.attribute(name).is_some()) {
            effects.read.insert((root.name.clone(), (*name).into()));
            effects.changed.insert((root.name.clone(), (*name).into()));
        }
        let root = self.root.clone();
        let mut freezer = Freezer {
            program: self,
            effects,
            shared: escaping(&code, &functions),
            functions,
            uses: HashMap::new(),
            classes: ClassTable::default(),
            constants: self.constants.clone(),
            objects: HashMap::new(),
            values: Vec::new(),
            next: 0,
        };
        freezer.count(&root);
        freezer.object(&root)?;
        let frozen = freezer.finish()?;
        (self.definitions, self.runtime) = (frozen.definitions, frozen.runtime);
        (self.root, self.constants) = (frozen.root, frozen.constants);
        Ok(())
    }
}

/// What takes the place of the parts of a program.
struct Frozen {
    definitions: Definitions,
    runtime: Runtime,
    root: Arc<Object>,
    constants: Vec<Value>,
}

/// Returns the classes whose objects are more than attributes and receivers of methods: those in containers, among
/// arguments, and results of functions.
fn escaping(code: &ir::Program, functions: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
    let mut found = BTreeSet::new();
    for function in functions.iter().filter_map(|name| code.get(name)) {
        for value in &function.values {
            if !matches!(value.ty, Type::Class(_)) {
                named(&value.ty, &mut found);
            }
        }
        let is_method = function.body.params.first().is_some_and(|first| {
            let own = function.name.rsplit_once('.').map_or("", |(owner, _)| owner);
            matches!(&function.values[first.index()].ty, Type::Class(class) if **class == *own)
        });
        for param in function.body.params.iter().skip(usize::from(is_method)) {
            named(&function.values[param.index()].ty, &mut found);
        }
        named(&function.returns, &mut found);
    }
    found
}

/// Adds the classes that a type names.
fn named(ty: &Type, found: &mut BTreeSet<Arc<str>>) {
    match ty {
        Type::Class(class) => {
            found.insert(class.clone());
        }
        Type::Optional(item) | Type::List(item) | Type::Future(item) => named(item, found),
        Type::Dict(key, value) => [key, value].iter().for_each(|item| named(item, found)),
        Type::Tuple(items) | Type::Union(items) => items.iter().for_each(|item| named(item, found)),
        _ => {}
    }
}

struct Freezer<'a> {
    program: &'a Program,
    effects: Effects,
    /// The functions that are used.
    functions: BTreeSet<Arc<str>>,
    /// Classes that stay as they are.
    shared: BTreeSet<Arc<str>>,
    /// How many objects each class has.
    uses: HashMap<String, usize>,
    classes: ClassTable,
    constants: Vec<Value>,
    /// The new class of each object, by address.
    objects: HashMap<*const Object, Arc<str>>,
    /// The objects that are made anew.
    values: Vec<Renewed>,
    /// The number of the next class of one object.
    next: u64,
}

/// An object that is made anew.
struct Renewed {
    object: Arc<Object>,
    /// Its new class.
    class: Arc<str>,
    /// Its attributes; children are the old objects.
    attributes: Vec<(Arc<str>, Value)>,
}

impl Freezer<'_> {
    /// Counts the objects of each class, and finds the classes that stay as they are since another object that
    /// does holds their objects.
    fn count(&mut self, root: &Arc<Object>) {
        let mut objects: Vec<Arc<Object>> = Vec::new();
        let mut known: HashSet<*const Object> = HashSet::new();
        let mut waiting = vec![root.clone()];
        while let Some(object) = waiting.pop() {
            if known.insert(Arc::as_ptr(&object)) {
                *self.uses.entry(object.class.name.clone()).or_default() += 1;
                waiting.extend(children(&object, true));
                objects.push(object);
            }
        }
        let mut is_new = true;
        while std::mem::take(&mut is_new) {
            for object in &objects {
                let attributes = children(object, false);
                for child in children(object, true) {
                    // Lists hold the old objects.
                    let is_attribute = attributes.iter().any(|own| Arc::ptr_eq(own, &child));
                    let stays = self.stays(&object.class.name) || !is_attribute;
                    if stays && !self.stays(&child.class.name) {
                        self.shared.insert(child.class.name.as_str().into());
                        is_new = true;
                    }
                }
            }
        }
    }

    /// Whether the objects of a class stay as they are.
    fn stays(&self, class: &str) -> bool {
        let definition = self.program.definitions.classes.get(class);
        self.shared.contains(class) || definition.is_none_or(|class| class.kind != ClassKind::Module)
    }

    /// Makes the class of an object; returns its name.
    fn object(&mut self, object: &Arc<Object>) -> Result<Arc<str>> {
        if let Some(class) = self.objects.get(&Arc::as_ptr(object)) {
            return Ok(class.clone());
        }
        let old = self.program.definitions.classes.get(&object.class.name).cloned();
        let old = old.ok_or_else(|| err!(Load, "there is no class {:?}", object.class.name))?;
        if self.stays(&old.name) {
            self.objects.insert(Arc::as_ptr(object), old.name.clone());
            return Ok(old.name.clone());
        }
        let is_alone = self.uses.get(&object.class.name) == Some(&1);
        let name = if is_alone { old.name.clone() } else { self.fresh(&old.name) };
        self.objects.insert(Arc::as_ptr(object), name.clone());
        let mut class = Class { name: name.clone(), attributes: Vec::new(), ..(*old).clone() };
        class.methods.retain(|method| self.functions.contains(&*format!("{}.{}", old.name, method.name)));
        class.methods = class.methods.iter().map(|method| Arc::new(without_self_type(method))).collect();
        let mut values = Vec::new();
        for attribute in &old.attributes {
            let slot = (old.name.clone(), attribute.name.clone());
            let is_changed = self.effects.changed.contains(&slot);
            if !is_changed && !self.effects.read.contains(&slot) {
                continue;
            }
            let value = object.get(&attribute.name)?;
            let mut attribute = attribute.clone();
            match &value {
                Value::Object(child) => {
                    let child = self.object(child)?;
                    if matches!(attribute.declared, Type::Class(_)) {
                        attribute.declared = Type::Class(child);
                    }
                }
                value if !is_changed && !attribute.is_final => self.fix(&mut attribute, value),
                _ => {}
            }
            values.push((attribute.name.clone(), value));
            class.attributes.push(attribute);
        }
        let stays = |names: &[Arc<str>]| {
            let is_attribute = |name: &&Arc<str>| class.attribute(name).is_some_and(|own| !own.is_final);
            names.iter().filter(is_attribute).cloned().collect()
        };
        (class.parameters, class.buffers) = (stays(&class.parameters), stays(&class.buffers));
        self.classes.insert(class);
        self.values.push(Renewed { object: object.clone(), class: name.clone(), attributes: values });
        Ok(name)
    }

    /// Returns a name for the class of one object, marked as PyTorch marks names.
    fn fresh(&mut self, name: &str) -> Arc<str> {
        let (path, last) = name.rsplit_once('.').map_or(("", name), |(path, last)| (path, last));
        loop {
            let fresh = format!(
                "{path}{}___torch_mangle_{}.{last}",
                if path.is_empty() { "" } else { "." },
                self.next
            );
            self.next += 1;
            let is_free = self.program.definitions.classes.get(&fresh).is_none();
            if is_free && self.classes.get(&fresh).is_none() {
                return fresh.into();
            }
        }
    }

    /// Makes an attribute a constant, if a text can say its value.
    fn fix(&mut self, attribute: &mut Attribute, value: &Value) {
        if let Some(expr) = self.constant(value, 0) {
            attribute.is_final = true;
            attribute.value = Some(expr);
        }
    }

    /// Returns a value as an expression; tensors are constants of the archive.
    fn constant(&mut self, value: &Value, depth: usize) -> Option<Expr> {
        let kind = match value {
            Value::None => ExprKind::None,
            Value::Bool(x) => ExprKind::Bool(*x),
            Value::Int(x) => ExprKind::Int(*x),
            Value::Float(x) if x.is_finite() => ExprKind::Float(*x),
            Value::Str(text) => ExprKind::Str((***text).into()),
            Value::Tensor(_) => {
                let name = format!("c{}", self.constants.len());
                self.constants.push(value.clone());
                let constants = Expr::new(ExprKind::Name("CONSTANTS".into()), Span::default());
                ExprKind::Attribute(Box::new(constants), name.into())
            }
            Value::Tuple(tuple) if tuple.named.is_none() && depth < MAX_DEPTH => {
                let items = tuple.items.iter().map(|item| self.constant(item, depth + 1));
                let items = items.collect::<Option<Vec<_>>>()?;
                let last_comma = items.len() == 1;
                ExprKind::Tuple(Sequence { items, last_comma }, Parentheses::Written)
            }
            _ => return None,
        };
        Some(Expr::new(kind, Span::default()))
    }

    /// Makes the objects of the new classes.
    fn finish(mut self) -> Result<Frozen> {
        let old = &self.program.definitions;
        let stay: Vec<&Arc<Class>> = old.classes.iter().filter(|class| self.stays(&class.name)).collect();
        stay.into_iter().for_each(|class| self.classes.insert((**class).clone()));
        let functions = old.functions.iter().filter(|(name, _)| self.functions.contains(*name));
        let functions = functions.map(|(name, definition)| (name.clone(), definition.clone())).collect();
        let definitions = old.replaced(self.classes, functions, &self.constants)?;
        let runtime = Runtime::of(&definitions);
        let mut made: HashMap<*const Object, Arc<Object>> = HashMap::new();
        for Renewed { object, class, .. } in &self.values {
            let class = runtime.classes.get(class).expect("the class of each object was defined");
            made.insert(Arc::as_ptr(object), Object::new(class.clone()));
        }
        for Renewed { object, attributes, .. } in &self.values {
            for (name, value) in attributes {
                let child = match value {
                    Value::Object(child) => made.get(&Arc::as_ptr(child)).cloned().map(Value::Object),
                    _ => None,
                };
                made[&Arc::as_ptr(object)].set(name, child.unwrap_or_else(|| value.clone()))?;
            }
        }
        let root = made.get(&Arc::as_ptr(&self.program.root)).unwrap_or(&self.program.root).clone();
        Ok(Frozen { definitions, runtime, root, constants: self.constants })
    }
}

/// Returns the objects that are attributes of an object, and with `held` those in its containers, too.
fn children(object: &Object, held: bool) -> Vec<Arc<Object>> {
    fn collect(value: &Value, held: bool, depth: usize, out: &mut Vec<Arc<Object>>) {
        match value {
            Value::Object(object) => out.push(object.clone()),
            Value::List(_) | Value::Tuple(_) if held && depth < MAX_DEPTH => {
                let items = value.to_items().unwrap_or_default();
                items.iter().for_each(|item| collect(item, held, depth + 1, out));
            }
            Value::Dict(dict) if held && depth < MAX_DEPTH => dict.read(|entries| {
                entries.iter().for_each(|(_, item)| collect(item, held, depth + 1, out));
            }),
            _ => {}
        }
    }
    let mut out = Vec::new();
    object.slots.read(|slots| slots.iter().for_each(|value| collect(value, held, 0, &mut out)));
    out
}

/// Returns a method whose first parameter has the type of the class that it is in.
fn without_self_type(method: &Function) -> Function {
    let mut method = method.clone();
    if let Some(first) = method.parameters.first_mut() {
        first.annotation = None;
    }
    method
}
