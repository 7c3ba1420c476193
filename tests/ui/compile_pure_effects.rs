use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use fx::prelude::*;

#[fx::compile(pure)]
fn step(x: &Tensor) -> Tensor {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let began = Instant::now();
    println!("call {}", CALLS.fetch_add(1, Ordering::Relaxed));
    let rate: f64 = std::env::var("RATE").map_or(0.5, |text| text.parse().unwrap());
    let y = x * rate;
    assert!(dbg!(began.elapsed().as_secs()) < 5);
    y
}

fn main() {}
