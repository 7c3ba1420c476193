//! The definitions of named types: classes, modules, interfaces, named tuples and enumerations.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Type;
use crate::ast;
use crate::source::Source;

/// All named types of a program, by qualified name such as `__torch__.nets.Encoder`.
#[derive(Debug, Clone, Default)]
pub struct ClassTable {
    classes: BTreeMap<Arc<str>, Arc<Class>>,
    /// The paths that imports give names to, by qualified name.
    imports: BTreeMap<Arc<str>, Arc<str>>,
}

impl ClassTable {
    /// Adds a definition, which replaces one of the same name.
    pub fn insert(&mut self, class: Class) {
        self.classes.insert(class.name.clone(), Arc::new(class));
    }

    /// Gives a path another name: after `import torch as t`, `t` is `torch`.
    pub fn import(&mut self, name: Arc<str>, path: Arc<str>) {
        self.imports.insert(name, path);
    }

    /// Returns the path that an import gave a qualified name.
    pub fn imported(&self, name: &str) -> Option<&Arc<str>> {
        self.imports.get(name)
    }

    /// Returns the definition of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Class>> {
        self.classes.get(name)
    }

    /// Returns the definition of a named type.
    pub fn of(&self, named: &Type) -> Option<&Arc<Class>> {
        match named {
            Type::Function(_) | Type::Foreign(_) => None,
            other => self.get(other.name()?),
        }
    }

    /// Returns all definitions in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Class>> {
        self.classes.values()
    }
}

/// What a class is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClassKind {
    /// A class of the user: `class Stack:`.
    Class,
    /// A module: `class Net(Module):`.
    Module,
    /// An interface of classes: `class Act(Interface):`.
    Interface,
    /// An interface of modules: `class Act(ModuleInterface):`.
    ModuleInterface,
    /// A named tuple: `class Point(NamedTuple):`.
    NamedTuple,
    /// An enumeration: `class Color(Enum):`.
    Enum,
}

/// The definition of a named type.
#[derive(Debug, Clone)]
pub struct Class {
    /// The qualified name.
    pub name: Arc<str>,
    /// What it is.
    pub kind: ClassKind,
    /// The slots of an object, or the fields of a named tuple, in order.
    pub attributes: Vec<Attribute>,
    /// The members of an enumeration, in order.
    pub members: Vec<EnumMember>,
    /// The methods, in order; those of interfaces have an empty body.
    pub methods: Vec<Arc<ast::Function>>,
    /// The names of the parameters of a module.
    pub parameters: Vec<Arc<str>>,
    /// The names of the buffers of a module.
    pub buffers: Vec<Arc<str>>,
    /// The names of the methods that run before `forward`.
    pub forward_pre_hooks: Vec<Arc<str>>,
    /// The names of the methods that run after `forward`.
    pub forward_hooks: Vec<Arc<str>>,
    /// The text in which the class is defined.
    pub source: Arc<Source>,
}

impl Class {
    /// Returns the type whose values are the instances of the class.
    pub fn instance(&self) -> Type {
        let name = self.name.clone();
        match self.kind {
            ClassKind::Class | ClassKind::Module => Type::Class(name),
            ClassKind::Interface | ClassKind::ModuleInterface => Type::Interface(name),
            ClassKind::NamedTuple => Type::NamedTuple(name),
            ClassKind::Enum => Type::Enum(name),
        }
    }

    /// Returns the index of an attribute.
    pub fn slot(&self, name: &str) -> Option<usize> {
        self.attributes.iter().position(|attribute| &*attribute.name == name)
    }

    /// Returns an attribute.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| &*attribute.name == name)
    }

    /// Returns a method.
    pub fn method(&self, name: &str) -> Option<&Arc<ast::Function>> {
        self.methods.iter().find(|method| &*method.name == name)
    }
}

/// A slot of an object or a field of a named tuple.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// The name.
    pub name: Arc<str>,
    /// The type of its values, without `Final`.
    pub declared: Type,
    /// Whether it is `Final`: its value is in the text, and nothing may assign it.
    pub is_final: bool,
    /// The value of a final attribute, or the default of a field.
    pub value: Option<ast::Expr>,
}

/// A member of an enumeration.
#[derive(Debug, Clone, PartialEq)]
pub struct EnumMember {
    /// The name.
    pub name: Arc<str>,
    /// The value: an int, a float or a text.
    pub value: ast::Expr,
}
