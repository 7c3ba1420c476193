//! The names that a text binds outside of functions and classes: imports and constants.

use std::collections::BTreeMap;
use std::sync::Arc;

use fx_core::{ErrorKind, Result};

use super::unit::Unit;
use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::source::Source;

/// The most nodes of the expression of a constant, with those of the constants that it names.
const MAX_CONSTANT_SIZE: usize = 10_000;

/// What a name outside of functions means.
#[derive(Debug, Clone)]
pub(crate) enum Global {
    /// A module, or something in a module: `F` is `torch.nn.functional`.
    Import(Arc<str>),
    /// A constant.
    Constant(Arc<Constant>),
}

/// A constant of a text, whose expression takes the place of its name.
#[derive(Debug)]
pub(crate) struct Constant {
    /// Its annotation.
    pub(crate) declared: Option<Expr>,
    /// Its value.
    pub(crate) value: Expr,
    /// The text that it is in.
    pub(crate) source: Arc<Source>,
    /// The nodes of its value, with those of the constants that it names.
    size: usize,
}

/// Returns the constant that a name in a scope stands for.
pub(crate) fn constant(
    globals: &BTreeMap<Arc<str>, Global>,
    scope: &str,
    name: &str,
) -> Option<Arc<Constant>> {
    match globals.get(format!("{scope}{name}").as_str()) {
        Some(Global::Constant(constant)) => Some(constant.clone()),
        _ => None,
    }
}

impl Unit {
    /// Returns what a qualified name outside of functions means.
    pub(crate) fn global(&self, name: &str) -> Option<&Global> {
        self.globals.get(name)
    }

    /// Returns what the qualified names outside of functions mean.
    pub(crate) fn globals(&self) -> &BTreeMap<Arc<str>, Global> {
        &self.globals
    }

    /// Returns the constant that a name in the text of a function stands for.
    pub(crate) fn constant_of(&self, function: &str, name: &str) -> Option<Arc<Constant>> {
        constant(&self.globals, &self.definition(function).ok()?.scope, name)
    }

    /// Binds the names of a statement outside of functions.
    ///
    /// Fails if the statement is neither an import nor a constant.
    pub(super) fn add_global(&mut self, scope: &str, statement: &Stmt, source: &Arc<Source>) -> Result<()> {
        match &statement.kind {
            StmtKind::Pass => Ok(()),
            StmtKind::Import(words) => {
                for (name, path) in imported(words) {
                    self.classes.import(format!("{scope}{name}").into(), path.clone());
                    self.globals.insert(format!("{scope}{name}").into(), Global::Import(path));
                }
                Ok(())
            }
            // A docstring.
            StmtKind::Expr(value) if matches!(value.kind, ExprKind::Str(_)) => Ok(()),
            StmtKind::Assign(targets, value) => {
                for target in targets {
                    match target.as_name() {
                        // The first line of old archives is the version of their operators.
                        Some(name) if &**name == "op_version_set" => {}
                        Some(name) => self.add_constant(scope, name, None, value, source)?,
                        None => return Err(outside(statement, source)),
                    }
                }
                Ok(())
            }
            StmtKind::Annotated(target, declared, Some(value)) => match target.as_name() {
                Some(name) => self.add_constant(scope, name, Some(declared), value, source),
                None => Err(outside(statement, source)),
            },
            _ => Err(outside(statement, source)),
        }
    }

    fn add_constant(
        &mut self,
        scope: &str,
        name: &str,
        declared: Option<&Expr>,
        value: &Expr,
        source: &Arc<Source>,
    ) -> Result<()> {
        let size = self.size(scope, value, source)?;
        if size > MAX_CONSTANT_SIZE {
            let message = format!("the constant '{name}' has more than {MAX_CONSTANT_SIZE} parts");
            return Err(source.error(ErrorKind::Limit, value.span, &message));
        }
        let constant =
            Constant { declared: declared.cloned(), value: value.clone(), source: source.clone(), size };
        self.globals.insert(format!("{scope}{name}").into(), Global::Constant(Arc::new(constant)));
        Ok(())
    }

    /// Returns the number of nodes of a constant expression. Fails if it is none, or names a later constant.
    fn size(&self, scope: &str, value: &Expr, source: &Source) -> Result<usize> {
        let wrong = |message: &str| {
            source
                .error(ErrorKind::Parse, value.span, message)
                .help("a constant outside of functions is a number, a text, a bool, None, or a tuple of them")
        };
        match &value.kind {
            ExprKind::Name(name) => match self.global(&format!("{scope}{name}")) {
                Some(Global::Constant(constant)) => return Ok(constant.size),
                Some(Global::Import(_)) => {}
                None if matches!(&**name, "inf" | "nan" | "torch" | "math") => {}
                None => return Err(wrong(&format!("there is no constant '{name}' before this line"))),
            },
            ExprKind::None
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Imaginary(_)
            | ExprKind::Complex(..)
            | ExprKind::Str(_)
            | ExprKind::Paren(_)
            | ExprKind::Attribute(..)
            | ExprKind::Tuple(..)
            | ExprKind::Unary(..)
            | ExprKind::Binary(..) => {}
            ExprKind::Call(callee, arguments)
                if callee.as_name().is_some_and(|name| &**name == "float") && arguments.items.len() == 1 =>
            {
                return Ok(2);
            }
            _ => return Err(wrong("this value is no constant")),
        }
        let (mut size, mut outcome) = (1usize, Ok(()));
        value.kind.each(&mut |child| {
            if outcome.is_ok() {
                outcome = self.size(scope, child, source).map(|part| size = size.saturating_add(part));
            }
        });
        outcome.map(|()| size)
    }
}

fn outside(statement: &Stmt, source: &Source) -> fx_core::Error {
    source
        .error(ErrorKind::Parse, statement.span, "a statement stands outside of all functions")
        .help("a text of TorchScript has functions, classes, imports and constants")
}

/// Returns the names that the words of an `import` bind, each with the path that it stands for.
fn imported(words: &[Arc<str>]) -> Vec<(Arc<str>, Arc<str>)> {
    let words: Vec<&str> =
        words.iter().map(|word| &**word).filter(|word| !matches!(*word, "(" | ")")).collect();
    let (module, items) = match words[..] {
        ["from", ref rest @ ..] => match rest.iter().position(|word| *word == "import") {
            Some(at) => (Some(rest[..at].concat()), &rest[at + 1..]),
            None => return Vec::new(),
        },
        ["import", ref items @ ..] => (None, items),
        _ => return Vec::new(),
    };
    let mut bound = Vec::new();
    for item in items.split(|word| *word == ",").filter(|item| !item.is_empty()) {
        let renamed = item.iter().position(|word| *word == "as");
        let path = item[..renamed.unwrap_or(item.len())].concat();
        let name = renamed.and_then(|at| item.get(at + 1)).map(|name| (*name).to_owned());
        match (&module, name) {
            (Some(module), name) => {
                bound.push((name.unwrap_or_else(|| path.clone()).into(), format!("{module}.{path}").into()));
            }
            (None, Some(name)) => bound.push((name.into(), path.into())),
            (None, None) => {
                let first: Arc<str> = path.split('.').next().unwrap_or_default().into();
                bound.push((first.clone(), first));
            }
        }
    }
    bound
}
