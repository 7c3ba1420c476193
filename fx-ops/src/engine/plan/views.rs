//! Views and joins: windows on values, which are copied only where somebody needs the elements side by side;
//! and borders around them.

use std::marker::PhantomData;

use fx_core::pointwise::held;
use fx_core::window::Window;
use fx_core::{Arg, Class, DType, Graph, NodeId, Op, Result, TypeTree, bail, ops};
use rustc_hash::FxHashMap;

use super::{Lower, Lowered, Lowering, known};
use crate::engine::concat::ConcatKernel;
use crate::engine::kernel::Kernel;
use crate::engine::operand::{Layout, NO_ID, Operand, OperandId};
use crate::engine::pad::PadKernel;
use crate::engine::record::{Instance, Record, Shape};
use crate::engine::step::Home;
use crate::engine::tape::Tape;
use crate::engine::tape::draft::bits_of;
use crate::fusible::ints;
use crate::kernel::pad::{Mode, Padding};
use crate::ops::concat::{cat, concat, stack};
use crate::ops::pad::{mode_of, pad, pairs};
use crate::ops::view::{flip, roll, shifts_of_axes};

pub(super) static TABLE: &[(Op, Lower)] = &[
    (cat::OP, join),
    (concat::OP, join),
    (flip::OP, rearrangement),
    (pad::OP, borders),
    (roll::OP, rearrangement),
    (stack::OP, join),
];

/// Notes the parts of a join, which are copied when somebody needs them side by side.
fn join(l: &mut Lowering<'_>, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let is_stack = op == stack::OP;
    let [list, Arg::Int(axis)] = bound else { return Ok(None) };
    let (Some(parts), Some((dtype, shape))) = (l.operands(list), known(l.gm.graph().node(id)?.ty())) else {
        return Ok(None);
    };
    let axis = ops::axis(*axis, shape.len())?;
    let mut windows = Vec::new();
    for mut part in parts {
        if is_stack && axis <= part.shape.len() {
            let window = l.expressions(&part, 0).unsqueeze(axis);
            part = l.operand(part.value, &window)?;
        }
        if part.dtype != dtype || part.shape.len() != shape.len() {
            return Ok(None);
        }
        windows.push(part);
    }
    let total: usize = windows.iter().map(|part| part.shape[axis]).sum();
    Ok((total == shape[axis]).then_some(Lowered::Concat(windows, axis)))
}

/// Makes a kernel of borders.
fn borders(l: &mut Lowering<'_>, _: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let [x, _, Arg::Str(mode), value] = bound else { return Ok(None) };
    let (Some(x), Some((dtype, shape))) = (l.tensor(x), l.typed(id)?) else { return Ok(None) };
    let value = match value {
        Arg::None => None,
        arg => match arg.scalar() {
            Some(value) => Some(value),
            None => return Ok(None),
        },
    };
    if value.is_some_and(|value| held(value, dtype).is_err()) {
        return Ok(None);
    }
    let mode = mode_of(mode, value);
    let fill = match mode {
        Mode::Constant(number) => bits_of(number, dtype),
        _ => 0,
    };
    l.rearranged(x, (dtype, shape), fill, bound, id, move |args, shape| {
        let sides = args.get(1).and_then(ints)?;
        Some(Rearrangement::Borders(pairs(shape.len(), &sides), mode))
    })
}

/// Makes a kernel of a roll or of reversed axes.
fn rearrangement(l: &mut Lowering<'_>, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    // A roll without axes takes all elements for one.
    let is_roll = op == roll::OP && bound.get(2).and_then(ints).is_some_and(|axes| !axes.is_empty());
    if !is_roll && op != flip::OP {
        return Ok(None);
    }
    let (Some(x), Some(typed)) = (bound.first().and_then(|x| l.tensor(x)), l.typed(id)?) else {
        return Ok(None);
    };
    l.rearranged(x, typed, 0, bound, id, move |args, shape| {
        if is_roll {
            let (shifts, axes) = (ints(args.get(1)?)?, ints(args.get(2)?)?);
            return shifts_of_axes(shape, &shifts, &axes).ok().map(Rearrangement::Rolled);
        }
        let mut is_reversed = vec![false; shape.len()];
        for axis in ints(args.get(1)?)? {
            is_reversed[ops::axis(axis, shape.len()).ok()?] = true;
        }
        Some(Rearrangement::Reversed(is_reversed))
    })
}

/// Where the elements of a result come from, by axes as these are counted.
enum Rearrangement {
    Borders(Vec<[i64; 2]>, Mode),
    Rolled(Vec<i64>),
    Reversed(Vec<bool>),
}

impl Lowering<'_> {
    /// Copies windows that were to follow each other, so that they do.
    pub(super) fn settle(&mut self, id: NodeId, at: NodeId) -> Result<()> {
        let Some(Lowered::Concat(parts, axis)) = self.env.get(&id) else { return Ok(()) };
        let (parts, axis) = (parts.clone(), *axis);
        let Some((dtype, shape)) = self.typed(id)? else {
            bail!(Graph, "a join has no type");
        };
        // If all parts have their channels last, the result has, too.
        let layout = match parts.iter().all(Operand::has_channels_last) {
            true => Layout::ChannelsLast,
            false => Layout::RowMajor,
        };
        let axis = layout.place(axis, shape.len());
        let out = self.result(dtype, shape, layout)?;
        let (parts, value): (Vec<OperandId>, _) = (parts.iter().map(|part| part.id).collect(), out.value);
        let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
            let part = |id: &OperandId| {
                let part = instance.operand(*id)?.clone();
                let shape = layout.arrange(&part.shape).into_iter().collect();
                let strides = layout.arrange(&part.strides).into_iter().collect();
                Ok(Operand { shape, strides, id: NO_ID, ..part })
            };
            let parts = parts.iter().map(part).collect::<Result<Vec<_>>>()?;
            Ok(ConcatKernel::new(&parts, axis, value).map(|kernel| Box::new(kernel) as Box<dyn Kernel>))
        };
        if !self.kernel(vec![value], at, make)? {
            bail!(Graph, "a join has no parts");
        }
        self.env.insert(id, Lowered::Tensor(out));
        Ok(())
    }

    /// Brings what is returned into the order that callers expect: joins are copied, and channels that a
    /// kernel has put last go back.
    pub(super) fn settle_all(&mut self, arg: &Arg) -> Result<()> {
        for id in arg.leaves() {
            self.settle(*id, *id)?;
            if let Some(Lowered::Tensor(operand)) = self.env.get(id)
                && operand.layout() == Some(Layout::ChannelsLast)
                && self.instance.values[operand.value as usize].home == Home::Memory
            {
                let operand = operand.clone();
                let copy = self.contiguous(&operand, *id)?;
                self.env.insert(*id, Lowered::Tensor(copy));
            }
        }
        Ok(())
    }

    /// Makes a kernel that copies elements from where a function of the arguments and the sizes says, in the
    /// order in which they lie.
    fn rearranged(
        &mut self,
        x: Operand,
        (dtype, shape): (DType, Shape),
        fill: u64,
        bound: &[Arg],
        id: NodeId,
        from: impl Fn(&[Arg], &[usize]) -> Option<Rearrangement> + Send + Sync + 'static,
    ) -> Result<Option<Lowered>> {
        let mark = self.mark();
        let (x, layout) = self.without_gaps(x, id)?;
        let out = self.result(dtype, shape, layout)?;
        let (out_value, x) = (out.value, x.id);
        let (args, holes) = self.symbolic_args(bound, id)?;
        let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
            let (x, out) = (instance.operand(x)?.clone(), out_value);
            let Some(from) = from(&instance.fill(&args, &holes)?, &x.shape) else { return Ok(None) };
            let old = layout.arrange(&x.shape);
            let padding = match from {
                Rearrangement::Borders(pairs, mode) => Padding::new(&old, &layout.arrange(&pairs), mode)?,
                Rearrangement::Rolled(shifts) => Padding::rolled(&old, &layout.arrange(&shifts))?,
                Rearrangement::Reversed(axes) => Padding::reversed(&old, &layout.arrange(&axes))?,
            };
            Ok(Some(match dtype.size() {
                1 => Box::new(PadKernel::<u8> { padding, x, fill, out, this: PhantomData }),
                2 => Box::new(PadKernel::<u16> { padding, x, fill, out, this: PhantomData }),
                4 => Box::new(PadKernel::<u32> { padding, x, fill, out, this: PhantomData }),
                _ => Box::new(PadKernel::<u64> { padding, x, fill, out, this: PhantomData }),
            }))
        };
        if !self.kernel(vec![out_value], id, make)? {
            self.rewind(&mark);
            return Ok(None);
        }
        Ok(Some(Lowered::Tensor(out)))
    }

    /// Copies a window into a value of its own.
    pub(super) fn contiguous(&mut self, x: &Operand, id: NodeId) -> Result<Operand> {
        let shape = self.shape_of(x);
        let value = self.value(Home::Memory, x.dtype, shape.clone())?;
        let x = x.id;
        self.kernel(vec![value], id, move |instance| {
            Ok(Some(Box::new(Tape::copy(instance.operand(x)?, value)?)))
        })?;
        self.whole(value, shape)
    }

    /// Returns elements that follow each other without gaps, copied if they do not, and the order of their axes.
    pub(super) fn without_gaps(&mut self, x: Operand, id: NodeId) -> Result<(Operand, Layout)> {
        match x.layout() {
            Some(layout) => Ok((x, layout)),
            None => Ok((self.contiguous(&x, id)?, Layout::RowMajor)),
        }
    }

    /// Makes windows of a view; `None` if the operation is none.
    pub(super) fn view(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        if op.windows.is_none() {
            return Ok(None);
        }
        let symbolic = self.symbolic(id).filter(|ty| ty.is_complete()).cloned();
        let is_unknown = symbolic.is_none();
        let (nodes, ty) = match symbolic.filter(|_| self.symbolic_record().is_some()) {
            Some(ty) => (self.symbolic_args(bound, id)?.0, ty),
            None => match self.gm.graph().node(id)?.ty().filter(|ty| ty.is_complete()) {
                Some(ty) => (bound.to_vec(), ty.clone()),
                None => return Ok(None),
            },
        };
        let Some(mut args) = nodes.iter().map(|arg| self.operands_in(arg)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        if is_unknown {
            self.record.iter_mut().for_each(Record::give_up);
        }
        if let Some(view) = self.windows(op, &args, &ty)? {
            return Ok(Some(view));
        }
        // A reshape of what does not lie in order is a copy first.
        let Some(x) = args.first_mut().filter(|_| matches!(op.class, Class::View)) else { return Ok(None) };
        if x.leaves().into_iter().all(Operand::is_contiguous) {
            return Ok(None);
        }
        let mark = self.mark();
        *x = x.try_flat_map(&mut |x: &Operand| {
            Ok(Arg::Leaf(if x.is_contiguous() { x.clone() } else { self.contiguous(x, id)? }))
        })?;
        let view = self.windows(op, &args, &ty)?;
        if view.is_none() {
            self.rewind(&mark);
        }
        Ok(view)
    }

    /// Returns an argument with operands in the place of nodes, if these are tensors that lie somewhere.
    fn operands_in(&self, arg: &Arg) -> Option<Arg<Operand>> {
        fn of(lowered: &Lowered) -> Option<Arg<Operand>> {
            let all = |items: &[Lowered]| items.iter().map(of).collect::<Option<Vec<_>>>();
            match lowered {
                Lowered::Tensor(operand) => Some(Arg::Leaf(operand.clone())),
                Lowered::List(items) => all(items).map(Arg::list),
                Lowered::Tuple(items) => all(items).map(Arg::tuple),
                Lowered::Value(_) | Lowered::Concat(..) => None,
            }
        }
        let known = arg.try_flat_map(&mut |id| match self.env.get(id).and_then(of) {
            Some(operands) => Ok(operands),
            None => bail!(Unresolved, "an operand has no place"),
        });
        known.ok()
    }

    /// Makes the windows of a view of these operands, whose result has this type.
    fn windows(&mut self, op: Op, args: &[Arg<Operand>], ty: &TypeTree) -> Result<Option<Lowered>> {
        let mut operands: Vec<Operand> = Vec::new();
        let mut window = |x: &Operand| {
            operands.push(x.clone());
            self.expressions(x, operands.len() - 1)
        };
        let args: Vec<Arg<Window>> = args.iter().map(|arg| arg.map(&mut window)).collect();
        // What the operation refuses is evaluated with its operands, so that the error is its own.
        let Ok(Some(found)) = op.windows_of(&args, ty) else { return Ok(None) };
        let dtypes = ty.leaves().into_iter().map(|ty| ty.tensor().map(|ty| ty.dtype));
        let on = |window: &Window| operands.get(window.base).map(|x| x.dtype);
        let is_so = found.result.leaves().into_iter().map(on).eq(dtypes);
        if !is_so || !found.requires.iter().all(|dim| self.require(dim)) {
            return Ok(None);
        }
        let mark = self.mark();
        let mut on = |window: &Window| match self.operand_inside(operands[window.base].value, window) {
            Some(operand) => Ok(Arg::Leaf(operand)),
            None => bail!(Unresolved, "a window reaches past its operand"),
        };
        match found.result.try_flat_map(&mut on) {
            Ok(result) => Ok(lowered(&result)),
            Err(_) => {
                self.rewind(&mark);
                Ok(None)
            }
        }
    }

    /// Returns the views of operands in a closed graph, whose types, and types with symbols, are these.
    pub(super) fn views_in(
        &mut self,
        body: &Graph,
        (types, symbolic): (&FxHashMap<NodeId, TypeTree>, &FxHashMap<NodeId, TypeTree>),
        operands: &[Operand],
    ) -> Result<Vec<(NodeId, Operand)>> {
        let placeholders = body.placeholders();
        let mut views = Vec::new();
        for (id, node) in body.nodes() {
            let Some(op) = node.op().filter(|op| matches!(op.class, Class::View)) else { continue };
            let types = if self.symbolic_record().is_some() { symbolic } else { types };
            let bound = op.bind(node.args(), node.kwargs())?;
            let of = |id: &NodeId| match placeholders.iter().position(|other| other == id) {
                Some(i) => Ok(Arg::Leaf(operands[i].clone())),
                None => bail!(Unresolved, "an operand of a view is computed in the group"),
            };
            let args = bound.iter().map(|arg| arg.try_flat_map(&mut |id| of(id))).collect::<Result<Vec<_>>>();
            if let (Ok(args), Some(ty)) = (args, types.get(&id))
                && let Some(Lowered::Tensor(view)) = self.windows(op, &args, ty)?
            {
                views.push((id, view));
            }
        }
        Ok(views)
    }
}

/// Returns operands as what a node has become.
fn lowered(operands: &Arg<Operand>) -> Option<Lowered> {
    let all = |items: &[Arg<Operand>]| items.iter().map(lowered).collect::<Option<Vec<_>>>();
    match operands {
        Arg::Leaf(operand) => Some(Lowered::Tensor(operand.clone())),
        Arg::List(items) => all(items).map(Lowered::List),
        Arg::Tuple(items) => all(items).map(Lowered::Tuple),
        _ => None,
    }
}
