use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    async fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
