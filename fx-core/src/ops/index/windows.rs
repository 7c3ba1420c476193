//! Indexing windows: integers, slices, `..` and new axes give a view.

use super::entry::{self, Domain, Entry};
use crate::array::Sizes;
use crate::window::{Window, WindowCall, clamped};
use crate::{Arg, Dim, Result, bail, err};

/// The rule of `getitem`.
pub(super) fn windows(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let (Some(x), index) = (call.given(0)?.leaf().cloned(), call.given(1)?.clone()) else { return Ok(None) };
    let sizes = call.shape()?;
    let mut out = Window { shape: Vec::new(), strides: Vec::new(), ..x.clone() };
    let mut axes = x.shape.iter().zip(&x.strides);
    let mut next = || axes.next().ok_or_else(|| err!(Index, "an index is longer than the rank"));
    for entry in entry::read::<Windows>(&index, x.rank())? {
        match entry {
            Entry::At(at) => {
                let (size, stride) = next()?;
                out.offset += call.position(&Arg::Dim(at), size)? * stride;
            }
            Entry::Slice { start, step, .. } => {
                let (size, stride) = next()?;
                if let Some(start) = start {
                    out.offset += clamped(&start, size) * stride;
                }
                let step = step.unwrap_or(Dim::new(1));
                if step.bounds().0 < 1 {
                    bail!(Unresolved, "the step of a slice is {step}");
                }
                let size = sizes.get(out.rank()).cloned();
                out.shape.push(size.ok_or_else(|| err!(Shape, "the result has fewer axes"))?);
                out.strides.push(stride * step);
            }
            Entry::NewAxis => {
                out.shape.push(Dim::new(1));
                out.strides.push(Dim::new(0));
            }
            Entry::Ellipsis => bail!(Index, "an index has more than one `..`"),
            // A copy, whatever the operand is.
            Entry::Flag(_) | Entry::Tensor(()) => return Ok(None),
        }
    }
    Ok(Some(Arg::Leaf(out)))
}

enum Windows {}

impl Domain for Windows {
    type Leaf = Window;
    type Int = Dim;
    /// Nothing but that it is one.
    type Tensor = ();

    fn number(n: i64) -> Dim {
        Dim::new(n)
    }

    fn dim(dim: &Dim) -> Result<Dim> {
        Ok(dim.clone())
    }

    fn leaf(_: &Window) -> Result<Entry<Self>> {
        Ok(Entry::Tensor(()))
    }

    fn int_leaf(_: &Window) -> Result<Dim> {
        bail!(Unresolved, "a bound of a slice is a tensor")
    }

    fn ints(_: Sizes, _: Vec<Dim>) -> Result<()> {
        Ok(())
    }

    fn bools(_: Sizes, _: Vec<bool>) -> Result<()> {
        Ok(())
    }

    fn n_axes(_: &()) -> usize {
        // A mask may index several; then the index is read as too long, or too short, and is no view either way.
        1
    }
}
