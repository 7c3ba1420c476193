use fx::prelude::*;

#[derive(Module)]
struct Model;

#[fx::forward]
impl Model {
    extern "C" fn forward(&self, x: i64) -> i64 {
        x
    }
}

fn main() {}
