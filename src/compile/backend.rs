//! [`Backend`]: who makes segments ready to run; the built-in ones, and the registry of names.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::eval::Inputs;
use crate::splitting::minimize::Minimizer;
use crate::{Arg, Compile, Engine, Error, GraphModule, Program, Result, Tensor, Value, err};

/// Makes the graphs of a compiled function ready to run.
///
/// Each graph is a straight piece of the function. It takes its inputs as the placeholders say, and returns a
/// tuple.
pub trait Backend: Send + Sync {
    /// Returns the name, for messages and the registry.
    fn name(&self) -> &str;

    /// Makes a graph ready. Fails if the backend cannot; the function then runs the graph operation by
    /// operation.
    fn prepare(&self, module: GraphModule) -> Result<Box<dyn Executable>>;
}

/// A graph that a backend made ready. Several threads may call it at once.
pub trait Executable: Send + Sync {
    /// Runs it with one value per placeholder, and returns the tuple that the graph returns. Fails if an
    /// operation does; the function then repeats the graph operation by operation, to find the line.
    fn call(&self, args: &[Value]) -> Result<Value>;

    /// Runs it as [`call`](Self::call) does, and gives each item of the tuple to `results`. Compiled functions
    /// call this; a backend whose programs need no tuple saves making one. Fails as that does.
    fn call_with(&self, args: Inputs<'_>, results: &mut dyn FnMut(Value)) -> Result<()> {
        self.call(&args.values())?.as_items().iter().cloned().for_each(results);
        Ok(())
    }

    /// Returns what there is to say about it, such as its kernels.
    fn describe(&self) -> String {
        String::new()
    }

    /// Returns about how many bytes it holds besides parameters, for [limits](super::Function::limit_bytes).
    fn bytes(&self) -> usize {
        0
    }
}

impl Executable for Program {
    fn call(&self, args: &[Value]) -> Result<Value> {
        self.evaluate(args)
    }

    fn call_with(&self, args: Inputs<'_>, results: &mut dyn FnMut(Value)) -> Result<()> {
        Program::call_with(self, args, results)
    }

    fn describe(&self) -> String {
        let kernels = self.fused().map(|compiled| compiled.describe()).unwrap_or_default();
        format!("{}\n{kernels}", self.engine()).trim_end().to_owned()
    }

    fn bytes(&self) -> usize {
        self.fused().map_or(0, fx_ops::engine::Compiled::bytes)
    }
}

impl Backend for Engine {
    fn name(&self) -> &str {
        Engine::name(*self)
    }

    fn prepare(&self, module: GraphModule) -> Result<Box<dyn Executable>> {
        Ok(Box::new(module.into_program(*self)?))
    }
}

impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn prepare(&self, module: GraphModule) -> Result<Box<dyn Executable>> {
        (**self).prepare(module)
    }
}

/// Something that names a backend: a backend, or the name under which one is registered.
pub trait IntoBackend {
    /// Returns the backend. Fails if no backend has this name.
    fn into_backend(self) -> Result<Arc<dyn Backend>>;
}

impl<B: Backend + 'static> IntoBackend for B {
    fn into_backend(self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(self))
    }
}

impl IntoBackend for &str {
    fn into_backend(self) -> Result<Arc<dyn Backend>> {
        let registered = REGISTRY.read().unwrap_or_else(PoisonError::into_inner);
        registered.iter().find(|backend| backend.name() == self).cloned().ok_or_else(|| {
            let names: Vec<&str> = registered.iter().map(|backend| backend.name()).collect();
            err!(Argument, "there is no backend {self:?}")
                .help(format!("the backends are {}", names.join(", ")))
        })
    }
}

static REGISTRY: LazyLock<RwLock<Vec<Arc<dyn Backend>>>> = LazyLock::new(|| {
    let mut backends: Vec<Arc<dyn Backend>> = Vec::new();
    for engine in Engine::ALL {
        backends.push(Arc::new(*engine));
    }
    backends.push(Arc::new(Interpreted));
    RwLock::new(backends)
});

/// Makes a backend known by its name, for `.backend("name")`. Fails if the name is taken.
pub fn register(backend: impl Backend + 'static) -> Result<()> {
    let mut registered = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    if registered.iter().any(|other| other.name() == backend.name()) {
        return Err(err!(Argument, "there is a backend {:?} already", backend.name()));
    }
    registered.push(Arc::new(backend));
    Ok(())
}

/// Returns the names of all backends.
pub fn names() -> Vec<String> {
    let registered = REGISTRY.read().unwrap_or_else(PoisonError::into_inner);
    registered.iter().map(|backend| backend.name().to_owned()).collect()
}

/// Returns the backend that runs each operation by its kernel, with the bits of eager code.
pub fn eager() -> impl Backend {
    Engine::Eager
}

/// Returns the backend that evaluates the graph as it was recorded, without passes.
pub fn interpreted() -> impl Backend {
    Interpreted
}

struct Interpreted;

impl Backend for Interpreted {
    fn name(&self) -> &str {
        "interpreted"
    }

    fn prepare(&self, module: GraphModule) -> Result<Box<dyn Executable>> {
        struct Graph(GraphModule);
        impl Executable for Graph {
            fn call(&self, args: &[Value]) -> Result<Value> {
                self.0.evaluate(args)
            }
            fn describe(&self) -> String {
                "interpreter".into()
            }
        }
        Ok(Box::new(Graph(module)))
    }
}

/// What a [`counting`] backend has seen. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    prepared: AtomicU64,
    calls: AtomicU64,
    nodes: AtomicU64,
}

impl Counter {
    /// Returns how many graphs were made ready.
    pub fn prepared(&self) -> u64 {
        self.0.prepared.load(Ordering::Relaxed)
    }

    /// Returns how many graphs ran.
    pub fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// Returns how many nodes the graphs have that were made ready.
    pub fn nodes(&self) -> u64 {
        self.0.nodes.load(Ordering::Relaxed)
    }
}

/// Returns a backend that counts graphs and runs them by their kernels, and its counter.
pub fn counting() -> (impl Backend, Counter) {
    struct Counting(Counter);
    struct Counted(Box<dyn Executable>, Counter);
    impl Backend for Counting {
        fn name(&self) -> &str {
            "counting"
        }
        fn prepare(&self, module: GraphModule) -> Result<Box<dyn Executable>> {
            self.0.0.prepared.fetch_add(1, Ordering::Relaxed);
            self.0.0.nodes.fetch_add(module.graph().len() as u64, Ordering::Relaxed);
            Ok(Box::new(Counted(Engine::Eager.prepare(module)?, self.0.clone())))
        }
    }
    impl Executable for Counted {
        fn call(&self, args: &[Value]) -> Result<Value> {
            self.1.0.calls.fetch_add(1, Ordering::Relaxed);
            self.0.call(args)
        }
    }
    let counter = Counter::default();
    (Counting(counter.clone()), counter)
}

/// When a [`failing`] backend fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailWhen {
    /// When it makes a graph ready.
    Prepare,
    /// When a graph is called.
    Call,
}

/// Returns a backend that always fails with this error, to test what a program then does.
pub fn failing(when: FailWhen, error: Error) -> impl Backend {
    struct Failing(FailWhen, Error);
    struct Fails(Error);
    impl Backend for Failing {
        fn name(&self) -> &str {
            "failing"
        }
        fn prepare(&self, _: GraphModule) -> Result<Box<dyn Executable>> {
            match self.0 {
                FailWhen::Prepare => Err(self.1.clone()),
                FailWhen::Call => Ok(Box::new(Fails(self.1.clone()))),
            }
        }
    }
    impl Executable for Fails {
        fn call(&self, _: &[Value]) -> Result<Value> {
            Err(self.0.clone())
        }
    }
    Failing(when, error)
}

/// Returns a backend that runs each graph by two others and compares every output, as `|a - b| <= atol + rtol *
/// |b|` with `b` of the reference. Where they differ, the results are those of the reference, and
/// [`explain`](super::Function::explain) has the break C18 with the operation that differs first.
///
/// The smallest part of the graph that differs is written to the folder of [`Differential::reproduce`], or to that
/// of the variable `FX_TRACE`, as a program with its inputs that `fx run` runs.
pub fn differential(
    backend: impl Backend + 'static,
    reference: impl Backend + 'static,
    rtol: f64,
    atol: f64,
) -> Differential {
    let folder = super::tell::folder().map(Path::to_owned);
    Differential { backend: Arc::new(backend), reference: Arc::new(reference), rtol, atol, folder }
}

/// A backend that compares two others: see [`differential`].
pub struct Differential {
    backend: Arc<dyn Backend>,
    reference: Arc<dyn Backend>,
    rtol: f64,
    atol: f64,
    folder: Option<PathBuf>,
}

impl Differential {
    /// Writes the smallest part of a graph that differs to a folder, which is made if it is not there.
    pub fn reproduce(mut self, folder: impl Into<PathBuf>) -> Differential {
        self.folder = Some(folder.into());
        self
    }
}

impl Backend for Differential {
    fn name(&self) -> &str {
        "differential"
    }

    fn prepare(&self, module: GraphModule) -> Result<Box<dyn Executable>> {
        Ok(Box::new(Compared {
            program: self.backend.prepare(module.clone())?,
            reference: self.reference.prepare(module.clone())?,
            backends: [self.backend.clone(), self.reference.clone()],
            module,
            tolerance: (self.rtol, self.atol),
            folder: self.folder.clone(),
        }))
    }
}

struct Compared {
    program: Box<dyn Executable>,
    reference: Box<dyn Executable>,
    backends: [Arc<dyn Backend>; 2],
    module: GraphModule,
    tolerance: (f64, f64),
    folder: Option<PathBuf>,
}

impl Executable for Compared {
    fn call(&self, args: &[Value]) -> Result<Value> {
        let generator = crate::rng::default_generator();
        let before = generator.clone();
        let got = self.program.call(args);
        let after = generator.clone();
        generator.restore(&before);
        let expected = self.reference.call(args)?;
        let difference = match &got {
            Ok(got) => compare(got, &expected, self.tolerance),
            Err(error) => Some(error.message().to_owned()),
        };
        let Some(difference) = difference else {
            generator.restore(&after);
            return Ok(expected);
        };
        let node = self.first_wrong(args, &generator, &before);
        let [name, reference] = [self.backends[0].name(), self.backends[1].name()];
        let at = node.as_ref().map_or(String::new(), |(name, place)| format!(" at %{name}{place}"));
        let written = match &self.folder {
            None => String::new(),
            Some(folder) => {
                match self.reproduce(args, folder, node.map_or("graph".to_owned(), |(name, _)| name)) {
                    Ok(Some(path)) => {
                        let path = path.display();
                        format!(
                            "; `fx run {path}.fx --io {path}.io.safetensors` runs the smallest part that differs"
                        )
                    }
                    Ok(None) => "; no part of the graph differs on its own".to_owned(),
                    Err(error) => format!("; the part that differs cannot be written: {}", error.message()),
                }
            }
        };
        let text = format!("C18: the backends {name} and {reference} differ{at}: {difference}{written}");
        Err(Error::new(crate::ErrorKind::Check, text)
            .help("the results are those of eager code; report the operation to the author of the backend"))
    }

    fn describe(&self) -> String {
        format!("{} compared with {}", self.program.describe(), self.reference.describe())
    }
}

impl Compared {
    /// Writes the smallest part of the graph on which the backends differ, and returns the path without its
    /// ending. `None` if no part differs on its own. Fails if a file cannot be written.
    fn reproduce(&self, args: &[Value], folder: &Path, node: String) -> Result<Option<PathBuf>> {
        let run = |backend: &Arc<dyn Backend>, module: &GraphModule, args: &[Value]| {
            backend.prepare(module.clone())?.call(args)
        };
        let [backend, reference] = &self.backends;
        let by_reference = |module: &GraphModule, args: &[Value]| run(reference, module, args);
        let minimizer =
            Minimizer::default().tolerance(self.tolerance.0, self.tolerance.1).reference(&by_reference);
        let found = minimizer.run(&self.module, args, &|module, args| run(backend, module, args))?;
        let Some(culprit) = found else { return Ok(None) };
        let io = |error: std::io::Error| err!(Io, "{}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(io)?;
        let path = folder.join(format!("{}_{node}", backend.name()));
        crate::reproduce::write(&culprit, &path)?;
        Ok(Some(path))
    }

    /// Returns the name and place of the first node that the backend computes otherwise than its kernel does.
    fn first_wrong(
        &self,
        args: &[Value],
        generator: &crate::Generator,
        before: &crate::Generator,
    ) -> Option<(String, String)> {
        let graph = self.module.graph();
        let nodes: Vec<(crate::NodeId, String)> = graph
            .nodes()
            .filter(|(_, node)| node.op().is_some())
            .map(|(id, node)| (id, node.name().to_owned()))
            .collect();
        for (id, name) in nodes {
            generator.restore(before);
            let mut prefix = self.module.clone();
            let output = Arg::tuple([Arg::Leaf(id)]);
            if prefix.graph_mut().set_output(output).is_err() {
                return None;
            }
            let expected = prefix.evaluate(args).ok()?;
            generator.restore(before);
            let got = self.backends[0].prepare(prefix).and_then(|program| program.call(args));
            let is_wrong = match &got {
                Ok(got) => compare(got, &expected, self.tolerance).is_some(),
                Err(_) => true,
            };
            if is_wrong {
                let node = graph.node(id).ok()?;
                let place = node.meta().source.as_ref().map_or(String::new(), |at| format!(" ({at})"));
                return Some((name, place));
            }
        }
        None
    }
}

/// Returns the first difference of two results.
fn compare(got: &Value, expected: &Value, (rtol, atol): (f64, f64)) -> Option<String> {
    let (a, b) = (got.leaves(), expected.leaves());
    if a.len() != b.len() {
        return Some(format!("{} results, expected {}", a.len(), b.len()));
    }
    let close = |(a, b): (&Tensor, &Tensor)| a.all_close(b, rtol, atol).err();
    a.into_iter().zip(b).find_map(close).map(|error| error.message().to_owned())
}

/// Returns a backend that gives the graphs with these numbers, in the order in which they are made ready, to
/// one backend and the others to another: a bisection of a wrong result.
pub fn only(
    range: std::ops::Range<u64>,
    backend: impl Backend + 'static,
    otherwise: impl Backend + 'static,
) -> impl Backend {
    struct Only(std::ops::Range<u64>, Arc<dyn Backend>, Arc<dyn Backend>, AtomicU64);
    impl Backend for Only {
        fn name(&self) -> &str {
            "only"
        }
        fn prepare(&self, module: GraphModule) -> Result<Box<dyn Executable>> {
            let number = self.3.fetch_add(1, Ordering::Relaxed);
            if self.0.contains(&number) { self.1.prepare(module) } else { self.2.prepare(module) }
        }
    }
    Only(range, Arc::new(backend), Arc::new(otherwise), AtomicU64::new(0))
}
