//! Writing at indices.

use fx_core::{Arg, Array, Value};

use crate::testing::{call1, tensor};

#[test]
fn later_writes_win_or_add_up() {
    let x = || tensor([[0f32, 0.0], [0.0, 0.0], [0.0, 0.0]]);
    let rows = || Arg::list([tensor([-1i64, 0, -1])]);
    let values = || tensor([[1f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let put = call1("index_put", &[x(), rows(), values()]).unwrap();
    assert!(put.bits_eq(&[[3f32, 4.0], [0.0, 0.0], [5.0, 6.0]].into()));
    let added = call1("index_put", &[x(), rows(), values(), Arg::Bool(true)]).unwrap();
    assert!(added.bits_eq(&[[3f32, 4.0], [0.0, 0.0], [6.0, 8.0]].into()));
    let column = Arg::list([Arg::None, tensor(1i64)]);
    let put = call1("index_put", &[x(), column, tensor([1f32, 2.0, 3.0])]).unwrap();
    assert!(put.bits_eq(&[[0f32, 1.0], [0.0, 2.0], [0.0, 3.0]].into()));
}

#[test]
fn separated_indices_of_rank_0_broadcast_with_the_others() {
    let x = Array::from_vec((0..24i64).collect::<Vec<_>>(), &[2, 3, 4]).unwrap();
    let indices = Arg::list([tensor(1i64), Arg::None, tensor([0i64, 3])]);
    let part = call1("index", &[tensor(x), indices]).unwrap();
    assert!(part.bits_eq(&[[12i64, 16, 20], [15, 19, 23]].into()));
}

#[test]
fn what_does_not_fit_is_refused() {
    let x = || tensor([[0f32, 0.0], [0.0, 0.0]]);
    let error = |name, args: &[Value]| call1(name, args).unwrap_err().message().to_owned();
    let at = |i: i64| Arg::list([tensor([i])]);
    assert_eq!(
        error("index_put", &[x(), at(2), tensor(1f32)]),
        "index 2 is out of range for axis 0 of size 2"
    );
    assert_eq!(error("index_put", &[x(), at(0), tensor(1i64)]), "expected values of f32, got i64");
    assert!(call1("index_put", &[x(), at(0), tensor([1f32, 2.0, 3.0])]).is_err());
    assert!(call1("index_put", &[x(), Arg::list(vec![Arg::None; 3]), tensor(1f32)]).is_err());
}
