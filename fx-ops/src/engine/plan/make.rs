//! How values, operands and kernels of a plan are made: of expressions, and by functions of its sizes. The record
//! keeps both.

use fx_core::array::{self, Sizes, checked_numel};
use fx_core::window::Window;
use fx_core::{Arg, DType, Dim, Error, NodeId, Result, TypeTree, err};

use super::{Lowering, known};
use crate::engine::kernel::Kernel;
use crate::engine::operand::{Layout, Operand, OperandId, ValueId};
use crate::engine::record::{Holes, Instance, LayoutFacts, Made, Record, Shape, Size, SizedWindow};
use crate::engine::step::{Home, Info, Source, Step, Task};

/// How far a plan is.
pub(super) struct Mark {
    values: usize,
    operands: usize,
    steps: usize,
    made: usize,
}

impl Lowering<'_> {
    /// Makes a value of these sizes.
    pub(super) fn value(&mut self, home: Home, dtype: DType, shape: Shape) -> Result<ValueId> {
        let sizes = self.instance.sizes(&shape)?;
        let numel = checked_numel(&sizes)?;
        self.instance.values.push(Info { home, dtype, shape: sizes, numel });
        self.note(Made::Value(shape));
        Ok(self.instance.values.len() as ValueId - 1)
    }

    /// Makes a value of as many elements as a function says.
    pub(super) fn line(
        &mut self,
        home: Home,
        dtype: DType,
        len: impl Fn(&Instance) -> Result<Option<usize>> + Send + Sync + 'static,
    ) -> Result<Option<ValueId>> {
        let Some(numel) = len(&self.instance)? else { return Ok(None) };
        let numel = checked_numel(&[numel])?;
        self.instance.values.push(Info { home, dtype, shape: [numel].into_iter().collect(), numel });
        self.note(Made::Line(Box::new(len)));
        Ok(Some(self.instance.values.len() as ValueId - 1))
    }

    /// Makes a value whose type is not one tensor.
    pub(super) fn untyped(&mut self) -> ValueId {
        let (home, shape) = (Home::Evaluated, Sizes::new());
        self.instance.values.push(Info { home, dtype: DType::Bool, shape, numel: 0 });
        self.note(Made::Value(Shape::from_slice(&[Size::Known(0)])));
        self.instance.values.len() as ValueId - 1
    }

    pub(super) fn note(&mut self, made: Made) -> u32 {
        self.record.as_mut().map_or(0, |record| record.note(made))
    }

    /// Returns the expressions of an operand, as a window on the memory of this number.
    pub(super) fn expressions(&self, x: &Operand, base: usize) -> Window {
        match (self.symbolic_record(), self.windows.get(x.id as usize)) {
            (Some(record), Some(window)) => record.expressions(base, window),
            _ => {
                let dims = |sizes: &mut dyn Iterator<Item = usize>| sizes.map(Dim::from).collect();
                let (shape, strides) = (&x.shape, &x.strides);
                Window {
                    base,
                    shape: dims(&mut shape.iter().copied()),
                    strides: dims(&mut strides.iter().map(|stride| *stride as usize)),
                    offset: Dim::from(x.offset),
                }
            }
        }
    }

    /// Returns the record, if the plan can still be bound to other sizes.
    pub(super) fn symbolic_record(&self) -> Option<&Record> {
        self.record.as_ref().filter(|record| record.is_complete())
    }

    /// Notes that an expression must not be negative; returns whether it is not.
    pub(super) fn require(&mut self, dim: &Dim) -> bool {
        match (dim.known(), &mut self.record) {
            (Some(n), _) => n >= 0,
            (None, Some(record)) => record.require(dim, &mut self.instance),
            (None, None) => false,
        }
    }

    /// Makes an operand of a window on a value. Fails if the window reaches past it.
    pub(super) fn operand(&mut self, value: ValueId, window: &Window) -> Result<Operand> {
        self.operand_inside(value, window).ok_or_else(past_the_end)
    }

    /// Makes an operand of a window on a value; `None` if it reaches past the value.
    pub(super) fn operand_inside(&mut self, value: ValueId, window: &Window) -> Option<Operand> {
        let window = self.sized(window)?;
        self.operand_of(value, window)
    }

    fn operand_of(&mut self, value: ValueId, window: SizedWindow) -> Option<Operand> {
        let dtype = self.instance.values[value as usize].dtype;
        let operand = self.instance.window(value, dtype, &window)?;
        self.note(Made::Operand(value, dtype, window.clone(), LayoutFacts::of(&operand)));
        let operand = Operand { id: self.instance.operands.len() as OperandId, ..operand };
        self.instance.operands.push(operand.clone());
        self.windows.push(window);
        Some(operand)
    }

    fn sized(&mut self, window: &Window) -> Option<SizedWindow> {
        SizedWindow::of(window, &mut |dim, is_size| match (dim.known(), &mut self.record) {
            (Some(n), _) => usize::try_from(n).ok().map(Size::Known),
            (None, Some(record)) => record.size(dim, is_size, &mut self.instance),
            (None, None) => None,
        })
    }

    /// Returns all elements of a value whose axes lie in this order.
    pub(super) fn laid_out(&mut self, value: ValueId, shape: Shape, layout: Layout) -> Result<Operand> {
        if let Some(sizes) = known_sizes(&shape) {
            let lying = array::row_major(&layout.arrange(&sizes));
            let strides = layout.restore(&lying).into_iter().map(|stride| Size::Known(stride as usize));
            let window = SizedWindow::known(shape, strides.collect());
            return self.operand_of(value, window).ok_or_else(past_the_end);
        }
        let shape: Vec<Dim> = self.dims(&shape);
        let lying = Window::row_major(0, &layout.arrange(&shape));
        let window = Window { strides: layout.restore(&lying.strides).into_vec(), shape, ..lying };
        self.operand(value, &window)
    }

    /// Returns all elements of a value.
    pub(super) fn whole(&mut self, value: ValueId, shape: Shape) -> Result<Operand> {
        self.laid_out(value, shape, Layout::RowMajor)
    }

    /// Returns an operand with its axes in another order.
    pub(super) fn permuted(&mut self, x: &Operand, order: &[usize]) -> Result<Operand> {
        let window = self.expressions(x, 0).permute(order);
        self.operand(x.value, &window)
    }

    /// Returns sizes as expressions.
    fn dims(&self, shape: &[Size]) -> Vec<Dim> {
        let dim = |size: &Size| match (size, &self.record) {
            (Size::Of(_), Some(record)) => record.dim(*size),
            _ => Dim::new(self.instance.number(*size)),
        };
        shape.iter().map(dim).collect()
    }

    /// Returns the sizes of an operand as they are known.
    pub(super) fn shape_of(&self, operand: &Operand) -> Shape {
        match self.windows.get(operand.id as usize) {
            Some(window) => window.shape.clone(),
            None => operand.shape.iter().map(|&n| Size::Known(n)).collect(),
        }
    }

    /// Returns the type of a node with its symbols.
    pub(super) fn symbolic(&self, id: NodeId) -> Option<&TypeTree> {
        self.symbolic.graph().node(id).ok()?.ty()
    }

    /// Returns dtype and sizes of what a node gives, if it is one tensor of known sizes.
    pub(super) fn typed(&mut self, id: NodeId) -> Result<Option<(DType, Shape)>> {
        let Some((dtype, sizes)) = known(self.gm.graph().node(id)?.ty()) else { return Ok(None) };
        let symbolic = self.symbolic(id).cloned();
        Ok(Some((dtype, self.shape(symbolic.as_ref(), &sizes))))
    }

    /// Returns the sizes of a tensor of this type.
    pub(super) fn shape(&mut self, symbolic: Option<&TypeTree>, sizes: &[usize]) -> Shape {
        match &mut self.record {
            Some(record) => record.shape(symbolic, sizes, &mut self.instance),
            None => sizes.iter().map(|&n| Size::Known(n)).collect(),
        }
    }

    /// Returns the arguments of a node with their symbols, and which these are; without symbols, the
    /// arguments that are given.
    pub(super) fn symbolic_args(&mut self, bound: &[Arg], id: NodeId) -> Result<(Vec<Arg>, Holes)> {
        let Some(record) = &mut self.record else { return Ok((bound.to_vec(), Holes::new())) };
        let Ok(node) = self.symbolic.graph().node(id) else {
            record.give_up();
            return Ok((bound.to_vec(), Holes::new()));
        };
        let args = match node.op() {
            Some(op) => op.bind(node.args(), node.kwargs())?.to_vec(),
            None => node.args().to_vec(),
        };
        let holes = record.holes(&args, &mut self.instance);
        Ok((args, holes))
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            values: self.instance.values.len(),
            operands: self.instance.operands.len(),
            steps: self.steps.len(),
            made: self.record.as_ref().map_or(0, |record| record.len()),
        }
    }

    /// Forgets what was made since.
    pub(super) fn rewind(&mut self, mark: &Mark) {
        self.instance.values.truncate(mark.values);
        self.instance.operands.truncate(mark.operands);
        self.windows.truncate(mark.operands);
        self.steps.truncate(mark.steps);
        if let Some(record) = &mut self.record {
            record.truncate(mark.made);
        }
    }

    /// Makes a kernel by a function, which makes it for other sizes too; returns whether it did.
    pub(super) fn kernel(
        &mut self,
        writes: Vec<ValueId>,
        id: NodeId,
        make: impl Fn(&Instance) -> Result<Option<Box<dyn Kernel>>> + Send + Sync + 'static,
    ) -> Result<bool> {
        let Some(kernel) = make(&self.instance)? else { return Ok(false) };
        let made = self.note(Made::Kernel(Box::new(make)));
        let task = Task::Kernel { kernel, writes };
        self.steps.push(Step { task, node: id, frees: Vec::new(), concurrent: 0, made });
        Ok(true)
    }
}

fn past_the_end() -> Error {
    err!(Graph, "a window of a plan reaches past its value, or its sizes are not known before the call")
}

/// Returns sizes that are numbers, if all are.
fn known_sizes(shape: &[Size]) -> Option<Sizes> {
    let number = |size: &Size| match size {
        Size::Known(n) => Some(*n),
        Size::Of(_) => None,
    };
    shape.iter().map(number).collect()
}

impl Instance {
    /// Returns the tensor that an operand is.
    pub(super) fn source(&self, operand: &Operand) -> Source {
        let info = &self.values[operand.value as usize];
        match operand.offset == 0 && operand.shape == info.shape && operand.is_contiguous() {
            true => Source::Whole(operand.value),
            false => Source::View(operand.clone()),
        }
    }

    /// Returns an argument of the plan that was recorded with the windows of this one.
    pub(super) fn placed(&self, arg: &Arg<Source>) -> Result<Arg<Source>> {
        arg.try_flat_map(&mut |source| {
            Ok(Arg::Leaf(match source {
                Source::Whole(value) => Source::Whole(*value),
                Source::View(operand) => self.source(self.operand(operand.id)?),
            }))
        })
    }
}
