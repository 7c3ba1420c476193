//! The virtual machine of TorchScript: what a round of a loop costs beside an operation in it.
//!
//! `cargo bench --bench script`; throughput is in rounds.
#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fx::script::AtenOperators;
use fx_script::ir;
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

criterion_group!(benches, script);
criterion_main!(benches);
