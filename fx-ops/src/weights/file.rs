//! Files of weights: one, or several behind an index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Deref;
use std::path::{Component, Path};
use std::sync::Arc;

use fx_core::{Error, Result, bail, err};
use memmap2::Mmap;

use super::{Entry, Weights, header, insert};

/// The bytes of a file.
pub(super) enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

pub(super) fn open(path: &Path) -> Result<Weights> {
    if path.is_dir() {
        for name in ["model.safetensors", "model.safetensors.index.json"] {
            if path.join(name).is_file() {
                return open(&path.join(name));
            }
        }
        return Err(
            err!(Load, "there is no model.safetensors in {}", path.display()).help("name the file itself")
        );
    }
    let bytes = map(path)?;
    if path.extension().is_some_and(|extension| extension == "json") {
        return open_index(path, &bytes);
    }
    from_bytes(bytes, &path.display().to_string())
}

pub(super) fn from_bytes(bytes: Bytes, origin: &str) -> Result<Weights> {
    let header = header::parse(&bytes).map_err(|error| {
        err!(Load, "{origin} is not a valid safetensors file: {}", error.message())
            .help(error.advice().unwrap_or("save it again, or load it again from where it came"))
    })?;
    let file = Arc::new(bytes);
    let entry = |(name, info)| (name, Entry::Stored { file: file.clone(), info: Arc::new(info) });
    Ok(Weights::new(origin, header.tensors.into_iter().map(entry).collect(), header.metadata))
}

fn map(path: &Path) -> Result<Bytes> {
    let io = |error: std::io::Error| err!(Io, "cannot open {}: {error}", path.display());
    // Opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        bail!(Io, "{} is not a file", path.display());
    }
    let file = File::open(path).map_err(io)?;
    // SAFETY: the map is read-only and private to this value, and only ever read as bytes, for which every
    // bit pattern is valid. That nobody changes the file meanwhile is the documented duty of the caller of
    // `Weights::open`.
    let map = unsafe { Mmap::map(&file) }.map_err(io)?;
    Ok(Bytes::Mapped(map))
}

#[derive(serde::Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Opens every shard that an index names. The tensors are those of the shards; the index must agree with them.
fn open_index(path: &Path, json: &[u8]) -> Result<Weights> {
    let origin = path.display().to_string();
    let in_index = |error: Error| err!(Load, "{origin}: {}", error.message());
    let index: Index = serde_json::from_slice(json)
        .map_err(|error| err!(Load, "{origin} is not an index of weights: {error}"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let shards: BTreeSet<&str> = index.weight_map.values().map(String::as_str).collect();
    let mut entries = BTreeMap::new();
    let mut metadata = BTreeMap::new();
    let mut home: BTreeMap<String, &str> = BTreeMap::new();
    for shard in shards {
        // A shard lies beside its index: an index from elsewhere must not reach other files.
        let mut parts = Path::new(shard).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
            bail!(Load, "{origin}: the shard {shard:?} is not the name of a file beside the index");
        }
        let weights = from_bytes(map(&folder.join(shard))?, &folder.join(shard).display().to_string())?;
        for (name, entry) in &weights.source.entries {
            insert(&mut entries, name.clone(), entry.clone()).map_err(in_index)?;
            home.insert(name.clone(), shard);
        }
        metadata.extend(weights.source.metadata.clone());
    }
    for (name, shard) in &index.weight_map {
        if home.get(name) != Some(&shard.as_str()) {
            bail!(Load, "{origin}: there is no {name:?} in the shard {shard:?}");
        }
    }
    Ok(Weights::new(&origin, entries, metadata))
}
