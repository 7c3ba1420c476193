//! Steps of LSTM and GRU, against their definition.

use fx_kernels::recurrent::*;

fn numbers(len: usize, seed: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 31 + seed * 17) % 101) as f64 / 101.0 - 0.5).collect()
}

/// The definition, unit by unit.
fn naive(steps: &Steps<'_, f64>, weight: &[f64], h: &mut Vec<f64>, c: &mut [f64]) -> Vec<f64> {
    let ([n_steps, batch], &StateWeight { cell, hidden, .. }) = (steps.sizes, steps.weight);
    let n = cell.gates();
    let mut out = vec![0.0; n_steps * batch * hidden];
    for step in 0..n_steps {
        let step = if steps.reverse { n_steps - 1 - step } else { step };
        let mut next = h.clone();
        for (item, unit) in (0..batch).flat_map(|item| (0..hidden).map(move |unit| (item, unit))) {
            let x = |gate: usize| steps.gates[((step * batch + item) * n + gate) * hidden + unit];
            let s = |gate: usize| {
                let row = gate * hidden + unit;
                let sum: f64 = (0..hidden).map(|k| weight[row * hidden + k] * h[item * hidden + k]).sum();
                sum + steps.bias.map_or(0.0, |bias| bias[row])
            };
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            let at = item * hidden + unit;
            next[at] = match cell {
                Cell::Lstm => {
                    let new = (x(2) + s(2)).tanh();
                    c[at] = sigmoid(x(1) + s(1)) * c[at] + sigmoid(x(0) + s(0)) * new;
                    sigmoid(x(3) + s(3)) * c[at].tanh()
                }
                Cell::Gru => {
                    let (reset, update) = (sigmoid(x(0) + s(0)), sigmoid(x(1) + s(1)));
                    let new = (x(2) + reset * s(2)).tanh();
                    (1.0 - update) * new + update * h[at]
                }
            };
            out[step * batch * hidden + at] = next[at];
        }
        *h = next;
    }
    out
}

#[test]
fn any_number_of_threads_takes_the_steps_of_the_definition() {
    let Some(tile) = fx_kernels::gemm::tile::tile_f64() else { return };
    let sizes =
        [(0, 2, 5), (1, 1, 1), (3, 2, 7), (6, 13, 17), (5, 1, 33), (8, 2, 160), (7, 1, 200), (4, 30, 67)];
    for (i, (n_steps, batch, hidden)) in sizes.into_iter().enumerate() {
        for cell in [Cell::Lstm, Cell::Gru] {
            let width = cell.gates() * hidden;
            let gates = numbers(n_steps * batch * width, 1);
            let (weight, bias) = (numbers(width * hidden, 2), numbers(width, 3));
            let bias = (i % 3 > 0).then_some(&bias[..]);
            let (sizes, reverse) = ([n_steps, batch], i % 2 == 1);
            let packed = StateWeight::new(tile, cell, batch, hidden, &weight);
            let steps = Steps { weight: &packed, bias, sizes, reverse, gates: &gates, threads: 3 };
            let start = (numbers(batch * hidden, 4), numbers(batch * hidden, 5));
            let (mut h, mut c) = start.clone();
            let expected = naive(&steps, &weight, &mut h, &mut c);
            let mut first: Option<Vec<f64>> = None;
            for threads in [1, 2, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let (mut got_h, mut got_c) = start.clone();
                // The output has a column before and after.
                let stride = hidden + 2;
                // Steps or sequences lie beside each other.
                let strides = if i % 2 == 0 { (batch * stride, stride) } else { (stride, n_steps * stride) };
                let mut out = vec![9.0; n_steps * batch * stride + 1];
                pool.install(|| steps.run(&mut got_h, &mut got_c, &mut out[1..], strides));
                let row = |i: usize| i / batch * strides.0 + i % batch * strides.1 + 1;
                let rows = (0..n_steps * batch).flat_map(|i| out[row(i)..][..hidden].to_vec());
                let got: Vec<f64> = rows.chain(got_h).chain(got_c).collect();
                let expected = expected.iter().chain(&h).chain(&c);
                assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{n_steps} {hidden}");
                assert!(out.chunks_exact(stride).all(|row| row[0] == 9.0 && row[hidden + 1] == 9.0));
                assert_eq!(first.get_or_insert(got.clone()), &got, "threads change a bit");
            }
        }
    }
}
