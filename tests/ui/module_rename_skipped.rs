use fx::prelude::*;

#[derive(Module)]
struct Model {
    #[module(skip, rename = "n")]
    size: usize,
}

fn main() {}
