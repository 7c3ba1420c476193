use std::collections::BTreeMap;

use expect_test::expect;
use fx_script::value::Value;

use super::*;

/// Runs the cases of the repository, or of a folder that `FX_TORCHSCRIPT_CASES` names.
#[test]
fn cases_give_the_results_of_pytorch() {
    let folder = std::env::var_os("FX_TORCHSCRIPT_CASES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript"), PathBuf::from);
    let report = check_folder(folder, &[Engine::Eager, Engine::Fused], &mut |_, _, _| {}).unwrap();
    assert!(report.passed() > 0 && report.failed() == 0, "{report}");
    assert!(report.programs.iter().any(|program| program.runs.iter().any(|(way, _)| *way == Way::Text)));
}

/// silero_vad as its authors ship it: 30 windows at both sampling rates, with the state between calls.
#[test]
fn shipped_archives_give_the_results_of_pytorch() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/shipped");
    let report = check_folder(folder, &[Engine::Eager], &mut |_, _, _| {}).unwrap();
    assert!(report.passed() == 1 && report.failed() == 0, "{report}");
}

#[test]
fn frozen_programs_give_the_results_of_pytorch() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torchscript");
    let operators = AtenOperators::new(crate::registry());
    let mut outcomes: BTreeMap<String, String> = BTreeMap::new();
    for path in cases(folder).unwrap() {
        let case = Case::open(&path).unwrap();
        let Ok(program) = crate::import::torchscript(case.archive()) else { continue };
        if case.must_refuse() || !program.pending.is_empty() {
            continue;
        }
        let frozen = || -> Result<Program> {
            let mut program = crate::import::torchscript(case.archive())?;
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
        let mut program = crate::import::torchscript(folder.join(name)).unwrap();
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
    let mut program = crate::import::torchscript(folder.join("sc_state.pt")).unwrap();
    expect![[r#"
        the program has no method or attribute "stat" to keep
          help: did you mean "stats"?"#]]
    .assert_eq(&program.freeze(&["stat"]).unwrap_err().to_string());
}
