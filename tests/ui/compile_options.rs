use fx::prelude::*;

#[fx::compile(pure, dynamic = false)]
fn step(x: &Tensor) -> Tensor {
    x * 2.0
}

#[fx::compile(whole, whole)]
fn twice(x: &Tensor) -> Tensor {
    x * 2.0
}

fn main() {}
