//! Views and joins: windows on values, which are copied only where somebody needs the elements side by side;
//! and borders around them.

use std::marker::PhantomData;

use fx_core::pointwise::held;
use fx_core::{Arg, Array, Class, DType, Graph, NodeId, Op, Result, Tensor, TypeTree, Value, bail, ops};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::follow::Follows;
use super::{Lowered, Lowering, known};
use crate::engine::concat::ConcatKernel;
use crate::engine::kernel::Kernel;
use crate::engine::operand::{Layout, NO_ID, Operand, OperandId};
use crate::engine::pad::PadKernel;
use crate::engine::record::{Holes, Instance, Operands, Shape, Size, shadow};
use crate::engine::step::Home;
use crate::engine::tape::Tape;
use crate::engine::tape::draft::bits_of;
use crate::fusible::ints;
use crate::kernel::pad::{Mode, Padding};
use crate::ops::pad::{mode_of, pad, pairs};
use crate::ops::view::{flip, roll, shifts_of_axes};

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

    /// Notes the parts of a join, which are copied when somebody needs them side by side.
    pub(super) fn concat(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        let is_stack = op == crate::ops::concat::stack::OP;
        if !is_stack && op != crate::ops::concat::cat::OP && op != crate::ops::concat::concat::OP {
            return Ok(None);
        }
        let [list, Arg::Int(axis)] = bound else { return Ok(None) };
        let (Some(parts), Some((dtype, shape))) =
            (self.operands(list), known(self.gm.graph().node(id)?.ty()))
        else {
            return Ok(None);
        };
        let axis = ops::axis(*axis, shape.len())?;
        let mut windows = Vec::new();
        for mut part in parts {
            if is_stack && axis <= part.shape.len() {
                let mut shape = self.shape_of(&part);
                shape.insert(axis, Size::Known(1));
                let id = part.id;
                part = self.operand_by(shape, move |instance| {
                    let mut part = instance.operand(id)?.clone();
                    part.shape.insert(axis, 1);
                    part.strides.insert(axis, 0);
                    Ok(part)
                })?;
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
    pub(super) fn pad(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        let [x, _, Arg::Str(mode), value] = bound else { return Ok(None) };
        let (Some(Lowered::Tensor(x)), true, Some((dtype, shape))) =
            (x.leaf().and_then(|id| self.env.get(id)).cloned(), op == pad::OP, self.typed(id)?)
        else {
            return Ok(None);
        };
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
        self.rearranged(x, (dtype, shape), fill, bound, id, move |args, shape| {
            let sides = args.get(1).and_then(ints)?;
            Some(Rearrangement::Borders(pairs(shape.len(), &sides), mode))
        })
    }

    /// Makes a kernel of a roll or of reversed axes.
    pub(super) fn turned(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        // A roll without axes takes all elements for one.
        let is_roll = op == roll::OP && bound.get(2).and_then(ints).is_some_and(|axes| !axes.is_empty());
        if !is_roll && op != flip::OP {
            return Ok(None);
        }
        let (Some(Lowered::Tensor(x)), Some(typed)) =
            (bound.first().and_then(Arg::leaf).and_then(|id| self.env.get(id)).cloned(), self.typed(id)?)
        else {
            return Ok(None);
        };
        self.rearranged(x, typed, 0, bound, id, move |args, shape| {
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
        let x = match x.layout() {
            Some(_) => x,
            None => self.contiguous(&x, id)?,
        };
        let layout = x.layout().unwrap_or(Layout::RowMajor);
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

    /// Makes a window of a view; `None` if the operation is none.
    pub(super) fn view(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        let gives_views =
            matches!(op.class, Class::View) || op == ops::getitem::OP || op.returns == "Vec<Tensor>";
        let Some(Lowered::Tensor(x)) = bound.first().and_then(Arg::leaf).and_then(|id| self.env.get(id))
        else {
            return Ok(None);
        };
        let x = x.clone();
        let others_are_literals = bound[1..].iter().all(|arg| arg.leaves().is_empty());
        if !gives_views || !others_are_literals {
            return Ok(None);
        }
        let (args, holes) = self.symbolic_args(bound, id)?;
        let (args, ty) = (literals(&args)?, self.symbolic(id).cloned());
        if let Some(view) = self.try_view(op, (args.clone(), holes.clone()), &x, ty.as_ref())? {
            return Ok(Some(view));
        }
        // A reshape of what does not lie in order is a copy first.
        if matches!(op.class, Class::View) && !x.is_contiguous() {
            let mark = self.mark();
            let copy = self.contiguous(&x, id)?;
            if let Some(view) = self.try_view(op, (args, holes), &copy, ty.as_ref())? {
                return Ok(Some(view));
            }
            self.rewind(&mark);
        }
        Ok(None)
    }

    /// Makes windows of a view with these arguments after the operand; `ty` is what it gives, with symbols.
    fn try_view(
        &mut self,
        op: Op,
        (args, holes): (Vec<Value>, Holes),
        x: &Operand,
        ty: Option<&TypeTree>,
    ) -> Result<Option<Lowered>> {
        let x = x.id;
        let Some((value, shadow)) = view(&self.instance, op, self.instance.fill(&args, &holes)?, x)? else {
            return Ok(None);
        };
        let Some(made) = views(&value, &shadow, self.instance.operand(x)?) else { return Ok(None) };
        let items = match (ty, &value) {
            (Some(Arg::List(items) | Arg::Tuple(items)), Arg::List(_) | Arg::Tuple(_)) => items.to_vec(),
            (ty, _) => ty.cloned().into_iter().collect(),
        };
        let shapes: Vec<_> =
            made.iter().enumerate().map(|(i, x)| self.shape(items.get(i), &x.shape)).collect();
        let has_holes = !holes.is_empty();
        let follows: Option<SmallVec<[Follows; 1]>> = self.record.as_ref().and_then(|_| {
            let from = self.instance.operand(x).ok()?;
            let from = (from, &self.shapes[x as usize]);
            let literals = (!has_holes).then_some(&args[..]);
            made.iter().zip(&shapes).map(|to| Follows::find(op, literals, from, to)).collect()
        });
        let operands = match follows {
            Some(follows) => {
                let sizes = shapes.clone();
                self.enter(made, shapes, has_holes, move |instance| {
                    let x = instance.operand(x)?;
                    let all = follows.iter().zip(&sizes);
                    let all = all.map(|(follows, sizes)| Ok(follows.of(x, instance.sizes(sizes)?)));
                    all.collect::<Result<Option<Operands>>>()
                })
            }
            None => self.enter(made, shapes, has_holes, move |instance| {
                let Some((value, shadow)) = view(instance, op, instance.fill(&args, &holes)?, x)? else {
                    return Ok(None);
                };
                Ok(views(&value, &shadow, instance.operand(x)?))
            }),
        };
        let mut operands = operands.into_iter().map(Lowered::Tensor);
        Ok(match value {
            Arg::Leaf(_) => operands.next(),
            Arg::List(_) => Some(Lowered::List(operands.collect())),
            Arg::Tuple(_) => Some(Lowered::Tuple(operands.collect())),
            _ => None,
        })
    }

    /// Returns the views of operands in a closed graph, whose types with symbols are these.
    pub(super) fn views_in(
        &mut self,
        body: &Graph,
        types: &FxHashMap<NodeId, TypeTree>,
        operands: &[Operand],
    ) -> Result<Vec<(NodeId, Operand)>> {
        let placeholders = body.placeholders();
        let mut views = Vec::new();
        for (id, node) in body.nodes() {
            let Some(op) = node.op().filter(|op| matches!(op.class, Class::View)) else { continue };
            let bound = op.bind(node.args(), node.kwargs())?;
            let of =
                bound.first().and_then(Arg::leaf).and_then(|x| placeholders.iter().position(|id| id == x));
            if let Some(i) = of
                && bound[1..].iter().all(|arg| arg.leaves().is_empty())
            {
                let holes = match &mut self.record {
                    Some(record) => record.holes(&bound, &mut self.instance),
                    None => Holes::new(),
                };
                let args = (literals(&bound)?, holes);
                if let Some(Lowered::Tensor(view)) = self.try_view(op, args, &operands[i], types.get(&id))? {
                    views.push((id, view));
                }
            }
        }
        Ok(views)
    }
}

/// Returns the arguments after the first, which have no tensors.
fn literals(args: &[Arg]) -> Result<Vec<Value>> {
    args[1..].iter().map(|arg| arg.try_flat_map(&mut |_| Ok(Arg::None))).collect()
}

/// Returns what an operation with these arguments after the first does to an array that lies as an operand,
/// and the array; `None` if it refuses.
fn view(instance: &Instance, op: Op, args: Vec<Value>, x: OperandId) -> Result<Option<(Value, Array)>> {
    let x = instance.operand(x)?;
    let shadow = shadow(instance.values[x.value as usize].numel)?;
    let window = Tensor::new(shadow.as_strided(&x.shape, &x.strides, x.offset)?);
    let args: Vec<Value> = std::iter::once(Arg::Leaf(window)).chain(args).collect();
    // What refuses bools, or finds that there is no view, is evaluated with its operands.
    Ok((op.eval)(&args).ok().map(|value| (value, shadow)))
}

/// Returns the windows that an operation gave on the array of an operand; `None` if it made others.
fn views(value: &Value, shadow: &Array, x: &Operand) -> Option<Operands> {
    let operand = |tensor: &Tensor| -> Option<Operand> {
        let array = tensor.array().ok()?;
        array.shares_storage(shadow).then(|| Operand {
            value: x.value,
            dtype: x.dtype,
            shape: array.shape().into(),
            strides: array.strides().into(),
            offset: array.offset(),
            id: NO_ID,
        })
    };
    match value {
        Arg::Leaf(tensor) => Some(std::iter::once(operand(tensor)?).collect()),
        Arg::List(items) | Arg::Tuple(items) => {
            items.iter().map(|item| item.leaf().and_then(operand)).collect()
        }
        _ => None,
    }
}
