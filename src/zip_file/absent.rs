//! Stands in for `zip_file` in a build without the feature `import`: no archive can be opened.

use std::borrow::Cow;
use std::path::Path;

use crate::{Error, Result, err};

/// A zip file, of which there is none.
pub(crate) enum ZipFile {}

fn absent(origin: &str) -> Error {
    err!(Unresolved, "cannot read {origin}: this build of fx does not read archives")
        .help("enable the feature `import` of tensor-fx")
}

impl ZipFile {
    pub(crate) fn open(path: &Path, _: &'static str) -> Result<ZipFile> {
        Err(absent(&path.display().to_string()))
    }

    pub(crate) fn from_bytes(_: Vec<u8>, _: &'static str) -> Result<ZipFile> {
        Err(absent("the given bytes"))
    }

    pub(crate) fn origin(&self) -> &str {
        match *self {}
    }

    pub(crate) fn names(&self) -> &[String] {
        match *self {}
    }

    pub(crate) fn contains(&self, _: &str) -> bool {
        match *self {}
    }

    pub(crate) fn read(&self, _: &str) -> Result<Cow<'_, [u8]>> {
        match *self {}
    }
}

/// Writes nothing, since this build cannot.
pub(crate) fn write<'a>(path: &Path, _: impl IntoIterator<Item = (String, Cow<'a, [u8]>)>) -> Result<()> {
    Err(err!(Unresolved, "cannot write {}: this build of fx does not write archives", path.display())
        .help("enable the feature `import` of tensor-fx"))
}
