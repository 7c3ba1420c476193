//! Real models: eager, traced, printed and parsed, traced again, and PyTorch's answers.
//!
//! Two models are too large for the repository; `FX_MODELS` names the folder that has them.

use std::path::{Path, PathBuf};

use fx::prelude::*;
use fx::{Arg, Graph, GraphModule, InputSpec, Passes, Tree, Value, check};

#[path = "../../examples/models/mod.rs"]
pub(crate) mod zoo;

use zoo::digits_cnn::DigitsCnn;
use zoo::efficientnet_lite0::EfficientNetLite0;
use zoo::glassllm::{Cache, GlassLlm, LAYERS, no_past};
use zoo::minilm::MiniLm;
use zoo::silero_vad::{HIDDEN, SileroVad};

/// A model's folder: its weights, PyTorch's inputs and results, and how far from them results may be.
struct Files(PathBuf);

impl Files {
    fn open(&self, name: &str) -> Weights {
        Weights::open(self.0.join(name)).unwrap()
    }

    fn tolerance(&self, name: &str) -> f64 {
        let text = std::fs::read_to_string(self.0.join("config.json")).unwrap();
        let config: serde_json::Value = serde_json::from_str(&text).unwrap();
        config["tolerance"][name].as_f64().unwrap_or_else(|| panic!("no tolerance of {name}"))
    }
}

/// Checks that the eager and the traced result have the same bits, and both are near the reference.
fn agree(what: &str, eager: &Tensor, traced: &Tensor, reference: &Tensor, tolerance: f64) {
    zoo::compare(what, eager, reference, tolerance).unwrap();
    zoo::same_bits(what, traced, eager).unwrap();
}

/// Traces a program, which is a model or a graph of it.
fn trace(module: &impl Forward, specs: &[(&str, InputSpec)]) -> GraphModule {
    let builder = fx::trace(module);
    specs.iter().fold(builder, |builder, (name, spec)| builder.input(name, spec.clone())).build().unwrap()
}

/// Checks that two graphs are equal; the message has the lines that differ.
fn same(what: &str, got: &Graph, expected: &Graph) {
    let (a, b) = (got.to_text(), expected.to_text());
    let differ: Vec<_> = a.lines().zip(b.lines()).filter(|(a, b)| a != b).take(4).collect();
    assert!(got == expected, "{what}, got and expected:\n{differ:#?}");
    assert_eq!(a, b, "{what}");
}

/// Traces a model and checks what holds of every graph: it lints clean, reads back as it prints, and tracing
/// is repeatable, of the model as well as of the graph.
fn traced(model: &impl Forward, specs: &[(&str, InputSpec)]) -> GraphModule {
    let gm = trace(model, specs);
    assert!(gm.lint().is_empty(), "{:?}", gm.lint());
    same("parsed", &Graph::parse(&gm.graph().to_text(), &fx::registry()).unwrap(), gm.graph());
    same("traced twice", trace(model, specs).graph(), gm.graph());
    same("traced again", trace(&gm, specs).graph(), gm.graph());
    gm
}

/// Checks that what each pass and each rule makes of a graph computes the same, up to rounding; returns how
/// many nodes there are before the default pipeline and after it.
fn passes_agree(gm: &GraphModule, args: &[Value]) -> (usize, usize) {
    let expected = check::tensors(&gm.clone().call_values(args).unwrap());
    let mut n_changed = 0;
    for engine in check::each_pass().unwrap() {
        let runner = engine.prepare(gm).unwrap_or_else(|error| panic!("{}: {error}", engine.name()));
        let Some(runner) = runner else { continue };
        n_changed += 1;
        let got = check::tensors(&runner(args).unwrap_or_else(|error| panic!("{}: {error}", engine.name())));
        assert_eq!(got.len(), expected.len(), "{}", engine.name());
        for (got, expected) in got.iter().zip(&expected) {
            zoo::compare(engine.name(), got, expected, 1e-4).unwrap();
        }
    }
    assert!(n_changed > 3, "{n_changed} passes and rules changed the model");
    let after = |passes: &str| {
        let mut gm = gm.clone();
        Passes::parse(passes, &fx::pass::all()).unwrap().run(&mut gm).unwrap();
        gm.graph().len()
    };
    let (before, after) =
        (after("inline_leaves"), after(&format!("inline_leaves, shape_prop, {}", fx::pass::DEFAULT)));
    assert!(after <= before, "{before} nodes, {after} after the passes");
    (before, after)
}

/// Checks that four threads that call one graph at once get what one call gets.
fn from_four_threads<R: Send>(call: impl Fn() -> R + Sync, same: impl Fn(&R) -> bool) {
    let results: Vec<R> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(&call)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(results.iter().all(same), "a thread got another result");
}

#[test]
fn digits_cnn() {
    let files = Files(zoo::data("digits"));
    let model = DigitsCnn::load(&files.open("model.safetensors")).unwrap();
    let gm = traced(&model, &[("image", "f32[batch, 1, 8, 8]".into())]);

    let io = files.open("io.safetensors");
    let images = io.require("images").unwrap().to(DType::F32).unsqueeze(1) / 16;
    let scores = gm.call(std::slice::from_ref(&images)).unwrap();
    agree("scores", &model.forward(&images), &scores, &io.require("logits").unwrap(), 1e-4);
    let labels = io.require("labels").unwrap();
    let right = scores.argmax(-1, false).eq(labels).sum((), false).item::<i64>().unwrap();
    assert_eq!(right, 359);
    passes_agree(&gm, &[Value::from(&images)]);

    from_four_threads(
        || gm.call(std::slice::from_ref(&images)).unwrap(),
        |result: &Tensor| result.bits_eq(&scores),
    );
}

type State = (Tensor, Tensor);

#[test]
fn silero_vad() {
    let files = Files(zoo::data("silero_vad"));
    let model = SileroVad::load(&files.open("model.safetensors")).unwrap();
    let state = ("f32[batch, 128]", "f32[batch, 128]");
    let gm = traced(&model, &[("window", "f32[batch, 576]".into()), ("state", state.into())]);

    let io = files.open("io.safetensors");
    let windows: Vec<Tensor> = io.require("windows").unwrap().iter().unwrap().take(24).collect();
    let listen = |step: &dyn Fn(Tensor, State) -> (Tensor, State)| {
        let zeros = Tensor::from_vec(vec![0f32; HIDDEN], &[1, HIDDEN]);
        let (mut state, mut probabilities) = ((zeros.clone(), zeros), Vec::new());
        for window in &windows {
            let (probability, next) = step(window.unsqueeze(0), state);
            probabilities.push(probability);
            state = next;
        }
        (fx::cat(probabilities, 0), state)
    };
    let by_graph = || listen(&|window, state| gm.run((window, state)).unwrap());
    let (eager, eager_state) = listen(&|window, state| model.forward(&window, &state));
    let (probabilities, state) = by_graph();

    let first = Arg::from(&windows[0].unsqueeze(0));
    passes_agree(&gm, &[first, state.to_value()]);

    let n = windows.len();
    let reference = io.require("probabilities").unwrap().narrow(0, 0, n as i64);
    agree("probabilities", &eager, &probabilities, &reference, files.tolerance("probabilities"));
    for (name, eager, traced) in [("h", &eager_state.0, &state.0), ("c", &eager_state.1, &state.1)] {
        zoo::same_bits(name, traced, eager).unwrap();
        // The cell state is not bounded as a probability is.
        zoo::compare(name, traced, &io.require(name).unwrap().narrow(0, n as i64 - 1, 1), 1e-4).unwrap();
    }

    from_four_threads(by_graph, |(result, (h, c))| {
        result.bits_eq(&probabilities) && h.bits_eq(&state.0) && c.bits_eq(&state.1)
    });
}

#[test]
fn glassllm() {
    let files = Files(zoo::data("glassllm"));
    let model = GlassLlm::load(&files.open("model.safetensors")).unwrap();
    let cache = ("f32[1, 2, past, 32]", "f32[1, 2, past, 32]");
    let gm = traced(&model, &[("tokens", "i64[1, length]".into()), ("past", vec![cache; LAYERS].into())]);

    let io = files.open("io.safetensors");
    let passage = io.require("passage_ids").unwrap();
    let call = || gm.run::<_, (Tensor, Vec<Cache>)>((passage.clone(), no_past())).unwrap();
    let (eager, eager_cache) = model.forward(&passage, &no_past());
    let (scores, cache) = call();
    agree("scores", &eager, &scores, &io.require("passage_logits").unwrap(), files.tolerance("logits"));
    let same_cache =
        |cache: &[Cache]| cache.iter().zip(&eager_cache).all(|(a, b)| a.0.bits_eq(&b.0) && a.1.bits_eq(&b.1));
    assert!(cache.len() == LAYERS && same_cache(&cache), "the caches differ");
    passes_agree(&gm, &[Value::from(&passage), no_past().to_value()]);
    from_four_threads(call, |(result, cache)| result.bits_eq(&scores) && same_cache(cache));

    // Prompt first, then token by token from the cache, one graph for both.
    let reference = io.require("greedy.0").unwrap().to_vec::<i64>().unwrap();
    let (mut tokens, mut past) = (io.require("prompt.0").unwrap().unsqueeze(0), no_past());
    for (i, expected) in reference.into_iter().enumerate().take(12) {
        let (eager, _) = model.forward(&tokens, &past);
        let (scores, present): (Tensor, Vec<Cache>) = gm.run((tokens, past)).unwrap();
        zoo::same_bits("scores", &scores, &eager).unwrap();
        tokens = scores.select(1, -1).argmax(-1, true);
        past = present;
        assert_eq!(tokens.item::<i64>().unwrap(), expected, "token {i} of the text");
    }
}

/// Returns the files of a model that does not come with the repository, or says how to get them.
#[allow(clippy::print_stderr, reason = "whoever runs the test should know what it left out")]
fn large(model: &str) -> Option<Files> {
    let dir = std::env::var_os("FX_MODELS").map(|folder| Path::new(&folder).join(model));
    let found =
        dir.filter(|dir| ["model.safetensors", "io.safetensors"].iter().all(|file| dir.join(file).is_file()));
    if found.is_none() {
        eprintln!(
            "{model} is not tested: set FX_MODELS to a folder with {model}/model.safetensors, io.safetensors and \
             config.json; `cargo run --example {model}` says how to get them"
        );
    }
    found.map(Files)
}

#[test]
fn efficientnet_lite0() {
    let Some(files) = large("efficientnet_lite0") else { return };
    let model = EfficientNetLite0::load(&files.open("model.safetensors")).unwrap();
    let gm = traced(&model, &[("image", "f32[batch, 3, 224, 224]".into())]);
    let io = files.open("io.safetensors");
    let image = io.require("input").unwrap().narrow(0, 0, 1);
    let scores = gm.call(std::slice::from_ref(&image)).unwrap();
    let reference = io.require("logits").unwrap().narrow(0, 0, 1);
    agree("scores", &model.forward(&image), &scores, &reference, files.tolerance("logits"));
    let (before, after) = passes_agree(&gm, &[Value::from(&image)]);
    assert!(after < before, "{before} nodes, {after} after the passes");
}

#[test]
fn minilm() {
    let Some(files) = large("minilm") else { return };
    let model = MiniLm::load(&files.open("model.safetensors")).unwrap();
    let names = ["input_ids", "attention_mask", "token_type_ids"];
    let gm = traced(&model, &names.map(|name| (name, "i64[batch, length]".into())));

    let io = files.open("io.safetensors");
    let [ids, mask, types] = names.map(|name| io.require(name).unwrap());
    let (eager_tokens, eager) = model.forward(&ids, &mask, &types);
    let (before, after) = passes_agree(&gm, &[&ids, &mask, &types].map(Value::from));
    assert!(after < before, "{before} nodes, {after} after the passes");
    let (tokens, sentences): (Tensor, Tensor) = gm.run((ids, mask.clone(), types)).unwrap();
    // Behind the end of a sentence, the vectors mean nothing.
    let within = mask.unsqueeze(-1).to(DType::F32);
    let reference = io.require("last_hidden_state").unwrap() * &within;
    agree(
        "tokens",
        &(eager_tokens * &within),
        &(tokens * &within),
        &reference,
        files.tolerance("last_hidden_state"),
    );
    agree("sentences", &eager, &sentences, &io.require("embedding").unwrap(), files.tolerance("embedding"));
}
