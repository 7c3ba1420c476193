//! What a trace of a scripted function refuses.

use fx::prelude::*;

use super::refused;

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
