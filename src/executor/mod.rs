//! [`Executor`]: runs a graph module of unknown types, with a plan for each kind of arguments.
//!
//! Plans are found in layers: the structure of the arguments with dtypes and ranks, then the sizes. The first
//! plans of a structure are for their sizes only; later ones have a symbol for each size that varied. `plans`
//! has the layers, `state` what is told of them.

mod plans;
mod state;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use arc_swap::ArcSwap;
use smallvec::SmallVec;

pub use state::{ExecutorState, PlanKind, PlanState, StructureState};

use crate::signature::arguments;
use crate::{Engine, Error, ErrorKind, GraphModule, Result, SourceLoc, Tensor, Tree, Value};
use plans::{Arguments, Structure, Structures};

/// How many plans of each kind a structure of arguments has before the next kind is tried.
///
/// Afterwards it has one plan in which every size that varied is a symbol of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FusionStrategy(Vec<(PlanKind, usize)>);

impl FusionStrategy {
    /// Makes a strategy: `FusionStrategy::new([(PlanKind::Static, 2), (PlanKind::Dynamic, 10)])`.
    pub fn new(steps: impl IntoIterator<Item = (PlanKind, usize)>) -> FusionStrategy {
        FusionStrategy(steps.into_iter().collect())
    }

    /// Returns the kind of the next plan of a structure that has so many.
    fn next(&self, mut plans: usize) -> PlanKind {
        for (kind, most) in &self.0 {
            match plans.checked_sub(*most) {
                Some(rest) => plans = rest,
                None => return *kind,
            }
        }
        PlanKind::Open
    }
}

/// Two static plans, then ten dynamic ones.
impl Default for FusionStrategy {
    fn default() -> FusionStrategy {
        FusionStrategy::new([(PlanKind::Static, 2), (PlanKind::Dynamic, 10)])
    }
}

#[derive(Clone)]
struct Options {
    engine: Engine,
    strategy: FusionStrategy,
    is_strict: bool,
    most_plans: usize,
}

/// Runs a graph module whose types are not known before it is called.
///
/// A call with new dtypes, ranks or sizes makes a plan; a call like an earlier one finds its plan without a
/// lock. Nothing is profiled: the second call costs what the hundredth does. Buffers are those of the module, in
/// all plans.
///
/// ```
/// use fx::prelude::*;
/// use fx::Executor;
///
/// // Nothing is known of x, not even its rank.
/// let gm = fx::symbolic_trace(|x: &Tensor| (x * 2.0).softmax(-1))?;
/// let executor = Executor::new(gm);
/// for n in [2, 3, 4, 5, 6] {
///     executor.call(&[fx::ones([n, 10])])?;
/// }
/// let state = executor.debug_state();
/// // For 2 rows, for 3, and for any number of rows.
/// assert_eq!(state.structures[0].plans.len(), 3);
/// assert_eq!(state.structures[0].plans[2].inputs, ["x: f32[x0, 10]"]);
/// # Ok::<(), fx::Error>(())
/// ```
pub struct Executor {
    module: GraphModule,
    arguments: Arguments,
    options: Options,
    structures: ArcSwap<Structures>,
    /// Held while a plan is made, so that calls at the same time make it once.
    making: Mutex<()>,
    calls: AtomicU64,
    evicted: AtomicU64,
}

impl Executor {
    /// Makes an executor. Nothing is compiled before the first call.
    pub fn new(module: GraphModule) -> Executor {
        let options = Options {
            engine: Engine::Fused,
            strategy: FusionStrategy::default(),
            is_strict: false,
            most_plans: 64,
        };
        Executor {
            arguments: Arguments::of(module.graph()),
            module,
            options,
            structures: ArcSwap::default(),
            making: Mutex::new(()),
            calls: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    /// Chooses the engine of the plans; it is [`Engine::Fused`] otherwise.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.options.engine = engine;
        self
    }

    /// Says how many plans of each kind there are.
    pub fn strategy(mut self, strategy: FusionStrategy) -> Self {
        self.options.strategy = strategy;
        self
    }

    /// Demands that kernels run every operation: a plan with others is an error that names them.
    pub fn strict_fusion(mut self, is_strict: bool) -> Self {
        self.options.is_strict = is_strict;
        self
    }

    /// Bounds the plans of all structures together; it is 64 otherwise. The plan that was not used for longest
    /// goes.
    pub fn limit(mut self, most_plans: usize) -> Self {
        self.options.most_plans = most_plans.max(1);
        self
    }

    /// Returns the module.
    pub fn graph_module(&self) -> &GraphModule {
        &self.module
    }

    /// Calls the module with one tensor per argument. Fails if the arguments do not fit the module, an operation
    /// fails, or the result is not one tensor.
    #[track_caller]
    pub fn call(&self, args: &[Tensor]) -> Result<Tensor> {
        let args: SmallVec<[Value; 4]> = args.iter().map(Value::from).collect();
        self.call_values(&args)?.try_into()
    }

    /// Calls the module with a tuple of arguments, and restores the structure of the result. Fails as
    /// [`call_values`](Self::call_values) does, or if the result has another structure.
    #[track_caller]
    pub fn run<A: Tree, R: Tree>(&self, args: A) -> Result<R> {
        let args = arguments(args);
        R::from_value(&self.call_values(args.items().unwrap_or_default())?)
    }

    /// Calls the module with one value per argument. Fails if the arguments do not fit the module, or an operation
    /// fails; with [`strict_fusion`](Self::strict_fusion), also if an operation has no kernel.
    #[track_caller]
    pub fn call_values(&self, args: &[Value]) -> Result<Value> {
        let source = SourceLoc::caller();
        let here = |error: Error| if error.source_loc().is_some() { error } else { error.at(source) };
        self.evaluate(args).map_err(here)
    }

    fn evaluate(&self, args: &[Value]) -> Result<Value> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let inputs = self.module.flatten_inputs(args)?;
        if let Some(sizes) = self.arguments.sizes(&inputs) {
            let structures = self.structures.load();
            let found =
                structures.find(&inputs, &self.arguments).and_then(|structure| structure.find(&sizes));
            if let Some(plan) = found {
                plan.used.store(call, Ordering::Relaxed);
                plan.hits.fetch_add(1, Ordering::Relaxed);
                return plan.program.evaluate(args);
            }
            drop(structures);
            let plan = self.plan(&inputs, &sizes, call)?;
            return plan.program.evaluate(args);
        }
        // Symbols of a trace, or tensors that carry errors.
        self.module.evaluate(args)
    }

    /// Makes the plan for these arguments. Fails if they do not fit the module.
    fn plan(&self, inputs: &[Value], sizes: &[i64], call: u64) -> Result<std::sync::Arc<plans::Plan>> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let structures = self.structures.load_full();
        let known = structures.find(inputs, &self.arguments);
        // Another thread may have made it meanwhile.
        if let Some(plan) = known.and_then(|structure| structure.find(sizes)) {
            plan.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(plan.clone());
        }
        let structure =
            known.map_or_else(|| Structure::new(inputs, &self.arguments), |known| Structure::clone(known));
        let reason = structures.reason(inputs, sizes, &self.arguments);
        let n_made = structure.made;
        let kind = self.options.strategy.next(n_made);
        let (structure, plan) = structure.with_plan(
            &self.module,
            &self.arguments,
            (inputs, sizes),
            (kind, reason),
            &self.options,
            call,
        )?;
        let (structures, evicted) = structures.with(structure, self.options.most_plans);
        self.evicted.fetch_add(evicted, Ordering::Relaxed);
        self.structures.store(std::sync::Arc::new(structures));
        Ok(plan)
    }

    /// Makes the plan for arguments like these, without a call. Fails as [`call_values`](Self::call_values) does
    /// before it runs.
    pub fn warm_up(&self, args: &[Value]) -> Result<()> {
        let inputs = self.module.flatten_inputs(args)?;
        let sizes = self.arguments.sizes(&inputs).ok_or_else(|| {
            Error::new(ErrorKind::Argument, "a plan is made for tensors that have values")
                .help("give tensors of the dtype and shape that calls will have")
        })?;
        let structures = self.structures.load();
        let structure = structures.find(&inputs, &self.arguments);
        let is_known = structure.and_then(|structure| structure.find(&sizes)).is_some();
        drop(structures);
        if !is_known {
            self.plan(&inputs, &sizes, self.calls.load(Ordering::Relaxed))?;
        }
        Ok(())
    }

    /// Returns the plans, how often each was used, and why it was made.
    pub fn debug_state(&self) -> ExecutorState {
        ExecutorState {
            name: self.module.name().to_owned(),
            engine: self.options.engine.name().to_owned(),
            calls: self.calls.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
            structures: self.structures.load().state(),
        }
    }

    /// Lets go of all plans and counts; buffers stay as they are.
    pub fn reset(&self) {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        self.structures.store(std::sync::Arc::default());
        self.calls.store(0, Ordering::Relaxed);
        self.evicted.store(0, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Executor({}, {})", self.module.name(), self.options.engine)
    }
}
