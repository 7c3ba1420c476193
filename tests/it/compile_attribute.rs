//! Functions with `#[fx::compile]`, as a user writes them.

use std::sync::atomic::{AtomicUsize, Ordering};

use fx::prelude::*;

/// Halves until all is small.
#[fx::compile]
fn settle(x: &Tensor, rate: f64) -> fx::Result<Tensor> {
    let mut x = x.clone();
    while x.abs().max().item::<f32>()? > 1.0 {
        x *= rate;
    }
    Ok(x + 1.0)
}

#[derive(Tree, Clone)]
struct State {
    mean: Tensor,
    n: i64,
}

static RUNS: AtomicUsize = AtomicUsize::new(0);

fn ran() {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

#[fx::compile(pure)]
fn update(state: State, xs: &[Tensor], mask: Option<&Tensor>, mode: &str) -> (State, Tensor) {
    ran();
    let mut sum = xs[0].clone();
    for x in &xs[1..] {
        sum += x;
    }
    if let Some(mask) = mask {
        sum *= mask;
    }
    let sum = if mode == "half" { sum * 0.5 } else { sum };
    (State { mean: &state.mean * 0.9 + &sum * 0.1, n: state.n }, sum)
}

#[fx::compile(whole)]
fn whole(x: &Tensor) -> Tensor {
    if x.sum((), false).gt(0.0).to_bool().unwrap_or(false) { x * 2.0 } else { x - 1.0 }
}

#[fx::compile(backend = "eager")]
fn fact(n: i64, x: &Tensor) -> Tensor {
    if n <= 1 { x.clone() } else { fact(n - 1, x) * n }
}

#[test]
fn names_of_arguments_and_of_the_function_are_in_the_report() {
    let x = Tensor::new([8.0f32, -2.0]);
    assert_eq!(settle(&x, 0.5).unwrap().to_vec::<f32>().unwrap(), [2.0, 0.75]);
    let compiled = settle::compiled().counters().compiled;
    assert_eq!(settle(&Tensor::new([64.0f32, 1.0]), 0.5).unwrap().numel().unwrap(), 2);
    assert_eq!(settle::compiled().counters().compiled, compiled);
    let told = settle::compiled().explain();
    assert_eq!(told.name, "settle");
    assert!(
        told.at.as_ref().is_some_and(|at| at.to_string().starts_with("tests/it/compile_attribute.rs:8:"))
    );
    assert!(told.segments[0].inputs[0].starts_with("x: f32[2]"), "{told}");
    let error = settle(&Tensor::new(["a"; 0].map(|_| 0.0f32)), 0.5).unwrap_err();
    assert!(error.source_loc().is_some_and(|at| at.file().ends_with("compile_attribute.rs")), "{error}");
}

#[test]
fn borrowed_optional_and_structured_arguments_replay() {
    let x = || Tensor::new([1.0f32, 2.0]);
    let mut state = State { mean: Tensor::new([0.0f32, 0.0]), n: 7 };
    for _ in 0..10 {
        let (new, sum) = update(state, &[x(), x()], Some(&x()), "half");
        assert_eq!(sum.to_vec::<f32>().unwrap(), [1.0, 4.0]);
        state = new;
    }
    assert_eq!((RUNS.load(Ordering::Relaxed), state.n), (2, 7));
    let (_, sum) = update(state.clone(), &[x()], None, "");
    assert_eq!(sum.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(RUNS.load(Ordering::Relaxed), 3);
    assert_eq!(update::compiled().explain().paths.len(), 2);
}

#[test]
fn a_read_in_a_whole_function_is_an_error_that_the_result_carries() {
    let error = whole(&Tensor::new([1.0f32])).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("C10") && error.contains("compile_attribute.rs"), "{error}");
}

#[test]
fn compiled_functions_call_themselves_and_are_traced_through() {
    let x = Tensor::new([1.0f32, 2.0]);
    assert_eq!(fact(5, &x).to_vec::<f32>().unwrap(), [120.0, 240.0]);
    assert_eq!(fact::compiled().explain().segments.len(), 1);
    let gm = fx::symbolic_trace(|x: &Tensor| fact(3, x)).unwrap();
    assert_eq!(gm.call(&[x]).unwrap().to_vec::<f32>().unwrap(), [6.0, 12.0]);
}

/// Runs a test of this file by itself, with a variable of the environment.
fn run_with(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([&format!("compile_attribute::{test}"), "--exact", "--nocapture", "--test-threads=1"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (output.status.success(), text)
}

const REPORT: &str = "names_of_arguments_and_of_the_function_are_in_the_report";
const REPLAY: &str = "borrowed_optional_and_structured_arguments_replay";

#[test]
fn a_log_has_a_line_for_each_miss_and_none_for_hits() {
    let (ok, text) = run_with(REPORT, &[("FX_LOG", "misses")]);
    assert!(ok, "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("[misses] settle: #")).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].ends_with("[misses] settle: #1 first call -> recorded s0"), "{text}");
    assert!(!text.contains("[graphs]"), "{text}");

    let (ok, text) = run_with(REPLAY, &[("FX_LOG", "graphs,guards,kernels,times")]);
    assert!(ok, "{text}");
    assert!(text.contains("[guards] update: ("), "{text}");
    assert!(text.contains("[graphs] update: s0") && text.contains("graph main("), "{text}");
    assert!(text.contains("[times] update: s0 graph ") && text.contains("[kernels] update: s0"), "{text}");

    let (ok, text) = run_with(REPORT, &[("FX_LOG", "mises")]);
    assert!(!ok && text.contains("there is no stage \"mises\"") && text.contains("misses, guards"), "{text}");
}

#[test]
fn a_trace_folder_has_lines_and_a_page() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_trace");
    let folder_text = folder.to_str().unwrap();
    for test in [REPORT, REPLAY] {
        let (ok, text) = run_with(test, &[("FX_TRACE", folder_text)]);
        assert!(ok, "{text}");
    }
    let lines = std::fs::read_to_string(folder.join("trace.jsonl")).unwrap();
    let page = std::fs::read_to_string(folder.join("index.html")).unwrap();
    let events: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    assert_eq!((count("path"), count("miss"), count("compiled")), (2, 2, 2), "{lines}");
    assert!(events.iter().all(|event| event["function"] == "update" && event["version"] == 1));
    assert_eq!(page.matches("class=\"event\">{").count(), events.len());
    // A report of the lines is the same page.
    assert_eq!(fx::compile::report_page(&lines).unwrap(), page);
    // The page takes nothing from elsewhere.
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains(" src="), "{page}");

    let (ok, text) = run_with(REPORT, &[("FX_TRACE", "/dev/null/folder")]);
    assert!(!ok && text.contains("FX_TRACE=/dev/null/folder"), "{text}");
}

#[test]
fn names_of_programs_stay_text_in_a_page() {
    let line = r#"{"version":1,"function":"</script><script>alert(1)</script>","compiled_at":"a.rs:1:1","event":"miss"}"#;
    let page = fx::compile::report_page(line).unwrap();
    assert!(!page.contains("<script>alert"), "{page}");
    for (text, why) in [
        ("{", "line 1 is no event of a compiled function: EOF"),
        ("\n{\"event\":\"miss\"}", "line 2 is no event of a compiled function: it has no event, function"),
        (&line.replace(":1,", ":9,"), "version 1 is known, got Some(9)"),
    ] {
        let error = fx::compile::report_page(text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
