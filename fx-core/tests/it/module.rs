//! Ties: what is one at several paths of a graph module stays one, whatever is made of it.

use std::sync::Arc;

use fx_core::module::{VisitorMut, collect_buffers};
use fx_core::pass::{INLINE, compare_runs, functionalize};
use fx_core::splitting::split_module;
use fx_core::{Arg, Attribute, Buffer, ErrorKind, Graph, GraphModule, Module, Parameter, Tensor, Value, ops};

/// Adds its argument to its state, and returns the state.
fn counter() -> GraphModule {
    let mut graph = Graph::new("main");
    let x = graph.placeholder("x").unwrap();
    let state = graph.get_attr("state").unwrap();
    let sum = graph.call_function(ops::add::OP, [state.into(), x.into()]).unwrap();
    graph.call_function(ops::set_buffer::OP, [Arg::str("state"), sum.into()]).unwrap();
    graph.set_output(sum).unwrap();
    for id in [x, state, sum] {
        graph.meta_mut(id).unwrap().ty =
            Some(Arc::new("f32[1]".parse::<fx_core::TensorType>().unwrap().into()));
    }
    let mut gm = GraphModule::new("Counter", graph);
    gm.set_attribute("state", Attribute::Buffer(Buffer::new(Tensor::new([0.0f32])))).unwrap();
    gm
}

/// Calls one counter by two paths, the second with what the first returns: from 0, an input of 1 makes 2.
fn tied() -> GraphModule {
    let mut graph = Graph::new("main");
    let x = graph.placeholder("x").unwrap();
    let a = graph.call_module("a", [x.into()]).unwrap();
    let b = graph.call_module("b", [a.into()]).unwrap();
    graph.set_output(b).unwrap();
    for id in [x, a, b] {
        graph.meta_mut(id).unwrap().ty =
            Some(Arc::new("f32[1]".parse::<fx_core::TensorType>().unwrap().into()));
    }
    let mut gm = GraphModule::new("Tied", graph);
    let child = Arc::new(counter());
    gm.add_shared_submodule("a", child.clone()).unwrap();
    gm.add_shared_submodule("b", child).unwrap();
    gm
}

/// Returns the results of two calls, and the states of both paths after them.
fn outcome(gm: &GraphModule) -> Vec<f32> {
    let call = |_| gm.call(&[Tensor::new([1.0f32])]).unwrap().to_vec::<f32>().unwrap()[0];
    let mut found: Vec<f32> = (0..2).map(call).collect();
    found.extend(collect_buffers(gm).iter().map(|(_, buffer)| buffer.load().to_vec::<f32>().unwrap()[0]));
    found
}

fn write(gm: &mut GraphModule) {
    struct Write;
    impl VisitorMut for Write {
        fn parameter(&mut self, _: &str, _: &mut Parameter) {}
        fn buffer(&mut self, _: &str, _: &mut Buffer) {}
        fn module(&mut self, _: &str, module: &mut dyn Module) {
            module.visit_mut(self);
        }
    }
    gm.visit_mut(&mut Write);
}

#[test]
fn shared_modules_stay_one_in_every_copy() {
    let expected = outcome(&tied());
    assert_eq!(expected, [2.0, 6.0, 6.0, 6.0]);
    type Make = fn(GraphModule) -> GraphModule;
    let table: [(&str, Make); 8] = [
        ("clone", |gm| gm.clone()),
        ("clone of a clone", |gm| gm.clone().clone()),
        ("writing", |mut gm| {
            write(&mut gm);
            gm
        }),
        ("writing to a clone that is held elsewhere", |gm| {
            let mut copy = gm.clone();
            let _held = copy.snapshot();
            write(&mut copy);
            copy
        }),
        ("inlining", |mut gm| {
            INLINE.apply(&mut gm).unwrap();
            gm
        }),
        ("a part", |gm| split_module(&gm, |node| node.node.name().to_owned()).unwrap().module),
        ("inlined parts", |gm| {
            split_module(&gm, |node| node.node.name().to_owned()).unwrap().inline().unwrap()
        }),
        ("as a sub-module", |gm| {
            let mut graph = Graph::new("main");
            let x = graph.placeholder("x").unwrap();
            let y = graph.call_module("inner", [x.into()]).unwrap();
            graph.set_output(y).unwrap();
            let mut outer = GraphModule::new("Outer", graph);
            outer.add_submodule("inner", gm).unwrap();
            outer.clone()
        }),
    ];
    for (what, make) in table {
        let original = tied();
        let made = make(original.snapshot());
        compare_runs(&original, &made, 2, 1, 0.0).unwrap();
        assert_eq!(outcome(&made), expected, "{what}");
    }
}

#[test]
fn a_clone_is_independent() {
    let gm = tied();
    let copy = gm.clone();
    outcome(&copy);
    assert_eq!(gm.child("a").unwrap().as_module().type_name(), "GraphModule");
    assert_eq!(collect_buffers(&gm)[0].1.load().to_vec::<f32>().unwrap(), [0.0]);
}

#[test]
fn generated_modules_share_what_the_graph_module_shares() {
    let gm = tied();
    let members = gm.members();
    let (a, b): (GraphModule, GraphModule) = (members.module("a").unwrap(), members.module("b").unwrap());
    a.call(&[Tensor::new([5.0f32])]).unwrap();
    assert_eq!(b.attr("state").unwrap().to_vec::<f32>().unwrap(), [5.0]);
    assert_eq!(
        gm.members().module::<GraphModule>("a").unwrap().attr("state").unwrap().to_vec::<f32>().unwrap(),
        [0.0]
    );
}

#[test]
fn a_call_whose_state_another_call_updates_is_not_inlined() {
    let mut gm = tied();
    let call = gm.graph().find("a").unwrap();
    let error = gm.inline(call).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Graph);
    assert!(error.message().contains("%b"), "{error}");
    assert_eq!(outcome(&gm), [2.0, 6.0, 6.0, 6.0]);
}

#[test]
fn an_inlined_call_has_the_state_of_its_module() {
    let mut gm = tied();
    let call = gm.graph().find("b").unwrap();
    let x = gm.graph().placeholders()[0];
    gm.graph_mut().replace_all_uses(call, x).unwrap();
    gm.graph_mut().erase(call).unwrap();
    let state = gm.child("b").unwrap().as_module().as_any().downcast_ref::<GraphModule>().unwrap().clone();
    let call = gm.graph().find("a").unwrap();
    gm.graph_mut().set_output(call).unwrap();
    gm.inline(call).unwrap();
    gm.call(&[Tensor::new([3.0f32])]).unwrap();
    assert_eq!(state.attr("state").unwrap().to_vec::<f32>().unwrap(), [0.0]);
    let values: Vec<f32> =
        collect_buffers(&gm).iter().map(|(_, x)| x.load().to_vec::<f32>().unwrap()[0]).collect();
    assert_eq!(values, [3.0, 3.0]);
}

#[test]
fn tied_state_is_one_argument_of_a_pure_function() {
    let gm = tied();
    let (pure, state) = functionalize(&gm, false).unwrap();
    let out = pure.call_values(&state.arguments(&[Value::from(Tensor::new([1.0f32]))])).unwrap();
    let leaves: Vec<f32> = out.leaves().iter().map(|x| x.to_vec::<f32>().unwrap()[0]).collect();
    assert_eq!(leaves, [2.0, 2.0]);
}
