use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    'block: {
        if x.sum((), false).gt(0.0) {
            break 'block;
        }
        y = y + 1;
    }
    y
}

fn main() {}
