//! Partitioning for an accelerator that does not exist: it knows convolutions, linear maps and ReLU, in f32.
//!
//! `cargo run --release --example partition`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use fx::analysis::{Sizes, Summary};
use fx::bail;
use fx::prelude::*;
use fx::splitting::partition::{OperatorSupport, Partitioner, dtypes, names};
use fx::weights::Weights;
use models::digits_cnn::DigitsCnn;

fn main() -> Result<()> {
    let dir = models::data("digits");
    let model = DigitsCnn::load(&Weights::open(dir.join("model.safetensors"))?)?;
    let mut traced = fx::trace(&model).input("image", "f32[batch, 1, 8, 8]").build()?;
    // The batch norms become part of the convolutions, so that they are no border for the accelerator.
    fx::Passes::new().add(fx::pass::FOLD_BATCH_NORM).add(fx::pass::DEAD_CODE).run(&mut traced)?;
    println!("{}", traced.graph());

    // What it takes: by name or type of module, and by dtype. Everything else runs where it ran before.
    let supported = names(["Conv2d", "Linear", "conv2d", "linear", "relu"]).and(dtypes([DType::F32]));
    let partitioner = Partitioner::default().min_size(1).prefix("accelerator");
    let proposal = partitioner.propose(&traced, &supported);
    println!("{proposal}");

    let split = partitioner.fuse(&traced, &proposal)?;
    println!("{}", split.module.graph());
    for i in 0..split.parts.len() {
        println!("{}: {}", split.parts[i].path, split.part(i)?.graph());
    }
    println!("{}", Summary::new(&split.module, &Sizes::from([("batch".to_owned(), 360)]))?);

    let io = Weights::open(dir.join("io.safetensors"))?;
    let images = io.require("images")?.to(DType::F32).unsqueeze(1) / 16;
    let (before, after) = (traced.call(std::slice::from_ref(&images))?, split.module.call(&[images])?);
    if !before.bits_eq(&after) {
        bail!(Check, "the partitioned program gives other numbers");
    }
    println!("the partitioned program gives the same bits for {} images", before.dim(0));

    // And back again: the same nodes in one graph.
    let back = split.inline()?;
    println!("inlined, it has {} nodes; it had {}", back.graph().len(), traced.graph().len());
    Ok(())
}
