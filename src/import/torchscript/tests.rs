use std::path::{Path, PathBuf};

use fx_script::load::Session;
use fx_script::value::Value as Item;

use super::{TorchScript, torchscript};
use crate::import::Lowered;
use crate::script::AtenOperators;
use crate::{Array, Compile, Engine, GraphModule, Tensor, Value};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn module(lowered: crate::Result<Lowered>) -> GraphModule {
    lowered.unwrap().into_module().unwrap()
}

/// Returns numbers between -1 and 1.
fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let n = shape.iter().product::<usize>();
    Tensor::from_vec((0..n).map(|i| (((i * 37 + seed * 11) % 201) as f32 - 100.0) / 100.0).collect(), shape)
}

fn array(tensor: &Tensor) -> Array {
    tensor.array().unwrap().clone()
}

fn has_regions(gm: &GraphModule) -> bool {
    gm.graph().nodes().any(|(_, node)| node.op().is_some_and(|op| matches!(op.name, "cond" | "while_loop")))
}

/// silero_vad as its authors ship it: the step of its network is one graph for all batch sizes.
#[test]
fn a_method_of_an_inner_module_is_a_graph() {
    let path = data("shipped/silero_vad.pt");
    let step = TorchScript::new(&path).method("_model.forward");
    let gm = module(step.input("x", "f32[n, 576]").input("state", "f32[2, n, 128]").load());
    assert!(!has_regions(&gm));
    let compiled = gm.compile(Engine::Fused).unwrap();
    for n in [1, 2] {
        let mut session =
            Session::new(torchscript(&path).unwrap(), &AtenOperators::new(crate::registry())).unwrap();
        let mut context = crate::zeros([n, 64]);
        let mut state = Value::from(&crate::zeros([2, n, 128]));
        for window in 0..3 {
            let x = numbers(&[n, 512], window);
            let given = vec![Item::tensor(array(&x)).unwrap(), Item::Int(16000)];
            let expected = session.call("forward", given, Vec::new()).unwrap();
            let all = crate::cat([&context, &x], 1);
            let result = compiled.call_values(&[Value::from(&all), state]).unwrap();
            let [out, next] = result.items().unwrap() else { panic!("two results: {result}") };
            let got = array(out.leaf().unwrap());
            got.all_close(&expected.to_tensor().unwrap().array().unwrap(), 1e-4, 1e-6).unwrap();
            state = next.clone();
            context = crate::narrow(&x, 1, 448, 64);
        }
    }
}

#[test]
fn names_of_inner_modules_and_methods_are_suggested() {
    let path = data("shipped/silero_vad.pt");
    let wrong = |method: &str| TorchScript::new(&path).method(method).load().unwrap_err().to_string();
    let text = wrong("_modle.forward");
    assert!(text.contains("there is no \"_modle\"") && text.contains("_model"), "{text}");
    let text = wrong("_model.forwad");
    assert!(text.contains("no method \"_model.forwad\"") && text.contains("forward"), "{text}");
}

#[test]
fn tests_of_sizes_are_decided_by_types_with_names() {
    let gm = module(
        TorchScript::new(data("torchscript/fr_convbn.pt"))
            .input("x", "f32[n, 3, h, w]")
            .constant("wide", true)
            .load(),
    );
    assert!(!has_regions(&gm), "{}", gm.graph());
    let x = numbers(&[2, 3, 9, 8], 1);
    let args = [Value::from(&x), Value::Bool(true)];
    let expected = gm.call_values(&args).unwrap();
    let got = gm.compile(Engine::Fused).unwrap().call_values(&args).unwrap();
    array(got.leaf().unwrap()).all_close(&array(expected.leaf().unwrap()), 1e-5, 1e-5).unwrap();
}
