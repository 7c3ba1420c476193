use fx::prelude::*;

trait Net {
    fn forward(&self, x: &Tensor) -> Tensor;
}

#[derive(Module)]
struct Model;

#[fx::forward]
impl Net for Model {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
