//! Graphs that are rebuilt.

use std::sync::Arc;

use expect_test::expect;
use fx_core::Result;
use fx_core::transform::*;
use fx_core::{Arg, GraphModule, Interpreter, NodeId, NodeRef, Op, Tensor};
use fx_core::{ops, symbolic_trace};

fn model() -> GraphModule {
    let w = Tensor::new([1.0f32, 2.0]);
    symbolic_trace(move |x: &Tensor| ops::maximum(&((x + &w) * 3.0 - x), 0.5)).unwrap()
}

#[test]
fn a_rebuilt_graph_is_equal() {
    for seed in 0..50 {
        let graph = fx_core::testing::random_graph(seed, 30);
        assert_eq!(Rebuild::copy(&graph).unwrap(), graph);
    }
}

#[test]
fn a_pass_wraps_rebuild() {
    struct Swap(Rebuild);
    impl Interpreter for Swap {
        type Leaf = NodeId;
        fn get_attr(&mut self, node: NodeRef<'_>, path: &Arc<str>) -> Result<Arg> {
            self.0.get_attr(node, path)
        }
        fn call_function(&mut self, node: NodeRef<'_>, op: Op, args: &[Arg]) -> Result<Arg> {
            let op = if op == ops::maximum::OP { ops::minimum::OP } else { op };
            self.0.call_function(node, op, args)
        }
        fn call_module(&mut self, node: NodeRef<'_>, path: &Arc<str>, args: &[Arg]) -> Result<Arg> {
            self.0.call_module(node, path, args)
        }
    }
    let mut gm = model();
    let graph = Rebuild::run(gm.graph(), &mut Swap(Rebuild::new(gm.graph())), |it| &mut it.0).unwrap();
    gm.set_graph(graph);
    let y = gm.call(&[Tensor::new([1.0f32, -4.0])]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.5, -2.0]);
}

#[test]
fn the_graph_between_two_nodes() {
    let part = model().between(&["add"], &["mul"]).unwrap();
    expect![[r#"
        graph main(%add) {
          %mul = mul(%add, 3.0)
          return %mul
        }
    "#]]
    .assert_eq(&part.graph().to_string());
    assert_eq!(part.attributes().len(), 0);
    let error = model().between(&["add"], &["sub"]).unwrap_err();
    assert!(error.message().contains("need %x"), "{error}");
}

#[test]
fn features_by_name() {
    let gm = model().features(&["mul", "add"]).unwrap();
    expect![[r#"
        graph main(%x) {
          %_tensor_constant0: f32[2] = self._tensor_constant0
          %add = add(%x, %_tensor_constant0)
          %mul = mul(%add, 3.0)
          return {"mul": %mul, "add": %add}
        }
    "#]]
    .assert_eq(&gm.graph().to_string());
    assert!(gm.lint().is_empty());
}

#[test]
fn a_graph_is_continued_with_operators() {
    let mut gm = model();
    let shift = Tensor::new([10.0f32]);
    let (mul, sub) = (gm.find("mul").unwrap(), gm.find("sub").unwrap());
    let sum = gm.append(sub, &[mul], |x| &x[0] * 2.0 + &shift).unwrap();
    gm.graph_mut().replace_uses_where(mul, sum, |user| user == sub).unwrap();
    assert!(gm.lint().is_empty());
    let y = gm.call(&[Tensor::new([1.0f32, 0.0])]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [21.0, 22.0]);
    let before = gm.graph().clone();
    let w = Tensor::new([1.0f32, 2.0, 3.0]);
    assert!(gm.append(sub, &[mul], |_| &shift + (&w + Tensor::new([1.0f32, 2.0]))).is_err());
    assert_eq!(*gm.graph(), before);
}
