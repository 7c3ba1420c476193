//! [`Plan`]: a call of an operator as the graph that the importer writes, for arguments of the same kinds, dtypes
//! and sizes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use fx_script::host;
use fx_script::schema::{Default, Parameter, Schema};
use fx_script::value::{TensorRef, Value as Item, transaction};
use rustc_hash::FxHashMap;

use super::Results;
use super::pointwise::PointwiseCall;
use crate::import::makes_complex;
use crate::import::single::{Given, Input, Single, ViewOf, Written, single};
use crate::{Arg, Array, DType, NodeId, Op, Registry, Result, Target, Tensor, TypeTree, Value, bail, err};

/// How many plans a place keeps; the oldest goes first.
const MAX_PLANS: usize = 32;

/// The plans that places have, by the name of the operator and what they were made for.
#[derive(Default)]
pub(super) struct SharedPlans(Mutex<Made>);

#[derive(Default)]
struct Made {
    plans: FxHashMap<(&'static str, Vec<Part>), Weak<Plan>>,
    /// How many entries there may be before those without a plan are removed.
    limit: usize,
}

impl SharedPlans {
    /// Returns the plan of a call, which another place may have made.
    pub(super) fn plan(
        &self,
        schema: &'static Schema,
        args: &[&Item],
        registry: &Registry,
    ) -> Result<Arc<Plan>> {
        let key = args.iter().map(|arg| Part::of(arg)).collect::<Result<Vec<_>>>()?;
        let key = (&*schema.full_name, key);
        let made = |made: &Made| made.plans.get(&key).and_then(Weak::upgrade);
        if let Some(plan) = made(&self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(plan);
        }
        let plan = Arc::new(Plan::new(schema, key.1.clone(), args, registry)?);
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.plans.len() >= made.limit {
            made.plans.retain(|_, plan| plan.strong_count() > 0);
            made.limit = 2 * made.plans.len() + MAX_PLANS;
        }
        made.plans.insert(key, Arc::downgrade(&plan));
        Ok(plan)
    }

    /// Returns how many plans there are.
    pub(super) fn len(&self) -> usize {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .plans
            .values()
            .filter(|plan| plan.strong_count() > 0)
            .count()
    }
}

/// The plans of a place.
#[derive(Default)]
pub(super) struct Plans(Mutex<Vec<Arc<Plan>>>);

impl Plans {
    /// Returns the plan of a call.
    pub(super) fn plan(
        &self,
        schema: &'static Schema,
        args: &[&Item],
        registry: &Registry,
        shared: &SharedPlans,
    ) -> Result<Arc<Plan>> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.iter().rev().find(|plan| plan.fits(args)) {
            return Ok(Arc::clone(plan));
        }
        let plan = shared.plan(schema, args, registry)?;
        if plans.len() == MAX_PLANS {
            plans.remove(0);
        }
        plans.push(Arc::clone(&plan));
        Ok(plan)
    }
}

/// What a plan was made for: an argument without its elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Part {
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
    pub(super) fn of(value: &Item) -> Result<Part> {
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
    pub(super) fn is(&self, value: &Item) -> bool {
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
pub(super) struct Plan {
    key: Vec<Part>,
    n_inputs: usize,
    steps: Vec<Step>,
    result: Arg<usize>,
    written: Vec<(Written, Arg<usize>)>,
    origins: Vec<Option<ViewOf>>,
    /// The bytes of the values that the rows make.
    bytes: u128,
    /// Whether the tensors of the result are complex.
    is_complex: bool,
    /// The call, if it is no more than a pointwise row.
    pointwise: Option<PointwiseCall>,
}

/// A row with its arguments; leaves are numbers of values: inputs first, then results of steps.
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) args: Vec<Arg<usize>>,
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
        let given = match arg {
            _ if is_of_memory(param) => Given::None,
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
    let mut params = schema.parameters.iter().zip(args);
    named.retain(|(_, given)| {
        let default = params.next().and_then(|(param, arg)| Some((arg, param.default.as_ref()?)));
        *given != Given::None && !default.is_some_and(|(arg, default)| is_default(arg, default))
    });
    Ok((named, inputs))
}

/// Whether a parameter is about memory or a generator, which says nothing about values.
pub(super) fn is_of_memory(parameter: &Parameter) -> bool {
    matches!(&*parameter.name, "layout" | "memory_format" | "device" | "pin_memory" | "generator")
}

/// Whether an argument is a default that is a number or a text.
pub(super) fn is_default(arg: &Item, default: &Default) -> bool {
    match (arg, default) {
        (Item::Bool(a), Default::Bool(b)) => a == b,
        (Item::Int(a), Default::Int(b)) => a == b,
        (Item::Float(a), Default::Float(b)) => a.to_bits() == b.to_bits(),
        (Item::Str(a), Default::Str(b)) => ***a == **b,
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
    pub(super) fn fits(&self, args: &[&Item]) -> bool {
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

    /// Runs the rows. Fails as they do.
    pub(super) fn run(&self, schema: &Schema, args: &[&Item]) -> Result<Item> {
        transaction::charge(self.bytes)?;
        if let Some(pointwise) = &self.pointwise {
            return pointwise.call(args);
        }
        let lists = args.iter().map(|arg| match arg {
            Item::List(_) | Item::Tuple(_) if self.n_inputs > 0 => arg.to_items(),
            _ => Ok(Vec::new()),
        });
        let lists: Vec<Vec<Item>> = lists.collect::<Result<_>>()?;
        let mut inputs: Vec<&TensorRef> = Vec::with_capacity(self.n_inputs);
        for (arg, list) in args.iter().zip(&lists) {
            match arg {
                Item::Tensor(tensor) => inputs.push(tensor),
                _ => inputs.extend(list.iter().filter_map(|item| item.to_tensor().ok())),
            }
        }
        let mut values: Vec<Value> = Vec::with_capacity(inputs.len() + self.steps.len());
        for tensor in &inputs {
            values.push(Value::Leaf(Tensor::new(tensor.array()?)));
        }
        for step in &self.steps {
            let args = step.args.iter().map(|arg| fill(arg, &values)).collect::<Result<Vec<Value>>>()?;
            values.push((step.op.eval)(&args)?);
        }
        for (Written { input, is_resized }, new) in &self.written {
            let new = fill(new, &values)?;
            match is_resized {
                true => inputs[*input].resize_and_write(array(&new)?)?,
                false => inputs[*input].write(array(&new)?)?,
            }
        }
        let value = fill(&self.result, &values)?;
        Results { schema, inputs: &inputs, is_complex: self.is_complex }.value(&value, &self.origins)
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

/// The bytes of the tensors of a type whose sizes are known.
pub(super) fn bytes(ty: &TypeTree) -> u128 {
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
