//! Inputs for differential runs, made from the types of a graph's arguments.

use rustc_hash::FxHashMap;

use crate::array::Aligned;
use crate::rng::Generator;
use crate::{Arg, DType, Dim, GraphModule, Result, Stored, Symbol, Tensor, Type, TypeTree, Value, bail, err};

/// The most elements of a generated input.
const MOST_ELEMENTS: usize = 1 << 26;

/// Returns one value for each argument of the graph, the same for the same seed. Fails if a type is not
/// known.
///
/// Floats are normally distributed, integers are 0 or 1, which is an index of most things. Symbols of sizes
/// are small numbers in their range; a size that is an expression of symbols follows them.
pub fn sample_inputs(gm: &GraphModule, seed: u64) -> Result<Vec<Value>> {
    let generator = Generator::seeded(seed);
    let mut sizes: FxHashMap<Symbol, i64> = FxHashMap::default();
    let graph = gm.graph();
    let sample = |ty: &TypeTree, name: &str, sizes: &mut FxHashMap<Symbol, i64>| -> Result<Value> {
        match ty {
            Arg::Leaf(Type::Tensor(ty)) => {
                let shape =
                    ty.shape.iter().map(|dim| size(dim, sizes, &generator)).collect::<Result<Vec<_>>>()?;
                Ok(Arg::Leaf(tensor(ty.dtype, &shape, &generator)?))
            }
            Arg::Leaf(Type::Int) => Ok(Arg::Int(1 + generator.below(3) as i64)),
            Arg::Leaf(Type::Float) => Ok(Arg::Float(generator.normal_f64())),
            Arg::Leaf(Type::Bool) => Ok(Arg::Bool(generator.below(2) == 1)),
            Arg::Leaf(Type::Str) => Ok(Arg::str("text")),
            Arg::Leaf(Type::Optional(_)) | Arg::None => Ok(Arg::None),
            Arg::Leaf(Type::List(_)) => Ok(Arg::list([])),
            Arg::Int(x) => Ok(Arg::Int(*x)),
            Arg::Dim(dim) => Ok(Arg::Int(size(dim, sizes, &generator)? as i64)),
            other => Err(err!(UnknownType, "the type of the input {name} is not known: {other}")
                .help("trace with input specs")),
        }
    };
    let mut values = Vec::with_capacity(graph.inputs().len());
    for input in graph.inputs() {
        values.push(input.tree.try_flat_map(&mut |id| {
            let node = graph.node(*id)?;
            sample(node.ty().unwrap_or(&Arg::Leaf(Type::Any)), node.name(), &mut sizes)
        })?);
    }
    Ok(values)
}

fn size(dim: &Dim, sizes: &mut FxHashMap<Symbol, i64>, generator: &Generator) -> Result<usize> {
    for symbol in dim.symbols() {
        sizes.entry(symbol.clone()).or_insert_with(|| {
            let low = symbol.min().max(2);
            let high = symbol.max().unwrap_or(i64::MAX).min(low.saturating_add(3));
            if high < low { high } else { low + generator.below((high - low + 1) as u64) as i64 }
        });
    }
    let value = dim.substitute(&|symbol| sizes.get(symbol).map(|n| Dim::new(*n)));
    match value.known().and_then(|n| usize::try_from(n).ok()) {
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
