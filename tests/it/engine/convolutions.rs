//! Convolutions of the fused engine: layouts, what is done as they are written, and the packing of weights.

use super::*;

#[test]
fn convolutions_are_changed_as_they_are_written() {
    let conv = |weight: &str, rest: &str, out: &str| {
        program(&format!(
            "graph main(%x: f32[n, 6, 9, 11], %r: f32[{out}]) {{
                %w: f32[{weight}] = self.w
                %b: f32[12] = self.bias
                %c = conv2d(%x, %w, %b{rest})
                %d = relu6(%c)
                %e = add(%d, %r)
                return %e
            }}"
        ))
    };
    for (weight, rest, out) in [
        ("12, 6, 3, 3", ", padding=[1, 1]", [12, 9, 11]),
        ("12, 6, 1, 1", "", [12, 9, 11]),
        ("12, 6, 3, 2", ", stride=[2, 1], padding=\"valid\"", [12, 4, 10]),
        ("12, 1, 3, 3", ", stride=2, padding=1, groups=6", [12, 5, 6]),
        ("12, 3, 5, 3", ", dilation=2, padding=[4, 2], groups=2", [12, 9, 11]),
        ("12, 6, 3, 3", ", padding=\"same\"", [12, 9, 11]),
    ] {
        let gm = conv(weight, rest, &format!("n, {}, {}, {}", out[0], out[1], out[2]));
        for n in [1, 2, 9] {
            agree(
                &gm,
                &values(&[numbers(&[n, 6, 9, 11], 1), numbers(&[n, out[0], out[1], out[2]], 2)]),
                false,
            );
        }
    }
}

#[test]
fn networks_of_convolutions_have_their_channels_last() {
    let gm = program(
        "graph main(%x: f32[n, 3, 17, 13]) {
            %w: f32[20, 3, 5, 5] = self.w
            %b: f32[20] = self.bias
            %depth: f32[20, 1, 3, 3] = self.depth
            %mix: f32[33, 20, 1, 1] = self.mix
            %group: f32[32, 10, 3, 1] = self.group
            %head: f32[7, 85] = self.head_weight
            %stem = conv2d(%x, %w, %b, stride=2, padding=2)
            %a = relu(%stem)
            %most = max_pool2d(%a, 3, 1, 1)
            %each = conv2d(%most, %depth, padding=1, groups=20)
            %res = add(%each, %a)
            %c = conv2d(%res, %mix)
            %d = conv2d(%res, %group, padding=[1, 0], groups=2)
            %gate = mean(%c, [-1, -2], true)
            %gates = sigmoid(%gate)
            %e = mul(%c, %gates)
            %both = cat([%e, %a, %d], 1)
            %mean = avg_pool2d(%both, 2, 1, 1, count_include_pad=false)
            %pooled = adaptive_avg_pool2d(%mean, 1)
            %flat = flatten(%pooled, 1)
            %out = linear(%flat, %head)
            return (%out, %both, %gate)
        }",
    );
    for n in [1, 3] {
        agree(&gm, &values(&[numbers(&[n, 3, 17, 13], 1)]), false);
    }
    let text = gm.compile(Engine::Fused).unwrap();
    text.call_values(&values(&[numbers(&[1, 3, 17, 13], 1)])).unwrap();
    let text = text.fused().unwrap().describe();
    assert_eq!(text.matches("channels last").count(), 8, "{text}");
    assert!(!text.contains("evaluate"), "{text}");
}

#[test]
fn sums_and_bounds_after_products_and_convolutions_are_done_tile_by_tile() {
    let gm = program(
        "graph main(%x: f32[n, 3, 9, 7], %z: f32[n, 17], %early: f32[n, 19, 9, 7]) {
            %w: f32[19, 3, 3, 3] = self.w
            %b: f32[19] = self.bias
            %depth: f32[19, 1, 3, 3] = self.depth
            %each_bias: f32[19] = self.each_bias
            %mix: f32[35, 19, 1, 1] = self.mix
            %head: f32[43, 17] = self.head
            %head_bias: f32[43] = self.head_bias
            %same: f32[43, 43] = self.same
            %stem = conv2d(%x, %w, %b, padding=1)
            %a = relu6(%stem)
            %each = conv2d(%a, %depth, %each_bias, padding=1, groups=19)
            %res = add(%each, %a)
            %r = relu(%res)
            %again = conv2d(%r, %depth, %each_bias, padding=1, groups=19)
            %from_rows = add(%early, %again)
            %bounded = hardtanh(%from_rows, -0.5, 0.75)
            %c = conv2d(%bounded, %mix)
            %twice = add(%c, %c)
            %more = relu(%twice)
            %h = linear(%z, %head, %head_bias)
            %g = hardtanh(%h, -0.25, 1.5)
            %k = linear(%g, %same, %head_bias)
            %sum = add(%g, %k)
            %l = linear(%sum, %same)
            %kept = add(%l, %sum)
            %last = relu(%kept)
            %late = add(%last, %head_bias)
            return (%more, %kept, %late)
        }",
    );
    for n in [1, 2, 13] {
        let args = [numbers(&[n, 3, 9, 7], 1), numbers(&[n, 17], 2), numbers(&[n, 19, 9, 7], 3)];
        agree(&gm, &values(&args), false);
    }
    let plan = gm.compile(Engine::Fused).unwrap();
    let args = [numbers(&[2, 3, 9, 7], 1), numbers(&[2, 17], 2), numbers(&[2, 19, 9, 7], 3)];
    plan.call_values(&values(&args)).unwrap();
    let text = plan.fused().unwrap().describe();
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        for ending in [
            "packed weights, plus a row, from 0 to 6",
            "depthwise, plus a row, plus an operand, at least 0",
            "packed weights, plus a row, from -0.25 to 1.5",
        ] {
            assert!(text.lines().any(|line| line.ends_with(ending)), "{ending}: {text}");
        }
    }
}

#[test]
fn lines_and_volumes_are_convolved_with_their_channels_last() {
    let mut line = program(
        "graph main(%x: f64[2, 4, 31]) -> f64[2, 14, 8] {
            %w: f64[14, 4, 5] = self.w
            %c = conv1d(%x, %w, stride=2, dilation=2, padding=2)
            %d = tanh(%c)
            %e = max_pool1d(%d, 2)
            return %e
        }",
    );
    let double = |tensor: Tensor| Tensor::new(tensor.array().unwrap().cast(DType::F64));
    let weight = Parameter::new(double(numbers(&[14, 4, 5], 2)));
    line.set_attribute("w", Attribute::Parameter(weight)).unwrap();
    agree(&line, &values(&[double(numbers(&[2, 4, 31], 1))]), false);
    let volume = program(
        "graph main(%x: f32[1, 2, 5, 6, 7]) {
            %w: f32[16, 2, 3, 2, 3] = self.w
            %c = conv3d(%x, %w, padding=[1, 0, 2])
            %d = silu(%c)
            %e = avg_pool3d(%d, 2, divisor_override=3)
            return %e
        }",
    );
    agree(&volume, &values(&[numbers(&[1, 2, 5, 6, 7], 1)]), false);
}

#[test]
fn rows_of_what_has_its_channels_last_are_reduced_in_a_kernel() {
    let gm = program(
        "graph main(%x: f32[2, 3, 9, 11]) {
            %w: f32[32, 3, 3, 3] = self.w
            %c = conv2d(%x, %w, padding=1)
            %twice = mul(%c, 2.0)
            %p = softmax(%twice, -1)
            %s = sum(%p, [3], true)
            %out = sub(%p, %s)
            return %out
        }",
    );
    agree(&gm, &values(&[numbers(&[2, 3, 9, 11], 1)]), false);
    assert_eq!(steps(&gm).1, 0);
}

#[test]
fn a_weight_is_packed_for_each_way_of_convolving() {
    // Small images are convolved as they are, large ones with fewer multiplications.
    for dtype in ["f32", "f64"] {
        let gm = program(&format!(
            "graph main(%x: {dtype}[n, 33, h, w]) {{
                %w: {dtype}[50, 33, 3, 3] = self.w
                %b: {dtype}[50] = self.b
                %y = conv2d(%x, %w, %b, padding=1)
                %z = silu(%y)
                return %z
            }}"
        ));
        let program = gm.compile(Engine::Fused).unwrap();
        for (shape, is_winograd) in
            [([1, 33, 3, 5], false), ([2, 33, 13, 17], true), ([1, 33, 4, 4], false), ([1, 33, 61, 1], true)]
        {
            let x = numbers(&shape, 7).to(dtype.parse::<DType>().unwrap());
            let x = [x];
            let (expected, got) = (gm.call(&x).unwrap(), program.call(&x).unwrap());
            got.all_close(&expected, 1e-5, 1e-5).unwrap();
            let plan = program.fused().unwrap().describe();
            let last = plan.lines().rfind(|line| line.contains("convolution")).unwrap_or_default();
            assert_eq!(last.contains("Winograd"), is_winograd && last.contains("channels last"), "{plan}");
        }
    }
}
