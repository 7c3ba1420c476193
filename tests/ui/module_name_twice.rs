use fx::prelude::*;

#[derive(Module)]
struct Model {
    weight: Parameter,
    #[module(rename = "weight")]
    scale: Parameter,
}

fn main() {}
