//! Borders, as kernels and as padding of convolutions.

use fx::Engine;
use fx::prelude::*;
use proptest::prelude::*;

use super::{agree, numbers, program, steps, values};

#[test]
fn borders_around_what_is_convolved_are_its_padding_or_a_kernel() {
    for (pad, steps_of) in [
        ("[1, 1, 2, 2]", 2),
        ("[0, 1, 0, 1]", 3),
        ("[1, 1, 1, 1], \"constant\", -0.5", 3),
        ("[2, 1, 1, 2], \"reflect\"", 3),
        ("[2, 2, 1, 1], \"replicate\"", 3),
        ("[1, 1, 1, 1], \"circular\"", 3),
        ("[-1, 2, 3, -2]", 3),
    ] {
        // What the first convolution gives has its channels last.
        let gm = program(&format!(
            "graph main(%x: f32[2, 3, 11, 10]) {{
                %w: f32[24, 3, 3, 3] = self.first
                %v: f32[16, 24, 3, 3] = self.second
                %a = conv2d(%x, %w)
                %p = pad(%a, {pad})
                %b = conv2d(%p, %v, stride=2)
                return %b
            }}"
        ));
        agree(&gm, &values(&[numbers(&[2, 3, 11, 10], 1)]), false);
        // One step brings the channels of what is returned back.
        assert_eq!(steps(&gm), (steps_of + 1, 0), "{pad}");
    }
}

#[test]
fn one_plan_has_borders_for_all_sizes() {
    let gm = program(
        "graph main(%x: f32[n, m]) {
            %a = pad(%x, [1, 2, 3, 0], \"constant\", 7.5)
            %b = neg(%a)
            return %b
        }",
    );
    let fused = gm.compile(Engine::Fused).unwrap();
    for shape in [[3, 4], [3, 5], [1, 1], [0, 4], [5, 0], [0, 0], [300, 200]] {
        let args = values(&[numbers(&shape, 1)]);
        let [expected, got] = [gm.call_values(&args), fused.call_values(&args)];
        let [expected, got] = [expected, got].map(|value| fx::check::tensors(&value.unwrap()).remove(0));
        assert!(got.bits_eq(&expected), "{shape:?}");
    }
}

#[test]
fn borders_that_are_wrong_stay_as_they_are() {
    for (pad, padding) in [
        ("[1, 1, 1]", "0"),
        ("[9223372036854775807, 9223372036854775807]", "1"),
        ("[1]", "[1, 1]"),
        ("[1, 1]", "[1]"),
    ] {
        let mut gm = program(&format!(
            "graph main(%x: f32[2, 3, 9, 9], %w: f32[4, 3, 3, 3]) {{
                %p = pad(%x, {pad})
                %a = conv2d(%p, %w, padding={padding})
                return %a
            }}"
        ));
        let made = fx::Passes::new().add(fx::pass::RECOGNIZE).run(&mut gm);
        let is_kept = gm.graph().to_text().contains("pad(%x");
        assert!(made.is_err() || is_kept || pad == "[1, 1]", "{pad}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn any_borders_of_any_dtype_are_those_of_the_operation(
        shape in prop::collection::vec(1usize..7, 1..5), sides in prop::collection::vec(0i64..4, 2..9), turned: bool,
        mode in prop::sample::select(vec!["constant", "reflect", "replicate", "circular"]),
        dtype in prop::sample::select(DType::ALL.to_vec()), less in 0usize..12,
    ) {
        let rank = shape.len();
        let mut sides: Vec<i64> = sides.into_iter().take(2 * rank).collect();
        sides.truncate(sides.len() / 2 * 2);
        if let Some(side) = sides.get_mut(less) { *side = -*side; }
        // Borders take no more than there is.
        for (pair, &size) in sides.chunks_mut(2).zip(shape.iter().rev()) {
            let most = match mode { "reflect" => size as i64 - 1, "circular" => size as i64, _ => 3 };
            pair.iter_mut().for_each(|side| *side = (*side).clamp(-(size as i64 / 2), most));
        }
        prop_assume!(mode == "constant" || sides.iter().all(|&side| side >= 0));
        let value = if mode == "constant" { ", 1" } else { "" };
        let mut given = shape.clone();
        if turned { given.reverse(); }
        let order: Vec<usize> = (0..rank).rev().collect();
        let turn = if turned { format!("%y = permute(%x, {order:?})") } else { "%y = clone(%x)".to_owned() };
        let gm = program(&format!(
            "graph main(%x: {dtype}{given:?}) {{\n{turn}\n%a = pad(%y, {sides:?}, {mode:?}{value})\nreturn %a\n}}"
        ));
        let x = (numbers(&given, 3) * 20.0).to(dtype);
        agree(&gm, &values(&[x]), true);
        prop_assert_eq!(steps(&gm).1, 0);
    }

    #[test]
    fn rolls_and_reversed_axes_are_kernels(
        shape in prop::collection::vec(1usize..9, 1..5), shifts in prop::collection::vec(-20i64..20, 1..4), turned: bool,
        dtype in prop::sample::select(DType::ALL.to_vec()), mask in 1usize..16, wide in 1usize..40,
    ) {
        let mut shape = shape;
        shape.push(wide);
        let rank = shape.len();
        let axes: Vec<i64> = (0..shifts.len()).map(|i| ((i * 3 + mask) % rank) as i64 - if i % 2 == 0 { rank as i64 } else { 0 }).collect();
        let reversed: Vec<usize> = (0..rank).filter(|axis| mask >> axis & 1 == 1).collect();
        let mut given = shape.clone();
        if turned { given.reverse(); }
        let order: Vec<usize> = (0..rank).rev().collect();
        let turn = if turned { format!("%y = permute(%x, {order:?})") } else { "%y = clone(%x)".to_owned() };
        let gm = program(&format!(
            "graph main(%x: {dtype}{given:?}) {{
                {turn}
                %a = roll(%y, {shifts:?}, {axes:?})
                %b = flip(%y, {reversed:?})
                return (%a, %b)
            }}"
        ));
        agree(&gm, &values(&[(numbers(&given, 3) * 20.0).to(dtype)]), true);
        prop_assert_eq!(steps(&gm).1, 0);
    }
}
