//! Fourier transforms. Complex numbers are pairs in an additional last axis.

use fx_core::{Arg, DType, Dim, Result, bail};

use super::{Args, Emit, read, real, size, text, wrap};
use crate::standalone::kernels;
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Pieces, Room};
use crate::standalone::value::{Value, View};

pub(super) const TABLE: &[(&str, Emit)] =
    &[("_fft_c2c", complex), ("_fft_r2c", forward), ("_fft_c2r", backward)];

const WORK: Room = Room { path: "fft::work", of: |sizes| kernels::fft::work(sizes[0]) };

/// Returns the operand in the dtype that is computed.
fn operand(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<View> {
    let x = args.view("x")?;
    l.converted(x, if x.dtype == DType::F64 { DType::F64 } else { DType::F32 })
}

/// Returns the axes of the transforms of a signal with so many axes.
fn axes(args: &Args<'_>, rank: usize) -> Result<Vec<usize>> {
    let Some(axes) = args.ints("dim")? else { bail!(Unresolved, "it has no axes") };
    axes.into_iter().map(|axis| super::front(axis, rank)).collect()
}

/// Writes the scale of transforms of signals of these sizes.
fn scale(args: &Args<'_>, sizes: impl Iterator<Item = Dim>) -> Result<Pieces> {
    let n = size(&sizes.fold(Dim::new(1), |n, size| &n * &size));
    Ok(match args.int("normalization")? {
        0 => real(1.0),
        1 => wrap("1.0 / math::sqrt((", n, ") as f64)"),
        _ => wrap("1.0 / (", n, ") as f64"),
    })
}

/// Puts an axis behind the others that are no pairs, in a contiguous value; returns it and the order of axes that
/// undoes this.
fn last(l: &mut Lowering<'_>, x: &View, axis: usize, pairs: usize) -> (View, Vec<usize>) {
    let n = x.rank() - pairs;
    let order: Vec<usize> = (0..n).filter(|other| *other != axis).chain([axis]).chain(n..x.rank()).collect();
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, axis)| back[*axis] = i);
    (l.contiguous(&x.permute(&order)), back)
}

/// Transforms pairs along axes; the last transform multiplies.
fn along(l: &mut Lowering<'_>, x: View, axes: &[usize], inverse: bool, scale: Option<&Pieces>) -> View {
    let mut x = x;
    for (i, &axis) in axes.iter().enumerate() {
        let (rows, back) = last(l, &x, axis, 1);
        let n = x.shape[axis].clone();
        let work = l.work(x.dtype, WORK, vec![n.clone()]);
        let (view, out) = l.out(x.dtype, &rows.shape);
        let scale = scale.filter(|_| i + 1 == axes.len()).cloned().unwrap_or_else(|| real(1.0));
        let args = vec![read(&rows), size(&n), text(inverse.to_string()), scale, work, out];
        l.call("fft::complex", args);
        x = view.permute(&back);
    }
    x
}

fn complex(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, _) = args.result()?;
    let x = operand(l, args)?;
    let axes = axes(args, x.rank() - 1)?;
    let scale = scale(args, axes.iter().map(|axis| x.shape[*axis].clone()))?;
    let out = along(l, x, &axes, !args.flag("forward")?, Some(&scale));
    l.converted(&out, dtype).map(Arg::Leaf)
}

fn forward(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let x = operand(l, args)?;
    let axes = axes(args, x.rank())?;
    let Some((&axis, others)) = axes.split_last() else { bail!(Unresolved, "it has no axes") };
    let scale = scale(args, axes.iter().map(|axis| x.shape[*axis].clone()))?;
    let (rows, mut back) = last(l, &x, axis, 0);
    let (n, frequencies) = (x.shape[axis].clone(), shape[axis].clone());
    let mut halves = rows.shape[..rows.rank() - 1].to_vec();
    halves.extend([frequencies.clone(), Dim::new(2)]);
    let work = l.work(x.dtype, WORK, vec![n.clone()]);
    let (view, out) = l.out(x.dtype, &halves);
    l.call("fft::real", vec![read(&rows), size(&n), size(&frequencies), scale, work, out]);
    back.push(x.rank());
    let out = along(l, view.permute(&back), others, false, None);
    l.converted(&out, dtype).map(Arg::Leaf)
}

fn backward(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let x = operand(l, args)?;
    let axes = axes(args, x.rank() - 1)?;
    let Some((&axis, others)) = axes.split_last() else { bail!(Unresolved, "it has no axes") };
    let scale = scale(args, axes.iter().map(|axis| shape[*axis].clone()))?;
    let x = along(l, x, others, true, None);
    let (rows, mut back) = last(l, &x, axis, 1);
    back.pop();
    let (frequencies, n) = (x.shape[axis].clone(), shape[axis].clone());
    let mut signals = rows.shape[..rows.rank() - 2].to_vec();
    signals.push(n.clone());
    let work = l.work(x.dtype, WORK, vec![n.clone()]);
    let (view, out) = l.out(x.dtype, &signals);
    l.call("fft::to_real", vec![read(&rows), size(&frequencies), size(&n), scale, work, out]);
    let out = view.permute(&back);
    l.converted(&out, dtype).map(Arg::Leaf)
}
