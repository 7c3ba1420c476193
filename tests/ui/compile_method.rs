use fx::prelude::*;

struct Model;

impl Model {
    #[fx::compile]
    fn step(&self, x: &Tensor) -> Tensor {
        x * 2.0
    }
}

fn main() {}
