//! What Rust code keeps from call to call.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;

const SOURCE: &str = include_str!("state.rs");

#[derive(Module)]
struct Stored {
    last: Buffer,
}

#[forward]
impl Stored {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let sum = x.sum(0, false);
        // buffer stored: store
        self.last.store(sum.clone());
        Ok(x - sum)
    }
}

#[derive(Module)]
struct Counted {
    n: Buffer,
}

#[forward]
impl Counted {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let n = self.n.get() + 1.0;
        self.n.set(&n)?;
        Ok(x * n)
    }
}

#[test]
fn lost_state_is_found() -> Result<()> {
    let hidden: Mutex<Tensor> = Mutex::new(Tensor::new([0.0f32; 3]));
    let kept = JitTrace::new(
        |x: &Tensor| {
            let mut hidden = hidden.lock().expect("no panic");
            // state kept: hidden.clone()
            *hidden = hidden.clone() * 0.5 + x.sum(0, false);
            x + hidden.clone()
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&kept, Kind::StateLost, SOURCE, "state kept");

    let calls = AtomicUsize::new(0);
    let counter = JitTrace::new(
        |x: &Tensor| {
            let n = calls.fetch_add(1, Ordering::Relaxed);
            // state counted: x * n
            x * n
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&counter, Kind::StateLost, SOURCE, "state counted");

    let momentum = Mutex::new(1.0f64);
    let float = JitTrace::new(
        |x: &Tensor| {
            let mut momentum = momentum.lock().expect("no panic");
            *momentum *= 0.9;
            // state decayed: x * *momentum
            x * *momentum
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&float, Kind::StateLost, SOURCE, "state decayed");
    Ok(())
}

#[test]
fn buffers_that_the_graph_does_not_update_are_found() -> Result<()> {
    let model = Stored { last: Buffer::new(vector()) };
    let stored = JitTrace::new(&model, (matrix(),)).inspect()?;
    finds(&stored, Kind::StateLost, SOURCE, "buffer stored");
    assert_eq!(model.last.get().to_vec::<f32>()?, [0.5, 2.0, 1.0], "the trace leaves the module as it was");

    let foreign = Buffer::new(Tensor::new(0.0f32));
    let captured = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            let n = foreign.get() + x.sum((), false);
            // buffer foreign: set
            foreign.set(&n)?;
            Ok(x * n)
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&captured, Kind::StateLost, SOURCE, "buffer foreign");
    assert_eq!(foreign.get().item::<f32>()?, 0.0);
    Ok(())
}

#[test]
fn buffers_that_the_graph_updates_are_no_finding() -> Result<()> {
    let model = Counted { n: Buffer::new(Tensor::new(0.0f32)) };
    let traced = jit_trace(&model, (matrix(),))?;
    finds_no(&traced, Kind::StateLost);
    assert_eq!(model.n.get().item::<f32>()?, 0.0);
    let x = Tensor::new([[1.0f32]]);
    assert_eq!(traced.call(std::slice::from_ref(&x))?.to_vec::<f32>()?, [1.0]);
    assert_eq!(traced.call(&[x])?.to_vec::<f32>()?, [2.0]);
    Ok(())
}

#[test]
fn what_is_not_determined_is_found() -> Result<()> {
    let start = Instant::now();
    let clock = JitTrace::new(
        |x: &Tensor| {
            let turns = start.elapsed().as_nanos() % 1_000_003;
            let scale = (turns as f64 * 0.37).sin();
            // not determined by the clock: x * scale
            x * scale
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&clock, Kind::Nondeterministic, SOURCE, "not determined by the clock");

    // Numbers of a generator that the seed does not reach.
    let state = Mutex::new(0x9e37_79b9_7f4a_7c15u64);
    let draw = || {
        let mut state = state.lock().expect("no panic");
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as f64 / (1u64 << 31) as f64
    };
    let foreign = JitTrace::new(
        |x: &Tensor| {
            let p = draw();
            // not determined by a generator: x + p
            x + p
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&foreign, Kind::Nondeterministic, SOURCE, "not determined by a generator");

    let tensor = JitTrace::new(
        |x: &Tensor| {
            let noise = Tensor::new([draw() as f32, draw() as f32, draw() as f32]);
            // not determined as a tensor: x + noise
            x + noise
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&tensor, Kind::Nondeterministic, SOURCE, "not determined as a tensor");
    Ok(())
}
