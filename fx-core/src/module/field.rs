//! [`Field`]: the types of fields of a module, and how each is visited.

use std::collections::{BTreeMap, HashMap};

use super::{Buffer, Module, Parameter, Visitor, VisitorMut};
use crate::Tensor;

/// A type that may be a field of a `#[derive(Module)]` struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a module",
    label = "not a parameter, buffer, tensor or module",
    note = "derive `Module` for it, or mark the field `#[module(skip)]` if it is plain data"
)]
pub trait Field {
    /// Visits the members of this field, whose name in the struct is `name`.
    fn visit<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>);
    /// Visits the members for changing.
    fn visit_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut);
}

impl<M: Module> Field for M {
    fn visit<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.module(name, self);
    }
    fn visit_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
        visitor.module(name, self);
    }
}

impl Field for Parameter {
    fn visit<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.parameter(name, self);
    }
    fn visit_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
        visitor.parameter(name, self);
    }
}

impl Field for Buffer {
    fn visit<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.buffer(name, self);
    }
    fn visit_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
        visitor.buffer(name, self);
    }
}

/// A plain tensor is a constant: not part of the state dict.
impl Field for Tensor {
    fn visit<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.constant(name, self);
    }
    fn visit_mut(&mut self, _: &str, _: &mut dyn VisitorMut) {}
}

impl<F: Field> Field for Option<F> {
    fn visit<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        if let Some(field) = self {
            field.visit(name, visitor);
        }
    }
    fn visit_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
        if let Some(field) = self {
            field.visit_mut(name, visitor);
        }
    }
}

macro_rules! sequences {
    ($([$($generics:tt)*] $ty:ty;)*) => {$(
        impl<$($generics)*> Field for $ty {
            fn visit<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
                for (i, field) in self.iter().enumerate() {
                    field.visit(&format!("{name}.{i}"), visitor);
                }
            }
            fn visit_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
                for (i, field) in self.iter_mut().enumerate() {
                    field.visit_mut(&format!("{name}.{i}"), visitor);
                }
            }
        }
    )*};
}
sequences! {
    [F: Field] Vec<F>;
    [F: Field, const N: usize] [F; N];
}

impl<F: Field> Field for BTreeMap<String, F> {
    fn visit<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        for (key, field) in self {
            field.visit(&format!("{name}.{key}"), visitor);
        }
    }
    fn visit_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
        for (key, field) in self {
            field.visit_mut(&format!("{name}.{key}"), visitor);
        }
    }
}

/// Visited in the order of the keys.
impl<F: Field, S: std::hash::BuildHasher> Field for HashMap<String, F, S> {
    fn visit<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        let mut fields: Vec<_> = self.iter().collect();
        fields.sort_unstable_by_key(|(key, _)| *key);
        for (key, field) in fields {
            field.visit(&format!("{name}.{key}"), visitor);
        }
    }
    fn visit_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
        let mut fields: Vec<_> = self.iter_mut().collect();
        fields.sort_unstable_by_key(|(key, _)| *key);
        for (key, field) in fields {
            field.visit_mut(&format!("{name}.{key}"), visitor);
        }
    }
}

macro_rules! tuples {
    ($($t:ident)*; $($i:tt)*) => {
        impl<$($t: Field),*> Field for ($($t,)*) {
            fn visit<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
                $(self.$i.visit(&format!("{name}.{}", $i), visitor);)*
            }
            fn visit_mut(&mut self, name: &str, visitor: &mut dyn VisitorMut) {
                $(self.$i.visit_mut(&format!("{name}.{}", $i), visitor);)*
            }
        }
    };
}
tuples!(A; 0);
tuples!(A B; 0 1);
tuples!(A B C; 0 1 2);
tuples!(A B C D; 0 1 2 3);
tuples!(A B C D E; 0 1 2 3 4);
tuples!(A B C D E F; 0 1 2 3 4 5);
