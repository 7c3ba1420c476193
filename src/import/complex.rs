//! Complex numbers as pairs of reals. There are no complex dtypes: a complex tensor of the program is a
//! tensor of reals with an additional last axis of 2, as `view_as_real` gives it, also as an input, output,
//! parameter or buffer.
//!
//! Which tensors are complex the archive says. Views of them are views of the pairs, so in-place code works;
//! what only moves or adds elements is done with both parts apart, products by their four products.

use super::alias::StepKind;
use super::aten::{self, functional};
use super::build::{Attempt, Builder, Out};
use super::call::{Call, leaf, node, with, write};
use super::schema::{Argument, Node, OptionalTensor, TensorMeta};
use super::{control, fft};
use crate::{Arg, DType, NodeId, err};

/// Returns whether a tensor of the archive is of complex numbers.
pub(super) fn is_complex(meta: &TensorMeta) -> bool {
    is_complex_code(meta.dtype)
}

/// Returns whether PyTorch's number of a dtype is that of a complex one.
pub(super) fn is_complex_code(code: u32) -> bool {
    matches!(code, 9..=11)
}

/// Returns the dtype of the parts of complex numbers.
pub(super) fn part_dtype(code: u32) -> Option<DType> {
    match code {
        9 => Some(DType::F16),
        10 => Some(DType::F32),
        11 => Some(DType::F64),
        _ => None,
    }
}

/// Operators that give real numbers, also of complex ones.
const REAL: &[&str] = &[
    "view_as_real",
    "real",
    "imag",
    "abs",
    "absolute",
    "angle",
    "norm",
    "linalg_vector_norm",
    "linalg_norm",
    "eq",
    "ne",
    "isnan",
    "isinf",
    "isfinite",
    "allclose",
    "equal",
    "is_nonzero",
    "fft_irfft",
    "fft_irfft2",
    "fft_irfftn",
    "fft_hfft",
    "fft_hfft2",
    "fft_hfftn",
];

/// Returns whether an operator gives complex numbers, where no archive says it. `takes` says whether an argument
/// is complex or names a complex dtype, `has_real_dtype` whether it names another dtype, and `return_complex` is
/// the argument of this name.
pub(crate) fn makes_complex(base: &str, takes: bool, has_real_dtype: bool, return_complex: bool) -> bool {
    match base {
        "complex" | "polar" | "view_as_complex" => true,
        "stft" | "istft" => return_complex,
        base if REAL.contains(&base) => false,
        base if fft::knows(base) => true,
        _ => takes && !has_real_dtype,
    }
}

/// Operators that are known for complex numbers only; for what cannot be imported, they are not missing.
pub(super) fn knows(base: &str) -> bool {
    const KNOWN: &[&str] = &[
        "view_as_real",
        "view_as_complex",
        "complex",
        "polar",
        "imag",
        "angle",
        "conj_physical",
        "_conj_physical",
    ];
    KNOWN.contains(&base) || fft::knows(base)
}

/// Operators that give a view of what they take.
const VIEWS: &[&str] = &[
    "alias",
    "detach",
    "lift_fresh",
    "lift",
    "positive",
    "resolve_conj",
    "resolve_neg",
    "contiguous",
    "reshape",
    "_reshape",
    "flatten",
    "ravel",
    "view",
    "unflatten",
    "unsqueeze",
    "squeeze",
    "_unsafe_view",
    "_reshape_alias",
    "permute",
    "transpose",
    "swapaxes",
    "swapdims",
    "movedim",
    "moveaxis",
    "select",
    "slice",
    "narrow",
    "expand",
    "broadcast_to",
    "split",
    "split_with_sizes",
    "chunk",
    "tensor_split",
    "unsafe_split",
    "unsafe_chunk",
    "unsafe_split_with_sizes",
    "unbind",
    "unsqueeze_",
    "squeeze_",
    "transpose_",
];

/// Operators that move, add or scale elements, so that both parts can be computed apart.
const APART: &[&str] = &[
    "neg",
    "negative",
    "sum",
    "mean",
    "cumsum",
    "clone",
    "cat",
    "concat",
    "concatenate",
    "stack",
    "where",
    "roll",
    "flip",
    "repeat",
    "tile",
    "index_select",
    "gather",
    "scatter",
    "scatter_add",
    "index",
    "index_put",
    "_unsafe_index",
    "index_add",
    "index_copy",
    "constant_pad_nd",
    "pad",
    "slice_scatter",
    "select_scatter",
    "tril",
    "triu",
    "diagonal",
    "diag_embed",
    "unfold",
    "masked_fill",
    "repeat_interleave",
    "zeros_like",
    "empty_like",
    "zeros",
    "empty",
    "new_zeros",
    "new_empty",
    "fill",
    "zero",
    "copy",
    "diff",
    "trace",
    "lerp",
    "masked_select",
    "take",
    "fft_fftshift",
    "fft_ifftshift",
    "hstack",
    "vstack",
    "ones",
    "ones_like",
    "new_ones",
    "full",
    "full_like",
    "new_full",
    "scalar_tensor",
    "eye",
];

/// Operators that are linear in each of two operands.
const BILINEAR: &[&str] = &[
    "mul",
    "multiply",
    "matmul",
    "mm",
    "bmm",
    "mv",
    "dot",
    "outer",
    "ger",
    "kron",
    "einsum",
    "inner",
    "tensordot",
    "linear",
];

/// A tensor, or a number, as its parts; without an imaginary part it is real.
pub(super) struct Parts {
    pub(super) re: Arg,
    pub(super) im: Option<Arg>,
}

/// Imports an operator that takes or gives complex numbers; `None` if it does neither.
pub(super) fn import<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Option<Out>> {
    // A transform of real numbers to real ones takes them as complex ones.
    let is_transform = fft::knows(call.base) && builder.registry.get(call.base).is_none();
    let is_taken = || call.node.inputs.iter().any(|input| takes(builder, &input.arg));
    if !is_transform && !gives(builder, call.node) && !is_taken() {
        return Ok(None);
    }
    if let Some(base) = call.base.strip_suffix("_copy").filter(|base| VIEWS.contains(base) || knows(base)) {
        let copied = Call { base, args: call.args.clone(), ..*call };
        let copy = value(builder, &copied)?;
        let copy = match copy {
            Out::View(view) => Out::Node(view.node),
            other => other,
        };
        return Ok(Some(copy));
    }
    if VIEWS.contains(&call.base) {
        return value(builder, call).map(Some);
    }
    let Some(base) = call.base.strip_suffix('_').filter(|base| !base.ends_with('_')) else {
        return value(builder, call).map(Some);
    };
    let view = call.view(builder)?;
    let functional = Call { base, args: call.args.clone(), ..*call };
    let new = match value(builder, &functional)? {
        Out::Node(node) => node,
        Out::View(view) => builder.current(&view)?,
        _ => return Err(err!(Load, "{base} gives no tensor").into()),
    };
    write(builder, &view, new).map(Some)
}

/// Returns whether an output is complex.
fn gives(builder: &Builder<'_>, node: &Node) -> bool {
    if !node.outputs.is_empty() {
        return node.outputs.iter().any(|output| takes(builder, output));
    }
    let base = node.target.strip_prefix("torch.ops.aten.").and_then(|name| name.split('.').next());
    let dtype = dtype_argument(node);
    let is_taken =
        node.inputs.iter().any(|input| takes(builder, &input.arg)) || dtype.is_some_and(is_complex_code);
    let is_real = dtype.is_some_and(|code| !is_complex_code(code));
    let is_true = |name: &str| {
        node.inputs.iter().any(|input| input.name == name && matches!(input.arg, Argument::AsBool(true)))
    };
    makes_complex(base.unwrap_or_default(), is_taken, is_real, is_true("return_complex"))
}

/// Returns PyTorch's number of the dtype that a call names.
fn dtype_argument(node: &Node) -> Option<u32> {
    node.inputs.iter().find_map(|input| match input.arg {
        Argument::AsScalarType(code) if input.name == "dtype" => Some(code),
        _ => None,
    })
}

/// Returns whether an argument has complex numbers in it.
pub(super) fn takes(builder: &Builder<'_>, argument: &Argument) -> bool {
    let is = |name: &str| builder.tensor_meta(name).is_some_and(is_complex);
    match argument {
        Argument::AsTensor(tensor) | Argument::AsOptionalTensor(OptionalTensor::AsTensor(tensor)) => {
            is(&tensor.name)
        }
        Argument::AsTensors(tensors) => tensors.iter().any(|tensor| is(&tensor.name)),
        Argument::AsOptionalTensors(tensors) => tensors
            .iter()
            .any(|tensor| matches!(tensor, OptionalTensor::AsTensor(tensor) if is(&tensor.name))),
        Argument::AsComplex(_) => true,
        _ => false,
    }
}

fn value<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let is_input =
        |builder: &Builder<'a>, i: usize| call.node.inputs.get(i).is_some_and(|x| takes(builder, &x.arg));
    let first = is_input(builder, 0);
    Ok(match call.base {
        "view_as_real" | "view_as_complex" => {
            let mut view = call.view(builder)?;
            view.node = builder.current(&view)?;
            view.version = builder.storages[view.storage].version;
            Out::View(view)
        }
        "real" | "imag" if first => {
            let of = call.view(builder)?;
            let last = builder.tensor_type(node(&call.first()?)?)?.rank() as i64 - 1;
            let index = Arg::Int(i64::from(call.base == "imag"));
            let part = builder.call("select", [call.first()?, Arg::Int(last), index.clone()])?;
            Out::View(builder.view(&of, StepKind::Select { dim: last, index }, part))
        }
        "complex" => joined(builder, call.need("real")?, call.need("imag")?)?,
        "polar" => {
            let (length, angle) = (call.need("abs")?, call.need("angle")?);
            let (re, im) = from_polar(builder, length, angle)?;
            joined(builder, re, im)?
        }
        "conj" | "_conj" | "conj_physical" | "_conj_physical" if first => {
            let (re, im) = both(builder, call, 0)?;
            let im = builder.call("neg", [im])?;
            joined(builder, re, leaf(im))?
        }
        "abs" | "absolute" => {
            let (re, im) = both(builder, call, 0)?;
            Out::Node(builder.call("hypot", [re, im])?)
        }
        "angle" => {
            let (re, im) = both(builder, call, 0)?;
            Out::Node(builder.call("atan2", [im, re])?)
        }
        "norm" | "linalg_vector_norm" | "linalg_norm" => {
            let (re, im) = both(builder, call, 0)?;
            let length = builder.call("hypot", [re, im])?;
            let mut call = Call { base: call.base, args: call.args.clone(), ..*call };
            call.args[0].1 = leaf(length);
            functional(builder, &call)?
        }
        "add" | "sub" | "subtract" | "rsub" => sum(builder, call)?,
        "div" | "divide" | "true_divide" => quotient(builder, call)?,
        "reciprocal" => {
            let x = parts(builder, call, 0)?;
            let (re, im) = inverse(builder, x)?;
            joined(builder, re, im)?
        }
        "square" => {
            let (re, im) = both(builder, call, 0)?;
            let (re, im) = product(builder, (re.clone(), im.clone()), (re, im))?;
            joined(builder, re, im)?
        }
        "exp" => {
            let (re, im) = both(builder, call, 0)?;
            let length = builder.call("exp", [re])?;
            let (re, im) = from_polar(builder, leaf(length), im)?;
            joined(builder, re, im)?
        }
        "log" => {
            let (re, im) = both(builder, call, 0)?;
            let length = builder.call("hypot", [re.clone(), im.clone()])?;
            let (re, im) = (builder.call("log", [leaf(length)])?, builder.call("atan2", [im, re])?);
            joined(builder, leaf(re), leaf(im))?
        }
        "sqrt" => {
            let (re, im) = both(builder, call, 0)?;
            let length = builder.call("hypot", [re.clone(), im.clone()])?;
            let angle = builder.call("atan2", [im, re])?;
            let (length, half) =
                (builder.call("sqrt", [leaf(length)])?, builder.call("mul", [leaf(angle), Arg::Float(0.5)])?);
            let (re, im) = from_polar(builder, leaf(length), leaf(half))?;
            joined(builder, re, im)?
        }
        "pow" => power(builder, call)?,
        "sgn" => {
            let (re, im) = both(builder, call, 0)?;
            let length = builder.call("hypot", [re.clone(), im.clone()])?;
            let is_zero = builder.call("eq", [leaf(length), Arg::Int(0)])?;
            let length = builder.call("masked_fill", [leaf(length), leaf(is_zero), Arg::Int(1)])?;
            let (re, im) =
                (builder.call("div", [re, leaf(length)])?, builder.call("div", [im, leaf(length)])?);
            joined(builder, leaf(re), leaf(im))?
        }
        "eq" | "ne" => {
            let (a, b) = (parts(builder, call, 0)?, parts(builder, call, 1)?);
            let re = builder.call(call.base, [a.re, b.re])?;
            let im = builder
                .call(call.base, [a.im.unwrap_or(Arg::Float(0.0)), b.im.unwrap_or(Arg::Float(0.0))])?;
            let row = if call.base == "eq" { "logical_and" } else { "logical_or" };
            Out::Node(builder.call(row, [leaf(re), leaf(im)])?)
        }
        "vdot" => {
            let (a, b) = (parts(builder, call, 0)?, parts(builder, call, 1)?);
            let conjugate = match a.im {
                Some(im) => Parts { re: a.re, im: Some(leaf(builder.call("neg", [im])?)) },
                None => a,
            };
            bilinear(builder, conjugate, b, &mut |builder, a, b| builder.call("dot", [a, b]))?
        }
        "to" | "_to_copy" | "type_as" | "to_dtype" => converted(builder, call, first)?,
        "sym_size" => control::sym_size(builder, &moved(builder, call)?)?,
        "sym_numel" => {
            let (re, _) = both(builder, call, 0)?;
            let call = Call { base: call.base, args: vec![("self", re)], ..*call };
            control::sym_numel(builder, &call)?
        }
        "_assert_tensor_metadata" => Out::Nothing,
        "t" | "mT" | "matrix_H" | "mH" | "adjoint" | "numpy_T" => transposed(builder, call)?,
        base if VIEWS.contains(&base) => {
            let call = moved(builder, call)?;
            aten::alias(builder, &call)?.ok_or_else(|| err!(Load, "{base} gives no view"))?
        }
        base if BILINEAR.contains(&base) => products(builder, call)?,
        base if APART.contains(&base) => apart(builder, call)?,
        base if fft::knows(base) => fft::import(builder, call)?,
        base => {
            return Err(err!(DType, "{base} of complex numbers is not supported")
                .help("compute with real and imaginary parts")
                .into());
        }
    })
}

/// Puts two parts together.
pub(super) fn joined<'a>(builder: &mut Builder<'a>, re: Arg, im: Arg) -> Attempt<Out> {
    let like = builder.tensor_type(node(&re)?)?;
    let other = builder.tensor_type(node(&im)?)?;
    let (mut re, mut im) = (node(&re)?, node(&im)?);
    if like != other {
        // A part that is the same for all of the other is spread.
        if like.rank() >= other.rank() {
            im = builder.conform(im, &like)?;
        } else {
            re = builder.conform(re, &other)?;
        }
    }
    builder.call("stack", [Arg::list([leaf(re), leaf(im)]), Arg::Int(-1)]).map(Out::Node)
}

fn from_polar<'a>(builder: &mut Builder<'a>, length: Arg, angle: Arg) -> Attempt<(Arg, Arg)> {
    let (cos, sin) = (builder.call("cos", [angle.clone()])?, builder.call("sin", [angle])?);
    let re = builder.call("mul", [length.clone(), leaf(cos)])?;
    let im = builder.call("mul", [length, leaf(sin)])?;
    Ok((leaf(re), leaf(im)))
}

/// Returns one part of pairs.
pub(super) fn part<'a>(builder: &mut Builder<'a>, x: &Arg, i: i64) -> Attempt<Arg> {
    builder.call("select", [x.clone(), Arg::Int(-1), Arg::Int(i)]).map(leaf)
}

/// Returns an argument, by position, as its parts. In a list the parts of what is real are zeros.
pub(super) fn parts<'a>(builder: &mut Builder<'a>, call: &Call<'a>, position: usize) -> Attempt<Parts> {
    let Some((_, arg)) = call.args.get(position) else {
        return Err(err!(Load, "{} lacks an argument", call.base).into());
    };
    let argument = call.node.inputs.get(position).map(|input| &input.arg);
    let Some(argument) = argument.filter(|argument| takes(builder, argument)) else {
        return Ok(Parts { re: arg.clone(), im: None });
    };
    match (argument, arg) {
        (Argument::AsComplex(_), Arg::Tuple(items)) => match &**items {
            [re, im] => Ok(Parts { re: re.clone(), im: Some(im.clone()) }),
            _ => Err(err!(Load, "expected two parts of a number").into()),
        },
        (Argument::AsTensors(tensors), Arg::List(items)) => {
            let (mut re, mut im) = (Vec::new(), Vec::new());
            for (tensor, item) in tensors.iter().zip(items.iter()) {
                if builder.tensor_meta(&tensor.name).is_some_and(is_complex) {
                    re.push(part(builder, item, 0)?);
                    im.push(part(builder, item, 1)?);
                } else {
                    re.push(item.clone());
                    im.push(leaf(builder.call("zeros_like", [item.clone()])?));
                }
            }
            Ok(Parts { re: Arg::list(re), im: Some(Arg::list(im)) })
        }
        (_, Arg::Leaf(_)) => Ok(Parts { re: part(builder, arg, 0)?, im: Some(part(builder, arg, 1)?) }),
        _ => Err(err!(Load, "complex numbers in {} cannot be imported", call.base).into()),
    }
}

/// Returns both parts of a complex operand.
fn both<'a>(builder: &mut Builder<'a>, call: &Call<'a>, position: usize) -> Attempt<(Arg, Arg)> {
    let Parts { re, im } = parts(builder, call, position)?;
    match im {
        Some(im) => Ok((re, im)),
        None => {
            let im = builder.call("zeros_like", [re.clone()])?;
            Ok((re, leaf(im)))
        }
    }
}

/// `x + alpha * y`, `x - alpha * y` and `y - alpha * x`.
fn sum<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let row = if call.base == "subtract" { "sub" } else { call.base };
    let (a, b) = (parts(builder, call, 0)?, parts(builder, call, 1)?);
    let alpha = [("alpha", call.or("alpha", Arg::Int(1)))];
    let re = with(builder, row, [a.re, b.re], &alpha)?;
    let zero = Arg::Float(0.0);
    let im = with(builder, row, [a.im.clone().unwrap_or(zero.clone()), b.im.clone().unwrap_or(zero)], &alpha);
    let im = match (&a.im, &b.im) {
        (None, Some(im)) if row != "rsub" => {
            // A number comes second.
            let scaled = builder.call("mul", [im.clone(), alpha[0].1.clone()])?;
            if row == "sub" { builder.call("neg", [leaf(scaled)])? } else { scaled }
        }
        _ => im?,
    };
    joined(builder, leaf(re), leaf(im))
}

fn product<'a>(builder: &mut Builder<'a>, a: (Arg, Arg), b: (Arg, Arg)) -> Attempt<(Arg, Arg)> {
    let mut mul = |a: &Arg, b: &Arg| builder.call("mul", [a.clone(), b.clone()]).map(leaf);
    let (rr, ii, ri, ir) = (mul(&a.0, &b.0)?, mul(&a.1, &b.1)?, mul(&a.0, &b.1)?, mul(&a.1, &b.0)?);
    Ok((leaf(builder.call("sub", [rr, ii])?), leaf(builder.call("add", [ri, ir])?)))
}

type Product<'f, 'a> = &'f mut dyn FnMut(&mut Builder<'a>, Arg, Arg) -> Attempt<NodeId>;

/// A product of two operands, of which one may be real.
fn bilinear<'a>(builder: &mut Builder<'a>, a: Parts, b: Parts, f: Product<'_, 'a>) -> Attempt<Out> {
    let re = f(builder, a.re.clone(), b.re.clone())?;
    let (re, im) = match (a.im, b.im) {
        (None, None) => {
            let im = builder.call("zeros_like", [leaf(re)])?;
            (re, im)
        }
        (Some(im), None) => (re, f(builder, im, b.re)?),
        (None, Some(im)) => (re, f(builder, a.re, im)?),
        (Some(a_im), Some(b_im)) => {
            let minus = f(builder, a_im.clone(), b_im.clone())?;
            let (ri, ir) = (f(builder, a.re, b_im)?, f(builder, a_im, b.re)?);
            let re = builder.call("sub", [leaf(re), leaf(minus)])?;
            (re, builder.call("add", [leaf(ri), leaf(ir)])?)
        }
    };
    joined(builder, leaf(re), leaf(im))
}

fn products<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    if call.base == "einsum" {
        let place = call.args.iter().position(|(name, _)| *name == "tensors").unwrap_or(1);
        let Parts { re, im } = parts(builder, call, place)?;
        let (Some([ar, br]), Some([ai, bi])) = (re.items(), im.as_ref().and_then(Arg::items)) else {
            // With one operand nothing is multiplied.
            return apart(builder, call);
        };
        let (a, b) =
            (Parts { re: ar.clone(), im: Some(ai.clone()) }, Parts { re: br.clone(), im: Some(bi.clone()) });
        return bilinear(builder, a, b, &mut |builder, a, b| {
            let mut args = call.args.clone();
            args[place].1 = Arg::list([a, b]);
            single(builder, &Call { base: call.base, args, ..*call })
        });
    }
    if call.args.len() > 2 && !matches!(call.args[2].1, Arg::None) && call.base != "tensordot" {
        return Err(
            err!(DType, "{} of complex numbers with a third operand is not supported", call.base).into()
        );
    }
    let (a, b) = (parts(builder, call, 0)?, parts(builder, call, 1)?);
    bilinear(builder, a, b, &mut |builder, a, b| {
        let mut args = call.args.clone();
        (args[0].1, args[1].1) = (a, b);
        single(builder, &Call { base: call.base, args, ..*call })
    })
}

/// Imports a call that gives one tensor.
fn single<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<NodeId> {
    let out = match aten::alias(builder, call)? {
        Some(out) => out,
        None => functional(builder, call)?,
    };
    match out {
        Out::Node(node) => Ok(node),
        Out::View(view) => builder.current(&view),
        _ => Err(err!(Load, "{} of complex numbers gives no tensor", call.base).into()),
    }
}

fn inverse<'a>(builder: &mut Builder<'a>, x: Parts) -> Attempt<(Arg, Arg)> {
    let im = x.im.unwrap_or(Arg::Float(0.0));
    let (a, b) = (builder.call("square", [x.re.clone()])?, builder.call("mul", [im.clone(), im.clone()])?);
    let length = builder.call("add", [leaf(a), leaf(b)])?;
    let re = builder.call("div", [x.re, leaf(length)])?;
    let im = builder.call("div", [im, leaf(length)])?;
    Ok((leaf(re), leaf(builder.call("neg", [leaf(im)])?)))
}

fn quotient<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (a, b) = (parts(builder, call, 0)?, parts(builder, call, 1)?);
    match (&a.im, &b.im) {
        (Some(im), None) => {
            let re = builder.call("div", [a.re.clone(), b.re.clone()])?;
            let im = builder.call("div", [im.clone(), b.re])?;
            joined(builder, leaf(re), leaf(im))
        }
        _ => {
            let b = match b {
                Parts { re: re @ (Arg::Float(_) | Arg::Int(_)), im } => {
                    // A complex constant.
                    let like = node(&a.re)?;
                    let re = with(builder, "full_like", [leaf(like), re], &[])?;
                    Parts { re: leaf(re), im }
                }
                b => b,
            };
            let (re, im) = inverse(builder, b)?;
            bilinear(builder, a, Parts { re, im: Some(im) }, &mut |builder, a, b| builder.call("mul", [a, b]))
        }
    }
}

/// Powers: small integers by products, others by logarithms.
fn power<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let exponent = call.need("exponent")?;
    let n = match exponent {
        Arg::Int(n @ 1..=16) => n,
        Arg::Float(x) if x.fract() == 0.0 && (1.0..=16.0).contains(&x) => x as i64,
        Arg::Float(0.5) => {
            return value(builder, &Call { base: "sqrt", args: call.args.clone(), ..*call });
        }
        _ => {
            return Err(err!(
                DType,
                "powers of complex numbers but small integers and 0.5 are not supported"
            )
            .help("compute with real and imaginary parts")
            .into());
        }
    };
    let x = both(builder, call, 0)?;
    let mut out = x.clone();
    for _ in 1..n {
        out = product(builder, out, x.clone())?;
    }
    joined(builder, out.0, out.1)
}

/// Computes both parts with the same operator.
fn apart<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (mut re, mut im) = (call.args.clone(), call.args.clone());
    for i in 0..call.args.len() {
        let (name, arg) = &call.args[i];
        let found = parts(builder, call, i)?;
        match found.im {
            Some(part) => {
                re[i].1 = found.re;
                im[i].1 = part;
            }
            // A real number or tensor among complex ones has no imaginary part; indices and masks stay as
            // they are.
            None if matches!(
                *name,
                "value"
                    | "other"
                    | "fill_value"
                    | "self"
                    | "input"
                    | "src"
                    | "source"
                    | "values"
                    | "s"
                    | "tensor1"
            ) =>
            {
                match arg {
                    Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) => im[i].1 = Arg::Int(0),
                    Arg::Leaf(x) if builder.tensor_type(*x)?.dtype.is_float() => {
                        im[i].1 = leaf(builder.call("zeros_like", [arg.clone()])?);
                    }
                    _ => {}
                }
            }
            None => {}
        }
    }
    let re = single(builder, &Call { base: call.base, args: re, ..*call })?;
    let im = match call.base {
        "ones" | "ones_like" | "new_ones" | "eye" => builder.call("zeros_like", [leaf(re)])?,
        _ => single(builder, &Call { base: call.base, args: im, ..*call })?,
    };
    joined(builder, leaf(re), leaf(im))
}

/// Casts between real and complex numbers.
fn converted<'a>(builder: &mut Builder<'a>, call: &Call<'a>, first: bool) -> Attempt<Out> {
    let declared = match call.node.outputs.first() {
        Some(Argument::AsTensor(tensor)) => builder.declared(&tensor.name)?,
        _ => None,
    };
    let dtype = match (declared, dtype_argument(call.node)) {
        (Some(declared), _) => declared.dtype,
        (None, Some(code)) => part_dtype(code).map_or_else(|| super::dtype(code), Ok)?,
        (None, None) => builder.tensor_type(node(&call.first()?)?)?.dtype,
    };
    let to = Arg::DType(dtype);
    match (first, gives(builder, call.node)) {
        (true, true) => {
            let same = builder.tensor_type(node(&call.first()?)?)?.dtype == dtype;
            if same && call.base != "_to_copy" && !call.is_true("copy") {
                return value(builder, &Call { base: "alias", args: call.args.clone(), ..*call });
            }
            builder.call("to", [call.first()?, to]).map(Out::Node)
        }
        (true, false) => {
            let re = part(builder, &call.first()?, 0)?;
            builder.call("to", [re, to]).map(Out::Node)
        }
        _ => {
            let re = builder.call("to", [call.first()?, to])?;
            let im = builder.call("zeros_like", [leaf(re)])?;
            joined(builder, leaf(re), leaf(im))
        }
    }
}

/// Operators that swap axes without naming them.
fn transposed<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let of = call.view(builder)?;
    let rank = builder.tensor_type(node(&call.first()?)?)?.rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    match call.base {
        "numpy_T" => axes[..rank - 1].reverse(),
        "t" if rank < 3 => {}
        _ if rank < 3 => return Err(err!(Load, "expected matrices").into()),
        _ => axes.swap(rank - 3, rank - 2),
    }
    let order = Arg::ints(axes.iter().map(|&axis| axis as i64));
    let turned = builder.call("permute", [call.first()?, order])?;
    if matches!(call.base, "mH" | "adjoint" | "matrix_H") {
        let (re, im) = (part(builder, &leaf(turned), 0)?, part(builder, &leaf(turned), 1)?);
        let im = builder.call("neg", [im])?;
        return joined(builder, re, leaf(im));
    }
    Ok(Out::View(builder.view(&of, StepKind::Permute(axes), turned)))
}

/// Returns a call on the pairs: axes that count from the end are one further away, sizes end in 2.
fn moved<'a>(builder: &Builder<'a>, call: &Call<'a>) -> Attempt<Call<'a>> {
    let mut args = call.args.clone();
    let back = |arg: &Arg| match arg {
        Arg::Int(n) if *n < 0 => Arg::Int(*n - 1),
        other => other.clone(),
    };
    for (name, arg) in &mut args {
        match *name {
            "dim" | "dim0" | "dim1" | "axis0" | "axis1" | "source" | "destination" | "start_dim"
            | "end_dim" => {
                *arg = match &*arg {
                    Arg::List(items) => Arg::list(items.iter().map(back).collect::<Vec<_>>()),
                    other => back(other),
                };
            }
            "dims" => {
                let last = builder.tensor_type(node(&call.first()?)?)?.rank() as i64 - 1;
                let items = arg.items().unwrap_or_default();
                *arg = Arg::list(items.iter().map(back).chain([Arg::Int(last)]).collect::<Vec<_>>());
            }
            "size" | "shape" => {
                let items = arg.items().unwrap_or_default();
                *arg = Arg::list(items.iter().cloned().chain([Arg::Int(2)]).collect::<Vec<_>>());
            }
            _ => {}
        }
    }
    let mut base = call.base;
    match base {
        "flatten" if call.get("end_dim").is_none() => {
            let at = args.iter().position(|(name, _)| *name == "start_dim").map_or(1, |at| at + 1);
            if at == 1 {
                args.insert(1, ("start_dim", Arg::Int(0)));
            }
            args.push(("end_dim", Arg::Int(-2)));
        }
        "ravel" => {
            base = "reshape";
            args.push(("shape", Arg::ints([-1, 2])));
        }
        _ => {}
    }
    Ok(Call { base, args, ..*call })
}
