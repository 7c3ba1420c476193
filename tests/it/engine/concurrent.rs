//! Independent work of the fused engine: groups that become one kernel, and kernels that run at the same time.

use super::*;

/// Returns what the plan of a program does, a line for each step.
fn describe(gm: &GraphModule) -> String {
    gm.compile(Engine::Fused).unwrap().fused().unwrap().describe()
}

#[test]
fn small_independent_groups_become_one_kernel() {
    let cases = [
        // Of one operand, of several, and of several dtypes.
        ("%x: f32[7, 9]", "%a = tanh(%x)\n%b = relu(%a)\n%c = exp(%x)\n%d = sqrt(%c)\nreturn (%b, %d)", 1),
        (
            "%x: f32[7, 9], %y: f32[7, 9]",
            "%a = tanh(%x)\n%b = exp(%y)\n%c = gt(%y, 0.5)\nreturn (%a, %b, %c)",
            1,
        ),
        ("%x: f32[7, 9], %y: i64[7, 9]", "%a = tanh(%x)\n%b = mul(%y, %y)\nreturn (%a, %b)", 1),
        (
            "%x: f32[7, 9]",
            "%a = softmax(%x, -1)\n%b = sum(%x, -1)\n%c = amax(%x, -1)\nreturn (%a, %b, %c)",
            1,
        ),
        // One of them is needed later than the other, whose place it takes.
        (
            "%x: f32[4, 4], %y: f32[4, 4]",
            "%a = tanh(%x)\n%t = transpose(%a, 0, 1)\n%b = exp(%t)\n%c = relu(%y)\nreturn (%b, %c)",
            2,
        ),
        // No way leads from one to the other, but through a group of each pair there is one back: three
        // kernels in two levels.
        (
            "%x: f32[4, 4], %y: f32[4, 4]",
            "%a = tanh(%x)\n%t = transpose(%a, 0, 1)\n%b = exp(%t)\n%c = relu(%y)\n%u = transpose(%c, 0, 1)\n%d = sqrt(%u)\nreturn (%b, %d)",
            2,
        ),
        // Other shapes, and other axes.
        ("%x: f32[7, 9], %y: f32[9, 7]", "%a = tanh(%x)\n%b = exp(%y)\nreturn (%a, %b)", 2),
        ("%x: f32[7, 9]", "%a = tanh(%x)\n%b = sum(%x, -1)\nreturn (%a, %b)", 2),
        ("%x: f32[7, 9, 3]", "%a = sum(%x, [-1])\n%b = sum(%x, [-1, -2])\nreturn (%a, %b)", 2),
        // Products are what they were.
        (
            "%x: f32[8, 8], %y: f32[8, 8]",
            "%a = matmul(%x, %y)\n%b = relu(%a)\n%c = tanh(%y)\n%d = exp(%x)\nreturn (%b, %c, %d)",
            2,
        ),
    ];
    for (inputs, body, expected) in cases {
        let gm = program(&format!("graph main({inputs}) {{\n{body}\n}}"));
        assert_eq!(steps(&gm), (expected, 0), "{body}\n{}", describe(&gm));
        let args: Vec<Tensor> = gm
            .graph()
            .placeholders()
            .into_iter()
            .zip(1..)
            .map(|(id, seed)| {
                let ty = gm.graph().node(id).unwrap().ty().unwrap().tensor().unwrap().clone();
                (numbers(&ty.shape.known().unwrap(), seed) * 3.0).to(ty.dtype)
            })
            .collect();
        agree(&gm, &values(&args), !body.contains("matmul"));
    }
}

#[test]
fn large_groups_become_one_kernel_where_they_reduce_one_operand() {
    let text = |body: &str| format!("graph main(%x: f32[300, 700], %y: f32[300, 700]) {{\n{body}\n}}");
    let cases = [
        ("%a = sum(%x, -1)\n%b = amax(%x, -1)\n%c = mean(%x, -1)\n%d = sqrt(%c)\nreturn (%a, %b, %d)", 1),
        ("%a = sum(%x, -1)\n%e = exp(%x)\n%b = amin(%e, -1)\nreturn (%a, %b)", 1),
        ("%a = sum(%x, -1)\n%b = amax(%y, -1)\nreturn (%a, %b)", 2),
        ("%a = tanh(%x)\n%b = exp(%x)\nreturn (%a, %b)", 2),
        ("%a = softmax(%x, -1)\n%b = sum(%x, -1)\nreturn (%a, %b)", 2),
    ];
    for (body, expected) in cases {
        let gm = program(&text(body));
        assert_eq!(steps(&gm), (expected, 0), "{body}\n{}", describe(&gm));
        agree(&gm, &values(&[1, 2].map(|seed| numbers(&[300, 700], seed))), true);
    }
}

#[test]
fn what_a_group_needs_is_moved_before_it_where_that_is_allowed() {
    // The product and its `relu` are a kernel that is called after the sum that needs part of the group, and
    // moves before that.
    let gm = program(
        "graph main(%x: f32[6, 6], %y: f32[6, 6]) {
            %m = matmul(%y, %y)
            %a = tanh(%x)
            %u = cumsum(%a, 0)
            %r = relu(%m)
            %t = transpose(%r, 0, 1)
            %b = exp(%t)
            return (%u, %b)
        }",
    );
    assert_eq!(steps(&gm), (2, 1), "{}", describe(&gm));
    agree(&gm, &values(&[1, 2].map(|seed| numbers(&[6, 6], seed))), false);
    // Random numbers are not: each part is a kernel of its own.
    let gm = program(
        "graph main(%x: f32[6, 6]) {
            %a = tanh(%x)
            %b = relu(%a)
            %u = cumsum(%b, 0)
            %r = rand([6, 6])
            %c = exp(%r)
            %d = sqrt(%c)
            return (%u, %d)
        }",
    );
    assert_eq!(steps(&gm), (2, 2), "{}", describe(&gm));
}

#[test]
fn kernels_hold_a_limited_number_of_groups() {
    let lines: String = (0..150).map(|i| format!("%a{i} = mul(%x, {i}.5)\n")).collect();
    let results: Vec<String> = (0..150).map(|i| format!("%a{i}")).collect();
    let gm = program(&format!("graph main(%x: f32[5, 3]) {{\n{lines}return ({})\n}}", results.join(", ")));
    assert_eq!(steps(&gm), (3, 0), "{}", describe(&gm));
    agree(&gm, &values(&[numbers(&[5, 3], 1)]), true);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 96 } else { 1024 }))]
    /// Whatever is joined, no value is read before it is there.
    #[test]
    fn independent_groups_have_the_bits_of_their_steps(
        steps in prop::collection::vec((0usize..9, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..30),
        returned in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        n in prop::sample::select(vec![0usize, 1, 3, 8, 40, 130]),
    ) {
        // All are square, so that transposed ones have the same shape.
        let mut names: Vec<String> = ["%x", "%y"].map(str::to_owned).to_vec();
        let mut text = format!("graph main(%x: f32[{n}, {n}], %y: f32[{n}, {n}]) {{\n");
        for (i, (op, a, b)) in steps.iter().enumerate() {
            let (a, b) = (a.get(&names), b.get(&names));
            text += &match op {
                0 => format!("%s{i} = tanh({a})\n"),
                1 => format!("%s{i} = relu({a})\n"),
                2 => format!("%s{i} = add({a}, {b})\n"),
                3 => format!("%s{i} = mul({a}, {b})\n"),
                4 => format!("%s{i} = transpose({a}, 0, 1)\n"),
                5 => format!("%s{i} = softmax({a}, -1)\n"),
                6 => format!("%r{i} = sum({a}, -1, keepdim=true)\n%s{i} = mul({b}, %r{i})\n"),
                // What has no kernel stands between.
                7 => format!("%s{i} = cumsum({a}, 0)\n"),
                _ => format!("%r{i} = amax({a}, -1)\n%s{i} = add({b}, %r{i})\n"),
            };
            names.push(format!("%s{i}"));
        }
        // Maxima of no elements are refused.
        prop_assume!(n > 0 || !text.contains("amax"));
        let returned: Vec<&str> = returned.iter().map(|at| at.get(&names[2..]).as_str()).collect();
        let gm = program(&format!("{text}return ({},)\n}}", returned.join(", ")));
        agree(&gm, &values(&[1, 2].map(|seed| numbers(&[n, n], seed) * 0.3)), true);
    }
}

/// Returns towers of linear maps of one input. The first maps of all become one product.
fn towers(n: usize, layers: usize, [rows, width]: [usize; 2]) -> GraphModule {
    let mut text = format!("graph main(%x: f32[{rows}, {width}]) {{\n");
    let mut results = Vec::new();
    for tower in 0..n {
        let mut x = String::from("%x");
        for layer in 0..layers {
            // Each weight has numbers of its own.
            let name = format!("{}{}", "a".repeat(tower + 1), "b".repeat(layer + 1));
            text += &format!(
                "%w{name}: f32[{width}, {width}] = self.{name}\n%p{name} = linear({x}, %w{name})\n%q{name} = tanh(%p{name})\n"
            );
            x = format!("%q{name}");
        }
        results.push(x);
    }
    program(&format!("{text}return ({},)\n}}", results.join(", ")))
}

#[test]
fn small_products_that_need_nothing_of_each_other_run_at_the_same_time() {
    for (n, layers, sizes, beside) in [
        (5, 4, [16, 128], Some("beside the next 4")),
        (3, 2, [1, 257], Some("beside the next 2")),
        (20, 2, [16, 128], Some("beside the next 15")),
        // Too little, and so much that each is shared between threads.
        (5, 2, [1, 32], None),
        (3, 2, [512, 512], None),
        (1, 4, [16, 128], None),
    ] {
        let gm = towers(n, layers, sizes);
        let text = describe(&gm);
        match beside {
            Some(beside) => assert!(text.contains(beside), "{text}"),
            None => assert!(!text.contains("beside"), "{text}"),
        }
        let args = values(&[numbers(&sizes, 1)]);
        agree(&gm, &args, false);
        let mut first: Option<Vec<Vec<u64>>> = None;
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let program = gm.compile(Engine::Fused).unwrap();
            for _ in 0..3 {
                let got = pool.install(|| fx::check::tensors(&program.call_values(&args).unwrap()));
                let got: Vec<Vec<u64>> = got.iter().map(bits).collect();
                assert_eq!(first.get_or_insert(got.clone()), &got, "{threads} threads change a bit");
            }
        }
    }
}

#[test]
fn what_kernels_read_at_the_same_time_is_not_written_over() {
    // Each of these could take the place of the operand that all of them read last.
    let gm = program(
        "graph main(%x: f32[64, 512]) {
            %p = cat([%x, %x], 0)
            %b = cos(%p)
            %c = exp(%p)
            %t = transpose(%b, 0, 1)
            %u = transpose(%c, 0, 1)
            %e = sum(%t, -1)
            %f = amax(%u, -1)
            return (%e, %f)
        }",
    );
    assert!(describe(&gm).contains("beside the next 1"), "{}", describe(&gm));
    for _ in 0..20 {
        agree(&gm, &values(&[numbers(&[64, 512], 1)]), true);
    }
}
