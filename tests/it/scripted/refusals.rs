//! What a trace of a scripted function refuses.

use fx::prelude::*;
use fx::trace::{TraceBuilder, Traceable};

use super::{lists, refused};

#[fx::script]
fn counts(x: &Tensor) -> (Tensor, i64) {
    let (mut x, mut n) = (x.clone(), 0);
    while x.sum((), false).gt(1.0) {
        x = x * 0.5;
        n += 1;
    }
    (x, n)
}

#[fx::script]
fn chooses_numbers(x: &Tensor) -> Tensor {
    let scale = if x.sum((), false).gt(0.0) { 2.0 } else { 3.0 };
    x * scale
}

struct Opaque(u8);

#[fx::script]
fn changes_opaque(x: &Tensor) -> Tensor {
    let mut state = Opaque(0);
    if x.sum((), false).gt(0.0) {
        state = Opaque(1);
    }
    x * f64::from(state.0)
}

#[fx::script]
fn chooses_opaque(x: &Tensor) -> Tensor {
    let state = if x.sum((), false).gt(0.0) { Opaque(1) } else { Opaque(2) };
    x * f64::from(state.0)
}

#[fx::script]
fn changes_rank(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    while y.sum((), false).gt(0.0) {
        y = y.unsqueeze(0);
    }
    y
}

#[fx::script]
fn not_one_element(x: &Tensor) -> Tensor {
    if x.gt(0.0) { x.clone() } else { -x }
}

#[fx::script]
fn returns_none(x: &Tensor, given: Option<&Tensor>) -> Option<Tensor> {
    if x.sum((), false).gt(0.0) {
        return Some(x + given?);
    }
    Some(x.clone())
}

#[fx::script]
fn breaks_with_opaque(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    let state = loop {
        y = y * 0.5;
        if y.sum((), false).lt(1.0) {
            break Opaque(1);
        }
    };
    y * f64::from(state.0)
}

#[test]
fn what_a_graph_cannot_say_is_refused() {
    let found = [
        refused(fx::trace(counts).input("x", "f32[n]")),
        refused(fx::trace(chooses_numbers).input("x", "f32[n]")),
        refused(fx::trace(changes_opaque).input("x", "f32[n]")),
        refused(fx::trace(chooses_opaque).input("x", "f32[n]")),
        refused(fx::trace(changes_rank).input("x", "f32[n]")),
        refused(fx::trace(not_one_element).input("x", "f32[3]")),
        refused(fx::trace(|x: &Tensor| returns_none(x, None)).input("x", "f32[n]")),
        refused(fx::trace(breaks_with_opaque).input("x", "f32[n]")),
    ];
    expect_test::expect![[r#"
        a round of a loop on a tensor changes `n` from 0 to 1
        help: while tracing, a number, text or flag has one value; make it a tensor: `fx::Tensor::new(..)`
        the value of `if` is 2.0 if the condition holds, otherwise 3.0
        help: while tracing, a number, text or flag has one value; make it a tensor: `fx::Tensor::new(..)`
        `state` may change under a condition on a tensor, but no symbol can stand for a it::scripted::refusals::Opaque
        help: make it a tensor or a structure of tensors; if nothing changes it, bind it again without `mut`
        an `if` on a tensor cannot choose between values of the type it::scripted::refusals::Opaque
        help: give tensors or structures of tensors that own their data; clone what is borrowed
        the body of while_loop gives f32[1, n] for carried value 0, it was given f32[n]
        help: give both the same number of axes, by `unsqueeze`; sizes alone may differ
        the predicate of cond has one element, got bool[3]
        help: reduce it with `any` or `all`
        the result is none if the condition holds, otherwise %x: f32[n]
        help: give both sides the same structure of tensors; sizes alone may differ
        `break` under a condition on a tensor takes a value along, but no symbol can stand for a it::scripted::refusals::Opaque
        help: give a tensor or a structure of tensors that own their data"#]].assert_eq(&found.join("\n"));
}

#[fx::script]
fn pushes_on_one_side(x: &Tensor) -> Tensor {
    let mut out = vec![x.clone()];
    for row in x {
        if row.sum((), false).gt(0.0) {
            out.push(row);
        }
    }
    fx::stack(&out, 0)
}

#[fx::script]
fn pushes_numbers(x: &Tensor) -> Vec<i64> {
    let mut out = vec![];
    for _ in x {
        out.extend([1]);
    }
    out
}

#[fx::script]
fn pushes_longer_rows(x: &Tensor) -> Tensor {
    let (mut out, mut last) = (vec![], x.i(0));
    for row in x {
        last = fx::cat([&last, &row], 0);
        out.push(last.clone());
    }
    fx::stack(&out, 0)
}

#[fx::script]
fn adds_what_it_pushed(x: &Tensor) -> Tensor {
    let mut out = vec![];
    for row in x {
        out.push(row);
    }
    let last = out.pop();
    last.unwrap_or(x.clone())
}

/// Returns what a trace says against a scripted function, with the line that it names.
fn refused_line<T: Traceable<M>, M>(trace: TraceBuilder<T, M>) -> String {
    let error = trace.build().expect_err("the trace is refused");
    let Some(place) = error.source_loc() else { return format!("NOWHERE {error}") };
    let text = match place.file() {
        file if file.ends_with("refusals.rs") => include_str!("refusals.rs"),
        file if file.ends_with("lists.rs") => include_str!("lists.rs"),
        file => panic!("{file}: {error}"),
    };
    let line = text.lines().nth(place.line as usize - 1).unwrap();
    format!("{}\n  {}", line.trim(), error.message())
}

#[test]
fn errors_name_the_line_of_the_statement() {
    let found = [
        refused_line(fx::trace(lists::some).input("x", "f32[n, 3]")),
        refused_line(fx::trace(pushes_on_one_side).input("x", "f32[3, 3]")),
        refused_line(fx::trace(lists::as_long_as).input("x", "f32[n]")),
        refused_line(fx::trace(pushes_numbers).input("x", "f32[n]")),
        refused_line(fx::trace(pushes_longer_rows).input("x", "f32[n, n]")),
        refused_line(fx::trace(lists::some)),
        refused_line(fx::trace(lists::counts).input("x", "f32[n, 3]")),
        refused_line(fx::trace(adds_what_it_pushed).input("x", "f32[n, 3]")),
        refused_line(fx::trace(lists::returns_the_list).input("x", "f32[n, 3]")),
        refused_line(fx::trace(counts).input("x", "f32[n]")),
        refused_line(fx::trace(chooses_numbers).input("x", "f32[n]")),
        refused_line(fx::trace(changes_opaque).input("x", "f32[n]")),
        refused_line(fx::trace(chooses_opaque).input("x", "f32[n]")),
        refused_line(fx::trace(changes_rank).input("x", "f32[n]")),
        refused_line(fx::trace(not_one_element).input("x", "f32[3]")),
        refused_line(fx::trace(|x: &Tensor| returns_none(x, None)).input("x", "f32[n]")),
        refused_line(fx::trace(breaks_with_opaque).input("x", "f32[n]")),
    ];
    expect_test::expect![[r#"
        out.push(row);
          `out` is [] if the condition holds, otherwise [%getitem: f32[3]]
        out.push(row);
          `out` is [%out: f32[3, 3], %getitem: f32[3]] if the condition holds, otherwise [%out: f32[3, 3]]
        out.push(x.clone());
          a recorded loop that runs as long as a tensor says pushes to `out`
        out.extend([1]);
          a recorded loop pushes 1 to `out`
        out.push(last.clone());
          a recorded loop pushes f32[n + u0] to `out`, before f32[2*n]
        out.push(row);
          `out` is [] if the condition holds, otherwise [%getitem]
        fx::stack(&out, 0) * out.len() as f32
          a loop pushes to `out` as often as it runs, which is not known while tracing
        let last = out.pop();
          a loop pushes to `out` as often as it runs, which is not known while tracing
        out.push(row);
          a loop pushes to `out` as often as it runs, which is not known while tracing
        while x.sum((), false).gt(1.0) {
          a round of a loop on a tensor changes `n` from 0 to 1
        let scale = if x.sum((), false).gt(0.0) { 2.0 } else { 3.0 };
          the value of `if` is 2.0 if the condition holds, otherwise 3.0
        if x.sum((), false).gt(0.0) {
          `state` may change under a condition on a tensor, but no symbol can stand for a it::scripted::refusals::Opaque
        let state = if x.sum((), false).gt(0.0) { Opaque(1) } else { Opaque(2) };
          an `if` on a tensor cannot choose between values of the type it::scripted::refusals::Opaque
        while y.sum((), false).gt(0.0) {
          the body of while_loop gives f32[1, n] for carried value 0, it was given f32[n]
        if x.gt(0.0) { x.clone() } else { -x }
          the predicate of cond has one element, got bool[3]
        if x.sum((), false).gt(0.0) {
          the result is none if the condition holds, otherwise %x: f32[n]
        break Opaque(1);
          `break` under a condition on a tensor takes a value along, but no symbol can stand for a it::scripted::refusals::Opaque"#]].assert_eq(&found.join("\n"));
}
