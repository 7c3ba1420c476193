use fx::prelude::*;

#[derive(Module)]
#[module(repr = Self::describe)]
struct A;

#[derive(Module)]
#[module(repr = "self.describe()")]
struct B;

fn main() {}
