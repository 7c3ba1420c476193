//! Graph modules with several methods: traced, lowered, changed, saved, written for PyTorch.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

use fx::import::TorchScript;
use fx::prelude::*;
use fx::{Engine, GraphModule, nn};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript").join(name)
}

/// The methods of an autoencoder; `encode` counts the rows that it has seen.
fn autoencoder(keep_hierarchy: bool) -> (GraphModule, Vec<String>) {
    let lowered = TorchScript::new(data("sc_methods.pt"))
        .input("x", "f32[n, 8]")
        .and_method("encode")
        .input("x", "f32[n, 8]")
        .and_method("decode")
        .input("z", "f32[n, 2]")
        .hierarchy(keep_hierarchy)
        .load()
        .unwrap();
    let notes = lowered.reports().flat_map(|report| report.inline.clone()).collect();
    (lowered.into_module().unwrap(), notes)
}

fn seen(gm: &GraphModule) -> i64 {
    gm.attr("seen").unwrap().to_vec::<i64>().unwrap()[0]
}

#[test]
fn methods_share_parameters_and_state() {
    let (gm, _) = autoencoder(false);
    assert_eq!(gm.methods().map(|(name, _)| name).collect::<Vec<_>>(), ["decode", "encode"]);
    assert!(gm.lint().is_empty());
    let x = fx::randn([3, 8]);
    let (encode, decode) = (gm.method("encode").unwrap(), gm.method("decode").unwrap());
    let whole = gm.call(std::slice::from_ref(&x)).unwrap();
    assert_eq!(seen(&gm), 3);
    let parts = decode.call(&[encode.call(&[x]).unwrap()]).unwrap();
    parts.all_close(&whole, 0.0, 0.0).unwrap();
    assert_eq!((seen(&gm), seen(&encode)), (6, 6));
    // A method has only what it uses; a copy has a state of its own.
    assert!(decode.attr("seen").is_err());
    let copy = gm.clone();
    copy.method("encode").unwrap().call(&[fx::randn([2, 8])]).unwrap();
    assert_eq!((seen(&gm), seen(&copy)), (6, 8));
}

#[test]
fn an_unknown_method_is_an_error_with_similar_names() {
    let (mut gm, _) = autoencoder(false);
    let error = gm.method("encoder").unwrap_err().to_string();
    assert!(error.contains("no method \"encoder\"") && error.contains("encode"), "{error}");
    assert!(gm.set_method("1st", gm.graph().clone()).is_err());
    assert!(gm.remove_method("forward").is_err());
    let decode = gm.remove_method("decode").unwrap();
    assert!(gm.method("decode").is_err());
    gm.set_method("decode", decode).unwrap();
    let twice = TorchScript::new(data("sc_methods.pt")).input("x", "f32[n, 8]").and_method("forward").load();
    assert!(twice.unwrap_err().message().contains("given twice"));
}

#[test]
fn the_hierarchy_of_modules_is_kept_and_shared_by_methods() {
    let (gm, notes) = autoencoder(true);
    let children: Vec<&str> = gm.children().map(|(path, _)| path).collect();
    assert_eq!(children, ["down", "up"], "{notes:?}\n{gm}");
    assert!(gm.graph().to_string().contains("self.down"), "{gm}");
    assert!(gm.method("encode").unwrap().graph().to_string().contains("self.down"), "{gm}");
    assert!(gm.method("decode").unwrap().graph().to_string().contains("self.up"), "{gm}");
    assert!(notes.is_empty(), "{notes:?}");
    let (flat, _) = autoencoder(false);
    let x = fx::randn([3, 8]);
    gm.call(std::slice::from_ref(&x)).unwrap().all_close(&flat.call(&[x]).unwrap(), 1e-6, 1e-6).unwrap();
}

#[test]
fn a_module_prints_its_methods() {
    let (gm, _) = autoencoder(true);
    expect_test::expect![[r#"
        module Autoencoder
          buffer seen: i64[]
          module down: Sequential
          module up: Sequential
        method forward
          graph main(%x: f32[n, 8]) -> f32[n, 8] {
            %seen: i64[] = self.seen
            %add: i64[] = add(%seen, <n>)
            %down: f32[n, 2] = self.down(%x)
            %up: f32[n, 8] = self.up(%down)
            %sigmoid: f32[n, 8] = sigmoid(%up)
            %set_buffer: none = set_buffer("seen", %add)
            return %sigmoid
          }
        method decode
          graph main(%z: f32[n, 2]) -> f32[n, 8] {
            %up: f32[n, 8] = self.up(%z)
            %sigmoid: f32[n, 8] = sigmoid(%up)
            return %sigmoid
          }
        method encode
          graph main(%x: f32[n, 8]) -> f32[n, 2] {
            %seen: i64[] = self.seen
            %add: i64[] = add(%seen, <n>)
            %down: f32[n, 2] = self.down(%x)
            %set_buffer: none = set_buffer("seen", %add)
            return %down
          }

        module down
          module 0: Linear
          module 1: ReLU
          module 2: Linear
        method forward
          graph main(%x: f32[n, 8]) -> f32[n, 2] {
            %_0: f32[n, 4] = self.0(%x)
            %_1: f32[n, 4] = self.1(%_0)
            %_2: f32[n, 2] = self.2(%_1)
            return %_2
          }

        module down.0
          parameter bias: f32[4]
          parameter weight: f32[4, 8]
        method forward
          graph main(%x: f32[n, 8]) -> f32[n, 4] {
            %weight: f32[4, 8] = self.weight
            %bias: f32[4] = self.bias
            %linear: f32[n, 4] = linear(%x, %weight, bias=%bias)
            return %linear
          }

        module down.1
        method forward
          graph main(%_0: f32[n, 4]) -> f32[n, 4] {
            %result: f32[n, 4] = relu(%_0)
            return %result
          }

        module down.2
          parameter bias: f32[2]
          parameter weight: f32[2, 4]
        method forward
          graph main(%_1: f32[n, 4]) -> f32[n, 2] {
            %weight: f32[2, 4] = self.weight
            %bias: f32[2] = self.bias
            %linear_1: f32[n, 2] = linear(%_1, %weight, bias=%bias)
            return %linear_1
          }

        module up
          module 0: Linear
          module 1: Tanh
          module 2: Linear
        method forward
          graph main(%down: f32[n, 2]) -> f32[n, 8] {
            %_0: f32[n, 4] = self.0(%down)
            %_1: f32[n, 4] = self.1(%_0)
            %_2: f32[n, 8] = self.2(%_1)
            return %_2
          }

        module up.0
          parameter bias: f32[4]
          parameter weight: f32[4, 2]
        method forward
          graph main(%down: f32[n, 2]) -> f32[n, 4] {
            %weight: f32[4, 2] = self.weight
            %bias: f32[4] = self.bias
            %linear_2: f32[n, 4] = linear(%down, %weight, bias=%bias)
            return %linear_2
          }

        module up.1
        method forward
          graph main(%_0: f32[n, 4]) -> f32[n, 4] {
            %tanh: f32[n, 4] = tanh(%_0)
            return %tanh
          }

        module up.2
          parameter bias: f32[8]
          parameter weight: f32[8, 4]
        method forward
          graph main(%_1: f32[n, 4]) -> f32[n, 8] {
            %weight: f32[8, 4] = self.weight
            %bias: f32[8] = self.bias
            %linear_3: f32[n, 8] = linear(%_1, %weight, bias=%bias)
            return %linear_3
          }
    "#]]
    .assert_eq(&gm.dump());
}

#[test]
fn methods_survive_saving_and_torchscript() {
    let (gm, _) = autoencoder(true);
    let folder = std::env::temp_dir().join(format!("fx-methods-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (saved, script) = (folder.join("m.fx"), folder.join("m.pt"));
    fx::save(&gm, &saved).unwrap();
    gm.to_torchscript(&script).unwrap();
    let again = fx::load(&saved).unwrap();
    assert_eq!(again.dump(), gm.dump());
    let lowered = TorchScript::new(&script)
        .input("x", "f32[n, 8]")
        .and_method("encode")
        .input("x", "f32[n, 8]")
        .and_method("decode")
        .input("z", "f32[n, 2]")
        .load()
        .unwrap();
    let written = lowered.into_module().unwrap();
    let x = fx::randn([3, 8]);
    let expected = gm.method("encode").unwrap().call(std::slice::from_ref(&x)).unwrap();
    for other in [&again, &written] {
        other
            .method("encode")
            .unwrap()
            .call(std::slice::from_ref(&x))
            .unwrap()
            .all_close(&expected, 1e-6, 1e-6)
            .unwrap();
        assert_eq!(seen(other), 3);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn passes_and_engines_take_methods() {
    let (mut gm, _) = autoencoder(false);
    let x = fx::randn([3, 8]);
    let expected = gm.method("encode").unwrap().call(std::slice::from_ref(&x)).unwrap();
    gm.edit_method("encode", |gm| {
        fx::pass::CONST_FOLD.apply(gm)?;
        fx::pass::DEAD_CODE.apply(gm)?;
        gm.delete_unused();
        Ok(())
    })
    .unwrap();
    assert!(gm.lint().is_empty(), "what the other methods use stays");
    let program = gm.method("encode").unwrap().into_program(Engine::Fused).unwrap();
    program.call(std::slice::from_ref(&x)).unwrap().all_close(&expected, 1e-6, 1e-6).unwrap();
    let failed = gm.edit_method("decode", |_| Err(fx::err!(Check, "no")));
    assert!(failed.is_err() && gm.method("decode").is_ok());
    assert!(gm.call(&[x]).is_ok());
}

#[derive(fx::Module)]
struct Pair {
    down: nn::Linear,
    up: nn::Linear,
}

#[test]
fn traced_methods_become_one_module() {
    let model = Pair { down: nn::Linear::new(4, 2), up: nn::Linear::new(2, 4) };
    let traced = fx::jit_trace::trace_module(&model)
        .method("encode", |x: &Tensor| model.down.call(x).relu(), (fx::randn([3, 4]),))
        .method("forward", |x: &Tensor| model.up.call(&model.down.call(x).relu()), (fx::randn([3, 4]),))
        .build()
        .unwrap();
    let gm = traced.into_module().unwrap();
    let x = fx::randn([5, 4]);
    let z = gm.method("encode").unwrap().call(std::slice::from_ref(&x)).unwrap();
    gm.call(&[x]).unwrap().all_close(&model.up.call(&z), 1e-6, 1e-6).unwrap();
    assert_eq!(gm.methods().len(), 1);
}
