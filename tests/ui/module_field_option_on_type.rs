use fx::prelude::*;

#[derive(Module)]
#[module(skip)]
struct Model {
    size: usize,
}

fn main() {}
