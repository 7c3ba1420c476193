//! Products, normalisations, attention and recurrent layers.

use fx_core::{Arg, DType, Dim, Result, bail};

use super::data::positions;
use super::{Args, Emit, GEMM_WORK, fields, list, optional, read, real, size, text, wrap};
use crate::standalone::kernels;
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Piece, Pieces, Room};
use crate::standalone::value::{Value, View, collapse, count};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("linear", linear),
    ("matmul", matmul),
    ("mm", matmul),
    ("bmm", matmul),
    ("mv", matmul),
    ("dot", matmul),
    ("addmm", addmm),
    ("baddbmm", addmm),
    ("grouped_mm", grouped),
    ("group_norm", group_norm),
    ("batch_norm", batch_norm),
    ("scaled_dot_product_attention", attention),
    ("lstm", recurrent),
    ("gru", recurrent),
    ("lstm_cell", cell),
    ("gru_cell", cell),
];

fn matrix(view: &View) -> Pieces {
    let [row, column] = [2, 1].map(|back| &view.strides[view.rank() - back]);
    fields("gemm::Matrix", vec![("data", read(view)), ("row", size(row)), ("column", size(column))])
}

/// Returns the right operand of a product: a weight is brought into order when the model is loaded.
fn right(l: &mut Lowering<'_>, view: &View) -> Pieces {
    match l.packed(view) {
        Some(i) => wrap("gemm::Packed(", vec![Piece::Weight(i)], ")"),
        None => matrix(view),
    }
}

fn sizes(m: &Dim, n: &Dim, k: &Dim) -> Pieces {
    fields("gemm::Sizes", vec![("m", size(m)), ("n", size(n)), ("k", size(k))])
}

/// Returns the value with its last axes as one, in order.
fn rows(l: &mut Lowering<'_>, view: &View, axes: usize) -> (View, Dim) {
    let view = l.contiguous(view);
    let n = count(&view.shape[view.rank() - axes..]);
    (view, n)
}

fn linear(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, weight, bias) = (args.view("x")?, args.view("weight")?, args.opt_view("bias")?);
    args.expect_float(x)?;
    let (dtype, shape) = args.result()?;
    if weight.rank() != 2 || x.rank() == 0 {
        bail!(Unresolved, "its weight is {}", weight.ty());
    }
    let (x, k) = rows(l, x, 1);
    let (n, m) = (weight.shape[0].clone(), count(&x.shape[..x.rank() - 1]));
    let a = View { shape: vec![m.clone(), k.clone()], strides: vec![k.clone(), Dim::new(1)], ..x };
    let start = match bias {
        Some(bias) => wrap("gemm::Start::Columns(", read(&l.contiguous(bias)), ")"),
        None => text("gemm::Start::Zero"),
    };
    let weight = right(l, &weight.permute(&[1, 0]));
    let work = l.work(dtype, GEMM_WORK, vec![m.clone(), k.clone()]);
    let (view, out) = l.out(dtype, &shape);
    l.call("gemm::gemm", vec![sizes(&m, &n, &k), matrix(&a), weight, start, work, out]);
    Ok(Arg::Leaf(view))
}

/// Returns the operands of a product as matrices with the axes of their batch.
fn operands(a: &View, b: &View) -> Result<(View, View)> {
    if a.rank() == 0 || b.rank() == 0 {
        bail!(Unresolved, "an operand has no axes");
    }
    let insert = |view: &View, at: usize| {
        let mut view = view.clone();
        view.shape.insert(at, Dim::new(1));
        view.strides.insert(at, Dim::new(0));
        view
    };
    let a = if a.rank() == 1 { insert(a, 0) } else { a.clone() };
    let b = if b.rank() == 1 { insert(b, 1) } else { b.clone() };
    Ok((a, b))
}

fn matmul(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (Some(Arg::Leaf(a)), Some(Arg::Leaf(b))) = (args.args.first(), args.args.get(1)) else {
        bail!(Unresolved, "its operands are no tensors");
    };
    let (dtype, shape) = args.result()?;
    let (view, out) = l.out(dtype, &shape);
    product(l, a, b, &shape, out)?;
    Ok(Arg::Leaf(view))
}

/// Computes a product of batches of matrices; `shape` is that of the result.
pub(super) fn product(l: &mut Lowering<'_>, a: &View, b: &View, shape: &[Dim], out: Pieces) -> Result<()> {
    let missing = usize::from(a.rank() == 1) + usize::from(b.rank() == 1);
    let batch = &shape[..(shape.len() + missing).saturating_sub(2)];
    let (a, b) = operands(a, b)?;
    let [m, k] = [a.rank() - 2, a.rank() - 1].map(|axis| a.shape[axis].clone());
    let n = b.shape[b.rank() - 1].clone();
    let steps = [&a, &b].map(|view| {
        let rank = view.rank() - 2;
        View { shape: view.shape[..rank].to_vec(), strides: view.strides[..rank].to_vec(), ..view.clone() }
            .broadcast(batch)
    });
    let (batch, steps) = collapse(batch, &steps);
    if a.dtype.is_int() {
        let term = "|sum, a, b| sum.wrapping_add(a.wrapping_mul(b))";
        let [to_a, to_b] = [&steps[0], &steps[1]].map(|steps| list(steps));
        let sizes = sizes(&m, &n, &k);
        let args = vec![list(&batch), sizes, matrix(&a), to_a, matrix(&b), to_b, text(term), out];
        l.call("product::product", args);
        return Ok(());
    }
    if !a.dtype.is_float() {
        bail!(DType, "it has no stand-alone code for {}", a.dtype);
    }
    let work = l.work(a.dtype, GEMM_WORK, vec![m.clone(), k.clone()]);
    if batch.is_empty() {
        let args = vec![sizes(&m, &n, &k), matrix(&a), right(l, &b), text("gemm::Start::Zero"), work, out];
        l.call("gemm::gemm", args);
    } else {
        let args = vec![
            list(&batch),
            sizes(&m, &n, &k),
            matrix(&a),
            list(&steps[0]),
            matrix(&b),
            list(&steps[1]),
            work,
            out,
        ];
        l.call("gemm::batched", args);
    }
    Ok(())
}

/// Products of the rows of a matrix with a matrix for each group of rows, as experts have.
fn grouped(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, weight, ends) = (args.view("x")?, args.view("mat2")?, args.view("offs")?);
    args.expect_float(x)?;
    let ends = positions(l, ends)?;
    let (dtype, shape) = args.result()?;
    let [m, k] = [0, 1].map(|axis| x.shape[axis].clone());
    let work = l.work(dtype, GEMM_WORK, vec![m.clone(), k.clone()]);
    let (view, out) = l.out(dtype, &shape);
    let step = size(&weight.strides[0]);
    let args = vec![read(&ends), sizes(&m, &shape[1], &k), matrix(x), matrix(weight), step, work, out];
    l.call_fallible("gemm::grouped", args);
    Ok(Arg::Leaf(view))
}

fn addmm(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, a, b) = match args.op.name {
        "addmm" => (args.view("x")?, args.view("mat1")?, args.view("mat2")?),
        _ => (args.view("x")?, args.view("batch1")?, args.view("batch2")?),
    };
    args.expect_float(x)?;
    if args.float("beta")? != 1.0 || args.float("alpha")? != 1.0 {
        bail!(Unresolved, "beta and alpha are not 1");
    }
    let (dtype, shape) = args.result()?;
    let (view, out) = l.out(dtype, &shape);
    let is_row = x.rank() == 1 || (x.rank() == 2 && x.shape[0] == Dim::new(1));
    if shape.len() == 2 && is_row && x.shape.last() == shape.last() && x.strides.last() == Some(&Dim::new(1))
    {
        let [m, k] = [0, 1].map(|axis| a.shape[axis].clone());
        let n = b.shape[1].clone();
        let work = l.work(dtype, GEMM_WORK, vec![m.clone(), k.clone()]);
        let start = wrap("gemm::Start::Columns(", read(x), ")");
        let b = right(l, b);
        l.call("gemm::gemm", vec![sizes(&m, &n, &k), matrix(a), b, start, work, out]);
        return Ok(Arg::Leaf(view));
    }
    product(l, a, b, &shape, out)?;
    l.add(&view, x)
}

fn parameter(l: &mut Lowering<'_>, args: &Args<'_>, name: &str) -> Result<Pieces> {
    Ok(optional(args.opt_view(name)?.map(|view| read(&l.contiguous(view)))))
}

fn group_norm(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    args.expect_float(x)?;
    let x = l.contiguous(x);
    let (channels, inner) = (x.shape[1].clone(), count(&x.shape[2..]));
    let (weight, bias) = (parameter(l, args, "weight")?, parameter(l, args, "bias")?);
    let groups = text(args.int("num_groups")?.to_string());
    let eps = real(args.float("eps")?);
    let (view, out) = l.out(x.dtype, &x.shape);
    l.call("rows::group_norm", vec![read(&x), size(&channels), size(&inner), groups, weight, bias, eps, out]);
    Ok(Arg::Leaf(view))
}

fn batch_norm(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    args.expect_float(x)?;
    let (Some(mean), Some(var)) = (args.opt_view("running_mean")?, args.opt_view("running_var")?) else {
        bail!(Unresolved, "it has no running statistics");
    };
    if args.flag("training")? {
        bail!(Unresolved, "it is training");
    }
    let (x, mean, var) = (l.contiguous(x), l.contiguous(mean), l.contiguous(var));
    let inner = count(x.shape.get(2..).unwrap_or_default());
    let (weight, bias) = (parameter(l, args, "weight")?, parameter(l, args, "bias")?);
    let eps = real(args.float("eps")?);
    let (view, out) = l.out(x.dtype, &x.shape);
    l.call("rows::batch_norm", vec![read(&x), size(&inner), read(&mean), read(&var), weight, bias, eps, out]);
    Ok(Arg::Leaf(view))
}

const ATTENTION_WORK: Room =
    Room { path: "attention::work", of: |sizes| kernels::attention::work(sizes[0], sizes[1], sizes[2]) };

/// Returns an operand of attention with four axes: a batch, heads, and those of a matrix.
fn heads_of(l: &mut Lowering<'_>, view: &View) -> View {
    let mut view = view.clone();
    while view.rank() < 4 {
        view.shape.insert(0, Dim::new(1));
        view.strides.insert(0, Dim::new(0));
    }
    if view.rank() == 4 {
        return view;
    }
    let (dense, batch) = (l.contiguous(&view), view.rank() - 3);
    let shape: Vec<Dim> = [&[count(&view.shape[..batch])], &view.shape[batch..]].concat();
    View { offset: dense.offset, ..View::whole(dense.home, dense.dtype, &shape) }
}

fn attention(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (q, k, v) = (args.view("x")?, args.view("key")?, args.view("value")?);
    args.expect_float(q)?;
    if args.float("dropout_p")? != 0.0 {
        bail!(Unresolved, "it drops scores at random");
    }
    if [q, k, v].iter().any(|view| view.rank() < 2) {
        bail!(Unresolved, "its operands have {}, {} and {} axes", q.rank(), k.rank(), v.rank());
    }
    let (dtype, shape) = args.result()?;
    let leading = &shape[..shape.len() - 2];
    let is_grouped = args.flag("enable_gqa")?;
    let wide = |view: &View| {
        let mut all = leading.to_vec();
        if let (true, Some(heads)) = (is_grouped, all.last_mut()) {
            *heads = view.shape[view.rank() - 3].clone();
        }
        all.extend_from_slice(&view.shape[view.rank() - 2..]);
        View { strides: view.broadcast(&all), shape: all, ..view.clone() }
    };
    let [q, k, v] = [q, k, v].map(|view| heads_of(l, &wide(view)));
    let [batch, heads, queries, width] = [0, 1, 2, 3].map(|axis| q.shape[axis].clone());
    let (keys, values) = (k.shape[2].clone(), v.shape[3].clone());
    let one = Dim::new(1);
    let shared = if k.shape[1] == Dim::new(0) { one } else { heads.floor_div(&k.shape[1]) };
    let operand = |view: &View| {
        fields("attention::Heads", vec![("data", read(view)), ("strides", list(&view.strides))])
    };
    let mask = match args.opt_view("attn_mask")? {
        _ if args.flag("is_causal")? => text("attention::Mask::Causal"),
        None => text("attention::Mask::All"),
        Some(mask) => {
            let all = [leading, &[queries.clone(), keys.clone()]].concat();
            let name = if mask.dtype == DType::Bool { "Bool" } else { "Bias" };
            if mask.dtype != DType::Bool && mask.dtype != dtype {
                bail!(Unresolved, "its mask is {}", mask.ty());
            }
            let wide = View { strides: mask.broadcast(&all), shape: all, ..mask.clone() };
            wrap(&format!("attention::Mask::{name}("), operand(&heads_of(l, &wide)), ")")
        }
    };
    let scale = match args.is_none("scale")? {
        false => real(args.float("scale")?),
        true => match width.known() {
            Some(n) => real(1.0 / (n as f64).sqrt()),
            None => bail!(Unresolved, "the size of its queries is not known"),
        },
    };
    let safe = text(args.flag("safe_softmax")?.to_string());
    let sizing = fields(
        "attention::Sizing",
        vec![
            ("batch", size(&batch)),
            ("heads", size(&heads)),
            ("shared", size(&shared)),
            ("queries", size(&queries)),
            ("keys", size(&keys)),
            ("width", size(&width)),
            ("values", size(&values)),
        ],
    );
    let work = l.work(dtype, ATTENTION_WORK, vec![queries, keys, width]);
    let (view, out) = l.out(dtype, &shape);
    l.call(
        "attention::attention",
        vec![sizing, operand(&q), operand(&k), operand(&v), mask, scale, safe, work, out],
    );
    Ok(Arg::Leaf(view))
}

const LAYER_WORK: Room = Room {
    path: "recurrent::work",
    of: |sizes| kernels::recurrent::work(sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]),
};

/// Returns the part of the first axis at an index.
fn at(view: &View, index: usize) -> View {
    View {
        shape: view.shape[1..].to_vec(),
        strides: view.strides[1..].to_vec(),
        offset: &view.offset + &view.strides[0] * index as i64,
        ..view.clone()
    }
}

/// A layer of cells in one direction.
struct Direction<'a> {
    x: &'a View,
    params: &'a [View],
    h: View,
    c: Option<View>,
    out: View,
    reverse: bool,
    cell: &'static str,
}

fn direction(l: &mut Lowering<'_>, layer: Direction<'_>) {
    let Direction { x, params, h, c, out, reverse, cell } = layer;
    let [steps, batch, inputs] = [0, 1, 2].map(|axis| x.shape[axis].clone());
    let hidden = h.shape[1].clone();
    let gates = params[0].shape[0].floor_div(&hidden);
    let sizes = fields(
        "recurrent::Layer",
        vec![
            ("steps", size(&steps)),
            ("batch", size(&batch)),
            ("inputs", size(&inputs)),
            ("hidden", size(&hidden)),
            ("gates", size(&gates)),
            ("reverse", text(reverse.to_string())),
        ],
    );
    let param = |at: usize| params.get(at).map(read);
    let [input, state] = [0, 1].map(|at| right(l, &params[at].permute(&[1, 0])));
    let weights = fields(
        "recurrent::Weights",
        vec![
            ("input", input),
            ("state", state),
            ("input_bias", optional(param(2))),
            ("state_bias", optional(param(3))),
        ],
    );
    let layout = |view: &View| {
        fields("recurrent::Steps", vec![("step", size(&view.strides[0])), ("row", size(&view.strides[1]))])
    };
    let work = l.work(x.dtype, LAYER_WORK, vec![steps, batch, inputs, hidden, gates]);
    let write = |view: &View| vec![Piece::WriteView(view.clone())];
    let c = c.as_ref().map_or_else(|| text("&mut []"), write);
    let args = vec![
        sizes,
        weights,
        read(x),
        layout(x),
        write(&h),
        c,
        work,
        write(&out),
        layout(&out),
        text(format!("recurrent::{cell}")),
    ];
    l.call("recurrent::layer", args);
}

fn recurrent(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let name = args.op.name;
    let x = args.view("x")?;
    args.expect_float(x)?;
    if x.rank() != 3 {
        bail!(Unresolved, "its input has no batch");
    }
    let results = args.results();
    let (layers, both) = (args.int("num_layers")? as usize, args.flag("bidirectional")?);
    let (cell, has_cell) = match name {
        "lstm" => ("lstm", true),
        "gru" => ("gru", false),
        "rnn_tanh" => ("tanh", false),
        _ => ("relu", false),
    };
    let directions = if both { 2 } else { 1 };
    let each = if args.flag("has_biases")? { 4 } else { 2 };
    let params: Vec<View> = args.views("params")?.into_iter().cloned().collect();
    if params.len() != layers * directions * each || results.len() != if has_cell { 3 } else { 2 } {
        bail!(Unresolved, "its weights are not those of plain layers");
    }
    let params: Vec<View> = params.iter().map(|view| l.contiguous(view)).collect();
    let batch_first = args.flag("batch_first")?;
    let time_first = |view: &View| if batch_first { view.permute(&[1, 0, 2]) } else { view.clone() };
    let mut x = time_first(x);
    if x.strides[2] != Dim::new(1) {
        x = l.contiguous(&x);
    }
    let (dtype, h_shape) = (results[0].0, &results[1].1);
    let h = l.buffer(dtype, h_shape);
    l.copy(args.view("h0")?, &h);
    let c = has_cell.then(|| l.buffer(dtype, h_shape));
    if let Some(c) = &c {
        l.copy(args.view("c0")?, c);
    }
    let hidden = h_shape[2].clone();
    let mut out = l.buffer(dtype, &results[0].1);
    for layer in 0..layers {
        let all = time_first(&out);
        for d in 0..directions {
            let at_layer = layer * directions + d;
            let part = View {
                shape: vec![all.shape[0].clone(), all.shape[1].clone(), hidden.clone()],
                offset: &all.offset + &hidden * d as i64,
                ..all.clone()
            };
            direction(
                l,
                Direction {
                    x: &x,
                    params: &params[at_layer * each..][..each],
                    h: at(&h, at_layer),
                    c: c.as_ref().map(|c| at(c, at_layer)),
                    out: part,
                    reverse: d == 1,
                    cell,
                },
            );
        }
        x = all;
        if layer + 1 < layers {
            out = l.buffer(dtype, &results[0].1);
        }
    }
    let mut items = vec![Arg::Leaf(out), Arg::Leaf(h)];
    items.extend(c.map(Arg::Leaf));
    Ok(Arg::tuple(items))
}

/// Writes a cell as a layer of one step.
fn cell(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    args.expect_float(x)?;
    let has_cell = args.op.name == "lstm_cell";
    if x.rank() != 2 {
        bail!(Unresolved, "its input has no batch");
    }
    let x = l.contiguous(x);
    let x = View {
        shape: [&[Dim::new(1)], &x.shape[..]].concat(),
        strides: [&[Dim::new(0)], &x.strides[..]].concat(),
        ..x
    };
    let mut params = Vec::new();
    for name in ["w_ih", "w_hh", "b_ih", "b_hh"] {
        if let Some(view) = args.opt_view(name)? {
            params.push(l.contiguous(view));
        }
    }
    let (h0, dtype) = (args.view("h")?, x.dtype);
    let h = l.buffer(dtype, &h0.shape);
    l.copy(h0, &h);
    let c = match has_cell {
        true => {
            let c0 = args.view("c")?;
            let c = l.buffer(dtype, &c0.shape);
            l.copy(c0, &c);
            Some(c)
        }
        false => None,
    };
    let out = l.buffer(dtype, &h0.shape);
    let out = View {
        shape: [&[Dim::new(1)], &out.shape[..]].concat(),
        strides: [&[Dim::new(0)], &out.strides[..]].concat(),
        ..out
    };
    let kind = if has_cell { "lstm" } else { "gru" };
    direction(
        l,
        Direction { x: &x, params: &params, h: h.clone(), c: c.clone(), out, reverse: false, cell: kind },
    );
    Ok(match c {
        Some(c) => Arg::tuple([Arg::Leaf(h), Arg::Leaf(c)]),
        None => Arg::Leaf(h),
    })
}
