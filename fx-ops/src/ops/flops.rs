//! How much arithmetic products, convolutions, attention and their like do: what `#[flops = ..]` of their
//! rows names.
//!
//! Two for each multiply-add, as in PyTorch's counter; the attention counts masked scores too, as that does.

use fx_core::{Arg, Dim, TensorType, Type, TypeTree};

/// Returns the tensor type of an argument.
fn tensor(args: &[TypeTree], i: usize) -> Option<&TensorType> {
    args.get(i)?.tensor()
}

fn numel(args: &[TypeTree], i: usize) -> Option<Dim> {
    tensor(args, i).map(|ty| ty.shape.numel())
}

fn size(ty: &TensorType, from_end: usize) -> Option<&Dim> {
    ty.shape.get(ty.rank().checked_sub(from_end)?)
}

/// A product whose left operand is argument `AT`: the last axis of that is summed over.
pub(crate) fn product<const AT: usize>(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    Some(out.tensor()?.shape.numel() * size(tensor(args, AT)?, 1)? * 2)
}

/// A sum of the products of a batch, whose left operands are argument 1 and right ones argument 2.
pub(crate) fn summed_products(args: &[TypeTree], _out: &TypeTree) -> Option<Dim> {
    Some(numel(args, 1)? * size(tensor(args, 2)?, 1)? * 2)
}

/// The product of each row of argument 0 and a matrix.
pub(crate) fn grouped_product(args: &[TypeTree], _out: &TypeTree) -> Option<Dim> {
    Some(numel(args, 0)? * size(tensor(args, 1)?, 2)? * 2)
}

/// A contraction of `x` and `other` over the axes that `dims` says.
pub(crate) fn tensordot(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    let x = tensor(args, 0)?;
    let inner: Dim = match args.get(2)? {
        Arg::Int(n) => {
            let n = usize::try_from(*n).ok()?;
            x.shape.get(x.rank().checked_sub(n)?..)?.iter().product()
        }
        dims => {
            let axes = dims.items()?.first()?.items()?;
            let axis = |axis: &TypeTree| match axis {
                Arg::Int(i) => {
                    x.shape.get(usize::try_from(if *i < 0 { i + x.rank() as i64 } else { *i }).ok()?).cloned()
                }
                _ => None,
            };
            axes.iter().map(axis).collect::<Option<Vec<Dim>>>()?.into_iter().product()
        }
    };
    Some(out.tensor()?.shape.numel() * inner * 2)
}

/// A sum of products over named axes, of one or two operands.
pub(crate) fn einsum(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    let (Arg::Str(equation), operands) = (args.first()?, args.get(1)?.items()?) else { return None };
    let inputs = equation.split("->").next()?;
    if operands.len() == 1 {
        return Some(operands[0].tensor()?.shape.numel());
    }
    if operands.len() != 2 || inputs.contains('.') {
        return None;
    }
    let mut sizes: Vec<(char, &Dim)> = Vec::new();
    for (names, operand) in inputs.split(',').zip(operands) {
        let names = names.chars().filter(|name| !name.is_whitespace());
        for (name, size) in names.zip(operand.tensor()?.shape.iter()) {
            match sizes.iter_mut().find(|(other, _)| *other == name) {
                Some((_, known)) if known.known() == Some(1) => *known = size,
                Some(_) => {}
                None => sizes.push((name, size)),
            }
        }
    }
    out.tensor()?;
    Some(sizes.into_iter().map(|(_, size)| size).product::<Dim>() * 2)
}

/// `x1^T W x2` for each output.
pub(crate) fn bilinear(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    let (a, b) = (size(tensor(args, 0)?, 1)?, size(tensor(args, 1)?, 1)?);
    Some(out.tensor()?.shape.numel() * a * (b + 1) * 2)
}

/// A convolution with a weight `[out, in / groups, ..]`: each element of the result is a sum over
/// `in / groups` and the window.
pub(crate) fn conv(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    Some(out.tensor()?.shape.numel() * tensor(args, 1)?.shape.get(1..)?.iter().product::<Dim>() * 2)
}

/// A transposed convolution with a weight `[in, out / groups, ..]`: each element of the input is spread over
/// these.
pub(crate) fn conv_transposed(args: &[TypeTree], _out: &TypeTree) -> Option<Dim> {
    Some(numel(args, 0)? * tensor(args, 1)?.shape.get(1..)?.iter().product::<Dim>() * 2)
}

/// Either of them, as argument 6 says.
pub(crate) fn convolution(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    match args.get(6)? {
        Arg::Bool(true) => conv_transposed(args, out),
        Arg::Bool(false) => conv(args, out),
        _ => None,
    }
}

/// Scores of queries `[.., l, e]` with keys `[.., s, e]`, and their sum of values: `2 * s` for each element
/// of the queries and of the result.
pub(crate) fn attention(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    let keys = size(tensor(args, 1)?, 2)?;
    Some((numel(args, 0)? + out.tensor()?.shape.numel()) * keys * 2)
}

/// A recurrent cell with a state as argument 1 and two matrices from argument `AT` on.
pub(crate) fn cell<const AT: usize>(args: &[TypeTree], _out: &TypeTree) -> Option<Dim> {
    let state = tensor(args, 1)?;
    let rows: Dim = state.shape.get(..state.rank().checked_sub(1)?)?.iter().product();
    Some(rows * (numel(args, AT)? + numel(args, AT + 1)?) * 2)
}

/// A recurrent network over a sequence, with its matrices among the list that is argument `AT`: each is used
/// at each step.
pub(crate) fn recurrent<const AT: usize>(args: &[TypeTree], _out: &TypeTree) -> Option<Dim> {
    let x = tensor(args, 0)?;
    let steps: Dim = x.shape.get(..x.rank().checked_sub(1)?)?.iter().product();
    let mut weights = Dim::new(0);
    for weight in args.get(AT)?.items()? {
        let ty = weight.leaf().and_then(Type::tensor)?;
        if ty.rank() == 2 {
            weights += ty.shape.numel();
        }
    }
    Some(steps * weights * 2)
}

/// Pooling with windows over `AXES` axes, whose size is argument 1: one for each element of each window.
pub(crate) fn pool<const AXES: u32>(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    let out = match out {
        Arg::Leaf(Type::Tensor(ty)) => ty,
        tuple => tuple.items()?.first()?.tensor()?,
    };
    let int = |arg: &TypeTree| match arg {
        Arg::Int(n) => Some(*n),
        _ => None,
    };
    let window = match args.get(1)? {
        Arg::Int(n) => n.checked_pow(AXES)?,
        list => match list.items()? {
            [one] => int(one)?.checked_pow(AXES)?,
            all => all.iter().map(int).try_fold(1i64, |n, size| n.checked_mul(size?))?,
        },
    };
    Some(out.shape.numel() * window)
}

/// A batch norm: a factor and a term for each element, and in training (argument 5) the statistics as well.
pub(crate) fn batch_norm(args: &[TypeTree], _out: &TypeTree) -> Option<Dim> {
    let each = if matches!(args.get(5), Some(Arg::Bool(true))) { 7 } else { 2 };
    Some(numel(args, 0)? * each)
}

/// Distances between rows: a difference, a power and a sum for each pair of elements.
pub(crate) fn distances(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    Some(out.tensor()?.shape.numel() * size(tensor(args, 0)?, 1)? * 3)
}

/// `numerator / denominator` times the cube of the last axis, for each matrix of a batch.
fn cubic(args: &[TypeTree], numerator: i64, denominator: i64) -> Option<Dim> {
    let n = size(tensor(args, 0)?, 1)?;
    Some((numel(args, 0)? * n * numerator).floor_div(&Dim::new(denominator)))
}

/// The elimination of a square matrix: `2/3 n^3`.
pub(crate) fn elimination(args: &[TypeTree], _out: &TypeTree) -> Option<Dim> {
    cubic(args, 2, 3)
}

/// A Cholesky factor: `n^3 / 3`.
pub(crate) fn cholesky(args: &[TypeTree], _out: &TypeTree) -> Option<Dim> {
    cubic(args, 1, 3)
}

/// An inverse: `2 n^3`.
pub(crate) fn inverse(args: &[TypeTree], _out: &TypeTree) -> Option<Dim> {
    cubic(args, 2, 1)
}

/// A system of equations: the elimination, and two triangles for each element of the result.
pub(crate) fn solve(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    Some(elimination(args, out)? + out.tensor()?.shape.numel() * size(tensor(args, 0)?, 1)? * 2)
}

/// A resized image: two for each element that a new one is mixed from, as argument 3 says.
pub(crate) fn interpolate(args: &[TypeTree], out: &TypeTree) -> Option<Dim> {
    let Arg::Str(mode) = args.get(3)? else { return None };
    let out = out.tensor()?.shape.numel();
    Some(match &**mode {
        "nearest" | "nearest-exact" => Dim::new(0),
        "linear" => out * 4,
        "bilinear" => out * 8,
        "trilinear" => out * 16,
        "bicubic" => out * 32,
        "area" => numel(args, 0)?,
        _ => return None,
    })
}
