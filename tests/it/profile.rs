//! Profiles by step, line and module.

use fx::prelude::*;
use fx::profile;
use fx::{Arg, Engine, nn};

#[derive(Module)]
struct Net {
    layers: Vec<nn::Linear>,
    head: nn::Linear,
}

#[forward]
impl Net {
    fn forward(&self, x: &fx::Tensor) -> fx::Tensor {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.call(&x).relu();
        }
        self.head.call(&x).softmax(-1)
    }
}

#[test]
fn steps_lines_and_modules_have_the_time() {
    let layers = (0..2).map(|_| nn::Linear::new(64, 64)).collect();
    let net = Net { layers, head: nn::Linear::new(64, 8) };
    let gm = fx::trace(&net).input("x", "f32[4, 64]").build().unwrap();
    let args = [Arg::Leaf(fx::ones([4, 64]))];
    for engine in [Engine::Eager, Engine::Fused] {
        let profile = profile(&gm.compile(engine).unwrap(), &args, 3).unwrap();
        assert_eq!(profile.engine, engine.name());
        assert!(profile.steps.len() >= 3 && profile.total() > 0.0, "{profile}");
        let sum: f64 = profile.by_line().iter().map(|(_, time)| time).sum();
        assert!((sum - profile.total()).abs() < 1e-6 * sum, "{profile}");
        assert!(profile.by_line().iter().any(|(line, _)| line.contains("profile.rs")), "{profile}");
        assert_eq!(profile.by_module()[0], (String::new(), profile.total()));
        let trace: serde_json::Value = serde_json::from_str(&profile.to_chrome_trace()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let steps = events.iter().filter(|event| event["cat"] == "step");
        let mut end = 0.0;
        for step in steps {
            assert!(step["ts"].as_f64().unwrap() >= end - 1e-9);
            end = step["ts"].as_f64().unwrap() + step["dur"].as_f64().unwrap();
        }
        assert!((end - profile.total() / 1e3).abs() < 1e-6 * end);
    }
    let inlined = fx::trace(&net).leaf(|_, _| false).input("x", "f32[4, 64]").build().unwrap();
    let profile = profile(&inlined.compile(Engine::Eager).unwrap(), &args, 3).unwrap();
    let modules: Vec<String> = profile.by_module().into_iter().map(|(path, _)| path).collect();
    assert!(modules.contains(&"layers.1".to_owned()) && modules.contains(&"head".to_owned()), "{profile}");
    let events = profile.to_chrome_trace();
    assert!(events.contains("\"layers.0\"") && events.contains("\"module\""), "{events}");
}

#[test]
fn arguments_that_do_not_fit_are_an_error() {
    let gm = fx::trace(|x: &fx::Tensor| x + 1.0).input("x", "f32[2]").build().unwrap();
    let args = [Arg::Leaf(fx::ones([3]))];
    for engine in [Engine::Eager, Engine::Fused] {
        assert!(profile(&gm.compile(engine).unwrap(), &args, 1).is_err());
    }
}
