//! Calls that the declared types of a graph refuse: whatever runs it does, with the same message and a line of
//! the user.

use fx::executor::{Executor, FusionStrategy};
use fx::prelude::*;
use fx::{Arg, DType, Engine, GraphModule, Value, compile};

/// A graph, and calls by the sizes of its arguments; an argument without axes is the integer.
struct Case {
    gm: GraphModule,
    calls: Vec<Vec<Value>>,
    /// Whether several sizes may be the one that does not fit: an error names one of them.
    is_open: bool,
}

fn filled(shape: &[usize]) -> Value {
    let n: usize = shape.iter().product();
    Value::from(&Tensor::from_vec((0..n).map(|i| (i % 7) as f32 * 0.25 - 0.5).collect::<Vec<f32>>(), shape))
}

fn tensors(calls: &[&[&[usize]]]) -> Vec<Vec<Value>> {
    calls.iter().map(|call| call.iter().map(|shape| filled(shape)).collect()).collect()
}

fn total(x: &Tensor, y: &Tensor) -> Tensor {
    x.sum((), false) + y.sum((), false) * 2.0
}

fn cases() -> Vec<Case> {
    let pair = |x: &str, y: &str| fx::trace(total).input("x", x).input("y", y);
    let ranged = fx::trace(|x: &Tensor| x.exp() * x.dim(0)).input("x", "f32[n, 2]");
    let with_integer = fx::trace(|x: &Tensor, at: fx::Dim| x.narrow(0, 0, at).exp());
    let three = |x: &Tensor, y: &Tensor, z: &Tensor| total(x, y) + z.sum((), false);
    let nested = |x: (Tensor, Tensor)| total(&x.0, &x.1);
    vec![
        Case {
            is_open: false,
            gm: ranged.dim("n", 2, Some(4)).build().unwrap(),
            calls: tensors(&[
                &[&[2, 2]],
                &[&[3, 2]],
                &[&[5, 2]],
                &[&[4, 2]],
                &[&[1, 2]],
                &[&[0, 2]],
                &[&[3, 1]],
                &[&[3]],
            ]),
        },
        Case {
            is_open: false,
            gm: pair("f32[n]", "f32[n]").build().unwrap(),
            calls: tensors(&[
                &[&[2], &[2]],
                &[&[3], &[3]],
                &[&[4], &[4]],
                &[&[4], &[5]],
                &[&[1], &[4]],
                &[&[6], &[6]],
            ]),
        },
        Case {
            is_open: false,
            gm: pair("f32[n, m]", "f32[n + 1]").build().unwrap(),
            calls: tensors(&[
                &[&[2, 3], &[3]],
                &[&[3, 3], &[4]],
                &[&[4, 1], &[5]],
                &[&[4, 1], &[6]],
                &[&[4, 1], &[4]],
                &[&[0, 0], &[1]],
            ]),
        },
        Case {
            is_open: false,
            gm: pair("f32[2*n]", "f32[n]").build().unwrap(),
            calls: tensors(&[
                &[&[4], &[2]],
                &[&[6], &[3]],
                &[&[7], &[3]],
                &[&[8], &[3]],
                &[&[0], &[0]],
                &[&[2], &[1]],
            ]),
        },
        Case {
            is_open: false,
            gm: pair("f32[n]", "f32[n // 2]").build().unwrap(),
            calls: tensors(&[
                &[&[4], &[2]],
                &[&[7], &[3]],
                &[&[8], &[3]],
                &[&[1], &[0]],
                &[&[9], &[4]],
                &[&[9], &[5]],
            ]),
        },
        Case {
            is_open: true,
            gm: fx::trace(three)
                .input("x", "f32[n * m]")
                .input("y", "f32[n]")
                .input("z", "f32[m]")
                .build()
                .unwrap(),
            calls: tensors(&[
                &[&[6], &[2], &[3]],
                &[&[12], &[4], &[3]],
                &[&[20], &[5], &[4]],
                &[&[21], &[5], &[4]],
                &[&[0], &[0], &[4]],
                &[&[4], &[1], &[5]],
            ]),
        },
        Case {
            is_open: false,
            gm: fx::trace(nested).input("x", ("f32[n]", "f32[n]")).build().unwrap(),
            calls: [(2, 2), (3, 3), (3, 4), (5, 5), (5, 1)]
                .map(|(n, m)| vec![Arg::tuple([filled(&[n]), filled(&[m])])])
                .to_vec(),
        },
        Case {
            is_open: false,
            gm: with_integer
                .input("x", "f32[n, 2]")
                .input("y", "<at>")
                .dim("at", 1, Some(5))
                .build()
                .unwrap(),
            calls: [(9, 2), (9, 3), (9, 6), (9, 5), (7, 0), (7, 1), (3, 4), (8, -1)]
                .map(|(n, at)| vec![filled(&[n, 2]), Arg::Int(at)])
                .to_vec(),
        },
        Case {
            is_open: false,
            gm: fx::trace(|x: &Tensor, at: fx::Dim| x.narrow(0, 0, at - 1).exp())
                .input("x", "f32[n, 2]")
                .input("y", "<n + 1>")
                .build()
                .unwrap(),
            calls: [(9, 10), (3, 4), (4, 5), (4, 4), (5, 7), (0, 1)]
                .map(|(n, at)| vec![filled(&[n, 2]), Arg::Int(at)])
                .to_vec(),
        },
        Case {
            is_open: false,
            gm: pair("f32[n, 3]", "i64[3]").build().unwrap(),
            calls: {
                let ints = |n: usize| Value::from(&fx::zeros([n]).to(DType::I64));
                vec![
                    vec![filled(&[2, 3]), ints(3)],
                    vec![filled(&[4, 3]), ints(3)],
                    vec![filled(&[2, 4]), ints(3)],
                    vec![filled(&[2, 3]), ints(2)],
                    vec![filled(&[2, 3]), filled(&[3])],
                    vec![filled(&[2]), ints(3)],
                    vec![Arg::Int(3), ints(3)],
                    vec![filled(&[5, 3]), Arg::None],
                    vec![filled(&[5, 3])],
                ]
            },
        },
    ]
}

/// Calls all of them, and compares with the graph itself.
fn check(case: &Case, what: &str, call: &dyn Fn(&[Value]) -> Result<Value>) {
    for args in &case.calls {
        let place = || format!("{what} of\n{}\ncalled with {args:?}", case.gm.graph());
        match (call(args), case.gm.call_values(args)) {
            (Ok(got), Ok(expected)) => {
                for (got, expected) in got.leaves().into_iter().zip(expected.leaves()) {
                    got.all_close(expected, 1e-5, 1e-6)
                        .unwrap_or_else(|error| panic!("{error} in {}", place()));
                }
            }
            (Err(got), Err(expected)) => {
                assert_eq!(got.kind(), expected.kind(), "{}", place());
                assert!(
                    case.is_open || got.message() == expected.message(),
                    "{got}, {expected}: {}",
                    place()
                );
                assert_eq!(got.source_loc().map(|at| at.file()), Some(file!()), "{}", place());
            }
            (got, expected) => panic!("got {got:?}, expected {expected:?} by {}", place()),
        }
    }
}

#[test]
fn every_engine_refuses_what_the_graph_refuses() {
    for case in cases() {
        for engine in [Engine::Eager, Engine::Fused] {
            let program = case.gm.compile(engine).unwrap();
            check(&case, &engine.to_string(), &|args| program.call_values(args));
        }
        let folder = std::env::temp_dir().join(format!("fx-declared-{}.fx", std::process::id()));
        fx::save(&case.gm, &folder).unwrap();
        let loaded = fx::load(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        check(&case, "the saved form", &|args| loaded.call_values(args));
    }
}

#[test]
fn executors_refuse_what_the_graph_refuses() {
    for case in cases() {
        for (what, strategy) in
            [("static plans first", FusionStrategy::default()), ("open plans", FusionStrategy::new([]))]
        {
            let executor = Executor::new(case.gm.clone()).strategy(strategy);
            check(&case, what, &|args| executor.call_values(args));
        }
    }
}

#[test]
fn compiled_functions_refuse_what_the_graph_refuses() {
    for case in cases() {
        let followed = compile(&case.gm);
        let pure = compile(&case.gm).pure();
        for _ in 0..2 {
            check(&case, "the compiled form", &|args| followed.call_values(args));
            check(&case, "the pure form", &|args| pure.call_values(args));
        }
    }
}
