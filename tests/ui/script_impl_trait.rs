use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> impl Tree {
    x.relu()
}

fn main() {}
