//! Means, variances and norms of a batch, as kernels.

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
