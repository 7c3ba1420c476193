use fx::prelude::*;

#[fx::wrap(effects = print)]
fn apply(x: &Tensor) -> Tensor {
    x.clone()
}

fn main() {}
