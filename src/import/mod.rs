//! Programs of other systems as graph modules: [`pt2`] reads a file of `torch.export.save`.
//!
//! `archive` is the zip file, `schema` its JSON, `payload` its tensors; `build` makes the graph, node after
//! node, `call` is a call of an operator, the table in `aten` maps operators to rows, with the help of `adapt`,
//! `compose`, `linalg`, `normalization` and `random`, `control` imports what runs sub-graphs, `alias` turns
//! in-place code into values, `complex` and `fft` complex numbers into pairs of reals; `symbols`, `pytree` and
//! `metadata` read the small languages inside the JSON. [`torchscript_archive`] opens programs of
//! `torch.jit.save`. Whatever an archive holds, reading it ends in a module or an error, in bounded time and
//! memory.

mod adapt;
pub(crate) mod alias;
mod archive;
mod aten;
mod autocast;
mod backward;
mod build;
mod call;
mod complex;
mod compose;
mod control;
mod fft;
mod linalg;
mod loops;
pub(crate) mod metadata;
mod normalization;
pub(crate) mod out;
mod payload;
pub(crate) mod pytree;
mod random;
mod row_call;
mod schema;
pub(crate) mod single;
pub(crate) mod symbols;
mod torchscript;
mod transformer;
mod unrolled_rnn;
mod views;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::alias::Origin;
use self::archive::Archive;
pub(crate) use self::aten::missing_row;
use self::build::{Builder, Entry, Failure, input_name, shorten};
use self::payload::{Payloads, Place};
pub(crate) use self::row_call::RowCall;
use self::schema::{Argument, ExportedProgram, InputSpec, OutputSpec, SymInt, SymIntArgument};
use self::symbols::Symbols;
pub use self::torchscript::{
    Lowered, LoweringReport, Obstacle, TorchScript, torchscript, torchscript_archive,
    torchscript_archive_from_bytes, torchscript_from_bytes,
};
use crate::{
    Arg, Attribute, Buffer, DType, Error, GraphModule, NodeId, Parameter, Registry, Result, Target, Type,
    TypeTree, bail, err,
};
pub(crate) use complex::makes_complex;

/// PyTorch's number for the strided layout.
const STRIDED: u32 = 7;

/// Reads a program that `torch.export.save` wrote.
///
/// Parameters, buffers and constants have their PyTorch names, and tied ones share one tensor. Inputs and
/// outputs have the structure of the Python function; dynamic sizes are symbols with ranges. In-place code is
/// turned into values: the graph computes the same without a write, and buffers that the program changes are
/// updated when a call has succeeded. Nodes know their Python line and the modules that they were called in.
/// A complex tensor is one of reals with an additional last axis of 2, as `torch.view_as_real` gives it.
///
/// The file is mapped into memory and must not be changed while it is read. Fails with everything that is
/// wrong in one error. It lists operators without a row with the lines where they occur; supply rows with
/// [`Pt2::registry`].
///
/// ```no_run
/// let gm = fx::import::pt2("model.pt2")?;
/// println!("{}", gm.graph());
/// # Ok::<(), fx::Error>(())
/// ```
pub fn pt2(path: impl AsRef<Path>) -> Result<GraphModule> {
    Pt2::new(path).load()
}

/// How to read a program that `torch.export.save` wrote; see [`pt2`].
#[derive(Clone, Debug)]
#[must_use = "call `load` to read the program"]
pub struct Pt2 {
    source: Source,
    registry: Option<Registry>,
    hierarchy: bool,
    model: Option<String>,
}

#[derive(Clone)]
enum Source {
    File(PathBuf),
    Bytes(Vec<u8>),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
        }
    }
}

impl Pt2 {
    /// Reads from a file.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Pt2::from(Source::File(path.as_ref().to_owned()))
    }

    /// Reads an archive that is in memory.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Pt2::from(Source::Bytes(bytes.into()))
    }

    /// Uses these operations instead of fx's own: `fx::registry().with(MINE)?`. The operator
    /// `torch.ops.mylib.norm` is answered by a row called `mylib_norm` or `norm`.
    pub fn registry(mut self, registry: &Registry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// Restores the hierarchy of modules, as [`GraphModule::unflatten`] does.
    pub fn hierarchy(mut self, restore: bool) -> Self {
        self.hierarchy = restore;
        self
    }

    /// Reads the program of this name, where the archive holds several.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Reads the program. Fails as [`pt2`] does.
    pub fn load(self) -> Result<GraphModule> {
        let archive = match self.source {
            Source::File(path) => Archive::open(&path)?,
            Source::Bytes(bytes) => Archive::from_bytes(bytes)?,
        };
        let model = choose(&archive, self.model)?;
        let member = format!("models/{model}.json");
        let bytes = archive.read(&member)?;
        let version = archive.parse::<schema::Versioned>(&member, &bytes)?.schema_version;
        if version.major != schema::MAJOR {
            return Err(err!(
                Load,
                "{}: expected schema version {}, got {}.{}",
                archive.origin(),
                schema::MAJOR,
                version.major,
                version.minor
            )
            .help("export the program with PyTorch 2.15, or use a newer fx"));
        }
        let program: ExportedProgram = archive.parse(&member, &bytes)?;
        drop(bytes);
        let registry = self.registry.unwrap_or_else(crate::registry);
        let mut payloads = Payloads::open(&archive, &model)?;
        let in_archive = |error: Error| match error.related() {
            [] => {
                let mut located =
                    Error::new(error.kind(), format!("{}: {}", archive.origin(), error.message()));
                if let Some(help) = error.advice() {
                    located = located.help(help);
                }
                match error.source_loc() {
                    Some(source) => located.at(source.clone()),
                    None => located,
                }
            }
            _ => error,
        };
        let built = build(&model, &program, &registry, &payloads).map_err(in_archive)?;
        let mut gm = GraphModule::new(&model, built.graph);
        for attribute in built.attributes {
            let tensor = payloads.get(&archive, &attribute.name)?;
            let ty: TypeTree = tensor.ty()?.into();
            if ty.tensor() != Some(&attribute.ty) {
                bail!(
                    Load,
                    "{}: {:?} is stored as {ty}, but the program takes {}",
                    archive.origin(),
                    attribute.path,
                    attribute.ty
                );
            }
            let value = match attribute.kind {
                Kind::Parameter => Attribute::Parameter(Parameter::new(tensor)),
                Kind::Buffer { persistent: true } => Attribute::Buffer(Buffer::new(tensor)),
                Kind::Buffer { persistent: false } => Attribute::Buffer(Buffer::transient(tensor)),
                Kind::Constant => Attribute::Constant(tensor),
            };
            gm.set_attribute(&attribute.path, value)?;
        }
        if let Some(violation) = gm.lint().first() {
            return Err(err!(Load, "{}: the program is not sound: {violation}", archive.origin())
                .help("the archive is damaged, or fx reads it wrongly; please report it"));
        }
        if self.hierarchy {
            gm.unflatten()?;
        }
        Ok(gm)
    }
}

impl From<Source> for Pt2 {
    fn from(source: Source) -> Self {
        Pt2 { source, registry: None, hierarchy: false, model: None }
    }
}

fn choose(archive: &Archive, wanted: Option<String>) -> Result<String> {
    let models = archive.models();
    match wanted {
        Some(name) if models.contains(&name) => Ok(name),
        Some(name) => Err(err!(Load, "{} has no program {name:?}", archive.origin())
            .help(crate::names::suggest(&name, models.iter().map(String::as_str)))),
        None => match models.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(err!(Load, "{} holds no program: there is no models/NAME.json", archive.origin())
                .help("write it with `torch.export.save(program, path)`")),
            several if several.iter().any(|name| name == "model") => Ok("model".to_owned()),
            several => Err(err!(Load, "{} holds {} programs", archive.origin(), several.len())
                .help(format!("choose one with `Pt2::model`: {}", several.join(", ")))),
        },
    }
}

/// Returns the dtype that PyTorch numbers so.
fn dtype(code: u32) -> Result<DType> {
    Ok(match code {
        1 => DType::U8,
        2 => DType::I8,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        12 => DType::Bool,
        13 => DType::BF16,
        3 => return Err(unsupported("int16").help("cast to `torch.int32` before exporting")),
        28 => return Err(unsupported("uint16").help("cast to `torch.int32` before exporting")),
        29 | 30 => return Err(unsupported("uint32 or uint64").help("cast to `torch.int64` before exporting")),
        9..=11 => {
            return Err(unsupported("complex")
                .help("compute with real and imaginary parts, or `run_decompositions()` before saving"));
        }
        _ => bail!(DType, "PyTorch's dtype {code} is not supported"),
    })
}

fn unsupported(name: &str) -> Error {
    err!(DType, "numbers of PyTorch's dtype {name} are not supported")
}

/// A graph and what it reads.
struct Built {
    graph: crate::Graph,
    attributes: Vec<Attr>,
}

/// A tensor that the program reads by name.
struct Attr {
    path: String,
    /// The name in the archive.
    name: String,
    /// Where it lies in the archive.
    place: Option<Place>,
    kind: Kind,
    ty: crate::TensorType,
}

#[derive(Clone, Copy)]
enum Kind {
    Parameter,
    Buffer { persistent: bool },
    Constant,
}

/// Builds the graph of a program.
///
/// PyTorch exports sizes of 2 and more where it was told nothing else, and runs the program with sizes of 0
/// and 1, too. So do we, as far as the types of all nodes are known for these.
fn build(name: &str, program: &ExportedProgram, registry: &Registry, payloads: &Payloads) -> Result<Built> {
    let mut symbols = Symbols::new(&program.range_constraints)?;
    let assumed = symbols.assumed();
    if assumed.is_empty() {
        return build_with(name, program, registry, payloads, &symbols);
    }
    let strict = symbols.clone();
    symbols.relax(&assumed);
    if let Ok(built) = build_with(name, program, registry, payloads, &symbols) {
        return Ok(built);
    }
    let built = build_with(name, program, registry, payloads, &strict)?;
    // Some of the symbols may be any size; with one that is all of them, this was tried.
    if assumed.len() == 1 {
        return Ok(built);
    }
    let (mut best, mut relaxed) = (built, strict);
    for symbol in assumed {
        let mut more = relaxed.clone();
        more.relax(&[symbol]);
        if let Ok(built) = build_with(name, program, registry, payloads, &more) {
            (best, relaxed) = (built, more);
        }
    }
    Ok(best)
}

fn build_with(
    name: &str,
    program: &ExportedProgram,
    registry: &Registry,
    payloads: &Payloads,
    symbols: &Symbols,
) -> Result<Built> {
    let module = &program.graph_module;
    let mut builder = Builder::new("main", registry, symbols, &module.graph);
    let mut attributes = inputs(&mut builder, module, payloads)?;
    builder.run(&module.graph.nodes)?;
    let outputs = outputs(&mut builder, module, &mut attributes);
    let output = match outputs {
        Ok(output) => Some(output),
        Err(Failure::Poisoned) => None,
        Err(Failure::Missing(row)) => bail!(Unresolved, "the row {row:?} is missing, which outputs need"),
        Err(Failure::Error(error)) => {
            builder.problems.error(error);
            None
        }
    };
    std::mem::take(&mut builder.problems).finish(registry)?;
    let mut graph = builder.graph;
    let output = output.ok_or_else(|| err!(Load, "the outputs of {name:?} cannot be computed"))?;
    graph.set_output(output)?;
    graph.eliminate_dead_code(|_| true);
    Ok(Built { graph, attributes })
}

/// The structure of inputs and outputs, and the names of the arguments.
struct Calling {
    args: Vec<(String, Arg<()>)>,
    output: Option<Arg<()>>,
}

fn calling(module: &schema::GraphModule) -> Result<Option<Calling>> {
    let root = module.module_call_graph.iter().find(|call| call.fqn.is_empty());
    let Some(signature) = root.and_then(|root| root.signature.as_ref()) else { return Ok(None) };
    let (args, kwargs) = match pytree::parse(&signature.in_spec)? {
        Arg::Tuple(items) => match <[Arg<()>; 2]>::try_from(items.into_vec()) {
            Ok([Arg::Tuple(args) | Arg::List(args), Arg::Dict(kwargs)]) => (args, kwargs),
            _ => bail!(Load, "expected positional and keyword arguments in the tree spec of the inputs"),
        },
        _ => bail!(Load, "expected positional and keyword arguments in the tree spec of the inputs"),
    };
    let names = signature.forward_arg_names.as_deref().unwrap_or_default();
    // A function with `*args` has fewer names than arguments; then positions say more than names.
    let known = names.len() == args.len() + kwargs.len();
    let mut taken = HashSet::new();
    let mut named = Vec::new();
    let positional = args.iter().enumerate().map(|(i, tree)| match names.get(i).filter(|_| known) {
        Some(name) => (name.clone(), tree.clone()),
        None => (format!("args_{i}"), tree.clone()),
    });
    for (name, tree) in positional.chain(kwargs.iter().map(|(key, tree)| (key.to_string(), tree.clone()))) {
        if !taken.insert(name.clone()) {
            bail!(Load, "two arguments are called {:?}", shorten(&name));
        }
        named.push((name, tree));
    }
    Ok(Some(Calling { args: named, output: Some(pytree::parse(&signature.out_spec)?) }))
}

/// Makes placeholders and reads of attributes.
fn inputs<'a>(
    builder: &mut Builder<'a>,
    module: &'a schema::GraphModule,
    payloads: &Payloads,
) -> Result<Vec<Attr>> {
    let graph = &module.graph;
    let specs = &module.signature.input_specs;
    if specs.len() != graph.inputs.len() {
        bail!(Load, "the signature has {} inputs, the graph {}", specs.len(), graph.inputs.len());
    }
    // What the caller gives: names of the archive, or literals.
    let mut given: Vec<Result<&'a str, Arg<()>>> = Vec::new();
    let mut attributes: Vec<Attr> = Vec::new();
    let mut names: HashSet<&'a str> = HashSet::new();
    let mut reads: Vec<(&'a str, usize)> = Vec::new();
    for (spec, input) in specs.iter().zip(&graph.inputs) {
        let (name, path, kind) = match spec {
            InputSpec::Parameter { arg, parameter_name } => (&arg.name, parameter_name, Kind::Parameter),
            InputSpec::Buffer { arg, buffer_name, persistent } => {
                (&arg.name, buffer_name, Kind::Buffer { persistent: *persistent })
            }
            InputSpec::TensorConstant { arg, tensor_constant_name } => {
                (&arg.name, tensor_constant_name, Kind::Constant)
            }
            InputSpec::UserInput { arg } => {
                given.push(match input_name(arg) {
                    Some(name) => Ok(name),
                    None => Err(literal(arg)?),
                });
                continue;
            }
            InputSpec::ConstantInput { value, .. } => {
                given.push(Err(literal(value)?));
                continue;
            }
            InputSpec::CustomObj { custom_obj_name } => {
                return Err(err!(Load, "the custom object {:?} needs Python", shorten(custom_obj_name))
                    .help("turn it into tensors before exporting"));
            }
            // A token only keeps the order of effects, which the order of nodes does here.
            InputSpec::Token {} => continue,
        };
        if input_name(input) != Some(name) {
            bail!(Load, "the signature and the graph disagree on the input {:?}", shorten(name));
        }
        let ty = builder
            .declared(name)?
            .ok_or_else(|| err!(Load, "the type of the input {:?} is missing", shorten(name)))?;
        if !names.insert(path) {
            bail!(Load, "two inputs are {:?}", shorten(path));
        }
        reads.push((name, attributes.len()));
        let place = payloads.place(path);
        attributes.push(Attr { path: String::new(), name: path.clone(), place, kind, ty });
    }
    name_paths(&mut attributes)?;
    placeholders(builder, module, given)?;
    let mut buffers: HashMap<&Place, alias::View> = HashMap::new();
    for (name, place) in reads {
        let attribute = &attributes[place];
        // Two buffers that are one tensor are one storage.
        let is_buffer = matches!(attribute.kind, Kind::Buffer { .. });
        let memory = attribute.place.as_ref().filter(|_| is_buffer);
        if let Some(view) = memory.and_then(|memory| buffers.get(memory)) {
            let view = view.clone();
            builder.define(name, Entry::Tensor(view))?;
            continue;
        }
        let node = builder.get_attr(&attribute.path, attribute.ty.clone())?;
        let origin = match attribute.kind {
            // A parameter that the program writes to is a buffer.
            Kind::Buffer { .. } | Kind::Parameter => Origin::Buffer(attribute.path.clone()),
            Kind::Constant => Origin::Fixed(attribute.path.clone()),
        };
        let view = builder.fresh(node, origin);
        if let Some(memory) = memory {
            buffers.insert(memory, view.clone());
        }
        builder.define(name, Entry::Tensor(view))?;
    }
    Ok(attributes)
}

fn placeholders<'a>(
    builder: &mut Builder<'a>,
    module: &'a schema::GraphModule,
    given: Vec<Result<&'a str, Arg<()>>>,
) -> Result<()> {
    let args = match calling(module)? {
        Some(calling) => calling.args,
        // Without a tree spec the arguments are flat.
        None => given
            .iter()
            .enumerate()
            .map(|(i, given)| {
                (
                    given.as_ref().map_or_else(|_| format!("args_{i}"), |name| (*name).to_owned()),
                    Arg::Leaf(()),
                )
            })
            .collect(),
    };
    let n: usize = args.iter().map(|(_, tree)| tree.leaves().len()).sum();
    if n != given.len() {
        bail!(Load, "the tree spec has {n} inputs, the signature {}", given.len());
    }
    let mut given = given.into_iter();
    for (name, tree) in args {
        let mut names = Vec::new();
        let structure = tree.try_flat_map(&mut |()| {
            Ok(match given.next() {
                Some(Ok(name)) => {
                    names.push(name);
                    Arg::Leaf(())
                }
                Some(Err(literal)) => literal,
                None => bail!(Structure, "too few inputs"),
            })
        })?;
        let tree = builder.graph.structured_input(&name, &structure)?;
        let nodes: Vec<NodeId> = tree.leaves().into_iter().copied().collect();
        for (name, node) in names.into_iter().zip(nodes) {
            input(builder, module, name, node)?;
        }
    }
    Ok(())
}

/// Gives a placeholder its type and its name in the archive.
fn input<'a>(
    builder: &mut Builder<'a>,
    module: &'a schema::GraphModule,
    name: &'a str,
    node: NodeId,
) -> Result<()> {
    if let Some(ty) = builder.declared(name)? {
        builder.declare(node, ty.into())?;
        let view = builder.fresh(node, Origin::Input);
        return builder.define(name, Entry::Tensor(view));
    }
    let graph = &module.graph;
    let (ty, value): (TypeTree, Arg) = if let Some(number) = graph.sym_int_values.get(name) {
        let dim = match number {
            SymInt::AsInt(n) => crate::Dim::new(*n),
            SymInt::AsExpr(expr) => builder.symbols.dim(&expr.expr_str)?,
        };
        (Arg::dim(dim.clone()), Arg::dim(dim))
    } else if graph.sym_float_values.contains_key(name) {
        (Arg::Leaf(Type::Float), Arg::Leaf(node))
    } else if graph.sym_bool_values.contains_key(name) {
        (Arg::Leaf(Type::Bool), Arg::Leaf(node))
    } else {
        bail!(Load, "the type of the input {:?} is missing", shorten(name));
    };
    builder.declare(node, ty)?;
    builder.define(name, Entry::Value(value))
}

/// Returns an argument that is no value of the program.
fn literal(argument: &Argument) -> Result<Arg<()>> {
    Ok(match argument {
        Argument::AsNone(_) => Arg::None,
        Argument::AsInt(n) | Argument::AsSymInt(SymIntArgument::AsInt(n)) => Arg::Int(*n),
        Argument::AsFloat(x) => Arg::Float(x.0),
        Argument::AsBool(x) => Arg::Bool(*x),
        Argument::AsString(text) => Arg::str(text.as_str()),
        _ => bail!(Load, "expected a tensor or a literal as an input"),
    })
}

/// Gives buffers that are the same tensor the same update; those that only overlap cannot be updated.
fn share_updates(attributes: &[Attr], updates: &mut [Option<NodeId>]) -> Result<()> {
    for i in 0..attributes.len() {
        let (Some(update), Some(place)) = (updates[i], &attributes[i].place) else { continue };
        for (j, other) in attributes.iter().enumerate().filter(|(j, _)| *j != i) {
            match &other.place {
                Some(other_place) if other_place == place => updates[j] = Some(update),
                Some(other_place) if other_place.overlaps(place) => {
                    let (a, b) = (shorten(&attributes[i].name), shorten(&other.name));
                    return Err(err!(Load, "the program updates {a:?}, which shares memory with {b:?}")
                        .help(
                            "give each buffer memory of its own: `self.register_buffer(name, x.clone())`",
                        ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns a dotted path in which what no identifier has is an underscore.
fn plain(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    path.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// Gives attributes their paths: their names, where what no identifier has, as keys of a `ModuleDict` may, is
/// an underscore.
fn name_paths(attributes: &mut [Attr]) -> Result<()> {
    let mut taken: HashSet<String> = HashSet::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    // Names that stay as they are come first, so that no other takes their place.
    let mut order: Vec<usize> = (0..attributes.len()).collect();
    order.sort_by_key(|&i| plain(&attributes[i].name) != attributes[i].name);
    for i in order {
        let name = &attributes[i].name;
        if name.len() > 4096 || name.split('.').any(str::is_empty) {
            return Err(err!(
                Load,
                "the name {:?} of a parameter or buffer is not a dotted path",
                shorten(name)
            )
            .help("use names of letters, digits and underscores, separated by dots"));
        }
        let plain = plain(name);
        let number = numbers.entry(plain.clone()).or_default();
        let mut path = plain.clone();
        while taken.contains(&path) {
            *number += 1;
            path = format!("{plain}_{number}");
        }
        taken.insert(path.clone());
        attributes[i].path = path;
    }
    Ok(())
}

/// Returns what the program returns, and adds the updates of buffers.
fn outputs<'a>(
    builder: &mut Builder<'a>,
    module: &'a schema::GraphModule,
    attributes: &mut [Attr],
) -> Result<Arg, Failure> {
    let graph = &module.graph;
    let specs = &module.signature.output_specs;
    if specs.len() != graph.outputs.len() {
        let (a, b) = (specs.len(), graph.outputs.len());
        return Err(err!(Load, "the signature has {a} outputs, the graph {b}").into());
    }
    // The updates by name, in the order of the buffers.
    let mut updates: Vec<Option<NodeId>> = attributes.iter().map(|_| None).collect();
    for i in 0..builder.storages.len() {
        let storage = &builder.storages[i];
        if let (Origin::Buffer(path), true) = (&storage.origin, storage.version > 0) {
            let place = attributes.iter().position(|attribute| attribute.path == *path);
            if let Some(place) = place {
                updates[place] = Some(storage.value);
            }
        }
    }
    let mut values = Vec::new();
    for spec in specs {
        match spec {
            OutputSpec::UserOutput { arg } => {
                let value = builder.argument(arg)?;
                values.push(builder.lower(&value)?);
            }
            OutputSpec::LossOutput { arg } => values.push(builder.value_named(&arg.name)?),
            OutputSpec::BufferMutation { arg, buffer_name }
            | OutputSpec::ParameterMutation { arg, parameter_name: buffer_name } => {
                let place =
                    attributes.iter().position(|attribute| attribute.name == *buffer_name).ok_or_else(
                        || err!(Load, "an output updates {:?}, which is no buffer", shorten(buffer_name)),
                    )?;
                match builder.value_named(&arg.name)? {
                    Arg::Leaf(node) => updates[place] = Some(node),
                    _ => {
                        return Err(err!(Load, "an update of {:?} is no tensor", shorten(buffer_name)).into());
                    }
                }
            }
            // The caller's tensors are values: that the program writes to them cannot be seen.
            OutputSpec::UserInputMutation { .. } => {}
            OutputSpec::Token {} => {}
            OutputSpec::GradientToParameter { parameter_name: name }
            | OutputSpec::GradientToUserInput { user_input_name: name } => {
                return Err(err!(Load, "the program trains {:?}, which cannot be imported", shorten(name))
                    .help("export the model for inference")
                    .into());
            }
        }
    }
    share_updates(attributes, &mut updates)?;
    for (attribute, update) in attributes.iter_mut().zip(updates) {
        let Some(node) = update else { continue };
        let reads_itself =
            matches!(builder.graph.node(node)?.target(), Target::GetAttr(path) if **path == *attribute.path);
        if reads_itself {
            continue;
        }
        match attribute.kind {
            Kind::Buffer { .. } => {}
            Kind::Parameter => attribute.kind = Kind::Buffer { persistent: true },
            Kind::Constant => {
                return Err(err!(Load, "the program updates {:?}, which is no buffer", attribute.path).into());
            }
        }
        let args = [Arg::Str(Arc::from(attribute.path.as_str())), Arg::Leaf(node)];
        builder.update(args)?;
    }
    let structure = calling(module)?.and_then(|calling| calling.output);
    let Some(structure) = structure.filter(|tree| tree.leaves().len() == values.len()) else {
        if calling(module)?.is_some() {
            return Err(
                err!(Load, "the tree spec of the outputs does not fit the {} outputs", values.len()).into()
            );
        }
        return Ok(if values.len() == 1 { values.remove(0) } else { Arg::tuple(values) });
    };
    let mut values = values.into_iter();
    Ok(structure.try_flat_map(&mut |()| values.next().ok_or_else(|| err!(Structure, "too few outputs")))?)
}
