use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward(&self, x: &Tensor, f: &dyn Fn(&Tensor) -> Tensor) -> Tensor {
        f(x)
    }
}

fn main() {}
