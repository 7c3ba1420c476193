//! From graph to steps: each node becomes a window on what is there, a call of a kernel, or a part of a loop.

mod moves;
mod pointwise;
mod sizes;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fx_core::gufunc::GufuncDef;
use fx_core::rowwise::RowwiseDef;
use fx_core::{
    Arg, Attribute, Class, DType, Dim, Error, Graph, GraphModule, NodeId, Op, Result, Symbol, Target, Tensor,
    TensorType, Type, TypeTree, bail, err, ops,
};

use super::Options;
use super::rowwise::Functions;
use super::step::{Buffer, Call, Failure, Length, Piece, Pieces, Step};
use super::table;
use super::value::{Home, Value, View, collapse, count};
use crate::readable::names;

/// A tensor that the program keeps.
#[derive(Clone, Debug)]
pub(super) struct Weight {
    /// The path in the graph module, which is the name in the file.
    pub(super) path: String,
    pub(super) tensor: Tensor,
    /// The value that is stored when a call is done.
    pub(super) update: Option<View>,
    /// What is kept instead of the tensor.
    pub(super) packed: Option<PackedWeight>,
}

/// A weight that is brought into another form when the model is loaded.
#[derive(Clone, Debug)]
pub(super) struct PackedWeight {
    /// The weight of which it is made.
    pub(super) of: usize,
    pub(super) form: Form,
}

impl PackedWeight {
    pub(super) fn is_panels(&self) -> bool {
        matches!(self.form, Form::Panels { .. })
    }
}

/// The form that a kernel reads a weight in.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// The order in which products read it.
    Panels {
        /// The columns and rows of the matrix.
        sizes: [usize; 2],
        /// The first element, and the distances between rows and between columns.
        offset: usize,
        strides: [usize; 2],
    },
    /// The kernels of so many channels side by side.
    SideBySide(usize),
    /// So many kernels of 3 by 3 as Winograd's filtering takes them.
    Winograd(usize),
}

/// What an argument of a program is.
#[derive(Clone, Debug)]
pub(super) enum Input {
    Tensor(TensorType),
    /// An integer: a symbol, or the one value that the program is for.
    Integer(Dim),
}

impl Input {
    /// Returns the tensor type, if it is a tensor.
    pub(super) fn tensor(&self) -> Option<&TensorType> {
        match self {
            Input::Tensor(ty) => Some(ty),
            Input::Integer(_) => None,
        }
    }

    /// Returns the symbols that it tells.
    pub(super) fn symbols(&self) -> Vec<Symbol> {
        match self {
            Input::Tensor(ty) => ty.shape.iter().flat_map(Dim::symbols).collect(),
            Input::Integer(number) => number.symbols(),
        }
    }
}

impl std::fmt::Display for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Input::Tensor(ty) => write!(f, "{ty}"),
            Input::Integer(number) => write!(f, "{number}"),
        }
    }
}

/// A program as steps.
pub(super) struct Lowered {
    pub(super) inputs: Vec<(String, Input)>,
    pub(super) weights: Vec<Weight>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) steps: Vec<Step>,
    /// What must not be negative for sizes to fit together.
    pub(super) requires: Vec<Dim>,
    /// The sizes that data decide.
    pub(super) locals: Vec<Symbol>,
    /// The functions of row-wise operations.
    pub(super) rowwise: Functions<RowwiseDef>,
    pub(super) gufuncs: Functions<GufuncDef>,
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
    /// The sizes that data decide.
    locals: Vec<Symbol>,
    /// The sizes of all graphs so far.
    taken: HashSet<Symbol>,
    /// The functions of row-wise operations.
    pub(super) rowwise: Functions<RowwiseDef>,
    pub(super) gufuncs: Functions<GufuncDef>,
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
        locals: Vec::new(),
        taken: HashSet::new(),
        rowwise: Functions::default(),
        gufuncs: Functions::default(),
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
                inputs.push((node.name().to_owned(), Input::Tensor(ty.clone())));
            }
            Some(Arg::Dim(number)) if number.as_symbol().is_some() => {
                values.push(Arg::dim(number.clone()));
                inputs.push((node.name().to_owned(), Input::Integer(number.clone())));
            }
            Some(Arg::Int(number)) => {
                values.push(Arg::Int(*number));
                inputs.push((node.name().to_owned(), Input::Integer(Dim::new(*number))));
            }
            ty => {
                let ty = ty.map_or("an unknown type".to_owned(), ToString::to_string);
                bail!(
                    Unresolved,
                    "the input %{} is {ty}; expected a tensor or an integer symbol",
                    node.name()
                )
            }
        }
    }
    lowering.symbols = inputs.iter().flat_map(|(_, input)| input.symbols()).collect();
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
    let Lowering { weights, buffers, steps, requires, locals, rowwise, gufuncs, .. } = lowering;
    Ok(Lowered { inputs, weights, buffers, steps, requires, locals, rowwise, gufuncs, output })
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

impl<'a> Lowering<'a> {
    /// Makes steps of a graph for these arguments and returns its result.
    pub(super) fn graph(&mut self, graph: &Graph, args: Vec<Value>) -> Result<Value> {
        self.take_names(graph);
        let ids = graph.ids();
        let at: HashMap<NodeId, usize> = ids.iter().enumerate().map(|(i, id)| (*id, i)).collect();
        let (group_of, groups) = pointwise::groups(graph, &ids, &at)?;
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
        let id = self.add_buffer(dtype, len);
        self.grow(id);
        id
    }

    fn add_buffer(&mut self, dtype: DType, len: Length) -> usize {
        self.buffers.push(Buffer { dtype, len });
        self.buffers.len() - 1
    }

    /// Adds a call of a kernel.
    pub(super) fn call(&mut self, function: impl Into<String>, args: Vec<Pieces>) {
        self.steps.push(Step::Call(Call { function: function.into(), args, fails: None }));
    }

    /// Adds a call of a kernel that fails if a position does not exist.
    pub(super) fn call_checked(&mut self, function: impl Into<String>, args: Vec<Pieces>) {
        self.steps.push(Step::Call(Call { function: function.into(), args, fails: Some(Failure::Index) }));
    }

    /// Adds a call of a kernel that fails if it is not defined for an operand.
    pub(super) fn call_fallible(&mut self, function: impl Into<String>, args: Vec<Pieces>) {
        self.steps.push(Step::Call(Call { function: function.into(), args, fails: Some(Failure::Operand) }));
    }

    /// Adds a check that an element of a value is none for which `refused`, a condition on `x`, holds.
    pub(super) fn refuse(&mut self, view: &View, refused: &str, why: &str) {
        self.refuse_as(view, refused, why, Failure::Operand);
    }

    pub(super) fn refuse_as(&mut self, view: &View, refused: &str, why: &str, failure: Failure) {
        let view = self.contiguous(view);
        let text = |text: String| vec![Piece::Text(text)];
        // The message is the user's: it stays a literal.
        let why = format!("\"{}\"", why.escape_default());
        let args = vec![vec![Piece::Read(view)], text(format!("|x| {refused}")), text(why)];
        let (function, fails) = ("check::each".to_owned(), Some(failure));
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
                let number = vec![Piece::Integer(size.clone())];
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
            self.weights.push(Weight { path, tensor, update: None, packed: None });
            self.weights.len() - 1
        });
        Ok(View::whole(Home::Weight(i), ty.dtype, &ty.shape))
    }

    /// Keeps a matrix in the order in which products read it; `None` if it is no weight, or one that may change.
    pub(super) fn packed(&mut self, matrix: &View) -> Option<usize> {
        let numbers = [&matrix.shape[..], &matrix.strides, std::slice::from_ref(&matrix.offset)].map(known);
        let [Ok(shape), Ok(strides), Ok(offset)] = numbers else { return None };
        let ([k, n], [row, column], [offset]) = (&shape[..], &strides[..], &offset[..]) else { return None };
        // Columns are kept in full tiles, of up to 32.
        if *n < 8 || *k == 0 {
            return None;
        }
        self.in_form(matrix, Form::Panels { sizes: [*n, *k], offset: *offset, strides: [*row, *column] })
    }

    /// Keeps kernels of 3 by 3 as Winograd's filtering takes them; `None` as for [`packed`](Self::packed).
    pub(super) fn filtered(&mut self, kernels: &View) -> Option<usize> {
        let n = count(&kernels.shape).known()? / 9;
        self.all_in_form(kernels, Form::Winograd(n as usize))
    }

    /// Keeps the kernels of channels side by side; `None` as for [`packed`](Self::packed).
    pub(super) fn side_by_side(&mut self, kernels: &View) -> Option<usize> {
        let n = kernels.shape.first()?.known()?;
        self.all_in_form(kernels, Form::SideBySide(n as usize))
    }

    fn all_in_form(&mut self, weight: &View, form: Form) -> Option<usize> {
        let is_whole = weight.is_contiguous() && weight.offset == Dim::new(0);
        is_whole.then(|| self.in_form(weight, form))?
    }

    fn in_form(&mut self, weight: &View, form: Form) -> Option<usize> {
        let Home::Weight(of) = weight.home else { return None };
        let path = self.weights[of].path.clone();
        let is_fixed = !matches!(self.gm.attribute(&path), Ok(Attribute::Buffer(_) | Attribute::State(_)));
        if self.options.baked || !is_fixed || !matches!(weight.dtype, DType::F32 | DType::F64) {
            return None;
        }
        let packed = PackedWeight { of, form };
        let key = format!("{path} packed {packed:?}");
        if let Some(&i) = self.weight_of.get(&key) {
            return Some(i);
        }
        let tensor = self.weights[of].tensor.clone();
        let path = format!("{path}.packed");
        self.weights.push(Weight { path, tensor, update: None, packed: Some(packed) });
        self.weight_of.insert(key, self.weights.len() - 1);
        Some(self.weights.len() - 1)
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
                if matches!(attribute, Attribute::State(_)) {
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
            && self.has_sizes(ty)
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
        let finds_sizes = is_built_in(op) && table::BINDS.contains(&op.name);
        if !finds_sizes && !self.has_sizes(ty) {
            return Err(Self::unknown_sizes(ty));
        }
        for ty in ty.leaves().into_iter().filter_map(Type::tensor) {
            ty.shape.iter().for_each(|size| self.require(size.clone()));
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
        if let Some(value) = self.rowwise(op, args, ty)? {
            return Ok(value);
        }
        if let Some(value) = self.gufunc(op, args, ty)? {
            return Ok(value);
        }
        if !op.effects.is_pure() {
            bail!(Unresolved, "it has effects");
        }
        if op.windows.is_some() {
            return self.view(op, args, ty);
        }
        if is_built_in(op) && table::MOVES.contains(&op.name) {
            return self.moved(op, args, ty);
        }
        if args.iter().all(|arg| arg.leaves().is_empty()) {
            return self.evaluated(op, args);
        }
        Err(err!(Unresolved, "the operation has no stand-alone code"))
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
