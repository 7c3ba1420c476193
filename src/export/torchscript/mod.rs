//! Graph modules as TorchScript archives, which `torch.jit.load` reads in Python and C++.
//!
//! `hierarchy` makes a tree of module objects of dotted paths, with a class for each; `function` writes a
//! graph as the body of a method, `value` its arguments; the table in `rows` names the operator for each row
//! whose name is not the operator's, `compose` has operations of several operators. `names` keeps names apart
//! from words of the language.

mod compose;
mod function;
mod hierarchy;
mod names;
mod rows;
mod value;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use fx_script::archive::Draft;

use crate::{GraphModule, Result, zip_file};

/// Writes a graph module as a TorchScript archive.
pub trait ToTorchScript {
    /// Writes the module to a file that `torch.jit.load` reads.
    ///
    /// The paths of parameters and buffers are those of the state dict there, tied weights stay tied, and
    /// control flow becomes `if` and `while`. Messages of PyTorch name the place where the user wrote a node. The
    /// same module gives the same bytes. Fails if an operation has
    /// no operator in PyTorch, with its name and node, or if the file cannot be written.
    ///
    /// ```no_run
    /// use fx::export::ToTorchScript as _;
    ///
    /// let gm = fx::import::pt2("model.pt2")?;
    /// gm.to_torchscript("model.pt")?;
    /// # Ok::<(), fx::Error>(())
    /// ```
    fn to_torchscript(&self, path: impl AsRef<Path>) -> Result<()>;
}

impl ToTorchScript for GraphModule {
    fn to_torchscript(&self, path: impl AsRef<Path>) -> Result<()> {
        TorchScript::new(self).write(path)
    }
}

/// How to write a module as a TorchScript archive; see [`ToTorchScript`].
#[derive(Debug)]
#[must_use = "call `write` to write the archive"]
pub struct TorchScript<'a> {
    module: &'a GraphModule,
    extra: BTreeMap<String, Vec<u8>>,
}

impl<'a> TorchScript<'a> {
    /// Writes this module.
    pub fn new(module: &'a GraphModule) -> TorchScript<'a> {
        TorchScript { module, extra: BTreeMap::new() }
    }

    /// Adds a file, which `torch.jit.load` gives for its `_extra_files`.
    pub fn extra(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> TorchScript<'a> {
        self.extra.insert(name.into(), bytes.into());
        self
    }

    /// Returns the code of the classes, the top module last. Fails if an operation has no operator in PyTorch.
    pub fn code(&self) -> Result<String> {
        hierarchy::program(self.module).map(|program| program.code)
    }

    /// Writes the file, as a whole or not at all. Fails as [`ToTorchScript::to_torchscript`] does.
    pub fn write(self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let program = hierarchy::program(self.module)?;
        let code = BTreeMap::from([(hierarchy::FILE.to_owned(), program.code)]);
        let debug = BTreeMap::from([(hierarchy::FILE.to_owned(), program.debug)]);
        let draft = Draft { root: program.root, code, debug, version: program.version, extra: self.extra };
        // The folder has a fixed name, so that the bytes do not depend on that of the file.
        let members = draft.members("archive")?;
        zip_file::write(path, members.into_iter().map(|(name, bytes)| (name, Cow::from(bytes))))
    }
}
