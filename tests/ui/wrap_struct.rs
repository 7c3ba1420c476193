#[fx::wrap]
struct Model;

fn main() {}
