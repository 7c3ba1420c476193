//! One call of an operator as a graph, for programs that run operator by operator.

use serde::de::IgnoredAny;

use super::alias::Origin;
use super::build::{Attempt, Builder, Entry, Failure, Out};
use super::schema::{self, Argument, Float, Named, NamedArgument, OptionalTensor, SymInt, Table, TensorMeta};
use super::symbols::Symbols;
use super::{aten, dtype};
use crate::{Arg, DType, Graph, Registry, Result, err};

/// An argument of a call. Tensors are numbers of inputs of the graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Given {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Complex(f64, f64),
    DType(DType),
    /// The dtype of complex numbers with these parts.
    ComplexDType(DType),
    Tensor(usize),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
    Strs(Vec<String>),
    Tensors(Vec<usize>),
    OptionalTensors(Vec<Option<usize>>),
}

/// A call as a graph, whose output is the pair of its result and of what inputs are after it.
pub(crate) struct Single {
    pub(crate) graph: Graph,
    /// For each tensor of the result, in order: the input that it is or is a view of.
    pub(crate) origins: Vec<Option<ViewOf>>,
    /// The inputs that the call writes, in the order of the second part of the output.
    pub(crate) written: Vec<Written>,
}

/// An input that a call writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) input: usize,
    /// Whether it takes the sizes of what is written, as `out` does.
    pub(crate) is_resized: bool,
}

/// How a result shares memory with an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ViewOf {
    /// It is the input.
    Whole(usize),
    /// It is a view of the input.
    Part(usize),
}

/// The number in archives of a dtype.
pub(super) fn code(wanted: DType) -> u32 {
    (1..=13).find(|&code| dtype(code).is_ok_and(|dtype| dtype == wanted)).expect("every dtype has a number")
}

/// The number in archives of the dtype of complex numbers.
fn complex_code(part: DType) -> u32 {
    match part {
        DType::F16 => 9,
        DType::F64 => 11,
        _ => 10,
    }
}

fn name(input: usize) -> Named {
    Named { name: format!("t{input}") }
}

fn argument(given: Given) -> Argument {
    match given {
        Given::None => Argument::AsNone(IgnoredAny),
        Given::Bool(x) => Argument::AsBool(x),
        Given::Int(x) => Argument::AsInt(x),
        Given::Float(x) => Argument::AsFloat(Float(x)),
        Given::Str(text) => Argument::AsString(text),
        Given::Complex(re, im) => Argument::AsComplex(schema::Complex { real: Float(re), imag: Float(im) }),
        Given::ComplexDType(part) => Argument::AsScalarType(complex_code(part)),
        Given::DType(dtype) => Argument::AsScalarType(code(dtype)),
        Given::Tensor(input) => Argument::AsTensor(name(input)),
        Given::Ints(items) => Argument::AsInts(items),
        Given::Floats(items) => Argument::AsFloats(items.into_iter().map(Float).collect()),
        Given::Bools(items) => Argument::AsBools(items),
        Given::Strs(items) => Argument::AsStrings(items),
        Given::Tensors(items) => Argument::AsTensors(items.into_iter().map(name).collect()),
        Given::OptionalTensors(items) => Argument::AsOptionalTensors(
            items
                .into_iter()
                .map(|item| match item {
                    Some(input) => OptionalTensor::AsTensor(name(input)),
                    None => OptionalTensor::AsNone(IgnoredAny),
                })
                .collect(),
        ),
    }
}

/// An input of a call.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// The dtype of the elements, or of the parts of complex ones.
    pub(crate) dtype: DType,
    /// The sizes that the program sees.
    pub(crate) sizes: Vec<usize>,
    pub(crate) is_complex: bool,
}

/// Returns the graph of a call of `aten::add.Tensor` with these inputs. Fails if there is
/// no such operator or the arguments do not fit.
pub(crate) fn single(
    target: &str,
    args: Vec<(String, Given)>,
    inputs: &[Input],
    registry: &Registry,
) -> Result<Single> {
    let mut tensor_values = Table::default();
    for (i, input) in inputs.iter().enumerate() {
        let sizes = input.sizes.iter().map(|&size| SymInt::AsInt(size as i64)).collect();
        let meta = TensorMeta {
            dtype: if input.is_complex { complex_code(input.dtype) } else { code(input.dtype) },
            sizes,
            strides: Vec::new(),
            storage_offset: None,
            layout: None,
        };
        tensor_values.0.insert(name(i).name, meta);
    }
    let named = |(name, given): (String, Given)| NamedArgument { name, arg: argument(given) };
    let node = schema::Node {
        target: format!("torch.ops.{}", target.replace("::", ".")),
        inputs: args.into_iter().map(named).collect(),
        outputs: Vec::new(),
        metadata: Table::default(),
        name: None,
    };
    let source = schema::Graph {
        inputs: Vec::new(),
        outputs: Vec::new(),
        nodes: vec![node],
        tensor_values,
        sym_int_values: Table::default(),
        sym_bool_values: Table::default(),
        sym_float_values: Table::default(),
    };
    let symbols = Symbols::new(&Table::default())?;
    let mut builder = Builder::new("operator", registry, &symbols, &source);
    let mut shapes = Vec::with_capacity(inputs.len());
    for name in source.tensor_values.keys() {
        let node = builder.graph.structured_input(name, &Arg::Leaf(()))?.leaf().copied();
        let node = node.ok_or_else(|| err!(Graph, "an input is one node"))?;
        let ty = builder.declared(name)?.ok_or_else(|| err!(Graph, "an input has a type"))?;
        shapes.push(ty.shape.clone());
        builder.declare(node, ty.into())?;
        let view = builder.fresh(node, Origin::Resizable);
        builder.define(name, Entry::Tensor(view))?;
    }
    // Storages were made in the order of the names.
    let order: Vec<usize> =
        source.tensor_values.keys().map(|name| name[1..].parse().expect("names are numbers")).collect();
    let mut origins = Vec::new();
    let attempt = aten::import(&mut builder, &source.nodes[0])
        .and_then(|out| value(&mut builder, out, &order, &mut origins));
    let result = match attempt {
        Ok(result) => result,
        Err(Failure::Error(error)) => return Err(error),
        Err(Failure::Missing(row)) => {
            return Err(err!(Unresolved, "the operator {target} needs the row {row:?}, which is missing"));
        }
        Err(Failure::Poisoned) => return Err(err!(Unresolved, "the arguments of {target} cannot be read")),
    };
    let (mut written, mut values) = (Vec::new(), Vec::new());
    for (storage, &input) in order.iter().enumerate() {
        if builder.storages[storage].version > 0 {
            let value = builder.storages[storage].value;
            let is_resized = builder.tensor_type(value).is_ok_and(|ty| ty.shape != shapes[storage]);
            written.push(Written { input, is_resized });
            values.push(Arg::Leaf(value));
        }
    }
    let mut graph = builder.graph;
    graph.set_output(Arg::tuple([result, Arg::tuple(values)]))?;
    graph.eliminate_dead_code(|_| true);
    Ok(Single { graph, origins, written })
}

/// Returns what an operator gives as a value, and notes where its tensors come from.
fn value(
    builder: &mut Builder<'_>,
    out: Out,
    order: &[usize],
    origins: &mut Vec<Option<ViewOf>>,
) -> Attempt<Arg> {
    Ok(match out {
        Out::Nothing => Arg::None,
        Out::Node(node) => {
            origins.push(None);
            Arg::Leaf(node)
        }
        Out::View(view) => {
            let input = order.get(view.storage).copied();
            origins.push(input.map(|input| match view.steps {
                None => ViewOf::Whole(input),
                Some(_) => ViewOf::Part(input),
            }));
            Arg::Leaf(builder.current(&view)?)
        }
        Out::Value(arg) => builder.lower(&arg)?,
        Out::Many(parts) => {
            let mut items = Vec::with_capacity(parts.len());
            for part in parts {
                items.push(value(builder, part, order, origins)?);
            }
            Arg::tuple(items)
        }
    })
}
