//! PyTorch's operators that have no row, as several rows.

use super::build::{Attempt, Builder, Out, input_name};
use super::call::{Call, generic, leaf, node, with};
use crate::{Arg, DType, Dim, NodeId, err};

/// `logspace(start, end, steps, base)`: `base` to the power of `linspace`.
pub(super) fn logspace<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let dtype = match call.arg("dtype") {
        Arg::DType(dtype) => dtype,
        _ => DType::F32,
    };
    let args = [call.need("start")?, call.need("end")?, call.need("steps")?];
    let powers = with(builder, "linspace", args, &[("dtype", Arg::DType(DType::F64))])?;
    let base = with(
        builder,
        "full",
        [Arg::list([]), call.or("base", Arg::Float(10.0))],
        &[("dtype", Arg::DType(DType::F64))],
    )?;
    let out = builder.call("pow", [leaf(base), leaf(powers)])?;
    builder.call("to", [leaf(out), Arg::DType(dtype)]).map(Out::Node)
}

/// All tuples of elements of vectors.
pub(super) fn cartesian_prod<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let tensors = call.first()?;
    let n = tensors.items().map_or(0, <[Arg]>::len);
    if let Some([one]) = tensors.items() {
        return builder.call("clone", [one.clone()]).map(Out::Node);
    }
    let grids = with(builder, "meshgrid", [tensors], &[("indexing", Arg::str("ij"))])?;
    let mut columns = Vec::new();
    for i in 0..n {
        let grid = builder.call("getitem", [leaf(grids), Arg::Int(i as i64)])?;
        columns.push(leaf(builder.call("reshape", [leaf(grid), Arg::ints([-1])])?));
    }
    builder.call("stack", [Arg::list(columns), Arg::Int(1)]).map(Out::Node)
}

/// A convolution whose padding is `"same"` or `"valid"`.
pub(super) fn convolution_mode<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let rank = builder.tensor_type(node(&call.need("weight")?)?)?.rank();
    let row = match rank {
        3 => "conv1d",
        4 => "conv2d",
        5 => "conv3d",
        _ => return Err(err!(Load, "expected a weight of 3 to 5 axes, got {rank}").into()),
    };
    generic(builder, row, call, &[])
}

/// Whether two tensors have the same sizes and elements.
pub(super) fn equal<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, other) = (call.first()?, call.need("other")?);
    let [a, b] = [&x, &other].map(|arg| node(arg).and_then(|id| Ok(builder.tensor_type(id)?)));
    let (a, b) = (a?.shape, b?.shape);
    if a.len() != b.len() || a.iter().zip(b.iter()).any(|(a, b)| a.same(b).is_no()) {
        return Ok(Out::Value(Arg::Bool(false)));
    }
    if a.iter().zip(b.iter()).any(|(a, b)| !a.same(b).is_yes()) {
        return Err(err!(Load, "whether sizes {a} and {b} are equal is not known").into());
    }
    let same = builder.call("eq", [x, other])?;
    let all = builder.call("all", [leaf(same)])?;
    Ok(Out::Value(leaf(builder.call("reshape", [leaf(all), Arg::list([])])?)))
}

/// Whether elements of a dtype may be written as those of another one: floats not as integers, and only bools as
/// bools.
pub(super) fn can_cast<'a>(_: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    // One argument is called `from_` where the other is `to`.
    let dtypes: Vec<DType> = call
        .args
        .iter()
        .filter_map(|(_, arg)| match arg {
            Arg::DType(dtype) => Some(*dtype),
            _ => None,
        })
        .collect();
    let [from, to] = dtypes[..] else { return Err(err!(Load, "expected two dtypes").into()) };
    let loses = from.is_float() && !to.is_float() || from != DType::Bool && to == DType::Bool;
    Ok(Out::Value(Arg::Bool(!loses)))
}

/// The exponential of matrices; of halves in f32.
pub(super) fn matrix_exp<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let dtype = builder.tensor_type(node(&x)?)?.dtype;
    if !matches!(dtype, DType::F16 | DType::BF16) {
        return builder.call("linalg_matrix_exp", [x]).map(Out::Node);
    }
    let wide = builder.call("to", [x, Arg::DType(DType::F32)])?;
    let out = builder.call("linalg_matrix_exp", [leaf(wide)])?;
    builder.call("to", [leaf(out), Arg::DType(dtype)]).map(Out::Node)
}

/// `_grouped_mm(self, mat2, offs, bias, out_dtype)`: rows in groups, each times a matrix of its own; without
/// offsets a product of batches.
pub(super) fn grouped<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, mat2, offs) = (call.first()?, call.need("mat2")?, call.arg("offs"));
    let rank = |arg: &Arg| -> Attempt<usize> { Ok(builder.tensor_type(node(arg)?)?.rank()) };
    let (a, b) = (rank(&x)?, rank(&mat2)?);
    if !matches!(call.arg("bias"), Arg::None) {
        return Err(err!(Load, "_grouped_mm takes no bias, as in PyTorch")
            .help("add the bias of each row after it")
            .into());
    }
    let out = match (&offs, a, b) {
        (Arg::None, 3, 3) => builder.call("bmm", [x, mat2])?,
        (Arg::Leaf(_), 2, 3) => builder.call("grouped_mm", [x, mat2, offs])?,
        _ => {
            return Err(err!(Load, "expected rows [n, k], matrices [groups, k, m] and offsets")
                .help("a grouped product of other ranks is a loop over its groups")
                .into());
        }
    };
    match call.arg("out_dtype") {
        dtype @ Arg::DType(_) => builder.call("to", [leaf(out), dtype]).map(Out::Node),
        _ => Ok(Out::Node(out)),
    }
}

/// The sizes of a tensor as a tensor.
pub(super) fn shape_as_tensor<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let ty = builder.tensor_type(node(&call.first()?)?)?;
    let i64s = [("dtype", Arg::DType(DType::I64))];
    if ty.rank() == 0 {
        return with(builder, "zeros", [Arg::ints([0])], &i64s).map(Out::Node);
    }
    let mut sizes = Vec::with_capacity(ty.rank());
    for size in ty.shape.iter() {
        let size = size.known().map_or_else(|| Arg::dim(size.clone()), Arg::Int);
        sizes.push(leaf(with(builder, "full", [Arg::list([]), size], &i64s)?));
    }
    builder.call("stack", [Arg::list(sizes), Arg::Int(0)]).map(Out::Node)
}

/// The combinations of `r` elements of a vector: the places where indices rise.
pub(super) fn combinations<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let ty = builder.tensor_type(node(&x)?)?;
    let Some(size) = ty.shape.first().cloned() else {
        return Err(err!(Load, "expected a vector to combine, got {ty}").into());
    };
    let Arg::Int(r) = call.or("r", Arg::Int(2)) else {
        return Err(err!(Load, "expected a known number of elements to combine").into());
    };
    // n (n - 1) .. / r!, or as many with repeated elements.
    let counted = size.known().filter(|_| (1..=8).contains(&r)).map(|n| {
        let n = if call.is_true("with_replacement") && n > 0 { n + r - 1 } else { n };
        (0..r).fold(1i128, |count, i| count * i128::from((n - i).max(0)) / i128::from(i + 1))
    });
    let count = match (counted, declared_size(builder, call, 0)?) {
        (Some(count), _) => Arg::Int(i64::try_from(count).unwrap_or(i64::MAX)),
        (None, Some(declared)) => declared,
        (None, None) => return Err(err!(Load, "expected a known number of elements to combine").into()),
    };
    if !(1..=8).contains(&r) {
        return Err(err!(Load, "expected 1 to 8 elements to combine, got {r}").into());
    }
    let row = if call.is_true("with_replacement") { "le" } else { "lt" };
    let places = builder.call("arange", [Arg::dim(size)])?;
    let mut mask: Option<NodeId> = None;
    let along = |builder: &mut Builder<'a>, axis: i64| {
        let shape = Arg::ints((0..r).map(|i| if i == axis { -1 } else { 1 }));
        builder.call("reshape", [leaf(places), shape])
    };
    for axis in 1..r {
        let (a, b) = (along(builder, axis - 1)?, along(builder, axis)?);
        let rises = builder.call(row, [leaf(a), leaf(b)])?;
        mask = Some(match mask {
            None => rises,
            Some(mask) => builder.call("logical_and", [leaf(mask), leaf(rises)])?,
        });
    }
    let Some(mask) = mask else { return builder.call("reshape", [x, Arg::ints([-1, 1])]).map(Out::Node) };
    let found = builder.call("nonzero", [leaf(mask)])?;
    let rows = builder.call("arange", [count])?;
    let found = builder.call("index_select", [leaf(found), Arg::Int(0), leaf(rows)])?;
    builder.call("getitem", [x, Arg::tuple([leaf(found)])]).map(Out::Node)
}

/// The indices of the first `size` elements that are not zero, and `fill_value` where there are fewer.
pub(super) fn nonzero_static<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, size) = (call.first()?, call.need("size")?);
    let rank = builder.tensor_type(node(&x)?)?.rank() as i64;
    let found = builder.call("nonzero", [x])?;
    let sizes = Arg::list([size.clone(), Arg::Int(rank)]);
    let fill = call.or("fill_value", Arg::Int(-1));
    let rest = with(builder, "full", [sizes, fill], &[("dtype", Arg::DType(DType::I64))])?;
    let all = builder.call("cat", [Arg::list([leaf(found), leaf(rest)]), Arg::Int(0)])?;
    let rows = builder.call("arange", [size])?;
    builder.call("index_select", [leaf(all), Arg::Int(0), leaf(rows)]).map(Out::Node)
}

/// The declared size of an axis of the output.
fn declared_size<'a>(builder: &Builder<'a>, call: &Call<'a>, axis: usize) -> Attempt<Option<Arg>> {
    let name = call.node.outputs.first().and_then(input_name);
    let ty = name.map(|name| builder.declared(name)).transpose()?.flatten();
    Ok(ty.and_then(|ty| ty.shape.get(axis).cloned()).map(Arg::dim))
}

/// The sum over what a broadcast to the sizes of the tensor had repeated.
pub(super) fn sum_to_size<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, size) = (call.first()?, call.need("size")?);
    let ty = builder.tensor_type(node(&x)?)?;
    let target: Option<Vec<Dim>> = size
        .items()
        .unwrap_or_default()
        .iter()
        .map(|size| match size {
            Arg::Int(n) => Some(Dim::new(*n)),
            Arg::Dim(dim) => Some(dim.clone()),
            _ => None,
        })
        .collect();
    let Some(target) = target.filter(|target| target.len() <= ty.rank()) else {
        return Err(err!(Load, "expected known sizes, at most {} of them", ty.rank()).into());
    };
    let extra = ty.rank() - target.len();
    let summed = |axis: &usize| {
        *axis < extra || (target[axis - extra].known() == Some(1) && ty.shape[*axis].known() != Some(1))
    };
    let axes: Vec<i64> = (0..ty.rank()).filter(summed).map(|axis| axis as i64).collect();
    if axes.is_empty() {
        return builder.call("clone", [x]).map(Out::Node);
    }
    let sum = with(builder, "sum", [x], &[("dim", Arg::ints(axes)), ("keepdim", Arg::Bool(true))])?;
    builder.call("reshape", [leaf(sum), size]).map(Out::Node)
}

/// `repeat_interleave(repeats)`: each index as often as its element says.
pub(super) fn repeat_indices<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let repeats = call.first()?;
    let ty = builder.tensor_type(node(&repeats)?)?;
    let Some(size) = ty.shape.first().cloned() else {
        return Err(err!(Load, "expected a vector of repeats, got {ty}").into());
    };
    let dtype = Arg::DType(ty.dtype);
    let indices = with(builder, "arange", [Arg::dim(size)], &[("dtype", dtype)])?;
    let args = [leaf(indices), repeats, Arg::Int(0)];
    with(builder, "repeat_interleave", args, &[("output_size", call.arg("output_size"))]).map(Out::Node)
}

/// `atleast_1d` and so on of a list.
pub(super) fn atleast<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let tensors = call.first()?;
    let items = tensors.items().ok_or_else(|| err!(Load, "expected a list of tensors"))?;
    let outs = items.iter().map(|item| builder.call(call.base, [item.clone()]).map(Out::Node));
    outs.collect::<Attempt<Vec<Out>>>().map(Out::Many)
}

pub(super) fn diagflat<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let flat = builder.call("reshape", [call.first()?, Arg::ints([-1])])?;
    builder.call("diag_embed", [leaf(flat), call.or("offset", Arg::Int(0))]).map(Out::Node)
}

/// A power in `f64`.
pub(super) fn float_power<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let wide = |builder: &mut Builder<'a>, arg: Arg| match arg {
        Arg::Leaf(_) => builder.call("to", [arg, Arg::DType(DType::F64)]).map(leaf),
        Arg::Int(_) | Arg::Float(_) => {
            with(builder, "full", [Arg::list([]), arg], &[("dtype", Arg::DType(DType::F64))]).map(leaf)
        }
        other => Ok(other),
    };
    let (x, exponent) = match (call.first()?, call.need("exponent")?) {
        // A power with a number as exponent may be a root.
        (x @ Arg::Leaf(_), Arg::Int(n)) => (wide(builder, x)?, Arg::Float(n as f64)),
        (x @ Arg::Leaf(_), exponent @ Arg::Float(_)) => (wide(builder, x)?, exponent),
        (x, exponent) => (wide(builder, x)?, wide(builder, exponent)?),
    };
    builder.call("pow", [x, exponent]).map(Out::Node)
}

/// A number as a tensor, of `f32` where no dtype is given.
pub(super) fn scalar_tensor<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let dtype = match call.arg("dtype") {
        Arg::None => Arg::DType(DType::F32),
        dtype => dtype,
    };
    let value = call.first()?;
    if let Arg::Leaf(_) = value {
        return builder.call("to", [value, dtype]).map(Out::Node);
    }
    with(builder, "full", [Arg::list([]), value], &[("dtype", dtype)]).map(Out::Node)
}

/// `unique_dim`, `_unique2` and `unique_consecutive`: the elements, the inverse and the counts; what is not
/// asked for is empty.
pub(super) fn unique<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let row = if call.base == "unique_consecutive" { "unique_consecutive" } else { "unique" };
    let mut kwargs = Vec::new();
    let mut asked = vec![true];
    for (output, name) in ["return_inverse", "return_counts"].into_iter().enumerate() {
        // PyTorch may give more than it was asked for.
        let declared = match call.node.outputs.get(output + 1).and_then(input_name) {
            Some(name) => builder.declared(name)?,
            None => None,
        };
        let is_given = declared.is_some_and(|ty| ty.shape.numel().known() != Some(0));
        asked.push(is_given || call.is_true(name));
        kwargs.push((name, Arg::Bool(is_given || call.is_true(name))));
    }
    if !matches!(call.arg("dim"), Arg::None) {
        kwargs.push(("dim", call.arg("dim")));
    }
    let found = with(builder, row, [call.first()?], &kwargs)?;
    let is_alone = asked.iter().filter(|asked| **asked).count() == 1;
    let mut outs = Vec::new();
    let mut place = 0;
    for asked in asked {
        outs.push(Out::Node(if !asked {
            with(builder, "empty", [Arg::ints([0])], &[("dtype", Arg::DType(DType::I64))])?
        } else if is_alone {
            found
        } else {
            place += 1;
            builder.call("getitem", [leaf(found), Arg::Int(place - 1)])?
        }));
    }
    Ok(Out::Many(outs))
}

/// `_trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim)`: a product of three, summed over axes.
pub(super) fn trilinear<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let mut product: Option<NodeId> = None;
    for (factor, axes) in [("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")] {
        let mut x = call.need(factor)?;
        for axis in call.arg(axes).items().unwrap_or_default() {
            x = leaf(builder.call("unsqueeze", [x, axis.clone()])?);
        }
        product = Some(match product {
            None => node(&x)?,
            Some(product) => builder.call("mul", [leaf(product), x])?,
        });
    }
    let product = product.ok_or_else(|| err!(Load, "expected three factors"))?;
    let axes = call.need("sumdim")?;
    if axes.items().is_some_and(<[Arg]>::is_empty) {
        return Ok(Out::Node(product));
    }
    with(builder, "sum", [leaf(product)], &[("dim", axes)]).map(Out::Node)
}

/// `max_unpool2d` and `max_unpool3d`: the elements at their places among zeros.
pub(super) fn max_unpool<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, indices, size) = (call.first()?, call.need("indices")?, call.need("output_size")?);
    let ty = builder.tensor_type(node(&x)?)?;
    let sizes = size.items().unwrap_or_default().to_vec();
    if sizes.len() > ty.rank() {
        return Err(err!(Load, "expected at most {} sizes, got {}", ty.rank(), sizes.len()).into());
    }
    let leading: Vec<Arg> =
        ty.shape[..ty.rank() - sizes.len()].iter().map(|dim| Arg::dim(dim.clone())).collect();
    let rows: Vec<Arg> = leading.iter().cloned().chain([Arg::Int(-1)]).collect();
    let area = sizes.iter().try_fold(Dim::new(1), |area, size| match size {
        Arg::Int(n) => Some(area * Dim::new(*n)),
        Arg::Dim(dim) => Some(area * dim.clone()),
        _ => None,
    });
    let area = area.ok_or_else(|| err!(Load, "expected known sizes of {}", call.base))?;
    let x = builder.call("reshape", [x, Arg::list(rows.clone())])?;
    let indices = builder.call("reshape", [indices, Arg::list(rows)])?;
    let blank = Arg::list(leading.iter().cloned().chain([Arg::dim(area)]));
    let zeros = with(builder, "full", [blank, Arg::Int(0)], &[("dtype", Arg::DType(ty.dtype))])?;
    let out = builder.call("scatter", [leaf(zeros), Arg::Int(-1), leaf(indices), leaf(x)])?;
    let shape = Arg::list(leading.into_iter().chain(sizes));
    builder.call("reshape", [leaf(out), shape]).map(Out::Node)
}

/// `fill_diagonal(self, fill_value, wrap)`; the indices of all axes are equal on the diagonal.
pub(super) fn fill_diagonal<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let ty = builder.tensor_type(node(&x)?)?;
    if ty.rank() != 2 {
        return Err(err!(Load, "expected a matrix to fill the diagonal of, got {ty}").into());
    }
    let wraps = call.is_true("wrap") && !ty.shape[0].same(&ty.shape[1]).is_yes();
    let at = |builder: &mut Builder<'a>, axis: usize| {
        let places = builder.call("arange", [Arg::dim(ty.shape[axis].clone())])?;
        let shape = if axis == 0 { [-1, 1] } else { [1, -1] };
        builder.call("reshape", [leaf(places), Arg::ints(shape)])
    };
    let (mut row, column) = (at(builder, 0)?, at(builder, 1)?);
    if wraps {
        // A row is left out between the diagonals of a tall matrix.
        let period = ty.shape[1].clone() + Dim::new(1);
        row = builder.call("remainder", [leaf(row), Arg::dim(period)])?;
    }
    let mask = builder.call("eq", [leaf(row), leaf(column)])?;
    builder.call("masked_fill", [x, leaf(mask), call.need("fill_value")?]).map(Out::Node)
}

/// `embedding_renorm(weight, indices, max_norm, norm_type)`: a table whose rows at these places are scaled down to
/// a norm.
pub(super) fn embedding_renorm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let weight = call.first()?;
    let places = builder.call("reshape", [call.need("indices")?, Arg::ints([-1])])?;
    let rows = builder.call("index_select", [weight.clone(), Arg::Int(0), leaf(places)])?;
    let dim = [("dim", Arg::Int(-1)), ("keepdim", Arg::Bool(true))];
    let norms = with(builder, "linalg_vector_norm", [leaf(rows), call.need("norm_type")?], &dim)?;
    let most = call.need("max_norm")?;
    let is_above = builder.call("gt", [leaf(norms), most.clone()])?;
    let shifted = builder.call("add", [leaf(norms), Arg::Float(1e-7)])?;
    let inverse = builder.call("reciprocal", [leaf(shifted)])?;
    let factor = builder.call("mul", [leaf(inverse), most])?;
    let factor = builder.call("where", [leaf(is_above), leaf(factor), Arg::Float(1.0)])?;
    let rows = builder.call("mul", [leaf(rows), leaf(factor)])?;
    builder.call("index_put", [weight, Arg::list([leaf(places)]), leaf(rows)]).map(Out::Node)
}

/// The angle of real numbers: 0, or pi below zero.
pub(super) fn angle<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let dtype = builder.tensor_type(node(&x)?)?.dtype;
    let x = if dtype.is_float() { x } else { leaf(builder.call("to", [x, Arg::DType(DType::F32)])?) };
    let below = builder.call("lt", [x.clone(), Arg::Int(0)])?;
    let zeros = builder.call("zeros_like", [x.clone()])?;
    let angle = builder.call("masked_fill", [leaf(zeros), leaf(below), Arg::Float(std::f64::consts::PI)])?;
    let is_nan = builder.call("isnan", [x.clone()])?;
    builder.call("where", [leaf(is_nan), x, leaf(angle)]).map(Out::Node)
}

/// The forms of `embedding_bag`: `(output, offsets of indices, sizes of bags, places of maxima)`, of which
/// only the first is computed.
pub(super) fn embedding_bag<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let mode = match call.or("mode", Arg::Int(0)) {
        Arg::Int(0) => "sum",
        Arg::Int(1) => "mean",
        Arg::Int(2) => "max",
        _ => return Err(err!(Load, "unknown mode of {}", call.base).into()),
    };
    let padding = match call.arg("padding_idx") {
        Arg::Int(-1) if call.base.starts_with('_') => Arg::None,
        padding => padding,
    };
    let args = [call.need("indices")?, call.need("weight")?, call.arg("offsets")];
    let kwargs = [
        ("mode", Arg::str(mode)),
        ("per_sample_weights", call.arg("per_sample_weights")),
        ("include_last_offset", call.or("include_last_offset", Arg::Bool(false))),
        ("padding_idx", padding),
    ];
    let out = with(builder, "embedding_bag", args, &kwargs)?;
    Ok(Out::Many(vec![Out::Node(out)]))
}

/// `affine_grid_generator(theta, size, align_corners)`: where `theta` takes the centres of pixels, from -1 to 1.
pub(super) fn affine_grid<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (theta, size) = (call.first()?, call.need("size")?);
    let dtype = builder.tensor_type(node(&theta)?)?.dtype;
    let size = size.items().unwrap_or_default().to_vec();
    let [batch, _, extents @ ..] = size.as_slice() else {
        return Err(err!(Load, "expected at least two sizes of a grid").into());
    };
    let k = extents.len();
    let mut coordinates = Vec::new();
    for (axis, extent) in extents.iter().enumerate().rev() {
        let Arg::Int(n) = extent else {
            return Err(err!(Load, "expected known sizes of a grid").into());
        };
        let end = match (*n, call.is_true("align_corners")) {
            (1, true) => 0.0,
            (_, true) => 1.0,
            (n, false) => (n as f64 - 1.0) / n as f64,
        };
        let args = [Arg::Float(-end), Arg::Float(end), extent.clone()];
        let line = with(builder, "linspace", args, &[("dtype", Arg::DType(dtype))])?;
        let shape = Arg::ints((0..k).map(|i| if i == axis { -1 } else { 1 }));
        let line = builder.call("reshape", [leaf(line), shape])?;
        coordinates.push(leaf(builder.call("expand", [leaf(line), Arg::list(extents.to_vec())])?));
    }
    let ones =
        with(builder, "full", [Arg::list(extents.to_vec()), Arg::Int(1)], &[("dtype", Arg::DType(dtype))])?;
    coordinates.push(leaf(ones));
    let grid = builder.call("stack", [Arg::list(coordinates), Arg::Int(-1)])?;
    let points = builder.call("reshape", [leaf(grid), Arg::ints([-1, k as i64 + 1])])?;
    let flipped = builder.call("transpose", [theta, Arg::Int(1), Arg::Int(2)])?;
    let moved = builder.call("matmul", [leaf(points), leaf(flipped)])?;
    let shape = std::iter::once(batch.clone()).chain(extents.iter().cloned()).chain([Arg::Int(k as i64)]);
    builder.call("reshape", [leaf(moved), Arg::list(shape)]).map(Out::Node)
}

/// `grouped_mm_fallback(input, weight, offs)` of transformers: rows, sorted by group, times the matrix of
/// their group; `offs` are the ends of the groups. Rows after the last end are zero.
pub(super) fn grouped_mm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, weight, ends) = (call.first()?, call.need("weight")?, call.need("offs")?);
    let ty = builder.tensor_type(node(&weight)?)?;
    let (Some(groups), Some(rows)) =
        (ty.shape.first().and_then(Dim::known), builder.tensor_type(node(&x)?)?.shape.first().cloned())
    else {
        return Err(err!(Load, "expected a known number of groups").into());
    };
    if !(1..=1024).contains(&groups) {
        return Err(err!(Limit, "expected 1 to 1024 groups, got {groups}").into());
    }
    let places = builder.call("arange", [Arg::dim(rows)])?;
    let of_row = with(builder, "searchsorted", [ends, leaf(places)], &[("right", Arg::Bool(true))])?;
    let of_row = builder.call("unsqueeze", [leaf(of_row), Arg::Int(1)])?;
    let mut sum: Option<NodeId> = None;
    for group in 0..groups {
        let matrix = builder.call("select", [weight.clone(), Arg::Int(0), Arg::Int(group)])?;
        let product = builder.call("matmul", [x.clone(), leaf(matrix)])?;
        let is_in = builder.call("eq", [leaf(of_row), Arg::Int(group)])?;
        let part = builder.call("where", [leaf(is_in), leaf(product), Arg::Float(0.0)])?;
        sum = Some(match sum {
            None => part,
            Some(sum) => builder.call("add", [leaf(sum), leaf(part)])?,
        });
    }
    sum.map(Out::Node).ok_or_else(|| err!(Load, "expected groups").into())
}

/// `convert_element_type(a, dtype)`.
pub(super) fn convert<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    generic(builder, "to", call, &[("a", "x")])
}

/// `gradient(x, spacing, dim, edge_order)`: central differences inside, one-sided ones at the ends, one
/// result for each axis.
pub(super) fn gradient<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let ty = builder.tensor_type(node(&x)?)?;
    let axis = |arg: &Arg| match arg {
        Arg::Int(axis) => Ok(crate::ops::axis(*axis, ty.rank())?),
        other => Err(err!(Load, "expected a known axis, got {}", other.kind_name())),
    };
    let axes = match call.arg("dim") {
        Arg::None => (0..ty.rank()).collect(),
        Arg::List(items) => items.iter().map(axis).collect::<crate::Result<Vec<usize>>>()?,
        one => vec![axis(&one)?],
    };
    let second = match call.or("edge_order", Arg::Int(1)) {
        Arg::Int(1) => false,
        Arg::Int(2) => true,
        _ => return Err(err!(Load, "expected the edge_order 1 or 2").into()),
    };
    let mut outs = Vec::new();
    for (i, &axis) in axes.iter().enumerate() {
        let spacing = match call.arg("spacing") {
            Arg::List(items) => {
                items.get(i).cloned().ok_or_else(|| err!(Load, "expected a spacing for each axis"))?
            }
            Arg::None => Arg::Float(1.0),
            one => one,
        };
        let along = |builder: &mut Builder<'a>, of: &Arg, at: usize, from: i64, to: Arg| {
            builder.call("slice", [of.clone(), Arg::Int(at as i64), Arg::Int(from), to]).map(leaf)
        };
        let mut between = |of: &Arg, at: usize, [a, b]: [(i64, Arg); 2]| -> Attempt<Arg> {
            let (low, high) = (along(builder, of, at, a.0, a.1)?, along(builder, of, at, b.0, b.1)?);
            builder.call("sub", [high, low]).map(leaf)
        };
        let inner = || [(0, Arg::Int(-1)), (1, Arg::None)];
        let steps = between(&x, axis, inner())?;
        // The slopes between neighbours, and how far apart they are.
        let (slopes, widths) = match &spacing {
            Arg::Leaf(_) => {
                let widths = between(&spacing, 0, inner())?;
                let mut shape = vec![Arg::Int(1); ty.rank()];
                shape[axis] = Arg::Int(-1);
                let widths = leaf(builder.call("reshape", [widths, Arg::list(shape)])?);
                (leaf(builder.call("div", [steps, widths.clone()])?), widths)
            }
            number => {
                let slopes = leaf(builder.call("div", [steps, number.clone()])?);
                let ones = leaf(builder.call("ones_like", [slopes.clone()])?);
                (slopes, ones)
            }
        };
        let part = |builder: &mut Builder<'a>, of: &Arg, from: Arg, to: Arg| {
            builder.call("slice", [of.clone(), Arg::Int(axis as i64), from, to]).map(leaf)
        };
        let mut ends = |of: &Arg| -> Attempt<[Arg; 2]> {
            Ok([part(builder, of, Arg::Int(0), Arg::Int(-1))?, part(builder, of, Arg::Int(1), Arg::None)?])
        };
        let ([s1, s2], [w1, w2]) = (ends(&slopes)?, ends(&widths)?);
        // Each slope counts by the width of the other side.
        let (a, b) =
            (builder.call("mul", [s1.clone(), w2.clone()])?, builder.call("mul", [s2.clone(), w1.clone()])?);
        let (sum, width) =
            (builder.call("add", [leaf(a), leaf(b)])?, builder.call("add", [w1.clone(), w2.clone()])?);
        let centre = leaf(builder.call("div", [leaf(sum), leaf(width)])?);
        let mut first = part(builder, &slopes, Arg::Int(0), Arg::Int(1))?;
        let mut last = part(builder, &slopes, Arg::Int(-1), Arg::None)?;
        if second {
            // The parabola through the last three places.
            let edge = |builder: &mut Builder<'a>,
                        near: (&Arg, &Arg),
                        far: (&Arg, &Arg),
                        at: [Arg; 2]|
             -> Attempt<Arg> {
                let [from, to] = at;
                let mut cut = |of: &Arg| part(builder, of, from.clone(), to.clone());
                let (s, w, t, v) = (cut(near.0)?, cut(near.1)?, cut(far.0)?, cut(far.1)?);
                let change = builder.call("sub", [s.clone(), t])?;
                let width = builder.call("add", [w.clone(), v])?;
                let bend = builder.call("div", [leaf(change), leaf(width)])?;
                let bend = builder.call("mul", [leaf(bend), w])?;
                builder.call("add", [s, leaf(bend)]).map(leaf)
            };
            first = edge(builder, (&s1, &w1), (&s2, &w2), [Arg::Int(0), Arg::Int(1)])?;
            last = edge(builder, (&s2, &w2), (&s1, &w1), [Arg::Int(-1), Arg::None])?;
        }
        let parts = Arg::list([first, centre, last]);
        outs.push(Out::Node(builder.call("cat", [parts, Arg::Int(axis as i64)])?));
    }
    Ok(Out::Many(outs))
}

/// `pad_sequence(sequences, batch_first, padding_value, padding_side)`: filled to the longest, and stacked.
pub(super) fn pad_sequence<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let sequences = call.first()?;
    let items = sequences.items().ok_or_else(|| err!(Load, "expected a list of sequences"))?;
    let types =
        items.iter().map(|item| Ok(builder.tensor_type(node(item)?)?)).collect::<Attempt<Vec<_>>>()?;
    let mut longest = Dim::new(0);
    for ty in &types {
        let length =
            ty.shape.first().ok_or_else(|| err!(Load, "expected sequences with an axis, got {ty}"))?;
        longest = longest.max(length);
    }
    let left = matches!(call.get("padding_side"), Some(Arg::Str(side)) if &**side == "left");
    let mut padded = Vec::new();
    for (item, ty) in items.iter().zip(&types) {
        let mut pads = vec![Arg::Int(0); 2 * ty.rank()];
        let place = if left { pads.len() - 2 } else { pads.len() - 1 };
        pads[place] = Arg::dim(longest.clone() - ty.shape[0].clone());
        let value = call.or("padding_value", Arg::Float(0.0));
        padded.push(leaf(builder.call("constant_pad_nd", [item.clone(), Arg::list(pads), value])?));
    }
    let axis = if call.is_true("batch_first") { 0 } else { 1 };
    builder.call("stack", [Arg::list(padded), Arg::Int(axis)]).map(Out::Node)
}
