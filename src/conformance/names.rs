//! PyTorch's names and calling conventions, and the rows that answer to them.

use crate::{Arg, Kind, Op, OpDef, Registry, Result, Value};

/// Names whose row is called otherwise; the first that exists is taken. Every other name stands for itself,
/// without the variant after a dot.
const ROWS: &[(&str, &[&str])] = &[
    ("__getitem__", &["getitem"]),
    ("div.floor_rounding", &["floor_divide"]),
    ("div.trunc_rounding", &["trunc_divide", "div_trunc"]),
    ("true_divide", &["div"]),
    ("max.binary", &["maximum"]),
    ("max.reduction_no_dim", &["max"]),
    ("max.reduction_with_dim", &["max_dim"]),
    ("min.binary", &["minimum"]),
    ("min.reduction_no_dim", &["min"]),
    ("min.reduction_with_dim", &["min_dim"]),
    ("nn.functional.logsigmoid", &["log_sigmoid", "logsigmoid"]),
    ("nn.functional.fold", &["col2im"]),
    ("nn.functional.unfold", &["im2col"]),
    ("nn.functional.upsample_nearest", &["upsample_nearest", "interpolate"]),
    ("signal.windows.hamming", &["hamming_window"]),
    ("signal.windows.hann", &["hann_window"]),
    ("T", &["numpy_T"]),
    ("split.list_args", &["split_with_sizes"]),
    ("special.gammainc", &["igamma"]),
    ("special.gammaincc", &["igammac"]),
    ("special.gammaln", &["lgamma"]),
    ("special.psi", &["digamma"]),
    ("special.expit", &["sigmoid"]),
    ("special.multigammaln", &["mvlgamma"]),
    ("special.modified_bessel_i0", &["i0"]),
    ("special.modified_bessel_i1", &["special_i1"]),
];

/// Rows that PyTorch calls as the first one if arguments besides the tensor are given.
const ALONG_AN_AXIS: &[(&str, &str)] = &[("median", "median_dim"), ("nanmedian", "nanmedian_dim")];

/// Prefixes of names and what stands for them in rows.
const PREFIXES: &[(&str, &str)] = &[
    ("nn.functional.", ""),
    ("special.", ""),
    ("linalg.", "linalg_"),
    ("fft.", "fft_"),
    ("signal.windows.", ""),
];

/// Arguments about memory and gradients, which a row need not have.
const WITHOUT_EFFECT: &[&str] =
    &["device", "layout", "memory_format", "pin_memory", "requires_grad", "scale_grad_by_freq", "sparse"];

/// Arguments that the row's name says already.
const IN_THE_NAME: &[(&str, &str)] = &[
    ("div.floor_rounding", "rounding_mode"),
    ("div.trunc_rounding", "rounding_mode"),
    ("nn.functional.gelu", "approximate"),
];

/// Rows that the value of one argument chooses.
const BY_ARGUMENT: &[(&str, &str, IsChosen, Op)] = &[
    (
        "nn.functional.gelu",
        "approximate",
        |value| matches!(value, Arg::Str(value) if &**value == "tanh"),
        fx_ops::ops::pointwise::gelu_tanh::OP,
    ),
    (
        "nn.functional.scaled_dot_product_attention",
        "dropout_p",
        |value| matches!(value, Arg::Float(p) if *p != 0.0),
        fx_ops::ops::attention::scaled_dot_product_attention_dropout::OP,
    ),
];

/// Arguments that rows spell in lower case.
const RENAMED: &[(&str, &str)] = &[("UPLO", "uplo")];

/// Whether an argument's value chooses a row.
type IsChosen = fn(&Value) -> bool;

/// Operators whose test inputs have the first two arguments in the other order.
const SWAPPED: &[&str] = &["einsum", "nn.functional.embedding", "nn.functional.embedding_bag", "where"];

/// Returns a name without its prefix, as rows write it, with the variant.
pub(super) fn stripped(name: &str) -> String {
    let prefix =
        PREFIXES.iter().find_map(|(prefix, row)| Some(format!("{row}{}", name.strip_prefix(prefix)?)));
    prefix.unwrap_or_else(|| name.to_owned())
}

/// Returns the row for a call of PyTorch's name.
pub(super) fn find_for(registry: &Registry, name: &str, n_args: usize) -> Result<Op> {
    match ALONG_AN_AXIS.iter().find(|(whole, _)| *whole == stripped(name)) {
        Some((_, along)) if n_args > 1 => registry.find(along),
        _ => find(registry, name),
    }
}

/// Returns the row for PyTorch's name.
fn find(registry: &Registry, name: &str) -> Result<Op> {
    if let Some((_, rows)) = ROWS.iter().find(|(other, _)| *other == name) {
        return rows.iter().find_map(|row| registry.get(row)).map_or_else(|| registry.find(rows[0]), Ok);
    }
    let row = stripped(name);
    let base = row.split_once('.').map_or(&*row, |(base, _)| base);
    // Some special functions are at the top level of PyTorch too, and rows have the shorter name.
    let special = name.starts_with("special.").then(|| format!("special_{base}"));
    match special.and_then(|special| registry.get(&special)) {
        Some(op) if registry.get(base).is_none() => Ok(op),
        _ => registry.find(base),
    }
}

/// Returns the row for a call, which an argument may choose instead of `op`.
pub(super) fn chosen(op: Op, name: &str, kwargs: &[(String, Value)]) -> Op {
    let choice = BY_ARGUMENT.iter().find(|(other, key, is_chosen, _)| {
        *other == name && kwargs.iter().any(|(other, value)| other == key && is_chosen(value))
    });
    choice.map_or(op, |&(.., op)| op)
}

/// Arranges the arguments of PyTorch's call for a row: those without effect left out where the row does not
/// take them, tensors or integers given one by one (`permute(x, 1, 0)`) gathered in a list, and arguments by
/// position named that a row takes by name only.
pub(super) fn adapt(
    op: &OpDef,
    name: &str,
    args: &[Value],
    kwargs: &[(String, Value)],
) -> (Vec<Value>, Vec<(String, Value)>) {
    let takes = |key: &str| op.params.iter().any(|param| param.name == key);
    let left_out = |key: &str| WITHOUT_EFFECT.contains(&key) || IN_THE_NAME.contains(&(name, key));
    let mut kwargs: Vec<(String, Value)> =
        kwargs.iter().filter(|(key, _)| takes(key) || !left_out(key)).cloned().collect();
    for (key, _) in &mut kwargs {
        if let Some((_, row)) = RENAMED.iter().find(|&&(from, row)| from == key.as_str() && takes(row)) {
            *key = (*row).to_owned();
        }
    }
    if name.starts_with("signal.windows.") {
        // A symmetric window, which PyTorch makes by default here, is one that is not periodic.
        let sym = kwargs.iter().position(|(key, _)| key == "sym").map(|at| kwargs.remove(at).1);
        kwargs.push(("periodic".to_owned(), Arg::Bool(matches!(sym, Some(Arg::Bool(false))))));
    }

    let mut args = args.to_vec();
    // `std(x, unbiased)`: the second argument of other calls is an axis.
    if takes("unbiased") && matches!(args.get(1), Some(Arg::Bool(_))) {
        kwargs.push(("unbiased".to_owned(), args.remove(1)));
    }
    if SWAPPED.contains(&name) && args.len() > 1 {
        args.swap(0, 1);
    }
    let positional: Vec<Kind> =
        op.params.iter().filter(|param| !param.keyword_only).map(|param| param.kind).collect();
    let gathers = match positional[..] {
        [Kind::Tensors, ..] => true,
        // A tensor or a list of tensors.
        [Kind::Any] => args.len() > 1,
        _ => false,
    };
    if gathers {
        let n = args.iter().take_while(|arg| matches!(arg, Arg::Leaf(_))).count();
        if n > 0 {
            let rest = args.split_off(n);
            args = [vec![Arg::list(args)], rest].concat();
        }
    }
    // What stands behind a list of integers is for parameters that a row takes by name only, if it fits there.
    let is_named = |args: &[Value]| {
        let by_name = op.params.get(positional.len()..).unwrap_or_default();
        args.len() <= by_name.len() && args.iter().zip(by_name).all(|(arg, param)| param.kind.accepts(arg))
    };
    if let Some(Kind::Axes | Kind::Ints | Kind::OptInts | Kind::Shape) = positional.last()
        && args.len() > positional.len()
        && args[positional.len() - 1..].iter().all(|arg| matches!(arg, Arg::Int(_)))
        && !is_named(&args[positional.len()..])
    {
        let ints = args.split_off(positional.len() - 1);
        args.push(Arg::list(ints));
    }
    if args.len() > positional.len() && args.len() <= op.params.len() {
        let named = args.split_off(positional.len());
        let names = op.params[positional.len()..].iter().map(|param| param.name.to_owned());
        kwargs.extend(names.zip(named));
    }
    (args, kwargs)
}
