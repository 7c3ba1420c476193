//! Rewriting by pattern: closures in, closures out; a rule with conditions; and why it does not match elsewhere.
//!
//! `cargo run --release --example pattern_rule`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

use fx::prelude::*;
use fx::rewrite::{Rule, Rules, number};

fn main() -> Result<()> {
    let model = |x: &Tensor| {
        let y = x * x.sigmoid(); // operands in another order than in the pattern
        (&y * 3.0 + y.relu() * 1e-12) * 0.5
    };
    let mut gm = fx::trace(model).input("x", "f32[n, 8]").build()?;
    let replaced = fx::replace_pattern(&mut gm, |x: &Tensor| x.sigmoid() * x, |x: &Tensor| x.silu())?;
    println!("{} replaced\n{}", replaced.len(), gm.graph());

    let negligible = Rule::new(
        "negligible",
        |x: &Tensor, y: &Tensor| x + y * number("c"),
        |x: &Tensor, _: &Tensor| x.clone(),
    )?
    .when("c is tiny", |found| found.number("c").is_some_and(|c| c.abs() < 1e-9));
    println!("{}", negligible.explain(&gm, gm.graph().find_or_err("add")?)?);
    println!("{}", negligible.explain(&gm, gm.graph().find_or_err("mul_1")?)?);
    println!("{}", Rules::new([negligible]).run(&mut gm)?);
    println!("\n{}", gm.graph());
    Ok(())
}
