//! [`Engine`]: how a program runs, and [`Compile`], which makes it ready.

use std::fmt;
use std::str::FromStr;

use fx_ops::engine::Compiled;

use crate::{Arg, Error, GraphModule, Result, Tensor, Tree, Value, err};

/// A way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Operation by operation, as [`GraphModule::call`] does.
    Eager,
    /// Rewritten by the passes for inference, its operations in kernels, weights packed; in process, without a compiler.
    Fused,
}

impl Engine {
    /// The engines.
    pub const ALL: &'static [Engine] = &[Engine::Eager, Engine::Fused];

    /// Returns the name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Eager => "eager",
            Engine::Fused => "fused",
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
pub struct Program(Kind);

enum Kind {
    Eager(GraphModule),
    Fused(Compiled),
}

impl Program {
    /// Returns the engine that runs it.
    pub fn engine(&self) -> Engine {
        match &self.0 {
            Kind::Eager(_) => Engine::Eager,
            Kind::Fused(_) => Engine::Fused,
        }
    }

    /// Calls the program with one tensor per argument; it must return one tensor.
    #[track_caller]
    pub fn call(&self, args: &[Tensor]) -> Result<Tensor> {
        match &self.0 {
            Kind::Eager(gm) => gm.call(args),
            Kind::Fused(compiled) => compiled.call(args),
        }
    }

    /// Calls the program with a tuple of arguments of the structures that were traced, and restores the structure of the result.
    #[track_caller]
    pub fn run<A: Tree, R: Tree>(&self, args: A) -> Result<R> {
        let value = args.to_value();
        match &value {
            Arg::Tuple(items) => R::from_value(&self.call_values(items)?),
            _ => R::from_value(&self.call_values(&[value])?),
        }
    }

    /// Calls the program with one value per argument.
    #[track_caller]
    pub fn call_values(&self, args: &[Value]) -> Result<Value> {
        match &self.0 {
            Kind::Eager(gm) => gm.call_values(args),
            Kind::Fused(compiled) => compiled.call_values(args),
        }
    }

    /// Returns the plan of a fused program.
    pub fn fused(&self) -> Option<&Compiled> {
        match &self.0 {
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
    /// Makes a copy ready for an engine. It keeps the parameters that the module has now, and buffers of its own.
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
}

impl Compile for GraphModule {
    fn compile(&self, engine: Engine) -> Result<Program> {
        Ok(Program(match engine {
            Engine::Eager => Kind::Eager(self.clone()),
            Engine::Fused => Kind::Fused(Compiled::new(self)?),
        }))
    }
}
