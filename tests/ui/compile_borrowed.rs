use fx::prelude::*;

fn main() {
    let mut dropout = fx::nn::Dropout::new(0.5);
    let f = fx::compile(&dropout);
    dropout.train();
    f.call(&[fx::ones([2])]).unwrap();
}
