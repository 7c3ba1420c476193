//! [`Window`]: where the elements of a view lie, as expressions of sizes.
//!
//! A view computes no element: its result is a window on the memory of an operand. The row of a view has a
//! [`WindowRule`], which says where this window begins and how far its elements lie apart. Engines read operands
//! through windows, and so does generated code; the sizes are numbers or symbols.
//!
//! ```
//! use fx_core::window::{Window, WindowCall};
//! use fx_core::{Arg, Dim, Result};
//!
//! /// Every second row, as `#[class = View(every_second)]` names it.
//! fn every_second(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
//!     let size = call.shape()?[0].clone();
//!     Ok(Some(Arg::Leaf(call.window(0)?.slice(0, &Dim::new(0), size, &Dim::new(2)))))
//! }
//!
//! let x = Window::row_major(0, &[Dim::from(6), Dim::from(4)]);
//! let y = x.slice(0, &Dim::new(0), Dim::from(3), &Dim::new(2));
//! assert_eq!(y.strides, [Dim::from(8), Dim::from(1)]);
//! # let _ = every_second;
//! ```

use crate::op::OpDef;
use crate::ops::axis;
use crate::{Arg, Dim, Result, Type, TypeTree, bail, err};

/// A part of some memory: sizes, and how far neighbours lie apart, in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Whose memory it is: a number by which the caller of a rule knows its operands.
    pub base: usize,
    /// The sizes of the axes.
    pub shape: Vec<Dim>,
    /// The distance between neighbours along each axis; none is negative.
    pub strides: Vec<Dim>,
    /// The first element.
    pub offset: Dim,
}

/// Says where the elements of a result lie; `None` if not all of them lie in operands as these do. Copies of the
/// operands in row-major order may do.
pub type WindowRule = fn(&mut WindowCall<'_>) -> Result<Option<Arg<Window>>>;

/// What a rule is given: the arguments in schema order, with windows in the place of tensors, and the type of the
/// result.
pub struct WindowCall<'a> {
    args: &'a [Arg<Window>],
    ty: &'a TypeTree,
    requires: Vec<Dim>,
}

/// The windows of a result.
#[derive(Clone, Debug)]
pub struct Windows {
    /// The result.
    pub result: Arg<Window>,
    /// Expressions that must not be negative for the windows to be right: the operation refuses such sizes, or its
    /// result lies otherwise.
    pub requires: Vec<Dim>,
}

impl OpDef {
    /// Returns where the elements of a result of this type lie; `None` if the operation is no view, or not all
    /// elements lie in operands as these do. Fails if an argument is not known, or does not fit.
    pub fn windows_of(&self, args: &[Arg<Window>], ty: &TypeTree) -> Result<Option<Windows>> {
        let Some(rule) = self.windows else { return Ok(None) };
        let mut call = WindowCall::new(args, ty);
        let Some(result) = rule(&mut call)? else { return Ok(None) };
        let mut requires = call.requires;
        requires.retain(|dim| dim.bounds().0 < 0);
        let mut failed = requires.iter().find_map(|dim| dim.error().cloned());
        result.for_each_leaf(&mut |window: &Window| {
            let dims = window.shape.iter().chain(&window.strides).chain([&window.offset]);
            failed = failed.take().or_else(|| dims.into_iter().find_map(|dim| dim.error().cloned()));
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(Some(Windows { result, requires })),
        }
    }
}

impl Window {
    /// All elements of some memory, in row-major order.
    pub fn row_major(base: usize, shape: &[Dim]) -> Window {
        Window { base, shape: shape.to_vec(), strides: row_major(shape), offset: Dim::new(0) }
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns whether the elements are known to follow each other in row-major order without gaps.
    pub fn is_row_major(&self) -> bool {
        is_row_major(&self.shape, &self.strides)
    }

    /// Returns the same elements with axes in another order: axis `k` is axis `order[k]`.
    #[must_use]
    pub fn permute(&self, order: &[usize]) -> Window {
        let of = |dims: &[Dim]| order.iter().map(|&axis| dims[axis].clone()).collect();
        Window { shape: of(&self.shape), strides: of(&self.strides), ..self.clone() }
    }

    /// Returns the same elements, in row-major order, as another shape of as many; `None` if that takes a copy, or
    /// if it is not known whether it does.
    pub fn reshape(&self, shape: &[Dim]) -> Option<Window> {
        let (one, zero) = (Dim::new(1), Dim::new(0));
        if self.is_row_major() {
            return Some(Window { shape: shape.to_vec(), strides: row_major(shape), ..self.clone() });
        }
        let mut strides = vec![zero; shape.len()];
        // Axes of size 1 have no neighbours.
        let mut axes = (0..shape.len()).rev().filter(|&axis| shape[axis] != one);
        let (old, old_strides) = collapse(&self.shape, std::slice::from_ref(&self.strides));
        for (size, stride) in old.iter().zip(&old_strides[0]).rev() {
            let mut n = one.clone();
            while n != *size {
                let axis = axes.next()?;
                strides[axis] = stride * &n;
                n = &n * &shape[axis];
            }
        }
        let is_all = axes.next().is_none();
        is_all.then(|| Window { shape: shape.to_vec(), strides, ..self.clone() })
    }

    /// Takes `size` positions of an axis from `start` on, `step` apart.
    #[must_use]
    pub fn slice(&self, axis: usize, start: &Dim, size: Dim, step: &Dim) -> Window {
        let mut window = self.clone();
        window.offset = &self.offset + start * &self.strides[axis];
        window.strides[axis] = &self.strides[axis] * step;
        window.shape[axis] = size;
        window
    }

    /// Takes one position of an axis, which goes.
    #[must_use]
    pub fn select(&self, axis: usize, index: &Dim) -> Window {
        let mut window = self.slice(axis, index, Dim::new(1), &Dim::new(1));
        window.shape.remove(axis);
        window.strides.remove(axis);
        window
    }

    /// Inserts an axis of size 1.
    #[must_use]
    pub fn unsqueeze(&self, axis: usize) -> Window {
        let mut window = self.clone();
        window.shape.insert(axis, Dim::new(1));
        window.strides.insert(axis, Dim::new(0));
        window
    }
}

impl<'a> WindowCall<'a> {
    /// Makes a call with these arguments, whose result has this type.
    pub fn new(args: &'a [Arg<Window>], ty: &'a TypeTree) -> Self {
        WindowCall { args, ty, requires: Vec::new() }
    }

    /// Returns the expressions of which the rule said that they must not be negative.
    pub fn required(&self) -> &[Dim] {
        &self.requires
    }

    /// Returns an argument as it is. Fails if there are fewer.
    pub fn given(&self, at: usize) -> Result<&Arg<Window>> {
        self.args.get(at).ok_or_else(|| err!(Argument, "there is no argument {at}"))
    }

    /// Returns a tensor. Fails if the argument is something else.
    pub fn window(&self, at: usize) -> Result<&Window> {
        let arg = self.given(at)?;
        arg.leaf().ok_or_else(|| err!(Unresolved, "an operand is {}, not a tensor", arg.kind_name()))
    }

    /// Returns the tensors of a list. Fails if the argument is something else.
    pub fn list(&self, at: usize) -> Result<Vec<&Window>> {
        let arg = self.given(at)?;
        let tensors = arg.items().and_then(|items| items.iter().map(Arg::leaf).collect::<Option<_>>());
        tensors.ok_or_else(|| err!(Unresolved, "an operand is {}, not a list of tensors", arg.kind_name()))
    }

    /// Returns an integer, which may be an expression. Fails if the argument is something else.
    pub fn dim(&self, at: usize) -> Result<Dim> {
        dim_of(self.given(at)?)
    }

    /// Returns an integer. Fails if it is not known.
    pub fn int(&self, at: usize) -> Result<i64> {
        let dim = self.dim(at)?;
        dim.known().ok_or_else(|| err!(Unresolved, "an argument is {dim}, not a known integer"))
    }

    /// Returns a list of integers; one integer is a list of one. Fails if one of them is not known.
    pub fn ints(&self, at: usize) -> Result<Vec<i64>> {
        let dims = self.dims(at)?;
        let known = dims.iter().map(Dim::known).collect::<Option<_>>();
        known.ok_or_else(|| err!(Unresolved, "an argument is not a list of known integers"))
    }

    /// Returns a list of integers, which may be expressions; one integer is a list of one. Fails if the argument
    /// is something else.
    pub fn dims(&self, at: usize) -> Result<Vec<Dim>> {
        let arg = self.given(at)?;
        match arg.items() {
            Some(items) => items.iter().map(dim_of).collect(),
            None => Ok(vec![dim_of(arg)?]),
        }
    }

    /// Returns an axis of a tensor of this rank as a position. Fails if it is out of range.
    pub fn axis(&self, at: usize, rank: usize) -> Result<usize> {
        axis(self.int(at)?, rank)
    }

    /// Returns the sizes of the result. Fails if that is not one tensor.
    pub fn shape(&self) -> Result<Vec<Dim>> {
        match self.ty.tensor() {
            Some(ty) => Ok(ty.shape.to_vec()),
            None => bail!(Unresolved, "the result is {}, not one tensor of known rank", self.ty),
        }
    }

    /// Returns the sizes of the tensors in the result.
    pub fn shapes(&self) -> Vec<Vec<Dim>> {
        self.ty.leaves().into_iter().filter_map(Type::tensor).map(|ty| ty.shape.to_vec()).collect()
    }

    /// Repeats axes of size 1 of a window, and adds leading axes, to reach a shape. Sizes of which it is not known
    /// whether they are equal must be; `None` if they cannot be.
    pub fn expand(&mut self, x: &Window, shape: &[Dim]) -> Option<Window> {
        let missing = shape.len().checked_sub(x.rank())?;
        let mut strides = vec![Dim::new(0); missing];
        for ((size, stride), wide) in x.shape.iter().zip(&x.strides).zip(&shape[missing..]) {
            let is_repeated = size != wide && size.known() == Some(1);
            strides.push(if is_repeated { Dim::new(0) } else { stride.clone() });
            if size.same(wide).is_no() && !is_repeated {
                return None;
            }
            if size != wide && !is_repeated {
                self.require(size - wide);
                self.require(wide - size);
            }
        }
        Some(Window { shape: shape.to_vec(), strides, ..x.clone() })
    }

    /// Says that the windows are right only if an expression is not negative.
    pub fn require(&mut self, dim: Dim) {
        self.requires.push(dim);
    }

    /// Returns a position among `size`, of which a negative one counts from the end; what is out of range is
    /// refused. Fails if the argument is no integer.
    pub fn position(&mut self, at: &Arg<Window>, size: &Dim) -> Result<Dim> {
        let position = from_front(&dim_of(at)?, size);
        self.require(position.clone());
        self.require(size - &position - 1);
        Ok(position)
    }
}

/// Returns an integer as a size.
fn dim_of(arg: &Arg<Window>) -> Result<Dim> {
    match arg {
        Arg::Int(n) => Ok(Dim::new(*n)),
        Arg::Dim(dim) => Ok(dim.clone()),
        other => bail!(Unresolved, "an argument is {}, not an integer", other.kind_name()),
    }
}

/// Returns a position that counts from the front, of one that counts from the end if it is negative.
pub fn from_front(position: &Dim, size: &Dim) -> Dim {
    match position.known() {
        Some(n) if n < 0 => size + n,
        Some(_) => position.clone(),
        None if position.bounds().0 >= 0 => position.clone(),
        // It is exact for either sign: the size is added only if the position is negative.
        None => position + size * (-position).min(&Dim::new(1)).max(&Dim::new(0)),
    }
}

/// Returns the position at which a slice begins or ends on an axis.
pub fn clamped(position: &Dim, size: &Dim) -> Dim {
    from_front(position, size).max(&Dim::new(0)).min(size)
}

/// Returns the distances of elements that lie in row-major order without gaps.
pub fn row_major(shape: &[Dim]) -> Vec<Dim> {
    let mut strides = vec![Dim::new(1); shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = &strides[axis] * &shape[axis];
    }
    strides
}

/// Returns whether elements are known to lie in row-major order without gaps; axes of size 1 do not count.
pub fn is_row_major(shape: &[Dim], strides: &[Dim]) -> bool {
    let (zero, one) = (Dim::new(0), Dim::new(1));
    let fits = |((size, stride), dense): ((&Dim, &Dim), &Dim)| *size == one || stride == dense;
    shape.contains(&zero) || shape.iter().zip(strides).zip(&row_major(shape)).all(fits)
}

/// Drops axes of size 1, and joins neighbours that every operand walks as one.
pub fn collapse(shape: &[Dim], strides: &[Vec<Dim>]) -> (Vec<Dim>, Vec<Vec<Dim>>) {
    let one = Dim::new(1);
    let mut sizes: Vec<Dim> = Vec::new();
    let mut out: Vec<Vec<Dim>> = vec![Vec::new(); strides.len()];
    for (axis, size) in shape.iter().enumerate() {
        if *size == one {
            continue;
        }
        let joins =
            |(own, all): (&Vec<Dim>, &Vec<Dim>)| own.last().is_some_and(|last| *last == &all[axis] * size);
        match sizes.last_mut() {
            Some(last) if out.iter().zip(strides).all(joins) => {
                *last = &*last * size;
                out.iter_mut().for_each(|own| _ = own.pop());
            }
            _ => sizes.push(size.clone()),
        }
        out.iter_mut().zip(strides).for_each(|(own, all)| own.push(all[axis].clone()));
    }
    (sizes, out)
}

/// The rule of operations whose result is the first operand. Fails if that is no tensor.
pub fn whole(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    Ok(Some(Arg::Leaf(call.window(0)?.clone())))
}

/// The rule of operations that give the elements of the first operand, in row-major order, another shape.
/// Fails if that is no tensor.
pub fn reshape(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    Ok(call.window(0)?.reshape(&call.shape()?).map(Arg::Leaf))
}

/// The rule of operations that expand the first operand. Fails if that is no tensor.
pub fn expand(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let (x, shape) = (call.window(0)?.clone(), call.shape()?);
    Ok(call.expand(&x, &shape).map(Arg::Leaf))
}
