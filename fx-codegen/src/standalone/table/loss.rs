//! Losses that other operations do not compose.

use fx_core::{Arg, DType, Dim, Result, bail};

use super::{Args, Emit, read, size};
use crate::standalone::lower::Lowering;
use crate::standalone::value::Value;

pub(super) const TABLE: &[(&str, Emit)] = &[("multilabel_margin_loss", multilabel_margin)];

/// Writes the losses of all rows; means and sums are composed.
fn multilabel_margin(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, target) = (args.view("x")?, args.view("target")?);
    args.expect_float(x)?;
    if args.text("reduction")? != "none" {
        bail!(Unresolved, "its losses are reduced");
    }
    let (dtype, shape) = args.result()?;
    let n = x.shape.last().cloned().unwrap_or(Dim::new(1));
    let target = l.converted(target, DType::I64)?;
    let (x, target) = (l.contiguous(x), l.contiguous(&target));
    let is_own = l.spare(DType::Bool, n.clone());
    let (view, out) = l.out(dtype, &shape);
    l.call_checked("margin::multilabel", vec![read(&x), read(&target), size(&n), is_own, out]);
    Ok(Arg::Leaf(view))
}
