//! Entry points: [`symbolic_trace`], and [`trace`] with input specs, constants and a leaf policy.

use std::sync::Arc;

use super::observe::{self, Recorder};
use super::{LeafPolicy, Members, Recording, Tracer, region};
use crate::eval::Bindings;
use crate::graph_module::GraphModule;
use crate::module::InputDecl;
use crate::tensor::Repr;
use crate::{
    Arg, Dim, Error, Forward, Graph, Module, Result, SourceLoc, Symbol, Tensor, TensorType, Type, TypeTree,
    Value, bail, err,
};

/// Something that can be traced: a reference to a module with `forward`, or a closure.
///
/// A closure takes up to 8 borrowed tensors, up to 8 values of any [`Tree`](crate::Tree) types, or up to 4
/// arguments of both kinds, such as `|x: &Tensor, rate: f64|`. `Marker` tells the implementations apart and is
/// always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be traced",
    note = "trace a `&model` whose `forward` is in an `#[fx::forward]` block, or a closure such as `|x: &Tensor| x.relu()`"
)]
pub trait Traceable<Marker> {
    /// Returns the name of the graph module.
    fn name(&self) -> String;
    /// Returns the arguments in order.
    fn arguments(&self) -> Vec<InputDecl>;
    /// Returns the module whose members are parameters, buffers and sub-modules of the trace.
    fn root(&self) -> Option<&dyn Module> {
        None
    }
    /// Returns whether calls change what the function has captured.
    fn is_mutable(&self) -> bool {
        false
    }
    /// Runs the function.
    fn run(&self, args: &[Value]) -> Result<Value>;
}

/// Marks modules for [`Traceable`].
#[derive(Debug)]
pub enum ByModule {}

impl<M: Forward> Traceable<ByModule> for &M {
    fn name(&self) -> String {
        self.type_name().to_owned()
    }
    fn arguments(&self) -> Vec<InputDecl> {
        self.inputs()
    }
    fn root(&self) -> Option<&dyn Module> {
        Some(self.as_module())
    }
    fn run(&self, args: &[Value]) -> Result<Value> {
        self.forward_values(args)
    }
}

/// A function that uses the members of a module; see [`with_module`].
pub struct WithModule<'a, F> {
    module: &'a dyn Module,
    function: F,
}

/// Lets a trace know the module that a closure uses, so that its members are parameters, buffers and sub-modules
/// with their paths: `fx::trace(with_module(&model, |x: &Tensor| model.encode(x)))`. A closure alone captures
/// constants.
pub fn with_module<M: Module, F>(module: &M, function: F) -> WithModule<'_, F> {
    WithModule { module, function }
}

/// Marks functions with a module for [`Traceable`].
#[derive(Debug)]
pub struct OfModule<Marker>(std::marker::PhantomData<Marker>);

impl<F: Traceable<Marker>, Marker> Traceable<OfModule<Marker>> for WithModule<'_, F> {
    fn name(&self) -> String {
        self.module.type_name().to_owned()
    }
    fn arguments(&self) -> Vec<InputDecl> {
        self.function.arguments()
    }
    fn root(&self) -> Option<&dyn Module> {
        Some(self.module)
    }
    fn run(&self, args: &[Value]) -> Result<Value> {
        self.function.run(args)
    }
}

/// The type of an input, given before tracing: `"f32[batch, 3]"`, an integer `"<at>"`, or a structure of types.
#[derive(Debug, Clone)]
pub struct InputSpec(Result<TypeTree>);

impl From<&str> for InputSpec {
    fn from(text: &str) -> Self {
        match text.trim().strip_prefix('<').and_then(|text| text.strip_suffix('>')) {
            Some(integer) => InputSpec(integer.parse::<Dim>().map(Arg::dim)),
            None => InputSpec(text.parse::<TensorType>().map(TypeTree::from)),
        }
    }
}
impl From<String> for InputSpec {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}
impl From<TensorType> for InputSpec {
    fn from(ty: TensorType) -> Self {
        InputSpec(Ok(ty.into()))
    }
}
/// An integer, such as a position: the function's argument is a [`Dim`].
impl From<Dim> for InputSpec {
    fn from(size: Dim) -> Self {
        InputSpec(match size.error() {
            Some(error) => Err(error.clone()),
            None => Ok(Arg::dim(size)),
        })
    }
}
/// An integer, such as a position: the function's argument is a [`Dim`].
impl From<Symbol> for InputSpec {
    fn from(symbol: Symbol) -> Self {
        Dim::symbol(symbol).into()
    }
}
/// The dtype and shape of an example.
impl From<&Tensor> for InputSpec {
    fn from(example: &Tensor) -> Self {
        InputSpec(example.ty().map(TypeTree::from))
    }
}
impl From<TypeTree> for InputSpec {
    fn from(ty: TypeTree) -> Self {
        InputSpec(Ok(ty))
    }
}
impl<T: Into<InputSpec>, const N: usize> From<[T; N]> for InputSpec {
    fn from(items: [T; N]) -> Self {
        InputSpec::list(items)
    }
}
impl<T: Into<InputSpec>> From<Vec<T>> for InputSpec {
    fn from(items: Vec<T>) -> Self {
        InputSpec::list(items)
    }
}
macro_rules! tuple_specs {
    ($($t:ident)*; $($i:tt)*) => {
        impl<$($t: Into<InputSpec>),*> From<($($t,)*)> for InputSpec {
            fn from(items: ($($t,)*)) -> Self {
                InputSpec::collect([$(items.$i.into()),*], Arg::tuple)
            }
        }
    };
}
tuple_specs!(A B; 0 1);
tuple_specs!(A B C; 0 1 2);
tuple_specs!(A B C D; 0 1 2 3);

impl InputSpec {
    /// A list, for `Vec` and array arguments.
    pub fn list<T: Into<InputSpec>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::collect(items.into_iter().map(Into::into), Arg::list)
    }

    /// Named entries, for maps and `#[derive(Tree)]` structs.
    pub fn dict<K: Into<Arc<str>>, T: Into<InputSpec>>(entries: impl IntoIterator<Item = (K, T)>) -> Self {
        let entries: Result<Vec<(Arc<str>, TypeTree)>> =
            entries.into_iter().map(|(key, spec)| Ok((key.into(), spec.into().0?))).collect();
        InputSpec(entries.map(Arg::dict))
    }

    /// An `Option` argument that is absent.
    pub fn none() -> Self {
        InputSpec(Ok(Arg::None))
    }

    /// Returns the type. Fails if the text of the spec is no type.
    pub fn into_type(self) -> Result<TypeTree> {
        self.0
    }

    fn collect(items: impl IntoIterator<Item = InputSpec>, make: fn(Vec<TypeTree>) -> TypeTree) -> Self {
        InputSpec(items.into_iter().map(|item| item.0).collect::<Result<Vec<_>>>().map(make))
    }
}

/// Traces a module or closure with symbols for its arguments, and returns the graph module.
///
/// Fails with all errors of the trace at once, each with the line of the user's program.
#[track_caller]
pub fn symbolic_trace<Marker>(function: impl Traceable<Marker>) -> Result<GraphModule> {
    trace(function).build()
}

/// Prepares a trace: give input specs, constants and a leaf policy, then [`build`](TraceBuilder::build).
pub fn trace<T: Traceable<Marker>, Marker>(function: T) -> TraceBuilder<T, Marker> {
    TraceBuilder { function, settings: Settings::default(), marker: std::marker::PhantomData }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            specs: Vec::new(),
            constants: Vec::new(),
            dims: Vec::new(),
            is_leaf: None,
            record_sources: true,
        }
    }
}

/// A trace to be; see [`trace`].
#[must_use = "call `build` to trace"]
pub struct TraceBuilder<T, Marker> {
    function: T,
    settings: Settings,
    marker: std::marker::PhantomData<fn() -> Marker>,
}

/// How to trace, whatever the function is.
#[derive(Clone)]
struct Settings {
    specs: Vec<(String, InputSpec)>,
    constants: Vec<(String, Value)>,
    dims: Vec<(String, i64, Option<i64>)>,
    is_leaf: Option<LeafPolicy>,
    record_sources: bool,
}

impl<T: Traceable<Marker>, Marker> TraceBuilder<T, Marker> {
    /// Says dtype and shape of an argument, so that shapes are known while tracing:
    /// `.input("x", "f32[batch, 3]")`.
    pub fn input(mut self, name: &str, spec: impl Into<InputSpec>) -> Self {
        self.settings.specs.push((name.to_owned(), spec.into()));
        self
    }

    /// Fixes an argument to a value. The graph checks on each call that the argument equals it.
    pub fn constant(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.settings.constants.push((name.to_owned(), value.into()));
        self
    }

    /// Says in which inclusive range a symbol of the input specs lies: `.dim("batch", 1, Some(64))`.
    pub fn dim(mut self, name: &str, min: i64, max: Option<i64>) -> Self {
        self.settings.dims.push((name.to_owned(), min, max));
        self
    }

    /// Decides which modules are recorded as one node; by default the modules that declare themselves leaves.
    pub fn leaf(mut self, is_leaf: impl Fn(&dyn Module, &str) -> bool + Send + Sync + 'static) -> Self {
        self.settings.is_leaf = Some(Arc::new(is_leaf));
        self
    }

    /// Leaves the source lines out of the graph.
    pub fn without_sources(mut self) -> Self {
        self.settings.record_sources = false;
        self
    }

    /// Returns the function.
    pub fn function(&self) -> &T {
        &self.function
    }

    /// Runs the function once with symbols that have the values of examples, and notes what Rust code reads of
    /// the values. There is one type and one example for each argument; the leaf policy of this builder
    /// holds, its input specs do not.
    #[track_caller]
    pub fn record(&self, types: &[TypeTree], examples: &[Value]) -> Recording {
        let function = &self.function;
        let arguments = function.arguments();
        let names = arguments.iter().map(|argument| argument.name.clone().into_owned());
        let settings = Settings {
            specs: names.zip(types).map(|(name, ty)| (name, InputSpec::from(ty.clone()))).collect(),
            constants: Vec::new(),
            dims: Vec::new(),
            is_leaf: self.settings.is_leaf.clone(),
            record_sources: true,
        };
        settings.record(
            &function.name(),
            arguments,
            function.root(),
            &|values| function.run(values),
            SourceLoc::caller(),
            examples,
        )
    }

    /// Runs the function once with symbols. Fails with all errors of the trace at once.
    #[track_caller]
    pub fn build(self) -> Result<GraphModule> {
        let TraceBuilder { function, settings, .. } = self;
        let arguments = function.arguments();
        settings.trace(
            &function.name(),
            arguments,
            function.root(),
            &|values| function.run(values),
            SourceLoc::caller(),
        )
    }
}

/// Input specs with the ranges of their symbols, for a function that is not traced with them.
#[doc(hidden)]
#[derive(Clone, Default)]
pub struct InputSpecs(Settings);

impl InputSpecs {
    /// Says dtype and shape of an argument.
    pub fn input(&mut self, name: &str, spec: InputSpec) {
        self.0.specs.push((name.to_owned(), spec));
    }

    /// Says in which inclusive range a symbol lies.
    pub fn dim(&mut self, name: &str, min: i64, max: Option<i64>) {
        self.0.dims.push((name.to_owned(), min, max));
    }

    /// Returns the types of the arguments in order; [`Type::Any`] for those without a spec. Fails as
    /// [`TraceBuilder::build`] does.
    pub fn types(&self, arguments: Vec<InputDecl>) -> Result<Vec<TypeTree>> {
        self.0.check_names(&arguments)?;
        let each = arguments.into_iter().map(|InputDecl { name, structure, .. }| {
            if self.0.specs.iter().any(|(other, _)| *other == name) {
                self.0.argument_type(&name, structure)
            } else {
                Ok(Arg::Leaf(Type::Any))
            }
        });
        each.collect()
    }

    /// Checks arguments of a call against their types. Fails with the name of the first that does not fit.
    pub fn check(types: &[TypeTree], names: &[Arc<str>], args: &[Value]) -> Result<()> {
        let mut bindings = Bindings::default();
        for (at, (ty, arg)) in types.iter().zip(args).enumerate() {
            if matches!(ty, Arg::Leaf(Type::Any)) {
                continue;
            }
            let structure = |arg: &Value| arg.map(&mut |_| ());
            let name = names.get(at).map_or("?", |name| &**name);
            if ty.map(&mut |_| ()) != structure(arg) {
                let shown = structure(arg).map(&mut |()| "tensor").to_string();
                return Err(err!(Structure, "argument {name:?} is {shown}, its spec {ty}"));
            }
            bindings.bind(ty, arg).map_err(|error| {
                Error::new(error.kind(), format!("argument {name:?}: {}", error.message()))
            })?;
        }
        Ok(())
    }
}

/// Returns the tensors of a value, each as a value.
fn tensors_of(value: &Value) -> Vec<Value> {
    value.leaves().into_iter().map(|tensor| Arg::Leaf(tensor.clone())).collect()
}

/// Returns the value at hand of a symbol, or the tensor as it is.
fn value_of(tensor: &Tensor) -> Value {
    match &tensor.0 {
        Repr::Proxy(proxy) => proxy.example.clone().unwrap_or_else(|| Arg::Leaf(tensor.clone())),
        _ => Arg::Leaf(tensor.clone()),
    }
}

/// Returns what a trace recorded, as a module that returns `output`.
fn traced(name: &str, tracer: &Tracer, output: &Value) -> Result<GraphModule> {
    let mut state = tracer.lock();
    let output = output.try_flat_map(&mut |tensor: &Tensor| match &tensor.0 {
        Repr::Proxy(proxy) => Ok(Arg::Leaf(proxy.node)),
        _ => Err(err!(Trace, "the traced function returned something that is not a symbol")),
    })?;
    state.graph.set_output(output)?;
    let graph = std::mem::take(&mut state.graph);
    let children = std::mem::take(&mut state.children).into_iter().collect();
    Ok(GraphModule::from_parts(name, graph, std::mem::take(&mut state.attrs), children))
}

impl Settings {
    /// Runs a function once with symbols.
    fn trace(
        &self,
        name: &str,
        arguments: Vec<InputDecl>,
        root: Option<&dyn Module>,
        run: &dyn Fn(&[Value]) -> Result<Value>,
        source: SourceLoc,
    ) -> Result<GraphModule> {
        let (tracer, values) = self.begin(arguments, root, source, None)?;
        let output = region::finish(&tracer, || run(&values))?;
        traced(name, &tracer, &output)
    }

    /// Begins a trace, and makes symbols for the arguments.
    fn begin(
        &self,
        arguments: Vec<InputDecl>,
        root: Option<&dyn Module>,
        source: SourceLoc,
        examples: Option<(&[Value], &Arc<Recorder>)>,
    ) -> Result<(Arc<Tracer>, Vec<Value>)> {
        self.check_names(&arguments).map_err(|error| error.at(source.clone()))?;
        let mut tracer = Tracer::new(Graph::new("main"), None, false);
        tracer.recorder = examples.map(|(_, recorder)| recorder.clone());
        let examples = examples.map(|(values, _)| values);
        let tracer = Arc::new(tracer);
        let mut state = tracer.lock();
        if let Some(policy) = &self.is_leaf {
            let _ = tracer.is_leaf.set(policy.clone());
        }
        state.record_sources = self.record_sources;
        if let Some(root) = root {
            let members = Members::of(root);
            state.graph.reserve_names(members.n_modules());
            state.members = Arc::new(members);
        }
        let mut values = Vec::with_capacity(arguments.len());
        for InputDecl { name, structure, .. } in arguments {
            let ty = self.argument_type(&name, structure).map_err(|error| error.at(source.clone()))?;
            let tree = state.graph.structured_input(&name, &ty.structure()?)?;
            let example = examples.and_then(|examples| examples.get(values.len()));
            let mut samples = example.map(tensors_of).unwrap_or_default().into_iter();
            let mut leaves = ty.inputs().into_iter();
            values.push(tree.try_flat_map(&mut |node| match leaves.next() {
                Some(Arg::Dim(size)) => {
                    state.graph.meta_mut(*node)?.ty = Some(Arc::new(Arg::Dim(size.clone())));
                    Ok(Arg::Dim(size.clone()))
                }
                leaf => {
                    let leaf = leaf.cloned().filter(TypeTree::is_complete);
                    state.proxy(&tracer, *node, leaf, samples.next()).map(Arg::Leaf)
                }
            })?);
        }
        drop(state);
        Ok((tracer, values))
    }

    /// Runs a function once with symbols that have the values of examples.
    fn record(
        &self,
        name: &str,
        arguments: Vec<InputDecl>,
        root: Option<&dyn Module>,
        run: &dyn Fn(&[Value]) -> Result<Value>,
        source: SourceLoc,
        examples: &[Value],
    ) -> Recording {
        let recorder = Arc::new(Recorder::default());
        let failed =
            |error: Error| Recording { module: Err(error), output: None, observations: Default::default() };
        if let Err(error) = self.bind(&arguments, examples, &recorder) {
            return failed(error.at(source));
        }
        let (tracer, values) = match self.begin(arguments, root, source, Some((examples, &recorder))) {
            Ok(begun) => begun,
            Err(error) => return failed(error),
        };
        let result = observe::observed(&recorder, || region::finish(&tracer, || run(&values)));
        drop(values);
        let mut output = None;
        let module = result.and_then(|symbols| {
            output = symbols.try_flat_map(&mut |tensor: &Tensor| Ok(value_of(tensor))).ok();
            traced(name, &tracer, &symbols)
        });
        let line = |graph: &Graph, id| graph.node(id).ok().and_then(|node| node.meta().source.clone());
        let observations = recorder.finish(&|id| match &module {
            Ok(gm) => line(gm.graph(), id),
            Err(_) => line(&tracer.lock().graph, id),
        });
        Recording { module, output, observations }
    }

    /// Binds the symbols of the input specs to the sizes of the examples. Fails if an example does not fit.
    fn bind(&self, arguments: &[InputDecl], examples: &[Value], recorder: &Recorder) -> Result<()> {
        if arguments.len() != examples.len() {
            let names: Vec<&str> = arguments.iter().map(|argument| &*argument.name).collect();
            return Err(err!(
                Argument,
                "the function takes {} arguments, got {} examples",
                arguments.len(),
                examples.len()
            )
            .help(format!("its arguments are ({}); give the examples as a tuple", names.join(", "))));
        }
        let mut bindings = Bindings::default();
        let mut types = Vec::new();
        for (InputDecl { name, structure, .. }, example) in arguments.iter().zip(examples) {
            let ty = self.argument_type(name, structure.clone())?;
            bindings.bind(&ty, example).map_err(|error| {
                Error::new(error.kind(), format!("the example of argument {name:?}: {}", error.message()))
            })?;
            types.push(ty);
        }
        for symbol in types.iter().flat_map(crate::fresh::symbols) {
            if let Some(value) = bindings.get(&symbol).and_then(|size| size.known()) {
                recorder.bind(&symbol, value);
            }
        }
        Ok(())
    }

    fn check_names(&self, arguments: &[InputDecl]) -> Result<()> {
        let names: Vec<&str> = arguments.iter().map(|argument| &*argument.name).collect();
        let given =
            self.specs.iter().map(|(name, _)| name).chain(self.constants.iter().map(|(name, _)| name));
        let mut seen: Vec<&str> = Vec::new();
        for name in given {
            if !names.contains(&&**name) {
                return Err(err!(Argument, "the function has no argument {name:?}")
                    .help(format!("its arguments are {}", names.join(", "))));
            }
            if seen.contains(&&**name) {
                bail!(Argument, "the argument {name:?} is given twice");
            }
            seen.push(name);
        }
        let symbols: Vec<Symbol> = self
            .specs
            .iter()
            .filter_map(|(_, spec)| spec.0.as_ref().ok())
            .flat_map(crate::fresh::symbols)
            .collect();
        for (name, min, max) in &self.dims {
            if !symbols.iter().any(|symbol| symbol.name() == name) {
                bail!(Argument, "no input spec uses the symbol {name:?}");
            }
            if *min < 0 || max.is_some_and(|max| max < *min) {
                bail!(Argument, "the range of {name:?} is empty or below zero");
            }
        }
        Ok(())
    }

    /// Returns the type of an argument: its constant, its spec, or symbols of unknown type.
    fn argument_type(&self, name: &str, structure: Result<Arg<()>>) -> Result<TypeTree> {
        let here = |error: Error| {
            let text = format!("argument {name:?}: {}", error.message());
            let mut wrapped = Error::new(error.kind(), text);
            if let Some(advice) = error.advice() {
                wrapped = wrapped.help(advice);
            }
            wrapped
        };
        if let Some((_, value)) = self.constants.iter().find(|(other, _)| other == name) {
            return value.try_flat_map(&mut |_| {
                Err(err!(Argument, "argument {name:?}: a constant cannot hold a tensor")
                    .help("let the function capture the tensor instead"))
            });
        }
        let Some((_, spec)) = self.specs.iter().find(|(other, _)| other == name) else {
            return structure.map(|structure| structure.map(&mut |()| Type::Any)).map_err(here);
        };
        let ty = spec.0.clone().map_err(here)?;
        if let Ok(structure) = structure {
            let given = ty.map(&mut |_| ());
            if given != structure {
                let show = |tree: &Arg<()>| tree.map(&mut |()| "tensor").to_string();
                return Err(err!(
                    Structure,
                    "argument {name:?} is {}, its spec {}",
                    show(&structure),
                    show(&given)
                )
                .help("give a tuple, list or `InputSpec::dict` of the same structure"));
            }
        }
        if self.dims.is_empty() {
            return Ok(ty);
        }
        let range = |symbol: &Symbol| {
            let (_, min, max) = self.dims.iter().find(|(name, ..)| name == symbol.name())?;
            Some(Dim::symbol(symbol.ranged(*min, *max)))
        };
        Ok(crate::fresh::substitute(&ty, &range))
    }
}
