//! Windows of views.

use fx_core::window::*;
use fx_core::{Arg, Dim};

fn dims(text: &str) -> Vec<Dim> {
    text.split_whitespace().map(|dim| dim.parse().unwrap()).collect()
}

#[test]
fn reshapes_of_windows_with_gaps_are_found_for_symbols() {
    // The middle third of rows, as one chunk of a product for queries, keys and values.
    let x = Window::row_major(0, &dims("b s 2304")).slice(2, &Dim::new(768), Dim::new(768), &Dim::new(1));
    let heads = x.reshape(&dims("b s 12 64")).unwrap();
    assert_eq!((heads.strides, heads.offset), (dims("2304*s 2304 64 1"), Dim::new(768)));
    let rows = x.reshape(&dims("b*s 768")).unwrap();
    assert_eq!(rows.strides, dims("2304 1"));
    assert_eq!(x.reshape(&dims("b 768*s")), None);
    let turned = x.permute(&[1, 0, 2]);
    assert_eq!(turned.reshape(&dims("b*s 768")), None);
    assert_eq!(turned.reshape(&dims("s 1 b 768")).unwrap().strides, dims("2304 0 2304*s 1"));
    assert_eq!(x.reshape(&dims("b s 12 65")), None);
}

#[test]
fn sizes_that_may_differ_must_be_equal_to_expand() {
    let x = Window::row_major(0, &dims("n 1"));
    let mut call = WindowCall::new(&[], &Arg::None);
    assert_eq!(call.expand(&x, &dims("4 n 3")).unwrap().strides, dims("0 1 0"));
    assert!(call.required().is_empty());
    assert_eq!(call.expand(&x, &dims("3")), None);
    assert_eq!(call.expand(&Window::row_major(0, &dims("4 1")), &dims("5 3")), None);
    assert_eq!(call.expand(&x, &dims("5 3")).unwrap().strides, dims("1 0"));
    assert_eq!(call.required(), dims("n-5 5-n"));
}

#[test]
fn positions_count_from_either_end() {
    let n: Dim = "n".parse().unwrap();
    assert_eq!(from_front(&Dim::new(-2), &n), &n - 2);
    let at = from_front(&Dim::symbol(fx_core::Symbol::with_range("i", -9, None)), &n);
    for (i, expected) in [(-3, 7), (0, 0), (4, 4)] {
        let value = |symbol: &fx_core::Symbol| Some(if symbol.name() == "i" { i } else { 10 });
        assert_eq!(at.eval(&value).unwrap(), expected);
    }
    assert_eq!(clamped(&Dim::new(-20), &Dim::new(7)), Dim::new(0));
    assert_eq!(clamped(&Dim::new(20), &Dim::new(7)), Dim::new(7));
}
