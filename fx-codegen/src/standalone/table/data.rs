//! Joins, paddings, look-ups, sorting, and tensors that are made of numbers.

use fx_core::loops::{self, Operand, Work};
use fx_core::{Arg, DType, Dim, Result, Scalar, Tensor, bail, err};

use super::{Args, Emit, buffer_of, from_front, list, number, read, size, text};
use crate::standalone::lower::{Lowering, known};
use crate::standalone::step::{Loop, Piece, Pieces, Source, Step};
use crate::standalone::value::{Value, View, count};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("cat", cat),
    ("stack", stack),
    ("pad", pad),
    ("full", full),
    ("zeros", full),
    // As the kernels do it.
    ("empty", full),
    ("empty_like", full),
    ("empty_strided", full),
    ("empty_permuted", full),
    ("new_empty", full),
    ("new_empty_strided", full),
    ("ones", full),
    ("full_like", full),
    ("zeros_like", full),
    ("ones_like", full),
    ("arange", arange),
    ("tril", triangle),
    ("triu", triangle),
    ("embedding", embedding),
    ("index_select", index_select),
    ("slice_scatter", part_scatter),
    ("select_scatter", part_scatter),
    ("diagonal_scatter", part_scatter),
    ("one_hot", one_hot),
    ("repeat_interleave", repeat_interleave),
    ("cumsum", cumulate),
    ("cumprod", cumulate),
    ("logcumsumexp", log_cumulate),
    ("view_dtype", view_dtype),
    ("frexp", frexp),
];

/// Returns the sizes before an axis as one, that of the axis, and those behind it as one.
pub(super) fn around(view: &View, axis: usize) -> (Dim, Dim, Dim) {
    (count(&view.shape[..axis]), view.shape[axis].clone(), count(&view.shape[axis + 1..]))
}

fn cat(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    if let Some(list) = args.get("tensors")?.leaf() {
        return super::lists::joined(l, args, list);
    }
    let (dtype, shape) = args.result()?;
    let axis = args.axis("dim", shape.len())?;
    let out = l.buffer(dtype, &shape);
    let mut offset = out.offset.clone();
    for part in args.views("tensors")? {
        if part.rank() == 1 && part.shape[0] == Dim::new(0) && shape.len() > 1 {
            continue;
        }
        let part = l.converted(part, dtype)?;
        let to = View { shape: part.shape.clone(), offset: offset.clone(), ..out.clone() };
        offset += &part.shape[axis] * &out.strides[axis];
        l.copy(&part, &to);
    }
    Ok(Arg::Leaf(out))
}

fn stack(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    if let Some(list) = args.get("tensors")?.leaf() {
        return super::lists::stacked(l, args, list);
    }
    let (dtype, shape) = args.result()?;
    let axis = args.axis("dim", shape.len())?;
    let out = l.buffer(dtype, &shape);
    for (i, part) in args.views("tensors")?.into_iter().enumerate() {
        let part = l.converted(part, dtype)?;
        let mut to = out.clone();
        to.offset = &out.offset + &out.strides[axis] * i as i64;
        to.shape.remove(axis);
        to.strides.remove(axis);
        l.copy(&part, &to);
    }
    Ok(Arg::Leaf(out))
}

fn pad(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let (dtype, shape) = args.result()?;
    let pads = args.ints("pad")?.unwrap_or_default();
    match args.text("mode")? {
        "constant" => {}
        mode => return mirrored(l, x, mode, &pads),
    }
    let value = match args.get("value")? {
        Arg::None => Scalar::Int(0),
        value => value.scalar().ok_or_else(|| err!(Unresolved, "the value is not known"))?,
    };
    let (mut from, mut to) = (x.clone(), l.buffer(dtype, &shape));
    let out = to.clone();
    for (i, pair) in pads.chunks(2).enumerate() {
        let axis =
            x.rank().checked_sub(i + 1).ok_or_else(|| err!(Argument, "there are more paddings than axes"))?;
        let [before, after] = pair else { bail!(Argument, "paddings come in pairs") };
        let cut = |pad: i64| (-pad).max(0);
        from.offset = &from.offset + &from.strides[axis] * cut(*before);
        from.shape[axis] = &from.shape[axis] - (cut(*before) + cut(*after));
        to.offset = &to.offset + &to.strides[axis] * (*before).max(0);
    }
    to.shape.clone_from(&from.shape);
    l.call("copy::fill", vec![text(number(value, dtype)), vec![Piece::WriteView(out.clone())]]);
    l.copy(&from, &to);
    Ok(Arg::Leaf(out))
}

/// Pads with elements of the tensor itself, one axis after the other.
fn mirrored(l: &mut Lowering<'_>, x: &View, mode: &str, pads: &[i64]) -> Result<Value> {
    let mut x = l.contiguous(x);
    for (i, pair) in pads.chunks(2).enumerate() {
        let axis =
            x.rank().checked_sub(i + 1).ok_or_else(|| err!(Argument, "there are more paddings than axes"))?;
        let [before, after] = *pair else { bail!(Argument, "paddings come in pairs") };
        if before == 0 && after == 0 {
            continue;
        }
        let Some(n) = x.shape[axis].known() else {
            bail!(Unresolved, "it needs the size of the axis {axis}")
        };
        // What is cut off is not wrapped around.
        let (first, last) = ((-before).max(0), n - (-after).max(0));
        if last <= first {
            bail!(Unresolved, "nothing of the axis {axis} is left to pad with");
        }
        let place = |at: i64| match mode {
            "reflect" if at < 0 => Ok(-at),
            "reflect" if at >= n => Ok(2 * (n - 1) - at),
            "reflect" => Ok(at),
            "replicate" => Ok(at.clamp(0, n - 1)),
            "circular" => Ok(first + (at - first).rem_euclid(last - first)),
            _ => bail!(Unresolved, "it has no stand-alone code for the mode {mode:?}"),
        };
        let places = (-before..n + after).map(place).collect::<Result<Vec<i64>>>()?;
        let mut shape = x.shape.clone();
        shape[axis] = Dim::from(places.len());
        let sizes = [places.len()];
        let places = l.constant("positions", Tensor::from_vec(places, &sizes))?;
        let (_, n, inner) = around(&x, axis);
        let (view, out) = l.out(x.dtype, &shape);
        l.call_checked(
            "lookup::select",
            vec![read(&x), size(&n), size(&inner), read(&places), text("false"), out],
        );
        x = view;
    }
    Ok(Arg::Leaf(x))
}

fn full(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let value = match args.op.name {
        "zeros" | "zeros_like" => Scalar::Int(0),
        name if name.contains("empty") => Scalar::Int(0),
        "ones" | "ones_like" => Scalar::Int(1),
        _ => match args.get("fill_value")? {
            value if value.scalar().is_none() => {
                let number = l.number(value)?;
                let number = l.converted(&number, dtype)?;
                let wide = View { strides: vec![Dim::new(0); shape.len()], shape: shape.clone(), ..number };
                return Ok(Arg::Leaf(l.contiguous(&wide)));
            }
            value => value.scalar().unwrap_or(Scalar::Int(0)),
        },
    };
    let (view, out) = l.out(dtype, &shape);
    l.call("copy::fill", vec![text(number(value, dtype)), out]);
    Ok(Arg::Leaf(view))
}

fn arange(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let (start, end, step) = (args.get("start")?, args.get("end")?, args.get("step")?);
    let start = if matches!(end, Arg::None | Arg::Tuple(_)) { &Arg::Int(0) } else { start };
    let piece = |arg: &Value| -> Result<Pieces> {
        match arg {
            Arg::Dim(dim) => {
                Ok([text("("), vec![Piece::Integer(dim.clone())], text(format!(") as {dtype}"))].concat())
            }
            arg => {
                let x = arg.scalar().ok_or_else(|| err!(Unresolved, "a bound is not known"))?;
                Ok(text(number(x, dtype)))
            }
        }
    };
    let (start, step) = (piece(start)?, piece(step)?);
    let (view, out) = l.out(dtype, &shape);
    l.call("copy::arange", vec![start, step, out]);
    Ok(Arg::Leaf(view))
}

/// Keeps the elements on one side of a diagonal.
fn triangle(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let (dtype, shape) = args.result()?;
    let sizes = known(&shape[shape.len() - 2..])?;
    let diagonal = args.int("diagonal")?;
    let keeps = |i: usize| {
        let (row, column) = ((i / sizes[1]) as i64, (i % sizes[1]) as i64);
        if args.op.name == "tril" { column - row <= diagonal } else { column - row >= diagonal }
    };
    let mask: Vec<bool> = (0..sizes[0] * sizes[1]).map(keeps).collect();
    let mask = l.constant("mask", Tensor::from_vec(mask, &sizes))?;
    let reads =
        [&mask, x].map(|view| View { shape: shape.clone(), strides: view.broadcast(&shape), ..view.clone() });
    let operands = [Operand::Load(0), Operand::Load(1), Operand::Number(Scalar::Int(0))];
    let op = loops::Step::new(Work::Select, operands, [dtype; 2]);
    let view = l.buffer(dtype, &shape);
    let writes = vec![(buffer_of(&view)?, 0)];
    l.push(Step::Loop(Loop {
        shape,
        reads: reads.to_vec(),
        sizes: Vec::new(),
        ops: vec![op],
        writes,
        in_place: Vec::new(),
    }));
    Ok(Arg::Leaf(view))
}

/// Returns positions as contiguous `i64`.
pub(super) fn positions(l: &mut Lowering<'_>, view: &View) -> Result<View> {
    if !view.dtype.is_int() {
        bail!(Unresolved, "positions are {}", view.dtype);
    }
    let view = l.converted(view, DType::I64)?;
    Ok(l.contiguous(&view))
}

fn embedding(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (index, weight) = (args.view("x")?, args.view("weight")?);
    if !args.is_none("max_norm")? {
        bail!(Unresolved, "it changes its weights");
    }
    let (dtype, shape) = args.result()?;
    let (index, weight) = (positions(l, index)?, l.contiguous(weight));
    let (view, out) = l.out(dtype, &shape);
    let (n, inner) = (size(&weight.shape[0]), size(&weight.shape[1]));
    l.call_checked("lookup::select", vec![read(&weight), n, inner, read(&index), text("false"), out]);
    Ok(Arg::Leaf(view))
}

fn index_select(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, index) = (args.view("x")?, args.view("index")?);
    let (dtype, shape) = args.result()?;
    let axis = args.axis("dim", x.rank())?;
    let (x, index) = (l.contiguous(x), positions(l, index)?);
    let (_, n, inner) = around(&x, axis);
    let (view, out) = l.out(dtype, &shape);
    l.call_checked(
        "lookup::select",
        vec![read(&x), size(&n), size(&inner), read(&index), text("false"), out],
    );
    Ok(Arg::Leaf(view))
}

/// Replaces a part of a tensor: a slice, one position of an axis, or a diagonal.
fn part_scatter(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, from) = (args.view("x")?, args.view("src")?);
    let (dtype, shape) = args.result()?;
    let (rank, out) = (shape.len(), l.buffer(dtype, &shape));
    l.copy(x, &out);
    let mut to = out.clone();
    match args.op.name {
        "slice_scatter" => {
            let axis = args.axis("dim", rank)?;
            let (start, step) = (from_front(args.get("start")?, &shape[axis])?, args.int("step")?);
            // What is known to be beyond the end is nothing.
            let last = &shape[axis] - 1 - &start - (&from.shape[axis] - 1) * step;
            if !last.is_known() {
                l.require(start.clone());
                l.require(last);
            }
            to = to.at(&to.window(0).slice(axis, &start, from.shape[axis].clone(), &Dim::new(step)));
        }
        "select_scatter" => {
            let axis = args.axis("dim", rank)?;
            let index = from_front(args.get("index")?, &shape[axis])?;
            l.require(index.clone());
            l.require(&shape[axis] - 1 - &index);
            to = to.at(&to.window(0).select(axis, &index));
        }
        _ => {
            let (a, b) = (args.axis("dim1", rank)?, args.axis("dim2", rank)?);
            let (offset, step) = (args.int("offset")?, &to.strides[a] + &to.strides[b]);
            to.offset = &to.offset + &to.strides[b] * offset.max(0) + &to.strides[a] * (-offset).max(0);
            for axis in [a.max(b), a.min(b)] {
                to.shape.remove(axis);
                to.strides.remove(axis);
            }
            to.shape.extend(from.shape.last().cloned());
            to.strides.push(step);
        }
    }
    if to.shape != from.shape {
        bail!(Unresolved, "its source is {} for {}", from.ty(), to.ty());
    }
    let from = l.converted(from, dtype)?;
    l.copy(&from, &to);
    Ok(Arg::Leaf(out))
}

fn one_hot(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let index = positions(l, args.view("x")?)?;
    let classes = match args.size("num_classes")? {
        classes if classes == Dim::new(-1) => {
            let classes = l.buffer(DType::I64, &[]);
            l.call_fallible("count::classes", vec![read(&index), vec![Piece::WriteView(classes.clone())]]);
            let symbol = l.local("classes", 1, None);
            l.bind(vec![(symbol.clone(), Source::Element(classes))]);
            Dim::symbol(symbol)
        }
        classes => classes,
    };
    let shape: Vec<Dim> = index.shape.iter().cloned().chain([classes.clone()]).collect();
    let (view, out) = l.out(DType::I64, &shape);
    l.call_checked("lookup::one_hot", vec![read(&index), size(&classes), out]);
    l.adopted(&Arg::Leaf(view), args.ty)
}

/// Repeats each position of an axis, as often as an integer or an element says.
fn repeat_interleave(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let Arg::Leaf(repeats) = args.get("repeats")? else { return l.moved(args.op, args.args, args.ty) };
    let (x, repeats) = (args.view("x")?, positions(l, repeats)?);
    let x = l.contiguous(x);
    let one = Dim::new(1);
    let (at, (outer, n, inner)) = match args.is_none("dim")? || x.rank() == 0 {
        true => (None, (one.clone(), count(&x.shape), one)),
        false => {
            let axis = args.axis("dim", x.rank())?;
            (Some(axis), around(&x, axis))
        }
    };
    let total = l.buffer(DType::I64, &[]);
    l.call_fallible("count::repeats", vec![read(&repeats), size(&n), vec![Piece::WriteView(total.clone())]]);
    let symbol = l.local("repeats", 0, None);
    l.bind(vec![(symbol.clone(), Source::Element(total))]);
    let total = Dim::symbol(symbol);
    let mut shape = if at.is_some() { x.shape.to_vec() } else { vec![total.clone()] };
    if let Some(at) = at {
        shape[at] = total.clone();
    }
    if !args.is_none("output_size")? {
        let wanted = args.size("output_size")?;
        l.require(&wanted - &total);
        l.require(&total - &wanted);
    }
    let (view, out) = l.out(x.dtype, &shape);
    l.call("copy::repeated", vec![read(&x), read(&repeats), list(&[outer, n, inner]), out]);
    l.adopted(&Arg::Leaf(view), args.ty)
}

/// Returns the operand in a dtype, in order, with the sizes of an axis and of what lies behind it.
fn along(l: &mut Lowering<'_>, args: &Args<'_>, dtype: DType) -> Result<(View, Dim, Dim)> {
    let x = l.converted(args.view("x")?, dtype)?;
    let x = l.contiguous(&x);
    let (n, inner) = match x.rank() {
        0 => (Dim::new(1), Dim::new(1)),
        rank => {
            let (_, n, inner) = around(&x, args.axis("dim", rank)?);
            (n, inner)
        }
    };
    Ok((x, n, inner))
}

fn log_cumulate(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let (x, n, inner) = along(l, args, wide)?;
    let (view, out) = l.out(wide, &shape);
    l.call("scan::logcumsumexp", vec![read(&x), size(&n), size(&inner), out]);
    l.converted(&view, dtype).map(Arg::Leaf)
}

fn cumulate(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let (x, n, inner) = along(l, args, dtype)?;
    let f = match (args.op.name, dtype.is_float()) {
        ("cumsum", true) => "|sum, x| sum + x",
        ("cumsum", false) => "|sum, x| sum.wrapping_add(x)",
        (_, true) => "|product, x| product * x",
        (_, false) => "|product, x| product.wrapping_mul(x)",
    };
    let (view, out) = l.out(dtype, &shape);
    let start = text(number(Scalar::Int(i64::from(args.op.name == "cumprod")), dtype));
    l.call("scan::scan", vec![read(&x), size(&n), size(&inner), start, text(f), out]);
    Ok(Arg::Leaf(view))
}

/// Reads the bits of elements as those of another dtype.
fn view_dtype(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let (dtype, shape) = args.result()?;
    let x = l.contiguous(x);
    let bits = match x.dtype {
        DType::F64 => "|x: f64| x.to_bits()".to_owned(),
        from @ (DType::F32 | DType::F16 | DType::BF16) => format!("|x: {from}| u64::from(x.to_bits())"),
        DType::I8 => "|x: i8| u64::from(x as u8)".to_owned(),
        DType::I32 => "|x: i32| u64::from(x as u32)".to_owned(),
        from => format!("|x: {from}| x as u64"),
    };
    let element = match dtype {
        DType::Bool => "|bits| bits & 1 != 0".to_owned(),
        DType::F64 => "f64::from_bits".to_owned(),
        DType::F32 => "|bits| f32::from_bits(bits as u32)".to_owned(),
        to @ (DType::F16 | DType::BF16) => format!("|bits| {to}::from_bits(bits as u16)"),
        to => format!("|bits| bits as {to}"),
    };
    let [from, to] = [x.dtype, dtype].map(|dtype| text((8 * dtype.size()).to_string()));
    let (view, out) = l.out(dtype, &shape);
    l.call("bits::view", vec![read(&x), from, text(bits), to, text(element), out]);
    Ok(Arg::Leaf(view))
}

fn frexp(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = l.contiguous(args.view("x")?);
    args.expect_float(&x)?;
    let (part, parts) = l.out(x.dtype, &x.shape);
    let (power, powers) = l.out(DType::I32, &x.shape);
    l.call("bits::frexp", vec![read(&x), parts, powers]);
    Ok(Arg::tuple([Arg::Leaf(part), Arg::Leaf(power)]))
}
