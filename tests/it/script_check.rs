//! TorchScript cases of PyTorch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use expect_test::expect;
use fx::__test::Case;
use fx::Arg;
use fx::prelude::*;
use fx::script::{AtenOperators, Runtime, Way, cases, check_folder};
use fx::torchscript::load::{Program, Session};
use fx::torchscript::value::Value;
use fx::{Engine, Result};

/// Runs the cases of the repository, or of a folder that `FX_TORCHSCRIPT_CASES` names.
#[test]
fn cases_give_the_results_of_pytorch() {
    let folder = std::env::var_os("FX_TORCHSCRIPT_CASES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript"), PathBuf::from);
    let runtimes = [Engine::Eager.into(), Engine::Fused.into(), Runtime::Compile, Runtime::Pure];
    let report = check_folder(folder, &runtimes, &mut |_, _, _| {}).unwrap();
    assert!(report.passed() > 0 && report.failed() == 0, "{report}");
    assert!(report.programs.iter().any(|program| program.runs.iter().any(|(way, _)| *way == Way::Text)));
}

/// silero_vad as its authors ship it: 30 windows at both sampling rates, with the state between calls.
#[test]
fn shipped_archives_give_the_results_of_pytorch() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/shipped");
    let report = check_folder(folder, &[Engine::Eager.into()], &mut |_, _, _| {}).unwrap();
    assert!(report.passed() == 1 && report.failed() == 0, "{report}");
}

/// The detector makes its state in its first call: before, its sizes are unknown; after, the method is a graph.
#[test]
fn a_method_becomes_a_graph_once_a_call_has_made_its_state() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/shipped/silero_vad.pt");
    let operators = AtenOperators::new(fx::registry());
    let window = |i: u64| {
        let generator = fx::Generator::seeded(i);
        fx::with_generator(&generator, || fx::randn([1, 512])) * 0.1
    };
    for engine in [Engine::Eager, Engine::Fused] {
        for rate in [16_000, 8_000] {
            let size = if rate == 16_000 { 512 } else { 256 };
            let part = |i: u64| window(i).narrow(1, 0, size);
            let called = || {
                let mut session = Session::new(fx::import::torchscript(&path).unwrap(), &operators).unwrap();
                let args = vec![Value::of(&part(0)).unwrap(), Value::Int(rate)];
                session.call("forward", args, vec![]).unwrap();
                session
            };
            let mut session = called();
            let lowered = fx::import::TorchScript::from_program(called().into_program())
                .input("x", &*format!("f32[1, {size}]"))
                .constant("sr", rate)
                .load()
                .unwrap();
            let compiled = lowered.into_module().unwrap().compile(engine).unwrap();
            for i in 1..10 {
                let args = vec![Value::of(&part(i)).unwrap(), Value::Int(rate)];
                let wanted: Tensor = session.call("forward", args, vec![]).unwrap().to().unwrap();
                let got = compiled.call_values(&[Arg::Leaf(part(i)), Arg::Int(rate)]).unwrap();
                let Arg::Leaf(got) = got else { panic!("{got:?}") };
                got.all_close(&wanted, 1e-5, 1e-6).unwrap();
            }
        }
    }
}

#[test]
fn frozen_programs_give_the_results_of_pytorch() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript");
    let operators = AtenOperators::new(fx::registry());
    let mut outcomes: BTreeMap<String, String> = BTreeMap::new();
    for path in cases(folder).unwrap() {
        let case = Case::open(&path).unwrap();
        let Ok(program) = fx::import::torchscript(case.archive()) else { continue };
        if case.must_refuse() || !program.pending.is_empty() {
            continue;
        }
        let frozen = || -> Result<Program> {
            let mut program = fx::import::torchscript(case.archive())?;
            if matches!(program.root.get("training"), Ok(Value::Bool(true))) {
                assert!(program.freeze(&[]).unwrap_err().message().contains("training mode"));
                program.root.set("training", Value::Bool(false))?;
            }
            program.freeze(&case.methods().into_iter().collect::<Vec<_>>())?;
            Ok(program)
        };
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let outcome = case.check(&program, &|| Session::new(frozen()?, &operators));
        if let Err(error) = outcome {
            outcomes.insert(name, error.to_string());
        }
    }
    assert_eq!(outcomes, BTreeMap::new());
}

#[test]
fn freezing_leaves_what_is_used_and_changed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript");
    let frozen = |name: &str, keep: &[&str]| {
        let mut program = fx::import::torchscript(folder.join(name)).unwrap();
        program.freeze(keep).unwrap();
        // Only modules and attributes are of interest here.
        program.to_string().split("\nclass ").next().unwrap().to_owned()
    };
    expect![[r#"
        Tied
          view: Tensor, final = f32[3, 6]
          col: Tensor, final = f32[11]
          t: Tensor, final = f32[6, 11]
          e: torch.nn.modules.sparse.Embedding
            weight: Tensor, final = f32[11, 6]
          o: torch.nn.modules.linear.Linear
            weight: Tensor, final = f32[11, 6]
            bias: NoneType, final = None
          l2: torch.nn.modules.linear.Linear
            weight: Tensor, final = f32[11, 6]
            bias: NoneType, final = None
    "#]]
    .assert_eq(&frozen("sc_tied.pt", &[]));
    expect![[r#"
        Counter
          count: Tensor, buffer = i64[]
          mean: Tensor, buffer = f32[3]
          calls: int = 0
          log: List[int] = []
          last: Optional[Tensor] = None
          l: torch.nn.modules.linear.Linear
            weight: Tensor, final = f32[3, 3]
            bias: Tensor, final = f32[3]
    "#]]
    .assert_eq(&frozen("sc_state.pt", &[]));
    expect![[r#"
        Counter
          count: Tensor, buffer = i64[]
          mean: Tensor, buffer = f32[3]
          calls: int = 0
          log: List[int] = []
          last: Optional[Tensor] = None
          l: torch.nn.modules.linear.Linear
            weight: Tensor, final = f32[3, 3]
            bias: Tensor, final = f32[3]
    "#]]
    .assert_eq(&frozen("sc_state.pt", &["stats", "last"]));
    let mut program = fx::import::torchscript(folder.join("sc_state.pt")).unwrap();
    expect![[r#"
        the program has no method or attribute "stat" to keep
          help: did you mean "stats"?"#]]
    .assert_eq(&program.freeze(&["stat"]).unwrap_err().to_string());
}

/// The graphs of scripts compute with numbers of the host: compiled functions that call them give what they give,
/// again and again.
#[test]
fn graphs_of_scripts_are_compiled_functions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript");
    let engines = ["compile", "pure"].map(|name| fx::program::engine(name).unwrap());
    let compared = std::cell::Cell::new(0);
    for case in cases(folder).unwrap() {
        let compare = |gm: &fx::GraphModule, args: &[fx::Value]| {
            let Ok(expected) = gm.clone().evaluate(args) else { return };
            for engine in &engines {
                let got = engine.prepare(gm).unwrap().unwrap()(args);
                let got =
                    got.unwrap_or_else(|error| panic!("{}: {}: {error}", case.display(), engine.name()));
                let is_close = |a: &Tensor, b: &Tensor| a.all_close(b, 1e-4, 1e-5).is_ok();
                assert!(got.eq_by(&expected, &is_close), "{}: {}", case.display(), engine.name());
                compared.set(compared.get() + 1);
            }
        };
        _ = fx::script::graphs(&case, &compare);
    }
    assert!(compared.get() > 100, "{}", compared.get());
}
