use fx::prelude::*;

#[fx::script]
unsafe fn f(x: &Tensor) -> Tensor {
    x.relu()
}

fn main() {}
