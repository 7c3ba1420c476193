//! The fused engine: its results are those of the operations one by one, whatever the sizes, strides, dtypes
//! and threads.

mod buffers;
mod column_reduction;
mod compositions;
mod concurrent;
mod convolutions;
mod gather;
mod interpolate;
mod pad;
mod recurrent;
mod sizes;
mod statistics;

use fx::prelude::*;
use fx::{Attribute, Engine, GraphModule, Value};
use proptest::prelude::*;

/// Numbers between -2 and 2, none of them alike.
pub(crate) fn numbers(shape: &[usize], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let numel = shape.iter().product();
    let data = (0..numel).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 22) as f32 - 2.0
    });
    Tensor::from_vec(data.collect(), shape)
}

/// Returns the bits of all elements, and the same ones for every NaN, for Rust leaves theirs open.
fn bits(tensor: &Tensor) -> Vec<u64> {
    let elements = tensor.array().unwrap().cast(DType::F64).to_vec::<f64>().unwrap().into_iter();
    elements.map(|x| if x.is_nan() { f64::NAN } else { x }.to_bits()).collect()
}

/// Calls a program eagerly and fused, twice each, and returns the results, which must agree.
fn agree(gm: &GraphModule, args: &[Value], exact: bool) -> Vec<Tensor> {
    let program = gm.compile(Engine::Fused).unwrap();
    let expected = fx::check::tensors(&gm.call_values(args).unwrap());
    for _ in 0..2 {
        let got = fx::check::tensors(&program.call_values(args).unwrap());
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(&expected) {
            assert_eq!(got.ty().unwrap(), expected.ty().unwrap());
            match exact {
                true => assert_eq!(bits(got), bits(expected), "{}", program.fused().unwrap().describe()),
                false => got.all_close(expected, 1e-5, 1e-5).unwrap(),
            }
        }
    }
    expected
}

fn values(tensors: &[Tensor]) -> Vec<Value> {
    tensors.iter().map(Value::from).collect()
}

/// How many steps of each kind a plan has: those of kernels, and those that are evaluated.
fn steps(gm: &GraphModule) -> (usize, usize) {
    let text = gm.compile(Engine::Fused).unwrap().fused().unwrap().describe();
    let steps = text.lines().filter(|line| line.starts_with("  %")).count();
    let evaluated =
        text.lines().filter(|line| line.contains(": evaluate ") || line.contains(": call ")).count();
    (steps - evaluated, evaluated)
}

/// Reads a program; the attributes that it names get numbers.
pub(crate) fn program(text: &str) -> GraphModule {
    let mut gm = GraphModule::new("M", fx::parse(text).unwrap());
    let graph = gm.graph().clone();
    for (_, node) in graph.nodes() {
        if let (Some(path), Some(ty)) = (node.target().path(), node.ty().and_then(fx::TypeTree::tensor)) {
            let tensor = numbers(&ty.shape.known().unwrap(), path.len() as u64);
            let tensor = (tensor * 0.3).to(ty.dtype);
            gm.set_attribute(path, Attribute::Parameter(Parameter::new(tensor))).unwrap();
        }
    }
    gm
}

#[test]
fn a_chain_with_broadcasting_is_one_kernel_for_all_sizes() {
    let gm = program(
        "graph main(%x: f32[n, m], %row: f32[m], %column: f32[n, 1], %mask: bool[n, m]) {
            %a = add(%x, %row)
            %b = tanh(%a)
            %c = mul(%b, %column)
            %d = sub(%c, 0.5)
            %e = where(%mask, %x, %row)
            %f = gt(%d, %mask)
            %g = sigmoid(%d)
            %h = mul(%g, %d)
            return (%h, %f, %e)
        }",
    );
    let fused = gm.compile(Engine::Fused).unwrap();
    for (rows, columns) in
        [(0, 5), (1, 1), (7, 1), (1, 13), (5, 700), (67, 131), (301, 64), (1000, 3), (2, 9000)]
    {
        let mask = numbers(&[rows, columns], 4).gt(0.3);
        let args = [numbers(&[rows, columns], 1), numbers(&[columns], 2), numbers(&[rows, 1], 3), mask];
        let args = values(&args);
        agree(&gm, &args, true);
        let expected = fx::check::tensors(&gm.call_values(&args).unwrap());
        for (got, expected) in fx::check::tensors(&fused.call_values(&args).unwrap()).iter().zip(&expected) {
            assert_eq!(bits(got), bits(expected));
        }
    }
}

#[test]
fn sums_and_products_around_functions_are_in_their_pass() {
    let cases = [
        ("%a = add(%x, %y)\n%b = tanh(%a)\n%c = mul(%z, %b)\n%d = sub(%c, %x)", "4 steps in one pass"),
        ("%a = sub(%x, %y)\n%b = gelu(%a)\n%d = sub(%z, %b)", "3 steps in one pass"),
        ("%a = sub(%x, %y)\n%b = mul(%a, %z)\n%d = add(%b, 0.5)", "3 steps in one pass"),
        ("%a = mul(%x, %y)\n%d = sub(%z, %a)", "2 steps in one pass"),
        ("%a = leaky_relu(%x, negative_slope=0.2)\n%d = mul(%a, 3.0)", "2 steps in one pass"),
        // What somebody else reads has a pass that ends there.
        ("%a = add(%x, %y)\n%b = tanh(%a)\n%c = mul(%b, %a)\n%d = exp(%c)", "4 steps in 3 passes"),
        ("%a = add(%x, %y)\n%d = mul(%a, %a)", "2 steps over"),
        // Quotients and other weights than 1 have passes of their own.
        ("%a = div(%x, %z)\n%b = erf(%a)\n%d = add(%b, %y, alpha=2)", "3 steps over"),
    ];
    for (body, expected) in cases {
        let gm =
            program(&format!("graph main(%x: f32[n], %y: f32[n], %z: f32[n]) {{\n{body}\nreturn %d\n}}"));
        for n in [0, 1, 15, 16, 17, 63, 64, 1000, 30_011] {
            agree(&gm, &values(&[1, 2, 3].map(|seed| numbers(&[n], seed) + 0.001)), true);
        }
        let program = gm.compile(Engine::Fused).unwrap();
        program.call_values(&values(&[1, 2, 3].map(|seed| numbers(&[64], seed)))).unwrap();
        let text = program.fused().unwrap().describe();
        assert!(text.contains(expected), "{body}\n{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 64 } else { 512 }))]
    /// Whatever runs in one pass, and in which order, the bits are those of the operations one by one.
    #[test]
    fn chains_of_functions_sums_and_products_have_the_bits_of_their_steps(
        steps in prop::collection::vec((0usize..8, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..14),
        returned in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        n in prop::sample::select(vec![1usize, 7, 64, 100, 5000]),
    ) {
        let mut names: Vec<String> = ["%x", "%y", "%z"].map(str::to_owned).to_vec();
        let mut text = String::from("graph main(%x: f32[n], %y: f32[n], %z: f32[n]) {\n");
        for (i, (op, a, b)) in steps.iter().enumerate() {
            let (a, b) = (a.get(&names), b.get(&names));
            let call = match ["tanh", "gelu", "relu", "erf", "add", "sub", "mul", "mul"][*op] {
                op @ ("add" | "sub" | "mul") => format!("{op}({a}, {b})"),
                op => format!("{op}({a})"),
            };
            text += &format!("%s{i} = {call}\n");
            names.push(format!("%s{i}"));
        }
        let returned: Vec<&str> = returned.iter().map(|at| at.get(&names[3..]).as_str()).collect();
        let gm = program(&format!("{text}return ({},)\n}}", returned.join(", ")));
        agree(&gm, &values(&[1, 2, 3].map(|seed| numbers(&[n], seed) * 0.5)), true);
    }
}

#[test]
fn elements_that_no_cache_holds_are_computed_alike() {
    let gm = program(
        "graph main(%x: f32[n, m], %row: f32[m]) {
            %a = mul(%x, 0.5)
            %b = add(%a, %row)
            %c = sqrt(%b)
            %d = sum(%b, [1])
            return (%c, %d)
        }",
    );
    for shape in [[3, 1_500_001], [40_001, 111]] {
        agree(&gm, &values(&[numbers(&shape, 1), numbers(&shape[1..], 2)]), true);
    }
}

#[test]
fn operands_are_read_in_whatever_order_they_lie() {
    let gm = program(
        "graph main(%x: f32[a, b, c], %y: f32[c, b, a], %z: f32[b, 1]) {
            %turned = permute(%y, [2, 1, 0])
            %every = slice(%turned, 2, 0, 9223372036854775807, 2)
            %part = slice(%x, 2, 0, 9223372036854775807, 2)
            %sum = add(%part, %every)
            %scaled = mul(%sum, %z)
            %flat = flatten(%scaled)
            %e = exp(%flat)
            %back = view(%turned, [-1])
            %n = neg(%back)
            return (%scaled, %e, %n)
        }",
    );
    for [a, b, c] in [[1, 1, 1], [2, 3, 5], [7, 1, 300], [0, 2, 3], [64, 5, 2], [3, 70, 31]] {
        let args = [numbers(&[a, b, c], 1), numbers(&[c, b, a], 2), numbers(&[b, 1], 3)];
        agree(&gm, &values(&args), true);
        // Inputs that are views themselves.
        let args = [
            numbers(&[c, b, a], 1).permute([2, 1, 0]),
            numbers(&[c, b, a * 2], 2).narrow(2, a as i64, a as i64),
            numbers(&[b], 3).unsqueeze(1),
        ];
        agree(&gm, &values(&args), true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn transposed_operands_are_read_some_rows_at_a_time(
        sizes in prop::collection::vec(prop_oneof![1usize..4, 7usize..18, 30usize..70], 2..5), order in any::<u64>(),
        dtype in prop::sample::select(vec!["bool", "u8", "i32", "i64", "f32", "f64"]), threads in 1usize..4,
    ) {
        let mut axes: Vec<usize> = (0..sizes.len()).collect();
        for i in 0..axes.len() {
            axes.swap(i, (order >> (8 * i)) as usize % sizes.len());
        }
        let turned: Vec<usize> = axes.iter().map(|&axis| sizes[axis]).collect();
        let gm = program(&format!(
            "graph main(%x: {dtype}{sizes:?}, %y: {dtype}{turned:?}) {{
                %t = permute(%x, {axes:?})
                %same = eq(%t, %y)
                %choice = where(%same, %y, %t)
                %flat = reshape(%t, [-1])
                return (%same, %choice, %flat)
            }}"
        ));
        let dtype: DType = dtype.parse().unwrap();
        let args = values(&[(numbers(&sizes, 1) * 2.0).to(dtype), (numbers(&turned, 2) * 2.0).to(dtype)]);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| agree(&gm, &args, true));
    }
}

#[test]
fn long_rows_of_transposed_operands_are_read_in_parts() {
    let gm = program(
        "graph main(%x: f32[n, m], %y: f32[m, n], %z: f32[m, 1]) {
            %t = transpose(%x, 0, 1)
            %sum = add(%t, %y)
            %scaled = mul(%sum, %z)
            return %scaled
        }",
    );
    for [n, m] in [[9001, 37], [40_000, 9], [300, 16], [37, 9001], [1, 8], [8, 0], [0, 9]] {
        agree(&gm, &values(&[numbers(&[n, m], 1), numbers(&[m, n], 2), numbers(&[m, 1], 3)]), true);
    }
}

#[test]
fn dtypes_are_promoted_and_converted_in_kernels() {
    let gm = program(
        "graph main(%x: f64[n], %i: i64[n], %b: bool[n], %u: u8[n], %h: f16[n]) {
            %a = add(%x, %i)
            %c = mul(%i, %b)
            %d = bitwise_and(%u, 15)
            %e = add(%d, %c)
            %f = div(%e, 3)
            %g = logical_and(%b, %i)
            %k = mul(%h, 3)
            %l = add(%k, %f)
            %m = floor_divide(%i, 7)
            return (%a, %e, %f, %g, %l, %m)
        }",
    );
    for n in [0, 1, 5, 1000, 5000] {
        let x = numbers(&[n], 1);
        let args = [
            x.to(DType::F64),
            (&x * 100.0).to(DType::I64),
            x.gt(0.0),
            (x.abs() * 100.0).to(DType::U8),
            x.to(DType::F16),
        ];
        agree(&gm, &values(&args), true);
    }
}

#[test]
fn rows_are_reduced_and_repeated_in_one_kernel() {
    let text = |op: &str| {
        format!(
            "graph main(%x: f32[n, k, m], %r: f32[m]) {{
                %a = add(%x, %r)
                %s = {op}
                %d = sub(%a, %s)
                %q = mul(%s, %s)
                %e = exp(%d)
                %f = div(%e, 2.0)
                %t = sum(%f, [-1])
                %u = tanh(%t)
                return (%f, %u, %q)
            }}"
        )
    };
    for op in [
        "mean(%a, [-1], true)",
        "amax(%a, [2], true)",
        "amin(%a, -1, true)",
        "softmax(%a, -1)",
        "log_softmax(%a, 2)",
    ] {
        let gm = program(&text(op));
        for [n, k, m] in [[1, 1, 1], [3, 1, 7], [5, 2, 33], [40, 3, 600], [2, 2, 5000]] {
            agree(&gm, &values(&[numbers(&[n, k, m], 1), numbers(&[m], 2)]), false);
        }
        assert_eq!(steps(&program(&text(op).replace("n, k, m", "6, 2, 8").replace("[m]", "[8]"))), (1, 0));
    }
    let gm = program(
        "graph main(%x: f32[n, 4, 6]) {
            %w: f32[4, 6] = self.w
            %b: f32[4, 6] = self.b
            %g: f32[6] = self.gain
            %y = relu(%x)
            %l = layer_norm(%y, [4, 6], %w, %b, 0.001)
            %m = rms_norm(%x, [6], %g)
            %z = add(%l, %m)
            return %z
        }",
    );
    for n in [0, 1, 5, 300] {
        agree(&gm, &values(&[numbers(&[n, 4, 6], 1)]), false);
    }
}

#[test]
fn rows_that_are_read_in_place_are_computed_as_many_at_a_time_as_suit_the_threads() {
    for op in [
        "sum(%x, [-1])",
        "amax(%x, [-1])",
        "mean(%x, [-1], true)",
        "softmax(%x, -1)",
        "rms_norm(%x, [<m>], %g)",
    ] {
        let gm = program(&format!(
            "graph main(%x: f32[n, m], %g: f32[m]) {{
                %y = {op}
                return %y
            }}"
        ));
        let program = gm.compile(Engine::Fused).unwrap();
        for [n, m] in [[1000, 1031], [4099, 130], [301, 2048], [2000, 512]] {
            let args = values(&[numbers(&[n, m], 1), numbers(&[m], 2)]);
            let expected = &agree(&gm, &args, true)[0];
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let got = pool.install(|| program.call_values(&args)).unwrap();
                assert_eq!(bits(&fx::check::tensors(&got)[0]), bits(expected), "{op} on {threads} threads");
            }
        }
    }
}

#[test]
fn products_are_changed_as_they_are_written() {
    let gm = program(
        "graph main(%x: f32[n, k, 20], %r: f32[n, k, 37]) {
            %w: f32[37, 20] = self.w
            %b: f32[37] = self.bias
            %v: f32[37, 9] = self.second
            %h = linear(%x, %w, %b)
            %g = gelu(%h)
            %y = add(%g, %r)
            %z = matmul(%y, %v)
            %i = linear(%x, %w)
            %turned = transpose(%i, 1, 2)
            %t = matmul(%turned, %y)
            %u = mul(%t, 0.25)
            %first = select(%x, 1, 0)
            %s = linear(%first, %w)
            return (%h, %y, %z, %u, %s)
        }",
    );
    for [n, k] in [[1, 1], [1, 5], [3, 1], [2, 40], [9, 7], [0, 3]] {
        agree(&gm, &values(&[numbers(&[n, k, 20], 1), numbers(&[n, k, 37], 2)]), false);
    }
    let gm = program(
        "graph main(%c: f64[37], %a: f64[5, 7], %b: f64[7, 37]) {
            %x = addmm(%c, %a, %b)
            %y = tanh(%x)
            %z = mm(%a, %b)
            %t = bmm(%p, %p)
            return (%y, %z)
        }"
        .replace("            %t = bmm(%p, %p)\n", "")
        .as_str(),
    );
    let double = |shape: &[usize], seed| numbers(shape, seed).to(DType::F64);
    assert_eq!(steps(&gm), (2, 0));
    agree(&gm, &values(&[double(&[37], 1), double(&[5, 7], 2), double(&[7, 37], 3)]), false);
}

#[test]
fn attention_reads_heads_in_place() {
    let text = |call: &str| {
        format!(
            "graph main(%x: f32[b, l, 24], %past: f32[b, 2, s, 4], %mask: bool[l, k], %bias: f32[b, 1, 1, k]) {{
                %w: f32[24, 24] = self.w
                %h = linear(%x, %w)
                %parts = view(%h, [b, l, 6, 4])
                %turned = transpose(%parts, 1, 2)
                %q = narrow(%turned, 1, 0, 4)
                %some = narrow(%turned, 1, 4, 2)
                %key = cat([%past, %some], 2)
                %value = cat([%past, %some], dim=-2)
                %all = repeat_interleave(%key, 2, 1)
                %a = {call}
                %back = transpose(%a, 1, 2)
                %flat = reshape(%back, [b, l, 16])
                %z = mul(%flat, 2)
                return (%z, %key)
            }}"
        )
    };
    for call in [
        "scaled_dot_product_attention(%q, %key, %value, enable_gqa=true)",
        "scaled_dot_product_attention(%q, %key, %value, enable_gqa=true, is_causal=true)",
        "scaled_dot_product_attention(%q, %key, %value, %mask, enable_gqa=true, scale=0.3)",
        "scaled_dot_product_attention(%q, %all, %all, %bias)",
    ] {
        for [b, l, s] in [[1, 1, 5], [2, 7, 3], [3, 100, 1], [1, 3, 0], [2, 1, 70]] {
            let k = s + l;
            let text = text(call).replace("[b, 2, s, 4]", &format!("[{b}, 2, {s}, 4]"));
            let text = text.replace("[b, l", &format!("[{b}, {l}")).replace("l, k]", &format!("{l}, {k}]"));
            let text = text.replace("[b, 1, 1, k]", &format!("[{b}, 1, 1, {k}]"));
            let mask = numbers(&[l, k], 3).gt(-1.0);
            let args = [numbers(&[b, l, 24], 1), numbers(&[b, 2, s, 4], 2), mask, numbers(&[b, 1, 1, k], 4)];
            agree(&program(&text), &values(&args), false);
        }
    }
}

#[test]
fn joins_and_choices_are_kernels() {
    let gm = program(
        "graph main(%x: f32[n, 3, m], %y: f32[n, 2, m], %mask: bool[n, 1, m], %i: i64[n, 3, m]) {
            %a = exp(%x)
            %turned = transpose(%y, 0, 1)
            %b = transpose(%turned, 0, 1)
            %joined = cat([%a, %b, %a], dim=-2)
            %ends = stack([%a, %x], 1)
            %chosen = where(%mask, %x, 0.5)
            %other = where(%mask, %i, %x)
            %filled = masked_fill(%other, %mask, -inf)
            %e = exp(%filled)
            %z = add(%joined, 1)
            %last = cat([%e, %chosen], 2)
            return (%z, %ends, %last, %joined)
        }",
    );
    for [n, m] in [[1, 1], [4, 5], [0, 3], [3, 900], [70, 64]] {
        let mask = numbers(&[n, 1, m], 3).gt(0.0);
        let i = (numbers(&[n, 3, m], 4) * 10.0).to(DType::I64);
        agree(&gm, &values(&[numbers(&[n, 3, m], 1), numbers(&[n, 2, m], 2), mask, i]), true);
    }
    let typed = "graph main(%x: f32[2, 3], %m: bool[2, 3]) {\n %a = where(%m, %x, 0.5)\n %b = cat([%a, %x], 1)\n return %b\n}";
    assert_eq!(steps(&program(typed)), (2, 0));
}

#[test]
fn what_has_no_kernel_is_evaluated() {
    let gm = program(
        "graph main(%x: f32[n, m]) {
            %a = exp(%x)
            %order = sort(%a)
            %sorted = getitem(%order, 0)
            %b = add(%a, %sorted)
            %parts = chunk(%b, 2, 1)
            %first = getitem(%parts, 0)
            %c = cumsum(%first, 1)
            %d = cos(%c)
            %found = nonzero(%d)
            %k = size(%x, 0)
            %e = mul(%d, %k)
            return (%e, %found, %b)
        }",
    );
    for [n, m] in [[1, 2], [3, 7], [50, 40]] {
        agree(&gm, &values(&[numbers(&[n, m], 1)]), true);
    }
}

#[test]
fn threads_do_not_change_a_bit_and_may_call_together() {
    let gm = program(
        "graph main(%x: f32[200, 300]) {
            %w: f32[500, 300] = self.w
            %b: f32[500] = self.bias
            %h = linear(%x, %w, %b)
            %g = gelu(%h)
            %p = softmax(%g, -1)
            %s = add(%p, %g)
            %m = mean(%s, [1], true)
            %y = sub(%s, %m)
            return %y
        }",
    );
    let program = gm.compile(Engine::Fused).unwrap();
    let x = numbers(&[200, 300], 1);
    let expected = bits(&program.call(std::slice::from_ref(&x)).unwrap());
    for threads in [1, 2, 3, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(
            bits(&pool.install(|| program.call(std::slice::from_ref(&x))).unwrap()),
            expected,
            "{threads} threads"
        );
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(bits(&program.call(std::slice::from_ref(&x)).unwrap()), expected);
                }
            });
        }
    });
}

#[test]
fn results_are_kept_apart_from_call_to_call() {
    let gm = program(
        "graph main(%x: f32[n]) {
            %a = add(%x, 1)
            %b = mul(%a, 2)
            %v = slice(%b, 0, 1)
            return (%a, %b, %v, %x)
        }",
    );
    let program = gm.compile(Engine::Fused).unwrap();
    let call = |start: f32| {
        let x = Tensor::new([start, start + 1.0, start + 2.0]);
        fx::check::tensors(&program.call_values(&values(&[x])).unwrap())
    };
    let first = call(0.0);
    let second = call(10.0);
    assert_eq!(first[0].to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(first[2].to_vec::<f32>().unwrap(), [4.0, 6.0]);
    assert_eq!(second[1].to_vec::<f32>().unwrap(), [22.0, 24.0, 26.0]);
    drop((first, second));
    assert_eq!(call(1.0)[2].to_vec::<f32>().unwrap(), [6.0, 8.0]);
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let gm = program("graph main(%x: f32[n, 3], %y: f32[n, 3]) {\n %z = add(%x, %y)\n return %z\n}");
    let program = gm.compile(Engine::Fused).unwrap();
    let error = |args: &[Tensor]| program.call(args).unwrap_err().to_string();
    let x = || numbers(&[2, 3], 1);
    assert!(error(&[x()]).contains("takes 2 arguments, got 1"), "{}", error(&[x()]));
    let wrong = error(&[x(), numbers(&[2, 4], 1)]);
    assert!(wrong.contains("argument \"y\"") && wrong.contains("tests/it/engine/mod.rs"), "{wrong}");
    let wrong = error(&[x(), numbers(&[5, 3], 1)]);
    assert!(wrong.contains("argument \"y\""), "{wrong}");
    let wrong = error(&[x(), x().to(DType::I64)]);
    assert!(wrong.contains("expected f32[n, 3]"), "{wrong}");
    assert_eq!(program.call(&[x(), x()]).unwrap().ty().unwrap().to_string(), "f32[2, 3]");
    let gm = fx::trace(|x: &Tensor| x.exp().view([5, -1])).build().unwrap();
    let error = gm.compile(Engine::Fused).unwrap().call(&[x()]).unwrap_err().to_string();
    assert!(error.contains("view") && error.contains("tests/it/engine/mod.rs"), "{error}");
}

#[test]
fn views_that_refuse_some_dtypes_are_views_of_others() {
    let gm = program(
        "graph main(%x: f32[4, 3]) -> f32[3, 4] {
            %p = positive(%x)
            %t = transpose(%p, 0, 1)
            return %t
        }",
    );
    agree(&gm, &values(&[numbers(&[4, 3], 1)]), true);
}

#[test]
fn lists_stay_lists() {
    let gm = program(
        "graph main(%x: f32[4, 3]) {
            %parts = split(%x, 2)
            %twice = mul(%x, 2.0)
            return (%parts, %twice)
        }",
    );
    let args = values(&[numbers(&[4, 3], 1)]);
    let (eager, fused) = (gm.call_values(&args).unwrap(), gm.compile(Engine::Fused).unwrap());
    let got = fused.call_values(&args).unwrap();
    assert!(got.eq_by(&eager, &|a: &Tensor, b: &Tensor| a.bits_eq(b)), "{got} is not {eager}");
}

#[test]
fn sub_graphs_of_control_flow_are_planned() {
    /// Halves large rows and repeats a step of a recurrence, whose body chooses in turn.
    fn flow(x: &Tensor, w: &Tensor, n: &Tensor) -> Tensor {
        let y = fx::cond(
            x.abs().mean((), false).gt(0.5),
            |(x, w): (Tensor, Tensor)| (x.matmul(&w) * 0.5).tanh(),
            |(x, w): (Tensor, Tensor)| (x.matmul(&w) + 1.0).sigmoid() - x,
            (x.clone(), w.clone()),
        );
        let step = |(i, y): (Tensor, Tensor)| {
            let y = fx::cond(
                y.sum((), false).gt(0.0),
                |y: Tensor| y.softmax(-1) - 0.5,
                |y: Tensor| y.exp() / 3.0,
                (&y * 0.5).matmul(w).relu() - 0.1 * y,
            );
            (i + 1, y)
        };
        fx::while_loop(|(i, _): &(Tensor, Tensor)| i.lt(n), step, (n.zeros_like(), y)).1
    }
    let inputs = |rows: usize, n: i64| {
        [numbers(&[rows, 17], 3), numbers(&[17, 17], 5), Tensor::from_vec(vec![n], &[])]
    };
    for spec in ["f32[5, 17]", "f32[rows, 17]"] {
        let gm =
            fx::trace(flow).input("x", spec).input("y", "f32[17, 17]").input("z", "i64[]").build().unwrap();
        for n in [0, 1, 7] {
            agree(&gm, &values(&inputs(5, n)), false);
        }
        if spec.contains("rows") {
            agree(&gm, &values(&inputs(3, 2)), false);
            agree(&gm, &values(&inputs(0, 2)), false);
        }
        let program = gm.compile(Engine::Fused).unwrap();
        program.call_values(&values(&inputs(5, 2))).unwrap();
        let plan = program.fused().unwrap().describe();
        assert_eq!(plan.matches("its sub-graphs planned").count(), 2, "{plan}");
        // Their plans are for all sizes, too.
        for rows in [6, 7, 9].into_iter().filter(|_| spec.contains("rows")) {
            let args = values(&inputs(rows, 3));
            let got: Tensor = program.call_values(&args).unwrap().try_into().unwrap();
            let expected: Tensor = gm.call_values(&args).unwrap().try_into().unwrap();
            got.all_close(&expected, 1e-5, 1e-5).unwrap();
            let plan = program.fused().unwrap().describe();
            assert!(plan.contains("as planned for other sizes"), "{plan}");
        }
    }
    // A branch that is wrong for some sizes does no harm where it is not taken.
    let gm = program(
        "graph main(%x: f32[n, 4], %p: bool[]) {
            %y = cond(%p, @then, @otherwise, [%x])
            return %y
        }
        graph then(%x: f32[n, 4]) -> f32[n, 4] {
            return %x
        }
        graph otherwise(%x: f32[n, 4]) -> f32[n, 4] {
            %y: f32[n, 4] = matmul(%x, %x)
            return %y
        }",
    );
    let given = |p, n| values(&[numbers(&[n, 4], 1), Tensor::from_vec(vec![p], &[])]);
    for (p, n) in [(true, 6), (true, 4), (false, 4)] {
        agree(&gm, &given(p, n), false);
    }
    let error = gm.compile(Engine::Fused).unwrap().call_values(&given(false, 6)).unwrap_err();
    assert!(error.to_string().contains("expected a right operand with 4 rows, got 6"), "{error}");
    // Branches have one plan for all numbers that they take.
    let gm = program(
        "graph main(%x: f32[3], %p: bool[]) {
            %y = cond(%p, @then, @otherwise, [%x, 3])
            return %y
        }
        graph then(%x: f32[3], %n: int) {
            %y = mul(%x, %n)
            return %y
        }
        graph otherwise(%x: f32[3], %n: int) {
            %y = sub(%x, %n)
            return %y
        }",
    );
    for p in [true, false] {
        agree(&gm, &values(&[numbers(&[3], 1), Tensor::from_vec(vec![p], &[])]), true);
    }
    let plan = gm.compile(Engine::Fused).unwrap().fused().unwrap().describe();
    assert!(plan.contains("its sub-graphs planned"), "{plan}");
}

#[test]
fn branches_compute_sizes_from_integers_that_data_give() {
    let gm = program(
        "graph main<d: ..>(%x: f32[3], %k: i64[]) {
            %i: <d> = item(%k)
            %gt = gt(%k, 1)
            %y = cond(%gt, @then, @otherwise, [%x, %i])
            return %y
        }
        graph then<d: ..>(%x: f32[3], %i: <d>) {
            %s = select(%x, 0, <d - 1>)
            %y = add(%s, <d>)
            return %y
        }
        graph otherwise<d: ..>(%x: f32[3], %i: <d>) {
            %s = select(%x, 0, 0)
            %y = mul(%s, <2 * d>)
            return %y
        }",
    );
    for k in [3, 2, 1, 0, -4] {
        agree(&gm, &values(&[numbers(&[3], 1), Tensor::from_vec(vec![k as i64], &[])]), true);
    }
}

#[test]
fn numbers_that_data_give_keep_their_range() {
    let gm = program(
        "graph main<d: 2..=9>(%x: f32[3], %k: i64[]) {
            %i: <d> = item(%k)
            %y = mul(%x, %i)
            return %y
        }",
    );
    let given = |k: i64| values(&[numbers(&[3], 1), Tensor::from_vec(vec![k], &[])]);
    for k in [2, 5, 9] {
        agree(&gm, &given(k), true);
    }
    for engine in Engine::available() {
        let program = gm.compile(engine).unwrap();
        for k in [1, 10, -2] {
            let error = program.call_values(&given(k)).unwrap_err();
            assert_eq!(error.message(), format!("d is {k}, outside of its range 2..=9"), "{engine}");
        }
    }
}

#[test]
fn groups_of_channels_are_normalised_in_either_order() {
    for dtype in ["f32", "f64"] {
        for (channels, groups, affine) in
            [(6, 3, "%g, %b"), (40, 5, "none, none"), (7, 1, "%g, none"), (33, 33, "none, %b")]
        {
            // The first normalisation has its channels in front, the second has them last.
            let gm = program(&format!(
                "graph main(%x: {dtype}[2, {channels}, 9, 11]) {{
                    %g: {dtype}[{channels}] = self.g
                    %b: {dtype}[{channels}] = self.bias
                    %w: {dtype}[{channels}, {channels}, 3, 3] = self.weight
                    %n = group_norm(%x, {groups}, {affine})
                    %s = silu(%n)
                    %c = conv2d(%s, %w, %b, padding=1)
                    %m = group_norm(%c, {groups}, {affine}, eps=0.01)
                    %t = silu(%m)
                    %d = conv2d(%t, %w, %b, padding=1)
                    return [%d, %m]
                }}"
            ));
            let x = numbers(&[2, channels, 9, 11], 7).to(dtype.parse::<DType>().unwrap());
            let program = gm.compile(Engine::Fused).unwrap();
            let args = values(&[x]);
            let expected = fx::check::tensors(&gm.call_values(&args).unwrap());
            let results = [1, 3].map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                fx::check::tensors(&pool.install(|| program.call_values(&args)).unwrap())
            });
            for ((one, three), expected) in results[0].iter().zip(&results[1]).zip(&expected) {
                one.all_close(expected, 1e-4, 1e-4).unwrap();
                assert_eq!(bits(one), bits(three));
            }
            let plan = program.fused().unwrap().describe();
            assert!(!plan.contains("evaluate") && plan.contains("normalised"), "{plan}");
        }
    }
}

#[test]
fn planes_are_pooled_by_kernels() {
    let gm = program(
        "graph main(%x: f32[n, 5, 19, 23], %d: f64[n, 3, 40]) {
            %max = max_pool2d(%x, 3, 2, 1)
            %wide = max_pool2d(%max, [2, 5], [1, 3], [1, 2], ceil_mode=true)
            %mean = avg_pool2d(%max, 3, 2, 1, count_include_pad=false)
            %turned = transpose(%x, 2, 3)
            %apart = max_pool2d(%turned, 2, 3, dilation=2)
            %line = max_pool1d(%d, 4, 3, 2)
            %parts = adaptive_avg_pool1d(%line, 4)
            return (%max, %wide, %mean, %apart, %line, %parts)
        }",
    );
    for n in [0, 1, 4] {
        agree(&gm, &values(&[numbers(&[n, 5, 19, 23], 1), numbers(&[n, 3, 40], 2).to(DType::F64)]), true);
    }
    let with_nan = numbers(&[2, 5, 19, 23], 1).log();
    let args = [with_nan, numbers(&[2, 3, 40], 2).to(DType::F64)];
    let program = gm.compile(Engine::Fused).unwrap();
    let results = fx::check::tensors(&program.call_values(&values(&args)).unwrap());
    assert!(bits(&results[0]).iter().any(|x| f64::from_bits(*x).is_nan()));
    let plan = program.fused().unwrap().describe();
    assert!(!plan.contains("evaluate"), "{plan}");
}
