//! [`OpDef`]: everything fx knows of an operation, in one row; and the [`Registry`] that finds rows by name.
//!
//! A row is plain data, written by the macros [`pointwise!`](crate::pointwise!), [`kernels!`](crate::kernels)
//! and [`functions!`](crate::functions), by `#[fx::wrap]`, or by hand. Graphs refer to rows by address
//! ([`Op`]), so a user's own row has the same standing as a built-in one.

pub mod convert;
mod flops;
pub mod kind;
mod macros;
mod registry;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

pub use convert::{Given, ToArg};
pub use flops::{Flops, elements};
pub use kind::{Kind, ParamKind};
pub use registry::Registry;

use crate::gufunc::GufuncDef;
use crate::pointwise::PointwiseDef;
use crate::rowwise::RowwiseRule;
use crate::window::WindowRule;
use crate::{Arg, Error, ErrorKind, Result, TypeTree, Value, err};

/// What an operation does besides computing its result. Passes keep such operations, and their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effects {
    /// Draws from a random generator.
    pub random: bool,
    /// Acts on the world or checks it: `print`, `check`.
    pub host: bool,
    /// Updates a buffer.
    pub state: bool,
}

impl Effects {
    /// No effect.
    pub const PURE: Effects = Effects { random: false, host: false, state: false };
    /// Draws from a random generator.
    pub const RANDOM: Effects = Effects { random: true, ..Effects::PURE };
    /// Acts on the world.
    pub const HOST: Effects = Effects { host: true, ..Effects::PURE };
    /// Updates a buffer.
    pub const STATE: Effects = Effects { state: true, ..Effects::PURE };

    /// Returns whether there is no effect.
    pub const fn is_pure(self) -> bool {
        !(self.random || self.host || self.state)
    }
}

/// How an operation is computed, which decides what can be fused with it.
#[derive(Clone, Copy, Debug)]
pub enum Class {
    /// Element by element, with broadcasting; the scalar body is known.
    Pointwise(&'static PointwiseDef),
    /// A reduction over axes.
    Reduce,
    /// A view: no element is computed. [`OpDef::windows`] says where they lie.
    View,
    /// Any other kernel.
    Kernel,
    /// A function over other operations that is kept as one node.
    Composite,
    /// Runs sub-graphs.
    Control,
}

/// The default of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// Absent.
    None,
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A list of integers.
    Ints(&'static [i64]),
    /// Text.
    Str(&'static str),
}

impl Default {
    /// Returns whether an argument is this default, in type and bits.
    pub fn is<L>(self, arg: &Arg<L>) -> bool {
        match (self, arg) {
            (Default::None, Arg::None) => true,
            (Default::Bool(a), Arg::Bool(b)) => a == *b,
            (Default::Int(a), Arg::Int(b)) => a == *b,
            (Default::Float(a), Arg::Float(b)) => a.to_bits() == b.to_bits(),
            (Default::Str(a), Arg::Str(b)) => *a == **b,
            (Default::Ints(a), Arg::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| matches!(b, Arg::Int(b) if a == b))
            }
            _ => false,
        }
    }

    /// Returns the default as an argument.
    pub fn to_arg<L>(self) -> Arg<L> {
        match self {
            Default::None => Arg::None,
            Default::Bool(x) => Arg::Bool(x),
            Default::Int(x) => Arg::Int(x),
            Default::Float(x) => Arg::Float(x),
            Default::Ints(x) => Arg::ints(x.iter().copied()),
            Default::Str(x) => Arg::str(x),
        }
    }
}

/// A default as tables write it: a bool, an integer, a float, or a [`Default`].
#[doc(hidden)]
pub struct Written<T>(pub T);

impl Written<bool> {
    /// Returns the default.
    pub const fn default(self) -> Default {
        Default::Bool(self.0)
    }
}

// One integer type and one float type, so that a literal without a suffix has it.
impl Written<i64> {
    /// Returns the default.
    pub const fn default(self) -> Default {
        Default::Int(self.0)
    }
}

impl Written<f64> {
    /// Returns the default.
    pub const fn default(self) -> Default {
        Default::Float(self.0)
    }
}

impl Written<Default> {
    /// Returns the default.
    pub const fn default(self) -> Default {
        self.0
    }
}

/// One parameter of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name, for keyword arguments.
    pub name: &'static str,
    /// The accepted values.
    pub kind: Kind,
    /// Its default; `None` if it must be given.
    pub default: Option<Default>,
    /// Whether it can only be given by name.
    pub keyword_only: bool,
}

impl Param {
    /// Returns whether it names axes, by its kind or by PyTorch's names for them.
    pub fn names_axes(&self) -> bool {
        let is_name =
            |name: &str| name.starts_with("dim") || name.starts_with("axis") || name.ends_with("_dim");
        self.kind == Kind::Axes || is_name(self.name)
    }

    /// Returns the default, or none if there is none.
    pub(crate) fn default_arg<L>(&self) -> Arg<L> {
        self.default.map_or(Arg::None, Default::to_arg)
    }
}

/// Positional and keyword arguments, as a call is written.
pub type Spelled<L> = (Vec<Arg<L>>, Vec<(Arc<str>, Arg<L>)>);

/// The row of an operation.
#[derive(Clone, Copy)]
pub struct OpDef {
    /// The name: PyTorch's, where PyTorch has the operation.
    pub name: &'static str,
    /// The documentation, in Markdown.
    pub doc: &'static str,
    /// The path of its Rust function, such as `my_crate::ops::swish`, for generated code; empty if it has none.
    pub path: &'static str,
    /// The type that its Rust function returns, as it is written: `Tensor`, `(Tensor, Tensor)`, `Vec<Tensor>`.
    pub returns: &'static str,
    /// The parameters in order.
    pub params: &'static [Param],
    /// How it is computed.
    pub class: Class,
    /// Its effects.
    pub effects: Effects,
    /// How much arithmetic it does.
    pub flops: Flops,
    /// Whether the first two operands may be exchanged.
    pub commutative: bool,
    /// Whether `x.name(..)` exists, so that it may be called as a method.
    pub method: bool,
    /// The type of the result from the types of all arguments in schema order.
    pub infer: &'static (dyn Fn(&[TypeTree]) -> Result<TypeTree> + Send + Sync),
    /// The result from all arguments in schema order; every tensor is concrete.
    pub eval: &'static (dyn Fn(&[Value]) -> Result<Value> + Send + Sync),
    /// Where the elements of a view lie in its operands, by which engines and crates read it without a copy.
    pub windows: Option<WindowRule>,
    /// Which calls are row-wise, if some are, so that they can be parts of fused kernels and of crates.
    pub rows: Option<RowwiseRule>,
    /// The signature and the body for one block, if it is a gufunc, so that it can be a step of plans and a part
    /// of crates.
    pub gufunc: Option<&'static GufuncDef>,
    /// As `eval`, for arguments that the caller no longer needs: a list that nobody else has is changed in place.
    pub eval_in_place: Option<EvalInPlace>,
}

/// Computes a result from arguments that the caller no longer needs.
pub type EvalInPlace = fn(&mut [Value]) -> Result<Value>;

impl OpDef {
    /// A row to fill in with `..OpDef::BASE`.
    pub const BASE: OpDef = OpDef {
        name: "",
        doc: "",
        path: "",
        returns: "Tensor",
        params: &[],
        class: Class::Kernel,
        effects: Effects::PURE,
        flops: Flops::ByClass,
        commutative: false,
        method: false,
        infer: &|_| Err(unknown_type()),
        eval: &|_| Err(err!(Unresolved, "this operation has no kernel")),
        windows: None,
        rows: None,
        gufunc: None,
        eval_in_place: None,
    };

    /// Arranges arguments in schema order: keywords resolved, defaults filled in, kinds checked. Fails if an
    /// argument is missing, unknown, given twice, or of another kind.
    pub fn bind<L: Clone>(
        &self,
        args: &[Arg<L>],
        kwargs: &[(impl AsRef<str>, Arg<L>)],
    ) -> Result<Vec<Arg<L>>> {
        let placed = self.place(args, kwargs)?;
        let mut out = Vec::with_capacity(placed.len());
        for (param, arg) in self.params.iter().zip(placed) {
            out.push(arg.cloned().unwrap_or_else(|| param.default_arg()));
        }
        Ok(out)
    }

    /// Arranges arguments as [`bind`](OpDef::bind) does and writes each in one way, so that calls which mean
    /// the same have equal arguments: an integer given for a float is a float, one axis a list of one, a
    /// tuple of integers a list. Fails as [`bind`](OpDef::bind) does.
    pub fn canonical<L: Clone>(
        &self,
        args: &[Arg<L>],
        kwargs: &[(impl AsRef<str>, Arg<L>)],
    ) -> Result<Vec<Arg<L>>> {
        let mut bound = self.bind(args, kwargs)?;
        for (param, arg) in self.params.iter().zip(&mut bound) {
            if let Some(canonical) = param.kind.canonical(arg) {
                *arg = canonical;
            }
        }
        Ok(bound)
    }

    /// Returns whether the first two of these arguments, which are in schema order, may be exchanged: the
    /// operation is commutative, and what follows them, such as the factor of `add`, has its default.
    pub fn can_swap<L>(&self, bound: &[Arg<L>]) -> bool {
        let is_default =
            |(param, arg): (&Param, &Arg<L>)| param.default.is_some_and(|default| default.is(arg));
        self.commutative && bound.len() >= 2 && self.params.iter().zip(bound).skip(2).all(is_default)
    }

    /// Finds the argument of each parameter, as [`bind`](OpDef::bind) does: `None` where the default stands.
    pub(crate) fn place<'a, L>(
        &self,
        args: &'a [Arg<L>],
        kwargs: &'a [(impl AsRef<str>, Arg<L>)],
    ) -> Result<SmallVec<[Option<&'a Arg<L>>; 10]>> {
        let n_positional = self.params.iter().filter(|param| !param.keyword_only).count();
        if args.len() > n_positional {
            return Err(err!(
                Argument,
                "{} takes at most {n_positional} positional arguments, got {}",
                self.name,
                args.len()
            )
            .help(format!("its schema is {self}")));
        }
        for (i, (key, _)) in kwargs.iter().enumerate() {
            let key = key.as_ref();
            let position = self.params.iter().position(|param| param.name == key).ok_or_else(|| {
                err!(Argument, "{} has no parameter {key:?}", self.name).help(format!("its schema is {self}"))
            })?;
            if position < args.len() || kwargs[..i].iter().any(|(other, _)| other.as_ref() == key) {
                return Err(err!(Argument, "{} got the argument {key:?} twice", self.name));
            }
        }
        let mut placed = SmallVec::with_capacity(self.params.len());
        for (i, param) in self.params.iter().enumerate() {
            let by_name = || kwargs.iter().find(|(key, _)| key.as_ref() == param.name).map(|(_, arg)| arg);
            let arg = args.get(i).or_else(by_name);
            match arg {
                Some(Arg::Failed(error)) => return Err(error.clone()),
                Some(Arg::None) if param.default == Some(Default::None) => {}
                Some(arg) if !param.kind.accepts(arg) => {
                    return Err(err!(
                        Argument,
                        "{}: argument {:?} takes {}, got {}",
                        self.name,
                        param.name,
                        param.kind.describe(),
                        arg.kind_name()
                    ));
                }
                None if param.default.is_none() => {
                    return Err(err!(Argument, "{} needs the argument {:?}", self.name, param.name)
                        .help(format!("its schema is {self}")));
                }
                _ => {}
            }
            placed.push(arg);
        }
        Ok(placed)
    }

    /// Spells arguments in schema order as traces do: required ones by position, others by name where they
    /// differ from their default.
    pub fn spell<L: Clone>(&self, bound: &[Arg<L>]) -> Spelled<L> {
        let (mut args, mut kwargs) = (Vec::new(), Vec::new());
        for (param, arg) in self.params.iter().zip(bound) {
            match param.default {
                None if kwargs.is_empty() && !param.keyword_only => args.push(arg.clone()),
                Some(default) if default.is(arg) => {}
                _ => kwargs.push((Arc::from(param.name), arg.clone())),
            }
        }
        (args, kwargs)
    }

    /// Returns the type of the result, or `None` if too little is known of the arguments. Fails if the types
    /// do not fit the operation.
    pub fn infer(&self, args: &[TypeTree]) -> Result<Option<TypeTree>> {
        if args.iter().any(|arg| !arg.is_complete()) {
            return Ok(None);
        }
        match (self.infer)(args) {
            Ok(ty) => Ok(Some(ty)),
            Err(error) if error.kind() == ErrorKind::UnknownType => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether every parameter but tensors makes it a factory: it makes tensors out of none.
    pub fn takes_no_tensor(&self) -> bool {
        !self.params.iter().any(|param| param.kind.is_tensor())
    }
}

/// The error by which a shape rule says that it needs a value which is not known yet.
pub fn unknown_type() -> Error {
    err!(UnknownType, "the type is not known before the operation has run")
}

/// The schema, such as `sum(x: tensor, dim: axes = none, keepdim: bool = false)`.
impl fmt::Display for OpDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        let mut keyword_only = false;
        for (i, param) in self.params.iter().enumerate() {
            let separator = match (i, param.keyword_only && !keyword_only) {
                (0, false) => "",
                (0, true) => "*, ",
                (_, false) => ", ",
                (_, true) => ", *, ",
            };
            keyword_only |= param.keyword_only;
            write!(f, "{separator}{}: {}", param.name, param.kind.name())?;
            if let Some(default) = param.default {
                write!(f, " = {}", default.to_arg::<String>())?;
            }
        }
        f.write_str(")")
    }
}

impl fmt::Debug for OpDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A reference to a row, compared by address.
#[derive(Clone, Copy)]
pub struct Op(&'static OpDef);

impl Op {
    /// Refers to a row.
    pub const fn new(def: &'static OpDef) -> Self {
        Op(def)
    }
}

impl Deref for Op {
    type Target = OpDef;
    fn deref(&self) -> &OpDef {
        self.0
    }
}

impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for Op {}
impl Hash for Op {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}
impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Removes the underscore that keeps a Rust name such as `where_` from being a keyword.
#[doc(hidden)]
pub const fn op_name(name: &'static str) -> &'static str {
    let bytes = name.as_bytes();
    if bytes.len() > 1 && bytes[bytes.len() - 1] == b'_' { name.split_at(name.len() - 1).0 } else { name }
}

/// The error of a row whose kernel is called with another number of arguments than its schema has.
#[doc(hidden)]
pub fn wrong_arity<T>(def: &OpDef, got: usize) -> Result<T> {
    Err(err!(Argument, "{} takes {} arguments in schema order, got {got}", def.name, def.params.len()))
}
