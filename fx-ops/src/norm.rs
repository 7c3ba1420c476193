//! (in construction)

use fx_core::Op;

/// The tables of this file.
pub static TABLES: &[&[Op]] = &[];
