use fx::prelude::*;

#[fx::script(unroll)]
fn f(x: &Tensor) -> Tensor {
    x.relu()
}

fn main() {}
