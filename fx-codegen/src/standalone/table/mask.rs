//! Where elements are not zero: as many results as the data say.

use fx_core::{Arg, DType, Dim, Result, Type, bail};

use super::{Args, Emit, read, size};
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Piece, Source};
use crate::standalone::value::{Value, View, count};

pub(super) const TABLE: &[(&str, Emit)] =
    &[("nonzero", nonzero), ("argwhere", nonzero), ("masked_select", masked_select)];

/// Finds the elements that are not zero: their positions among all, in row-major order.
fn found(l: &mut Lowering<'_>, mask: &View) -> Result<View> {
    let mask = l.converted(mask, DType::Bool)?;
    let mask = l.contiguous(&mask);
    let n = l.buffer(DType::I64, &[]);
    l.call("lookup::count", vec![read(&mask), vec![Piece::WriteView(n.clone())]]);
    let most = count(&mask.shape).bounds().1;
    let symbol = l.local("found", 0, most);
    l.bind(vec![(symbol.clone(), Source::Element(n))]);
    let at = l.buffer(DType::I64, &[Dim::symbol(symbol)]);
    l.call("lookup::find", vec![read(&mask), vec![Piece::WriteView(at.clone())]]);
    Ok(at)
}

/// Finds the elements that are not zero: their positions along each axis; one of rank 0 has one axis.
pub(super) fn coordinates(l: &mut Lowering<'_>, mask: &View) -> Result<Vec<View>> {
    let at = found(l, mask)?;
    let shape = if mask.rank() == 0 { vec![Dim::new(1)] } else { mask.shape.clone() };
    let mut all = Vec::with_capacity(shape.len());
    for axis in 0..shape.len() {
        let along = l.buffer(DType::I64, &at.shape);
        let (step, out) = (count(&shape[axis + 1..]), vec![Piece::WriteView(along.clone())]);
        l.call("lookup::coordinate", vec![read(&at), size(&step), size(&shape[axis]), out]);
        all.push(along);
    }
    Ok(all)
}

fn nonzero(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    if args.has("as_tuple") && args.flag("as_tuple")? {
        let all = coordinates(l, x)?;
        return l.adopted(&Arg::tuple(all.into_iter().map(Arg::Leaf)), args.ty);
    }
    let all = if x.rank() == 0 { vec![found(l, x)?] } else { coordinates(l, x)? };
    let out = l.buffer(DType::I64, &[all[0].shape[0].clone(), Dim::from(x.rank())]);
    for (axis, along) in all.iter().enumerate().take(x.rank()) {
        let to = View {
            shape: along.shape.clone(),
            strides: vec![out.strides[0].clone()],
            offset: Dim::from(axis),
            ..out.clone()
        };
        l.copy(along, &to);
    }
    l.adopted(&Arg::Leaf(out), args.ty)
}

fn masked_select(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, mask) = (args.view("x")?, args.view("mask")?);
    let Some(Type::Tensor(_)) = args.ty.leaf() else { bail!(Unresolved, "its result is {}", args.ty) };
    let shape = super::index::broadcast(&[&x.shape, &mask.shape]);
    let wide = |view: &View| View { shape: shape.clone(), strides: view.broadcast(&shape), ..view.clone() };
    let at = found(l, &wide(mask))?;
    let from = l.contiguous(&wide(x));
    let (view, out) = l.out(x.dtype, &at.shape);
    l.call("copy::take", vec![read(&from), read(&at), out]);
    l.adopted(&Arg::Leaf(view), args.ty)
}
