//! [`AtenOperators`]: PyTorch's operators on tensors, by the table that also imports `.pt2` programs.
//!
//! The importer writes a call of an operator as a graph. The rows of that graph are kept as a [`Plan`] at the
//! place of the call, for arguments of the same kinds, dtypes and sizes. Places that call the same operator on
//! such arguments share one plan. A call then runs the eager kernels of the rows; a single pointwise row takes a
//! shorter way ([`pointwise`]).

mod pointwise;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use fx_script::host;
use fx_script::schema::{self, Default, Schema};
use fx_script::types::Type;
use fx_script::value::{TensorCell, TensorRef, Value as Item, transaction};
use fx_script::vm::{Operator, Operators};

use self::pointwise::PointwiseCall;
use crate::import::makes_complex;
use crate::import::single::{Given, Input, Single, ViewOf, single};
use crate::{Arg, Array, DType, NodeId, Op, Registry, Result, Target, Tensor, TypeTree, Value, bail, err};

/// How many plans a place keeps; the oldest goes first.
const MAX_PLANS: usize = 32;

/// The operators on tensors, by the rows of a registry.
#[derive(Clone)]
pub struct AtenOperators {
    shared: Arc<Shared>,
}

/// What the places of a program share.
struct Shared {
    registry: Registry,
    made: Mutex<Made>,
}

/// The plans that places have, by the name of the operator and what they were made for.
#[derive(Default)]
struct Made {
    plans: HashMap<(&'static str, Vec<Part>), Weak<Plan>>,
    /// How many entries there may be before those without a plan are removed.
    limit: usize,
}

impl Shared {
    /// Returns the plan of a call, which another place may have made.
    fn plan(&self, schema: &'static Schema, args: &[&Item]) -> Result<Arc<Plan>> {
        let key = args.iter().map(|arg| Part::of(arg)).collect::<Result<Vec<_>>>()?;
        let key = (&*schema.full_name, key);
        let made = |made: &Made| made.plans.get(&key).and_then(Weak::upgrade);
        if let Some(plan) = made(&self.made.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(plan);
        }
        let plan = Arc::new(Plan::new(schema, key.1.clone(), args, &self.registry)?);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.plans.len() >= made.limit {
            made.plans.retain(|_, plan| plan.strong_count() > 0);
            made.limit = 2 * made.plans.len() + MAX_PLANS;
        }
        made.plans.insert(key, Arc::downgrade(&plan));
        Ok(plan)
    }
}

impl AtenOperators {
    /// Makes the operators. Rows of `registry` with PyTorch's names are found under them.
    pub fn new(registry: Registry) -> AtenOperators {
        AtenOperators { shared: Arc::new(Shared { registry, made: Mutex::default() }) }
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
            shared: Arc::clone(&self.shared),
            first: OnceLock::new(),
            plans: Mutex::new(Vec::new()),
        }))
    }
}

/// A place of the code that calls an operator.
struct Place {
    schema: &'static Schema,
    shared: Arc<Shared>,
    /// The plan of the first call, which is found without a lock.
    first: OnceLock<Arc<Plan>>,
    /// The plans of other calls.
    plans: Mutex<Vec<Arc<Plan>>>,
}

/// What a plan was made for: an argument without its elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    None,
    Bool(bool),
    Int(i64),
    Float(u64),
    Complex(u64, u64),
    Str(String),
    Tensor(DType, Vec<usize>),
    ComplexTensor(DType, Vec<usize>),
    List(Vec<Part>),
    /// A value that says nothing about results, such as a device.
    Silent,
}

impl Part {
    fn of(value: &Item) -> Result<Part> {
        Ok(match value {
            Item::None => Part::None,
            Item::Bool(x) => Part::Bool(*x),
            Item::Int(x) => Part::Int(*x),
            Item::Float(x) => Part::Float(x.to_bits()),
            Item::Str(text) => Part::Str((***text).to_owned()),
            Item::Device(_) => Part::Silent,
            Item::Complex(parts) => Part::Complex(parts.0.to_bits(), parts.1.to_bits()),
            Item::Tensor(tensor) if tensor.is_complex() => {
                Part::ComplexTensor(tensor.dtype(), tensor.shape().to_vec())
            }
            Item::Tensor(tensor) => Part::Tensor(tensor.dtype(), tensor.shape().to_vec()),
            Item::List(_) | Item::Tuple(_) => {
                Part::List(value.to_items()?.iter().map(Part::of).collect::<Result<_>>()?)
            }
            other => bail!(Argument, "an operator on tensors does not take {}", other.type_name()),
        })
    }

    /// Whether a value is of this kind.
    fn is(&self, value: &Item) -> bool {
        match (self, value) {
            (Part::None, Item::None) | (Part::Silent, Item::Device(_)) => true,
            (Part::Bool(a), Item::Bool(b)) => a == b,
            (Part::Int(a), Item::Int(b)) => a == b,
            (Part::Float(a), Item::Float(b)) => *a == b.to_bits(),
            (Part::Str(a), Item::Str(b)) => **a == ***b,
            (Part::Complex(re, im), Item::Complex(parts)) => {
                (*re, *im) == (parts.0.to_bits(), parts.1.to_bits())
            }
            (Part::ComplexTensor(dtype, sizes), Item::Tensor(tensor)) => {
                tensor.is_complex() && tensor.dtype() == *dtype && *tensor.shape() == **sizes
            }
            (Part::Tensor(dtype, sizes), Item::Tensor(tensor)) => {
                tensor.read(|geometry| geometry.is_real(*dtype, sizes))
            }
            (Part::List(parts), Item::List(list)) => list.read(|items| Part::are(parts, items)),
            (Part::List(parts), Item::Tuple(tuple)) => Part::are(parts, &tuple.items),
            _ => false,
        }
    }

    fn are(parts: &[Part], items: &[Item]) -> bool {
        parts.len() == items.len() && parts.iter().zip(items).all(|(part, item)| part.is(item))
    }
}

/// The rows that a call runs.
struct Plan {
    key: Vec<Part>,
    n_inputs: usize,
    steps: Vec<Step>,
    result: Arg<usize>,
    written: Vec<(usize, Arg<usize>)>,
    origins: Vec<Option<ViewOf>>,
    /// The bytes of the values that the rows make.
    bytes: u128,
    /// Whether the tensors of the result are complex.
    is_complex: bool,
    /// The call, if it is no more than a pointwise row.
    pointwise: Option<PointwiseCall>,
}

/// A row with its arguments; leaves are numbers of values: inputs first, then results of steps.
struct Step {
    op: Op,
    args: Vec<Arg<usize>>,
}

impl Place {
    fn plan(&self, args: &[&Item]) -> Result<Arc<Plan>> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.iter().rev().find(|plan| plan.fits(args)) {
            return Ok(Arc::clone(plan));
        }
        let plan = self.shared.plan(self.schema, args)?;
        if plans.len() == MAX_PLANS {
            plans.remove(0);
        }
        plans.push(Arc::clone(&plan));
        Ok(plan)
    }

    fn run(&self, plan: &Plan, args: &[&Item]) -> Result<Item> {
        transaction::charge(plan.bytes)?;
        if let Some(pointwise) = &plan.pointwise {
            return pointwise.call(args);
        }
        let lists = args.iter().map(|arg| match arg {
            Item::List(_) | Item::Tuple(_) if plan.n_inputs > 0 => arg.to_items(),
            _ => Ok(Vec::new()),
        });
        let lists: Vec<Vec<Item>> = lists.collect::<Result<_>>()?;
        let mut inputs: Vec<&TensorRef> = Vec::with_capacity(plan.n_inputs);
        for (arg, list) in args.iter().zip(&lists) {
            match arg {
                Item::Tensor(tensor) => inputs.push(tensor),
                _ => inputs.extend(list.iter().filter_map(|item| item.to_tensor().ok())),
            }
        }
        let mut values: Vec<Value> = Vec::with_capacity(inputs.len() + plan.steps.len());
        for tensor in &inputs {
            values.push(Value::Leaf(Tensor::new(tensor.array()?)));
        }
        for step in &plan.steps {
            let args = step.args.iter().map(|arg| fill(arg, &values)).collect::<Result<Vec<Value>>>()?;
            values.push((step.op.eval)(&args)?);
        }
        for (input, new) in &plan.written {
            inputs[*input].write(array(&fill(new, &values)?)?)?;
        }
        let result = fill(&plan.result, &values)?;
        let made = self.result(&result, &inputs, &mut plan.origins.iter(), plan.is_complex)?;
        // As many results as the call has are a list.
        match (&made, self.schema.returns.as_deref()) {
            (Item::Tuple(tuple), Some([Type::List(_)])) => Ok(Item::list(tuple.items.to_vec())),
            _ => Ok(made),
        }
    }

    fn result<'p>(
        &self,
        value: &Value,
        inputs: &[&TensorRef],
        origins: &mut impl Iterator<Item = &'p Option<ViewOf>>,
        is_complex: bool,
    ) -> Result<Item> {
        Ok(match value {
            Arg::None => Item::None,
            Arg::Bool(x) => Item::Bool(*x),
            Arg::Int(x) => Item::Int(*x),
            Arg::Float(x) => Item::Float(*x),
            Arg::Leaf(tensor) => {
                let array = tensor.array()?;
                Item::Tensor(match origins.next().copied().flatten() {
                    Some(ViewOf::Whole(input)) if inputs[input].is_complex() == is_complex => {
                        Arc::clone(inputs[input])
                    }
                    // `unsqueeze_` and its like change how the tensor itself is seen.
                    Some(ViewOf::Part(input))
                        if self.schema.parameters.first().is_some_and(|p| p.is_written) =>
                    {
                        inputs[input].become_view(array.clone())?;
                        Arc::clone(inputs[input])
                    }
                    Some(ViewOf::Part(input) | ViewOf::Whole(input)) => {
                        inputs[input].view_of(array.clone(), is_complex)?
                    }
                    None if is_complex => TensorCell::complex_of(array.clone())?,
                    None => TensorCell::of(array.clone())?,
                })
            }
            Arg::List(items) | Arg::Tuple(items) => {
                let made: Result<Vec<Item>> =
                    items.iter().map(|item| self.result(item, inputs, origins, is_complex)).collect();
                match value {
                    Arg::List(_) => Item::list(made?),
                    _ => Item::tuple(made?),
                }
            }
            other => bail!(
                Argument,
                "{} gives {}, which programs do not have",
                self.schema.full_name,
                other.kind_name()
            ),
        })
    }
}

impl Operator for Place {
    fn call(&self, args: &[&Item]) -> Result<Item> {
        match self.first.get() {
            Some(plan) if plan.fits(args) => self.run(plan, args),
            Some(_) => self.run(&*self.plan(args)?, args),
            None => {
                let _ = self.first.set(self.shared.plan(self.schema, args)?);
                self.call(args)
            }
        }
    }
}

fn array(value: &Value) -> Result<&Array> {
    match value {
        Arg::Leaf(tensor) => tensor.array(),
        other => Err(err!(Argument, "expected a tensor, got {}", other.kind_name())),
    }
}

/// Puts values in the place of their numbers.
fn fill(arg: &Arg<usize>, values: &[Value]) -> Result<Value> {
    match arg {
        Arg::Leaf(at) => Ok(values[*at].clone()),
        other => other.try_flat_map(&mut |at| Ok(values[*at].clone())),
    }
}

/// An argument by its name.
type Named = (String, Given);

/// Reads the arguments of a call, and notes dtypes and sizes of its tensors.
fn given(schema: &Schema, args: &[&Item]) -> Result<(Vec<Named>, Vec<Input>)> {
    let mut inputs = Vec::new();
    let mut named = Vec::with_capacity(args.len());
    if args.len() != schema.parameters.len() {
        bail!(
            Argument,
            "{} takes {} arguments, got {}",
            schema.full_name,
            schema.parameters.len(),
            args.len()
        );
    }
    for (param, arg) in schema.parameters.iter().zip(args) {
        let mut input = |tensor: &TensorRef| {
            let (dtype, sizes) = (tensor.dtype(), tensor.shape().to_vec());
            inputs.push(Input { dtype, sizes, is_complex: tensor.is_complex() });
            inputs.len() - 1
        };
        let is_memory =
            matches!(&*param.name, "layout" | "memory_format" | "device" | "pin_memory" | "generator");
        let given = match arg {
            _ if is_memory => Given::None,
            Item::None => Given::None,
            Item::Int(code) if param.name.ends_with("dtype") => match host::dtype_of(*code)? {
                (dtype, false) => Given::DType(dtype),
                (part, true) => Given::ComplexDType(part),
            },
            Item::Complex(parts) => Given::Complex(parts.0, parts.1),
            Item::Bool(x) => Given::Bool(*x),
            Item::Int(x) => Given::Int(*x),
            Item::Float(x) => Given::Float(*x),
            Item::Str(text) => Given::Str((***text).to_owned()),
            Item::Tensor(tensor) => Given::Tensor(input(tensor)),
            Item::List(_) | Item::Tuple(_) => list(&arg.to_items()?, &mut input)?,
            Item::Device(_) => Given::None,
            other => bail!(Argument, "{} does not take {}", schema.full_name, other.type_name()),
        };
        named.push((param.name.to_string(), given));
    }
    // Archives of the importer leave out what is absent or has its default.
    let mut params = schema.parameters.iter();
    named.retain(|(_, given)| {
        let default = params.next().and_then(|param| param.default.as_ref());
        *given != Given::None && !default.is_some_and(|default| is_default(given, default))
    });
    Ok((named, inputs))
}

fn is_default(given: &Given, default: &Default) -> bool {
    match (given, default) {
        (Given::Bool(a), Default::Bool(b)) => a == b,
        (Given::Int(a), Default::Int(b)) => a == b,
        (Given::Float(a), Default::Float(b)) => a.to_bits() == b.to_bits(),
        (Given::Str(a), Default::Str(b)) => **a == **b,
        _ => false,
    }
}

fn list(items: &[Item], input: &mut impl FnMut(&TensorRef) -> usize) -> Result<Given> {
    if items.iter().any(|item| matches!(item, Item::Tensor(_))) {
        let tensors = items.iter().map(|item| match item {
            Item::None => Ok(None),
            item => Ok(Some(input(item.to_tensor()?))),
        });
        let tensors: Vec<Option<usize>> = tensors.collect::<Result<_>>()?;
        let all: Option<Vec<usize>> = tensors.iter().copied().collect();
        return Ok(all.map_or(Given::OptionalTensors(tensors), Given::Tensors));
    }
    Ok(match items.first() {
        Some(Item::Float(_)) => Given::Floats(items.iter().map(Item::to_float).collect::<Result<_>>()?),
        Some(Item::Bool(_)) => Given::Bools(items.iter().map(Item::to_bool).collect::<Result<_>>()?),
        Some(Item::Str(_)) => {
            let texts = items.iter().map(|item| item.to_str().map(str::to_owned));
            Given::Strs(texts.collect::<Result<_>>()?)
        }
        Some(Item::None) => Given::OptionalTensors(vec![None; items.len()]),
        _ => Given::Ints(items.iter().map(Item::to_int).collect::<Result<_>>()?),
    })
}

/// Whether the tensors of the result of a call are complex.
fn gives_complex(schema: &Schema, named: &[Named], inputs: &[Input]) -> bool {
    let base = schema.full_name.split_once("::").map_or(&*schema.full_name, |(_, name)| name);
    let base = base.split('.').next().unwrap_or(base);
    let base = base.strip_suffix('_').filter(|base| !base.ends_with('_')).unwrap_or(base);
    let has = |wanted: &dyn Fn(&Given) -> bool| named.iter().any(|(_, given)| wanted(given));
    let takes = inputs.iter().any(|input| input.is_complex)
        || has(&|given| matches!(given, Given::Complex(..) | Given::ComplexDType(_)));
    let is_real = has(&|given| matches!(given, Given::DType(_)));
    let return_complex =
        named.iter().any(|(name, given)| name == "return_complex" && *given == Given::Bool(true));
    makes_complex(base, takes, is_real, return_complex)
}

impl Plan {
    /// Whether the plan is for arguments of these kinds, dtypes and sizes.
    fn fits(&self, args: &[&Item]) -> bool {
        self.key.len() == args.len() && self.key.iter().zip(args).all(|(part, arg)| part.is(arg))
    }

    fn new(schema: &Schema, key: Vec<Part>, args: &[&Item], registry: &Registry) -> Result<Plan> {
        let (named, inputs) = given(schema, args)?;
        let is_complex = gives_complex(schema, &named, &inputs);
        let Single { graph, origins, written } = single(&schema.full_name, named, &inputs, registry)?;
        let mut numbers: HashMap<NodeId, usize> = HashMap::new();
        let mut plan = Plan {
            key,
            n_inputs: inputs.len(),
            steps: Vec::new(),
            result: Arg::None,
            written: Vec::new(),
            origins,
            bytes: 0,
            is_complex,
            pointwise: None,
        };
        for (id, node) in graph.nodes() {
            match node.target() {
                Target::Placeholder => {
                    let number = node.name().strip_prefix('t').and_then(|number| number.parse().ok());
                    numbers.insert(id, number.ok_or_else(|| err!(Graph, "an input has no number"))?);
                }
                Target::CallFunction(op) | Target::CallMethod(op) => {
                    let bound = op.bind(node.args(), node.kwargs())?;
                    let args = bound.iter().map(|arg| arg.map(&mut |id| numbers[id])).collect();
                    numbers.insert(id, inputs.len() + plan.steps.len());
                    plan.steps.push(Step { op: *op, args });
                    plan.bytes += node.ty().map_or(0, bytes);
                }
                Target::Output => {}
                other => bail!(Unresolved, "{} is more than rows: {:?}", schema.full_name, other.opcode()),
            }
        }
        let output = graph.output().map(&mut |id| numbers[id]);
        let Some([result, values]) = output.items() else { bail!(Graph, "the output is a pair") };
        plan.result = result.clone();
        let values = values.items().unwrap_or_default();
        plan.written = written.into_iter().zip(values.iter().cloned()).collect();
        let tensors = args.iter().enumerate().filter(|(_, arg)| matches!(arg, Item::Tensor(_)));
        let positions: Vec<usize> = tensors.map(|(at, _)| at).collect();
        if let [step] = &plan.steps[..]
            && positions.len() == plan.n_inputs
            && plan.result == Arg::Leaf(plan.n_inputs)
            && plan.written.is_empty()
            && plan.origins == [None]
            && !is_complex
        {
            plan.pointwise = PointwiseCall::of(step, &positions);
        }
        Ok(plan)
    }
}

/// The bytes of the tensors of a type whose sizes are known.
fn bytes(ty: &TypeTree) -> u128 {
    let mut total = 0u128;
    ty.for_each_leaf(&mut |ty| {
        if let crate::Type::Tensor(ty) = ty {
            let size = |dim: &crate::Dim| dim.known().and_then(|n| u128::try_from(n).ok()).unwrap_or(1);
            let numel = ty.shape.iter().map(size).fold(1u128, u128::saturating_mul);
            total = total.saturating_add(numel.saturating_mul(ty.dtype.size() as u128));
        }
    });
    total
}

#[cfg(test)]
mod tests;
