//! Rows that draw random numbers. The model has a generator, which it seeds as `fx::manual_seed` does.

use fx_core::{Arg, DType, Dim, Result, Scalar};

use super::{Args, Emit, number, read, real, text};
use crate::standalone::lower::Lowering;
use crate::standalone::step::{Piece, Pieces};
use crate::standalone::value::{Value, View};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("bernoulli", bernoulli),
    ("dropout", dropout),
    ("rand", uniform),
    ("rand_like", uniform),
    ("randint", integers),
    ("randn", normal),
    ("randn_like", normal),
    ("randperm", permutation),
];

/// The generator of the model.
fn generator() -> Pieces {
    text("&mut s.generator")
}

impl Lowering<'_> {
    /// Draws numbers of a dtype into a tensor of another one.
    fn drawn(
        &mut self,
        function: &str,
        drawn: DType,
        args: Vec<Pieces>,
        (dtype, shape): (DType, Vec<Dim>),
    ) -> Result<View> {
        let (view, out) = self.out(drawn, &shape);
        self.call(function, [vec![generator()], args, vec![out]].concat());
        self.converted(&view, dtype)
    }
}

fn uniform(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let grid = match dtype {
        // As many as a half holds below 1, so that rounding never reaches 1.
        DType::F16 => 2048,
        DType::BF16 => 256,
        _ => return l.drawn("random::uniform", dtype, Vec::new(), (dtype, shape)).map(Arg::Leaf),
    };
    let grid = vec![text(grid.to_string())];
    l.drawn("random::uniform_on_grid", DType::F32, grid, (dtype, shape)).map(Arg::Leaf)
}

fn normal(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    l.drawn("random::normal", dtype, Vec::new(), (dtype, shape)).map(Arg::Leaf)
}

fn integers(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let bounds = [args.size("low")?, args.size("high")?].map(|bound| vec![Piece::Integer(bound)]);
    let (view, out) = l.out(DType::I64, &shape);
    let [low, high] = bounds;
    l.call_fallible("random::integers", vec![generator(), low, high, out]);
    l.converted(&view, dtype).map(Arg::Leaf)
}

fn permutation(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    l.drawn("random::permutation", DType::I64, Vec::new(), args.result()?).map(Arg::Leaf)
}

fn bernoulli(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (dtype, shape) = args.result()?;
    let x = l.contiguous(args.view("x")?);
    let (view, out) = l.out(dtype, &shape);
    l.call_fallible("random::bernoulli", vec![generator(), read(&x), out]);
    Ok(Arg::Leaf(view))
}

fn dropout(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, p) = (args.view("x")?, args.float("p")?);
    if !args.flag("training")? || p == 0.0 {
        return Ok(Arg::Leaf(x.clone()));
    }
    let dtype = x.dtype;
    if p == 1.0 {
        let (view, out) = l.out(dtype, &x.shape);
        l.call("copy::fill", vec![text(number(Scalar::Int(0), dtype)), out]);
        return Ok(Arg::Leaf(view));
    }
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let x = l.converted(x, wide)?;
    let x = l.contiguous(&x);
    l.drawn("random::dropout", wide, vec![read(&x), real(p)], (dtype, x.shape.to_vec())).map(Arg::Leaf)
}
