use fx::prelude::*;

#[derive(Module)]
struct Model {
    #[module(leaf)]
    weight: Parameter,
}

fn main() {}
