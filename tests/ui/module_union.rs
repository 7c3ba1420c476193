use fx::prelude::*;

#[derive(Module)]
union Model {
    a: u32,
    b: f32,
}

fn main() {}
