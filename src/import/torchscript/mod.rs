//! TorchScript programs: `fx_script` reads what the members of an archive hold, [`ZipFile`] gives the members.
//! [`TorchScript`] turns a program into a graph module (`lower`), `methods` does so with
//! several methods and keeps the hierarchy of modules.

mod builder;
mod lower;
mod methods;

use std::borrow::Cow;
use std::path::Path;

use fx_script::archive::{Archive, Members};
use fx_script::load::Program;

pub use self::builder::{Lowered, LoweringReport, Obstacle, TorchScript};
use crate::Result;
use crate::zip_file::ZipFile;

/// How to write an archive again, for messages.
const AGAIN: &str = "`torch.jit.save`";

impl Members for ZipFile {
    fn origin(&self) -> &str {
        ZipFile::origin(self)
    }

    fn names(&self) -> Vec<String> {
        ZipFile::names(self).to_vec()
    }

    fn read(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        ZipFile::read(self, name)
    }
}

/// Reads a program that `torch.jit.save` wrote: its classes and functions, and the tree of its objects.
///
/// The file is mapped into memory and must not be changed while it is read. Tensors that share a storage do
/// so in the program. Fails if the archive is damaged, the code does not parse, or an attribute is not of its
/// declared type; the error names the member, and the attribute or the line. Nothing of the program runs.
///
/// ```no_run
/// let program = fx::import::torchscript("model.pt")?;
/// println!("{program}");
/// # Ok::<(), fx::Error>(())
/// ```
pub fn torchscript(path: impl AsRef<Path>) -> Result<Program> {
    Program::load(&torchscript_archive(path)?)
}

/// Reads a program that is in memory, as [`torchscript`] does. Fails as that does.
pub fn torchscript_from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Program> {
    Program::load(&torchscript_archive_from_bytes(bytes)?)
}

/// Opens an archive that `torch.jit.save` wrote: its members, without reading the program in them.
///
/// The file is mapped into memory and must not be changed while it is in use. Fails if the file cannot be
/// read, or is no such archive.
pub fn torchscript_archive(path: impl AsRef<Path>) -> Result<Archive> {
    Archive::open(ZipFile::open(path.as_ref(), AGAIN)?)
}

/// Opens an archive that is in memory, as [`torchscript_archive`] does. Fails as that does.
pub fn torchscript_archive_from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Archive> {
    Archive::open(ZipFile::from_bytes(bytes.into(), AGAIN)?)
}
