use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> std::time::Duration {
    if x.sum((), false).gt(0.0) {
        return std::time::Duration::ZERO;
    }
    std::time::Duration::MAX
}

fn main() {}
