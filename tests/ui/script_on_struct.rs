use fx::prelude::*;

#[fx::script]
struct S;

fn main() {}
