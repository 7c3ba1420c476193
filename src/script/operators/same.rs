//! [`Same`]: a call of an operator that gives its first argument itself, or converts it to a dtype.

use fx_script::host;
use fx_script::schema::Schema;
use fx_script::value::{TensorCell, Value as Item, transaction};

use crate::{DType, Result};

/// An operator that may change nothing, at a place that calls it; the numbers are positions of arguments.
pub(super) enum Same {
    /// Conversions copy where the dtype differs, or where they are told to.
    Convert { dtype: Option<usize>, other: Option<usize>, copy: Option<usize> },
    /// Dropout does nothing unless the module is trained.
    Dropout { train: usize },
}

impl Same {
    /// Returns what an operator does; `None` if it is no such operator.
    pub(super) fn of(schema: &Schema) -> Option<Same> {
        let position = |name: &str| schema.parameters.iter().position(|param| &*param.name == name);
        match &*schema.name {
            "aten::to" | "aten::type_as" => {
                let (dtype, other, copy) = (position("dtype"), position("other"), position("copy"));
                Some(Same::Convert { dtype, other, copy })
            }
            "aten::dropout"
            | "aten::feature_dropout"
            | "aten::alpha_dropout"
            | "aten::feature_alpha_dropout" => Some(Same::Dropout { train: position("train")? }),
            _ => None,
        }
    }

    /// Returns the result; `None` if the call does more. Fails if memory cannot hold it.
    pub(super) fn call(&self, args: &[&Item]) -> Option<Result<Item>> {
        let Item::Tensor(tensor) = args.first()? else { return None };
        let (dtype, is_copied) = match self {
            Same::Dropout { train } => match args.get(*train)? {
                Item::Bool(false) => return Some(Ok(args[0].clone())),
                _ => return None,
            },
            Same::Convert { dtype, other, copy } => {
                let argument = |at: &Option<usize>| at.and_then(|at| args.get(at).copied());
                let dtype = match (argument(dtype), argument(other)) {
                    (Some(Item::Int(code)), _) => match host::dtype_of(*code) {
                        Ok((dtype, false)) => dtype,
                        _ => return None,
                    },
                    (_, Some(Item::Tensor(other))) if !other.is_complex() => other.dtype(),
                    (None | Some(Item::None), None) => tensor.dtype(),
                    _ => return None,
                };
                (dtype, matches!(argument(copy), Some(Item::Bool(true))))
            }
        };
        if tensor.is_complex() {
            return None;
        }
        Some(if dtype == tensor.dtype() && !is_copied { Ok(args[0].clone()) } else { convert(tensor, dtype) })
    }
}

fn convert(tensor: &TensorCell, dtype: DType) -> Result<Item> {
    let array = tensor.array()?;
    transaction::charge(array.numel() as u128 * dtype.size() as u128)?;
    let array = if array.dtype() == dtype { array } else { array.cast(dtype) };
    TensorCell::of(array).map(Item::Tensor)
}
