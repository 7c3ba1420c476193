//! Stands in for `archive` in a build without the feature `import`: no archive can be opened.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::{Array, DType, Error, Result, err};

/// An archive, of which there is none.
pub(super) enum Archive {}

fn absent(origin: &str) -> Error {
    err!(Unresolved, "cannot read {origin}: this build of fx does not import programs of PyTorch")
        .help("enable the feature `import` of tensor-fx")
}

impl Archive {
    pub(super) fn open(path: &Path) -> Result<Archive> {
        Err(absent(&path.display().to_string()))
    }

    pub(super) fn from_bytes(_: Vec<u8>) -> Result<Archive> {
        Err(absent("the given bytes"))
    }

    pub(super) fn origin(&self) -> &str {
        match *self {}
    }

    pub(super) fn models(&self) -> Vec<String> {
        match *self {}
    }

    pub(super) fn contains(&self, _: &str) -> bool {
        match *self {}
    }

    pub(super) fn json<T: DeserializeOwned>(&mut self, _: &str) -> Result<T> {
        match *self {}
    }

    pub(super) fn parse<T: DeserializeOwned>(&self, _: &str, _: &[u8]) -> Result<T> {
        match *self {}
    }

    pub(super) fn read(&mut self, _: &str) -> Result<Vec<u8>> {
        match *self {}
    }

    pub(super) fn elements(&mut self, _: &str, _: DType) -> Result<Array> {
        match *self {}
    }
}
