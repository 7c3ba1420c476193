use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn apply(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
