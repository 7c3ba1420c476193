use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward(&self, x: &mut Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
