//! Rewrite rules: identities that keep every bit ([`ALGEBRA`]), operations recognised from their parts
//! ([`FUSION`]), and operations that are finite where their parts are not ([`STABLE`]).
//!
//! A rule is a row: pattern and replacement are closures on tensors, so they follow the operations. All are
//! applied only where types are known and stay the same, which is why no row says that nothing is broadcast
//! or promoted.

mod algebra;
mod fusion;
mod stable;

pub use algebra::ALGEBRA;
pub use fusion::FUSION;
use fx_core::rewrite::RuleDef;
pub use stable::STABLE;

/// Every table, with what unites its rules.
pub static TABLES: &[(&str, &[RuleDef])] =
    &[("Identities", ALGEBRA), ("Recognition", FUSION), ("Stability", STABLE)];

/// Returns every rule of this crate.
pub fn all() -> impl Iterator<Item = &'static RuleDef> {
    TABLES.iter().flat_map(|(_, table)| table.iter())
}

/// Returns the rule called `name`. Fails if there is none; the error names similar ones.
pub fn find(name: &str) -> fx_core::Result<&'static RuleDef> {
    all().find(|rule| rule.name == name).ok_or_else(|| {
        fx_core::err!(Unresolved, "there is no rule {name:?}")
            .help(format!("the rules are {}", all().map(|rule| rule.name).collect::<Vec<_>>().join(", ")))
    })
}
