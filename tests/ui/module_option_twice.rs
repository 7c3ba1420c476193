use fx::prelude::*;

#[derive(Module)]
#[module(leaf, impure)]
#[module(leaf)]
struct Model;

fn main() {}
