use fx::prelude::*;

#[fx::wrap(name = "a", name = "b")]
fn apply(x: &Tensor) -> Tensor {
    x.clone()
}

fn main() {}
