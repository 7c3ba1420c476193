//! One compiled program for many sizes.

use super::*;

fn net() -> GraphModule {
    program(
        "graph main(%x: f32[n, m]) {
            %t = transpose(%x, 0, 1)
            %p = matmul(%x, %t)
            %s = softmax(%p, -1)
            %y = matmul(%s, %x)
            %z = tanh(%y)
            %r = sum(%z, -1)
            return (%z, %r)
        }",
    )
}

#[test]
fn more_sizes_than_are_kept_come_and_go() {
    let gm = net();
    let fused = gm.compile(Engine::Fused).unwrap();
    let mut kept = Vec::new();
    for round in 0..3 {
        for i in 0..100 {
            // Some sizes come back before they are forgotten, some after.
            let (n, m) = if i % 3 == 0 { (7, 5) } else { (i * 37 % 101, 1 + i % 4) };
            let args = values(&[numbers(&[n, m], i as u64 + round)]);
            let expected = fx::check::tensors(&gm.call_values(&args).unwrap());
            let got = fx::check::tensors(&fused.call_values(&args).unwrap());
            kept.push((got, expected));
        }
    }
    // Nothing that a call gave was written over by another one.
    for (got, expected) in kept {
        for (got, expected) in got.iter().zip(&expected) {
            assert_eq!(got.ty().unwrap(), expected.ty().unwrap());
            got.all_close(expected, 1e-5, 1e-5).unwrap();
        }
    }
}

#[test]
fn threads_call_with_sizes_of_their_own() {
    let gm = net();
    let fused = gm.compile(Engine::Fused).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (gm, fused) = (&gm, &fused);
            scope.spawn(move || {
                for i in 0..120 {
                    let args = values(&[numbers(&[(i * (thread + 3)) % 90, 3], i as u64)]);
                    let expected = fx::check::tensors(&gm.call_values(&args).unwrap());
                    let got = fx::check::tensors(&fused.call_values(&args).unwrap());
                    for (got, expected) in got.iter().zip(&expected) {
                        got.all_close(expected, 1e-5, 1e-5).unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn sizes_that_depend_on_data_are_no_obstacle() {
    let gm = program(
        "graph main(%x: f32[6]) {
            %found: i64[u0, 1] = nonzero(%x)
            %row = reshape(%found, [1, <u0>])
            %e = exp(%x)
            return (%row, %e)
        }",
    );
    for x in [[0.0f32, 1.0, 2.0, 0.0, 0.0, 3.0], [0.0; 6], [1.0; 6]] {
        agree(&gm, &values(&[Tensor::new(x)]), true);
    }
    let text = gm.compile(Engine::Fused).unwrap().fused().unwrap().describe();
    assert_eq!(text, "no plan, operation by operation: the size u0 is not known before the call\n");
}

#[test]
fn weights_that_are_folded_for_each_size_are_not_mixed_up() {
    // Without types, weights are folded anew for each plan, and plans are thrown away.
    let mut gm = fx::GraphModule::new(
        "M",
        fx::parse(
            "graph main(%x) {
                %v = self.v
                %w = self.w
                %a = mul(%v, 2.0)
                %b = mul(%w, 3.0)
                %p = matmul(%x, %a)
                %q = matmul(%x, %b)
                return (%p, %q)
            }",
        )
        .unwrap(),
    );
    for (path, seed) in [("v", 1), ("w", 2)] {
        gm.set_attribute(path, Attribute::Parameter(Parameter::new(numbers(&[64, 48], seed)))).unwrap();
    }
    let program = gm.compile(Engine::Fused).unwrap();
    for n in 1..60 {
        let args = values(&[numbers(&[n, 64], n as u64)]);
        let expected = fx::check::tensors(&gm.call_values(&args).unwrap());
        for (got, expected) in fx::check::tensors(&program.call_values(&args).unwrap()).iter().zip(&expected)
        {
            got.all_close(expected, 1e-4, 1e-4).unwrap();
        }
    }
}

/// Makes inputs of the types that a program declares, with these values of the symbols in them.
fn inputs(gm: &GraphModule, sizes: &[(&str, usize)], seed: u64) -> Vec<Value> {
    let size = |symbol: &fx::Symbol| {
        sizes.iter().find(|(name, _)| *name == symbol.name()).map(|(_, size)| *size as i64)
    };
    let graph = gm.graph();
    let input = |(i, id): (usize, fx::NodeId)| {
        let ty = graph.node(id).unwrap().ty().unwrap();
        if let fx::Arg::Dim(dim) = ty {
            return Value::Int(dim.eval(&size).unwrap());
        }
        let ty = ty.tensor().unwrap();
        let shape: Vec<usize> = ty.shape.iter().map(|dim| dim.eval(&size).unwrap() as usize).collect();
        let tensor = numbers(&shape, seed + i as u64);
        (&match ty.dtype {
            DType::Bool => tensor.gt(-0.5),
            DType::I64 => (tensor * 2.0).abs().to(DType::I64),
            dtype => tensor.to(dtype),
        })
            .into()
    };
    graph.placeholders().into_iter().enumerate().map(input).collect()
}

/// Returns the descriptions of the plans of a program, but for what runs side by side, and whether they were
/// made for other sizes.
fn plans(program: &fx::Program) -> Vec<(String, bool)> {
    let mut plans: Vec<(String, bool)> = Vec::new();
    for line in program.fused().unwrap().describe().lines() {
        match (line.starts_with(' '), plans.last_mut()) {
            (true, Some((plan, _))) => {
                let (line, _) = line.split_once(", beside the next").unwrap_or((line, ""));
                *plan += &format!("\n{line}");
            }
            _ => {
                let (first, is_bound) = match line.split_once(", as planned for other sizes") {
                    Some((first, _)) => (first, true),
                    None => (line, false),
                };
                let steps = first.split_once(',').map_or(first, |(steps, _)| steps);
                plans.push((steps.to_owned(), is_bound));
            }
        }
    }
    plans
}

#[test]
fn a_plan_for_other_sizes_is_the_one_that_would_be_made_for_these() {
    let cases: &[(&str, &[&str])] = &[
        (
            "graph main(%x: f32[n, m], %row: f32[m], %mask: bool[n, m]) {
                %a = add(%x, %row)
                %b = tanh(%a)
                %c = where(%mask, %b, %x)
                %d = softmax(%c, -1)
                %e = mean(%d, -1, keepdim=true)
                %f = sub(%c, %e)
                %g = sum(%f)
                %h = transpose(%f, 0, 1)
                %i = exp(%h)
                %j = amax(%i, 1)
                return (%f, %g, %i, %j)
            }",
            &["n", "m"],
        ),
        (
            "graph main(%x: f32[n, 16], %s: f32[n, 4]) {
                %w: f32[32, 16] = self.w
                %b: f32[32] = self.bias
                %v: f32[4, 32] = self.v
                %a = linear(%x, %w, %b)
                %r = gelu(%a)
                %c = linear(%r, %v)
                %d = add(%c, %s)
                %e = relu(%d)
                %t = transpose(%e, 0, 1)
                %p = matmul(%t, %x)
                return (%e, %p)
            }",
            &["n"],
        ),
        (
            "graph main(%x: f32[b, s, 24], %mask: f32[s, s]) {
                %w: f32[72, 24] = self.w
                %wb: f32[72] = self.wb
                %o: f32[24, 24] = self.o
                %g: f32[24] = self.g
                %n = layer_norm(%x, [24], %g, none)
                %qkv = linear(%n, %w, %wb)
                %parts = chunk(%qkv, 3, -1)
                %q = getitem(%parts, 0)
                %k = getitem(%parts, 1)
                %v = getitem(%parts, 2)
                %q1 = reshape(%q, [<b>, <s>, 3, 8])
                %k1 = reshape(%k, [<b>, <s>, 3, 8])
                %v1 = reshape(%v, [<b>, <s>, 3, 8])
                %q2 = transpose(%q1, 1, 2)
                %k2 = transpose(%k1, 1, 2)
                %v2 = transpose(%v1, 1, 2)
                %a = scaled_dot_product_attention(%q2, %k2, %v2, %mask)
                %c = scaled_dot_product_attention(%q2, %k2, %v2, is_causal=true)
                %ac = add(%a, %c)
                %t = transpose(%ac, 1, 2)
                %f = reshape(%t, [<b*s>, 24])
                %l = linear(%f, %o)
                %y = reshape(%l, [<b>, <s>, 24])
                %z = add(%y, %x)
                %u = rms_norm(%z, [24], %g)
                %last = select(%u, 1, -1)
                return (%u, %last, <b*s>)
            }",
            &["b", "s"],
        ),
        (
            "graph main(%q: f32[1, 2, 1, 8], %k: f32[1, 2, p, 8], %v: f32[1, 2, p, 8], %k1: f32[1, 2, 1, 8], %v1: f32[1, 2, 1, 8]) {
                %ks = cat([%k, %k1], 2)
                %vs = cat([%v, %v1], 2)
                %a = scaled_dot_product_attention(%q, %ks, %vs)
                return (%a, %ks, %vs)
            }",
            &["p"],
        ),
        (
            "graph main(%x: f32[n, 3, h, w]) {
                %w: f32[16, 3, 3, 3] = self.w
                %b: f32[16] = self.bias
                %d: f32[16, 1, 3, 3] = self.depth
                %p: f32[32, 16, 1, 1] = self.point
                %g: f32[32] = self.gamma
                %a = conv2d(%x, %w, %b, padding=1)
                %r = relu(%a)
                %m = max_pool2d(%r, [2, 2])
                %c = conv2d(%m, %d, padding=1, groups=16)
                %e = hardtanh(%c, 0.0, 6.0)
                %f = conv2d(%e, %p)
                %k = group_norm(%f, 4, %g)
                %s = silu(%k)
                %o = adaptive_avg_pool2d(%s, [1, 1])
                %y = flatten(%o, 1)
                return (%y, %s)
            }",
            &["n", "h", "w"],
        ),
        (
            "graph main(%x: f32[t, n, 6], %h: f32[2, n, 5], %c: f32[2, n, 5]) {
                %wi: f32[20, 6] = self.wi
                %wh: f32[20, 5] = self.wh
                %bi: f32[20] = self.bi
                %bh: f32[20] = self.bh
                %y = lstm(%x, %h, %c, [%wi, %wh, %bi, %bh, %wi, %wh, %bi, %bh], bidirectional=true)
                %out = getitem(%y, 0)
                %last = getitem(%y, 1)
                %z = tanh(%out)
                return (%z, %last)
            }",
            &["t", "n"],
        ),
        (
            "graph main(%i: i64[n, m], %y: f64[m, n]) {
                %w: f32[9, 12] = self.w
                %e = embedding(%i, %w)
                %s = cumsum(%e, 1)
                %p = permute(%s, [2, 1, 0])
                %j = stack([%y, %y], 0)
                %t = to(%p, f64)
                %head = slice(%t, 0, 0, 2)
                %z = cat([%j, %head], 0)
                %sorted = sort(%z, -1)
                %v = getitem(%sorted, 0)
                %q = pow(%v, 2)
                %half = slice(%q, 2, 0, 9223372036854775807, 2)
                return (%z, %half, %v)
            }",
            &["n", "m"],
        ),
        (
            "graph main(%x: f32[n], %k: <k>) {
                %y = reshape(%x, [<n>, 1])
                %z = expand(%y, [<n>, <k>])
                %e = exp(%z)
                %t = mul(%e, <k>)
                return (%t, %e)
            }",
            &["n", "k"],
        ),
    ];
    // Most of these differ from the numbers in the programs, and from each other.
    let of =
        [[17, 41, 21], [19, 43, 25], [3, 5, 2], [4, 6, 7], [21, 45, 27], [1, 5, 4], [3, 1, 9], [1, 1, 1]];
    let more = [[23, 47, 29], [18, 39, 25], [0, 3, 2], [6, 0, 4], [27, 53, 31], [80, 99, 57], [83, 97, 59]];
    for (text, symbols) in cases {
        let gm = program(text);
        let all = gm.compile(Engine::Fused).unwrap();
        let native = Engine::available().into_iter().find(|engine| *engine == Engine::Native);
        let native = native.map(|engine| gm.compile(engine).unwrap());
        for (i, sizes) in of.iter().chain(&more).enumerate() {
            let sizes: Vec<(&str, usize)> = symbols.iter().copied().zip(sizes.iter().copied()).collect();
            let args = inputs(&gm, &sizes, i as u64);
            let Ok(eager) = gm.call_values(&args) else { continue };
            let alone = gm.compile(Engine::Fused).unwrap();
            let expected = fx::check::tensors(&alone.call_values(&args).unwrap());
            for (expected, eager) in expected.iter().zip(fx::check::tensors(&eager)) {
                expected
                    .all_close(&eager, 1e-4, 1e-4)
                    .unwrap_or_else(|error| panic!("{sizes:?} {text}: {error}"));
            }
            for program in [&all, &all].into_iter().chain(&native) {
                let got = fx::check::tensors(&program.call_values(&args).unwrap());
                for (got, expected) in got.iter().zip(&expected) {
                    assert_eq!(got.ty().unwrap(), expected.ty().unwrap());
                    assert!(bits(got) == bits(expected), "{} {sizes:?} {text}", program.engine().name());
                }
            }
            let (plan, _) = &plans(&alone)[0];
            let found = plans(&all);
            assert!(found.iter().any(|(other, _)| other == plan), "{sizes:?}\n{plan}\n{found:#?}");
        }
        let n_bound = plans(&all).iter().filter(|(_, is_bound)| *is_bound).count();
        assert!(n_bound >= 4, "{n_bound} of the plans were made from others: {text}");
    }
}

#[test]
fn an_input_may_be_a_list_of_known_length() {
    let gm = program(
        "graph main(%parts: [f32[2], (f32[3], int)], %x: f32[2]) {
            %first: f32[2] = getitem(%parts, 0)
            %pair: (f32[3], int) = getitem(%parts, 1)
            %second: f32[3] = getitem(%pair, 0)
            %sum: f32[2] = add(%first, %x)
            %out: f32[5] = cat([%sum, %second], 0)
            return (%out, %parts)
        }",
    );
    let (x, y) = (numbers(&[2], 1), numbers(&[3], 2));
    let pair = fx::Arg::tuple([Value::from(&y), fx::Arg::Int(7)]);
    let parts = fx::Arg::list([Value::from(&x), pair]);
    agree(&gm, &[parts.clone(), Value::from(&x)], true);
    for wrong in [fx::Arg::list([Value::from(&x)]), fx::Arg::list([parts, Value::from(&x)])] {
        for engine in [Engine::Eager, Engine::Fused] {
            let error =
                gm.compile(engine).unwrap().call_values(&[wrong.clone(), Value::from(&x)]).unwrap_err();
            assert!(error.to_string().contains("\"parts\""), "{error}");
        }
    }
}

#[test]
fn sizes_within_a_group_are_those_of_the_call() {
    // `n` is a size of no operand of the group, which has no kernel for rows without elements.
    let text = "graph main(%y: f64[n], %x: f64[min(2, n)]) -> f64[min(2, n)] {
        %normed: f64[min(2, n)] = rms_norm(%x, [<min(2, n)>], eps=0.1)
        %mul: f64[min(2, n)] = mul(%normed, %x)
        return %mul
    }";
    let gm = program(text);
    let compiled = gm.compile(Engine::Fused).unwrap();
    for n in [5usize, 0, 1, 2, 7] {
        let args = [fx::ones([n]).to(DType::F64), fx::ones([n.min(2)]).to(DType::F64) * 3.0];
        let expected = gm.call(&args).unwrap();
        compiled.call(&args).unwrap().all_close(&expected, 1e-12, 1e-12).unwrap();
    }
}
