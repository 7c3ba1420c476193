use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward(&self, x: (&Tensor, &Tensor)) -> Tensor {
        x.0.clone()
    }
}

fn main() {}
