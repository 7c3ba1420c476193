//! Names of nodes.

use fx_core::__test::Namespace;
use fx_core::names::snake_case;

fn names(hints: &[&str]) -> Vec<String> {
    let mut names = Namespace::<()>::default();
    hints.iter().map(|hint| names.claim(hint, ()).0.to_string()).collect()
}

#[test]
fn follows_the_table_of_torch_fx() {
    assert_eq!(names(&["add", "add", "add_1"]), ["add", "add_1", "add_2"]);
    assert_eq!(names(&["add_5", "add", "add"]), ["add_5", "add", "add_6"]);
    assert_eq!(names(&["foo_1_1", "foo_1", "foo_1"]), ["foo_1_1", "foo_1", "foo_2"]);
    assert_eq!(
        names(&["class", "match", "self", "3d", "", "a b"]),
        ["class", "match_1", "self_1", "_3d", "_unnamed", "a_b"]
    );
    assert_eq!(names(&["x_01", "x_01"]), ["x_01", "x_01_1"]);
}

#[test]
fn reserved_words_are_no_names() {
    let rust = "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match \
                mod move mut pub ref return self Self static struct super trait true type unsafe use where while \
                abstract become box do final macro override priv try typeof unsized virtual yield gen union raw";
    let text = "graph slice none nan inf bool str main";
    for word in rust.split_whitespace().chain(text.split_whitespace()) {
        assert_eq!(names(&[word, word]), [format!("{word}_1"), format!("{word}_2")]);
    }
}

#[test]
fn snake_cases_as_the_census_says() {
    let pairs = [
        ("net.0.Conv1", "net_0_conv1"),
        ("MyNorm", "my_norm"),
        ("camelCase", "camel_case"),
        ("ALL_CAPS", "all_caps"),
        ("__call__", "call"),
        ("a.b.weight", "a_b_weight"),
        ("BatchNorm2d", "batch_norm2d"),
        ("größe.Ünit", "gr__e__nit"),
    ];
    for (name, expected) in pairs {
        assert_eq!(snake_case(name), expected);
    }
}

#[test]
fn equal_hints_stay_linear() {
    let mut names = Namespace::<()>::default();
    for _ in 0..50_000 {
        names.claim("add_1", ());
        names.claim("add", ());
    }
    assert_eq!(&*names.claim("add", ()).0, "add_100000");
}
