//! Look-ups by integers are kernels: their results are those of the operations, and integers that name
//! nothing are errors.

use fx::prelude::*;
use fx::{Engine, ErrorKind};
use proptest::prelude::*;

use super::{agree, numbers, program, steps, values};

/// Whole numbers below `n`.
fn below(n: usize, shape: &[usize], seed: u64) -> Tensor {
    ((numbers(shape, seed) + 2.0) * (n as f64 / 4.0)).floor().clamp(0.0, n as f64 - 1.0).to(DType::I64)
}

const PROGRAM: &str = "graph main(%i: i64[b, s], %x: f32[b, s, 12], %row: i64[k], %order: i32[9, 4]) {
    %table: f32[50, 12] = self.table
    %e = embedding(%i, %table)
    %sum = add(%e, %x)
    %t = transpose(%sum, 1, 2)
    %rows = index_select(%t, 1, %row)
    %columns = index_select(%sum, -1, %row)
    %one = gather(%table, 1, %order)
    %two = embedding(%row, %table)
    return (%rows, %columns, %e, %one, %two)
}";

#[test]
fn look_ups_are_kernels_for_all_sizes() {
    let gm = program(PROGRAM);
    let fused = gm.compile(Engine::Fused).unwrap();
    for (b, s, k) in [(2, 7, 5), (1, 1, 1), (0, 3, 2), (3, 0, 4), (2, 5, 0), (17, 301, 13), (8, 512, 12)] {
        let order = below(12, &[9, 4], 4).to(DType::I32);
        let args = [below(50, &[b, s], 1), numbers(&[b, s, 12], 2), below(12, &[k], 3), order];
        agree(&gm, &values(&args), true);
        let expected = fx::check::tensors(&gm.call_values(&values(&args)).unwrap());
        let got = fx::check::tensors(&fused.call_values(&values(&args)).unwrap());
        assert!(got.iter().zip(&expected).all(|(got, expected)| got.bits_eq(expected)), "{b} {s} {k}");
    }
    let small = PROGRAM.replace("[b, s", "[2, 7").replace("[k]", "[5]");
    let evaluated = steps(&program(&small)).1;
    assert_eq!(evaluated, 0);
}

#[test]
fn integers_that_name_nothing_are_errors_at_their_node() {
    let gm = program(PROGRAM);
    let fused = gm.compile(Engine::Fused).unwrap();
    let order = below(12, &[9, 4], 4).to(DType::I32);
    let good = [below(50, &[2, 70], 1), numbers(&[2, 70, 12], 2), below(12, &[4], 3), order];
    for (at, bad, node) in
        [(0, 50, "%e"), (0, -1, "%e"), (2, 12, "%rows"), (2, i64::MIN, "%rows"), (3, 12, "%one")]
    {
        let mut args = good.clone();
        let last = args[at].array().unwrap().numel() as i64 - 1;
        let position = fx::arange(0, last + 1, 1).reshape(args[at].shape().unwrap());
        let dtype = args[at].dtype().unwrap();
        args[at] = fx::where_(position.eq(last), bad, &args[at]).to(dtype);
        let expected = gm.call_values(&values(&args)).unwrap_err();
        let got = fused.call_values(&values(&args)).unwrap_err();
        assert_eq!((got.kind(), got.message()), (ErrorKind::Index, expected.message()));
        assert!(got.to_string().contains(node), "{got}");
        // The next call is not the worse for it.
        fused.call_values(&values(&good)).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_axis_of_any_window_is_looked_up(
        sizes in prop::collection::vec(1usize..7, 1..5), axis in 0usize..4, turned: bool, each: bool, is_short: bool, k in 0usize..9,
        dtype in prop::sample::select(vec![DType::F32, DType::F64, DType::F16, DType::U8, DType::Bool, DType::I64]),
    ) {
        let (rank, axis) = (sizes.len(), axis % sizes.len());
        let turn = if turned && rank > 1 { format!("%w = transpose(%x, 0, {})", rank - 1) } else { "%w = contiguous(%x)".into() };
        let mut taken = sizes.clone();
        if turned && rank > 1 { taken.swap(0, rank - 1); }
        let n = taken[axis];
        // The index of a gather may be smaller along other axes.
        taken[axis] = k;
        if let Some(other) = (0..rank).find(|other| *other != axis) { taken[other] -= taken[other] / 3; }
        let shape = if each { taken } else { vec![k] };
        let op = if each { "gather" } else { "index_select" };
        let int = if is_short { "i32" } else { "i64" };
        let gm = program(&format!(
            "graph main(%x: {dtype}{sizes:?}, %i: {int}{shape:?}) {{\n{turn}\n%y = {op}(%w, {axis}, %i)\nreturn %y\n}}"
        ));
        let index = below(n, &shape, 2).to(if is_short { DType::I32 } else { DType::I64 });
        let x = (numbers(&sizes, 1) * 50.0 + 100.0).to(dtype);
        agree(&gm, &values(&[x, index]), true);
        prop_assert_eq!(steps(&gm).1, 0);
    }
}

#[test]
fn query_heads_share_key_heads_without_copies() {
    let text = "graph main(%q: f32[2, 8, 30, 16], %k: f32[2, 2, 41, 16], %v: f32[2, 2, 41, 16], %mask: f32[30, 41]) {
        %k1 = unsqueeze(%k, 2)
        %k2 = expand(%k1, [2, 2, 4, 41, 16])
        %k3 = reshape(%k2, [2, 8, 41, 16])
        %v3 = repeat_interleave(%v, 4, 1)
        %o = scaled_dot_product_attention(%q, %k3, %v3, %mask)
        %k4 = repeat_interleave(%k, 4, 1)
        %v4 = repeat_interleave(%v, 4, 1)
        %p = scaled_dot_product_attention(%q, %k4, %v4, is_causal=true)
        return (%o, %p)
    }";
    let gm = program(text);
    let shapes: [&[usize]; 4] = [&[2, 8, 30, 16], &[2, 2, 41, 16], &[2, 2, 41, 16], &[30, 41]];
    let args: Vec<Tensor> = (1..).zip(shapes).map(|(seed, shape)| numbers(shape, seed)).collect();
    agree(&gm, &values(&args), false);
    assert_eq!(steps(&gm), (2, 0));
}
