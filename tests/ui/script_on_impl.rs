use fx::prelude::*;

struct S;

#[fx::script]
impl S {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.relu()
    }
}

fn main() {}
