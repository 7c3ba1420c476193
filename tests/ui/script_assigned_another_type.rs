use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    if x.sum((), false).gt(0.0) {
        y = 2.0;
    }
    y
}

fn main() {}
