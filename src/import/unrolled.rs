//! Simple recurrences, which have no row of their own: written out step by step.

use super::aten::Call;
use super::build::{Attempt, Builder, Out};
use crate::{Arg, NodeId, err};

/// The most steps that are written out.
const MAX_STEPS: i64 = 4096;

/// `rnn_tanh` and `rnn_relu`: `h = f(x @ w_ih.t() + b_ih + h @ w_hh.t() + b_hh)` for each step, layer and direction.
pub(super) fn simple<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let activation = if call.base == "rnn_relu" { "relu" } else { "tanh" };
    let drops = !matches!(call.arg("dropout"), Arg::None | Arg::Int(0) | Arg::Float(0.0));
    if call.is_true("train") && drops {
        return Err(err!(Load, "dropout between the layers of {} cannot be imported", call.base)
            .help("call `model.eval()` before exporting")
            .into());
    }
    let (mut x, hx, params) = (call.first()?, call.need("hx")?, call.need("params")?);
    let params = params.items().unwrap_or_default();
    let has_biases = call.is_true("has_biases");
    let n_directions = 1 + usize::from(call.is_true("bidirectional"));
    let n_params = if has_biases { 4 } else { 2 };
    let layers: Vec<&[Arg]> = params.chunks(n_params * n_directions).collect();
    if params.is_empty() || params.len() % (n_params * n_directions) != 0 {
        return Err(err!(Load, "expected {n_params} parameters for each layer, got {}", params.len()).into());
    }
    if call.is_true("batch_first") {
        x = Arg::Leaf(builder.call("transpose", [x, Arg::Int(0), Arg::Int(1)])?);
    }
    let steps =
        match x.leaf().map(|x| builder.tensor_type(*x)).transpose()?.and_then(|ty| ty.shape.first()?.known())
        {
            Some(n) if (1..=MAX_STEPS).contains(&n) => n,
            _ => {
                return Err(
                    err!(Load, "{} takes a known number of steps, at most {MAX_STEPS}", call.base).into()
                );
            }
        };
    let mut states = Vec::new();
    for (layer, params) in layers.into_iter().enumerate() {
        let mut sides = Vec::new();
        for (direction, params) in params.chunks(n_params).enumerate() {
            let bias = |i: usize| params.get(i).cloned().unwrap_or(Arg::None);
            let inputs = builder.call("linear", [x.clone(), params[0].clone(), bias(2)])?;
            let place = Arg::Int((layer * n_directions + direction) as i64);
            let mut h = builder.call("select", [hx.clone(), Arg::Int(0), place])?;
            let mut outs: Vec<NodeId> = Vec::new();
            for step in 0..steps {
                let at = if direction == 0 { step } else { steps - 1 - step };
                let input = builder.call("select", [Arg::Leaf(inputs), Arg::Int(0), Arg::Int(at)])?;
                let carried = builder.call("linear", [Arg::Leaf(h), params[1].clone(), bias(3)])?;
                let sum = builder.call("add", [Arg::Leaf(input), Arg::Leaf(carried)])?;
                h = builder.call(activation, [Arg::Leaf(sum)])?;
                outs.push(h);
            }
            states.push(Arg::Leaf(h));
            if direction == 1 {
                outs.reverse();
            }
            let outs = Arg::list(outs.into_iter().map(Arg::Leaf));
            sides.push(Arg::Leaf(builder.call("stack", [outs, Arg::Int(0)])?));
        }
        x = match sides.len() {
            1 => sides.remove(0),
            _ => Arg::Leaf(builder.call("cat", [Arg::list(sides), Arg::Int(-1)])?),
        };
    }
    let last = builder.call("stack", [Arg::list(states), Arg::Int(0)])?;
    if call.is_true("batch_first") {
        x = Arg::Leaf(builder.call("transpose", [x, Arg::Int(0), Arg::Int(1)])?);
    }
    let out = x.leaf().copied().ok_or_else(|| err!(Load, "expected a tensor"))?;
    Ok(Out::Many(vec![Out::Node(out), Out::Node(last)]))
}
