//! Programs of TorchScript in files: lowered to graphs, or run by the virtual machine.

use std::path::{Path, PathBuf};

use fx_script::emit::Unit;
use fx_script::load::{Program, Session};
use fx_script::value::Value as Item;
use fx_script::vm::Profile;

use crate::check::{self, Engine};
use crate::import::{LoweringReport, TorchScript};
use crate::program::{Ran, no_input_set};
use crate::script::sizes::Sizes;
use crate::script::{self, AtenOperators, CallKey, call_key};
use crate::weights::Weights;
use crate::{Error, GraphModule, Result, Tensor, TypeTree, err, import};

/// What a program of TorchScript is lowered for, which its archive does not say.
#[derive(Debug, Clone, Default)]
pub struct Lowering {
    /// The method; `forward` if there is none.
    pub method: Option<String>,
    /// Arguments by name: types such as `f32[n, 3]`, or values such as `16000`, `true` and `none`.
    pub inputs: Vec<(String, String)>,
    /// A file with the tensors `0.in0`, `0.in1`, … of a call, whose types the arguments have. Sizes that differ in
    /// further calls of the file are symbols.
    pub example: Option<PathBuf>,
}

impl Lowering {
    /// Lowers a program. Fails if it cannot be a graph; the error says which lines keep it from that.
    pub fn module(&self, path: &Path) -> Result<GraphModule> {
        let example = self.example.as_ref().map(Weights::open).transpose()?;
        let help = |error: Error| match self.has_types() {
            true => error,
            false => error.help(
                "give dtypes and sizes: `--input \"x=f32[n, 3]\"`, or a call: `--example FILE.safetensors`",
            ),
        };
        let program = import::torchscript(path)?;
        let builder = match &example {
            Some(io) => self.for_all_calls(program, io)?,
            None => self.builder(program, None, 0)?,
        };
        let lowered =
            builder.load().map_err(|error| help(error.in_file(&path.display().to_string(), None)))?;
        lowered.into_module().map_err(help)
    }

    /// Whether types of arguments are given, and not only values.
    fn has_types(&self) -> bool {
        self.example.is_some() || self.inputs.iter().any(|(_, text)| constant(text).is_none())
    }

    /// Returns the arguments that are given as values.
    fn constants(&self) -> Vec<(&str, Item)> {
        self.inputs.iter().filter_map(|(name, text)| Some((name.as_str(), constant(text)?))).collect()
    }

    /// Returns how to lower a program: for the types that are given, else for an input set of a file.
    fn builder(&self, program: Program, io: Option<&Weights>, set: usize) -> Result<TorchScript> {
        let method = self.method();
        let has_specs = self.inputs.len() > self.constants().len();
        if let (Some(io), false) = (io, has_specs) {
            let args = script::arguments(&program, method, io, set, &self.constants())?;
            return Ok(TorchScript::from_program(program).method(method).args(&args));
        }
        let builder = TorchScript::from_program(program).method(method);
        Ok(self.inputs.iter().fold(builder, |builder, (name, text)| match constant(text) {
            Some(value) => builder.constant(name.as_str(), value),
            None => builder.input(name, text.as_str()),
        }))
    }

    /// Returns how to lower a program for all calls of a file, if one graph can serve them; else for the first.
    fn for_all_calls(&self, program: Program, io: &Weights) -> Result<TorchScript> {
        let method = self.method();
        let has_set = |set: &usize| io.contains(&format!("{set}.in0"));
        let n_sets = (0..).take_while(has_set).count();
        if n_sets < 2 || self.inputs.len() > self.constants().len() {
            return self.builder(program, Some(io), 0);
        }
        let sets = (0..n_sets).map(|set| script::arguments(&program, method, io, set, &self.constants()));
        let sets = sets.collect::<Result<Vec<_>>>()?;
        let unit = Unit::of(&program)?;
        let signature = unit.signature(&format!("{}.{method}", program.root.class.name))?;
        let mut inputs: Vec<(String, TypeTree)> = Vec::new();
        let mut sizes = Sizes::default();
        for (at, (name, ..)) in signature.parameters.iter().skip(1).enumerate() {
            if self.inputs.iter().any(|(fixed, _)| **fixed == **name) {
                continue;
            }
            let Some(args) = sets.iter().map(|set| set.get(at)).collect::<Option<Vec<_>>>() else { continue };
            let args = args.into_iter().map(Item::to_arg).collect::<Result<Vec<_>>>()?;
            match sizes.common(&args.iter().collect::<Vec<_>>())? {
                Some(ty) => inputs.push((name.to_string(), ty)),
                None => return self.builder(program, Some(io), 0),
            }
        }
        let mut builder = TorchScript::from_program(program).method(method);
        for (name, value) in self.constants() {
            builder = builder.constant(name, value);
        }
        Ok(inputs.into_iter().fold(builder, |builder, (name, ty)| builder.input(&name, ty)))
    }

    fn method(&self) -> &str {
        self.method.as_deref().unwrap_or("forward")
    }
}

/// Returns the value that a text is: a number, a truth value, nothing, or text in quotes.
fn constant(text: &str) -> Option<Item> {
    let text = text.trim();
    match text {
        "true" | "True" => return Some(Item::Bool(true)),
        "false" | "False" => return Some(Item::Bool(false)),
        "none" | "None" => return Some(Item::None),
        _ => {}
    }
    let quoted = ['"', '\''].iter().find_map(|&quote| text.strip_prefix(quote)?.strip_suffix(quote));
    if let Some(text) = quoted {
        return Some(Item::str(text));
    }
    text.parse::<i64>().map(Item::Int).or_else(|_| text.parse::<f64>().map(Item::Float)).ok()
}

/// What a program of TorchScript gave for the input sets of a file.
#[derive(Debug)]
pub struct ScriptRun {
    /// The results.
    pub ran: Vec<Ran>,
    /// What the program printed.
    pub printed: String,
    /// Why the virtual machine ran it, and not the engine.
    pub fallback: Option<LoweringReport>,
}

/// Runs a program of TorchScript on every input set of a file, as [`run`](crate::program::run) does: on the
/// engine where it can be a graph, else in the virtual machine. Each set starts from the program as the file has
/// it.
///
/// Fails if an input is missing or does not fit, or the program fails; the error names the file and the tensor.
pub fn run_torchscript(path: &Path, lowering: &Lowering, io: &Weights, engine: &Engine) -> Result<ScriptRun> {
    let has = |set: usize, name: &str| io.contains(&format!("{set}.{name}"));
    let mut run = ScriptRun { ran: Vec::new(), printed: String::new(), fallback: None };
    let operators = AtenOperators::new(crate::registry());
    let mut lowered: Option<(CallKey, check::Runner)> = None;
    while has(run.ran.len(), "in0") || has(run.ran.len(), "out0") {
        let set = run.ran.len();
        let program = import::torchscript(path)?;
        let args = script::arguments(&program, lowering.method(), io, set, &lowering.constants())?;
        let key = call_key(&args);
        let is_new = !matches!((&lowered, &key), (Some((typed, _)), Ok(key)) if typed == key);
        if run.fallback.is_none() && is_new {
            let outcome = lowering.builder(import::torchscript(path)?, Some(io), set)?.load()?;
            if outcome.report().is_complete() {
                let gm = outcome.into_module()?;
                let runner = engine.prepare(&gm)?;
                let runner = runner.unwrap_or_else(|| Box::new(move |args| gm.clone().evaluate(args)));
                lowered = Some((key?, runner));
            } else {
                run.fallback = Some(outcome.report().clone());
            }
        }
        let outputs = match (&lowered, &run.fallback) {
            (Some((_, runner)), None) => {
                let args = args.iter().map(Item::to_arg).collect::<Result<Vec<_>>>()?;
                check::tensors(&runner(&args)?)
            }
            _ => {
                let mut session = Session::new(program, &operators)?;
                let result = session.call(lowering.method(), args, Vec::new());
                run.printed += &session.take_output();
                script::tensors(&result?)?
            }
        };
        run.ran.push(ran(io, set, outputs));
    }
    match run.ran.is_empty() {
        true => Err(no_input_set(io)),
        false => Ok(run),
    }
}

fn ran(io: &Weights, set: usize, outputs: Vec<Tensor>) -> Ran {
    let agrees = io
        .contains(&format!("{set}.out0"))
        .then(|| check::agree(&outputs, io, set).map_err(|error| error.to_string()));
    Ran { set, outputs, agrees }
}

/// Returns a line for each operator of a program that fx lacks, with the place of its first call. Fails if the
/// program cannot be read.
pub fn lacking_operators(path: &Path) -> Result<Vec<String>> {
    let operators = AtenOperators::new(crate::registry());
    let session = Session::new(import::torchscript(path)?, &operators)?;
    let missing = session.executable().missing();
    Ok(missing
        .into_iter()
        .map(|(name, place)| match place {
            Some(place) => format!("{name}  at {place}"),
            None => name,
        })
        .collect())
}

/// What the evaluation of an expression gave.
#[derive(Debug)]
#[non_exhaustive]
pub struct Evaluation {
    /// The value.
    pub value: Item,
    /// The text that the program printed.
    pub printed: String,
    /// What its lines cost.
    pub profile: Profile,
}

/// Returns the value of an expression on the top module of a program, such as `self.forward(x, 16000)`, with the
/// text that it printed. The tensors of `io` are known by their names. Fails if the expression has an error, or
/// the program fails.
pub fn evaluate(program: Program, expression: &str, io: Option<&Weights>) -> Result<Evaluation> {
    evaluate_in(program, expression, io, |session| session)
}

/// Returns the value of an expression as [`evaluate`] does, and what each line costs. Fails as that does.
pub fn profile(program: Program, expression: &str, io: Option<&Weights>) -> Result<Evaluation> {
    evaluate_in(program, expression, io, Session::profiled)
}

fn evaluate_in(
    program: Program,
    expression: &str,
    io: Option<&Weights>,
    prepare: fn(Session) -> Session,
) -> Result<Evaluation> {
    let mut program = program;
    let is_name = |name: &&str| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let names: Vec<&str> = io.iter().flat_map(|io| io.names()).filter(is_name).collect();
    let function = program.add_expression(expression, &names)?;
    let mut args = Vec::new();
    if !program.root.class.name.is_empty() {
        args.push(Item::Object(program.root.clone()));
    }
    for name in names {
        if let Some(io) = io {
            args.push(Item::tensor(io.require(name)?.into_array()?)?);
        }
    }
    let mut session = prepare(Session::new(program, &AtenOperators::new(crate::registry()))?);
    let result = session.call_function(function, args, Vec::new());
    let (printed, profile) = (session.take_output(), session.profile());
    result.map(|value| Evaluation { value, printed, profile }).map_err(|error| match error.source_loc() {
        Some(_) => error,
        None => err!(Argument, "{expression}: {}", error.message()),
    })
}
