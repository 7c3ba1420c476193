use fx::prelude::*;

#[derive(Tree)]
struct Output {
    #[tree(skip)]
    logits: Tensor,
}

fn main() {}
