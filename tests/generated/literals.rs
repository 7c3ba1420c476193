// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `main`, written by fx from a graph of 34 nodes.
#[derive(Module)]
pub struct Main {}

impl Main {
    /// Takes the members from a graph module, or from weights.
    pub fn new(_members: &fx::Members<'_>) -> Result<Self> {
        Ok(Main {})
    }
}

#[fx::forward]
impl Main {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> (Tensor, Tensor, Tensor, Tensor) {
        let add = x + 1;
        let mul = &add * -0.5;
        let sub = &mul - 1.0000000000000002;
        let clamp = sub.clamp(f64::NEG_INFINITY, 3.4e38);
        let nan_to_num = clamp.nan_to_num(-0.0, (), ());
        let div = &nan_to_num / std::f64::consts::LN_2;
        let exp = div.exp();
        let add_1 = &exp + 1e-5;
        let div_1: Tensor = 2.0 / &add_1;
        let softer = crate::generated::softer(&div, 0.25);
        let add_2 = &div_1 + &softer;
        let softer_1 = crate::generated::softer(&div, 2.0);
        let add_3 = &add_2 + &softer_1;
        let full_like = fx::full_like(&add_3, f64::NAN);
        let arange: Tensor = fx::call!(fx::arange(4, dtype = DType::I64));
        let mul_1 = &arange * 5000000000_i64;
        let remainder = &mul_1 % 7;
        let (getitem, getitem_1) = crate::generated::halves(&add_3);
        let getitem_2 = add_3.i(fx::s![1..;2, 0]);
        let to = getitem_2.to(DType::F64);
        let cat = fx::cat([&getitem, &getitem_1], 0);
        let getitem_3 = cat.i(fx::s![.., 1]);
        let sum = getitem_3.sum((), false);
        let add_4 = &to + &sum;
        let isnan = full_like.isnan();
        let neg = -&add_4;
        let gt = add_3.gt(0);
        let lt = add_3.lt(1);
        let bitwise_and = &gt & &lt;
        let bitwise_not = !&bitwise_and;
        (isnan, remainder, neg, bitwise_not)
    }
}
