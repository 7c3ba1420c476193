//! The fused engine: a graph as a plan of kernels, in process and without a compiler.
//!
//! [`Compiled`] is a program made ready: rewritten by the passes for inference, its nodes in groups
//! ([`crate::pass::FUSE`]). For each set of input sizes it has a plan (`plan`), made for these or bound to
//! them (`record`): a list of steps (`step`), most of them kernels (`kernel`), whose operands have places in
//! one block of memory (`memory`), with weights packed (`packed_weights`). `run` runs it, `plan_cache` keeps it.
//! Kernels are tapes of block loops (`tape`), also with reductions of columns (`column_reduction`), matrix
//! products (`product`) and convolutions (`convolution`) with their epilogues (`epilogue`), attention
//! (`attention`), concatenation (`concat`), look-ups by integers (`gather`), pooling (`pool`), borders and the
//! like (`pad`), resizing (`interpolate`), normalisation of channels (`group_norm`), softmax along any axis
//! (`softmax`), the steps of recurrent networks (`recurrent`) and the bodies of gufuncs (`gufunc`). A node
//! without a kernel is evaluated by its operation.

mod attention;
mod column_reduction;
mod concat;
mod convolution;
mod epilogue;
mod gather;
mod group_norm;
mod gufunc;
mod interpolate;
mod kernel;
mod memory;
mod operand;
mod packed_weights;
mod pad;
mod plan;
mod plan_cache;
mod pool;
mod product;
mod record;
mod recurrent;
mod run;
mod softmax;
mod step;
mod tape;

use std::sync::Arc;

use fx_core::eval::Inputs;
use fx_core::native::Assemble;
use fx_core::pass::remove_unread;
use fx_core::{
    Arg, Attribute, ErrorKind, GraphModule, NodeId, Parameter, Passes, Result, SourceLoc, Symbol, Tensor,
    TensorType, Type, TypeTree, Value, bail, err,
};

use self::packed_weights::PackedWeights;
use self::plan::Plan;
use self::plan_cache::{Entry, Key, PlanCache};
use self::run::{Ready, Workspace};
use self::tape::Tape;
use crate::pass;

/// A program that is ready to run.
///
/// It has the parameters of the module at the time of compilation, and buffers of its own. It can be called
/// from several threads at once.
pub struct Compiled {
    gm: GraphModule,
    /// Whether the nodes have types, so that groups were made once for all sizes.
    is_fused: bool,
    packed_weights: PackedWeights,
    plans: PlanCache,
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

impl Compiled {
    /// Makes a program ready: runs the passes for inference, groups its nodes, and plans it if its sizes are
    /// known.
    ///
    /// Folded constants replace parameters. If the sizes of all inputs are known, packed weights do, too; the
    /// memory of parameters that are not shared is freed one by one. Fails if a pass does.
    pub fn new(gm: GraphModule) -> Result<Compiled> {
        fx_simd::without_block_cache(|| Compiled::with(gm, None))
    }

    /// As [`new`](Self::new); the tapes of plans run as the functions that the assembler makes of them.
    ///
    /// If sizes are symbols, functions are made for a sample of them: those of a later plan most often are
    /// the same. Fails if a pass or the assembler does.
    pub fn assembled(gm: GraphModule, assembler: Arc<dyn Assemble>) -> Result<Compiled> {
        fx_simd::without_block_cache(|| Compiled::with(gm, Some(assembler)))
    }

    fn with(gm: GraphModule, assembler: Option<Arc<dyn Assemble>>) -> Result<Compiled> {
        Compiled::make(gm, PlanCache::default(), assembler)
    }

    /// Makes the program of a sub-graph that takes values of these types. An integer that is not known may be
    /// another one in each round, so that it takes no part in the choice of a plan.
    fn of_region(
        gm: GraphModule,
        types: &[TypeTree],
        assembler: Option<Arc<dyn Assemble>>,
    ) -> Result<Compiled> {
        let changes = types.iter().map(|ty| matches!(ty, Arg::Leaf(Type::Int))).collect();
        Compiled::make(gm, PlanCache::of_changing(changes), assembler)
    }

    fn make(mut gm: GraphModule, plans: PlanCache, assembler: Option<Arc<dyn Assemble>>) -> Result<Compiled> {
        prepare(&mut gm)?;
        let is_typed = |(_, node): (NodeId, &fx_core::Node)| {
            node.opcode() == fx_core::OpCode::Output || node.ty().is_some_and(TypeTree::is_complete)
        };
        let is_fused = gm.graph().nodes().all(is_typed);
        if is_fused {
            pass::FUSE.apply(&mut gm)?;
        }
        arrange(&mut gm)?;
        let packed_weights = PackedWeights::default();
        let mut compiled = Compiled { gm, is_fused, packed_weights, plans, assembler };
        let graph = compiled.gm.graph();
        let keys: Option<Vec<Key>> = graph
            .placeholders()
            .into_iter()
            .enumerate()
            .map(|(i, id)| compiled.plans.only_key(i, graph.node(id).ok()?.ty()?))
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

    /// Makes the plan for the sizes of these arguments, if there is none yet. Fails if the arguments do not
    /// fit the program.
    pub fn prepare(&self, args: &[Value]) -> Result<()> {
        self.find(Inputs::Values(&self.gm.flatten_inputs(args)?)).map(|_| ())
    }

    /// Returns the graph as it was grouped.
    pub fn graph_module(&self) -> &GraphModule {
        &self.gm
    }

    /// Calls the program with one tensor per argument. Fails as [`call_values`](Self::call_values) does, or
    /// if the result is not one tensor.
    #[track_caller]
    pub fn call(&self, args: &[Tensor]) -> Result<Tensor> {
        let source = SourceLoc::caller();
        self.evaluate_inputs(Inputs::Tensors(args)).map_err(|error| at(error, source))?.try_into()
    }

    /// Calls the program with one value per argument. Fails if the arguments do not fit the program, or an
    /// operation fails.
    #[track_caller]
    pub fn call_values(&self, args: &[Value]) -> Result<Value> {
        let source = SourceLoc::caller();
        self.evaluate(args).map_err(|error| at(error, source))
    }

    /// Calls the program as [`call_values`](Self::call_values) does, for a caller whose line says nothing to
    /// the user. Fails as that does; an error of an argument has no source line.
    pub fn evaluate(&self, args: &[Value]) -> Result<Value> {
        self.evaluate_inputs(Inputs::Values(args))
    }

    fn evaluate_inputs(&self, args: Inputs<'_>) -> Result<Value> {
        match self.run(args, |ready, inputs, workspace| ready.run(&self.gm, inputs, workspace))? {
            Some(value) => Ok(value),
            None => self.gm.evaluate(&args.values()),
        }
    }

    /// Calls the program as [`evaluate`](Self::evaluate) does, and gives each item of the tuple or list that it
    /// returns to `results`; what is neither is the only item. Fails as that does.
    pub fn call_with(&self, args: Inputs<'_>, results: &mut dyn FnMut(Value)) -> Result<()> {
        let ran =
            self.run(args, |ready, inputs, workspace| ready.run_items(&self.gm, inputs, workspace, results))?;
        if ran.is_none() {
            self.gm.evaluate(&args.values())?.as_items().iter().cloned().for_each(results);
        }
        Ok(())
    }

    /// Lets `run` run the plan for arguments of these sizes; `None` if there is no plan. Fails if the arguments do
    /// not fit the program, or `run` fails.
    fn run<R>(
        &self,
        args: Inputs<'_>,
        run: impl FnOnce(&Ready, Inputs<'_>, &mut Workspace) -> Result<R>,
    ) -> Result<Option<R>> {
        let (values, flat);
        let inputs = match args {
            Inputs::Tensors(tensors) if self.gm.takes(tensors) => args,
            _ => {
                values = args.values();
                flat = self.gm.flatten_inputs(&values)?;
                Inputs::Values(&flat)
            }
        };
        let entries = self.plans.entries();
        let new;
        let entry = match self.plans.find(&entries, inputs) {
            Some(entry) => entry,
            None => {
                new = self.plan(self.plans.key(inputs))?;
                &new
            }
        };
        let Ok(ready) = &entry.ready else { return Ok(None) };
        let mut lent = self.plans.lend(entry, ready)?;
        let result = run(ready, inputs, &mut lent.workspace);
        self.plans.give_back(entry, lent);
        result.map(Some)
    }

    /// Returns the plan for inputs of these sizes.
    fn find(&self, inputs: Inputs<'_>) -> Result<Arc<Entry>> {
        match self.plans.find(&self.plans.entries(), inputs) {
            Some(entry) => Ok(entry.clone()),
            None => self.plan(self.plans.key(inputs)),
        }
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
        self.packed_weights.close();
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
        let bodies: Vec<_> = tapes.iter().map(|tape| tape.loop_body()).collect();
        if bodies.is_empty() {
            return Ok(());
        }
        if !bodies.iter().eq(ready.routines.iter().map(|(body, _)| body)) {
            let routines = assembler.assemble(&bodies)?;
            if routines.len() != bodies.len() {
                bail!(Graph, "there are {} functions for {} tapes", routines.len(), bodies.len());
            }
            ready.routines = Arc::new(bodies.into_iter().zip(routines).collect());
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
            let plan = Plan::new((&gm, symbolic), key, &self.packed_weights, self.assembler.clone())?;
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
        self.gm.graph().nodes().any(|(_, node)| {
            node.op().is_some_and(|op| fx_core::ops::operand_lists(op, node.args()).is_some())
        })
    }

    /// Returns about how many bytes it holds besides parameters: packed weights, and the memory that waits for the
    /// next call.
    pub fn bytes(&self) -> usize {
        self.packed_weights.bytes() + self.plans.spare_bytes()
    }

    /// Returns the memory of a call for each of the plans.
    pub fn memory(&self) -> Vec<CallMemory> {
        let plans = self.plans.all();
        let of = |entry: &Arc<Entry>| {
            let memory = &entry.ready.as_ref().ok()?.plan.memory;
            let arena = &memory.arena;
            Some(CallMemory { block: arena.bytes, bound: arena.bound, arrays: memory.arrays })
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
                memory.arena.bytes,
                memory.arena.bound,
                memory.arrays,
                if ready.plan.is_bound { ", as planned for other sizes" } else { "" }
            ));
            for step in &ready.plan.steps {
                let name = ready.gm.graph().node(step.node).map_or("?", fx_core::Node::name);
                let concurrent = match step.concurrent {
                    0 => String::new(),
                    n => format!(", beside the next {n}"),
                };
                text.push_str(&format!("  %{name}: {}{concurrent}\n", step.task.describe()));
            }
        }
        if text.is_empty() {
            text.push_str("no plan yet: a program for symbolic sizes gets one at its first call\n");
        }
        text
    }

    /// Returns the operations of the plans that no kernel runs: the node and the operation, each once.
    pub fn evaluated(&self) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = Vec::new();
        for entry in self.plans.all() {
            let Ok(ready) = &entry.ready else {
                let all =
                    self.gm.graph().nodes().filter_map(|(_, node)| Some((node.name(), node.op()?.name)));
                found.extend(all.map(|(node, op)| (node.to_owned(), op.to_owned())));
                continue;
            };
            for step in &ready.plan.steps {
                let call = match &step.task {
                    step::Task::Evaluate { call, .. } => call,
                    _ => continue,
                };
                let what = match call {
                    step::Call::Op(op) => op.name,
                    step::Call::Module(path) => path,
                    // Its sub-graphs are programs.
                    step::Call::Control(..) => continue,
                };
                let name = ready.gm.graph().node(step.node).map_or("?", fx_core::Node::name);
                found.push((name.to_owned(), what.to_owned()));
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// Runs the program a number of times and returns the nanoseconds of each step, by its node and what it
    /// does. Fails if there is no plan for the arguments, or an operation fails.
    pub fn profile(&self, args: &[Value], times: usize) -> Result<Vec<(String, String, f64)>> {
        let inputs = self.gm.flatten_inputs(args)?;
        let inputs = Inputs::Values(&inputs);
        let entry = self.find(inputs)?;
        let ready = entry.ready.as_ref().map_err(fx_core::Error::clone)?;
        let mut workspace = ready.workspace(Vec::new())?;
        let mut spent = vec![0u128; ready.plan.steps.len()];
        for _ in 0..times.max(1) {
            ready.run_with(&self.gm, inputs, &mut workspace, &mut |i, duration| {
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

/// Gives an error a source line, if it has none.
fn at(error: fx_core::Error, source: SourceLoc) -> fx_core::Error {
    match error.source_loc() {
        Some(_) => error,
        None => error.at(source),
    }
}

/// Runs the passes before planning: the passes for inference, with calls of leaf modules inlined.
///
/// Folded constants do not follow the weights any more; weights that are not read are removed. Fails if a
/// pass does.
pub fn prepare(gm: &mut GraphModule) -> Result<()> {
    prepare_except(gm, &[])
}

/// As [`prepare`]; these operations are not written as what they are composed of. Fails as [`prepare`] does.
pub fn prepare_except(gm: &mut GraphModule, except: &[fx_core::Op]) -> Result<()> {
    gm.freeze();
    gm.clear_methods();
    Passes::parse(&pass::engine(except), &pass::all())?.in_place().run(gm)?;
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
        .filter(|(_, attribute)| {
            !matches!(attribute, Attribute::Buffer(_) | Attribute::State(_)) && scattered(&attribute.tensor())
        })
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
