//! [`Direct`]: a call of an operator that is one row, with the arguments of the call.
//!
//! Which parameter of the row an argument is depends on the forms of the arguments, such as "an integer" or "a
//! list of tensors", and on nothing else. So a place that calls the operator on tensors of many sizes, or with
//! numbers that change, has one [`Layout`].

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fx_script::host;
use fx_script::schema::{Default, Parameter, Schema};
use fx_script::value::{TensorRef, Value as Item, transaction};
use smallvec::SmallVec;

use super::Results;
use super::plan::{Part, bytes, is_default, is_of_memory};
use super::pointwise::{Operand, PointwiseCall};
use crate::import::RowCall;
use crate::import::single::ViewOf;
use crate::{Arg, Array, Error, Registry, Result, Tensor, TypeTree, Value, err};

/// How many layouts a place keeps; others are made for each call.
const MAX_LAYOUTS: usize = 8;

/// An operator that is one row, at a place that calls it.
pub(super) struct Direct {
    schema: &'static Schema,
    row: RowCall,
    /// Of each argument.
    arguments: Vec<Argument>,
    /// The layout of the first call, which is found without a lock.
    first: OnceLock<Layout>,
    /// The layouts of other calls.
    others: Mutex<Vec<Arc<Layout>>>,
}

struct Argument {
    parameter: &'static Parameter,
    /// The name that the row has for it; `None` if the row leaves it out.
    name: Option<&'static str>,
    /// Whether it is given to the row also if it has its default.
    keeps_default: bool,
}

/// What an argument is, but for its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Nothing that the row takes.
    Absent,
    Bool,
    Int,
    Float,
    Str,
    DType,
    Tensor,
    Bools,
    Ints,
    Floats,
    Tensors,
}

/// The forms of the arguments of a call.
type Forms = SmallVec<[Form; 12]>;

/// Where the arguments of the row come from.
struct Layout {
    forms: Forms,
    /// For each parameter of the row; `None` if the row does not take arguments of these forms.
    sources: Option<Vec<Source>>,
    pointwise: Option<PointwiseCall>,
    /// The arguments of the first call, and the bytes of its result.
    sized: OnceLock<(Vec<Part>, u128)>,
}

enum Source {
    /// The argument at this position.
    Argument(usize),
    /// The default of the row.
    Default(Value),
}

impl Argument {
    fn form(&self, item: &Item) -> Option<Form> {
        let Argument { parameter, name, keeps_default } = self;
        if name.is_none() {
            return Some(Form::Absent);
        }
        if !keeps_default && parameter.default.as_ref().is_some_and(|default| is_default(item, default)) {
            return Some(Form::Absent);
        }
        Some(match item {
            Item::None | Item::Device(_) => Form::Absent,
            Item::Bool(_) => Form::Bool,
            Item::Int(code) if parameter.name.ends_with("dtype") => {
                let (_, is_complex) = host::dtype_of(*code).ok()?;
                return (!is_complex).then_some(Form::DType);
            }
            Item::Int(_) => Form::Int,
            Item::Float(_) => Form::Float,
            Item::Str(_) => Form::Str,
            Item::Tensor(tensor) if !tensor.is_complex() => Form::Tensor,
            Item::List(list) => list.read(|items| Form::of_items(items))?,
            Item::Tuple(tuple) => Form::of_items(&tuple.items)?,
            _ => return None,
        })
    }
}

/// Returns the default of a parameter as rows take it.
fn literal(parameter: &Parameter) -> Option<Value> {
    Some(match parameter.default.as_ref()? {
        Default::Bool(x) => Arg::Bool(*x),
        Default::Int(x) => Arg::Int(*x),
        Default::Float(x) => Arg::Float(*x),
        Default::Str(text) => Arg::str(text.clone()),
        Default::None | Default::List(_) => return None,
    })
}

impl Form {
    fn of_items(items: &[Item]) -> Option<Form> {
        match items.first() {
            None | Some(Item::Int(_)) => Some(Form::Ints),
            Some(Item::Float(_)) => Some(Form::Floats),
            Some(Item::Bool(_)) => Some(Form::Bools),
            Some(Item::Tensor(_)) => {
                let is_real = |item: &Item| matches!(item, Item::Tensor(tensor) if !tensor.is_complex());
                items.iter().all(is_real).then_some(Form::Tensors)
            }
            Some(_) => None,
        }
    }

    /// Returns an argument of this form as rows take it.
    fn value(self, item: &Item) -> Result<Value> {
        let leaf = |tensor: &TensorRef| Ok(Arg::Leaf(Tensor::new(tensor.array()?)));
        Ok(match (self, item) {
            (Form::Bool, Item::Bool(x)) => Arg::Bool(*x),
            (Form::Int, Item::Int(x)) => Arg::Int(*x),
            (Form::Float, Item::Float(x)) => Arg::Float(*x),
            (Form::Str, Item::Str(text)) => Arg::str(&***text),
            (Form::DType, Item::Int(code)) => Arg::DType(host::dtype_of(*code)?.0),
            (Form::Tensor, Item::Tensor(tensor)) => leaf(tensor)?,
            (Form::Bools | Form::Ints | Form::Floats | Form::Tensors, list) => {
                let items = list.to_items()?;
                let items = items.iter().map(|item| match self {
                    Form::Bools => item.to_bool().map(Arg::Bool),
                    Form::Ints => item.to_int().map(Arg::Int),
                    Form::Floats => item.to_float().map(Arg::Float),
                    _ => leaf(item.to_tensor()?),
                });
                Arg::list(items.collect::<Result<Vec<Value>>>()?)
            }
            (_, other) => return Err(err!(Argument, "a row does not take {}", other.type_name())),
        })
    }
}

impl Direct {
    /// Returns the row that an operator is; `None` if it is more than a row.
    pub(super) fn new(
        schema: &'static Schema,
        registry: &Registry,
        space: &str,
        base: &str,
        overload: &str,
    ) -> Option<Direct> {
        let row = RowCall::of(registry, space, base, overload)?;
        // A view is one of the first argument, and a result is written there.
        let needs_first = row.shares || row.writes;
        if needs_first && schema.parameters.first().is_none_or(|first| first.is_written != row.writes) {
            return None;
        }
        let arguments = schema.parameters.iter().map(|parameter| {
            let name = row.name(&parameter.name).filter(|_| !is_of_memory(parameter));
            let place = name.and_then(|name| row.op.params.iter().position(|param| param.name == name));
            let keeps_default = place.zip(literal(parameter)).is_some_and(|(place, default)| {
                let adapted = row.adapted(name.unwrap_or_default(), place, default);
                adapted.is_ok_and(|default| row.op.params[place].kind.accepts(&default))
            });
            Argument { parameter, name, keeps_default }
        });
        let arguments = arguments.collect();
        Some(Direct { schema, row, arguments, first: OnceLock::new(), others: Mutex::default() })
    }

    /// Runs the row; `None` if it does not take arguments of these forms. Fails as the row does, or if memory
    /// cannot hold the result.
    pub(super) fn call(&self, args: &[&Item]) -> Option<Result<Item>> {
        let forms = self.forms(args)?;
        match self.first.get() {
            Some(layout) if layout.forms == forms => self.run(layout, args),
            Some(_) => self.run(&self.other(forms, args), args),
            None => {
                let _ = self.first.set(Layout::new(self, forms, args));
                self.call(args)
            }
        }
    }

    /// Returns the forms of the arguments; `None` if there is one that no row takes.
    fn forms(&self, args: &[&Item]) -> Option<Forms> {
        if args.len() != self.arguments.len() {
            return None;
        }
        self.arguments.iter().zip(args).map(|(argument, item)| argument.form(item)).collect()
    }

    /// Returns the layout of a call unlike the first.
    fn other(&self, forms: Forms, args: &[&Item]) -> Arc<Layout> {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(layout) = others.iter().find(|layout| layout.forms == forms) {
            return layout.clone();
        }
        let layout = Arc::new(Layout::new(self, forms, args));
        if others.len() < MAX_LAYOUTS {
            others.push(layout.clone());
        }
        layout
    }

    fn run(&self, layout: &Layout, args: &[&Item]) -> Option<Result<Item>> {
        let sources = layout.sources.as_ref()?;
        Some(match &layout.pointwise {
            Some(pointwise) if self.row.writes => write(args, || pointwise.array(args)),
            Some(pointwise) => pointwise.call(args),
            None => self.run_row(layout, sources, args),
        })
    }

    fn run_row(&self, layout: &Layout, sources: &[Source], args: &[&Item]) -> Result<Item> {
        let mut values: SmallVec<[Value; 8]> = SmallVec::new();
        for (place, source) in sources.iter().enumerate() {
            values.push(match source {
                Source::Default(value) => value.clone(),
                Source::Argument(at) => {
                    let value = layout.forms[*at].value(args[*at])?;
                    self.row.adapted(self.arguments[*at].name.unwrap_or_default(), place, value)?
                }
            });
        }
        if !self.row.shares {
            transaction::charge(self.bytes(layout, args, &values)?)?;
        }
        let value = (self.row.op.eval)(&values)?;
        if self.row.writes {
            return write(args, || value.leaf().ok_or_else(|| no_tensor(self.schema))?.array().cloned());
        }
        let first = args.first().and_then(|first| first.to_tensor().ok());
        let origins: &[Option<ViewOf>] = if self.row.shares { &[Some(ViewOf::Part(0))] } else { &[] };
        Results { schema: self.schema, inputs: first.as_slice(), is_complex: false }.value(&value, origins)
    }

    /// Returns the bytes of the result, which those of the first call had if the arguments have the same sizes.
    fn bytes(&self, layout: &Layout, args: &[&Item], values: &[Value]) -> Result<u128> {
        if let Some((parts, bytes)) = layout.sized.get()
            && parts.iter().zip(args).all(|(part, item)| part.is(item))
        {
            return Ok(*bytes);
        }
        let ty = |value: &Value| value.try_flat_map(&mut |tensor: &Tensor| tensor.ty().map(TypeTree::from));
        let types: SmallVec<[TypeTree; 8]> = values.iter().map(ty).collect::<Result<_>>()?;
        let bytes = self.row.op.infer(&types)?.map_or(0, |ty| bytes(&ty));
        if layout.sized.get().is_none() {
            let parts = args.iter().map(|item| Part::of(item)).collect::<Result<_>>()?;
            let _ = layout.sized.set((parts, bytes));
        }
        Ok(bytes)
    }
}

/// Writes a result to the first argument.
fn write(args: &[&Item], array: impl FnOnce() -> Result<Array>) -> Result<Item> {
    let target = args.first().ok_or_else(|| err!(Argument, "expected a tensor, got no argument"))?;
    target.to_tensor()?.write(&array()?)?;
    Ok((*target).clone())
}

#[cold]
fn no_tensor(schema: &Schema) -> Error {
    err!(Argument, "{} gives no tensor", schema.full_name)
}

impl Layout {
    fn new(direct: &Direct, forms: Forms, args: &[&Item]) -> Layout {
        let sources = Layout::sources(direct, &forms, args);
        let pointwise = sources.as_ref().and_then(|sources| {
            let operand = |source: &Source| match source {
                Source::Argument(at) => Some(Operand::Argument(*at)),
                Source::Default(value) => value.scalar().map(Operand::Number),
            };
            let operands: SmallVec<[Operand; 8]> = sources.iter().map(operand).collect::<Option<_>>()?;
            PointwiseCall::new(&direct.row.op.class, &operands, |operand| match operand {
                Operand::Argument(at) => forms[*at] == Form::Tensor,
                Operand::Number(_) => false,
            })
        });
        Layout { forms, sources, pointwise, sized: OnceLock::new() }
    }

    fn sources(direct: &Direct, forms: &[Form], args: &[&Item]) -> Option<Vec<Source>> {
        let Direct { row, arguments, .. } = direct;
        let mut named: Vec<(&str, Value)> = Vec::with_capacity(args.len());
        let mut positions: SmallVec<[usize; 12]> = SmallVec::new();
        for (at, (argument, form)) in arguments.iter().zip(forms).enumerate() {
            if let (Some(name), true) = (argument.name, *form != Form::Absent) {
                named.push((name, form.value(args[at]).ok()?));
                positions.push(at);
            }
        }
        let places = row.places(&named).ok()?;
        let mut by_name: Vec<(&str, Value)> = Vec::with_capacity(args.len());
        for ((name, value), place) in named.into_iter().zip(&places) {
            if let Some(place) = *place {
                by_name.push((row.op.params[place].name, row.adapted(name, place, value).ok()?));
            }
        }
        let bound = row.op.bind(&[], &by_name).ok()?;
        let mut sources: Vec<Source> = bound.into_iter().map(Source::Default).collect();
        for (at, place) in positions.into_iter().zip(places) {
            if let Some(place) = place {
                sources[place] = Source::Argument(at);
            }
        }
        Some(sources)
    }
}
