//! Stand-alone crates: a graph module as Rust that needs neither fx nor any other crate.
//!
//! `lower` makes steps of the graph (`step`): windows on values (`value`), loops of pointwise operations, and
//! calls of `kernels` by the `table` of operations. `memory` gives buffers their places, `render` writes
//! steps as text, `package` the files of the crate. `kernels` and `runtime` are modules that are compiled and
//! tested here, and whose text is written into crates.
//!
//! Invariant: no text of a graph reaches code, but as an identifier made by [`names`](crate::readable), as a
//! comment, or as an escaped literal.

mod gufunc;
mod kernels;
mod layout;
mod lower;
mod memory;
mod package;
mod render;
mod rowwise;
mod runtime;
mod safetensors;
mod step;
mod table;
mod value;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use fx_core::{GraphModule, Op, Result, Tensor, err};

/// How a crate is written.
#[derive(Clone, Default)]
pub struct Options {
    name: Option<String>,
    baked: bool,
    operations: HashMap<Op, String>,
    recorded: Vec<(Vec<Tensor>, Vec<Tensor>)>,
}

impl Options {
    /// Makes the options that are used if nothing is said: the name of the graph module, weights in a file.
    pub fn new() -> Options {
        Options::default()
    }

    /// Names the crate. A name that cargo does not take, or that code cannot import, is an error when the crate
    /// is written.
    pub fn name(mut self, name: &str) -> Options {
        self.name = Some(name.to_owned());
        self
    }

    /// Names the crate after a text, such as the name of a file. What a name cannot have is replaced.
    pub fn named_after(self, text: &str) -> Options {
        let name = package::name_of(text);
        self.name(&name)
    }

    /// Puts the weights into the code. The crate then needs no standard library and allocates nothing; sizes
    /// must be known.
    pub fn baked(mut self) -> Options {
        self.baked = true;
        self
    }

    /// Writes an operation as a call of a function, such as `crate::own::swish`, that you add to the crate.
    ///
    /// It gets the arguments in schema order, a tensor as its elements and sizes, `(&[f32], [usize; N])`, and
    /// then a slice for each result, `&mut [f32]`.
    pub fn operation(mut self, op: Op, function: &str) -> Options {
        self.operations.insert(op, function.to_owned());
        self
    }

    /// Adds inputs and the outputs that the test of the crate expects for them.
    pub fn recorded(mut self, inputs: Vec<Tensor>, outputs: Vec<Tensor>) -> Options {
        self.recorded.push((inputs, outputs));
        self
    }

    /// Returns whether an operation is written as a call of a function.
    pub fn writes(&self, op: Op) -> bool {
        self.operations.contains_key(&op)
    }

    fn custom(&self, op: Op) -> Option<String> {
        self.operations.get(&op).cloned()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("baked", &self.baked)
            .field("operations", &self.operations)
            .field("recorded", &self.recorded.len())
            .finish()
    }
}

/// A crate as files.
#[derive(Clone, Debug)]
pub struct Package {
    name: String,
    files: BTreeMap<String, Vec<u8>>,
    /// The modules in the order of `lib.rs`, with the paths of their files.
    modules: Vec<(String, String)>,
}

impl Package {
    /// Returns the name of the crate.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the files by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// Writes the files to a folder, which is made if there is none.
    ///
    /// Fails when a file cannot be written, or the folder has a `Cargo.toml` that fx has not written.
    pub fn write(&self, dir: impl AsRef<Path>) -> Result<()> {
        let dir = dir.as_ref();
        let manifest = dir.join("Cargo.toml");
        if let Ok(text) = std::fs::read_to_string(&manifest)
            && !text.starts_with(package::MARK)
        {
            return Err(
                err!(Io, "{} was not written by fx", manifest.display()).help("choose another folder")
            );
        }
        for (path, bytes) in &self.files {
            let path = dir.join(path);
            let parent = path.parent().unwrap_or(dir);
            let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, bytes));
            written.map_err(|error| err!(Io, "cannot write {}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Returns the code as one file for `include!`: a module for each file of the crate, and what the crate
    /// exports.
    pub fn single_file(&self) -> String {
        package::single_file(self)
    }
}

/// Writes a graph module as a crate. It must not call modules, and its nodes must have types: `to_crate` of
/// the façade sees to both.
///
/// Fails when the options name the crate as no crate can be named, or when there are operations without
/// stand-alone code: all are named, with their lines in the program.
pub fn generate(gm: &GraphModule, options: &Options) -> Result<Package> {
    package::generate(gm, options)
}

/// Checks that a graph module can be written.
///
/// Fails as [`generate`].
pub fn check(gm: &GraphModule, options: &Options) -> Result<()> {
    package::check(gm, options)
}

/// Returns the names of the operations that have stand-alone code besides pointwise operations, row-wise ones and
/// views, sorted.
pub fn operations() -> Vec<&'static str> {
    table::names()
}
