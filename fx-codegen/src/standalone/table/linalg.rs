//! Decompositions of matrices, and what follows from them.

use fx_core::{Arg, Dim, Result, bail};

use super::{Args, Emit, optional, read, size};
use crate::standalone::lower::Lowering;
use crate::standalone::step::Pieces;
use crate::standalone::value::{Value, View};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("linalg_inv", inverse),
    ("linalg_solve", solve),
    ("linalg_det", determinant),
    ("linalg_slogdet", determinant),
    ("linalg_cholesky", cholesky),
];

/// Returns square matrices in row-major order, their side, and room for one of them.
fn matrices(l: &mut Lowering<'_>, x: &View) -> Result<(View, Dim, Pieces)> {
    let [.., n, _] = &x.shape[..] else { bail!(Unresolved, "its operand has no matrices") };
    let (x, n) = (l.contiguous(x), n.clone());
    let work = l.spare(x.dtype, &n * &n);
    Ok((x, n, work))
}

/// Returns the value with its last two axes exchanged.
fn turned(x: &View) -> View {
    let mut order: Vec<usize> = (0..x.rank()).collect();
    order.swap(x.rank() - 2, x.rank() - 1);
    x.permute(&order)
}

fn inverse(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let (x, n, work) = matrices(l, args.view("x")?)?;
    let (view, out) = l.out(dtype, &shape);
    l.call_fallible("linalg::solve", vec![read(&x), size(&n), optional(None), size(&n), work, out]);
    Ok(Arg::Leaf(view))
}

fn solve(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, other) = (args.view("x")?, args.view("other")?);
    let (dtype, shape) = args.result()?;
    let left = args.flag("left")?;
    // Vectors are matrices of one column.
    let is_vector = other.rank() == 1 || other.shape[..] == x.shape[..x.rank() - 1];
    let [x, other] = match (is_vector, left) {
        (true, _) => {
            let (mut shape, mut strides) = (other.shape.clone(), other.strides.clone());
            shape.push(Dim::new(1));
            strides.push(Dim::new(1));
            [x.clone(), View { shape, strides, ..other.clone() }]
        }
        (false, true) => [x.clone(), other.clone()],
        (false, false) => [turned(x), turned(other)],
    };
    let [batch_x, batch_b] = [&x, &other].map(|view| &view.shape[..view.rank() - 2]);
    let batch = super::index::broadcast(&[batch_x, batch_b]);
    let wide = |view: &View| {
        let shape: Vec<Dim> = batch.iter().chain(&view.shape[view.rank() - 2..]).cloned().collect();
        View { strides: view.broadcast(&shape), shape, ..view.clone() }
    };
    let ((x, n, work), other) = (matrices(l, &wide(&x))?, l.contiguous(&wide(&other)));
    let m = other.shape[other.rank() - 1].clone();
    let (view, out) = l.out(dtype, &other.shape);
    l.call_fallible(
        "linalg::solve",
        vec![read(&x), size(&n), optional(Some(read(&other))), size(&m), work, out],
    );
    Ok(Arg::Leaf(match (is_vector, left) {
        (true, _) => View { strides: view.strides[..shape.len()].to_vec(), shape, ..view },
        (false, true) => view,
        (false, false) => turned(&view),
    }))
}

fn determinant(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, n, work) = matrices(l, args.view("x")?)?;
    let shape = &x.shape[..x.rank() - 2];
    let (first, out) = l.out(x.dtype, shape);
    if args.op.name == "linalg_det" {
        l.call("linalg::det", vec![read(&x), size(&n), work, out]);
        return Ok(Arg::Leaf(first));
    }
    let (second, logs) = l.out(x.dtype, shape);
    l.call("linalg::slogdet", vec![read(&x), size(&n), work, out, logs]);
    Ok(Arg::tuple([first, second].map(Arg::Leaf)))
}

fn cholesky(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let x = l.contiguous(args.view("x")?);
    let n = x.shape[x.rank() - 1].clone();
    let (view, out) = l.out(dtype, &shape);
    l.call_fallible("linalg::cholesky", vec![read(&x), size(&n), out]);
    Ok(Arg::Leaf(if args.flag("upper")? { turned(&view) } else { view }))
}
