//! Lists that recorded loops push to.

use fx::prelude::*;

use super::{agrees, graph, numbers, refused};

#[fx::script]
fn pairs(x: &Tensor, first: &Tensor) -> (Tensor, Tensor, Tensor) {
    let mut out = vec![first.clone()];
    for row in x {
        out.push(row.clone());
        out.push(-row);
    }
    out.push(first * 3);
    (fx::stack(&out, 0), fx::stack(out.clone(), -1), fx::cat(&out, 0))
}

#[test]
fn several_items_a_round_and_items_around_the_loop() {
    let gm = graph(fx::trace(pairs).input("x", "f32[n, 3]").input("y", "f32[3]"));
    for n in [1, 4] {
        let (x, first) = (numbers(3 * n).reshape((n, 3)), numbers(3));
        agrees(&gm, &[x.clone().into(), first.clone().into()], &pairs(&x, &first));
    }
}

#[fx::script]
fn nested(x: &Tensor) -> (Tensor, Tensor) {
    let mut out = Vec::new();
    let mut sums: Vec<Tensor> = Vec::new();
    for matrix in x {
        let mut sum = fx::zeros([2]);
        for row in matrix {
            sum = sum + &row;
            out.push(row * 2);
        }
        sums.push(sum);
    }
    (fx::stack(&out, 0), fx::cat(&sums, 0))
}

#[test]
fn a_nested_loop_pushes_to_the_list_of_the_outer_one() {
    let gm = graph(fx::trace(nested).input("x", "f32[n, m, 2]"));
    let x = numbers(24).reshape((3, 4, 2));
    agrees(&gm, &[x.clone().into()], &nested(&x));
}

#[fx::script]
fn both_sides(x: &Tensor) -> Tensor {
    let mut out = vec![];
    for row in x {
        if row.sum((), false).gt(0.0) {
            out.push(row.clone());
        } else {
            out.push(row * 0.5);
        }
    }
    fx::stack(&out, 1)
}

#[test]
fn both_sides_of_an_if_push() {
    let gm = graph(fx::trace(both_sides).input("x", "f32[n, 3]"));
    let x = numbers(12).reshape((4, 3));
    agrees(&gm, &[x.clone().into()], &both_sides(&x));
}

#[fx::script]
pub(super) fn some(x: &Tensor) -> Tensor {
    let mut out = vec![];
    for row in x {
        if row.sum((), false).gt(0.0) {
            continue;
        }
        out.push(row);
    }
    fx::stack(&out, 0)
}

#[fx::script]
pub(super) fn counts(x: &Tensor) -> Tensor {
    let mut out = vec![];
    for row in x {
        out.push(row);
    }
    fx::stack(&out, 0) * out.len() as f32
}

#[fx::script]
fn reads_the_last(x: &Tensor) -> Tensor {
    let mut out = vec![x.i(0)];
    for row in x {
        let last = out[out.len() - 1].clone();
        out.push(last + row);
    }
    fx::stack(&out, 0)
}

#[fx::script]
pub(super) fn as_long_as(x: &Tensor) -> Tensor {
    let (mut x, mut out) = (x.clone(), vec![]);
    while x.sum((), false).gt(1.0) {
        x = x * 0.5;
        out.push(x.clone());
    }
    fx::stack(&out, 0)
}

#[fx::script]
pub(super) fn returns_the_list(x: &Tensor) -> Vec<Tensor> {
    let mut out = vec![];
    for row in x {
        out.push(row);
    }
    out
}

#[fx::script]
fn uses_an_item(x: &Tensor) -> Tensor {
    let mut out = vec![];
    for row in x {
        out.push(row);
    }
    let mut y = x.clone();
    for item in out {
        y = y + item;
    }
    y
}

#[test]
fn what_needs_the_number_of_items_is_refused() {
    let found = [
        refused(fx::trace(some).input("x", "f32[n, 3]")),
        refused(fx::trace(counts).input("x", "f32[n, 3]")),
        refused(fx::trace(reads_the_last).input("x", "f32[n, 3]")),
        refused(fx::trace(as_long_as).input("x", "f32[n]")),
        refused(fx::trace(returns_the_list).input("x", "f32[n, 3]")),
        refused(fx::trace(uses_an_item).input("x", "f32[n, 3]")),
        refused(fx::trace(counts)),
    ];
    expect_test::expect![[r#"
        `out` is [] if the condition holds, otherwise [%getitem: f32[3]]
        help: give both sides the same structure of tensors; sizes alone may differ
        a loop pushes to `out` as often as it runs, which is not known while tracing
        help: `fx::stack(&out, 0)` and `fx::cat(&out, 0)` take all items; nothing takes some
        a round of a recorded loop reads the items that earlier rounds pushed to `out`
        help: keep what the next round needs in a variable of its own
        a recorded loop that runs as long as a tensor says pushes to `out`
        help: loop over a range without an exit, or write the rows of a tensor with `select_scatter`
        a loop pushes to `out` as often as it runs, which is not known while tracing
        help: `fx::stack(&out, 0)` and `fx::cat(&out, 0)` take all items; nothing takes some
        a loop pushes to `out` as often as it runs, which is not known while tracing
        help: `fx::stack(&out, 0)` and `fx::cat(&out, 0)` take all items; nothing takes some
        dtype and shape of what a recorded loop pushes to `out` are not known
        help: give the inputs of the trace specs, such as `.input("x", "f32[n, 3]")`"#]]
    .assert_eq(&found.join("\n"));
}

#[fx::script]
fn rows_of(x: &Tensor, first: &Tensor, n: &Tensor) -> (Tensor, Tensor) {
    let (mut rows, mut joined) = (vec![], vec![first.clone()]);
    for row in x {
        rows.push(row.clone());
        joined.push(row);
    }
    let rows = if n.gt(0) { fx::cat(&rows, 0) } else { fx::stack(&rows, 0).sum([0], false) };
    (rows, fx::stack(&joined, 0))
}

#[test]
fn no_items_are_an_error_as_in_an_eager_call() {
    let trace = fx::trace(rows_of).input("x", "f32[n, 5]").input("y", "f32[5]").input("z", "i64[]");
    let gm = graph(trace);
    let first = numbers(5);
    for (rows, sign) in [(2, 1), (2, -1), (0, 1), (0, -1)] {
        let (x, n) = (numbers(5 * rows).reshape((rows, 5)), Tensor::new(fx::Array::scalar(sign as i64)));
        let args = [&x, &first, &n].map(fx::Value::from);
        let eager = rows_of(&x, &first, &n).0;
        if rows > 0 {
            agrees(&gm, &args, &rows_of(&x, &first, &n));
            continue;
        }
        assert_eq!(eager.error().unwrap().message(), "expected at least one tensor");
        for engine in fx::Engine::available() {
            let error = gm.compile(engine).unwrap().call_values(&args).unwrap_err();
            assert_eq!(error.message(), "expected at least one tensor", "{engine:?}");
        }
    }
    // What cannot be empty needs no check.
    let gm = graph(fx::trace(|x: &Tensor| both_sides(x)).input("x", "f32[n, 3]").dim("n", 1, None));
    assert!(!gm.graph().to_text().contains("check("), "{}", gm.graph());
}
