use fx::prelude::*;

#[derive(Tree)]
struct Output<'a> {
    logits: &'a Tensor,
}

fn main() {}
