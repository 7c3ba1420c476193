//! Programs in files, as the command line takes them: fx text, and exported PyTorch programs.

use std::fs;
use std::path::Path;

pub use fx_ops::engine::CallMemory;

use crate::analysis::Sizes;
use crate::check::{self, Engine};
use crate::view::Page;
use crate::weights::Weights;
use crate::{
    Arg, Attribute, Buffer, Graph, GraphModule, Parameter, Passes, Result, Target, Tensor, bail, err, import,
    ops,
};

/// Reads a program: an archive that `torch.export.save` wrote, or fx text.
///
/// Text holds no tensors; those that it reads by path are taken from `weights`, where that is given.
pub fn open(path: impl AsRef<Path>, weights: Option<&Path>) -> Result<GraphModule> {
    let path = path.as_ref();
    if is_archive(path)? {
        if weights.is_some() {
            return Err(err!(Argument, "{} brings its own weights", path.display())
                .help("give weights only for fx text, which has none"));
        }
        return import::pt2(path);
    }
    let io = |error: std::io::Error| {
        err!(Io, "cannot read {}: {error}", path.display())
            .help("expected fx text, or an archive of torch.export")
    };
    let text = fs::read_to_string(path).map_err(io)?;
    let graph = Graph::parse_file(&text, &path.display().to_string(), &crate::registry())?;
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

/// Writes the tensors of a program by path, constants and those of its graph modules included, to a
/// safetensors file.
pub fn save_weights(gm: &GraphModule, path: &Path) -> Result<()> {
    fn collect(gm: &GraphModule, prefix: &str, out: &mut Vec<(String, Tensor)>) {
        out.extend(gm.attributes().map(|(name, attribute)| (format!("{prefix}{name}"), attribute.tensor())));
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

/// What a program returned for an input set.
#[derive(Debug)]
pub struct Ran {
    /// The number of the set.
    pub set: usize,
    /// The tensors, in the order in which the structure of the result holds them.
    pub outputs: Vec<Tensor>,
    /// Where the file says what is expected: the greatest error relative to the greatest magnitude, or how it
    /// differs.
    pub agrees: Option<std::result::Result<f64, String>>,
}

/// Runs a program on every input set of a file: the tensors `0.in0`, `0.in1`, … are the first set, leaf by
/// leaf; `0.out0`, … are what is expected, if they are there; `1.in0` begins the second set. Each set starts
/// from the buffers as they were.
pub fn run(gm: &GraphModule, io: &Weights, engine: &Engine) -> Result<Vec<Ran>> {
    let mut sets = Vec::new();
    let has = |set: usize, name: &str| io.contains(&format!("{set}.{name}"));
    let runner = engine.prepare(gm)?.unwrap_or_else(|| {
        let gm = gm.clone();
        Box::new(move |args| gm.clone().call_values(args))
    });
    while has(sets.len(), "in0") || has(sets.len(), "out0") {
        let set = sets.len();
        let args = check::inputs(gm, io, set)?;
        let outputs = check::tensors(&runner(&args)?);
        let agrees = has(set, "out0").then(|| {
            let outcome = check::agree(&outputs, io, set);
            outcome.map_err(|error| error.message().to_owned())
        });
        sets.push(Ran { set, outputs, agrees });
    }
    if sets.is_empty() {
        return Err(err!(Load, "there is no input set in the file").help(
            "the first input is called 0.in0, the second 0.in1; what is expected 0.out0; a second set begins with 1.in0",
        ));
    }
    Ok(sets)
}

/// Returns the engines of these names.
pub fn engines(names: &[String]) -> Result<Vec<Engine>> {
    names.iter().map(|name| engine(name)).collect()
}

/// Returns the engine of this name.
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

/// Says where a rule matches a program, and where not and why, a line for each node that has the operation of
/// the rule's first output; and how often it matches.
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

/// Says what the fused engine computes as one kernel, with `|` between parts that do not need each other; for
/// each edge between operations where it does not, why; and the steps of the plan if the sizes of all inputs
/// are known.
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

/// Returns the memory that a call of the fused engine takes, with numbers for symbolic sizes; `None` if other
/// sizes are left, or depend on data.
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

/// Reads a pipeline, as [`Passes::parse`] does; `default` is [`DEFAULT`](crate::pass::DEFAULT).
pub fn passes(text: &str) -> Result<Passes> {
    let text = if text == "default" { crate::pass::DEFAULT } else { text };
    Passes::parse(text, &crate::pass::all())
}

/// Returns a page that shows a program and, if there are `passes`, what each of them does to a copy of it.
pub fn view(gm: &GraphModule, title: &str, passes: Option<&str>) -> Result<String> {
    let page = Page::new(gm).title(title);
    let Some(text) = passes else { return Ok(page.html()) };
    let report = self::passes(text)?.keep_diffs().keep_modules().run(&mut gm.clone())?;
    Ok(page.report(&report).html())
}

/// Returns the passes with what they do and can be told.
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

/// Returns the rules with what they do.
pub fn list_rules() -> String {
    crate::rules::all().map(|rule| format!("{:20} {}\n", rule.name, rule.doc.trim())).collect()
}
