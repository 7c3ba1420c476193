//! A pass of one's own in ten lines, run among others, each verified; and what happens to one that is wrong.
//!
//! `cargo run --release --example custom_pass`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

use fx::prelude::*;
use fx::{Context, GraphModule, OpCode, Passes, pass};

/// Replaces `x * 2` by `x + x`.
fn double_by_adding(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    for id in gm.graph().find_nodes(OpCode::CallFunction, Some("mul")) {
        let node = gm.graph().node(id)?;
        let [x, fx::Arg::Int(2)] = node.args() else { continue };
        if cx.allow(|| format!("double %{}", node.name())) {
            let x = x.clone();
            gm.graph_mut().set_op(id, fx::add::OP)?;
            gm.graph_mut().set_arg(id, 1, x)?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut gm = fx::trace(|x: &Tensor| (x * 2).relu() + (x * 2)).input("x", "f32[n]").build()?;
    let passes = Passes::new().with("double_by_adding", double_by_adding).add(pass::CSE).add(pass::DEAD_CODE);
    let report = passes.compare_runs(3, 0).keep_diffs().run(&mut gm)?;
    println!("{report}\n{}", gm.graph());

    // This one forgets that the other operand may be anything.
    let wrong = |gm: &mut GraphModule, cx: &mut Context| {
        for id in gm.graph().find_nodes(OpCode::CallFunction, Some("add")) {
            let name = gm.graph().node(id)?.name().to_owned();
            if cx.allow(|| format!("change %{name}")) {
                gm.graph_mut().set_op(id, fx::sub::OP)?;
            }
        }
        Ok(())
    };
    let error = Passes::new().with("wrong", wrong).compare_runs(3, 0).run(&mut gm).err();
    println!("{}", error.map_or("nobody noticed".into(), |error| error.to_string()));
    Ok(())
}
