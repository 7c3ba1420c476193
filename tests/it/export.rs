//! Programs as TorchScript: the code that is written, and archives that are the same each time.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use fx::export::TorchScript;
use fx::prelude::*;
use fx::{Array, Attribute, GraphModule};

fn check(text: &str, expected: Expect) {
    let gm = GraphModule::new("main", fx::parse(text).unwrap());
    let code = TorchScript::new(&gm).code();
    expected.assert_eq(&code.unwrap_or_else(|error| error.to_string()));
}

#[test]
fn operands_are_positional_and_options_named() {
    check(
        "graph f(%x: f32[n, 3], %w: f32[4, 3]) -> f32[n, 2] {
  %y: f32[n, 4] = linear(%x, %w)
  %z: f32[n, 4] = maximum(%y, 0)
  %s: f32[n, 4] = softmax(%z, -1)
  %v: f32[n, 2, 2] = reshape(%s, [<n>, 2, 2])
  %m: f32[n, 2] = sum(%v, 2)
  return %m
}",
        expect![[r#"
            class Main(Module):
              __parameters__ = []
              __buffers__ = []
              training : bool
              def forward(self: __torch__.fx.Main,
                x: Tensor,
                w: Tensor) -> Tensor:
                y = torch.linear(x, w)
                z = torch.maximum(y, torch.scalar_tensor(0, dtype=6))
                s = torch.softmax(z, dim=-1)
                v = torch.reshape(s, shape=[torch.size(x, 0), 2, 2])
                m = torch.sum(v, [2], False)
                return m
        "#]],
    );
}

#[test]
fn branches_and_loops_are_written_in_place() {
    check(
        "graph f(%x: f32[3]) -> f32[3] {
  %s: f32[] = sum(%x)
  %p: bool[] = gt(%s, 0.0)
  %c: f32[3] = cond(%p, @then, @otherwise, [%x])
  %w: [f32[3]] = while_loop(@test, @body, [%c], [])
  %y: f32[3] = getitem(%w, 0)
  return %y
}
graph then(%x: f32[3]) -> f32[3] {
  %y: f32[3] = relu(%x)
  return %y
}
graph otherwise(%x: f32[3]) -> f32[3] {
  %y: f32[3] = neg(%x)
  return %y
}
graph test(%x: f32[3]) -> bool[] {
  %s: f32[] = sum(%x)
  %p: bool[] = lt(%s, 10.0)
  return %p
}
graph body(%x: f32[3]) -> [f32[3]] {
  %y: f32[3] = mul(%x, 2)
  return [%y]
}",
        expect![[r#"
            class Main(Module):
              __parameters__ = []
              __buffers__ = []
              training : bool
              def forward(self: __torch__.fx.Main,
                x: Tensor) -> Tensor:
                s = torch.sum(x)
                p = torch.gt(s, 0.)
                if bool(p):
                  y = torch.relu(x)
                  c = y
                else:
                  y_0 = torch.neg(x)
                  c = y_0
                c_0 = c
                w_0 = c_0
                s_0 = torch.sum(w_0)
                p_0 = torch.lt(s_0, 10.)
                go_on = bool(p_0)
                while go_on:
                  y_1 = torch.mul(w_0, 2)
                  next = [y_1]
                  w_0 = next[0]
                  s_1 = torch.sum(w_0)
                  p_1 = torch.lt(s_1, 10.)
                  go_on = bool(p_1)
                w = (w_0,)
                y_2 = w[0]
                return y_2
        "#]],
    );
}

#[test]
fn an_operation_without_operator_is_refused_by_node() {
    check(
        "graph f(%x: f32[1, 4, 3, 3]) -> f32[1, 4, 6, 6] {
  %y: f32[1, 4, 6, 6] = interpolate(%x, scale_factor=2.0, recompute_scale_factor=true)
  return %y
}",
        expect![[r#"
            PyTorch has no operator interpolate with recompute_scale_factor  in %y: f32[1, 4, 6, 6] = interpolate(%x, scale_factor=2.0, recompute_scale_factor=true)
              help: give the size instead of the factor"#]],
    );
}

#[test]
fn a_tensor_that_is_not_there_is_refused() {
    let text = "graph main(%x: f32[2]) -> f32[2] {
  %w: f32[2] = self.w
  %y: f32[2] = mul(%x, %w)
  return %y
}";
    let error = TorchScript::new(&GraphModule::new("net", fx::parse(text).unwrap())).code().unwrap_err();
    assert_eq!(error.message(), "net has no attribute \"w\"");
}

/// Returns a module with a tied parameter, a buffer that it updates, and names that are words of the language.
fn module() -> GraphModule {
    let text = "graph main(%print: f32[2], %torch: f32[2]) -> f32[2] {
  %a: f32[2] = self.layers.0.weight
  %b: f32[2] = self.layers.1.weight
  %count: i64[] = self.count
  %next: i64[] = add(%count, 1)
  %set: none = set_buffer(\"count\", %next)
  %sum: f32[2] = add(%a, %b)
  %y: f32[2] = mul(%sum, %print)
  %z: f32[2] = sub(%y, %torch)
  return %z
}";
    let mut gm = GraphModule::new("net", fx::parse(text).unwrap());
    let weight = Tensor::from(Array::from([1f32, 2.]));
    for name in ["layers.0.weight", "layers.1.weight"] {
        gm.set_attribute(name, Attribute::Parameter(Parameter::new(weight.clone()))).unwrap();
    }
    gm.set_attribute("count", Attribute::Buffer(Buffer::new(Tensor::from(Array::from(7i64))))).unwrap();
    gm
}

#[test]
fn paths_become_modules_and_ties_stay() {
    expect![[r#"
        class Module0(Module):
          __parameters__ = ["weight", ]
          __buffers__ = []
          weight : Tensor
          training : bool
        class Layers(Module):
          __parameters__ = []
          __buffers__ = []
          training : bool
          __annotations__["0"] = __torch__.fx.Module0
          __annotations__["1"] = __torch__.fx.Module0
        class Net(Module):
          __parameters__ = []
          __buffers__ = ["count", ]
          count : Tensor
          training : bool
          layers : __torch__.fx.Layers
          def forward(self: __torch__.fx.Net,
            print_0: Tensor,
            torch_0: Tensor) -> Tensor:
            a = getattr(self.layers, "0").weight
            b = getattr(self.layers, "1").weight
            count = self.count
            next = torch.add(count, 1)
            sum = torch.add(a, b)
            y = torch.mul(sum, print_0)
            z = torch.sub(y, torch_0)
            self.count = next
            return z
    "#]]
    .assert_eq(&TorchScript::new(&module()).code().unwrap());
    let path = std::env::temp_dir().join(format!("fx-export-{}.pt", std::process::id()));
    module().to_torchscript(&path).unwrap();
    let first = std::fs::read(&path).unwrap();
    module().to_torchscript(&path).unwrap();
    assert!(first == std::fs::read(&path).unwrap(), "the same module gives the same bytes");
    let program = fx::import::torchscript(&path).unwrap();
    let layers = program.root.get("layers").unwrap();
    let weight = |name: &str| {
        let layer = layers.to_object().unwrap().get(name).unwrap();
        layer.to_object().unwrap().get("weight").unwrap().to_tensor().unwrap().clone()
    };
    assert!(weight("0").shares_storage(&weight("1")) && weight("0").requires_grad());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn programs_of_pytorch_are_written_and_read_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/zoo");
    let out = std::env::temp_dir().join(format!("fx-export-zoo-{}.pt", std::process::id()));
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pt2"));
    paths.sort();
    let mut refused = Vec::new();
    for path in &paths {
        let gm = fx::import::pt2(path).unwrap();
        match gm.to_torchscript(&out) {
            Ok(()) => {
                fx::import::torchscript(&out).unwrap();
            }
            Err(error) => {
                refused.push(format!("{}: {}", path.file_name().unwrap().display(), error.message()))
            }
        }
    }
    std::fs::remove_file(out).unwrap();
    expect!["pytree.pt2: TorchScript takes no dictionary of values of several types"]
        .assert_eq(&refused.join("\n"));
}

/// The programs of tests/data/written, of which `tools/written_torchscript.py` made cases with PyTorch.
#[test]
fn archives_are_those_that_pytorch_ran() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/written");
    let mut n = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "fx") {
            continue;
        }
        let weights = Some(path.with_extension("safetensors")).filter(|weights| weights.exists());
        let gm = fx::program::open(&path, weights.as_deref()).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy();
        let written = std::env::temp_dir().join(format!("fx-export-{}-{name}.pt", std::process::id()));
        gm.to_torchscript(&written).unwrap();
        let (bytes, golden) =
            (std::fs::read(&written).unwrap(), std::fs::read(path.with_extension("pt")).unwrap());
        std::fs::remove_file(written).unwrap();
        assert!(bytes == golden, "{name}: run tools/written_torchscript.py and look at the difference");
        let engines = [fx::Engine::Eager, fx::Engine::Fused].map(Into::into);
        let checked = fx::script::check_case(path.with_extension("json"), &engines, &fx::registry());
        assert!(checked.passed() && checked.unlowered.is_none(), "{checked}");
        n += 1;
    }
    assert!(n >= 7, "{n}");
}

#[test]
fn debug_records_lead_to_the_lines_of_the_user() {
    let gm = fx::trace(|x: &Tensor| x.relu() * 2).input("x", "f32[n, 3]").build().unwrap();
    let path = std::env::temp_dir().join(format!("fx-export-{}-debug.pt", std::process::id()));
    gm.to_torchscript(&path).unwrap();
    let archive = fx::import::torchscript_archive(&path).unwrap();
    let file = &archive.code().unwrap()[0];
    let records = archive.debug_records(file);
    let at = |text: &str| records.locate(file.text.find(text).unwrap()).unwrap();
    for code in ["relu =", "mul ="] {
        assert!(at(code).to_string().starts_with("tests/it/export.rs:"), "{}", at(code));
    }
    let node = gm.graph().find("relu").and_then(|id| gm.graph().node(id).ok()).unwrap();
    assert_eq!(Some(at("relu =")), node.meta().source.as_ref());
    std::fs::remove_file(path).unwrap();
}
