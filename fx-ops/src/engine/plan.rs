//! [`Plan`]: a graph for inputs of known sizes as a list of steps, each with its operands in place.
//!
//! Values are numbered. What kernels make and only kernels read lies in one block of memory (`memory`); what is evaluated, goes in or
//! comes out is an array of its own. Views are windows on the value that they are views of, and take no step.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use fx_core::array::{Sizes, checked_numel};
use fx_core::{
    Arg, Array, Attribute, Class, DType, Graph, GraphModule, NodeId, Op, OpCode, Result, Target, Tensor,
    TensorType, Type, TypeTree, bail, err, ops,
};
use rustc_hash::FxHashMap;

use super::Kernel;
use super::attend::{AttentionKernel, Options};
use super::convolution::{ConvKernel, is_convolution, spec_of};
use super::join::JoinKernel;
use super::memory::Memory;
use super::operand::{Operand, ValueId};
use super::product::{Matrices, ProductKernel, is_product, matrices};
use super::tape::{Action, Instruction, Load, Spot, Store, Tape, build};
use crate::attention::scaled_dot_product_attention;
use crate::kernel::conv::{ConvSpec, Prepared};
use crate::kernel::gemm::{GemmElement, Product};
use crate::linalg::{addmm, linear, mm};

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

#[derive(Clone)]
pub(crate) enum Call {
    Op(Op),
    Module(Arc<str>),
}

/// A step of a plan.
pub(crate) struct Step {
    pub(crate) task: Task,
    /// The node that it computes, the last one of a group.
    pub(crate) node: NodeId,
    /// The evaluated values that nobody uses later.
    pub(crate) frees: Vec<ValueId>,
}

/// A graph as steps.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) values: Vec<Info>,
    pub(crate) constants: Vec<Tensor>,
    pub(crate) memory: Memory,
    pub(crate) output: Arg<Source>,
}

/// Packed weights, by the place, shape and strides of what was packed.
#[derive(Default)]
pub(crate) struct Packs(Mutex<FxHashMap<PackKey, Arc<dyn Any + Send + Sync>>>);

type PackKey = (usize, Vec<usize>, Vec<isize>);

impl Packs {
    fn get<T: GemmElement>(&self, key: PackKey, pack: impl FnOnce() -> Vec<T>) -> Option<Arc<Vec<T>>> {
        let mut packs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        packs.entry(key).or_insert_with(|| Arc::new(pack())).clone().downcast().ok()
    }
}

/// What a node has become.
#[derive(Clone, Debug)]
enum Lowered {
    Tensor(Operand),
    /// Something that is known only when it was evaluated.
    Value(ValueId),
    Many(Vec<Lowered>),
    /// Windows that follow each other along an axis, not copied yet.
    Joined(Vec<Operand>, usize),
}

struct Lowering<'a> {
    gm: &'a GraphModule,
    packs: &'a Packs,
    values: Vec<Info>,
    steps: Vec<Step>,
    constants: Vec<Tensor>,
    env: FxHashMap<NodeId, Lowered>,
    /// The array on which views are tried.
    shadow: Option<Array>,
}

impl Plan {
    /// Plans a graph module whose nodes have types, as far as these can be known.
    pub(crate) fn new(gm: &GraphModule, packs: &Packs) -> Result<Plan> {
        let mut lowering = Lowering {
            gm,
            packs,
            values: Vec::new(),
            steps: Vec::new(),
            constants: Vec::new(),
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
        let Lowering { mut values, mut steps, constants, .. } = lowering;
        free_evaluated(&values, &mut steps, &output);
        let memory = Memory::plan(&mut values, &mut steps, &output);
        Ok(Plan { steps, values, constants, memory, output })
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
                self.constants.push(tensor);
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
            self.steps.push(Step { task, node: id, frees: Vec::new() });
            return Ok(Lowered::Many(Vec::new()));
        }
        if op == ops::getitem::OP
            && let [Arg::Leaf(from), Arg::Int(i)] = bound
            && let Some(Lowered::Many(items)) = self.env.get(from)
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
        if op == ops::fused::OP
            && let [Arg::Graph(body), operands] = bound
            && let Some(operands) = self.operands(operands)
            && let Some(results) = self.group(body, &operands, id)?
        {
            return Ok(match &results[..] {
                [one] if !matches!(body.output(), Arg::Tuple(_)) => Lowered::Tensor(one.clone()),
                _ => Lowered::Many(results.into_iter().map(Lowered::Tensor).collect()),
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
        self.evaluate(Call::Op(op), bound, id)
    }

    /// Copies windows that were to follow each other, so that they do.
    fn settle(&mut self, id: NodeId, at: NodeId) -> Result<()> {
        let Some(Lowered::Joined(parts, axis)) = self.env.get(&id) else { return Ok(()) };
        let (parts, axis) = (parts.clone(), *axis);
        let Some((dtype, shape)) = known(self.gm.graph().node(id)?.ty()) else {
            bail!(Graph, "a join has no type");
        };
        let value = self.value(Home::Memory, dtype, &shape)?;
        let Some(kernel) = JoinKernel::new(&parts, axis, value) else { bail!(Graph, "a join has no parts") };
        self.push_kernel(Box::new(kernel), vec![value], at);
        self.env.insert(id, Lowered::Tensor(Operand::whole(value, dtype, &shape)));
        Ok(())
    }

    fn settle_all(&mut self, arg: &Arg) -> Result<()> {
        for id in arg.leaves() {
            self.settle(*id, *id)?;
        }
        Ok(())
    }

    /// Notes the parts of a join, which are copied when somebody needs them side by side.
    fn joined(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
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

    fn attention(&mut self, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        let [q, k, v, mask, dropout, Arg::Bool(is_causal), scale, Arg::Bool(grouped)] = bound else {
            return Ok(None);
        };
        let Some((dtype, shape)) = known(self.gm.graph().node(id)?.ty()) else { return Ok(None) };
        let scale = match scale {
            Arg::None => None,
            arg => match arg.scalar() {
                Some(x) => Some(x.to_f64()),
                None => return Ok(None),
            },
        };
        let no_dropout = dropout.scalar().is_some_and(|p| p.to_f64() == 0.0);
        if !no_dropout || !matches!(dtype, DType::F32 | DType::F64) || shape.len() < 2 {
            return Ok(None);
        }
        let lowered = |arg: &Arg| arg.leaf().and_then(|id| self.env.get(id)).cloned();
        let Some(Lowered::Tensor(q)) = lowered(q) else { return Ok(None) };
        let mask = match (mask, lowered(mask)) {
            (Arg::None, _) => None,
            (_, Some(Lowered::Tensor(mask))) if mask.dtype == dtype || mask.dtype == DType::Bool => {
                Some(mask)
            }
            _ => return Ok(None),
        };
        let is_along_keys = |parts: &[Operand], axis: usize| axis + 2 == parts[0].shape.len();
        let parts: Vec<(Operand, Operand)> = match (lowered(k), lowered(v)) {
            (Some(Lowered::Tensor(k)), Some(Lowered::Tensor(v))) => vec![(k, v)],
            (Some(Lowered::Joined(k, k_axis)), Some(Lowered::Joined(v, v_axis)))
                if k.len() == v.len()
                    && is_along_keys(&k, k_axis)
                    && is_along_keys(&v, v_axis)
                    && k.iter().zip(&v).all(|(k, v)| k.shape[k_axis] == v.shape[v_axis]) =>
            {
                k.into_iter().zip(v).collect()
            }
            _ => return Ok(None),
        };
        if parts.iter().any(|(k, v)| k.dtype != dtype || v.dtype != dtype) || q.dtype != dtype {
            return Ok(None);
        }
        // The result lies with the heads inside, as what follows most often wants it.
        let rank = shape.len();
        let n_values = self.values.len();
        let mut physical = shape.clone();
        if rank >= 3 {
            physical.swap(rank - 3, rank - 2);
        }
        let value = self.value(Home::Memory, dtype, &physical)?;
        let mut out = Operand::whole(value, dtype, &physical);
        if rank >= 3 {
            out.shape.swap(rank - 3, rank - 2);
            out.strides.swap(rank - 3, rank - 2);
        }
        let options = Options { is_causal: *is_causal, scale, grouped: *grouped };
        let kernel: Option<Box<dyn Kernel>> = match dtype {
            DType::F64 => AttentionKernel::<f64>::new(&q, &parts, mask.as_ref(), options, &out)
                .map(|kernel| Box::new(kernel) as Box<dyn Kernel>),
            _ => AttentionKernel::<f32>::new(&q, &parts, mask.as_ref(), options, &out)
                .map(|kernel| Box::new(kernel) as Box<dyn Kernel>),
        };
        let Some(kernel) = kernel else {
            self.values.truncate(n_values);
            return Ok(None);
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

    /// Returns whether a call alone could be a kernel.
    fn may_be_kernel(&self, op: Op, bound: &[Arg], id: NodeId) -> bool {
        let Ok(node) = self.gm.graph().node(id) else { return false };
        let Some(ty) = node.ty().and_then(TypeTree::tensor) else { return false };
        let all_tensors = bound
            .iter()
            .flat_map(|arg| arg.leaves())
            .all(|id| matches!(self.env.get(id), Some(Lowered::Tensor(_))));
        all_tensors
            && (matches!(op.class, Class::Pointwise(_))
                || build::select_of(op, bound)
                    .is_some_and(|args| build::is_select(args, |arg| self.tensor_type(arg), ty))
                || is_anchor(op, bound, |arg| self.tensor_type(arg), ty)
                || bound
                    .first()
                    .and_then(|arg| self.tensor_type(arg))
                    .is_some_and(|x| build::row_kind(op, bound, &x).is_some()))
    }

    /// Makes a kernel of one node.
    fn single(&mut self, id: NodeId) -> Result<Option<Operand>> {
        let graph = self.gm.graph();
        let node = graph.node(id)?;
        let mut body = Graph::new("single");
        let mut map = fx_core::graph::NodeMap::default();
        let mut operands = Vec::new();
        for input in node.inputs() {
            let Some(Lowered::Tensor(operand)) = self.env.get(&input) else { return Ok(None) };
            map.insert(input, Arg::Leaf(body.placeholder(graph.node(input)?.name())?));
            operands.push(operand.clone());
        }
        let new = body.copy_node(graph, id, &mut map)?;
        body.set_output(Arg::Leaf(new))?;
        Ok(self.group(&body, &operands, id)?.and_then(|mut results| results.pop()))
    }

    /// Makes a kernel of a closed graph; `None` if there is none for it.
    fn group(&mut self, body: &Graph, operands: &[Operand], id: NodeId) -> Result<Option<Vec<Operand>>> {
        let mut body = body.clone();
        let types: Vec<TypeTree> = operands.iter().map(|operand| type_of(operand).into()).collect();
        let mut found = infer_in(&mut body, &types)?;
        let anchor = find_anchor(&body, &found)?;
        let mut product = None;
        if let Some(anchor) = anchor {
            if unbias(&mut body, anchor)? {
                found = infer_in(&mut body, &types)?;
            }
            let node = body.node(anchor)?;
            let placeholders = body.placeholders();
            let place = |id: NodeId| placeholders.iter().position(|other| *other == id);
            if node.inputs().any(|id| place(id).is_none()) {
                return Ok(None);
            }
            // The tensors of the call in schema order; one may be both.
            let Some(op) = node.op() else { return Ok(None) };
            let bound = op.bind(node.args(), node.kwargs())?;
            let tensors: Vec<Operand> = bound
                .iter()
                .filter_map(Arg::leaf)
                .filter_map(|id| place(*id))
                .map(|i| operands[i].clone())
                .collect();
            let Some(heavy) = self.heavy(op, &bound, &tensors)? else { return Ok(None) };
            product = Some((anchor, heavy));
        }
        let mut given = self.views_in(&body, operands)?;
        let returned: Vec<Arg> = match body.output() {
            Arg::Tuple(items) => items.to_vec(),
            one => vec![one.clone()],
        };
        let first_value = self.values.len();
        let mut results = Vec::new();
        for arg in &returned {
            let ty = arg.leaf().and_then(|id| found.get(id));
            let Some((dtype, shape)) = known(ty) else {
                self.values.truncate(first_value);
                return Ok(None);
            };
            let value = self.value(Home::Memory, dtype, &shape)?;
            results.push(Operand::whole(value, dtype, &shape));
        }
        let stores: Vec<ValueId> = results.iter().map(|result| result.value).collect();
        let Some((anchor, heavy)) = product else {
            let Some(tape) = build::build(&body, &found, operands, &given, None, &stores)? else {
                self.values.truncate(first_value);
                return Ok(None);
            };
            self.push_kernel(Box::new(tape), stores, id);
            return Ok(Some(results));
        };
        let Some((dtype, shape)) = known(found.get(&anchor)) else {
            self.values.truncate(first_value);
            return Ok(None);
        };
        // The product is written where it is returned, or where a result of its type goes, or else beside them.
        let is_anchor = |arg: &Arg| arg.leaf() == Some(&anchor);
        let fits = |result: &Operand| result.dtype == dtype && result.shape == shape;
        let place = returned.iter().position(is_anchor).or_else(|| results.iter().position(fits));
        let mut writes = stores.clone();
        let out = match place {
            Some(i) => stores[i],
            None => {
                let value = self.value(Home::Memory, dtype, &shape)?;
                writes.push(value);
                value
            }
        };
        given.push((anchor, Operand::whole(out, dtype, &shape)));
        let has_more = body
            .nodes()
            .any(|(id, node)| id != anchor && !matches!(node.opcode(), OpCode::Placeholder | OpCode::Output));
        let tape = match has_more {
            false => None,
            true => match build::build(
                &body,
                &found,
                operands,
                &given,
                Some((anchor, heavy.row_axes())),
                &stores,
            )? {
                Some(tape) => Some(tape),
                None => {
                    self.values.truncate(first_value);
                    return Ok(None);
                }
            },
        };
        let kernel = match (heavy, dtype) {
            (Heavy::Product(matrices), DType::F64) => self.product::<f64>(&matrices, out, tape, id)?,
            (Heavy::Product(matrices), _) => self.product::<f32>(&matrices, out, tape, id)?,
            (Heavy::Convolution(spec, x, weight), DType::F64) => {
                self.convolution::<f64>(&spec, &x, &weight, out, tape, id)?
            }
            (Heavy::Convolution(spec, x, weight), _) => {
                self.convolution::<f32>(&spec, &x, &weight, out, tape, id)?
            }
        };
        let Some(kernel) = kernel else { return Ok(None) };
        self.push_kernel(kernel, writes, id);
        Ok(Some(results))
    }

    /// Returns the views of operands in a closed graph.
    fn views_in(&mut self, body: &Graph, operands: &[Operand]) -> Result<Vec<(NodeId, Operand)>> {
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

    fn push_kernel(&mut self, kernel: Box<dyn Kernel>, writes: Vec<ValueId>, id: NodeId) {
        self.steps.push(Step { task: Task::Kernel { kernel, writes }, node: id, frees: Vec::new() });
    }

    fn product<T: GemmElement + fx_core::Element>(
        &mut self,
        Matrices { a, b }: &Matrices,
        out: ValueId,
        tape: Option<Tape>,
        id: NodeId,
    ) -> Result<Option<Box<dyn Kernel>>> {
        let constant = match &self.values[b.value as usize].home {
            Home::Constant(i) => Some(self.constants[*i].clone()),
            _ => None,
        };
        let packs = self.packs;
        let pack = |product: &Product<T>| {
            let tensor = constant.as_ref()?;
            let data = tensor.array().ok()?.data::<T>().ok()?;
            let data = data.get(b.offset..)?;
            let rank = b.shape.len();
            let key = (data.as_ptr() as usize, b.shape.to_vec(), b.strides.to_vec());
            packs.get(key, || {
                product.packed_right(data, (b.strides[rank - 2] as usize, b.strides[rank - 1] as usize))
            })
        };
        let kernel = match ProductKernel::<T>::new(a, b, out, pack) {
            Some(kernel) => Some(kernel),
            None => {
                let a = self.contiguous(a, id)?;
                ProductKernel::<T>::new(&a, b, out, pack)
            }
        };
        Ok(kernel.map(|kernel| Box::new(kernel.with_epilogue(tape)) as Box<dyn Kernel>))
    }

    /// Arranges the operands of an anchor without a bias; `None` if they are not of a kind that its kernel takes.
    fn heavy(&self, op: Op, bound: &[Arg], operands: &[Operand]) -> Result<Option<Heavy>> {
        if let (Some(spec), [x, weight]) = (spec_of(op, bound), operands) {
            let is_constant = matches!(self.values[weight.value as usize].home, Home::Constant(_));
            return Ok(is_constant.then(|| Heavy::Convolution(spec, x.clone(), weight.clone())));
        }
        Ok(matrices(op, operands).map(Heavy::Product))
    }

    fn convolution<T: GemmElement + fx_core::Element>(
        &mut self,
        spec: &ConvSpec,
        x: &Operand,
        weight: &Operand,
        out: ValueId,
        tape: Option<Tape>,
        id: NodeId,
    ) -> Result<Option<Box<dyn Kernel>>> {
        let Home::Constant(i) = self.values[weight.value as usize].home else { return Ok(None) };
        let array = self.constants[i].array()?;
        let array = array.as_strided(&weight.shape, &weight.strides, array.offset() + weight.offset)?;
        let data = array.contiguous()?.to_vec::<T>()?;
        let prepared = Arc::new(Prepared::new(spec, &x.shape, &data, &weight.shape)?);
        let x = if x.is_contiguous() { x.clone() } else { self.contiguous(x, id)? };
        let numel = self.values[out as usize].numel;
        Ok(Some(Box::new(ConvKernel::new(prepared, x, out, numel, tape))))
    }

    /// Copies a window into a value of its own.
    fn contiguous(&mut self, x: &Operand, id: NodeId) -> Result<Operand> {
        let value = self.value(Home::Memory, x.dtype, &x.shape)?;
        let (walk, size) = (x.walk(&x.shape)?, x.dtype.size());
        let numel = x.numel().max(1);
        let mut load = Load::new(x, walk);
        let row = if load.walk.shape.len() > 1 && load.walk.run() >= 64 { load.walk.run() } else { numel };
        let unit = row.min(4096);
        load.find_grid(row);
        let copy = Instruction {
            action: Action::Copy(size),
            inputs: smallvec::smallvec![Spot::Load(0)],
            output: Spot::Store(0),
            per_row: false,
        };
        let tape = Tape {
            numel: x.numel(),
            row,
            unit,
            loads: vec![load],
            stores: vec![Store { value, size, per_row: false }],
            numbers: Vec::new(),
            instructions: vec![copy],
            scratch: unit * size,
        };
        self.push_kernel(Box::new(tape), vec![value], id);
        Ok(Operand::whole(value, x.dtype, &x.shape))
    }

    /// Makes a window of a view; `None` if the operation is none.
    fn view(&mut self, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
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

    fn try_view(&mut self, op: Op, bound: &[Arg], x: &Operand) -> Result<Option<Lowered>> {
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
        let value = (op.eval)(&args)?;
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
        Ok(match &value {
            Arg::Leaf(tensor) => operand(tensor),
            Arg::List(items) | Arg::Tuple(items) => items
                .iter()
                .map(|item| item.leaf().and_then(operand))
                .collect::<Option<Vec<_>>>()
                .map(Lowered::Many),
            _ => None,
        })
    }

    /// Returns an argument with the places of its tensors.
    fn source(&self, arg: &Arg) -> Result<Arg<Source>> {
        fn place(lowered: &Lowered, values: &[Info]) -> Arg<Source> {
            match lowered {
                Lowered::Value(value) => Arg::Leaf(Source::Whole(*value)),
                Lowered::Joined(..) => Arg::None,
                Lowered::Many(items) => Arg::tuple(items.iter().map(|item| place(item, values))),
                Lowered::Tensor(operand) => {
                    let info = &values[operand.value as usize];
                    let is_whole =
                        operand.offset == 0 && operand.shape == info.shape && operand.is_contiguous();
                    Arg::Leaf(match is_whole {
                        true => Source::Whole(operand.value),
                        false => Source::Window(operand.clone()),
                    })
                }
            }
        }
        arg.try_rewrite(&mut |arg| match arg {
            Arg::Leaf(id) => match self.env.get(id) {
                Some(lowered) => Ok(Some(place(lowered, &self.values))),
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
        self.steps.push(Step { task, node: id, frees: Vec::new() });
        Ok(lowered)
    }
}

/// What the anchor of a group computes.
enum Heavy {
    Product(Matrices),
    Convolution(ConvSpec, Operand, Operand),
}

impl Heavy {
    /// Returns how many of the last axes of the result make a row, of which parts are complete at a time.
    fn row_axes(&self) -> usize {
        match self {
            Heavy::Product(_) => 1,
            Heavy::Convolution(spec, ..) => spec.stride.len(),
        }
    }
}

/// Returns whether a call can be the anchor of a group: a matrix product or a convolution.
pub(crate) fn is_anchor(
    op: Op,
    bound: &[Arg],
    ty: impl Fn(&Arg) -> Option<TensorType>,
    out: &TensorType,
) -> bool {
    is_product(op, bound, &ty, out) || is_convolution(op, bound, &ty, out)
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

/// Enters the types of a closed graph, and returns them.
fn infer_in(body: &mut Graph, inputs: &[TypeTree]) -> Result<FxHashMap<NodeId, TypeTree>> {
    let module = GraphModule::new("body", std::mem::take(body));
    let found = module.infer(inputs);
    *body = module.into_graph();
    Ok(found?.into_iter().collect())
}

fn find_anchor(body: &Graph, types: &FxHashMap<NodeId, TypeTree>) -> Result<Option<NodeId>> {
    let ty = |arg: &Arg| types.get(arg.leaf()?)?.tensor().cloned();
    for (id, node) in body.nodes() {
        let (Some(op), Some(out)) = (node.op(), types.get(&id).and_then(TypeTree::tensor)) else { continue };
        if is_anchor(op, &op.bind(node.args(), node.kwargs())?, ty, out) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Makes the sum with a bias an addition of its own; returns whether there was one.
fn unbias(body: &mut Graph, anchor: NodeId) -> Result<bool> {
    let node = body.node(anchor)?;
    let Some(op) = node.op() else { return Ok(false) };
    let bound = op.bind(node.args(), node.kwargs())?;
    let (bias, op, args) = match &bound[..] {
        [x, weight, bias @ Arg::Leaf(_)] if op == linear::OP => {
            (bias.clone(), linear::OP, vec![x.clone(), weight.clone()])
        }
        [x, weight, bias @ Arg::Leaf(_), rest @ ..] if spec_of(op, &bound).is_some() => {
            let rank = spec_of(op, &bound).map_or(0, |spec| spec.stride.len());
            let (x, weight, rest) = (x.clone(), weight.clone(), rest.to_vec());
            return unbias_convolution(body, anchor, rank, (x, weight, bias.clone(), rest));
        }
        [bias, a, b, _, _] if op == addmm::OP => (bias.clone(), mm::OP, vec![a.clone(), b.clone()]),
        _ => return Ok(false),
    };
    body.transaction(|body| {
        body.set_kwargs(anchor, Vec::<(Arc<str>, Arg)>::new())?;
        if op == mm::OP {
            body.set_op(anchor, op)?;
        }
        body.set_args(anchor, args)?;
        let sum = body
            .inserting_after(anchor, |body| body.call_function(ops::add::OP, [Arg::Leaf(anchor), bias]))??;
        body.replace_uses_where(anchor, sum, |user| user != sum)?;
        Ok(())
    })?;
    Ok(true)
}

/// As [`unbias`], for a convolution over `rank` axes: the bias belongs to the channels, the axis before these.
fn unbias_convolution(
    body: &mut Graph,
    anchor: NodeId,
    rank: usize,
    (x, weight, bias, rest): (Arg, Arg, Arg, Vec<Arg>),
) -> Result<bool> {
    body.transaction(|body| {
        let Some(op) = body.node(anchor)?.op() else { return Ok(()) };
        let (args, kwargs) = op.spell(&[[x, weight, Arg::None].as_slice(), &rest].concat());
        body.set_kwargs(anchor, Vec::<(Arc<str>, Arg)>::new())?;
        body.set_args(anchor, args)?;
        body.set_kwargs(anchor, kwargs)?;
        let sizes = [Arg::Int(-1)].into_iter().chain(std::iter::repeat_n(Arg::Int(1), rank));
        let shape = Arg::list(sizes);
        let sum = body.inserting_after(anchor, |body| -> Result<NodeId> {
            let column = body.call_function(crate::view::reshape::OP, [bias, shape])?;
            body.call_function(ops::add::OP, [Arg::Leaf(anchor), Arg::Leaf(column)])
        })??;
        body.replace_uses_where(anchor, sum, |user| user != sum)?;
        Ok(())
    })?;
    Ok(true)
}
