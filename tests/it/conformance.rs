//! The runner of operator reference cases tells right from wrong.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

use fx::check::{Engine, engines};
use fx::weights::save;
use fx::{Tensor, Value, conformance};

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn write(dir: &Path, name: &str, cases: &[String]) {
    let tensors = [
        ("a", Tensor::new([1f32, f32::NAN])),
        ("b", Tensor::new([2f32, 3.0])),
        ("sum", Tensor::new([3.00001f32, f32::NAN])),
        ("wrong", Tensor::new([3.1f32, f32::NAN])),
        ("int", Tensor::new([3i64, 0])),
    ];
    save(dir.join(format!("{name}.safetensors")), &tensors, &[]).unwrap();
    let text = format!(r#"{{"op": "{name}", "cases": [{}]}}"#, cases.join(", "));
    std::fs::write(dir.join(format!("{name}.json")), text).unwrap();
}

fn tensor(name: &str, dtype: &str) -> String {
    format!(r#"{{"tensor": "{name}", "dtype": "{dtype}", "shape": [2]}}"#)
}

fn case(args: &[&str], kwargs: &str, out: &str) -> String {
    format!(r#"{{"args": [{}], "kwargs": {{{kwargs}}}, "out": {out}}}"#, args.join(", "))
}

#[test]
fn right_cases_pass_and_wrong_ones_are_explained() {
    let scratch = Scratch(std::env::temp_dir().join(format!("fx-conformance-{}", std::process::id())));
    let dir = scratch.0.join("ops");
    std::fs::create_dir_all(&dir).unwrap();
    let (a, b, sum) = (tensor("a", "f32"), tensor("b", "f32"), tensor("sum", "f32"));
    let cases = [
        case(&[&a, &b], r#""alpha": 1, "device": "cpu""#, &sum),
        case(&[&a, &b], "", &tensor("wrong", "f32")),
        case(&[&a, &b], "", &tensor("int", "i64")),
        case(&[&a, &b], "", &format!(r#"{{"tuple": [{sum}]}}"#)),
        case(&[&a], r#""gamma": {"float": "-inf"}"#, &sum),
        case(&[&a, r#"{"dtype": "c64"}"#], "", &sum),
        case(&[&tensor("none", "f32")], "", &sum),
        case(&[&tensor("a", "i64")], "", &sum),
        "{}".to_owned(),
    ];
    write(&dir, "add", &cases);
    write(&dir, "nn.functional.no_such_op.variant", &[case(&[&a], "", &sum)]);

    let report = conformance::run(&scratch.0, &["add"]).unwrap();
    assert_eq!((report.passed(), report.failed()), (1, 8));
    let failures: Vec<String> = report.ops[0].failures.iter().map(ToString::to_string).collect();
    expect_test::expect![[r#"
        case 1: add(f32[2], f32[2]): expected 3.0999999046325684 at [0], got 3.0 (greatest difference 9.999990463256836e-2)
        case 2: add(f32[2], f32[2]): expected dtype i64, got f32
        case 3: add(f32[2], f32[2]): expected (f32[2],), got f32[2]
        case 4: add(f32[2], gamma=-inf): add has no parameter "gamma"   help: its schema is add(x: operand, y: operand, alpha: number = 1)
        case 5: add: unknown dtype "c64"   help: one of bool, u8, i8, i32, i64, f16, bf16, f32, f64
        case 6: add: there is no "none" in DIR/ops/add.safetensors   help: check the spelling
        case 7: add: tensor "a": expected "i64" [2], got f32[2]
        case 8: add: no list "args" in the case"#]].assert_eq(&failures.join("\n").replace(scratch.0.to_str().unwrap(), "DIR"));

    // An engine that is wrong, and those that are not.
    let wrong = Engine::new("wrong", |_| Ok(Some(Box::new(|_| Ok(Value::from(&Tensor::new([0f32, 1.0])))))));
    let run = |engines: &[Engine]| conformance::run_with(&dir, &["add"], engines, &mut |_, _, _| {});
    let report = run(&[wrong]).unwrap();
    assert_eq!(report.passed(), 0);
    let first = report.ops[0].failures[0].to_string();
    assert!(first.contains("add(f32[2], f32[2], alpha=1, device=\"cpu\"): wrong: expected 3"), "{first}");
    assert_eq!(run(&engines()).unwrap().passed(), 1);

    let report = conformance::run(&scratch.0, &["no_such*"]).unwrap();
    expect_test::expect![[r#"
        nn.functional.no_such_op.variant  0/1  case 0: nn.functional.no_such_op.variant(f32[2]): unknown operation "no_such_op"   help: check the spelling
        0 passed, 1 failed"#]].assert_eq(&report.to_string());
    assert!(conformance::run(&scratch.0, &["nothing"]).is_err());
    assert!(conformance::run(Path::new("/none"), &[]).is_err());
}

#[test]
fn operands_lie_in_memory_as_a_case_says() {
    let scratch = Scratch(std::env::temp_dir().join(format!("fx-conformance-order-{}", std::process::id())));
    std::fs::create_dir_all(&scratch.0).unwrap();
    let x = Tensor::from_vec((0..6).collect::<Vec<i64>>(), &[2, 3]);
    save(scratch.0.join("view.safetensors"), &[("x", x)], &[]).unwrap();
    let call = |order: &str| {
        let x = format!(r#"{{"tensor": "x", "dtype": "i64", "shape": [2, 3]{order}}}"#);
        let same = r#"{"tensor": "x", "dtype": "i64", "shape": [2, 3]}"#;
        format!(r#"{{"args": [{x}, [2, 3]], "kwargs": {{}}, "out": {same}}}"#)
    };
    let orders = ["", r#", "order": [1, 0]"#, r#", "order": [1, 2]"#, r#", "order": [0]"#];
    let cases = orders.map(call).join(", ");
    std::fs::write(scratch.0.join("view.json"), format!(r#"{{"op": "view", "cases": [{cases}]}}"#)).unwrap();
    let report = conformance::run(&scratch.0, &[]).unwrap();
    let failures: Vec<String> = report.ops[0].failures.iter().map(ToString::to_string).collect();
    expect_test::expect![[r#"
        case 2: view: [1, 2] is no order of axes
        case 3: view: expected 2 axes to permute i64[2, 3], got [0]"#]]
    .assert_eq(&failures.join("\n"));
}

/// The calls in `tests/data/ops`: some of PyTorch's own test inputs, and calls with special values.
fn carried() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ops")
}

fn run_on(only: &[&str], engines: &[Engine]) -> conformance::Report {
    conformance::run_with(&carried(), only, engines, &mut |_, _, _| {}).unwrap()
}

#[test]
fn operators_give_what_pytorch_gave() {
    let cheap: Vec<Engine> = engines().into_iter().filter(|engine| engine.name() != "native").collect();
    let report = run_on(&[], &cheap);
    assert_eq!(report.failed(), 0, "{report}");
    assert_eq!(report.ops.len(), OPERATORS);
}

/// The operators in `tests/data/ops`.
const OPERATORS: usize = 151;

/// Each call is a program that rustc compiles.
#[test]
fn native_code_gives_what_pytorch_gave() {
    let native: Vec<Engine> = engines().into_iter().filter(|engine| engine.name() == "native").collect();
    if native.is_empty() {
        return crate::skipped("native code was not compared with PyTorch", "install rustc");
    }
    let report = run_on(&["logit", "logaddexp2", "special.entr", "softmax", "nn.functional.elu"], &native);
    assert_eq!(report.failed(), 0, "{report}");
}
