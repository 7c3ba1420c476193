use fx::prelude::*;

#[derive(Module)]
struct Model {
    #[module(training)]
    training: bool,
    #[module(training)]
    dropping: bool,
}

fn main() {}
