//! Lowering: a method of a program as a graph module.
//!
//! The method runs once, on values of which some are known and others are [`Symbol`]s: what a program computes
//! from known values is computed now, by the functions of [`fx_script::host`], and what it computes from symbols
//! becomes nodes. Lists, dictionaries and objects exist while the method is lowered only, so that all names of one
//! thing see all changes; functions and methods are inlined. Tensors are views of storages as in `alias`, so
//! writes become values. What depends on a condition that is not known runs in closed sub-graphs (`branch`,
//! `repeat`), in a [`scope`]. Everything else that a graph cannot say is an [`Obstacle`], which ends the lowering.

mod branch;
mod check;
mod inputs;
mod liveness;
mod number;
mod operator;
mod outputs;
mod repeat;
mod scope;
mod tensor;

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use fx_core::InputSpec;
use fx_core::logging::{self, Stage};
use fx_script::emit::Unit;
use fx_script::ir::{self, Constant, Function, Instruction, Operation, Region, ValueId};
use fx_script::load::Program;
use fx_script::types::Type;
use fx_script::value::{Device, Future, Object, Symbol, TensorRef, Tuple, Value, transaction};
use fx_script::vm::{self, Environment};

use self::scope::{CellRef, Scope};
use super::builder::{Lowered, LoweringReport, Obstacle};
use crate::import::alias::{Origin, View};
use crate::import::build::{Attempt, Builder, Failure};
use crate::import::schema::{self, Table};
use crate::import::symbols::Symbols;
use crate::{Dim, Error, ModuleFrame, NodeId, NodeMeta, Registry, Result, SourceLoc, TensorType, err};

/// How deep calls may be nested.
const MAX_DEPTH: usize = 128;

/// The most operations of the program that are carried out while it is lowered.
const MAX_STEPS: usize = 4_000_000;

/// The bytes that values which are known may hold.
const MAX_MEMORY: u64 = 1 << 30;

/// What is to be lowered.
pub(super) struct Request {
    pub(super) method: String,
    /// What is said of arguments by name.
    pub(super) inputs: Vec<(String, Given)>,
    /// What is said of arguments by position.
    pub(super) args: Vec<Value>,
    /// The most rounds of a loop that are written out.
    pub(super) unroll: usize,
}

impl Default for Request {
    fn default() -> Request {
        Request { method: "forward".to_owned(), inputs: Vec::new(), args: Vec::new(), unroll: 4096 }
    }
}

/// What is said of an argument.
pub(super) enum Given {
    Spec(InputSpec),
    Value(Value),
}

/// Why lowering does not go on.
enum Stop {
    /// The program raises an error here.
    Raised(String),
    /// A graph cannot say what comes here.
    Obstacle(Box<Obstacle>),
    /// The request or the program is wrong.
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

type Step<T> = Result<T, Stop>;

/// What a symbol stands for.
#[derive(Clone)]
enum Meaning {
    /// A tensor.
    Tensor(View),
    /// A tensor of the module, by its number, that nothing has used yet.
    Attribute(usize),
    /// An integer.
    Int(Dim),
    /// A float: a node of rank 0.
    Float(NodeId),
    /// A truth value: a node of rank 0.
    Bool(NodeId),
    /// A value that the program never uses.
    Uninitialized,
}

/// A tensor of the module, or a constant of its code.
struct Attribute {
    path: String,
    tensor: TensorRef,
    kind: AttributeKind,
    /// The tensor as a value of the graph, if something used it.
    view: Option<View>,
    /// The attribute that is the same tensor and comes first.
    tied: Option<usize>,
    /// The attribute that shares memory, and is another view of it.
    overlaps: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AttributeKind {
    Parameter,
    Buffer,
    Constant,
}

/// Lowers a method. Fails as [`TorchScript::load`](super::TorchScript::load) does.
pub(super) fn lower(program: &Program, request: &Request, registry: &Registry) -> Result<Lowered> {
    let unit = Unit::of(program)?;
    let environment = program.environment();
    let code = fx_script::ir::canonicalize(unit.emit_all()?, &environment.stored);
    let symbols = Symbols::new(&Table::default())?;
    let empty = schema::Graph {
        inputs: Vec::new(),
        outputs: Vec::new(),
        nodes: Vec::new(),
        tensor_values: Table::default(),
        sym_int_values: Table::default(),
        sym_bool_values: Table::default(),
        sym_float_values: Table::default(),
    };
    // Objects that the method changes are put back when the transaction ends.
    let undone = transaction::begin(MAX_MEMORY);
    let mut lowerer = Lowerer {
        program,
        unit: &unit,
        code: &code,
        environment: &environment,
        registry,
        symbols: &symbols,
        empty: &empty,
        builder: Some(Builder::new("main", registry, &symbols, &empty)),
        meanings: Vec::new(),
        names: HashMap::new(),
        dims: HashMap::new(),
        lifted: HashMap::new(),
        attributes: Vec::new(),
        scopes: Vec::new(),
        frames: Vec::new(),
        roots: Vec::new(),
        modules: Vec::new(),
        stack: None,
        calls: HashMap::new(),
        paths: HashMap::new(),
        frozen: HashMap::new(),
        live: HashMap::new(),
        inputs: Vec::new(),
        module: Vec::new(),
        source: None,
        unroll: request.unroll,
        n_loops: 0,
        steps: 0,
        report: LoweringReport::default(),
    };
    let lowered = lowerer.run(request);
    let mut report = std::mem::take(&mut lowerer.report);
    drop(lowerer);
    drop(undone);
    let module = match lowered {
        Ok(module) => Some(module),
        Err(Stop::Obstacle(obstacle)) => {
            report.obstacles.push(*obstacle);
            None
        }
        Err(Stop::Raised(message)) => return Err(err!(Check, "{message}")),
        Err(Stop::Error(error)) => return Err(error),
    };
    logging::dump(Stage::Lower, &request.method, |_| match &module {
        Some(module) => format!("{report}\n{}", module.graph()),
        None => report.to_string(),
    })?;
    Ok(Lowered { module, report, further: Vec::new() })
}

/// A method while it is lowered.
struct Lowerer<'s> {
    program: &'s Program,
    unit: &'s Unit,
    code: &'s ir::Program,
    environment: &'s Environment,
    registry: &'s Registry,
    symbols: &'s Symbols,
    empty: &'s schema::Graph,
    /// Always there, except while it builds the call of an operator.
    builder: Option<Builder<'s>>,
    /// The meanings of symbols by number.
    meanings: Vec<Meaning>,
    /// The names of the variables that symbols were, for messages.
    names: HashMap<usize, Arc<str>>,
    /// The integers that tensors of rank 0 hold, by number of the symbol.
    dims: HashMap<usize, Dim>,
    /// The symbols of known tensors that nodes use, by address.
    lifted: HashMap<usize, (TensorRef, Value)>,
    attributes: Vec<Attribute>,
    /// The sub-graphs that are being built, outermost first.
    scopes: Vec<Scope>,
    /// The values of the functions that are being called, outermost first.
    frames: Vec<Vec<Option<Value>>>,
    /// What can be reached beside the frames.
    roots: Vec<Value>,
    /// The modules whose methods are being called, outermost first.
    modules: Vec<ModuleFrame>,
    stack: Option<Arc<[ModuleFrame]>>,
    /// How often a module was called.
    calls: HashMap<String, u32>,
    /// The paths of objects by address.
    paths: HashMap<usize, String>,
    /// Storages that may be one with another, so that nothing may be written to them; with the two names.
    frozen: HashMap<usize, (String, String)>,
    /// The values that a function uses, by its address.
    live: HashMap<usize, Rc<BTreeSet<ValueId>>>,
    /// The storages of tensors that are arguments, with their names.
    inputs: Vec<(String, usize)>,
    /// The objects and containers of the module with their contents, before the method was called.
    module: Vec<(CellRef, Vec<Value>)>,
    source: Option<SourceLoc>,
    unroll: usize,
    /// How many times the types of what a loop carries were begun.
    n_loops: usize,
    steps: usize,
    report: LoweringReport,
}

impl<'s> Lowerer<'s> {
    fn builder(&mut self) -> &mut Builder<'s> {
        self.builder.as_mut().expect("the builder is away only while it builds a call")
    }

    fn obstacle(&self, reason: impl Into<String>) -> Stop {
        self.obstacle_with(reason, None, None)
    }

    fn obstacle_with(
        &self,
        reason: impl Into<String>,
        names: Option<(String, String)>,
        help: Option<&str>,
    ) -> Stop {
        let help = help.map(str::to_owned);
        Stop::Obstacle(Box::new(Obstacle { source: self.source.clone(), reason: reason.into(), names, help }))
    }

    /// Turns a failure of the builder into an obstacle.
    fn attempt<T>(&self, result: Attempt<T>, what: &str) -> Step<T> {
        result.map_err(|failure| match failure {
            Failure::Missing(row) => self.obstacle_with(
                format!("{what} needs the operation {row:?}, which fx does not have"),
                None,
                Some("give it with `TorchScript::registry`"),
            ),
            Failure::Poisoned => self.obstacle(format!("the arguments of {what} are not known")),
            Failure::Error(error) => {
                self.obstacle_with(format!("{what}: {}", error.message()), None, error.advice())
            }
        })
    }

    /// Adds a call of a row to the graph.
    fn row(&mut self, row: &str, args: impl IntoIterator<Item = crate::Arg>) -> Step<NodeId> {
        let made = self.builder().call(row, args);
        self.attempt(made, row)
    }

    /// Adds a call of a row with keyword arguments to the graph.
    fn row_with(&mut self, row: &str, args: Vec<crate::Arg>, kwargs: &[(&str, crate::Arg)]) -> Step<NodeId> {
        let op = self.builder().row(row);
        let made = op.and_then(|op| self.builder().emit(op, args, kwargs));
        self.attempt(made, row)
    }

    fn spend(&mut self) -> Step<()> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(self.obstacle(format!("the method takes more than {MAX_STEPS} steps")));
        }
        Ok(())
    }

    /// Makes a symbol.
    fn symbol(&mut self, ty: Type, meaning: Meaning) -> Value {
        self.meanings.push(meaning);
        Value::Symbol(Arc::new(Symbol { number: self.meanings.len() - 1, ty }))
    }

    fn meaning(&self, symbol: &Symbol) -> &Meaning {
        &self.meanings[symbol.number]
    }

    /// Makes a tensor that shares nothing.
    fn fresh(&mut self, node: NodeId) -> Value {
        let view = self.builder().fresh(node, Origin::Local);
        self.symbol(Type::Tensor, Meaning::Tensor(view))
    }

    fn tensor_type(&mut self, node: NodeId) -> Step<TensorType> {
        self.builder().tensor_type(node).map_err(|error| self.obstacle(error.message()))
    }

    /// Returns the name of what a value was in the program.
    fn name_of(&self, value: &Value) -> String {
        match value {
            Value::Symbol(symbol) => match (self.names.get(&symbol.number), self.meaning(symbol)) {
                (Some(name), _) => format!("%{name}"),
                (None, Meaning::Attribute(at)) => self.attributes[*at].path.clone(),
                (None, Meaning::Tensor(view)) => self.origin_name(view.storage),
                _ => symbol.type_name().to_owned(),
            },
            other => other.type_name().to_owned(),
        }
    }

    fn origin_name(&self, storage: usize) -> String {
        let builder = self.builder.as_ref().expect("the builder is away only while it builds a call");
        match &builder.storages[storage].origin {
            Origin::Buffer(name) | Origin::Fixed(name) => name.clone(),
            Origin::Input | Origin::Resizable => "an argument".to_owned(),
            Origin::Local => "a tensor".to_owned(),
        }
    }

    /// Calls a function by its qualified name.
    fn function(&mut self, name: &str, args: Vec<Value>) -> Step<Value> {
        let code = self.code;
        let Some(function) = code.get(name) else {
            return Err(err!(Unresolved, "there is no function {name:?}").into());
        };
        if self.frames.len() >= MAX_DEPTH {
            return Err(self.obstacle(format!("calls are nested deeper than {MAX_DEPTH}")));
        }
        if args.len() != function.body.params.len() {
            let expected = function.body.params.len();
            return Err(err!(Argument, "{name} takes {expected} arguments, got {}", args.len()).into());
        }
        let entered = self.enter_module(args.first());
        let mut frame = vec![None; function.values.len()];
        for (&param, arg) in function.body.params.iter().zip(args) {
            frame[param.index()] = Some(arg);
        }
        self.frames.push(frame);
        let results = self.region(function, &function.body)?;
        self.frames.pop();
        if entered {
            self.modules.pop();
            self.stack = Some(self.modules.clone().into());
        }
        Ok(results.into_iter().next().unwrap_or_default())
    }

    /// Notes that a method of a module is called; returns whether its module is a new one.
    fn enter_module(&mut self, object: Option<&Value>) -> bool {
        let Some(Value::Object(object)) = object else { return false };
        let Some(path) = self.paths.get(&(Arc::as_ptr(object) as usize)).filter(|path| !path.is_empty())
        else {
            return false;
        };
        if self.modules.last().is_some_and(|frame| *frame.path == **path) {
            return false;
        }
        let count = self.calls.entry(path.clone()).or_default();
        let type_name = object.class.name.rsplit('.').next().unwrap_or_default();
        let frame = ModuleFrame {
            path: path.as_str().into(),
            type_name: type_name.into(),
            call: *count,
            source: self.source.clone(),
        };
        *count += 1;
        self.modules.push(frame);
        self.stack = Some(self.modules.clone().into());
        true
    }

    fn frame(&mut self) -> &mut Vec<Option<Value>> {
        self.frames.last_mut().expect("a function is being called")
    }

    fn value(&self, id: ValueId) -> Value {
        let frame = self.frames.last().expect("a function is being called");
        frame[id.index()].clone().expect("a verified function defines values before their use")
    }

    /// Carries out a region and returns its results; those that nothing uses may be missing.
    fn region(&mut self, function: &'s Function, region: &'s Region) -> Step<Vec<Value>> {
        for operation in &region.operations {
            self.operation(function, operation)?;
        }
        Ok(region.results.iter().map(|&id| self.value(id)).collect())
    }

    fn define(&mut self, function: &Function, operation: &Operation, values: Vec<Value>) -> Step<()> {
        if values.len() != operation.results.len() {
            let (expected, got) = (operation.results.len(), values.len());
            return Err(Stop::Raised(format!("expected {expected} values to unpack, got {got}")));
        }
        for (&id, value) in operation.results.iter().zip(values) {
            if let (Value::Symbol(symbol), Some(name)) = (&value, &function.values[id.index()].name) {
                self.names.entry(symbol.number).or_insert_with(|| name.clone());
            }
            self.frame()[id.index()] = Some(value);
        }
        Ok(())
    }

    /// Says what the nodes to come are made of.
    fn describe(&mut self, function: &Function, operation: &Operation, base: &str) {
        let mut meta = NodeMeta::default();
        meta.source.clone_from(&self.source);
        meta.stack = self.stack.clone().filter(|stack| !stack.is_empty());
        let name = operation.results.first().and_then(|id| function.values[id.index()].name.clone());
        let hint = name.as_deref().unwrap_or(base).trim_end_matches('_');
        self.builder().describe(meta, hint);
    }

    fn operation(&mut self, function: &'s Function, operation: &'s Operation) -> Step<()> {
        self.spend()?;
        if operation.source.is_some() {
            self.source.clone_from(&operation.source);
        }
        let args: Vec<Value> = operation.operands.iter().map(|&id| self.value(id)).collect();
        let value = match &operation.instruction {
            Instruction::Constant(constant) => self.constant(constant)?,
            Instruction::Uninitialized => {
                let ty = function.values[operation.results[0].index()].ty.clone();
                self.symbol(ty, Meaning::Uninitialized)
            }
            Instruction::Cast => args[0].clone(),
            Instruction::If => return self.branches(function, operation),
            Instruction::Loop => return self.repeat(function, operation),
            Instruction::Fork => {
                let depth = (self.frames.len(), self.modules.len());
                let result = match self.region(function, &operation.regions[0]) {
                    Ok(mut results) => Ok(results.remove(0)),
                    Err(Stop::Raised(message)) => {
                        self.frames.truncate(depth.0);
                        self.modules.truncate(depth.1);
                        Err(err!(Check, "{message}"))
                    }
                    Err(stop) => return Err(stop),
                };
                Value::Future(Arc::new(Future { result }))
            }
            Instruction::Call(name) => {
                let base = name.split("::").nth(1).unwrap_or(name).split('.').next().unwrap_or(name);
                self.describe(function, operation, base);
                self.operator(name, &args)?
            }
            Instruction::Function(name) => self.function(name, args)?,
            Instruction::Method(name) => {
                let Value::Object(object) = &args[0] else {
                    return Err(
                        self.obstacle(format!("the object whose method {name:?} is called is not known"))
                    );
                };
                let qualified = format!("{}.{name}", object.class.name);
                self.function(&qualified, args)?
            }
            Instruction::New(name) => match self.environment.classes.get(name) {
                Some(class) => Value::Object(Object::new(Arc::clone(class))),
                None => return Err(err!(Unresolved, "there is no class {name:?}").into()),
            },
            Instruction::GetAttr(name) => match &args[0] {
                Value::Object(object) => object.get(name)?,
                other => return Err(self.unknown("an object", other)),
            },
            Instruction::SetAttr(name) => {
                let Value::Object(object) = &args[0] else { return Err(self.unknown("an object", &args[0])) };
                object.set(name, args[1].clone())?;
                return Ok(());
            }
            Instruction::Tuple => Value::tuple(args),
            Instruction::NamedTuple(name) => match self.environment.named_tuples.get(name) {
                Some(named) => {
                    Value::Tuple(Arc::new(Tuple { items: args.into(), named: Some(Arc::clone(named)) }))
                }
                None => return Err(err!(Unresolved, "there is no named tuple {name:?}").into()),
            },
            Instruction::List => Value::list(args),
            Instruction::Dict => {
                if args.iter().step_by(2).any(|key| matches!(key, Value::Symbol(_))) {
                    return Err(self.obstacle("a key of a dictionary is not known"));
                }
                let mut pairs = Vec::with_capacity(args.len() / 2);
                let mut args = args.into_iter();
                while let (Some(key), Some(value)) = (args.next(), args.next()) {
                    pairs.push((key, value));
                }
                Value::dict(pairs).map_err(|error| Stop::Raised(error.message().to_owned()))?
            }
            Instruction::Item(at) => {
                let Value::Tuple(tuple) = &args[0] else { return Err(self.unknown("a tuple", &args[0])) };
                let index = if *at < 0 { *at + tuple.items.len() as i64 } else { *at };
                let item = usize::try_from(index).ok().and_then(|index| tuple.items.get(index));
                item.cloned().ok_or_else(|| Stop::Raised("tuple index out of range".to_owned()))?
            }
            Instruction::Unpack => {
                let items = args[0].to_items().map_err(|_| self.unknown("a tuple or list", &args[0]))?;
                if items.len() != operation.results.len() {
                    let kind = if matches!(args[0], Value::List(_)) { "list" } else { "tuple" };
                    let (expected, got) = (operation.results.len(), items.len());
                    return Err(Stop::Raised(format!(
                        "Expected {expected} elements in a {kind} but found {got}"
                    )));
                }
                return self.define(function, operation, items);
            }
            Instruction::IsInstance(types) => {
                Value::Bool(types.iter().any(|ty| vm::is_instance(&args[0], ty)))
            }
        };
        match operation.results.len() {
            0 => Ok(()),
            1 => self.define(function, operation, vec![value]),
            _ => {
                let items = value.to_items().map_err(|_| self.unknown("several results", &value))?;
                self.define(function, operation, items)
            }
        }
    }

    fn unknown(&self, expected: &str, got: &Value) -> Stop {
        self.obstacle(format!("expected {expected} that is known, got {}", got.type_name()))
    }

    fn constant(&mut self, constant: &Constant) -> Step<Value> {
        Ok(match constant {
            Constant::None => Value::None,
            Constant::Bool(x) => Value::Bool(*x),
            Constant::Int(x) => Value::Int(*x),
            Constant::Float(x) => Value::Float(*x),
            Constant::Complex(re, im) => Value::complex(*re, *im),
            Constant::Str(text) => Value::str(&**text),
            Constant::Device(name) => Value::Device(Arc::new(Device::parse(name)?)),
            Constant::Enum(class, name) => match self.environment.enums.get(&(class.clone(), name.clone())) {
                Some(member) => Value::Enum(Arc::clone(member)),
                None => {
                    return Err(err!(Unresolved, "the enumeration {class} has no member {name}").into());
                }
            },
            Constant::Stored(name) => match self.environment.stored.get(name) {
                Some(value) => value.clone(),
                None => return Err(err!(Unresolved, "there is no constant CONSTANTS.{name}").into()),
            },
        })
    }
}
