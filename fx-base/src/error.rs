//! Errors: the problem, its operation, the line of the user's program or the file, and advice.
//!
//! One cheap-to-clone type serves every fallible function, because a tensor may carry its error
//! (see `Tensor`) and because a trace or a lint returns many at once ([`Error::related`]).

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// The result of every fallible function of fx.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an [`Error`], for programs that react to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes do not fit together, or a shape is impossible.
    Shape,
    /// A dtype is not what the operation takes.
    DType,
    /// An axis is out of range or repeated.
    Axis,
    /// An index or slice is out of range or malformed.
    Index,
    /// Wrong number of arguments, unknown or repeated keyword, or a value of the wrong kind.
    Argument,
    /// A nested structure of inputs or outputs is not the expected one.
    Structure,
    /// Something that a trace cannot capture.
    Trace,
    /// A node handle that was erased or belongs to another graph.
    Stale,
    /// An edit or a graph that breaks an invariant.
    Graph,
    /// A name, path or op that does not resolve.
    Unresolved,
    /// Text that does not parse.
    Parse,
    /// Weights or a file that cannot be loaded.
    Load,
    /// The operating system refused.
    Io,
    /// A `fx::check` failed while running.
    Check,
    /// A type that is not known before the operation has run. Shape rules return it; it does not reach the
    /// user.
    UnknownType,
    /// A limit that protects from unbounded work or memory.
    Limit,
    /// A number that its type cannot hold.
    Overflow,
    /// Several errors; see [`Error::related`].
    Many,
}

/// A position in the user's source: file, line and column.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLoc {
    file: FileName,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

#[derive(Clone)]
enum FileName {
    Static(&'static str),
    Shared(Arc<str>),
}

impl FileName {
    fn as_str(&self) -> &str {
        match self {
            FileName::Static(name) => name,
            FileName::Shared(name) => name,
        }
    }
}

impl PartialEq for FileName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
impl Eq for FileName {}
impl std::hash::Hash for FileName {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}
impl PartialOrd for FileName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for FileName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl SourceLoc {
    /// Makes a location from its parts, as a reader of saved programs does.
    pub fn new(file: impl Into<Arc<str>>, line: u32, column: u32) -> Self {
        SourceLoc { file: FileName::Shared(file.into()), line, column }
    }

    /// Returns the location of the caller of the calling function.
    #[track_caller]
    pub fn caller() -> Self {
        Location::caller().into()
    }

    /// Returns the file name as the compiler or the saved program gave it.
    pub fn file(&self) -> &str {
        self.file.as_str()
    }
}

impl From<&'static Location<'static>> for SourceLoc {
    fn from(location: &'static Location<'static>) -> Self {
        SourceLoc {
            file: FileName::Static(location.file()),
            line: location.line(),
            column: location.column(),
        }
    }
}

impl fmt::Display for SourceLoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file(), self.line, self.column)
    }
}

impl fmt::Debug for SourceLoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A problem, its place, and advice. Cheap to clone.
///
/// `Display` gives one sentence, then the operation, the place, the module and the file, then a `help:` line:
///
/// ```text
/// cannot broadcast [4, 2] with [3]  in add(f32[4, 2], f32[3])  at src/main.rs:14:20
///   help: ...
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    context: Option<String>,
    source: Option<SourceLoc>,
    module: Option<String>,
    file: Option<String>,
    help: Option<String>,
    related: Vec<Error>,
}

impl Error {
    /// Makes an error from its kind and one lower-case sentence without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error::with_message(kind, message.into())
    }

    #[cold]
    fn with_message(kind: ErrorKind, message: String) -> Self {
        Error(Arc::new(Inner {
            kind,
            message,
            context: None,
            source: None,
            module: None,
            file: None,
            help: None,
            related: Vec::new(),
        }))
    }

    /// Makes an error from its kind and its formatted sentence; [`err!`](crate::err) calls it.
    #[doc(hidden)]
    #[cold]
    pub fn formatted(kind: ErrorKind, message: fmt::Arguments<'_>) -> Self {
        Error::with_message(kind, fmt::format(message))
    }

    /// Bundles several errors; a single one is returned as it is.
    pub fn many(mut errors: Vec<Error>) -> Self {
        if errors.len() == 1 {
            return errors.remove(0);
        }
        let mut error = Error::new(ErrorKind::Many, format!("{} errors", errors.len()));
        error.inner_mut().related = errors;
        error
    }

    #[cold]
    #[inline(never)]
    fn inner_mut(&mut self) -> &mut Inner {
        Arc::make_mut(&mut self.0)
    }

    /// Adds advice for the user.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        self.with_help(help.into())
    }

    #[cold]
    #[inline(never)]
    fn with_help(mut self, help: String) -> Self {
        self.inner_mut().help = Some(help);
        self
    }

    /// Adds the place in the user's source, unless one is known already.
    #[must_use]
    pub fn at(mut self, source: impl Into<SourceLoc>) -> Self {
        if self.0.source.is_none() {
            self.inner_mut().source = Some(source.into());
        }
        self
    }

    /// Forgets the place if it is this one, so that a caller may give a better one; also of related errors.
    #[doc(hidden)]
    pub fn forget_place(mut self, place: &SourceLoc) -> Self {
        if self.0.source.as_ref() == Some(place) {
            self.inner_mut().source = None;
        }
        if !self.0.related.is_empty() {
            let related = &mut self.inner_mut().related;
            *related = std::mem::take(related).into_iter().map(|error| error.forget_place(place)).collect();
        }
        self
    }

    /// Adds the operation with its operands, or the node as text, unless one is known already.
    #[must_use]
    pub fn in_context(mut self, context: impl FnOnce() -> String) -> Self {
        if self.0.context.is_none() {
            self.inner_mut().context = Some(context());
        }
        self
    }

    /// Adds the module path, unless one is known already; an empty path is the root and is left out.
    #[must_use]
    pub fn in_module(mut self, path: &str) -> Self {
        if self.0.module.is_none() && !path.is_empty() {
            self.inner_mut().module = Some(path.to_owned());
        }
        self
    }

    /// Names the data that is wrong, unless that is known already: the file, and the entry in it, such as a
    /// tensor. It stands in the place of a source line, since no line of the user's program is wrong.
    #[must_use]
    pub fn in_file(mut self, file: &str, entry: Option<&str>) -> Self {
        if self.0.file.is_none() {
            self.inner_mut().file = Some(entry.map_or(file.to_owned(), |entry| format!("{file}, {entry}")));
        }
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the sentence about the problem, without place and help.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the operation or node in which it happened.
    pub fn context(&self) -> Option<&str> {
        self.0.context.as_deref()
    }

    /// Returns the place in the user's source.
    pub fn source_loc(&self) -> Option<&SourceLoc> {
        self.0.source.as_ref()
    }

    /// Returns the dotted path of the module in which it happened.
    pub fn module(&self) -> Option<&str> {
        self.0.module.as_deref()
    }

    /// Returns the file whose data is wrong, with the entry in it: `io.safetensors, 0.in1`.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// Returns the advice.
    pub fn advice(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// Returns the bundled errors of an error of kind [`ErrorKind::Many`]; otherwise nothing.
    pub fn related(&self) -> &[Error] {
        &self.0.related
    }

    /// Returns whether two handles are the same error, as when one error flowed through many tensors.
    pub fn same(&self, other: &Error) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        f.write_str(&inner.message)?;
        if let Some(context) = &inner.context {
            write!(f, "  in {context}")?;
        }
        if let Some(source) = &inner.source {
            write!(f, "  at {source}")?;
        }
        if let Some(module) = &inner.module {
            write!(f, "  in module {module}")?;
        }
        if let Some(file) = &inner.file {
            write!(f, "  in {file}")?;
        }
        if let Some(help) = &inner.help {
            write!(f, "\n  help: {help}")?;
        }
        for error in &inner.related {
            write!(f, "\n- {}", error.to_string().replace('\n', "\n  "))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

/// Makes an [`Error`]: `err!(Shape, "cannot reshape {} elements", n)`.
#[macro_export]
macro_rules! err {
    ($kind:ident, $($arg:tt)*) => {
        $crate::Error::formatted($crate::ErrorKind::$kind, format_args!($($arg)*))
    };
}

/// Returns early with an [`Error`]: `bail!(Axis, "axis {axis} is out of range")`.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($arg:tt)*) => {
        return Err($crate::err!($kind, $($arg)*))
    };
}
