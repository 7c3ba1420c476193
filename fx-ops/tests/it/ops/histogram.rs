//! Histograms.

use fx_core::{Arg, Value};

use crate::testing::{call, tensor};

fn parts(args: &[Value], named: &[(&str, Value)]) -> [Vec<f32>; 2] {
    let out = call("histogram", args, named).unwrap();
    let part = |i: usize| {
        let Arg::Leaf(part) = &out.items().unwrap()[i] else { panic!() };
        part.array().unwrap().to_vec::<f32>().unwrap()
    };
    [part(0), part(1)]
}

#[test]
fn elements_on_edges_count_to_the_right_but_at_the_end() {
    let x = || tensor([0.0f32, 1.0, 1.5, 2.0, 3.0, f32::NAN]);
    let edges = tensor([0.0f32, 1.0, 2.0]);
    assert_eq!(parts(&[x(), edges], &[])[0], [1.0, 3.0]);
    let range = Arg::list([Arg::Float(0.0), Arg::Float(3.0)]);
    let [counts, edges] = parts(&[x(), Arg::Int(2)], &[("range", range), ("density", Arg::Bool(true))]);
    assert_eq!((counts, edges), (vec![4.0 / 15.0, 0.4], vec![0.0, 1.5, 3.0]));
    assert!(call("histogram", &[x(), Arg::Int(2)], &[]).is_err());
}
