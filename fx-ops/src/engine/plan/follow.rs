//! [`Follows`]: views whose windows follow from the operand and the sizes, so that they need not be tried for
//! each.

use fx_core::array::{Sizes, reshaped};
use fx_core::{Arg, Array, DType, Op, Result, Tensor, Value};
use smallvec::SmallVec;

use crate::engine::operand::{NO_ID, Operand};
use crate::engine::record::{Shape, Size};
use crate::ops::view::{
    chunk, flatten, movedim, narrow, permute, reshape, slice, split, split_with_sizes, squeeze, swapaxes, t,
    transpose, unflatten, unsqueeze, view,
};

/// What a view does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Follows {
    /// It has the elements, in row-major order, with other axes.
    Reshape,
    /// It has the axes in this order.
    Permute(SmallVec<[usize; 4]>),
    /// It has the axes, of one of which it leaves out what is before a position, and after the size that it has.
    Part { axis: usize, start: usize },
}

/// An operand with its sizes as they are known.
pub(super) type Sized<'a> = (&'a Operand, &'a Shape);

impl Follows {
    /// Returns what an operation does of which this is a result; `None` if that depends on more. `args`,
    /// after the operand, are given if they are the same for all sizes.
    pub(super) fn find(
        op: Op,
        args: Option<&[Value]>,
        (x, from): Sized<'_>,
        (out, to): Sized<'_>,
    ) -> Option<Follows> {
        let is_of = |ops: &[Op]| ops.contains(&op);
        let follows =
            if is_of(&[reshape::OP, view::OP, flatten::OP, unflatten::OP, squeeze::OP, unsqueeze::OP]) {
                Follows::Reshape
            } else if is_of(&[transpose::OP, swapaxes::OP, t::OP, permute::OP, movedim::OP]) {
                Follows::Permute(order(op, args?, x.shape.len()).ok()??)
            } else if is_of(&[narrow::OP, slice::OP, chunk::OP, split::OP, split_with_sizes::OP]) {
                args?;
                let mut axes = (0..from.len()).filter(|&axis| from[axis] != to[axis]);
                let axis = axes.next().unwrap_or(0);
                let (Some(Size::Known(_)), None, Some(&stride)) =
                    (from.get(axis), axes.next(), x.strides.get(axis))
                else {
                    return None;
                };
                let start = (out.offset - x.offset).checked_div(stride as usize).unwrap_or(0);
                Follows::Part { axis, start }
            } else {
                return None;
            };
        let is_so = |found: Operand| (found.offset, found.strides) == (out.offset, out.strides.clone());
        follows.of(x, out.shape.clone()).is_some_and(is_so).then_some(follows)
    }

    /// Returns the view of these sizes of an operand.
    pub(super) fn of(&self, x: &Operand, shape: Sizes) -> Option<Operand> {
        let (mut strides, mut offset) = (x.strides.clone(), x.offset);
        match self {
            Follows::Reshape => {
                let numel: usize = shape.iter().product();
                strides = (numel == x.numel()).then(|| reshaped(&x.shape, &x.strides, &shape))??;
            }
            Follows::Permute(order) => {
                let is_same = |(&axis, size): (&usize, &usize)| x.shape[axis] == *size;
                if !order.iter().zip(&shape).all(is_same) {
                    return None;
                }
                strides = order.iter().map(|&axis| x.strides[axis]).collect();
            }
            &Follows::Part { axis, start } => {
                if start + shape.get(axis)? > *x.shape.get(axis)? {
                    return None;
                }
                offset += start * x.strides[axis] as usize;
            }
        }
        Some(Operand { value: x.value, dtype: x.dtype, shape, strides, offset, id: NO_ID })
    }
}

/// Returns the order in which an operation puts axes.
fn order(op: Op, args: &[Value], rank: usize) -> Result<Option<SmallVec<[usize; 4]>>> {
    let sizes: Sizes = (2..2 + rank).collect();
    if rank > 6 {
        return Ok(None);
    }
    let probe = Array::zeros(DType::Bool, &sizes)?;
    let args: Vec<Value> =
        std::iter::once(Arg::Leaf(Tensor::new(probe))).chain(args.iter().cloned()).collect();
    let Arg::Leaf(turned) = (op.eval)(&args)? else { return Ok(None) };
    let turned = turned.array()?.shape().iter().map(|size| size - 2).collect::<SmallVec<[usize; 4]>>();
    Ok((turned.len() == rank).then_some(turned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_what_the_operation_gives() {
        let int = |n: i64| Arg::Int(n);
        let ints = |list: &[i64]| Arg::list(list.iter().map(|&n| Arg::Int(n)));
        let cases: Vec<(Op, Vec<Value>)> = vec![
            (reshape::OP, vec![ints(&[-1, 6])]),
            (flatten::OP, vec![int(1), int(-1)]),
            (unflatten::OP, vec![int(1), ints(&[2, 3])]),
            (unsqueeze::OP, vec![int(1)]),
            (squeeze::OP, vec![Arg::None]),
            (transpose::OP, vec![int(0), int(-1)]),
            (permute::OP, vec![ints(&[2, 0, 1])]),
            (movedim::OP, vec![ints(&[0]), ints(&[1])]),
            (narrow::OP, vec![int(1), int(2), int(3)]),
            (slice::OP, vec![int(1), int(1), int(5), int(1)]),
            (slice::OP, vec![int(1), int(-2), Arg::None, int(1)]),
            (chunk::OP, vec![int(4), int(1)]),
            (split::OP, vec![int(4), int(1)]),
        ];
        let mut found = 0;
        for (op, args) in cases {
            // The first axis is a symbol, and memory has gaps.
            let window = |n: usize| {
                let array = Array::zeros(DType::Bool, &[n, 8, 5]).unwrap();
                let strides = array.strides().to_vec();
                (array.as_strided(&[n, 6, 5], &strides, 5).unwrap(), array)
            };
            let eval = |n: usize| {
                let (x, _) = window(n);
                let args: Vec<Value> =
                    std::iter::once(Arg::Leaf(Tensor::new(x.clone()))).chain(args.iter().cloned()).collect();
                let out = (op.eval)(&args).unwrap();
                let all: Vec<Array> = out.leaves().iter().map(|out| out.array().unwrap().clone()).collect();
                let is_view = all.iter().all(|out| out.shares_storage(&x));
                is_view.then_some((x, all))
            };
            let operand = |array: &Array| Operand {
                value: 0,
                dtype: DType::Bool,
                shape: array.shape().into(),
                strides: array.strides().into(),
                offset: array.offset(),
                id: NO_ID,
            };
            // Sizes that are those of the first axis are its symbol.
            let shape = |array: &Array, n: usize| -> Shape {
                array.shape().iter().map(|&s| if s == n { Size::Of(0) } else { Size::Known(s) }).collect()
            };
            let Some((x, outs)) = eval(11) else { continue };
            for (i, out) in outs.iter().enumerate() {
                let (x, from) = (operand(&x), shape(&x, 11));
                let to = shape(out, 11);
                let Some(follows) = Follows::find(op, Some(&args), (&x, &from), (&operand(out), &to)) else {
                    continue;
                };
                found += 1;
                for n in [1, 7, 11, 24] {
                    let Some((x, outs)) = eval(n) else { continue };
                    let expected = operand(&outs[i]);
                    let got = follows.of(&operand(&x), expected.shape.clone()).unwrap();
                    assert_eq!(
                        (got.offset, &got.shape),
                        (expected.offset, &expected.shape),
                        "{} {n}",
                        op.name
                    );
                    for ((size, a), b) in got.shape.iter().zip(&got.strides).zip(&expected.strides) {
                        assert!(a == b || *size <= 1, "{} {n}", op.name);
                    }
                }
            }
        }
        assert!(found >= 14, "{found}");
    }
}
