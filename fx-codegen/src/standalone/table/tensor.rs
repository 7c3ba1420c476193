//! Reductions.

use fx_core::loops::{self, Operand, Work};
use fx_core::{Arg, DType, Dim, Result, bail};

use super::{Args, Emit, buffer_of, front, read, size, text};
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Loop, Piece, Pieces, Step};
use crate::standalone::value::{Value, View, count};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("sum", reduce),
    ("mean", reduce),
    ("prod", reduce),
    ("amax", reduce),
    ("amin", reduce),
    ("max", reduce),
    ("min", reduce),
    ("any", reduce),
    ("all", reduce),
    ("argmax", position),
    ("argmin", position),
    ("max_dim", extremum),
    ("min_dim", extremum),
    ("aminmax", both_extrema),
    ("count_nonzero", count_nonzero),
];

/// Puts the axes that are reduced beside each other, in a contiguous value: returns it, their size, and that
/// of what lies behind them.
fn grouped(l: &mut Lowering<'_>, x: &View, axes: &[usize]) -> (View, Dim, Dim) {
    let (first, len) = (axes.first().copied().unwrap_or(0), axes.len());
    let is_run = axes.iter().enumerate().all(|(i, axis)| *axis == first + i);
    if is_run && x.is_contiguous() {
        return (x.clone(), count(&x.shape[first..first + len]), count(&x.shape[first + len..]));
    }
    let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let x = l.contiguous(&x.permute(&order));
    let n = count(&x.shape[x.rank() - len..]);
    (x, n, Dim::new(1))
}

fn reduce(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let (dtype, shape) = args.result()?;
    let axes = if args.has("dim") { args.axes("dim", x.rank())? } else { (0..x.rank()).collect() };
    let name = args.op.name;
    let x = match name {
        "any" | "all" => l.converted(x, DType::Bool)?,
        _ => l.converted(x, dtype)?,
    };
    let (x, n, inner) = if x.rank() == 0 { (x, Dim::new(1), Dim::new(1)) } else { grouped(l, &x, &axes) };
    if matches!(name, "amax" | "amin" | "max" | "min") {
        l.require(&n - 1);
    }
    let (view, out) = l.out(dtype, &shape);
    let source = vec![read(&x), size(&n), size(&inner)];
    let mut call = |function: &str, more: Vec<Pieces>| {
        l.call(format!("reduce::{function}"), [source.clone(), more, vec![out.clone()]].concat());
    };
    let fold = |start: String, f: &str| vec![text(start), text(f)];
    match (name, dtype) {
        ("sum", dtype) if dtype.is_float() => call("sums", vec![text("1.0")]),
        ("mean", dtype) if dtype.is_float() => {
            let scale = [text("1.0 / ("), size(&n), text(") as f64")].concat();
            call("sums", vec![scale]);
        }
        ("sum", dtype) if dtype.is_int() => {
            call("fold", fold(format!("0_{dtype}"), "|sum, x| sum.wrapping_add(x)"))
        }
        ("prod", dtype) if dtype.is_float() => {
            call("fold", fold(format!("1.0_{dtype}"), "|product, x| product * x"))
        }
        ("prod", dtype) if dtype.is_int() => {
            call("fold", fold(format!("1_{dtype}"), "|product, x| product.wrapping_mul(x)"))
        }
        ("amax" | "max", dtype) if dtype.is_float() => call("maxima", Vec::new()),
        ("amin" | "min", dtype) if dtype.is_float() => call("minima", Vec::new()),
        ("amax" | "max", dtype) if dtype.is_int() => {
            call("fold", fold(format!("{dtype}::MIN"), "|best, x| best.max(x)"))
        }
        ("amin" | "min", dtype) if dtype.is_int() => {
            call("fold", fold(format!("{dtype}::MAX"), "|best, x| best.min(x)"))
        }
        ("any" | "amax" | "max", DType::Bool) => call("fold", fold("false".to_owned(), "|any, x| any || x")),
        ("all" | "amin" | "min", DType::Bool) => call("fold", fold("true".to_owned(), "|all, x| all && x")),
        ("any", DType::U8) => call("fold", fold("0".to_owned(), "|any, x| u8::from(any != 0 || x)")),
        ("all", DType::U8) => call("fold", fold("1".to_owned(), "|all, x| u8::from(all != 0 && x)")),
        _ => bail!(DType, "it has no stand-alone code for {dtype}"),
    }
    Ok(Arg::Leaf(view))
}

fn position(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let axes = match args.is_none("dim")? {
        true => (0..x.rank()).collect(),
        false => vec![front(args.int("dim")?, x.rank())?],
    };
    let (_, shape) = args.result()?;
    Ok(Arg::Leaf(best(l, x, &axes, &shape, args.op.name == "argmax").0))
}

/// Finds where the best element along axes is: the first one, or the first NaN. Returns it with the operand in
/// the order in which positions count, and the sizes of axes and of what lies behind them.
fn best(
    l: &mut Lowering<'_>,
    x: &View,
    axes: &[usize],
    shape: &[Dim],
    greatest: bool,
) -> (View, View, Dim, Dim) {
    let (x, n, inner) =
        if x.rank() == 0 { (l.contiguous(x), Dim::new(1), Dim::new(1)) } else { grouped(l, x, axes) };
    l.require(&n - 1);
    // Comparisons of bools are those of numbers.
    let better = match (greatest, x.dtype.is_float() || matches!(x.dtype, DType::F16 | DType::BF16)) {
        (true, true) => "|x, best| x > best || (x != x && best == best)",
        (true, false) => "|x, best| x > best",
        (_, true) => "|x, best| x < best || (x != x && best == best)",
        (_, false) => "|x, best| x < best",
    };
    let (view, out) = l.out(DType::I64, shape);
    l.call("reduce::positions", vec![read(&x), size(&n), size(&inner), text(better), out]);
    (view, x, n, inner)
}

/// Finds the best element along an axis, and where it is.
fn extremum(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let axes = vec![front(args.int("dim")?, x.rank())?];
    let results = args.results();
    let Some((dtype, shape)) = results.first() else { bail!(Unresolved, "it has no result") };
    let (index, x, n, inner) = best(l, x, &axes, shape, args.op.name == "max_dim");
    let (values, out) = l.out(*dtype, shape);
    l.call_checked("lookup::gather", vec![read(&x), size(&n), size(&inner), read(&index), text("1"), out]);
    Ok(Arg::tuple([Arg::Leaf(values), Arg::Leaf(index)]))
}

/// Finds the least and the greatest element.
fn both_extrema(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let axes = match args.is_none("dim")? {
        true => (0..x.rank()).collect(),
        false => vec![front(args.int("dim")?, x.rank())?],
    };
    let results = args.results();
    let Some((dtype, shape)) = results.first() else { bail!(Unresolved, "it has no result") };
    let mut found = Vec::new();
    for greatest in [false, true] {
        let (index, x, n, inner) = best(l, x, &axes, shape, greatest);
        let (values, out) = l.out(*dtype, shape);
        l.call_checked(
            "lookup::gather",
            vec![read(&x), size(&n), size(&inner), read(&index), text("1"), out],
        );
        found.push(Arg::Leaf(values));
    }
    Ok(Arg::tuple(found))
}

fn count_nonzero(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let (dtype, shape) = args.result()?;
    let axes = if args.has("dim") { args.axes("dim", x.rank())? } else { (0..x.rank()).collect() };
    let x = l.converted(x, DType::Bool)?;
    let (x, n, inner) = if x.rank() == 0 { (x, Dim::new(1), Dim::new(1)) } else { grouped(l, &x, &axes) };
    let (view, out) = l.out(dtype, &shape);
    let pieces = vec![read(&x), size(&n), size(&inner), text("0_i64"), text("|n, x| n + i64::from(x)"), out];
    l.call("reduce::fold", pieces);
    Ok(Arg::Leaf(view))
}

impl Lowering<'_> {
    /// Adds a loop of one operation over values that are broadcast to `shape`.
    fn one_loop(&mut self, shape: &[Dim], reads: &[&View], op: loops::Step) -> Result<View> {
        let wide =
            |view: &&View| View { shape: shape.to_vec(), strides: view.broadcast(shape), ..(*view).clone() };
        let view = self.buffer(op.dtype, shape);
        let writes = vec![(buffer_of(&view)?, 0)];
        let reads = reads.iter().map(wide).collect();
        self.push(Step::Loop(Loop {
            shape: shape.to_vec(),
            reads,
            sizes: Vec::new(),
            ops: vec![op],
            writes,
            in_place: Vec::new(),
        }));
        Ok(view)
    }

    /// Returns the value in a dtype.
    pub(in crate::standalone) fn converted(&mut self, view: &View, dtype: DType) -> Result<View> {
        if view.dtype == dtype {
            return Ok(view.clone());
        }
        let op = loops::Step::new(Work::Convert, [Operand::Load(0)], [view.dtype, dtype]);
        self.one_loop(&view.shape, &[view], op)
    }

    /// Adds `x`, broadcast, to a value.
    pub(super) fn add(&mut self, to: &View, x: &View) -> Result<Value> {
        let wide = View { shape: to.shape.clone(), strides: x.broadcast(&to.shape), ..x.clone() };
        let out = self.buffer(to.dtype, &to.shape);
        let pieces = vec![Piece::WriteView(out.clone())];
        let wide = self.contiguous(&wide);
        self.call("copy::add", vec![read(to), read(&wide), pieces]);
        Ok(Arg::Leaf(out))
    }
}
