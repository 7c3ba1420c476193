//! TorchScript: rounds of loops with one operation each; archives that are loaded, called for the first time, and
//! called again.
//!
//! `cargo bench --bench script`; the throughput of loops is in rounds. `FX_ARCHIVES` names further archives to
//! load, with colons between the paths. `script_pytorch.py` measures the same in PyTorch, and writes a ResNet.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use fx::import::TorchScript;
use fx::script::AtenOperators;
use fx::{Compile, Engine};
use fx_script::ir;
use fx_script::load::Session;
use fx_script::value::Value;
use fx_script::vm::{Environment, Executable, Limits, Machine};

const ROUNDS: i64 = 10_000;

/// A loop whose rounds append to a list.
const APPEND: &str = r#"func "main"(%n.0: int, %x.1: List[int]) -> List[int] {
  %2: bool = constant true()
  loop(%n.0, %2) {(%i.3: int)
    %4: List[int] = aten::append.t(%x.1, %i.3)
    yield %2
  }
  return %x.1
}
"#;

/// A loop whose rounds take a row of a tensor and add it to a sum.
const ROWS: &str = r#"func "main"(%n.0: int, %x.1: Tensor) -> Tensor {
  %2: bool = constant true()
  %3: int = constant 0()
  %4: int = constant 1()
  %5: Tensor = aten::select.int(%x.1, %3, %3)
  %6: Tensor = loop(%n.0, %2, %5) {(%i.7: int, %acc.8: Tensor)
    %9: Tensor = aten::select.int(%x.1, %3, %i.7)
    %10: Tensor = aten::add.Tensor(%acc.8, %9, %4)
    yield %2, %10
  }
  return %6
}
"#;

/// A loop whose rounds run one operation on the carried value.
fn looped(ty: &str, constants: &str, operation: &str) -> String {
    format!(
        r#"func "main"(%n.0: int, %x.1: {ty}) -> {ty} {{
  %2: bool = constant true()
{constants}
  %4: {ty} = loop(%n.0, %2, %x.1) {{(%i.5: int, %acc.6: {ty})
    %7: {ty} = {operation}
    yield %2, %7
  }}
  return %4
}}
"#
    )
}

fn script(c: &mut Criterion) {
    let one = "  %3: int = constant 1()";
    let cases = [
        ("int_add", looped("int", one, "aten::add.int(%acc.6, %i.5)"), Value::Int(0)),
        ("float_mul", looped("float", one, "aten::mul.float(%acc.6, %x.1)"), Value::Float(1.5)),
        ("list_append", APPEND.to_owned(), Value::list(Vec::new())),
        (
            "tensor_add",
            looped("Tensor", one, "aten::add.Scalar(%acc.6, %3, %3)"),
            Value::tensor(fx::Array::scalar(1.0f32)).expect("one element fits into memory"),
        ),
        ("tensor_rows", ROWS.to_owned(), {
            let rows = fx::Array::zeros(fx::DType::F32, &[ROUNDS as usize, 8]);
            rows.and_then(Value::tensor).expect("the rows fit into memory")
        }),
    ];
    let mut group = c.benchmark_group("script");
    group.throughput(Throughput::Elements(ROUNDS as u64));
    for (name, text, start) in cases {
        let program = ir::parse(&text).expect("the text is a program");
        let operators = AtenOperators::new(fx::registry());
        let executable = Executable::new(&program, &Environment::default(), &operators)
            .expect("the program names nothing");
        group.bench_function(name, |b| {
            b.iter(|| {
                let start = match &start {
                    Value::List(_) => Value::list(Vec::new()),
                    other => other.clone(),
                };
                let mut machine = Machine::new(&executable, Limits::default());
                machine.call("main", vec![Value::Int(ROUNDS), start]).expect("the program runs")
            });
        });
    }
    group.finish();
}

/// The voice activity detector silero_vad, as its authors ship it. It keeps its state between calls.
fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/shipped/silero_vad.pt")
}

/// A call of the detector on a window of 32 ms.
fn detect(session: &mut Session) -> Value {
    let window = fx::Array::zeros(fx::DType::F32, &[1, 512]).expect("a window fits into memory");
    let window = Value::tensor(window).expect("a window is a tensor");
    session.call("forward", vec![window, Value::Int(16_000)], vec![]).expect("the program runs")
}

fn archives(c: &mut Criterion) {
    let mut group = c.benchmark_group("archive");
    let more = std::env::var_os("FX_ARCHIVES").unwrap_or_default();
    let more = std::env::split_paths(&more).filter(|path| !path.as_os_str().is_empty());
    for path in std::iter::once(shipped()).chain(more) {
        let name = path.file_stem().expect("an archive has a name").to_string_lossy().into_owned();
        group.bench_function(format!("load/{name}"), |b| {
            b.iter(|| fx::import::torchscript(&path).expect("the archive is a program"));
        });
    }
    let session = || {
        let program = fx::import::torchscript(shipped()).expect("the archive is a program");
        Session::new(program, &AtenOperators::new(fx::registry())).expect("fx has its operators")
    };
    group.bench_function("first_call", |b| {
        b.iter_batched_ref(session, detect, BatchSize::PerIteration);
    });
    let mut warm = session();
    for _ in 0..100 {
        detect(&mut warm);
    }
    group.bench_function("later_call", |b| b.iter(|| detect(&mut warm)));

    // The first call has made the state, whose sizes the graph then has.
    let lowered = TorchScript::from_program(warm.into_program())
        .input("x", "f32[1, 512]")
        .constant("sr", 16_000)
        .load()
        .and_then(|lowered| lowered.into_module())
        .expect("the method is a graph");
    for engine in [Engine::Eager, Engine::Fused] {
        let compiled = lowered.compile(engine).expect("the engine takes the graph");
        let window = fx::zeros([1, 512]);
        group.bench_function(format!("lowered_call/{engine:?}"), |b| {
            let args = [fx::Value::from(&window), fx::Arg::Int(16_000)];
            b.iter(|| compiled.call_values(&args).expect("the graph runs"));
        });
    }
    group.finish();
}

criterion_group!(benches, script, archives);
criterion_main!(benches);
