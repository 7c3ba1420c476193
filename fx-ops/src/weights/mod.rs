//! [`Weights`]: named tensors, read from safetensors files or given.
//!
//! A file is mapped into memory and its header checked as a whole when it is opened; the elements of a tensor
//! are read when it is asked for. Nothing is allocated because a header says so: only as much as the file
//! holds.
//!
//! `header` checks files, `file` maps them and follows sharded indices, `save` writes them, `state` moves
//! them in and out of modules.

mod file;
mod header;
mod save;
mod state;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use fx_core::module::load::{WeightSource, join};
use fx_core::{Array, Error, Result, Tensor, bail, err};

use self::file::Bytes;
use self::header::Info;
pub use self::save::save;
pub use self::state::{Load, LoadOptions, LoadReport, Misfit, ModuleExt};

/// Named tensors, such as a safetensors file. Cheap to clone.
#[derive(Clone)]
pub struct Weights {
    source: Arc<Source>,
    /// The path below which names are looked up, in the names of `source`.
    prefix: String,
}

struct Source {
    /// Where the tensors come from, for messages.
    origin: String,
    entries: BTreeMap<String, Entry>,
    metadata: BTreeMap<String, String>,
}

#[derive(Clone)]
enum Entry {
    /// Bytes of a file, against which the header has been checked.
    Stored { file: Arc<Bytes>, info: Arc<Info> },
    /// A concrete tensor.
    Given(Tensor),
}

impl Entry {
    fn load(&self) -> Result<Tensor> {
        match self {
            Entry::Given(tensor) => Ok(tensor.clone()),
            Entry::Stored { file, info } => {
                Array::from_le_bytes(info.dtype()?, &info.shape, &file[info.range.clone()]).map(Tensor::from)
            }
        }
    }

    fn describe(&self) -> String {
        match self {
            Entry::Given(tensor) => format!("{tensor:?}"),
            Entry::Stored { info, .. } => info.describe(),
        }
    }
}

impl Weights {
    /// Opens a safetensors file, the index of a sharded one (`model.safetensors.index.json`), or a folder
    /// that holds `model.safetensors` or its index.
    ///
    /// The files are mapped into memory and must not be changed while the weights are in use. Fails if a file
    /// cannot be read or is no valid safetensors file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        file::open(path.as_ref())
    }

    /// Reads a safetensors file that is in memory. Fails if it is not valid.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        file::from_bytes(Bytes::Owned(bytes.into()), "the given bytes")
    }

    /// Makes weights of named tensors. Fails if a name is repeated, or a tensor has no value.
    pub fn from_map<N: Into<String>>(tensors: impl IntoIterator<Item = (N, Tensor)>) -> Result<Self> {
        let mut entries = BTreeMap::new();
        for (name, tensor) in tensors {
            let name = name.into();
            tensor
                .array()
                .map_err(|error| Error::new(error.kind(), format!("{name:?}: {}", error.message())))?;
            insert(&mut entries, name, Entry::Given(tensor))?;
        }
        Ok(Weights::new("the given tensors", entries, BTreeMap::new()))
    }

    fn new(origin: &str, entries: BTreeMap<String, Entry>, metadata: BTreeMap<String, String>) -> Self {
        Weights {
            source: Arc::new(Source { origin: origin.to_owned(), entries, metadata }),
            prefix: String::new(),
        }
    }

    /// Returns the tensor called `name`, or `None` if there is none. Fails if its bytes cannot be read as a
    /// tensor.
    pub fn get(&self, name: &str) -> Result<Option<Tensor>> {
        let Some(entry) = self.entry(name) else { return Ok(None) };
        match entry.load() {
            Ok(tensor) => Ok(Some(tensor)),
            Err(error) => {
                let full = self.full(name);
                Err(err!(Load, "cannot read {full:?} of {}: {}", self.source.origin, error.message())
                    .help(error.advice().unwrap_or("write the file again")))
            }
        }
    }

    /// Returns the tensor called `name`. Fails if there is none, or as [`get`](Weights::get) does; the error
    /// names the file and similar names.
    pub fn require(&self, name: &str) -> Result<Tensor> {
        self.get(name)?.ok_or_else(|| {
            let full = self.full(name);
            err!(Load, "there is no {full:?} in {}", self.source.origin)
                .help(fx_core::names::suggest(&full, self.source.entries.keys().map(String::as_str)))
        })
    }

    /// Returns dtype and shape of the tensor called `name`, such as `f32[2, 3]`, without reading it.
    pub fn describe(&self, name: &str) -> Option<String> {
        self.entry(name).map(Entry::describe)
    }

    /// Returns where the tensors come from: the path of the file, or words such as "the given tensors".
    pub fn origin(&self) -> &str {
        &self.source.origin
    }

    /// Returns whether there is a tensor called `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let prefix = dotted(&self.prefix);
        let skip = prefix.len();
        below(&self.source.entries, prefix).map(move |(name, _)| &name[skip..])
    }

    /// Returns the distinct names that directly follow `path` and a dot: numbers in their order, then words.
    pub fn children(&self, path: &str) -> Vec<String> {
        let prefix = dotted(&self.full(path));
        let skip = prefix.len();
        let mut children: Vec<&str> = Vec::new();
        for (name, _) in below(&self.source.entries, prefix) {
            let child = name[skip..].split('.').next().unwrap_or_default();
            if children.last() != Some(&child) {
                children.push(child);
            }
        }
        children.sort_by_key(|child| (child.parse::<u64>().map_or(u64::MAX, |n| n), *child));
        children.dedup();
        children.into_iter().map(str::to_owned).collect()
    }

    /// Returns the number of tensors.
    pub fn len(&self) -> usize {
        self.names().count()
    }

    /// Returns whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// Returns the metadata of the file: text by key.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.source.metadata
    }

    /// Returns the weights below a dotted path, under the names that follow it.
    #[must_use]
    pub fn pp(&self, path: impl fmt::Display) -> Weights {
        Weights { source: self.source.clone(), prefix: self.full(&path.to_string()) }
    }

    /// Returns the same tensors under other names. Fails if two get the same name.
    pub fn rename(&self, rename: impl Fn(&str) -> String) -> Result<Weights> {
        let mut entries = BTreeMap::new();
        let prefix = dotted(&self.prefix);
        let skip = prefix.len();
        for (name, entry) in below(&self.source.entries, prefix) {
            insert(&mut entries, rename(&name[skip..]), entry.clone())?;
        }
        Ok(Weights::new(&self.source.origin, entries, self.source.metadata.clone()))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        match self.prefix.as_str() {
            "" => self.source.entries.get(name),
            _ => self.source.entries.get(&self.full(name)),
        }
    }

    /// Returns a path as the source has it.
    fn full(&self, path: &str) -> String {
        if path.is_empty() { self.prefix.clone() } else { join(&self.prefix, path) }
    }
}

fn insert(entries: &mut BTreeMap<String, Entry>, name: String, entry: Entry) -> Result<()> {
    if entries.contains_key(&name) {
        bail!(Load, "there are two tensors called {name:?}");
    }
    entries.insert(name, entry);
    Ok(())
}

/// Returns a path with a dot, which all names below it begin with; nothing for the root.
fn dotted(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}.") }
}

fn below(entries: &BTreeMap<String, Entry>, prefix: String) -> impl Iterator<Item = (&String, &Entry)> {
    entries.range(prefix.clone()..).take_while(move |(name, _)| name.starts_with(&prefix))
}

impl WeightSource for Weights {
    fn get(&self, path: &str) -> Result<Option<Tensor>> {
        Weights::get(self, path)
    }
    fn children(&self, prefix: &str) -> Vec<String> {
        Weights::children(self, prefix)
    }
    fn require(&self, path: &str) -> Result<Tensor> {
        Weights::require(self, path)
    }
}

/// `Weights(16 tensors of model.safetensors)`.
impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weights({} tensors of {}", self.len(), self.source.origin)?;
        if self.prefix.is_empty() { f.write_str(")") } else { write!(f, " below {:?})", self.prefix) }
    }
}
