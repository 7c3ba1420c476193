use fx::prelude::*;

#[fx::script]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    'rows: for row in x {
        let add = |z: Tensor| {
            if x.is_symbolic() {
                break 'rows;
            }
            z + &row
        };
        y = add(y.clone());
    }
    y
}

fn main() {}
