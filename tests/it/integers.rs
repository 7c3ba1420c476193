//! Traced functions whose arguments are integers, such as a position: each is a symbol of the graph.

use expect_test::expect;
use fx::import::TorchScript;
use fx::prelude::*;
use fx::torchscript::load::Session;
use fx::{Arg, CrateOptions, Engine, GraphModule, Passes, Symbol, Value, pass, torchscript};

use crate::standalone::reproduces;

/// A step with a table of so many rows: some of them from a position on.
fn step(table: &Tensor, at: Dim) -> Tensor {
    let rows = table.narrow(0, at.clone(), 3);
    rows.exp() * 2.0 + table.select(0, &at + 2) + table.slice(0, (), &at + 1, 1).sum(0, true)
}

fn traced() -> GraphModule {
    fx::trace(step).input("x", "f32[n, 4]").input("y", "<at>").build().unwrap()
}

fn table(n: usize) -> Tensor {
    Tensor::from_vec((0..n * 4).map(|i| (i % 7) as f32 * 0.25 - 0.5).collect::<Vec<f32>>(), &[n, 4])
}

fn args(n: usize, at: i64) -> [Value; 2] {
    [Arg::Leaf(table(n)), Arg::Int(at)]
}

/// Sizes of the table, and positions.
const CALLS: [(usize, i64); 5] = [(9, 2), (9, 6), (3, 0), (40, 31), (40, 3)];

#[test]
fn an_integer_is_a_symbol_of_the_graph() {
    let gm = traced();
    let text = gm.graph().to_string();
    expect![[r#"
        graph main(%x: f32[n, 4], %y: <at>) -> f32[3, 4] {
          %narrow: f32[3, 4] = %x.narrow(0, <at>, 3)
          %exp: f32[3, 4] = %narrow.exp()
          %mul: f32[3, 4] = mul(%exp, 2.0)
          %select: f32[4] = %x.select(0, <at + 2>)
          %add: f32[3, 4] = add(%mul, %select)
          %slice_1: f32[min(at + 1, n), 4] = %x.slice(end=<at + 1>)
          %sum: f32[1, 4] = %slice_1.sum(dim=0, keepdim=true)
          %add_1: f32[3, 4] = add(%add, %sum)
          return %add_1
        }
    "#]]
    .assert_eq(&text);
    assert_eq!(fx::parse(&text).unwrap().to_string(), text);
    for (n, at) in CALLS {
        let got: Tensor = gm.run((table(n), at)).unwrap();
        assert!(got.bits_eq(&step(&table(n), Dim::new(at))));
    }
}

#[test]
fn every_engine_takes_an_integer() {
    let gm = traced();
    let mut passed = gm.clone();
    Passes::new().add(pass::CSE).add(pass::DEAD_CODE).run(&mut passed).unwrap();
    for engine in [Engine::Fused, Engine::Native] {
        for gm in [&gm, &passed] {
            let program = gm.compile(engine).unwrap();
            for (n, at) in CALLS {
                let got = program.call_values(&args(n, at)).unwrap();
                got.leaf().unwrap().all_close(&step(&table(n), Dim::new(at)), 1e-6, 1e-6).unwrap();
            }
        }
    }
}

#[test]
fn an_integer_that_does_not_fit_is_an_error() {
    let gm = traced();
    let program = gm.compile(Engine::Fused).unwrap();
    let mut told = Vec::new();
    let table = Arg::Leaf(table(5));
    for at in [Arg::Int(3), Arg::Int(-1), table.clone(), Arg::Float(1.0), Arg::None] {
        for result in
            [program.call_values(&[table.clone(), at.clone()]), gm.call_values(&[table.clone(), at])]
        {
            told.push(result.unwrap_err().message().to_owned());
        }
    }
    let builder = || fx::trace(step).input("x", "f32[n, 4]");
    told.push(builder().build().unwrap_err().message().to_owned());
    let bounded = || builder().input("y", Symbol::new("at")).dim("at", 1, Some(2));
    told.push(bounded().build().unwrap().call_values(&args(9, 3)).unwrap_err().message().to_owned());
    let fixed = builder().constant("y", 2).build().unwrap();
    told.push(fixed.call_values(&args(9, 3)).unwrap_err().message().to_owned());
    assert!(fixed.call_values(&args(9, 2)).is_ok());
    expect![[r#"
        3 positions from 3 are out of range for axis 0 of f32[5, 4]
        3 positions from 3 are out of range for axis 0 of f32[5, 4]
        argument "y": at is -1, outside of its range 0..
        argument "y": at is -1, outside of its range 0..
        argument "y": expected an integer, got f32[5, 4]
        argument "y": expected an integer, got f32[5, 4]
        argument "y": expected an integer, got a float
        argument "y": expected an integer, got a float
        argument "y": expected <at>, got none
        argument "y": expected <at>, got none
        argument "y": the value of an integer is not known before tracing
        argument "y": at is 3, outside of its range 1..=2
        argument "y": the graph was specialised to 2, got 3"#]]
    .assert_eq(&told.join("\n"));
}

#[test]
fn a_crate_takes_an_integer() {
    let options = CALLS.iter().fold(CrateOptions::new(), |options, (n, at)| options.record(&args(*n, *at)));
    reproduces(&traced(), "integers", options);
    // Made for one value, the integer is still an argument.
    let gm = traced();
    let dir = reproduces(&gm, "one_integer", CrateOptions::new().record(&args(7, 2)).fixed());
    let model = std::fs::read_to_string(dir.join("src/model.rs")).unwrap();
    assert!(model.contains("return Err(Error::Sizes(\"y is not 2\"))"), "{model}");
}

#[test]
fn an_integer_of_a_crate_may_be_a_size_or_begin_above_0() {
    let step =
        |x: &Tensor, n: Dim, at: Dim| x.select(0, &at - 1) * 2.0 + x.narrow(0, &n - 1, 1).sum(0, false);
    let gm = fx::trace(step).input("x", "f32[n, 2]").input("y", "<n>").input("z", "<at>").dim("at", 1, None);
    // Its own samples are within the ranges.
    let dir = reproduces(&gm.build().unwrap(), "equal_integers", CrateOptions::new());
    let test = r#"
        use equal_integers::{Model, Tensor};

        #[test]
        fn fails() {
            let mut model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/model.safetensors")).unwrap();
            let mut call = |n, at| model.forward(Tensor::new([3, 2], &[1.0; 6]), n, at).map(|_| ()).map_err(|e| e.to_string());
            assert_eq!(call(3, 3), Ok(()));
            assert!(call(2, 3).unwrap_err().ends_with("y is not n"));
            assert!(call(3, 0).unwrap_err().contains("z is not from 1 to"));
            assert!(call(3, 4).unwrap_err().ends_with("is negative"));
        }
    "#;
    std::fs::write(dir.join("tests/fails.rs"), test).unwrap();
    assert!(crate::standalone::cargo(&dir, &["test"]).contains("fails ... ok"));
}

#[test]
fn a_saved_program_keeps_its_integer() {
    let gm = traced();
    let path = std::env::temp_dir().join(format!("fx-integers-{}.fx", std::process::id()));
    fx::save(&gm, &path).unwrap();
    let loaded = fx::load(&path);
    std::fs::remove_file(&path).unwrap();
    let got = loaded.unwrap().call_values(&args(9, 4)).unwrap();
    assert!(got.leaf().unwrap().bits_eq(&step(&table(9), Dim::new(4))));
}

#[test]
fn an_archive_takes_an_integer() {
    let path = std::env::temp_dir().join(format!("fx-integers-{}.pt", std::process::id()));
    traced().to_torchscript(&path).unwrap();
    let (loaded, again) = (fx::import::torchscript(&path), fx::import::torchscript(&path));
    std::fs::remove_file(&path).unwrap();
    let lowered = TorchScript::from_program(again.unwrap()).input("x", "f32[n, 4]").input("y", "<at>");
    let gm = lowered.load().unwrap().into_module().unwrap();
    assert!(gm.graph().to_string().contains("%y: <at>"), "{}", gm.graph());
    for (n, at) in CALLS {
        let got = gm.call_values(&args(n, at)).unwrap();
        assert!(got.leaf().unwrap().bits_eq(&step(&table(n), Dim::new(at))));
    }
    let mut session = Session::new(loaded.unwrap(), &fx::script::AtenOperators::new(fx::registry())).unwrap();
    let args = vec![torchscript::value::Value::of(&table(9)).unwrap(), torchscript::value::Value::Int(4)];
    let got: Tensor = session.call("forward", args, vec![]).unwrap().to().unwrap();
    assert!(got.bits_eq(&step(&table(9), Dim::new(4))));
}
