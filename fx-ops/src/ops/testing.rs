//! How tests call a row: by name, with its shape rule checked against its kernel.

use std::collections::BTreeSet;

use fx_core::{Arg, Array, DType, Dim, Error, Result, Symbol, Tensor, TensorType, Type, TypeTree, Value};

/// Calls a row by name. The shape rule must give the type of the result, also for symbolic sizes.
pub(crate) fn call(name: &str, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Value> {
    let registry = crate::registry();
    let op = registry.get(name).unwrap_or_else(|| panic!("there is no row {name}"));
    let bound = op.bind(args, kwargs)?;
    let types = bound.iter().map(type_of).collect::<Result<Vec<_>>>()?;
    let value = match (op.eval)(&bound) {
        Ok(value) => value,
        Err(error) => {
            // What the rule accepts the kernel may refuse for its values, never the other way round.
            return Err(error);
        }
    };
    let expected = type_of(&value).expect("a result has a type");
    if let Some(ty) = op.infer(&types).unwrap_or_else(|error| panic!("{name}: the rule refuses: {error}")) {
        assert_eq!(evaluated(&ty, &expected), expected, "{name}{types:?}: rule and kernel disagree");
    }
    let symbolic: Vec<TypeTree> = types.iter().map(symbolic).collect();
    match op.infer(&symbolic) {
        Ok(None) => {}
        Ok(Some(ty)) => {
            assert_eq!(
                evaluated(&ty, &expected),
                expected,
                "{name}{symbolic:?}: the symbolic rule gives {ty:?}"
            )
        }
        Err(error) => assert!(may_refuse(&error), "{name}{symbolic:?}: the symbolic rule refuses: {error}"),
    }
    Ok(value)
}

/// Broadcasting refuses sizes of which it cannot tell whether they are equal.
fn may_refuse(error: &Error) -> bool {
    error.message().contains("may differ")
}

/// Calls a row that gives one tensor.
pub(crate) fn call1(name: &str, args: &[Value]) -> Result<Array> {
    match call(name, args, &[])? {
        Arg::Leaf(tensor) => tensor.array().cloned(),
        other => panic!("{name}: expected a tensor, got {other:?}"),
    }
}

/// Makes an argument of an array.
pub(crate) fn tensor(x: impl Into<Array>) -> Value {
    Arg::Leaf(Tensor::new(x))
}

/// Calls a row that gives several tensors.
pub(crate) fn parts(name: &str, args: &[Value]) -> Vec<Array> {
    let out = call(name, args, &[]).unwrap();
    out.leaves().into_iter().map(|part: &Tensor| part.array().unwrap().clone()).collect()
}

/// Matrices of full rank.
pub(crate) fn matrix(batch: usize, m: usize, n: usize) -> Array {
    let data: Vec<f64> = (0..batch * m * n).map(|i| ((i * 37 % 101) as f64 * 0.7).sin()).collect();
    Array::from_vec(data, &[batch, m, n]).unwrap()
}

/// Compares f64 elements.
pub(crate) fn close(a: &Array, b: &Array) {
    assert_eq!(a.shape(), b.shape());
    let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?}\n{b:?}");
}

fn type_of(value: &Value) -> Result<TypeTree> {
    value.try_flat_map(&mut |tensor: &Tensor| {
        let array = tensor.array()?;
        Ok(TensorType::new(array.dtype(), array.shape()).into())
    })
}

/// Replaces every size but 1 by a symbol that stands for this size.
fn symbolic(ty: &TypeTree) -> TypeTree {
    let dim = |size: &Dim| match size.known() {
        Some(n) if n != 1 => Dim::symbol(Symbol::new(format!("s{n}"))),
        _ => size.clone(),
    };
    ty.map(&mut |leaf| match leaf {
        Type::Tensor(ty) => {
            Type::Tensor(TensorType { dtype: ty.dtype, shape: ty.shape.iter().map(dim).collect() })
        }
        other => other.clone(),
    })
}

/// Replaces symbols by the sizes they stand for; those that depend on data by what came out.
fn evaluated(ty: &TypeTree, found: &TypeTree) -> TypeTree {
    let mut found =
        found.leaves().into_iter().filter_map(Type::tensor).cloned().collect::<Vec<_>>().into_iter();
    let lookup = |symbol: &Symbol| symbol.name()[1..].parse().ok();
    ty.map(&mut |leaf| match leaf {
        Type::Tensor(ty) => {
            let found = found.next();
            let size = |(axis, dim): (usize, &Dim)| match dim.as_symbol() {
                Some(symbol) if symbol.is_fresh() => {
                    found.as_ref().and_then(|ty| ty.shape.get(axis)).cloned().unwrap_or(Dim::new(-1))
                }
                _ => dim.eval(&lookup).map_or_else(Dim::failed, Dim::new),
            };
            Type::Tensor(TensorType {
                dtype: ty.dtype,
                shape: ty.shape.iter().enumerate().map(size).collect(),
            })
        }
        other => other.clone(),
    })
}

#[test]
fn every_rule_agrees_with_its_kernel() {
    let x = || tensor([[0.5f32, 0.25, 1.0], [0.0, 0.75, 0.5]]);
    let row = || tensor([1.0f32, 2.0, 3.0]);
    let row_of = |x: f32| tensor([x]);
    let index = || tensor([[0i64, 1, 0]]);
    let i = Arg::Int;
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("reshape", vec![x(), Arg::ints([3, -1])]),
        ("view", vec![x(), Arg::ints([6])]),
        ("reshape_as", vec![x(), tensor([[0u8; 2]; 3])]),
        ("view_as", vec![x(), tensor([0u8; 6])]),
        ("flatten", vec![x()]),
        ("unflatten", vec![x(), i(1), Arg::ints([3, -1])]),
        ("transpose", vec![x(), i(0), i(-1)]),
        ("swapaxes", vec![x(), i(0), i(-1)]),
        ("t", vec![x()]),
        ("permute", vec![x(), Arg::ints([1, 0])]),
        ("movedim", vec![x(), i(0), i(1)]),
        ("squeeze", vec![index(), i(0)]),
        ("unsqueeze", vec![x(), i(-1)]),
        ("expand", vec![row(), Arg::ints([4, -1])]),
        ("broadcast_to", vec![row(), Arg::ints([4, 3])]),
        ("expand_as", vec![row(), x()]),
        ("contiguous", vec![x()]),
        ("detach", vec![x()]),
        ("positive", vec![x()]),
        ("alias", vec![x()]),
        ("clone", vec![x()]),
        ("to", vec![x(), Arg::DType(DType::I64)]),
        ("type_as", vec![x(), index()]),
        ("narrow", vec![x(), i(1), i(-2), i(2)]),
        ("select", vec![x(), i(1), i(-1)]),
        ("slice", vec![x(), i(1), i(0), i(-1), i(2)]),
        ("diagonal", vec![x(), i(1)]),
        ("unfold", vec![x(), i(1), i(2), i(1)]),
        ("flip", vec![x(), Arg::ints([0, -1])]),
        ("roll", vec![x(), i(-4)]),
        ("repeat", vec![x(), Arg::ints([2, 1, 2])]),
        ("tile", vec![x(), Arg::ints([2])]),
        ("repeat_interleave", vec![x(), tensor([2i64, 0, 1]), i(1)]),
        ("chunk", vec![x(), i(2), i(1)]),
        ("split", vec![x(), i(2), i(1)]),
        ("split_with_sizes", vec![x(), Arg::ints([1, 2]), i(1)]),
        ("unbind", vec![x()]),
        ("tril", vec![x()]),
        ("triu", vec![x(), i(1)]),
        ("gather", vec![x(), i(0), index()]),
        ("take_along_dim", vec![x(), tensor([[-1i64], [0]]), i(1)]),
        ("index_select", vec![x(), i(1), tensor([2i64, 0])]),
        ("scatter", vec![x(), i(0), index(), Arg::Float(2.0)]),
        ("scatter_add", vec![x(), i(0), index(), x()]),
        ("index_add", vec![x(), i(0), tensor([1i64, 1]), x()]),
        ("masked_fill", vec![x(), tensor([true, false, true]), i(2)]),
        ("where", vec![tensor([true, false, true]), x(), i(0)]),
        ("cat", vec![Arg::list([x(), x()]), i(-1)]),
        ("concat", vec![Arg::list([x(), index()])]),
        ("stack", vec![Arg::list([x(), x()]), i(-1)]),
        ("hstack", vec![Arg::list([row(), row()])]),
        ("vstack", vec![Arg::list([row(), x()])]),
        ("broadcast_tensors", vec![Arg::list([row(), x()])]),
        ("meshgrid", vec![Arg::list([row(), row()])]),
        ("zeros", vec![Arg::ints([2, 0])]),
        ("ones", vec![Arg::ints([2])]),
        ("empty", vec![Arg::ints([])]),
        ("full", vec![Arg::ints([2]), i(3)]),
        ("arange", vec![i(7), i(0), i(-3)]),
        ("linspace", vec![i(0), i(1), i(3)]),
        ("eye", vec![i(2), i(3)]),
        ("scalar_tensor", vec![Arg::Bool(true)]),
        ("zeros_like", vec![x()]),
        ("ones_like", vec![x()]),
        ("empty_like", vec![x()]),
        ("full_like", vec![x(), i(2)]),
        ("new_zeros", vec![index(), Arg::ints([2])]),
        ("new_ones", vec![index(), Arg::ints([2])]),
        ("new_empty", vec![index(), Arg::ints([2])]),
        ("new_full", vec![index(), Arg::ints([2]), Arg::Float(1.5)]),
        ("one_hot", vec![index(), i(4)]),
        ("rand", vec![Arg::ints([2, 3])]),
        ("randn", vec![Arg::ints([2, 3])]),
        ("randint", vec![i(0), i(5), Arg::ints([2])]),
        ("randperm", vec![i(5)]),
        ("rand_like", vec![x()]),
        ("randn_like", vec![x()]),
        ("bernoulli", vec![x()]),
        ("dropout", vec![x()]),
        ("linalg_vector_norm", vec![x(), Arg::Float(f64::INFINITY), i(1)]),
        ("logsumexp", vec![index(), Arg::ints([0, 1]), Arg::Bool(true)]),
        ("topk", vec![x(), i(2)]),
        ("aminmax", vec![x()]),
        ("sum", vec![x(), i(1), Arg::Bool(true)]),
        ("median_dim", vec![x(), i(1)]),
        ("nanmedian_dim", vec![x(), i(0), Arg::Bool(true)]),
        ("kthvalue", vec![x(), i(2)]),
        ("quantile", vec![x(), row_of(0.5), i(1)]),
        ("nanquantile", vec![x(), Arg::Float(0.5), Arg::None, Arg::Bool(true)]),
        ("diff", vec![x(), i(1), i(1), x()]),
        ("trapezoid", vec![x(), row()]),
        ("trapz", vec![index()]),
        ("cumulative_trapezoid", vec![x(), x()]),
        ("index", vec![x(), Arg::list([Arg::None, index()])]),
        ("index_put", vec![x(), Arg::list([Arg::None, tensor([true, false, true])]), row_of(1.0)]),
        ("index_copy", vec![x(), i(0), tensor([1i64, 1]), x()]),
        ("index_fill", vec![x(), i(1), tensor([-1i64]), i(3)]),
        ("take", vec![x(), index()]),
        ("put", vec![x(), index(), row()]),
        ("scatter_reduce", vec![x(), i(0), index(), x(), Arg::str("mean")]),
        ("index_reduce", vec![x(), i(1), tensor([2i64, 2]), tensor([[0.5f32, 1.5]; 2]), Arg::str("prod")]),
        ("new_empty_strided", vec![index(), Arg::ints([2]), Arg::ints([1])]),
        ("searchsorted", vec![row(), x()]),
        ("bucketize", vec![i(2), row()]),
        ("isin", vec![x(), row()]),
        ("unique", vec![x()]),
        (
            "grouped_mm",
            vec![tensor([[0.5f32, 1.5]; 3]), tensor([[[1.0f32, 2.0], [0.5, -1.0]]; 2]), tensor([1i32, 3])],
        ),
        ("bincount", vec![tensor([3i64, 0])]),
        ("histc", vec![x(), i(4)]),
        ("isclose", vec![x(), row()]),
        ("allclose", vec![x(), x()]),
        ("masked_select", vec![x(), tensor([true, false, true])]),
        ("masked_scatter", vec![x(), tensor([true, false, true]), x()]),
        ("select_scatter", vec![x(), row(), i(0), i(-1)]),
        ("slice_scatter", vec![x(), x(), i(1), i(0), i(3)]),
        ("diagonal_scatter", vec![x(), tensor([0.5f32, 2.0])]),
        ("as_strided", vec![x(), Arg::ints([2, 2]), Arg::ints([1, 2]), i(1)]),
        ("as_strided_scatter", vec![x(), tensor([[1i64], [2]]), Arg::ints([2, 1]), Arg::ints([3, 1])]),
        ("diag_embed", vec![x(), i(-1)]),
        ("diag", vec![row(), i(1)]),
        ("constant_pad_nd", vec![x(), Arg::ints([1, -1, 0, 2]), i(7)]),
        ("fill", vec![x(), tensor(2i64)]),
        ("copy", vec![index(), tensor([[2.5f32]])]),
        ("atleast_1d", vec![tensor(1i64)]),
        ("atleast_2d", vec![row()]),
        ("atleast_3d", vec![Arg::list([x(), row()])]),
        ("block_diag", vec![Arg::list([x(), index(), row()])]),
        ("column_stack", vec![Arg::list([row(), row()])]),
        ("dstack", vec![Arg::list([row(), row()])]),
        ("tril_indices", vec![i(3), i(4), i(1)]),
        ("triu_indices", vec![i(4), i(3), i(-2)]),
        ("empty_permuted", vec![Arg::ints([2, 3]), Arg::ints([1, 0])]),
        ("empty_strided", vec![Arg::ints([2, 3]), Arg::ints([1, 2])]),
        ("rot90", vec![x(), i(3)]),
        ("tensor_split", vec![x(), i(2), i(1)]),
        ("tensor_split", vec![x(), Arg::ints([1, -1]), i(1)]),
        ("unravel_index", vec![index(), Arg::ints([2, 1])]),
    ];
    let matrix = [
        "median",
        "nanmedian",
        "trace",
        "nanmean",
        "mode",
        "nonzero",
        "argwhere",
        "unique_consecutive",
        "fliplr",
        "flipud",
        "mT",
        "mH",
        "adjoint",
        "numpy_T",
        "lift_fresh_copy",
        "_to_copy",
    ];
    let along = [
        "prod",
        "mean",
        "nansum",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "all",
        "any",
        "count_nonzero",
        "amax",
        "amin",
    ];
    let axis = [
        "max_dim",
        "min_dim",
        "argmax",
        "argmin",
        "sort",
        "argsort",
        "cumsum",
        "cumprod",
        "cummax",
        "cummin",
        "logcumsumexp",
    ];
    let plain = ["max", "min", "msort"].into_iter().chain(matrix).map(|name| (name, vec![x()]));
    let one_axis = along.into_iter().chain(axis).map(|name| (name, vec![x(), i(-1)]));
    let mut called = BTreeSet::new();
    for (name, args) in cases.into_iter().chain(one_axis).chain(plain) {
        called.insert(name);
        call(name, &args, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let tables = [
        crate::ops::view::TABLES,
        crate::ops::reduce::TABLES,
        crate::ops::creation::TABLES,
        crate::ops::concat::TABLES,
        crate::ops::random::TABLES,
        crate::ops::arrange::TABLES,
        crate::ops::allclose::TABLES,
        crate::ops::count::TABLES,
        crate::ops::indices::TABLES,
        crate::ops::masked::TABLES,
        crate::ops::slice_scatter::TABLES,
        crate::ops::index_write::TABLES,
        crate::ops::scatter::TABLES,
        crate::ops::search::TABLES,
        crate::ops::strided::TABLES,
        crate::ops::unique::TABLES,
    ];
    let missing: Vec<&str> = tables
        .iter()
        .flat_map(|tables| tables.iter().copied().flatten())
        .map(|op| op.name)
        .filter(|name| !called.contains(name))
        .collect();
    assert!(missing.is_empty(), "rows without a case: {missing:?}");
}
