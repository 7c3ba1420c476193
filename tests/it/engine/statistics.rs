//! Means, variances, norms of a batch and softmax along any axis, as kernels.

use fx::Engine;
use fx::prelude::*;
use proptest::prelude::*;

use super::{agree, numbers, program, steps, values};

#[test]
fn batches_are_normalised_by_kernels_in_both_orders() {
    for shape in [&[6, 17][..], &[5, 8, 3], &[4, 20, 40], &[3, 5, 9, 11], &[2, 64, 8, 8], &[2, 3, 4, 5, 6]] {
        for dtype in [DType::F32, DType::F64] {
            let (c, rank) = (shape[1], shape.len());
            let body = |x: &str| {
                format!(
                    "%y = batch_norm(%{x}, none, none, %w, %b, training=true, eps=0.001)
                     %z = relu(%y)
                     %plain = batch_norm(%{x}, none, none, training=true)
                     return (%z, %plain)"
                )
            };
            let of_input = program(&format!(
                "graph main(%x: {dtype}{shape:?}, %w: {dtype}[{c}], %b: {dtype}[{c}]) {{\n{}\n}}",
                body("x")
            ));
            let given = [numbers(shape, 1), numbers(&[c], 2), numbers(&[c], 3)].map(|x| x.to(dtype));
            agree(&of_input, &values(&given), false);
            assert_eq!(steps(&of_input), (3, 0), "{shape:?}");
            if rank != 4 {
                continue;
            }
            // The channels of a convolution's result lie last.
            let after = program(&format!(
                "graph main(%x: {dtype}{shape:?}, %w: {dtype}[{c}], %b: {dtype}[{c}]) {{
                    %k: {dtype}[{c}, {c}, 3, 3] = self.kernel
                    %a = conv2d(%x, %k, padding=1)
                    {}
                }}",
                body("a")
            ));
            agree(&after, &values(&given), false);
            assert_eq!(steps(&after).1, 0, "{shape:?}");
        }
    }
}

#[test]
fn a_step_of_training_is_all_kernels() {
    let mut norm = fx::nn::BatchNorm2d::new(24);
    norm.training = true;
    let x = numbers(&[3, 24, 9, 7], 5);
    let gm = fx::trace(&norm).input("x", &x).build().unwrap();
    agree(&gm, &values(&[x]), false);
    let text = gm.compile(Engine::Fused).unwrap().fused().unwrap().describe();
    assert_eq!(steps(&gm).1, 0, "{text}");
}

#[test]
fn variances_far_from_zero_are_those_of_the_operations() {
    for mean in [1e4, 1e5, 1e6] {
        let gm = program(&format!(
            "graph main(%x: f32[700, 40], %y: f32[3, 20, 8, 9]) {{
                %a = add(%x, {mean:?})
                %v = var(%a, 0)
                %s = std(%a, 1)
                %b = add(%y, {mean:?})
                %c = std(%b, [0, 2, 3])
                %e = full_like(%y, {mean:?})
                %f = mul(%e, 1.1)
                %same = std(%f, [0, 2])
                return (%v, %s, %c, %same)
            }}"
        ));
        agree(&gm, &values(&[numbers(&[700, 40], 1), numbers(&[3, 20, 8, 9], 2)]), false);
    }
}

#[test]
fn softmax_along_any_axis_is_a_kernel_in_both_orders() {
    for dtype in [DType::F32, DType::F64] {
        let shape = [2, 19, 5, 32];
        for turned in [false, true] {
            let from = if turned { "%x: f32[19, 2, 5, 32]" } else { "%x: f32[2, 19, 5, 32]" };
            let turn = if turned { "transpose(%x, 0, 1)" } else { "neg(%x)" };
            let gm = program(&format!(
                "graph main({}) {{
                    %a = {turn}
                    %p0 = softmax(%a, 0)
                    %p1 = log_softmax(%a, 1)
                    %p2 = softmax(%a, -2)
                    %p3 = log_softmax(%a, 3)
                    return (%p0, %p1, %p2, %p3)
                }}",
                from.replace("f32", &dtype.to_string())
            ));
            let given = if turned { [19, 2, 5, 32] } else { shape };
            agree(&gm, &values(&[numbers(&given, 1).to(dtype)]), false);
            assert_eq!(steps(&gm).1, 0);
        }
        // Channels that lie last are rows; other axes have them between their steps.
        let gm = program(&format!(
            "graph main(%x: {dtype}[2, 3, 7, 9]) {{
                %k: {dtype}[24, 3, 3, 3] = self.kernel
                %a = conv2d(%x, %k, padding=1)
                %c = softmax(%a, 1)
                %d = log_softmax(%a, 2)
                %s = sum(%c, [0])
                return (%c, %d, %s)
            }}"
        ));
        agree(&gm, &values(&[numbers(&[2, 3, 7, 9], 1).to(dtype)]), false);
    }
    // One plan for all sizes, even those for which there is no kernel.
    let gm = program("graph main(%x: f32[a, n, m]) {\n%y = softmax(%x, 1)\nreturn %y\n}");
    let fused = gm.compile(Engine::Fused).unwrap();
    for shape in
        [[2, 5, 30], [2, 6, 30], [3, 4, 1], [3, 4, 2], [1, 70_000, 17], [0, 3, 20], [2, 0, 20], [2, 3, 0]]
    {
        let args = values(&[numbers(&shape, 1)]);
        let [expected, got] = [gm.call_values(&args), fused.call_values(&args)];
        let [expected, got] = [expected, got].map(|value| fx::check::tensors(&value.unwrap()).remove(0));
        got.all_close(&expected, 1e-6, 1e-6).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn statistics_over_any_axes_are_those_of_the_operations(
        shape in prop::collection::vec(1usize..9, 1..5), last in 1usize..70, mask in 1usize..32, keepdim: bool, negative: bool,
        correction in prop::sample::select(vec![0.0, 1.0, 0.5]), wide: bool,
    ) {
        let shape: Vec<usize> = shape.into_iter().chain([last]).collect();
        let rank = shape.len();
        let axes: Vec<i64> = (0..rank).filter(|axis| mask >> axis & 1 == 1)
            .map(|axis| axis as i64 - if negative { rank as i64 } else { 0 }).collect();
        prop_assume!(!axes.is_empty());
        let dtype = if wide { DType::F64 } else { DType::F32 };
        let gm = program(&format!(
            "graph main(%x: {dtype}{shape:?}) {{
                %a = mul(%x, 0.5)
                %sum = sum(%a, {axes:?}, keepdim={keepdim})
                %most = amax(%a, {axes:?}, keepdim={keepdim})
                %var = var(%a, {axes:?}, correction={correction:?}, keepdim={keepdim})
                %both = std_mean(%a, {axes:?}, correction={correction:?}, keepdim={keepdim})
                %std = getitem(%both, 0)
                %mean = getitem(%both, 1)
                return (%sum, %most, %var, %std, %mean, %a)
            }}"
        ));
        agree(&gm, &values(&[numbers(&shape, 3).to(dtype)]), false);
    }
}
