//! Writes safetensors files. The same tensors give the same bytes, in whatever order they are given.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fx_core::{Array, Error, Result, Tensor, bail, err};
use serde_json::json;

/// Writes named tensors and metadata to a safetensors file.
///
/// The file appears as a whole or not at all: it is written beside its place and then renamed. Fails if a
/// name is empty or repeated, a tensor has no value, or the file cannot be written.
pub fn save<N: AsRef<str>>(
    path: impl AsRef<Path>,
    tensors: &[(N, Tensor)],
    metadata: &[(&str, &str)],
) -> Result<()> {
    let path = path.as_ref();
    let mut arrays = BTreeMap::new();
    for (name, tensor) in tensors {
        let name = name.as_ref();
        if name == "__metadata__" {
            bail!(Argument, "no tensor can be called {name:?}: the file format needs the name");
        }
        let array = tensor
            .array()
            .map_err(|error| Error::new(error.kind(), format!("{name:?}: {}", error.message())))?;
        if arrays.insert(name, array).is_some() {
            bail!(Argument, "there are two tensors called {name:?}");
        }
    }
    // The widest elements first, so that all are aligned.
    let mut arrays: Vec<(&str, &Array)> = arrays.into_iter().collect();
    arrays.sort_by_key(|(_, array)| std::cmp::Reverse(array.dtype().size()));
    let header = header(&arrays, metadata)?;
    write_whole(path, |file| {
        let io = |error: std::io::Error| err!(Io, "cannot write {}: {error}", path.display());
        file.write_all(&(header.len() as u64).to_le_bytes()).map_err(io)?;
        file.write_all(header.as_bytes()).map_err(io)?;
        for (_, array) in &arrays {
            file.write_all(&array.to_le_bytes()?).map_err(io)?;
        }
        Ok(())
    })
}

fn header(arrays: &[(&str, &Array)], metadata: &[(&str, &str)]) -> Result<String> {
    let mut parts = Vec::with_capacity(arrays.len() + 1);
    if !metadata.is_empty() {
        let sorted: BTreeMap<&str, &str> = metadata.iter().copied().collect();
        if sorted.len() != metadata.len() {
            bail!(Argument, "a key of the metadata is given twice");
        }
        parts.push(format!("\"__metadata__\":{}", json!(sorted)));
    }
    let mut at = 0;
    for (name, array) in arrays {
        let end = at + array.nbytes();
        let dtype = array.dtype().safetensors_name();
        let (name, shape) = (json!(name), json!(array.shape()));
        parts.push(format!(
            "{name}:{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{at},{end}]}}"
        ));
        at = end;
    }
    let mut header = format!("{{{}}}", parts.join(","));
    let padded = header.len().next_multiple_of(8);
    header.extend(std::iter::repeat_n(' ', padded - header.len()));
    Ok(header)
}

/// Writes a file beside `path` and renames it; if that fails, nothing is left behind.
fn write_whole(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let io = |error: std::io::Error| err!(Io, "cannot write {}: {error}", path.display());
    let temporary = temporary(path)?;
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(io)?;
    let mut file = BufWriter::new(file);
    let written = write(&mut file).and_then(|()| {
        let file = file.into_inner().map_err(|error| io(error.into_error()))?;
        file.sync_all().map_err(io)?;
        std::fs::rename(&temporary, path).map_err(io)
    });
    if written.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn temporary(path: &Path) -> Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name() else { bail!(Io, "{} is not the name of a file", path.display()) };
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    Ok(path.with_file_name(temporary))
}
