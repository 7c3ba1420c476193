//! Schemas and the choice of overloads.

use fx_script::schema::*;
use fx_script::types::{ClassTable, Type, parse_type};

fn overload(name: &str, positional: &[&str], named: &[(&str, &str)]) -> String {
    let classes = ClassTable::default();
    let read = |text: &str| parse_type(text, &classes).unwrap();
    let positional: Vec<Type> = positional.iter().map(|text| read(text)).collect();
    let named: Vec<_> = named.iter().map(|(name, text)| ((*name).into(), read(text))).collect();
    match resolve(name, &positional, &named, &classes) {
        Ok(call) => {
            let returns = call.returns.unwrap_or_default();
            let returns: Vec<String> = returns.iter().map(ToString::to_string).collect();
            format!("{} -> {}", call.schema.full_name, returns.join(", "))
        }
        Err(reasons) => reasons.join("\n"),
    }
}

#[test]
fn every_line_of_the_table_is_a_schema() {
    let lines: Vec<&str> = include_str!("../../src/schema/schemas.txt").lines().collect();
    let unread: Vec<&&str> = lines.iter().filter(|line| Schema::parse(line).is_err()).collect();
    assert!(unread.is_empty(), "{unread:?}");
    assert_eq!(lines.len(), 3190);
}

#[test]
fn overloads_follow_the_order_of_the_table() {
    for (name, positional, named, expected) in [
        ("aten::add", &["Tensor", "int"][..], &[][..], "aten::add.Scalar -> Tensor"),
        ("aten::add", &["Tensor", "Tensor"], &[("alpha", "int")], "aten::add.Tensor -> Tensor"),
        ("aten::add", &["int", "int"], &[], "aten::add.int -> int"),
        ("aten::add", &["int", "float"], &[], "aten::add.int_float -> float"),
        ("aten::add", &["bool", "int"], &[], "aten::add.int -> int"),
        ("aten::add", &["List[int]", "List[int]"], &[], "aten::add.t -> List[int]"),
        ("aten::eq", &["int", "int"], &[], "aten::eq.int -> bool"),
        ("aten::pow", &["int", "int"], &[], "aten::pow.int -> float"),
        ("aten::sum", &["Tensor", "List[int]"], &[("keepdim", "bool")], "aten::sum.dim_IntList -> Tensor"),
        ("aten::sum", &["Tensor"], &[], "aten::sum -> Tensor"),
        ("aten::max", &["Tensor", "int"], &[], "aten::max.dim -> Tensor, Tensor"),
        ("aten::view", &["Tensor", "int", "int"], &[], "aten::view -> Tensor"),
        ("aten::avg_pool2d", &["Tensor", "int"], &[], "aten::avg_pool2d -> Tensor"),
        ("aten::to", &["Tensor", "int"], &[], "aten::to.dtype -> Tensor"),
        ("aten::to", &["Tensor", "Device"], &[], "aten::to.prim_Device -> Tensor"),
        ("aten::items", &["Dict[str, Tensor]"], &[], "aten::items.str -> List[Tuple[str, Tensor]]"),
        (
            "aten::append",
            &["List[Optional[Tensor]]", "Tensor"],
            &[],
            "aten::append.t -> List[Optional[Tensor]]",
        ),
        ("aten::tensor", &["List[List[int]]"], &[], "aten::tensor -> Tensor"),
        ("aten::zeros", &["Tuple[int, int]"], &[], "aten::zeros -> Tensor"),
        ("aten::format", &["str", "int", "Tensor"], &[], "aten::format -> str"),
        ("aten::wait", &["Future[Tensor]"], &[], "aten::wait -> Tensor"),
    ] {
        assert_eq!(overload(name, positional, named), expected, "{name}{positional:?}");
    }
}

#[test]
fn lists_are_invariant_and_reasons_are_given() {
    expect_test::expect!["aten::append.t(List[t] self, t el): 'el' expected t, got str"]
        .assert_eq(&overload("aten::append", &["List[int]", "str"], &[]));
    expect_test::expect!["aten::relu(Tensor self): 'self' expected Tensor, got str"].assert_eq(&overload(
        "aten::relu",
        &["str"],
        &[],
    ));
}
