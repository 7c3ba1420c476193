//! The archives of `torch.jit.save`: their members, and what these mean.
//!
//! An archive is a set of named members. [`Members`] gives their bytes; the zip file that holds them is the
//! business of who implements it. [`Archive::open`] finds the folder around everything and checks version and
//! byte order; [`Archive::data`] and [`Archive::constants`] read the pickles with their tensors (`values`),
//! [`Archive::code`] gives the text of the program, and [`DebugRecords`] leads from that text to the lines of
//! the user's Python; [`Draft`] makes the members of a new archive. A member is read only when something asks
//! for it; whatever it holds, the outcome is a value or an error.

mod debug_records;
mod values;
mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;

use fx_core::{Error, Result, bail, err};

pub use self::debug_records::{DebugRange, DebugRecords};
pub use self::values::{StoredTensor, Values};
pub use self::write::{Draft, ModuleDraft, SlotDraft};

/// The versions that can be read.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 1..=10;
/// The most bytes that all code together may have.
const MAX_CODE: usize = 1 << 30;

/// Named members with their bytes, such as those of a zip file.
pub trait Members {
    /// Returns where the members come from, for messages: a path, or words such as "the given bytes".
    fn origin(&self) -> &str;

    /// Returns the full names of all members.
    fn names(&self) -> Vec<String>;

    /// Returns the bytes of a member. Fails if there is no such member, or it is damaged.
    fn read(&self, name: &str) -> Result<Cow<'_, [u8]>>;
}

/// Members in memory, by name.
#[derive(Clone, Debug, Default)]
pub struct MemoryMembers(pub BTreeMap<String, Vec<u8>>);

impl Members for MemoryMembers {
    fn origin(&self) -> &str {
        "the given members"
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn read(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        match self.0.get(name) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => bail!(Load, "there is no member {name:?} in {}", self.origin()),
        }
    }
}

/// A file of the program's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeFile {
    /// The qualified name of what the file defines names in, such as `__torch__.torch.nn.modules.linear`.
    pub module: String,
    /// The name of the member, below the folder of the archive.
    pub member: String,
    /// The text.
    pub text: String,
}

/// An archive that `torch.jit.save` wrote.
pub struct Archive {
    members: Box<dyn Members>,
    /// The folder around everything, with a slash.
    root: String,
    /// The names of all members, below that folder.
    names: Vec<String>,
    version: u32,
}

impl Archive {
    /// Opens an archive. Fails if the members do not lie in one folder, if one is missing that every program
    /// has, or if version or byte order are not those that can be read.
    pub fn open(members: impl Members + 'static) -> Result<Archive> {
        let (root, names) = find_root(&members)?;
        let mut archive = Archive { members: Box::new(members), root, names, version: 0 };
        archive.version = archive.read_version()?;
        for name in ["data.pkl", "constants.pkl"] {
            if !archive.contains(name) {
                return Err(archive.no_member(name));
            }
        }
        if archive.contains("byteorder") {
            match archive.text("byteorder")?.trim() {
                "little" => {}
                order => {
                    return Err(archive
                        .located(err!(Load, "expected the byte order \"little\", got {order:?}"), "byteorder")
                        .help("save the program on a machine with little-endian numbers"));
                }
            }
        }
        Ok(archive)
    }

    /// Returns where the archive comes from.
    pub fn origin(&self) -> &str {
        self.members.origin()
    }

    /// Returns the version of the format, which says what the operators mean.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns whether there is a member of this name below the folder of the archive.
    pub fn contains(&self, name: &str) -> bool {
        self.names.binary_search_by(|own| own.as_str().cmp(name)).is_ok()
    }

    /// Returns the bytes of a member below the folder of the archive. Fails if there is no such member, or it is
    /// damaged.
    pub fn read(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        if !self.contains(name) {
            return Err(self.no_member(name));
        }
        self.members.read(&format!("{}{name}", self.root))
    }

    /// Returns the value of the top module with its tensors. Fails if the pickle or a storage is damaged.
    pub fn data(&self) -> Result<Values> {
        Values::read(self, "data.pkl", "data")
    }

    /// Returns the constants of the code: a tuple, whose element `n` is called `CONSTANTS.cn`. Fails if the
    /// pickle or a storage is damaged.
    pub fn constants(&self) -> Result<Values> {
        Values::read(self, "constants.pkl", "constants")
    }

    /// Returns the text of the program, file by file, sorted by name. Fails if a file is no text.
    pub fn code(&self) -> Result<Vec<CodeFile>> {
        let mut files = Vec::new();
        let mut total = 0usize;
        for name in self.names.iter().filter(|name| name.starts_with("code/") && name.ends_with(".py")) {
            let text = self.text(name)?;
            total = total.saturating_add(text.len());
            if total > MAX_CODE {
                bail!(Limit, "{}: the code has more than {MAX_CODE} bytes", self.origin());
            }
            let module = name["code/".len()..name.len() - ".py".len()].replace('/', ".");
            files.push(CodeFile { module, member: name.clone(), text });
        }
        Ok(files)
    }

    /// Returns the lines of Python that a file was made from. Records that are missing or wrong are left out:
    /// they only ever explain.
    pub fn debug_records(&self, file: &CodeFile) -> DebugRecords {
        let name = format!("{}.debug_pkl", file.member);
        match self.read(&name) {
            Ok(bytes) => DebugRecords::read(&name, &bytes),
            Err(_) => DebugRecords::default(),
        }
    }

    /// Returns the names of the files that the user added.
    pub fn extra_files(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| name.strip_prefix("extra/")).filter(|name| !name.is_empty())
    }

    /// Returns a file that the user added. Fails if there is none of this name, or it is damaged.
    pub fn extra_file(&self, name: &str) -> Result<Vec<u8>> {
        self.read(&format!("extra/{name}")).map(Cow::into_owned)
    }

    fn text(&self, name: &str) -> Result<String> {
        let bytes = self.read(name)?;
        let text = std::str::from_utf8(&bytes);
        match text {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(self.located(
                err!(Load, "expected text, got bytes that are not UTF-8 from byte {}", error.valid_up_to()),
                name,
            )),
        }
    }

    fn read_version(&self) -> Result<u32> {
        // Newer archives have both names, and the old one says the version of the container then.
        let name = [".data/version", "version"].into_iter().find(|name| self.contains(name));
        let name = name.ok_or_else(|| self.no_member("version"))?;
        let text = self.text(name)?;
        let version: u32 = text.trim().parse().map_err(|_| {
            let shown: String = text.chars().take(20).collect();
            self.located(err!(Load, "expected a version number, got {shown:?}"), name)
        })?;
        if !VERSIONS.contains(&version) {
            let (first, last) = (VERSIONS.start(), VERSIONS.end());
            return Err(self
                .located(err!(Load, "expected a format version from {first} to {last}, got {version}"), name)
                .help("save the program with PyTorch 2.15, or use a newer fx"));
        }
        Ok(version)
    }

    fn no_member(&self, name: &str) -> Error {
        err!(Load, "there is no member {:?} in {}", format!("{}{name}", self.root), self.origin())
            .help("the archive is incomplete, or is no program; save it again with `torch.jit.save`")
    }

    /// Names the member in which an error happened.
    fn located(&self, error: Error, member: &str) -> Error {
        error.in_file(self.origin(), Some(member))
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Archive({}, version {}, {} members)", self.origin(), self.version, self.names.len())
    }
}

/// Finds the folder around all members; returns it with the names below it, sorted.
fn find_root(members: &impl Members) -> Result<(String, Vec<String>)> {
    let names = members.names();
    let root = names.first().and_then(|name| name.split_once('/')).map(|(root, _)| format!("{root}/"));
    let root = root.ok_or_else(|| {
        err!(Load, "{} has no folder around its members", members.origin())
            .help("save the program with `torch.jit.save`; weights of `torch.save` are no program")
    })?;
    let mut below = Vec::with_capacity(names.len());
    for name in &names {
        match name.strip_prefix(&root) {
            Some("") => {}
            Some(name) => below.push(name.to_owned()),
            None => {
                return Err(err!(Load, "{}: the member {name:?} is outside of {root:?}", members.origin())
                    .help("save the program again with `torch.jit.save`"));
            }
        }
    }
    below.sort_unstable();
    Ok((root, below))
}
