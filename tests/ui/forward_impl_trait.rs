use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward(&self, x: impl Into<Tensor>) -> Tensor {
        x.into()
    }
}

fn main() {}
