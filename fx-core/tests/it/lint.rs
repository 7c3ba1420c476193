//! What `lint` finds.

use std::sync::Arc;

use expect_test::expect;
use fx_core::lint::*;
use fx_core::module::{InputDecl, Visitor, VisitorMut};
use fx_core::{
    Arg, Attribute, Dim, Graph, GraphModule, NodeId, OpCode, SourceLoc, TensorType, TypeTree, ops,
};
use fx_core::{Buffer, Forward, Module, Result, Tensor, Tree, Value, trace};

fn ty(text: &str) -> Option<Arc<TypeTree>> {
    Some(Arc::new(text.parse::<TensorType>().unwrap().into()))
}

/// A graph with one typed placeholder.
fn graph(input: &str) -> (Graph, NodeId) {
    let mut graph = Graph::new("main");
    let x = graph.placeholder("x").unwrap();
    graph.meta_mut(x).unwrap().ty = ty(input);
    (graph, x)
}

fn lines(found: Vec<Violation>) -> String {
    found.into_iter().map(|violation| format!("{:?} {violation}\n", violation.kind)).collect()
}

#[test]
fn types_are_those_that_the_operations_give() {
    let (mut graph, x) = graph("f32[3]");
    let add = graph.call_function(ops::add::OP, [x.into(), x.into()]).unwrap();
    let mul = graph.call_method(ops::mul::OP, [add.into(), Arg::Float(2.0)]).unwrap();
    graph.set_output(mul).unwrap();
    assert_eq!(graph.lint(), []);
    graph.meta_mut(add).unwrap().ty = ty("f32[4]");
    graph.meta_mut(mul).unwrap().ty = ty("f64[4]");
    graph.meta_mut(mul).unwrap().source = Some(SourceLoc::new("src/main.rs", 3, 5));
    expect![["
        Type %add: expected f32[3], got f32[4]
        Type %mul: expected f32[4], got f64[4]  at src/main.rs:3:5
    "]]
    .assert_eq(&lines(graph.lint()));
    graph.meta_mut(add).unwrap().ty = ty("bool[2, 2]");
    expect![["
        Type %add: expected f32[3], got bool[2, 2]
        Type %mul: expected f32[2, 2], got f64[4]  at src/main.rs:3:5
    "]]
    .assert_eq(&lines(graph.lint()));
}

#[test]
fn arguments_fit_the_schema() {
    let (mut graph, x) = graph("f32[3]");
    graph.call_function(ops::add::OP, [x.into()]).unwrap();
    graph.call_function(ops::add::OP, [x.into(), Arg::str("y")]).unwrap();
    let add = graph.call_function(ops::add::OP, [x.into(), x.into()]).unwrap();
    graph.set_kwarg(add, "beta", Arg::Int(1)).unwrap();
    graph.call_method(ops::size::OP, [x.into(), Arg::Int(0)]).unwrap();
    let size = graph.call_function(ops::size::OP, [x.into(), Arg::Int(1)]).unwrap();
    graph.set_output(size).unwrap();
    expect![[r#"
        Arguments %add: add needs the argument "y"
        Arguments %add_1: add: argument "y" takes a tensor or a number, got a string
        Arguments %add_2: add has no parameter "beta"
        Arguments %size: size is not a method
        Type %size_1: axis 1 is out of range for rank 1
    "#]]
    .assert_eq(&lines(graph.lint()));
}

#[test]
fn paths_resolve() {
    let (mut graph, x) = graph("f32[3]");
    let weight = graph.get_attr("weight").unwrap();
    graph.meta_mut(weight).unwrap().ty = ty("f32[4]");
    graph.get_attr("wieght").unwrap();
    graph.call_module("fc", [x.into()]).unwrap();
    let mut inner = Graph::new("inner");
    let y = inner.placeholder("y").unwrap();
    inner.set_output(y).unwrap();
    graph.call_module("child", [x.into(), x.into()]).unwrap();
    for path in ["mean", "mean", "weight", "var"] {
        graph.call_function(ops::set_buffer::OP, [Arg::str(path), x.into()]).unwrap();
    }
    assert_eq!(graph.lint().len(), 1, "without a module, only the repeated update is found");
    let mut gm = GraphModule::new("M", graph);
    gm.set_attribute("weight", Attribute::Constant(Tensor::new([1.0f32, 2.0, 3.0]))).unwrap();
    gm.set_attribute("mean", Attribute::Buffer(Buffer::new(Tensor::new([1.0f64])))).unwrap();
    gm.add_submodule("child", GraphModule::new("Inner", inner)).unwrap();
    expect![[r#"
        Type %weight: expected f32[3], got f32[4]
        Path %wieght: M has no attribute "wieght"
        Path %fc: M has no sub-module "fc"
        Arguments %child: "child" takes 1 arguments, got 2
        Type %set_buffer: expected f64[1], got f32[3]
        Effect %set_buffer_1: the buffer "mean" is updated by %set_buffer already
        Type %set_buffer_1: expected f64[1], got f32[3]
        Path %set_buffer_2: "weight" is updated by set_buffer, but it is no buffer
        Path %set_buffer_3: M has no attribute "var"
    "#]]
    .assert_eq(&lines(gm.lint()));
}

#[test]
fn sub_graphs_are_closed_and_take_their_operands() {
    let (mut then, y) = graph("f32[4]");
    then.set_name("then").unwrap();
    let weight = then.get_attr("weight").unwrap();
    then.call_function(ops::set_buffer::OP, [Arg::str("mean"), y.into()]).unwrap();
    then.call_module("fc", [y.into()]).unwrap();
    then.call_function(ops::neg::OP, []).unwrap();
    then.set_output(weight).unwrap();
    let then = Arc::new(then);
    let mut otherwise = Graph::new("otherwise");
    for name in ["a", "b"] {
        otherwise.placeholder(name).unwrap();
    }
    otherwise
        .call_function(
            ops::cond::OP,
            [Arg::Bool(true), then.clone().into(), then.clone().into(), Arg::list([])],
        )
        .unwrap();
    let (mut graph, x) = graph("f32[3]");
    graph
        .call_function(ops::cond::OP, [x.into(), then.into(), otherwise.into(), Arg::list([x.into()])])
        .unwrap();
    expect![[r#"
        Type %cond: %x of @then expects f32[4], got f32[3]
        Arguments %cond: @otherwise takes 2 operands, got 1
        Closed @then %weight: a closed sub-graph reads the attribute "weight"
        Closed @then %set_buffer: a closed sub-graph updates the buffer "mean"
        Closed @then %fc: a closed sub-graph calls the module "fc"
        Arguments @then %neg: neg needs the argument "x"
        Arguments @otherwise %cond: @then takes 1 operands, got 0
        Arguments @otherwise %cond: @then takes 1 operands, got 0
    "#]]
    .assert_eq(&lines(graph.lint()));
}

#[test]
fn symbolic_sizes_are_bound_before_their_use() {
    let (mut graph, x) = graph("f32[n, 2*n + k]");
    let dim = |text: &str| Arg::dim(text.parse::<Dim>().unwrap());
    graph.call_function(ops::add::OP, [x.into(), dim("n + k")]).unwrap();
    graph.call_function(ops::add::OP, [x.into(), dim("m + n")]).unwrap();
    let mask = graph.placeholder("mask").unwrap();
    graph.meta_mut(mask).unwrap().ty = ty("bool[n]");
    let picked = graph.call_function(ops::getitem::OP, [x.into(), mask.into()]).unwrap();
    graph.meta_mut(picked).unwrap().ty = ty("f32[m, 2*n + k]");
    graph.call_function(ops::add::OP, [x.into(), dim("m + n")]).unwrap();
    expect![[r#"
        Symbol %add_1: no placeholder and no node before says what m is in <m + n>
    "#]]
    .assert_eq(&lines(graph.lint()));
    // The recorded size may be any symbol or number, but not another rank.
    graph.meta_mut(picked).unwrap().ty = ty("f32[m]");
    assert_eq!(graph.lint().len(), 2);
}

#[test]
fn traces_are_clean() {
    let gm = trace(|x: &Tensor, mask: &Tensor| {
        let y = x.i(mask);
        let z = y.i((1.., 0)) * y.dim(0);
        let w = ops::cond(mask.i(0), |y: Tensor| &y + y.dim(0), |y: Tensor| &y * x.dim(0), y.clone());
        ops::while_loop(|w: &Tensor| w.i((0, 0)) + z.i(0), |w: Tensor| w * 2.0, w)
    })
    .input("x", "f32[n, 3]")
    .input("y", "bool[n]")
    .build()
    .unwrap();
    assert_eq!(lines(gm.lint()), "");
}

#[test]
fn only_the_last_update_of_a_buffer_is_kept() {
    #[derive(Clone)]
    struct Counter(Buffer);
    impl Module for Counter {
        fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
            visitor.buffer("count", &self.0);
        }
        fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
            visitor.buffer("count", &mut self.0);
        }
        fn type_name(&self) -> &'static str {
            "Counter"
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    impl Forward for Counter {
        fn inputs(&self) -> Vec<InputDecl> {
            vec![InputDecl::new("x", <Tensor as Tree>::structure())]
        }
        fn output(&self) -> Result<Arg<()>> {
            Tensor::structure()
        }
        fn forward_values(&self, args: &[Value]) -> Result<Value> {
            let x = Tensor::from_value(&args[0])?;
            self.0.set(&(self.0.get() + 1.0))?;
            self.0.set(&(self.0.get() + x))?;
            Ok(self.0.get().into())
        }
        fn as_module(&self) -> &dyn Module {
            self
        }
        fn as_module_mut(&mut self) -> &mut dyn Module {
            self
        }
    }
    let counter = Counter(Buffer::new(Tensor::new([0.0f32])));
    let gm = trace(&counter).input("x", "f32[1]").build().unwrap();
    assert_eq!(gm.graph().find_nodes(OpCode::CallFunction, Some("set_buffer")).len(), 1);
    assert_eq!(gm.lint(), []);
    gm.call(&[Tensor::new([2.0f32])]).unwrap();
    assert_eq!(gm.attr("count").unwrap().to_vec::<f32>().unwrap(), [3.0]);
}

#[test]
fn large_graphs_are_fast() {
    let (mut graph, x) = graph("f32[n, 3]");
    let mut last = x;
    for i in 0..100_000 {
        last = match i % 3 {
            0 => graph.call_function(ops::add::OP, [last.into(), x.into()]).unwrap(),
            1 => graph.call_method(ops::mul::OP, [last.into(), Arg::Float(0.5)]).unwrap(),
            _ => graph.call_function(ops::neg::OP, [last.into()]).unwrap(),
        };
        graph.meta_mut(last).unwrap().ty = ty("f32[n, 3]");
    }
    graph.set_output(last).unwrap();
    let started = std::time::Instant::now();
    assert_eq!(graph.lint(), []);
    // About 130 ms; the bound only tells linear from quadratic.
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    if std::env::var_os("SHOW_TIME").is_some() {
        eprintln!("lint of 100,000 nodes: {:?}", started.elapsed());
    }
}
