use fx::prelude::*;

#[derive(Module)]
#[module(leave)]
struct Model;

fn main() {}
