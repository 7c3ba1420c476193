//! The fused engine: a graph as a plan of kernels, in process and without a compiler.
//!
//! [`Compiled`] is a program made ready: rewritten by the passes for inference, its nodes in groups
//! ([`crate::pass::FUSE`]). For each set of input sizes it has a plan (`plan`), made for these or bound to
//! them (`record`): a list of kernels whose operands have places in one block of memory (`memory`), with
//! weights packed. Kernels are tapes of block loops (`tape`), also with reductions of columns (`columns`),
//! matrix products (`product`) and convolutions (`convolution`) with what follows them, attention (`attend`),
//! joins (`join`), look-ups by integers (`lookup`), pooling (`pool`), borders and the like (`pad`), resizing
//! (`resample`), normalisation of channels (`group`), softmax along any axis (`softmax`) and the steps of
//! recurrent networks (`recurrent`); what has no kernel is evaluated by its operation.

mod attend;
mod columns;
mod convolution;
mod finish;
mod group;
mod join;
mod lookup;
mod memory;
mod operand;
mod packs;
mod pad;
mod plan;
mod plans;
mod pool;
mod product;
mod record;
mod recurrent;
mod resample;
mod softmax;
mod tape;

use std::sync::Arc;

use fx_core::array::dispatch_dtype;
use fx_core::native::{Assemble, Routine, Unit};
use fx_core::ops::evaluate_control;
use fx_core::pass::remove_unread;
use fx_core::{
    Arg, Array, Attribute, ErrorKind, GraphModule, NodeId, NodeRef, Parameter, Passes, Result, SourceLoc,
    Symbol, Tensor, TensorType, Type, TypeTree, Value, bail, err,
};
use fx_simd::parallel;
use smallvec::SmallVec;

pub(crate) use self::convolution::spec_of;
use self::operand::{Bases, ValueId};
use self::packs::Packs;
pub(crate) use self::plan::kernels::is_anchor;
use self::plan::{Call, Home, Plan, Source, Step, Task};
use self::plans::{Entry, Key, Plans};
use self::tape::Tape;
pub(crate) use self::tape::kind::{
    LONGEST_ROW, are_columns, axes_of, column_kind, has_columns, is_select, map_dtype, row_kind, select_of,
};
use crate::pass;

/// A step that computes values from values.
pub(crate) trait Kernel: Send + Sync {
    /// Refuses operands whose elements it cannot take, such as integers that name no row of a table.
    ///
    /// # Safety
    ///
    /// The bases are those of the plan that the kernel belongs to: its operands can be read.
    unsafe fn check(&self, _bases: Bases<'_>) -> Result<()> {
        Ok(())
    }

    /// Computes the results.
    ///
    /// # Safety
    ///
    /// As for [`check`](Self::check), which took the operands; nobody else has the results.
    unsafe fn run(&self, bases: Bases<'_>);

    /// Returns the values that it reads.
    fn reads(&self) -> Vec<ValueId>;

    /// Returns pairs of a value that is read and one that may be written to the same memory.
    fn reuses(&self) -> Vec<(ValueId, ValueId)> {
        Vec::new()
    }

    /// Says that a result takes the memory of a value that it reads.
    fn reuse(&mut self, _from: ValueId, _by: ValueId) {}

    /// Returns the tape that it runs, if it has one.
    fn tape(&mut self) -> Option<&mut Tape> {
        None
    }

    /// Returns the arithmetic operations that one thread does in a nanosecond, roughly.
    fn flops(&self) -> f64 {
        2.0
    }

    /// Says what it does.
    fn describe(&self) -> String;
}

/// Roughly the arithmetic operations that one thread does in a nanosecond in products of large tiles.
const PRODUCT_FLOPS: f64 = 150.0;

/// A program that is ready to run.
///
/// Parameters are those that the module had when it was compiled; buffers are its own. It can be called from
/// several threads at once.
pub struct Compiled {
    gm: GraphModule,
    /// Whether the nodes have types, so that groups were made once for all sizes.
    is_fused: bool,
    packs: Packs,
    plans: Plans,
    /// Makes functions of tapes.
    assembler: Option<Arc<dyn Assemble>>,
}

/// The memory of a call, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallMemory {
    /// The block in which values lie that do not leave the program.
    pub block: usize,
    /// The most that these values take at a time: no block can be smaller.
    pub bound: usize,
    /// The arrays that kernels write and that are returned, or given to operations without a kernel; what
    /// these return is not counted.
    pub arrays: usize,
}

/// A plan with what calls need of it.
struct Ready {
    gm: Arc<GraphModule>,
    plan: Plan,
    /// The functions that took the place of tapes, with what they were made of.
    routines: Arc<Vec<(Unit, Option<Routine>)>>,
}

/// The memory of one call.
struct Workspace {
    /// The block of memory; it is only used by way of `bases`.
    block: Vec<Line>,
    bases: Vec<*mut u8>,
    /// The values that are no kernel's, as they become known.
    slots: Vec<Option<Value>>,
    /// The arrays that kernels write, to be used again when nobody else has them any more.
    kept: Vec<Option<Tensor>>,
}

// SAFETY: the addresses are those of the block and of tensors that the workspace has.
unsafe impl Send for Workspace {}

/// Bytes in lines of a cache.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code, reason = "it is memory")] [u8; 64]);

impl Compiled {
    /// Makes a program ready: runs the passes for inference, groups its nodes, and plans it if its sizes are
    /// known.
    ///
    /// What was made of parameters takes their place. If the sizes of all inputs are known, so do packed
    /// weights; the memory of the parameters is freed bit by bit if nobody else has them.
    pub fn new(gm: GraphModule) -> Result<Compiled> {
        fx_simd::without_keeping(|| Compiled::with(gm, None))
    }

    /// As [`new`](Self::new); the tapes of plans run as the functions that the assembler makes of them.
    ///
    /// If sizes are symbols, functions are made for a sample of them: those of a later plan most often are
    /// the same.
    pub fn assembled(gm: GraphModule, assembler: Arc<dyn Assemble>) -> Result<Compiled> {
        fx_simd::without_keeping(|| Compiled::with(gm, Some(assembler)))
    }

    fn with(mut gm: GraphModule, assembler: Option<Arc<dyn Assemble>>) -> Result<Compiled> {
        prepare(&mut gm)?;
        let is_typed = |(_, node): (NodeId, &fx_core::Node)| {
            node.opcode() == fx_core::OpCode::Output || node.ty().is_some_and(TypeTree::is_complete)
        };
        let is_fused = gm.graph().nodes().all(is_typed);
        if is_fused {
            pass::FUSE.apply(&mut gm)?;
        }
        arrange(&mut gm)?;
        let (packs, plans) = (Packs::default(), Plans::default());
        let mut compiled = Compiled { gm, is_fused, packs, plans, assembler };
        let graph = compiled.gm.graph();
        let keys: Option<Vec<Key>> = graph
            .placeholders()
            .into_iter()
            .map(|id| match graph.node(id).ok()?.ty()? {
                Arg::Leaf(Type::Tensor(ty)) => {
                    Some(Key::Tensor(ty.dtype, ty.shape.known()?.iter().copied().collect()))
                }
                _ => None,
            })
            .collect();
        match keys {
            Some(keys) => {
                let mut ready = compiled.ready(&keys)?;
                if let Ok(ready) = &mut ready {
                    compiled.link(ready)?;
                    // This is the only plan, since no other sizes agree with the types of the inputs.
                    compiled.free_packed(ready)?;
                    ready.plan.pack()?;
                }
                compiled.plans.keep(keys, ready);
            }
            // Where typical sizes do not fit, functions are made when the program is called.
            None if compiled.assembler.is_some() => {
                if let Some(keys) = compiled.typical()
                    && let Ok(Ok(mut ready)) = compiled.ready(&keys)
                {
                    compiled.link(&mut ready)?;
                    ready.plan.pack()?;
                    compiled.plans.offer(keys, Ok(ready));
                }
            }
            None => {}
        }
        Ok(compiled)
    }

    /// Returns sizes that inputs might have, long enough for rows to be units of tapes, and unlike the
    /// numbers in most programs.
    fn typical(&self) -> Option<Vec<Key>> {
        let graph = self.gm.graph();
        let mut symbols: Vec<Symbol> = Vec::new();
        let mut keys = Vec::new();
        for id in graph.placeholders() {
            let Arg::Leaf(Type::Tensor(ty)) = graph.node(id).ok()?.ty()? else { return None };
            ty.shape.iter().flat_map(fx_core::Dim::symbols).for_each(|symbol| {
                if !symbols.contains(&symbol) {
                    symbols.push(symbol);
                }
            });
            let size = |symbol: &Symbol| {
                let at = symbols.iter().position(|other| other == symbol)?;
                let size = [67, 73, 79, 83, 89, 97, 101, 103][at % 8];
                Some(size.min(symbol.max().unwrap_or(size)).max(symbol.min()))
            };
            let sizes = ty.shape.iter().map(|dim| usize::try_from(dim.eval(&size).ok()?).ok());
            keys.push(Key::Tensor(ty.dtype, sizes.collect::<Option<_>>()?));
        }
        Some(keys)
    }

    /// Makes the plan for the sizes of these arguments, if there is none yet.
    pub fn prepare(&self, args: &[Value]) -> Result<()> {
        self.find(&self.gm.flatten_inputs(args)?).map(|_| ())
    }

    /// Returns the graph as it was grouped.
    pub fn graph_module(&self) -> &GraphModule {
        &self.gm
    }

    /// Calls the program with one tensor per argument; it must return one tensor.
    #[track_caller]
    pub fn call(&self, args: &[Tensor]) -> Result<Tensor> {
        let args: SmallVec<[Value; 4]> = args.iter().map(Value::from).collect();
        self.call_values(&args)?.try_into()
    }

    /// Calls the program with one value per argument.
    #[track_caller]
    pub fn call_values(&self, args: &[Value]) -> Result<Value> {
        let source = SourceLoc::caller();
        self.run(args).map_err(|error| match error.source_loc() {
            Some(_) => error,
            None => error.at(source),
        })
    }

    fn run(&self, args: &[Value]) -> Result<Value> {
        let inputs = self.gm.flatten_inputs(args)?;
        let entry = self.find(&inputs)?;
        let Ok(ready) = &entry.ready else { return self.gm.call_values(args) };
        let mut workspace = self.plans.lend(&entry, ready)?;
        let result = ready.run(&self.gm, &inputs, &mut workspace);
        self.plans.give_back(&entry, workspace);
        result
    }

    /// Returns the plan for inputs of these sizes.
    fn find(&self, inputs: &[Value]) -> Result<Arc<Entry>> {
        if let Some(entry) = self.plans.find(inputs) {
            return Ok(entry);
        }
        self.plan(inputs.iter().map(Key::of).collect())
    }

    /// Makes a plan and keeps it: a plan for other sizes with the numbers of these, if there is one that can be.
    fn plan(&self, key: Vec<Key>) -> Result<Arc<Entry>> {
        if let Some(mut ready) = self.plans.bind(&key) {
            self.link(&mut ready)?;
            return Ok(self.plans.keep(key, Ok(ready)));
        }
        let mut ready = self.ready(&key)?;
        if let Ok(ready) = &mut ready {
            self.link(ready)?;
            ready.plan.pack()?;
        }
        Ok(self.plans.keep(key, ready))
    }

    /// Lets go of the constants that no step of the only plan reads as they are.
    fn free_packed(&mut self, ready: &mut Ready) -> Result<()> {
        self.packs.close();
        for path in ready.plan.free_packed() {
            let error =
                err!(Unresolved, "the values of {path:?} were given up when the program was compiled")
                    .help("read them from the module that was compiled");
            let gone = Attribute::Constant(Tensor::failed(error));
            self.gm.set_attribute(&path, gone.clone())?;
            if let Some(gm) = Arc::get_mut(&mut ready.gm) {
                gm.set_attribute(&path, gone)?;
            }
        }
        Ok(())
    }

    /// Lets functions take the place of tapes: those of the plan that it was bound from if they are made of
    /// the same.
    fn link(&self, ready: &mut Ready) -> Result<()> {
        let Some(assembler) = &self.assembler else { return Ok(()) };
        let mut tapes: Vec<&mut Tape> = ready.plan.tapes().collect();
        let units: Vec<_> = tapes.iter().map(|tape| tape.describe_unit()).collect();
        if units.is_empty() {
            return Ok(());
        }
        if !units.iter().eq(ready.routines.iter().map(|(unit, _)| unit)) {
            let routines = assembler.assemble(&units)?;
            if routines.len() != units.len() {
                bail!(Graph, "there are {} functions for {} tapes", routines.len(), units.len());
            }
            ready.routines = Arc::new(units.into_iter().zip(routines).collect());
        }
        for (tape, (_, routine)) in tapes.iter_mut().zip(&*ready.routines) {
            if let Some(routine) = routine {
                tape.link(routine.clone());
            }
        }
        Ok(())
    }

    /// Makes a plan, or says why there is none.
    fn ready(&self, key: &[Key]) -> Result<Result<Ready>> {
        let types: Vec<TypeTree> = key
            .iter()
            .map(|key| match key {
                Key::Tensor(dtype, shape) => TensorType::new(*dtype, &shape[..]).into(),
                Key::Int(n) => Arg::Int(*n),
                Key::Other => Arg::Leaf(Type::Any),
            })
            .collect();
        let plan = || -> Result<Ready> {
            let mut gm = self.gm.specialize(&types)?;
            if !self.is_fused {
                prepare(&mut gm)?;
                pass::FUSE.apply(&mut gm)?;
            }
            // Without groups for all sizes, there is no such graph with symbols.
            let symbolic = if self.is_fused { &self.gm } else { &gm };
            let plan = Plan::new((&gm, symbolic), key, &self.packs, self.assembler.clone())?;
            Ok(Ready { gm: Arc::new(gm), plan, routines: Arc::default() })
        };
        match plan() {
            Ok(ready) => Ok(Ok(ready)),
            // A size that depends on data is known only after the operation that finds it has run, and a
            // sub-graph that is wrong for these sizes may be one that does not run.
            Err(error) if error.kind() == ErrorKind::Unresolved || self.has_sub_graphs() => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// Returns whether data decide which parts of the program run.
    fn has_sub_graphs(&self) -> bool {
        let is_control = |op| op == fx_core::ops::cond::OP || op == fx_core::ops::while_loop::OP;
        self.gm.graph().nodes().any(|(_, node)| node.op().is_some_and(is_control))
    }

    /// Returns the memory of a call for each of the plans.
    pub fn memory(&self) -> Vec<CallMemory> {
        let plans = self.plans.all();
        let of = |entry: &Arc<Entry>| {
            let memory = &entry.ready.as_ref().ok()?.plan.memory;
            Some(CallMemory { block: memory.bytes, bound: memory.bound, arrays: memory.arrays })
        };
        plans.iter().filter_map(of).collect()
    }

    /// Returns what each step of the plans does, a line each.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for entry in self.plans.all() {
            let ready = match &entry.ready {
                Ok(ready) => ready,
                Err(error) => {
                    text.push_str(&format!("no plan, operation by operation: {}\n", error.message()));
                    continue;
                }
            };
            let memory = &ready.plan.memory;
            text.push_str(&format!(
                "{} steps, {} bytes of memory (at least {}), {} bytes of arrays{}\n",
                ready.plan.steps.len(),
                memory.bytes,
                memory.bound,
                memory.arrays,
                if ready.plan.is_bound { ", as planned for other sizes" } else { "" }
            ));
            for step in &ready.plan.steps {
                let name = ready.gm.graph().node(step.node).map_or("?", fx_core::Node::name);
                let beside = match step.beside {
                    0 => String::new(),
                    n => format!(", beside the next {n}"),
                };
                text.push_str(&format!("  %{name}: {}{beside}\n", step.task.describe()));
            }
        }
        text
    }

    /// Runs the program a number of times and returns the nanoseconds of each step, by its node and what it does.
    pub fn profile(&self, args: &[Value], times: usize) -> Result<Vec<(String, String, f64)>> {
        let inputs = self.gm.flatten_inputs(args)?;
        let entry = self.find(&inputs)?;
        let ready = entry.ready.as_ref().map_err(fx_core::Error::clone)?;
        let mut workspace = ready.workspace(Vec::new())?;
        let mut spent = vec![0u128; ready.plan.steps.len()];
        for _ in 0..times.max(1) {
            ready.run_with(&self.gm, &inputs, &mut workspace, &mut |i, duration| {
                spent[i] += duration.as_nanos()
            })?;
        }
        Ok(ready
            .plan
            .steps
            .iter()
            .zip(spent)
            .map(|(step, spent)| {
                let name = ready.gm.graph().node(step.node).map_or("?", fx_core::Node::name);
                (name.to_owned(), step.task.describe(), spent as f64 / times.max(1) as f64)
            })
            .collect())
    }
}

/// Runs the passes that programs go through before they are planned: those for inference, with calls of leaf
/// modules as what they compute.
///
/// What is made of weights does not follow them; those that are not read any more go.
pub fn prepare(gm: &mut GraphModule) -> Result<()> {
    gm.freeze();
    Passes::parse(pass::ENGINE, &pass::all())?.in_place().run(gm)?;
    let uncalled: Vec<String> = gm.children().map(|(path, _)| path.to_owned()).collect();
    for path in uncalled {
        // Those that are called stay.
        let _ = gm.delete_submodule(&path);
    }
    let paths: Vec<Arc<str>> = gm.attributes().map(|(path, _)| path.into()).collect();
    remove_unread(gm, paths);
    Ok(())
}

/// Puts the elements of parameters and constants in order, once for all plans.
fn arrange(gm: &mut GraphModule) -> Result<()> {
    let scattered = |tensor: &Tensor| tensor.array().is_ok_and(|array| !array.is_contiguous());
    let found: Vec<(String, Attribute)> = gm
        .attributes()
        .filter(|(_, attribute)| !matches!(attribute, Attribute::Buffer(_)) && scattered(&attribute.tensor()))
        .map(|(path, attribute)| (path.to_owned(), attribute.clone()))
        .collect();
    for (path, attribute) in found {
        let tensor = Tensor::new(attribute.tensor().array()?.contiguous()?);
        let attribute = match attribute {
            Attribute::Parameter(_) => Attribute::Parameter(Parameter::new(tensor)),
            _ => Attribute::Constant(tensor),
        };
        gm.set_attribute(&path, attribute)?;
    }
    Ok(())
}

/// Returns the address of the first element of a contiguous array.
fn address(array: &Array) -> *mut u8 {
    dispatch_dtype!(array.dtype(), T => array.data::<T>().map_or(std::ptr::null_mut(), |data| data.as_ptr().cast_mut().cast()))
}

impl Ready {
    /// Makes the memory of a call, of a block that nobody has any more if that is large enough.
    fn workspace(&self, mut block: Vec<Line>) -> Result<Workspace> {
        let n = self.plan.values.len();
        let lines = self.plan.memory.bytes.div_ceil(size_of::<Line>());
        if block.len() < lines {
            drop(block);
            block = fx_simd::reserve(lines)
                .map_err(|_| err!(Limit, "cannot allocate {} bytes", self.plan.memory.bytes))?;
            block.resize(lines, Line([0; 64]));
        }
        let start: *mut u8 = block.as_mut_ptr().cast();
        let mut bases = vec![std::ptr::null_mut(); n];
        for (value, info) in self.plan.values.iter().enumerate() {
            match &info.home {
                Home::Memory => {
                    if let Some(place) = self.plan.memory.places[value] {
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

    fn run(&self, owner: &GraphModule, inputs: &[Value], workspace: &mut Workspace) -> Result<Value> {
        let result = self.steps(inputs, workspace, None);
        self.finish(owner, result, workspace)
    }

    fn run_with(
        &self,
        owner: &GraphModule,
        inputs: &[Value],
        workspace: &mut Workspace,
        spent: &mut dyn FnMut(usize, std::time::Duration),
    ) -> Result<Value> {
        let result = self.steps(inputs, workspace, Some(spent));
        self.finish(owner, result, workspace)
    }

    /// Collects the output, stores updates of buffers, and lets go of what the call had.
    fn finish(
        &self,
        owner: &GraphModule,
        result: Result<Vec<(Arc<str>, Tensor)>>,
        workspace: &mut Workspace,
    ) -> Result<Value> {
        let result = result.and_then(|updates| {
            let output = self.resolve(&self.plan.output, workspace)?;
            for (path, value) in updates {
                owner.store_buffer(&path, value)?;
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
        inputs: &[Value],
        workspace: &mut Workspace,
        mut spent: Option<&mut dyn FnMut(usize, std::time::Duration)>,
    ) -> Result<Vec<(Arc<str>, Tensor)>> {
        let mut updates = Vec::new();
        for &value in &self.plan.given {
            match &self.plan.values[value as usize].home {
                Home::Input(i) => match &inputs[*i] {
                    Arg::Leaf(tensor) => {
                        let array = tensor.array()?;
                        if array.is_contiguous() {
                            workspace.bases[value as usize] = address(array);
                            workspace.slots[value as usize] = Some(inputs[*i].clone());
                        } else {
                            self.enter(value, tensor.clone(), workspace)?;
                        }
                    }
                    _ => workspace.slots[value as usize] = Some(inputs[*i].clone()),
                },
                Home::Buffer(path) => match self.gm.attribute(path)? {
                    buffer @ Attribute::Buffer(_) => self.enter(value, buffer.tensor(), workspace)?,
                    _ => bail!(Graph, "{path:?} is no buffer any more"),
                },
                _ => {}
            }
        }
        let mut steps = self.plan.steps.iter().enumerate();
        while let Some((i, step)) = steps.next() {
            // Who measures the steps wants them one by one.
            if step.beside > 0 && spent.is_none() {
                let group = &self.plan.steps[i..=i + step.beside];
                self.run_beside(group, workspace)?;
                steps.nth(step.beside - 1);
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
                Task::Evaluate { call, args, value, is_tensor } => self
                    .evaluate(call, args, *value, *is_tensor, workspace)
                    .map_err(|error| self.locate(error, step.node))?,
                Task::SetBuffer { path, value } => match self.resolve(value, workspace)? {
                    Arg::Leaf(tensor) => updates.push((path.clone(), tensor)),
                    other => bail!(Structure, "a buffer takes a tensor, got {}", other.kind_name()),
                },
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
    fn run_beside(&self, group: &[Step], workspace: &mut Workspace) -> Result<()> {
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
    fn resolve(&self, arg: &Arg<Source>, workspace: &Workspace) -> Result<Value> {
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
                _ => match &workspace.slots[value as usize] {
                    Some(value) => Ok(value.clone()),
                    None => bail!(Graph, "a value was not computed"),
                },
            }
        };
        arg.try_flat_map(&mut |source| match source {
            Source::Whole(value) => whole(*value),
            Source::Window(operand) => {
                let Arg::Leaf(tensor) = whole(operand.value)? else {
                    bail!(Graph, "a view is of a tensor");
                };
                let array = tensor.array()?;
                let at = array.offset() + operand.offset;
                Ok(Arg::Leaf(Tensor::new(array.as_strided(&operand.shape, &operand.strides, at)?)))
            }
        })
    }

    fn evaluate(
        &self,
        call: &Call,
        args: &[Arg<Source>],
        value: ValueId,
        is_tensor: bool,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let args: SmallVec<[Value; 8]> =
            args.iter().map(|arg| self.resolve(arg, workspace)).collect::<Result<_>>()?;
        let result = match call {
            Call::Op(op) => (op.eval)(&args)?,
            Call::Control(op, programs) => evaluate_control(*op, &args, &|graph, args| match programs
                .iter()
                .find(|(other, _)| Arc::ptr_eq(other, graph))
            {
                Some((_, program)) => program.run(args),
                None => bail!(Graph, "a sub-graph was not planned"),
            })?,
            Call::Module(path) => self.gm.child(path)?.forward_values(&args)?,
        };
        if let Some(error) = result.error().or_else(|| result.leaves().into_iter().find_map(Tensor::error)) {
            return Err(error.clone());
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
