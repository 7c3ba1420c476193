use fx::prelude::*;

#[derive(Module)]
struct Model {
    #[module(training)]
    training: Option<bool>,
}

fn main() {}
