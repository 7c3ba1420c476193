use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Tensor {
    let mut sum = x.clone();
    (0..3).for_each(|i| sum = &sum + i);
    [1, 2].iter().for_each(|i| sum += *i);
    sum
}

fn main() {}
