//! [`Engine`]: how a program runs, and [`Compile`], which makes it ready.

use std::fmt;
use std::str::FromStr;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fx_codegen::Native;
use fx_core::native::{Assemble, LoopBody, Routine};
use fx_ops::engine::Compiled;

use crate::eval::Inputs;
use crate::signature::arguments;
use crate::{Error, GraphModule, Result, Tensor, Tree, Value, err};

/// A way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Operation by operation, as [`GraphModule::call`] does.
    Eager,
    /// Rewritten by the passes for inference, grouped into kernels, with packed weights; in process, without
    /// a compiler.
    ///
    /// Results agree with those of `Eager` within rounding. Convolutions by kernels of 3 by 3 may be computed
    /// with fewer multiplications (Winograd's F(2x2, 3x3)): then an infinity in the input makes NaN of up to
    /// two more results on each side.
    Fused,
    /// As [`Fused`](Engine::Fused), with pointwise loops compiled by rustc into a library, also those before
    /// and after operations on rows, matrix products and convolutions.
    ///
    /// It needs a Rust compiler at run time; [`Native::new`] says where fx looks for it and keeps libraries.
    /// Results have the bits of `Fused`, apart from signs of NaN. Libraries do not depend on sizes: a program
    /// with symbols is compiled once. It is compiled again only if other sizes change the strides of
    /// operands, as a size of 1 does; then a call waits for rustc.
    ///
    /// Your own pointwise operations are compiled if the bodies of their rows name only operands, literals
    /// and [`math`](crate::math); others run as in `Fused`.
    Native,
    /// `Native` where there is a Rust compiler, else `Fused`; [`Program::engine`] says which, and
    /// [`Program::fallback`] why.
    Best,
}

impl Engine {
    /// The engines.
    pub const ALL: &'static [Engine] = &[Engine::Eager, Engine::Fused, Engine::Native, Engine::Best];

    /// Returns the engines that differ and can run here: `Native` only if there is a compiler.
    pub fn available() -> Vec<Engine> {
        let is_here = |engine: &Engine| match engine {
            Engine::Native => Native::shared().check().is_ok(),
            engine => *engine != Engine::Best,
        };
        Engine::ALL.iter().copied().filter(is_here).collect()
    }

    /// Returns the name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Eager => "eager",
            Engine::Fused => "fused",
            Engine::Native => "native",
            Engine::Best => "best",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Engine {
    type Err = Error;

    fn from_str(text: &str) -> Result<Engine> {
        Engine::ALL.iter().copied().find(|engine| engine.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Engine::ALL.iter().map(|engine| engine.name()).collect();
            err!(Argument, "there is no engine {text:?}")
                .help(format!("the engines are {}", names.join(", ")))
        })
    }
}

/// A program that an engine has made ready. It can be called from several threads at once.
pub struct Program {
    kind: Kind,
    engine: Engine,
    /// Why `Best` is not `Native`.
    failed: Arc<OnceLock<Error>>,
}

enum Kind {
    Eager(Box<GraphModule>),
    Fused(Box<Compiled>),
}

/// Makes functions as long as that succeeds, then leaves everything to the engine.
struct Attempt {
    native: Native,
    failed: Arc<OnceLock<Error>>,
}

impl Assemble for Attempt {
    fn assemble(&self, bodies: &[LoopBody]) -> Result<Vec<Option<Routine>>> {
        if self.failed.get().is_none() {
            match self.native.assemble(bodies) {
                Ok(routines) => return Ok(routines),
                Err(error) => _ = self.failed.set(error),
            }
        }
        Ok(vec![None; bodies.len()])
    }
}

/// Notes what would be compiled.
#[derive(Default)]
struct Collect(Mutex<Vec<LoopBody>>);

impl Assemble for Collect {
    fn assemble(&self, bodies: &[LoopBody]) -> Result<Vec<Option<Routine>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bodies);
        Ok(vec![None; bodies.len()])
    }
}

impl Program {
    fn new(kind: Kind, engine: Engine) -> Program {
        Program { kind, engine, failed: Arc::default() }
    }

    /// Makes a program ready for [`Engine::Native`] with a compiler and a cache of your choice. Fails if
    /// there is no compiler, or a pass fails.
    pub fn native(gm: &GraphModule, native: &Native) -> Result<Program> {
        Program::into_native(gm.clone(), native)
    }

    fn into_native(gm: GraphModule, native: &Native) -> Result<Program> {
        let compiled = Compiled::assembled(gm, Arc::new(native.clone()))?;
        Ok(Program::new(Kind::Fused(Box::new(compiled)), Engine::Native))
    }

    /// Makes several programs ready for [`Engine::Native`], each for some arguments. They are compiled
    /// together, in the time of one. Fails if there is no compiler, or the code does not compile; a program
    /// that fails by itself is an error in the list.
    pub fn native_all(
        programs: &[(&GraphModule, &[Value])],
        native: &Native,
    ) -> Result<Vec<Result<Program>>> {
        let collect = Arc::new(Collect::default());
        for (gm, args) in programs {
            // What fails here fails again, and is reported, below.
            if let Ok(compiled) = Compiled::assembled(GraphModule::clone(gm), collect.clone()) {
                let _ = compiled.prepare(args);
            }
        }
        let bodies = std::mem::take(&mut *collect.0.lock().unwrap_or_else(PoisonError::into_inner));
        native.assemble(&bodies)?;
        Ok(programs.iter().map(|(gm, _)| Program::native(gm, native)).collect())
    }

    /// Makes a program ready for [`Engine::Best`] with a compiler and a cache of your choice. Fails if a pass
    /// does.
    pub fn best(gm: &GraphModule, native: &Native) -> Result<Program> {
        Program::into_best(gm.clone(), native)
    }

    fn into_best(gm: GraphModule, native: &Native) -> Result<Program> {
        let failed = Arc::new(OnceLock::new());
        if let Err(error) = native.check() {
            let _ = failed.set(error);
        }
        let attempt = Attempt { native: native.clone(), failed: failed.clone() };
        let compiled = Compiled::assembled(gm, Arc::new(attempt))?;
        Ok(Program { kind: Kind::Fused(Box::new(compiled)), engine: Engine::Best, failed })
    }

    /// Returns the engine that runs it.
    pub fn engine(&self) -> Engine {
        match (self.engine, self.fallback()) {
            (Engine::Best, None) => Engine::Native,
            (Engine::Best, Some(_)) => Engine::Fused,
            (engine, _) => engine,
        }
    }

    /// Returns why a program of [`Engine::Best`] runs as `Fused`.
    pub fn fallback(&self) -> Option<&Error> {
        self.failed.get()
    }

    /// Calls the program with one tensor per argument. Fails if the arguments do not fit, an operation fails,
    /// or the result is not one tensor.
    #[track_caller]
    pub fn call(&self, args: &[Tensor]) -> Result<Tensor> {
        match &self.kind {
            Kind::Eager(gm) => gm.call(args),
            Kind::Fused(compiled) => compiled.call(args),
        }
    }

    /// Calls the program with a tuple of arguments of the structures that were traced, and restores the
    /// structure of the result. Fails as [`call_values`](Program::call_values) does, or if the result has
    /// another structure.
    #[track_caller]
    pub fn run<A: Tree, R: Tree>(&self, args: A) -> Result<R> {
        let args = arguments(args);
        R::from_value(&self.call_values(args.items().unwrap_or_default())?)
    }

    /// Calls the program with one value per argument. Fails if the arguments do not fit, or an operation
    /// fails.
    #[track_caller]
    pub fn call_values(&self, args: &[Value]) -> Result<Value> {
        match &self.kind {
            Kind::Eager(gm) => gm.call_values(args),
            Kind::Fused(compiled) => compiled.call_values(args),
        }
    }

    /// Calls the program as [`call_values`](Program::call_values) does, for a caller whose line says nothing to
    /// the user. Fails as that does; an error of an argument has no source line.
    pub fn evaluate(&self, args: &[Value]) -> Result<Value> {
        match &self.kind {
            Kind::Eager(gm) => gm.evaluate(args),
            Kind::Fused(compiled) => compiled.evaluate(args),
        }
    }

    /// Calls the program as [`evaluate`](Program::evaluate) does, and gives each item of the tuple or list that it
    /// returns to `results`; what is neither is the only item. Fails as that does.
    pub fn call_with(&self, args: Inputs<'_>, results: &mut dyn FnMut(Value)) -> Result<()> {
        match &self.kind {
            Kind::Eager(gm) => {
                gm.evaluate(&args.values())?.as_items().iter().cloned().for_each(results);
                Ok(())
            }
            Kind::Fused(compiled) => compiled.call_with(args, results),
        }
    }

    /// Returns the module as the engine runs it, with the buffers that calls update.
    pub fn graph_module(&self) -> &GraphModule {
        match &self.kind {
            Kind::Eager(gm) => gm,
            Kind::Fused(compiled) => compiled.graph_module(),
        }
    }

    /// Returns the plan, if the engine is not `Eager`.
    pub fn fused(&self) -> Option<&Compiled> {
        match &self.kind {
            Kind::Fused(compiled) => Some(compiled),
            Kind::Eager(_) => None,
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.engine())
    }
}

/// Makes programs ready to run.
pub trait Compile {
    /// Compiles a copy for an engine. The copy has the present parameters, and buffers of its own.
    ///
    /// ```
    /// use fx::prelude::*;
    ///
    /// let gm = fx::trace(|x: &fx::Tensor| (x * 2.0).tanh()).input("x", "f32[n, 3]").build()?;
    /// let fast = gm.compile(fx::Engine::Fused)?;
    /// let x = fx::Tensor::new([[1.0f32, 2.0, 3.0]]);
    /// assert_eq!(fast.call(&[x.clone()])?.to_vec::<f32>()?, gm.call(&[x])?.to_vec::<f32>()?);
    /// # Ok::<(), fx::Error>(())
    /// ```
    fn compile(&self, engine: Engine) -> Result<Program>;

    /// As [`compile`](Compile::compile), but takes the module, so that its weights are not in memory twice.
    /// If the sizes of all inputs are known, each weight is freed as soon as it is packed, unless it is
    /// shared.
    ///
    /// ```
    /// use fx::prelude::*;
    ///
    /// let gm = fx::trace(|x: &fx::Tensor| (x * 2.0).tanh()).input("x", "f32[2, 3]").build()?;
    /// let fast = gm.into_program(fx::Engine::Fused)?;
    /// assert_eq!(fast.call(&[fx::Tensor::new([[0.0f32; 3]; 2])])?.to_vec::<f32>()?, [0.0; 6]);
    /// # Ok::<(), fx::Error>(())
    /// ```
    fn into_program(self, engine: Engine) -> Result<Program>;
}

impl Compile for GraphModule {
    fn compile(&self, engine: Engine) -> Result<Program> {
        self.clone().into_program(engine)
    }

    fn into_program(self, engine: Engine) -> Result<Program> {
        match engine {
            Engine::Eager => Ok(Program::new(Kind::Eager(Box::new(self)), engine)),
            Engine::Fused => Ok(Program::new(Kind::Fused(Box::new(Compiled::new(self)?)), engine)),
            Engine::Native => {
                Native::shared().check()?;
                Program::into_native(self, Native::shared())
            }
            Engine::Best => Program::into_best(self, Native::shared()),
        }
    }
}
