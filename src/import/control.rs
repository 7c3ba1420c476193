//! Nodes that are no tensor operators: numbers, checks, and higher-order operators.

use super::alias::Origin;
use super::build::{Attempt, Builder, Entry, Failure, Out, Output, shorten};
use super::call::Call;
use super::loops::{self, Steps};
use super::schema::{Argument, Graph, NamedArgument, Node, SymInt};
use crate::{Arg, DType, Dim, Type, err, ops};

/// Imports a node of Python's `operator`, `math` or `torch`: a number, for which the archive has an expression.
pub(super) fn number<'a>(builder: &mut Builder<'a>, node: &'a Node) -> Attempt<Out> {
    let [output] = node.outputs.as_slice() else {
        return Err(Failure::Missing(last_part(&node.target).to_owned()));
    };
    if let Argument::AsTensor(_) | Argument::AsTensors(_) = output {
        return Err(Failure::Missing(last_part(&node.target).to_owned()));
    }
    // A wrong number would be silent, so what is computed from is read too.
    let args = node.inputs.iter().map(|input| builder.argument(&input.arg)).collect::<Attempt<Vec<Arg>>>()?;
    let declared = match builder.number(output) {
        Ok(declared) => declared,
        Err(Failure::Error(_)) if args.iter().any(|arg| arg.leaf().is_some()) => None,
        Err(failure) => return Err(failure),
    };
    if let Some(value) = declared {
        return Ok(Out::Value(value));
    }
    // A float that depends on data.
    let row = match last_part(&node.target) {
        "add" => "add",
        "sub" => "sub",
        "mul" => "mul",
        "truediv" => "div",
        "floordiv" => "floor_divide",
        "neg" => "neg",
        "pow" => "pow",
        "sqrt" | "_sym_sqrt" => "sqrt",
        "sym_max" => "maximum",
        "sym_min" => "minimum",
        "lt" => "lt",
        "le" => "le",
        "gt" => "gt",
        "ge" => "ge",
        "eq" => "eq",
        "ne" => "ne",
        "sym_ite" => "where",
        "sym_float" => return Ok(Out::Value(args.into_iter().next().unwrap_or(Arg::None))),
        _ => return Err(Failure::Missing(last_part(&node.target).to_owned())),
    };
    let node = builder.call(row, args)?;
    if let Argument::AsSymFloat(_) = output {
        builder.note_number(node);
    }
    Ok(Out::Node(node))
}

fn last_part(target: &str) -> &str {
    shorten(target.rsplit('.').next().unwrap_or(target))
}

/// The size of an axis.
pub(super) fn sym_size<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (Arg::Leaf(x), Arg::Int(dim)) = (call.first()?, call.or("dim", Arg::Int(0))) else {
        return Err(err!(Load, "expected a tensor and an axis").into());
    };
    let ty = builder.tensor_type(x)?;
    let size = ty.shape[ops::axis(dim, ty.rank())?].clone();
    sized(builder, call, size)
}

/// The number of elements.
pub(super) fn sym_numel<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let Arg::Leaf(x) = call.first()? else { return Err(err!(Load, "expected a tensor").into()) };
    let size = builder.tensor_type(x)?.shape.numel();
    sized(builder, call, size)
}

/// Where a tensor begins in its storage, as it was when the program was exported.
pub(super) fn sym_storage_offset<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    if let [output] = call.node.outputs.as_slice()
        && let Some(value) = builder.number(output)?
    {
        return Ok(Out::Value(value));
    }
    match builder.tensor_meta(call.tensor_name(0)?).and_then(|meta| meta.storage_offset.as_ref()) {
        Some(SymInt::AsInt(n)) => Ok(Out::Value(Arg::Int(*n))),
        _ => Err(err!(Load, "expected a known offset of a tensor").into()),
    }
}

/// Compares a size with what the archive says of it.
fn sized<'a>(builder: &mut Builder<'a>, call: &Call<'a>, size: Dim) -> Attempt<Out> {
    let declared = match call.node.outputs.as_slice() {
        [output] => builder.number(output)?,
        _ => None,
    };
    let differs = match declared {
        Some(Arg::Int(n)) => size.same(&Dim::new(n)).is_no(),
        Some(Arg::Dim(dim)) => size.same(&dim).is_no(),
        _ => false,
    };
    if differs {
        return Err(err!(Load, "PyTorch recorded another size than {size}").into());
    }
    Ok(Out::Value(Arg::dim(size)))
}

/// The number in a tensor of one element.
pub(super) fn item<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let declared = match call.node.outputs.as_slice() {
        [output] => builder.number(output).ok().flatten(),
        _ => None,
    };
    if let Some(Arg::Int(_) | Arg::Float(_) | Arg::Bool(_)) = declared {
        return Ok(Out::Value(declared.unwrap_or(Arg::None)));
    }
    let x = call.first()?;
    let dtype = match &x {
        Arg::Leaf(node) => builder.tensor_type(*node)?.dtype,
        _ => return Err(err!(Load, "expected a tensor").into()),
    };
    match declared {
        Some(Arg::Dim(dim)) if dim.as_symbol().is_some() && dtype != DType::Bool => {
            let node = builder.call("item", [x])?;
            builder.set_number(node, Arg::Dim(dim.clone()))?;
            Ok(Out::Value(Arg::Dim(dim)))
        }
        // A condition or a float stays a tensor, of which operators and `cond` take the one element.
        _ if dtype == DType::Bool || dtype.is_float() => {
            let node = builder.call("reshape", [x, Arg::list([])])?;
            if dtype.is_float() {
                builder.note_number(node);
            }
            Ok(Out::Value(Arg::Leaf(node)))
        }
        _ => {
            let node = builder.call("item", [x])?;
            builder.set_number(node, Arg::Leaf(Type::Int))?;
            Ok(Out::Value(Arg::Leaf(node)))
        }
    }
}

/// What has no effect here: ranges are those of the symbols, types are checked at import.
pub(super) fn nothing<'a>(_: &mut Builder<'a>, _: &Call<'a>) -> Attempt<Out> {
    Ok(Out::Nothing)
}

/// A check of a number.
pub(super) fn assert_scalar<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let condition = call.first()?;
    match condition {
        Arg::Bool(true) | Arg::Int(1) => return Ok(Out::Nothing),
        _ => {}
    }
    check(builder, call, condition)
}

/// A check of a tensor of one element.
pub(super) fn assert_tensor<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let condition = call.first()?;
    check(builder, call, condition)
}

fn check<'a>(builder: &mut Builder<'a>, call: &Call<'a>, condition: Arg) -> Attempt<Out> {
    let message = match call.arg("assert_msg") {
        Arg::Str(text) => Arg::Str(text),
        _ => Arg::str("an assertion of the program failed"),
    };
    builder.call("check", [condition, message])?;
    Ok(Out::Nothing)
}

/// Imports a higher-order operator.
pub(super) fn higher_order<'a>(builder: &mut Builder<'a>, node: &'a Node, name: &str) -> Attempt<Out> {
    match name {
        "with_effects" => with_effects(node),
        "cond" => cond(builder, node),
        "while_loop" => while_loop(builder, node),
        "scan" => scan(builder, node),
        "map_impl" | "map" => map(builder, node),
        "wrap_with_set_grad_enabled"
        | "wrap"
        | "tag_activation_checkpoint"
        | "wrap_with_autocast"
        | "strict_mode"
        | "wrap_activation_checkpoint"
        | "hints_wrapper"
        | "inline_asm_elementwise_wrap" => inline(builder, node, name),
        _ => Err(Failure::Missing(shorten(name).to_owned())),
    }
}

/// Calls an operator in a fixed order among others: `(token, operator, arguments…)`. Those that only check
/// say nothing here.
fn with_effects(node: &Node) -> Attempt<Out> {
    let operator = node.inputs.iter().find_map(|input| match &input.arg {
        Argument::AsOperator(name) | Argument::AsString(name) => Some(name.as_str()),
        _ => None,
    });
    match operator {
        Some(name) if name.contains("_linalg_check_errors") => Ok(Out::Many(Vec::new())),
        Some(name) => Err(Failure::Missing(shorten(name).to_owned())),
        None => Err(err!(Load, "with_effects without an operator").into()),
    }
}

/// Reads operands, which may be given one by one or in lists.
fn operands<'a>(builder: &mut Builder<'a>, args: &[&'a Argument]) -> Attempt<Vec<Arg>> {
    let mut all = Vec::new();
    for arg in args {
        match builder.argument(arg)? {
            Arg::List(items) => all.extend(items.into_vec()),
            item => all.push(item),
        }
    }
    Ok(all)
}

fn cond<'a>(builder: &mut Builder<'a>, node: &'a Node) -> Attempt<Out> {
    let args: Vec<&Argument> = node.inputs.iter().map(|input| &input.arg).collect();
    let [predicate, Argument::AsGraph(then), Argument::AsGraph(otherwise), rest @ ..] = args.as_slice()
    else {
        return Err(err!(Load, "expected a predicate and two graphs as arguments of cond").into());
    };
    let mut predicate = builder.argument(predicate)?;
    if let Arg::Dim(_) | Arg::Int(_) = predicate {
        let full = builder.row("full")?;
        let args = vec![Arg::list([]), predicate];
        predicate = Arg::Leaf(builder.emit(full, args, &[("dtype", Arg::DType(DType::Bool))])?);
    }
    let operands = operands(builder, rest)?;
    let then = builder.closed(then, &operands, Output::Tuple);
    let otherwise = builder.closed(otherwise, &operands, Output::Tuple);
    let op = builder.row("cond")?;
    let node =
        builder.emit(op, vec![predicate, then?.into(), otherwise?.into(), Arg::list(operands)], &[])?;
    Ok(Out::Node(node))
}

fn while_loop<'a>(builder: &mut Builder<'a>, node: &'a Node) -> Attempt<Out> {
    let args: Vec<&Argument> = node.inputs.iter().map(|input| &input.arg).collect();
    let [Argument::AsGraph(test), Argument::AsGraph(body), carried, rest @ ..] = args.as_slice() else {
        return Err(
            err!(Load, "expected two graphs and the carried values as arguments of while_loop").into()
        );
    };
    let carried = operands(builder, &[carried])?;
    let captured = operands(builder, rest)?;
    let all = [carried.clone(), captured.clone()].concat();
    let test = builder.closed(test, &all, Output::One);
    let body = builder.closed(body, &all, Output::List);
    let op = builder.row("while_loop")?;
    let args = vec![test?.into(), body?.into(), Arg::list(carried), Arg::list(captured)];
    builder.emit(op, args, &[]).map(Out::Node)
}

/// `scan(step, carried, xs, captured)`: gives what the last step carries on, and what all steps give beside it.
fn scan<'a>(builder: &mut Builder<'a>, node: &'a Node) -> Attempt<Out> {
    let args: Vec<&Argument> = node.inputs.iter().map(|input| &input.arg).collect();
    let [Argument::AsGraph(graph), carried, xs, rest @ ..] = args.as_slice() else {
        return Err(err!(Load, "expected a graph, carried values and a sequence as arguments of scan").into());
    };
    let (carried, xs) = (operands(builder, &[carried])?, operands(builder, &[xs])?);
    let captured = operands(builder, rest)?;
    stepwise(builder, &graph.graph, carried, xs, captured)
}

/// `map(f, xs, captured)`: gives what `f` makes of each element.
fn map<'a>(builder: &mut Builder<'a>, node: &'a Node) -> Attempt<Out> {
    let args: Vec<&Argument> = node.inputs.iter().map(|input| &input.arg).collect();
    let [Argument::AsGraph(graph), xs, rest @ ..] = args.as_slice() else {
        return Err(err!(Load, "expected a graph and a sequence as arguments of map").into());
    };
    let (xs, captured) = (operands(builder, &[xs])?, operands(builder, rest)?);
    stepwise(builder, &graph.graph, Vec::new(), xs, captured)
}

/// Runs a graph of the archive for each element of sequences.
fn stepwise<'a>(
    builder: &mut Builder<'a>,
    graph: &'a Graph,
    carried: Vec<Arg>,
    xs: Vec<Arg>,
    captured: Vec<Arg>,
) -> Attempt<Out> {
    let Some(Arg::Leaf(first)) = xs.first() else {
        return Err(err!(Load, "expected a sequence to go over").into());
    };
    let n = builder.tensor_type(*first)?.shape.first().cloned();
    let n = n.ok_or_else(|| err!(Load, "expected a sequence to go over, got a tensor of rank 0"))?;
    let n_carried = carried.len();
    let steps = Steps { n, reverse: false, carried, xs, captured };
    let (last, results) = loops::run(builder, steps, &mut |builder, carried, xs, captured| {
        let mut entries = Vec::new();
        for arg in carried.into_iter().chain(xs).chain(captured) {
            entries.push(match arg {
                Arg::Leaf(node) => Entry::Tensor(builder.fresh(node, Origin::Input)),
                other => Entry::Value(other),
            });
        }
        let mut next = Vec::new();
        for entry in builder.inline(graph, entries)? {
            next.push(builder.present(entry)?);
        }
        if next.len() < n_carried {
            return Err(
                err!(Load, "expected at least {n_carried} results of a step, got {}", next.len()).into()
            );
        }
        let results = next.split_off(n_carried);
        Ok((next, results))
    })?;
    let out = |arg: Arg| match arg {
        Arg::Leaf(node) => Out::Node(node),
        other => Out::Value(other),
    };
    Ok(Out::Many(last.into_iter().chain(results).map(out).collect()))
}

/// Runs the graph of a wrapper where it stands.
fn inline<'a>(builder: &mut Builder<'a>, node: &'a Node, name: &str) -> Attempt<Out> {
    let place = node.inputs.iter().position(|input| matches!(input.arg, Argument::AsGraph(_)));
    let Some((place, Argument::AsGraph(graph))) = place.map(|place| (place, &node.inputs[place].arg)) else {
        return Err(err!(Load, "expected a graph as an argument of {name}").into());
    };
    let outer = builder.autocast;
    if name == "wrap_with_autocast" {
        builder.autocast = autocast(builder, &node.inputs[..place])?;
    }
    let mut args = Vec::new();
    for input in &node.inputs[place + 1..] {
        match &input.arg {
            Argument::AsTensor(tensor) => args.push(builder.entry(&tensor.name)?.clone()),
            Argument::AsTensors(tensors) => {
                for tensor in tensors {
                    args.push(builder.entry(&tensor.name)?.clone());
                }
            }
            other => args.push(Entry::Value(builder.argument(other)?)),
        }
    }
    // Keyword arguments of the wrapper itself follow the operands.
    args.truncate(graph.graph.inputs.len());
    let entries = builder.inline(&graph.graph, args);
    builder.autocast = outer;
    let entries = entries?;
    let out = |entry| match entry {
        Entry::Tensor(view) => Out::View(view),
        Entry::Value(value) => Out::Value(value),
        Entry::Poisoned => Out::Nothing,
    };
    Ok(Out::Many(entries.into_iter().map(out).collect()))
}

/// Reads `(device, dtype, enabled, cache_enabled)`: to which dtype operands are lowered, if they are. The
/// program was recorded on the CPU, where casts for another device have no effect.
fn autocast<'a>(builder: &mut Builder<'a>, inputs: &'a [NamedArgument]) -> Attempt<Option<DType>> {
    let args = inputs.iter().map(|input| builder.argument(&input.arg)).collect::<Attempt<Vec<Arg>>>()?;
    Ok(match args.as_slice() {
        [Arg::Str(device), ..] if &**device != "cpu" => builder.autocast,
        [_, _, Arg::Bool(false), ..] => None,
        [_, Arg::DType(dtype), Arg::Bool(true) | Arg::None, ..] => Some(*dtype),
        [_, Arg::None, Arg::Bool(true) | Arg::None, ..] => Some(DType::BF16),
        _ => return Err(err!(Load, "expected a device, a dtype and a flag as arguments of autocast").into()),
    })
}

impl Builder<'_> {
    /// Adds the update of a buffer.
    pub(super) fn update(&mut self, args: [Arg; 2]) -> Attempt<()> {
        self.emit(ops::set_buffer::OP, args.to_vec(), &[]).map(|_| ())
    }
}
