//! What a `for` of a script runs over: iterators run natively, sizes and rows of tensors may be recorded.

use crate::{Arg, Dim, Result, Scalar, Tensor, Value, err, ops, trace};

/// The rounds of a `for`.
pub trait Rounds {
    /// What the pattern of the loop takes.
    type Item;

    /// Returns the number of rounds, if the loop is to be recorded. Fails if it is not a number.
    fn traced(&self) -> Result<Option<Value>> {
        Ok(None)
    }

    /// Returns the number of rounds of a native loop whose item may be any, if it is known.
    fn n_rounds(&self) -> Option<i64> {
        None
    }

    /// Returns the item of a round that is recorded, by the symbol for its number. Fails if a number has no
    /// symbol.
    fn symbolic(&self, index: &Tensor) -> Result<Self::Item>;

    /// Returns the item of the next native round. Fails if the number of rounds is an error.
    fn next(&mut self) -> Result<Option<Self::Item>>;
}

/// What stands behind `in`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not iterated by a script",
    label = "expected an iterator, a range or a tensor"
)]
pub trait IntoRounds {
    /// The rounds.
    type Rounds: Rounds;

    /// Returns the rounds.
    fn into_rounds(self) -> Self::Rounds;
}

/// The rounds of an iterator.
pub struct Iterated<I>(I);

impl<I: IntoIterator> IntoRounds for I {
    type Rounds = Iterated<I::IntoIter>;

    fn into_rounds(self) -> Self::Rounds {
        Iterated(self.into_iter())
    }
}

impl<I: Iterator> Rounds for Iterated<I> {
    type Item = I::Item;

    fn symbolic(&self, _: &Tensor) -> Result<I::Item> {
        Err(err!(Trace, "the items of this iterator are not symbols")
            .help("loop over a range of sizes, `0..x.dim(0)`, or over the rows of a tensor, `&x`"))
    }

    fn next(&mut self) -> Result<Option<I::Item>> {
        Ok(self.0.next())
    }
}

/// The rows of a tensor along its first axis.
pub struct TensorRows {
    tensor: Tensor,
    n: Dim,
    next: i64,
}

impl IntoRounds for &Tensor {
    type Rounds = TensorRows;

    #[track_caller]
    fn into_rounds(self) -> TensorRows {
        TensorRows { tensor: self.clone(), n: self.dim(0), next: 0 }
    }
}

impl IntoRounds for Tensor {
    type Rounds = TensorRows;

    #[track_caller]
    fn into_rounds(self) -> TensorRows {
        (&self).into_rounds()
    }
}

/// Returns the number of rounds if something records them.
fn traced(n: &Dim) -> Result<Option<Value>> {
    let value = Value::from(n.clone());
    if let Some(error) = value.error() {
        return Err(error.clone());
    }
    Ok((trace::is_tracing() || n.known().is_none()).then_some(value))
}

fn known(n: &Dim) -> Result<i64> {
    match (n.known(), Value::from(n.clone()).error()) {
        (Some(n), _) => Ok(n),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => Err(err!(Trace, "the number of rounds, {n}, is not known outside of a trace")),
    }
}

impl Rounds for TensorRows {
    type Item = Tensor;

    fn traced(&self) -> Result<Option<Value>> {
        match (traced(&self.n)?, self.tensor.is_symbolic()) {
            (Some(n), true) => Ok(Some(n)),
            // Rows of a value that is at hand, such as a list of parameters, are values.
            (Some(n), false) if self.n.known().is_none() => Ok(Some(n)),
            _ => Ok(None),
        }
    }

    fn symbolic(&self, index: &Tensor) -> Result<Tensor> {
        Ok(self.tensor.i(index))
    }

    fn next(&mut self) -> Result<Option<Tensor>> {
        if self.next >= known(&self.n)? {
            return Ok(None);
        }
        let row: Tensor = ops::getitem(&self.tensor, Arg::tuple([Arg::Int(self.next)]));
        self.next += 1;
        Ok(Some(row))
    }
}

/// A range over whole numbers of Rust, which runs natively.
pub struct Counted<T> {
    next: T,
    end: T,
}

/// A range whose end is a size: its items are integer tensors of rank 0.
pub struct Sizes {
    start: Dim,
    end: Dim,
    next: i64,
}

/// A range to an integer tensor of one element.
pub struct ToTensor {
    start: i64,
    end: Tensor,
    next: i64,
}

/// The end of a range of a script that begins with a literal, `0..end`.
#[diagnostic::on_unimplemented(
    message = "a script has no range to `{Self}`",
    label = "expected an integer, a size, or an integer tensor of one element",
    note = "the size of an axis is `x.dim(i)`"
)]
pub trait End: Sized {
    /// The rounds.
    type Rounds: Rounds;

    /// Returns the rounds.
    fn rounds(self, start: i64) -> Self::Rounds;
}

/// The start of a range of a script, `start..end`.
#[diagnostic::on_unimplemented(
    message = "a script has no range from `{Self}` to `{End}`",
    label = "expected two integers of one type, or sizes",
    note = "the size of an axis is `x.dim(i)`"
)]
pub trait Until<End> {
    /// The rounds.
    type Rounds: Rounds;

    /// Returns the rounds.
    fn until(self, end: End) -> Self::Rounds;
}

macro_rules! ranges {
    ($($ty:ty)*) => {$(
        impl Until<$ty> for $ty {
            type Rounds = Counted<$ty>;
            fn until(self, end: $ty) -> Counted<$ty> {
                Counted { next: self, end }
            }
        }
        impl End for $ty {
            type Rounds = Counted<$ty>;
            fn rounds(self, start: i64) -> Counted<$ty> {
                // A literal beyond the type leaves no round.
                Counted { next: <$ty>::try_from(start).unwrap_or(self), end: self }
            }
        }
        impl Rounds for Counted<$ty> {
            type Item = $ty;
            fn n_rounds(&self) -> Option<i64> {
                let (start, end) = (i64::try_from(self.next).ok()?, i64::try_from(self.end).ok()?);
                Some(end.checked_sub(start)?.max(0))
            }
            fn symbolic(&self, _: &Tensor) -> Result<$ty> {
                Ok(self.next)
            }
            fn next(&mut self) -> Result<Option<$ty>> {
                if self.next >= self.end {
                    return Ok(None);
                }
                let item = self.next;
                self.next += 1;
                Ok(Some(item))
            }
        }
    )*};
}
ranges!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

macro_rules! sizes {
    ($($start:ty, $end:ty;)*) => {$(
        impl Until<$end> for $start {
            type Rounds = Sizes;
            fn until(self, end: $end) -> Sizes {
                Sizes { start: self.into(), end: end.into(), next: 0 }
            }
        }
    )*};
}
sizes!(i64, Dim; usize, Dim; Dim, Dim; Dim, i64; Dim, usize; &Dim, Dim; Dim, &Dim; &Dim, &Dim; i64, &Dim; usize, &Dim;);

impl End for Dim {
    type Rounds = Sizes;
    fn rounds(self, start: i64) -> Sizes {
        Sizes { start: start.into(), end: self, next: 0 }
    }
}

impl End for &Dim {
    type Rounds = Sizes;
    fn rounds(self, start: i64) -> Sizes {
        self.clone().rounds(start)
    }
}

impl End for Tensor {
    type Rounds = ToTensor;
    fn rounds(self, start: i64) -> ToTensor {
        ToTensor { start, end: self, next: start }
    }
}

impl End for &Tensor {
    type Rounds = ToTensor;
    fn rounds(self, start: i64) -> ToTensor {
        self.clone().rounds(start)
    }
}

impl Rounds for ToTensor {
    type Item = Tensor;

    fn traced(&self) -> Result<Option<Value>> {
        if let Some(error) = self.end.error() {
            return Err(error.clone());
        }
        let n = || if self.start == 0 { self.end.clone() } else { &self.end - self.start };
        Ok(trace::decides_in_trace(&self.end).then(n).map(Value::from))
    }

    fn symbolic(&self, index: &Tensor) -> Result<Tensor> {
        Ok(if self.start == 0 { index.clone() } else { index + self.start })
    }

    fn next(&mut self) -> Result<Option<Tensor>> {
        let end = match self.end.array()?.item()? {
            Scalar::Int(end) => end,
            other => return Err(err!(Argument, "a range ends with an integer, got {other:?}")),
        };
        let item = self.next;
        self.next += 1;
        Ok((item < end).then(|| Tensor::from_scalar(Scalar::Int(item))))
    }
}

impl Sizes {
    fn n(&self) -> Dim {
        if self.start == Dim::from(0) { self.end.clone() } else { self.end.clone() - self.start.clone() }
    }
}

impl Rounds for Sizes {
    type Item = Tensor;

    fn traced(&self) -> Result<Option<Value>> {
        traced(&self.n())
    }

    fn symbolic(&self, index: &Tensor) -> Result<Tensor> {
        Ok(if self.start == Dim::from(0) { index.clone() } else { index + self.start.clone() })
    }

    fn next(&mut self) -> Result<Option<Tensor>> {
        if self.next >= known(&self.n())? {
            return Ok(None);
        }
        let item = known(&self.start)? + self.next;
        self.next += 1;
        Ok(Some(Tensor::from_scalar(Scalar::Int(item))))
    }
}
