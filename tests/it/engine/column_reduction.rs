//! Reductions over axes before the last ones, in one kernel with what computes their elements.

use fx::Engine;
use fx::prelude::*;
use proptest::prelude::*;

use super::{agree, bits, numbers, program, steps, values};

/// Reductions of what is computed, and something that is kept.
fn text(dtype: DType, shape: &[usize], axes: &[usize], keepdim: bool) -> String {
    format!(
        "graph main(%x: {dtype}{shape:?}, %row: {dtype}[{}]) {{
            %a = add(%x, %row)
            %b = tanh(%a)
            %sum = sum(%b, {axes:?}, keepdim={keepdim})
            %most = amax(%b, {axes:?}, keepdim={keepdim})
            %c = mul(%b, 2.0)
            %mean = mean(%c, {axes:?}, keepdim={keepdim})
            %least = amin(%a, {axes:?})
            %scaled = mul(%sum, 0.5)
            return (%scaled, %most, %mean, %least, %c)
        }}",
        shape[shape.len() - 1]
    )
}

fn inputs(dtype: DType, shape: &[usize]) -> Vec<Tensor> {
    vec![numbers(shape, 1).to(dtype), numbers(&shape[shape.len() - 1..], 2).to(dtype)]
}

#[test]
fn columns_of_all_sizes_are_reduced_with_what_computes_them() {
    let cases: [(&[usize], &[usize]); 12] = [
        (&[7, 16], &[0]),
        (&[1, 40], &[0]),
        (&[129, 17], &[0]),
        (&[1000, 64], &[0]),
        (&[5000, 33], &[0]),
        (&[3, 20011], &[0]),
        (&[260, 5003], &[0]),
        (&[4, 300, 31], &[1]),
        (&[2, 3, 5, 101], &[0, 1]),
        (&[2, 3, 5, 101], &[1]),
        (&[3, 70, 2, 19], &[0, 1]),
        (&[64, 2, 3, 17], &[0]),
    ];
    for dtype in [DType::F32, DType::F64] {
        for (shape, axes) in cases {
            let gm = program(&text(dtype, shape, axes, shape.len() == 3));
            agree(&gm, &values(&inputs(dtype, shape)), false);
            // The kernel, and what is made of a sum.
            assert_eq!(steps(&gm), (2, 0), "{shape:?} {axes:?}");
        }
    }
}

#[test]
fn threads_change_no_bit_of_columns_and_nothing_that_is_not_a_number_is_lost() {
    for (shape, axes) in [(&[3000, 257][..], &[0][..]), (&[2, 700, 19], &[1]), (&[40, 30_001], &[0])] {
        let gm = program(&text(DType::F32, shape, axes, false));
        let mut args = inputs(DType::F32, shape);
        let some = numbers(shape, 9).gt(1.99);
        args[0] = fx::where_(some, f64::NAN, &args[0]);
        let expected = agree(&gm, &values(&args), false);
        assert!(bits(&expected[1]).contains(&f64::NAN.to_bits()), "{shape:?}");
        let program = gm.compile(Engine::Fused).unwrap();
        let call =
            |n| fx::with_threads(n, || fx::check::tensors(&program.call_values(&values(&args)).unwrap()));
        let one = call(1);
        for n in [2, 3, 7] {
            assert!(call(n).iter().zip(&one).all(|(a, b)| bits(a) == bits(b)), "{n} threads, {shape:?}");
        }
    }
}

#[test]
fn one_plan_reduces_columns_of_all_sizes() {
    let gm = program(
        "graph main(%x: f32[b, n, m], %y: f32[b, n, m]) {
            %a = mul(%x, %y)
            %b = sum(%a, [1])
            %c = relu(%x)
            %d = mean(%c, [0, 1])
            return (%b, %d)
        }",
    );
    let fused = gm.compile(Engine::Fused).unwrap();
    for shape in
        [[2, 40, 30], [2, 41, 30], [3, 1000, 17], [1, 1, 1], [2, 0, 5], [0, 3, 4], [4, 3, 2], [2, 900, 64]]
    {
        let args = values(&[numbers(&shape, 1), numbers(&shape, 2)]);
        let expected = fx::check::tensors(&gm.call_values(&args).unwrap());
        let got = fx::check::tensors(&fused.call_values(&args).unwrap());
        for (got, expected) in got.iter().zip(&expected) {
            assert_eq!(got.ty().unwrap(), expected.ty().unwrap());
            let same = bits(got) == bits(expected);
            assert!(same || got.all_close(expected, 1e-5, 1e-5).is_ok(), "{shape:?}");
        }
    }
}

#[test]
fn what_needs_a_complete_column_is_another_kernel() {
    let gm = program(
        "graph main(%x: f32[300, 40]) {
            %a = exp(%x)
            %s = sum(%a, [0], keepdim=true)
            %p = sub(%a, %s)
            %t = sum(%p, [0])
            %r = sum(%p, [1])
            return (%p, %t, %r)
        }",
    );
    agree(&gm, &values(&[numbers(&[300, 40], 1)]), false);
    assert_eq!(steps(&gm).1, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_neighbouring_axes_of_any_window_are_reduced(
        sizes in prop::collection::vec(1usize..7, 1..4), last in 16usize..200, from in 0usize..3, n in 1usize..3, turned: bool,
        op in prop::sample::select(vec!["sum", "mean", "amax", "amin"]),
    ) {
        let shape: Vec<usize> = sizes.iter().copied().chain([last]).collect();
        let start = from % sizes.len();
        let axes: Vec<usize> = (start..(start + n).min(sizes.len())).collect();
        let mut given = shape.clone();
        let last = shape.len() - 1;
        if turned { given.swap(0, last); }
        let turn = if turned { format!("%x = transpose(%given, 0, {last})") } else { "%x = neg(%given)".to_owned() };
        let gm = program(&format!(
            "graph main(%given: f32{given:?}) {{\n{turn}\n%a = mul(%x, 0.5)\n%y = {op}(%a, {axes:?})\n%z = sub(%a, 1.0)\nreturn (%y, %z)\n}}"
        ));
        agree(&gm, &values(&[numbers(&given, 3)]), false);
        prop_assert_eq!(steps(&gm).1, 0);
    }
}
