//! The members of an archive, from a tree of module objects and the text of their classes.

use std::collections::{BTreeMap, HashMap};

use fx_core::array::dispatch_dtype;
use fx_core::{Array, Result, Stored, bail};

use super::debug_records::{self, DebugRange};
use crate::pickle::{self, Builder, Node, NodeRef, ScalarType, StorageInfo, TensorInfo};

/// A program to be written.
#[derive(Debug)]
pub struct Draft {
    /// The top module.
    pub root: ModuleDraft,
    /// The text of each file by the qualified name that it defines names in, such as `__torch__.fx`.
    pub code: BTreeMap<String, String>,
    /// Where the statements of each file come from, by the name of the file, in order.
    pub debug: BTreeMap<String, Vec<DebugRange>>,
    /// The version of the format, which says what the operators mean.
    pub version: u32,
    /// Files of the user by name.
    pub extra: BTreeMap<String, Vec<u8>>,
}

/// A module object.
#[derive(Clone, Debug)]
pub struct ModuleDraft {
    /// The qualified name of the class, such as `__torch__.fx.Main`.
    pub class: String,
    /// The attributes in order.
    pub slots: Vec<(String, SlotDraft)>,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum SlotDraft {
    /// A tensor. Attributes with arrays that share a storage share it.
    Tensor {
        /// The elements.
        array: Array,
        /// Whether it is trained.
        requires_grad: bool,
    },
    /// A truth value.
    Bool(bool),
    /// A sub-module.
    Module(ModuleDraft),
}

impl Draft {
    /// Returns the members in the order in which PyTorch writes them, in the folder `stem`. The same program
    /// gives the same bytes.
    ///
    /// Fails if modules are nested too deeply.
    pub fn members(self, stem: &str) -> Result<Vec<(String, Vec<u8>)>> {
        let mut writer = Writer::default();
        let root = writer.module(&self.root)?;
        let data = pickle::write(&writer.builder.finish(root)?);
        let named = |name: String| format!("{stem}/{name}");
        let mut members = vec![(named("data.pkl".into()), data)];
        let storages = writer.storages.iter().enumerate();
        for (key, array) in storages {
            members.push((named(format!("data/{key}")), all_bytes(array)?));
        }
        for (module, text) in self.code {
            let member = format!("code/{}.py", module.replace('.', "/"));
            let records = self.debug.get(&module).filter(|ranges| !ranges.is_empty());
            let records = records.map(|ranges| debug_records::write(ranges)).transpose()?;
            members.push((named(member.clone()), text.into_bytes()));
            members.extend(records.map(|bytes| (named(format!("{member}.debug_pkl")), bytes)));
        }
        members.extend(self.extra.into_iter().map(|(name, bytes)| (named(format!("extra/{name}")), bytes)));
        members.push((named("constants.pkl".into()), b"\x80\x02).".to_vec()));
        members.push((named("version".into()), format!("{}\n", self.version).into_bytes()));
        members.push((named("byteorder".into()), b"little".to_vec()));
        Ok(members)
    }
}

#[derive(Default)]
struct Writer {
    builder: Builder,
    /// An array of each storage.
    storages: Vec<Array>,
    /// The storages by the address of their elements, which is theirs while the arrays are kept.
    by_address: HashMap<usize, NodeRef>,
    /// The tensors that were written, by storage and layout.
    tensors: HashMap<(NodeRef, TensorKey), NodeRef>,
}

/// Offset, sizes, strides, and whether the tensor is trained.
type TensorKey = (usize, Vec<usize>, Vec<usize>, bool);

impl Writer {
    fn module(&mut self, module: &ModuleDraft) -> Result<NodeRef> {
        let mut entries = Vec::with_capacity(module.slots.len());
        for (name, slot) in &module.slots {
            let name = self.builder.text(name.as_str());
            let value = match slot {
                SlotDraft::Bool(value) => self.builder.add(Node::Bool(*value)),
                SlotDraft::Module(child) => self.module(child)?,
                SlotDraft::Tensor { array, requires_grad } => self.tensor(array, *requires_grad)?,
            };
            entries.push((name, value));
        }
        let state = self.builder.add(Node::Dict(entries));
        Ok(self.builder.add(Node::Object { class: module.class.as_str().into(), state }))
    }

    fn tensor(&mut self, array: &Array, requires_grad: bool) -> Result<NodeRef> {
        let strides =
            array.strides().iter().map(|&stride| usize::try_from(stride)).collect::<Result<Vec<_>, _>>();
        let Ok(strides) = strides else {
            // PyTorch has no tensors that are walked backwards.
            return self.tensor(&array.contiguous()?, requires_grad);
        };
        let storage = self.storage(array);
        let empty = array.is_empty();
        let offset = if empty { 0 } else { array.offset() };
        let sizes = array.shape().to_vec();
        let key = (storage, (offset, sizes.clone(), strides.clone(), requires_grad));
        if let Some(&tensor) = self.tensors.get(&key) {
            return Ok(tensor);
        }
        let info = TensorInfo { storage, offset, sizes, strides, quantizer: None, requires_grad };
        let tensor = self.builder.add(Node::Tensor(info));
        self.tensors.insert(key, tensor);
        Ok(tensor)
    }

    fn storage(&mut self, array: &Array) -> NodeRef {
        let address = address(array);
        if let Some(node) = address.and_then(|address| self.by_address.get(&address)) {
            return *node;
        }
        let key = self.storages.len();
        let node = self.builder.add(Node::Storage(StorageInfo {
            scalar_type: ScalarType::from(array.dtype()),
            key: key.to_string().into(),
            numel: array.storage().len(),
        }));
        self.storages.push(array.clone());
        if let Some(address) = address {
            self.by_address.insert(address, node);
        }
        node
    }
}

/// Returns where the elements of a storage are, if there are any.
fn address(array: &Array) -> Option<usize> {
    dispatch_dtype!(array.dtype(), T => {
        let elements = <T as Stored>::slice(array.storage())?;
        elements.first().map(|first| std::ptr::from_ref(first) as usize)
    })
}

/// Returns the bytes of the whole storage of an array.
fn all_bytes(array: &Array) -> Result<Vec<u8>> {
    dispatch_dtype!(array.dtype(), T => {
        let Some(elements) = <T as Stored>::slice(array.storage()) else {
            bail!(DType, "the storage of {} is of another dtype", array.describe());
        };
        Array::from_vec(elements.to_vec(), &[elements.len()])?.to_le_bytes()
    })
}
