//! Dotted paths as a tree of module objects, and the classes of these.

use std::collections::{BTreeMap, HashMap};

use fx_script::archive::{DebugRange, ModuleDraft, SlotDraft};

use super::function::{Place, Signatures, method};
use super::names::{self, Names};
use crate::{Attribute, GraphModule, MAX_DEPTH, Result, bail, err};

/// The qualified name of what the file of code defines names in.
pub(super) const FILE: &str = "__torch__.fx";
/// The version that all of PyTorch's loaders know.
const OLDEST: u32 = 3;

/// A program in TorchScript.
pub(super) struct Program {
    pub(super) root: ModuleDraft,
    pub(super) code: String,
    /// Where the statements of the code come from.
    pub(super) debug: Vec<DebugRange>,
    pub(super) version: u32,
}

/// Returns a module as a program.
pub(super) fn program(gm: &GraphModule) -> Result<Program> {
    let mut tree = Tree::default();
    tree.insert(gm, "", 0)?;
    let mut writer = Writer {
        names: Names::default(),
        classes: HashMap::new(),
        signatures: Signatures::default(),
        code: String::new(),
        debug: Vec::new(),
        version: OLDEST,
    };
    let top = if gm.name().is_empty() { "main" } else { gm.name() };
    let root = writer.module(&tree, top)?;
    Ok(Program { root, code: writer.code, debug: writer.debug, version: writer.version })
}

/// A module object: its attributes and children by name, and the graphs of its methods.
#[derive(Default)]
struct Tree<'a> {
    graph: Option<&'a GraphModule>,
    attributes: BTreeMap<&'a str, &'a Attribute>,
    children: BTreeMap<&'a str, Tree<'a>>,
}

impl<'a> Tree<'a> {
    /// Adds a graph module, which is at `path`, with its attributes and children.
    fn insert(&mut self, gm: &'a GraphModule, path: &str, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            bail!(Limit, "the module {path:?} lies deeper than {MAX_DEPTH} modules");
        }
        self.graph = Some(gm);
        for (name, attribute) in gm.attributes() {
            let (parents, last) = name.rsplit_once('.').map_or(("", name), |(parents, last)| (parents, last));
            let owner = self.below(parents);
            if owner.children.contains_key(last) {
                bail!(Graph, "{name:?} is both an attribute and a module of {path:?}");
            }
            owner.attributes.insert(last, attribute);
        }
        for (name, child) in gm.children() {
            let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let Some(child) = child.as_module().as_any().downcast_ref::<GraphModule>() else {
                let kind = child.as_module().type_name();
                return Err(err!(Argument, "the sub-module {full:?} is a {kind}, not a graph")
                    .help(
                    "replace its calls by operations with `pass::INLINE_LEAVES`, or trace with `.leaf(|_, _| false)`",
                ));
            };
            self.below(name).insert(child, &full, depth + 1)?;
        }
        Ok(())
    }

    /// Returns the object at a dotted path below this one, which is made if there is none.
    fn below(&mut self, path: &'a str) -> &mut Tree<'a> {
        let names = path.split('.').filter(|name| !name.is_empty());
        names.fold(self, |tree, name| tree.children.entry(name).or_default())
    }
}

struct Writer {
    names: Names,
    /// The names of the classes by their text without their name.
    classes: HashMap<String, String>,
    signatures: Signatures,
    code: String,
    debug: Vec<DebugRange>,
    version: u32,
}

/// What stands for the name of a class in its text.
const OWN_NAME: &str = "\0";

impl Writer {
    /// Writes the class of a module after those of its children, unless one of the same text is there;
    /// returns the object.
    fn module(&mut self, tree: &Tree<'_>, name: &str) -> Result<ModuleDraft> {
        let mut slots = Vec::new();
        let mut parameters = String::new();
        let mut buffers = String::new();
        let mut declarations = String::new();
        let declare = |name: &str, ty: &str| match names::is_plain(name) {
            true => format!("  {name} : {ty}\n"),
            false => format!("  __annotations__[{}] = {ty}\n", names::text(name)),
        };
        for (&name, attribute) in &tree.attributes {
            let list = match attribute {
                Attribute::Parameter(_) => Some(&mut parameters),
                Attribute::Buffer(_) => Some(&mut buffers),
                Attribute::Constant(_) => None,
                Attribute::State(_) => {
                    return Err(crate::err!(
                        Unresolved,
                        "the state {name:?} cannot be written as TorchScript"
                    )
                    .help("make it an argument and a result"));
                }
            };
            if let Some(list) = list {
                list.push_str(&format!("{}, ", names::text(name)));
            }
            declarations += &declare(name, "Tensor");
            let array = attribute.tensor().array()?.clone();
            let is_float = array.dtype().category() == crate::Category::Float;
            let requires_grad = matches!(attribute, Attribute::Parameter(_)) && is_float;
            slots.push((name.to_owned(), SlotDraft::Tensor { array, requires_grad }));
        }
        if !tree.attributes.contains_key("training") && !tree.children.contains_key("training") {
            declarations += &declare("training", "bool");
            slots.push(("training".to_owned(), SlotDraft::Bool(false)));
        }
        for (&name, child) in &tree.children {
            let child = self.module(child, name)?;
            declarations += &declare(name, &child.class);
            slots.push((name.to_owned(), SlotDraft::Module(child)));
        }
        let mut text =
            format!("  __parameters__ = [{parameters}]\n  __buffers__ = [{buffers}]\n{declarations}");
        let mut places = Vec::new();
        if let Some(gm) = tree.graph {
            for (name, graph) in std::iter::once(("forward", gm.graph())).chain(gm.methods()) {
                if !names::is_plain(name) {
                    bail!(Argument, "the method {name:?} has a name that TorchScript does not take");
                }
                if tree.attributes.contains_key(name) || tree.children.contains_key(name) {
                    bail!(Graph, "{name:?} is both a method and an attribute or module");
                }
                let method = method(gm, name, graph, OWN_NAME, &self.signatures)?;
                // The head of the class is a line more.
                let before = text.matches('\n').count() + 1;
                places.extend(method.places.into_iter().map(|(line, place)| (line + before, place)));
                text += &method.text;
                self.version = self.version.max(method.version);
                if name == "forward" {
                    self.signatures.insert(gm, method.output);
                }
            }
        }
        let class = match self.classes.get(&text) {
            Some(class) => class.clone(),
            None => {
                let class = format!("{FILE}.{}", self.names.fresh(&names::camel_case(name)));
                let short = &class[FILE.len() + 1..];
                let code = format!("class {short}(Module):\n{}", text.replace(OWN_NAME, &class));
                self.record(&code, places);
                self.code += &code;
                self.classes.insert(text, class.clone());
                class
            }
        };
        Ok(ModuleDraft { class, slots })
    }

    /// Records where the lines of code that follows come from.
    fn record(&mut self, code: &str, places: Vec<(usize, Place)>) {
        let mut bytes = Vec::new();
        let mut at = self.code.len();
        for line in code.split_inclusive('\n') {
            bytes.push(at);
            at += line.len();
        }
        self.debug.extend(places.into_iter().map(|(line, (place, text))| DebugRange {
            byte: bytes[line],
            place,
            text,
        }));
    }
}
