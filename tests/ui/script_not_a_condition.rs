use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor, n: i64) -> Tensor {
    if n { x.relu() } else { x.clone() }
}

fn main() {}
