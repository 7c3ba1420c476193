use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward(leaf)]
impl Model {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
