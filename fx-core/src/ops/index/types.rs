//! Indexing types: the shape rule of `getitem`, exact on symbolic sizes.
//!
//! A size that depends on data, such as the number of true elements of a mask, is a [fresh](Symbol::fresh) symbol.

use super::entry::{self, Domain, Entry, bad_mask, bad_step, not_an_index, out_of_range};
use crate::array::Sizes;
use crate::{DType, Dim, Result, Symbol, TensorType, Truth, Type, TypeTree, bail, err};

/// Returns the type of the elements of a tensor that an index names, as [`getitem`](super::getitem) gives
/// them. Fails if the index does not fit the shape.
pub fn index_type(x: &TensorType, index: &TypeTree) -> Result<TypeTree> {
    let mut fresh = Fresh::default();
    let mut dims: Vec<Dim> = Vec::new();
    // Where in `dims` the indexed axes are, and the shapes of their indices.
    let mut advanced: Vec<(usize, Vec<Dim>)> = Vec::new();
    let mut axis = 0;
    for entry in entry::read::<Types>(index, x.rank())? {
        match entry {
            Entry::At(i) => {
                let size = &x.shape[axis];
                if let Some(i) = i
                    && is_outside(&i, size)
                {
                    return Err(out_of_range(i, axis, size));
                }
                axis += 1;
            }
            Entry::Slice { start, stop, step } => {
                dims.push(slice_size(&x.shape[axis], start, stop, step, &mut fresh)?);
                axis += 1;
            }
            Entry::NewAxis => dims.push(Dim::new(1)),
            Entry::Ellipsis => bail!(Index, "an index has more than one `..`"),
            Entry::Flag(flag) => {
                advanced.push((dims.len(), vec![Dim::new(flag.into())]));
                dims.push(Dim::new(1));
            }
            Entry::Tensor(Index::UnknownFlag) => {
                advanced.push((dims.len(), vec![fresh.size(Some(1))]));
                dims.push(Dim::new(1));
            }
            Entry::Tensor(Index::Mask { shape, count }) => {
                for (k, size) in shape.iter().enumerate() {
                    if size.same(&x.shape[axis + k]).is_no() {
                        return Err(bad_mask(size, axis + k, &x.shape[axis + k]));
                    }
                }
                let count = count.unwrap_or_else(|| fresh.size(None));
                for _ in &shape {
                    advanced.push((dims.len(), vec![count.clone()]));
                    dims.push(x.shape[axis].clone());
                    axis += 1;
                }
            }
            Entry::Tensor(Index::Positions { shape, known }) => {
                if let Some(i) = known.iter().find(|&&i| is_outside(&Dim::new(i), &x.shape[axis])) {
                    return Err(out_of_range(i, axis, &x.shape[axis]));
                }
                advanced.push((dims.len(), shape));
                dims.push(x.shape[axis].clone());
                axis += 1;
            }
        }
    }
    if let Some((first, _)) = advanced.first() {
        let is_adjacent = advanced.iter().enumerate().all(|(k, (at, _))| *at == first + k);
        let n_before = if is_adjacent { *first } else { 0 };
        let shape = broadcast(advanced.iter().map(|(_, shape)| shape), &mut fresh)?;
        let rest: Vec<Dim> = dims
            .into_iter()
            .enumerate()
            .filter(|(at, _)| !advanced.iter().any(|(indexed, _)| indexed == at))
            .map(|(_, dim)| dim)
            .collect();
        dims = rest[..n_before].iter().chain(&shape).chain(&rest[n_before..]).cloned().collect();
    }
    if let Some(error) = dims.iter().find_map(Dim::error) {
        return Err(error.clone());
    }
    Ok(TensorType { dtype: x.dtype, shape: dims.into_iter().collect() }.into())
}

/// Numbers the sizes that depend on data.
#[derive(Default)]
struct Fresh(u32);

impl Fresh {
    fn size(&mut self, max: Option<i64>) -> Dim {
        self.0 += 1;
        Dim::symbol(Symbol::fresh(self.0 - 1).ranged(0, max))
    }
}

/// A tensor as an index, as far as its type says.
enum Index {
    /// The count is known for a literal.
    Mask { shape: Vec<Dim>, count: Option<Dim> },
    /// Those positions that are known are those of a literal.
    Positions { shape: Vec<Dim>, known: Vec<i64> },
    /// A bool of rank 0.
    UnknownFlag,
}

enum Types {}

impl Domain for Types {
    type Leaf = Type;
    /// `None` if it is not known before it runs.
    type Int = Option<Dim>;
    type Tensor = Index;

    fn number(n: i64) -> Option<Dim> {
        Some(Dim::new(n))
    }

    fn dim(dim: &Dim) -> Result<Option<Dim>> {
        match dim.error() {
            Some(error) => Err(error.clone()),
            None => Ok(Some(dim.clone())),
        }
    }

    fn leaf(leaf: &Type) -> Result<Entry<Self>> {
        match leaf {
            Type::Tensor(ty) => match (ty.dtype, ty.rank()) {
                (DType::Bool, 0) => Ok(Entry::Tensor(Index::UnknownFlag)),
                (DType::Bool, _) => Ok(Entry::Tensor(Index::Mask { shape: ty.shape.to_vec(), count: None })),
                (DType::I8 | DType::I32 | DType::I64, 0) => Ok(Entry::At(None)),
                (DType::I8 | DType::I32 | DType::I64, _) => {
                    Ok(Entry::Tensor(Index::Positions { shape: ty.shape.to_vec(), known: Vec::new() }))
                }
                (other, _) => Err(not_an_index(other)),
            },
            Type::Int => Ok(Entry::At(None)),
            Type::Bool => Ok(Entry::Tensor(Index::UnknownFlag)),
            Type::Any => Err(crate::op::unknown_type()),
            other @ (Type::Float | Type::Str | Type::Optional(_) | Type::List(_)) => {
                bail!(Index, "a tensor cannot be indexed with {other}")
            }
        }
    }

    fn int_leaf(leaf: &Type) -> Result<Option<Dim>> {
        match leaf {
            Type::Int => Ok(None),
            Type::Any => Err(crate::op::unknown_type()),
            Type::Tensor(ty) if !matches!(ty.dtype, DType::I8 | DType::I32 | DType::I64) => {
                Err(not_an_index(ty.dtype))
            }
            Type::Tensor(ty) => match ty.shape.numel().same(&Dim::new(1)) {
                Truth::No => bail!(Shape, "expected one element, got {ty}"),
                _ => Ok(None),
            },
            other => bail!(Index, "expected an integer in an index, got {other}"),
        }
    }

    fn ints(shape: Sizes, items: Vec<Option<Dim>>) -> Result<Index> {
        let known = items.iter().filter_map(|item| item.as_ref().and_then(Dim::known)).collect();
        Ok(Index::Positions { shape: shape.into_iter().map(Dim::from).collect(), known })
    }

    fn bools(shape: Sizes, items: Vec<bool>) -> Result<Index> {
        let count = items.into_iter().filter(|&x| x).count();
        Ok(Index::Mask { shape: shape.into_iter().map(Dim::from).collect(), count: Some(count.into()) })
    }

    fn n_axes(tensor: &Index) -> usize {
        match tensor {
            Index::Mask { shape, .. } => shape.len(),
            Index::Positions { .. } => 1,
            Index::UnknownFlag => 0,
        }
    }
}

/// Returns whether a position is outside of an axis for all values of the symbols.
fn is_outside(i: &Dim, size: &Dim) -> bool {
    i.less(size).is_no() || (i + size).less(&Dim::new(0)).is_yes()
}

/// A bound of a slice by where it counts from.
enum SliceBound {
    /// From the front, not negative.
    Front(Dim),
    /// From the end, positive: the bound was `-k`.
    End(Dim),
    /// As a position between 0 and the size.
    Position(Dim),
}

impl SliceBound {
    fn new(bound: Dim, size: &Dim) -> SliceBound {
        let zero = Dim::new(0);
        match bound.less(&zero) {
            Truth::No => SliceBound::Front(bound),
            Truth::Yes => SliceBound::End(-bound),
            Truth::Unknown => {
                // Exact for either sign: the size is added only if the bound is negative.
                let is_negative = (-&bound).min(&Dim::new(1)).max(&zero);
                SliceBound::Position((bound + is_negative * size).max(&zero).min(size))
            }
        }
    }

    fn position(&self, size: &Dim) -> Dim {
        match self {
            SliceBound::Front(bound) => bound.min(size),
            SliceBound::End(back) => (size - back).max(&Dim::new(0)),
            SliceBound::Position(position) => position.clone(),
        }
    }
}

/// Returns the size of a slice of an axis.
fn slice_size(
    size: &Dim,
    start: Option<Option<Dim>>,
    stop: Option<Option<Dim>>,
    step: Option<Option<Dim>>,
    fresh: &mut Fresh,
) -> Result<Dim> {
    let step = match step {
        None => Some(Dim::new(1)),
        Some(step) => step,
    };
    if let Some(step) = &step
        && step.less(&Dim::new(1)).is_yes()
    {
        return Err(bad_step(step));
    }
    let (Some(start), Some(stop), Some(step)) =
        (start.unwrap_or(Some(Dim::new(0))), stop.transpose_or(size), step)
    else {
        return Ok(fresh.size(size.known()));
    };
    if step.less(&Dim::new(1)) != Truth::No {
        return Ok(fresh.size(size.known()));
    }
    let zero = Dim::new(0);
    let start = SliceBound::new(start, size);
    let length = match (&start, stop) {
        (SliceBound::Front(start), None) => (size - start).max(&zero),
        (SliceBound::End(back), None) => back.min(size),
        (SliceBound::Position(start), None) => size - start,
        (start, Some(stop)) => match (start, SliceBound::new(stop, size)) {
            (SliceBound::Front(start), SliceBound::End(back)) => (size - start - back).max(&zero),
            (SliceBound::End(j), SliceBound::End(k)) => (j - &k).min(&(size - k).max(&zero)).max(&zero),
            (SliceBound::Front(start), stop) => (stop.position(size) - start).max(&zero),
            (start, stop) => (stop.position(size) - start.position(size)).max(&zero),
        },
    };
    Ok(length.ceil_div(&step))
}

/// An optional bound: absent, unknown or given.
trait OptionalBound {
    /// Returns `Some(None)` for an absent bound, and `None` for one that is not known.
    fn transpose_or(self, size: &Dim) -> Option<Option<Dim>>;
}

impl OptionalBound for Option<Option<Dim>> {
    fn transpose_or(self, size: &Dim) -> Option<Option<Dim>> {
        match self {
            None => Some(None),
            // A stop at the size is no stop.
            Some(Some(stop)) if stop == *size => Some(None),
            Some(Some(stop)) => Some(Some(stop)),
            Some(None) => None,
        }
    }
}

/// Returns the shape to which the shapes of indices broadcast.
///
/// Where one of two sizes depends on data and the other is not known either, so does the result.
fn broadcast<'a>(shapes: impl Iterator<Item = &'a Vec<Dim>> + Clone, fresh: &mut Fresh) -> Result<Vec<Dim>> {
    let rank = shapes.clone().map(Vec::len).max().unwrap_or(0);
    let mut out = vec![Dim::new(1); rank];
    for shape in shapes.clone() {
        for (size, n) in out[rank - shape.len()..].iter_mut().zip(shape) {
            let is_one = |dim: &Dim| dim.known() == Some(1);
            if is_one(n) || size.same(n).is_yes() {
                continue;
            }
            if is_one(size) {
                *size = n.clone();
                continue;
            }
            let list = || {
                shapes
                    .clone()
                    .map(|dims| dims.iter().collect::<crate::Shape>().to_string())
                    .collect::<Vec<_>>()
                    .join(" and ")
            };
            let could_be_one = |dim: &Dim| !dim.same(&Dim::new(1)).is_no();
            match (size.known(), n.known()) {
                // A known size other than one decides, if the other can be one or equal to it.
                (Some(_), None) if could_be_one(n) || !size.same(n).is_no() => {}
                (None, Some(_)) if could_be_one(size) || !size.same(n).is_no() => *size = n.clone(),
                (None, None) if is_fresh(size) || is_fresh(n) => *size = fresh.size(None),
                (None, None) if size.same(n) == Truth::Unknown => {
                    return Err(err!(
                        Index,
                        "the indices {} may not broadcast: {size} and {n} may differ",
                        list()
                    )
                    .help("give equal sizes the same symbol in the input specs, or fix one of them"));
                }
                _ => {
                    return Err(err!(Index, "the indices {} do not broadcast together", list()).help(
                        "sizes must be equal or 1, aligned at the last axis; add axes with `unsqueeze`",
                    ));
                }
            }
        }
    }
    Ok(out)
}

fn is_fresh(dim: &Dim) -> bool {
    dim.symbols().iter().any(Symbol::is_fresh)
}
