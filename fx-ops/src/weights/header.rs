//! The header of a safetensors file: 8 bytes of length, then JSON with dtype, shape and byte range of each tensor.
//!
//! What [`parse`] returns is checked: names are distinct, the ranges fill the data exactly, one after the
//! other, and each is as long as dtype and shape say. A dtype that fx does not have is kept by name; only
//! reading such a tensor is an error. The `safetensors` crate is not used for this: it takes the last of two
//! tensors with one name, refuses whole files for one dtype it does not know, and adds offsets without
//! checking for overflow.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use fx_core::array::checked_numel;
use fx_core::{DType, Result, bail, err};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// The length of the length.
const PREFIX: usize = 8;
/// The greatest length of the JSON, as in the reference implementation.
const MAX_HEADER: u64 = 100_000_000;
/// The greatest number of axes of a tensor.
const MAX_RANK: usize = 64;

/// The entry of one tensor in a header.
pub(super) struct Info {
    dtype: Box<str>,
    pub(super) shape: Box<[usize]>,
    /// The bytes in the file.
    pub(super) range: Range<usize>,
}

impl Info {
    /// Returns the dtype, if fx has it.
    pub(super) fn dtype(&self) -> Result<DType> {
        known(&self.dtype).ok_or_else(|| {
            err!(DType, "fx has no dtype {}", self.dtype)
                .help("convert the tensor to one that fx has, such as F32 or I64")
        })
    }

    /// Returns dtype and shape as in `f32[2, 3]`.
    pub(super) fn describe(&self) -> String {
        format!("{}{:?}", known(&self.dtype).map_or(&*self.dtype, |dtype| dtype.name()), self.shape)
    }
}

fn known(name: &str) -> Option<DType> {
    DType::ALL.iter().copied().find(|dtype| dtype.safetensors_name() == name)
}

/// The entries of a header.
pub(super) struct Header {
    /// The tensors by name, in the order of the header.
    pub(super) tensors: Vec<(String, Info)>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// Reads and checks the header of a file.
pub(super) fn parse(file: &[u8]) -> Result<Header> {
    let Some((length, rest)) = file.split_first_chunk::<PREFIX>() else {
        bail!(Load, "expected a header of at least {PREFIX} bytes, got {}", file.len());
    };
    if length.starts_with(b"PK\x03\x04") {
        return Err(err!(Load, "expected safetensors, got a zip archive")
            .help("`fx::load` reads what `fx::save` wrote; `fx::import` reads programs of PyTorch"));
    }
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER {
        bail!(Load, "the header says that it is {length} bytes long, more than the limit of {MAX_HEADER}");
    }
    let Some((json, data)) = rest.split_at_checked(length as usize) else {
        bail!(Load, "expected a header of {length} bytes, got {}", rest.len());
    };
    let text = std::str::from_utf8(json).map_err(|error| err!(Load, "the header is not UTF-8: {error}"))?;
    let raw: RawHeader = serde_json::from_str(text).map_err(|error| err!(Load, "the header: {error}"))?;
    let start = PREFIX + length as usize;
    let mut tensors = raw
        .tensors
        .into_iter()
        .map(|(name, raw)| check(name, raw, start, data.len()))
        .collect::<Result<Vec<_>>>()?;
    check_names(&tensors)?;
    check_ranges(&mut tensors, start, file.len())?;
    Ok(Header { tensors, metadata: raw.metadata })
}

fn check(name: String, raw: RawInfo, start: usize, data_len: usize) -> Result<(String, Info)> {
    let [from, to] = raw.data_offsets;
    if from > to || to > data_len as u64 {
        bail!(Load, "{name:?} is said to be at bytes {from}..{to} of {data_len}");
    }
    if raw.shape.len() > MAX_RANK {
        bail!(Load, "{name:?} has {} axes, more than the limit of {MAX_RANK}", raw.shape.len());
    }
    let shape = raw.shape.iter().map(|&size| usize::try_from(size)).collect::<Result<Box<[usize]>, _>>();
    let shape = shape.map_err(|_| err!(Load, "{name:?} has a size that no memory holds"))?;
    let numel = checked_numel(&shape).map_err(|error| err!(Load, "{name:?}: {}", error.message()))?;
    if let Some(dtype) = known(&raw.dtype) {
        let expected = numel as u128 * dtype.size() as u128;
        if expected != u128::from(to - from) {
            bail!(Load, "{name:?}: expected {expected} bytes for {dtype}{shape:?}, got {}", to - from);
        }
    }
    let range = start + from as usize..start + to as usize;
    Ok((name, Info { dtype: raw.dtype.into(), shape, range }))
}

fn check_names(tensors: &[(String, Info)]) -> Result<()> {
    let mut names: Vec<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => bail!(Load, "there are two tensors called {:?}", pair[0]),
        None => Ok(()),
    }
}

/// Checks that the tensors follow one another from `start` to `end`, without gaps or overlaps.
fn check_ranges(tensors: &mut [(String, Info)], start: usize, end: usize) -> Result<()> {
    tensors.sort_by_key(|(_, info)| (info.range.start, info.range.end));
    let mut at = start;
    for (name, info) in &*tensors {
        if info.range.start < at {
            bail!(Load, "{name:?} overlaps the tensor before it");
        }
        if info.range.start > at {
            bail!(Load, "{} bytes before {name:?} belong to no tensor", info.range.start - at);
        }
        at = info.range.end;
    }
    if at != end {
        bail!(Load, "{} bytes at the end belong to no tensor", end - at);
    }
    Ok(())
}

#[derive(serde::Deserialize)]
struct RawInfo {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The entries as they are written: a repeated name is kept, to be refused.
struct RawHeader {
    tensors: Vec<(String, RawInfo)>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = RawHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a tensor for each name")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RawHeader, M::Error> {
                let mut header = RawHeader { tensors: Vec::new(), metadata: BTreeMap::new() };
                while let Some(key) = map.next_key::<String>()? {
                    if key == "__metadata__" {
                        header.metadata = map.next_value::<Option<_>>()?.unwrap_or_default();
                    } else {
                        header.tensors.push((key, map.next_value()?));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
