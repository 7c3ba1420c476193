//! Runs a model whose code the build script wrote; the program that is built needs neither fx nor the file of
//! the model.

use model::{Model, Tensor, safetensors::File};

mod model {
    include!(concat!(env!("OUT_DIR"), "/model.rs"));
}

const WEIGHTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/model.safetensors"));

fn main() -> Result<(), model::Error> {
    let mut model = Model::from_file(&File::from_bytes(WEIGHTS.to_vec())?)?;
    let input = [0.5; 2 * 20];
    let result = model.forward(Tensor::new([2, 20], &input))?;
    println!("{:?} {:?}", result.shape, result.data);
    Ok(())
}
