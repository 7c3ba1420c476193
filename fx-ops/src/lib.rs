//! The vocabulary of fx: op rows, kernels, neural-network modules, weights.
//!
//! One file a family; each has its tables of rows first, then the shape rules and kernels that the rows name.

// Derives of this crate name `::fx`, as those of users do.
extern crate fx_core as fx;

pub mod activation;
pub mod arrange;
pub mod attention;
mod check;
pub mod close;
pub mod columns;
mod compose;
pub mod conv;
pub mod count;
pub mod create;
pub mod decompose;
pub mod distance;
pub mod einsum;
pub mod fft;
pub mod indices;
mod infer;
pub mod join;
pub mod kernel;
pub mod linalg;
pub mod lookup;
pub mod loss;
pub mod masked;
pub mod nn;
pub mod norm;
pub mod norms;
pub mod pad;
pub mod patch;
pub mod pointwise;
pub mod pool;
pub mod products;
pub mod put;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod resize;
pub mod sample;
pub mod scatter;
pub mod search;
pub mod shuffle;
pub mod strided;
#[cfg(test)]
mod testing;
pub mod unique;
pub mod view;
pub mod weights;
pub mod window;

use fx_core::{Op, Registry};

/// Every table of this crate, in the order of the files.
pub fn tables() -> impl Iterator<Item = &'static [Op]> {
    [
        pointwise::TABLES,
        reduce::TABLES,
        view::TABLES,
        create::TABLES,
        join::TABLES,
        random::TABLES,
        linalg::TABLES,
        conv::TABLES,
        pool::TABLES,
        pad::TABLES,
        norm::TABLES,
        lookup::TABLES,
        loss::TABLES,
        shuffle::TABLES,
        einsum::TABLES,
        products::TABLES,
        decompose::TABLES,
        norms::TABLES,
        distance::TABLES,
        window::TABLES,
        activation::TABLES,
        fft::TABLES,
        resize::TABLES,
        sample::TABLES,
        columns::TABLES,
        attention::TABLES,
        recurrent::TABLES,
        arrange::TABLES,
        close::TABLES,
        count::TABLES,
        indices::TABLES,
        masked::TABLES,
        patch::TABLES,
        put::TABLES,
        scatter::TABLES,
        search::TABLES,
        strided::TABLES,
        unique::TABLES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Returns the registry of all built-in operations.
pub fn registry() -> Registry {
    let mut registry = Registry::core();
    for table in tables() {
        registry.add(table).expect("built-in names are distinct; a test checks it");
    }
    registry
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_distinct() {
        assert!(super::registry().iter().count() > 30);
    }
}
