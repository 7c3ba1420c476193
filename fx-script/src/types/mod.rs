//! The type language of TorchScript: [`Type`], its subtypes and joins, and the classes that it names.
//!
//! A type is a value without references to a table; named types carry their qualified name, whose definition is in
//! [`ClassTable`]. Types of users and archives never have a [`Type::Var`]; the schemas of operators do.

mod class_table;
mod relation;
mod resolve;

use std::fmt;
use std::sync::Arc;

pub use self::class_table::{Attribute, Class, ClassKind, ClassTable, EnumMember};
pub use self::relation::{Bindings, contains, excluding, is_subtype, join, matches, substitute};
pub use self::resolve::{annotation, parse_type};

/// The type of a value of TorchScript.
///
/// Dtypes, layouts and memory formats are `Int`. `Optional[T]` of an optional is the optional itself, and
/// `Union[T, NoneType]` is `Optional[T]`: use [`Type::optional`] and [`Type::union`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// Any value.
    Any,
    /// A tensor.
    Tensor,
    /// An int, a float or a complex number: `number` in texts, `Scalar` in schemas.
    Number,
    /// A 64-bit integer.
    Int,
    /// A 64-bit float.
    Float,
    /// A complex number of two 64-bit floats.
    Complex,
    /// A truth value.
    Bool,
    /// A text.
    Str,
    /// The type of `None`.
    None,
    /// A device.
    Device,
    /// A generator of random numbers.
    Generator,
    /// A storage of a tensor.
    Storage,
    /// A stream of a device.
    Stream,
    /// `Optional[T]`.
    Optional(Arc<Type>),
    /// One of several types; at least two, of which none is `None` unless two others remain.
    Union(Arc<[Type]>),
    /// `List[T]`.
    List(Arc<Type>),
    /// `Dict[K, V]`.
    Dict(Arc<Type>, Arc<Type>),
    /// `Tuple[A, B]`.
    Tuple(Arc<[Type]>),
    /// `Future[T]`.
    Future(Arc<Type>),
    /// A list of any type, in tests by `isinstance` and in schemas.
    AnyList,
    /// A tuple of any types, in tests by `isinstance` and in schemas.
    AnyTuple,
    /// An instance of a class or module.
    Class(Arc<str>),
    /// Any class with the methods of an interface.
    Interface(Arc<str>),
    /// A tuple whose fields have names.
    NamedTuple(Arc<str>),
    /// A member of an enumeration.
    Enum(Arc<str>),
    /// A class of C++, such as packed weights of quantised layers.
    Foreign(Arc<str>),
    /// A function, by its qualified name.
    Function(Arc<str>),
    /// A member of any enumeration, in schemas.
    AnyEnum,
    /// An instance of any class, in schemas.
    AnyClass,
    /// A type variable of a schema.
    Var(Arc<str>),
}

impl Type {
    /// Returns `Optional[item]`; an optional, `None` and `Any` stay as they are.
    pub fn optional(item: Type) -> Type {
        match item {
            Type::Optional(_) | Type::None | Type::Any => item,
            Type::Union(items) => Type::union(items.iter().cloned().chain([Type::None])),
            item => Type::Optional(Arc::new(item)),
        }
    }

    /// Returns `List[item]`.
    pub fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    /// Returns `Dict[key, value]`.
    pub fn dict(key: Type, value: Type) -> Type {
        Type::Dict(Arc::new(key), Arc::new(value))
    }

    /// Returns `Tuple[items]`.
    pub fn tuple(items: impl IntoIterator<Item = Type>) -> Type {
        Type::Tuple(items.into_iter().collect())
    }

    /// Returns `Future[item]`.
    pub fn future(item: Type) -> Type {
        Type::Future(Arc::new(item))
    }

    /// Returns the union of types: nested unions are flattened, equal ones merged, `None` with one other type
    /// is an optional, one type is itself.
    pub fn union(types: impl IntoIterator<Item = Type>) -> Type {
        let mut flat: Vec<Type> = Vec::new();
        for item in types.into_iter().flat_map(|item| item.alternatives()) {
            if item == Type::Any {
                return Type::Any;
            }
            if !flat.contains(&item) {
                flat.push(item);
            }
        }
        let others = flat.iter().filter(|item| **item != Type::None).count();
        match (flat.len(), others) {
            (0, _) => Type::None,
            (1, _) => flat.remove(0),
            (2, 1) => {
                Type::optional(flat.into_iter().find(|item| *item != Type::None).expect("one is no None"))
            }
            _ => Type::Union(flat.into()),
        }
    }

    /// Returns the types whose union this is: itself, if it is no union and no optional.
    pub fn alternatives(&self) -> Vec<Type> {
        match self {
            Type::Union(items) => items.to_vec(),
            Type::Optional(item) => vec![(**item).clone(), Type::None],
            other => vec![other.clone()],
        }
    }

    /// Returns the qualified name of a named type.
    pub fn name(&self) -> Option<&Arc<str>> {
        match self {
            Type::Class(name)
            | Type::Interface(name)
            | Type::NamedTuple(name)
            | Type::Enum(name)
            | Type::Foreign(name)
            | Type::Function(name) => Some(name),
            _ => None,
        }
    }

    /// Returns whether a value of the type can be `None`.
    pub fn allows_none(&self) -> bool {
        matches!(self, Type::Any | Type::None | Type::Optional(_))
            || self.alternatives().contains(&Type::None)
    }

    /// Returns whether a number of Python has the type: int, float, complex or any of them.
    pub fn is_number(&self) -> bool {
        matches!(self, Type::Int | Type::Float | Type::Complex | Type::Number)
    }
}

/// Prints as TorchScript does: `Optional[Tensor]`, `Dict[str, List[int]]`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, name: &str, items: &[Type]| {
            write!(f, "{name}[")?;
            for (index, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
            }
            f.write_str("]")
        };
        match self {
            Type::Any => f.write_str("Any"),
            Type::Tensor => f.write_str("Tensor"),
            Type::Number => f.write_str("number"),
            Type::Int => f.write_str("int"),
            Type::Float => f.write_str("float"),
            Type::Complex => f.write_str("complex"),
            Type::Bool => f.write_str("bool"),
            Type::Str => f.write_str("str"),
            Type::None => f.write_str("NoneType"),
            Type::Device => f.write_str("Device"),
            Type::Generator => f.write_str("Generator"),
            Type::Storage => f.write_str("Storage"),
            Type::Stream => f.write_str("Stream"),
            Type::Optional(item) => write!(f, "Optional[{item}]"),
            Type::Union(items) => list(f, "Union", items),
            Type::List(item) => write!(f, "List[{item}]"),
            Type::Dict(key, value) => write!(f, "Dict[{key}, {value}]"),
            Type::Tuple(items) if items.is_empty() => f.write_str("Tuple[()]"),
            Type::Tuple(items) => list(f, "Tuple", items),
            Type::Future(item) => write!(f, "Future[{item}]"),
            Type::AnyList => f.write_str("list"),
            Type::AnyTuple => f.write_str("tuple"),
            Type::AnyEnum => f.write_str("AnyEnumType"),
            Type::AnyClass => f.write_str("AnyClassType"),
            Type::Class(name)
            | Type::Interface(name)
            | Type::NamedTuple(name)
            | Type::Enum(name)
            | Type::Foreign(name)
            | Type::Function(name)
            | Type::Var(name) => f.write_str(name),
        }
    }
}
