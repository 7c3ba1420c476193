//! The tensors of an archive: parameters, buffers and constants by their PyTorch names.
//!
//! Names that share a storage share it here; the same view of it is one tensor, so tied weights stay tied.

use std::collections::BTreeMap;

use super::archive::Archive;
use super::schema::{PayloadConfig, PayloadMeta, SymInt, Table, TensorMeta};
use crate::{Array, DType, Result, Tensor, bail, err};

/// The most elements that a view may have beyond those of its storage, as an expanded one has.
const MAX_EXPANDED: usize = 1 << 24;

/// Dtype, sizes, strides and offset.
type Layout = (DType, Vec<usize>, Vec<isize>, usize);

/// Where a tensor lies.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    member: String,
    layout: Layout,
}

impl Place {
    /// Returns whether two tensors may have an element in common.
    pub(super) fn overlaps(&self, other: &Place) -> bool {
        let (a, b) = (self.bytes(), other.bytes());
        self.member == other.member && a.start < b.end && b.start < a.end
    }

    /// Returns the bytes from the first to the last element.
    fn bytes(&self) -> std::ops::Range<i128> {
        let (dtype, sizes, strides, offset) = &self.layout;
        let start = *offset as i128;
        if sizes.contains(&0) {
            return start..start;
        }
        let reach = |(&size, &stride): (&usize, &isize)| (size as i128 - 1).saturating_mul(stride as i128);
        let reaches = || sizes.iter().zip(strides).map(reach);
        let first = reaches().filter(|reach| *reach < 0).fold(start, i128::saturating_add);
        let last = reaches().filter(|reach| *reach > 0).fold(start, i128::saturating_add);
        let size = dtype.size() as i128;
        first.saturating_mul(size)..last.saturating_add(1).saturating_mul(size)
    }
}

/// The tables of an archive, and what has been read.
pub(super) struct Payloads {
    weights: Table<PayloadMeta>,
    constants: Table<PayloadMeta>,
    storages: BTreeMap<(String, DType), Array>,
    tensors: Vec<(String, Layout, Tensor)>,
}

impl Payloads {
    pub(super) fn open(archive: &Archive, model: &str) -> Result<Payloads> {
        let config = |kind: &str| -> Result<Table<PayloadMeta>> {
            let name = format!("data/{kind}/{model}_{kind}_config.json");
            if !archive.contains(&name) {
                return Ok(Table::default());
            }
            archive.json::<PayloadConfig>(&name).map(|config| config.config)
        };
        let (weights, constants) = (config("weights")?, config("constants")?);
        Ok(Payloads { weights, constants, storages: BTreeMap::new(), tensors: Vec::new() })
    }

    /// Returns where a parameter, buffer or constant lies, if the archive says so.
    pub(super) fn place(&self, name: &str) -> Option<Place> {
        let (folder, meta) = self.find(name)?;
        let layout = layout(meta.tensor_meta.as_ref()?).ok()?;
        Some(Place { member: format!("{folder}/{}", meta.path_name), layout })
    }

    fn find(&self, name: &str) -> Option<(&'static str, &PayloadMeta)> {
        let in_weights = self.weights.get(name).map(|meta| ("weights", meta));
        in_weights.or_else(|| self.constants.get(name).map(|meta| ("constants", meta)))
    }

    /// Returns the parameter, buffer or constant of this name.
    pub(super) fn get(&mut self, archive: &Archive, name: &str) -> Result<Tensor> {
        let (folder, meta) = self.find(name).ok_or_else(|| {
            let names = self.weights.keys().chain(self.constants.keys()).map(String::as_str);
            err!(Load, "{} has no weights for {name:?}", archive.origin())
                .help(crate::names::suggest(name, names))
        })?;
        let path = &meta.path_name;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if path.is_empty() || !path.chars().all(is_plain) || path.contains("..") {
            bail!(Load, "{}: {name:?} lies at {path:?}, which is not the name of a member", archive.origin());
        }
        let member = format!("data/{folder}/{path}");
        let Some(tensor_meta) = meta.tensor_meta.as_ref().filter(|_| !meta.use_pickle) else {
            return Err(err!(Load, "{}: {name:?} is pickled, which needs Python", archive.origin())
                .help("turn custom objects into tensors before exporting"));
        };
        let in_name = |error: crate::Error| {
            crate::Error::new(error.kind(), format!("{}: {name:?}: {}", archive.origin(), error.message()))
        };
        let layout = layout(tensor_meta).map_err(in_name)?;
        if let Some((.., tensor)) =
            self.tensors.iter().find(|(other, other_layout, _)| *other == member && *other_layout == layout)
        {
            return Ok(tensor.clone());
        }
        let key = (member.clone(), layout.0);
        if !self.storages.contains_key(&key) {
            let storage = archive.elements(&member, layout.0)?;
            self.storages.insert(key.clone(), storage);
        }
        let tensor = view(&self.storages[&key], &layout).map_err(|error| {
            crate::Error::new(error.kind(), format!("{}: {name:?}: {}", archive.origin(), error.message()))
        })?;
        self.tensors.push((member, layout, tensor.clone()));
        Ok(tensor)
    }
}

fn view(storage: &Array, layout: &Layout) -> Result<Tensor> {
    let (_, sizes, strides, offset) = layout;
    let numel = sizes.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
    let numel = numel.ok_or_else(|| err!(Limit, "the sizes {sizes:?} are too much for any storage"))?;
    if numel > storage.numel().saturating_add(MAX_EXPANDED) {
        bail!(Limit, "the sizes {sizes:?} are too much for a storage of {} elements", storage.numel());
    }
    storage.as_strided(sizes, strides, *offset).map(Tensor::from)
}

fn layout(meta: &TensorMeta) -> Result<Layout> {
    let number = |size: &SymInt| match size {
        SymInt::AsInt(n) => Ok(*n),
        SymInt::AsExpr(expr) => {
            bail!(Load, "expected a known size of a stored tensor, got {:?}", expr.expr_str)
        }
    };
    let unsigned = |size: &SymInt| {
        let n = number(size)?;
        usize::try_from(n).map_err(|_| err!(Shape, "expected a size of at least 0, got {n}"))
    };
    if let Some(layout) = meta.layout.filter(|&layout| layout != super::STRIDED) {
        bail!(Load, "expected a strided tensor, got layout {layout}");
    }
    let sizes = meta.sizes.iter().map(unsigned).collect::<Result<Vec<usize>>>()?;
    let strides = meta
        .strides
        .iter()
        .map(|stride| number(stride).map(|n| n as isize))
        .collect::<Result<Vec<isize>>>()?;
    let offset = meta.storage_offset.as_ref().map_or(Ok(0), unsigned)?;
    if let Some(dtype) = super::complex::part_dtype(meta.dtype) {
        // Pairs of reals lie one after the other.
        let (sizes, strides) =
            (sizes.into_iter().chain([2]), strides.iter().map(|s| s.saturating_mul(2)).chain([1]));
        return Ok((dtype, sizes.collect(), strides.collect(), offset.saturating_mul(2)));
    }
    Ok((super::dtype(meta.dtype)?, sizes, strides, offset))
}
