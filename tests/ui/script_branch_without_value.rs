use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Tensor {
    let y = if x.sum((), false).gt(0.0) { x.relu() };
    y
}

fn main() {}
