//! The methods of tensors, buffers and modules that record while a function is traced.

use super::record::{call_module, read_buffer, size_of, write_buffer};
use crate::tensor::Repr;
use crate::{Arg, Buffer, Dim, Forward, Result, SourceLoc, Tensor, Tree, Value, bail, err, ops};

impl Tensor {
    /// Returns the size of one axis; negative axes count from the end.
    ///
    /// While tracing with input specs this is an expression over their symbols; without specs it is a
    /// recorded node. An axis that does not exist gives a size that carries the error.
    #[track_caller]
    pub fn dim(&self, axis: i64) -> Dim {
        let source = SourceLoc::caller();
        match &self.0 {
            Repr::Proxy(proxy) if proxy.tensor_type().is_err() => size_of(self, axis),
            _ => self
                .ty()
                .and_then(|ty| Ok(ty.shape[ops::axis(axis, ty.rank())?].clone()))
                .map_err(|error| error.at(source).in_context(|| format!("dim({self:?}, {axis})")))
                .unwrap_or_else(Dim::failed),
        }
    }

    /// Returns the sub-tensors along the first axis. Fails if its size is not known, or the rank is 0.
    #[track_caller]
    pub fn iter(&self) -> Result<impl ExactSizeIterator<Item = Tensor> + use<>> {
        let source = SourceLoc::caller();
        let shape = match &self.0 {
            Repr::Proxy(proxy) if proxy.tensor_type().is_err() => return Err(proxy.no_value("iteration")),
            _ => self.shape()?,
        };
        let first = shape.first().ok_or_else(|| {
            err!(Axis, "a tensor of rank 0 cannot be iterated").help("read it with `item`").at(source.clone())
        })?;
        let n = first.known().ok_or_else(|| {
            err!(Trace, "cannot iterate over {first} rows, a size that is not known while tracing")
                .help("work on the whole axis at once, or give the input a fixed size")
                .at(source)
        })?;
        let this = self.clone();
        Ok((0..n.max(0) as usize).map(move |i| ops::getitem(&this, Arg::tuple([Arg::Int(i as i64)]))))
    }
}

impl Buffer {
    /// Returns the present value; while tracing, a symbolic one.
    #[track_caller]
    pub fn get(&self) -> Tensor {
        read_buffer(self).unwrap_or_else(|| self.load())
    }

    /// Replaces the value; while tracing, records the update. Fails if the new value has another dtype or
    /// shape than the old.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<()> {
        if let Some(result) = write_buffer(self, value) {
            return result;
        }
        let (new, old) = (value.array()?, self.load());
        let old = old.array()?;
        if new.dtype() != old.dtype() || new.shape() != old.shape() {
            bail!(Shape, "a buffer of {} cannot hold {}", old.describe(), new.describe());
        }
        self.store(value.clone());
        Ok(())
    }
}

impl dyn Forward {
    /// Calls the module with any arguments; the result is of the asked type. While tracing, a leaf becomes
    /// one node.
    #[track_caller]
    pub fn call_values<R: Tree>(&self, args: impl Into<Vec<Value>>) -> R {
        let args = args.into();
        call_module(
            self,
            || args.clone(),
            || match self.forward_values(&args).and_then(|value| R::from_value(&value)) {
                Ok(value) => value,
                Err(error) => R::failed(&error),
            },
        )
    }

    /// Calls the module with one tensor, as `#[fx::forward]`'s `call` does: while tracing, a leaf becomes one
    /// node.
    #[track_caller]
    pub fn call(&self, x: &Tensor) -> Tensor {
        let args = [Arg::Leaf(x.clone())];
        call_module(
            self,
            || args.to_vec(),
            || match self.forward_values(&args) {
                Ok(value) => Tree::from_value(&value).unwrap_or_else(Tensor::failed),
                Err(error) => Tensor::failed(error),
            },
        )
    }
}
