//! The kinds of parameter: the values that each accepts, and their form in kernels and shape rules.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Default, unknown_type};
use crate::{
    Arg, Array, DType as DTypeValue, Dim, Graph as GraphValue, Result, Scalar, TensorType, Type, TypeTree,
    Value, bail,
};

/// The types of a list of tensors.
#[derive(Debug, Clone)]
pub enum TensorsType<'a> {
    /// That of each tensor.
    Known(SmallVec<[&'a TensorType; 4]>),
    /// That of all tensors; their number is not known.
    Each(&'a TensorType),
}

impl<'a> TensorsType<'a> {
    /// Returns the type of each tensor. Fails if their number is not known; then the type of the result is not
    /// known either.
    pub fn known(self) -> Result<SmallVec<[&'a TensorType; 4]>> {
        match self {
            TensorsType::Known(types) => Ok(types),
            TensorsType::Each(_) => Err(unknown_type()),
        }
    }
}

/// Integers of a list argument.
pub type IntVec = SmallVec<[i64; 4]>;
/// Sizes of a shape argument, while shapes are propagated.
pub type DimVec = SmallVec<[Dim; 4]>;

/// The kind of a parameter, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A tensor.
    Tensor,
    /// A tensor or a number.
    Operand,
    /// A tensor, a number or nothing.
    OptOperand,
    /// A tensor or an integer.
    IntOrTensor,
    /// A tensor or nothing.
    OptTensor,
    /// A list of tensors.
    Tensors,
    /// An integer.
    Int,
    /// An integer or nothing.
    OptInt,
    /// A float; integers are taken too.
    Float,
    /// A float or nothing.
    OptFloat,
    /// A bool.
    Bool,
    /// A number of any type.
    Number,
    /// A number or nothing.
    OptNumber,
    /// Text.
    Str,
    /// A dtype.
    DType,
    /// A dtype or nothing.
    OptDType,
    /// One axis, several, or nothing for all.
    Axes,
    /// A list of integers; one integer is taken as a list of one.
    Ints,
    /// A list of integers or nothing.
    OptInts,
    /// A list of sizes.
    Shape,
    /// A sub-graph.
    Graph,
    /// Anything.
    Any,
}

impl Kind {
    /// Returns the word that schemas use.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Tensor => "tensor",
            Kind::Operand => "operand",
            Kind::OptOperand => "operand?",
            Kind::IntOrTensor => "int|tensor",
            Kind::OptTensor => "tensor?",
            Kind::Tensors => "tensors",
            Kind::Int => "int",
            Kind::OptInt => "int?",
            Kind::Float => "float",
            Kind::OptFloat => "float?",
            Kind::Bool => "bool",
            Kind::Number => "number",
            Kind::OptNumber => "number?",
            Kind::Str => "str",
            Kind::DType => "dtype",
            Kind::OptDType => "dtype?",
            Kind::Axes => "axes",
            Kind::Ints => "ints",
            Kind::OptInts => "ints?",
            Kind::Shape => "shape",
            Kind::Graph => "graph",
            Kind::Any => "any",
        }
    }

    /// Returns a description of the accepted values, for messages.
    pub const fn describe(self) -> &'static str {
        match self {
            Kind::Tensor => "a tensor",
            Kind::Operand => "a tensor or a number",
            Kind::OptOperand => "a tensor, a number or none",
            Kind::IntOrTensor => "a tensor or an integer",
            Kind::OptTensor => "a tensor or none",
            Kind::Tensors => "a list of tensors",
            Kind::Int => "an integer",
            Kind::OptInt => "an integer or none",
            Kind::Float => "a float",
            Kind::OptFloat => "a float or none",
            Kind::Bool => "a bool",
            Kind::Number => "a number",
            Kind::OptNumber => "a number or none",
            Kind::Str => "a string",
            Kind::DType => "a dtype",
            Kind::OptDType => "a dtype or none",
            Kind::Axes => "an axis, a list of axes, or none for all",
            Kind::Ints => "a list of integers",
            Kind::OptInts => "a list of integers or none",
            Kind::Shape => "a list of sizes",
            Kind::Graph => "a sub-graph",
            Kind::Any => "anything",
        }
    }

    /// Returns whether tensors may be given.
    pub const fn is_tensor(self) -> bool {
        matches!(
            self,
            Kind::Tensor
                | Kind::Operand
                | Kind::OptOperand
                | Kind::IntOrTensor
                | Kind::OptTensor
                | Kind::Tensors
                | Kind::Any
        )
    }

    /// Returns the one way to write an argument of this kind, where it is written in another.
    pub fn canonical<L: Clone>(self, arg: &Arg<L>) -> Option<Arg<L>> {
        match (self, arg) {
            (Kind::Float | Kind::OptFloat, Arg::Int(x)) if (*x as f64) as i64 == *x => {
                Some(Arg::Float(*x as f64))
            }
            (Kind::Axes | Kind::Ints | Kind::OptInts | Kind::Shape, Arg::Int(_) | Arg::Dim(_)) => {
                Some(Arg::list([arg.clone()]))
            }
            (Kind::Axes | Kind::Ints | Kind::OptInts | Kind::Shape | Kind::Tensors, Arg::Tuple(items)) => {
                Some(Arg::list(items.iter().cloned()))
            }
            _ => None,
        }
    }

    /// Returns whether an argument may be of this kind. A leaf may turn out to be an integer or bool at run time,
    /// so it is accepted for every kind that a node could yield.
    pub fn accepts<L>(self, arg: &Arg<L>) -> bool {
        let is_int = |arg: &Arg<L>| matches!(arg, Arg::Int(_) | Arg::Dim(_) | Arg::Leaf(_));
        let is_number = |arg: &Arg<L>| is_int(arg) || matches!(arg, Arg::Float(_) | Arg::Bool(_));
        let is_ints = |arg: &Arg<L>| is_int(arg) || arg.items().is_some_and(|items| items.iter().all(is_int));
        match self {
            Kind::Any => true,
            Kind::Tensor => matches!(arg, Arg::Leaf(_)),
            Kind::OptTensor => matches!(arg, Arg::Leaf(_) | Arg::None),
            Kind::Tensors => {
                matches!(arg, Arg::Leaf(_))
                    || arg.items().is_some_and(|items| items.iter().all(|item| matches!(item, Arg::Leaf(_))))
            }
            Kind::Operand | Kind::Number | Kind::Float => is_number(arg),
            Kind::OptOperand | Kind::OptNumber | Kind::OptFloat => is_number(arg) || matches!(arg, Arg::None),
            Kind::Int | Kind::IntOrTensor => is_int(arg),
            Kind::OptInt => is_int(arg) || matches!(arg, Arg::None),
            Kind::Bool => matches!(arg, Arg::Bool(_) | Arg::Leaf(_)),
            Kind::Str => matches!(arg, Arg::Str(_)),
            Kind::DType => matches!(arg, Arg::DType(_)),
            Kind::OptDType => matches!(arg, Arg::DType(_) | Arg::None),
            Kind::Ints | Kind::Shape => is_ints(arg),
            Kind::Axes | Kind::OptInts => is_ints(arg) || matches!(arg, Arg::None),
            Kind::Graph => matches!(arg, Arg::Graph(_)),
        }
    }
}

/// A kind as a type: what kernels and shape rules receive for a parameter of this kind.
pub trait ParamKind {
    /// The kind.
    const KIND: Kind;
    /// What a kernel receives.
    type Value<'a>;
    /// What a shape rule receives.
    type Type<'a>;
    /// Reads a run-time argument.
    fn value(arg: &Value) -> Result<Self::Value<'_>>;
    /// Reads a type argument.
    fn ty(arg: &TypeTree) -> Result<Self::Type<'_>>;
}

/// A tensor or a number, at run time.
#[derive(Clone, Copy, Debug)]
pub enum OperandValue<'a> {
    /// A tensor.
    Array(&'a Array),
    /// A number.
    Scalar(Scalar),
}

/// A tensor or a number, while shapes are propagated.
#[derive(Clone, Copy, Debug)]
pub enum OperandType<'a> {
    /// A tensor.
    Tensor(&'a TensorType),
    /// A number of this category.
    Scalar(crate::Category),
}

/// A tensor or an integer, while shapes are propagated.
#[derive(Clone, Debug)]
pub enum IntOrTensorType<'a> {
    /// A tensor.
    Tensor(&'a TensorType),
    /// An integer, if it is known.
    Int(Option<Dim>),
}

fn wrong<T, L>(kind: Kind, arg: &Arg<L>) -> Result<T> {
    bail!(Argument, "expected {}, got {}", kind.describe(), arg.kind_name())
}

fn array(arg: &Value) -> Result<&Array> {
    match arg {
        Arg::Leaf(tensor) => tensor.array(),
        _ => wrong(Kind::Tensor, arg),
    }
}

fn tensor_type(arg: &TypeTree) -> Result<&TensorType> {
    match arg {
        Arg::Leaf(Type::Tensor(ty)) => Ok(ty),
        Arg::Leaf(Type::Any) => Err(unknown_type()),
        Arg::Leaf(other) => bail!(Argument, "expected a tensor, got {other}"),
        _ => wrong(Kind::Tensor, arg),
    }
}

/// A literal that may be read from a one-element tensor at run time.
fn scalar(arg: &Value) -> Result<Scalar> {
    match arg {
        Arg::Leaf(tensor) => tensor.array()?.item(),
        _ => arg.scalar().map_or_else(|| wrong(Kind::Number, arg), Ok),
    }
}

fn scalar_of_type(arg: &TypeTree) -> Result<Scalar> {
    match arg {
        Arg::Leaf(_) | Arg::Dim(_) => Err(unknown_type()),
        _ => arg.scalar().map_or_else(|| wrong(Kind::Number, arg), Ok),
    }
}

fn int(arg: &Value) -> Result<i64> {
    match scalar(arg)? {
        Scalar::Int(x) => Ok(x),
        _ => wrong(Kind::Int, arg),
    }
}

fn known_int(arg: &TypeTree) -> Result<i64> {
    match scalar_of_type(arg)? {
        Scalar::Int(x) => Ok(x),
        _ => wrong(Kind::Int, arg),
    }
}

fn dim(arg: &TypeTree) -> Result<Dim> {
    match arg {
        Arg::Dim(dim) => Ok(dim.clone()),
        Arg::Leaf(Type::Int) => Err(unknown_type()),
        _ => known_int(arg).map(Dim::new),
    }
}

fn each<'a, L, T>(
    kind: Kind,
    arg: &'a Arg<L>,
    read: impl Fn(&'a Arg<L>) -> Result<T>,
) -> Result<SmallVec<[T; 4]>> {
    match arg {
        Arg::List(items) | Arg::Tuple(items) => items.iter().map(read).collect(),
        Arg::None => wrong(kind, arg),
        one => Ok(SmallVec::from_iter([read(one)?])),
    }
}

fn optional<L, T>(arg: &Arg<L>, read: impl FnOnce(&Arg<L>) -> Result<T>) -> Result<Option<T>> {
    if matches!(arg, Arg::None) { Ok(None) } else { read(arg).map(Some) }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident { $value:ty, $ty:ty, |$v:ident| $read:expr, |$t:ident| $infer:expr $(, default |$d:ident : $dty:ty| $default:expr)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            pub enum $name {}
            impl ParamKind for $name {
                const KIND: Kind = Kind::$name;
                type Value<'a> = $value;
                type Type<'a> = $ty;
                fn value($v: &Value) -> Result<Self::Value<'_>> { $read }
                fn ty($t: &TypeTree) -> Result<Self::Type<'_>> { $infer }
            }
            $(impl $name {
                /// Makes the default of a parameter of this kind.
                pub const fn default($d: $dty) -> Default { $default }
            })?
        )*
    };
}

const fn opt_int(x: Option<i64>) -> Default {
    match x {
        Some(x) => Default::Int(x),
        None => Default::None,
    }
}

const fn opt_float(x: Option<f64>) -> Default {
    match x {
        Some(x) => Default::Float(x),
        None => Default::None,
    }
}

const fn opt_ints(x: Option<&'static [i64]>) -> Default {
    match x {
        Some(x) => Default::Ints(x),
        None => Default::None,
    }
}

kinds! {
    /// A tensor.
    Tensor { &'a Array, &'a TensorType, |v| array(v), |t| tensor_type(t) }
    /// A tensor or a number.
    Operand {
        OperandValue<'a>, OperandType<'a>,
        |v| match v {
            Arg::Leaf(_) => array(v).map(OperandValue::Array),
            _ => scalar(v).map(OperandValue::Scalar),
        },
        |t| match t {
            Arg::Leaf(Type::Int) | Arg::Dim(_) => Ok(OperandType::Scalar(crate::Category::Int)),
            Arg::Leaf(Type::Float) => Ok(OperandType::Scalar(crate::Category::Float)),
            Arg::Leaf(Type::Bool) => Ok(OperandType::Scalar(crate::Category::Bool)),
            Arg::Leaf(_) => tensor_type(t).map(OperandType::Tensor),
            _ => scalar_of_type(t).map(|x| OperandType::Scalar(x.category())),
        },
        default |x: Default| x
    }
    /// A tensor, a number or nothing.
    OptOperand {
        Option<OperandValue<'a>>, Option<OperandType<'a>>,
        |v| if matches!(v, Arg::None) { Ok(None) } else { <Operand as ParamKind>::value(v).map(Some) },
        |t| if matches!(t, Arg::None) { Ok(None) } else { <Operand as ParamKind>::ty(t).map(Some) },
        default |_x: Option<()>| Default::None
    }
    /// A tensor or an integer.
    IntOrTensor {
        OperandValue<'a>, IntOrTensorType<'a>,
        |v| match v {
            Arg::Leaf(_) => array(v).map(OperandValue::Array),
            _ => int(v).map(|x| OperandValue::Scalar(Scalar::Int(x))),
        },
        |t| match t {
            Arg::Leaf(Type::Int) => Ok(IntOrTensorType::Int(None)),
            Arg::Leaf(_) => tensor_type(t).map(IntOrTensorType::Tensor),
            _ => dim(t).map(|x| IntOrTensorType::Int(Some(x))),
        }
    }
    /// A tensor or nothing.
    OptTensor {
        Option<&'a Array>, Option<&'a TensorType>,
        |v| if matches!(v, Arg::None) { Ok(None) } else { array(v).map(Some) },
        |t| if matches!(t, Arg::None) { Ok(None) } else { tensor_type(t).map(Some) },
        default |_x: Option<()>| Default::None
    }
    /// A list of tensors.
    Tensors {
        SmallVec<[&'a Array; 4]>, TensorsType<'a>,
        |v| each(Kind::Tensors, v, array),
        |t| match t {
            Arg::Leaf(Type::List(item)) => tensor_type(item).map(TensorsType::Each),
            _ => each(Kind::Tensors, t, tensor_type).map(TensorsType::Known),
        }
    }
    /// An integer.
    Int { i64, Dim, |v| int(v), |t| dim(t), default |x: i64| Default::Int(x) }
    /// An integer or nothing.
    OptInt { Option<i64>, Option<Dim>, |v| optional(v, int), |t| optional(t, dim), default |x: Option<i64>| opt_int(x) }
    /// A float.
    Float {
        f64, Option<f64>, |v| scalar(v).map(Scalar::to_f64), |t| Ok(scalar_of_type(t).ok().map(Scalar::to_f64)),
        default |x: f64| Default::Float(x)
    }
    /// A float or nothing.
    OptFloat {
        Option<f64>, Option<f64>,
        |v| optional(v, |v| scalar(v).map(Scalar::to_f64)), |t| Ok(scalar_of_type(t).ok().map(Scalar::to_f64)),
        default |x: Option<f64>| opt_float(x)
    }
    /// A bool.
    Bool { bool, bool, |v| scalar(v).map(Scalar::to_bool), |t| scalar_of_type(t).map(Scalar::to_bool), default |x: bool| Default::Bool(x) }
    /// A number.
    Number {
        Scalar, crate::Category, |v| scalar(v),
        |t| match <Operand as ParamKind>::ty(t)? {
            OperandType::Scalar(category) => Ok(category),
            OperandType::Tensor(_) => wrong(Kind::Number, t),
        },
        default |x: Default| x
    }
    /// A number or nothing.
    OptNumber {
        Option<Scalar>, Option<crate::Category>, |v| optional(v, scalar), |t| optional(t, |t| <Number as ParamKind>::ty(t)),
        default |_x: Option<()>| Default::None
    }
    /// Text.
    Str {
        &'a str, &'a str,
        |v| match v { Arg::Str(x) => Ok(x), _ => wrong(Kind::Str, v) },
        |t| match t { Arg::Str(x) => Ok(x), _ => wrong(Kind::Str, t) },
        default |x: &'static str| Default::Str(x)
    }
    /// A dtype.
    DType {
        DTypeValue, DTypeValue,
        |v| match v { Arg::DType(x) => Ok(*x), _ => wrong(Kind::DType, v) },
        |t| match t { Arg::DType(x) => Ok(*x), _ => wrong(Kind::DType, t) }
    }
    /// A dtype or nothing.
    OptDType {
        Option<DTypeValue>, Option<DTypeValue>,
        |v| optional(v, |v| <DType as ParamKind>::value(v)), |t| optional(t, |t| <DType as ParamKind>::ty(t)),
        default |_x: Option<()>| Default::None
    }
    /// One axis, several, or nothing for all.
    Axes {
        Option<IntVec>, Option<IntVec>,
        |v| if matches!(v, Arg::None) { Ok(None) } else { each(Kind::Axes, v, int).map(Some) },
        |t| if matches!(t, Arg::None) { Ok(None) } else { each(Kind::Axes, t, known_int).map(Some) },
        default |x: Option<&'static [i64]>| opt_ints(x)
    }
    /// A list of integers.
    Ints {
        IntVec, IntVec, |v| each(Kind::Ints, v, int), |t| each(Kind::Ints, t, known_int),
        default |x: &'static [i64]| Default::Ints(x)
    }
    /// A list of integers or nothing.
    OptInts {
        Option<IntVec>, Option<IntVec>,
        |v| if matches!(v, Arg::None) { Ok(None) } else { each(Kind::Ints, v, int).map(Some) },
        |t| if matches!(t, Arg::None) { Ok(None) } else { each(Kind::Ints, t, known_int).map(Some) },
        default |x: Option<&'static [i64]>| opt_ints(x)
    }
    /// A list of sizes.
    Shape {
        IntVec, DimVec, |v| each(Kind::Shape, v, int), |t| each(Kind::Shape, t, dim),
        default |x: &'static [i64]| Default::Ints(x)
    }
    /// A sub-graph.
    Graph {
        &'a Arc<GraphValue>, &'a Arc<GraphValue>,
        |v| match v { Arg::Graph(x) => Ok(x), _ => wrong(Kind::Graph, v) },
        |t| match t { Arg::Graph(x) => Ok(x), _ => wrong(Kind::Graph, t) }
    }
    /// Anything, as it is.
    Any { &'a Value, &'a TypeTree, |v| Ok(v), |t| Ok(t), default |x: Default| x }
}

/// What a kernel may return.
pub trait IntoValue {
    /// Converts it.
    fn into_value(self) -> Value;
}

/// What a shape rule may return.
pub trait IntoType {
    /// Converts it.
    fn into_type(self) -> TypeTree;
}

impl IntoValue for Value {
    fn into_value(self) -> Value {
        self
    }
}
impl IntoType for TypeTree {
    fn into_type(self) -> TypeTree {
        self
    }
}
impl IntoValue for Array {
    fn into_value(self) -> Value {
        Arg::Leaf(self.into())
    }
}
impl IntoType for TensorType {
    fn into_type(self) -> TypeTree {
        self.into()
    }
}

macro_rules! results {
    ($($t:ident)*; $($i:tt)*) => {
        impl<$($t: IntoValue),*> IntoValue for ($($t,)*) {
            fn into_value(self) -> Value { Arg::tuple([$(self.$i.into_value()),*]) }
        }
        impl<$($t: IntoType),*> IntoType for ($($t,)*) {
            fn into_type(self) -> TypeTree { Arg::tuple([$(self.$i.into_type()),*]) }
        }
    };
}
results!(A B; 0 1);
results!(A B C; 0 1 2);
results!(A B C D; 0 1 2 3);

impl<T: IntoValue> IntoValue for Vec<T> {
    fn into_value(self) -> Value {
        Arg::list(self.into_iter().map(T::into_value))
    }
}
impl<T: IntoType> IntoType for Vec<T> {
    fn into_type(self) -> TypeTree {
        Arg::list(self.into_iter().map(T::into_type))
    }
}
impl IntoValue for Scalar {
    fn into_value(self) -> Value {
        self.into()
    }
}
