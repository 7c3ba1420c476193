//! Compilation of ordinary Rust: a function that prints, branches on values, loops until it has converged and uses
//! ndarray in between; what it became; and a backend of one's own.
//!
//! `cargo run --release --example compile`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

use fx::compile::{Backend, Executable};
use fx::prelude::*;
use fx::{Engine, GraphModule};

/// Finds the largest eigenvalue of a symmetric matrix by power iteration.
fn largest_eigenvalue(matrix: &Tensor) -> Result<Tensor> {
    let mut vector = fx::full([matrix.dim(0)], 1.0);
    let mut rounds = 0;
    loop {
        let image = matrix.matmul(&vector);
        let next = &image / image.norm(2.0, (), false);
        let change = (&next - &vector).abs().max().item::<f32>()?;
        vector = next;
        rounds += 1;
        if change < 1e-6 || rounds == 1000 {
            break;
        }
    }
    println!("  {rounds} rounds");
    // ndarray rounds to four digits: any other crate may compute here as well.
    let rounded = vector.to_array::<f32>()?.mapv(|x| (x * 1e4).round() / 1e4);
    let vector = Tensor::from(rounded);
    Ok(vector.dot(matrix.matmul(&vector)) / vector.dot(&vector))
}

/// Prints each graph that it is given, and then runs it by the fused engine.
struct Printing;

impl Backend for Printing {
    fn name(&self) -> &str {
        "printing"
    }

    fn prepare(&self, module: GraphModule) -> Result<Box<dyn Executable>> {
        println!("{}", module.graph());
        Engine::Fused.prepare(module)
    }
}

fn main() -> Result<()> {
    let compiled = fx::compile(largest_eigenvalue);
    for matrix in [[[2.0f32, 1.0], [1.0, 2.0]], [[4.0, 1.0], [1.0, 3.0]], [[9.0, 2.0], [2.0, 6.0]]] {
        let value = compiled.call(&[Tensor::new(matrix)])?;
        println!("largest eigenvalue {}", value.item::<f32>()?);
    }
    println!("\n{}", compiled.explain());

    let printed = fx::compile(|x: &Tensor| (x * 2.0 + 1.0).relu()).backend(Printing);
    printed.call(&[Tensor::new([-1.0f32, 1.0])])?;
    Ok(())
}
