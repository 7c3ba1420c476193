//! `tensors.safetensors`: the elements of all tensors.
//!
//! Tensors that share a storage are views of one entry, which holds the whole storage. A tensor that shares
//! its storage with no other is an entry of its own, without what it does not show.

use std::borrow::Cow;
use std::collections::HashMap;

use safetensors::Dtype;
use safetensors::tensor::SafeTensors;

use super::manifest::View;
use crate::{Array, DType, Result, Storage, Tensor, bail, err};

/// The name of the member.
pub(super) const MEMBER: &str = "tensors.safetensors";
/// The most elements that a view may have beyond those of its storage, as an expanded one has.
const MAX_EXPANDED: usize = 1 << 24;

const DTYPES: [(DType, Dtype); 9] = [
    (DType::Bool, Dtype::BOOL),
    (DType::U8, Dtype::U8),
    (DType::I8, Dtype::I8),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
];

/// Collects tensors, each once.
#[derive(Default)]
pub(super) struct Writer {
    tensors: Vec<Tensor>,
    /// The numbers of the tensors by the address of their arrays, which are theirs while the tensors are kept.
    numbers: HashMap<*const Array, usize>,
}

impl Writer {
    /// Adds a tensor; returns its number. A tensor that was added before has that number.
    pub(super) fn add(&mut self, tensor: Tensor) -> Result<usize> {
        let address = std::ptr::from_ref(tensor.array()?);
        let next = self.tensors.len();
        let number = *self.numbers.entry(address).or_insert(next);
        if number == next {
            self.tensors.push(tensor);
        }
        Ok(number)
    }

    /// Returns the bytes of the member, and what each tensor is in it.
    pub(super) fn finish(self) -> Result<(Vec<u8>, Vec<View>)> {
        let arrays = self.tensors.iter().map(Tensor::array).collect::<Result<Vec<_>>>()?;
        let mut groups: Vec<(&Storage, Vec<usize>)> = Vec::new();
        let mut found: HashMap<*const (), usize> = HashMap::new();
        for (number, array) in arrays.iter().enumerate() {
            let storage = array.storage();
            let next = groups.len();
            // Storages without elements may have one address.
            let group = match address(storage) {
                Some(address) => *found.entry(address).or_insert(next),
                None => next,
            };
            if group == next {
                groups.push((storage, Vec::new()));
            }
            groups[group].1.push(number);
        }
        let mut entries = Vec::with_capacity(groups.len());
        let mut views: Vec<Option<View>> = vec![None; arrays.len()];
        for (group, (storage, members)) in groups.iter().enumerate() {
            let name = group.to_string();
            if let [only] = members[..] {
                let array = arrays[only].contiguous()?;
                views[only] = Some(whole(&name, array.shape()));
                entries.push((name, Entry::new(array)?));
                continue;
            }
            for &number in members {
                let array = arrays[number];
                views[number] = Some(View {
                    storage: name.clone(),
                    offset: array.offset(),
                    shape: array.shape().to_vec(),
                    strides: array.strides().to_vec(),
                });
            }
            entries.push((name, Entry::new(flat(arrays[members[0]], storage)?)?));
        }
        let bytes = safetensors::serialize(entries, None)
            .map_err(|error| err!(Io, "cannot write {MEMBER}: {error}"))?;
        let views = views.into_iter().map(|view| view.expect("each tensor is in a group")).collect();
        Ok((bytes, views))
    }
}

/// Returns where the elements of a storage are, if there are any.
fn address(storage: &Storage) -> Option<*const ()> {
    crate::array::dispatch_dtype!(storage.dtype(), T => {
        let elements = <T as crate::Stored>::slice(storage)?;
        elements.first().map(|first| std::ptr::from_ref(first).cast())
    })
}

/// Returns the view that is all of an entry.
fn whole(name: &str, shape: &[usize]) -> View {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1) as isize;
    }
    View { storage: name.to_owned(), offset: 0, shape: shape.to_vec(), strides }
}

/// Returns all elements of a storage as an array of one axis.
fn flat(array: &Array, storage: &Storage) -> Result<Array> {
    crate::array::dispatch_dtype!(array.dtype(), T => {
        let elements = <T as crate::Stored>::slice(storage).unwrap_or_default();
        Array::from_vec(elements.to_vec(), &[elements.len()])
    })
}

/// A contiguous array as safetensors takes it.
struct Entry {
    array: Array,
    dtype: Dtype,
}

impl Entry {
    fn new(array: Array) -> Result<Entry> {
        let row = DTYPES.iter().find(|row| row.0 == array.dtype());
        let (_, dtype) = *row.ok_or_else(|| err!(DType, "{} cannot be saved", array.dtype()))?;
        Ok(Entry { array, dtype })
    }
}

impl safetensors::View for Entry {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.array.to_le_bytes().unwrap_or_default())
    }

    fn data_len(&self) -> usize {
        self.array.nbytes()
    }
}

/// The entries of the member.
pub(super) struct Reader<'a> {
    entries: SafeTensors<'a>,
    storages: HashMap<String, Array>,
}

impl<'a> Reader<'a> {
    /// Reads the head of the member, and checks it.
    pub(super) fn new(origin: &str, bytes: &'a [u8]) -> Result<Reader<'a>> {
        let entries = SafeTensors::deserialize(bytes).map_err(|error| {
            err!(Load, "expected a valid safetensors file: {error}").in_file(origin, Some(MEMBER))
        })?;
        Ok(Reader { entries, storages: HashMap::new() })
    }

    /// Returns the tensor that is a view of an entry. The elements of an entry are read once.
    pub(super) fn tensor(&mut self, view: &View) -> Result<Tensor> {
        if !self.storages.contains_key(&view.storage) {
            let array = self.storage(&view.storage)?;
            self.storages.insert(view.storage.clone(), array);
        }
        let storage = &self.storages[&view.storage];
        let numel = view.shape.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
        if numel.is_none_or(|numel| numel > storage.numel().saturating_add(MAX_EXPANDED)) {
            bail!(
                Limit,
                "the sizes {:?} are too much for a storage of {} elements",
                view.shape,
                storage.numel()
            );
        }
        if *view == whole(&view.storage, storage.shape()) {
            return Ok(Tensor::from(storage.clone()));
        }
        storage.as_strided(&view.shape, &view.strides, view.offset).map(Tensor::from)
    }

    fn storage(&self, name: &str) -> Result<Array> {
        let entry = self.entries.tensor(name);
        let entry = entry.map_err(|_| err!(Load, "there is no tensor {name:?} in {MEMBER}"))?;
        let row = DTYPES.iter().find(|row| row.1 == entry.dtype());
        let (dtype, _) =
            *row.ok_or_else(|| err!(DType, "numbers of type {:?} are not supported", entry.dtype()))?;
        Array::from_le_bytes(dtype, entry.shape(), entry.data())
    }
}
