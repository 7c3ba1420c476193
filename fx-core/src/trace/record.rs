//! Recording: symbols to nodes, members of the traced module to `get_attr` and `call_module`, sizes to
//! expressions.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;

use super::{Called, Proxy, State, Tracer, address, note};
use crate::node::{Kwargs, NodeId, Target};
use crate::tensor::Repr;
use crate::{
    Arg, Attribute, Buffer, Dim, Error, ModuleFrame, Op, Result, SourceLoc, Symbol, Tensor, TensorType, Type,
    TypeTree, Value, err,
};

/// Returns whether a parameter or buffer of the traced module is among the arguments.
pub(super) fn uses_member(tracer: &Tracer, args: &[Value], kwargs: &[(&str, Value)]) -> bool {
    let state = tracer.lock();
    let mut found = false;
    for arg in args.iter().chain(kwargs.iter().map(|(_, arg)| arg)) {
        arg.for_each_leaf(&mut |tensor| {
            if let Repr::Value(array) = &tensor.0 {
                found |= state.members.attr(address(array)).is_some();
            }
        });
    }
    found
}

/// Records a call. Required arguments are written by position, others by name where they differ from their
/// default.
pub(super) fn record_call(
    tracer: &Arc<Tracer>,
    op: Op,
    method: bool,
    args: &[Value],
    kwargs: &[(&str, Value)],
    source: &SourceLoc,
) -> Result<Value> {
    // Who applies a row as it was bound gives keyword-only parameters by position, too.
    let is_bound = kwargs.is_empty() && args.len() == op.params.len();
    let placed = if is_bound && args.iter().zip(op.params).all(|(arg, param)| param.kind.accepts(arg)) {
        args.iter().map(Some).collect()
    } else {
        op.place(args, kwargs)?
    };
    let mut types: SmallVec<[TypeTree; 10]> = SmallVec::new();
    for (param, arg) in op.params.iter().zip(&placed) {
        types.push(arg.map_or_else(|| Ok(param.default_arg()), type_of)?);
    }
    tracer.enter_rule(op.name, source);
    let inferred = op.infer(&types).inspect_err(|_| tracer.failed_rule(&types))?;
    if tracer.types_only {
        let ty = inferred.map_or(Arg::Leaf(Type::Any), |ty| settle(tracer, ty, &types));
        return Ok(typed_result(tracer, ty));
    }
    let example = tracer.example(op, args, kwargs)?;
    let mut positional: SmallVec<[Arg; 2]> = SmallVec::new();
    let mut keywords = Kwargs::new();
    let mut by_name = false;
    for (param, arg) in op.params.iter().zip(placed) {
        let Some(arg) = arg.filter(|arg| !param.default.is_some_and(|default| default.is(arg))) else {
            by_name = true;
            continue;
        };
        let arg = lower(tracer, arg)?;
        if by_name || param.default.is_some() {
            by_name = true;
            keywords.push((Arc::from(param.name), arg));
        } else {
            positional.push(arg);
        }
    }
    let ty = inferred.map(|ty| settle(tracer, ty, &types));
    let target = if method && op.method { Target::CallMethod(op) } else { Target::CallFunction(op) };
    let mut state = tracer.lock();
    let node = state.create(tracer, target, positional, keywords, None, Some(source))?;
    state.note_data_sizes(node, ty.as_ref());
    state.proxy(tracer, node, ty, example).map(Arg::Leaf)
}

/// Returns a symbol of a trace of types.
pub(super) fn typed_symbol(tracer: &Arc<Tracer>, ty: TypeTree) -> Tensor {
    static NAME: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("_"));
    let node = NodeId { index: tracer.next_symbol.fetch_add(1, Ordering::Relaxed), stamp: 0 };
    let ty = ty.is_complete().then(|| Arc::new(ty));
    Tensor(Repr::Proxy(Arc::new(Proxy {
        tracer: tracer.clone(),
        node,
        name: NAME.clone(),
        ty,
        example: None,
    })))
}

/// Returns the result of an operation in a trace of types: known numbers stay numbers.
fn typed_result(tracer: &Arc<Tracer>, ty: TypeTree) -> Value {
    match &ty {
        Arg::Int(_) | Arg::Dim(_) | Arg::None => {
            ty.map(&mut |leaf| typed_symbol(tracer, Arg::Leaf(leaf.clone())))
        }
        _ => Arg::Leaf(typed_symbol(tracer, ty)),
    }
}

/// Names the sizes of a result that depend on data.
pub(super) fn settle(tracer: &Tracer, ty: TypeTree, args: &[TypeTree]) -> TypeTree {
    crate::fresh::settle(ty, args, None, &mut || {
        let name = {
            let state = &mut *tracer.outermost().lock();
            state.names.next(&state.graph, std::iter::empty())
        };
        tracer.lock().data_sizes.insert(name.clone(), None);
        name
    })
}

/// Returns a name for a size that depends on data and that no size of the trace of this thread has; `None`
/// outside of traces.
pub(crate) fn free_size_name() -> Option<Arc<str>> {
    let tracer = Tracer::active()?;
    let state = &mut *tracer.outermost().lock();
    Some(state.names.next(&state.graph, std::iter::empty()))
}

/// Returns the type of an argument.
pub(super) fn type_of(arg: &Value) -> Result<TypeTree> {
    match arg {
        Arg::Leaf(tensor) => tensor.type_tree(),
        Arg::None => Ok(Arg::None),
        Arg::Bool(x) => Ok(Arg::Bool(*x)),
        Arg::Int(x) => Ok(Arg::Int(*x)),
        Arg::Float(x) => Ok(Arg::Float(*x)),
        Arg::Dim(dim) if dim.symbols().iter().any(|symbol| symbol.owner() != 0) => Ok(Arg::Leaf(Type::Int)),
        _ => arg.try_rewrite(&mut |arg| match arg {
            Arg::Leaf(tensor) => tensor.type_tree().map(Some),
            Arg::Dim(dim) if dim.symbols().iter().any(|symbol| symbol.owner() != 0) => {
                Ok(Some(Arg::Leaf(Type::Int)))
            }
            _ => Ok(None),
        }),
    }
}

/// Turns the symbols and values of an argument into nodes.
pub(super) fn lower(tracer: &Arc<Tracer>, arg: &Value) -> Result<Arg> {
    match arg {
        Arg::Leaf(tensor) => lower_tensor(tracer, tensor).map(Arg::Leaf),
        _ => arg.try_rewrite(&mut |arg| match arg {
            Arg::Leaf(tensor) => lower_tensor(tracer, tensor).map(|node| Some(Arg::Leaf(node))),
            Arg::Dim(dim) => lower_dim(tracer, dim).map(Some),
            _ => Ok(None),
        }),
    }
}

fn lower_tensor(tracer: &Arc<Tracer>, tensor: &Tensor) -> Result<NodeId> {
    match &tensor.0 {
        Repr::Failed(error) => Err(error.clone()),
        Repr::Items(items) => Err(items.error().clone()),
        Repr::Proxy(proxy) if proxy.tracer.id == tracer.id => {
            if tracer.is_finished() {
                return Err(err!(Trace, "%{} belongs to a trace that has ended", proxy.name)
                    .help("return values from the traced function instead of keeping its symbols"));
            }
            Ok(proxy.node)
        }
        Repr::Proxy(proxy) if tracer.is_within(proxy.tracer.id) => {
            capture(tracer, &Arg::Leaf(tensor.clone()))
        }
        Repr::Proxy(_) => Err(err!(Trace, "symbols of two traces are mixed")
            .help("a traced function may use only its own arguments, parameters and captured tensors")),
        Repr::Lazy(_) if tracer.parent.is_none() => lower_tensor(tracer, &tensor.clone().settled()),
        Repr::Lazy(_) => capture(tracer, &Arg::Leaf(tensor.clone())),
        Repr::Value(array) => {
            if tracer.parent.is_some() {
                return capture(tracer, &Arg::Leaf(tensor.clone()));
            }
            let mut state = tracer.lock();
            let members = state.members.clone();
            let symbol = match members.attr(address(array)) {
                Some((path, attribute)) => state.read_attr(tracer, path, attribute.clone())?,
                None => {
                    let path = state.constant_path(tensor);
                    state.read_attr(tracer, &path, Attribute::Constant(tensor.clone()))?
                }
            };
            Ok(node_of(&symbol))
        }
    }
}

fn node_of(symbol: &Tensor) -> NodeId {
    match &symbol.0 {
        Repr::Proxy(proxy) => proxy.node,
        _ => unreachable!("attributes are read as symbols"),
    }
}

/// Returns the placeholder of a sub-graph that stands for a symbol or value of the outside.
fn capture(tracer: &Arc<Tracer>, outside: &Value) -> Result<NodeId> {
    let same = |other: &Value| match (other, outside) {
        (Arg::Leaf(Tensor(Repr::Proxy(a))), Arg::Leaf(Tensor(Repr::Proxy(b)))) => {
            a.tracer.id == b.tracer.id && a.node == b.node
        }
        (Arg::Leaf(Tensor(Repr::Value(a))), Arg::Leaf(Tensor(Repr::Value(b)))) => Arc::ptr_eq(a, b),
        (Arg::Leaf(Tensor(Repr::Lazy(a))), Arg::Leaf(Tensor(Repr::Lazy(b)))) => Arc::ptr_eq(a, b),
        _ => false,
    };
    let mut state = tracer.lock();
    if let Some((_, symbol)) = state.captures.iter().find(|(other, _)| same(other)) {
        return Ok(node_of(symbol));
    }
    let hint = match outside {
        Arg::Leaf(Tensor(Repr::Proxy(proxy))) => proxy.name.to_string(),
        Arg::Leaf(Tensor(Repr::Value(array))) => match state.members.attr(address(array)) {
            Some((path, _)) => crate::names::snake_case(path),
            None => "constant".into(),
        },
        _ => "captured".into(),
    };
    let name = unique_input(&state, &hint);
    let node = state.graph.placeholder(&name)?;
    let ty = type_of(outside)?;
    let symbol = state.proxy(tracer, node, ty.is_complete().then_some(ty), None)?;
    state.captures.push((outside.clone(), symbol));
    Ok(node)
}

/// Returns an argument name that the graph does not have yet.
pub(super) fn unique_input(state: &State, hint: &str) -> String {
    let taken = |name: &str| state.graph.inputs().iter().any(|input| &*input.name == name);
    if !taken(hint) {
        return hint.to_owned();
    }
    (1..).map(|i| format!("{hint}_{i}")).find(|name| !taken(name)).expect("some number is free")
}

/// Turns a size into an argument: one that depends on recorded sizes or on data becomes arithmetic on nodes.
fn lower_dim(tracer: &Arc<Tracer>, dim: &Dim) -> Result<Arg> {
    if let Some(value) = crate::lazy::follower().and_then(|follower| follower.size(dim)) {
        return Ok(Arg::Int(value));
    }
    let symbols = dim.symbols();
    let mut sizes: Vec<(Symbol, NodeId)> = Vec::new();
    for symbol in symbols.iter().filter(|symbol| symbol.owner() == 0) {
        if let Some(node) = size_node(tracer, symbol)? {
            sizes.push((symbol.clone(), node));
        }
    }
    if sizes.is_empty() && symbols.iter().all(|symbol| symbol.owner() == 0) {
        return Ok(Arg::Dim(dim.clone()));
    }
    if let Some(symbol) = symbols.iter().find(|symbol| symbol.owner() != 0 && symbol.owner() != tracer.id) {
        return Err(err!(Trace, "the size {dim} uses %{} of another trace", symbol.name()).help(
            "sizes without input specs belong to the trace that recorded them; read them again inside",
        ));
    }
    let mut state = tracer.lock();
    let mut fold = |step: crate::dim::Step<'_, Arg>| -> Result<Arg> {
        use crate::dim::Step;
        let mut call = |op: Op, a: Arg, b: Arg| -> Result<Arg> {
            let node = state.create(
                tracer,
                Target::CallFunction(op),
                SmallVec::from_iter([a, b]),
                Kwargs::new(),
                None,
                None,
            )?;
            state.graph.meta_mut(node)?.ty = Some(Arc::new(Arg::Leaf(Type::Int)));
            Ok(Arg::Leaf(node))
        };
        match step {
            Step::Const(n) => Ok(Arg::Int(n)),
            Step::Symbol(symbol) if symbol.owner() == 0 => {
                Ok(match sizes.iter().find(|(other, _)| other == symbol) {
                    Some((_, node)) => Arg::Leaf(*node),
                    None => Arg::Dim(Dim::symbol(symbol.clone())),
                })
            }
            Step::Symbol(symbol) => state.graph.find_or_err(symbol.name()).map(Arg::Leaf),
            Step::Add(a, b) => call(crate::ops::add::OP, a, b),
            Step::Mul(a, b) => call(crate::ops::mul::OP, a, b),
            Step::FloorDiv(a, b) => call(crate::ops::floor_divide::OP, a, b),
            Step::Mod(a, b) => call(crate::ops::remainder::OP, a, b),
            Step::Min(a, b) => call(crate::ops::minimum::OP, a, b),
            Step::Max(a, b) => call(crate::ops::maximum::OP, a, b),
        }
    };
    dim.fold(&mut fold)
}

/// Returns a node whose value is the size that a symbol stands for, if only that makes the size known here: a
/// size that depends on data, so that passes see the dependency; and in a sub-graph a size of the outside,
/// whose tensor is captured.
fn size_node(tracer: &Arc<Tracer>, symbol: &Symbol) -> Result<Option<NodeId>> {
    if tracer.parent.is_some() && tracer.lock().argument_with(symbol).is_some() {
        return Ok(None);
    }
    let mut outer = tracer;
    let (node, axis) = loop {
        let place = {
            let state = outer.lock();
            let data_size = state.data_sizes.get(symbol.name()).copied().flatten();
            data_size.or_else(|| state.argument_with(symbol).filter(|_| outer.id != tracer.id))
        };
        match (place, &outer.parent) {
            (Some(place), _) => break place,
            (None, Some(parent)) => outer = parent,
            (None, None) => return Ok(None),
        }
    };
    let ty = outer.lock().graph.node(node)?.meta().ty.clone();
    let tensor = outer.lock().proxy(outer, node, ty.as_deref().cloned(), None)?;
    let node = lower_tensor(tracer, &tensor)?;
    let mut state = tracer.lock();
    let args = SmallVec::from_iter([Arg::Leaf(node), Arg::Int(axis)]);
    let size =
        state.create(tracer, Target::CallFunction(crate::ops::size::OP), args, Kwargs::new(), None, None)?;
    state.graph.meta_mut(size)?.ty = Some(Arc::new(Arg::Dim(Dim::symbol(symbol.clone()))));
    Ok(Some(size))
}

impl Tracer {
    /// Returns the number of a module among the members. Modules without data may share an address; they take
    /// turns, call by call.
    pub(super) fn find_module(&self, module: &dyn crate::Module) -> Option<usize> {
        let state = &mut *self.lock();
        let first = state.members.module(module)?;
        if state.members.next_module(first).is_none() {
            return Some(first);
        }
        let number = match state.turns.get(&first) {
            Some(last) => state.members.next_module(*last).unwrap_or(first),
            None => first,
        };
        state.turns.insert(first, number);
        Some(number)
    }

    /// Returns whether a module is recorded as one node. The state is not locked while the user's code decides.
    pub(super) fn is_leaf(&self, module: &dyn crate::Module, number: usize) -> bool {
        match self.is_leaf.get() {
            Some(policy) => {
                let members = self.lock().members.clone();
                policy(module, members.module_path(number))
            }
            None => module.is_leaf(),
        }
    }
}

impl State {
    /// Puts a module on the stack.
    pub(super) fn push_frame(&mut self, number: usize, type_name: &'static str, source: SourceLoc) {
        let State { called, members, type_names, .. } = self;
        if called.len() <= number {
            called.resize_with(members.n_modules(), || None);
        }
        let called = called[number].get_or_insert_with(|| {
            let known = type_names.iter().find(|(name, _)| std::ptr::eq(*name, type_name));
            let type_name = known.map(|(_, shared)| shared.clone()).unwrap_or_else(|| {
                let shared: Arc<str> = Arc::from(type_name);
                type_names.push((type_name, shared.clone()));
                shared
            });
            Called { path: Arc::from(members.module_path(number)), type_name, count: 0, is_child: false }
        });
        let (path, type_name, call) = (called.path.clone(), called.type_name.clone(), called.count);
        called.count += 1;
        self.stack.push(ModuleFrame { path, type_name, call, source: Some(source) });
        self.shared_stack = None;
    }

    /// Returns the placeholder that has an axis of exactly this size, and the axis.
    fn argument_with(&self, symbol: &Symbol) -> Option<(NodeId, i64)> {
        let is_input = |node: &crate::Node| node.opcode() == crate::OpCode::Placeholder;
        self.graph.nodes().take_while(|(_, node)| is_input(node)).find_map(|(id, node)| {
            let shape = &node.ty()?.tensor()?.shape;
            shape.iter().position(|dim| dim.as_symbol() == Some(symbol)).map(|axis| (id, axis as i64))
        })
    }

    /// Remembers which node has a size that depends on data, where it is the first.
    pub(super) fn note_data_sizes(&mut self, node: NodeId, ty: Option<&TypeTree>) {
        if self.data_sizes.is_empty() {
            return;
        }
        let Some(ty) = ty.and_then(TypeTree::tensor) else { return };
        for (axis, dim) in ty.shape.iter().enumerate() {
            if let Some(symbol) = dim.as_symbol()
                && let Some(place @ None) = self.data_sizes.get_mut(symbol.name())
            {
                *place = Some((node, axis as i64));
            }
        }
    }

    /// Adds a node with source and module stack.
    pub(super) fn create(
        &mut self,
        tracer: &Tracer,
        target: Target,
        args: SmallVec<[Arg; 2]>,
        kwargs: Kwargs,
        hint: Option<&str>,
        source: Option<&SourceLoc>,
    ) -> Result<NodeId> {
        if tracer.is_finished() {
            return Err(err!(Trace, "this trace has ended")
                .help("return values from the traced function instead of keeping its symbols"));
        }
        let node = self.graph.create(target, args, kwargs, hint)?;
        let origin = self.origin.as_ref().map(|origin| (origin.stack.clone(), origin.source.clone()));
        let (stack, source) = match origin {
            Some((stack, place)) => (stack.or_else(|| self.shared_stack()), source.and(place)),
            None => (self.shared_stack(), source.cloned()),
        };
        let meta = self.graph.meta_mut(node)?;
        meta.stack = stack;
        if self.record_sources {
            meta.source = source;
        }
        Ok(node)
    }

    /// Makes the symbol of a node and enters what is known of its type. The symbol has the value of the example,
    /// if the function is recorded with one.
    pub(super) fn proxy(
        &mut self,
        tracer: &Arc<Tracer>,
        node: NodeId,
        ty: Option<TypeTree>,
        example: Option<Value>,
    ) -> Result<Tensor> {
        let ty = ty.map(Arc::new);
        if ty.is_some() {
            self.graph.meta_mut(node)?.ty = ty.clone();
        }
        let name = self.graph.node(node)?.shared_name().clone();
        if let (Some(recorder), Some(ty), Some(example)) = (&tracer.recorder, &ty, &example) {
            recorder.bind_type(ty, example);
        }
        let proxy = Arc::new(Proxy { tracer: tracer.clone(), node, name, ty, example });
        if let Some(recorder) = tracer.recorder.as_ref().filter(|_| proxy.example.is_some()) {
            recorder.made(&proxy);
        }
        Ok(Tensor(Repr::Proxy(proxy)))
    }

    /// Returns the path of a captured tensor; the same tensor has the same path.
    fn constant_path(&mut self, tensor: &Tensor) -> Arc<str> {
        let constants = self.attrs.iter().filter_map(|(path, attribute)| match attribute {
            Attribute::Constant(constant) => Some((path, constant)),
            _ => None,
        });
        let mut n = 0;
        for (path, constant) in constants {
            if constant.identity() == tensor.identity() {
                return path.clone();
            }
            n += 1;
        }
        (n..)
            .map(|i| Arc::from(format!("_tensor_constant{i}")))
            .find(|path| !self.attrs.contains_key(path) && !self.members.has_attr(path))
            .expect("some number is free")
    }

    /// Returns the symbol of an attribute: one `get_attr` however often it is read.
    fn read_attr(&mut self, tracer: &Arc<Tracer>, path: &str, attribute: Attribute) -> Result<Tensor> {
        if let Some(symbol) = self.read.get(path) {
            return Ok(symbol.clone());
        }
        let path: Arc<str> = Arc::from(path);
        let ty = attribute.type_tree()?;
        let node =
            self.create(tracer, Target::GetAttr(path.clone()), SmallVec::new(), Kwargs::new(), None, None)?;
        let example = tracer.recorder.as_ref().map(|_| Arg::Leaf(attribute.tensor()));
        let symbol = self.proxy(tracer, node, Some(ty), example)?;
        self.read.insert(path.clone(), symbol.clone());
        self.attrs.insert(path, attribute);
        Ok(symbol)
    }
}

/// Takes one symbol of several tensors apart. `None` if it is one tensor.
#[track_caller]
pub(super) fn unpack(value: &Value, proxy: &Proxy, structure: Option<Arg<()>>) -> Result<Option<Value>> {
    let from_type = |ty: &TypeTree| ty.map(&mut |_| ());
    let structure = match (&proxy.ty, structure) {
        (Some(ty), _) if !matches!(**ty, Arg::Leaf(_)) => from_type(ty),
        (Some(ty), _) if !matches!(**ty, Arg::Leaf(Type::Any)) => return Ok(None),
        (_, Some(Arg::Leaf(()))) => return Ok(None),
        (_, Some(structure)) => structure,
        (_, None) if let Some(structure) = proxy.read_parts(SourceLoc::caller()) => structure,
        (_, None) => {
            return Err(err!(Trace, "how many tensors %{} holds is not known while tracing", proxy.name)
                .help("give the input a spec that fixes the size, or index the tensor in an `fx::for_loop`")
                .at(SourceLoc::caller()));
        }
    };
    take_apart(value, &structure, &SourceLoc::caller()).map(Some)
}

fn take_apart(value: &Value, structure: &Arg<()>, source: &SourceLoc) -> Result<Value> {
    let part = |key: Value, inner: &Arg<()>| -> Result<Value> {
        let args = [value.clone(), key];
        let part = super::apply_at(crate::ops::getitem::OP, false, &args, &[], source.clone())?;
        take_apart(&part, inner, source)
    };
    match structure {
        Arg::Leaf(()) => Ok(value.clone()),
        Arg::Tuple(items) | Arg::List(items) => {
            let parts: Vec<Value> = items
                .iter()
                .enumerate()
                .map(|(i, inner)| part(Arg::Int(i as i64), inner))
                .collect::<Result<_>>()?;
            Ok(if matches!(structure, Arg::Tuple(_)) { Arg::tuple(parts) } else { Arg::list(parts) })
        }
        Arg::Dict(entries) => Ok(Arg::dict(
            entries
                .iter()
                .map(|(key, inner)| Ok((key.clone(), part(Arg::Str(key.clone()), inner)?)))
                .collect::<Result<Vec<_>>>()?,
        )),
        literal => literal.try_flat_map(&mut |()| Ok(Arg::None)),
    }
}

/// Records the size of an axis of a symbol without a known shape.
#[track_caller]
pub(crate) fn size_of(tensor: &Tensor, axis: i64) -> Dim {
    let size = super::apply(crate::ops::size::OP, true, &[Arg::Leaf(tensor.clone()), Arg::Int(axis)], &[]);
    match size {
        Ok(Arg::Leaf(Tensor(Repr::Proxy(proxy)))) => {
            Dim::symbol(Symbol::of_node(proxy.name.clone(), proxy.tracer.id))
        }
        Ok(Arg::Int(n)) => Dim::new(n),
        Ok(_) => Dim::failed(err!(Trace, "a size is not an integer")),
        Err(error) => Dim::failed(error),
    }
}

/// Returns a symbol that stands for an attribute, if only types are asked for: they do not depend on what it
/// holds now.
pub(crate) fn symbol_for(attribute: &Attribute) -> Option<Result<Tensor>> {
    let tracer = Tracer::active().filter(|tracer| tracer.types_only)?;
    Some(attribute.type_tree().map(|ty| typed_symbol(&tracer, ty)))
}

/// Returns the symbol of a buffer, if a function that may read it is traced.
#[track_caller]
pub(crate) fn read_buffer(buffer: &Buffer) -> Option<Tensor> {
    let tracer = Tracer::active()?;
    let members = tracer.lock().members.clone();
    let path = members.buffer(buffer)?;
    // A sub-graph reads buffers of the trace around it.
    let mut outer = &tracer;
    while let Some(parent) = &outer.parent {
        outer = parent;
    }
    let symbol = {
        let state = &mut *outer.lock();
        let buffer = state.ties.keep(|| buffer.clone());
        state.read_attr(outer, path, Attribute::Buffer(buffer))
    };
    Some(symbol.unwrap_or_else(|error| Tensor::failed(note(error, Some(&tracer)))))
}

/// Records the update of a buffer, if a function that may write it is traced.
#[track_caller]
pub(crate) fn write_buffer(buffer: &Buffer, value: &Tensor) -> Option<Result<()>> {
    let tracer = Tracer::active()?;
    if tracer.types_only {
        // Only the type of the result is asked for; the module's own buffer stays.
        return Some(Ok(()));
    }
    let members = tracer.lock().members.clone();
    let path = members.buffer(buffer)?;
    let source = SourceLoc::caller();
    let result = record_update(&tracer, buffer, path, value, &source);
    Some(result.map_err(|error| note(error.at(source), Some(&tracer))))
}

fn record_update(
    tracer: &Arc<Tracer>,
    buffer: &Buffer,
    path: &str,
    value: &Tensor,
    source: &SourceLoc,
) -> Result<()> {
    if tracer.parent.is_some() {
        return Err(err!(Trace, "the buffer {path} is updated inside a sub-graph, which must be closed")
            .help("return the new value from the branches and update the buffer after them"));
    }
    let old = buffer.load();
    let (old, new) = (old.ty()?, value.type_tree()?);
    if let Some(new) = new.tensor().filter(|new| **new != old) {
        return Err(mismatch(path, &old, new));
    }
    read_buffer(buffer);
    let node = lower_tensor(tracer, value)?;
    let mut state = tracer.lock();
    let path: Arc<str> = Arc::from(path);
    let args = SmallVec::from_iter([Arg::Str(path.clone()), Arg::Leaf(node)]);
    let update = state.create(
        tracer,
        Target::CallFunction(crate::ops::set_buffer::OP),
        args,
        Kwargs::new(),
        None,
        Some(source),
    )?;
    // Only the last update of a call becomes visible.
    if let Some(earlier) = state.updates.insert(path.clone(), update) {
        state.graph.erase(earlier)?;
    }
    // Later reads in this trace see the new value.
    let symbol = match &value.0 {
        Repr::Proxy(_) => value.clone(),
        Repr::Value(_) if tracer.recorder.is_some() => {
            state.proxy(tracer, node, Some(new), Some(Arg::Leaf(value.clone())))?
        }
        _ => state.proxy(tracer, node, Some(new), None)?,
    };
    state.read.insert(path, symbol);
    Ok(())
}

fn mismatch(path: &str, old: &TensorType, new: &TensorType) -> Error {
    err!(Shape, "the buffer {path} of {old} cannot hold {new}")
}

/// Returns a tensor as a symbol of the trace, as the result of a traced function must be.
pub(super) fn symbol_of(tracer: &Arc<Tracer>, tensor: &Tensor) -> Result<Tensor> {
    match &tensor.0 {
        Repr::Proxy(proxy) if proxy.tracer.id == tracer.id => Ok(tensor.clone()),
        _ => {
            let ty = tensor.type_tree()?;
            let node = lower_tensor(tracer, tensor)?;
            let example = tracer.recorder.as_ref().map(|_| Arg::Leaf(tensor.clone()));
            tracer.lock().proxy(tracer, node, ty.is_complete().then_some(ty), example)
        }
    }
}
