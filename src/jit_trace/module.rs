//! Several methods of one module, traced with examples; they share parameters and state.

use std::collections::HashMap;

use super::{JitTrace, Kind, Level, Traced};
use crate::trace::{Traceable, with_module};
use crate::{Error, GraphModule, Module, Result, SourceLoc, Tree, bail, err};

/// A trace of several methods to be; see [`trace_module`].
#[must_use = "call `build` to trace"]
pub struct ModuleTrace<'a, M> {
    module: &'a M,
    methods: Vec<(String, Box<Method<'a>>)>,
    levels: HashMap<Kind, Level>,
}

type Method<'a> = dyn FnOnce(&HashMap<Kind, Level>) -> Result<Traced> + 'a;

/// Graph modules of the methods of one module. They share parameters and state.
#[derive(Debug)]
pub struct TracedModule {
    methods: Vec<(String, Traced)>,
}

/// Prepares a trace of methods of a module, each with an example of its arguments, as `torch.jit.trace_module`
/// does. The methods share parameters, buffers and sub-modules.
///
/// ```
/// use fx::prelude::*;
///
/// #[derive(fx::Module)]
/// struct Autoencoder {
///     down: nn::Linear,
///     up: nn::Linear,
/// }
///
/// impl Autoencoder {
///     fn encode(&self, x: &Tensor) -> Tensor {
///         self.down.call(x).relu()
///     }
///     fn decode(&self, z: &Tensor) -> Tensor {
///         self.up.call(z)
///     }
/// }
///
/// let model = Autoencoder { down: nn::Linear::new(4, 2), up: nn::Linear::new(2, 4) };
/// let traced = fx::jit_trace::trace_module(&model)
///     .method("encode", |x: &Tensor| model.encode(x), (fx::randn([3, 4]),))
///     .method("decode", |z: &Tensor| model.decode(z), (fx::randn([3, 2]),))
///     .build()?;
/// let x = fx::randn([5, 4]);
/// let z = traced.method("encode")?.call(&[x.clone()])?;
/// traced.method("decode")?.call(&[z])?.all_close(&model.decode(&model.encode(&x)), 1e-6, 1e-6)?;
/// # Ok::<(), fx::Error>(())
/// ```
pub fn trace_module<M: Module>(module: &M) -> ModuleTrace<'_, M> {
    ModuleTrace { module, methods: Vec::new(), levels: HashMap::new() }
}

impl<'a, M: Module> ModuleTrace<'a, M> {
    /// Adds a method: a closure that calls the module, with an example of its arguments, a tuple.
    #[track_caller]
    pub fn method<F: Traceable<Marker> + 'a, Marker: 'a>(
        mut self,
        name: &str,
        function: F,
        examples: impl Tree,
    ) -> Self {
        let (call, module, value) = (SourceLoc::caller(), self.module, examples.to_value());
        let trace = move |levels: &HashMap<Kind, Level>| {
            let trace = JitTrace::new(with_module(module, function), value).levels(levels);
            let traced = trace.inspect_at(call.clone()).map_err(|error| error.at(call))?;
            traced.report.ok()?;
            Ok(traced)
        };
        self.methods.push((name.to_owned(), Box::new(trace)));
        self
    }

    /// Leaves diagnostics of a kind out of the tables of all methods; see [`JitTrace::allow`].
    pub fn allow(self, kind: Kind) -> Self {
        self.level(kind, Level::Allow)
    }

    /// Reports diagnostics of a kind as warnings.
    pub fn warn(self, kind: Kind) -> Self {
        self.level(kind, Level::Warn)
    }

    /// Lets the trace fail for diagnostics of a kind.
    pub fn deny(self, kind: Kind) -> Self {
        self.level(kind, Level::Deny)
    }

    fn level(mut self, kind: Kind, level: Level) -> Self {
        self.levels.insert(kind, level);
        self
    }

    /// Traces and checks each method. Fails with the errors of all methods at once, or if two have one name.
    pub fn build(self) -> Result<TracedModule> {
        let ModuleTrace { methods, levels, .. } = self;
        let mut traced = TracedModule { methods: Vec::with_capacity(methods.len()) };
        let mut errors = Vec::new();
        for (name, trace) in methods {
            if traced.methods.iter().any(|(other, _)| *other == name) {
                bail!(Argument, "the method {name:?} is given twice");
            }
            match trace(&levels) {
                Ok(mut method) => {
                    for (_, earlier) in &traced.methods {
                        method.module.share_state(&earlier.module);
                    }
                    traced.methods.push((name, method));
                }
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(traced) } else { Err(Error::many(errors)) }
    }
}

impl TracedModule {
    /// Makes one graph module of the methods: `forward`, or the first, is its graph, the others are its
    /// [methods](crate::GraphModule::methods). Parameters, buffers and sub-modules are shared. Fails if two
    /// methods have different sub-modules at a path, or no method was traced.
    pub fn into_module(mut self) -> Result<GraphModule> {
        let first = self.methods.iter().position(|(name, _)| name == "forward").unwrap_or(0);
        if self.methods.is_empty() {
            bail!(Argument, "no method was traced");
        }
        let mut module = GraphModule::from(self.methods.remove(first).1);
        for (name, traced) in self.methods {
            module.add_method(&name, traced.into())?;
        }
        Ok(module)
    }

    /// Returns a method. Fails if there is none of this name.
    pub fn method(&self, name: &str) -> Result<&Traced> {
        let found = self.methods.iter().find(|(other, _)| other == name);
        found.map(|(_, traced)| traced).ok_or_else(|| {
            let names: Vec<&str> = self.methods.iter().map(|(name, _)| &**name).collect();
            err!(Unresolved, "no method {name:?} was traced")
                .help(format!("the methods are {}", names.join(", ")))
        })
    }

    /// Returns the methods in the order in which they were given.
    pub fn methods(&self) -> impl ExactSizeIterator<Item = (&str, &Traced)> {
        self.methods.iter().map(|(name, traced)| (&**name, traced))
    }
}
