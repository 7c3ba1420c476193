use fx::prelude::*;

#[derive(Module)]
struct Model<'a> {
    weight: &'a Parameter,
}

fn main() {}
