//! Whether two programs do the same: results, buffers, and what is printed.
//!
//! Exact changes keep every bit, but for the sign and payload of NaNs, and for signs of zeros where a maximum
//! or minimum chooses. For others the tolerance is found by experiment: the program before the change runs
//! again with every float of every result disturbed by a few units in the last place ([`perturb`]), and
//! results may differ from those before by [`SLACK`] times as much as these runs do. So a tensor may differ
//! much where the program itself is sensitive, and hardly at all elsewhere. What a disturbance turns into
//! something else, such as a position of a maximum, a rounded number or the sign of a zero, is not compared,
//! nor are programs in which a value is infinite, not a number, or near it.

use std::cell::Cell;

use crate::compile::{compile, owned};
use crate::module::collect_buffers;
use crate::ops::with_printed;
use crate::testing::Rng;
use crate::{
    Arg, Array, Compile, DType, Dim, Engine, Generator, Graph, GraphModule, Kind, Module, Node, NodeId, Op,
    OpCode, OpDef, Param, Result, Shape, Symbol, Target, Tensor, TensorType, Type, TypeTree, Value, bail,
    err, with_generator,
};

/// How many times as far as disturbed runs the results of a change may be away.
pub const SLACK: f64 = 16.0;
/// How many disturbed runs are made.
const RUNS: u64 = 4;

/// What a run does.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    output: Value,
    buffers: Vec<(String, Tensor)>,
    printed: Vec<(String, Value)>,
}

/// Returns what the buffers of a program hold.
fn buffers_of(gm: &GraphModule) -> Vec<(String, Tensor)> {
    collect_buffers(gm).into_iter().map(|(path, buffer)| (path, buffer.get())).collect()
}

/// Runs a copy of a program, so that its buffers stay.
pub(super) fn run(gm: &GraphModule, inputs: &[Value]) -> Result<Outcome> {
    let copy = gm.clone();
    let call = || with_generator(&Generator::seeded(11), || copy.evaluate(inputs));
    let (output, printed) = with_printed(|| crate::opcheck::guarded(call));
    let output = output?;
    Ok(Outcome { output, buffers: buffers_of(&copy), printed })
}

/// Runs a program by an engine, which has buffers of its own, after it was made ready for other inputs.
pub(super) fn run_on(
    gm: &GraphModule,
    inputs: &[Value],
    others: Option<&[Value]>,
    engine: Engine,
) -> Result<Outcome> {
    let program = crate::opcheck::guarded(|| gm.compile(engine))?;
    if let (Some(fused), Some(others)) = (program.fused(), others) {
        // There may be no plan for those.
        let _ = crate::opcheck::guarded(|| fused.prepare(others));
    }
    let call = || with_generator(&Generator::seeded(11), || program.evaluate(inputs));
    let (output, printed) = with_printed(|| crate::opcheck::guarded(call));
    let module = program.fused().map_or(gm, |fused| fused.graph_module());
    Ok(Outcome { output: output?, buffers: buffers_of(module), printed })
}

/// Runs a program as a compiled function, after calls with other inputs and with these, unless that would change
/// its state.
pub(super) fn run_compiled(
    gm: &GraphModule,
    inputs: &[Value],
    others: Option<&[Value]>,
    is_pure: bool,
) -> Result<Outcome> {
    let function = compile(owned(gm.clone()));
    let function = if is_pure { function.pure() } else { function };
    let call = |inputs: &[Value]| {
        let call = || with_generator(&Generator::seeded(11), || function.call_values(inputs));
        with_printed(|| crate::opcheck::guarded(call))
    };
    if gm.is_pure() {
        for inputs in others.into_iter().chain([inputs, inputs]) {
            // An error comes again.
            let _ = call(inputs);
        }
    }
    let (output, printed) = call(inputs);
    Ok(Outcome { output: output?, buffers: buffers_of(function.module()), printed })
}

/// Makes inputs with these values of the symbols in their sizes, as far as these are in range; `None` if
/// there are no symbols.
pub(super) fn resized(gm: &GraphModule, sizes: [i64; 2], seed: u64) -> Option<Vec<Value>> {
    let mut symbols: Vec<Symbol> = Vec::new();
    let mut known = |dim: &Dim| {
        for symbol in dim.symbols() {
            if !symbols.contains(&symbol) {
                symbols.push(symbol);
            }
        }
        dim.substitute(&|symbol| {
            let at = symbols.iter().position(|other| other == symbol)?;
            Some(sizes[at % 2].min(symbol.max().unwrap_or(i64::MAX)).max(symbol.min()).into())
        })
    };
    let mut resized = gm.clone();
    let graph = resized.graph_mut();
    for id in graph.placeholders() {
        let ty = graph.node(id).ok()?.ty()?.try_rewrite(&mut |ty| {
            Ok(match ty {
                Arg::Leaf(Type::Tensor(ty)) => {
                    let shape: Shape = ty.shape.iter().map(&mut known).collect();
                    Some(TensorType::new(ty.dtype, shape).into())
                }
                Arg::Leaf(ty) => Some(Arg::Leaf(ty.clone())),
                Arg::Dim(dim) => Some(Arg::dim(known(dim))),
                _ => None,
            })
        });
        graph.meta_mut(id).ok()?.ty = Some(ty.ok()?.into());
    }
    if symbols.is_empty() {
        return None;
    }
    crate::pass::sample_inputs(&resized, seed).ok()
}

/// Runs a function of state, which returns a result and new values of buffers.
pub(super) fn run_function(gm: &GraphModule, arguments: &[Value]) -> Result<Outcome> {
    let Outcome { output, printed, .. } = run(gm, arguments)?;
    let (Some([output, Arg::Dict(updated)]), true) = (output.items(), matches!(output, Arg::Tuple(_))) else {
        bail!(Structure, "expected a result and new values of buffers, got {output}")
    };
    let buffers = updated.iter().map(|(path, value)| Ok((path.to_string(), value.clone().try_into()?)));
    Ok(Outcome { output: output.clone(), buffers: buffers.collect::<Result<_>>()?, printed })
}

/// Every tensor of an outcome with what it is called.
fn tensors(outcome: &Outcome) -> Vec<(String, Tensor)> {
    let mut found: Vec<(String, Tensor)> = Vec::new();
    let leaves = outcome.output.leaves();
    found.extend(leaves.into_iter().enumerate().map(|(i, leaf)| (format!("result {i}"), leaf.clone())));
    for (i, (label, value)) in outcome.printed.iter().enumerate() {
        let name = |leaf: &Tensor| (format!("print {i} {label:?}"), leaf.clone());
        found.extend(value.leaves().into_iter().map(name));
    }
    found.extend(outcome.buffers.iter().map(|(path, tensor)| (format!("buffer {path}"), tensor.clone())));
    found
}

/// Returns whether a program, or a graph that it calls, chooses ranges by the extremes of its data: where all
/// are equal it takes another range, however near to equal they were.
fn finds_ranges(gm: &GraphModule) -> bool {
    let finds = |node: &Node| node.op().is_some_and(|op| ["histogram", "histc"].contains(&op.name));
    any_node(gm, &finds, &|_| false)
}

/// Returns whether a program, or a graph that it calls, draws random numbers; so do the modules of Rust that
/// have an effect.
pub(super) fn draws(gm: &GraphModule) -> bool {
    let draws = |node: &Node| node.op().is_some_and(|op| op.effects.random);
    any_node(gm, &draws, &|module| !module.is_pure())
}

/// Returns whether a program has sizes that its data decide, as those of `unique` are.
fn finds_sizes(gm: &GraphModule, inputs: &[Value]) -> bool {
    let type_of = |x: &Tensor| Arg::Leaf(x.ty().map_or(Type::Any, Type::Tensor));
    // One for each placeholder.
    let types: Vec<TypeTree> = inputs.iter().flat_map(Arg::leaves).map(type_of).collect();
    let finds =
        |ty: &TypeTree| ty.leaves().into_iter().filter_map(Type::tensor).any(|ty| ty.shape.known().is_none());
    gm.infer(&types).map_or(true, |types| types.iter().any(|(_, ty)| finds(ty)))
}

/// Returns whether there is such a node in a program, or such a module of Rust, sub-graphs and graphs that it
/// calls included.
fn any_node(
    gm: &GraphModule,
    is_it: &dyn Fn(&Node) -> bool,
    is_module: &dyn Fn(&dyn Module) -> bool,
) -> bool {
    fn any(graph: &Graph, is_it: &dyn Fn(&Node) -> bool) -> bool {
        let mut nodes = graph.nodes();
        nodes.any(|(_, node)| is_it(node) || node.subgraphs().into_iter().any(|inner| any(inner, is_it)))
    }
    any(gm.graph(), is_it)
        || gm.children().any(|(_, child)| {
            let module = child.as_module();
            match module.as_any().downcast_ref::<GraphModule>() {
                Some(child) => any_node(child, is_it, is_module),
                None => is_module(module),
            }
        })
}

/// Compares what a program did on these inputs before and after a change that keeps every bit.
pub(super) fn same(gm: &GraphModule, inputs: &[Value], before: &Outcome, after: &Outcome) -> Result<()> {
    let Err(error) = same_bits(before, after, &|_, _| true) else { return Ok(()) };
    // Does it read the signs of NaNs, which no change keeps?
    let mut copy = gm.clone();
    disturb(&mut copy, 0, Disturbance::SignsOfNans)?;
    let Ok(other) = run(&copy, inputs) else { return Err(error) };
    let other = tensors(&other);
    same_bits(before, after, &|what, a| {
        let other = other.iter().find(|(name, _)| name == what);
        other.is_none_or(|(_, b)| {
            a.array().is_ok_and(|a| b.array().is_ok_and(|b| first_difference(a, b).is_none()))
        })
    })
}

/// Compares those tensors of two outcomes for which this holds.
fn same_bits(before: &Outcome, after: &Outcome, is_kept: &dyn Fn(&str, &Tensor) -> bool) -> Result<()> {
    for (what, a, b) in pairs(before, after)? {
        if !is_kept(&what, &a) {
            continue;
        }
        let (a, b) = (a.array()?, b.array()?);
        if a.dtype() != b.dtype() || a.shape() != b.shape() {
            bail!(Check, "{what} was {}, it is {} now", a.describe(), b.describe());
        }
        if let Some(i) = first_difference(a, b) {
            let at = |array: &Array| array.iter_scalars().nth(i).map_or(f64::NAN, |x| x.to_f64());
            bail!(Check, "element {i} of {what} was {:e}, it is {:e} now", at(a), at(b));
        }
    }
    Ok(())
}

/// Returns the first place where two arrays of one shape differ in more than what kind of NaN they hold.
fn first_difference(a: &Array, b: &Array) -> Option<usize> {
    let same = |(a, b): (crate::Scalar, crate::Scalar)| {
        let (x, y) = (a.to_f64(), b.to_f64());
        x.is_nan() && y.is_nan() || a == b && x.to_bits() == y.to_bits()
    };
    a.iter_scalars().zip(b.iter_scalars()).position(|pair| !same(pair))
}

/// Says what was printed, but for the values.
fn labels(outcome: &Outcome) -> Vec<String> {
    outcome.printed.iter().map(|(label, value)| format!("{label} {}", value.leaves().len())).collect()
}

fn pairs(before: &Outcome, after: &Outcome) -> Result<Vec<(String, Tensor, Tensor)>> {
    if !before.output.eq_by(&after.output, &|_: &Tensor, _: &Tensor| true) {
        bail!(Structure, "the result was {}, it is {} now", before.output, after.output);
    }
    if labels(before) != labels(after) {
        bail!(Check, "it printed {:?}, it prints {:?} now", labels(before), labels(after));
    }
    let after = tensors(after);
    let mut pairs = Vec::new();
    for (what, a) in tensors(before) {
        // A buffer that nobody updates may be gone, when the last node that read it is.
        if let Some((_, b)) = after.iter().find(|(other, _)| *other == what) {
            pairs.push((what, a, b.clone()));
        }
    }
    Ok(pairs)
}

/// What a program is like near its inputs: what it did, and in disturbed runs.
pub(super) struct Nearby {
    before: Outcome,
    disturbed: Vec<Vec<(String, Tensor)>>,
    /// Whether so much is rounded that integers made from floats tell nothing.
    is_coarse: bool,
}

impl Nearby {
    /// Runs a program disturbed, by units in the last place of `dtype` if that is given, else of each value's
    /// own; `None` if it has values that cannot be compared.
    pub(super) fn new(
        gm: &GraphModule,
        inputs: &[Value],
        before: &Outcome,
        dtype: Option<DType>,
    ) -> Option<Nearby> {
        let mut disturbed = Vec::new();
        if finds_ranges(gm) || dtype.is_some() && finds_sizes(gm, inputs) {
            return None;
        }
        EXTREME.set(false);
        for seed in 0..RUNS {
            let mut copy = gm.clone();
            disturb(&mut copy, seed, Disturbance::Rounding(dtype)).ok()?;
            let outcome = run(&copy, inputs).ok()?;
            // What it prints depends on a condition that rounding changes.
            if labels(&outcome) != labels(before) {
                return None;
            }
            disturbed.push(tensors(&outcome));
        }
        (!EXTREME.get()).then(|| Nearby { before: before.clone(), disturbed, is_coarse: dtype.is_some() })
    }

    /// Compares with what the program does after a change that may round in another way.
    pub(super) fn compare(&self, after: &Outcome) -> Result<()> {
        for (what, a, b) in pairs(&self.before, after)? {
            let (a, b) = (a.array()?, b.array()?);
            if a.dtype() != b.dtype() || a.shape() != b.shape() {
                bail!(Check, "{what} was {}, it is {} now", a.describe(), b.describe());
            }
            let mut spread = 0f64;
            let mut is_stable = true;
            for run in &self.disturbed {
                let Some((_, x)) = run.iter().find(|(other, _)| *other == what) else { continue };
                let x = x.array()?;
                if x.shape() != a.shape() {
                    is_stable = false;
                    break;
                }
                let error = difference(a, x);
                is_stable &= error.is_finite() && (a.dtype().is_float() || error == 0.0);
                spread = spread.max(error);
            }
            let greatest = a.iter_scalars().map(|x| x.to_f64().abs()).fold(0.0, f64::max);
            if !is_stable || !greatest.is_finite() || self.is_coarse && !a.dtype().is_float() {
                continue;
            }
            // A result that a whole magnitude of disturbance cannot move tells nothing; neither does one that
            // it moves away.
            if a.dtype().is_float() && spread > 0.05 * greatest {
                continue;
            }
            let allowed = a.dtype().epsilon().map_or(0.0, |unit| SLACK * (spread + unit * greatest));
            if self.is_coarse && allowed > 0.1 * greatest {
                continue;
            }
            let error = difference(a, b);
            if error > allowed || error.is_nan() {
                return Err(err!(
                    Check,
                    "{what} differs by {error:.1e}, allowed are {allowed:.1e} of {greatest:.1e}"
                ));
            }
        }
        Ok(())
    }
}

/// Returns the greatest difference of two elements at the same place.
fn difference(a: &Array, b: &Array) -> f64 {
    let one = |(a, b): (crate::Scalar, crate::Scalar)| {
        let (a, b) = (a.to_f64(), b.to_f64());
        if a == b || a.is_nan() && b.is_nan() { 0.0 } else { (a - b).abs() }
    };
    a.iter_scalars()
        .zip(b.iter_scalars())
        .map(one)
        .fold(0.0, |max, x| if x.is_nan() { f64::NAN } else { max.max(x) })
}

thread_local! {
    /// Whether a disturbed run of this thread had a value that is infinite, not a number, or near the limits
    /// of its dtype.
    static EXTREME: Cell<bool> = const { Cell::new(false) };
}

/// What a disturbed run does to the results of calls.
#[derive(Clone, Copy)]
enum Disturbance {
    /// Rounds floats in another way, in units of this dtype if it is given, else of each value's own. Zeros
    /// get another sign, and so do all vectors of a decomposition, which are as good with it.
    Rounding(Option<DType>),
    /// Gives NaNs another sign.
    SignsOfNans,
}

/// Disturbs floats: each is multiplied by one plus or minus a few rounding units, or NaNs get another sign if
/// `unit` is negative.
pub(super) const PERTURB: Op = {
    const fn param(name: &'static str, kind: Kind) -> Param {
        Param { name, kind, default: None, keyword_only: false }
    }
    static DEF: OpDef = OpDef {
        name: "perturb",
        doc: "Disturbs floats by a few rounding units.\n",
        params: &[
            param("x", Kind::Any),
            param("seed", Kind::Int),
            param("unit", Kind::Float),
            param("free", Kind::Ints),
        ],
        infer: &|types: &[TypeTree]| Ok(types.first().cloned().unwrap_or(Arg::None)),
        eval: &perturb,
        ..OpDef::BASE
    };
    Op::new(&DEF)
};

/// Returns which results of an operation are as good with the other sign, if all of them get it.
fn free_signs(op: Op) -> &'static [i64] {
    match op.name {
        "linalg_svd" => &[0, 2],
        "linalg_eigh" => &[1],
        _ => &[],
    }
}

fn perturb(args: &[Value]) -> Result<Value> {
    let [x, Arg::Int(seed), Arg::Float(least), Arg::List(free)] = args else {
        return crate::op::wrong_arity(&PERTURB, args.len());
    };
    let mut rng = Rng::new(*seed as u64);
    let is_turned = rng.one_in(2);
    let mut result = 0;
    x.try_flat_map(&mut |tensor| {
        let is_free = free.iter().any(|at| matches!(at, Arg::Int(at) if *at == result));
        result += 1;
        let array = tensor.array()?;
        let Some(unit) = array.dtype().epsilon() else { return Ok(Arg::Leaf(tensor.clone())) };
        let unit = 2.0 * unit.max(*least);
        let limit = if array.dtype() == DType::F16 { 3e4 } else { 1e15 };
        let mut one = |x: f64| {
            if x.is_nan() || x.abs() > limit {
                EXTREME.set(true);
            }
            match () {
                () if *least < 0.0 => {
                    if x.is_nan() {
                        -x
                    } else {
                        x
                    }
                }
                () if x == 0.0 => {
                    if rng.one_in(2) {
                        -x
                    } else {
                        x
                    }
                }
                () => {
                    let x = x * (1.0 + unit * ((rng.bits() >> 12) as f64 / (1u64 << 51) as f64 - 1.0));
                    if is_free && is_turned { -x } else { x }
                }
            }
        };
        let data: Vec<f64> = array.iter_scalars().map(|x| one(x.to_f64())).collect();
        Ok(Arg::Leaf(Tensor::from(Array::from_vec(data, array.shape())?.cast(array.dtype()))))
    })
}

/// Disturbs the result of every call, in sub-graphs and sub-modules that are graphs too.
fn disturb(gm: &mut GraphModule, seed: u64, how: Disturbance) -> Result<()> {
    let children: Vec<(String, GraphModule)> = gm
        .children()
        .filter_map(|(path, child)| {
            Some((path.to_owned(), child.as_module().as_any().downcast_ref::<GraphModule>()?.clone()))
        })
        .collect();
    for (path, mut child) in children {
        disturb(&mut child, seed, how)?;
        gm.add_submodule(&path, child)?;
    }
    disturb_graph(gm.graph_mut(), seed, how).map(|_| ())
}

fn disturb_graph(graph: &mut Graph, seed: u64, how: Disturbance) -> Result<bool> {
    let least = match how {
        Disturbance::Rounding(dtype) => dtype.and_then(DType::epsilon).unwrap_or(0.0),
        Disturbance::SignsOfNans => -1.0,
    };
    graph.edit_subgraphs(&mut |inner| disturb_graph(inner, seed, how))?;
    for (i, id) in graph.ids().into_iter().enumerate() {
        let node = graph.node(id)?;
        let is_call = matches!(node.opcode(), OpCode::CallFunction | OpCode::CallMethod | OpCode::CallModule);
        let has_number = |ty: &TypeTree| matches!(ty, Arg::Leaf(_) | Arg::List(_) | Arg::Tuple(_));
        if !is_call || node.n_users() == 0 || !node.ty().is_none_or(has_number) {
            continue;
        }
        // Sizes are known by the name of their node, and integers are not disturbed.
        let is_float = |leaf: &crate::Type| leaf.tensor().is_some_and(|ty| ty.dtype.is_float());
        if node.ty().is_some_and(|ty| !ty.leaves().into_iter().any(is_float)) {
            continue;
        }
        let ty = node.meta().ty.clone();
        let free = Arg::ints(node.op().map_or(&[][..], free_signs).iter().copied());
        let args = [Arg::Leaf(id), Arg::Int((seed << 32) as i64 + i as i64), Arg::Float(least), free];
        let new: NodeId = graph
            .inserting_after(id, |graph| graph.create(Target::CallFunction(PERTURB), args, [], None))??;
        graph.meta_mut(new)?.ty = ty;
        graph.replace_uses_where(id, new, |user| user != new)?;
    }
    Ok(true)
}
