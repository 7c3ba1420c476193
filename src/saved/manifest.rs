//! `module.json`: what a saved module consists of.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::{Attribute, Result, bail, err};

/// The version of the format that is written.
const VERSION: usize = 1;
/// Changes that make a manifest of each version from 1 one of the next.
const UPGRADES: [fn(&mut Json) -> Result<()>; VERSION - 1] = [];
/// The word by which a manifest is known.
const FORMAT: &str = "fx module";

/// The modules of a file; the first is the root.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: String,
    version: usize,
    pub(super) modules: Vec<ModuleEntry>,
    /// What the tensors of all modules are; several attributes may be one tensor.
    pub(super) tensors: Vec<View>,
}

/// A module.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModuleEntry {
    pub(super) name: String,
    pub(super) attributes: Vec<AttributeEntry>,
    /// The state that is no tensor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) states: Vec<StateEntry>,
    /// The names of the methods beside `forward`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) methods: Vec<String>,
    /// The sub-modules: their paths and numbers.
    pub(super) children: Vec<(String, usize)>,
}

/// A tensor that the graph of a module reads by path.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttributeEntry {
    pub(super) path: String,
    pub(super) kind: Kind,
    /// The number of the tensor.
    pub(super) tensor: usize,
}

/// State that the graph of a module reads by path.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateEntry {
    pub(super) path: String,
    /// A graph that returns the value: its first placeholder has the type of all values, the others are the
    /// tensors.
    pub(super) graph: String,
    /// The numbers of the tensors.
    pub(super) tensors: Vec<usize>,
}

/// A tensor as a view of a storage.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct View {
    /// The name of the storage among the tensors.
    pub(super) storage: String,
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<isize>,
}

/// The kind of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Parameter,
    Buffer,
    TransientBuffer,
    Constant,
}

impl Kind {
    /// Returns the kind of a tensor; `None` for state.
    pub(super) fn of(attribute: &Attribute) -> Option<Kind> {
        Some(match attribute {
            Attribute::Parameter(_) => Kind::Parameter,
            Attribute::Buffer(buffer) if buffer.is_persistent() => Kind::Buffer,
            Attribute::Buffer(_) => Kind::TransientBuffer,
            Attribute::Constant(_) => Kind::Constant,
            Attribute::State(_) => return None,
        })
    }
}

impl ModuleEntry {
    pub(super) fn new(name: &str) -> ModuleEntry {
        ModuleEntry {
            name: name.to_owned(),
            attributes: Vec::new(),
            states: Vec::new(),
            methods: Vec::new(),
            children: Vec::new(),
        }
    }
}

impl Manifest {
    pub(super) fn new(modules: Vec<ModuleEntry>, tensors: Vec<View>) -> Manifest {
        Manifest { format: FORMAT.to_owned(), version: VERSION, modules, tensors }
    }

    pub(super) fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|error| err!(Io, "cannot write the manifest: {error}"))
    }

    /// Reads a manifest, whose version may be an older one, and checks that its modules are a hierarchy.
    pub(super) fn parse(origin: &str, text: &str) -> Result<Manifest> {
        let wrong = |error: &dyn std::fmt::Display| {
            err!(Load, "expected the manifest of a saved module: {error}")
                .in_file(origin, Some("module.json"))
        };
        let mut json: Json = serde_json::from_str(text).map_err(|error| wrong(&error))?;
        if json["format"] != FORMAT {
            return Err(wrong(&format_args!("the format is {}, not {FORMAT:?}", json["format"])));
        }
        let version = json["version"].as_u64().and_then(|version| usize::try_from(version).ok());
        let version = version.filter(|&version| version > 0);
        let version = version.ok_or_else(|| wrong(&format_args!("the version is {}", json["version"])))?;
        if version > VERSION {
            return Err(err!(
                Load,
                "expected a saved module of version {VERSION} or older, got version {version}"
            )
            .in_file(origin, Some("module.json"))
            .help("read it with the fx that wrote it, or with a newer one"));
        }
        for upgrade in &UPGRADES[version - 1..] {
            upgrade(&mut json).map_err(|error| error.in_file(origin, Some("module.json")))?;
        }
        let manifest: Manifest = serde_json::from_value(json).map_err(|error| wrong(&error))?;
        manifest.check_numbers().map_err(|error| error.in_file(origin, Some("module.json")))?;
        Ok(manifest)
    }

    /// Checks that each module but the first is a child of an earlier one, nesting is bounded, and numbers of
    /// tensors are those of tensors.
    fn check_numbers(&self) -> Result<()> {
        if self.modules.is_empty() {
            bail!(Load, "the file has no module");
        }
        let mut depths = vec![None; self.modules.len()];
        depths[0] = Some(0usize);
        for (number, module) in self.modules.iter().enumerate() {
            let Some(depth) = depths[number] else {
                bail!(Load, "module {number} is no child of an earlier one")
            };
            if depth > crate::MAX_DEPTH {
                bail!(Limit, "module {number} lies deeper than {} modules", crate::MAX_DEPTH);
            }
            if let Some(wrong) = module.attributes.iter().find(|entry| entry.tensor >= self.tensors.len()) {
                bail!(
                    Load,
                    "the attribute {:?} of module {number} has no tensor {}",
                    wrong.path,
                    wrong.tensor
                );
            }
            for state in &module.states {
                if let Some(wrong) = state.tensors.iter().find(|tensor| **tensor >= self.tensors.len()) {
                    bail!(Load, "the state {:?} of module {number} has no tensor {wrong}", state.path);
                }
            }
            for (path, child) in &module.children {
                if *child <= number || *child >= self.modules.len() {
                    bail!(Load, "the sub-module {path:?} of module {number} has the wrong number {child}");
                }
                depths[*child] = depths[*child].max(Some(depth + 1));
            }
        }
        Ok(())
    }
}
