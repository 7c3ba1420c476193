//! The methods of tensors, buffers and modules that record while a function is traced.

use super::modules::{ModuleCall, call_module, run_module};
use super::record::{read_buffer, size_of, write_buffer};
use super::{is_tracing, note_store};
use crate::lazy::{self, is_following};
use crate::tensor::Repr;
use crate::{Arg, Buffer, Dim, Forward, Result, SourceLoc, Tensor, Tree, Value, err, ops};

impl Tensor {
    /// Returns the size of one axis; negative axes count from the end.
    ///
    /// While tracing with input specs this is an expression over their symbols; without specs it is a
    /// recorded node. An axis that does not exist gives a size that carries the error.
    #[track_caller]
    pub fn dim(&self, axis: i64) -> Dim {
        let source = SourceLoc::caller();
        match &self.0 {
            Repr::Proxy(proxy) if proxy.tensor_type().is_err() => {
                proxy.observed_size(size_of(self, axis), axis)
            }
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
        let rows = match &self.0 {
            Repr::Proxy(proxy) => proxy.read_rows(source.clone()),
            _ => None,
        };
        if let Some(n) = rows {
            return Ok(self.rows(n));
        }
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
        Ok(self.rows(n.max(0) as usize))
    }

    fn rows(&self, n: usize) -> impl ExactSizeIterator<Item = Tensor> + use<> {
        let this = self.clone();
        (0..n).map(move |i| ops::getitem(&this, Arg::tuple([Arg::Int(i as i64)])))
    }
}

impl Buffer {
    /// Returns the present value; while tracing, a symbolic one.
    #[track_caller]
    pub fn get(&self) -> Tensor {
        if is_following() && !is_tracing() {
            let set = lazy::follower().and_then(|follower| follower.read_buffer(self));
            return set.unwrap_or_else(|| self.load());
        }
        read_buffer(self).unwrap_or_else(|| self.load())
    }

    /// Replaces the value; while tracing, records the update. Fails if the new value has another dtype or
    /// shape than the old.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<()> {
        if let Some(result) = write_buffer(self, value) {
            return result;
        }
        if !is_tracing()
            && let Some(follower) = lazy::follower()
        {
            return follower.write_buffer(self, value).map_err(|error| error.at(SourceLoc::caller()));
        }
        let value = note_store(self, value.clone(), SourceLoc::caller()).settled();
        let (new, old) = (value.array()?, self.load());
        let old = old.array()?;
        if new.dtype() != old.dtype() || new.shape() != old.shape() {
            return Err(err!(Shape, "a buffer of {} cannot hold {}", old.describe(), new.describe())
                .at(SourceLoc::caller()));
        }
        self.replace(value);
        Ok(())
    }
}

impl dyn Forward {
    /// Calls the module with any arguments; the result is of the asked type. While tracing, a leaf becomes
    /// one node.
    #[track_caller]
    pub fn call_values<R: Tree>(&self, args: impl Into<Vec<Value>>) -> R {
        let (args, place) = (args.into(), SourceLoc::caller());
        match call_module(self, || args.clone()) {
            ModuleCall::Recorded(result) => result,
            ModuleCall::Through(_frame) => run_module(self, &args)
                .and_then(|value| R::from_value(&value))
                .unwrap_or_else(|error| R::failed(&error.at(place))),
        }
    }

    /// Calls the module with one tensor, as `#[fx::forward]`'s `call` does: while tracing, a leaf becomes one
    /// node.
    #[track_caller]
    pub fn call(&self, x: &Tensor) -> Tensor {
        self.call_values([Arg::Leaf(x.clone())])
    }
}
