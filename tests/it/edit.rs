//! Editing graph modules: inlining, compaction and dead code, where sizes and effects must stay true.

use expect_test::expect;
use fx::nn::{BatchNorm1d, Dropout, Linear};
use fx::prelude::*;
use fx::{Arg, Graph, GraphModule, Target};

/// Returns the one call of a sub-module.
fn module_call(gm: &GraphModule) -> fx::NodeId {
    let is_call = |node: &fx::Node| matches!(node.target(), Target::CallModule(_));
    gm.graph().nodes().find(|(_, node)| is_call(node)).unwrap().0
}

#[test]
fn inlined_sizes_are_those_of_the_caller() {
    let child = fx::trace(|x: &Tensor| x.reshape([x.dim(0) * 2, Dim::new(2)]) + 1)
        .input("x", "f32[n, 4]")
        .build()
        .unwrap();
    let mut gm = fx::trace(|x: &Tensor| x * 2).input("x", "f32[batch, 4]").build().unwrap();
    gm.add_submodule("child", child).unwrap();
    let last = gm.graph().output().leaf().copied().unwrap();
    let graph = gm.graph_mut();
    let call = graph.call_module("child", [Arg::Leaf(last)]).unwrap();
    graph.set_output(Arg::Leaf(call)).unwrap();
    gm.inline(call).unwrap();
    expect![[r#"
        graph main(%x: f32[batch, 4]) -> f32[2*batch, 2] {
          %mul: f32[batch, 4] = mul(%x, 2)
          %reshape: f32[2*batch, 2] = %mul.reshape([<2*batch>, 2])
          %add: f32[2*batch, 2] = add(%reshape, 1)
          return %add
        }
    "#]]
    .assert_eq(&gm.graph().to_string());
    assert!(gm.lint().is_empty(), "{:?}", gm.lint());
    let x = Tensor::new([[1f32, 2.0, 3.0, 4.0]]);
    assert_eq!(gm.call(&[x]).unwrap().to_vec::<f32>().unwrap(), [3.0, 5.0, 7.0, 9.0]);
}

#[test]
fn inlined_sizes_that_depend_on_data_get_free_names() {
    let positive = |x: &Tensor| x.i(x.gt(0.0));
    let child = fx::trace(positive).input("x", "f32[n]").build().unwrap();
    let mut gm = fx::trace(positive).input("x", "f32[n]").build().unwrap();
    gm.add_submodule("child", child).unwrap();
    let last = gm.graph().output().leaf().copied().unwrap();
    let graph = gm.graph_mut();
    let call = graph.call_module("child", [Arg::Leaf(last)]).unwrap();
    graph.set_output(Arg::Leaf(call)).unwrap();
    gm.inline(call).unwrap();
    assert!(gm.lint().is_empty(), "{:?}", gm.lint());
    let output = gm.graph().output().leaf().copied().unwrap();
    assert_eq!(gm.graph().node(output).unwrap().ty().unwrap().to_string(), "f32[u1]");
}

#[test]
fn inlining_where_a_size_is_not_known_asks_for_types() {
    let child = fx::trace(|x: &Tensor| x.reshape([x.dim(0) * 4])).input("x", "f32[n, 4]").build().unwrap();
    let mut gm = fx::symbolic_trace(|x: &Tensor| x * 2).unwrap();
    gm.add_submodule("child", child).unwrap();
    let last = gm.graph().output().leaf().copied().unwrap();
    let call = gm.graph_mut().call_module("child", [Arg::Leaf(last)]).unwrap();
    gm.graph_mut().set_output(Arg::Leaf(call)).unwrap();
    let before = gm.graph().to_text();
    let error = gm.inline(call).unwrap_err();
    expect![[r#"
        the size 4*n is used, but what "n" is here is not known
          help: infer the types of the graph first, so that the operands have shapes"#]]
    .assert_eq(&error.to_string());
    assert_eq!(gm.graph().to_text(), before);
}

#[test]
fn compaction_keeps_every_name() {
    let text =
        "graph main(%b, %a) {\n  %output = add(%a, %b)\n  %add_3 = mul(%output, %a)\n  return %add_3\n}\n";
    let mut graph = Graph::parse(text, &fx::registry()).unwrap();
    let (a, b) = (graph.find("a").unwrap(), graph.find("b").unwrap());
    graph.rename(a, "c").unwrap();
    graph.rename(b, "a").unwrap();
    graph.rename(a, "b").unwrap();
    assert_eq!(graph.compacted().unwrap(), graph);
}

/// A model of which nothing but the effects of its modules is used.
#[derive(Module)]
struct Unused {
    norm: BatchNorm1d,
    dropout: Dropout,
    linear: Linear,
}

#[fx::forward]
impl Unused {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.dropout.call(&self.norm.call(&self.linear.call(x)));
        x + 1
    }
}

#[test]
fn unused_modules_stay_only_if_they_have_an_effect() {
    let mut model =
        Unused { norm: BatchNorm1d::new(3), dropout: Dropout::new(0.5), linear: Linear::new(3, 3) };
    for (training, left) in [(false, 0), (true, 3)] {
        if training {
            model.train();
        }
        let mut gm = fx::symbolic_trace(&model).unwrap();
        let pure = |gm: &GraphModule, path: &str| gm.child(path).unwrap().as_module().is_pure();
        let copy = gm.clone();
        gm.graph_mut().eliminate_dead_code(|path| pure(&copy, path));
        let calls = gm.graph().nodes().filter(|(_, node)| matches!(node.target(), Target::CallModule(_)));
        assert_eq!(calls.count(), left, "training: {training}");
    }
    let gm = fx::symbolic_trace(&model).unwrap();
    let dropout = module_call(&gm);
    assert_eq!(gm.graph().node(dropout).unwrap().name(), "linear");
}
