//! In-place code as values: tensors are views of storages, and a write to a view is scattered into its storage.
//!
//! Every tensor of the program is a [`View`]: a storage and the [`Step`]s that lead from it to the tensor. A
//! write gives the storage a new value and a new version; a view that is older is made again, by its steps,
//! when it is next read. So every alias sees every write, in program order, and the graph holds no write at
//! all.

use std::rc::Rc;

use fx_core::array::{is_row_major, reshaped, row_major};
use fx_core::{Sizes, Strides};

use super::build::{Attempt, Builder};
use crate::{Arg, DType, NodeId, TensorType, bail, err};

/// What was written to together.
pub(super) struct Storage {
    /// The present value of the whole.
    pub(super) value: NodeId,
    /// How often it was written to.
    pub(super) version: u32,
    /// What keeps the value after the call.
    pub(super) origin: Origin,
    /// Whether there are views of a part of it, or in another shape.
    pub(super) is_viewed: bool,
}

/// What keeps a storage after the call.
#[derive(Clone, PartialEq)]
pub(super) enum Origin {
    /// Nothing: a value of the program.
    Local,
    /// The caller.
    Input,
    /// The caller, which lets it take other sizes: a tensor of a program that runs operator by operator.
    Resizable,
    /// A parameter or constant, which no call may change.
    Fixed(String),
    /// The buffer of this name.
    Buffer(String),
}

/// A tensor of the program.
#[derive(Clone)]
pub(super) struct View {
    pub(super) storage: usize,
    pub(super) steps: Option<Rc<Step>>,
    /// The value, when the storage had this version.
    pub(super) node: NodeId,
    pub(super) version: u32,
}

/// One view of another; the outer ones come first.
pub(super) struct Step {
    parent: Option<Rc<Step>>,
    kind: StepKind,
}

/// What a view shows.
#[derive(Clone)]
pub(super) enum StepKind {
    /// The same elements in these sizes.
    Reshape(Vec<Arg>),
    /// The axes in this order.
    Permute(Vec<usize>),
    /// One index of an axis.
    Select { dim: i64, index: Arg },
    /// A range of an axis.
    Slice { dim: i64, start: Arg, end: Arg, step: Arg },
    /// A diagonal.
    Diagonal { offset: Arg, dim1: Arg, dim2: Arg },
    /// Elements repeated along axes of size 1.
    Expand(Vec<Arg>),
    /// Elements by strides, counted in row-major order.
    Strided { size: Arg, stride: Arg, offset: Arg },
    /// The bytes as another dtype.
    Bits(DType),
}

impl Drop for Step {
    /// Frees a long chain without recursion.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(step) = next {
            next = Rc::try_unwrap(step).ok().and_then(|mut step| step.parent.take());
        }
    }
}

impl View {
    /// Returns whether it is the whole storage, as it lies.
    pub(super) fn is_whole(&self) -> bool {
        self.steps.is_none()
    }

    /// Returns whether the elements certainly lie one after the other, if those of the storage do.
    pub(super) fn is_dense(&self) -> bool {
        self.path().iter().all(|step| match &step.kind {
            StepKind::Reshape(_) | StepKind::Bits(_) => true,
            StepKind::Select { dim, .. } => *dim == 0,
            StepKind::Slice { dim, step, .. } => *dim == 0 && matches!(step, Arg::Int(1)),
            StepKind::Permute(axes) => axes.iter().copied().eq(0..axes.len()),
            StepKind::Diagonal { .. } | StepKind::Expand(_) | StepKind::Strided { .. } => false,
        })
    }

    /// Returns the sizes and strides of the tensor in a storage of these sizes, whose elements lie one after the
    /// other; `None` if they are not known.
    fn layout(&self, storage: &[usize]) -> Option<(Sizes, Strides)> {
        let mut sizes = Sizes::from_slice(storage);
        let mut strides = row_major(&sizes);
        let int = |arg: &Arg| match arg {
            Arg::Int(n) => Some(*n),
            Arg::Dim(dim) => dim.known(),
            _ => None,
        };
        let axis = |dim: i64, rank: usize| {
            let at = usize::try_from(if dim < 0 { dim + rank as i64 } else { dim }).ok();
            at.filter(|&at| at < rank)
        };
        for step in self.path() {
            match &step.kind {
                StepKind::Reshape(args) => {
                    let mut new = args.iter().map(int).collect::<Option<Vec<i64>>>()?;
                    let known: i64 = new.iter().filter(|&&n| n >= 0).product();
                    let numel = i64::try_from(sizes.iter().product::<usize>()).ok()?;
                    for n in new.iter_mut().filter(|n| **n < 0) {
                        *n = numel.checked_div(known)?;
                    }
                    let new: Sizes = new.into_iter().map(usize::try_from).collect::<Result<_, _>>().ok()?;
                    strides = reshaped(&sizes, &strides, &new)?;
                    sizes = new;
                }
                StepKind::Permute(axes) => {
                    let pick = |&at: &usize| Some((*sizes.get(at)?, *strides.get(at)?));
                    let both = axes.iter().map(pick).collect::<Option<Vec<_>>>()?;
                    (sizes, strides) = both.into_iter().unzip();
                }
                StepKind::Select { dim, .. } => {
                    let at = axis(*dim, sizes.len())?;
                    sizes.remove(at);
                    strides.remove(at);
                }
                StepKind::Slice { dim, start, end, step } => {
                    let at = axis(*dim, sizes.len())?;
                    let n = sizes[at] as i64;
                    let place = |arg: &Arg, default: i64| match arg {
                        Arg::None => Some(default),
                        arg => int(arg).map(|i| if i < 0 { i.saturating_add(n) } else { i }.clamp(0, n)),
                    };
                    let (start, end, step) = (place(start, 0)?, place(end, n)?, int(step)?.max(1));
                    sizes[at] = usize::try_from((end - start).max(0)).ok()?.div_ceil(step as usize);
                    strides[at] = strides[at].checked_mul(step as isize)?;
                }
                StepKind::Diagonal { .. }
                | StepKind::Bits(_)
                | StepKind::Expand(_)
                | StepKind::Strided { .. } => return None,
            }
        }
        Some((sizes, strides))
    }

    /// Returns the steps, innermost storage first.
    fn path(&self) -> Vec<Rc<Step>> {
        let mut path = Vec::new();
        let mut next = self.steps.clone();
        while let Some(step) = next {
            next = step.parent.clone();
            path.push(step);
        }
        path.reverse();
        path
    }
}

impl Builder<'_> {
    /// Returns whether the elements of a tensor lie one after the other, if those of its storage do. Axes of
    /// size 1 may have any stride, where sizes are known.
    pub(super) fn is_contiguous(&self, view: &View) -> bool {
        view.is_dense() || self.layout(view).is_some_and(|(sizes, strides)| is_row_major(&sizes, &strides))
    }

    /// Returns whether a view with other sizes shares the elements of a tensor, as PyTorch decides by its strides.
    /// Without known sizes it does if the sizes are the same, or the elements lie one after the other.
    pub(super) fn is_viewable(&self, view: &View, new: &[crate::Dim]) -> bool {
        let numbers =
            |sizes: &[usize]| sizes.iter().map(|&size| i64::try_from(size).ok()).collect::<Option<Vec<_>>>();
        let known = || {
            let (sizes, strides) = self.layout(view)?;
            let strides =
                strides.iter().map(|&stride| i64::try_from(stride).ok()).collect::<Option<Vec<_>>>()?;
            let new = new.iter().map(crate::Dim::known).collect::<Option<Vec<i64>>>()?;
            Some(is_viewable(&numbers(&sizes)?, &strides, &new))
        };
        let same = || self.tensor_type(view.node).is_ok_and(|ty| ty.shape[..] == *new);
        known().unwrap_or_else(|| view.is_dense() || same())
    }

    /// Returns sizes and strides of a view, if the sizes are known.
    fn layout(&self, view: &View) -> Option<(Sizes, Strides)> {
        let whole = self.tensor_type(self.storages[view.storage].value).ok()?;
        let size = |dim: &crate::Dim| usize::try_from(dim.known()?).ok();
        view.layout(&whole.shape.iter().map(size).collect::<Option<Vec<usize>>>()?)
    }

    /// Makes a tensor that shares nothing.
    pub(super) fn fresh(&mut self, node: NodeId, origin: Origin) -> View {
        self.storages.push(Storage { value: node, version: 0, origin, is_viewed: false });
        View { storage: self.storages.len() - 1, steps: None, node, version: 0 }
    }

    /// Makes a view of a view, whose value is `node`.
    pub(super) fn view(&mut self, of: &View, kind: StepKind, node: NodeId) -> View {
        let steps = Some(Rc::new(Step { parent: of.steps.clone(), kind }));
        self.storages[of.storage].is_viewed = true;
        View { storage: of.storage, steps, node, version: self.storages[of.storage].version }
    }

    /// Returns the present value of a tensor.
    pub(super) fn current(&mut self, view: &View) -> Attempt<NodeId> {
        let storage = &self.storages[view.storage];
        if view.version == storage.version {
            return Ok(view.node);
        }
        let mut node = storage.value;
        for step in view.path() {
            node = self.replay(view.storage, &step, node)?;
        }
        Ok(node)
    }

    /// Applies a step to the present value of what it is a view of, once for each version.
    fn replay(&mut self, storage: usize, step: &Rc<Step>, base: NodeId) -> Attempt<NodeId> {
        let key = (storage, self.storages[storage].version, Rc::as_ptr(step) as usize);
        if let Some((node, _)) = self.replayed.get(&key) {
            return Ok(*node);
        }
        let node = self.apply_step(&step.kind, base)?;
        // The step is kept, so that no other can come to lie at its address.
        self.replayed.insert(key, (node, step.clone()));
        Ok(node)
    }

    fn apply_step(&mut self, kind: &StepKind, base: NodeId) -> Attempt<NodeId> {
        let x = Arg::Leaf(base);
        match kind.clone() {
            StepKind::Reshape(sizes) => self.call("reshape", [x, Arg::list(sizes)]),
            StepKind::Permute(axes) => {
                self.call("permute", [x, Arg::ints(axes.into_iter().map(|axis| axis as i64))])
            }
            StepKind::Select { dim, index } => self.call("select", [x, Arg::Int(dim), index]),
            StepKind::Slice { dim, start, end, step } => {
                self.call("slice", [x, Arg::Int(dim), start, end, step])
            }
            StepKind::Diagonal { offset, dim1, dim2 } => self.call("diagonal", [x, offset, dim1, dim2]),
            StepKind::Expand(sizes) => self.call("expand", [x, Arg::list(sizes)]),
            StepKind::Strided { size, stride, offset } => self.call("as_strided", [x, size, stride, offset]),
            StepKind::Bits(dtype) => self.call("view_dtype", [x, Arg::DType(dtype)]),
        }
    }

    /// Writes `new`, of the type of the tensor, to the tensor and so to everything that shares its storage.
    pub(super) fn write(&mut self, view: &View, new: NodeId) -> Attempt<()> {
        if let Origin::Fixed(name) = &self.storages[view.storage].origin {
            return Err(err!(Load, "the program writes to {name:?}, which is no buffer")
                .help("register what changes as a buffer: `self.register_buffer`")
                .into());
        }
        let path = view.path();
        let mut base = self.storages[view.storage].value;
        let mut bases = Vec::with_capacity(path.len());
        for step in &path {
            bases.push(base);
            base = self.replay(view.storage, step, base)?;
        }
        let mut value = new;
        for (step, base) in path.iter().zip(bases).rev() {
            value = self.scatter(&step.kind, base, value)?;
        }
        let storage = &mut self.storages[view.storage];
        storage.value = value;
        storage.version += 1;
        if let Some(step) = &view.steps {
            let key = (view.storage, storage.version, Rc::as_ptr(step) as usize);
            self.replayed.insert(key, (new, step.clone()));
        }
        Ok(())
    }

    /// Returns `base` with `value` in the place of its view.
    fn scatter(&mut self, kind: &StepKind, base: NodeId, value: NodeId) -> Attempt<NodeId> {
        let ty = self.tensor_type(base)?;
        let (base, value) = (Arg::Leaf(base), Arg::Leaf(value));
        match kind.clone() {
            StepKind::Reshape(_) => self.call("reshape", [value, sizes_of(&ty)]),
            StepKind::Permute(axes) => {
                let mut inverse = vec![0; axes.len()];
                axes.iter().enumerate().for_each(|(i, &axis)| inverse[axis] = i as i64);
                self.call("permute", [value, Arg::ints(inverse)])
            }
            StepKind::Select { dim, index } => {
                self.call("select_scatter", [base, value, Arg::Int(dim), index])
            }
            StepKind::Slice { dim, start, end, step } => {
                self.call("slice_scatter", [base, value, Arg::Int(dim), start, end, step])
            }
            StepKind::Diagonal { offset, dim1, dim2 } => {
                self.call("diagonal_scatter", [base, value, offset, dim1, dim2])
            }
            StepKind::Expand(sizes) => {
                // The written elements are equal along a repeated axis, or PyTorch had refused: the first one
                // is taken.
                let Arg::Leaf(mut node) = value else { bail_broken()? };
                let extra = sizes.len() - ty.rank();
                for axis in 0..sizes.len() {
                    let kept = axis >= extra && ty.shape[axis - extra].known() != Some(1);
                    if !kept {
                        let (zero, one) = (Arg::Int(0), Arg::Int(1));
                        node = self.call("slice", [Arg::Leaf(node), Arg::Int(axis as i64), zero, one])?;
                    }
                }
                self.call("reshape", [Arg::Leaf(node), sizes_of(&ty)])
            }
            StepKind::Strided { size, stride, offset } => {
                self.call("as_strided_scatter", [base, value, size, stride, offset])
            }
            StepKind::Bits(_) => self.call("view_dtype", [value, Arg::DType(ty.dtype)]),
        }
    }
}

fn bail_broken<T>() -> crate::Result<T> {
    bail!(Graph, "a value is a node")
}

/// Returns the sizes of a type as an argument.
pub(super) fn sizes_of(ty: &TensorType) -> Arg {
    Arg::list(ty.shape.iter().map(|dim| Arg::dim(dim.clone())))
}

/// Returns whether elements in these sizes and strides can be seen in new sizes without copying.
pub fn is_viewable(sizes: &[i64], strides: &[i64], new: &[i64]) -> bool {
    let numel: i64 = sizes.iter().fold(1, |n, &size| n.saturating_mul(size));
    if numel == 0 || sizes.len() != strides.len() {
        return true;
    }
    // From the right: runs of old axes that are contiguous among themselves take whole new axes.
    let mut new = new.iter().rev().copied().filter(|&size| size != 1).peekable();
    let mut old = sizes.iter().zip(strides).rev().filter(|(size, _)| **size != 1).peekable();
    while let Some((&size, &stride)) = old.next() {
        let (mut run, mut step) = (size, stride.saturating_mul(size));
        while let Some((&size, &stride)) = old.peek().copied() {
            if stride != step {
                break;
            }
            run = run.saturating_mul(size);
            step = stride.saturating_mul(size);
            old.next();
        }
        let mut taken = 1i64;
        while taken < run {
            match new.next() {
                Some(size) if size > 0 => taken = taken.saturating_mul(size),
                _ => return false,
            }
        }
        if taken != run {
            return false;
        }
    }
    true
}
