use fx::prelude::*;

#[fx::compile]
fn step<T: Into<f64>>(x: &Tensor, rate: T) -> Tensor {
    x * rate.into()
}

fn main() {}
