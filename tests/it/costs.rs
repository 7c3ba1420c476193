//! What programs cost: exact counts, symbols, modules, and the peak of memory.

use fx::analysis::{Costs, Sizes, Summary};
use fx::nn::{Conv2d, Linear, ReLU};
use fx::prelude::*;
use fx::{Dim, GraphModule};

/// Returns the arithmetic of the only call in a graph of one line.
fn flops(arguments: &str, call: &str) -> Option<String> {
    let graph =
        fx::parse(&format!("graph main({arguments}) {{\n  %out = {call}\n  return %out\n}}\n")).unwrap();
    let gm = GraphModule::new("one", graph);
    let costs = Costs::new(&gm, &Sizes::new()).unwrap();
    Some(costs.of(gm.graph().find("out").unwrap()).unwrap().flops.as_ref()?.to_string())
}

#[test]
fn multiply_adds_count_two_as_in_pytorchs_counter() {
    let cases = [
        ("%x: f32[5, 3], %w: f32[7, 3], %b: f32[7]", "linear(%x, %w, %b)", "210"),
        ("%x: f32[n, 3], %w: f32[7, 3]", "linear(%x, %w)", "42*n"),
        ("%x: f32[2, 5, 3], %y: f32[3, 4]", "matmul(%x, %y)", "240"),
        ("%x: f32[3], %y: f32[3]", "dot(%x, %y)", "6"),
        ("%b: f32[4], %x: f32[5, 3], %y: f32[3, 4]", "addmm(%b, %x, %y)", "120"),
        // torch.utils.flop_counter: conv_flop([2, 4, 8, 8], [6, 2, 3, 3], groups=2, padding=1) = 27648.
        ("%x: f32[2, 4, 8, 8], %w: f32[6, 2, 3, 3]", "conv2d(%x, %w, padding=1, groups=2)", "27648"),
        ("%x: f32[2, 4, 8, 8], %w: f32[4, 6, 3, 3]", "conv_transpose2d(%x, %w)", "55296"),
        // Queries of 5, keys of 7, 2 heads of 8: 2 * 2 * 5 * 7 * (8 + 8).
        (
            "%q: f32[1, 2, 5, 8], %k: f32[1, 2, 7, 8], %v: f32[1, 2, 7, 8]",
            "scaled_dot_product_attention(%q, %k, %v)",
            "2240",
        ),
        (
            "%x: f32[2, 3], %h: f32[2, 4], %c: f32[2, 4], %w: f32[16, 3], %u: f32[16, 4]",
            "lstm_cell(%x, %h, %c, %w, %u)",
            "448",
        ),
        ("%a: f32[2, 3, 4], %b: f32[2, 4, 5]", "einsum(\"bij,bjk->bik\", [%a, %b])", "240"),
        ("%a: f32[2, 3, 4], %b: f32[4, 5]", "tensordot(%a, %b, 1)", "240"),
        ("%x: f32[2, 1, 4, 4]", "max_pool2d(%x, [2, 2])", "32"),
        ("%x: f32[4, 5], %y: f32[5]", "add(%x, %y)", "20"),
        ("%x: f32[4, 5]", "sum(%x, dim=[0])", "20"),
        ("%x: f32[4, 5]", "transpose(%x, 0, 1)", "0"),
        ("%x: f32[4, 5]", "softmax(%x, 1)", "100"),
    ];
    for (arguments, call, expected) in cases {
        assert_eq!(flops(arguments, call).as_deref(), Some(expected), "{call}");
    }
    // What nobody has counted is not zero.
    assert_eq!(flops("%x: f32[3, 3]", "linalg_svd(%x)"), None);
}

#[test]
fn a_branch_costs_the_dearer_and_a_loop_one_round() {
    let body = |x: &Tensor, w: &Tensor| {
        fx::cond(
            x.sum((), false).gt(0.0),
            |(x, w): (Tensor, Tensor)| x.matmul(&w),
            |(x, _): (Tensor, Tensor)| x.exp(),
            (x.clone(), w.clone()),
        )
    };
    let gm = fx::trace(body).input("x", "f32[4, 4]").input("y", "f32[4, 4]").build().unwrap();
    let costs = Costs::new(&gm, &Sizes::new()).unwrap();
    let cond = gm.graph().find("cond").unwrap();
    assert_eq!(costs.of(cond).unwrap().flops, Some(Dim::new(128)));
}

#[derive(Module)]
struct Block {
    fc: Linear,
    act: ReLU,
}
#[fx::forward]
impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.act.call(&self.fc.call(x)) + x
    }
}
#[derive(Module)]
struct Net {
    conv: Conv2d,
    blocks: Vec<Block>,
}
#[fx::forward]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.conv.call(x).flatten(1, -1);
        self.blocks.iter().fold(x, |x, block| block.call(&x))
    }
}

fn net() -> GraphModule {
    let block = || Block { fc: Linear::new(16, 16), act: ReLU };
    let net = Net { conv: Conv2d::new(1, 4, 3), blocks: vec![block(), block()] };
    fx::trace(&net).input("x", "f32[n, 1, 4, 4]").build().unwrap()
}

#[test]
fn modules_sum_up_to_the_whole_with_symbols_and_numbers() {
    let gm = net();
    let summary = Summary::new(&gm, &Sizes::new()).unwrap();
    let row = |path: &str| summary.rows.iter().find(|row| row.path == path).unwrap();
    // A convolution: 2 * 16 n * 9; a block: 2 * 16 * 16 n, and 16 n each for relu and the sum.
    let text = |path: &str| row(path).cost.flops.as_ref().unwrap().to_string();
    assert_eq!(
        (text("conv").as_str(), text("blocks.1").as_str(), text("").as_str()),
        ("288*n", "544*n", "1376*n")
    );
    assert_eq!((row("conv").parameters.elements, row("blocks.0").parameters.bytes), (40, 1088));
    assert_eq!(row("").parameters.elements, 40 + 2 * 272);
    assert_eq!((row("blocks.0.fc").depth, row("").nodes, row("").unknown), (2, 8, 0));
    assert!(summary.peak.is_none() && summary.to_string().contains("depends on sizes"));

    let summary = Summary::new(&gm, &[("n".to_owned(), 8)].into()).unwrap();
    assert_eq!(summary.whole().cost.flops, Some(Dim::new(1376 * 8)));
    // The argument (512 bytes), the sum that the first block begins with, and the results of its layers.
    let peak = summary.peak.unwrap();
    assert_eq!((peak.bytes, peak.node.as_str()), (512 * 4, "blocks_0_act"));
    let wrong = Summary::new(&gm, &[("m".to_owned(), 8)].into()).unwrap_err();
    assert_eq!(wrong.message(), "no size is called \"m\"");
}

#[test]
fn what_is_split_costs_the_same_and_shows_its_modules() {
    let gm = net();
    let split = fx::splitting::split_by_size(&gm, fx::splitting::PartSize::Nodes(3)).unwrap();
    let sizes: Sizes = [("n".to_owned(), 8)].into();
    let (before, after) = (Summary::new(&gm, &sizes).unwrap(), Summary::new(&split.module, &sizes).unwrap());
    assert_eq!(before.whole().cost.flops, after.whole().cost.flops);
    assert_eq!(before.whole().parameters, after.whole().parameters);
    assert!(after.rows.iter().any(|row| row.path == "submod_0.conv" && row.depth == 2));
    // The outer graph holds what it passes until the part returns.
    assert!(before.peak.unwrap().bytes <= after.peak.unwrap().bytes);
}

#[test]
fn the_command_line_sums_up_programs() {
    let fx = |args: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_fx"))
            .args(args)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, table, _) = fx(&["summary", "tests/data/zoo/chain.pt2"]);
    assert!(code == Some(0) && table.starts_with("module") && table.contains("\nparameters  "), "{table}");
    let (_, text, _) = fx(&["summary", "tests/data/zoo/chain.pt2", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["modules"][0]["path"], "");
    assert!(json["modules"][0]["nodes"].as_u64() > Some(0), "{text}");
    let (code, _, error) = fx(&["summary", "tests/data/zoo/chain.pt2", "--size", "nothing=3"]);
    assert!(code == Some(2) && error.contains("no size is called \"nothing\""), "{error}");
    let (code, _, error) = fx(&["summary", "tests/data/zoo/chain.pt2", "--size", "n"]);
    assert!(code == Some(2) && error.contains("expected NAME=N"), "{error}");
}
