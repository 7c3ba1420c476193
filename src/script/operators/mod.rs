//! [`AtenOperators`]: PyTorch's operators on tensors, by the table that also imports `.pt2` programs.
//!
//! Most operators are one row, whose arguments are those of the call: [`Direct`] runs its eager kernel for
//! operands of any sizes. [`Same`] is what may give its argument itself, as conversions do. The importer writes
//! other calls as graphs. The rows of such a graph are kept as a [`Plan`] at the place of the call, for arguments
//! of the same kinds, dtypes and sizes; places that call the same operator on such arguments share one plan. A
//! single pointwise row takes a shorter way ([`pointwise`]).

mod direct;
mod plan;
mod pointwise;
mod same;

use std::sync::{Arc, OnceLock};

use fx_script::schema::{self, Schema};
use fx_script::types::Type;
use fx_script::value::{TensorCell, TensorRef, Value as Item};
use fx_script::vm::{Operator, Operators};

use self::direct::Direct;
use self::plan::{Plan, Plans, SharedPlans};
use self::same::Same;
use crate::import::single::ViewOf;
use crate::{Arg, Array, Registry, Result, Value, bail, err};

/// The operators on tensors, by the rows of a registry.
#[derive(Clone)]
pub struct AtenOperators {
    shared: Arc<Shared>,
}

/// What the places of a program share.
struct Shared {
    registry: Registry,
    plans: SharedPlans,
}

impl AtenOperators {
    /// Makes the operators. Rows of `registry` with PyTorch's names are found under them.
    pub fn new(registry: Registry) -> AtenOperators {
        AtenOperators { shared: Arc::new(Shared { registry, plans: SharedPlans::default() }) }
    }

    /// Returns for how many calls of rows there is a plan: those of programs that are held.
    pub fn plans(&self) -> usize {
        self.shared.plans.len()
    }
}

impl Operators for AtenOperators {
    fn prepare(&self, name: &str) -> Result<Box<dyn Operator>> {
        let schema = schema::get(name)
            .ok_or_else(|| err!(Unresolved, "there is no operator {name}").help(schema::advice(name)))?;
        let (space, rest) = schema.full_name.split_once("::").unwrap_or(("aten", &schema.full_name));
        let (base, overload) = rest.split_once('.').unwrap_or((rest, ""));
        if let Some(row) = crate::import::missing_row(&self.shared.registry, space, base, overload) {
            return Err(err!(Unresolved, "fx has no operator {name}")
                .help(format!("register an operation {row:?} that does what it does")));
        }
        Ok(Box::new(Place {
            schema,
            is_strided: &*schema.full_name == "aten::as_strided",
            shared: Arc::clone(&self.shared),
            same: Same::of(schema),
            direct: Direct::new(schema, &self.shared.registry, space, base, overload),
            first: OnceLock::new(),
            plans: Plans::default(),
        }))
    }
}

/// A place of the code that calls an operator.
struct Place {
    schema: &'static Schema,
    /// Whether it is `as_strided`, which counts in the storage: plans know no strides.
    is_strided: bool,
    shared: Arc<Shared>,
    /// What the operator does if it may give its first argument.
    same: Option<Same>,
    /// The row that the operator is.
    direct: Option<Direct>,
    /// The plan of the first call that has one, which is found without a lock.
    first: OnceLock<Arc<Plan>>,
    /// The plans of other calls.
    plans: Plans,
}

impl Operator for Place {
    fn call(&self, args: &[&Item]) -> Result<Item> {
        if let Some(same) = &self.same
            && let Some(result) = same.call(args)
        {
            return result;
        }
        if let Some(direct) = &self.direct
            && let Some(result) = direct.call(args)
        {
            return result;
        }
        if self.is_strided
            && let Some(result) = strided(args)
        {
            return result;
        }
        let Shared { registry, plans: shared } = &*self.shared;
        match self.first.get() {
            Some(plan) if plan.fits(args) => plan.run(self.schema, args),
            Some(_) => self.plans.plan(self.schema, args, registry, shared)?.run(self.schema, args),
            None => {
                let plan = shared.plan(self.schema, args, registry)?;
                let _ = self.first.set(plan.clone());
                plan.run(self.schema, args)
            }
        }
    }
}

/// Returns a view of the storage of a tensor, whose strides plans do not know; `None` for complex elements.
fn strided(args: &[&Item]) -> Option<Result<Item>> {
    let (Item::Tensor(tensor), [_, sizes, strides, offset]) = (args.first()?, args) else { return None };
    if tensor.is_complex() {
        return None;
    }
    let numbers = |list: &Item| list.to_items()?.iter().map(Item::to_int).collect::<Result<Vec<i64>>>();
    let size = |n: i64| usize::try_from(n).map_err(|_| err!(Argument, "as_strided of the number {n}"));
    let view = || {
        let sizes = numbers(sizes)?.into_iter().map(size).collect::<Result<Vec<_>>>()?;
        let strides = numbers(strides)?.into_iter().map(|n| Ok(size(n)? as isize));
        let offset = match offset {
            Item::None => tensor.storage_offset(),
            offset => size(offset.to_int()?)?,
        };
        tensor.strided(&sizes, &strides.collect::<Result<Vec<_>>>()?, offset).map(Item::Tensor)
    };
    Some(view())
}

/// What turns the results of rows into values of the program.
struct Results<'a> {
    schema: &'a Schema,
    inputs: &'a [&'a TensorRef],
    is_complex: bool,
}

impl Results<'_> {
    /// Returns what rows gave. Each tensor may be a view of an input, as `origins` tells in their order. Fails if
    /// the program has no such values.
    fn value(&self, value: &Value, origins: &[Option<ViewOf>]) -> Result<Item> {
        let made = self.item(value, &mut origins.iter().copied())?;
        match (&made, self.schema.returns.as_deref()) {
            // As many results as the call has are a list.
            (Item::Tuple(tuple), Some([Type::List(_)])) => Ok(Item::list(tuple.items.to_vec())),
            (Item::Tensor(tensor), Some([Type::Bool])) => tensor.item(),
            // Rows leave out results that say how others were found, such as those of `embedding_bag`.
            (Item::Tuple(tuple), Some(returns)) if tuple.items.len() < returns.len() => {
                let mut items = tuple.items.to_vec();
                items.resize(returns.len(), Item::None);
                Ok(Item::tuple(items))
            }
            _ => Ok(made),
        }
    }

    fn item(&self, value: &Value, origins: &mut dyn Iterator<Item = Option<ViewOf>>) -> Result<Item> {
        Ok(match value {
            Arg::None => Item::None,
            Arg::Bool(x) => Item::Bool(*x),
            Arg::Int(x) => Item::Int(*x),
            Arg::Float(x) => Item::Float(*x),
            Arg::Leaf(tensor) => Item::Tensor(self.tensor(tensor.array()?, origins.next().flatten())?),
            Arg::List(items) => Item::list(self.items(items, origins)?),
            Arg::Tuple(items) => Item::tuple(self.items(items, origins)?),
            other => {
                let (name, kind) = (&self.schema.full_name, other.kind_name());
                bail!(Argument, "{name} gives {kind}, which programs do not have")
            }
        })
    }

    fn items(&self, items: &[Value], origins: &mut dyn Iterator<Item = Option<ViewOf>>) -> Result<Vec<Item>> {
        items.iter().map(|value| self.item(value, origins)).collect()
    }

    fn tensor(&self, array: &Array, origin: Option<ViewOf>) -> Result<TensorRef> {
        let Results { schema, inputs, is_complex } = *self;
        match origin {
            Some(ViewOf::Whole(input)) if inputs[input].is_complex() == is_complex => {
                Ok(Arc::clone(inputs[input]))
            }
            // `unsqueeze_` and its like change how the tensor itself is seen.
            Some(ViewOf::Part(input)) if schema.parameters.first().is_some_and(|p| p.is_written) => {
                inputs[input].become_view(array.clone())?;
                Ok(Arc::clone(inputs[input]))
            }
            Some(ViewOf::Part(input) | ViewOf::Whole(input)) => {
                inputs[input].view_of(array.clone(), is_complex)
            }
            None if is_complex => TensorCell::complex_of(array.clone()),
            None => TensorCell::of(array.clone()),
        }
    }
}
