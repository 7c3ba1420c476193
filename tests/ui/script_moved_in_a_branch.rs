use fx::prelude::*;

struct Token;

fn take(_: Token) {}

#[fx::script]
fn f(x: &Tensor, token: Token) -> Tensor {
    if x.sum((), false).gt(0.0) {
        take(token);
        x.relu()
    } else {
        take(token);
        x.neg()
    }
}

fn main() {}
