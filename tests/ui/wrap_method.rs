use fx::prelude::*;

struct Model;

impl Model {
    #[fx::wrap]
    fn apply(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
