use fx::prelude::*;

#[derive(Module)]
enum Model {
    #[module(leaf)]
    Plain,
}

fn main() {}
