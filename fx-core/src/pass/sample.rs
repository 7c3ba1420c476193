//! Inputs for differential runs, made from the types of a graph's arguments.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::array::Aligned;
use crate::fresh::for_each_dim;
use crate::rng::Generator;
use crate::{
    Arg, DType, Dim, Graph, GraphModule, NodeId, Result, Stored, Symbol, Tensor, Type, TypeTree, Value, bail,
    err,
};

/// The most elements of a generated input.
const MOST_ELEMENTS: usize = 1 << 26;

/// Returns one value for each argument of the graph, the same for the same seed. Fails if a type is not
/// known.
///
/// Floats are normally distributed, integers are 0 or 1, which is an index of most things. Symbols of sizes
/// are small numbers in their range, but large enough that no tensor of the graph is empty, if there are such
/// numbers; a size that is an expression of symbols follows them.
pub fn sample_inputs(gm: &GraphModule, seed: u64) -> Result<Vec<Value>> {
    let generator = Generator::seeded(seed);
    let graph = gm.graph();
    let is_typed = graph.nodes().all(|(_, node)| node.ty().is_some());
    let typed = (!is_typed).then(|| {
        let mut typed = gm.clone();
        // Without all types the sizes are small, and the program says for which node that is wrong.
        let _ = super::SHAPE_PROP.apply(&mut typed);
        typed
    });
    let sizes = accepted(gm, sizes(typed.as_ref().map_or(graph, GraphModule::graph), &generator));
    let sample = |ty: &TypeTree, name: &str| -> Result<Value> {
        match ty {
            Arg::Leaf(Type::Tensor(ty)) => {
                let shape = ty.shape.iter().map(|dim| size(dim, &sizes)).collect::<Result<Vec<_>>>()?;
                Ok(Arg::Leaf(tensor(ty.dtype, &shape, &generator)?))
            }
            Arg::Leaf(Type::Int) => Ok(Arg::Int(1 + generator.below(3) as i64)),
            Arg::Leaf(Type::Float) => Ok(Arg::Float(generator.normal_f64())),
            Arg::Leaf(Type::Bool) => Ok(Arg::Bool(generator.below(2) == 1)),
            Arg::Leaf(Type::Str) => Ok(Arg::str("text")),
            Arg::Leaf(Type::Optional(_)) | Arg::None => Ok(Arg::None),
            Arg::Leaf(Type::List(_)) => Ok(Arg::list([])),
            Arg::Int(x) => Ok(Arg::Int(*x)),
            Arg::Dim(dim) => Ok(Arg::Int(size(dim, &sizes)? as i64)),
            other => Err(err!(UnknownType, "the type of the input {name} is not known: {other}")
                .help("trace with input specs")),
        }
    };
    let mut values = Vec::with_capacity(graph.inputs().len());
    for input in graph.inputs() {
        values.push(input.tree.try_flat_map(&mut |id| {
            let node = graph.node(*id)?;
            sample(node.ty().unwrap_or(&Arg::Leaf(Type::Any)), node.name())
        })?);
    }
    Ok(values)
}

/// How often sizes grow at the most, by a quarter.
const MOST_ROUNDS: usize = 64;

/// Returns the next size to try.
fn grown(size: i64, symbol: &Symbol) -> i64 {
    (size + (size / 4).max(1)).min(symbol.max().unwrap_or(i64::MAX))
}

/// Lets sizes grow until the rules of all operations accept them, such as that of the first ten rows of a tensor.
/// Returns the first sizes if none are found.
fn accepted(gm: &GraphModule, first: FxHashMap<Symbol, i64>) -> FxHashMap<Symbol, i64> {
    /// How often rules are asked; sizes are a thousand times as large then.
    const MOST_TRIES: usize = 32;
    let graph = gm.graph();
    let types: Vec<TypeTree> = graph
        .placeholders()
        .into_iter()
        .filter_map(|id| Some(graph.node(id).ok()?.ty().cloned().unwrap_or(Arg::Leaf(Type::Any))))
        .collect();
    let mut numbers: FxHashSet<Symbol> = FxHashSet::default();
    types.iter().for_each(|ty| {
        if let Arg::Dim(number) = ty {
            numbers.extend(number.symbols());
        }
    });
    let mut sizes = first.clone();
    for _ in 0..MOST_TRIES {
        let known = |symbol: &Symbol| sizes.get(symbol).map(|size| Dim::new(*size));
        let types: Vec<TypeTree> = types.iter().map(|ty| crate::fresh::substitute(ty, &known)).collect();
        if sizes.is_empty() || gm.specialize(&types).is_ok() {
            return sizes;
        }
        let before = sizes.clone();
        for (symbol, size) in &mut sizes {
            if !numbers.contains(symbol) {
                *size = grown(*size, symbol);
            }
        }
        if sizes == before {
            break;
        }
    }
    first
}

/// Chooses the sizes of the symbols in the types of the inputs. An integer is as near to 0 as it may be.
fn sizes(graph: &Graph, generator: &Generator) -> FxHashMap<Symbol, i64> {
    let mut small: FxHashMap<Symbol, i64> = FxHashMap::default();
    let types = |ids: &mut dyn Iterator<Item = NodeId>, visit: &mut dyn FnMut(&Dim)| {
        ids.filter_map(|id| graph.node(id).ok()?.ty()).for_each(|ty| for_each_dim(ty, visit));
    };
    let inputs: Vec<NodeId> = graph.placeholders();
    let is_number = |id: &NodeId| graph.node(*id).is_ok_and(|node| matches!(node.ty(), Some(Arg::Dim(_))));
    let (numbers, tensors): (Vec<NodeId>, Vec<NodeId>) = inputs.into_iter().partition(is_number);
    types(&mut tensors.into_iter(), &mut |dim| {
        for symbol in dim.symbols() {
            small.entry(symbol.clone()).or_insert_with(|| {
                let low = symbol.min().max(2);
                let high = symbol.max().unwrap_or(i64::MAX).min(low.saturating_add(3));
                if high < low { high } else { low + generator.below((high - low + 1) as u64) as i64 }
            });
        }
    });
    types(&mut numbers.into_iter(), &mut |number| {
        for symbol in number.symbols() {
            small
                .entry(symbol.clone())
                .or_insert_with(|| symbol.min().max(0).min(symbol.max().unwrap_or(i64::MAX)));
        }
    });
    let mut follow: Vec<Dim> = Vec::new();
    let mut seen: FxHashSet<Dim> = FxHashSet::default();
    types(&mut graph.ids().into_iter(), &mut |dim| {
        let is_input = |symbol: &Symbol| small.contains_key(symbol);
        if !dim.is_known() && dim.symbols().iter().all(is_input) && seen.insert(dim.clone()) {
            follow.push(dim.clone());
        }
    });
    let mut sizes = small.clone();
    for _ in 0..MOST_ROUNDS {
        let is_empty = |dim: &&Dim| dim.eval(&|symbol| sizes.get(symbol).copied()).is_ok_and(|n| n < 1);
        let Some(empty) = follow.iter().find(is_empty) else { return sizes };
        for symbol in empty.symbols() {
            if let Some(size) = sizes.get_mut(&symbol) {
                *size = grown(*size, &symbol);
            }
        }
    }
    small
}

fn size(dim: &Dim, sizes: &FxHashMap<Symbol, i64>) -> Result<usize> {
    match dim.eval(&|symbol| sizes.get(symbol).copied()).ok().and_then(|n| usize::try_from(n).ok()) {
        Some(n) => Ok(n),
        None => bail!(Shape, "no small size was found for {dim}"),
    }
}

fn tensor(dtype: DType, shape: &[usize], generator: &Generator) -> Result<Tensor> {
    let n = shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size)).filter(|n| *n <= MOST_ELEMENTS);
    let Some(n) = n else { bail!(Limit, "an input of shape {shape:?} is too large to generate") };
    let array = crate::array::dispatch_dtype!(dtype, T => {
        let mut elements = Aligned::<T>::new(n)?;
        for _ in 0..n {
            let x = if dtype.is_float() {
                crate::Scalar::Float(generator.normal_f64())
            } else {
                crate::Scalar::Int(generator.below(2) as i64)
            };
            elements.vec().push(<T as Stored>::from_scalar(x));
        }
        elements.into_array(shape)
    });
    Ok(Tensor::new(array))
}
