//! [`ToArg`]: the Rust values that a user may write for a parameter of each kind; [`Given`]: what was written.

use std::sync::Arc;

use super::kind;
use crate::{Arg, Buffer, DType, Dim, Graph, Parameter, Scalar, Shape, Tensor, Value};

/// A value that may be given for a parameter of kind `K`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given for a parameter of kind `{K}`",
    note = "axes and other integers are a number or an array, `[0, 1]`; sizes may also be a tuple, `(x.dim(0), -1)`; \
            `()` stands for none"
)]
pub trait ToArg<K> {
    /// Converts it.
    fn to_arg(self) -> Value;

    /// Converts it, but for a tensor that lives elsewhere.
    #[inline]
    fn given<'a>(self) -> Given<'a>
    where
        Self: Sized + 'a,
    {
        Given::Value(self.to_arg())
    }
}

/// An argument as it was written: to count a tensor takes longer than to compare it.
#[derive(Clone)]
pub enum Given<'a> {
    /// A tensor that lives elsewhere.
    Tensor(&'a Tensor),
    /// Anything else.
    Value(Value),
}

impl Given<'_> {
    /// Returns the value.
    #[inline]
    pub fn into_value(self) -> Value {
        match self {
            Given::Tensor(tensor) => Arg::Leaf(tensor.clone()),
            Given::Value(value) => value,
        }
    }
}

macro_rules! lent {
    ($($kind:ident: $($ty:ty => |$x:ident| $make:expr),* $(,)?;)*) => {
        $($(impl ToArg<kind::$kind> for $ty {
            fn to_arg(self) -> Value { ToArg::<kind::$kind>::given(self).into_value() }
            #[inline]
            fn given<'a>(self) -> Given<'a> where Self: 'a { let $x = self; $make }
        })*)*
    };
}

macro_rules! to_arg {
    ($($kind:ident: $($ty:ty => |$x:ident| $make:expr),* $(,)?;)*) => {
        $($(impl ToArg<kind::$kind> for $ty {
            #[inline]
            fn to_arg(self) -> Value { let $x = self; $make }
        })*)*
    };
}

macro_rules! tensors {
    ($($kind:ident)*) => {$(
        to_arg! {
            $kind:
                Tensor => |x| Arg::Leaf(x),
                &Buffer => |x| Arg::Leaf(x.get());
        }
        lent! {
            $kind:
                &Tensor => |x| Given::Tensor(x),
                &&Tensor => |x| Given::Tensor(x),
                &Parameter => |x| Given::Tensor(x.tensor());
        }
    )*};
}
tensors!(Tensor Operand OptOperand IntOrTensor OptTensor Any);

macro_rules! numbers {
    ($($kind:ident: $($ty:ty)*;)*) => {
        $($(impl ToArg<kind::$kind> for $ty {
            #[inline]
            fn to_arg(self) -> Value { Value::from(Scalar::from(self)) }
        })*)*
    };
}
numbers! {
    Operand: f32 f64 i8 i16 i32 i64 u8 u16 u32 usize isize bool;
    OptOperand: f32 f64 i8 i16 i32 i64 u8 u16 u32 usize isize bool;
    Number: f32 f64 i8 i16 i32 i64 u8 u16 u32 usize isize bool;
    OptNumber: f32 f64 i8 i16 i32 i64 u8 u16 u32 usize isize bool;
    Any: f32 f64 i8 i16 i32 i64 u8 u16 u32 usize isize bool;
    Int: i32 i64 u8 u32 usize isize;
    IntOrTensor: i32 i64 u8 u32 usize isize;
    OptInt: i32 i64 u8 u32 usize isize;
    Axes: i32 i64 usize;
    Ints: i32 i64 usize;
    OptInts: i32 i64 usize;
    Shape: i32 i64 usize;
    Bool: bool;
}

/// Integers are taken for floats; the argument is a float then.
macro_rules! floats {
    ($($kind:ident)*) => {$(
        to_arg! {
            $kind:
                f64 => |x| Arg::Float(x), f32 => |x| Arg::Float(x.into()),
                i32 => |x| Arg::Float(x.into()), i64 => |x| Arg::Float(x as f64), usize => |x| Arg::Float(x as f64);
        }
    )*};
}
floats!(Float OptFloat);

/// A value stays as it is, for a parameter of any kind.
impl<K> ToArg<K> for Value {
    fn to_arg(self) -> Value {
        self
    }
}
impl<K> ToArg<K> for &Value {
    fn to_arg(self) -> Value {
        self.clone()
    }
}

macro_rules! optional {
    ($($kind:ident: $($ty:ty)*;)*) => {
        $(
            impl ToArg<kind::$kind> for () {
                fn to_arg(self) -> Value { Arg::None }
            }
            $(impl ToArg<kind::$kind> for Option<$ty> {
                fn to_arg(self) -> Value { self.map_or(Arg::None, ToArg::<kind::$kind>::to_arg) }
            })*
        )*
    };
}
optional! {
    OptTensor: Tensor &Tensor &Parameter;
    OptOperand: Tensor &Tensor f32 f64 i32 i64;
    OptInt: i32 i64 usize Dim;
    OptFloat: f32 f64;
    OptNumber: f32 f64 i32 i64;
    OptDType: DType;
    Axes: i64 i32;
    OptInts: i64 i32;
    Any: Tensor &Tensor i64 f64 bool;
}
lent! {
    OptTensor:
        &Option<Tensor> => |x| x.as_ref().map_or(Given::Value(Arg::None), Given::Tensor),
        &Option<Parameter> => |x| x.as_ref().map_or(Given::Value(Arg::None), |x| Given::Tensor(x.tensor()));
}

to_arg! {
    Operand: Scalar => |x| Value::from(x), Dim => |x| Arg::dim(x), &Dim => |x| Arg::dim(x.clone());
    OptOperand: Scalar => |x| Value::from(x), Dim => |x| Arg::dim(x), &Dim => |x| Arg::dim(x.clone());
    Number: Scalar => |x| Value::from(x), Dim => |x| Arg::dim(x);
    OptNumber: Scalar => |x| Value::from(x);
    Int: Dim => |x| Arg::dim(x), &Dim => |x| Arg::dim(x.clone());
    IntOrTensor: Dim => |x| Arg::dim(x), &Dim => |x| Arg::dim(x.clone());
    OptInt: Dim => |x| Arg::dim(x), &Dim => |x| Arg::dim(x.clone());
    Shape: Dim => |x| Arg::list([Arg::dim(x)]), &Shape => |x| Arg::list(x.iter().cloned().map(Arg::dim)),
        Shape => |x| Arg::list(x.iter().cloned().map(Arg::dim)), () => |_x| Arg::list([]),
        &[Dim] => |x| Arg::list(x.iter().cloned().map(Arg::dim)),
        &Vec<Dim> => |x| Arg::list(x.iter().cloned().map(Arg::dim)),
        Vec<Dim> => |x| Arg::list(x.into_iter().map(Arg::dim));
    Str: &str => |x| Arg::str(x), String => |x| Arg::str(x), &String => |x| Arg::str(x.as_str());
    DType: DType => |x| Arg::DType(x);
    OptDType: DType => |x| Arg::DType(x);
    Graph: Graph => |x| Value::from(Arc::new(x)), Arc<Graph> => |x| Value::from(x);
    Any: DType => |x| Arg::DType(x), Dim => |x| Arg::dim(x), &str => |x| Arg::str(x);
}

impl<const N: usize> ToArg<kind::Shape> for [Dim; N] {
    fn to_arg(self) -> Value {
        Arg::list(self.into_iter().map(Arg::dim))
    }
}

macro_rules! int_lists {
    ($($kind:ident)*) => {$(
        int_lists!(@ $kind: i32 i64 usize);
    )*};
    (@ $kind:ident: $($int:ty)*) => {$(
        impl ToArg<kind::$kind> for Vec<$int> {
            fn to_arg(self) -> Value { Arg::list(self.into_iter().map(Value::from)) }
        }
        impl ToArg<kind::$kind> for &[$int] {
            fn to_arg(self) -> Value { Arg::list(self.iter().map(|&x| Value::from(x))) }
        }
        impl ToArg<kind::$kind> for &Vec<$int> {
            fn to_arg(self) -> Value { Arg::list(self.iter().map(|&x| Value::from(x))) }
        }
        impl<const N: usize> ToArg<kind::$kind> for [$int; N] {
            fn to_arg(self) -> Value { Arg::list(self.into_iter().map(Value::from)) }
        }
        impl<const N: usize> ToArg<kind::$kind> for &[$int; N] {
            fn to_arg(self) -> Value { Arg::list(self.iter().map(|&x| Value::from(x))) }
        }
    )*};
}
int_lists!(Axes Ints OptInts Shape Any);

/// Sizes of different types, such as `(x.dim(0), -1)`.
macro_rules! shape_tuples {
    ($($t:ident)*; $($i:tt)*) => {
        impl<$($t: ToArg<kind::Int>),*> ToArg<kind::Shape> for ($($t,)*) {
            fn to_arg(self) -> Value { Arg::list([$(self.$i.to_arg()),*]) }
        }
    };
}
shape_tuples!(A; 0);
shape_tuples!(A B; 0 1);
shape_tuples!(A B C; 0 1 2);
shape_tuples!(A B C D; 0 1 2 3);
shape_tuples!(A B C D E; 0 1 2 3 4);
shape_tuples!(A B C D E F; 0 1 2 3 4 5);
shape_tuples!(A B C D E F G; 0 1 2 3 4 5 6);
shape_tuples!(A B C D E F G H; 0 1 2 3 4 5 6 7);

macro_rules! tensor_lists {
    ($($kind:ident)*) => {$(
        impl ToArg<kind::$kind> for Vec<Tensor> {
            fn to_arg(self) -> Value { Arg::list(self.into_iter().map(Arg::Leaf)) }
        }
        impl ToArg<kind::$kind> for &Vec<Tensor> {
            fn to_arg(self) -> Value { Arg::list(self.iter().cloned().map(Arg::Leaf)) }
        }
        impl ToArg<kind::$kind> for &[Tensor] {
            fn to_arg(self) -> Value { Arg::list(self.iter().cloned().map(Arg::Leaf)) }
        }
        impl ToArg<kind::$kind> for &[&Tensor] {
            fn to_arg(self) -> Value { Arg::list(self.iter().map(|&x| Arg::Leaf(x.clone()))) }
        }
        impl ToArg<kind::$kind> for Vec<&Tensor> {
            fn to_arg(self) -> Value { Arg::list(self.into_iter().map(|x| Arg::Leaf(x.clone()))) }
        }
        impl<const N: usize> ToArg<kind::$kind> for [Tensor; N] {
            fn to_arg(self) -> Value { Arg::list(self.into_iter().map(Arg::Leaf)) }
        }
        impl<const N: usize> ToArg<kind::$kind> for &[Tensor; N] {
            fn to_arg(self) -> Value { Arg::list(self.iter().cloned().map(Arg::Leaf)) }
        }
        impl<const N: usize> ToArg<kind::$kind> for [&Tensor; N] {
            fn to_arg(self) -> Value { Arg::list(self.into_iter().map(|x| Arg::Leaf(x.clone()))) }
        }
    )*};
}
tensor_lists!(Tensors Any);
impl ToArg<kind::Tensors> for &Tensor {
    fn to_arg(self) -> Value {
        Arg::Leaf(self.clone())
    }
}
