//! Recurrences that have no row of their own: simple ones, LSTMs that project their state, and those of packed
//! sequences, which have the steps of several sequences one after the other.

use super::build::{Attempt, Builder, Out};
use super::call::{Call, leaf, node, with};
use super::loops::{self, Steps};
use crate::{Arg, DType, Dim, NodeId, err};

/// What one step computes.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    /// `h' = f(x @ w_ih.t() + b_ih + h @ w_hh.t() + b_hh)`.
    Simple(&'static str),
    /// An LSTM.
    Lstm,
    /// An LSTM whose state is projected: `h' = (sigmoid(o) tanh(c')) @ w_hr.t()`.
    Projected,
    /// A gated recurrent unit.
    Gru,
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
    let mut x = call.first()?;
    if call.is_true("batch_first") {
        x = leaf(builder.call("transpose", [x, Arg::Int(0), Arg::Int(1)])?);
    }
    let (mut out, last) = stacked(builder, call, cell, states, x, None)?;
    if call.is_true("batch_first") {
        out = leaf(builder.call("transpose", [out, Arg::Int(0), Arg::Int(1)])?);
    }
    results(builder, node(&out)?, last)
}

/// Returns a result with the last states of all layers.
fn results(builder: &mut Builder<'_>, out: NodeId, last: Vec<Vec<Arg>>) -> Attempt<Out> {
    let mut outs = vec![Out::Node(out)];
    for states in last {
        outs.push(Out::Node(builder.call("stack", [Arg::list(states), Arg::Int(0)])?));
    }
    Ok(Out::Many(outs))
}

/// Runs all layers on `x`, `[steps, batch, size]`; returns the result, and for each state those after the last
/// step of each layer and direction. Where `mask`, `[steps, batch]`, is false a step changes nothing.
fn stacked<'a>(
    builder: &mut Builder<'a>,
    call: &Call<'a>,
    cell: Cell,
    states: &[Arg],
    mut x: Arg,
    mask: Option<Arg>,
) -> Attempt<(Arg, Vec<Vec<Arg>>)> {
    let params = call.need("params")?;
    let params = params.items().unwrap_or_default();
    let n_biases = if call.is_true("has_biases") { 2 } else { 0 };
    let n_params = 2 + n_biases + usize::from(cell == Cell::Projected);
    let n_directions = 1 + usize::from(call.is_true("bidirectional"));
    if params.is_empty() || params.len() % (n_params * n_directions) != 0 {
        return Err(err!(Load, "expected {n_params} parameters for each layer, got {}", params.len()).into());
    }
    let mask = match mask {
        Some(mask) => vec![leaf(builder.call("unsqueeze", [mask, Arg::Int(-1)])?)],
        None => Vec::new(),
    };
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
                xs: std::iter::once(leaf(inputs)).chain(mask.clone()).collect(),
                captured,
            };
            let (states, outs) = loops::run(builder, steps, &mut |builder, carried, mut xs, captured| {
                let mut captured = captured.into_iter();
                let weights = std::array::from_fn(|i| match given[i] {
                    true => captured.next().unwrap_or(Arg::None),
                    false => Arg::None,
                });
                let old = if xs.len() > 1 { carried.clone() } else { Vec::new() };
                let mut next = step(builder, cell, carried, xs.remove(0), &weights)?;
                for (next, old) in next.iter_mut().zip(old) {
                    *next = leaf(builder.call("where", [xs[0].clone(), next.clone(), old])?);
                }
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
    Ok((x, last))
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
    if cell == Cell::Gru {
        return gru_step(builder, &states[0], input, leaf(carried));
    }
    let sum = builder.call("add", [input, Arg::Leaf(carried)])?;
    let activation = match cell {
        Cell::Simple(activation) => return Ok(vec![Arg::Leaf(builder.call(activation, [Arg::Leaf(sum)])?)]),
        Cell::Lstm | Cell::Projected | Cell::Gru => ["sigmoid", "sigmoid", "tanh", "sigmoid"],
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
    let h = match w_hr {
        Arg::None => h,
        w_hr => builder.call("linear", [leaf(h), w_hr.clone()])?,
    };
    Ok(vec![leaf(h), leaf(c)])
}

/// One step of a gated recurrent unit from what the weights make of the input and of the state.
fn gru_step(builder: &mut Builder<'_>, h: &Arg, input: Arg, carried: Arg) -> Attempt<Vec<Arg>> {
    let mut thirds = Vec::new();
    for x in [input, carried] {
        let chunks = builder.call("chunk", [x, Arg::Int(3), Arg::Int(-1)])?;
        let part = |i: i64| builder.call("getitem", [leaf(chunks), Arg::Int(i)]).map(leaf);
        thirds.push((0..3).map(part).collect::<Attempt<Vec<Arg>>>()?);
    }
    let mut gate = |i: usize| {
        let sum = builder.call("add", [thirds[0][i].clone(), thirds[1][i].clone()])?;
        builder.call("sigmoid", [leaf(sum)]).map(leaf)
    };
    let (reset, update) = (gate(0)?, gate(1)?);
    let kept = builder.call("mul", [reset, thirds[1][2].clone()])?;
    let sum = builder.call("add", [thirds[0][2].clone(), leaf(kept)])?;
    let new = leaf(builder.call("tanh", [leaf(sum)])?);
    let gap = builder.call("sub", [h.clone(), new.clone()])?;
    let part = builder.call("mul", [update, leaf(gap)])?;
    Ok(vec![leaf(builder.call("add", [new, leaf(part)])?)])
}

/// `lstm`, `gru`, `rnn_tanh` and `rnn_relu` of a packed sequence: `(data, batch_sizes, hx, params, ..)`.
pub(super) fn packed<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let hx = call.need("hx")?;
    let states = hx.items().map_or_else(|| vec![hx.clone()], <[Arg]>::to_vec);
    let cell = match call.base {
        "lstm" if has_projections(builder, call, &states)? => Cell::Projected,
        "lstm" => Cell::Lstm,
        "gru" => Cell::Gru,
        base => Cell::Simple(activation(base)),
    };
    let Some(state) = states.first() else { return Err(err!(Load, "expected a first state").into()) };
    // The numbers of the sequences, as many as states: an integer out of data could be negative, a size cannot.
    let line = builder.call("select", [state.clone(), Arg::Int(0), Arg::Int(0)])?;
    let line = builder.call("select", [leaf(line), Arg::Int(-1), Arg::Int(0)])?;
    let ones = with(builder, "ones_like", [leaf(line)], &[("dtype", Arg::DType(DType::I64))])?;
    let counts = builder.call("cumsum", [leaf(ones), Arg::Int(0)])?;
    let columns = leaf(builder.call("sub", [leaf(counts), Arg::Int(1)])?);
    let (x, mask) = unpacked(builder, call.first()?, &call.need("batch_sizes")?, columns)?;
    let (out, last) = stacked(builder, call, cell, &states, x, Some(mask.clone()))?;
    let data = builder.call("getitem", [out, Arg::tuple([mask])])?;
    results(builder, data, last)
}

/// Whether the state of an LSTM has another size than its cells.
fn has_projections(builder: &Builder<'_>, call: &Call<'_>, states: &[Arg]) -> Attempt<bool> {
    let [h, c] = states else { return Ok(false) };
    let params = call.need("params")?.items().map_or(0, <[Arg]>::len);
    let n = if call.is_true("has_biases") { 4 } else { 2 };
    let [h, c] = [builder.tensor_type(node(h)?)?, builder.tensor_type(node(c)?)?];
    // Each layer has one more weight if it projects; the number of weights tells, unless both numbers divide it.
    Ok(h.shape.last() != c.shape.last() || params % n != 0)
}

/// Returns the steps of packed sequences as `[steps, batch, ..]`, and where there are such; `columns` are the
/// numbers of the sequences.
fn unpacked(builder: &mut Builder<'_>, data: Arg, batch_sizes: &Arg, columns: Arg) -> Attempt<(Arg, Arg)> {
    let sizes = builder.call("unsqueeze", [batch_sizes.clone(), Arg::Int(1)])?;
    let mask = builder.call("lt", [columns.clone(), leaf(sizes)])?;
    let ends = builder.call("cumsum", [leaf(sizes), Arg::Int(0)])?;
    let starts = builder.call("sub", [leaf(ends), leaf(sizes)])?;
    let places = builder.call("add", [leaf(starts), columns])?;
    let places = builder.call("where", [leaf(mask), leaf(places), Arg::Int(0)])?;
    let x = builder.call("getitem", [data, Arg::tuple([leaf(places)])])?;
    Ok((leaf(x), leaf(mask)))
}

/// `_pack_padded_sequence(input, lengths, batch_first)`: the first steps of all sequences, then the second steps
/// of those that are that long, and so on; and how many sequences have each step. The longest come first.
pub(super) fn pack<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (mut x, lengths) = (call.first()?, call.need("lengths")?);
    if call.is_true("batch_first") {
        x = leaf(builder.call("transpose", [x, Arg::Int(0), Arg::Int(1)])?);
    }
    let Some(n) = builder.tensor_type(node(&x)?)?.shape.first().cloned() else {
        return Err(err!(Load, "expected sequences [steps, batch, ..]").into());
    };
    refuse_lengths(builder, &lengths, &n)?;
    let steps = builder.call("arange", [Arg::dim(n)])?;
    let steps = builder.call("unsqueeze", [leaf(steps), Arg::Int(1)])?;
    let mask = leaf(builder.call("lt", [leaf(steps), lengths])?);
    let data = builder.call("getitem", [x, Arg::tuple([mask.clone()])])?;
    let counts = builder.call("sum", [mask, Arg::ints([1])])?;
    let is_used = builder.call("gt", [leaf(counts), Arg::Int(0)])?;
    let counts = builder.call("getitem", [leaf(counts), Arg::tuple([leaf(is_used)])])?;
    Ok(Out::Many(vec![Out::Node(data), Out::Node(counts)]))
}

/// Adds a check that lengths fall, from at most `n` to at least 1.
fn refuse_lengths(builder: &mut Builder<'_>, lengths: &Arg, n: &Dim) -> Attempt<()> {
    let Some(batch) = builder.tensor_type(node(lengths)?)?.shape.first().cloned() else {
        return Err(err!(Load, "expected a vector of lengths").into());
    };
    let part = |builder: &mut Builder<'_>, start: i64| {
        let size = Arg::dim(&batch - 1);
        builder.call("narrow", [lengths.clone(), Arg::Int(0), Arg::Int(start), size]).map(leaf)
    };
    let (first, rest) = (part(builder, 0)?, part(builder, 1)?);
    let tests = [
        builder.call("le", [rest, first])?,
        builder.call("ge", [lengths.clone(), Arg::Int(1)])?,
        builder.call("le", [lengths.clone(), Arg::dim(n.clone())])?,
    ];
    let message = "the lengths of packed sequences must fall, from at most the number of steps to at least 1";
    for test in tests {
        let all = builder.call("all", [leaf(test)])?;
        builder.call("check", [leaf(all), Arg::str(message)])?;
    }
    Ok(())
}

/// `_pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length)`: the sequences and their
/// lengths.
pub(super) fn pad<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (data, batch_sizes) = (call.first()?, call.need("batch_sizes")?);
    let ty = builder.tensor_type(node(&data)?)?;
    let steps = builder.tensor_type(node(&batch_sizes)?)?.shape.first().cloned();
    let (Some(rows), Some(steps)) = (ty.shape.first().cloned(), steps) else {
        return Err(err!(Load, "expected a packed sequence, got {ty}").into());
    };
    // The first step is one of all sequences.
    let first = builder.call("narrow", [batch_sizes.clone(), Arg::Int(0), Arg::Int(0), Arg::Int(1)])?;
    let columns = builder.call("arange", [Arg::dim(rows)])?;
    let is_there = builder.call("lt", [leaf(columns), leaf(first)])?;
    let columns = builder.call("getitem", [leaf(columns), Arg::tuple([leaf(is_there)])])?;
    let (x, mask) = unpacked(builder, data, &batch_sizes, leaf(columns))?;
    let lengths = builder.call("sum", [mask.clone(), Arg::ints([0])])?;
    let mut wide = mask;
    for _ in 1..ty.rank() {
        wide = leaf(builder.call("unsqueeze", [wide, Arg::Int(-1)])?);
    }
    let padding = call.or("padding_value", Arg::Float(0.0));
    let mut x = builder.call("where", [wide, x, padding.clone()])?;
    if let (Arg::Int(total), Some(steps)) = (call.arg("total_length"), steps.known())
        && total > 0
    {
        if total < steps {
            return Err(err!(Load, "expected a total length of at least {steps}, got {total}").into());
        }
        let mut sides = vec![0i64; 2 * ty.rank() + 2];
        sides[2 * ty.rank() + 1] = total - steps;
        x = builder.call("pad", [leaf(x), Arg::ints(sides), Arg::str("constant"), padding])?;
    }
    if call.is_true("batch_first") {
        x = builder.call("transpose", [leaf(x), Arg::Int(0), Arg::Int(1)])?;
    }
    Ok(Out::Many(vec![Out::Node(x), Out::Node(lengths)]))
}
