//! A call of a plan: its memory, and its steps one after the other or at the same time.

use std::sync::Arc;

use fx_core::array::dispatch_dtype;
use fx_core::eval::{Inputs, check_ranges};
use fx_core::native::{LoopBody, Routine};
use fx_core::ops::evaluate_control;
use fx_core::{
    Arg, Array, Attribute, GraphModule, NodeId, NodeRef, Result, Tensor, TensorType, TypeTree, Value, bail,
    err,
};
use fx_simd::parallel;
use smallvec::SmallVec;

use super::operand::{Bases, ValueId};
use super::plan::Plan;
use super::step::{Call, Home, Source, Step, Task};

/// A plan with what calls need of it.
pub(crate) struct Ready {
    pub(crate) gm: Arc<GraphModule>,
    pub(crate) plan: Plan,
    /// The functions that took the place of tapes, with what they were made of.
    pub(crate) routines: Arc<Vec<(LoopBody, Option<Routine>)>>,
}

/// The memory of one call.
pub(crate) struct Workspace {
    /// The block of memory; it is only used by way of `bases`.
    pub(crate) block: Vec<Line>,
    pub(crate) bases: Vec<*mut u8>,
    /// The values that are no kernel's, as they become known.
    pub(crate) slots: Vec<Option<Value>>,
    /// The arrays that kernels write, to be used again when nobody else has them any more.
    pub(crate) kept: Vec<Option<Tensor>>,
}

impl Workspace {
    /// Returns its bytes.
    pub(crate) fn bytes(&self) -> usize {
        let array = |tensor: &Tensor| tensor.array().map_or(0, |array| array.numel() * array.dtype().size());
        let kept: usize = self.kept.iter().flatten().map(array).sum();
        self.block.capacity() * size_of::<Line>() + kept
    }
}

// SAFETY: the addresses are those of the block and of tensors that the workspace has.
unsafe impl Send for Workspace {}

/// Bytes in lines of a cache.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Line(#[allow(dead_code, reason = "it is memory")] pub(crate) [u8; 64]);

/// Returns the address of the first element of a contiguous array.
pub(crate) fn address(array: &Array) -> *mut u8 {
    dispatch_dtype!(array.dtype(), T => array.data::<T>().map_or(std::ptr::null_mut(), |data| data.as_ptr().cast_mut().cast()))
}

impl Ready {
    /// Makes the memory of a call, of a block that nobody has any more if that is large enough.
    pub(crate) fn workspace(&self, mut block: Vec<Line>) -> Result<Workspace> {
        let n = self.plan.values.len();
        let memory = &self.plan.memory.arena;
        let lines = memory.bytes.div_ceil(size_of::<Line>());
        if block.len() < lines {
            drop(block);
            block =
                fx_simd::reserve(lines).map_err(|_| err!(Limit, "cannot allocate {} bytes", memory.bytes))?;
            block.resize(lines, Line([0; 64]));
        }
        let start: *mut u8 = block.as_mut_ptr().cast();
        let mut bases = vec![std::ptr::null_mut(); n];
        for (value, info) in self.plan.values.iter().enumerate() {
            match &info.home {
                Home::Memory => {
                    if let Some(place) = memory.places[value] {
                        bases[value] = start.wrapping_add(place);
                    }
                }
                Home::Constant(i) => {
                    if let Some(tensor) = &self.plan.constants[*i].tensor {
                        bases[value] = address(tensor.array()?);
                    }
                }
                _ => {}
            }
        }
        Ok(Workspace { block, bases, slots: vec![None; n], kept: vec![None; n] })
    }

    pub(crate) fn run(
        &self,
        owner: &GraphModule,
        inputs: Inputs<'_>,
        workspace: &mut Workspace,
    ) -> Result<Value> {
        let result = self.steps(inputs, workspace, None);
        self.finish(owner, result, inputs, workspace, |output, inputs, workspace| {
            self.resolve(output, inputs, workspace)
        })
    }

    /// Runs, and gives each item of the output to `results`.
    pub(crate) fn run_items(
        &self,
        owner: &GraphModule,
        inputs: Inputs<'_>,
        workspace: &mut Workspace,
        results: &mut dyn FnMut(Value),
    ) -> Result<()> {
        let result = self.steps(inputs, workspace, None);
        self.finish(owner, result, inputs, workspace, |output, inputs, workspace| {
            for item in output.as_items() {
                results(self.resolve(item, inputs, workspace)?);
            }
            Ok(())
        })
    }

    pub(crate) fn run_with(
        &self,
        owner: &GraphModule,
        inputs: Inputs<'_>,
        workspace: &mut Workspace,
        spent: &mut dyn FnMut(usize, std::time::Duration),
    ) -> Result<Value> {
        let result = self.steps(inputs, workspace, Some(spent));
        self.finish(owner, result, inputs, workspace, |output, inputs, workspace| {
            self.resolve(output, inputs, workspace)
        })
    }

    /// Collects the output, stores updates of buffers, and lets go of what the call had.
    fn finish<R>(
        &self,
        owner: &GraphModule,
        result: Result<Vec<(Arc<str>, Value)>>,
        inputs: Inputs<'_>,
        workspace: &mut Workspace,
        output: impl FnOnce(&Arg<Source>, Inputs<'_>, &Workspace) -> Result<R>,
    ) -> Result<R> {
        let result = result.and_then(|updates| {
            let output = output(&self.plan.output, inputs, workspace)?;
            for (path, value) in updates {
                owner.store(&path, value)?;
            }
            Ok(output)
        });
        self.plan.held.iter().for_each(|&value| workspace.slots[value as usize] = None);
        result
    }

    /// Makes a tensor contiguous and of the type of a value, and enters it.
    fn enter(&self, value: ValueId, tensor: Tensor, workspace: &mut Workspace) -> Result<()> {
        let info = &self.plan.values[value as usize];
        let array = tensor.array()?;
        if array.dtype() != info.dtype || array.shape() != &info.shape[..] {
            let expected = TensorType::new(info.dtype, &info.shape[..]);
            bail!(DType, "expected {expected}, got {}", array.describe());
        }
        let tensor = if array.is_contiguous() { tensor } else { Tensor::new(array.contiguous()?) };
        workspace.bases[value as usize] = address(tensor.array()?);
        workspace.slots[value as usize] = Some(Arg::Leaf(tensor));
        Ok(())
    }

    fn steps(
        &self,
        inputs: Inputs<'_>,
        workspace: &mut Workspace,
        mut spent: Option<&mut dyn FnMut(usize, std::time::Duration)>,
    ) -> Result<Vec<(Arc<str>, Value)>> {
        let mut updates = Vec::new();
        for &value in &self.plan.given {
            match &self.plan.values[value as usize].home {
                // What is no slot's is read from the inputs, which outlive the call.
                Home::Input(i) => {
                    if let Some(tensor) = inputs.tensor(*i) {
                        let array = tensor.array()?;
                        if array.is_contiguous() {
                            workspace.bases[value as usize] = address(array);
                        } else {
                            self.enter(value, tensor.clone(), workspace)?;
                        }
                    }
                }
                Home::Buffer(path) => match self.gm.attribute(path)? {
                    buffer @ Attribute::Buffer(_) => self.enter(value, buffer.tensor(), workspace)?,
                    Attribute::State(state) => workspace.slots[value as usize] = Some(state.load()),
                    _ => bail!(Graph, "{path:?} is no buffer any more"),
                },
                _ => {}
            }
        }
        let mut steps = self.plan.steps.iter().enumerate();
        while let Some((i, step)) = steps.next() {
            // Who measures the steps wants them one by one.
            if step.concurrent > 0 && spent.is_none() {
                let group = &self.plan.steps[i..=i + step.concurrent];
                self.run_concurrently(group, workspace)?;
                steps.nth(step.concurrent - 1);
                continue;
            }
            let started = spent.is_some().then(std::time::Instant::now);
            match &step.task {
                Task::Kernel { kernel, writes } => {
                    self.make_arrays(writes, workspace)?;
                    let bases = Bases(&workspace.bases);
                    // SAFETY: as below.
                    unsafe { kernel.check(bases) }.map_err(|error| self.locate(error, step.node))?;
                    // SAFETY: the bases are those of this plan: all that the kernel reads was given,
                    // computed, or is a constant, of the sizes that the plan was made for, and its results
                    // have memory of their own.
                    unsafe { kernel.run(bases) };
                }
                Task::Evaluate { call, args, value, is_tensor, numbers } => self
                    .evaluate((call, args), (*value, *is_tensor), numbers.as_deref(), inputs, workspace)
                    .map_err(|error| self.locate(error, step.node))?,
                Task::SetBuffer { path, value } => {
                    updates.push((path.clone(), self.resolve(value, inputs, workspace)?));
                }
            }
            for &value in &step.frees {
                workspace.slots[value as usize] = None;
            }
            if let (Some(spent), Some(started)) = (&mut spent, started) {
                spent(i, started.elapsed());
            }
        }
        Ok(updates)
    }

    /// Runs kernels that do not need each other at the same time.
    fn run_concurrently(&self, group: &[Step], workspace: &mut Workspace) -> Result<()> {
        for step in group {
            if let Task::Kernel { writes, .. } = &step.task {
                self.make_arrays(writes, workspace)?;
            }
        }
        let bases = Bases(&workspace.bases);
        for step in group {
            if let Task::Kernel { kernel, .. } = &step.task {
                // SAFETY: as in `steps`.
                unsafe { kernel.check(bases) }.map_err(|error| self.locate(error, step.node))?;
            }
        }
        let run = |i: usize| {
            if let Task::Kernel { kernel, .. } = &group[i].task {
                // SAFETY: as in `steps`; what these kernels write is not read or written by others of them.
                unsafe { kernel.run(bases) };
            }
        };
        // If some threads would wait for the last kernels, it is better that all share each of them.
        let threads = parallel::threads();
        let rounds = group.len().div_ceil(threads);
        match group.len() * 5 >= rounds * threads * 4 {
            true => parallel::each_whole(group.len(), run),
            false => (0..group.len()).for_each(run),
        }
        for &value in group.iter().flat_map(|step| &step.frees) {
            workspace.slots[value as usize] = None;
        }
        Ok(())
    }

    /// Gives arrays to those of the values that are not in the block of memory.
    fn make_arrays(&self, values: &[ValueId], workspace: &mut Workspace) -> Result<()> {
        let is_array = |value: &&ValueId| self.plan.values[**value as usize].home == Home::Array;
        values.iter().filter(is_array).try_for_each(|&value| self.make_array(value, workspace))
    }

    fn locate(&self, error: fx_core::Error, id: NodeId) -> fx_core::Error {
        let graph = self.gm.graph();
        match graph.node(id) {
            Ok(node) => fx_core::interp::locate(error, NodeRef { graph, id, node }),
            Err(_) => error,
        }
    }

    /// Gives a value that a kernel writes an array: that of an earlier call, if nobody has it any more.
    fn make_array(&self, value: ValueId, workspace: &mut Workspace) -> Result<()> {
        let info = &self.plan.values[value as usize];
        let kept = &mut workspace.kept[value as usize];
        let is_free = |tensor: &mut Tensor| {
            let array = tensor.array_mut()?;
            dispatch_dtype!(info.dtype, T => array.get_mut::<T>().map(|data| data.as_mut_ptr().cast::<u8>()))
        };
        let address = match kept.as_mut().and_then(is_free) {
            Some(address) => address,
            None => {
                let tensor = kept.insert(Tensor::new(Array::zeros(info.dtype, &info.shape)?));
                match is_free(tensor) {
                    Some(address) => address,
                    None => bail!(Graph, "a new array is shared"),
                }
            }
        };
        workspace.bases[value as usize] = address;
        Ok(())
    }

    /// Returns an argument with the tensors in their places.
    fn resolve(&self, arg: &Arg<Source>, inputs: Inputs<'_>, workspace: &Workspace) -> Result<Value> {
        let whole = |value: ValueId| -> Result<Value> {
            match &self.plan.values[value as usize].home {
                Home::Constant(i) => match &self.plan.constants[*i].tensor {
                    Some(tensor) => Ok(Arg::Leaf(tensor.clone())),
                    None => bail!(Graph, "a constant was freed that is read"),
                },
                Home::Array => match &workspace.kept[value as usize] {
                    Some(tensor) => Ok(Arg::Leaf(tensor.clone())),
                    None => bail!(Graph, "a value was not computed"),
                },
                home => match (&workspace.slots[value as usize], home) {
                    (Some(value), _) => Ok(value.clone()),
                    (None, Home::Input(i)) => match inputs.value(*i) {
                        Some(value) => Ok(value),
                        None => bail!(Graph, "an input is not there"),
                    },
                    (None, _) => bail!(Graph, "a value was not computed"),
                },
            }
        };
        let one = |source: &Source| match source {
            Source::Whole(value) => whole(*value),
            Source::View(operand) => {
                let Arg::Leaf(tensor) = whole(operand.value)? else {
                    bail!(Graph, "a view is of a tensor");
                };
                // Operands lie in the elements of a value, wherever these begin in their storage.
                let part = tensor.array()?.as_strided(&operand.shape, &operand.strides, operand.offset)?;
                Ok(Arg::Leaf(Tensor::new(part)))
            }
        };
        match arg {
            Arg::Leaf(source) => one(source),
            arg => arg.try_flat_map(&mut { one }),
        }
    }

    fn evaluate(
        &self,
        (call, args): (&Call, &[Arg<Source>]),
        (value, is_tensor): (ValueId, bool),
        numbers: Option<&TypeTree>,
        inputs: Inputs<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let args: SmallVec<[Value; 8]> =
            args.iter().map(|arg| self.resolve(arg, inputs, workspace)).collect::<Result<_>>()?;
        let result = match call {
            Call::Op(op) => (op.eval)(&args)?,
            Call::Control(op, programs) => evaluate_control(*op, &args, &|graph, args| match programs
                .iter()
                .find(|program| Arc::ptr_eq(&program.graph, graph))
            {
                Some(program) => program.run(args),
                None => bail!(Graph, "a sub-graph was not planned"),
            })?,
            Call::Module(path) => self.gm.child(path)?.forward_values(&args)?,
        };
        if let Some(error) = result.error().or_else(|| result.leaves().into_iter().find_map(Tensor::error)) {
            return Err(error.clone());
        }
        if let Some(numbers) = numbers {
            check_ranges(numbers, &result)?;
        }
        match result {
            Arg::Leaf(tensor) if is_tensor => self.enter(value, tensor, workspace),
            result => {
                workspace.slots[value as usize] = Some(result);
                Ok(())
            }
        }
    }
}
