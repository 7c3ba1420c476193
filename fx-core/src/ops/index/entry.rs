//! Reading an index: one [`Entry`] for each position between the commas, for values and types alike.
//!
//! What integers and tensors are differs between the two and is a [`Domain`]; everything else is decided
//! here. After [`read`], there is no ellipsis, and the entries consume exactly the axes of the tensor.

use crate::array::Sizes;
use crate::{Arg, Dim, Error, Result, bail, err};

/// How leaves, sizes and lists of an index are read.
pub(super) trait Domain {
    type Leaf;
    /// An integer or size.
    type Int;
    /// A tensor as an index.
    type Tensor;

    fn number(n: i64) -> Self::Int;
    fn dim(dim: &Dim) -> Result<Self::Int>;
    /// A leaf between the commas.
    fn leaf(leaf: &Self::Leaf) -> Result<Entry<Self>>;
    /// A leaf as a bound of a slice or an item of a list.
    fn int_leaf(leaf: &Self::Leaf) -> Result<Self::Int>;
    /// A nested list of integers in row-major order.
    fn ints(shape: Sizes, items: Vec<Self::Int>) -> Result<Self::Tensor>;
    /// A nested list of bools in row-major order.
    fn bools(shape: Sizes, items: Vec<bool>) -> Result<Self::Tensor>;
    /// How many axes the tensor indexes.
    fn n_axes(tensor: &Self::Tensor) -> usize;
}

pub(super) enum Entry<D: Domain + ?Sized> {
    /// One position of an axis, which goes.
    At(D::Int),
    /// A range of positions.
    Slice { start: Option<D::Int>, stop: Option<D::Int>, step: Option<D::Int> },
    /// A new axis of size one.
    NewAxis,
    /// As many whole axes as are left.
    Ellipsis,
    /// A new axis of size one or zero, which takes part in advanced indexing.
    Flag(bool),
    /// Integers or a mask: advanced indexing.
    Tensor(D::Tensor),
}

impl<D: Domain + ?Sized> Entry<D> {
    fn whole() -> Self {
        Entry::Slice { start: None, stop: None, step: None }
    }

    fn n_axes(&self) -> usize {
        match self {
            Entry::At(_) | Entry::Slice { .. } => 1,
            Entry::NewAxis | Entry::Ellipsis | Entry::Flag(_) => 0,
            Entry::Tensor(tensor) => D::n_axes(tensor),
        }
    }
}

/// Reads an index of a tensor of this rank; whole axes are added where the index leaves them out.
pub(super) fn read<D: Domain>(index: &Arg<D::Leaf>, rank: usize) -> Result<Vec<Entry<D>>> {
    let mut entries: Vec<Entry<D>> = match index {
        Arg::Tuple(items) => items.iter().map(entry::<D>).collect::<Result<_>>()?,
        one => vec![entry::<D>(one)?],
    };
    let used: usize = entries.iter().map(Entry::n_axes).sum();
    let Some(left) = rank.checked_sub(used) else {
        let help = if rank == 0 { "read its one element with `item`" } else { "leave some entries out" };
        return Err(err!(Index, "an index of {used} axes is too long for a tensor of rank {rank}").help(help));
    };
    let mut dots =
        entries.iter().enumerate().filter(|(_, entry)| matches!(entry, Entry::Ellipsis)).map(|(i, _)| i);
    let at = dots.next();
    if dots.next().is_some() {
        return Err(err!(Index, "an index has more than one `..`").help("write `0..` for one whole axis"));
    }
    let range = at.map_or(entries.len()..entries.len(), |at| at..at + 1);
    entries.splice(range, std::iter::repeat_with(Entry::whole).take(left));
    Ok(entries)
}

fn entry<D: Domain>(arg: &Arg<D::Leaf>) -> Result<Entry<D>> {
    let bound = |arg: &Arg<D::Leaf>| -> Result<Option<D::Int>> {
        match arg {
            Arg::None => Ok(None),
            Arg::Int(n) => Ok(Some(D::number(*n))),
            Arg::Dim(dim) => D::dim(dim).map(Some),
            Arg::Leaf(leaf) => D::int_leaf(leaf).map(Some),
            Arg::Failed(error) => Err(error.clone()),
            other => bail!(Index, "a bound of a slice is an integer, got {}", other.kind_name()),
        }
    };
    Ok(match arg {
        Arg::None => Entry::NewAxis,
        Arg::Ellipsis => Entry::Ellipsis,
        Arg::Bool(flag) => Entry::Flag(*flag),
        Arg::Int(n) => Entry::At(D::number(*n)),
        Arg::Dim(dim) => Entry::At(D::dim(dim)?),
        Arg::Slice(slice) => Entry::Slice {
            start: bound(slice.start())?,
            stop: bound(slice.stop())?,
            step: bound(slice.step())?,
        },
        Arg::Leaf(leaf) => D::leaf(leaf)?,
        Arg::List(_) => Entry::Tensor(list::<D>(arg)?),
        Arg::Failed(error) => return Err(error.clone()),
        other => bail!(Index, "a tensor cannot be indexed with {}", other.kind_name()),
    })
}

/// Reads a nested list as a tensor: of bools if all are, else of integers.
fn list<D: Domain>(arg: &Arg<D::Leaf>) -> Result<D::Tensor> {
    let (mut shape, mut level) = (Sizes::new(), vec![arg]);
    while let Some(Arg::List(first)) = level.first() {
        let n = first.len();
        let mut next = Vec::new();
        for arg in &level {
            match arg {
                Arg::List(items) if items.len() == n => next.extend(items.iter()),
                Arg::List(items) => return Err(ragged(n, items.len())),
                _ => return Err(mixed()),
            }
        }
        shape.push(n);
        level = next;
    }
    if !level.is_empty() && level.iter().all(|arg| matches!(arg, Arg::Bool(_))) {
        return D::bools(shape, level.iter().map(|arg| matches!(arg, Arg::Bool(true))).collect());
    }
    let int = |arg: &&Arg<D::Leaf>| match arg {
        Arg::Int(n) => Ok(D::number(*n)),
        Arg::Bool(flag) => Ok(D::number((*flag).into())),
        Arg::Dim(dim) => D::dim(dim),
        Arg::Leaf(leaf) => D::int_leaf(leaf),
        Arg::Failed(error) => Err(error.clone()),
        Arg::List(_) => Err(mixed()),
        other => Err(err!(Index, "a list in an index holds integers or bools, got {}", other.kind_name())
            .help("write several entries as a tuple")),
    };
    let items = level.iter().map(int).collect::<Result<_>>()?;
    D::ints(shape, items)
}

fn ragged(expected: usize, got: usize) -> Error {
    err!(Index, "expected {expected} items in each row of a list in an index, got {got}")
}

fn mixed() -> Error {
    err!(Index, "a list in an index mixes lists and numbers")
}

/// The error for an index of a dtype that cannot be one.
pub(super) fn not_an_index(dtype: crate::DType) -> Error {
    let help = if dtype == crate::DType::U8 {
        "convert it: `.to(DType::Bool)` for a mask, `.to(DType::I64)` for positions"
    } else {
        "convert it with `.to(DType::I64)`"
    };
    err!(Index, "a tensor of {dtype} cannot be an index").help(help)
}

/// The error of a position outside of an axis.
pub(super) fn out_of_range(i: impl std::fmt::Display, axis: usize, size: impl std::fmt::Display) -> Error {
    err!(Index, "index {i} is out of range for axis {axis} of size {size}")
}

/// The error of a step that is not positive.
pub(super) fn bad_step(step: impl std::fmt::Display) -> Error {
    err!(Index, "the step of a slice is at least 1, got {step}").help("reverse an axis with `flip`")
}

/// The error of a mask that does not fit.
pub(super) fn bad_mask(mask: impl std::fmt::Display, axis: usize, size: impl std::fmt::Display) -> Error {
    err!(Index, "a mask of size {mask} does not fit axis {axis} of size {size}")
        .help("a mask has exactly the shape of the axes that it indexes")
}
