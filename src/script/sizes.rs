//! The types that several calls have in common: a size that differs from call to call is a symbol.

use std::collections::HashMap;

use crate::{Arg, Result, TensorType, TypeTree, Value};

/// Names sizes that differ. Axes whose sizes are equal in all calls have one name.
#[derive(Default)]
pub(super) struct Sizes {
    names: HashMap<Vec<usize>, String>,
}

impl Sizes {
    /// Returns the type of an argument in all calls, if it is made of tensors of the same dtypes and ranks.
    /// Fails if a tensor has no elements.
    pub(super) fn common(&mut self, args: &[&Value]) -> Result<Option<TypeTree>> {
        let Some(first) = args.first() else { return Ok(None) };
        match first {
            Arg::Leaf(_) => {
                let mut arrays = Vec::with_capacity(args.len());
                for arg in args {
                    let Arg::Leaf(tensor) = arg else { return Ok(None) };
                    arrays.push(tensor.array()?);
                }
                let (dtype, rank) = (arrays[0].dtype(), arrays[0].rank());
                if arrays.iter().any(|array| array.dtype() != dtype || array.rank() != rank) {
                    return Ok(None);
                }
                let sizes = (0..rank).map(|axis| {
                    let sizes: Vec<usize> = arrays.iter().map(|array| array.shape()[axis]).collect();
                    if sizes.iter().all(|size| *size == sizes[0]) {
                        return sizes[0].to_string();
                    }
                    let next = format!("s{}", self.names.len());
                    self.names.entry(sizes).or_insert(next).clone()
                });
                let text = format!("{dtype}[{}]", sizes.collect::<Vec<_>>().join(", "));
                Ok(Some(text.parse::<TensorType>()?.into()))
            }
            Arg::Tuple(items) => Ok(self.items(args, items.len())?.map(Arg::tuple)),
            Arg::List(items) => Ok(self.items(args, items.len())?.map(Arg::list)),
            _ => Ok(None),
        }
    }

    fn items(&mut self, args: &[&Value], n: usize) -> Result<Option<Vec<TypeTree>>> {
        let mut types = Vec::with_capacity(n);
        for at in 0..n {
            let mut each = Vec::with_capacity(args.len());
            for arg in args {
                match arg.items() {
                    Some(items) if items.len() == n => each.push(&items[at]),
                    _ => return Ok(None),
                }
            }
            match self.common(&each)? {
                Some(ty) => types.push(ty),
                None => return Ok(None),
            }
        }
        Ok(Some(types))
    }
}
