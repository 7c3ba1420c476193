use fx::prelude::*;

#[derive(Tree)]
#[tree(flat)]
struct Output {
    logits: Tensor,
}

fn main() {}
