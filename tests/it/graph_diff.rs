//! The difference of programs by what they compute.

use fx::GraphModule;
use fx::graph_diff::{Change, graph_diff};

fn program(text: &str) -> GraphModule {
    GraphModule::new("M", fx::parse(text).unwrap())
}

const BASE: &str = "graph main(%x: f32[n, 4], %y: f32[n, 4]) {
  %a = relu(%x)
  %b = exp(%y)
  %c = add(%a, %b)
  %d = mul(%c, 2.0)
  %e = tanh(%d)
  return (%e, %b)
}
";

#[test]
fn names_order_and_spelling_do_not_matter() {
    let other = "graph main(%x: f32[n, 4], %y: f32[n, 4]) {
  %q = %y.exp()
  %unused = neg(%q)
  %p = %x.relu()
  %p2 = relu(x=%x)
  %r = add(%q, y=%p2, alpha=1)
  %s = mul(2.0, %r)
  %t = tanh(%s)
  return (%t, %q)
}
";
    let diff = graph_diff(&program(BASE), &program(other)).unwrap();
    assert!(diff.is_same(), "{diff}");
    assert_eq!(diff.to_string(), "the same: 8 nodes");
}

#[test]
fn one_change_is_one_line_each() {
    let changed = graph_diff(&program(BASE), &program(&BASE.replace("2.0", "3.0"))).unwrap();
    expect_test::expect![[r#"
        - %mul = mul(%add, 2.0)
        + %mul = mul(%add, 3.0)
        7 nodes the same, 1 changed, 0 removed, 0 added"#]]
    .assert_eq(&changed.to_string());
    let other = BASE.replace("tanh", "sigmoid");
    let diff = graph_diff(&program(BASE), &program(&other)).unwrap();
    assert!(matches!(&diff.changes[..], [Change::Changed { .. }]), "{diff}");
    let longer = BASE.replace("  %d = mul(%c, 2.0)\n", "  %n = neg(%c)\n  %d = mul(%n, 2.0)\n");
    let diff = graph_diff(&program(BASE), &program(&longer)).unwrap();
    let is_added = |change: &Change| matches!(change, Change::Added(line) if line.text.contains("neg"));
    assert!(diff.changes.iter().any(is_added) && diff.changes.len() <= 2, "{diff}");
}

#[test]
fn the_order_of_effects_and_the_arguments_matter() {
    let a = "graph main(%x: f32[2]) {\n  %p = print(%x, \"a\")\n  %q = print(%x, \"b\")\n  return %x\n}\n";
    let b = "graph main(%x: f32[2]) {\n  %q = print(%x, \"b\")\n  %p = print(%x, \"a\")\n  return %x\n}\n";
    assert!(!graph_diff(&program(a), &program(b)).unwrap().is_same());
    let c = a.replace("f32[2]", "f32[3]");
    let diff = graph_diff(&program(a), &program(&c)).unwrap();
    assert!(matches!(diff.changes[0], Change::Signature { .. }), "{diff}");
}

#[test]
fn every_random_program_is_the_same_as_its_canonical_form() {
    for seed in 0..60 {
        let gm = fx::fuzz::Case::new(seed).gm;
        let mut other = gm.clone();
        fx::pass::CSE.apply(&mut other).unwrap();
        fx::pass::CANONICALIZE.apply(&mut other).unwrap();
        let diff = graph_diff(&gm, &other).unwrap();
        assert!(diff.is_same(), "seed {seed}: {diff}\n{}", gm.graph());
    }
}

#[test]
fn differences_within_sub_graphs_are_shown_there() {
    let text = "graph main(%p: bool[], %x: f32[2]) {
  %y = cond(%p, @then, @otherwise, [%x])
  return %y
}

graph then(%x: f32[2]) {
  %a = exp(%x)
  return %a
}

graph otherwise(%x: f32[2]) {
  %b = neg(%x)
  return %b
}
";
    let renamed = text.replace("otherwise", "no").replace("%b", "%c");
    assert!(graph_diff(&program(text), &program(&renamed)).unwrap().is_same());
    let diff = graph_diff(&program(text), &program(&text.replace("neg", "abs"))).unwrap();
    let [Change::Inside { graph, diff, .. }] = &diff.changes[..] else { panic!("{diff}") };
    assert!(graph == "otherwise" && matches!(&diff.changes[..], [Change::Changed { .. }]), "{diff}");
}
