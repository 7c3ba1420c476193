use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor, mut list: Vec<Tensor>) -> Tensor {
    let mut y = x.clone();
    while let Some(z) = list.pop() && z.rank() > 0 {
        y = y + z;
    }
    y
}

fn main() {}
