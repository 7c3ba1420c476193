use fx::prelude::*;

#[derive(Tree)]
union Output {
    a: u32,
    b: f32,
}

fn main() {}
