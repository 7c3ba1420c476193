use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }

    fn call(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
