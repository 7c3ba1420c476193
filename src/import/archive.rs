//! The archive of an exported program: its members by name, below one folder.

use std::borrow::Cow;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::zip_file::ZipFile;
use crate::{Array, DType, Result, bail, err};

/// How to write an archive again, for messages.
const AGAIN: &str = "`torch.export.save`";

/// An open archive.
pub(super) struct Archive {
    zip: ZipFile,
    /// The folder in which everything lies, with a slash.
    root: String,
}

impl Archive {
    pub(super) fn open(path: &Path) -> Result<Archive> {
        Archive::new(ZipFile::open(path, AGAIN)?)
    }

    pub(super) fn from_bytes(bytes: Vec<u8>) -> Result<Archive> {
        Archive::new(ZipFile::from_bytes(bytes, AGAIN)?)
    }

    fn new(zip: ZipFile) -> Result<Archive> {
        let root = root(zip.names());
        let archive = Archive { zip, root };
        archive.check_version()?;
        Ok(archive)
    }

    pub(super) fn origin(&self) -> &str {
        self.zip.origin()
    }

    fn check_version(&self) -> Result<()> {
        let origin = self.origin();
        let is_script = self.contains("data.pkl") && self.contains("constants.pkl");
        if is_script && !self.contains("archive_format") {
            return Err(err!(Load, "{origin} is a TorchScript program, not an exported one")
                .help("read it with `fx::import::torchscript`, or print it with `fx dump`"));
        }
        let old = |name: &str| self.zip.contains(name);
        if old("serialized_exported_program.json") || old("version") && !old("archive_format") {
            return Err(err!(Load, "{origin} has the format of PyTorch before 2.7")
                .help("load it with the PyTorch that wrote it, and save it with a newer one"));
        }
        let format = self.text("archive_format")?;
        if format != "pt2" {
            bail!(Load, "{origin}: expected the archive format \"pt2\", got {format:?}");
        }
        let version = self.text("archive_version")?;
        if !matches!(&*version, "0" | "1") {
            return Err(err!(Load, "{origin}: expected archive version 0 or 1, got {version:?}")
                .help("export the program with PyTorch 2.15, or use a newer fx"));
        }
        if self.contains("byteorder") {
            let order = self.text("byteorder")?;
            if order != "little" {
                bail!(Load, "{origin}: expected the byte order \"little\", got {order:?}");
            }
        }
        Ok(())
    }

    /// Returns the names of the programs: `NAME` of each `models/NAME.json`.
    pub(super) fn models(&self) -> Vec<String> {
        let prefix = format!("{}models/", self.root);
        let stem = |name: &String| {
            let stem = name.strip_prefix(&prefix)?.strip_suffix(".json")?;
            (!stem.contains('/')).then(|| stem.to_owned())
        };
        let mut names: Vec<String> = self.zip.names().iter().filter_map(stem).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.zip.contains(&format!("{}{name}", self.root))
    }

    fn text(&self, name: &str) -> Result<String> {
        let bytes = self.read(name)?;
        let text = std::str::from_utf8(&bytes);
        let text = text.map_err(|_| err!(Load, "{}: {name} is not text", self.origin()))?;
        Ok(text.trim().to_owned())
    }

    /// Reads a member as JSON.
    pub(super) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let bytes = self.read(name)?;
        self.parse(name, &bytes)
    }

    /// Reads JSON that came from a member.
    pub(super) fn parse<T: DeserializeOwned>(&self, name: &str, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|error| {
            err!(Parse, "{}: {name}: {error}", self.origin()).help(
                "expected the schema of `torch._export.serde.schema`, version 8; export the program again",
            )
        })
    }

    /// Reads a member below the archive's folder.
    pub(super) fn read(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        self.zip.read(&format!("{}{name}", self.root))
    }

    /// Reads a member as elements that lie one after the other.
    pub(super) fn elements(&self, name: &str, dtype: DType) -> Result<Array> {
        let bytes = self.read(name)?;
        if !bytes.len().is_multiple_of(dtype.size()) {
            bail!(
                Load,
                "{}: {name:?} has {} bytes, which are no whole number of {dtype}",
                self.origin(),
                bytes.len()
            );
        }
        Array::from_le_bytes(dtype, &[bytes.len() / dtype.size()], &bytes).map_err(|error| {
            err!(Load, "{}: cannot read {name:?}: {}", self.origin(), error.message())
                .help("the file is damaged; copy or export it again")
        })
    }
}

/// Returns the folder around all members with a slash, or nothing if there is none.
fn root(names: &[String]) -> String {
    let first = |name: &String| name.trim_end_matches('/').split('/').next().unwrap_or_default().to_owned();
    let mut roots = names.iter().map(first);
    match roots.next() {
        Some(root) if roots.all(|other| other == root) => format!("{root}/"),
        _ => String::new(),
    }
}
