//! Modules and wrapped functions in a trace.

use fx::trace::symbolic_trace;
use fx::{Arg, GraphModule, Node, OpCode, Parameter, Scalar, Tensor, TensorType, TypeTree};
use fx_macros::{Module, forward, wrap};

fn tensor(x: f64) -> Tensor {
    Tensor::from_scalar(Scalar::Float(x))
}

#[wrap]
fn pick(x: &Tensor, other: Option<&Tensor>, k: i64) -> Tensor {
    if k == 0 { x.clone() } else { other.cloned().unwrap_or_else(|| tensor(1.0)) }
}

#[derive(Module)]
#[module(leaf)]
struct Leaf {
    weight: Parameter,
}

#[forward]
impl Leaf {
    fn forward(&self, x: &Tensor, scale: f64) -> (Tensor, Tensor) {
        let _ = scale;
        (pick(x, Some(&self.weight), 0), x.clone())
    }
}

#[derive(Module)]
struct Inner {
    weight: Parameter,
}

#[forward]
impl Inner {
    fn forward(&self, x: &Tensor) -> Tensor {
        pick(x, Some(&self.weight), 1)
    }
}

#[derive(Module)]
struct Model {
    #[module(rename = "blocks.0")]
    leaf: Leaf,
    inner: Inner,
}

#[forward]
impl Model {
    fn forward(&self, x: &Tensor) -> Tensor {
        let (a, _) = self.leaf.call(x, 2.0);
        self.inner.call(&a)
    }
}

/// The calls and attributes of a graph: opcode and what it names.
fn calls(module: &GraphModule) -> Vec<(OpCode, String)> {
    let named = |node: &Node| {
        let name =
            node.target().path().map(|path| path.to_string()).or(node.op().map(|op| op.name.to_owned()))?;
        (name != "getitem").then_some((node.opcode(), name))
    };
    module.graph().nodes().filter_map(|(_, node)| named(node)).collect()
}

#[test]
fn a_trace_knows_the_paths_and_keeps_leaves_and_wrapped_functions() {
    let model = Model {
        leaf: Leaf { weight: Parameter::new(tensor(1.0)) },
        inner: Inner { weight: Parameter::new(tensor(7.0)) },
    };
    let module = symbolic_trace(&model).unwrap();
    let expected = [
        (OpCode::CallModule, "blocks.0".to_owned()),
        (OpCode::GetAttr, "inner.weight".to_owned()),
        (OpCode::CallFunction, "pick".to_owned()),
    ];
    assert_eq!(calls(&module), expected);
    let y = module.call(&[tensor(3.0)]).unwrap();
    assert_eq!(y.item::<f32>().unwrap(), 7.0);
    assert_eq!(model.call(&tensor(3.0)).item::<f32>().unwrap(), 7.0);
}

#[test]
fn the_type_of_a_wrapped_function_is_found_by_tracing_its_body() {
    let ty: TensorType = "f32[batch, 3]".parse().unwrap();
    let types = [TypeTree::from(ty.clone()), Arg::None, Arg::Int(0)];
    assert!(pick::OP.infer(&types).unwrap() == Some(ty.into()));
}

#[test]
fn a_node_knows_the_line_of_the_call() {
    let line = line!() + 1;
    let module = symbolic_trace(|x: &Tensor| pick(x, None, 0)).unwrap();
    let (_, node) = module.graph().nodes().find(|(_, node)| node.op() == Some(pick::OP)).unwrap();
    assert_eq!(node.meta().source.as_ref().map(|source| source.line), Some(line));
}
