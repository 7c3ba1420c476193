//! A program that is lowered call by call, and run as graphs.

use std::cell::RefCell;
use std::collections::HashMap;

use fx_script::emit::Unit;
use fx_script::load::Program;
use fx_script::types::Type;
use fx_script::value::Value;

use super::Runtime;
use super::case::Callee;
use crate::check::thrice;
use crate::import::{LoweringReport, TorchScript};
use crate::module::collect_buffers;
use crate::script::{CallKey, call_key};
use crate::{Array, Compile, GraphModule, Module, Result, Tensor, bail, err};

/// Why a case was not run as graphs.
#[derive(Debug, Clone, Default)]
pub(super) struct Unlowered(RefCell<Option<String>>);

impl Unlowered {
    pub(super) fn take(&self) -> Option<String> {
        self.0.take()
    }

    /// Notes why, and returns the error that ends the case.
    fn because(&self, reason: String) -> crate::Error {
        self.0.replace(Some(reason));
        err!(Unresolved, "the program is no graph")
    }
}

/// The graphs of a program: one for each method and kind of arguments.
pub(super) struct Graphs<'a> {
    load: &'a dyn Fn() -> Result<Program>,
    runtime: Runtime,
    graphs: Vec<Graph>,
    /// The buffers after the last call, by path: graphs of one program share them.
    state: HashMap<String, Tensor>,
    unlowered: &'a Unlowered,
    /// Sees each graph that is made, and the arguments of the call that it is for.
    made: &'a dyn Fn(&GraphModule, &[crate::Value]),
}

struct Graph {
    method: String,
    key: CallKey,
    module: GraphModule,
    run: Runner,
    report: LoweringReport,
    /// The names of the parameters.
    parameters: Vec<String>,
}

/// Runs a graph on the buffers of its module.
type Runner = Box<dyn Fn(&[crate::Value]) -> Result<crate::Value>>;

/// Makes a graph ready. A compiled function of a graph without a state is called three times, which records, runs
/// what was recorded, and, if it is pure, replays; the results must have the same bits.
fn runner(gm: &GraphModule, runtime: Runtime) -> Result<Runner> {
    let function = || crate::compile(crate::compile::owned(gm.snapshot()));
    let function = match runtime {
        Runtime::Engine(engine) => {
            let program = gm.snapshot().into_program(engine)?;
            return Ok(Box::new(move |args| program.evaluate(args)));
        }
        Runtime::Compile => function(),
        Runtime::Pure => function().pure(),
    };
    Ok(match gm.is_pure() {
        true => Box::new(move |args| thrice(|| function.call_values(args))),
        false => Box::new(move |args| function.call_values(args)),
    })
}

impl<'a> Graphs<'a> {
    pub(super) fn new(
        load: &'a dyn Fn() -> Result<Program>,
        runtime: Runtime,
        unlowered: &'a Unlowered,
        made: &'a dyn Fn(&GraphModule, &[crate::Value]),
    ) -> Graphs<'a> {
        Graphs { load, runtime, graphs: Vec::new(), state: HashMap::new(), unlowered, made }
    }

    /// Returns the number of the graph for a call.
    fn graph(&mut self, method: &str, args: &[Value]) -> Result<usize> {
        let key = call_key(args).map_err(|error| self.unlowered.because(error.to_string()))?;
        if let Some(at) = self.graphs.iter().position(|graph| graph.method == method && graph.key == key) {
            return Ok(at);
        }
        let program = (self.load)()?;
        let unit = Unit::of(&program)?;
        let signature = unit.signature(&format!("{}.{method}", program.root.class.name))?;
        let parameters = signature.parameters.iter().skip(1).map(|(name, ..)| name.to_string()).collect();
        let lowered = TorchScript::from_program(program).method(method).args(args).load()?;
        let report = lowered.report().clone();
        if let Some(obstacle) = report.obstacles.first() {
            return Err(self.unlowered.because(obstacle.to_string()));
        }
        let gm = lowered.into_module()?;
        (self.made)(&gm, &args.iter().map(Value::to_arg).collect::<Result<Vec<_>>>()?);
        let run = runner(&gm, self.runtime)?;
        let method = method.to_owned();
        self.graphs.push(Graph { method, key, module: gm, run, report, parameters });
        Ok(self.graphs.len() - 1)
    }
}

impl Callee for Graphs<'_> {
    fn call(&mut self, method: &str, args: Vec<Value>, kwargs: Vec<(String, Value)>) -> Result<Value> {
        let program = (self.load)()?;
        let unit = Unit::of(&program)?;
        let name = format!("{}.{method}", program.root.class.name);
        let args = program.bind(&unit, &name, 1, args, kwargs)?;
        let returns = unit.emit(&name)?.returns;
        let at = self.graph(method, &args)?;
        let graph = &self.graphs[at];
        let buffers = || collect_buffers(&graph.module);
        for (path, buffer) in buffers() {
            if let Some(value) = self.state.get(&path) {
                buffer.store(value.clone());
            }
        }
        let given = args.iter().map(Value::to_arg).collect::<Result<Vec<_>>>()?;
        let result = Value::of(&(graph.run)(&given)?)?;
        self.state.extend(buffers().into_iter().map(|(path, buffer)| (path, buffer.get())));
        if graph.report.written_inputs.is_empty() {
            return declared(&result, &returns);
        }
        let [result, written] = &result.to_items()?[..] else { bail!(Structure, "expected a pair") };
        for (name, new) in graph.report.written_inputs.iter().zip(written.to_items()?) {
            let at = graph.parameters.iter().position(|parameter| parameter == name);
            if let Some(Value::Tensor(tensor)) = at.and_then(|at| args.get(at)) {
                let new: Array = new.to_tensor()?.array()?;
                tensor.write(&new)?;
            }
        }
        declared(result, &returns)
    }

    /// Graphs print through operations of their own, which nothing catches.
    fn take_output(&mut self) -> Option<String> {
        None
    }

    fn attribute(&mut self, path: &str) -> Result<Option<Value>> {
        self.state.get(path).map(|tensor| Value::tensor(tensor.array()?.clone())).transpose()
    }
}

/// Returns a result as its declared type: numbers that graphs compute are tensors of rank 0.
pub(crate) fn declared(value: &Value, ty: &Type) -> Result<Value> {
    Ok(match (value, ty) {
        (Value::Tensor(tensor), Type::Int | Type::Float | Type::Bool | Type::Number) => tensor.item()?,
        (_, Type::Optional(item)) => declared(value, item)?,
        (Value::List(_), Type::List(item)) => {
            Value::list(value.to_items()?.iter().map(|value| declared(value, item)).collect::<Result<_>>()?)
        }
        (Value::Tuple(_), Type::Tuple(types)) => {
            let items = value.to_items()?;
            let items = items.iter().zip(types.iter()).map(|(value, ty)| declared(value, ty));
            Value::tuple(items.collect::<Result<Vec<_>>>()?)
        }
        (Value::Dict(dict), Type::Dict(_, item)) => {
            let entries = dict.read(Clone::clone);
            let entries = entries.iter().map(|(key, value)| Ok((key.clone(), declared(value, item)?)));
            Value::dict(entries.collect::<Result<Vec<_>>>()?)?
        }
        _ => value.clone(),
    })
}
