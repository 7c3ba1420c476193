//! Small functions, their graphs, and the same functions as texts in the syntax of Python.

use expect_test::expect_file;
use fx::prelude::*;
use fx::{GraphModule, Value};

use super::{agrees, flag, graph, numbers};

/// Checks the text of a graph, in the file of this name.
fn check(name: &str, gm: &GraphModule) {
    let path = format!("{}/tests/data/scripted/{name}.fx", env!("CARGO_MANIFEST_DIR"));
    expect_file![path].assert_eq(&gm.graph().to_string());
}

/// Checks that a program in the syntax of Python computes what the graph does. Loops with more rounds than
/// `unroll` stay loops.
fn check_text(gm: &GraphModule, text: &str, inputs: &[(&str, &str)], unroll: usize, args: &[Value]) {
    let lowered = fx::script(text).unwrap().lower("f").unwrap();
    let lowered = inputs.iter().fold(lowered, |lowered, (name, spec)| lowered.input(name, *spec));
    let lowered = lowered.unroll(unroll).load().unwrap();
    let report = lowered.report().to_string();
    let other = lowered.into_module().unwrap_or_else(|error| panic!("{error}\n{report}"));
    let tensors = |gm: &GraphModule| fx::check::tensors(&gm.call_values(args).unwrap());
    let (found, expected) = (tensors(&other), tensors(gm));
    for (found, expected) in found.iter().zip(&expected) {
        found.all_close(expected, 1e-6, 1e-6).unwrap();
    }
}

#[fx::script]
fn branch(x: &Tensor) -> Tensor {
    let y = if x.sum((), false).gt(0.0) { x.relu() } else { -x };
    y * 2
}

#[test]
fn an_if_becomes_cond() {
    let gm = graph(fx::trace(branch).input("x", "f32[n]"));
    check("if", &gm);
    for x in [numbers(4), numbers(9)] {
        agrees(&gm, &[x.clone().into()], &branch(&x));
        let text = "
def f(x: Tensor) -> Tensor:
    if bool(x.sum() > 0.0):
        y = x.relu()
    else:
        y = -x
    return y * 2
";
        check_text(&gm, text, &[("x", "f32[n]")], 0, &[x.into()]);
    }
}

#[fx::script]
fn no_else(x: &Tensor, flag: &Tensor) -> Tensor {
    let mut x = x.clone();
    if flag {
        x = x + 1
    }
    x
}

#[test]
fn an_if_without_else_keeps_the_value() {
    let gm = graph(fx::trace(no_else).input("x", "f32[n]").input("y", "bool[]"));
    check("no_else", &gm);
    for holds in [true, false] {
        let (x, flag) = (numbers(3), flag(holds));
        let args = [x.clone().into(), flag.clone().into()];
        agrees(&gm, &args, &no_else(&x, &flag));
        let text = "
def f(x: Tensor, flag: Tensor) -> Tensor:
    if bool(flag):
        x = x + 1
    return x
";
        check_text(&gm, text, &[("x", "f32[n]"), ("flag", "bool[]")], 0, &args);
    }
}

#[fx::script]
fn early_return(x: &Tensor) -> Tensor {
    if x.sum((), false).lt(0.0) {
        return x.clone();
    }
    let y = x.exp();
    &y / y.sum((), false)
}

#[test]
fn an_early_return_moves_the_rest_into_the_other_side() {
    let gm = graph(fx::trace(early_return).input("x", "f32[n]"));
    check("early_return", &gm);
    for x in [numbers(4), numbers(9)] {
        agrees(&gm, &[x.clone().into()], &early_return(&x));
        let text = "
def f(x: Tensor) -> Tensor:
    if bool(x.sum() < 0.0):
        return x
    y = x.exp()
    return y / y.sum()
";
        check_text(&gm, text, &[("x", "f32[n]")], 0, &[x.into()]);
    }
}

#[fx::script]
fn shrink(x: &Tensor) -> (Tensor, Tensor) {
    let (mut x, mut n) = (x.clone(), Tensor::new(0i64));
    while x.norm(2.0, (), false).gt(1.0) {
        x = x * 0.5;
        n += 1;
    }
    (x, n)
}

#[test]
fn a_while_on_a_tensor_becomes_while_loop() {
    let gm = graph(fx::trace(shrink).input("x", "f32[k]"));
    check("while", &gm);
    for x in [numbers(0), numbers(3), numbers(20)] {
        agrees(&gm, &[x.clone().into()], &shrink(&x));
        let text = "
def f(x: Tensor):
    n = 0
    while bool(x.norm() > 1.0):
        x = x * 0.5
        n += 1
    return x, n
";
        check_text(&gm, text, &[("x", "f32[k]")], 0, &[x.into()]);
    }
}

#[fx::script]
fn recurrence(x: &Tensor, h0: &Tensor) -> Tensor {
    let mut h = h0.clone();
    for t in 0..x.dim(0) {
        h = (x.i(t) + &h).tanh();
    }
    h
}

#[test]
fn a_for_over_a_size_becomes_for_loop() {
    let gm = graph(fx::trace(recurrence).input("x", "f32[n, 5]").input("y", "f32[5]"));
    check("for", &gm);
    for n in [0, 1, 4] {
        let (x, h0) = (numbers(5 * n).reshape((n, 5)), numbers(5));
        let args = [x.clone().into(), h0.clone().into()];
        agrees(&gm, &args, &recurrence(&x, &h0));
        let text = "
def f(x: Tensor, h0: Tensor) -> Tensor:
    h = h0
    for t in range(x.size(0)):
        h = torch.tanh(x[t] + h)
    return h
";
        check_text(&gm, text, &[("x", "f32[n, 5]"), ("h0", "f32[5]")], 0, &args);
    }
}

#[fx::script]
pub(crate) fn states(x: &Tensor, h0: &Tensor) -> Tensor {
    let (mut h, mut out) = (h0.clone(), vec![]);
    for row in x {
        h = (row + &h).tanh();
        out.push(h.clone());
    }
    fx::stack(&out, 0)
}

#[test]
fn a_list_that_each_round_pushes_to_is_a_tensor() {
    let gm = graph(fx::trace(states).input("x", "f32[n, 5]").input("y", "f32[5]"));
    check("push", &gm);
    for n in [1, 4] {
        let (x, h0) = (numbers(5 * n).reshape((n, 5)), numbers(5));
        let args = [x.clone().into(), h0.clone().into()];
        agrees(&gm, &args, &states(&x, &h0));
        // The text knows no number of rounds but a fixed one, if a list grows.
        let spec = format!("f32[{n}, 5]");
        let text = "
def f(x: Tensor, h0: Tensor) -> Tensor:
    h = h0
    out: List[Tensor] = []
    for t in range(x.size(0)):
        h = torch.tanh(x[t] + h)
        out.append(h)
    return torch.stack(out, 0)
";
        check_text(&gm, text, &[("x", &spec), ("h0", "f32[5]")], 16, &args);
    }
}

#[fx::script]
pub(crate) fn fixed_point(x: &Tensor) -> Tensor {
    let mut z = x.clone();
    for _ in 0..50 {
        let new = (&z * 0.3 + x).tanh();
        let r = (&new - &z).norm(2.0, (), false);
        z = new;
        if r.lt(1e-4) {
            break;
        }
    }
    z
}

#[test]
fn a_break_becomes_a_flag_of_while_loop() {
    let gm = graph(fx::trace(fixed_point).input("x", "f32[k]"));
    check("break", &gm);
    for x in [numbers(1), numbers(6)] {
        agrees(&gm, &[x.clone().into()], &fixed_point(&x));
        let text = "
def f(x: Tensor) -> Tensor:
    z = x
    for i in range(50):
        new = torch.tanh(z * 0.3 + x)
        r = (new - z).norm()
        z = new
        if bool(r < 1e-4):
            break
    return z
";
        check_text(&gm, text, &[("x", "f32[k]")], 0, &[x.into()]);
    }
}

#[fx::script]
fn sum_of_kept(x: &Tensor, skip: &Tensor) -> Tensor {
    let mut acc = fx::zeros([5]);
    for k in 0..x.dim(0) {
        if skip.i(&k) {
            continue;
        }
        acc = acc + x.i(k);
    }
    acc
}

#[test]
fn a_continue_moves_the_rest_of_the_round_into_the_other_side() {
    let gm = graph(fx::trace(sum_of_kept).input("x", "f32[n, 5]").input("y", "bool[n]"));
    check("continue", &gm);
    let (x, skip) = (numbers(20).reshape((4, 5)), Tensor::new([true, false, true, false]));
    let args = [x.clone().into(), skip.clone().into()];
    agrees(&gm, &args, &sum_of_kept(&x, &skip));
    let text = "
def f(x: Tensor, skip: Tensor) -> Tensor:
    acc = torch.zeros([5])
    for k in range(x.size(0)):
        if bool(skip[k]):
            continue
        acc = acc + x[k]
    return acc
";
    check_text(&gm, text, &[("x", "f32[n, 5]"), ("skip", "bool[n]")], 0, &args);
}

#[derive(Module)]
struct Stack {
    layers: Vec<nn::Linear>,
    #[module(skip)]
    skip: bool,
}

#[fx::forward(script)]
impl Stack {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for layer in &self.layers {
            if self.skip {
                continue;
            }
            x = layer.call(&x);
        }
        x
    }
}

#[test]
fn a_loop_over_layers_is_written_out() {
    for (name, skip) in [("native", false), ("native_skipped", true)] {
        fx::manual_seed(1);
        let stack = Stack { layers: vec![nn::Linear::new(3, 4), nn::Linear::new(4, 2)], skip };
        let gm = graph(fx::trace(&stack).input("x", "f32[n, 3]"));
        check(name, &gm);
        let x = numbers(6).reshape((2, 3));
        agrees(&gm, &[x.clone().into()], &stack.call(&x));
    }
}

#[derive(Clone, Copy)]
enum Mode {
    Sum,
    Mean,
}

#[fx::script]
fn mixed(x: &Tensor, training: bool, mode: Mode) -> Tensor {
    let mut x = x.clone();
    if training && x.sum((), false).gt(0.0) {
        x = x * 2;
    }
    match mode {
        Mode::Sum => x.sum(0, false),
        Mode::Mean => x.mean(0, false),
    }
}

#[test]
fn bools_and_enums_decide_while_tracing() {
    for (name, training, mode) in [("mixed_sum", false, Mode::Sum), ("mixed_mean", true, Mode::Mean)] {
        let gm = graph(fx::trace(move |x: &Tensor| mixed(x, training, mode)).input("x", "f32[n]"));
        check(name, &gm);
        for x in [numbers(3), numbers(9)] {
            agrees(&gm, &[x.clone().into()], &mixed(&x, training, mode));
        }
    }
}
