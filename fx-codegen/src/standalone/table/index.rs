//! Reads and writes at positions that are data.

use fx_core::window::clamped;
use fx_core::{Arg, DType, Dim, Result, Scalar, TypeTree, bail, err};

use super::data::{around, positions};
use super::{Args, Emit, from_front, number, read, size, text};
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Piece, Pieces};
use crate::standalone::value::{Value, View, count};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("getitem", subscript),
    ("index", index),
    ("index_put", index_put),
    ("index_add", along),
    ("index_copy", along),
    ("index_fill", along),
    ("gather", gather),
    ("take_along_dim", gather),
    ("scatter", scatter),
    ("scatter_add", scatter),
    ("scatter_reduce", scatter),
    ("take", take),
    ("put", put),
    ("masked_scatter", masked_scatter),
];

/// Writes how an element and one that is added to it become one.
fn sum_of(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "|old, new| old | new",
        dtype if dtype.is_float() => "|old, new| old + new",
        _ => "|old, new| old.wrapping_add(new)",
    }
}

/// Writes how elements that are written to one place become one.
fn combined(reduce: &str, dtype: DType) -> Result<String> {
    Ok(match (reduce, dtype) {
        ("" | "none", _) => "|_, new| new".to_owned(),
        ("add" | "sum", dtype) => sum_of(dtype).to_owned(),
        ("multiply" | "prod", DType::Bool) => "|old, new| old & new".to_owned(),
        ("multiply" | "prod", dtype) if dtype.is_float() => "|old, new| old * new".to_owned(),
        ("multiply" | "prod", _) => "|old, new| old.wrapping_mul(new)".to_owned(),
        // NaN stays and wins.
        ("amax", _) => "|old, new| if new > old || new != new { new } else { old }".to_owned(),
        ("amin", _) => "|old, new| if new < old || new != new { new } else { old }".to_owned(),
        (other, _) => bail!(Unresolved, "it has no stand-alone code for the reduction {other:?}"),
    })
}

/// Returns the shape to which shapes are broadcast.
pub(super) fn broadcast(shapes: &[&[Dim]]) -> Vec<Dim> {
    let one = Dim::new(1);
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    (0..rank)
        .map(|axis| {
            let size = |shape: &&[Dim]| shape.len().checked_sub(rank - axis).map(|at| shape[at].clone());
            shapes.iter().filter_map(size).find(|size| *size != one).unwrap_or_else(|| one.clone())
        })
        .collect()
}

fn widened(view: &View, shape: &[Dim]) -> View {
    View { shape: shape.to_vec(), strides: view.broadcast(shape), ..view.clone() }
}

fn written(view: &View) -> Pieces {
    vec![Piece::WriteView(view.clone())]
}

/// The places that index tensors name together.
struct Places {
    /// The axes that they index, and the others.
    axes: Vec<usize>,
    rest: Vec<usize>,
    /// The positions among the elements of these axes in row-major order.
    at: View,
}

impl Places {
    /// Returns the order of axes that puts the indexed ones first.
    fn order(&self) -> Vec<usize> {
        self.axes.iter().chain(&self.rest).copied().collect()
    }
}

/// Reads the entries of an index: an axis and its tensor each.
fn entries<'a>(args: &'a Args<'_>) -> Result<Vec<(usize, &'a View)>> {
    let items = match args.get("indices")? {
        Arg::List(items) | Arg::Tuple(items) => &items[..],
        one => std::slice::from_ref(one),
    };
    let mut entries = Vec::new();
    let mut axis = 0;
    for item in items {
        match item {
            Arg::None => axis += 1,
            Arg::Leaf(view) => {
                entries.push((axis, view));
                axis += if matches!(view.dtype, DType::Bool | DType::U8) { view.rank() } else { 1 };
            }
            other => bail!(Unresolved, "it is indexed by {}", other.kind_name()),
        }
    }
    Ok(entries)
}

fn is_mask(view: &View) -> bool {
    matches!(view.dtype, DType::Bool | DType::U8)
}

/// Computes the places that integers along axes of `x` name; negative ones count from the end.
fn places(l: &mut Lowering<'_>, x: &View, entries: &[(usize, &View)], signed: bool) -> Result<Places> {
    let shapes: Vec<&[Dim]> = entries.iter().map(|(_, view)| &view.shape[..]).collect();
    let shape = broadcast(&shapes);
    for view in entries.iter().map(|(_, view)| view) {
        // What data decide is compared when the program runs.
        for (size, wide) in view.shape.iter().rev().zip(shape.iter().rev()) {
            if size != wide && *size != Dim::new(1) && (l.is_local(size) || l.is_local(wide)) {
                l.require(size - wide);
                l.require(wide - size);
            }
        }
    }
    let at = l.buffer(DType::I64, &shape);
    for (i, (axis, view)) in entries.iter().enumerate() {
        let index = positions(l, &widened(view, &shape))?;
        let n = x.shape.get(*axis).ok_or_else(|| err!(Index, "there is no axis {axis} of {}", x.rank()))?;
        let [is_first, signed] = [i == 0, signed].map(|flag| text(flag.to_string()));
        l.call_checked("lookup::locate", vec![read(&index), size(n), is_first, signed, written(&at)]);
    }
    let axes: Vec<usize> = entries.iter().map(|(axis, _)| *axis).collect();
    let rest = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    Ok(Places { axes, rest, at })
}

fn index(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    at_places(l, args.view("x")?, &entries(args)?, args.ty)
}

/// Reads by an index that may have tensors beside integers, slices and new axes: these first.
fn subscript(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = match args.args.first() {
        Some(Arg::Leaf(x)) => x,
        _ => bail!(Unresolved, "its operand is no tensor"),
    };
    let items = match args.get("index")? {
        Arg::Tuple(items) => items.to_vec(),
        one => vec![one.clone()],
    };
    if items.iter().all(|item| item.leaves().is_empty()) {
        return l.view(args.op, args.args, args.ty);
    }
    let named = |item: &Value| match item {
        Arg::None | Arg::Ellipsis => 0,
        Arg::Leaf(view) if is_mask(view) => view.rank(),
        _ => 1,
    };
    let used: usize = items.iter().map(named).sum();
    let mut view = x.clone();
    let mut entries: Vec<(usize, View)> = Vec::new();
    let mut axis = 0;
    for item in &items {
        match item {
            Arg::Ellipsis => axis += x.rank().saturating_sub(used),
            Arg::None => {
                view = view.at(&view.window(0).unsqueeze(axis));
                axis += 1;
            }
            Arg::Leaf(index) => {
                entries.push((axis, index.clone()));
                axis += named(item);
            }
            Arg::Int(_) | Arg::Dim(_) => view = one_of(l, &view, axis, item)?,
            Arg::Slice(slice) => {
                part_of(&mut view, axis, [slice.start(), slice.stop(), slice.step()])?;
                axis += 1;
            }
            other => bail!(Unresolved, "it is indexed by {}", other.kind_name()),
        }
    }
    let entries: Vec<(usize, &View)> = entries.iter().map(|(axis, view)| (*axis, view)).collect();
    at_places(l, &view, &entries, args.ty)
}

/// Returns a value at a position of an axis.
fn one_of(l: &mut Lowering<'_>, x: &View, axis: usize, index: &Value) -> Result<View> {
    let size = x.shape.get(axis).ok_or_else(|| err!(Index, "there is no axis {axis} of {}", x.rank()))?;
    let at = from_front(index, size)?;
    l.require(at.clone());
    l.require(size - &at - 1);
    Ok(x.at(&x.window(0).select(axis, &at)))
}

/// Takes a slice of an axis.
fn part_of(x: &mut View, axis: usize, [start, stop, step]: [&Value; 3]) -> Result<()> {
    let size =
        x.shape.get(axis).ok_or_else(|| err!(Index, "there is no axis {axis} of {}", x.rank()))?.clone();
    let step = match step {
        Arg::None => 1,
        Arg::Int(step) if *step > 0 => *step,
        _ => bail!(Unresolved, "a step is not a known number"),
    };
    if matches!((start, stop), (Arg::None, Arg::None)) && step == 1 {
        return Ok(());
    }
    let start = from_front(start, &size)?;
    let stop = if matches!(stop, Arg::None) { size.clone() } else { from_front(stop, &size)? };
    let start = clamped(&start, &size);
    let stop = stop.max(&start).min(&size);
    let step = Dim::new(step);
    let window = x.window(0).slice(axis, &start, (&stop - &start).ceil_div(&step), &step);
    *x = x.at(&window);
    Ok(())
}

/// Reads the elements at index tensors. What they name lies where the first of them is, or first if there is
/// an axis between them.
fn at_places(l: &mut Lowering<'_>, x: &View, entries: &[(usize, &View)], ty: &TypeTree) -> Result<Value> {
    if entries.is_empty() {
        return Ok(Arg::Leaf(x.clone()));
    }
    // A mask names what its coordinates do.
    let mut named: Vec<(usize, View)> = Vec::new();
    for (axis, view) in entries {
        match is_mask(view) {
            true if view.rank() == 0 => bail!(Unresolved, "it is indexed by one bool"),
            true => {
                let all = super::mask::coordinates(l, view)?;
                named.extend(all.into_iter().enumerate().map(|(i, along)| (axis + i, along)));
            }
            false => named.push((*axis, (*view).clone())),
        }
    }
    let named: Vec<(usize, &View)> = named.iter().map(|(axis, view)| (*axis, view)).collect();
    let view = taken(l, x, &named)?;
    l.adopted(&Arg::Leaf(view), ty)
}

/// Reads the elements at integers along axes.
fn taken(l: &mut Lowering<'_>, x: &View, entries: &[(usize, &View)]) -> Result<View> {
    let places = places(l, x, entries, true)?;
    let from = l.contiguous(&x.permute(&places.order()));
    let (named, inner) = (count(&from.shape[..entries.len()]), count(&from.shape[entries.len()..]));
    let made: Vec<Dim> = places.at.shape.iter().chain(&from.shape[entries.len()..]).cloned().collect();
    let (view, out) = l.out(x.dtype, &made);
    l.call_checked(
        "lookup::select",
        vec![read(&from), size(&named), size(&inner), read(&places.at), text("false"), out],
    );
    let first = places.axes[0];
    let is_run = places.axes.iter().enumerate().all(|(i, axis)| *axis == first + i);
    let n = places.at.rank();
    let mut order: Vec<usize> = (0..made.len()).collect();
    if is_run {
        order = (n..n + first).chain(0..n).chain(n + first..made.len()).collect();
    }
    Ok(view.permute(&order))
}

/// Makes a copy of `x` with axes in another order, in memory and as they were.
fn copied(l: &mut Lowering<'_>, x: &View, order: &[usize]) -> (View, View) {
    let from = x.permute(order);
    let to = l.buffer(x.dtype, &from.shape);
    l.copy(&from, &to);
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, axis)| back[*axis] = i);
    let seen = to.permute(&back);
    (to, seen)
}

fn index_put(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, values) = (args.view("x")?, args.view("values")?);
    let f = if args.flag("accumulate")? { sum_of(x.dtype) } else { "|_, new| new" };
    let entries = entries(args)?;
    if entries.iter().any(|(_, view)| is_mask(view)) {
        return masked_put(l, x, &entries, values, f);
    }
    if entries.is_empty() {
        bail!(Unresolved, "it has no index tensor");
    }
    let places = places(l, x, &entries, true)?;
    let (to, seen) = copied(l, x, &places.order());
    let rest: Vec<Dim> = places.rest.iter().map(|axis| x.shape[*axis].clone()).collect();
    // The values in the order of reads: what the tensors name first, if there is an axis between them.
    let first = places.axes[0];
    let is_run = places.axes.iter().enumerate().all(|(i, axis)| *axis == first + i);
    let before = if is_run { first } else { 0 };
    let named = &places.at.shape;
    let wide: Vec<Dim> = rest[..before].iter().chain(named).chain(&rest[before..]).cloned().collect();
    let order: Vec<usize> =
        (before..before + named.len()).chain(0..before).chain(before + named.len()..wide.len()).collect();
    let from = l.contiguous(&widened(values, &wide).permute(&order));
    let inner = size(&count(&rest));
    l.call("lookup::put", vec![written(&to), inner, read(&places.at), read(&from), text(f)]);
    Ok(Arg::Leaf(seen))
}

/// Writes values where one mask is true: the same ones everywhere, or one after the other.
fn masked_put(
    l: &mut Lowering<'_>,
    x: &View,
    entries: &[(usize, &View)],
    values: &View,
    f: &str,
) -> Result<Value> {
    let [(axis, mask)] = entries else {
        bail!(
            Unresolved,
            "it has a mask beside other index tensors; write them as one mask, or one after the other"
        );
    };
    let axes: Vec<usize> = (*axis..*axis + mask.rank()).collect();
    let rest: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let inner: Vec<Dim> = rest.iter().map(|axis| x.shape[*axis].clone()).collect();
    let order: Vec<usize> = axes.into_iter().chain(rest).collect();
    let one = Dim::new(1);
    // The axis of the places lies where the mask is.
    let place = inner.len() - axis;
    let of_places = values.rank().checked_sub(place + 1).map(|at| values.shape[at].clone());
    let (from, each) = match of_places {
        Some(n) if n != one => {
            let mut shape = inner.clone();
            shape.insert(*axis, n);
            let mut order: Vec<usize> = (0..shape.len()).filter(|other| other != axis).collect();
            order.insert(0, *axis);
            (widened(values, &shape).permute(&order), true)
        }
        _ => {
            let mut values = values.clone();
            if values.rank() > place {
                let at = values.rank() - place - 1;
                values.shape.remove(at);
                values.strides.remove(at);
            }
            (widened(&values, &inner), false)
        }
    };
    let from = l.contiguous(&from);
    let (to, seen) = copied(l, x, &order);
    let mask = l.converted(mask, DType::Bool)?;
    let mask = l.contiguous(&mask);
    let (n, each) = (size(&count(&inner)), text(each.to_string()));
    l.call_checked("lookup::put_where", vec![written(&to), n, read(&mask), read(&from), each, text(f)]);
    Ok(Arg::Leaf(seen))
}

/// Writes slices at positions along one axis.
fn along(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, index) = (args.view("x")?, args.view("index")?);
    let line = |view: &View| View { shape: vec![count(&view.shape)], ..view.clone() };
    let index = match index.rank() {
        0 => View { strides: vec![Dim::new(0)], ..line(index) },
        _ => index.clone(),
    };
    let wide = match x.rank() {
        0 => View { strides: vec![Dim::new(0)], ..line(x) },
        _ => x.clone(),
    };
    let axis = args.axis("dim", wide.rank())?;
    let mut shape = wide.shape.clone();
    shape[axis] = index.shape[0].clone();
    let is_fill = args.op.name == "index_fill";
    let from = match args.get(if is_fill { "value" } else { "source" })? {
        Arg::Leaf(from) if from.rank() == shape.len() => l.converted(from, x.dtype)?,
        Arg::Leaf(from) => widened(&l.converted(from, x.dtype)?, &shape),
        number => {
            let value = number.scalar().ok_or_else(|| err!(Unresolved, "the value is not known"))?;
            filled(l, value, x.dtype, &shape)
        }
    };
    let f = match (args.op.name, x.dtype) {
        ("index_add", dtype) => {
            let alpha = args.get("alpha")?.scalar().ok_or_else(|| err!(Unresolved, "alpha is not known"))?;
            let factor = number(alpha, dtype);
            match dtype {
                _ if alpha.to_f64() == 1.0 => sum_of(dtype).to_owned(),
                DType::Bool => format!("|old, new| old | (new & {factor})"),
                dtype if dtype.is_float() => format!("|old, new| old + new * {factor}"),
                _ => format!("|old, new| old.wrapping_add(new.wrapping_mul({factor}))"),
            }
        }
        _ => "|_, new| new".to_owned(),
    };
    let places = places(l, &wide, &[(axis, &index)], is_fill)?;
    let (to, seen) = copied(l, &wide, &places.order());
    let from = l.contiguous(&from.permute(&places.order()));
    let inner = size(&count(&to.shape[1..]));
    l.call("lookup::put", vec![written(&to), inner, read(&places.at), read(&from), text(f)]);
    Ok(Arg::Leaf(if x.rank() == 0 { View { shape: Vec::new(), strides: Vec::new(), ..seen } } else { seen }))
}

/// Makes a value of one number.
fn filled(l: &mut Lowering<'_>, x: Scalar, dtype: DType, shape: &[Dim]) -> View {
    let (view, out) = l.out(dtype, shape);
    l.call("copy::fill", vec![text(number(x, dtype)), out]);
    view
}

/// Returns the part of a value that has the sizes of an index but along one axis.
fn narrowed(l: &mut Lowering<'_>, x: &View, index: &View, axis: usize) -> Result<View> {
    if x.rank() != index.rank() {
        bail!(Unresolved, "its index is {} for {}", index.ty(), x.ty());
    }
    let mut part = x.clone();
    for other in (0..x.rank()).filter(|other| *other != axis) {
        l.require(&x.shape[other] - &index.shape[other]);
        part.shape[other] = index.shape[other].clone();
    }
    Ok(part)
}

/// Returns a value with one axis if it has none.
fn at_least_line(view: &View) -> View {
    match view.rank() {
        0 => View { shape: vec![Dim::new(1)], strides: vec![Dim::new(0)], ..view.clone() },
        _ => view.clone(),
    }
}

fn gather(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, dtype) = (args.view("x")?, args.result()?.0);
    let shape = args.result()?.1;
    let (x, index, axis) = if args.op.name == "take_along_dim" {
        let index = args.view("indices")?;
        if args.is_none("dim")? {
            let [x, index] = [x, index].map(|view| {
                let dense = l.contiguous(view);
                View { offset: dense.offset, ..View::whole(dense.home, view.dtype, &[count(&view.shape)]) }
            });
            (x, index, 0)
        } else {
            let axis = args.axis("dim", x.rank())?;
            let all = broadcast(&[&x.shape, &index.shape]);
            let with = |n: &Dim| {
                let mut shape = all.clone();
                shape[axis] = n.clone();
                shape
            };
            (widened(x, &with(&x.shape[axis])), widened(index, &with(&index.shape[axis])), axis)
        }
    } else {
        let (x, index) = (at_least_line(x), at_least_line(args.view("index")?));
        let axis = args.axis("dim", x.rank())?;
        (narrowed(l, &x, &index, axis)?, index, axis)
    };
    let (x, index) = (l.contiguous(&x), positions(l, &index)?);
    let ((_, n, inner), (_, places, _)) = (around(&x, axis), around(&index, axis));
    let (view, out) = l.out(dtype, &shape);
    l.call_checked(
        "lookup::gather",
        vec![read(&x), size(&n), size(&inner), read(&index), size(&places), out],
    );
    Ok(Arg::Leaf(view))
}

fn scatter(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, index) = (args.view("x")?, args.view("index")?);
    let (dtype, _) = args.result()?;
    let (wide, index) = (at_least_line(x), at_least_line(index));
    let axis = args.axis("dim", wide.rank())?;
    let from = match args.get("src")? {
        Arg::Leaf(from) => {
            let mut from = at_least_line(from);
            if from.rank() != index.rank() {
                bail!(Unresolved, "its source is {} for an index {}", from.ty(), index.ty());
            }
            for (at, size) in index.shape.iter().enumerate() {
                l.require(&from.shape[at] - size);
                from.shape[at] = size.clone();
            }
            l.converted(&from, dtype)?
        }
        number => {
            let x = number.scalar().ok_or_else(|| err!(Unresolved, "the value is not known"))?;
            filled(l, x, dtype, &index.shape)
        }
    };
    let reduce = match args.op.name {
        "scatter_add" => "sum",
        _ if args.has("reduce") && !args.is_none("reduce")? => args.text("reduce")?,
        _ => "",
    };
    let start = match args.has("include_self") && !args.flag("include_self")? {
        true => Some(identity(reduce, dtype)?),
        false => None,
    };
    let f = combined(reduce, dtype)?;
    let (from, index) = (l.contiguous(&from), positions(l, &index)?);
    let out = l.buffer(dtype, &wide.shape);
    l.copy(&wide, &out);
    let part = narrowed(l, &out, &index, axis)?;
    let to = l.contiguous(&part);
    let ((_, n, inner), (_, places, _)) = (around(&to, axis), around(&index, axis));
    let mut write = |from: Pieces, f: String| {
        let pieces = vec![written(&to), size(&n), size(&inner), read(&index), size(&places), from, text(f)];
        l.call_checked("lookup::scatter", pieces);
    };
    if let Some(start) = start {
        write(read(&from), format!("|_, _| {start}"));
    }
    write(read(&from), f);
    if to.home != out.home {
        l.copy(&to, &part);
    }
    Ok(Arg::Leaf(if x.rank() == 0 { View { shape: Vec::new(), strides: Vec::new(), ..out } } else { out }))
}

/// Writes what a reduction begins with.
fn identity(reduce: &str, dtype: DType) -> Result<String> {
    Ok(match reduce {
        "sum" => number(Scalar::Int(0), dtype),
        "prod" => number(Scalar::Int(1), dtype),
        "amax" if dtype.is_float() => format!("{dtype}::NEG_INFINITY"),
        "amin" if dtype.is_float() => format!("{dtype}::INFINITY"),
        "amax" if dtype == DType::Bool => "false".to_owned(),
        "amin" if dtype == DType::Bool => "true".to_owned(),
        "amax" => format!("{dtype}::MIN"),
        "amin" => format!("{dtype}::MAX"),
        other => bail!(Unresolved, "it has no stand-alone code for the reduction {other:?}"),
    })
}

/// Reads at positions of the flattened tensor.
fn take(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, index) = (args.view("x")?, args.view("index")?);
    let (dtype, shape) = args.result()?;
    let (x, index) = (l.contiguous(x), positions(l, index)?);
    let (view, out) = l.out(dtype, &shape);
    let n = size(&count(&x.shape));
    l.call_checked("lookup::select", vec![read(&x), n, text("1"), read(&index), text("true"), out]);
    Ok(Arg::Leaf(view))
}

/// Writes at positions of the flattened tensor.
fn put(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, index, from) = (args.view("x")?, args.view("index")?, args.view("source")?);
    let f = if args.flag("accumulate")? { sum_of(x.dtype) } else { "|_, new| new" };
    let out = l.buffer(x.dtype, &x.shape);
    l.copy(x, &out);
    let index = l.contiguous(index);
    let line =
        View { offset: index.offset.clone(), ..View::whole(index.home, index.dtype, &[count(&index.shape)]) };
    let flat = View::whole(out.home, out.dtype, &[count(&x.shape)]);
    let places = places(l, &flat, &[(0, &line)], true)?;
    let from = l.contiguous(from);
    l.call("lookup::put", vec![written(&out), text("1"), read(&places.at), read(&from), text(f)]);
    Ok(Arg::Leaf(out))
}

/// Writes the elements of a source, one after the other, where a mask is true.
fn masked_scatter(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, mask, from) = (args.view("x")?, args.view("mask")?, args.view("source")?);
    let (dtype, shape) = args.result()?;
    let out = l.buffer(dtype, &shape);
    l.copy(&widened(x, &shape), &out);
    let (mask, from) = (l.contiguous(&widened(mask, &shape)), l.contiguous(from));
    let pieces = vec![written(&out), text("1"), read(&mask), read(&from), text("true"), text("|_, new| new")];
    l.call_checked("lookup::put_where", pieces);
    Ok(Arg::Leaf(out))
}
