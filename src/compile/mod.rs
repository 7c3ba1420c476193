//! Compilation of ordinary Rust: the host code runs on every call, the tensor work runs compiled.
//!
//! Inside a call of a [`Function`], operations give *lazy* tensors at once. Each operation is compared with the
//! next event of a *segment*, a straight piece of graph that an earlier call recorded and compiled. Where Rust
//! code reads a value, and where the function returns, the whole segment runs as one program. After a
//! difference the call goes on in another segment with the same beginning, or what follows is recorded and
//! compiled. So whatever else the Rust code does, it does on every call, and no compiled code can be stale:
//! what runs was compared first.
//!
//! Reading order: `event` (what is compared), `segment`, `session` (one call), `execute` (a run), `narrow`
//! (results that nobody uses), `cache` (all calls), `dynamic` (sizes and numbers that vary), `build` (the graph),
//! `replay` (pure functions), [`backend`].

pub mod backend;
mod build;
mod cache;
mod dynamic;
mod event;
mod execute;
mod journal;
mod miss;
mod mutable;
mod narrow;
mod owned;
mod replay;
pub(crate) mod report;
mod segment;
mod session;
mod site;
mod stance;
mod store;
mod tell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub use backend::{Backend, Executable, IntoBackend};
pub use mutable::{ByMutable, Mutable, mutable};
pub use owned::{ByOwned, Owned, owned};
pub use report::{Break, Code, Counters, Explanation, Miss, PathReport, SegmentReport};
pub use site::{BySite, Compiled, Site};
#[doc(hidden)]
pub use site::{call_compiled, compiled};
pub use stance::{Stance, cut, is_compiling, with_stance, without_compile};
pub use tell::report_page;

use fx_simd::PerThread;

use crate::eval::Inputs;
use crate::signature::arguments;
use crate::trace::{InputSpecs, Traceable, is_tracing};
use crate::{Engine, Error, GraphModule, InputSpec, Result, SourceLoc, Tensor, Tree, TypeTree, Value};
use build::Constants;
use cache::{Cache, Options};
use journal::{add, sum};
use replay::Outcome;
use session::Session;

/// Compiles a module or closure. Nothing happens before the first call; all that the Rust code does besides
/// tensors happens on every call.
///
/// ```
/// use fx::prelude::*;
///
/// let f = fx::compile(|x: &Tensor| -> fx::Result<Tensor> {
///     let mut x = x.clone();
///     while x.abs().max().item::<f32>()? > 1.0 {
///         x = x * 0.5;
///     }
///     Ok(x + 1.0)
/// });
/// assert_eq!(f.call(&[Tensor::new([4.0f32, -3.0])])?.to_vec::<f32>()?, [2.0, 0.25]);
/// let compiled = f.counters().compiled;
/// assert_eq!(f.call(&[Tensor::new([64.0f32, 16.0])])?.to_vec::<f32>()?, [2.0, 1.25]);
/// assert_eq!(f.counters().compiled, compiled);
/// # Ok::<(), fx::Error>(())
/// ```
#[track_caller]
pub fn compile<T: Traceable<M>, M>(function: T) -> Function<T, M> {
    compile_at(function, SourceLoc::caller())
}

fn compile_at<T: Traceable<M>, M>(function: T, place: SourceLoc) -> Function<T, M> {
    Function {
        function,
        place,
        options: Ok(Options {
            backend: Arc::new(Engine::Fused),
            is_whole: false,
            dynamic: Dynamic::Auto,
            most_segments: 64,
            most_bytes: usize::MAX,
            folder: None,
            limit: Limit::Evict,
            pure: None,
            is_steady: false,
            specs: None,
        }),
        shared: OnceLock::new(),
        calls: PerThread::default(),
        is_changed: AtomicBool::new(false),
        marker: PhantomData,
    }
}

/// Whether sizes and numbers may become symbols and inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dynamic {
    /// Each size and number has compiled code of its own.
    Never,
    /// A size or number that varied between two calls.
    #[default]
    Auto,
}

/// What happens when a function has as many graphs as it may have, and a call needs another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The graph that was not used for longest is dropped.
    #[default]
    Evict,
    /// The new operations run one by one.
    Eager,
    /// The call fails, and says what is new in it.
    Error,
}

/// A compiled function: see [`compile`](compile()). Options are set before the first call.
pub struct Function<T, M> {
    function: T,
    place: SourceLoc,
    options: Result<Options>,
    shared: OnceLock<Shared>,
    /// How many calls each thread began, but for those that a path served.
    calls: PerThread<AtomicU64>,
    /// Whether the module may have changed since its constants were collected.
    is_changed: AtomicBool,
    marker: PhantomData<fn() -> M>,
}

/// What the first call makes.
struct Shared {
    cache: Arc<Cache>,
    /// The types that arguments must have, if some were given.
    types: Option<Vec<TypeTree>>,
}

impl<T: Traceable<M>, M> Function<T, M> {
    /// Chooses who runs the graphs: a [`Backend`], such as an [`Engine`], or the name of one. It is
    /// [`Engine::Fused`] otherwise. A name that no backend has is the error of every call.
    pub fn backend(self, backend: impl IntoBackend) -> Self {
        let place = self.place.clone();
        let backend = backend.into_backend().map_err(|error| error.at(place));
        self.with(|options| {
            options.backend = backend?;
            Ok(())
        })
    }

    /// Chooses the engine that runs the graphs.
    pub fn engine(self, engine: Engine) -> Self {
        self.backend(engine)
    }

    /// Demands one graph: a read of a value is then an error with its line, on every call.
    pub fn whole(self) -> Self {
        self.with(|options| {
            options.is_whole = true;
            Ok(())
        })
    }

    /// Promises that the Rust code of the function has no effects, and depends on nothing but its arguments and
    /// the module. A call that is like an earlier one then runs without the Rust code.
    ///
    /// Calls are alike if their arguments have the same structure, dtypes, numbers of axes, numbers and texts,
    /// if all comparisons of sizes have the same answers, and if the bools and integers that are read have the
    /// same values. A function that reads floats is followed, as one without the promise; compare them in a
    /// graph and read the bool. The second call and each thousandth check the promise: see
    /// [`verify`](Self::verify). A function that broke it is followed from then on, and
    /// [`explain`](Self::explain) names both lines (C07). A closure of [`mutable`] cannot be pure.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// use fx::prelude::*;
    ///
    /// let runs = AtomicU32::new(0);
    /// let f = fx::compile(|x: &Tensor| -> fx::Result<Tensor> {
    ///     runs.fetch_add(1, Ordering::Relaxed);
    ///     Ok(if x.sum((), false).gt(0.0).to_bool()? { x * 2.0 } else { x - 1.0 })
    /// })
    /// .pure();
    /// for _ in 0..10 {
    ///     assert_eq!(f.call(&[Tensor::new([1.0f32, 2.0])])?.to_vec::<f32>()?, [2.0, 4.0]);
    /// }
    /// assert_eq!(runs.load(Ordering::Relaxed), 2);
    /// # Ok::<(), fx::Error>(())
    /// ```
    pub fn pure(self) -> Self {
        let (place, is_mutable) = (self.place.clone(), self.function.is_mutable());
        self.with(|options| {
            if is_mutable {
                return Err(Error::new(
                    crate::ErrorKind::Argument,
                    "a closure that changes what it captures cannot be pure",
                )
                .help("leave out `.pure()`, or pass what changes as an argument and return it")
                .at(place));
            }
            options.pure.get_or_insert(1000);
            Ok(())
        })
    }

    /// Lets one of so many calls of a thread check the promise of a [`pure`](Self::pure) function, instead of each
    /// thousandth; 0 checks the second call of a kind only.
    pub fn verify(self, every: u64) -> Self {
        self.with(|options| {
            options.pure = Some(every);
            Ok(())
        })
        .pure()
    }

    /// Says dtype and shape of an argument: `.input("x", "f32[batch, 10]")`. Axes with a symbol vary from the
    /// first graph on, and a symbol has one size in a call. An argument that is otherwise is an error of the call.
    ///
    /// An operation that needs the number of such a size is an error, too (C03). A size that Rust code passes to
    /// an operation, such as `x.dim(0)`, is told from other numbers by the second call.
    ///
    /// ```
    /// use fx::prelude::*;
    ///
    /// let f = fx::compile(|x: &Tensor| x.softmax(-1)).input("x", "f32[batch, 10]").dim("batch", 1, Some(64));
    /// for n in [4, 1, 64] {
    ///     f.call(&[fx::zeros([n, 10])])?;
    /// }
    /// assert_eq!(f.counters().compiled, 1);
    /// let error = f.call(&[fx::zeros([65, 10])]).unwrap_err();
    /// assert!(error.message().ends_with("batch is 65, outside of its range 1..=64"), "{error}");
    /// # Ok::<(), fx::Error>(())
    /// ```
    pub fn input(self, name: &str, spec: impl Into<InputSpec>) -> Self {
        self.with(|options| {
            options.specs.get_or_insert_default().input(name, spec.into());
            Ok(())
        })
    }

    /// Says in which inclusive range a symbol of [`input`](Self::input) lies.
    pub fn dim(self, name: &str, min: i64, max: Option<i64>) -> Self {
        self.with(|options| {
            options.specs.get_or_insert_default().dim(name, min, max);
            Ok(())
        })
    }

    /// Says whether sizes and numbers may become symbols and inputs.
    pub fn dynamic(self, dynamic: Dynamic) -> Self {
        self.with(|options| {
            options.dynamic = dynamic;
            Ok(())
        })
    }

    /// Computes, on every call, each result that a variable holds where a graph ends. Otherwise, results that
    /// eight runs of the graph did not use are left out from then on, which makes other kernels; a result that is
    /// wanted after all is then computed by its operations, once (C17).
    pub fn steady(self) -> Self {
        self.with(|options| {
            options.is_steady = true;
            Ok(())
        })
    }

    /// Keeps what is recorded in `$FX_CACHE_DIR/compile`, or in that folder of the user's cache, so that a later
    /// process need not record it. The file is known by name and place of the function. It is read and written
    /// as by [`load`](Self::load) and [`save`](Self::save); one that is damaged is replaced.
    pub fn cached(self) -> Self {
        self.with(|options| {
            options.folder = Some(fx_codegen::native::cache_dir()?.join("compile"));
            Ok(())
        })
    }

    /// As [`cached`](Self::cached), in this folder. The first call fails if it cannot be made.
    ///
    /// ```
    /// use fx::prelude::*;
    ///
    /// # let folder = std::env::temp_dir().join(format!("fx-cached-{}", std::process::id()));
    /// for process in 0..2 {
    ///     let f = fx::compile(|x: &Tensor| x.softmax(-1)).cached_in(&folder);
    ///     f.call(&[fx::ones([2, 3])])?;
    ///     assert_eq!(f.counters().misses, 1 - process);
    /// }
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), fx::Error>(())
    /// ```
    pub fn cached_in(self, folder: impl AsRef<Path>) -> Self {
        self.with(|options| {
            options.folder = Some(folder.as_ref().to_owned());
            Ok(())
        })
    }

    /// Says how many graphs the function may have, and what happens then. By default, 64, and the graph that
    /// was not used for longest is dropped.
    pub fn limit(self, most_graphs: usize, limit: Limit) -> Self {
        self.with(|options| {
            (options.most_segments, options.limit) = (most_graphs.max(1), limit);
            Ok(())
        })
    }

    /// Says how many bytes the graphs may hold besides parameters: packed weights, and memory that waits for the
    /// next call. What happens then [`limit`](Self::limit) says. By default, there is no such limit.
    ///
    /// ```
    /// use fx::compile::Limit;
    /// use fx::prelude::*;
    ///
    /// let f = fx::compile(|x: &Tensor| (x * 2.0).softmax(-1).sum((), false))
    ///     .dynamic(fx::compile::Dynamic::Never)
    ///     .limit(100, Limit::Evict)
    ///     .limit_bytes(1 << 20);
    /// for n in 1..30 {
    ///     f.call(&[fx::ones([n, 5000])])?;
    /// }
    /// assert!(f.bytes() < 1 << 20);
    /// # Ok::<(), fx::Error>(())
    /// ```
    pub fn limit_bytes(self, most: usize) -> Self {
        self.with(|options| {
            options.most_bytes = most;
            Ok(())
        })
    }

    fn with(mut self, change: impl FnOnce(&mut Options) -> Result<()>) -> Self {
        if self.shared.get().is_some() {
            self.options = Err(Error::new(
                crate::ErrorKind::Argument,
                "options of a compiled function are set before its first call",
            )
            .at(self.place.clone()));
            self.shared = OnceLock::new();
            return self;
        }
        let changed = match &mut self.options {
            Ok(options) => change(options),
            Err(_) => Ok(()),
        };
        if let Err(error) = changed {
            self.options = Err(error);
        }
        self
    }

    fn shared(&self) -> Result<&Shared> {
        if let Some(shared) = self.shared.get() {
            return Ok(shared);
        }
        let options = self.options.clone()?;
        tell::check()?;
        if let Some(folder) = &options.folder {
            let io = |error: std::io::Error| {
                crate::err!(Io, "cannot make the folder {}: {error}", folder.display())
            };
            std::fs::create_dir_all(folder).map_err(io).map_err(|error| error.at(self.place.clone()))?;
        }
        let arguments = self.function.arguments();
        let types = options.specs.as_ref().map(|specs| specs.types(arguments.clone()));
        let types = types.transpose().map_err(|error| error.at(self.place.clone()))?;
        Ok(self.shared.get_or_init(|| {
            let name = match self.function.name() {
                name if name == "main" => name_of::<T>().to_owned(),
                name => name,
            };
            let constants = Constants::of(self.function.root());
            let open = arguments.iter().map(|argument| argument.takes_symbols).collect();
            let names = arguments.into_iter().map(|argument| Arc::from(argument.name)).collect();
            let cache = Arc::new(Cache::new(name, self.place.clone(), options, constants, (names, open)));
            cache.load_kept();
            Shared { cache, types }
        }))
    }

    /// Returns the function as it was given.
    pub fn function(&self) -> &T {
        &self.function
    }

    /// Calls the function with one tensor per argument. Fails if the function does, with the error that it has
    /// without compilation, or if the result is not one tensor.
    #[track_caller]
    pub fn call(&self, args: &[Tensor]) -> Result<Tensor> {
        self.call_inputs(Inputs::Tensors(args))?.try_into()
    }

    /// Calls the function with a tuple of arguments, and restores the structure of the result. Fails as
    /// [`call`](Self::call) does.
    ///
    /// ```
    /// use fx::prelude::*;
    ///
    /// let f = fx::compile(|w: Tensor, g: Tensor, rate: f64| (&w - g * rate, w.abs().max()));
    /// let (w, g) = (Tensor::new([1.0f32, 2.0]), Tensor::new([0.5f32, 0.5]));
    /// let (new, largest): (Tensor, Tensor) = f.run((w, g, 0.5))?;
    /// assert_eq!(new.to_vec::<f32>()?, [0.75, 1.75]);
    /// assert_eq!(largest.item::<f32>()?, 2.0);
    /// # Ok::<(), fx::Error>(())
    /// ```
    #[track_caller]
    pub fn run<A: Tree, R: Tree>(&self, args: A) -> Result<R> {
        let args = arguments(args);
        R::from_value(&self.call_values(args.items().unwrap_or_default())?)
    }

    /// Calls the function with one value per argument. Fails as [`call`](Self::call) does.
    #[track_caller]
    pub fn call_values(&self, args: &[Value]) -> Result<Value> {
        self.call_inputs(Inputs::Values(args))
    }

    #[track_caller]
    fn call_inputs(&self, args: Inputs<'_>) -> Result<Value> {
        // Within another compiled function, or a trace, the host code is part of that.
        if is_compiling() || is_tracing() {
            return self.function.run(&args.values())?.into_result();
        }
        let shared = self.shared()?;
        let calls = || sum(&self.calls, |calls| calls) + shared.cache.journal.replayed();
        let Some(permission) = stance::permission(|| calls() + 1) else {
            add(self.calls.own(), 1);
            return self.function.run(&args.values())?.into_result();
        };
        if let Some(types) = &shared.types
            && let Err(error) = InputSpecs::check(types, &shared.cache.argument_names, &args.values())
        {
            return Err(error.at(SourceLoc::caller()));
        }
        let cache = &shared.cache;
        if self.is_changed.load(Ordering::Relaxed) {
            cache.renew(Constants::of(self.function.root()));
            self.is_changed.store(false, Ordering::Relaxed);
        }
        let counts = cache.journal.counts().of_calls();
        let replay = cache.replay.as_ref().filter(|replay| replay.is_pure());
        let mut recorded = None;
        if let Some(replay) = replay {
            match replay.run(args, (&cache.argument_names, &cache.open_arguments), counts) {
                Outcome::Hit(value, runs) => {
                    add(&counts.runs, runs);
                    return Ok(value);
                }
                Outcome::Follow(left) => recorded = Some(*left),
            }
        }
        add(self.calls.own(), 1);
        add(&counts.followed, 1);
        let session = Session::new(cache.clone(), calls(), permission);
        let args = session.wrap(&args.values(), shared, recorded)?;
        let run = || crate::lazy::follow(session.clone(), || self.function.run(&args));
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            session.abandon();
            resume_unwind(panic)
        });
        let result = session.finish(result);
        cache.keep();
        let names = &cache.argument_names;
        match result {
            // Of a wrong number of arguments, the function knows no line.
            Err(error) if error.source_loc().is_none() && args.len() != names.len() => {
                let help = format!("its arguments are ({})", names.join(", "));
                Err(error.at(SourceLoc::caller()).help(help))
            }
            // Neither does a graph of an argument that does not fit.
            Err(error) if error.source_loc().is_none() && self.function.root().is_some() => {
                Err(error.at(SourceLoc::caller()))
            }
            result => result,
        }
    }

    /// Calls the function for what it compiles; the result is dropped. What its Rust code does besides tensors
    /// happens. Fails as [`call_values`](Self::call_values) does.
    ///
    /// ```
    /// use fx::prelude::*;
    ///
    /// let f = fx::compile(|x: &Tensor| x.softmax(-1)).input("x", "f32[n, 10]");
    /// f.warm_up(&[fx::Value::from(&fx::zeros([2, 10]))])?;
    /// f.call(&[fx::zeros([7, 10])])?;
    /// assert_eq!(f.counters().compiled, 1);
    /// # Ok::<(), fx::Error>(())
    /// ```
    #[track_caller]
    pub fn warm_up(&self, args: &[Value]) -> Result<()> {
        self.call_values(args).map(drop)
    }

    /// Returns what the function consists of, and what it did. [`Display`](std::fmt::Display) and
    /// [`to_json`](Explanation::to_json) write it.
    ///
    /// ```
    /// use fx::prelude::*;
    ///
    /// let f = fx::compile(|x: &Tensor| x.softmax(-1));
    /// f.call(&[Tensor::new([[1.0f32, 2.0]])])?;
    /// f.call(&[Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])])?;
    /// let told = f.explain();
    /// assert_eq!(told.segments[0].inputs, ["x: f32[x0, 2]"]);
    /// assert_eq!(told.misses[1].reason, "input x: size of axis 0 is 2, compiled for 1");
    /// # Ok::<(), fx::Error>(())
    /// ```
    pub fn explain(&self) -> Explanation {
        match self.shared() {
            Ok(shared) => shared.cache.explain(),
            Err(_) => Explanation {
                name: self.function.name(),
                at: Some(self.place.clone()),
                backend: String::new(),
                segments: Vec::new(),
                misses: Vec::new(),
                breaks: Vec::new(),
                is_pure: false,
                paths: Vec::new(),
                counters: Counters::default(),
            },
        }
    }

    /// Returns about how many bytes the graphs hold besides parameters.
    pub fn bytes(&self) -> usize {
        self.shared.get().map_or(0, |shared| shared.cache.bytes())
    }

    /// Returns the counts.
    pub fn counters(&self) -> Counters {
        self.shared.get().map_or_else(Counters::default, |shared| shared.cache.counters())
    }

    /// Returns the graphs that have run, oldest first.
    pub fn graphs(&self) -> Vec<Arc<GraphModule>> {
        self.explain().segments.into_iter().filter_map(|segment| segment.module).collect()
    }

    /// Writes what was recorded to a file, for [`load`](Self::load) of a later process. Weights are not written,
    /// and neither are graphs with regions or operations of the user. Fails if the file cannot be written.
    ///
    /// ```
    /// use fx::prelude::*;
    ///
    /// let make = || fx::compile(|x: &Tensor, rate: f64| (x * rate).softmax(-1));
    /// let f = make();
    /// for (n, rate) in [(2, 0.5), (3, 0.25)] {
    ///     f.run::<_, Tensor>((fx::ones([n, 4]), rate))?;
    /// }
    /// # let path = std::env::temp_dir().join(format!("softmax-{}.fxc", std::process::id()));
    /// f.save(&path)?;
    ///
    /// // In the next process:
    /// let g = make().load(&path)?;
    /// g.run::<_, Tensor>((fx::ones([7, 4]), 0.125))?;
    /// assert_eq!(g.counters().misses, 0);
    /// # std::fs::remove_file(&path).unwrap();
    /// # Ok::<(), fx::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.shared()?.cache.save(path.as_ref())
    }

    /// Takes what an earlier process recorded. A graph of the file serves a call only if all its operations are
    /// those of the call, so a file of another function, or of older code, costs time and changes no result. A
    /// file of another version of fx is ignored. Options come before it. Fails if the file cannot be read, or is
    /// damaged.
    pub fn load(self, path: impl AsRef<Path>) -> Result<Self> {
        self.shared()?.cache.load(path.as_ref())?;
        Ok(self)
    }

    /// Lets go of all compiled code and all counts; the next call compiles anew.
    pub fn reset(&self) {
        if let Some(shared) = self.shared.get() {
            shared.cache.clear();
        }
    }
}

impl<T, M> std::fmt::Debug for Function<T, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Function(compiled at {})", self.place)
    }
}

/// Returns the name of a function that has one.
fn name_of<T>() -> &'static str {
    let name = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    if !name.is_empty() && name.chars().all(is_word) { name } else { "closure" }
}
