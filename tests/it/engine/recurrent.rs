//! Recurrent networks of the fused engine.

use super::*;

/// A recurrent network: the sizes are steps, batch, inputs and units.
struct Recurrent {
    op: &'static str,
    dtype: &'static str,
    sizes: [usize; 4],
    layers: usize,
    both: bool,
    biases: bool,
    batch_first: bool,
}

impl Recurrent {
    fn program(&self) -> GraphModule {
        let Recurrent { op, dtype, sizes: [t, n, i, d], layers, both, biases, batch_first } = *self;
        let (gates, n_states) = if op == "lstm" { (4, 2) } else { (3, 1) };
        let directions = if both { 2 } else { 1 };
        let (first, second) = if batch_first { (n, t) } else { (t, n) };
        let mut text = format!("graph main(%x: {dtype}[{first}, {second}, {i}]");
        for state in 0..n_states {
            text += &format!(", %s{state}: {dtype}[{}, {n}, {d}]", layers * directions);
        }
        text += ") {\n";
        let mut params = Vec::new();
        for layer in 0..layers {
            let input = if layer == 0 { i } else { directions * d };
            for _ in 0..directions {
                let weights = [format!("{}, {input}", gates * d), format!("{}, {d}", gates * d)];
                let biases = if biases { vec![format!("{}", gates * d); 2] } else { Vec::new() };
                for shape in weights.into_iter().chain(biases) {
                    // Paths of different lengths, for different numbers.
                    let name = format!("p{}", "x".repeat(params.len()));
                    text += &format!("%{name}: {dtype}[{shape}] = self.{name}\n");
                    params.push(format!("%{name}"));
                }
            }
        }
        let states: String = (0..n_states).map(|state| format!("%s{state}, ")).collect();
        text += &format!(
            "%y = {op}(%x, {states}[{}], has_biases={biases}, num_layers={layers}, bidirectional={both}, batch_first={batch_first})\n",
            params.join(", ")
        );
        let items = 0..=n_states;
        text += &items.clone().map(|item| format!("%y{item} = getitem(%y, {item})\n")).collect::<String>();
        let items: Vec<String> = items.map(|item| format!("%y{item}")).collect();
        program(&format!("{text}return ({})\n}}", items.join(", ")))
    }

    fn inputs(&self) -> Vec<Tensor> {
        let [t, n, i, d] = self.sizes;
        let states = self.layers * if self.both { 2 } else { 1 };
        let x = if self.batch_first { numbers(&[n, t, i], 1) } else { numbers(&[t, n, i], 1) };
        let mut inputs = vec![x, numbers(&[states, n, d], 2), numbers(&[states, n, d], 3)];
        inputs.truncate(if self.op == "lstm" { 3 } else { 2 });
        inputs.into_iter().map(|x| if self.dtype == "f64" { x.to(DType::F64) } else { x }).collect()
    }
}

#[test]
fn layers_of_recurrent_networks_are_products_and_steps() {
    for (case, sizes) in
        [[1, 1, 1, 1], [3, 2, 5, 7], [5, 1, 3, 67], [0, 2, 3, 4], [6, 14, 9, 33], [2, 3, 40, 32]]
            .into_iter()
            .enumerate()
    {
        for (op, dtype) in [("lstm", "f32"), ("gru", "f32"), ("lstm", "f64"), ("gru", "f64")] {
            for layers in [1, 3] {
                let (both, biases, batch_first) = (case % 2 == 1, (case + layers) % 3 > 0, case % 3 == 1);
                let network = Recurrent { op, dtype, sizes, layers, both, biases, batch_first };
                let gm = network.program();
                let (_, evaluated) = steps(&gm);
                assert_eq!(
                    evaluated,
                    0,
                    "{}",
                    gm.compile(Engine::Fused).unwrap().fused().unwrap().describe()
                );
                agree(&gm, &values(&network.inputs()), false);
                // States that are the same for all sequences.
                let mut inputs = network.inputs();
                for state in &mut inputs[1..] {
                    let shape = state.array().unwrap().shape().to_vec();
                    *state = state.narrow(1, 0, 1).expand(shape);
                }
                agree(&gm, &values(&inputs), false);
            }
        }
    }
}

#[test]
fn threads_do_not_change_a_bit_of_recurrent_networks() {
    for (op, n, hidden) in [("lstm", 1, 160), ("gru", 2, 131), ("lstm", 13, 97)] {
        let sizes = [9, n, 24, hidden];
        let network =
            Recurrent { op, dtype: "f32", sizes, layers: 2, both: true, biases: true, batch_first: false };
        let gm = network.program();
        let program = gm.compile(Engine::Fused).unwrap();
        let inputs = values(&network.inputs());
        let bits_of = || -> Vec<Vec<u64>> {
            fx::check::tensors(&program.call_values(&inputs).unwrap()).iter().map(bits).collect()
        };
        let expected = bits_of();
        for threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!((0..5).all(|_| pool.install(bits_of) == expected), "{threads} threads");
        }
    }
}

#[test]
fn one_weight_may_be_that_of_states_and_of_inputs() {
    let gm = program(
        "graph main(%x: f32[3, 2, 16], %h: f32[1, 2, 16], %c: f32[1, 2, 16]) {
            %w: f32[64, 16] = self.w
            %a: f32[64] = self.bias
            %y = lstm(%x, %h, %c, [%w, %w, %a, %a])
            %out = getitem(%y, 0)
            %z = linear(%out, %w)
            return %z
        }",
    );
    let args = [numbers(&[3, 2, 16], 1), numbers(&[1, 2, 16], 2), numbers(&[1, 2, 16], 3)];
    agree(&gm, &values(&args), false);
}
