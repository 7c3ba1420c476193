//! Loads a library that [`Native`](super::Native) has built: the only place that trusts one.

use std::path::Path;

use fx_core::native::{ABI, Function};
use fx_core::{Result, err};

/// The head of the table that a library has under the name [`TABLE`].
#[repr(C)]
struct Table {
    abi: u32,
    len: u32,
}

/// The name of the table of functions.
pub(super) const TABLE: &str = "FX_NATIVE";

/// Loads a library for the rest of the process and returns its functions.
///
/// The library must be one that was compiled of the text that asks for as many functions.
pub(super) fn load(path: &Path, n: usize) -> Result<Vec<Function>> {
    let refused = |what: &dyn std::fmt::Display| err!(Load, "cannot load {}: {what}", path.display());
    // SAFETY: the library was built by this user's fx from text that fx wrote, and is complete, as its
    // checksum says. It has no code that runs when it is loaded, apart from that of the standard library.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| refused(&error))?;
    // SAFETY: the symbol is a table, of which only the address is taken here.
    let table = unsafe { library.get::<*const Table>(TABLE) }.map_err(|error| refused(&error))?;
    let table: *const Table = *table;
    // SAFETY: the symbol is the address of a static that begins as `Table` does, in every version.
    let Table { abi, len } = unsafe { table.read() };
    if (abi, len as usize) != (ABI, n) {
        return Err(refused(&format_args!("it has {len} functions of version {abi}, expected {n} of {ABI}")));
    }
    // SAFETY: after the head, which is as large as its alignment asks, the static has `len` functions of this
    // type.
    let functions = unsafe { std::slice::from_raw_parts(table.add(1).cast::<Function>(), n) }.to_vec();
    // Programs keep addresses of functions, so that the library stays.
    std::mem::forget(library);
    Ok(functions)
}

/// Returns the number of the user whose files this process may trust.
#[cfg(unix)]
pub(super) fn user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}
