//! Shape rules against results: a rule must give the type of what the kernel returned, on sizes and on symbols.

use crate::{Arg, Dim, Op, OpDef, Result, Symbol, TensorType, Type, TypeTree, Value, bail, err};

/// Which sizes get which symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Equal sizes get the same symbol, and 1 stays 1, as in the specs of a careful user.
    Equal,
    /// Every size gets its own symbol.
    Distinct,
}

impl Naming {
    /// Both.
    pub(crate) const ALL: [Naming; 2] = [Naming::Equal, Naming::Distinct];
}

/// Returns the types of arguments in schema order.
pub(crate) fn types(args: &[Value]) -> Result<Vec<TypeTree>> {
    args.iter().map(|arg| arg.try_flat_map(&mut |tensor| Ok(Arg::Leaf(Type::Tensor(tensor.ty()?))))).collect()
}

/// Checks that a result has the type that the shape rule gives for these sizes; returns whether it gives one.
pub(crate) fn check(op: &OpDef, types: &[TypeTree], value: &Value) -> Result<bool> {
    match op.infer(types)? {
        Some(ty) => has_type(value, &ty, &|_| None).map(|()| true),
        None => Ok(false),
    }
}

/// Checks that the rule gives, for symbols in place of the sizes, what evaluates to the type of the result.
/// It may also say that it does not know the type, or refuse symbols of which it cannot tell what the
/// operation needs to know.
pub(crate) fn check_symbolic(op: Op, types: &[TypeTree], value: &Value, naming: Naming) -> Result<()> {
    let mut sizes = Vec::new();
    let types: Vec<TypeTree> = types.iter().map(|ty| symbolic(ty, naming, &mut sizes)).collect();
    let lookup = |symbol: &Symbol| value_of(symbol, &sizes);
    let call = || {
        let types: Vec<String> = types.iter().map(ToString::to_string).collect();
        format!("{}({})", op.name, types.join(", "))
    };
    match op.infer(&types) {
        Ok(None) => Ok(()),
        Ok(Some(ty)) => has_type(value, &ty, &lookup)
            .map_err(|error| err!(Check, "{}: {} where {}", call(), error.message(), bindings(&sizes))),
        Err(error) if asks_for_sizes(&error) => Ok(()),
        Err(error) => bail!(Check, "{}: {}", call(), error.message()),
    }
}

/// Returns the value of a symbol; one that depends on data has none.
pub(super) fn value_of(symbol: &Symbol, sizes: &[i64]) -> Option<i64> {
    match symbol.is_fresh() {
        true => None,
        false => sizes.get(symbol.name().get(1..)?.parse::<usize>().ok()?).copied(),
    }
}

fn bindings(sizes: &[i64]) -> String {
    let list: Vec<String> = sizes.iter().enumerate().map(|(i, n)| format!("s{i} = {n}")).collect();
    list.join(", ")
}

/// Returns whether an error says that sizes have to be known, or to be known as equal.
fn asks_for_sizes(error: &crate::Error) -> bool {
    ["may differ", "must be known", "has to be known", "cannot tell"]
        .iter()
        .any(|phrase| error.message().contains(phrase))
}

/// Replaces sizes by symbols, whose values are noted.
pub(super) fn symbolic(ty: &TypeTree, naming: Naming, sizes: &mut Vec<i64>) -> TypeTree {
    let mut dim = |size: &Dim| match size.known() {
        Some(1) if naming == Naming::Equal => size.clone(),
        Some(n) => {
            let known = sizes.iter().position(|&other| other == n && naming == Naming::Equal);
            let i = known.unwrap_or_else(|| {
                sizes.push(n);
                sizes.len() - 1
            });
            Dim::symbol(Symbol::new(format!("s{i}")))
        }
        None => size.clone(),
    };
    ty.map(&mut |leaf| match leaf {
        Type::Tensor(ty) => {
            Type::Tensor(TensorType { dtype: ty.dtype, shape: ty.shape.iter().map(&mut dim).collect() })
        }
        other => other.clone(),
    })
}

/// Checks that a value has a type; symbols of the type stand for what `lookup` says, and sizes that depend on
/// data for any.
fn has_type(value: &Value, ty: &TypeTree, lookup: &dyn Fn(&Symbol) -> Option<i64>) -> Result<()> {
    let is = |dim: &Dim, size: i64| match dim.eval(lookup) {
        Ok(n) => n == size,
        Err(_) => dim.error().is_none() && dim.symbols().iter().any(Symbol::is_fresh),
    };
    let fits = match (ty, value) {
        (Arg::Leaf(Type::Any), _) => true,
        (Arg::Leaf(Type::Tensor(ty)), Arg::Leaf(tensor)) => {
            let array = tensor.array()?;
            ty.dtype == array.dtype()
                && ty.rank() == array.rank()
                && ty.shape.iter().zip(array.shape()).all(|(dim, &size)| is(dim, size as i64))
        }
        (Arg::Dim(dim), Arg::Int(x)) => is(dim, *x),
        (Arg::Leaf(Type::Int), Arg::Int(_))
        | (Arg::Leaf(Type::Float), Arg::Float(_))
        | (Arg::Leaf(Type::Bool), Arg::Bool(_))
        | (Arg::Leaf(Type::Str), Arg::Str(_))
        | (Arg::Leaf(Type::Optional(_)), Arg::None)
        | (Arg::None, Arg::None) => true,
        (Arg::Leaf(Type::Optional(inner)), value) => return has_type(value, inner, lookup),
        (Arg::Leaf(Type::List(item)), Arg::List(values)) => {
            return values.iter().try_for_each(|value| has_type(value, item, lookup));
        }
        (Arg::Tuple(types), Arg::Tuple(values)) | (Arg::List(types), Arg::List(values)) => {
            if types.len() == values.len() {
                return values
                    .iter()
                    .zip(types.iter())
                    .try_for_each(|(value, ty)| has_type(value, ty, lookup));
            }
            false
        }
        _ => value.same_literal(ty),
    };
    if fits { Ok(()) } else { bail!(Check, "expected {}, got {ty}", describe(value)) }
}

/// Returns a value in short: tensors by type.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Arg::Leaf(tensor) => format!("{tensor:?}"),
        other => other.map(&mut |tensor| format!("{tensor:?}")).to_string(),
    }
}
