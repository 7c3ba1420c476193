use super::*;
use crate::{symbolic_trace, trace};

fn text(gm: &crate::GraphModule) -> String {
    gm.graph().ids().into_iter().map(|id| gm.graph().format_node(id).unwrap() + "\n").collect()
}

#[test]
fn smoke() {
    let gm = symbolic_trace(|x: &Tensor| 2.0 - (x + 1.0) * x).unwrap();
    println!("{}", text(&gm));
    let x = Tensor::new([1.0f32, 2.0]);
    assert_eq!(gm.call(&[x.clone()]).unwrap().to_vec::<f32>().unwrap(), [0.0, -4.0]);
    let w = Tensor::new([1.0f32, 2.0, 3.0]);
    let gm = trace(|x: &Tensor| (x + &w, x * &w)).input("x", "f32[n, 3]").build().unwrap();
    println!("{}", text(&gm));
    println!("{:?}", gm.graph().nodes().map(|(_, n)| n.ty().map(|t| t.to_string())).collect::<Vec<_>>());
    let bad = trace(|x: &Tensor| x + &w).input("x", "f32[n, 4]").build();
    println!("{}", bad.unwrap_err());
    let gm = symbolic_trace(|x: &Tensor| {
        let n = x.dim(0) * 2 + 1;
        crate::ops::cond(&x.clone(), |x: Tensor| x + 1.0, |x: Tensor| x * 3.0, x.clone()) + n
    })
    .unwrap();
    println!("{}", text(&gm));
    println!("{}", gm.call(&[Tensor::new([0.5f32])]).unwrap());
}
