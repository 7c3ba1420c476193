//! Rearrangements in crates whose sizes are not known before a call.

use fx::prelude::*;
use fx::{CrateOptions, GraphModule, Value};

use super::{cargo, reproduces};

/// The numbers that a tensor of these sizes has in a record.
fn numbers(shape: &[i64]) -> Value {
    let n = shape.iter().product::<i64>();
    let numbers = (0..n).map(|i| i as f32 / 7.0 - 1.0).collect::<Vec<f32>>();
    Value::from(&Tensor::from_vec(numbers, &shape.iter().map(|&n| n as usize).collect::<Vec<_>>()))
}

#[test]
fn rearrangements_of_any_sizes() {
    const CALLS: &str = r#"
        roll(%x, [2, -1], [0, 2])
        flip(%x, [1, 2])
        rot90(%x, 1, [0, 2])
        rot90(%x, 2, [0, 2])
        rot90(%x, 3, [0, 2])
        repeat(%x, [2, 1, 2, 3])
        tile(%y, [2])
        repeat_interleave(%x, 2, 1)
        repeat_interleave(%x, 3)
        hstack([%y, %y])
        vstack([%y, %y])
        dstack([%y, %y])
        column_stack([%y, %y])
        pad(%x, [1, 2, 2, -1], "reflect")
        pad(%x, [1, 2, 2, -1], "replicate")
        pad(%x, [1, 2, 2, -1], "circular")
        tril(%x, 1)
        triu(%x, -1)
        diag_embed(%y)
        diagonal(%x, -1, 2, 0)
        unfold(%x, 2, 3, 2)
        interpolate(%image, none, 2)
        interpolate(%image, none, 3, "bilinear")
        interpolate(%image, none, 2, "bilinear", true)
        interpolate(%image, none, 0.5, "bilinear")
        interpolate(%image, none, 0.75, "bilinear", false, antialias=true)
        interpolate(%image, none, 1.5, "bicubic")
        interpolate(%image, none, 0.625, "bicubic", recompute_scale_factor=true, antialias=true)
        interpolate(%image, none, [0.5, 1.25], "area")
        interpolate(%image, none, 1.25, "nearest-exact")
        interpolate(%image, [7, 90], none, "bicubic", true)
        interpolate(%image, [<w>, <2*h>], none, "bilinear")
        interpolate(%image, [<h>, 5], none, "nearest")
        upsample_nearest(%numbers, none, 1.75)
        upsample_bilinear(%image, [<w>, <h>])
        embedding_bag(%bag, %table, %offsets, mode="sum")
        embedding_bag(%bag, %table, %offsets, mode="mean")
        embedding_bag(%bag, %table, %offsets, mode="max")
    "#;
    let calls: Vec<&str> = CALLS.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut text = "graph main(%x: f32[c, h, w], %y: f32[n], %bag: i64[b], %table: f32[7, 2], %offsets: i64[m]) {\n  \
         %image = unsqueeze(%x, 0)\n  %numbers = to(%image, i32)\n  %grids = meshgrid([%y, %y])\n  %g0 = getitem(%grids, 0)\n  %g1 = getitem(%grids, 1)\n"
        .to_owned();
    for (i, call) in calls.iter().enumerate() {
        text += &format!("  %r{i} = {call}\n");
    }
    let results: Vec<String> = (0..calls.len()).map(|i| format!("%r{i}")).collect();
    text += &format!("  return [%g0, %g1, {}]\n}}\n", results.join(", "));
    let gm = GraphModule::new("any_sizes", fx::parse(&text).unwrap());
    let ints = |list: &[i64]| Value::from(&Tensor::from_vec(list.to_vec(), &[list.len()]));
    let set = |[c, h, w, n]: [i64; 4], bag: &[i64], offsets: &[i64]| {
        [numbers(&[c, h, w]), numbers(&[n]), ints(bag), numbers(&[7, 2]), ints(offsets)]
    };
    let options = CrateOptions::new()
        .record(&set([2, 4, 5, 3], &[1, 6, 0, 2], &[0, 2]))
        .record(&set([5, 3, 3, 1], &[3], &[0, 0, 1]))
        .record(&set([3, 7, 11, 8], &[5, 5, 4, 1, 0, 2, 6], &[0, 1, 1, 4]));
    reproduces(&gm, "any_sizes", options);
}

/// Slices end where the axis does, also before they begin; rolls of nothing are nothing.
#[test]
fn slices_reach_past_axes_of_any_size() {
    let text = "graph main(%x: f32[n, m], %p: i64[k]) {
        %a = slice(%x, 1, 1, 9223372036854775807)
        %b = slice(%x, 1, 3, 5)
        %c = slice(%x, 0, -2)
        %d = slice(%x, 1, -4, -1)
        %e = getitem(%x, (slice(1, none, none), slice(2, none, 2)))
        %f = roll(%x, [1], [1])
        %g = roll(%x, [-2], [0])
        %h = slice(%x, 1, 4, 2)
        %j = getitem(%x, (%p, slice(2, 4, none)))
        %u = exp(%a)
        %v = exp(%b)
        %w = exp(%c)
        %y = exp(%d)
        %z = exp(%e)
        %o = exp(%h)
        return [%u, %v, %w, %y, %z, %f, %g, %o, %j]
    }";
    let gm = GraphModule::new("slices", fx::parse(text).unwrap());
    let places = |n: i64| Value::from(&Tensor::from_vec((0..n.min(2)).collect(), &[n.min(2) as usize]));
    let sizes = [[1, 1], [0, 4], [4, 0], [2, 3], [3, 2], [5, 7]];
    let options = sizes
        .iter()
        .fold(CrateOptions::new(), |options, size| options.record(&[numbers(size), places(size[0])]));
    reproduces(&gm, "slices", options);
}

#[test]
fn numbers_out_of_data_are_in_their_ranges() {
    let text = "graph main<m: 2..=3>(%x: f32[n, 2], %count: i64[], %parts: i64[]) {
        %n: <d0> = item(%count)
        %m: <m> = item(%parts)
        %zeros = zeros([%n, %m])
        %y = cat([%x, %zeros])
        return %y
    }";
    let mut gm = GraphModule::new("data_ranges", fx::parse(text).unwrap());
    fx::pass::SHAPE_PROP.apply(&mut gm).unwrap();
    let number = |n: i64| Value::from(&Tensor::from_vec(vec![n], &[]));
    let set = |n: i64| [numbers(&[3, 2]), number(n), number(2)];
    let dir = reproduces(&gm, "data_ranges", CrateOptions::new().record(&set(4)).record(&set(0)));
    let test = "use data_ranges::{Model, Tensor};\n#[test]\nfn refuses() {\n    \
                let mut model = Model::load(\"model.safetensors\").unwrap();\n    \
                let mut run = |n: i64, m: i64| {\n        \
                model.forward(Tensor::new([1, 2], &[0.0; 2]), Tensor::new([], &[n]), Tensor::new([], &[m])).map(drop).unwrap_err().to_string()\n    };\n    \
                let fits = |why: &str| format!(\"these sizes do not fit the program: {why}\");\n    \
                assert_eq!(run(-2, 2), fits(\"d0 is negative\"));\n    \
                assert_eq!(run(1, 1), fits(\"m - 2 is negative\"));\n    \
                assert_eq!(run(1, 4), fits(\"3 - m is negative\"));\n}\n";
    std::fs::write(dir.join("tests/ranges.rs"), test).unwrap();
    cargo(&dir, &["test"]);
}
