//! Saved modules: a graph module with its tensors and sub-modules as one file, `NAME.fx`.
//!
//! The file is a zip archive whose members are stored and aligned:
//!
//! | member | content |
//! |---|---|
//! | `module.json` | the version of the format, and the modules: names, attributes and children (`manifest`) |
//! | `graphs/N.fx` | the graph of module `N` as text with metadata |
//! | `graphs/N/METHOD.fx` | the graph of a further method of module `N` |
//! | `tensors.safetensors` | the elements of all tensors, one entry a storage (`tensors`) |
//! | `extra/NAME` | a file of the user |
//!
//! Tensors that share a storage share it again when they are loaded, and a sub-module at two paths is one.
//! The zip file has a checksum of each member, which reading compares. The same module gives the same bytes.

mod manifest;
#[cfg_attr(not(feature = "import"), path = "tensors_absent.rs")]
mod tensors;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::manifest::{AttributeEntry, Kind, Manifest, ModuleEntry, StateEntry};
use crate::zip_file::{self, ZipFile};
use crate::{
    Arg, Attribute, Buffer, Error, Forward, Graph, GraphModule, MAX_DEPTH, Parameter, Registry, Result,
    StateCell, Tensor, bail, err,
};

/// How to write a file again, for messages.
const AGAIN: &str = "`fx::save`";

/// Writes a module with everything that it needs to a file, which [`load`] reads.
///
/// Tensors that share memory still do when they are loaded, and the same module gives the same bytes. Folded
/// constants become plain ones: they no longer follow their sources. Fails if a sub-module is not a graph
/// module, the program has a lint violation, or the file cannot be written.
///
/// ```no_run
/// let gm = fx::trace(|x: &fx::Tensor| x * 2).build()?;
/// fx::save(&gm, "double.fx")?;
/// assert_eq!(fx::load("double.fx")?.graph().to_text(), gm.graph().to_text());
/// # Ok::<(), fx::Error>(())
/// ```
pub fn save(gm: &GraphModule, path: impl AsRef<Path>) -> Result<()> {
    Save::new(gm).write(path)
}

/// Reads a module that [`save`] wrote, with the operations of fx.
///
/// The file is mapped into memory and must not be changed while it is read. Fails if the file is damaged,
/// newer than this fx, or names an operation that is not one of fx; [`Load::registry`] adds operations.
pub fn load(path: impl AsRef<Path>) -> Result<GraphModule> {
    Load::new(path).read().map(|saved| saved.module)
}

/// How to write a module; see [`save`].
#[derive(Debug)]
#[must_use = "call `write` to write the module"]
pub struct Save<'a> {
    module: &'a GraphModule,
    extra: BTreeMap<String, Vec<u8>>,
}

impl<'a> Save<'a> {
    /// Writes this module.
    pub fn new(module: &'a GraphModule) -> Save<'a> {
        Save { module, extra: BTreeMap::new() }
    }

    /// Adds a file, such as the names of classes, which [`Saved::extra`] has after loading. A second file of
    /// the same name replaces the first.
    pub fn extra(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Save<'a> {
        self.extra.insert(name.into(), bytes.into());
        self
    }

    /// Writes the file, as a whole or not at all. Fails as [`save`] does, or if the name of an added file is
    /// no plain relative path.
    pub fn write(self, path: impl AsRef<Path>) -> Result<()> {
        for name in self.extra.keys() {
            let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
            if name.contains(['\\', '\0', ':']) || !name.split('/').all(is_plain) {
                return Err(err!(Argument, "{name:?} is not the name of an added file")
                    .help("use a plain relative path such as `labels.txt`"));
            }
        }
        if let Some(violation) = self.module.lint().into_iter().next() {
            return Err(violation.into());
        }
        let mut writer = Writer::default();
        writer.module(self.module, "", 0)?;
        let (tensors, views) = writer.tensors.finish()?;
        let manifest = Manifest::new(writer.modules, views).to_json()?;
        let graphs = writer.graphs.into_iter().enumerate();
        let mut members = vec![("module.json".to_owned(), Cow::from(manifest.into_bytes()))];
        members.extend(graphs.map(|(n, text)| (graph_member(n), Cow::from(text.into_bytes()))));
        members.extend(writer.methods.into_iter().map(|(name, text)| (name, Cow::from(text.into_bytes()))));
        members.push((tensors::MEMBER.to_owned(), Cow::from(tensors)));
        members
            .extend(self.extra.into_iter().map(|(name, bytes)| (format!("extra/{name}"), Cow::from(bytes))));
        zip_file::write(path.as_ref(), members)
    }
}

fn graph_member(module: usize) -> String {
    format!("graphs/{module}.fx")
}

fn method_member(module: usize, method: &str) -> String {
    format!("graphs/{module}/{method}.fx")
}

/// Collects the modules of a hierarchy, each once.
#[derive(Default)]
struct Writer {
    modules: Vec<ModuleEntry>,
    graphs: Vec<String>,
    /// The names of members and the texts of methods beside `forward`.
    methods: Vec<(String, String)>,
    /// The numbers of the modules by their address, which is theirs while the hierarchy is borrowed.
    numbers: HashMap<*const GraphModule, usize>,
    tensors: tensors::Writer,
}

impl Writer {
    /// Adds a module and those below it; returns its number. The root has number 0.
    fn module(&mut self, gm: &GraphModule, path: &str, depth: usize) -> Result<usize> {
        if let Some(&number) = self.numbers.get(&std::ptr::from_ref(gm)) {
            return Ok(number);
        }
        if depth > MAX_DEPTH {
            bail!(Limit, "the module {path:?} lies deeper than {MAX_DEPTH} modules");
        }
        let number = self.modules.len();
        self.numbers.insert(std::ptr::from_ref(gm), number);
        self.graphs.push(gm.graph().to_text());
        self.modules.push(ModuleEntry::new(gm.name()));
        for (name, graph) in gm.methods() {
            self.modules[number].methods.push(name.to_owned());
            self.methods.push((method_member(number, name), graph.to_text()));
        }
        for (name, attribute) in gm.attributes() {
            if let Attribute::State(state) = attribute {
                let entry = self.state(name, state).map_err(|error| error.in_module(path))?;
                self.modules[number].states.push(entry);
            }
            let Some(kind) = Kind::of(attribute) else { continue };
            let tensor = self.tensors.add(attribute.tensor()).map_err(|error| error.in_module(path))?;
            self.modules[number].attributes.push(AttributeEntry { path: name.to_owned(), kind, tensor });
        }
        for (name, child) in gm.children() {
            let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let Some(child) = child.as_module().as_any().downcast_ref::<GraphModule>() else {
                return Err(err!(
                    Argument,
                    "the sub-module {full:?} is a {}, not a graph",
                    child.as_module().type_name()
                )
                .help(
                    "replace its calls by operations with `pass::INLINE_LEAVES`, or trace with `.leaf(|_, _| false)`",
                ));
            };
            let child = self.module(child, &full, depth + 1)?;
            self.modules[number].children.push((name.to_owned(), child));
        }
        Ok(number)
    }
}

impl Writer {
    /// Writes state as a graph of its tensors.
    fn state(&mut self, path: &str, state: &StateCell) -> Result<StateEntry> {
        let mut graph = Graph::new("state");
        let ty = graph.placeholder("value")?;
        graph.meta_mut(ty)?.ty = Some(Arc::new(state.ty().clone()));
        let mut tensors = Vec::new();
        let value = state.load().try_flat_map(&mut |tensor: &Tensor| {
            let placeholder = graph.placeholder(&format!("tensor{}", tensors.len()))?;
            tensors.push(self.tensors.add(tensor.clone())?);
            Ok(Arg::Leaf(placeholder))
        })?;
        graph.set_output(value)?;
        Ok(StateEntry { path: path.to_owned(), graph: graph.to_text(), tensors })
    }
}

/// How to read a module; see [`load`].
#[derive(Debug)]
#[must_use = "call `read` to read the module"]
pub struct Load {
    path: PathBuf,
    registry: Option<Registry>,
}

/// A module that was read from a file.
#[derive(Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The module.
    pub module: GraphModule,
    /// The files that were added to it, by name.
    pub extra: BTreeMap<String, Vec<u8>>,
}

impl Load {
    /// Reads from a file.
    pub fn new(path: impl AsRef<Path>) -> Load {
        Load { path: path.as_ref().to_owned(), registry: None }
    }

    /// Uses these operations instead of fx's own: `fx::registry().with(MINE)?`.
    pub fn registry(mut self, registry: &Registry) -> Load {
        self.registry = Some(registry.clone());
        self
    }

    /// Reads the module. Fails as [`load`] does.
    pub fn read(self) -> Result<Saved> {
        let zip = ZipFile::open(&self.path, AGAIN)?;
        let origin = zip.origin().to_owned();
        let manifest = Manifest::parse(&origin, &text(&zip, "module.json")?)?;
        let bytes = zip.read(tensors::MEMBER)?;
        let mut entries = tensors::Reader::new(&origin, &bytes)?;
        let tensor = |(number, view)| {
            let located =
                |error: Error| error.in_file(&origin, Some(&format!("module.json, tensor {number}")));
            entries.tensor(view).map_err(located)
        };
        let tensors = manifest.tensors.iter().enumerate().map(tensor).collect::<Result<Vec<_>>>()?;
        let mut reader = Reader {
            zip: &zip,
            manifest: &manifest,
            tensors,
            registry: self.registry.unwrap_or_else(crate::registry).advising(ADVICE),
            modules: HashMap::new(),
        };
        let module = reader.root()?;
        let mut extra = BTreeMap::new();
        for name in zip.names() {
            if let Some(short) = name.strip_prefix("extra/").filter(|short| !short.is_empty()) {
                extra.insert(short.to_owned(), zip.read(name)?.into_owned());
            }
        }
        Ok(Saved { module, extra })
    }
}

/// Returns whether a file is a saved module, by the members that it has.
pub(crate) fn is_saved(path: &Path) -> Result<bool> {
    let zip = ZipFile::open(path, "`fx::save` or `torch.export.save`")?;
    Ok(zip.contains("module.json") && zip.contains(tensors::MEMBER))
}

/// How operations of the user's are added to a reader.
const ADVICE: &str = "operations of your own are given to `fx::saved::Load::registry`";

fn text(zip: &ZipFile, name: &str) -> Result<String> {
    let bytes = zip.read(name)?;
    let text = std::str::from_utf8(&bytes);
    text.map(str::to_owned).map_err(|_| err!(Load, "{}: {name} is not text", zip.origin()))
}

struct Reader<'a> {
    zip: &'a ZipFile,
    manifest: &'a Manifest,
    tensors: Vec<Tensor>,
    registry: Registry,
    /// The modules that are finished, by number.
    modules: HashMap<usize, Arc<dyn Forward>>,
}

impl Reader<'_> {
    /// Reads all modules; children have higher numbers than their parents, so the last is first.
    fn root(&mut self) -> Result<GraphModule> {
        for number in (1..self.manifest.modules.len()).rev() {
            let module = self.module(number)?;
            self.modules.insert(number, Arc::new(module));
        }
        self.module(0)
    }

    /// Reads state: what a graph without operations returns.
    fn state(&self, entry: &StateEntry) -> Result<StateCell> {
        let graph = Graph::parse(&entry.graph, &self.registry)?;
        let [ty, tensors @ ..] = &graph.placeholders()[..] else { bail!(Load, "its type is missing") };
        if graph.len() != tensors.len() + 2 || tensors.len() != entry.tensors.len() {
            bail!(
                Load,
                "its graph computes, or has no placeholder for each of {} tensors",
                entry.tensors.len()
            );
        }
        let Some(known) = graph.node(*ty)?.ty().cloned() else { bail!(Load, "its type is missing") };
        let value =
            graph.output().try_flat_map(&mut |id| match tensors.iter().position(|other| other == id) {
                Some(at) => Ok(Arg::Leaf(self.tensors[entry.tensors[at]].clone())),
                None => bail!(Load, "its type is no value"),
            })?;
        Ok(StateCell::with_type(value, known))
    }

    fn module(&mut self, number: usize) -> Result<GraphModule> {
        let member = graph_member(number);
        let origin = self.zip.origin();
        let located = |error: Error| error.in_file(origin, Some(&member));
        let read = |member: &str| {
            Graph::parse_file(&text(self.zip, member)?, &format!("{origin}, {member}"), &self.registry)
        };
        let entry = &self.manifest.modules[number];
        let mut gm = GraphModule::new(&entry.name, read(&member)?);
        for method in &entry.methods {
            gm.set_method(method, read(&method_member(number, method))?).map_err(located)?;
        }
        for attribute in &entry.attributes {
            let tensor = self.tensors[attribute.tensor].clone();
            let value = match attribute.kind {
                Kind::Parameter => Attribute::Parameter(Parameter::new(tensor)),
                Kind::Buffer => Attribute::Buffer(Buffer::new(tensor)),
                Kind::TransientBuffer => Attribute::Buffer(Buffer::transient(tensor)),
                Kind::Constant => Attribute::Constant(tensor),
            };
            gm.set_attribute(&attribute.path, value).map_err(located)?;
        }
        for state in &entry.states {
            let value = self.state(state).map_err(|error| {
                err!(Load, "the state {:?}: {}", state.path, error.message())
                    .in_file(origin, Some("module.json"))
            })?;
            gm.set_attribute(&state.path, Attribute::State(value)).map_err(located)?;
        }
        for (path, child) in &entry.children {
            gm.add_shared_submodule(path, self.modules[child].clone()).map_err(located)?;
        }
        if let Some(violation) = gm.lint().first() {
            return Err(err!(Load, "the module is not sound: {violation}").in_file(origin, Some(&member)));
        }
        Ok(gm)
    }
}
