//! Programs from archives: the classes and functions of the code, and the tree of objects.
//!
//! [`Program::load`] parses the code, evaluates what the text itself gives a value (`definitions`, `literal`), and
//! makes the objects of the pickle (`objects`), whose attributes it checks against their declared types;
//! `operators` checks the names of operators. `dump` prints a program for people, [`Session`] runs it. Operators
//! of old versions keep their meaning through `upgrade`. `text` makes programs of what users write, `freeze`
//! leaves out what is not used, `arguments` the values that a call is given those of its parameters.

mod arguments;
mod definitions;
mod dump;
mod freeze;
mod literal;
mod objects;
mod operators;
mod runtime;
mod session;
mod text;
mod upgrade;

use std::collections::BTreeMap;
use std::sync::Arc;

use fx_core::{Result, bail};

pub use self::definitions::{Definitions, FunctionDef};
pub use self::literal::literal;
pub use self::runtime::Runtime;
pub use self::session::Session;
pub use self::upgrade::{Upgrade, upgrade};
use crate::archive::{Archive, CodeFile, DebugRecords};
use crate::emit::{Unit, UnknownOperators};
use crate::pickle::Node;
use crate::value::{Object, Value};
use crate::{parse, source::Source};

/// A program of an archive, ready to be compiled.
#[derive(Debug)]
pub struct Program {
    /// Where it comes from.
    pub origin: String,
    /// The version of the format, which says what the operators mean; see [`upgrade()`].
    pub version: u32,
    /// The top module.
    pub root: Arc<Object>,
    /// The classes and functions.
    pub definitions: Definitions,
    /// The classes as values have them.
    pub runtime: Runtime,
    /// The constants: `CONSTANTS.c0` is the first.
    pub constants: Vec<Value>,
    /// The objects whose method `__setstate__` must be called with a value before the program is used, in order.
    pub pending: Vec<(Arc<Object>, Value)>,
    /// The places of the user's Python by the name of the file of code.
    pub debug: BTreeMap<String, DebugRecords>,
    /// What becomes of calls of operators that PyTorch does not have.
    pub unknown_operators: UnknownOperators,
}

impl Program {
    /// Reads the program of an archive.
    ///
    /// Fails if the code does not parse, a class is missing, an attribute is missing or not of its declared
    /// type, or a member is damaged; the error names the member, and the attribute or the line.
    pub fn load(archive: &Archive) -> Result<Program> {
        let files = archive.code()?;
        let mut unit = Unit::default();
        let mut debug = BTreeMap::new();
        for file in files {
            let records = archive.debug_records(&file);
            let CodeFile { module, member, text } = file;
            let name = format!("{}, {member}", archive.origin());
            if !records.is_empty() {
                debug.insert(name.clone(), records);
            }
            unit.add(&module, &parse::file(&Source::new(name, text))?)?;
        }
        unit.resolve()?;
        let constants = archive.constants()?;
        let data = archive.data()?;
        let mut objects = objects::Reader::new(archive.origin(), &constants, "constants.pkl");
        let Node::Tuple(items) = constants.pickle().node(constants.pickle().root()) else {
            bail!(Load, "{}: expected a tuple in constants.pkl", archive.origin());
        };
        let constants = items.iter().map(|&item| objects.constant(item)).collect::<Result<Vec<_>>>()?;
        operators::check(&unit)?;
        let definitions = Definitions::of(&unit, &constants)?;
        let mut objects = objects::Reader::new(archive.origin(), &data, "data.pkl");
        let runtime = Runtime::of(&definitions);
        let root = objects.root(&definitions, &runtime)?;
        let pending = objects.pending();
        let (origin, version) = (archive.origin().to_owned(), archive.version());
        Ok(Program {
            origin,
            version,
            root,
            definitions,
            runtime,
            constants,
            pending,
            debug,
            unknown_operators: UnknownOperators::FailWhenRun,
        })
    }
}
