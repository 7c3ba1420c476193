//! Writes zip files: members are stored, and begin at multiples of 64 bytes, so that readers can map them.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::{Error, Result, bail, err};

/// The bytes to whose multiples members are aligned.
const ALIGNMENT: u16 = 64;
/// The size from which a member needs the wide fields of zip64; those cost a few bytes.
const LARGE: usize = u32::MAX as usize;

/// Writes members to a file in their order. The file appears as a whole or not at all, and the same members
/// give the same bytes.
pub(crate) fn write<'a>(
    path: &Path,
    members: impl IntoIterator<Item = (String, Cow<'a, [u8]>)>,
) -> Result<()> {
    let io = |error: std::io::Error| err!(Io, "cannot write {}: {error}", path.display());
    let temporary = temporary(path)?;
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(io)?;
    let written = pack(BufWriter::new(file), members)
        .map_err(|error| err!(Io, "cannot write {}: {error}", path.display()))
        .and_then(|file: BufWriter<File>| {
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

fn pack<'a, W: Write + Seek>(
    to: W,
    members: impl IntoIterator<Item = (String, Cow<'a, [u8]>)>,
) -> zip::result::ZipResult<W> {
    let mut zip = ZipWriter::new(to);
    for (name, bytes) in members {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            // The time of writing would differ each time.
            .last_modified_time(DateTime::default())
            .unix_permissions(0o644)
            .large_file(bytes.len() >= LARGE)
            .with_alignment(ALIGNMENT);
        zip.start_file(name, options)?;
        zip.write_all(&bytes)?;
    }
    zip.finish()
}

/// Returns the name of a file beside `path` that nobody else uses.
fn temporary(path: &Path) -> Result<PathBuf, Error> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name() else { bail!(Io, "{} is not the name of a file", path.display()) };
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    Ok(path.with_file_name(temporary))
}
