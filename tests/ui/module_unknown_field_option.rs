use fx::prelude::*;

#[derive(Module)]
struct Model {
    #[module(skipped)]
    size: usize,
}

fn main() {}
