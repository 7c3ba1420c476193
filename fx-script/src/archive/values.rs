//! A pickle with its tensors.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use fx_core::{Array, DType, Result, bail, err};

use super::Archive;
use crate::pickle::{self, Node, NodeRef, Pickle, ScalarType, StorageInfo, TensorInfo};

/// The most elements that a view may have beyond those of its storage, as an expanded one has.
const MAX_EXPANDED: usize = 1 << 24;

/// The value of a pickle, and the tensors in it. Tensors that share a storage in the archive share one here.
#[derive(Clone, Debug)]
pub struct Values {
    pickle: Pickle,
    tensors: HashMap<NodeRef, StoredTensor>,
}

/// A tensor of an archive.
#[derive(Clone, Debug)]
pub struct StoredTensor {
    /// The elements; those of complex tensors are pairs of reals along an additional last axis.
    pub array: Array,
    /// The whole storage as an array of one axis, of which `array` is a view.
    pub storage: Array,
    /// The type of the elements in PyTorch.
    pub scalar_type: ScalarType,
    /// Whether the tensor is trained.
    pub requires_grad: bool,
}

impl Values {
    /// Returns the nodes.
    pub fn pickle(&self) -> &Pickle {
        &self.pickle
    }

    /// Returns the tensor of a [`Node::Tensor`], or `None` for another node.
    pub fn tensor(&self, node: NodeRef) -> Option<&StoredTensor> {
        self.tensors.get(&node)
    }

    /// Reads a pickle and the storages in `folder` that it names.
    pub(super) fn read(archive: &Archive, member: &str, folder: &str) -> Result<Values> {
        let place = format!("{}, {member}", archive.origin());
        let pickle = pickle::read(&place, &archive.read(member)?)?;
        let mut storages: HashMap<(&str, DType), Array> = HashMap::new();
        let mut tensors = HashMap::new();
        let mut seen = vec![pickle.root()];
        let mut is_seen = std::collections::HashSet::from([pickle.root()]);
        while let Some(node) = seen.pop() {
            pickle.node(node).for_each_child(|child| {
                if is_seen.insert(child) {
                    seen.push(child);
                }
            });
            let Node::Tensor(info) = pickle.node(node) else { continue };
            let (storage, _) = pickle.tensor(node).expect("the reader gives tensors a storage");
            let located = |error: fx_core::Error| {
                let byte = format!("{member}, byte {}", pickle.offset(node));
                error.in_file(archive.origin(), Some(&byte))
            };
            if info.quantizer.is_some() {
                storage.scalar_type.dtype().map_err(located)?;
                bail!(Load, "a quantised tensor has elements of dtype {}", storage.scalar_type);
            }
            let dtype = storage.scalar_type.dtype().map_err(located)?;
            let key = (&*storage.key, dtype);
            let flat = match storages.entry(key) {
                Entry::Occupied(entry) => entry.get().clone(),
                Entry::Vacant(entry) => entry.insert(read_storage(archive, folder, storage, dtype)?).clone(),
            };
            let array = view(&flat, storage.scalar_type, info).map_err(located)?;
            let (scalar_type, requires_grad) = (storage.scalar_type, info.requires_grad);
            tensors.insert(node, StoredTensor { array, storage: flat, scalar_type, requires_grad });
        }
        Ok(Values { pickle, tensors })
    }
}

/// Reads the elements of a storage, one after the other; those of complex ones are the parts.
fn read_storage(archive: &Archive, folder: &str, storage: &StorageInfo, dtype: DType) -> Result<Array> {
    let member = format!("{folder}/{}", storage.key);
    let bytes = archive.read(&member)?;
    let size = storage.scalar_type.size();
    if storage.numel.checked_mul(size) != Some(bytes.len()) {
        return Err(err!(
            Load,
            "expected {} bytes for {} elements of {}, got {}",
            storage.numel as u128 * size as u128,
            storage.numel,
            storage.scalar_type,
            bytes.len()
        )
        .in_file(archive.origin(), Some(&member))
        .help("the file is damaged; copy or save it again"));
    }
    Array::from_le_bytes(dtype, &[bytes.len() / dtype.size()], &bytes)
        .map_err(|error| error.in_file(archive.origin(), Some(&member)))
}

fn view(storage: &Array, scalar_type: ScalarType, info: &TensorInfo) -> Result<Array> {
    let parts = if scalar_type.is_complex() { 2 } else { 1 };
    let numel: Option<usize> = info.sizes.iter().try_fold(parts, |n: usize, &size| n.checked_mul(size));
    if numel.is_none_or(|numel| numel > storage.numel().saturating_add(MAX_EXPANDED)) {
        bail!(Limit, "the sizes {:?} are too much for a storage of {} elements", info.sizes, storage.numel());
    }
    let mut sizes = info.sizes.clone();
    // An axis of at most one element may have any stride.
    let stride = |(&size, &stride): (&usize, &usize)| if size > 1 { (stride * parts) as isize } else { 1 };
    let mut strides: Vec<isize> = info.sizes.iter().zip(&info.strides).map(stride).collect();
    if parts == 2 {
        sizes.push(2);
        strides.push(1);
    }
    let offset = if numel == Some(0) { 0 } else { info.offset * parts };
    storage.as_strided(&sizes, &strides, offset)
}
