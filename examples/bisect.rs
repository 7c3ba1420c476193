//! A pass that is wrong in one of its changes is found, and the very change.
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

use fx::prelude::*;
use fx::{Arg, GraphModule, Passes, pass};

/// Means to replace `x + x` by `x * 2`, but forgets that the operands may differ.
fn double(gm: &mut GraphModule, cx: &mut fx::Context) -> Result<()> {
    for id in gm.graph().find_nodes(fx::OpCode::CallFunction, Some("add")) {
        let graph = gm.graph_mut();
        let [x @ Arg::Leaf(_), Arg::Leaf(_)] = graph.node(id)?.args() else { continue };
        let x = x.clone();
        if !cx.allow(|| format!("double %{}", graph.node(id).map_or("?", |node| node.name()))) {
            break;
        }
        graph.transaction(|graph| {
            let new =
                graph.inserting_before(id, |graph| graph.call_function(fx::mul::OP, [x, Arg::Int(2)]))??;
            graph.replace_all_uses(id, new)?;
            graph.erase(id)
        })?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let program = |x: &Tensor, y: &Tensor| {
        let a = (x + x).relu();
        let b = (&a + &a).tanh();
        let c = &b + y.exp();
        (&c + &c).sigmoid() * -(-y)
    };
    let gm = fx::trace(program).input("x", "f32[n, 4]").input("y", "f32[n, 4]").build()?;
    let passes =
        Passes::new().add(pass::NORMALIZE).add(pass::SIMPLIFY).with("double", double).add(pass::DEAD_CODE);

    let reference = fx::bisect::Reference::Runs { n: 3, seed: 0, tolerance: 1e-4 };
    let culprit = fx::bisect::bisect(&gm, &passes, reference)?.expect("the pass is wrong");
    println!("{culprit}");
    assert_eq!((&*culprit.pass, culprit.change.as_ref().map(|change| change.0)), ("double", Some(3)));
    Ok(())
}
