//! What a trace with examples can find, with the default level of each kind.

use std::fmt;

use crate::graph_diff::Line;
use crate::{DType, Error, SourceLoc, err};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $level:ident;)*) => {
        /// The kinds of diagnostics.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$kind => stringify!($kind),)* }
            }

            /// Returns the level of a builder that says nothing else.
            pub fn default_level(self) -> Level {
                match self { $(Kind::$kind => Level::$level,)* }
            }
        }
    };
}

kinds! {
    /// Rust code used a size as a number or compared it, so the graph holds for this size only.
    FrozenSize: Deny;
    /// Rust code read an element, so the graph has the number of the example.
    FrozenNumber: Deny;
    /// A branch of Rust code depends on an element, so the graph has one side of it.
    DataBranch: Deny;
    /// A loop of Rust code was unrolled for the size of the example.
    UnrolledLoop: Warn;
    /// A tensor that was made outside of the function is a constant of the graph.
    CapturedConstant: Warn;
    /// A random number that Rust code drew is a constant of the graph.
    FrozenRandom: Deny;
    /// The function gives other graphs or results for the same arguments, and not as a state does.
    Nondeterministic: Warn;
    /// Other arguments give another graph.
    GraphDiffers: Deny;
    /// The graph gives another result than the function.
    ResultDiffers: Deny;
    /// Rust code keeps something from call to call that the graph does not.
    StateLost: Deny;
    /// Two arguments of the example are one tensor.
    AliasedInput: Note;
    /// The variable of an argument is assigned to, which does not change the tensor of the caller.
    WritesInput: Note;
    /// The function holds for one dtype only.
    DTypeFixed: Note;
    /// An argument has no influence.
    UnusedInput: Warn;
    /// A result does not depend on the arguments.
    ConstantOutput: Warn;
    /// A module or operation is in training mode.
    TrainingFlag: Warn;
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a diagnostic means for the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// It is in the data of the report and not in its table.
    Allow,
    /// It is in the report.
    Note,
    /// It is in the report and counts as a warning.
    Warn,
    /// The trace fails.
    Deny,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Allow => "allow",
            Level::Note => "note",
            Level::Warn => "warn",
            Level::Deny => "deny",
        })
    }
}

/// The arguments of a check: in which way they differ from the example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variation {
    /// They do not.
    Same,
    /// The random generator has another seed.
    OtherSeed,
    /// The sizes are the same, the elements others.
    OtherNumbers,
    /// One symbol has another value.
    Size {
        /// The symbol.
        symbol: String,
        /// Its value in the example.
        from: i64,
        /// Its value in the check.
        to: i64,
    },
    /// All free symbols have other values.
    AllSizes,
    /// The floats have another dtype.
    DType(DType),
    /// They are the inputs of this number, from 0, that the user gave for checks.
    Given(usize),
}

impl fmt::Display for Variation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variation::Same => f.write_str("the same arguments"),
            Variation::OtherSeed => f.write_str("another seed"),
            Variation::OtherNumbers => f.write_str("other numbers"),
            Variation::Size { symbol, from, to } => write!(f, "{symbol} = {to} in place of {from}"),
            Variation::AllSizes => f.write_str("all sizes changed"),
            Variation::DType(dtype) => write!(f, "floats of {dtype}"),
            Variation::Given(i) => write!(f, "check input {i}"),
        }
    }
}

/// What was found, with its data.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// See [`Kind::FrozenSize`].
    FrozenSize {
        /// The size, such as `2*x0`.
        size: String,
        /// The arguments and axes that it comes from.
        axes: Vec<(String, usize)>,
        /// Its value in the example.
        value: i64,
        /// The comparison that used it, if it was one.
        comparison: Option<String>,
    },
    /// See [`Kind::FrozenNumber`].
    FrozenNumber {
        /// The node that was read.
        node: String,
        /// What was seen.
        seen: String,
        /// What a check saw in its place, if that was something else.
        other: Option<String>,
    },
    /// See [`Kind::DataBranch`].
    DataBranch {
        /// The node that was read.
        node: String,
        /// What was seen.
        seen: bool,
        /// Whether a check saw the opposite.
        both_seen: bool,
    },
    /// See [`Kind::UnrolledLoop`].
    UnrolledLoop {
        /// The argument and axis whose size is the number of turns, if one is known.
        axis: Option<(String, usize)>,
        /// The number of turns, or of nodes that the line made.
        n: usize,
        /// The number of nodes in a check, where another number of nodes showed the loop.
        other: Option<usize>,
    },
    /// See [`Kind::CapturedConstant`].
    CapturedConstant {
        /// The path of the constant.
        path: String,
        /// Dtype and sizes.
        ty: String,
        /// Its size in memory.
        bytes: usize,
    },
    /// See [`Kind::FrozenRandom`].
    FrozenRandom {
        /// What the trace has.
        first: String,
        /// What it has with another seed.
        second: String,
    },
    /// See [`Kind::Nondeterministic`].
    Nondeterministic {
        /// What one trace has.
        first: String,
        /// What another has for the same arguments.
        second: String,
    },
    /// See [`Kind::GraphDiffers`].
    GraphDiffers {
        /// The first node that differs, in the graph of the example.
        first: Option<Line>,
        /// The node in the graph of the check.
        second: Option<Line>,
        /// The arguments of the check.
        input: Variation,
    },
    /// See [`Kind::ResultDiffers`].
    ResultDiffers {
        /// The number of the tensor among the results.
        output: usize,
        /// How the function and the graph differ there.
        how: String,
        /// The greatest absolute difference, if both are tensors of the same shape.
        abs: Option<f64>,
        /// The arguments of the check.
        input: Variation,
    },
    /// See [`Kind::StateLost`].
    StateLost {
        /// What is lost, as a clause.
        what: String,
    },
    /// See [`Kind::AliasedInput`].
    AliasedInput {
        /// The two arguments.
        arguments: (String, String),
    },
    /// See [`Kind::WritesInput`].
    WritesInput {
        /// The argument.
        argument: String,
    },
    /// See [`Kind::DTypeFixed`].
    DTypeFixed {
        /// The dtype that was tried.
        tried: DType,
        /// What happened, as a clause.
        what: String,
    },
    /// See [`Kind::UnusedInput`].
    UnusedInput {
        /// The argument, or the tensor in it.
        argument: String,
    },
    /// See [`Kind::ConstantOutput`].
    ConstantOutput {
        /// The number of the tensor or number among the results.
        output: usize,
        /// What it is.
        node: String,
    },
    /// See [`Kind::TrainingFlag`].
    TrainingFlag {
        /// The module or operation.
        what: String,
    },
}

impl Finding {
    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        match self {
            Finding::FrozenSize { .. } => Kind::FrozenSize,
            Finding::FrozenNumber { .. } => Kind::FrozenNumber,
            Finding::DataBranch { .. } => Kind::DataBranch,
            Finding::UnrolledLoop { .. } => Kind::UnrolledLoop,
            Finding::CapturedConstant { .. } => Kind::CapturedConstant,
            Finding::FrozenRandom { .. } => Kind::FrozenRandom,
            Finding::Nondeterministic { .. } => Kind::Nondeterministic,
            Finding::GraphDiffers { .. } => Kind::GraphDiffers,
            Finding::ResultDiffers { .. } => Kind::ResultDiffers,
            Finding::StateLost { .. } => Kind::StateLost,
            Finding::AliasedInput { .. } => Kind::AliasedInput,
            Finding::WritesInput { .. } => Kind::WritesInput,
            Finding::DTypeFixed { .. } => Kind::DTypeFixed,
            Finding::UnusedInput { .. } => Kind::UnusedInput,
            Finding::ConstantOutput { .. } => Kind::ConstantOutput,
            Finding::TrainingFlag { .. } => Kind::TrainingFlag,
        }
    }

    /// Returns what to write instead.
    pub fn help(&self) -> &'static str {
        match self {
            Finding::FrozenSize { comparison: None, .. } => {
                "compute with the `Dim` itself, which stays symbolic: `x.dim(0) * 2`, `x.reshape((x.dim(0), -1))`"
            }
            Finding::FrozenSize { .. } => {
                "use `min` and `max` of sizes, or trace each side on its own; allow it if the size is always this one"
            }
            Finding::FrozenNumber { .. } => {
                "keep it a tensor: operators take tensors of rank 0; or make the number an argument"
            }
            Finding::DataBranch { .. } => {
                "put `#[fx::script]` on the function, or use `fx::cond(p, …, …)`, `fx::while_loop`, or `where_` for a choice of values"
            }
            Finding::UnrolledLoop { .. } => {
                "work on the whole axis at once, or use `fx::while_loop`; allow it if the number of turns is always this one"
            }
            Finding::CapturedConstant { .. } => {
                "make it a parameter or buffer of a module, or an argument, if it may change"
            }
            Finding::FrozenRandom { .. } => {
                "draw with an operation, such as `fx::rand` or `dropout`, which is a node of the graph"
            }
            Finding::Nondeterministic { .. } => {
                "pass what changes from call to call, such as a clock or a random number, as an argument"
            }
            Finding::GraphDiffers { .. } => {
                "make the code independent of the values, or trace each case on its own"
            }
            Finding::ResultDiffers { .. } => {
                "look for code that runs only while tracing, or raise the tolerance if rounding explains it"
            }
            Finding::StateLost { .. } => {
                "keep the state in a `Buffer` of the module and update it with `set`, or pass it in and return it"
            }
            Finding::AliasedInput { .. } => {
                "the graph takes two tensors; nothing needs to change if that is meant"
            }
            Finding::WritesInput { .. } => "return the new tensor if the caller needs it",
            Finding::DTypeFixed { .. } => {
                "convert with the dtype of an argument: `y.to(x.dtype()?)`; nothing needs to change if one dtype is meant"
            }
            Finding::UnusedInput { .. } => "remove the argument, or use it",
            Finding::ConstantOutput { .. } => {
                "return what depends on the arguments; a constant needs no graph"
            }
            Finding::TrainingFlag { .. } => {
                "call `eval()` on the module before tracing, if the graph is for inference"
            }
        }
    }
}

fn axes_text(axes: &[(String, usize)]) -> String {
    let list: Vec<String> = axes.iter().map(|(name, axis)| format!("axis {axis} of {name}")).collect();
    list.join(", ")
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::FrozenSize { size, axes, value, comparison } => {
                match comparison {
                    Some(comparison) => {
                        write!(f, "the code compares sizes, {comparison}, where {size} is {value}")?
                    }
                    None => write!(f, "the size {size} is used as the number {value}")?,
                }
                if axes.is_empty() { Ok(()) } else { write!(f, "; it comes from {}", axes_text(axes)) }
            }
            Finding::FrozenNumber { node, seen, other } => {
                write!(f, "the value of {node} is read: {seen}")?;
                match other {
                    Some(other) => write!(f, "; other arguments give {other}"),
                    None => Ok(()),
                }
            }
            Finding::DataBranch { node, seen, both_seen } => {
                write!(f, "{node} decides control flow: it was {seen}")?;
                if *both_seen { write!(f, ", and {} for other arguments", !seen) } else { Ok(()) }
            }
            Finding::UnrolledLoop { axis, n, other } => {
                match other {
                    Some(other) => {
                        write!(f, "the line makes {n} nodes for the example and {other} for another size")?
                    }
                    None => write!(f, "the loop has {n} turns in the graph")?,
                }
                match axis {
                    Some((name, axis)) => write!(f, "; their number follows axis {axis} of {name}"),
                    None => Ok(()),
                }
            }
            Finding::CapturedConstant { path, ty, bytes } => {
                write!(
                    f,
                    "a tensor from outside of the function, {ty} of {bytes} bytes, is the constant {path}"
                )
            }
            Finding::FrozenRandom { first, second } => {
                write!(f, "a random number is fixed: {first}; with another seed {second}")
            }
            Finding::Nondeterministic { first, second } => {
                write!(f, "the same arguments give {first}, and {second} the next time")
            }
            Finding::GraphDiffers { first, second, input } => {
                write!(f, "{input} give another graph: ")?;
                match (first, second) {
                    (Some(first), Some(second)) => write!(f, "{} becomes {}", first.text, second.text),
                    (Some(first), None) => write!(f, "{} is missing", first.text),
                    (None, Some(second)) => write!(f, "{} is added", second.text),
                    (None, None) => f.write_str("its arguments differ"),
                }
            }
            Finding::ResultDiffers { output, how, input, .. } => {
                write!(f, "the graph and the function differ in result {output} for {input}: {how}")
            }
            Finding::StateLost { what } => f.write_str(what),
            Finding::AliasedInput { arguments: (a, b) } => {
                write!(f, "{a} and {b} are one tensor in the example")
            }
            Finding::WritesInput { argument } => {
                write!(f, "the variable {argument} is assigned to; the tensor of the caller does not change")
            }
            Finding::DTypeFixed { tried, what } => write!(f, "with floats of {tried}, {what}"),
            Finding::UnusedInput { argument } => write!(f, "the argument {argument} is not used"),
            Finding::ConstantOutput { output, node } => {
                write!(f, "result {output}, {node}, does not depend on the arguments")
            }
            Finding::TrainingFlag { what } => write!(f, "{what} is in training mode"),
        }
    }
}

/// A finding with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// What was found.
    pub finding: Finding,
    /// What it means for this trace.
    pub level: Level,
    /// The line of the user's program: the one that reads, or that made the node. For a finding without a line
    /// of its own it is the line that asked for the trace.
    pub at: SourceLoc,
    /// The path of the module, if it was not the root.
    pub module: Option<String>,
}

impl Diagnostic {
    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.finding.kind()
    }

    /// Returns the diagnostic as an error with its line and advice.
    pub fn to_error(&self) -> Error {
        err!(Trace, "{}: {}", self.kind(), self.finding)
            .help(self.finding.help())
            .at(self.at.clone())
            .in_module(self.module.as_deref().unwrap_or_default())
    }
}

/// The level, kind, message, line and advice.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.level, self.to_error())
    }
}
