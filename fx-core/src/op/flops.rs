//! [`Flops`]: how much arithmetic a row does, said in the row itself or by its class.
//!
//! A multiplication and an addition count as one each, so a multiply-add is two; a bias is part of the sum
//! that it is added to. An element of a pointwise operation costs one, whatever the function.

use crate::op::Class;
use crate::{Dim, OpDef, Type, TypeTree};

/// How much arithmetic an operation does.
#[derive(Clone, Copy, Debug, Default)]
pub enum Flops {
    /// What the [`Class`] says: one for each element of the result if pointwise, one for each element of the
    /// first tensor if a reduction, none for a view or another kernel, which moves elements unless its row
    /// says more. What a composite does is not known.
    #[default]
    ByClass,
    /// This many for each element of the result.
    PerOutput(i64),
    /// This many for each element of the first tensor.
    PerInput(i64),
    /// From the types of all arguments in schema order and of the result; `None` if it cannot be known.
    Rule(fn(&[TypeTree], &TypeTree) -> Option<Dim>),
    /// It depends on the data, or is not counted.
    Unknown,
}

/// Returns the number of elements of all tensors in a type; `None` if a type is not known.
pub fn elements(ty: &TypeTree) -> Option<Dim> {
    if !ty.is_complete() {
        return None;
    }
    let mut sum = Dim::new(0);
    ty.for_each_leaf(&mut |leaf| {
        if let Type::Tensor(ty) = leaf {
            sum += ty.shape.numel();
        }
    });
    Some(sum)
}

impl OpDef {
    /// Returns how much arithmetic a call does, from the types of all arguments in schema order and of the
    /// result; `None` if it is not known. Sub-graphs are not looked into.
    pub fn flops(&self, args: &[TypeTree], result: &TypeTree) -> Option<Dim> {
        let first = || elements(args.iter().find(|arg| !arg.leaves().is_empty())?);
        let count = match (self.flops, self.class) {
            (Flops::PerOutput(0) | Flops::PerInput(0), _)
            | (Flops::ByClass, Class::View | Class::Kernel | Class::Control) => Dim::new(0),
            (Flops::PerOutput(n), _) => elements(result)? * n,
            (Flops::PerInput(n), _) => first()? * n,
            (Flops::Rule(rule), _) => rule(args, result)?,
            (Flops::ByClass, Class::Pointwise(_)) => elements(result)?,
            (Flops::ByClass, Class::Reduce) => first()?,
            (Flops::ByClass, Class::Composite) | (Flops::Unknown, _) => return None,
        };
        count.error().is_none().then_some(count)
    }
}
