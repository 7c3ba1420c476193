use fx::prelude::*;

#[derive(Tree)]
enum Output {
    One(Tensor),
    Two(Tensor, Tensor),
}

fn main() {}
