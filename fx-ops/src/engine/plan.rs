//! [`Plan`]: a graph for inputs of known sizes as a list of steps, each with its operands in place.
//!
//! Values are numbered. What kernels make and only kernels read lies in one block of memory (`memory`); what is evaluated, goes in or
//! comes out is an array of its own. Views are windows on the value that they are views of, and take no step (`windows`); groups and nodes
//! that have one become kernels (`kernels`, `recurrent`).

mod beside;
pub(super) mod kernels;
mod recurrent;
mod windows;

use std::marker::PhantomData;
use std::sync::Arc;

use fx_core::array::{Sizes, checked_numel};
use fx_core::native::Assemble;
use fx_core::{
    Arg, Array, Attribute, DType, Graph, GraphModule, NodeId, Op, OpCode, Result, Target, Tensor, TensorType,
    Type, TypeTree, bail, err, ops,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::group::GroupNormKernel;
use super::memory::Memory;
use super::operand::{Layout, Operand, ValueId};
use super::packs::{Job, Packs};
use super::pool::{PoolKernel, pool_of};
use super::tape::Tape;
use super::{Compiled, Kernel};
use crate::attention::scaled_dot_product_attention;
use crate::kernel::group::GroupNorm;

/// Where a value lives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Home {
    /// It is given: the input of this number.
    Input(usize),
    /// A buffer, as it is when the call begins.
    Buffer(Arc<str>),
    /// A parameter or constant.
    Constant(usize),
    /// In the block of memory.
    Memory,
    /// In an array of its own, which a kernel writes.
    Array,
    /// What an operation gave when it was evaluated.
    Evaluated,
}

/// A value of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Info {
    pub(crate) home: Home,
    pub(crate) dtype: DType,
    pub(crate) shape: Sizes,
    pub(crate) numel: usize,
}

/// A tensor in an argument of an operation that is evaluated.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The value.
    Whole(ValueId),
    /// A part of it, or another view.
    Window(Operand),
}

/// What a step does.
pub(crate) enum Task {
    /// Runs a kernel, after the arrays that it writes were made.
    Kernel { kernel: Box<dyn Kernel>, writes: Vec<ValueId> },
    /// Evaluates an operation, or the module at a path.
    Evaluate { call: Call, args: Vec<Arg<Source>>, value: ValueId, is_tensor: bool },
    /// Notes the new value of a buffer.
    SetBuffer { path: Arc<str>, value: Arg<Source> },
}

/// Sub-graphs, and the programs that they became.
pub(crate) type SubPrograms = Vec<(Arc<Graph>, Compiled)>;

pub(crate) enum Call {
    Op(Op),
    /// An operation that runs sub-graphs, with those that are programs of their own.
    Control(Op, SubPrograms),
    Module(Arc<str>),
}

impl Task {
    /// Says what it does.
    pub(crate) fn describe(&self) -> String {
        match self {
            Task::Kernel { kernel, .. } => kernel.describe(),
            Task::Evaluate { call: Call::Op(op), .. } => format!("evaluate {}", op.name),
            Task::Evaluate { call: Call::Control(op, _), .. } => {
                format!("evaluate {}, its sub-graphs planned", op.name)
            }
            Task::Evaluate { call: Call::Module(path), .. } => format!("call {path}"),
            Task::SetBuffer { path, .. } => format!("update {path}"),
        }
    }
}

/// A step of a plan.
pub(crate) struct Step {
    pub(crate) task: Task,
    /// The node that it computes, the last one of a group.
    pub(crate) node: NodeId,
    /// The evaluated values that nobody uses later.
    pub(crate) frees: Vec<ValueId>,
    /// How many of the steps after it, which are kernels too, run at the same time.
    pub(crate) beside: usize,
}

/// A graph as steps.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) values: Vec<Info>,
    /// The inputs and buffers among the values.
    pub(crate) given: Vec<ValueId>,
    /// The values that a call holds as what they are: those that are given, and those that are evaluated.
    pub(crate) held: Vec<ValueId>,
    pub(crate) constants: Vec<Constant>,
    /// What is to be done before it runs.
    jobs: Vec<Job>,
    pub(crate) memory: Memory,
    pub(crate) output: Arg<Source>,
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
    Joined(Vec<Operand>, usize),
}

struct Lowering<'a> {
    gm: &'a GraphModule,
    packs: &'a Packs,
    /// Makes functions of the tapes of sub-graphs.
    assembler: Option<Arc<dyn Assemble>>,
    values: Vec<Info>,
    steps: Vec<Step>,
    constants: Vec<Constant>,
    jobs: Vec<Job>,
    env: FxHashMap<NodeId, Lowered>,
    /// The array on which views are tried.
    shadow: Option<Array>,
}

impl Plan {
    /// Plans a graph module whose nodes have types, as far as these can be known.
    pub(crate) fn new(gm: &GraphModule, packs: &Packs, assembler: Option<Arc<dyn Assemble>>) -> Result<Plan> {
        let mut lowering = Lowering {
            gm,
            packs,
            assembler,
            values: Vec::new(),
            steps: Vec::new(),
            constants: Vec::new(),
            jobs: Vec::new(),
            env: FxHashMap::default(),
            shadow: None,
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
        let Lowering { mut values, mut steps, constants, jobs, .. } = lowering;
        steps = beside::arrange(gm, steps, values.len());
        free_evaluated(&values, &mut steps, &output);
        let memory = Memory::plan(&mut values, &mut steps, &output);
        let of = |is: fn(&Home) -> bool| -> Vec<ValueId> {
            (0..).zip(&values).filter(|(_, info)| is(&info.home)).map(|(value, _)| value).collect()
        };
        let given = of(|home| matches!(home, Home::Input(_) | Home::Buffer(_)));
        let held = of(|home| matches!(home, Home::Input(_) | Home::Buffer(_) | Home::Evaluated));
        Ok(Plan { steps, values, given, held, constants, jobs, memory, output })
    }
}

impl Plan {
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
        let freed = self.constants.iter_mut().filter(|constant| !kept.contains(&constant.path));
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

    /// Packs constants, after which the plan can run.
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

/// Calls `f` with every value in an argument.
pub(crate) fn sources(arg: &Arg<Source>, f: &mut dyn FnMut(ValueId)) {
    arg.for_each_leaf(&mut |source| match source {
        Source::Whole(value) => f(*value),
        Source::Window(operand) => f(operand.value),
    });
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
        match self.values[value as usize].home {
            Home::Constant(i) => self.constants[i].tensor.as_ref(),
            _ => None,
        }
    }

    fn value(&mut self, home: Home, dtype: DType, shape: &[usize]) -> Result<ValueId> {
        let numel = checked_numel(shape)?;
        self.values.push(Info { home, dtype, shape: shape.into(), numel });
        Ok(self.values.len() as ValueId - 1)
    }

    /// Makes a value whose type is not one tensor.
    fn untyped(&mut self) -> ValueId {
        self.values.push(Info { home: Home::Evaluated, dtype: DType::Bool, shape: Sizes::new(), numel: 0 });
        self.values.len() as ValueId - 1
    }

    fn input(&mut self, id: NodeId, number: usize) -> Result<()> {
        let lowered = match known(self.gm.graph().node(id)?.ty()) {
            Some((dtype, shape)) => {
                let value = self.value(Home::Input(number), dtype, &shape)?;
                Lowered::Tensor(Operand::whole(value, dtype, &shape))
            }
            None => {
                let value = self.untyped();
                self.values[value as usize].home = Home::Input(number);
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
                let value = self.value(Home::Buffer(path.clone()), dtype, &shape)?;
                Ok(Lowered::Tensor(Operand::whole(value, dtype, &shape)))
            }
            other => {
                let tensor = other.tensor();
                let array = tensor.array()?;
                let tensor =
                    if array.is_contiguous() { tensor.clone() } else { Tensor::new(array.contiguous()?) };
                let array = tensor.array()?;
                let (dtype, shape) = (array.dtype(), Sizes::from_slice(array.shape()));
                let value = self.value(Home::Constant(self.constants.len()), dtype, &shape)?;
                self.constants.push(Constant { path: path.clone(), tensor: Some(tensor) });
                Ok(Lowered::Tensor(Operand::whole(value, dtype, &shape)))
            }
        }
    }

    fn call(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Lowered> {
        if op == ops::set_buffer::OP
            && let [Arg::Str(path), value] = bound
        {
            let value = self.source(value)?;
            let task = Task::SetBuffer { path: path.clone(), value };
            self.steps.push(Step { task, node: id, frees: Vec::new(), beside: 0 });
            return Ok(Lowered::Tuple(Vec::new()));
        }
        if op == ops::getitem::OP
            && let [Arg::Leaf(from), Arg::Int(i)] = bound
            && let Some(Lowered::List(items) | Lowered::Tuple(items)) = self.env.get(from)
        {
            let at = if *i < 0 { items.len() as i64 + i } else { *i };
            return match usize::try_from(at).ok().and_then(|at| items.get(at)) {
                Some(item) => Ok(item.clone()),
                None => bail!(Index, "there is no item {i} of {}", items.len()),
            };
        }
        if op == scaled_dot_product_attention::OP {
            if let Some(result) = self.attention(bound, id)? {
                return Ok(result);
            }
            for input in self.gm.graph().node(id)?.inputs().collect::<Vec<_>>() {
                self.settle(input, id)?;
            }
        }
        if let Some(joined) = self.joined(op, bound, id)? {
            return Ok(joined);
        }
        if !op.effects.is_pure() {
            return self.evaluate(Call::Op(op), bound, id);
        }
        if let Some(pooled) = self.pool(op, bound, id)? {
            return Ok(pooled);
        }
        if let Some(normalised) = self.group_norm(op, bound, id)? {
            return Ok(normalised);
        }
        if let Some(recurrent) = self.recurrent(op, bound, id)? {
            return Ok(recurrent);
        }
        if op == ops::fused::OP
            && let [Arg::Graph(body), operands] = bound
            && let Some(operands) = self.operands(operands)
            && let Some(results) = self.group(body, &operands, id)?
        {
            return Ok(match &results[..] {
                [one] if !matches!(body.output(), Arg::Tuple(_)) => Lowered::Tensor(one.clone()),
                _ => Lowered::Tuple(results.into_iter().map(Lowered::Tensor).collect()),
            });
        }
        if let Some(view) = self.view(op, bound, id)? {
            return Ok(view);
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

    /// Makes programs of the sub-graphs of an operation, if it takes nothing but tensors. They are planned once for all sizes that it
    /// gives them: numbers would need a plan each.
    fn sub_programs(&self, op: Op, bound: &[Arg]) -> Result<Option<SubPrograms>> {
        let Some(operands) = ops::sub_graph_operands(op, bound) else { return Ok(None) };
        let types = operands.into_iter().map(|arg| self.tensor_type(arg).map(TypeTree::from));
        let Some(types) = types.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut programs = Vec::new();
        for arg in bound {
            let Arg::Graph(graph) = arg else { continue };
            let gm = GraphModule::new(graph.name(), Graph::clone(graph)).specialize(&types)?;
            programs.push((graph.clone(), Compiled::with(gm, self.assembler.clone())?));
        }
        Ok(Some(programs))
    }

    /// Makes a kernel of a pooling of an operand whose channels lie last.
    fn pool(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        let Some(Lowered::Tensor(x)) = bound.first().and_then(Arg::leaf).and_then(|id| self.env.get(id))
        else {
            return Ok(None);
        };
        let mut x = x.clone();
        let Some((dtype, shape)) = known(self.gm.graph().node(id)?.ty()) else { return Ok(None) };
        let layout = x.layout().unwrap_or(Layout::RowMajor);
        // Tapes have means of rows.
        let is_of_rows = layout == Layout::RowMajor && op == crate::reduce::mean::OP;
        if !matches!(dtype, DType::F32 | DType::F64) || dtype != x.dtype || x.shape.len() < 3 || is_of_rows {
            return Ok(None);
        }
        let Some(pool) = pool_of(op, bound, &x.shape, &shape) else { return Ok(None) };
        if x.layout().is_none() {
            x = self.contiguous(&x, id)?;
        }
        let mut out = self.result(dtype, &shape, layout)?;
        if out.shape.len() < x.shape.len() {
            out = Operand::whole(out.value, dtype, &shape);
        }
        let numel = self.values[out.value as usize].numel;
        let kernel: Box<dyn Kernel> = match dtype {
            DType::F64 => Box::new(PoolKernel::<f64>::new(pool, (x, layout), out.value, numel)),
            _ => Box::new(PoolKernel::<f32>::new(pool, (x, layout), out.value, numel)),
        };
        self.push_kernel(kernel, vec![out.value], id);
        Ok(Some(Lowered::Tensor(out)))
    }

    /// Makes a kernel of a normalisation of groups of channels.
    fn group_norm(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        let [x, Arg::Int(groups), weight, bias, Arg::Float(eps)] = bound else { return Ok(None) };
        if op != crate::norm::group_norm::OP {
            return Ok(None);
        }
        let operand = |arg: &Arg| match self.env.get(arg.leaf()?)? {
            Lowered::Tensor(operand) => Some(operand.clone()),
            _ => None,
        };
        let Some((x, layout)) = operand(x).and_then(|x| Some((x.clone(), x.layout()?))) else {
            return Ok(None);
        };
        if !matches!(x.dtype, DType::F32 | DType::F64) {
            return Ok(None);
        }
        let affine = [operand(weight), operand(bias)];
        let is_given = [weight, bias].map(|arg| !matches!(arg, Arg::None));
        let fits = |operand: &Operand| operand.dtype == x.dtype && operand.is_contiguous();
        if affine.each_ref().map(Option::is_some) != is_given || !affine.iter().flatten().all(fits) {
            return Ok(None);
        }
        let [_, channels, plane @ ..] = &x.shape[..] else { return Ok(None) };
        let (channels, plane, groups) = (*channels, plane.iter().product(), *groups as usize);
        let norm = GroupNorm { channels, plane, groups, eps: *eps };
        let out = self.result(x.dtype, &x.shape, layout)?;
        let value = out.value;
        let kernel: Box<dyn Kernel> = match x.dtype {
            DType::F32 => {
                Box::new(GroupNormKernel::<f32> { norm, x, affine, layout, out: value, this: PhantomData })
            }
            _ => Box::new(GroupNormKernel::<f64> { norm, x, affine, layout, out: value, this: PhantomData }),
        };
        self.push_kernel(kernel, vec![value], id);
        Ok(Some(Lowered::Tensor(out)))
    }

    /// Returns the tensors in a list of operands, if all are.
    fn operands(&self, list: &Arg) -> Option<Vec<Operand>> {
        let operand = |arg: &Arg| match self.env.get(arg.leaf()?)? {
            Lowered::Tensor(operand) => Some(operand.clone()),
            _ => None,
        };
        list.items()?.iter().map(operand).collect()
    }

    fn tensor_type(&self, arg: &Arg) -> Option<TensorType> {
        match self.env.get(arg.leaf()?)? {
            Lowered::Tensor(operand) => Some(type_of(operand)),
            _ => None,
        }
    }

    fn push_kernel(&mut self, kernel: Box<dyn Kernel>, writes: Vec<ValueId>, id: NodeId) {
        self.steps.push(Step {
            task: Task::Kernel { kernel, writes },
            node: id,
            frees: Vec::new(),
            beside: 0,
        });
    }

    /// Returns an argument with the places of its tensors.
    fn source(&self, arg: &Arg) -> Result<Arg<Source>> {
        fn place(lowered: &Lowered, values: &[Info]) -> Result<Arg<Source>> {
            let all = |items: &[Lowered]| -> Result<Vec<Arg<Source>>> {
                items.iter().map(|item| place(item, values)).collect()
            };
            Ok(match lowered {
                Lowered::Value(value) => Arg::Leaf(Source::Whole(*value)),
                Lowered::Joined(..) => bail!(Graph, "the parts of a join were not copied"),
                Lowered::List(items) => Arg::list(all(items)?),
                Lowered::Tuple(items) => Arg::tuple(all(items)?),
                Lowered::Tensor(operand) => {
                    let info = &values[operand.value as usize];
                    let is_whole =
                        operand.offset == 0 && operand.shape == info.shape && operand.is_contiguous();
                    Arg::Leaf(match is_whole {
                        true => Source::Whole(operand.value),
                        false => Source::Window(operand.clone()),
                    })
                }
            })
        }
        arg.try_rewrite(&mut |arg| match arg {
            Arg::Leaf(id) => match self.env.get(id) {
                Some(lowered) => place(lowered, &self.values).map(Some),
                None => bail!(Graph, "an input of the node was not computed"),
            },
            Arg::Dim(dim) => Err(err!(Unresolved, "the size {dim} is not known before the call")),
            _ => Ok(None),
        })
    }

    fn evaluate(&mut self, call: Call, bound: &[Arg], id: NodeId) -> Result<Lowered> {
        let args = bound.iter().map(|arg| self.source(arg)).collect::<Result<Vec<_>>>()?;
        let node = self.gm.graph().node(id)?;
        let (value, lowered) = match known(node.ty()) {
            Some((dtype, shape)) => {
                let value = self.value(Home::Evaluated, dtype, &shape)?;
                (value, Lowered::Tensor(Operand::whole(value, dtype, &shape)))
            }
            None => {
                let value = self.untyped();
                (value, Lowered::Value(value))
            }
        };
        let is_tensor = matches!(lowered, Lowered::Tensor(_));
        let task = Task::Evaluate { call, args, value, is_tensor };
        self.steps.push(Step { task, node: id, frees: Vec::new(), beside: 0 });
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
