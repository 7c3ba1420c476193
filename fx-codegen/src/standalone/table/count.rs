//! Histograms, counts and distinct elements.

use fx_core::{Arg, DType, Dim, Result, bail};

use super::{Args, Emit, number, read, real, text};
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Piece, Pieces, Source};
use crate::standalone::value::{Value, View, count};

pub(super) const TABLE: &[(&str, Emit)] =
    &[("histc", histc), ("bincount", bincount), ("unique", unique), ("unique_consecutive", unique)];

fn written(view: &View) -> Pieces {
    vec![Piece::WriteView(view.clone())]
}

fn histc(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let (least, greatest) = (args.float("min")?, args.float("max")?);
    if least > greatest {
        bail!(Argument, "max is {greatest}, below min");
    }
    // Halves are counted in f32.
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let x = l.converted(args.view("x")?, wide)?;
    let x = l.contiguous(&x);
    let (view, out) = l.out(wide, &shape);
    l.call_fallible("count::histc", vec![read(&x), real(least), real(greatest), out]);
    l.converted(&view, dtype).map(Arg::Leaf)
}

fn bincount(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let Some(ty) = args.ty.tensor() else { bail!(Unresolved, "its result is {}", args.ty) };
    let dtype = ty.dtype;
    let x = l.converted(args.view("x")?, DType::I64)?;
    let x = l.contiguous(&x);
    let n = l.buffer(DType::I64, &[]);
    let least = args.int("minlength")?;
    l.call_fallible("count::bins", vec![read(&x), text(format!("{least}_i64")), written(&n)]);
    let symbol = l.local("bins", least, None);
    l.bind(vec![(symbol.clone(), Source::Element(n))]);
    let (view, out) = l.out(dtype, &[Dim::symbol(symbol)]);
    let zero = text(number(fx_core::Scalar::Int(0), dtype));
    let weight = match args.opt_view("weights")? {
        None => text("|_| 1_i64"),
        Some(weights) => {
            let weights = l.converted(weights, dtype)?;
            let weights = l.contiguous(&weights);
            [text("|i| ("), read(&weights), text(")[i]")].concat()
        }
    };
    l.call("count::tally", vec![read(&x), weight, text("|sum, x| sum + x"), zero, out]);
    l.adopted(&Arg::Leaf(view), args.ty)
}

fn unique(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    if !args.is_none("dim")? {
        bail!(Unresolved, "sub-tensors along an axis have no stand-alone code");
    }
    let x = l.contiguous(args.view("x")?);
    let n = count(&x.shape);
    let (order, spare) = (l.spare(DType::I64, n.clone()), l.spare(DType::I64, n.clone()));
    let [first, counts] = [(); 2].map(|()| l.buffer(DType::I64, std::slice::from_ref(&n)));
    let (inverse, found) = (l.buffer(DType::I64, &x.shape), l.buffer(DType::I64, &[]));
    let neighbours = text((args.op.name == "unique_consecutive").to_string());
    let results = [&first, &inverse, &counts, &found].map(written);
    l.call("count::unique", [vec![read(&x), neighbours, order, spare], results.to_vec()].concat());
    let symbol = l.local("found", 0, n.bounds().1);
    l.bind(vec![(symbol.clone(), Source::Element(found))]);
    let shape = vec![Dim::symbol(symbol)];
    let [first, counts] = [first, counts].map(|view| View { shape: shape.clone(), ..view });
    let (values, out) = l.out(x.dtype, &shape);
    l.call("copy::take", vec![read(&x), read(&first), out]);
    let mut results = vec![Arg::Leaf(values)];
    if args.flag("return_inverse")? {
        results.push(Arg::Leaf(inverse));
    }
    if args.flag("return_counts")? {
        results.push(Arg::Leaf(counts));
    }
    let value = if results.len() == 1 { results.swap_remove(0) } else { Arg::tuple(results) };
    l.adopted(&value, args.ty)
}
