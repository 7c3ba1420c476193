//! Crates that draw random numbers: those of fx with the same seed.

use fx::prelude::*;
use fx::{CrateOptions, Generator, GraphModule, Value, with_generator};

use super::{cargo, folder, reproduces};

/// Draws of every kind, in a loop and a branch, and some that nobody uses.
fn noisy() -> GraphModule {
    let step = |x: &Tensor| -> (Tensor, Tensor, Tensor, Tensor) {
        let _unused = fx::rand([3]);
        let noise = x.randn_like() * 0.1 + fx::rand([5]);
        let kept = fx::for_loop(4, |_, x: Tensor| x.dropout(0.25, true) + fx::randn([5]), x + noise);
        let more = |x: Tensor| -> Tensor {
            let shift: Tensor = fx::call!(fx::randint(-3, 9, [5], dtype = DType::F32));
            x + shift
        };
        let less = |x: Tensor| -> Tensor {
            let scale: Tensor = fx::call!(fx::rand([5], dtype = DType::F16));
            x * scale
        };
        let kept: Tensor = fx::cond(kept.sum((), false).gt(0.0), more, less, kept);
        (
            kept.clone(),
            kept.sigmoid().bernoulli(),
            fx::randperm(11),
            fx::call!(fx::randn([3, 2], dtype = DType::F64)),
        )
    };
    fx::trace(step).input("x", "f32[n, 5]").build().unwrap()
}

fn input(n: usize) -> Tensor {
    Tensor::from_vec((0..n * 5).map(|i| (i % 7) as f32 * 0.5 - 1.5).collect::<Vec<f32>>(), &[n, 5])
}

#[test]
fn a_crate_draws_what_the_program_draws() {
    let gm = noisy();
    let sets = [2, 1, 9, 0].map(|n| [Value::from(&input(n))]);
    let options = sets.iter().fold(CrateOptions::new(), |options, args| options.record(args));
    let dir = reproduces(&gm, "draws", options);
    let expected = with_generator(&Generator::seeded(7), || {
        let first: (Tensor, Tensor, Tensor, Tensor) = gm.run((input(2),)).unwrap();
        let second: (Tensor, Tensor, Tensor, Tensor) = gm.run((input(2),)).unwrap();
        [first.2, second.2].map(|order| order.to_vec::<i64>().unwrap())
    });
    let test = format!(
        r#"
        use draws::{{Model, Tensor}};

        #[test]
        fn seeds() {{
            let mut model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/model.safetensors")).unwrap();
            let x: Vec<f32> = (0..10).map(|i| (i % 7) as f32 * 0.5 - 1.5).collect();
            for _ in 0..2 {{
                model.seed(7);
                for expected in {expected:?} {{
                    assert_eq!(model.forward(Tensor::new([2, 5], &x)).unwrap().output_2.data, expected);
                }}
            }}
        }}
    "#
    );
    std::fs::write(dir.join("tests/seeds.rs"), test).unwrap();
    assert!(cargo(&dir, &["test"]).contains("seeds ... ok"));
}

#[test]
fn a_crate_without_std_draws_the_same() {
    let step = |x: &Tensor| -> (Tensor, Tensor, Tensor) {
        (x.dropout(0.5, true), x.randn_like(), fx::call!(fx::rand([4], dtype = DType::BF16)))
    };
    let gm = fx::trace(step).input("x", "f32[3, 5]").build().unwrap();
    reproduces(&gm, "baked_draws", CrateOptions::new().baked().record(&[Value::from(&input(3))]));
}

#[test]
fn what_is_no_probability_is_an_error() {
    let gm = fx::trace(|x: &Tensor| x.bernoulli()).input("x", "f32[n]").build().unwrap();
    let dir = folder("no_probability");
    let options =
        CrateOptions::new().name("no-probability").record(&[Value::from(&Tensor::new([0.5f32, 1.0]))]);
    gm.to_package(&options).unwrap().write(&dir).unwrap();
    let test = r#"
        use no_probability::{Model, Tensor};

        #[test]
        fn fails() {
            let mut model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/model.safetensors")).unwrap();
            for x in [-0.5, 1.5, f32::NAN] {
                let error = model.forward(Tensor::new([1], &[x])).unwrap_err().to_string();
                assert!(error.contains("a probability outside of 0 to 1"), "{error}");
            }
        }
    "#;
    std::fs::write(dir.join("tests/fails.rs"), test).unwrap();
    assert!(cargo(&dir, &["test"]).contains("fails ... ok"));
}
