//! Programs in build scripts: the code of a model is written when the crate that uses it is built.
//!
//! `build.rs` of that crate:
//!
//! ```no_run
//! fx::build::emit("model.pt2")?;
//! # Ok::<(), fx::Error>(())
//! ```
//!
//! and in its code, in a module of its own:
//!
//! ```text
//! mod model {
//!     include!(concat!(env!("OUT_DIR"), "/model.rs"));
//! }
//! ```
//!
//! Then there are `model::Model`, `model::Tensor` and `model::Error`, as in a crate that
//! [`to_crate`](crate::ToCrate::to_crate) writes, and the weights in `OUT_DIR/model.safetensors`, or in the
//! code if they are baked. `examples/build_script` is a project that does this.

use std::path::{Path, PathBuf};

use crate::{CrateOptions, Result, ToCrate, err, program};

/// Writes the code of a program for `include!`: `NAME.rs` and `NAME.safetensors` in `OUT_DIR`, named as the
/// file is.
///
/// Fails outside of a build script, when the program cannot be read, and as [`to_crate`](ToCrate::to_crate).
pub fn emit(program: impl AsRef<Path>) -> Result<()> {
    emit_with(program, &CrateOptions::new())
}

/// As [`emit`], with options. Baked weights are in `weights.bin`, which the code includes.
///
/// Fails as [`emit`].
#[allow(clippy::print_stdout, reason = "build scripts speak to cargo by their output")]
pub fn emit_with(program: impl AsRef<Path>, options: &CrateOptions) -> Result<()> {
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let out =
        out.ok_or_else(|| err!(Argument, "there is no OUT_DIR").help("call `emit` in a build script"))?;
    println!("cargo::rerun-if-changed={}", program.as_ref().display());
    emit_to(program, options, out)
}

/// As [`emit_with`], to a folder that you name.
///
/// Fails as [`emit`].
pub fn emit_to(program: impl AsRef<Path>, options: &CrateOptions, dir: impl AsRef<Path>) -> Result<()> {
    let (program, dir) = (program.as_ref(), dir.as_ref());
    let package = program::open(program, None)?.to_package(options)?;
    let stem = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let write = |name: String, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).map_err(|error| err!(Io, "cannot write {}: {error}", path.display()))
    };
    write(format!("{stem}.rs"), package.single_file().as_bytes())?;
    for (path, bytes) in package.files() {
        match path {
            "model.safetensors" => write(format!("{stem}.safetensors"), bytes)?,
            "src/weights.bin" => write("weights.bin".to_owned(), bytes)?,
            _ => {}
        }
    }
    Ok(())
}
