//! A zip file: its members by name, read with limits.
//!
//! The file is mapped into memory, and a stored member is a part of the map. How much may be inflated follows
//! from the length of the file, so a small file cannot ask for much memory. Nothing is ever written to disk.
//! Sizes and checksums are those of the central directory, since PyTorch leaves them out elsewhere.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Cursor, Read};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};

use crate::{Error, Result, bail, err};

/// How much more a deflated member may hold than its share of the file.
const RATIO: u64 = 100;
/// How much a deflated member may hold in any case.
const SMALL: u64 = 16 << 20;
/// The most members that a file may have.
const MAX_MEMBERS: usize = 1 << 20;

/// An open zip file.
pub(crate) struct ZipFile {
    zip: ZipArchive<Cursor<Shared>>,
    bytes: Shared,
    /// How the file is called in messages.
    origin: String,
    /// How to write such a file again, for messages.
    again: &'static str,
    names: Vec<String>,
    /// How many bytes may still be inflated.
    budget: Cell<u64>,
    /// The stored members that were read, which together are no longer than the file.
    stored: RefCell<(HashSet<usize>, u64)>,
}

/// The bytes of a file.
#[derive(Clone)]
struct Shared(Arc<Bytes>);

enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        match &*self.0 {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl Deref for Shared {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl ZipFile {
    /// Maps a file into memory, which nobody may change until the program has been read; `again` says how to
    /// write such a file.
    pub(crate) fn open(path: &Path, again: &'static str) -> Result<ZipFile> {
        let io = |error: std::io::Error| err!(Io, "cannot open {}: {error}", path.display());
        // Opening a pipe would wait for its writer.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            bail!(Io, "{} is not a file", path.display());
        }
        let file = File::open(path).map_err(io)?;
        // SAFETY: the map is read-only and only ever read as bytes, for which every bit pattern is valid.
        // That nobody changes the file meanwhile is the documented duty of the caller.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        ZipFile::new(Bytes::Mapped(map), path.display().to_string(), again)
    }

    pub(crate) fn from_bytes(bytes: Vec<u8>, again: &'static str) -> Result<ZipFile> {
        ZipFile::new(Bytes::Owned(bytes), "the given bytes".to_owned(), again)
    }

    fn new(bytes: Bytes, origin: String, again: &'static str) -> Result<ZipFile> {
        let bytes = Shared(Arc::new(bytes));
        // Members may be archives themselves: their directories are not to be taken for ours.
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        // The header of safetensors: its length, and an object of JSON.
        if bytes.len() > 8 && bytes[8] == b'{' && !bytes.starts_with(b"PK") {
            return Err(err!(Load, "{origin} is not a zip archive, but looks like safetensors")
                .help("read its tensors by `Weights::open`, and load them by `load_state_dict`"));
        }
        let zip = ZipArchive::with_config(config, Cursor::new(bytes.clone())).map_err(|error| {
            err!(Load, "{origin} is not a valid zip archive: {error}")
                .help(format!("the file may be truncated; write it again with {again}"))
        })?;
        if zip.len() > MAX_MEMBERS {
            bail!(Limit, "{origin} has {} members, expected at most {MAX_MEMBERS}", zip.len());
        }
        let names = names(&zip, &origin, again)?;
        let budget = Cell::new((bytes.len() as u64).saturating_mul(RATIO).max(SMALL));
        Ok(ZipFile { zip, bytes, origin, again, names, budget, stored: RefCell::default() })
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the names of all members, in the order of the directory.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.zip.index_for_name(name).is_some()
    }

    /// Reads a member; a stored one is not copied.
    pub(crate) fn read(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        let index = self.zip.index_for_name(name).ok_or_else(|| {
            err!(Load, "{} has no member {name:?}", self.origin)
                .help(format!("the archive is incomplete; write it again with {}", self.again))
        })?;
        // The clone has a position of its own and shares the directory.
        let mut zip = self.zip.clone();
        let mut file = zip.by_index(index).map_err(|error| self.damaged(name, &error))?;
        let (size, packed) = (file.size(), file.compressed_size());
        let (start, crc) = (file.data_start(), file.crc32());
        match file.compression() {
            CompressionMethod::Stored => {
                let start = start.and_then(|start| usize::try_from(start).ok());
                let end = start.and_then(|start| start.checked_add(usize::try_from(packed).ok()?));
                let range = start.zip(end).map(|(start, end)| start..end);
                let bytes = range.and_then(|range| self.bytes.get(range));
                let bytes =
                    bytes.ok_or_else(|| self.damaged(name, &"it reaches beyond the end of the file"))?;
                if size != packed {
                    return Err(self.damaged(name, &format!("expected {size} bytes, got {packed}")));
                }
                let (seen, total) = &mut *self.stored.borrow_mut();
                if seen.insert(index) {
                    *total = total.saturating_add(packed);
                    if *total > self.bytes.len() as u64 {
                        return Err(self.too_large(name, size));
                    }
                }
                if crc32fast::hash(bytes) != crc {
                    return Err(self.damaged(name, &"its checksum is wrong"));
                }
                Ok(Cow::Borrowed(bytes))
            }
            CompressionMethod::Deflated => {
                if size > packed.saturating_mul(RATIO).max(SMALL) || size > self.budget.get() {
                    return Err(self.too_large(name, size));
                }
                self.budget.set(self.budget.get() - size);
                let mut bytes = Vec::new();
                // Room for the claimed size may be missing, which must not abort the process.
                bytes.try_reserve_exact(size as usize).map_err(|_| {
                    err!(Limit, "{}: there is no memory for the {size} bytes of {name:?}", self.origin)
                })?;
                // At the end of the member its checksum is compared; one byte more would be too many.
                let read = file.by_ref().take(size.saturating_add(1)).read_to_end(&mut bytes);
                read.map_err(|error| self.damaged(name, &error))?;
                if bytes.len() as u64 != size {
                    let got =
                        if (bytes.len() as u64) > size { "more".to_owned() } else { bytes.len().to_string() };
                    return Err(self.damaged(name, &format!("expected {size} bytes, got {got}")));
                }
                Ok(Cow::Owned(bytes))
            }
            other => bail!(
                Load,
                "{}: {name:?} is compressed with {other:?}, expected stored or deflated",
                self.origin
            ),
        }
    }

    fn too_large(&self, name: &str, size: u64) -> Error {
        err!(Limit, "{}: {name:?} claims {size} bytes, more than the file can rightly hold", self.origin)
            .help("an archive of PyTorch stores its members uncompressed")
    }

    fn damaged(&self, name: &str, why: &dyn std::fmt::Display) -> Error {
        err!(Load, "{}: cannot read {name:?}: {why}", self.origin)
            .help(format!("the file is damaged; copy it again, or write it again with {}", self.again))
    }
}

/// Returns the names of all members, which must be relative paths that stay inside, each once.
fn names(zip: &ZipArchive<Cursor<Shared>>, origin: &str, again: &str) -> Result<Vec<String>> {
    let mut names = Vec::with_capacity(zip.len());
    for name in zip.file_names() {
        let name = name.map_err(|error| err!(Load, "{origin}: a member has no valid name: {error}"))?;
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        let path = name.strip_suffix('/').unwrap_or(&name);
        if name.contains(['\\', '\0', ':']) || !path.split('/').all(is_plain) {
            return Err(err!(Load, "{origin}: the member {:?} has no plain relative path", &*name)
                .help(format!("write the archive again with {again}; this one was not written by PyTorch")));
        }
        names.push(name.into_owned());
    }
    if names.len() != zip.len() {
        bail!(Load, "{origin}: two members have the same name");
    }
    Ok(names)
}
