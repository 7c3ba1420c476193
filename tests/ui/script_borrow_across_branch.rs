use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    let held = &y;
    if x.sum((), false).gt(0.0) {
        y = x.relu();
    }
    x + held
}

fn main() {}
