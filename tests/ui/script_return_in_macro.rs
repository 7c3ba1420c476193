use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Tensor {
    if x.sum((), false).gt(0.0) {
        println!("{}", { return x.clone(); });
    }
    x.neg()
}

fn main() {}
