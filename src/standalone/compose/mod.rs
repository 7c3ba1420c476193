//! Operations that stand-alone code computes by others.
//!
//! Each row of [`COMPOSITIONS`] writes a call of an operation as calls of operations that have code.

mod closeness;
mod images;
mod linalg;
mod loss;
mod moves;
mod signal;

use std::sync::Arc;

use fx_codegen::standalone::Options;
use fx_ops::ops::view::{Shapes, Slicing};

use crate::trace::apply;
use crate::{Arg, DType, Dim, GraphModule, NodeId, Op, Result, Scalar, Tensor, Value, bail, err};

/// How often compositions are composed of others.
const DEEPEST: usize = 4;

/// The most channels whose squares a normalisation adds one after the other.
const MOST_NEIGHBOURS: i64 = 32;

/// The arguments of a call in schema order, with symbols for tensors.
struct Call<'a> {
    op: Op,
    args: &'a [Value],
}

/// Writes a call; an error if it stays as it is.
type Composition = fn(&Call<'_>) -> Result<Value>;

/// The operations, and what they are composed of.
static COMPOSITIONS: &[(Op, Composition)] = &[
    (crate::addmm::OP, |c| scaled_sum(c, crate::mm::OP, ["mat1", "mat2"])),
    (crate::baddbmm::OP, |c| scaled_sum(c, crate::bmm::OP, ["batch1", "batch2"])),
    (crate::addbmm::OP, |c| {
        let product = run(crate::bmm::OP, [c.get("batch1")?, c.get("batch2")?])?;
        add_scaled(c, run(crate::sum::OP, [product, Arg::Int(0)])?)
    }),
    (crate::addmv::OP, |c| scaled_sum(c, crate::mv::OP, ["mat", "vec"])),
    (crate::addr::OP, |c| scaled_sum(c, crate::outer::OP, ["vec1", "vec2"])),
    (crate::outer::OP, |c| {
        let column = run(crate::unsqueeze::OP, [c.get("x")?, Arg::Int(1)])?;
        run(crate::mul::OP, [column, run(crate::unsqueeze::OP, [c.get("vec2")?, Arg::Int(0)])?])
    }),
    (crate::conv1d::OP, images::convolution),
    (crate::conv2d::OP, images::convolution),
    (crate::conv3d::OP, images::convolution),
    (crate::conv_transpose1d::OP, images::convolution),
    (crate::conv_transpose2d::OP, images::convolution),
    (crate::conv_transpose3d::OP, images::convolution),
    (crate::linear::OP, |c| {
        let (x, weight) = (c.tensor("x")?, c.tensor("weight")?);
        if !x.dtype()?.is_int() || weight.ty()?.rank() != 2 {
            return Err(stays());
        }
        let turned = run(crate::permute::OP, [Arg::Leaf(weight.clone()), Arg::ints([1, 0])])?;
        let product = run(crate::matmul::OP, [Arg::Leaf(x.clone()), turned])?;
        match c.get("bias")? {
            Arg::None => Ok(product),
            bias => run(crate::add::OP, [product, bias]),
        }
    }),
    (crate::chain_matmul::OP, chain),
    (crate::linalg_multi_dot::OP, chain),
    (crate::fill::OP, |c| filled(c, c.get("value")?)),
    (crate::copy::OP, |c| {
        let src = run(crate::to::OP, [c.get("src")?, Arg::DType(c.tensor("x")?.dtype()?)])?;
        run(crate::expand_as::OP, [src, c.get("x")?])
    }),
    (crate::_to_copy::OP, |c| match c.get("dtype")? {
        Arg::None => run(crate::clone::OP, [c.get("x")?]),
        dtype => run(crate::to::OP, [c.get("x")?, dtype]),
    }),
    (crate::linalg_cross::OP, |c| cross(c, c.get("dim")?)),
    (crate::cross::OP, |c| match c.get("dim")? {
        Arg::None => {
            let three = |size: &Dim| size.known() == Some(3);
            let at = c.tensor("x")?.ty()?.shape.iter().position(three).ok_or_else(stays)?;
            cross(c, Arg::Int(at as i64))
        }
        dim => cross(c, dim),
    }),
    (crate::smooth_l1_loss::OP, |c| {
        let beta = c.number("beta")?;
        let gap = run(crate::abs::OP, [run(crate::sub::OP, [c.get("x")?, c.get("target")?])?])?;
        if beta == 0.0 {
            return reduced(c, gap);
        }
        let square =
            run(crate::mul::OP, [run(crate::mul::OP, [gap.clone(), Arg::Float(0.5)])?, gap.clone()])?;
        let near = run(crate::div::OP, [square, Arg::Float(beta)])?;
        let far = run(crate::sub::OP, [gap.clone(), Arg::Float(0.5 * beta)])?;
        reduced(c, run(crate::where_::OP, [run(crate::lt::OP, [gap, Arg::Float(beta)])?, near, far])?)
    }),
    (crate::huber_loss::OP, |c| {
        let (Arg::None, delta) = (c.get("weight")?, c.number("delta")?) else { return Err(stays()) };
        let gap = run(crate::abs::OP, [run(crate::sub::OP, [c.get("x")?, c.get("target")?])?])?;
        let near = run(crate::mul::OP, [run(crate::mul::OP, [gap.clone(), Arg::Float(0.5)])?, gap.clone()])?;
        let far = run(crate::sub::OP, [gap.clone(), Arg::Float(0.5 * delta)])?;
        let far = run(crate::mul::OP, [far, Arg::Float(delta)])?;
        reduced(c, run(crate::where_::OP, [run(crate::le::OP, [gap, Arg::Float(delta)])?, near, far])?)
    }),
    (crate::lift_fresh_copy::OP, |c| run(crate::clone::OP, [c.get("x")?])),
    (crate::softmin::OP, |c| {
        c.converts()?;
        run(crate::softmin::OP, [c.in_dtype()?, c.get("dim")?])
    }),
    (crate::softmax::OP, |c| {
        c.converts()?;
        run(crate::softmax::OP, [c.in_dtype()?, c.get("dim")?])
    }),
    (crate::log_softmax::OP, |c| {
        c.converts()?;
        run(crate::log_softmax::OP, [c.in_dtype()?, c.get("dim")?])
    }),
    (crate::nansum::OP, |c| {
        let numbers = numbers_or(c.get("x")?, 0)?;
        with(crate::sum::OP, [numbers, c.get("dim")?, c.get("keepdim")?], [("dtype", c.get("dtype")?)])
    }),
    (crate::nanmean::OP, |c| {
        let x = c.in_dtype()?;
        let dims = [c.get("dim")?, c.get("keepdim")?];
        let total = |x: Value| run(crate::sum::OP, [x, dims[0].clone(), dims[1].clone()]);
        let are_numbers = run(crate::logical_not::OP, [run(crate::isnan::OP, [x.clone()])?])?;
        run(crate::div::OP, [total(numbers_or(x, 0)?)?, total(are_numbers)?])
    }),
    (crate::var_mean::OP, |c| spread(c, crate::var::OP)),
    (crate::std_mean::OP, |c| spread(c, crate::std::OP)),
    (crate::isin::OP, is_in),
    (crate::prelu::OP, |c| {
        let (x, weight) = (c.tensor("x")?, c.tensor("weight")?);
        let rank = x.ty()?.rank();
        let weight = match weight.ty()?.rank() {
            1 if rank > 1 => {
                let mut shape = vec![Arg::Int(1); rank];
                shape[1] = Arg::Int(-1);
                run(crate::reshape::OP, [Arg::Leaf(weight.clone()), Arg::list(shape)])?
            }
            _ => run(crate::reshape::OP, [Arg::Leaf(weight.clone()), Arg::list([])])?,
        };
        let x = Arg::Leaf(x.clone());
        let is_positive = run(crate::gt::OP, [x.clone(), Arg::Int(0)])?;
        run(crate::where_::OP, [is_positive, x.clone(), run(crate::mul::OP, [weight, x])?])
    }),
    (crate::linalg_vector_norm::OP, |c| {
        c.converts_or_stays()?;
        if c.number("ord")? == 2.0 && matches!(c.get("dtype")?, Arg::None) {
            return Err(stays());
        }
        let x = c.in_dtype()?;
        norm(x, c.number("ord")?, c.get("dim")?, c.get("keepdim")?)
    }),
    (crate::norm::OP, |c| match c.get("p")? {
        Arg::None => vector_norm(c, Arg::Float(2.0)),
        Arg::Str(text) if *text == *"fro" => vector_norm(c, Arg::Float(2.0)),
        Arg::Str(_) => Err(stays()),
        p => vector_norm(c, p),
    }),
    (crate::linalg_norm::OP, |c| match (c.get("ord")?, c.get("dim")?) {
        (Arg::None, _) => vector_norm(c, Arg::Float(2.0)),
        // Of two axes it is that of matrices.
        (ord, Arg::Int(_)) if ord.scalar().is_some() => vector_norm(c, ord),
        _ => Err(stays()),
    }),
    (crate::dist::OP, |c| {
        let gap = run(crate::sub::OP, [c.get("x")?, c.get("other")?])?;
        norm(gap, c.number("p")?, Arg::None, Arg::Bool(false))
    }),
    (crate::rms_norm::OP, |c| {
        // The epsilon of halves, although they are computed in `f32`.
        let (Arg::None, Some(eps)) = (c.get("eps")?, c.tensor("x")?.dtype()?.epsilon()) else {
            return Err(stays());
        };
        let operands = [c.get("x")?, c.get("normalized_shape")?, c.get("weight")?];
        with(crate::rms_norm::OP, operands, [("eps", Arg::Float(eps))])
    }),
    (crate::pairwise_distance::OP, |c| {
        let dtype = c.tensor("x")?.dtype()?;
        if matches!(dtype, DType::F16 | DType::BF16) {
            let wide = |name| run(crate::to::OP, [c.get(name)?, Arg::DType(DType::F32)]);
            let operands = [wide("x")?, wide("x2")?, c.get("p")?, c.get("eps")?, c.get("keepdim")?];
            return run(crate::to::OP, [run(crate::pairwise_distance::OP, operands)?, Arg::DType(dtype)]);
        }
        let gap = run(crate::sub::OP, [c.get("x")?, c.get("x2")?])?;
        let gap = run(crate::add::OP, [gap, Arg::Float(c.number("eps")?)])?;
        norm(gap, c.number("p")?, Arg::Int(-1), c.get("keepdim")?)
    }),
    (crate::cdist::OP, |c| {
        let a = run(crate::unsqueeze::OP, [c.get("x")?, Arg::Int(-2)])?;
        let b = run(crate::unsqueeze::OP, [c.get("x2")?, Arg::Int(-3)])?;
        norm(run(crate::sub::OP, [a, b])?, c.number("p")?, Arg::Int(-1), Arg::Bool(false))
    }),
    (crate::instance_norm::OP, |c| {
        let x = c.tensor("x")?;
        let channels = x.ty()?.shape.get(1).and_then(Dim::known);
        let (Some(channels), Arg::Bool(true)) = (channels, c.get("use_input_stats")?) else {
            return Err(stays());
        };
        with(
            crate::group_norm::OP,
            [Arg::Leaf(x.clone()), Arg::Int(channels), c.get("weight")?, c.get("bias")?],
            [("eps", c.get("eps")?)],
        )
    }),
    (crate::batch_norm::OP, batch_norm),
    (crate::mse_loss::OP, |c| {
        let gap = run(crate::sub::OP, [c.get("x")?, c.get("target")?])?;
        reduced(c, run(crate::mul::OP, [gap.clone(), gap])?)
    }),
    (crate::l1_loss::OP, |c| {
        let gap = run(crate::sub::OP, [c.get("x")?, c.get("target")?])?;
        reduced(c, run(crate::abs::OP, [gap])?)
    }),
    (crate::diff::OP, |c| {
        let Arg::Int(n) = c.get("n")? else { return Err(stays()) };
        let mut parts = vec![c.get("prepend")?, c.get("x")?, c.get("append")?];
        parts.retain(|part| !matches!(part, Arg::None));
        let mut x = match parts.len() {
            n_parts if n_parts > 1 && n > 0 => run(crate::cat::OP, [Arg::list(parts), c.get("dim")?])?,
            _ => c.get("x")?,
        };
        let between = if c.tensor("x")?.dtype()? == DType::Bool { crate::ne::OP } else { crate::sub::OP };
        for _ in 0..n {
            let part = |from: Value, to: Value| run(crate::slice::OP, [x.clone(), c.get("dim")?, from, to]);
            x = run(between, [part(Arg::Int(1), Arg::None)?, part(Arg::Int(0), Arg::Int(-1))?])?;
        }
        Ok(x)
    }),
    (crate::local_response_norm::OP, |c| {
        let (x, size) = (c.tensor("x")?, c.number("size")? as i64);
        let (ty, dtype) = (x.ty()?, x.dtype()?);
        if !(1..=MOST_NEIGHBOURS).contains(&size) || !matches!(dtype, DType::F32 | DType::F64) {
            return Err(stays());
        }
        let x = Arg::Leaf(x);
        let behind = (2..ty.rank()).flat_map(|_| [0, 0]);
        let border = Arg::ints(behind.chain([size / 2, (size - 1) / 2]));
        let squares = run(crate::pad::OP, [run(crate::mul::OP, [x.clone(), x.clone()])?, border])?;
        let channels = Arg::dim(ty.shape[1].clone());
        let part =
            |i: i64| run(crate::narrow::OP, [squares.clone(), Arg::Int(1), Arg::Int(i), channels.clone()]);
        let mut total = part(0)?;
        for i in 1..size {
            total = run(crate::add::OP, [total, part(i)?])?;
        }
        let scaled = run(crate::mul::OP, [total, Arg::Float(c.number("alpha")? / size as f64)])?;
        let base = run(crate::add::OP, [scaled, Arg::Float(c.number("k")?)])?;
        run(crate::div::OP, [x, run(crate::pow::OP, [base, Arg::Float(c.number("beta")?)])?])
    }),
    (crate::affine_grid::OP, |c| {
        // The places of an affine map that changes nothing, with a one for what it adds.
        let theta = c.tensor("theta")?;
        let (rank, dtype) =
            (theta.ty()?.shape.get(1).and_then(Dim::known).ok_or_else(stays)?, theta.dtype()?);
        let size = c.get("size")?;
        let sizes = size.items().ok_or_else(stays)?;
        let one = [&[Arg::Int(1)], sizes.get(1..).ok_or_else(stays)?].concat();
        let eye: Vec<f64> =
            (0..rank).flat_map(|i| (0..=rank).map(move |j| f64::from(u8::from(i == j)))).collect();
        let eye = Arg::Leaf(Tensor::from_vec(eye, &[1, rank as usize, rank as usize + 1]));
        let places = (crate::affine_grid::OP.eval)(&[eye, Arg::list(one), c.get("align_corners")?])?;
        let places = places.leaf().ok_or_else(stays)?.reshape([-1, rank]);
        let places = crate::cat([places.clone(), places.narrow(1, 0, 1) * 0.0 + 1.0], 1).to(dtype);
        let places = Arg::Leaf(Tensor::new(places.array()?.contiguous()?));
        let moved = run(
            crate::matmul::OP,
            [places, run(crate::transpose::OP, [Arg::Leaf(theta), Arg::Int(1), Arg::Int(2)])?],
        )?;
        let shape =
            std::iter::once(sizes[0].clone()).chain(sizes[2..].iter().cloned()).chain([Arg::Int(rank)]);
        run(crate::reshape::OP, [moved, Arg::list(shape)])
    }),
    (crate::trapezoid::OP, trapezoid),
    (crate::trapz::OP, trapezoid),
    (crate::trace_::OP, |c| run(crate::sum::OP, [run(crate::diagonal::OP, [c.get("x")?])?])),
    (crate::col2im::OP, col2im),
    (crate::kron::OP, kronecker),
    (crate::new_zeros::OP, |c| new(c, Arg::Int(0))),
    (crate::new_ones::OP, |c| new(c, Arg::Int(1))),
    (crate::new_full::OP, |c| new(c, c.get("fill_value")?)),
    (crate::constant_pad_nd::OP, |c| {
        let args = [c.get("x")?, c.get("pad")?, Arg::str("constant"), c.get("value")?];
        run(crate::pad::OP, args)
    }),
    (crate::broadcast_tensors::OP, |c| {
        let Some(items) = c.args.first().and_then(Arg::items) else { return Err(stays()) };
        let tensors: Vec<Tensor> = items.iter().filter_map(|item| item.leaf().cloned()).collect();
        let types = tensors.iter().map(Tensor::ty).collect::<Result<Vec<_>>>()?;
        let shape = crate::pointwise::broadcast_dims(types.iter().map(|ty| &ty.shape[..]))?;
        let size =
            Arg::list(shape.iter().map(|size| size.known().map_or_else(|| Arg::Dim(size.clone()), Arg::Int)));
        let wide = tensors.into_iter().map(|x| run(crate::broadcast_to::OP, [Arg::Leaf(x), size.clone()]));
        Ok(Arg::list(wide.collect::<Result<Vec<_>>>()?))
    }),
    (crate::binary_cross_entropy_with_logits::OP, |c| {
        let (x, target) = (c.get("x")?, c.get("target")?);
        let mut log = run(crate::logsigmoid::OP, [x.clone()])?;
        if let positive @ Arg::Leaf(_) = c.get("pos_weight")? {
            let factor =
                run(crate::mul::OP, [run(crate::sub::OP, [positive, Arg::Int(1)])?, target.clone()])?;
            log = run(crate::mul::OP, [run(crate::add::OP, [factor, Arg::Int(1)])?, log])?;
        }
        let other = run(crate::mul::OP, [run(crate::rsub::OP, [target, Arg::Int(1)])?, x])?;
        let mut each = run(crate::sub::OP, [other, log])?;
        if let weight @ Arg::Leaf(_) = c.get("weight")? {
            each = run(crate::mul::OP, [each, weight])?;
        }
        reduced(c, each)
    }),
    (crate::as_strided_scatter::OP, |c| {
        let shape = c.tensor("x")?.ty()?.shape.clone();
        let known = shape.known().ok_or_else(stays)?;
        let n = known.iter().product::<usize>();
        let numbers = Tensor::from_vec((0..n as i64).collect::<Vec<i64>>(), &known);
        let args = ["size", "stride", "storage_offset"].map(|name| c.get(name));
        let args = args.into_iter().collect::<Result<Vec<Value>>>()?;
        let places = (crate::as_strided::OP.eval)(&[&[Arg::Leaf(numbers)], &args[..]].concat())?;
        let places = Tensor::new(places.leaf().ok_or_else(stays)?.array()?.contiguous()?);
        run(crate::put::OP, [c.get("x")?, Arg::Leaf(places), c.get("src")?])
    }),
];

/// The operations, and what they are composed of, by family.
fn compositions() -> impl Iterator<Item = &'static (Op, Composition)> {
    COMPOSITIONS
        .iter()
        .chain(loss::COMPOSITIONS)
        .chain(images::COMPOSITIONS)
        .chain(moves::COMPOSITIONS)
        .chain(closeness::COMPOSITIONS)
        .chain(linalg::COMPOSITIONS)
        .chain(signal::COMPOSITIONS)
}

/// Returns the names of the operations that are composed of others.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    compositions().map(|(op, _)| op.name)
}

/// Writes calls as those that they are composed of, also in sub-graphs; what `options` have code for stays.
pub(super) fn compose(gm: &mut GraphModule, options: &Options) -> Result<()> {
    for id in gm.graph().ids() {
        let node = gm.graph().node(id)?;
        if node.args().iter().any(|arg| matches!(arg, Arg::Graph(_))) {
            let args = node.args().iter().map(|arg| match arg {
                Arg::Graph(graph) => {
                    let mut inner = GraphModule::new(graph.name(), (**graph).clone());
                    compose(&mut inner, options)?;
                    Ok(Arg::Graph(Arc::new(inner.into_graph())))
                }
                arg => Ok(arg.clone()),
            });
            let args = args.collect::<Result<Vec<Arg<NodeId>>>>()?;
            gm.graph_mut().set_args(id, args)?;
        }
    }
    for _ in 0..DEEPEST {
        let mut is_done = true;
        for id in gm.graph().ids() {
            let node = gm.graph().node(id)?;
            let found = node.op().and_then(|op| compositions().find(|(other, _)| *other == op));
            if let Some(&(op, composition)) = found.filter(|(op, _)| !options.writes(*op)) {
                let bound = op.bind(node.args(), node.kwargs())?;
                is_done &= replace(gm, id, op, &bound, composition).is_err();
            }
        }
        if is_done {
            break;
        }
    }
    Ok(())
}

fn replace(
    gm: &mut GraphModule,
    id: NodeId,
    op: Op,
    bound: &[Arg<NodeId>],
    composition: Composition,
) -> Result<()> {
    let mut inputs: Vec<NodeId> = Vec::new();
    for input in bound.iter().flat_map(Arg::leaves) {
        if !inputs.contains(input) {
            inputs.push(*input);
        }
    }
    let before: Vec<NodeId> = gm.graph().ids();
    let source = gm.graph().node(id)?.meta().source.clone();
    let made = gm.append(id, &inputs, |tensors: &[Tensor]| -> Value {
        let place = |id: &NodeId| inputs.iter().position(|input| input == id).map(|at| tensors[at].clone());
        let args = bound.iter().map(|arg| {
            arg.try_flat_map(&mut |id| {
                place(id).map(Arg::Leaf).ok_or_else(|| err!(Graph, "an operand is lost"))
            })
        });
        let made =
            args.collect::<Result<Vec<Value>>>().and_then(|args| composition(&Call { op, args: &args }));
        made.unwrap_or_else(Arg::Failed)
    })?;
    gm.graph_mut().transaction(|graph| {
        for new in graph.ids().into_iter().filter(|id| !before.contains(id)) {
            graph.meta_mut(new)?.source.clone_from(&source);
        }
        graph.replace_all_uses(id, made)?;
        graph.erase(id)
    })
}

/// Says that a call stays as it is.
fn stays() -> crate::Error {
    err!(Unresolved, "it is not composed of others")
}

impl Call<'_> {
    fn get(&self, name: &str) -> Result<Value> {
        let at = self.op.params.iter().position(|param| param.name == name);
        let arg = at.and_then(|at| self.args.get(at));
        arg.cloned().ok_or_else(|| err!(Argument, "{} has no argument {name:?}", self.op.name))
    }

    fn tensor(&self, name: &str) -> Result<Tensor> {
        self.get(name)?.leaf().cloned().ok_or_else(|| err!(Argument, "{name} is no tensor"))
    }

    fn number(&self, name: &str) -> Result<f64> {
        self.get(name)?.scalar().map(Scalar::to_f64).ok_or_else(stays)
    }

    fn is(&self, name: &str) -> Result<bool> {
        self.get(name)?.scalar().map(Scalar::to_bool).ok_or_else(stays)
    }

    /// Refuses a call that does not convert its operand to another dtype.
    fn converts(&self) -> Result<()> {
        match self.get("dtype")? {
            Arg::DType(dtype) if dtype != self.tensor("x")?.dtype()? => Ok(()),
            _ => Err(stays()),
        }
    }

    /// Refuses a call whose operand is no float, and is not made one.
    fn converts_or_stays(&self) -> Result<()> {
        match (self.get("dtype")?, self.tensor("x")?.dtype()?.is_float()) {
            (Arg::None, false) => Err(stays()),
            _ => Ok(()),
        }
    }

    /// Returns the operand `x` in the dtype that is asked for.
    fn in_dtype(&self) -> Result<Value> {
        let x = self.get("x")?;
        match self.get("dtype")? {
            Arg::None => Ok(x),
            dtype => run(crate::to::OP, [x, dtype]),
        }
    }
}

/// Returns the tensor that a value is.
fn tensor(value: Value) -> Result<Tensor> {
    value.leaf().cloned().ok_or_else(stays)
}

/// Applies an operation.
fn run(op: Op, args: impl IntoIterator<Item = Value>) -> Result<Value> {
    with(op, args, [])
}

/// Applies an operation with arguments by name.
fn with<'a>(
    op: Op,
    args: impl IntoIterator<Item = Value>,
    kwargs: impl IntoIterator<Item = (&'a str, Value)>,
) -> Result<Value> {
    let (args, kwargs): (Vec<_>, Vec<_>) = (args.into_iter().collect(), kwargs.into_iter().collect());
    match apply(op, false, &args, &kwargs)? {
        Arg::Failed(error) => Err(error),
        value => match value.leaves().into_iter().find_map(Tensor::error) {
            Some(error) => Err(error.clone()),
            None => Ok(value),
        },
    }
}

/// Composes `beta * x + alpha * product`; what one kernel computes stays.
fn scaled_sum(c: &Call<'_>, op: Op, operands: [&str; 2]) -> Result<Value> {
    let is_plain = c.number("alpha")? == 1.0 && c.number("beta")? == 1.0;
    let has_kernel = c.op == crate::addmm::OP || c.op == crate::baddbmm::OP;
    if is_plain && has_kernel && c.tensor("x")?.dtype()?.is_float() {
        return Err(stays());
    }
    add_scaled(c, run(op, [c.get(operands[0])?, c.get(operands[1])?])?)
}

fn add_scaled(c: &Call<'_>, product: Value) -> Result<Value> {
    let is_whole = !c.tensor("x")?.dtype()?.is_float();
    let scaled = |x: Value, factor: Value| match factor.scalar() {
        Some(one) if one.to_f64() == 1.0 => Ok(x),
        // Sums of integers stay integers.
        Some(Scalar::Float(factor)) if is_whole && factor.fract() == 0.0 => {
            run(crate::mul::OP, [x, Arg::Int(factor as i64)])
        }
        Some(Scalar::Float(_)) if is_whole => Err(stays()),
        _ => run(crate::mul::OP, [x, factor]),
    };
    let product = scaled(product, c.get("alpha")?)?;
    // What is multiplied by 0 is not read, whatever it is.
    if c.number("beta")? == 0.0 {
        return Ok(product);
    }
    run(crate::add::OP, [scaled(c.get("x")?, c.get("beta")?)?, product])
}

fn chain(c: &Call<'_>) -> Result<Value> {
    let Some(Arg::List(items) | Arg::Tuple(items)) = c.args.first() else { return Err(stays()) };
    let n = items.len();
    let mut sizes = Vec::with_capacity(n + 1);
    for (i, item) in items.iter().enumerate() {
        let ty = item.leaf().ok_or_else(stays)?.ty()?;
        let shape: Vec<Option<f64>> = ty.shape.iter().map(|size| size.known().map(|n| n as f64)).collect();
        let (rows, columns) = match shape[..] {
            [rows, columns] => (rows, columns),
            [n] if i == 0 => (Some(1.0), n),
            [n] => (n, Some(1.0)),
            _ => return Err(stays()),
        };
        if i == 0 {
            sizes.push(rows);
        }
        sizes.push(columns);
    }
    // The order that needs the fewest multiplications, if all sizes are known; else from left to right.
    let Some(sizes) = sizes.into_iter().collect::<Option<Vec<f64>>>() else {
        let mut matrices = items.iter().cloned();
        let first = matrices.next().ok_or_else(stays)?;
        return matrices.try_fold(first, |product, next| run(crate::matmul::OP, [product, next]));
    };
    let mut best = vec![vec![(0.0, None); n]; n];
    for length in 2..=n {
        for i in 0..=n - length {
            let j = i + length - 1;
            let cost = |k: usize| -> f64 {
                best[i][k].0 + best[k + 1][j].0 + sizes[i] * sizes[k + 1] * sizes[j + 1]
            };
            let cheapest = (i..j).map(|k| (cost(k), k)).reduce(|a, b| if b.0 < a.0 { b } else { a });
            best[i][j] = cheapest.map_or((0.0, None), |(cost, k)| (cost, Some(k)));
        }
    }
    product(items, &best, 0, n.checked_sub(1).ok_or_else(stays)?)
}

/// Composes the product of the matrices from `i` to `j`, cut where it costs least.
fn product(items: &[Value], best: &[Vec<(f64, Option<usize>)>], i: usize, j: usize) -> Result<Value> {
    match best[i][j].1 {
        None => Ok(items[i].clone()),
        Some(k) => run(crate::matmul::OP, [product(items, best, i, k)?, product(items, best, k + 1, j)?]),
    }
}

/// Composes a tensor like `x` of one value.
fn filled(c: &Call<'_>, value: Value) -> Result<Value> {
    let x = c.get("x")?;
    let Arg::Leaf(value) = value else { return run(crate::full_like::OP, [x, value]) };
    let value = run(crate::to::OP, [Arg::Leaf(value), Arg::DType(c.tensor("x")?.dtype()?)])?;
    run(crate::clone::OP, [run(crate::expand_as::OP, [value, x])?])
}

/// Composes `x` with another number in the place of NaN.
fn numbers_or(x: Value, other: i64) -> Result<Value> {
    let is_nan = run(crate::isnan::OP, [x.clone()])?;
    run(crate::masked_fill::OP, [x, is_nan, Arg::Int(other)])
}

fn spread(c: &Call<'_>, op: Op) -> Result<Value> {
    let (x, dim, keepdim) = (c.get("x")?, c.get("dim")?, c.get("keepdim")?);
    let args = [x.clone(), dim.clone(), c.get("correction")?, keepdim.clone()];
    let spread = with(op, args, [("unbiased", c.get("unbiased")?)])?;
    Ok(Arg::tuple([spread, run(crate::mean::OP, [x, dim, keepdim])?]))
}

fn is_in(c: &Call<'_>) -> Result<Value> {
    let found = match (c.get("elements")?, c.get("test_elements")?) {
        (Arg::Leaf(x), Arg::Leaf(tests)) => {
            let x = run(crate::unsqueeze::OP, [Arg::Leaf(x), Arg::Int(-1)])?;
            let tests = run(crate::flatten::OP, [Arg::Leaf(tests)])?;
            run(crate::any::OP, [run(crate::eq::OP, [x, tests])?, Arg::Int(-1)])?
        }
        (x @ Arg::Leaf(_), number) => run(crate::eq::OP, [x, number])?,
        (number, tests) => run(crate::any::OP, [run(crate::eq::OP, [tests, number])?])?,
    };
    match c.get("invert")? {
        Arg::Bool(true) => run(crate::logical_not::OP, [found]),
        _ => Ok(found),
    }
}

/// Composes the cross product along an axis of size 3 of operands that are not repeated.
fn cross(c: &Call<'_>, axis: Value) -> Result<Value> {
    if c.tensor("x")?.ty()?.shape != c.tensor("other")?.ty()?.shape {
        return Err(stays());
    }
    let taken = |name: &str, at: [i64; 3]| {
        run(crate::index_select::OP, [c.get(name)?, axis.clone(), Arg::Leaf(Tensor::new(at))])
    };
    let product = |a: [i64; 3], b: [i64; 3]| run(crate::mul::OP, [taken("x", a)?, taken("other", b)?]);
    run(crate::sub::OP, [product([1, 2, 0], [2, 0, 1])?, product([2, 0, 1], [1, 2, 0])?])
}

/// Calls the norm of vectors with the arguments of another norm.
fn vector_norm(c: &Call<'_>, p: Value) -> Result<Value> {
    let args = [c.get("x")?, p, c.get("dim")?, c.get("keepdim")?];
    with(crate::linalg_vector_norm::OP, args, [("dtype", c.get("dtype")?)])
}

/// Composes the norm of order `p` along axes.
fn norm(x: Value, p: f64, dim: Value, keepdim: Value) -> Result<Value> {
    if p == 2.0 {
        return run(crate::linalg_vector_norm::OP, [x, Arg::Float(p), dim, keepdim]);
    }
    let size = run(crate::abs::OP, [x])?;
    let total = |x: Value| run(crate::sum::OP, [x, dim.clone(), keepdim.clone()]);
    match p {
        f64::INFINITY => run(crate::amax::OP, [size, dim, keepdim]),
        f64::NEG_INFINITY => run(crate::amin::OP, [size, dim, keepdim]),
        0.0 => {
            let dtype = size.leaf().ok_or_else(stays)?.dtype()?;
            let counted = run(crate::to::OP, [run(crate::ne::OP, [size, Arg::Int(0)])?, Arg::DType(dtype)])?;
            total(counted)
        }
        1.0 => total(size),
        p => {
            let powers = run(crate::pow::OP, [size, Arg::Float(p)])?;
            run(crate::pow::OP, [total(powers)?, Arg::Float(1.0 / p)])
        }
    }
}

/// Composes the normalisation by the statistics of the batch; that by running ones has a kernel.
fn batch_norm(c: &Call<'_>) -> Result<Value> {
    let x = c.tensor("x")?;
    let has_statistics = matches!(c.get("running_mean")?, Arg::Leaf(_));
    if !matches!(c.get("training")?, Arg::Bool(true)) && has_statistics {
        return Err(stays());
    }
    let (rank, dtype) = (x.ty()?.rank(), x.dtype()?);
    if rank < 2 || !matches!(dtype, DType::F32 | DType::F64) {
        return Err(stays());
    }
    let x = Arg::Leaf(x);
    let axes = Arg::ints((0..rank as i64).filter(|axis| *axis != 1));
    let mean = run(crate::mean::OP, [x.clone(), axes.clone(), Arg::Bool(true)])?;
    let variance = run(crate::var::OP, [x.clone(), axes, Arg::Float(0.0), Arg::Bool(true)])?;
    let factor = run(crate::rsqrt::OP, [run(crate::add::OP, [variance, c.get("eps")?])?])?;
    let mut result = run(crate::mul::OP, [run(crate::sub::OP, [x, mean])?, factor])?;
    for (name, op) in [("weight", crate::mul::OP), ("bias", crate::add::OP)] {
        if let Arg::Leaf(each) = c.get(name)? {
            let mut shape = vec![Arg::Int(1); rank];
            shape[1] = Arg::Int(-1);
            result = run(op, [result, run(crate::reshape::OP, [Arg::Leaf(each), Arg::list(shape)])?])?;
        }
    }
    Ok(result)
}

fn reduced(c: &Call<'_>, each: Value) -> Result<Value> {
    match c.get("reduction")? {
        Arg::Str(kind) if *kind == *"none" => Ok(each),
        Arg::Str(kind) if *kind == *"sum" => run(crate::sum::OP, [each]),
        Arg::Str(kind) if *kind == *"mean" => run(crate::mean::OP, [each]),
        _ => Err(stays()),
    }
}

/// Composes an integral: of equal distances the sum less half of both ends, else the sum of the means of
/// neighbours times their distances.
fn trapezoid(c: &Call<'_>) -> Result<Value> {
    let (y, dim) = (c.tensor("y")?, c.get("dim")?);
    let ty = y.ty()?;
    let axis = crate::ops::axis(c.number("dim")? as i64, ty.rank())?;
    if !ty.dtype.is_float() || ty.shape.get(axis).is_none_or(|size| size.bounds().0 < 1) {
        return Err(stays());
    }
    let y = Arg::Leaf(y);
    match c.get("x")? {
        Arg::Leaf(x) if x.ty()?.rank() == ty.rank() => {
            let part =
                |x: &Value, from: Value, to: Value| run(crate::slice::OP, [x.clone(), dim.clone(), from, to]);
            let ends = |x: &Value, op: Op| {
                run(op, [part(x, Arg::Int(1), Arg::None)?, part(x, Arg::Int(0), Arg::Int(-1))?])
            };
            let gaps = ends(&Arg::Leaf(x), crate::sub::OP)?;
            let weighted = run(crate::mul::OP, [ends(&y, crate::add::OP)?, gaps])?;
            run(crate::div::OP, [run(crate::sum::OP, [weighted, dim.clone()])?, Arg::Int(2)])
        }
        Arg::None => {
            let end = |at: i64| run(crate::select::OP, [y.clone(), dim.clone(), Arg::Int(at)]);
            let ends = run(crate::mul::OP, [run(crate::add::OP, [end(0)?, end(-1)?])?, Arg::Float(0.5)])?;
            let total = run(crate::sub::OP, [run(crate::sum::OP, [y.clone(), dim.clone()])?, ends])?;
            run(crate::mul::OP, [total, Arg::Float(c.number("dx")?)])
        }
        _ => Err(stays()),
    }
}

/// Returns the dtype of a tensor.
fn dtype_of(x: &Value) -> Result<DType> {
    x.leaf().ok_or_else(stays)?.dtype()
}

/// Composes a tensor of a number, of the dtype of `x` if no other is asked for.
fn new(c: &Call<'_>, value: Value) -> Result<Value> {
    let dtype = match c.get("dtype")? {
        Arg::None => Arg::DType(c.tensor("x")?.dtype()?),
        dtype => dtype,
    };
    with(crate::full::OP, [c.get("size")?, value], [("dtype", dtype)])
}

/// Composes Kronecker's product: each axis of one operand beside that of the other, multiplied, then joined.
fn kronecker(c: &Call<'_>) -> Result<Value> {
    let (x, other) = (c.tensor("x")?, c.tensor("other")?);
    let sizes = |tensor: &Tensor| -> Result<Vec<i64>> {
        Ok(tensor.ty()?.shape.known().ok_or_else(stays)?.iter().map(|&n| n as i64).collect())
    };
    let (mut a, mut b) = (sizes(&x)?, sizes(&other)?);
    while a.len() < b.len() {
        a.insert(0, 1);
    }
    while b.len() < a.len() {
        b.insert(0, 1);
    }
    let beside = |sizes: &[i64], first: bool| {
        Arg::ints(sizes.iter().flat_map(|&n| if first { [n, 1] } else { [1, n] }).collect::<Vec<_>>())
    };
    let x = run(crate::reshape::OP, [Arg::Leaf(x), beside(&a, true)])?;
    let other = run(crate::reshape::OP, [Arg::Leaf(other), beside(&b, false)])?;
    let joined = Arg::ints(a.iter().zip(&b).map(|(a, b)| a * b).collect::<Vec<_>>());
    run(crate::reshape::OP, [run(crate::mul::OP, [x, other])?, joined])
}

/// Composes sums of windows: each element is added where `im2col` takes it from.
fn col2im(c: &Call<'_>) -> Result<Value> {
    let x = c.tensor("x")?;
    let ty = x.ty()?;
    let (Arg::List(size) | Arg::Tuple(size)) = c.get("output_size")? else { return Err(stays()) };
    let [Arg::Int(height), Arg::Int(width)] = size[..] else { return Err(stays()) };
    let Some(known) = ty.shape.known() else { return Err(stays()) };
    let pixels = height * width;
    let numbers = (1..=pixels).map(|i| i as f64).collect::<Vec<f64>>();
    let image = Tensor::from_vec(numbers, &[1, 1, height as usize, width as usize]);
    let args = ["kernel_size", "dilation", "padding", "stride"].map(|name| c.get(name));
    let args = args.into_iter().collect::<Result<Vec<Value>>>()?;
    let windows = (crate::im2col::OP.eval)(&[&[Arg::Leaf(image)], &args[..]].concat())?;
    let windows = windows.leaf().ok_or_else(stays)?.array()?.cast(DType::I64);
    let n = windows.numel();
    let places = Arg::Leaf(Tensor::new(windows.reshape(&[n])?));
    let (leading, channels) = match known[..] {
        [rows, places] if (rows * places) % n == 0 => (Vec::new(), rows * places / n),
        [batch, rows, places] if (rows * places) % n == 0 => (vec![batch as i64], rows * places / n),
        _ => bail!(Unresolved, "its windows are {ty}"),
    };
    let lines = leading.iter().product::<i64>() * channels as i64;
    let zeros = with(crate::zeros::OP, [Arg::ints([lines, pixels + 1])], [("dtype", Arg::DType(ty.dtype))])?;
    let x = run(crate::reshape::OP, [Arg::Leaf(x), Arg::ints([lines, n as i64])])?;
    let sums = run(crate::index_add::OP, [zeros, Arg::Int(1), places, x])?;
    // Windows see zeros beyond the border, which are at the first place.
    let sums = run(crate::slice::OP, [sums, Arg::Int(1), Arg::Int(1), Arg::None])?;
    let shape = leading.into_iter().chain([channels as i64, height, width]);
    run(crate::reshape::OP, [sums, Arg::ints(shape)])
}
