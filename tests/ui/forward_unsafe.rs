use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    unsafe fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
