use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward(x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
