//! Code for people: a graph module as Rust over the public API, that compiles, traces back to the same graph,
//! and runs the same numbers.
//!
//! Each module of the hierarchy is a struct with its members and a `forward`, whose statements are the nodes;
//! modules that are alike are written once. [`Code`] knows which nodes each line runs.

mod body;
mod layout;
pub(crate) mod names;
mod structure;
mod types;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use fx_core::{Error, GraphModule, Module, Op, Result, SourceLoc, err};

use structure::Generator;

/// A function that writes the call of an operation from its arguments in schema order.
type Custom = Arc<dyn Fn(&[String]) -> String + Send + Sync>;
/// A function that changes the lines of the code.
type Transform = Arc<dyn Fn(Vec<String>) -> Vec<String> + Send + Sync>;

/// How code is written; see [`GraphCode::code_with`].
#[derive(Clone, Default)]
pub struct Options {
    custom: HashMap<Op, Custom>,
    crates: Vec<(String, String)>,
    modules: HashMap<String, String>,
    transform: Option<Transform>,
}

impl Options {
    /// Makes the options that [`GraphCode::code`] has.
    pub fn new() -> Self {
        Options::default()
    }

    /// Writes calls of an operation by a function that gets the arguments in schema order, as Rust text, and
    /// returns an expression.
    ///
    /// ```text
    /// Options::new().operation(fx::gelu::OP, |args| format!("my_gelu({})", args[0]))
    /// ```
    pub fn operation(mut self, op: Op, write: impl Fn(&[String]) -> String + Send + Sync + 'static) -> Self {
        self.custom.insert(op, Arc::new(write));
        self
    }

    /// Says under which path the functions of a crate are in scope: `.crate_path("my_model", "crate")`.
    pub fn crate_path(mut self, name: &str, path: &str) -> Self {
        self.crates.push((name.to_owned(), path.to_owned()));
        self
    }

    /// Says which Rust type a leaf module of this type name has, so that fields have it rather than
    /// `Box<dyn Forward>`.
    pub fn module(mut self, type_name: &str, path: &str) -> Self {
        self.modules.insert(type_name.to_owned(), path.to_owned());
        self
    }

    /// Changes the lines before they are put together. Lines keep their nodes only if there are as many as before.
    pub fn transform(mut self, change: impl Fn(Vec<String>) -> Vec<String> + Send + Sync + 'static) -> Self {
        self.transform = Some(Arc::new(change));
        self
    }

    fn custom(&self, op: Op) -> Option<&Custom> {
        self.custom.get(&op)
    }

    /// Returns the path of the function of an operation.
    fn path_of(&self, op: Op) -> Result<String> {
        let Some((module, function)) = op.path.rsplit_once("::") else {
            return Err(err!(Unresolved, "the operation {} has no Rust function", op.name)
                .help("give its row a `path`, or write its code by `Options::operation`"));
        };
        Ok(self.in_scope(module, function))
    }

    /// Returns the path of an item: those of fx are at its top level.
    fn in_scope(&self, module: &str, item: &str) -> String {
        let first = module.split("::").next().unwrap_or_default();
        if let Some((name, path)) = self.crates.iter().find(|(name, _)| name == first) {
            return format!("{path}{}::{item}", &module[name.len()..]);
        }
        match first {
            // `fx::check` is a module, too.
            "fx_core" if item == "check" => "fx::ops::check".into(),
            "fx_core" | "fx_ops" | "fx" => format!("fx::{item}"),
            _ => format!("{module}::{item}"),
        }
    }

    /// Returns the type of a leaf module as it is written, if it can be named.
    fn module_type(&self, module: &dyn Module) -> Option<String> {
        if let Some(path) = self.modules.get(module.type_name()) {
            return Some(path.clone());
        }
        let path = module.type_path();
        let name = path.strip_prefix("fx_ops::nn::")?.rsplit("::").next()?;
        (!path.contains('<')).then(|| format!("nn::{name}"))
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("crates", &self.crates)
            .field("modules", &self.modules)
            .finish_non_exhaustive()
    }
}

/// A node that a line runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The path of the graph module that has it, empty for the outermost.
    pub module: String,
    /// Its name.
    pub name: String,
    /// The line of the user's program that it comes from.
    pub source: Option<SourceLoc>,
}

/// Code that was written from a graph module.
#[derive(Clone, Debug)]
pub struct Code {
    text: String,
    lines: Vec<Vec<Node>>,
    type_name: String,
}

impl Code {
    /// Returns the code.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name of the outermost struct.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns the nodes that a line runs, counted from 1; of a module that is written once and called often,
    /// those of every call.
    pub fn nodes(&self, line: u32) -> &[Node] {
        let at = (line as usize).checked_sub(1);
        at.and_then(|at| self.lines.get(at)).map_or(&[], Vec::as_slice)
    }

    /// Says of an error that code in `file` gave which node it comes from, and from which line of the user's
    /// program.
    pub fn explain(&self, error: Error, file: &str) -> Error {
        let nodes = error
            .source_loc()
            .filter(|source| source.file().ends_with(file))
            .map(|source| self.nodes(source.line));
        let Some([first, rest @ ..]) = nodes else { return error };
        let more = if rest.is_empty() { String::new() } else { format!(" or one of {} like it", rest.len()) };
        let source = first.source.as_ref().map_or(String::new(), |source| format!(" from {source}"));
        let node = format!("the node %{}{more}{source}", first.name);
        error.in_context(|| node)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Graph modules as Rust.
pub trait GraphCode {
    /// Writes the module as Rust.
    ///
    /// Fails when it has what Rust code cannot say, such as an operation without a Rust function.
    fn code(&self) -> Result<Code>;

    /// Writes the module as Rust, with options.
    ///
    /// Fails as [`code`](GraphCode::code).
    fn code_with(&self, options: &Options) -> Result<Code>;
}

impl GraphCode for GraphModule {
    fn code(&self) -> Result<Code> {
        self.code_with(&Options::default())
    }

    fn code_with(&self, options: &Options) -> Result<Code> {
        if let Some(violation) = self.lint().into_iter().next() {
            return Err(violation.into());
        }
        let mut generator = Generator::new(options.clone());
        let signature = generator.graph_module(self, false)?;
        let mut lines: Vec<(String, Vec<Node>)> = Vec::new();
        let mut push = |text: &str| lines.push((text.to_owned(), Vec::new()));
        push("// Written by fx from a graph; it is yours to change.");
        push("");
        push("use fx::prelude::*;");
        // The outermost module comes first.
        for written in generator.structs.into_iter().rev() {
            lines.push((String::new(), Vec::new()));
            lines.extend(written.lines);
        }
        let (mut text, mut nodes): (Vec<String>, Vec<Vec<Node>>) = lines.into_iter().unzip();
        if let Some(transform) = &options.transform {
            text = transform(text);
            nodes.resize(text.len(), Vec::new());
        }
        let text = text.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect();
        Ok(Code { text, lines: nodes, type_name: signature.name })
    }
}
