//! Views and joins: windows on values, which are copied only where somebody needs the elements side by side.

use fx_core::{Arg, Array, Class, DType, Graph, NodeId, Op, Result, Tensor, Value, bail, ops};

use super::{Home, Lowered, Lowering, known};
use crate::engine::join::JoinKernel;
use crate::engine::operand::{Layout, Operand};
use crate::engine::tape::pass::Pass;
use crate::engine::tape::{Action, Instruction, Load, Spot, Store, Tape};

impl Lowering<'_> {
    /// Copies windows that were to follow each other, so that they do.
    pub(super) fn settle(&mut self, id: NodeId, at: NodeId) -> Result<()> {
        let Some(Lowered::Joined(parts, axis)) = self.env.get(&id) else { return Ok(()) };
        let (parts, axis) = (parts.clone(), *axis);
        let Some((dtype, shape)) = known(self.gm.graph().node(id)?.ty()) else {
            bail!(Graph, "a join has no type");
        };
        // If all parts have their channels last, the result has, too.
        let layout = match parts.iter().all(Operand::has_channels_last) {
            true => Layout::ChannelsLast,
            false => Layout::RowMajor,
        };
        let out = self.result(dtype, &shape, layout)?;
        let parts: Vec<Operand> = parts
            .into_iter()
            .map(|part| Operand {
                shape: layout.arrange(&part.shape).into_iter().collect(),
                strides: layout.arrange(&part.strides).into_iter().collect(),
                ..part
            })
            .collect();
        let Some(kernel) = JoinKernel::new(&parts, layout.place(axis, shape.len()), out.value) else {
            bail!(Graph, "a join has no parts");
        };
        self.push_kernel(Box::new(kernel), vec![out.value], at);
        self.env.insert(id, Lowered::Tensor(out));
        Ok(())
    }

    /// Brings what is returned into the order that callers expect: joins are copied, and channels that a kernel has put last go back.
    pub(super) fn settle_all(&mut self, arg: &Arg) -> Result<()> {
        for id in arg.leaves() {
            self.settle(*id, *id)?;
            if let Some(Lowered::Tensor(operand)) = self.env.get(id)
                && operand.layout() == Some(Layout::ChannelsLast)
                && self.values[operand.value as usize].home == Home::Memory
            {
                let operand = operand.clone();
                let copy = self.contiguous(&operand, *id)?;
                self.env.insert(*id, Lowered::Tensor(copy));
            }
        }
        Ok(())
    }

    /// Notes the parts of a join, which are copied when somebody needs them side by side.
    pub(super) fn joined(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        let is_stack = op == crate::join::stack::OP;
        if !is_stack && op != crate::join::cat::OP && op != crate::join::concat::OP {
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
                part.shape.insert(axis, 1);
                part.strides.insert(axis, 0);
            }
            if part.dtype != dtype || part.shape.len() != shape.len() {
                return Ok(None);
            }
            windows.push(part);
        }
        let total: usize = windows.iter().map(|part| part.shape[axis]).sum();
        Ok((total == shape[axis]).then_some(Lowered::Joined(windows, axis)))
    }

    /// Copies a window into a value of its own.
    pub(super) fn contiguous(&mut self, x: &Operand, id: NodeId) -> Result<Operand> {
        let value = self.value(Home::Memory, x.dtype, &x.shape)?;
        let (walk, size) = (x.walk(&x.shape)?, x.dtype.size());
        let numel = x.numel().max(1);
        let mut load = Load::new(x, walk);
        let turns = x.numel() > 0 && load.walk.is_turned();
        let is_in_rows = turns || (load.walk.shape.len() > 1 && load.walk.run() >= 64);
        let row = if is_in_rows { load.walk.run() } else { numel };
        let unit = if turns { (4096 / row).max(1) * row } else { row.min(4096) };
        load.find_grid(row);
        let copy = Instruction {
            action: Action::Copy(size),
            inputs: smallvec::smallvec![Spot::Load(0)],
            output: Spot::Store(0),
            per_row: false,
            dtypes: [x.dtype; 2],
            def: None,
        };
        let stores = vec![Store { value, size, per_row: false }];
        let scratch = unit * size;
        let mut tape = Tape::new(
            (x.numel(), row, unit),
            (vec![load], stores),
            Vec::new(),
            (vec![copy], vec![Pass::One(0)]),
            scratch,
        );
        tape.read_panels();
        self.push_kernel(Box::new(tape), vec![value], id);
        Ok(Operand::whole(value, x.dtype, &x.shape))
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
        if let Some(view) = self.try_view(op, bound, &x)? {
            return Ok(Some(view));
        }
        // A reshape of what does not lie in order is a copy first.
        if matches!(op.class, Class::View) && !x.is_contiguous() {
            let n_steps = self.steps.len();
            let n_values = self.values.len();
            let copy = self.contiguous(&x, id)?;
            if let Some(view) = self.try_view(op, bound, &copy)? {
                return Ok(Some(view));
            }
            self.steps.truncate(n_steps);
            self.values.truncate(n_values);
        }
        Ok(None)
    }

    pub(super) fn try_view(&mut self, op: Op, bound: &[Arg], x: &Operand) -> Result<Option<Lowered>> {
        let numel = self.values[x.value as usize].numel;
        let shadow = match &self.shadow {
            Some(shadow) if shadow.numel() >= numel => shadow.clone(),
            _ => Array::zeros(DType::Bool, &[numel])?,
        };
        self.shadow = Some(shadow.clone());
        let window = Tensor::new(shadow.as_strided(&x.shape, &x.strides, x.offset)?);
        let mut args = vec![Arg::Leaf(window)];
        for arg in &bound[1..] {
            args.push(arg.try_flat_map(&mut |_| Ok(Arg::None))?);
        }
        // What refuses bools, or finds that there is no view, is evaluated with its operands.
        let Ok(value) = (op.eval)(&args) else { return Ok(None) };
        let operand = |tensor: &Tensor| -> Option<Lowered> {
            let array = tensor.array().ok()?;
            array.shares_storage(&shadow).then(|| {
                Lowered::Tensor(Operand {
                    value: x.value,
                    dtype: x.dtype,
                    shape: array.shape().into(),
                    strides: array.strides().into(),
                    offset: array.offset(),
                })
            })
        };
        let all = |items: &[Value]| {
            items.iter().map(|item| item.leaf().and_then(operand)).collect::<Option<Vec<_>>>()
        };
        Ok(match &value {
            Arg::Leaf(tensor) => operand(tensor),
            Arg::List(items) => all(items).map(Lowered::List),
            Arg::Tuple(items) => all(items).map(Lowered::Tuple),
            _ => None,
        })
    }

    /// Returns the views of operands in a closed graph.
    pub(super) fn views_in(&mut self, body: &Graph, operands: &[Operand]) -> Result<Vec<(NodeId, Operand)>> {
        let placeholders = body.placeholders();
        let mut views = Vec::new();
        for (id, node) in body.nodes() {
            let Some(op) = node.op().filter(|op| matches!(op.class, Class::View)) else { continue };
            let bound = op.bind(node.args(), node.kwargs())?;
            let of =
                bound.first().and_then(Arg::leaf).and_then(|x| placeholders.iter().position(|id| id == x));
            if let Some(i) = of
                && bound[1..].iter().all(|arg| arg.leaves().is_empty())
                && let Some(Lowered::Tensor(view)) = self.try_view(op, &bound, &operands[i])?
            {
                views.push((id, view));
            }
        }
        Ok(views)
    }
}
