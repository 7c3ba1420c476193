//! Rows that join several tensors into one, or fit them to each other.

use fx_core::array::{BLOCK, Sizes, build_blocks, checked_numel, dispatch_dtype};
use fx_core::op::kind::TensorsType;
use fx_core::ops::renewed;
use fx_core::pointwise::{broadcast_dims, broadcast_shapes};
use fx_core::window::{Window, WindowCall};
use fx_core::{
    Arg, Array, DType, Dim, Element, Op, Result, Symbol, Tensor, TensorType, Truth, Type, bail, err,
    functions,
};
use smallvec::SmallVec;

use crate::kernel::chunks::{PARALLEL, fill};
use crate::ops::infer::{axis, axis_of, type_of, typed};

functions! {
    pub static JOIN;

    /// Joins tensors along the axis `dim`; the other sizes are equal. Dtypes are promoted; tensors of shape
    /// `[0]` are left out.
    cat(tensors: Tensors, dim: Int = 0) = infer_cat, cat_array;
    /// As `cat`.
    concat(tensors: Tensors, dim: Int = 0) = infer_cat, cat_array;
    /// Joins tensors of one shape along a new axis `dim`.
    stack(tensors: Tensors, dim: Int = 0) = infer_stack, stack_array;
    /// Joins along the second axis, tensors of rank 1 along the first.
    hstack(tensors: Tensors) = |x: TensorsType<'_>| hstack_type(x.known()?), hstack_array;
    /// Joins along the first axis; tensors of rank 0 and 1 are rows.
    vstack(tensors: Tensors) = |x: TensorsType<'_>| vstack_type(x.known()?), vstack_array;
    /// Expands tensors to the shape to which they broadcast.
    #[class = View(expanded_all)]
    broadcast_tensors(tensors: Tensors) -> Vec<Tensor> = |x: TensorsType<'_>| broadcast_type(x.known()?), broadcast_array;
    /// Expands tensors of rank 0 or 1 to the grid of all their combinations; `indexing` is "ij", or "xy" for
    /// the first two exchanged.
    #[class = View(gridded)]
    meshgrid(tensors: Tensors; indexing: Str = "ij") -> Vec<Tensor> =
        |x: TensorsType<'_>, indexing: &str| meshgrid_type(x.known()?, indexing), meshgrid_array;
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[JOIN];

type Types<'a> = SmallVec<[&'a TensorType; 4]>;
type Arrays<'a> = SmallVec<[&'a Array; 4]>;

fn refs(types: &[TensorType]) -> Types<'_> {
    types.iter().collect()
}

fn array_refs(arrays: &[Array]) -> Arrays<'_> {
    arrays.iter().collect()
}

fn promoted(dtypes: impl Iterator<Item = DType>) -> Result<DType> {
    dtypes.reduce(DType::promote).ok_or_else(|| err!(Argument, "expected at least one tensor"))
}

/// Returns the tensors that count: PyTorch's `cat` leaves out those of shape `[0]`.
///
/// Beside a higher rank, a tensor of rank 1 and symbolic size is valid only if it is left out.
fn joined<'a>(tensors: &Types<'a>) -> Types<'a> {
    let has_higher = tensors.iter().any(|ty| ty.rank() > 1);
    let zero = Dim::new(0);
    let is_left_out = |ty: &TensorType| match &ty.shape[..] {
        [size] => size.known() == Some(0) || has_higher && !size.same(&zero).is_no(),
        _ => false,
    };
    tensors.iter().copied().filter(|ty| !is_left_out(ty)).collect()
}

/// Of tensors whose number is not known, the size of the axis is not known either.
fn infer_cat(tensors: TensorsType<'_>, dim: Dim) -> Result<TensorType> {
    match tensors {
        TensorsType::Known(types) => cat_type(types, dim),
        TensorsType::Each(ty) => {
            let ty = item_type(ty)?;
            // A tensor of shape `[0]` counts for nothing, whatever the rank of the others.
            let mut shape = ty.shape.clone();
            shape.dims_mut()[axis_of(&dim, ty.rank())?] = Dim::symbol(Symbol::fresh(ty.rank() as u32));
            typed(ty.dtype, shape.iter().cloned())
        }
    }
}

fn infer_stack(tensors: TensorsType<'_>, dim: Dim) -> Result<TensorType> {
    match tensors {
        TensorsType::Known(types) => stack_type(types, dim),
        TensorsType::Each(ty) => {
            let ty = item_type(ty)?;
            let mut shape = ty.shape.clone();
            let n = Dim::symbol(Symbol::fresh(ty.rank() as u32));
            shape.dims_mut().insert(axis_of(&dim, ty.rank() + 1)?, n);
            typed(ty.dtype, shape.iter().cloned())
        }
    }
}

fn item_type(ty: &TensorType) -> Result<TensorType> {
    match renewed(&Arg::Leaf(Type::Tensor(ty.clone()))) {
        Arg::Leaf(Type::Tensor(ty)) => Ok(ty),
        other => bail!(Structure, "expected the type of a tensor, got {other}"),
    }
}

pub(crate) fn cat_type(tensors: Types<'_>, dim: Dim) -> Result<TensorType> {
    let dtype = promoted(tensors.iter().map(|ty| ty.dtype))?;
    let joined = joined(&tensors);
    let Some(first) = joined.first().or(tensors.first()) else {
        bail!(Argument, "expected at least one tensor");
    };
    if let Some(ty) = tensors.iter().find(|ty| ty.rank() == 0) {
        return Err(
            err!(Shape, "expected tensors of rank 1 or more, got {ty}").help("use `stack` to join scalars")
        );
    }
    let at = axis_of(&dim, first.rank())?;
    let mut shape = first.shape.clone();
    let mut total = Dim::new(0);
    for ty in &joined {
        if ty.rank() != shape.len() {
            bail!(Shape, "cannot join {first} and {ty}: the ranks differ");
        }
        total += &ty.shape[at];
        for (i, size) in ty.shape.iter().enumerate() {
            match if i == at { Truth::Yes } else { shape[i].same(size) } {
                Truth::No => bail!(Shape, "cannot join {first} and {ty}: the sizes of axis {i} differ"),
                Truth::Unknown if size.is_known() => shape.dims_mut()[i] = size.clone(),
                _ => {}
            }
        }
    }
    shape.dims_mut()[at] = total;
    typed(dtype, shape.iter().cloned())
}

pub(crate) fn cat_array(tensors: Arrays<'_>, dim: i64) -> Result<Array> {
    let types: Vec<TensorType> = tensors.iter().map(|x| type_of(x)).collect();
    let ty = cat_type(refs(&types), dim.into())?;
    let at = axis(dim, ty.rank())?;
    let cast: Vec<Array> = tensors.iter().filter(|x| x.shape() != [0]).map(|x| x.cast(ty.dtype)).collect();
    if cast.is_empty() { Array::zeros(ty.dtype, &[0]) } else { concat_arrays(&array_refs(&cast), at) }
}

/// Joins arrays of one dtype whose sizes beside the axis are equal.
pub(crate) fn concat_arrays(arrays: &[&Array], at: usize) -> Result<Array> {
    let Some(first) = arrays.first() else { bail!(Argument, "expected at least one tensor") };
    let mut shape = Sizes::from_slice(first.shape());
    shape[at] = arrays.iter().fold(0usize, |n, x| n.saturating_add(x.shape()[at]));
    checked_numel(&shape)?;
    let outer: usize = shape[..at].iter().product();
    let width: usize = shape[at..].iter().product();
    let dense: Vec<Array> = arrays.iter().map(|x| x.contiguous()).collect::<Result<_>>()?;
    dispatch_dtype!(first.dtype(), T => {
        let parts: Vec<(&[T], usize)> = dense
            .iter()
            .map(|x| {
                let data = x.as_slice::<T>().ok_or_else(|| err!(DType, "storage of another dtype"))?;
                Ok((data, x.shape()[at..].iter().product()))
            })
            .collect::<Result<_>>()?;
        let parts = Parts { parts, width };
        let out = if width >= BLOCK {
            fill(outer * width, |at, out: &mut [T]| parts.run(at, out))?
        } else {
            let rows = BLOCK / width.max(1);
            let at_once = PARALLEL.div_ceil(BLOCK);
            build_blocks(outer * width, rows * width, at_once, &|at, out: &mut [T]| parts.rows(at, out))?
        };
        Array::from_vec(out, &shape)
    })
}

/// Data of which each row takes some elements, and all that it takes.
struct Parts<'a, T> {
    parts: Vec<(&'a [T], usize)>,
    width: usize,
}

impl<T: Element> Parts<'_, T> {
    /// Fills `out` from a position on.
    fn run(&self, at: usize, out: &mut [T]) {
        let (mut row, mut column) = (at / self.width, at % self.width);
        let mut filled = 0;
        while filled < out.len() {
            let mut first = 0;
            for &(data, n) in &self.parts {
                if column >= first && column < first + n {
                    let len = (first + n - column).min(out.len() - filled);
                    let from = &data[row * n + column - first..][..len];
                    fx_simd::copy(from, &mut out[filled..filled + len]);
                    (filled, column) = (filled + len, column + len);
                }
                first += n;
            }
            if column == self.width {
                (row, column) = (row + 1, 0);
            }
        }
    }

    /// Fills whole rows, from the one at a position on.
    fn rows(&self, at: usize, out: &mut [T]) {
        let row = at / self.width.max(1);
        if let [(a, 1), (b, 1)] = self.parts[..] {
            let (pairs, _) = out.as_chunks_mut::<2>();
            pairs.iter_mut().zip(&a[row..]).zip(&b[row..]).for_each(|((out, &a), &b)| *out = [a, b]);
            return;
        }
        let mut first = 0;
        for &(data, n) in &self.parts {
            let rows = out.chunks_mut(self.width);
            match n {
                0 => {}
                1 => rows.zip(&data[row..]).for_each(|(out, &x)| out[first] = x),
                _ => rows
                    .zip(data[row * n..].chunks(n))
                    .for_each(|(out, from)| out[first..first + n].copy_from_slice(from)),
            }
            first += n;
        }
    }
}

fn stack_type(tensors: Types<'_>, dim: Dim) -> Result<TensorType> {
    let dtype = promoted(tensors.iter().map(|ty| ty.dtype))?;
    let first = tensors[0];
    let at = axis_of(&dim, first.rank() + 1)?;
    let mut shape = first.shape.clone();
    for ty in &tensors {
        if ty.rank() != first.rank() || ty.shape.iter().zip(shape.iter()).any(|(a, b)| a.same(b).is_no()) {
            return Err(err!(Shape, "cannot stack {first} and {ty}: the shapes differ")
                .help("use `cat` to join along an axis"));
        }
        for (i, size) in ty.shape.iter().enumerate() {
            if size.is_known() {
                shape.dims_mut()[i] = size.clone();
            }
        }
    }
    shape.dims_mut().insert(at, Dim::from(tensors.len()));
    typed(dtype, shape.iter().cloned())
}

fn stack_array(tensors: Arrays<'_>, dim: i64) -> Result<Array> {
    let types: Vec<TensorType> = tensors.iter().map(|x| type_of(x)).collect();
    let ty = stack_type(refs(&types), dim.into())?;
    let at = axis(dim, ty.rank())?;
    let rows: Vec<Array> = tensors.iter().map(|x| x.cast(ty.dtype).unsqueeze(at)).collect::<Result<_>>()?;
    concat_arrays(&array_refs(&rows), at)
}

pub(crate) fn at_least(rank: usize, ty: &TensorType) -> TensorType {
    let missing = rank.saturating_sub(ty.rank());
    let ones = std::iter::repeat_n(Dim::new(1), missing);
    TensorType { dtype: ty.dtype, shape: ones.chain(ty.shape.iter().cloned()).collect() }
}

fn array_at_least(rank: usize, x: &Array) -> Result<Array> {
    let mut out = x.clone();
    while out.rank() < rank {
        out = out.unsqueeze(0)?;
    }
    Ok(out)
}

fn hstack_type(tensors: Types<'_>) -> Result<TensorType> {
    let wide: Vec<TensorType> = tensors.iter().map(|ty| at_least(1, ty)).collect();
    let dim = i64::from(wide.first().is_some_and(|ty| ty.rank() > 1));
    cat_type(refs(&wide), dim.into())
}

fn hstack_array(tensors: Arrays<'_>) -> Result<Array> {
    let wide: Vec<Array> = tensors.iter().map(|x| array_at_least(1, x)).collect::<Result<_>>()?;
    let dim = i64::from(wide.first().is_some_and(|x| x.rank() > 1));
    cat_array(array_refs(&wide), dim)
}

fn vstack_type(tensors: Types<'_>) -> Result<TensorType> {
    let wide: Vec<TensorType> = tensors.iter().map(|ty| at_least(2, ty)).collect();
    cat_type(refs(&wide), Dim::new(0))
}

fn vstack_array(tensors: Arrays<'_>) -> Result<Array> {
    let wide: Vec<Array> = tensors.iter().map(|x| array_at_least(2, x)).collect::<Result<_>>()?;
    cat_array(array_refs(&wide), 0)
}

fn broadcast_type(tensors: Types<'_>) -> Result<Vec<TensorType>> {
    let shape = broadcast_dims(tensors.iter().map(|ty| &ty.shape[..]))?;
    Ok(tensors.iter().map(|ty| TensorType { dtype: ty.dtype, shape: shape.clone() }).collect())
}

fn broadcast_array(tensors: Arrays<'_>) -> Result<Vec<Array>> {
    let shape = broadcast_shapes(tensors.iter().map(|x| x.shape()))?;
    tensors.iter().map(|x| x.broadcast_to(&shape)).collect()
}

fn expanded_all(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let all: Vec<Window> = call.list(0)?.into_iter().cloned().collect();
    let shapes = call.shapes();
    let each = all.iter().zip(&shapes);
    let wide = each.map(|(x, shape)| call.expand(x, shape).map(Arg::Leaf)).collect::<Option<Vec<_>>>();
    Ok(wide.map(Arg::list))
}

/// Returns whether the first two axes of a grid are exchanged.
fn is_exchanged(indexing: &str, n: usize) -> Result<bool> {
    match indexing {
        "ij" => Ok(false),
        "xy" => Ok(n >= 2),
        _ => bail!(Argument, "expected \"ij\" or \"xy\" as indexing, got {indexing:?}"),
    }
}

fn meshgrid_type(tensors: Types<'_>, indexing: &str) -> Result<Vec<TensorType>> {
    let exchanged = is_exchanged(indexing, tensors.len())?;
    if let Some(ty) = tensors.iter().find(|ty| ty.rank() > 1 || ty.dtype != tensors[0].dtype) {
        bail!(Shape, "expected tensors of rank 0 or 1 and of one dtype, got {ty}");
    }
    let mut shape: Vec<Dim> = tensors.iter().map(|ty| ty.shape.numel()).collect();
    if exchanged {
        shape.swap(0, 1);
    }
    tensors.iter().map(|ty| typed(ty.dtype, shape.iter().cloned())).collect()
}

fn gridded(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let (lines, shapes) = (call.list(0)?, call.shapes());
    let Arg::Str(indexing) = call.given(1)? else { bail!(Argument, "the indexing is not known") };
    let exchanged = is_exchanged(indexing, lines.len())?;
    let grid = |(i, (x, shape)): (usize, (&Window, Vec<Dim>))| {
        let at = if exchanged && i < 2 { 1 - i } else { i };
        let mut strides = vec![Dim::new(0); shape.len()];
        strides[at] = x.strides.first().cloned().unwrap_or(Dim::new(0));
        Arg::Leaf(Window { shape, strides, ..x.clone() })
    };
    Ok(Some(Arg::list(lines.into_iter().zip(shapes).enumerate().map(grid).collect::<Vec<_>>())))
}

fn meshgrid_array(tensors: Arrays<'_>, indexing: &str) -> Result<Vec<Array>> {
    let types: Vec<TensorType> = tensors.iter().map(|x| type_of(x)).collect();
    meshgrid_type(refs(&types), indexing)?;
    let exchanged = is_exchanged(indexing, tensors.len())?;
    let rank = tensors.len();
    let mut shape: Sizes = tensors.iter().map(|x| x.numel()).collect();
    if exchanged {
        shape.swap(0, 1);
    }
    let grid = |(i, x): (usize, &&Array)| {
        let at = if exchanged && i < 2 { 1 - i } else { i };
        let mut line = Sizes::from_elem(1, rank);
        line[at] = x.numel();
        x.reshape(&line)?.broadcast_to(&shape)
    };
    tensors.iter().enumerate().map(grid).collect()
}
