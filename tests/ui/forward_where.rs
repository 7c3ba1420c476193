use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward(&self, x: &Tensor) -> Tensor
    where
        Self: Sized,
    {
        x.clone()
    }
}

fn main() {}
