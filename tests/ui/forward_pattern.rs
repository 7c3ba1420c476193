use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward(&self, (x, _): (Tensor, Tensor)) -> Tensor {
        x
    }
}

fn main() {}
