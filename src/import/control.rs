//! Nodes that are no tensor operators: numbers, checks, and higher-order operators.

use super::aten::Call;
use super::build::{Attempt, Builder, Entry, Failure, Out, Output, shorten};
use super::schema::{Argument, Node};
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
        "sym_float" => return Ok(Out::Value(args.into_iter().next().unwrap_or(Arg::None))),
        _ => return Err(Failure::Missing(last_part(&node.target).to_owned())),
    };
    builder.call(row, args).map(Out::Node)
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

/// Calls an operator in a fixed order among others: `(token, operator, arguments…)`. Those that only check say nothing here.
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

/// Runs the graph of a wrapper where it stands.
fn inline<'a>(builder: &mut Builder<'a>, node: &'a Node, name: &str) -> Attempt<Out> {
    let place = node.inputs.iter().position(|input| matches!(input.arg, Argument::AsGraph(_)));
    let Some((place, Argument::AsGraph(graph))) = place.map(|place| (place, &node.inputs[place].arg)) else {
        return Err(err!(Load, "expected a graph as an argument of {name}").into());
    };
    if name == "wrap_with_autocast" {
        // (device, dtype, enabled, cache_enabled, graph, operands…)
        let enabled =
            node.inputs[..place].iter().skip(2).any(|input| matches!(input.arg, Argument::AsBool(true)));
        let to_other = matches!(node.inputs.first().map(|input| &input.arg), Some(Argument::AsString(device)) if device != "cpu");
        let is_on = node.inputs.get(2).is_some_and(|input| !matches!(input.arg, Argument::AsBool(false)));
        if enabled && is_on && !to_other {
            return Err(err!(Load, "automatic casts in a part of the program cannot be imported")
                .help("export without torch.autocast, or call `run_decompositions` first")
                .into());
        }
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
    let entries = builder.inline(&graph.graph, args)?;
    let out = |entry| match entry {
        Entry::Tensor(view) => Out::View(view),
        Entry::Value(value) => Out::Value(value),
        Entry::Poisoned => Out::Nothing,
    };
    Ok(Out::Many(entries.into_iter().map(out).collect()))
}

impl Builder<'_> {
    /// Adds the update of a buffer.
    pub(super) fn update(&mut self, args: [Arg; 2]) -> Attempt<()> {
        self.emit(ops::set_buffer::OP, args.to_vec(), &[]).map(|_| ())
    }
}
