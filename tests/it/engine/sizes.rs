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
