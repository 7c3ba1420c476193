//! The zip file: its members by name, read with limits.
//!
//! Nothing is ever written to disk, and a member is read only when something refers to it. How much may be
//! inflated follows from the length of the file, so a small file cannot ask for much memory.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use serde::de::DeserializeOwned;
use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};

use crate::{Array, DType, Error, ErrorKind, Result, bail, err};

/// How much more a deflated member may hold than its share of the file.
const RATIO: u64 = 100;
/// How much a deflated member may hold in any case.
const SMALL: u64 = 16 << 20;
/// The most members that an archive may have.
const MAX_MEMBERS: usize = 1 << 20;

/// What bytes are read from.
trait Source: Read + Seek {}
impl<T: Read + Seek> Source for T {}

/// An open archive.
pub(super) struct Archive {
    zip: ZipArchive<Box<dyn Source>>,
    /// How the archive is called in messages.
    origin: String,
    /// The folder in which everything lies, with a slash.
    root: String,
    /// How many bytes may still be read.
    budget: u64,
}

impl Archive {
    pub(super) fn open(path: &Path) -> Result<Archive> {
        let io = |error: std::io::Error| err!(Io, "cannot open {}: {error}", path.display());
        // Opening a pipe would wait for its writer.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            bail!(Io, "{} is not a file", path.display());
        }
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        Archive::new(Box::new(BufReader::new(file)), length, path.display().to_string())
    }

    pub(super) fn from_bytes(bytes: Vec<u8>) -> Result<Archive> {
        let length = bytes.len() as u64;
        Archive::new(Box::new(std::io::Cursor::new(bytes)), length, "the given bytes".to_owned())
    }

    fn new(source: Box<dyn Source>, length: u64, origin: String) -> Result<Archive> {
        // The sample inputs are an archive within the archive: its directory is not to be taken for ours.
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let zip = ZipArchive::with_config(config, source).map_err(|error| {
            err!(Load, "{origin} is not a valid zip archive: {error}")
                .help("the file may be truncated; export it again with `torch.export.save`")
        })?;
        if zip.len() > MAX_MEMBERS {
            bail!(Limit, "{origin} has {} members, expected at most {MAX_MEMBERS}", zip.len());
        }
        let budget = length.saturating_mul(RATIO).max(SMALL);
        let mut archive = Archive { zip, origin, root: String::new(), budget };
        archive.check_names()?;
        archive.check_version()?;
        Ok(archive)
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Checks that names are relative paths that stay inside, and finds the folder around everything.
    fn check_names(&mut self) -> Result<()> {
        let mut root: Option<String> = None;
        let mut n = 0;
        for name in self.zip.file_names() {
            let name =
                name.map_err(|error| err!(Load, "{}: a member has no valid name: {error}", self.origin))?;
            let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
            let path = name.strip_suffix('/').unwrap_or(&name);
            if name.contains(['\\', '\0', ':']) || !path.split('/').all(is_plain) {
                return Err(err!(
                    Load,
                    "{}: the member {:?} has no plain relative path",
                    self.origin,
                    &*name
                )
                .help("export the program again; this archive was not written by PyTorch"));
            }
            n += 1;
            let first = path.split('/').next().unwrap_or_default();
            match &root {
                None => root = Some(first.to_owned()),
                Some(root) if root == first => {}
                Some(_) => root = Some(String::new()),
            }
        }
        if n != self.zip.len() {
            bail!(Load, "{}: two members have the same name", self.origin);
        }
        self.root = match root {
            Some(root) if !root.is_empty() => format!("{root}/"),
            _ => String::new(),
        };
        Ok(())
    }

    fn check_version(&mut self) -> Result<()> {
        let old = |name: &str| self.zip.index_for_name(name).is_some();
        if old("serialized_exported_program.json") || old("version") && !old("archive_format") {
            return Err(err!(Load, "{} has the format of PyTorch before 2.7", self.origin)
                .help("load it with the PyTorch that wrote it, and save it with a newer one"));
        }
        let format = self.text("archive_format")?;
        if format != "pt2" {
            bail!(Load, "{}: expected the archive format \"pt2\", got {format:?}", self.origin);
        }
        let version = self.text("archive_version")?;
        if !matches!(&*version, "0" | "1") {
            return Err(err!(Load, "{}: expected archive version 0 or 1, got {version:?}", self.origin)
                .help("export the program with PyTorch 2.15, or use a newer fx"));
        }
        if self.contains("byteorder") {
            let order = self.text("byteorder")?;
            if order != "little" {
                bail!(Load, "{}: expected the byte order \"little\", got {order:?}", self.origin);
            }
        }
        Ok(())
    }

    /// Returns the names of the programs: `NAME` of each `models/NAME.json`.
    pub(super) fn models(&self) -> Vec<String> {
        let prefix = format!("{}models/", self.root);
        let mut names: Vec<String> = self
            .zip
            .file_names()
            .filter_map(|name| {
                let name = name.ok()?;
                let stem = name.strip_prefix(&prefix)?.strip_suffix(".json")?;
                (!stem.contains('/')).then(|| stem.to_owned())
            })
            .collect();
        names.sort_unstable();
        names
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.zip.index_for_name(&format!("{}{name}", self.root)).is_some()
    }

    fn text(&mut self, name: &str) -> Result<String> {
        let bytes = self.read(name)?;
        let text = String::from_utf8(bytes).map_err(|_| err!(Load, "{}: {name} is not text", self.origin))?;
        Ok(text.trim().to_owned())
    }

    /// Reads a member as JSON.
    pub(super) fn json<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        let bytes = self.read(name)?;
        self.parse(name, &bytes)
    }

    /// Reads JSON that came from a member.
    pub(super) fn parse<T: DeserializeOwned>(&self, name: &str, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|error| {
            err!(Parse, "{}: {name}: {error}", self.origin).help(
                "expected the schema of `torch._export.serde.schema`, version 8; export the program again",
            )
        })
    }

    /// Reads a member below the archive's folder.
    pub(super) fn read(&mut self, name: &str) -> Result<Vec<u8>> {
        let mut member = self.member(name)?;
        let mut bytes = Vec::new();
        // Room for the claimed size may be missing, which must not abort the process.
        bytes.try_reserve_exact(member.size).map_err(|_| member.too_large())?;
        let read = member.file.by_ref().take(member.size as u64).read_to_end(&mut bytes);
        let n = read.map_err(|error| member.damaged(&error))?;
        if n != member.size {
            return Err(member.damaged(&format!("expected {} bytes, got {n}", member.size)));
        }
        member.finish()?;
        Ok(bytes)
    }

    /// Reads a member as elements that lie one after the other.
    pub(super) fn elements(&mut self, name: &str, dtype: DType) -> Result<Array> {
        let mut member = self.member(name)?;
        if !member.size.is_multiple_of(dtype.size()) {
            bail!(
                Load,
                "{}: {name:?} has {} bytes, which are no whole number of {dtype}",
                member.origin,
                member.size
            );
        }
        let array = Array::from_le_reader(dtype, &[member.size / dtype.size()], &mut member.file);
        let array = array.map_err(|error| match error.kind() {
            ErrorKind::Limit => member.too_large(),
            _ => member.damaged(&error.message()),
        })?;
        member.finish()?;
        Ok(array)
    }

    /// Opens a member, whose size is taken from what may still be read.
    fn member(&mut self, name: &str) -> Result<Member<'_>> {
        let full = format!("{}{name}", self.root);
        let origin = &*self.origin;
        let index = self.zip.index_for_name(&full).ok_or_else(|| {
            err!(Load, "{origin} has no member {full:?}")
                .help("the archive is incomplete; export it again with `torch.export.save`")
        })?;
        let file = self.zip.by_index(index).map_err(|error| damaged(origin, &full, &error))?;
        let (size, packed) = (file.size(), file.compressed_size());
        let may_hold = match file.compression() {
            CompressionMethod::Stored => packed,
            CompressionMethod::Deflated => packed.saturating_mul(RATIO).max(SMALL),
            other => {
                bail!(Load, "{origin}: {full:?} is compressed with {other:?}, expected stored or deflated")
            }
        };
        if size > may_hold || size > self.budget {
            return Err(err!(
                Limit,
                "{origin}: {full:?} claims {size} bytes, more than the file can rightly hold"
            )
            .help("an archive of PyTorch stores its members uncompressed"));
        }
        self.budget -= size;
        Ok(Member { file: Box::new(file), size: size as usize, origin, name: full })
    }
}

/// A member that is being read.
struct Member<'a> {
    file: Box<dyn Read + 'a>,
    size: usize,
    origin: &'a str,
    name: String,
}

impl Member<'_> {
    /// Checks that nothing follows, with which the checksum is compared.
    fn finish(mut self) -> Result<()> {
        match self.file.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.damaged(&format!("expected {} bytes, got more", self.size))),
            Err(error) => Err(self.damaged(&error)),
        }
    }

    fn damaged(&self, why: &dyn std::fmt::Display) -> Error {
        damaged(self.origin, &self.name, why)
    }

    fn too_large(&self) -> Error {
        err!(Limit, "{}: there is no memory for the {} bytes of {:?}", self.origin, self.size, self.name)
    }
}

fn damaged(origin: &str, name: &str, why: &dyn std::fmt::Display) -> Error {
    err!(Load, "{origin}: cannot read {name:?}: {why}").help("the file is damaged; copy or export it again")
}
