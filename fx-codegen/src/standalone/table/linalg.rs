//! Decompositions of matrices, and what follows from them.

use fx_core::{Arg, DType, Dim, Result, bail};

use super::{Args, Emit, optional, read, size, text};
use crate::standalone::lower::Lowering;
use crate::standalone::step::Pieces;
use crate::standalone::value::{Value, View};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("linalg_inv", inverse),
    ("linalg_solve", solve),
    ("linalg_det", determinant),
    ("linalg_slogdet", determinant),
    ("linalg_cholesky", cholesky),
    ("linalg_lu_factor", |l, args| lu(l, args).map(|(lu, pivots)| Arg::tuple([lu, pivots].map(Arg::Leaf)))),
    ("linalg_lu", |l, args| {
        let (lu, pivots) = lu(l, args)?;
        triangles(l, &lu, &pivots)
    }),
    ("lu_unpack", |l, args| triangles(l, args.view("x")?, args.view("pivots")?)),
    ("linalg_lu_solve", solve_lu),
    ("linalg_matrix_exp", exponential),
    ("geqrf", reflections),
    ("linalg_householder_product", householder),
    ("linalg_qr", qr),
    ("linalg_eigh", eigen),
    ("linalg_eigvalsh", eigen),
    ("linalg_svd", svd),
    ("linalg_svdvals", svd),
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

/// Returns a value whose last axes, `tail` of them, are repeated over a batch.
fn spread(view: &View, batch: &[Dim], tail: usize) -> View {
    let shape: Vec<Dim> = batch.iter().chain(&view.shape[view.rank() - tail..]).cloned().collect();
    View { strides: view.broadcast(&shape), shape, ..view.clone() }
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
    let (x, n, work) = matrices(l, &spread(&x, &batch, 2))?;
    let other = l.contiguous(&spread(&other, &batch, 2));
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

/// Matrices in row-major order.
struct Matrices {
    view: View,
    batch: Vec<Dim>,
    count: Dim,
    rows: Dim,
    columns: Dim,
}

impl Matrices {
    fn new(l: &mut Lowering<'_>, x: &View) -> Result<Matrices> {
        let [batch @ .., rows, columns] = &x.shape[..] else {
            bail!(Unresolved, "its operand has no matrices")
        };
        Ok(Matrices {
            view: l.contiguous(x),
            batch: batch.to_vec(),
            count: batch.iter().fold(Dim::new(1), |count, size| &count * size),
            rows: rows.clone(),
            columns: columns.clone(),
        })
    }

    fn least(&self) -> Dim {
        self.rows.min(&self.columns)
    }

    /// Returns the sizes of a result with as many matrices.
    fn shape<const N: usize>(&self, sizes: [&Dim; N]) -> Vec<Dim> {
        self.batch.iter().chain(sizes).cloned().collect()
    }
}

/// Writes a tuple of sizes.
fn sizes<const N: usize>(sizes: [&Dim; N]) -> Pieces {
    let mut pieces = text("(");
    for (i, dim) in sizes.into_iter().enumerate() {
        pieces.extend(text(if i > 0 { ", " } else { "" }));
        pieces.extend(size(dim));
    }
    pieces.extend(text(")"));
    pieces
}

fn flag(flag: bool) -> Pieces {
    text(if flag { "true" } else { "false" })
}

/// Returns the triangles in one matrix, and the pivots.
fn lu(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<(View, View)> {
    let x = Matrices::new(l, args.view("x")?)?;
    let (lu, out) = l.out(x.view.dtype, &x.view.shape);
    let (pivots, pivots_out) = l.out(DType::I32, &x.shape([&x.least()]));
    let pivot = flag(args.flag("pivot")?);
    let matrix = sizes([&x.rows, &x.columns]);
    l.call("linalg::lu", vec![read(&x.view), size(&x.count), matrix, pivot, out, pivots_out]);
    Ok((lu, pivots))
}

/// Returns pivots in row-major order.
fn pivots_of(l: &mut Lowering<'_>, pivots: &View) -> Result<View> {
    if pivots.dtype != DType::I32 {
        bail!(Unresolved, "its pivots are {}", pivots.dtype);
    }
    Ok(l.contiguous(pivots))
}

fn triangles(l: &mut Lowering<'_>, lu: &View, pivots: &View) -> Result<Value> {
    let (x, pivots) = (Matrices::new(l, lu)?, pivots_of(l, pivots)?);
    let (dtype, k) = (lu.dtype, x.least());
    let shapes = [[&x.rows, &x.rows], [&x.rows, &k], [&k, &x.columns]];
    let [(p, p_out), (lower, lower_out), (upper, upper_out)] =
        shapes.map(|shape| l.out(dtype, &x.shape(shape)));
    let matrix = sizes([&x.rows, &x.columns]);
    l.call_fallible(
        "linalg::unpack",
        vec![read(&x.view), read(&pivots), size(&x.count), matrix, p_out, lower_out, upper_out],
    );
    Ok(Arg::tuple([p, lower, upper].map(Arg::Leaf)))
}

fn solve_lu(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, pivots, other) = (args.view("x")?, args.view("pivots")?, args.view("other")?);
    let (left, adjoint) = (args.flag("left")?, args.flag("adjoint")?);
    // y @ a = b is a.T @ y.T = b.T.
    let other = if left { other.clone() } else { turned(other) };
    let batch = super::index::broadcast(&[&x.shape[..x.rank() - 2], &other.shape[..other.rank() - 2]]);
    let (a, b) = (Matrices::new(l, &spread(x, &batch, 2))?, Matrices::new(l, &spread(&other, &batch, 2))?);
    let pivots = pivots_of(l, &spread(pivots, &batch, 1))?;
    let (view, out) = l.out(x.dtype, &b.view.shape);
    let matrix = sizes([&b.rows, &b.columns]);
    let is_adjoint = flag(adjoint == left);
    l.call_fallible(
        "linalg::solve_lu",
        vec![read(&a.view), read(&pivots), size(&a.count), matrix, is_adjoint, read(&b.view), out],
    );
    Ok(Arg::Leaf(if left { view } else { turned(&view) }))
}

fn exponential(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = Matrices::new(l, args.view("x")?)?;
    let work = l.spare(x.view.dtype, &(&x.rows * &x.rows) * 2);
    let (view, out) = l.out(x.view.dtype, &x.view.shape);
    l.call("linalg::exponential", vec![read(&x.view), size(&x.count), size(&x.rows), work, out]);
    Ok(Arg::Leaf(view))
}

fn reflections(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = Matrices::new(l, args.view("x")?)?;
    let dtype = x.view.dtype;
    let work = l.spare(dtype, &x.rows + &x.columns);
    let (view, out) = l.out(dtype, &x.view.shape);
    let (tau, tau_out) = l.out(dtype, &x.shape([&x.least()]));
    let [m, n] = [&x.rows, &x.columns].map(size);
    l.call("factor::geqrf", vec![read(&x.view), size(&x.count), m, n, work, out, tau_out]);
    Ok(Arg::tuple([view, tau].map(Arg::Leaf)))
}

fn householder(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, tau) = (Matrices::new(l, args.view("x")?)?, args.view("tau")?);
    let tau = l.contiguous(tau);
    let work = l.spare(x.view.dtype, &x.rows + &x.columns);
    let (view, out) = l.out(x.view.dtype, &x.view.shape);
    let matrix = sizes([&x.rows, &x.columns, &tau.shape[tau.rank() - 1]]);
    l.call("factor::householder", vec![read(&x.view), read(&tau), size(&x.count), matrix, work, out]);
    Ok(Arg::Leaf(view))
}

fn qr(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = Matrices::new(l, args.view("x")?)?;
    let (dtype, mode) = (x.view.dtype, args.text("mode")?);
    let k = if mode == "complete" { x.rows.clone() } else { x.least() };
    let room = &(&(&x.rows * &x.columns) + &x.least()) + &(&x.rows + &x.columns.max(&k));
    let work = l.spare(dtype, room);
    let q_shape = if mode == "r" { vec![Dim::new(0)] } else { x.shape([&x.rows, &k]) };
    let (q, q_out) = l.out(dtype, &q_shape);
    let (r, r_out) = l.out(dtype, &x.shape([&k, &x.columns]));
    let matrix = sizes([&x.rows, &x.columns, &k]);
    l.call("factor::qr", vec![read(&x.view), size(&x.count), matrix, work, q_out, r_out]);
    Ok(Arg::tuple([q, r].map(Arg::Leaf)))
}

fn eigen(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = Matrices::new(l, args.view("x")?)?;
    let (dtype, n) = (x.view.dtype, &x.rows);
    let is_lower = flag(args.text("uplo")?.eq_ignore_ascii_case("L"));
    let work = l.spare(dtype, &(&(n * n) * 2) + &(n * 3));
    let (values, values_out) = l.out(dtype, &x.shape([n]));
    let vectors = (args.op.name == "linalg_eigh").then(|| l.out(dtype, &x.view.shape));
    let (vectors, vectors_out) = vectors.unzip();
    let call =
        vec![read(&x.view), size(&x.count), size(n), is_lower, work, values_out, optional(vectors_out)];
    l.call_fallible("factor::eigh", call);
    Ok(match vectors {
        Some(vectors) => Arg::tuple([values, vectors].map(Arg::Leaf)),
        None => Arg::Leaf(values),
    })
}

fn svd(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = Matrices::new(l, args.view("x")?)?;
    let (dtype, k) = (x.view.dtype, x.least());
    let has_vectors = args.op.name == "linalg_svd";
    let (columns, rows) = match has_vectors && args.flag("full_matrices")? {
        true => (x.rows.clone(), x.columns.clone()),
        false => (k.clone(), k.clone()),
    };
    let long = x.rows.max(&x.columns);
    let vectors = &(&columns.max(&rows) + &k) * &long;
    let work = l.spare(dtype, &vectors + &(&(&k * 2 + 3) * &k));
    let (values, values_out) = l.out(dtype, &x.shape([&k]));
    let vectors = has_vectors
        .then(|| [[&x.rows, &columns], [&rows, &x.columns]].map(|shape| l.out(dtype, &x.shape(shape))));
    let matrix = sizes([&x.rows, &x.columns, &columns, &rows]);
    let (result, out) = match vectors {
        None => (Arg::Leaf(values), text("None")),
        Some([(left, left_out), (right, right_out)]) => {
            let out = [text("Some(("), left_out, text(", "), right_out, text("))")].concat();
            (Arg::tuple([left, values, right].map(Arg::Leaf)), out)
        }
    };
    l.call_fallible("factor::svd", vec![read(&x.view), size(&x.count), matrix, work, values_out, out]);
    Ok(result)
}
