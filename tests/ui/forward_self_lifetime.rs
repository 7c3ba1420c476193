use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward<'a>(&'a self, x: &'a Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
