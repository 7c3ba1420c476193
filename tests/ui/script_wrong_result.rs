use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Tensor {
    if x.sum((), false).gt(0.0) {
        return 3;
    }
    let y = x.relu();
    y.missing();
    "text"
}

fn main() {}
