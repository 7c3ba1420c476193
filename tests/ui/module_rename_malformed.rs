use fx::prelude::*;

#[derive(Module)]
struct Model {
    #[module(rename = "")]
    a: Parameter,
    #[module(rename = "layers..0")]
    b: Parameter,
    #[module(rename = "0th")]
    c: Parameter,
    #[module(rename = "my weight")]
    d: Parameter,
}

fn main() {}
