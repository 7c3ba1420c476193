//! The models of the examples, compiled as they are: few graphs, none after the first calls.

use fx::compile::Function;
use fx::prelude::*;
use fx::trace::Traceable;
use fx::weights::Weights;

use crate::models::zoo::digits_cnn::DigitsCnn;
use crate::models::zoo::glassllm::{Cache, GlassLlm, no_past};
use crate::models::zoo::silero_vad::{HIDDEN, SileroVad};
use crate::models::zoo::{compare, data};

fn open(model: &str, file: &str) -> Weights {
    Weights::open(data(model).join(file)).unwrap()
}

/// Runs a compiled model in both modes.
fn in_both_modes<T: Traceable<M> + Copy, M>(model: T, check: impl Fn(&Function<T, M>)) {
    check(&fx::compile(model));
    let pure = fx::compile(model).pure();
    check(&pure);
    assert!(pure.explain().breaks.is_empty(), "{}", pure.explain());
}

#[test]
fn digits_of_every_batch_are_two_graphs() {
    let model = DigitsCnn::load(&open("digits", "model.safetensors")).unwrap();
    let io = open("digits", "io.safetensors");
    let images = io.require("images").unwrap().to(fx::DType::F32).unsqueeze(1) / 16;
    let logits = io.require("logits").unwrap();
    in_both_modes(&model, |f| {
        for n in [1, 8, 360, 1, 17, 8] {
            let got = f.call(&[images.narrow(0, 0, n)]).unwrap();
            compare("scores", &got, &logits.narrow(0, 0, n), 1e-4).unwrap();
        }
        assert_eq!(f.counters().compiled, 2, "{}", f.explain());
        assert_eq!(f.explain().segments.len(), 1);
    });
}

#[test]
fn a_detector_with_state_is_one_graph() {
    let model = SileroVad::load(&open("silero_vad", "model.safetensors")).unwrap();
    in_both_modes(&model, |f| {
        let zeros = || fx::zeros([1, HIDDEN as i64]);
        let (mut state, mut expected) = ((zeros(), zeros()), (zeros(), zeros()));
        for i in 0..6 {
            let window =
                (fx::arange(0, 576, 1).to(fx::DType::F32) * (0.01 * (i + 1) as f64)).sin().unsqueeze(0);
            let (score, new): (Tensor, (Tensor, Tensor)) = f.run((window.clone(), state)).unwrap();
            let (eager, next) = model.forward(&window, &expected);
            score.all_close(&eager, 1e-4, 1e-5).unwrap();
            (state, expected) = (new, next);
        }
        state.1.all_close(&expected.1, 1e-4, 1e-4).unwrap();
        assert_eq!(f.counters().compiled, 1, "{}", f.explain());
    });
}

#[test]
fn a_language_model_compiles_nothing_after_the_fifth_token() {
    let model = GlassLlm::load(&open("glassllm", "model.safetensors")).unwrap();
    let io = open("glassllm", "io.safetensors");
    in_both_modes(&model, |f| {
        for i in 0..2 {
            let prompt = io.require(&format!("prompt.{i}")).unwrap();
            let reference = io.require(&format!("greedy.{i}")).unwrap().to_vec::<i64>().unwrap();
            let (mut tokens, mut past) = (prompt.unsqueeze(0), no_past());
            let mut compiled = 0;
            for (at, expected) in reference.iter().enumerate() {
                let (scores, present): (Tensor, Vec<Cache>) = f.run((tokens, past)).unwrap();
                tokens = scores.select(1, -1).argmax(-1, true);
                past = present;
                assert_eq!(tokens.item::<i64>().unwrap(), *expected, "prompt {i}, token {at}");
                if at == 4 {
                    compiled = f.counters().compiled;
                }
            }
            assert_eq!(f.counters().compiled, compiled, "{}", f.explain());
        }
        assert!(f.explain().segments.len() <= 3, "{}", f.explain());
    });
}
