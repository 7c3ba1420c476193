//! Values of the host: they decide while a function is traced, and leave nothing in the graph.

use fx::prelude::*;

use super::{agrees, graph, numbers};

#[fx::script]
fn polynomial(x: &Tensor, coefficients: &[f64], bias: Option<&Tensor>, label: Result<u8, String>) -> Tensor {
    let mut y = fx::zeros_like(x);
    let mut n = 0;
    while n < coefficients.len() {
        if coefficients[n] == 0.0 {
            n += 1;
            continue;
        }
        y = y * x + coefficients[n];
        n += 1;
    }
    if let Some(bias) = bias
        && n > 1
    {
        y = y + bias;
    }
    let scale = match label {
        Ok(n @ 0..=3) => f64::from(n),
        Ok(_) => return y,
        Err(text) if text.is_empty() => 1.0,
        Err(text) => text.len() as f64,
    };
    let mut numbers = vec![1usize, 2, 3];
    let last = loop {
        let Some(number) = numbers.pop() else { break 0 };
        if number == 2 {
            break number;
        }
    };
    y * scale + last as f64
}

#[test]
fn host_values_run_natively() {
    let x = numbers(4);
    for label in [Ok(2), Ok(9), Err(String::new()), Err("abc".to_owned())] {
        let given = label.clone();
        let traced = move |x: &Tensor, b: &Tensor| polynomial(x, &[1.0, 0.0, 3.0], Some(b), given.clone());
        let gm = graph(fx::trace(traced).input("x", "f32[n]").input("y", "f32[n]"));
        let is_straight = gm
            .graph()
            .nodes()
            .all(|(_, node)| !node.op().is_some_and(|op| matches!(op.class, fx::Class::Control)));
        assert!(is_straight, "{}", gm.graph());
        let args = [x.clone().into(), x.clone().into()];
        agrees(&gm, &args, &polynomial(&x, &[1.0, 0.0, 3.0], Some(&x), label));
    }
}

#[derive(Tree, Clone)]
struct State {
    hidden: Tensor,
    cell: (Tensor, Vec<Tensor>),
}

#[fx::script]
fn structures(x: &Tensor) -> State {
    let mut state = State { hidden: x.clone(), cell: (x * 2.0, vec![x + 1.0, x + 2.0]) };
    for row in x {
        state.hidden = &state.hidden + &row;
        if row.gt(0.0) {
            state.cell.1[0] = state.cell.1[0].tanh();
        }
        let cell = &mut state.cell;
        if row.lt(1.0) {
            cell.0 = &cell.0 * 0.5;
        }
    }
    state
}

#[test]
fn structures_are_carried() {
    let gm = graph(fx::trace(structures).input("x", "f32[n]"));
    let x = numbers(6);
    agrees(&gm, &[x.clone().into()], &structures(&x));
}

#[fx::script]
fn by_reference(total: &mut Tensor, x: &Tensor) {
    if x.sum((), false).gt(0.0) {
        *total = &*total + x;
    } else {
        *total += 1.0;
    }
}

#[fx::script]
fn calls(x: &Tensor) -> Tensor {
    let mut total = fx::zeros_like(x);
    for _ in 0..3 {
        by_reference(&mut total, x);
    }
    let list = &mut vec![x.clone(), x * 2.0];
    for item in list.iter_mut() {
        if item.sum((), false).gt(0.0) {
            *item = -&*item;
        }
    }
    total + &list[0] + &list[1]
}

#[test]
fn references_change_what_they_refer_to() {
    let gm = graph(fx::trace(calls).input("x", "f32[n]"));
    for x in [numbers(4), numbers(9)] {
        agrees(&gm, &[x.clone().into()], &calls(&x));
    }
}

#[derive(Module)]
struct Gate {
    weight: Parameter,
    #[module(training)]
    training: bool,
}

#[fx::forward]
impl Gate {
    #[fx::script]
    fn forward(&self, x: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let mut y = x * &self.weight;
        if self.weight.sum((), false).gt(0.0) && !self.training {
            y = y.relu();
        }
        match mask {
            Some(mask) if !self.training => y * mask,
            _ => y,
        }
    }
}

#[test]
fn a_parameter_is_a_condition_of_the_graph() {
    let gate = Gate { weight: Parameter::new(numbers(4)), training: false };
    let gm = graph(fx::trace(&gate).input("x", "f32[4]").constant("mask", fx::Arg::None));
    assert!(gm.graph().to_string().contains("cond("), "{}", gm.graph());
    agrees(&gm, &[numbers(4).into(), fx::Arg::None], &gate.call(&numbers(4), None));
}
