//! Ways out of nested branches and loops: each graph computes what an eager call does.

use fx::prelude::*;

use super::{agrees, flag, graph, numbers};

#[fx::script]
fn nested_breaks(x: &Tensor, limit: &Tensor) -> (Tensor, Tensor) {
    let (mut sum, mut n) = (fx::zeros(()), Tensor::new(0i64));
    'rows: for row in x {
        for item in row {
            if item.gt(limit) {
                break 'rows;
            }
            if item.lt(0.0) {
                continue 'rows;
            }
            sum = sum + item;
            n += 1;
        }
        n += 100;
    }
    (sum, n)
}

#[test]
fn labels_leave_outer_loops() {
    let gm = graph(fx::trace(nested_breaks).input("x", "f32[n, m]").input("y", "f32[]"));
    let x = numbers(12).reshape((3, 4)) + 2.0;
    for limit in [0.0f32, 3.0, 7.0, 100.0] {
        let limit = Tensor::new(limit);
        agrees(&gm, &[x.clone().into(), limit.clone().into()], &nested_breaks(&x, &limit));
    }
}

#[fx::script]
fn returns_from_loops(x: &Tensor, limit: &Tensor) -> Tensor {
    let mut sum = fx::zeros(());
    for item in x {
        if item.gt(limit) {
            return item * 10.0;
        }
        let mut rest = item.clone();
        while rest.gt(1.0) {
            rest = rest - 1.0;
            if sum.gt(20.0) {
                return sum * -1.0;
            }
        }
        sum = sum + rest + 1.5;
    }
    sum + 0.25
}

#[test]
fn a_return_leaves_all_loops() {
    let gm = graph(fx::trace(returns_from_loops).input("x", "f32[n]").input("y", "f32[]"));
    for (n, limit) in [(4, 100.0f32), (12, 5.0), (30, 50.0), (30, 12.0), (0, 0.0)] {
        let (x, limit) = (numbers(n), Tensor::new(limit));
        agrees(&gm, &[x.clone().into(), limit.clone().into()], &returns_from_loops(&x, &limit));
    }
}

#[fx::script]
fn endless(x: &Tensor) -> (Tensor, Tensor) {
    let (mut x, mut n) = (x.clone(), Tensor::new(0i64));
    loop {
        if x.sum((), false).lt(0.5) {
            break;
        }
        n += 1;
        if n.eq(7i64) {
            return (x, n + 100);
        }
        x = x * 0.5;
    }
    (x, n)
}

#[test]
fn a_loop_ends_by_tensors() {
    let gm = graph(fx::trace(endless).input("x", "f32[n]"));
    for x in [numbers(4), numbers(9), numbers(60) * 100.0] {
        agrees(&gm, &[x.clone().into()], &endless(&x));
    }
}

#[fx::script]
fn values_of_loops(x: &Tensor) -> (Tensor, Tensor) {
    let mut y = x.clone();
    let (half, n) = loop {
        y = y * 0.5;
        if y.sum((), false).lt(1.0) {
            break (y.clone(), Tensor::new(1i64));
        }
        let mut k = Tensor::new(0i64);
        let found = loop {
            k += 1;
            if k.gt(5i64) {
                break k * 2;
            }
        };
        if y.sum((), false).lt(3.0) {
            break (y + 1.0, found);
        }
    };
    (half, n)
}

#[test]
fn a_loop_has_the_value_of_its_break() {
    let gm = graph(fx::trace(values_of_loops).input("x", "f32[n]"));
    for x in [numbers(4), numbers(9), numbers(30)] {
        agrees(&gm, &[x.clone().into()], &values_of_loops(&x));
    }
}

#[fx::script]
fn written_out(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    for i in 0..4 {
        if x.sum((), false).gt(f64::from(i)) {
            x = x - 0.5;
            continue;
        }
        if x.sum((), false).lt(-50.0) {
            break;
        }
        x = x * 1.5 - f64::from(i);
    }
    x
}

#[test]
fn native_loops_are_left_under_tensors() {
    let gm = graph(fx::trace(written_out).input("x", "f32[n]"));
    for n in [1, 4, 6, 9, 16] {
        let x = numbers(n);
        agrees(&gm, &[x.clone().into()], &written_out(&x));
        agrees(&gm, &[(&x * -9.0).into()], &written_out(&(&x * -9.0)));
    }
}

#[fx::script]
fn sequence(x: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let mut y = x.clone();
    if a {
        if b {
            return Ok(y.relu());
        }
        y = y + 1.0;
    } else if b {
        y = y * 2.0;
    } else {
        let z = checked(&y)?;
        y = z - 3.0;
    }
    let z = checked(&y)?;
    if !(a && b) && z.sum((), false).gt(1.0) {
        return Ok(z.neg());
    }
    Ok(y + z)
}

fn checked(x: &Tensor) -> Result<Tensor> {
    x.clone().ok()
}

#[test]
fn returns_of_results() {
    let trace = fx::trace(sequence).input("x", "f32[n]").input("y", "bool[]").input("z", "bool[]");
    let gm = graph(trace);
    for (a, b, n) in
        [(true, true, 3), (true, false, 7), (false, true, 3), (false, true, 9), (false, false, 7)]
    {
        let (x, a, b) = (numbers(n), flag(a), flag(b));
        let args = [x.clone().into(), a.clone().into(), b.clone().into()];
        agrees(&gm, &args, &sequence(&x, &a, &b).unwrap());
    }
}

/// The first round of the inner loop runs natively, since `a` is a number; data decide what leaves it, so the
/// rest of its rounds are recorded within a branch.
#[fx::script]
fn recorded_midway(x: &Tensor) -> (Tensor, Tensor) {
    let (mut a, b) = (Tensor::new(0.5f32), x.mean((), false));
    let mut rounds = Tensor::new(0i64);
    'outer: while rounds.lt(3) {
        rounds = &rounds + 1;
        while a.gt(-1.5) {
            if b.gt(0.5) {
                if b.lt(1.5) {
                    break;
                }
                break 'outer;
            }
            a = &a - (&b + 1.0) * 0.5;
        }
        a = &a + 2.0;
    }
    (a, rounds)
}

/// Data decide whether a round ends early; where it does not, it returns or breaks for sure.
#[fx::script]
fn goes_on_or_leaves(x: &Tensor, limit: &Tensor) -> (Tensor, Tensor) {
    let (mut a, mut rounds) = (x.sum((), false), Tensor::new(0i64));
    loop {
        rounds = &rounds + 1;
        if a.lt(limit) {
            a = &a + 1.0;
            continue;
        }
        a = (&a * 0.1).tanh();
        if limit.gt(5.0) {
            return (a.neg(), rounds);
        }
        break;
    }
    (a, rounds)
}

#[fx::script]
fn goes_on_or_returns(x: &Tensor) -> Tensor {
    let mut a = Tensor::new(0.5f32);
    loop {
        if x.sum((), false).lt(-9.0) {
            a = &a + 1.0;
            continue;
        }
        a = (&a + 1.5).tanh();
        return a.clone();
    }
}

#[test]
fn a_round_that_goes_on_or_leaves() {
    let gm = graph(fx::trace(goes_on_or_leaves).input("x", "f32[n]").input("y", "f32[]"));
    for (x, limit) in [(0.0f32, 3.0f32), (4.0, 3.0), (1.0, 8.0), (9.0, 8.0)] {
        let (x, limit) = (Tensor::new([x]), Tensor::new(limit));
        agrees(&gm, &[x.clone().into(), limit.clone().into()], &goes_on_or_leaves(&x, &limit));
    }
    let gm = graph(fx::trace(goes_on_or_returns).input("x", "f32[n]"));
    let x = Tensor::new([1.0f32, -2.0]);
    agrees(&gm, &[x.clone().into()], &goes_on_or_returns(&x));
}

#[test]
fn a_loop_that_is_recorded_midway_leaves_the_loop_around_it() {
    let gm = graph(fx::trace(recorded_midway).input("x", "f32[n]"));
    for x in [-0.9f32, 0.0, 0.4, 0.6, 1.2, 1.6] {
        let x = Tensor::new([x, x]);
        agrees(&gm, &[x.clone().into()], &recorded_midway(&x));
    }
}

#[fx::script]
fn widening(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    while y.sum((), false).lt(10.0) {
        y = fx::cat([&y, x], 0);
        if y.sum((), false).gt(8.0) {
            y = y.i(..3);
            break;
        }
    }
    y
}

#[test]
fn sizes_change_by_the_round() {
    let gm = graph(fx::trace(widening).input("x", "f32[n]"));
    for x in [Tensor::new([1.0f32, 1.0, 2.0]), Tensor::new([0.5f32, 0.25, 0.25, 2.5]), Tensor::new([20.0f32])]
    {
        agrees(&gm, &[x.clone().into()], &widening(&x));
    }
}

#[fx::script]
fn deep(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    if y.sum((), false).gt(0.0) {
        for row in x {
            while y.sum((), false).gt(9.0) {
                if row.gt(1.0) {
                    for k in 0..x.dim(0) {
                        if k.gt(2i64) {
                            y = y * 0.5;
                        } else {
                            y = y - &row * 0.1;
                        }
                    }
                } else {
                    y = y * 0.75;
                }
            }
            y = y + &row;
        }
    }
    y
}

#[test]
fn six_levels() {
    let gm = graph(fx::trace(deep).input("x", "f32[n]"));
    for x in [numbers(4), numbers(9), numbers(12) * 2.0] {
        agrees(&gm, &[x.clone().into()], &deep(&x));
    }
}
