//! [`Plan`]: a graph for inputs of known sizes as a list of steps, each with its operands in place.
//!
//! Values are numbered. What kernels make and only kernels read lies in one block of memory (`memory`); what
//! is evaluated, goes in or comes out is an array of its own. Views are strides over the value that they are
//! views of, and take no step (`views`); groups and nodes that have one become kernels (`kernels`, and the files
//! whose rows are in the table). Operands are expressions of sizes, kernels are made by functions of them; a
//! record is kept of both (`make`).

mod attention;
mod concurrent;
mod gather;
mod gufunc;
mod interpolate;
pub(super) mod kernels;
mod make;
mod norms;
mod pool;
mod recurrent;
mod views;

use std::sync::Arc;

use fx_core::array::Sizes;
use fx_core::native::Assemble;
use fx_core::{
    Arg, Attribute, DType, ErrorKind, Graph, GraphModule, NodeId, Op, OpCode, Result, Symbol, Target, Tensor,
    TensorType, Type, TypeTree, bail, err, ops,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Compiled;
use super::memory::Memory;
use super::operand::{Operand, ValueId};
use super::packed_weights::{Job, PackedWeights};
use super::plan_cache::Key;
use super::record::{Holes, Instance, Made, Record, Shape, Size, SizedWindow};
use super::step::{Call, Home, Info, Source, Step, SubProgram, SubPrograms, Task, sources};
use super::tape::Tape;
use crate::ops::attention::scaled_dot_product_attention;

/// Makes steps of a call of an operation; `None` if no kernel takes these arguments.
type Lower = fn(&mut Lowering<'_>, Op, &[Arg], NodeId) -> Result<Option<Lowered>>;

/// The operations that have steps of their own. All others are views, loops and products, or are evaluated.
static TABLES: &[&[(Op, Lower)]] = &[
    &[
        (ops::fused::OP, fused),
        (ops::getitem::OP, item),
        (ops::set_buffer::OP, store),
        (ops::set_state::OP, store),
    ],
    attention::TABLE,
    gather::TABLE,
    interpolate::TABLE,
    norms::TABLE,
    pool::TABLE,
    recurrent::TABLE,
    views::TABLE,
];

fn lower_of(op: Op) -> Option<Lower> {
    TABLES.iter().copied().flatten().find(|(other, _)| *other == op).map(|(_, lower)| *lower)
}

/// Notes the new value of a buffer.
fn store(l: &mut Lowering<'_>, _: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let [Arg::Str(path), value] = bound else { return Ok(None) };
    let made = l.note_args(std::slice::from_ref(value), Holes::new())?;
    let value = l.source(value)?;
    let task = Task::SetBuffer { path: path.clone(), value };
    l.steps.push(Step { task, node: id, frees: Vec::new(), concurrent: 0, made });
    Ok(Some(Lowered::Tuple(Vec::new())))
}

/// Returns an item of a list that a node has become.
fn item(l: &mut Lowering<'_>, _: Op, bound: &[Arg], _: NodeId) -> Result<Option<Lowered>> {
    let [Arg::Leaf(from), Arg::Int(i)] = bound else { return Ok(None) };
    let Some(Lowered::List(items) | Lowered::Tuple(items)) = l.env.get(from) else { return Ok(None) };
    let at = if *i < 0 { items.len() as i64 + i } else { *i };
    match usize::try_from(at).ok().and_then(|at| items.get(at)) {
        Some(item) => Ok(Some(item.clone())),
        None => bail!(Index, "there is no item {i} of {}", items.len()),
    }
}

/// Makes a kernel of a group.
fn fused(l: &mut Lowering<'_>, _: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let [Arg::Graph(body), operands] = bound else { return Ok(None) };
    let Some(operands) = l.operands(operands) else { return Ok(None) };
    let Some(mut results) = l.group(body, &operands, id)? else { return Ok(None) };
    let is_one = results.len() == 1 && !matches!(body.output(), Arg::Tuple(_));
    Ok(match is_one {
        true => results.pop().map(Lowered::Tensor),
        false => Some(Lowered::Tuple(results.into_iter().map(Lowered::Tensor).collect())),
    })
}

/// A graph as steps.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) values: Vec<Info>,
    /// The inputs and buffers among the values.
    pub(crate) given: Vec<ValueId>,
    /// The values that a call holds as what they are: those that are given, and those that are evaluated.
    pub(crate) held: Vec<ValueId>,
    pub(crate) constants: Arc<Vec<Constant>>,
    /// What is to be done before it runs.
    jobs: Vec<Job>,
    pub(crate) memory: Memory,
    pub(crate) output: Arg<Source>,
    /// How it was made, if its sizes are symbols.
    record: Option<Record>,
    /// Whether it is a plan for other sizes with the numbers of these.
    pub(crate) is_bound: bool,
}

/// A parameter or constant.
pub(crate) struct Constant {
    pub(crate) path: Arc<str>,
    /// In row-major order; `None` if no step reads it and it was [freed](Plan::free_packed).
    pub(crate) tensor: Option<Tensor>,
}

/// What a node has become.
#[derive(Clone, Debug)]
enum Lowered {
    Tensor(Operand),
    /// Something that is known only when it was evaluated.
    Value(ValueId),
    List(Vec<Lowered>),
    Tuple(Vec<Lowered>),
    /// Windows that follow each other along an axis, not copied yet.
    Concat(Vec<Operand>, usize),
}

struct Lowering<'a> {
    gm: &'a GraphModule,
    packed_weights: &'a PackedWeights,
    /// Makes functions of the tapes of sub-graphs.
    assembler: Option<Arc<dyn Assemble>>,
    /// The graph with its symbols.
    symbolic: &'a GraphModule,
    instance: Instance,
    record: Option<Record>,
    /// The operands as they are known.
    windows: Vec<SizedWindow>,
    steps: Vec<Step>,
    constants: Vec<Constant>,
    jobs: Vec<Job>,
    env: FxHashMap<NodeId, Lowered>,
}

impl Plan {
    /// Plans a graph module whose nodes have types, as far as these can be known, for inputs of these sizes;
    /// `symbolic` is the same graph for all sizes.
    pub(crate) fn new(
        (gm, symbolic): (&GraphModule, &GraphModule),
        key: &[Key],
        packed_weights: &PackedWeights,
        assembler: Option<Arc<dyn Assemble>>,
    ) -> Result<Plan> {
        let mut instance = Instance::default();
        let record = Record::new(symbolic.graph(), key, &mut instance);
        let mut lowering = Lowering {
            gm,
            packed_weights,
            assembler,
            symbolic,
            instance,
            record,
            windows: Vec::new(),
            steps: Vec::new(),
            constants: Vec::new(),
            jobs: Vec::new(),
            env: FxHashMap::default(),
        };
        let graph = gm.graph();
        for (i, id) in graph.placeholders().into_iter().enumerate() {
            lowering.input(id, i)?;
        }
        for (id, node) in graph.nodes() {
            match node.opcode() {
                OpCode::Placeholder | OpCode::Output => {}
                _ => lowering.node(id).map_err(|error| {
                    let node = fx_core::NodeRef { graph, id, node };
                    fx_core::interp::locate(error, node)
                })?,
            }
        }
        lowering.settle_all(graph.output())?;
        let output = lowering.source(graph.output())?;
        lowering.note_output()?;
        let Lowering { mut instance, mut steps, constants, jobs, record, .. } = lowering;
        let record = record.and_then(|record| record.complete(symbolic.graph(), &mut instance));
        let Instance { mut values, .. } = instance;
        steps = concurrent::arrange(gm, steps, values.len());
        free_evaluated(&values, &mut steps, &output);
        let memory = Memory::plan(&mut values, &mut steps, &output);
        let of = |is: fn(&Home) -> bool| -> Vec<ValueId> {
            (0..).zip(&values).filter(|(_, info)| is(&info.home)).map(|(value, _)| value).collect()
        };
        let given = of(|home| matches!(home, Home::Input(_) | Home::Buffer(_)));
        let held = of(|home| matches!(home, Home::Input(_) | Home::Buffer(_) | Home::Evaluated));
        let constants = Arc::new(constants);
        Ok(Plan { steps, values, given, held, constants, jobs, memory, output, record, is_bound: false })
    }

    /// Makes the same plan for inputs of other sizes, without a look at the graph; `None` if what was decided
    /// for these sizes may not be right for those.
    pub(crate) fn bind(&self, key: &[Key]) -> Result<Option<Plan>> {
        let Some(record) = &self.record else { return Ok(None) };
        let Some(mut new) = record.bind(key, &self.values)? else { return Ok(None) };
        let Some(memory) = self.memory.bind(&new.instance.values) else { return Ok(None) };
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let made = step.made as usize;
            let mut args = || new.args[made].take();
            let task = match &step.task {
                Task::Kernel { writes, .. } => match new.kernels[made].take() {
                    Some(kernel) => Task::Kernel { kernel, writes: writes.clone() },
                    None => return Ok(None),
                },
                Task::Evaluate { call, value, is_tensor, numbers, .. } => {
                    let (call, Some(args)) = (call.clone(), args()) else { return Ok(None) };
                    if let Call::Control(_, programs) = &call {
                        let is_planned = |arg: &Arg<Source>| match arg {
                            Arg::Graph(graph) => {
                                programs.iter().any(|program| Arc::ptr_eq(&program.graph, graph))
                            }
                            _ => true,
                        };
                        if !args.iter().all(is_planned) {
                            return Ok(None);
                        }
                    }
                    let args = args.iter().map(|arg| new.instance.placed(arg)).collect::<Result<_>>()?;
                    let (value, is_tensor, numbers) = (*value, *is_tensor, numbers.clone());
                    Task::Evaluate { call, args, value, is_tensor, numbers }
                }
                Task::SetBuffer { path, .. } => match args().as_deref() {
                    Some([value]) => {
                        Task::SetBuffer { path: path.clone(), value: new.instance.placed(value)? }
                    }
                    _ => return Ok(None),
                },
            };
            let Step { node, concurrent, made, .. } = *step;
            steps.push(Step { task, node, frees: step.frees.clone(), concurrent, made });
        }
        for &(step, from, by) in &self.memory.arena.reuses {
            if let Task::Kernel { kernel, .. } = &mut steps[step].task {
                kernel.reuse(from as ValueId, by as ValueId);
            }
        }
        let output = match new.args.last_mut().and_then(Option::take).as_deref() {
            Some([output]) => new.instance.placed(output)?,
            _ => return Ok(None),
        };
        Ok(Some(Plan {
            steps,
            values: new.instance.values,
            given: self.given.clone(),
            held: self.held.clone(),
            constants: self.constants.clone(),
            jobs: Vec::new(),
            memory,
            output,
            record: None,
            is_bound: true,
        }))
    }
}

impl Plan {
    /// Returns whether it can be bound to other sizes.
    pub(crate) fn is_recorded(&self) -> bool {
        self.record.is_some()
    }

    /// Lets go of the constants that no step reads as they are; returns their paths.
    pub(crate) fn free_packed(&mut self) -> Vec<Arc<str>> {
        let mut read = vec![false; self.values.len()];
        let mut note = |value: ValueId| read[value as usize] = true;
        for step in &self.steps {
            match &step.task {
                Task::Kernel { kernel, .. } => kernel.reads().into_iter().for_each(&mut note),
                Task::Evaluate { args, .. } => args.iter().for_each(|arg| sources(arg, &mut note)),
                Task::SetBuffer { value, .. } => sources(value, &mut note),
            }
        }
        sources(&self.output, &mut note);
        let mut kept: FxHashSet<Arc<str>> = FxHashSet::default();
        for (info, _) in self.values.iter().zip(read).filter(|(_, is_read)| *is_read) {
            if let Home::Constant(i) = info.home {
                kept.insert(self.constants[i].path.clone());
            }
        }
        let Some(constants) = Arc::get_mut(&mut self.constants) else { return Vec::new() };
        let freed = constants.iter_mut().filter(|constant| !kept.contains(&constant.path));
        let mut paths: Vec<Arc<str>> = freed
            .map(|constant| {
                constant.tensor = None;
                constant.path.clone()
            })
            .collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// PackedWeights constants, after which the plan can run.
    pub(crate) fn pack(&mut self) -> Result<()> {
        self.jobs.drain(..).try_for_each(Job::run)
    }

    /// Returns the tapes, those after products and convolutions, too.
    pub(crate) fn tapes(&mut self) -> impl Iterator<Item = &mut Tape> {
        self.steps.iter_mut().filter_map(|step| match &mut step.task {
            Task::Kernel { kernel, .. } => kernel.tape(),
            _ => None,
        })
    }
}

/// Says after which step each evaluated value is not needed any more.
fn free_evaluated(values: &[Info], steps: &mut [Step], output: &Arg<Source>) {
    let mut last: Vec<Option<usize>> = vec![None; values.len()];
    for (i, step) in steps.iter().enumerate() {
        match &step.task {
            Task::Kernel { kernel, .. } => {
                kernel.reads().into_iter().for_each(|value| last[value as usize] = Some(i))
            }
            Task::Evaluate { args, value, .. } => {
                last[*value as usize] = Some(i);
                args.iter().for_each(|arg| sources(arg, &mut |value| last[value as usize] = Some(i)));
            }
            Task::SetBuffer { value, .. } => sources(value, &mut |value| last[value as usize] = Some(i)),
        }
    }
    sources(output, &mut |value| last[value as usize] = None);
    for (value, last) in last.into_iter().enumerate() {
        if let Some(step) = last
            && values[value].home == Home::Evaluated
        {
            steps[step].frees.push(value as ValueId);
        }
    }
}

impl Lowering<'_> {
    /// Returns the tensor of a value that is a constant.
    fn constant(&self, value: ValueId) -> Option<&Tensor> {
        match self.instance.values[value as usize].home {
            Home::Constant(i) => self.constants[i].tensor.as_ref(),
            _ => None,
        }
    }

    fn input(&mut self, id: NodeId, number: usize) -> Result<()> {
        let lowered = match self.typed(id)? {
            Some((dtype, shape)) => {
                let value = self.value(Home::Input(number), dtype, shape.clone())?;
                Lowered::Tensor(self.whole(value, shape)?)
            }
            None => {
                let value = self.untyped();
                self.instance.values[value as usize].home = Home::Input(number);
                Lowered::Value(value)
            }
        };
        self.env.insert(id, lowered);
        Ok(())
    }

    fn node(&mut self, id: NodeId) -> Result<()> {
        let gm = self.gm;
        let node = gm.graph().node(id)?;
        let is_attention = node.op() == Some(scaled_dot_product_attention::OP);
        if !is_attention {
            for input in node.inputs().collect::<Vec<_>>() {
                self.settle(input, id)?;
            }
        }
        let lowered = match node.target() {
            Target::GetAttr(path) => self.attribute(path)?,
            Target::CallModule(path) => {
                let args = node.args().to_vec();
                self.evaluate(Call::Module(path.clone()), &args, id)?
            }
            Target::CallFunction(op) | Target::CallMethod(op) => {
                let bound = op.bind(node.args(), node.kwargs())?;
                self.call(*op, &bound, id)?
            }
            Target::Placeholder | Target::Output => return Ok(()),
        };
        self.env.insert(id, lowered);
        Ok(())
    }

    fn attribute(&mut self, path: &Arc<str>) -> Result<Lowered> {
        match self.gm.attribute(path)? {
            buffer @ Attribute::Buffer(_) => {
                let ty = buffer.tensor().ty()?;
                let Some((dtype, shape)) = known(Some(&ty.clone().into())) else {
                    bail!(Unresolved, "the buffer {path:?} has no value");
                };
                let shape: Shape = shape.iter().map(|&n| Size::Known(n)).collect();
                let value = self.value(Home::Buffer(path.clone()), dtype, shape.clone())?;
                Ok(Lowered::Tensor(self.whole(value, shape)?))
            }
            Attribute::State(_) => {
                let value = self.untyped();
                self.instance.values[value as usize].home = Home::Buffer(path.clone());
                Ok(Lowered::Value(value))
            }
            other => {
                let tensor = other.tensor();
                let array = tensor.array()?;
                let tensor =
                    if array.is_contiguous() { tensor.clone() } else { Tensor::new(array.contiguous()?) };
                let array = tensor.array()?;
                let dtype = array.dtype();
                let shape: Shape = array.shape().iter().map(|&n| Size::Known(n)).collect();
                let value = self.value(Home::Constant(self.constants.len()), dtype, shape.clone())?;
                self.constants.push(Constant { path: path.clone(), tensor: Some(tensor) });
                Ok(Lowered::Tensor(self.whole(value, shape)?))
            }
        }
    }

    fn call(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Lowered> {
        if let Some(lower) = lower_of(op)
            && let Some(lowered) = lower(self, op, bound, id)?
        {
            return Ok(lowered);
        }
        if !op.effects.is_pure() {
            return self.evaluate(Call::Op(op), bound, id);
        }
        if let Some(view) = self.view(op, bound, id)? {
            return Ok(view);
        }
        if let Some(def) = op.gufunc
            && let Some(lowered) = self.blocks(def, bound, id)?
        {
            return Ok(lowered);
        }
        if self.may_be_kernel(op, bound, id)
            && let Some(result) = self.single(id)?
        {
            return Ok(Lowered::Tensor(result));
        }
        let call = match self.sub_programs(op, bound)? {
            Some(programs) => Call::Control(op, programs),
            None => Call::Op(op),
        };
        self.evaluate(call, bound, id)
    }

    /// Makes programs of the sub-graphs of an operation, if the types of what they take are known. Integers that
    /// change from round to round have no part in the choice of a plan, but where sizes are computed from them.
    fn sub_programs(&self, op: Op, bound: &[Arg]) -> Result<Option<SubPrograms>> {
        if ops::operand_lists(op, bound).is_none() {
            return Ok(None);
        }
        let graphs: Vec<&Arc<Graph>> = bound
            .iter()
            .filter_map(|arg| if let Arg::Graph(graph) = arg { Some(graph) } else { None })
            .collect();
        let has_sizes = graphs.iter().any(|graph| !size_inputs(graph).is_empty());
        let ty =
            |arg| self.type_of(arg).map(|ty| if has_sizes { general_but_sizes(&ty) } else { ty.general() });
        let Some(types) = bound.iter().map(ty).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let types = match ops::sub_graph_inputs(op, &types) {
            Ok(types) => types,
            Err(error) if error.kind() == ErrorKind::UnknownType => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_lost = |at: usize| matches!(types.get(at), Some(Arg::Leaf(Type::Int)));
        if !types.iter().all(TypeTree::is_complete)
            || graphs.iter().any(|graph| size_inputs(graph).into_iter().any(is_lost))
        {
            return Ok(None);
        }
        // Each operand is an input of its own, but in a sub-graph that takes structures.
        let is_flat = graphs.iter().all(|graph| graph.inputs().len() == types.len());
        let known = if is_flat { self.captured_constants(op, bound, types.len()) } else { Vec::new() };
        let constants: Vec<usize> = known.iter().map(|(at, _)| *at).collect();
        let mut left = types.clone();
        constants.iter().rev().for_each(|at| drop(left.remove(*at)));
        let mut programs = Vec::new();
        for graph in graphs {
            let mut gm = GraphModule::new(graph.name(), Graph::clone(graph)).specialize(&types)?;
            // Programs pack the weights that are their constants.
            let inputs = gm.graph().inputs();
            let values: Vec<(String, Tensor)> =
                known.iter().map(|(at, tensor)| (inputs[*at].name.to_string(), tensor.clone())).collect();
            fx_core::pass::inputs_as_constants(&mut gm, &values)?;
            let program = Compiled::of_region(gm, &left, self.assembler.clone())?;
            programs.push(SubProgram { graph: graph.clone(), program, constants: constants.clone() });
        }
        Ok(Some(Arc::new(programs)))
    }

    /// Returns the operands of the sub-graphs of an operation, of `n`, that do not change from round to round and
    /// are parameters or constants.
    fn captured_constants(&self, op: Op, bound: &[Arg], n: usize) -> Vec<(usize, Tensor)> {
        let lists = ops::operand_lists(op, bound).unwrap_or_default();
        let Some(captured) = lists.last().and_then(Arg::items) else { return Vec::new() };
        let first = n - captured.len().min(n);
        let constant = |arg: &Arg| {
            let Arg::Leaf(id) = arg else { return None };
            let Target::GetAttr(path) = self.gm.graph().node(*id).ok()?.target() else { return None };
            match self.gm.attribute(path).ok()? {
                attribute @ (Attribute::Parameter(_) | Attribute::Constant(_)) => {
                    Some(attribute.tensor()).filter(|tensor| tensor.array().is_ok())
                }
                _ => None,
            }
        };
        let each = captured.iter().enumerate();
        each.filter_map(|(at, arg)| Some((first + at, constant(arg)?))).collect()
    }

    /// Returns the type of an argument, if it is known: that of tensors with their symbols.
    fn type_of(&self, arg: &Arg) -> Option<TypeTree> {
        let mut is_known = true;
        let ty = arg.try_flat_map(&mut |id| {
            let tensor = self.symbolic_type(&Arg::Leaf(*id)).map(TypeTree::from);
            let number = || self.symbolic.graph().node(*id).ok()?.ty().cloned();
            let ty = tensor.or_else(number).filter(TypeTree::is_complete);
            is_known &= ty.is_some();
            Ok(ty.unwrap_or(Arg::Leaf(Type::Any)))
        });
        ty.ok().filter(|_| is_known)
    }

    /// Returns the tensor that an argument is, if it lies somewhere.
    fn tensor(&self, arg: &Arg) -> Option<Operand> {
        match self.env.get(arg.leaf()?)? {
            Lowered::Tensor(operand) => Some(operand.clone()),
            _ => None,
        }
    }

    /// Returns the tensors in a list of operands, if all are.
    fn operands(&self, list: &Arg) -> Option<Vec<Operand>> {
        list.items()?.iter().map(|arg| self.tensor(arg)).collect()
    }

    fn tensor_type(&self, arg: &Arg) -> Option<TensorType> {
        self.tensor(arg).map(|operand| type_of(&operand))
    }

    /// Returns the type of a tensor with its symbols.
    fn symbolic_type(&self, arg: &Arg) -> Option<TensorType> {
        let operand = self.tensor(arg)?;
        Some(match &self.record {
            Some(record) => TensorType::new(operand.dtype, record.dims(&self.shape_of(&operand))),
            None => type_of(&operand),
        })
    }

    /// Returns an argument with the places of its tensors.
    fn source(&self, arg: &Arg) -> Result<Arg<Source>> {
        let mut unknown = None;
        arg.walk(&mut |arg| {
            if let (Arg::Dim(dim), None) = (arg, &unknown) {
                unknown = Some(dim.clone());
            }
        });
        match unknown {
            Some(dim) => Err(err!(Unresolved, "the size {dim} is not known before the call")),
            None => self.place(arg),
        }
    }

    /// As [`source`](Self::source), for an argument in which sizes may be symbols.
    fn place(&self, arg: &Arg) -> Result<Arg<Source>> {
        fn place(lowered: &Lowered, instance: &Instance) -> Result<Arg<Source>> {
            let all = |items: &[Lowered]| -> Result<Vec<Arg<Source>>> {
                items.iter().map(|item| place(item, instance)).collect()
            };
            Ok(match lowered {
                Lowered::Value(value) => Arg::Leaf(Source::Whole(*value)),
                Lowered::Concat(..) => bail!(Graph, "the parts of a join were not copied"),
                Lowered::List(items) => Arg::list(all(items)?),
                Lowered::Tuple(items) => Arg::tuple(all(items)?),
                Lowered::Tensor(operand) => Arg::Leaf(instance.source(operand)),
            })
        }
        arg.try_flat_map(&mut |id| match self.env.get(id) {
            Some(lowered) => place(lowered, &self.instance),
            None => bail!(Graph, "an input of the node was not computed"),
        })
    }

    /// Notes arguments, in which sizes may be symbols.
    fn note_args(&mut self, args: &[Arg], holes: Holes) -> Result<u32> {
        if self.record.is_none() {
            return Ok(0);
        }
        let args = args.iter().map(|arg| self.place(arg)).collect::<Result<Vec<_>>>()?;
        Ok(self.note(Made::Args(args, holes)))
    }

    /// Notes what is returned.
    fn note_output(&mut self) -> Result<()> {
        let output = std::slice::from_ref(self.symbolic.graph().output());
        let Some(record) = &mut self.record else { return Ok(()) };
        let holes = record.holes(output, &mut self.instance);
        self.note_args(output, holes).map(|_| ())
    }

    /// Returns whether a type has numbers that data decide.
    fn has_data_numbers(&self, ty: &TypeTree) -> bool {
        let is_told = |symbol: &Symbol| self.record.as_ref().is_some_and(|record| record.tells(symbol));
        match ty {
            Arg::Dim(dim) => dim.symbols().iter().any(|symbol| !is_told(symbol)),
            Arg::Tuple(items) | Arg::List(items) => items.iter().any(|item| self.has_data_numbers(item)),
            _ => false,
        }
    }

    fn evaluate(&mut self, call: Call, bound: &[Arg], id: NodeId) -> Result<Lowered> {
        let args = bound.iter().map(|arg| self.source(arg)).collect::<Result<Vec<_>>>()?;
        let (symbolic, holes) = self.symbolic_args(bound, id)?;
        let made = self.note_args(&symbolic, holes)?;
        let (value, lowered) = match self.typed(id)? {
            Some((dtype, shape)) => {
                let value = self.value(Home::Evaluated, dtype, shape.clone())?;
                (value, Lowered::Tensor(self.whole(value, shape)?))
            }
            None => {
                let value = self.untyped();
                (value, Lowered::Value(value))
            }
        };
        let is_tensor = matches!(lowered, Lowered::Tensor(_));
        let numbers = self.symbolic(id).filter(|ty| self.has_data_numbers(ty)).cloned().map(Arc::new);
        let task = Task::Evaluate { call, args, value, is_tensor, numbers };
        self.steps.push(Step { task, node: id, frees: Vec::new(), concurrent: 0, made });
        Ok(lowered)
    }
}

fn type_of(operand: &Operand) -> TensorType {
    TensorType::new(operand.dtype, &operand.shape[..])
}

/// Returns dtype and sizes of a type that is one tensor of known sizes.
fn known(ty: Option<&TypeTree>) -> Option<(DType, Sizes)> {
    match ty? {
        Arg::Leaf(Type::Tensor(ty)) => Some((ty.dtype, ty.shape.known()?.iter().copied().collect())),
        _ => None,
    }
}

/// Returns the places of the inputs whose declared value is a size, from which the graph computes other sizes.
fn size_inputs(graph: &Graph) -> Vec<usize> {
    let is_size = |id: &NodeId| graph.node(*id).is_ok_and(|node| matches!(node.ty(), Some(Arg::Dim(_))));
    let inputs = graph.placeholders();
    inputs.iter().enumerate().filter(|(_, id)| is_size(id)).map(|(at, _)| at).collect()
}

/// Returns a type without the values of its numbers, which may be others for other sizes; sizes keep their
/// symbols.
fn general_but_sizes(ty: &TypeTree) -> TypeTree {
    let general = ty.try_rewrite(&mut |part: &TypeTree| {
        Ok(match part {
            Arg::Dim(_) | Arg::Leaf(_) => Some(part.clone()),
            Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) | Arg::Str(_) => Some(part.general()),
            _ => None,
        })
    });
    general.unwrap_or_else(Arg::Failed)
}
