use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    fn forward<T: Into<f64>>(&self, x: &Tensor, scale: T) -> Tensor {
        let _: f64 = scale.into();
        x.clone()
    }
}

fn main() {}
