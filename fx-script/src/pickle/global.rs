//! The names that a pickle may hold, and what each may be used for.

use std::sync::Arc;

use super::ScalarType;

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Global {
    /// A class of the program, by its qualified name.
    Class(Arc<str>),
    /// A class of storages.
    Storage(ScalarType),
    /// A quantisation scheme of a whole tensor.
    PerTensorAffine,
    /// A function that PyTorch calls to rebuild a value.
    Rebuild(Rebuild),
}

/// The values that are rebuilt from arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rebuild {
    Tensor,
    QuantizedTensor,
    OrderedDict,
    /// A list of elements of one type, which this is.
    TypedList(&'static str),
    TypeTag,
    Device,
    Complex,
}

/// The functions, by module and name.
const FUNCTIONS: &[(&str, &str, Rebuild)] = &[
    ("torch._utils", "_rebuild_tensor_v2", Rebuild::Tensor),
    ("torch._utils", "_rebuild_qtensor", Rebuild::QuantizedTensor),
    ("collections", "OrderedDict", Rebuild::OrderedDict),
    ("torch.jit._pickle", "build_intlist", Rebuild::TypedList("List[int]")),
    ("torch.jit._pickle", "build_doublelist", Rebuild::TypedList("List[float]")),
    ("torch.jit._pickle", "build_boollist", Rebuild::TypedList("List[bool]")),
    ("torch.jit._pickle", "build_tensorlist", Rebuild::TypedList("List[Tensor]")),
    ("torch.jit._pickle", "restore_type_tag", Rebuild::TypeTag),
    ("torch", "device", Rebuild::Device),
    ("builtins", "complex", Rebuild::Complex),
    // Python 2 and the pickles that are compatible with it.
    ("__builtin__", "complex", Rebuild::Complex),
];

impl Global {
    /// Returns the meaning of a name, or `None` if a pickle of TorchScript has no use for it.
    pub(super) fn find(module: &str, name: &str) -> Option<Global> {
        if module == "__torch__" || module.starts_with("__torch__.") {
            let is_name = |part: &str| {
                !part.is_empty()
                    && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                    && !part.starts_with(|c: char| c.is_ascii_digit())
            };
            let parts = module.split('.').chain(std::iter::once(name));
            return parts.clone().all(is_name).then(|| Global::Class(Arc::from(format!("{module}.{name}"))));
        }
        if module == "torch" {
            if let Some(scalar_type) = ScalarType::of_storage_class(name) {
                return Some(Global::Storage(scalar_type));
            }
            if name == "per_tensor_affine" {
                return Some(Global::PerTensorAffine);
            }
        }
        let mut functions = FUNCTIONS.iter();
        functions.find(|row| row.0 == module && row.1 == name).map(|row| Global::Rebuild(row.2))
    }
}

/// Returns module and name of the function that rebuilds a list of this type, if it has one of its own.
pub(super) fn typed_list(ty: &str) -> Option<(&'static str, &'static str)> {
    let row = FUNCTIONS.iter().find(|row| matches!(row.2, Rebuild::TypedList(own) if own == ty))?;
    Some((row.0, row.1))
}
