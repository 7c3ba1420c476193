//! Recurrences that have no row of their own: simple ones, and LSTMs that project their state.

use super::build::{Attempt, Builder, Out};
use super::call::Call;
use super::loops::{self, Steps};
use crate::{Arg, Dim, err};

/// What one step computes.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    /// `h' = f(x @ w_ih.t() + b_ih + h @ w_hh.t() + b_hh)`.
    Simple(&'static str),
    /// An LSTM whose state is projected: `h' = (sigmoid(o) tanh(c')) @ w_hr.t()`.
    Projected,
}

/// `rnn_tanh` and `rnn_relu`: `(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
/// batch_first)`.
pub(super) fn simple<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let states = [call.need("hx")?];
    layers(builder, call, Cell::Simple(activation(call.base)), &states)
}

/// An LSTM with weights of projections; `states` are `h` and `c`.
pub(super) fn projected<'a>(builder: &mut Builder<'a>, call: &Call<'a>, states: &[Arg]) -> Attempt<Out> {
    layers(builder, call, Cell::Projected, states)
}

/// `rnn_tanh_cell` and `rnn_relu_cell`: `(input, hx, w_ih, w_hh, b_ih, b_hh)`.
pub(super) fn simple_cell<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let inputs = builder.call("linear", [call.first()?, call.need("w_ih")?, call.arg("b_ih")])?;
    let weights = [call.need("w_hh")?, call.arg("b_hh"), Arg::None];
    let state = vec![call.need("hx")?];
    let cell = Cell::Simple(activation(call.base));
    match step(builder, cell, state, Arg::Leaf(inputs), &weights)?.first() {
        Some(Arg::Leaf(h)) => Ok(Out::Node(*h)),
        _ => Err(err!(Load, "expected a tensor").into()),
    }
}

fn activation(name: &str) -> &'static str {
    if name.starts_with("rnn_relu") { "relu" } else { "tanh" }
}

fn layers<'a>(builder: &mut Builder<'a>, call: &Call<'a>, cell: Cell, states: &[Arg]) -> Attempt<Out> {
    let drops = !matches!(call.arg("dropout"), Arg::None | Arg::Int(0) | Arg::Float(0.0));
    if call.is_true("train") && drops {
        return Err(err!(Load, "dropout between the layers of {} cannot be imported", call.base)
            .help("call `model.eval()` before exporting")
            .into());
    }
    let (mut x, params) = (call.first()?, call.need("params")?);
    let params = params.items().unwrap_or_default();
    let n_biases = if call.is_true("has_biases") { 2 } else { 0 };
    let n_params = 2 + n_biases + usize::from(cell == Cell::Projected);
    let n_directions = 1 + usize::from(call.is_true("bidirectional"));
    if params.is_empty() || params.len() % (n_params * n_directions) != 0 {
        return Err(err!(Load, "expected {n_params} parameters for each layer, got {}", params.len()).into());
    }
    if call.is_true("batch_first") {
        x = Arg::Leaf(builder.call("transpose", [x, Arg::Int(0), Arg::Int(1)])?);
    }
    let n = match x.leaf().map(|x| builder.tensor_type(*x)).transpose()? {
        Some(ty) if ty.rank() > 0 => ty.shape[0].clone(),
        _ => return Err(err!(Load, "expected a sequence as the input of {}", call.base).into()),
    };
    let mut last: Vec<Vec<Arg>> = states.iter().map(|_| Vec::new()).collect();
    for (layer, params) in params.chunks(n_params * n_directions).enumerate() {
        let mut sides = Vec::new();
        for (direction, params) in params.chunks(n_params).enumerate() {
            let bias = |i: usize| if n_biases > 0 { params[2 + i].clone() } else { Arg::None };
            let inputs = builder.call("linear", [x.clone(), params[0].clone(), bias(0)])?;
            let place = Arg::Int((layer * n_directions + direction) as i64);
            let mut carried = Vec::new();
            for state in states {
                let args = [state.clone(), Arg::Int(0), place.clone()];
                carried.push(Arg::Leaf(builder.call("select", args)?));
            }
            let projection = if cell == Cell::Projected { params[n_params - 1].clone() } else { Arg::None };
            let weights = [params[1].clone(), bias(1), projection];
            let (given, captured): (Vec<bool>, Vec<Arg>) =
                weights.iter().map(|weight| (!matches!(weight, Arg::None), weight.clone())).unzip();
            let captured = captured.into_iter().filter(|weight| !matches!(weight, Arg::None)).collect();
            let steps = Steps {
                n: Dim::clone(&n),
                reverse: direction == 1,
                carried,
                xs: vec![Arg::Leaf(inputs)],
                captured,
            };
            let (states, outs) = loops::run(builder, steps, &mut |builder, carried, mut xs, captured| {
                let mut captured = captured.into_iter();
                let weights = std::array::from_fn(|i| match given[i] {
                    true => captured.next().unwrap_or(Arg::None),
                    false => Arg::None,
                });
                let next = step(builder, cell, carried, xs.remove(0), &weights)?;
                let out = next[0].clone();
                Ok((next, vec![out]))
            })?;
            for (last, state) in last.iter_mut().zip(states) {
                last.push(state);
            }
            sides.extend(outs);
        }
        x = match sides.len() {
            1 => sides.remove(0),
            _ => Arg::Leaf(builder.call("cat", [Arg::list(sides), Arg::Int(-1)])?),
        };
    }
    if call.is_true("batch_first") {
        x = Arg::Leaf(builder.call("transpose", [x, Arg::Int(0), Arg::Int(1)])?);
    }
    let out = x.leaf().copied().ok_or_else(|| err!(Load, "expected a tensor"))?;
    let mut outs = vec![Out::Node(out)];
    for states in last {
        outs.push(Out::Node(builder.call("stack", [Arg::list(states), Arg::Int(0)])?));
    }
    Ok(Out::Many(outs))
}

/// One step with `[w_hh, b_hh, w_hr]`, of which the last two may be absent, on what `w_ih` makes of the input.
fn step<'a>(
    builder: &mut Builder<'a>,
    cell: Cell,
    states: Vec<Arg>,
    input: Arg,
    [w_hh, b_hh, w_hr]: &[Arg; 3],
) -> Attempt<Vec<Arg>> {
    let carried = builder.call("linear", [states[0].clone(), w_hh.clone(), b_hh.clone()])?;
    let sum = builder.call("add", [input, Arg::Leaf(carried)])?;
    let activation = match cell {
        Cell::Simple(activation) => return Ok(vec![Arg::Leaf(builder.call(activation, [Arg::Leaf(sum)])?)]),
        Cell::Projected => ["sigmoid", "sigmoid", "tanh", "sigmoid"],
    };
    let chunks = builder.call("chunk", [Arg::Leaf(sum), Arg::Int(4), Arg::Int(-1)])?;
    let mut gates = Vec::new();
    for (i, activation) in activation.into_iter().enumerate() {
        let part = builder.call("getitem", [Arg::Leaf(chunks), Arg::Int(i as i64)])?;
        gates.push(Arg::Leaf(builder.call(activation, [Arg::Leaf(part)])?));
    }
    let kept = builder.call("mul", [gates[1].clone(), states[1].clone()])?;
    let new = builder.call("mul", [gates[0].clone(), gates[2].clone()])?;
    let c = builder.call("add", [Arg::Leaf(kept), Arg::Leaf(new)])?;
    let squashed = builder.call("tanh", [Arg::Leaf(c)])?;
    let h = builder.call("mul", [gates[3].clone(), Arg::Leaf(squashed)])?;
    let h = builder.call("linear", [Arg::Leaf(h), w_hr.clone()])?;
    Ok(vec![Arg::Leaf(h), Arg::Leaf(c)])
}
