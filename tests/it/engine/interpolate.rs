//! Images at another size, as kernels.

use fx::Engine;
use fx::prelude::*;

use super::{agree, numbers, program, steps, values};

#[test]
fn images_are_resized_by_a_kernel_for_each_axis_in_both_orders() {
    for (shape, arguments, n) in [
        (&[2, 5, 7, 9][..], "size=[14, 20], mode=\"bilinear\"", 2),
        (&[2, 20, 7, 9], "scale_factor=2.0, mode=\"bilinear\", align_corners=true", 2),
        (&[1, 3, 8, 8], "scale_factor=[1.5, 0.5]", 2),
        (&[1, 3, 8, 8], "size=[8, 5], mode=\"nearest-exact\"", 1),
        (&[2, 3, 9, 8], "size=[20, 30], mode=\"bicubic\"", 2),
        (&[2, 3, 9, 8], "size=[4, 3], mode=\"bicubic\", antialias=true", 2),
        (&[2, 3, 9, 8], "size=4, mode=\"area\"", 2),
        (&[2, 3, 9], "scale_factor=3, mode=\"linear\"", 1),
        (&[1, 2, 3, 4, 5], "size=[6, 4, 7], mode=\"trilinear\"", 2),
        (&[1, 40, 60, 70], "scale_factor=2, mode=\"bilinear\"", 2),
    ] {
        for dtype in [DType::F32, DType::F64] {
            let gm = program(&format!(
                "graph main(%x: {dtype}{shape:?}) {{\n%a = neg(%x)\n%b = interpolate(%a, {arguments})\nreturn %b\n}}"
            ));
            agree(&gm, &values(&[numbers(shape, 1).to(dtype)]), false);
            assert_eq!(steps(&gm), (n + 1, 0), "{shape:?} {arguments}");
        }
        if shape.len() == 4 {
            let c = shape[1];
            let gm = program(&format!(
                "graph main(%x: f32{shape:?}) {{
                    %k: f32[32, {c}, 3, 3] = self.kernel
                    %a = conv2d(%x, %k, padding=1)
                    %b = interpolate(%a, {arguments})
                    %c = relu(%b)
                    return %c
                }}"
            ));
            agree(&gm, &values(&[numbers(shape, 1)]), false);
            assert_eq!(steps(&gm).1, 0);
        }
    }
}

#[test]
fn one_plan_resizes_images_of_all_sizes() {
    for arguments in [
        "size=[9, 9]",
        "scale_factor=2.0, mode=\"bilinear\"",
        "scale_factor=1.5, mode=\"bilinear\"",
        "scale_factor=[1.25, 3.0], mode=\"bicubic\"",
        "size=[5, 8], mode=\"bicubic\"",
    ] {
        let gm = program(&format!(
            "graph main(%x: f32[n, 3, h, w]) {{\n%a = interpolate(%x, {arguments})\nreturn %a\n}}"
        ));
        let fused = gm.compile(Engine::Fused).unwrap();
        for shape in
            [[2, 3, 5, 6], [2, 3, 9, 9], [1, 3, 9, 4], [3, 3, 5, 8], [2, 3, 6, 9], [0, 3, 4, 4], [2, 3, 1, 1]]
        {
            let args = values(&[numbers(&shape, 1)]);
            let [expected, got] = [gm.call_values(&args), fused.call_values(&args)];
            let [expected, got] = [expected, got].map(|value| fx::check::tensors(&value.unwrap()).remove(0));
            got.all_close(&expected, 1e-6, 1e-6).unwrap();
        }
    }
}

/// Scales that are no integers give sizes that are expressions, where their products are exact.
#[test]
fn sizes_of_scaled_images_are_expressions() {
    let mut types = String::new();
    for scale in ["0.5", "[1.5, 0.625]", "2", "1000000000000.0", "0.3"] {
        let text = format!(
            "graph main(%x: f32[n, 3, h, w]) {{\n%a = interpolate(%x, scale_factor={scale})\nreturn %a\n}}"
        );
        let mut gm = program(&text);
        fx::pass::SHAPE_PROP.apply(&mut gm).unwrap();
        let line = gm.graph().to_text().lines().nth(1).unwrap().trim().to_owned();
        types += &format!("{line}\n");
    }
    expect_test::expect![[r#"
        %a: f32[n, 3, h//2, w//2] = interpolate(%x, scale_factor=0.5)
        %a: f32[n, 3, (3*h)//2, (5*w)//8] = interpolate(%x, scale_factor=[1.5, 0.625])
        %a: f32[n, 3, 2*h, 2*w] = interpolate(%x, scale_factor=2)
        %a = interpolate(%x, scale_factor=1000000000000.0)
        %a = interpolate(%x, scale_factor=0.3)
    "#]]
    .assert_eq(&types);
}
