use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for row in x {
        y = y + &row;
        let y = row.relu();
        if y.sum((), false).gt(0.0) {
            break;
        }
    }
    y
}

fn main() {}
