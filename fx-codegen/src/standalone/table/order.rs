//! Sorting, selection by rank, running extrema and searches.

use fx_core::{Arg, DType, Dim, Result, Scalar, bail, err};

use super::data::around;
use super::{Args, Emit, front, number, optional, read, size, text};
use crate::standalone::lower::Lowering;
use crate::standalone::value::{Value, View, count};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("sort", sort),
    ("argsort", sort),
    ("msort", sort),
    ("topk", top),
    ("kthvalue", ranked),
    ("median_dim", ranked),
    ("nanmedian_dim", ranked),
    ("median", ranked),
    ("nanmedian", ranked),
    ("mode", mode),
    ("quantile", quantile),
    ("nanquantile", quantile),
    ("cummax", running),
    ("cummin", running),
    ("searchsorted", search),
    ("bucketize", search),
];

/// Puts an axis last, in a contiguous value; returns it and the order of axes that undoes this.
fn last(l: &mut Lowering<'_>, x: &View, axis: usize) -> (View, Vec<usize>) {
    let mut order: Vec<usize> = (0..x.rank()).filter(|other| *other != axis).collect();
    order.push(axis);
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, axis)| back[*axis] = i);
    (l.contiguous(&x.permute(&order)), back)
}

/// Returns the value with the axes of the result of an operation on a value of this rank.
fn with_rank(view: View, rank: usize) -> Value {
    Arg::Leaf(if rank == 0 { View { shape: Vec::new(), strides: Vec::new(), ..view } } else { view })
}

fn sort(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let rank = x.rank();
    let (x, axis) = match args.op.name {
        "msort" => line_along(l, x, 0)?,
        _ => line(l, args, x)?,
    };
    let (x, back) = last(l, &x, axis);
    let n = x.shape[x.rank() - 1].clone();
    let (sorted, out) = l.out(x.dtype, &x.shape);
    let (index, places) = l.out(DType::I64, &x.shape);
    let spare = l.spare(DType::I64, n.clone());
    let descending = args.has("descending") && args.flag("descending")?;
    l.call("sort::sort", vec![read(&x), size(&n), text(descending.to_string()), out, places, spare]);
    let (sorted, index) = (with_rank(sorted.permute(&back), rank), with_rank(index.permute(&back), rank));
    Ok(match args.op.name {
        "argsort" => index,
        "msort" => sorted,
        _ => Arg::tuple([sorted, index]),
    })
}

fn top(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let rank = x.rank();
    let (x, axis) = line(l, args, x)?;
    let (x, back) = last(l, &x, axis);
    let (n, k) = (x.shape[x.rank() - 1].clone(), args.size("k")?);
    l.require(k.clone());
    l.require(&n - &k);
    let mut shape = x.shape.clone();
    shape[x.rank() - 1] = k.clone();
    let (values, out) = l.out(x.dtype, &shape);
    let (index, places) = l.out(DType::I64, &shape);
    let order = l.spare(DType::I64, n.clone());
    let [largest, sorted] = ["largest", "sorted"].map(|name| args.flag(name));
    let [largest, sorted] = [largest?, sorted?].map(|flag| text(flag.to_string()));
    l.call("sort::top", vec![read(&x), size(&n), size(&k), largest, sorted, out, places, order]);
    Ok(Arg::tuple([with_rank(values.permute(&back), rank), with_rank(index.permute(&back), rank)]))
}

/// Returns a value with an axis that an operation works along, of one element if it has none.
fn line_along(l: &mut Lowering<'_>, x: &View, axis: i64) -> Result<(View, usize)> {
    if x.rank() > 0 {
        return Ok((x.clone(), front(axis, x.rank())?));
    }
    let dense = l.contiguous(x);
    Ok((View { offset: dense.offset, ..View::whole(dense.home, x.dtype, &[count(&x.shape)]) }, 0))
}

/// Returns the only axis that an operation works on and its operand, of one axis if it works on all of them.
fn line(l: &mut Lowering<'_>, args: &Args<'_>, x: &View) -> Result<(View, usize)> {
    if args.has("dim") && !args.is_none("dim")? && x.rank() > 0 {
        let axis = front(args.int("dim")?, x.rank())?;
        return Ok((x.clone(), axis));
    }
    let dense = l.contiguous(x);
    Ok((View { offset: dense.offset, ..View::whole(dense.home, x.dtype, &[count(&x.shape)]) }, 0))
}

/// Takes the element of a rank among those along an axis.
fn ranked(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let (x, axis) = line(l, args, x)?;
    let (x, _) = last(l, &x, axis);
    let n = x.shape[x.rank() - 1].clone();
    if let ("median" | "nanmedian", Some(0)) = (args.op.name, n.known()) {
        // PyTorch's value for none: NaN, or the least integer, which is 0 in narrow types.
        let none = if x.dtype.is_float() { Scalar::Float(f64::NAN) } else { Scalar::Int(i64::MIN) };
        let (view, out) = l.out(x.dtype, &[]);
        l.call("copy::fill", vec![text(number(none, x.dtype)), out]);
        return Ok(Arg::Leaf(view));
    }
    l.require(&n - 1);
    let rank = match args.op.name {
        "kthvalue" => {
            let k = args.int("k")?;
            l.require(&n - k);
            format!("sort::Rank::At({})", k - 1)
        }
        "median" | "median_dim" => "sort::Rank::Median".to_owned(),
        _ => "sort::Rank::MedianOfNumbers".to_owned(),
    };
    let results = args.results();
    let Some((dtype, shape)) = results.first() else { bail!(Unresolved, "it has no result") };
    let (sorted, spare) = (l.spare(DType::I64, n.clone()), l.spare(DType::I64, n.clone()));
    let (values, out) = l.out(*dtype, shape);
    let (index, places) = l.out(DType::I64, shape);
    l.call("sort::ranked", vec![read(&x), size(&n), text(rank), sorted, spare, out, places]);
    Ok(match results.len() {
        1 => Arg::Leaf(values),
        _ => Arg::tuple([Arg::Leaf(values), Arg::Leaf(index)]),
    })
}

/// Takes the most frequent element along an axis.
fn mode(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let (x, axis) = line(l, args, x)?;
    let (x, _) = last(l, &x, axis);
    let n = x.shape[x.rank() - 1].clone();
    l.require(&n - 1);
    let results = args.results();
    let Some((dtype, shape)) = results.first() else { bail!(Unresolved, "it has no result") };
    let order = l.spare(DType::I64, n.clone());
    let (values, out) = l.out(*dtype, shape);
    let (index, places) = l.out(DType::I64, shape);
    l.call("sort::modes", vec![read(&x), size(&n), order, out, places]);
    Ok(Arg::tuple([Arg::Leaf(values), Arg::Leaf(index)]))
}

fn quantile(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    args.expect_float(x)?;
    let (dtype, shape) = args.result()?;
    let between = match args.text("interpolation")? {
        "linear" => "Linear",
        "lower" => "Lower",
        "higher" => "Higher",
        "nearest" => "Nearest",
        "midpoint" => "Midpoint",
        other => bail!(Unresolved, "its interpolation is {other:?}"),
    };
    let (x, axis) = line(l, args, x)?;
    let (x, _) = last(l, &x, axis);
    let n = x.shape[x.rank() - 1].clone();
    l.require(&n - 1);
    let q = match args.get("q")? {
        Arg::Leaf(q) => {
            let q = l.contiguous(q);
            l.refuse(&q, "!(0.0..=1.0).contains(&x)", "a quantile is not from 0 to 1");
            read(&q)
        }
        q => {
            let q = q.scalar().ok_or_else(|| err!(Unresolved, "q is {}", q.kind_name()))?.to_f64();
            if !(0.0..=1.0).contains(&q) {
                bail!(Argument, "expected q from 0 to 1, got {q}");
            }
            text(format!("&[{}]", number(Scalar::Float(q), dtype)))
        }
    };
    let skips = text((args.op.name == "nanquantile").to_string());
    let (sorted, spare) = (l.spare(DType::I64, n.clone()), l.spare(DType::I64, n.clone()));
    let (view, out) = l.out(dtype, &shape);
    let between = text(format!("sort::Between::{between}"));
    l.call("sort::quantiles", vec![read(&x), size(&n), q, between, skips, sorted, spare, out]);
    Ok(Arg::Leaf(view))
}

/// Writes running extrema with their positions.
fn running(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let results = args.results();
    let Some((dtype, shape)) = results.first() else { bail!(Unresolved, "it has no result") };
    let dense = l.contiguous(x);
    let (n, inner) = match x.rank() {
        0 => (Dim::new(1), Dim::new(1)),
        rank => {
            let (_, n, inner) = around(&dense, args.axis("dim", rank)?);
            (n, inner)
        }
    };
    let better = if args.op.name == "cummax" { "|x, best| x >= best" } else { "|x, best| x <= best" };
    let (values, out) = l.out(*dtype, shape);
    let (index, places) = l.out(DType::I64, shape);
    l.call("scan::extrema", vec![read(&dense), size(&n), size(&inner), text(better), out, places]);
    Ok(Arg::tuple([Arg::Leaf(values), Arg::Leaf(index)]))
}

/// Writes a search in sorted sequences.
fn search(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let is_bucketize = args.op.name == "bucketize";
    let sequence = args.view(if is_bucketize { "boundaries" } else { "sorted_sequence" })?;
    let (dtype, shape) = args.result()?;
    let input = args.get("input")?;
    let within = match input {
        Arg::Leaf(input) if input.rank() == 0 && input.dtype.category() <= sequence.dtype.category() => {
            sequence.dtype
        }
        Arg::Leaf(input) => input.dtype.promote(sequence.dtype),
        input => match input.scalar() {
            Some(x) if x.category() > sequence.dtype.category() => DType::F32,
            Some(_) => sequence.dtype,
            None => bail!(Unresolved, "its input is {}", input.kind_name()),
        },
    };
    let sequence = l.converted(sequence, within)?;
    let sequence = l.contiguous(&sequence);
    let right =
        args.flag("right")? || matches!(args.get("side").ok(), Some(Arg::Str(side)) if **side == *"right");
    let (input, wanted) = match input {
        Arg::Leaf(input) => {
            let input = l.converted(input, within)?;
            let input = l.contiguous(&input);
            (read(&input), input.shape)
        }
        input => {
            let x = input.scalar().unwrap_or(Scalar::Int(0));
            (text(format!("&[{}]", number(x, within))), Vec::new())
        }
    };
    let sorter = match args.has("sorter") && !args.is_none("sorter")? {
        true => Some(read(&l.contiguous(args.view("sorter")?))),
        false => None,
    };
    let n = sequence.shape[sequence.rank() - 1].clone();
    // All values are searched in one row, or those of each row in its own.
    let width = if sequence.rank() == 1 { count(&wanted) } else { wanted[wanted.len() - 1].clone() };
    let (found, out) = l.out(DType::I64, &shape);
    let pieces =
        vec![read(&sequence), size(&n), optional(sorter), input, size(&width), text(right.to_string()), out];
    l.call_checked("sort::search", pieces);
    l.converted(&found, dtype).map(Arg::Leaf)
}
