//! [`Script`]: functions and classes of a text, compiled at run time.

use std::path::Path;
use std::sync::Arc;

use fx_script::ast::File;
use fx_script::ir;
use fx_script::load::{Program, Session};
use fx_script::source::Source;
use fx_script::value::Value as Item;
use fx_script::vm::Limits;
use fx_script::{emit::Unit, parse, print};

use super::AtenOperators;
use crate::import::TorchScript;
use crate::{Arg, Registry, Result, Tree, err};

/// The name of a text without a file.
const NAMELESS: &str = "<script>";

/// Compiles a text of TorchScript: functions and classes in the syntax of Python, with types.
///
/// The text may import from `torch`, `math`, `typing` and `enum`, define constants, functions, classes, named
/// tuples, enumerations and data classes. Parameters without an annotation are tensors. Functions run in a
/// virtual machine, with the limits of [`Script::limits`].
///
/// Fails with all errors of the text, each with its line and a caret.
///
/// ```
/// let mut script = fx::script(
///     "
/// def newton(a: Tensor, tol: float = 1e-6) -> Tuple[Tensor, int]:
///     x, n = torch.ones_like(a), 0
///     while bool((x * x - a).abs().max() > tol) and n < 50:
///         x = 0.5 * (x + a / x)
///         n += 1
///     return x, n
/// ",
/// )?;
/// let a = fx::Tensor::from(fx::Array::from([4f32, 9.0]));
/// let (root, rounds): (fx::Tensor, i64) = script.call("newton", (a,))?.to()?;
/// assert_eq!(root.array()?.to_vec::<f32>()?, [2.0, 3.0]);
/// assert_eq!(rounds, 5);
///
/// let error = fx::script("def f(x: Tensor) -> Tensor:\n    return x.rleu()\n").unwrap_err().to_string();
/// assert!(error.contains("Tensor has no method 'rleu'") && error.contains("<script>:2:12"), "{error}");
/// # Ok::<(), fx::Error>(())
/// ```
pub fn script(text: impl Into<String>) -> Result<Script> {
    Script::new(&Source::new(NAMELESS, text), crate::registry())
}

/// Compiles the text of a file, as [`script`](fn@script) does; errors name the file. Fails as that does, or if the
/// file cannot be read.
///
/// ```no_run
/// let mut script = fx::script_file("beam_search.py")?;
/// let tokens: Vec<i64> = script.call("search", (vec![1i64, 2, 3], 4i64))?.to()?;
/// # Ok::<(), fx::Error>(())
/// ```
pub fn script_file(path: impl AsRef<Path>) -> Result<Script> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| err!(Io, "cannot read {name}: {error}"))?;
    Script::new(&Source::new(name, text), crate::registry())
}

/// A text of functions and classes, ready to be called; see [`script`](fn@script).
pub struct Script {
    file: File,
    session: Session,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Script({})", self.functions().collect::<Vec<_>>().join(", "))
    }
}

impl Script {
    /// Compiles a text with the operators that the rows of a registry have. Fails as [`script`](fn@script) does.
    pub fn new(source: &Arc<Source>, registry: Registry) -> Result<Script> {
        let file = parse::file(source)?;
        let program = Program::from_file(&file)?;
        let session = Session::new(program, &AtenOperators::new(registry))?;
        Ok(Script { file, session })
    }

    /// Bounds what a call may use up.
    pub fn limits(mut self, limits: Limits) -> Script {
        self.session = self.session.limits(limits);
        self
    }

    /// Calls a function with the items of a tuple as arguments by position.
    ///
    /// Lists and dictionaries are copied on the way in, tensors are not: a function that writes to its argument
    /// changes a copy that only the program has. Fails if there is no such function, the arguments are not of
    /// the types of its parameters, the program raises, or a limit is reached.
    ///
    /// ```
    /// let mut script = fx::script("def scale(xs: List[float], by: float = 2.0):\n    return [x * by for x in xs]\n")?;
    /// assert_eq!(script.call("scale", (vec![1.0, 2.5],))?.to::<Vec<f64>>()?, [2.0, 5.0]);
    /// let error = script.call("scale", ("x".to_owned(),)).unwrap_err();
    /// assert_eq!(error.message(), r#"the argument "xs" of scale: expected List[float], got str x"#);
    /// # Ok::<(), fx::Error>(())
    /// ```
    pub fn call(&mut self, name: &str, args: impl Tree) -> Result<Item> {
        let args = match args.to_value() {
            Arg::Tuple(items) => items.iter().map(Item::of).collect::<Result<_>>()?,
            Arg::None => Vec::new(),
            other => vec![Item::of(&other)?],
        };
        self.call_values(name, args, Vec::new())
    }

    /// Calls a function with values of TorchScript, by position and by name. Fails as [`call`](Script::call) does.
    pub fn call_values(&mut self, name: &str, args: Vec<Item>, kwargs: Vec<(String, Item)>) -> Result<Item> {
        self.session.call_function(name, args, kwargs)
    }

    /// Lowers a function to a graph module, once the builder knows its inputs.
    ///
    /// Fails if there is no such function.
    ///
    /// ```
    /// let script = fx::script("def f(x: Tensor, n: int) -> Tensor:\n    for _ in range(n): x = x.relu() + 1\n    return x\n")?;
    /// let gm = script.lower("f")?.input("x", "f32[batch, 3]").constant("n", 2).load()?.into_module()?;
    /// assert_eq!(gm.graph().nodes().filter(|(_, node)| node.name().starts_with("relu")).count(), 2);
    /// # Ok::<(), fx::Error>(())
    /// ```
    pub fn lower(&self, name: &str) -> Result<TorchScript> {
        let mut program = Program::from_file(&self.file)?;
        program.enter(name)?;
        Ok(TorchScript::from_program(program))
    }

    /// Returns the text that calls have printed since the last time.
    pub fn take_output(&mut self) -> String {
        self.session.take_output()
    }

    /// Returns the names of the functions.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.session.program().definitions.functions.keys().map(|name| &**name)
    }

    /// Returns the text in its canonical form, which compiles to the same program.
    ///
    /// ```
    /// let script = fx::script("def f(x, y: int=1): return x+y")?;
    /// assert_eq!(script.code(), "def f(x,\n    y: int=1):\n  return x + y\n");
    /// # Ok::<(), fx::Error>(())
    /// ```
    pub fn code(&self) -> String {
        print::file(&self.file)
    }

    /// Returns the functions and methods as typed SSA, which [`ir::parse`] reads. Fails never for a text that
    /// was compiled.
    pub fn ir(&self) -> Result<ir::Program> {
        Unit::of(self.session.program())?.emit_all()
    }

    /// Returns the program.
    pub fn program(&self) -> &Program {
        self.session.program()
    }

    /// Returns the program with its bytecode.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }
}
