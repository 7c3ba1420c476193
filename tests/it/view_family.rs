//! Families of operations in the page of `fx view`.

use fx::__test::{FAMILIES, Families, TABLES, position};

#[test]
fn every_table_has_a_family() {
    let known: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
    let all: Vec<&str> = fx::__test::families().map(|(name, _)| name).collect();
    assert_eq!(known, all);
    TABLES.iter().for_each(|(_, family)| assert!(position(family) > 0));
}

#[test]
fn operations_have_the_family_that_people_expect() {
    let families = Families::built_in();
    let of = |name: &str| FAMILIES[families.position(fx::registry().find(name).unwrap())].0;
    let found =
        ["relu", "add", "linear", "conv2d", "getitem", "cond", "size", "sum", "randn", "print"].map(of);
    assert_eq!(
        found,
        [
            "activation",
            "pointwise",
            "linear",
            "convolution",
            "view",
            "control",
            "view",
            "reduce",
            "create",
            "control"
        ]
    );
}
