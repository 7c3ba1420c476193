use fx::prelude::*;

#[derive(Module)]
struct Model {
    #[module(training, skip)]
    training: bool,
}

fn main() {}
