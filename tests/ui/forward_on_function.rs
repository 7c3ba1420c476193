use fx::prelude::*;

#[fx::forward]
fn forward(x: &Tensor) -> Tensor {
    x.clone()
}

fn main() {}
