use fx::prelude::*;

#[fx::wrap(leaf)]
fn apply(x: &Tensor) -> Tensor {
    x.clone()
}

fn main() {}
