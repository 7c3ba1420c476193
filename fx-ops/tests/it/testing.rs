//! How tests call a row: by name, with its shape rule checked against its kernel.

use fx_core::{Arg, Array, Dim, Error, Result, Symbol, Tensor, TensorType, Type, TypeTree, Value};

/// Calls a row by name. The shape rule must give the type of the result, also for symbolic sizes.
pub(crate) fn call(name: &str, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Value> {
    let registry = fx_ops::registry();
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

/// Products and sums of arrays, by their rows.
pub(crate) trait Operand {
    fn matmul(&self, other: &Array) -> Result<Array>;
    fn mul(&self, other: &Array) -> Result<Array>;
    fn add(&self, other: &Array) -> Result<Array>;
}

impl Operand for Array {
    fn matmul(&self, other: &Array) -> Result<Array> {
        call1("matmul", &[tensor(self.clone()), tensor(other.clone())])
    }

    fn mul(&self, other: &Array) -> Result<Array> {
        call1("mul", &[tensor(self.clone()), tensor(other.clone())])
    }

    fn add(&self, other: &Array) -> Result<Array> {
        call1("add", &[tensor(self.clone()), tensor(other.clone())])
    }
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
