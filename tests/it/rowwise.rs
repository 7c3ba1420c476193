//! Row-wise operations of a user, [`fx::rowwise!`]: the eager kernel, fused kernels, native code and crates agree.

use fx::prelude::*;
use fx::standalone::CrateOptions;
use fx::{Engine, ErrorKind, Value, check, opcheck};

use crate::standalone::reproduces;

fx::rowwise! {
    /// Row-wise operations of a crate that is neither fx-core nor fx-ops.
    pub trait Own; pub static OWN;

    /// `x / sqrt(mean(x * x) + eps) * (1 + weight) + bias`: the normalisation of Gemma.
    gemma_norm(x, weight, bias: Option; eps: 1e-6) -> out {
        let scale = math::rsqrt(row::sum_squares(x) / x.len() as T + eps);
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = *x * scale * (1.0 + *weight);
        }
        if let Some(bias) = bias {
            for (out, bias) in out.iter_mut().zip(bias) {
                *out = *out + *bias;
            }
        }
    }

    /// The root of the mean of the squares of a row.
    #[flops = fx::Flops::PerInput(2)]
    root_mean_square(x) -> T {
        if x.is_empty() { 0.0 } else { math::sqrt(row::sum_squares(x) / x.len() as T) }
    }

    /// The elements of a row in reverse order, times the greatest: a body that needs all of the row.
    mirrored(x; factor: 1.0) -> out {
        let greatest = row::max(x) * factor;
        for (i, out) in out.iter_mut().enumerate() {
            *out = x[x.len() - 1 - i] * greatest;
        }
    }

    /// A body that calls a function of this file, which crates do not have.
    halved(x) -> out {
        out.iter_mut().zip(x).for_each(|(out, x)| *out = half_of(*x as f64) as T);
    }
}

fn half_of(x: f64) -> f64 {
    x * 0.5
}

fn ramp(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let data: Vec<f32> = (0..n).map(|i| ((i * 37 + 11) % 64) as f32 / 16.0 - 2.0).collect();
    Tensor::new(data).reshape(shape.iter().map(|&n| n as i64).collect::<Vec<_>>())
}

/// A model of all of them with pointwise neighbours, before and after.
fn block(x: &Tensor, weight: &Tensor) -> (Tensor, Tensor) {
    let normed = (x * 0.5).gelu().gemma_norm(weight, weight, 1e-5);
    let y = (normed.mirrored(0.5) / 3.0).silu().gemma_norm(weight, None::<&Tensor>, 1e-6).tanh();
    (y.root_mean_square() + 1.0, y)
}

#[test]
fn the_definition_is_the_eager_kernel() {
    let x = Tensor::new([[3.0f32, -4.0], [0.0, 2.0]]);
    let weight = Tensor::new([0.0f32, 1.0]);
    assert_eq!(x.root_mean_square().to_vec::<f32>().unwrap(), [12.5f32.sqrt(), 2f32.sqrt()]);
    assert_eq!(x.mirrored(2.0).to_vec::<f32>().unwrap(), [-24.0, 18.0, 8.0, 0.0]);
    let got = x.gemma_norm(&weight, &weight, 0.0).to_vec::<f32>().unwrap();
    let by_hand = [3.0 / 12.5f32.sqrt(), -8.0 / 12.5f32.sqrt() + 1.0, 0.0, 4.0 / 2f32.sqrt() + 1.0];
    assert!(got.iter().zip(by_hand).all(|(got, want)| (got - want).abs() < 1e-6), "{got:?}");
    for op in OWN {
        opcheck::check(*op).unwrap().ok().unwrap();
    }
}

#[test]
fn it_is_a_part_of_fused_kernels_with_its_neighbours() {
    let gm = fx::trace(block).input("x", "f32[rows, n]").input("y", "f32[n]").build().unwrap();
    let program = gm.compile(Engine::Fused).unwrap();
    let native = gm.compile(Engine::Native).unwrap();
    let known = fx::trace(block).input("x", "f32[64, 130]").input("y", "f32[130]").build().unwrap();
    let plan = known.compile(Engine::Fused).unwrap().fused().unwrap().describe();
    assert!(plan.starts_with("1 steps, ") && !plan.contains("evaluate"), "{plan}");
    for (rows, n) in [(3, 5), (64, 130), (1, 1), (0, 7), (513, 96), (4, 0)] {
        let args = [Value::from(&ramp(&[rows, n])), Value::from(&ramp(&[n]))];
        let expected = gm.call_values(&args).unwrap();
        for program in [&program, &native] {
            let got = program.call_values(&args).unwrap();
            for (got, expected) in check::tensors(&got).iter().zip(check::tensors(&expected)) {
                assert_eq!(got.ty().unwrap(), expected.ty().unwrap());
                let [got, expected] = [got, &expected].map(|x| x.to_vec::<f32>().unwrap());
                let is_same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(got.iter().zip(&expected).all(is_same), "{rows} {n}: {got:?} {expected:?}");
            }
        }
    }
}

#[test]
fn it_is_written_into_crates() {
    let gm = fx::trace(block).input("x", "f32[rows, 24]").input("y", "f32[24]").build().unwrap();
    let set = |rows: usize| [Value::from(&ramp(&[rows, 24])), Value::from(&ramp(&[24]))];
    let options = CrateOptions::new().record(&set(3)).record(&set(200)).record(&set(0));
    let dir = reproduces(&gm, "rowwise", options);
    let text = std::fs::read_to_string(dir.join("src/kernels/rowwise.rs")).unwrap();
    expect_test::expect_file!["standalone/rowwise.txt"].assert_eq(&text);

    let halves = |x: &Tensor, weight: &Tensor| x.gemma_norm(weight, None::<&Tensor>, 1e-3).root_mean_square();
    let gm = fx::trace(halves).input("x", "f16[2, 3, 7]").input("y", "f16[7]").build().unwrap();
    let args = [ramp(&[2, 3, 7]), ramp(&[7])].map(|x| Value::from(&x.to(DType::F16)));
    reproduces(&gm, "rowwise_halves", CrateOptions::new().record(&args));

    let alone = fx::trace(|x: &Tensor| x.halved()).input("x", "f32[4]").build().unwrap();
    let error = alone.to_package(&CrateOptions::new().name("halved")).unwrap_err();
    assert!(error.message().contains("its body names `half_of`"), "{error}");
}

#[test]
fn wrong_operands_are_errors_that_name_them() {
    let x = ramp(&[2, 3]);
    let fails = |y: Tensor| y.array().unwrap_err();
    let error = fails(x.gemma_norm(ramp(&[4]), None::<&Tensor>, 1e-6));
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert_eq!(error.message(), "expected weight of [3], the size of a row, got f32[4]");
    let error = fails(x.gemma_norm(ramp(&[3]).to(DType::F64), None::<&Tensor>, 1e-6));
    assert_eq!(error.message(), "expected weight of f32, the dtype of the rows, got f64[3]");
    let error = fails(x.to(DType::I64).root_mean_square());
    assert_eq!((error.kind(), error.message()), (ErrorKind::DType, "expected floats, got i64"));
    let error = fails(ramp(&[1]).squeeze(0).root_mean_square());
    assert_eq!(error.message(), "expected rows, got f32[], which has no axes");
    assert!(error.source_loc().is_some_and(|at| at.file().ends_with("rowwise.rs")), "{error:?}");
}

#[test]
fn operations_of_fx_that_are_row_wise_are_fused() {
    for (call, steps) in [
        ("softmin(%a, -1)", 1),
        ("normalize(%a, 2.0, -1)", 1),
        ("normalize(%a, 1.5, 1)", 1),
        ("logsumexp(%a, -1, true)", 1),
        ("logsumexp(%a, [0, 1], true)", 1),
        ("std(%a, [1], 0.0, true)", 1),
        ("linalg_vector_norm(%a, 2.0, [-1], true)", 1),
        // What is reduced is put back where it was.
        ("mean(%a, -1)\n  %b = unsqueeze(%r, -1)", 1),
        ("std(%a, 1)\n  %b = unsqueeze(%r, 1)", 1),
        // Along another axis it is an operation of its own.
        ("normalize(%a, 2.0, 0)", 3),
    ] {
        let name = if call.contains('\n') { "%r" } else { "%b" };
        let text = format!(
            "graph main(%x: f32[17, 33]) {{\n  %a = mul(%x, 3.0)\n  {name} = {call}\n  %c = sub(%a, %b)\n  %d = tanh(%c)\n  return %d\n}}"
        );
        let gm = fx::GraphModule::new("M", fx::parse(&text).unwrap());
        let args = [Value::from(&ramp(&[17, 33]))];
        let expected = check::tensors(&gm.call_values(&args).unwrap()).remove(0);
        let program = gm.compile(Engine::Fused).unwrap();
        let got = check::tensors(&program.call_values(&args).unwrap()).remove(0);
        assert!(got.array().unwrap().bits_eq(expected.array().unwrap()), "{call}");
        let plan = program.fused().unwrap().describe();
        assert!(plan.starts_with(&format!("{steps} steps, ")), "{call}: {plan}");
    }
}
