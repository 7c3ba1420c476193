use fx::prelude::*;

#[fx::script]
const fn f(x: &Tensor) -> bool {
    true
}

fn main() {}
