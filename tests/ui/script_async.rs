use fx::prelude::*;

#[fx::script]
async fn f(x: &Tensor) -> Tensor {
    x.relu()
}

fn main() {}
