use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward(&self, x: &Tensor) -> &Self {
        let _ = x;
        self
    }
}

fn main() {}
