//! [`library`]: operators that users define by a schema, as PyTorch's libraries do.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{PoisonError, RwLock};

use fx_core::op::kind::{self, IntoType, ParamKind};
use fx_script::schema::{self, Default as SchemaDefault, Parameter as SchemaParameter, Schema};
use fx_script::types::Type as ScriptType;

use crate::lazy::without_following;
use crate::op::{Default, unknown_type};
use crate::trace::{Traceable, apply, infer_by_tracing, result_as, without_tracing};
use crate::{
    Arg, Class, DType, Dim, Effects, ErrorKind, Kind, Op, OpDef, Param, Registry, Result, SourceLoc,
    TensorType, Tree, Type, TypeTree, Value, bail, err,
};

/// Begins the definition of an operator, by its schema and its kernel. [`register`](Library::register) ends it.
///
/// The schema is written as for `torch.library`: `namespace::name(parameters) -> results`. The kernel is a
/// function of these parameters: a closure or `fn` that takes `&Tensor`, `f64`, `i64`, `bool`, `String`,
/// [`DType`], `Option`s and `Vec`s of them, and returns a tensor, a tuple or list of tensors, or a `Result` of
/// one. What it captures lives as long as the program.
///
/// The operator then has the same standing as a built-in one. A trace records one node, whose row is called
/// `mylib_scale`. TorchScript programs and archives, and `.pt2` programs, find it as
/// `torch.ops.mylib.scale`, and so does [`registry`], which reads graphs from text and files.
/// [`opcheck::check`](crate::opcheck::check) tests it.
///
/// ```
/// use fx::prelude::*;
///
/// let scale = fx::library("mylib::scale(Tensor x, float k=2.0) -> Tensor", |x: &Tensor, k: f64| x * k)
///     .shape(|x: fx::TensorType, _k: f64| Ok(x))
///     .register()?;
/// let x = Tensor::new([1.0f32, 2.0]);
/// let y: Tensor = scale.call((&x, 3.0));
/// assert_eq!(y.to_vec::<f32>()?, [3.0, 6.0]);
///
/// let mut script = fx::script("def f(x):\n    return torch.ops.mylib.scale(x, k=0.5) + 1\n")?;
/// let y: Tensor = script.call("f", (x,))?.to()?;
/// assert_eq!(y.to_vec::<f32>()?, [1.5, 2.0]);
/// # Ok::<(), fx::Error>(())
/// ```
#[track_caller]
pub fn library<K, M>(schema: &str, kernel: K) -> Library<K, M>
where
    K: Traceable<M> + Send + Sync + 'static,
{
    Library {
        schema: schema.to_owned(),
        kernel,
        rule: None,
        effects: Effects::PURE,
        doc: String::new(),
        path: String::new(),
        place: SourceLoc::caller(),
        marker: PhantomData,
    }
}

/// A shape rule: the type of the result from the types of the arguments.
type Rule = Box<dyn Fn(&[TypeTree]) -> Result<TypeTree> + Send + Sync>;

/// An operator that is being defined; see [`library`].
#[must_use = "end the definition with `register`"]
pub struct Library<K, M> {
    schema: String,
    kernel: K,
    rule: Option<Rule>,
    effects: Effects,
    doc: String,
    path: String,
    place: SourceLoc,
    marker: PhantomData<fn() -> M>,
}

impl<K: Traceable<M> + Send + Sync + 'static, M: 'static> Library<K, M> {
    /// Gives the shape rule: a function of the same parameters, with [`TensorType`] in the place of tensors, that
    /// returns the type of the result. Sizes may be symbols. A rule that needs the number of a size asks
    /// [`Dim::known`], and fails with [`unknown_type`] if there is none.
    ///
    /// Without a rule, the kernel runs on symbols to find the type. That suits a kernel that is written with
    /// fx's operations. The result of a kernel that reads elements has no type before it has run.
    pub fn shape<A>(mut self, rule: impl ShapeRule<A>) -> Self {
        self.rule = Some(Box::new(move |types| rule.apply(types)));
        self
    }

    /// Says what the operator does besides computing its result. By default, nothing.
    pub fn effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// Gives the documentation, in Markdown.
    pub fn doc(mut self, text: &str) -> Self {
        self.doc = text.to_owned();
        self
    }

    /// Gives the path of a Rust function that does the same, such as `my_crate::scale`. Generated code calls it.
    pub fn path(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    /// Makes the operator known to programs, archives and [`registry`]. It stays until the process ends.
    ///
    /// Fails if the schema cannot be read, if the kernel takes another number of arguments, or if there is an
    /// operator of this name. The error has the line of [`library`].
    pub fn register(self) -> Result<Operator> {
        let place = self.place.clone();
        self.try_register().map_err(|error| error.at(place))
    }

    fn try_register(self) -> Result<Operator> {
        let schema = Schema::parse(&self.schema)?;
        check(&schema)?;
        let (expected, got) = (schema.parameters.len(), self.kernel.arguments().len());
        if expected != got {
            bail!(Argument, "the schema of {} has {expected} parameters, the kernel {got}", schema.full_name);
        }
        let row = row_name(&schema.full_name);
        let mut rows = ROWS.write().unwrap_or_else(PoisonError::into_inner);
        if fx_ops::registry().get(&row).is_some()
            || rows.iter().any(|row| row.schema.full_name == schema.full_name)
        {
            return Err(err!(Argument, "there is an operator {} already", schema.full_name)
                .help("define it once, such as in a `LazyLock`, or give it another name"));
        }
        if let Some(other) = rows.iter().find(|other| other.op.name == row) {
            bail!(Argument, "{} and {} both have the row {row}", other.schema.full_name, schema.full_name);
        }
        let params = schema.parameters.iter().map(param).collect::<Result<Vec<Param>>>()?;
        let returns = returned(schema.returns.as_deref().unwrap_or_default())?;
        let schema = schema::define(schema)?;
        let class = if self.rule.is_some() { Class::Kernel } else { Class::Composite };
        let kernel: &'static K = Box::leak(Box::new(self.kernel));
        let eval = move |args: &[Value]| {
            let run = || kernel.run(args)?.into_result();
            let value = without_tracing(|| without_following(run))?;
            conforms(schema, "kernel", &value, &|ty, _| *ty == ScriptType::Tensor)?;
            Ok(value)
        };
        let rule = self.rule;
        let infer = move |types: &[TypeTree]| {
            let ty = match &rule {
                Some(rule) => rule(types)?,
                None => {
                    infer_by_tracing(types, |args| kernel.run(args)?.into_result()).map_err(unless_wrong)?
                }
            };
            conforms(schema, "shape rule", &ty, &may_be)?;
            Ok(ty)
        };
        let def = OpDef {
            name: Box::leak(row.into_boxed_str()),
            doc: Box::leak(self.doc.into_boxed_str()),
            path: Box::leak(self.path.into_boxed_str()),
            returns: Box::leak(returns.into_boxed_str()),
            params: Box::leak(params.into_boxed_slice()),
            class,
            effects: self.effects,
            infer: Box::leak(Box::new(infer)),
            eval: Box::leak(Box::new(eval)),
            ..OpDef::BASE
        };
        let op = Op::new(Box::leak(Box::new(def)));
        rows.push(Row { op, schema });
        Ok(Operator(op))
    }
}

impl<K, M> fmt::Debug for Library<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// An operator that [`library`] defines: its row, which can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operator(Op);

impl Operator {
    /// Returns the row.
    pub fn op(self) -> Op {
        self.0
    }

    /// Calls the operator with a tuple of arguments; those at the end may be left out if they have defaults. A
    /// traced call is recorded. A failed call gives tensors that carry the error.
    #[track_caller]
    pub fn call<R: Tree>(self, args: impl Arguments) -> R {
        self.call_with(args, &[])
    }

    /// Calls the operator with a tuple of arguments by position, and others by name: `[("k", 3.into())]`.
    #[track_caller]
    pub fn call_with<R: Tree>(self, args: impl Arguments, named: &[(&str, Value)]) -> R {
        result_as(apply(self.0, false, &args.into_values(), named))
    }
}

impl Deref for Operator {
    type Target = Op;
    fn deref(&self) -> &Op {
        &self.0
    }
}

/// A tuple of arguments: `&Tensor`s, numbers, texts, lists and options of them.
pub trait Arguments {
    /// Returns the arguments as values.
    fn into_values(self) -> Vec<Value>;
}

/// The operators of libraries.
static ROWS: RwLock<Vec<Row>> = RwLock::new(Vec::new());

struct Row {
    op: Op,
    schema: &'static Schema,
}

/// Returns all built-in operations and the operators that [`library`] defined so far, for parsers and importers.
pub fn registry() -> Registry {
    let mut registry = fx_ops::registry();
    let rows = ROWS.read().unwrap_or_else(PoisonError::into_inner);
    for row in rows.iter() {
        registry.add(&[row.op]).expect("rows have distinct names");
    }
    registry
}

/// Returns the schema of an operator of a library.
pub(crate) fn schema_of(op: Op) -> Option<&'static Schema> {
    let rows = ROWS.read().unwrap_or_else(PoisonError::into_inner);
    rows.iter().find(|row| row.op == op).map(|row| row.schema)
}

/// Returns the name of the row: `mylib_scale` for `mylib::scale`, `mylib_scale_out` for `mylib::scale.out`.
fn row_name(full_name: &str) -> String {
    full_name.replace("::", "_").replace('.', "_")
}

/// Fails if an operator cannot have this schema.
fn check(schema: &Schema) -> Result<()> {
    let name = &schema.full_name;
    let (space, base) = name.split_once("::").unwrap_or(("", name));
    let is_word = |word: &str| {
        !word.is_empty()
            && !word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !is_word(space) || !base.splitn(2, '.').all(is_word) {
        bail!(Argument, "{name:?} is no name of an operator; one is written like mylib::scale");
    }
    if matches!(space, "aten" | "prim" | "prims" | "higher_order") {
        return Err(err!(Argument, "the namespace {space:?} is PyTorch's own")
            .help(format!("write the name of your library: mylib::{base}")));
    }
    if schema.is_variadic || schema.returns.is_none() {
        bail!(Argument, "{name}: `...` cannot stand in the schema of a library's operator");
    }
    if let Some(written) = schema.parameters.iter().find(|parameter| parameter.is_written) {
        return Err(err!(Argument, "{name} writes to its argument {:?}", written.name)
            .help("return the new value, and let the caller use that"));
    }
    let types = schema.parameters.iter().map(|parameter| &parameter.declared);
    for ty in types.chain(schema.returns.iter().flatten()) {
        let mut variable = None;
        has_variable(ty, &mut variable);
        if let Some(variable) = variable {
            return Err(err!(Argument, "{name}: there is no type {variable:?}").help(
                "the types are Tensor, int, float, bool, str, Scalar, ScalarType, and with `?` and `[]` \
                 optional ones and lists",
            ));
        }
    }
    Ok(())
}

fn has_variable(ty: &ScriptType, found: &mut Option<String>) {
    match ty {
        ScriptType::Var(name) => *found = Some(name.to_string()),
        ScriptType::Optional(inner) | ScriptType::List(inner) => has_variable(inner, found),
        ScriptType::Tuple(items) => items.iter().for_each(|item| has_variable(item, found)),
        _ => {}
    }
}

/// Returns the parameter of the row.
fn param(parameter: &SchemaParameter) -> Result<Param> {
    let (ty, is_optional) = match &parameter.declared {
        ScriptType::Optional(inner) => (&**inner, true),
        ty => (ty, false),
    };
    // Programs pass dtypes as numbers.
    let is_dtype = parameter.name.ends_with("dtype");
    let kind = match (ty, is_optional) {
        (ScriptType::Tensor, false) => Kind::Tensor,
        (ScriptType::Tensor, true) => Kind::OptTensor,
        (ScriptType::Int, false) if is_dtype => Kind::DType,
        (ScriptType::Int, true) if is_dtype => Kind::OptDType,
        (ScriptType::Int, false) => Kind::Int,
        (ScriptType::Int, true) => Kind::OptInt,
        (ScriptType::Float, false) => Kind::Float,
        (ScriptType::Float, true) => Kind::OptFloat,
        (ScriptType::Bool, false) => Kind::Bool,
        (ScriptType::Number, false) => Kind::Number,
        (ScriptType::Number, true) => Kind::OptNumber,
        (ScriptType::Str, false) => Kind::Str,
        (ScriptType::List(item), _) => match (&**item, is_optional) {
            (ScriptType::Tensor, false) => Kind::Tensors,
            (ScriptType::Int, false) => Kind::Ints,
            (ScriptType::Int, true) => Kind::OptInts,
            _ => Kind::Any,
        },
        (ScriptType::Bool | ScriptType::Str, true) => Kind::Any,
        (other, _) => {
            return Err(err!(
                Argument,
                "the parameter {:?} has the type {other}, which kernels do not take",
                parameter.name
            )
            .help(
                "the types are Tensor, int, float, bool, str, Scalar, ScalarType, and with `?` and `[]` \
                       optional ones and lists",
            ));
        }
    };
    let name: &'static str = Box::leak(parameter.name.to_string().into_boxed_str());
    let default = parameter.default.as_ref().map(|default| default_of(name, default, kind)).transpose()?;
    Ok(Param { name, kind, default, keyword_only: parameter.keyword_only })
}

fn default_of(name: &str, default: &SchemaDefault, kind: Kind) -> Result<Default> {
    Ok(match (default, kind) {
        (SchemaDefault::None, _) => Default::None,
        (SchemaDefault::Bool(x), _) => Default::Bool(*x),
        (SchemaDefault::Int(x), Kind::Float | Kind::OptFloat) => Default::Float(*x as f64),
        (SchemaDefault::Int(x), Kind::Ints | Kind::OptInts) => Default::Ints(Box::leak(Box::new([*x]))),
        (SchemaDefault::Int(x), _) => Default::Int(*x),
        (SchemaDefault::Float(x), _) => Default::Float(*x),
        (SchemaDefault::Str(text), _) => Default::Str(Box::leak(text.to_string().into_boxed_str())),
        (SchemaDefault::List(items), _) => {
            let ints = items.iter().map(|item| match item {
                SchemaDefault::Int(x) => Ok(*x),
                _ => Err(err!(Argument, "the default of {name:?} is a list of other things than integers")
                    .help("make the parameter optional: `float[]? xs=None`")),
            });
            Default::Ints(Box::leak(ints.collect::<Result<Vec<i64>>>()?.into_boxed_slice()))
        }
    })
}

/// Returns the results as a Rust type.
fn returned(returns: &[ScriptType]) -> Result<String> {
    let one = |ty: &ScriptType| {
        Ok(match ty {
            ScriptType::Tensor => "Tensor",
            ScriptType::List(item) if **item == ScriptType::Tensor => "Vec<Tensor>",
            ScriptType::Int => "i64",
            ScriptType::Float => "f64",
            ScriptType::Bool => "bool",
            other => {
                return Err(err!(Argument, "a result has the type {other}, which kernels do not return")
                    .help("results are Tensor, Tensor[], int, float or bool"));
            }
        })
    };
    match returns {
        [result] => Ok(one(result)?.to_owned()),
        results => Ok(format!("({})", results.iter().map(one).collect::<Result<Vec<_>>>()?.join(", "))),
    }
}

/// Returns whether a leaf of a type is what the schema says, as far as it is known.
fn may_be(ty: &ScriptType, leaf: &Type) -> bool {
    matches!(
        (ty, leaf),
        (_, Type::Any)
            | (ScriptType::Tensor, Type::Tensor(_))
            | (ScriptType::List(_), Type::List(_))
            | (ScriptType::Int, Type::Int)
            | (ScriptType::Float, Type::Float)
            | (ScriptType::Bool, Type::Bool)
    )
}

/// Fails if the result of a kernel or rule is not what the schema says. `fits` compares a leaf.
fn conforms<L>(
    schema: &Schema,
    what: &str,
    result: &Arg<L>,
    fits: &dyn Fn(&ScriptType, &L) -> bool,
) -> Result<()> {
    let is = |ty: &ScriptType, result: &Arg<L>| match (ty, result) {
        (ty, Arg::Leaf(leaf)) => fits(ty, leaf),
        (ScriptType::List(_), Arg::List(items) | Arg::Tuple(items)) => {
            items.iter().all(|item| matches!(item, Arg::Leaf(leaf) if fits(&ScriptType::Tensor, leaf)))
        }
        (ScriptType::Int, Arg::Int(_) | Arg::Dim(_)) | (ScriptType::Float, Arg::Float(_)) => true,
        (ScriptType::Bool, Arg::Bool(_)) => true,
        _ => false,
    };
    let is_right = match (schema.returns.as_deref().unwrap_or_default(), result) {
        ([ty], result) => is(ty, result),
        ([], Arg::None) => true,
        (types, Arg::Tuple(items)) => {
            types.len() == items.len() && types.iter().zip(items.iter()).all(|(ty, item)| is(ty, item))
        }
        _ => false,
    };
    if is_right {
        return Ok(());
    }
    let returns: Vec<String> = schema.returns.iter().flatten().map(ToString::to_string).collect();
    Err(err!(
        Structure,
        "the {what} of {} returns {}, its schema says ({})",
        schema.full_name,
        result.kind_name(),
        returns.join(", ")
    ))
}

/// What a kernel says of symbols: an error that it has with tensors, too, or that it needs values.
fn unless_wrong(error: crate::Error) -> crate::Error {
    match error.kind() {
        ErrorKind::Shape | ErrorKind::DType | ErrorKind::Axis | ErrorKind::Index | ErrorKind::Argument => {
            error
        }
        _ => unknown_type(),
    }
}

/// A function that is a shape rule; see [`Library::shape`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no shape rule",
    note = "a shape rule is a closure such as `|x: TensorType, k: f64| Ok(x)`: the types of tensors, and the other arguments"
)]
pub trait ShapeRule<A>: Send + Sync + 'static {
    /// Returns the type of the result. Fails if the types do not fit the operator.
    fn apply(&self, types: &[TypeTree]) -> Result<TypeTree>;
}

/// What a shape rule takes for a parameter.
pub trait FromType: Sized {
    /// Reads the argument. Fails if it is of another kind, or not known.
    fn from_type(ty: &TypeTree) -> Result<Self>;
}

macro_rules! from_types {
    ($($ty:ty, $kind:ident, |$x:ident| $read:expr;)*) => {
        $(impl FromType for $ty {
            fn from_type(ty: &TypeTree) -> Result<Self> {
                let $x = kind::$kind::ty(ty)?;
                Ok($read)
            }
        })*
    };
}

from_types! {
    TensorType, Tensor, |x| x.clone();
    Option<TensorType>, OptTensor, |x| x.cloned();
    Vec<TensorType>, Tensors, |x| x.known()?.into_iter().cloned().collect();
    i64, Int, |x| known(x)?;
    Option<i64>, OptInt, |x| x.map(known).transpose()?;
    Dim, Int, |x| x;
    Option<Dim>, OptInt, |x| x;
    f64, Float, |x| x.ok_or_else(unknown_type)?;
    Option<f64>, OptFloat, |x| x;
    bool, Bool, |x| x;
    String, Str, |x| x.to_owned();
    DType, DType, |x| x;
    Option<DType>, OptDType, |x| x;
    Vec<i64>, Ints, |x| x.to_vec();
    Option<Vec<i64>>, OptInts, |x| x.map(|x| x.to_vec());
    Vec<Dim>, Shape, |x| x.to_vec();
}

fn known(size: Dim) -> Result<i64> {
    size.known().ok_or_else(unknown_type)
}

impl FromType for TypeTree {
    fn from_type(ty: &TypeTree) -> Result<Self> {
        Ok(ty.clone())
    }
}

macro_rules! rules {
    ($($t:ident)*; $($i:tt)*) => {
        impl<F, R: IntoType, $($t: FromType),*> ShapeRule<($($t,)*)> for F
        where
            F: Fn($($t),*) -> Result<R> + Send + Sync + 'static,
        {
            #[allow(unused_variables, reason = "a rule may have no parameters")]
            fn apply(&self, types: &[TypeTree]) -> Result<TypeTree> {
                crate::trace::check_arity(<[usize]>::len(&[$($i),*]), types.len())?;
                Ok(self($($t::from_type(&types[$i])?),*)?.into_type())
            }
        }
    };
}

macro_rules! tuples {
    ($($t:ident)*; $($i:tt)*) => {
        impl<$($t: Into<Value>),*> Arguments for ($($t,)*) {
            fn into_values(self) -> Vec<Value> {
                vec![$(self.$i.into()),*]
            }
        }
        rules!($($t)*; $($i)*);
    };
}
tuples!(;);
tuples!(A; 0);
tuples!(A B; 0 1);
tuples!(A B C; 0 1 2);
tuples!(A B C D; 0 1 2 3);
tuples!(A B C D E; 0 1 2 3 4);
tuples!(A B C D E G; 0 1 2 3 4 5);
tuples!(A B C D E G H; 0 1 2 3 4 5 6);
tuples!(A B C D E G H I; 0 1 2 3 4 5 6 7);
