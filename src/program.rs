//! Programs in files, as the command line takes them: fx text, saved modules, exported PyTorch programs, and
//! TorchScript.

use std::fs;
use std::path::Path;

pub use fx_ops::engine::CallMemory;

pub use crate::script::program::{
    Evaluation, Lowering, ScriptRun, evaluate, lacking_operators, profile, run_torchscript,
};

use crate::analysis::Sizes;
use crate::check::{self, Engine};
use crate::view::Page;
use crate::weights::Weights;
use crate::zip_file::ZipFile;
use crate::{
    Arg, Attribute, Buffer, Graph, GraphModule, Parameter, Passes, Result, Target, Tensor, bail, err, import,
    ops, saved,
};

/// What the file of a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// fx text.
    Text,
    /// A module that `fx::save` wrote.
    Saved,
    /// An archive that `torch.export.save` wrote.
    Exported,
    /// An archive that `torch.jit.save` wrote.
    TorchScript,
}

impl Kind {
    /// Returns what a file is, by the names of its members if it is an archive. Fails if it cannot be read.
    pub fn of(path: impl AsRef<Path>) -> Result<Kind> {
        let path = path.as_ref();
        if !is_archive(path)? {
            return Ok(Kind::Text);
        }
        if saved::is_saved(path)? {
            return Ok(Kind::Saved);
        }
        let zip = ZipFile::open(path, "the program that made it")?;
        let is_script = zip.names().iter().any(|name| name.split('/').nth(1) == Some("constants.pkl"));
        Ok(if is_script { Kind::TorchScript } else { Kind::Exported })
    }
}

/// Reads a program: a module that `fx::save` wrote, an archive that `torch.export.save` or `torch.jit.save` wrote,
/// or fx text.
///
/// Text holds no tensors; `weights` gives the tensors that it reads by path. Fails if the file cannot be
/// read, or a tensor is missing; the error names the file. A program of TorchScript without types of its
/// arguments is mostly no graph: see [`open_with`].
pub fn open(path: impl AsRef<Path>, weights: Option<&Path>) -> Result<GraphModule> {
    open_with(path, weights, &Lowering::default())
}

/// Reads a program as [`open`] does; one of TorchScript is lowered for the arguments that `lowering` gives, and
/// of a saved module the method is taken that it names. Fails as that does, or if the program cannot be a graph;
/// the error says which lines keep it from that.
pub fn open_with(path: impl AsRef<Path>, weights: Option<&Path>, lowering: &Lowering) -> Result<GraphModule> {
    let path = path.as_ref();
    let kind = Kind::of(path)?;
    if kind != Kind::Text && weights.is_some() {
        return Err(err!(Argument, "{} brings its own weights", path.display())
            .help("give weights only for fx text, which has none"));
    }
    match kind {
        Kind::Saved => {
            let module = saved::load(path)?;
            return match &lowering.method {
                Some(method) => module.method(method),
                None => Ok(module),
            };
        }
        Kind::Exported => return import::pt2(path),
        Kind::TorchScript => return lowering.module(path),
        Kind::Text => {}
    }
    let io = |error: std::io::Error| {
        err!(Io, "cannot read {}: {error}", path.display())
            .help("expected fx text, a saved module, or an archive of torch.export or torch.jit")
    };
    let text = fs::read_to_string(path).map_err(io)?;
    let registry = crate::registry().advising(crate::OWN_OPERATIONS);
    let graph = Graph::parse_file(&text, &path.display().to_string(), &registry)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut gm = GraphModule::new(&name, graph);
    if let Some(weights) = weights {
        attach(&mut gm, &Weights::open(weights)?)?;
    }
    Ok(gm)
}

/// Returns whether a file is a zip archive, by its first bytes.
fn is_archive(path: &Path) -> Result<bool> {
    use std::io::Read;
    let io = |error: std::io::Error| err!(Io, "cannot read {}: {error}", path.display());
    let mut start = Vec::new();
    fs::File::open(path).map_err(io)?.take(4).read_to_end(&mut start).map_err(io)?;
    Ok(start == b"PK\x03\x04" || start == b"PK\x05\x06")
}

/// Gives a module the tensors that its graph reads: a buffer where the graph updates it, a parameter elsewhere.
fn attach(gm: &mut GraphModule, weights: &Weights) -> Result<()> {
    let mut paths: Vec<String> = Vec::new();
    let mut updated: Vec<String> = Vec::new();
    for (_, node) in gm.graph().nodes() {
        match node.target() {
            Target::GetAttr(path) => paths.push(path.to_string()),
            Target::CallFunction(op) if *op == ops::set_buffer::OP => {
                if let Some(Arg::Str(path)) = node.args().first() {
                    updated.push(path.to_string());
                }
            }
            _ => {}
        }
    }
    for path in paths.iter().chain(&updated) {
        let tensor = weights.require(path)?;
        let attribute = match updated.contains(path) {
            true => Attribute::Buffer(Buffer::new(tensor)),
            false => Attribute::Parameter(Parameter::new(tensor)),
        };
        gm.set_attribute(path, attribute)?;
    }
    Ok(())
}

/// Writes the tensors of a program, also those of its sub-modules, to a safetensors file by path. Fails if
/// the file cannot be written.
pub fn save_weights(gm: &GraphModule, path: &Path) -> Result<()> {
    fn collect(gm: &GraphModule, prefix: &str, out: &mut Vec<(String, Tensor)>) {
        let tensors = gm.attributes().filter(|(_, attribute)| !matches!(attribute, Attribute::State(_)));
        out.extend(tensors.map(|(name, attribute)| (format!("{prefix}{name}"), attribute.tensor())));
        for (name, child) in gm.children() {
            if let Some(child) = child.as_module().as_any().downcast_ref::<GraphModule>() {
                collect(child, &format!("{prefix}{name}."), out);
            }
        }
    }
    let mut tensors = Vec::new();
    collect(gm, "", &mut tensors);
    crate::weights::save(path, &tensors, &[])
}

/// The result of a program for an input set.
#[derive(Debug)]
pub struct Ran {
    /// The number of the set.
    pub set: usize,
    /// The tensors, in the order in which the structure of the result holds them.
    pub outputs: Vec<Tensor>,
    /// If the file has expected outputs: the greatest error relative to the greatest magnitude, or the first
    /// difference.
    pub agrees: Option<std::result::Result<f64, String>>,
}

/// Runs a program on every input set of a file. The tensors `0.in0`, `0.in1`, … are the leaves of the first
/// set, `0.out0`, … its expected outputs, if any; `1.in0` begins the second set. Each set starts from the
/// original buffers. Fails if an input is missing or does not fit, or the program fails; the error names the
/// file and the tensor.
pub fn run(gm: &GraphModule, io: &Weights, engine: &Engine) -> Result<Vec<Ran>> {
    let mut sets = Vec::new();
    let has = |set: usize, name: &str| io.contains(&format!("{set}.{name}"));
    let runner = runner(gm, engine)?;
    while has(sets.len(), "in0") || has(sets.len(), "out0") {
        let set = sets.len();
        let outputs = check::outputs(gm, &runner, io, set)?;
        let agrees = has(set, "out0").then(|| {
            let outcome = check::agree(&outputs, io, set);
            outcome.map_err(|error| error.to_string())
        });
        sets.push(Ran { set, outputs, agrees });
    }
    if sets.is_empty() { Err(no_input_set(io)) } else { Ok(sets) }
}

/// Runs a program that takes no inputs. Fails if it takes some, which the error names, or the program fails.
pub fn run_without_inputs(gm: &GraphModule, engine: &Engine) -> Result<Ran> {
    let graph = gm.graph();
    let mut inputs = Vec::new();
    for id in graph.placeholders() {
        let node = graph.node(id)?;
        let ty = node.ty().map_or_else(String::new, |ty| format!(": {ty}"));
        inputs.push(format!("%{}{ty}", node.name()));
    }
    if !inputs.is_empty() {
        return Err(err!(Argument, "the program takes {}, and no inputs are given", inputs.join(", "))
            .help("give a safetensors file with the tensors 0.in0, 0.in1, … by --io FILE"));
    }
    let outputs = check::tensors(&runner(gm, engine)?(&[])?);
    Ok(Ran { set: 0, outputs, agrees: None })
}

/// Evaluates a program by the engine of this name. Fails if there is none, or as the program does.
pub(crate) fn evaluate_by(gm: &GraphModule, args: &[crate::Value], name: &str) -> Result<crate::Value> {
    runner(gm, &engine(name)?)?(args)
}

/// Returns what calls a program by an engine, each call with the original buffers.
fn runner(gm: &GraphModule, engine: &Engine) -> Result<check::Runner> {
    Ok(engine.prepare(gm)?.unwrap_or_else(|| {
        let gm = gm.clone();
        Box::new(move |args| gm.clone().evaluate(args))
    }))
}

pub(crate) fn no_input_set(io: &Weights) -> crate::Error {
    err!(Load, "there is no input set in {}", io.origin()).help(
        "the first input is called 0.in0, the second 0.in1; what is expected 0.out0; a second set begins with 1.in0",
    )
}

/// Returns the engines of these names. Fails if there is none of one of the names.
pub fn engines(names: &[String]) -> Result<Vec<Engine>> {
    names.iter().map(|name| engine(name)).collect()
}

/// Returns the engine of this name. Fails if there is none.
pub fn engine(name: &str) -> Result<Engine> {
    let engines = check::all();
    match engines.iter().find(|engine| engine.name() == name) {
        Some(engine) => Ok(engine.clone()),
        None => {
            let names: Vec<&str> = engines.iter().map(Engine::name).collect();
            bail!(Argument, "there is no engine {name:?}; the engines are {}", names.join(", "))
        }
    }
}

/// Returns a line for each node that has the operation of the rule's first output: whether the rule matches
/// there, and if not, why. Also returns how often it matches. Fails if there is no such rule or node.
pub fn explain(gm: &GraphModule, rule: &str, node: Option<&str>) -> Result<(String, usize)> {
    let rule = crate::rules::find(rule)?.rule()?;
    let explanations = match node {
        Some(name) => vec![rule.explain(gm, gm.graph().find_or_err(name)?)?],
        None => rule.explain_all(gm)?,
    };
    let matches = explanations.iter().filter(|explanation| explanation.mismatch.is_none()).count();
    let mut text: String = explanations.iter().map(|explanation| format!("{explanation}\n")).collect();
    if explanations.is_empty() {
        text = format!("{} has no node that could be the result of {}\n", gm.name(), rule.name());
    }
    Ok((text, matches))
}

/// Returns the kernels of the fused engine, with `|` between independent parts; for each edge between
/// kernels, why it stays; and the steps of the plan, if the sizes of all inputs are known. Fails if a pass
/// does.
pub fn explain_fusion(gm: &GraphModule) -> Result<String> {
    let mut ready = gm.clone();
    fx_ops::engine::prepare(&mut ready)?;
    let graph = ready.graph();
    let name = |id: crate::NodeId| graph.node(id).map_or("?", crate::Node::name);
    let fusion = crate::pass::Fusion::of(graph)?;
    let fused: Vec<_> = fusion.groups.iter().filter(|group| group.len() > 1).collect();
    let n_operations: usize = fused.iter().map(|group| group.len()).sum();
    let mut text =
        format!("kernels of several operations: {}, of {n_operations} operations in all\n", fused.len());
    for group in fused {
        let parts = crate::pass::independent_parts(graph, group)?;
        let parts = parts
            .iter()
            .map(|part| part.iter().map(|id| format!("%{}", name(*id))).collect::<Vec<_>>().join(" "));
        text += &format!("  {}\n", parts.collect::<Vec<_>>().join(" | "));
    }
    text += &format!("edges between kernels: {}\n", fusion.borders.len());
    for border in &fusion.borders {
        text += &format!("  %{} -> %{}: {}\n", name(border.from), name(border.to), border.why);
    }
    Ok(text + &fx_ops::engine::Compiled::new(gm.clone())?.describe())
}

/// Returns the memory of a call of the fused engine, with numbers for symbolic sizes; `None` if a size stays
/// a symbol or depends on data. Fails if a size contradicts the program.
pub fn fused_memory(gm: &GraphModule, sizes: &Sizes) -> Result<Option<CallMemory>> {
    let graph = gm.graph();
    let mut types = Vec::new();
    for id in graph.placeholders() {
        let Some(ty) = graph.node(id)?.ty().and_then(crate::TypeTree::tensor) else { return Ok(None) };
        let known = |dim: &crate::Dim| {
            dim.substitute(&|symbol| sizes.get(symbol.name()).map(|n| crate::Dim::new(*n))).known()
        };
        let shape = ty.shape.iter().map(|dim| usize::try_from(known(dim)?).ok()).collect::<Option<Vec<_>>>();
        let Some(shape) = shape else { return Ok(None) };
        types.push(crate::TensorType::new(ty.dtype, &shape[..]).into());
    }
    let compiled = fx_ops::engine::Compiled::new(gm.specialize(&types)?)?;
    Ok(compiled.memory().first().copied())
}

/// Reads a pipeline, as [`Passes::parse`] does; `default` is [`DEFAULT`](crate::pass::DEFAULT). Fails as that
/// does.
pub fn passes(text: &str) -> Result<Passes> {
    let text = if text == "default" { crate::pass::DEFAULT } else { text };
    Passes::parse(text, &crate::pass::all())
}

/// Returns a page that shows a program and, if `passes` are given, each step of these on a copy of it. Fails
/// if a pass does.
pub fn view(gm: &GraphModule, title: &str, passes: Option<&str>) -> Result<String> {
    let page = Page::new(gm).title(title);
    let Some(text) = passes else { return Ok(page.html()) };
    let report = self::passes(text)?.keep_diffs().keep_modules().run(&mut gm.clone())?;
    Ok(page.report(&report).html())
}

/// Returns the passes with their documentation and options.
pub fn list_passes() -> String {
    let mut text = String::new();
    for pass in crate::pass::all() {
        text += &format!("{}\n    {}\n", pass.name, pass.doc);
        for option in pass.options {
            text += &format!("    {} = {}: {}\n", option.name, option.default.to_arg::<String>(), option.doc);
        }
    }
    text + &format!("default\n    {}\n", crate::pass::DEFAULT)
}

/// Returns the rules with their documentation.
pub fn list_rules() -> String {
    crate::rules::all().map(|rule| format!("{:20} {}\n", rule.name, rule.doc.trim())).collect()
}
