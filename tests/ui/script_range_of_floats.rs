use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for i in 0..2.5 {
        y = y + i;
    }
    for i in 0..x {
        y = y + i;
    }
    for i in x.rank()..x.dim(0) {
        y = y + i;
    }
    for i in "a".."b" {
        y = y + i;
    }
    y
}

fn main() {}
