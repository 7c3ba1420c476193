use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Result<Tensor> {
    let y = x?;
    Ok(y)
}

fn main() {}
