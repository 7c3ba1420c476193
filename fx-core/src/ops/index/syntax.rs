//! The notation of an index: `x.i(3)`, `x.i((.., 1))`, `x.i(s![1..;2, None, &mask])`.

use std::convert::Infallible;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::{Arg, Dim, Parameter, Tensor, Value, err};

/// One entry of an index, or a tuple of entries: integers, ranges, `..`, `None` for a new axis, bools,
/// tensors, lists.
///
/// `..` stands for all axes that the other entries leave; `0..` is one whole axis.
#[diagnostic::on_unimplemented(message = "a tensor cannot be indexed with `{Self}`")]
pub trait IntoIndex {
    /// Converts it.
    fn into_index(self) -> Value;
}

/// A bound of a range in an index: an integer, a size, or a tensor of one integer.
#[diagnostic::on_unimplemented(message = "`{Self}` cannot be a bound of a range in an index")]
pub trait IntoBound {
    /// Converts it.
    fn into_bound(self) -> Value;
}

macro_rules! bounds {
    ($($ty:ty => |$x:ident| $make:expr;)*) => {
        $(
            impl IntoBound for $ty {
                fn into_bound(self) -> Value { let $x = self; $make }
            }
            impl IntoIndex for $ty {
                fn into_index(self) -> Value { self.into_bound() }
            }
        )*
    };
}
bounds! {
    i64 => |x| Arg::Int(x);
    i32 => |x| Arg::Int(x.into());
    u32 => |x| Arg::Int(x.into());
    usize => |x| Arg::from(x);
    isize => |x| Arg::Int(x as i64);
    Dim => |x| Arg::dim(x);
    &Dim => |x| Arg::dim(x.clone());
    Tensor => |x| Arg::Leaf(x);
    &Tensor => |x| Arg::Leaf(x.clone());
    &Parameter => |x| Arg::Leaf(x.tensor().clone());
    Value => |x| x;
}

impl IntoIndex for bool {
    fn into_index(self) -> Value {
        Arg::Bool(self)
    }
}
/// A new axis.
impl IntoIndex for Option<Infallible> {
    fn into_index(self) -> Value {
        Arg::None
    }
}
impl IntoIndex for RangeFull {
    fn into_index(self) -> Value {
        Arg::Ellipsis
    }
}
impl<B: IntoBound> IntoIndex for Range<B> {
    fn into_index(self) -> Value {
        Arg::slice(self.start.into_bound(), self.end.into_bound(), Arg::None)
    }
}
impl<B: IntoBound> IntoIndex for RangeFrom<B> {
    fn into_index(self) -> Value {
        Arg::slice(self.start.into_bound(), Arg::None, Arg::None)
    }
}
impl<B: IntoBound> IntoIndex for RangeTo<B> {
    fn into_index(self) -> Value {
        Arg::slice(Arg::None, self.end.into_bound(), Arg::None)
    }
}
impl<B: IntoBound> IntoIndex for RangeInclusive<B> {
    fn into_index(self) -> Value {
        let (start, end) = self.into_inner();
        Arg::slice(start.into_bound(), after(end.into_bound()), Arg::None)
    }
}
impl<B: IntoBound> IntoIndex for RangeToInclusive<B> {
    fn into_index(self) -> Value {
        Arg::slice(Arg::None, after(self.end.into_bound()), Arg::None)
    }
}

/// Returns the exclusive bound for an inclusive one; after `-1` there is none.
fn after(bound: Value) -> Value {
    match bound {
        Arg::Int(-1) => Arg::None,
        Arg::Int(n) => Arg::Int(n.saturating_add(1)),
        Arg::Dim(dim) if dim.less(&Dim::new(0)).is_no() => Arg::dim(dim + 1),
        other => Arg::Failed(
            err!(Index, "the bound of an inclusive range is a number, got {}", other.kind_name())
                .help("write a range with an exclusive bound"),
        ),
    }
}

/// Gives a range a step; what [`s!`](crate::s) writes for `1..;2`.
#[doc(hidden)]
pub fn with_step(range: impl IntoIndex, step: impl IntoBound) -> Value {
    let step = step.into_bound();
    match range.into_index() {
        Arg::Slice(slice) => Arg::slice(slice.start().clone(), slice.stop().clone(), step),
        Arg::Ellipsis => Arg::slice(Arg::None, Arg::None, step),
        Arg::Failed(error) => Arg::Failed(error),
        other => Arg::Failed(err!(Index, "a step follows a range, got {}", other.kind_name())),
    }
}

impl<T: IntoIndex, const N: usize> IntoIndex for [T; N] {
    fn into_index(self) -> Value {
        Arg::list(self.into_iter().map(T::into_index))
    }
}
impl<T: IntoIndex> IntoIndex for Vec<T> {
    fn into_index(self) -> Value {
        Arg::list(self.into_iter().map(T::into_index))
    }
}
impl<T: IntoIndex + Clone> IntoIndex for &[T] {
    fn into_index(self) -> Value {
        Arg::list(self.iter().cloned().map(T::into_index))
    }
}

macro_rules! tuples {
    ($($t:ident)*; $($i:tt)*) => {
        impl<$($t: IntoIndex),*> IntoIndex for ($($t,)*) {
            fn into_index(self) -> Value {
                Arg::tuple([$(self.$i.into_index()),*])
            }
        }
    };
}
tuples!(A; 0);
tuples!(A B; 0 1);
tuples!(A B C; 0 1 2);
tuples!(A B C D; 0 1 2 3);
tuples!(A B C D E; 0 1 2 3 4);
tuples!(A B C D E F; 0 1 2 3 4 5);

impl Tensor {
    /// Returns the part that an index names, as `x[index]` in PyTorch: `x.i(0)`, `x.i((.., 1..3))`,
    /// `x.i(s![1..;2, &mask])`.
    ///
    /// Integers, ranges, `..` and `None` give a view; tensors and lists of integers or bools pick elements.
    /// Negative integers and bounds count from the end, ranges are cut to the axis.
    #[track_caller]
    pub fn i(&self, index: impl IntoIndex) -> Tensor {
        super::getitem(self, index.into_index())
    }
}

/// Writes an index of any length: `s![.., 0, 1..;2, 1..5, None, &mask, [0, 2], ..=3, -1]`.
///
/// An entry is anything that [`IntoIndex`](crate::ops::IntoIndex) takes; a range may be followed by `;` and a
/// step. `..;2` is every second position of one axis, while `..` alone stands for all axes that are left.
#[macro_export]
macro_rules! s {
    (@ [$($out:expr,)*]) => {
        <$crate::Value>::tuple([$($out),*])
    };
    (@ [$($out:expr,)*] $range:expr; $step:expr $(, $($rest:tt)*)?) => {
        $crate::s!(@ [$($out,)* $crate::ops::with_step($range, $step),] $($($rest)*)?)
    };
    (@ [$($out:expr,)*] $entry:expr $(, $($rest:tt)*)?) => {
        $crate::s!(@ [$($out,)* $crate::ops::IntoIndex::into_index($entry),] $($($rest)*)?)
    };
    ($($index:tt)*) => {{
        #[allow(clippy::reversed_empty_ranges, reason = "negative bounds count from the end")]
        let index = $crate::s!(@ [] $($index)*);
        index
    }};
}
