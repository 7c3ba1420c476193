//! From graph to steps: each node becomes a window on what is there, a call of a kernel, or a part of a loop.

mod moves;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use fx_core::op::kind::{OperandType, OperandValue};
use fx_core::pointwise::{Check, Numbers, PointwiseDef, result_dtype_of_types};
use fx_core::{
    Arg, Category, Class, DType, Dim, Error, Graph, GraphModule, NodeId, Op, Result, Scalar, Symbol, Target,
    Tensor, TensorType, Type, TypeTree, bail, err, ops,
};

use super::Options;
use super::step::{Buffer, Call, Failure, Length, Loop, LoopOp, Piece, Pieces, Ref, Step, Work};
use super::table;
use super::value::{Home, Value, View, collapse, count};
use crate::native::stands_alone;
use crate::readable::names;

/// The longest loop.
const LONGEST: usize = 32;

/// A tensor that the program keeps.
#[derive(Clone, Debug)]
pub(super) struct Weight {
    /// The path in the graph module, which is the name in the file.
    pub(super) path: String,
    pub(super) tensor: Tensor,
    /// The value that is stored when a call is done.
    pub(super) update: Option<View>,
}

/// A program as steps.
pub(super) struct Lowered {
    pub(super) inputs: Vec<(String, TensorType)>,
    pub(super) weights: Vec<Weight>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) steps: Vec<Step>,
    /// What must not be negative for sizes to fit together.
    pub(super) requires: Vec<Dim>,
    /// The result; its tensors are whole buffers.
    pub(super) output: Value,
}

/// Makes steps of a graph.
pub(super) struct Lowering<'a> {
    gm: &'a GraphModule,
    options: &'a Options,
    weights: Vec<Weight>,
    weight_of: HashMap<String, usize>,
    buffers: Vec<Buffer>,
    steps: Vec<Step>,
    requires: Vec<Dim>,
    /// The sizes of the inputs.
    symbols: Vec<Symbol>,
    /// What cannot be written.
    problems: Vec<String>,
}

/// Makes steps of a graph module without calls of modules, whose nodes have types.
pub(super) fn lower(gm: &GraphModule, options: &Options) -> Result<Lowered> {
    let mut lowering = Lowering {
        gm,
        options,
        weights: Vec::new(),
        weight_of: HashMap::new(),
        buffers: Vec::new(),
        steps: Vec::new(),
        requires: Vec::new(),
        symbols: Vec::new(),
        problems: Vec::new(),
    };
    let graph = gm.graph();
    let mut inputs = Vec::new();
    let mut values = Vec::new();
    for id in graph.placeholders() {
        let node = graph.node(id)?;
        match node.ty() {
            Some(Arg::Leaf(Type::Tensor(ty))) => {
                values.push(Arg::Leaf(View::whole(Home::Input(inputs.len()), ty.dtype, &ty.shape)));
                lowering.symbols.extend(ty.shape.iter().flat_map(Dim::symbols));
                inputs.push((node.name().to_owned(), ty.clone()));
            }
            ty => {
                let ty = ty.map_or("an unknown type".to_owned(), ToString::to_string);
                bail!(Unresolved, "the input %{} is {ty}; expected a tensor", node.name())
            }
        }
    }
    let output = lowering.graph(graph, values)?;
    let output = lowering.as_tensors(&output)?;
    let output = output.try_flat_map(&mut |view| lowering.result(view).map(Arg::Leaf))?;
    if !lowering.problems.is_empty() {
        let list = lowering.problems.join("\n  ");
        return Err(err!(
            Unresolved,
            "{} of the nodes cannot be written:\n  {list}",
            lowering.problems.len()
        )
        .help("give the operation a code of your own by `CrateOptions::operation`, or replace it before"));
    }
    let Lowering { weights, buffers, steps, requires, .. } = lowering;
    Ok(Lowered { inputs, weights, buffers, steps, requires, output })
}

/// Returns whether a dtype is kept in 16 bits, and computed in `f32`.
pub(super) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Returns whether a row is one of fx: its code is in the table.
pub(super) fn is_built_in(op: Op) -> bool {
    let is_control = matches!(op.class, Class::Control) && op.path.is_empty();
    is_control || matches!(op.path.split("::").next(), Some("fx_core" | "fx_ops"))
}

/// A group of nodes that become one loop.
struct Group {
    members: Vec<usize>,
    shape: Vec<Dim>,
}

impl<'a> Lowering<'a> {
    /// Makes steps of a graph for these arguments and returns its result.
    pub(super) fn graph(&mut self, graph: &Graph, args: Vec<Value>) -> Result<Value> {
        let ids = graph.ids();
        let at: HashMap<NodeId, usize> = ids.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let (group_of, groups) = groups(graph, &ids, &at)?;
        let mut values: Vec<Option<Value>> = vec![None; ids.len()];
        for (id, arg) in graph.placeholders().iter().zip(args) {
            values[at[id]] = Some(arg);
        }
        for (i, id) in ids.iter().enumerate() {
            if values[i].is_some() {
                continue;
            }
            if let Some(group) = group_of[i].map(|group| &groups[group]) {
                if group.members.last() == Some(&i) {
                    self.group(graph, &ids, &at, group, &mut values)?;
                }
                continue;
            }
            match self.node(graph, *id, &at, &values) {
                Ok(value) => values[i] = Some(value),
                Err(error) => {
                    let node = graph.node(*id)?;
                    self.problem(graph, *id, &error)?;
                    values[i] = Some(self.stand_in(node.ty())?);
                }
            }
        }
        resolve(graph.output(), &at, &values)
    }

    fn problem(&mut self, graph: &Graph, id: NodeId, error: &Error) -> Result<()> {
        let node = graph.node(id)?;
        let op = node.op().map_or(node.target().to_string(), |op| op.name.to_owned());
        let source = node.meta().source.as_ref().map_or(String::new(), |source| format!("  at {source}"));
        let name = names::comment(node.name());
        let operands: Vec<String> = node
            .inputs()
            .filter_map(|input| Some(names::comment(&graph.node(input).ok()?.ty()?.to_string())))
            .collect();
        let operands = operands.join(", ");
        self.problems.push(format!("%{name} = {op}: {}{source}\n    operands: {operands}", error.message()));
        Ok(())
    }

    /// Returns a value for what cannot be written, so that the rest can be looked at.
    fn stand_in(&mut self, ty: Option<&TypeTree>) -> Result<Value> {
        match ty {
            Some(ty) => ty.try_flat_map(&mut |ty| {
                Ok(match ty {
                    Type::Tensor(ty) => Arg::Leaf(self.buffer(ty.dtype, &ty.shape)),
                    _ => Arg::None,
                })
            }),
            None => Ok(Arg::None),
        }
    }

    /// Makes a buffer for a tensor.
    pub(super) fn buffer(&mut self, dtype: DType, shape: &[Dim]) -> View {
        let id = self.room(dtype, Length::Of(count(shape)));
        View::whole(Home::Buffer(id), dtype, shape)
    }

    /// Makes a buffer of a length.
    pub(super) fn room(&mut self, dtype: DType, len: Length) -> usize {
        self.buffers.push(Buffer { dtype, len });
        self.buffers.len() - 1
    }

    /// Notes that the program is for sizes for which this is not negative.
    pub(super) fn require(&mut self, dim: Dim) {
        if dim.bounds().0 < 0 && !self.requires.contains(&dim) {
            self.requires.push(dim);
        }
    }

    /// Adds a call of a kernel.
    pub(super) fn call(&mut self, function: impl Into<String>, args: Vec<Pieces>) {
        self.steps.push(Step::Call(Call { function: function.into(), args, fails: None }));
    }

    /// Adds a call of a kernel that fails if a position does not exist.
    pub(super) fn call_checked(&mut self, function: impl Into<String>, args: Vec<Pieces>) {
        self.steps.push(Step::Call(Call { function: function.into(), args, fails: Some(Failure::Index) }));
    }

    /// Adds a check that an element of a value is none for which `refused`, a condition on `x`, holds.
    pub(super) fn refuse(&mut self, view: &View, refused: &str, why: &str) {
        let view = self.contiguous(view);
        let text = |text: String| vec![Piece::Text(text)];
        let args = vec![vec![Piece::Read(view)], text(format!("|x| {refused}")), text(format!("{why:?}"))];
        let (function, fails) = ("check::each".to_owned(), Some(Failure::Operand));
        self.steps.push(Step::Call(Call { function, args, fails }));
    }

    /// Returns the value in row-major order without gaps, copied if it is not.
    pub(super) fn contiguous(&mut self, view: &View) -> View {
        if view.is_contiguous() {
            return view.clone();
        }
        let to = self.buffer(view.dtype, &view.shape);
        self.copy(view, &to);
        to
    }

    /// Copies elements to a part of a buffer.
    pub(super) fn copy(&mut self, from: &View, to: &View) {
        let (shape, strides) = collapse(&from.shape, &[from.strides.clone(), to.strides.clone()]);
        let list = |dims: &[Dim]| table::list(dims);
        self.call(
            "copy::copy",
            vec![
                list(&shape),
                vec![Piece::Read(from.clone())],
                list(&strides[0]),
                vec![Piece::WriteView(to.clone())],
                list(&strides[1]),
            ],
        );
    }

    /// Replaces numbers and sizes that are returned by tensors without axes.
    fn as_tensors(&mut self, value: &Value) -> Result<Value> {
        let mut each =
            |items: &[Value]| items.iter().map(|item| self.as_tensors(item)).collect::<Result<Vec<_>>>();
        Ok(match value {
            Arg::List(items) => Arg::list(each(items)?),
            Arg::Tuple(items) => Arg::tuple(each(items)?),
            Arg::Dict(entries) => {
                let values = entries.iter().map(|(key, item)| Ok((key.clone(), self.as_tensors(item)?)));
                Arg::dict(values.collect::<Result<Vec<_>>>()?)
            }
            Arg::Bool(x) => Arg::Leaf(self.constant("result", Tensor::new(*x))?),
            Arg::Int(x) => Arg::Leaf(self.constant("result", Tensor::new(*x))?),
            Arg::Float(x) => Arg::Leaf(self.constant("result", Tensor::new(*x))?),
            Arg::Dim(size) => {
                let view = self.buffer(DType::I64, &[]);
                let text = |text: &str| Piece::Text(text.to_owned());
                let number = vec![text("("), Piece::Size(size.clone()), text(") as i64")];
                self.call("copy::fill", vec![number, vec![Piece::WriteView(view.clone())]]);
                Arg::Leaf(view)
            }
            other => other.clone(),
        })
    }

    /// Makes a whole buffer of a tensor that is returned.
    fn result(&mut self, view: &View) -> Result<View> {
        let is_whole =
            matches!(view.home, Home::Buffer(id) if self.buffers[id].len == Length::Of(count(&view.shape)));
        if is_whole && view.is_contiguous() && view.offset == Dim::new(0) {
            return Ok(view.clone());
        }
        let to = self.buffer(view.dtype, &view.shape);
        self.copy(view, &to);
        Ok(to)
    }

    /// Adds a constant that the program keeps.
    pub(super) fn constant(&mut self, hint: &str, tensor: Tensor) -> Result<View> {
        let path = (0..)
            .map(|i| format!("_{hint}_{i}"))
            .find(|path| !self.weight_of.contains_key(path) && self.gm.attribute(path).is_err());
        let path = path.unwrap_or_default();
        self.weight(path, tensor)
    }

    fn weight(&mut self, path: String, tensor: Tensor) -> Result<View> {
        let ty = tensor.ty()?;
        let i = *self.weight_of.entry(path.clone()).or_insert_with(|| {
            self.weights.push(Weight { path, tensor, update: None });
            self.weights.len() - 1
        });
        Ok(View::whole(Home::Weight(i), ty.dtype, &ty.shape))
    }

    fn node(
        &mut self,
        graph: &Graph,
        id: NodeId,
        at: &HashMap<NodeId, usize>,
        values: &[Option<Value>],
    ) -> Result<Value> {
        let node = graph.node(id)?;
        let op = match node.target() {
            Target::Placeholder => bail!(Graph, "there are more placeholders than arguments"),
            Target::Output => return Ok(Arg::None),
            Target::GetAttr(path) => {
                let attribute = self.gm.attribute(path)?;
                if matches!(attribute, fx_core::Attribute::State(_)) {
                    bail!(Unresolved, "a crate has no state that is no tensor, such as {path:?}");
                }
                return self.weight(path.to_string(), attribute.tensor()).map(Arg::Leaf);
            }
            Target::CallModule(path) => bail!(Unresolved, "the module {path} is not inlined"),
            Target::CallFunction(op) | Target::CallMethod(op) => *op,
        };
        // A number that is known needs no code.
        if let Some(ty) = node.ty()
            && ty.leaves().is_empty()
            && op.effects.is_pure()
        {
            return ty.try_flat_map(&mut |_| Ok(Arg::None));
        }
        let resolved = |arg: &Arg| resolve(arg, at, values);
        let args = node.args().iter().map(resolved).collect::<Result<Vec<_>>>()?;
        let kwargs = node.kwargs().iter().map(|(key, arg)| Ok((key.clone(), resolved(arg)?)));
        let kwargs = kwargs.collect::<Result<Vec<(Arc<str>, Value)>>>()?;
        let bound = op.bind(&args, &kwargs)?;
        let ty = node.ty().ok_or_else(|| err!(UnknownType, "its type is not known"))?;
        self.steps.push(Step::Comment(comment(graph, id)?));
        self.operation(op, &bound, ty)
    }

    fn operation(&mut self, op: Op, args: &[Value], ty: &TypeTree) -> Result<Value> {
        for ty in ty.leaves().into_iter().filter_map(Type::tensor) {
            ty.shape.iter().for_each(|size| self.require(size.clone()));
        }
        if !ty.leaves().into_iter().filter_map(Type::tensor).all(|ty| self.has_sizes(ty)) {
            bail!(
                Unresolved,
                "its result {ty} has as many elements as the data says, and sizes must follow from those of inputs"
            );
        }
        if let Some(custom) = self.options.custom(op) {
            return self.custom(&custom, args, ty);
        }
        if op == ops::set_buffer::OP {
            return self.set_buffer(args);
        }
        if op == ops::getitem::OP
            && let [Arg::Tuple(items) | Arg::List(items), Arg::Int(index)] = args
        {
            let n = items.len() as i64;
            let index = if *index < 0 { index + n } else { *index };
            let item = usize::try_from(index).ok().and_then(|index| items.get(index));
            return item.cloned().ok_or_else(|| err!(Index, "there is no item {index} of {n}"));
        }
        let own = is_built_in(op).then(|| table::find(op.name)).flatten();
        if let Some(emit) = own {
            return self.by_table(emit, op, args, ty);
        }
        if !op.effects.is_pure() {
            bail!(Unresolved, "it has effects");
        }
        let is_moved = is_built_in(op) && table::MOVES.contains(&op.name);
        let has_one = args.first().is_some_and(|arg| arg.leaf().is_some());
        if matches!(op.class, Class::View) && (has_one || !is_moved) {
            return self.view(op, args, ty);
        }
        if is_moved {
            return self.moved(op, args, ty);
        }
        if args.iter().all(|arg| arg.leaves().is_empty()) {
            return self.evaluated(op, args);
        }
        Err(err!(Unresolved, "the operation has no stand-alone code"))
    }

    /// Returns whether the sizes of a value follow from those of the inputs.
    fn has_sizes(&self, ty: &TensorType) -> bool {
        ty.shape.iter().flat_map(Dim::symbols).all(|symbol| self.symbols.contains(&symbol))
    }

    /// Writes an operation by its row of the table. Rows that compute do so in `f32` where the graph has
    /// halves, as the operations of fx do.
    fn by_table(&mut self, emit: table::Emit, op: Op, args: &[Value], ty: &TypeTree) -> Result<Value> {
        let types = ty.leaves().into_iter().filter_map(Type::tensor).map(|ty| ty.dtype);
        let operands = args.iter().flat_map(Arg::leaves).map(|view| view.dtype);
        if table::ANY_ELEMENTS.contains(&op.name) || !types.chain(operands).any(is_half) {
            return emit(self, &table::Args { op, args, ty });
        }
        let single = |dtype: DType| if is_half(dtype) { DType::F32 } else { dtype };
        let args = args
            .iter()
            .map(|arg| match arg {
                Arg::DType(dtype) => Ok(Arg::DType(single(*dtype))),
                arg => arg.try_flat_map(&mut |view| self.converted(view, single(view.dtype)).map(Arg::Leaf)),
            })
            .collect::<Result<Vec<Value>>>()?;
        let in_singles = ty.map(&mut |ty| match ty {
            Type::Tensor(ty) => Type::Tensor(TensorType { dtype: single(ty.dtype), shape: ty.shape.clone() }),
            ty => ty.clone(),
        });
        let value = emit(self, &table::Args { op, args: &args, ty: &in_singles })?;
        let mut dtypes = ty.leaves().into_iter().map(|ty| ty.tensor().map(|ty| ty.dtype));
        value.try_flat_map(&mut |view| {
            let dtype = dtypes.next().flatten().unwrap_or(view.dtype);
            self.converted(view, dtype).map(Arg::Leaf)
        })
    }

    /// Adds a call of a user's function.
    fn custom(&mut self, function: &str, args: &[Value], ty: &TypeTree) -> Result<Value> {
        let mut pieces: Vec<Pieces> = Vec::new();
        for arg in args {
            pieces.push(match arg {
                Arg::Leaf(view) => {
                    let view = self.contiguous(view);
                    let shape = table::list(&view.shape);
                    let text = |text: &str| vec![Piece::Text(text.to_owned())];
                    [text("("), vec![Piece::Read(view)], text(", "), shape, text(")")].concat()
                }
                arg => vec![Piece::Text(table::plain(arg)?)],
            });
        }
        let value = ty.try_flat_map(&mut |ty| match ty {
            Type::Tensor(ty) => Ok(Arg::Leaf(self.buffer(ty.dtype, &ty.shape))),
            ty => bail!(Unresolved, "it returns {ty}, which is no tensor"),
        })?;
        value.for_each_leaf(&mut |view: &View| pieces.push(vec![Piece::WriteView(view.clone())]));
        self.call(format!("!{function}"), pieces);
        Ok(value)
    }

    fn set_buffer(&mut self, args: &[Value]) -> Result<Value> {
        let [Arg::Str(path), Arg::Leaf(view)] = args else {
            bail!(Argument, "expected a path and a tensor");
        };
        let tensor = self.gm.attribute(path)?.tensor();
        let ty = tensor.ty()?;
        self.weight(path.to_string(), tensor)?;
        let same = view.dtype == ty.dtype && view.shape[..] == ty.shape[..];
        if !same {
            bail!(Unresolved, "the buffer {path} is {ty} and becomes {}", view.ty());
        }
        let view = self.result(view)?;
        let i = self.weight_of[&**path];
        self.weights[i].update = Some(view);
        Ok(Arg::None)
    }

    /// Runs `f` and returns the steps that it makes.
    pub(super) fn steps_of<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<(Vec<Step>, T)> {
        let before = std::mem::take(&mut self.steps);
        let result = f(self);
        let steps = std::mem::replace(&mut self.steps, before);
        Ok((steps, result?))
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Makes a loop of a group.
    fn group(
        &mut self,
        graph: &Graph,
        ids: &[NodeId],
        at: &HashMap<NodeId, usize>,
        group: &Group,
        values: &mut [Option<Value>],
    ) -> Result<()> {
        let mut made = Loop {
            shape: group.shape.clone(),
            reads: Vec::new(),
            sizes: Vec::new(),
            ops: Vec::new(),
            writes: Vec::new(),
            in_place: Vec::new(),
        };
        let mut step_of: BTreeMap<usize, usize> = BTreeMap::new();
        for &member in &group.members {
            self.steps.push(Step::Comment(comment(graph, ids[member])?));
            let op = match loop_op(graph, ids[member], at, values, &step_of, &mut made) {
                Ok(op) => op,
                Err(error) => {
                    self.problem(graph, ids[member], &error)?;
                    let dtype = graph
                        .node(ids[member])?
                        .ty()
                        .and_then(TypeTree::tensor)
                        .map_or(DType::F32, |ty| ty.dtype);
                    let operands = vec![(Ref::Number(Scalar::Int(0)), dtype)];
                    LoopOp {
                        work: Work::Convert,
                        operands,
                        exact: Vec::new(),
                        params: Vec::new(),
                        from: dtype,
                        dtype,
                    }
                }
            };
            if let Err(error) = self.checked(&op, &made.reads) {
                self.problem(graph, ids[member], &error)?;
            }
            made.ops.push(op);
            step_of.insert(member, made.ops.len() - 1);
        }
        for (&member, &step) in &step_of {
            let is_outside = |user: &NodeId| at.get(user).is_none_or(|user| !step_of.contains_key(user));
            if graph.users(ids[member])?.iter().any(is_outside) {
                let view = self.buffer(made.ops[step].dtype, &group.shape);
                if let Home::Buffer(id) = view.home {
                    made.writes.push((id, step));
                }
                values[member] = Some(Arg::Leaf(view));
            }
        }
        self.steps.push(Step::Loop(made));
        Ok(())
    }

    /// Adds the check that a row makes of its second operand, if it makes one.
    fn checked(&mut self, op: &LoopOp, reads: &[View]) -> Result<()> {
        let Work::Map(PointwiseDef { check: Some(check), .. }) = op.work else { return Ok(()) };
        if !op.from.is_int() {
            return Ok(());
        }
        match op.operands.get(1) {
            Some((Ref::Number(x), _)) => refused(*check, *x).map_or(Ok(()), Err),
            Some((Ref::Read(i), _)) => {
                let mut view = reads[*i].clone();
                for (size, stride) in view.shape.iter_mut().zip(&view.strides) {
                    if *stride == Dim::new(0) && *size != Dim::new(0) {
                        *size = Dim::new(1);
                    }
                }
                let view = self.converted(&view, op.from)?;
                for (x, condition) in [(0, "x == 0"), (-1, "x < 0")] {
                    if let Some(error) = refused(*check, Scalar::Int(x))
                        && (x == 0 || op.from != DType::U8)
                    {
                        self.refuse(&view, condition, error.message());
                    }
                }
                Ok(())
            }
            _ => bail!(Graph, "the operand that a check reads is no value"),
        }
    }
}

/// Asks a check of integers whether it refuses a number as the second operand.
fn refused(check: Check, x: Scalar) -> Option<Error> {
    check(&[OperandValue::Scalar(Scalar::Int(1)), OperandValue::Scalar(x)]).err()
}

/// Returns whether a node checks its operands before it computes them, so that they must be there.
fn is_checked(graph: &Graph, id: NodeId) -> Result<bool> {
    let node = graph.node(id)?;
    let is_integral = node.ty().and_then(TypeTree::tensor).is_some_and(|ty| ty.dtype.is_int());
    let def = node.op().map(|op| op.class);
    Ok(is_integral && matches!(def, Some(Class::Pointwise(PointwiseDef { check: Some(_), .. }))))
}

/// Returns a comment for a node: its name, operation, type and source line.
fn comment(graph: &Graph, id: NodeId) -> Result<String> {
    let node = graph.node(id)?;
    let op = node.op().map_or("", |op| op.name);
    let ty = node.ty().map_or(String::new(), |ty| format!(": {ty}"));
    let source = node.meta().source.as_ref().map_or(String::new(), |source| format!("  {source}"));
    let text: String = format!("%{}{ty} = {op}{source}", node.name()).chars().take(120).collect();
    Ok(names::comment(&text))
}

/// Returns the sizes as numbers.
pub(super) fn known(shape: &[Dim]) -> Result<Vec<usize>> {
    let size = |dim: &Dim| dim.known().and_then(|n| usize::try_from(n).ok());
    let sizes: Option<Vec<usize>> = shape.iter().map(size).collect();
    sizes.ok_or_else(|| err!(Unresolved, "it needs sizes that are known"))
}

/// Replaces nodes by their values.
fn resolve(arg: &Arg, at: &HashMap<NodeId, usize>, values: &[Option<Value>]) -> Result<Value> {
    arg.try_flat_map(&mut |id| {
        let value = at.get(id).and_then(|at| values[*at].clone());
        value.ok_or_else(|| err!(Graph, "a value is used before it is computed"))
    })
}

/// Returns whether a node can be a part of a loop, and the shape of the loop.
fn loop_shape(graph: &Graph, id: NodeId) -> Result<Option<Vec<Dim>>> {
    let node = graph.node(id)?;
    let (Some(op), Some(Arg::Leaf(Type::Tensor(ty)))) = (node.op(), node.ty()) else { return Ok(None) };
    let is_map = matches!(op.class, Class::Pointwise(_)) && op.effects.is_pure();
    let is_known = is_built_in(op) && table::LOOPS.contains(&op.name);
    Ok((is_map || is_known).then(|| ty.shape.to_vec()))
}

/// Puts nodes into groups. A node joins the group of an operand if it has its shape, and if whatever else
/// uses a value of that group comes after the node: so the group can be computed where its last member is.
fn groups(
    graph: &Graph,
    ids: &[NodeId],
    at: &HashMap<NodeId, usize>,
) -> Result<(Vec<Option<usize>>, Vec<Group>)> {
    let mut group_of: Vec<Option<usize>> = vec![None; ids.len()];
    let mut groups: Vec<Group> = Vec::new();
    for (i, id) in ids.iter().enumerate() {
        let Some(shape) = loop_shape(graph, *id)? else { continue };
        let operands: BTreeSet<usize> = match is_checked(graph, *id)? {
            true => BTreeSet::new(),
            false => graph.node(*id)?.inputs().filter_map(|input| group_of[at[&input]]).collect(),
        };
        let mut joined = None;
        for &group in operands.iter().rev() {
            let candidate = &groups[group];
            if candidate.shape != shape || candidate.members.len() >= LONGEST {
                continue;
            }
            let mut fits = true;
            for &member in &candidate.members {
                let early = |user: &NodeId| at[user] < i && group_of[at[user]] != Some(group);
                fits &= !graph.users(ids[member])?.iter().any(early);
            }
            if fits {
                joined = Some(group);
                break;
            }
        }
        let group = joined.unwrap_or_else(|| {
            groups.push(Group { members: Vec::new(), shape });
            groups.len() - 1
        });
        groups[group].members.push(i);
        group_of[i] = Some(group);
    }
    Ok((group_of, groups))
}

/// Returns the dtype of a number.
fn number_dtype(x: Scalar) -> DType {
    match x.category() {
        Category::Bool => DType::Bool,
        Category::Int => DType::I64,
        Category::Float => DType::F64,
    }
}

/// Returns whether a row takes a number, or a tensor of one element, at this place as exact as `f32` where it
/// computes halves.
fn is_wide(def: &PointwiseDef, place: usize) -> bool {
    match def.numbers {
        Numbers::Wide => place + 1 == def.operands.len(),
        Numbers::WideAnywhere => true,
        Numbers::Converted | Numbers::Exponent | Numbers::Limits(_) => false,
    }
}

fn loop_op(
    graph: &Graph,
    id: NodeId,
    at: &HashMap<NodeId, usize>,
    values: &[Option<Value>],
    step_of: &BTreeMap<usize, usize>,
    made: &mut Loop,
) -> Result<LoopOp> {
    let node = graph.node(id)?;
    let (Some(op), Some(Arg::Leaf(Type::Tensor(ty)))) = (node.op(), node.ty()) else {
        bail!(Graph, "a loop has an operation on tensors");
    };
    let kwargs: Vec<(Arc<str>, Arg)> = node.kwargs().to_vec();
    let bound = op.bind(node.args(), &kwargs)?;
    let mut types: Vec<Option<TensorType>> = Vec::new();
    let mut operand = |arg: &Arg| -> Result<(Ref, DType)> {
        let id = match arg {
            Arg::Leaf(id) => *id,
            arg => {
                types.push(None);
                if let Arg::Dim(dim) = arg {
                    made.sizes.push(dim.clone());
                    return Ok((Ref::Size(made.sizes.len() - 1), DType::I64));
                }
                let x = arg
                    .scalar()
                    .ok_or_else(|| err!(Unresolved, "an operand is {}, not a number", arg.kind_name()))?;
                return Ok((Ref::Number(x), number_dtype(x)));
            }
        };
        let position = at[&id];
        if let Some(&step) = step_of.get(&position) {
            let ty = graph.node(id)?.ty().and_then(TypeTree::tensor);
            types.push(ty.cloned());
            return Ok((Ref::Op(step), made.ops[step].dtype));
        }
        let value =
            values[position].as_ref().ok_or_else(|| err!(Graph, "a value is used before it is computed"))?;
        let view = match value {
            Arg::Leaf(view) => view,
            value => {
                let x =
                    value.scalar().ok_or_else(|| err!(Unresolved, "an operand is {}", value.kind_name()))?;
                types.push(None);
                return Ok((Ref::Number(x), number_dtype(x)));
            }
        };
        types.push(Some(view.ty()));
        let wide = View { shape: made.shape.clone(), strides: view.broadcast(&made.shape), ..view.clone() };
        let same = |other: &View| {
            other.home == wide.home && other.strides == wide.strides && other.offset == wide.offset
        };
        let read = made.reads.iter().position(same).unwrap_or_else(|| {
            made.reads.push(wide.clone());
            made.reads.len() - 1
        });
        Ok((Ref::Read(read), view.dtype))
    };
    let Class::Pointwise(def) = op.class else {
        let (work, args): (Work, Vec<&Arg>) = match (op.name, &bound[..]) {
            ("to" | "type_as", [x, _]) => (Work::Convert, vec![x]),
            ("where", [mask, yes, no]) => (Work::Select, vec![mask, yes, no]),
            ("masked_fill", [no, mask, yes]) => (Work::Select, vec![mask, yes, no]),
            _ => bail!(Unresolved, "the operation has no stand-alone code"),
        };
        let operands = args.into_iter().map(operand).collect::<Result<Vec<_>>>()?;
        return Ok(LoopOp {
            work,
            operands,
            exact: Vec::new(),
            params: Vec::new(),
            from: ty.dtype,
            dtype: ty.dtype,
        });
    };
    let n = def.operands.len();
    let given: Vec<Option<(Ref, DType)>> = bound[..n]
        .iter()
        .enumerate()
        .map(|(i, arg)| match arg {
            Arg::None if def.absent.get(i).is_some_and(Option::is_some) => Ok(None),
            arg => operand(arg).map(Some),
        })
        .collect::<Result<_>>()?;
    let kinds: Vec<OperandType<'_>> = given
        .iter()
        .flatten()
        .zip(&types)
        .map(|((reference, _), ty)| match (reference, ty) {
            (Ref::Number(x), _) => OperandType::Scalar(x.category()),
            (Ref::Size(_), _) => OperandType::Scalar(Category::Int),
            (_, Some(ty)) => OperandType::Tensor(ty),
            (_, None) => OperandType::Scalar(Category::Float),
        })
        .collect();
    let dtype = def.compute_dtype(result_dtype_of_types(&kinds))?;
    let (def, given) = match given.split_last() {
        Some((Some((Ref::Number(last), _)), others)) => match def.instead(Some(*last), dtype) {
            Some(def) => (def, others.to_vec()),
            None => (def, given),
        },
        _ => (def, given),
    };
    let source = def.source(dtype).ok_or_else(|| err!(DType, "it has no body for {dtype}"))?;
    if !stands_alone(def, source) {
        bail!(Unresolved, "its body names what is outside of it");
    }
    let has_one = |i: usize| match types.get(given[..i].iter().flatten().count()) {
        Some(Some(ty)) => ty.shape.iter().all(|size| *size == Dim::new(1)),
        _ => true,
    };
    let exact = (0..given.len()).filter(|&i| is_wide(def, i) && has_one(i)).collect();
    let operands = given
        .into_iter()
        .enumerate()
        .map(|(i, given)| match (given, def.absent_value(i, dtype)) {
            (Some((Ref::Number(x), _)), _) | (None, Some(x)) => {
                let x = def.number(i, x, dtype)?;
                Ok((Ref::Number(x), number_dtype(x)))
            }
            (Some(given), _) => Ok(given),
            (None, None) => bail!(Argument, "the operand {} is missing", def.operands[i]),
        })
        .collect::<Result<_>>()?;
    let param = |(i, arg): (usize, &Arg)| {
        let x = arg.scalar().ok_or_else(|| err!(Unresolved, "a parameter is not a number"))?;
        def.parameter(i, x, dtype)
    };
    let params = bound[n..].iter().enumerate().map(param).collect::<Result<_>>()?;
    Ok(LoopOp { work: Work::Map(def), operands, exact, params, from: dtype, dtype: ty.dtype })
}
