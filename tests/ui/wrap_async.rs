use fx::prelude::*;

#[fx::wrap]
async fn apply(x: &Tensor) -> Tensor {
    x.clone()
}

fn main() {}
