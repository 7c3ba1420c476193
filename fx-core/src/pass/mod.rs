//! Passes: functions that change a graph module, as rows with names; and [`Passes`], which runs and verifies
//! them.
//!
//! A pass asks its [`Context`] before each change, so that the driver can find a wrong change. It visits
//! sub-graphs too, and keeps nodes with effects and their order; `each_graph` does the first. One pass a
//! file; those that need operations by name are in fx-ops.

mod canonicalize;
mod const_fold;
mod cse;
mod dead_code;
mod diff;
mod driver;
mod functionalize;
mod hoist_loops;
mod inline;
mod inline_forks;
mod lift_constants;
mod normalize;
mod outline;
mod pipeline;
mod sample;
mod shape_prop;
mod sink;
mod unflatten;
mod unroll_loops;
mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use canonicalize::CANONICALIZE;
pub use const_fold::{CONST_FOLD, erase_unused, fold_values, remove_unread, updated_buffers};
pub use cse::CSE;
pub use dead_code::DEAD_CODE;
#[doc(hidden)]
pub use diff::edits;
pub use diff::text_diff;
pub use driver::{Culprit, PassReport, Passes, Report};
pub use functionalize::{FUNCTIONALIZE, State, functionalize};
pub use hoist_loops::HOIST_LOOPS;
pub use inline::{INLINE, INLINE_LEAVES, inline_module};
pub(crate) use inline::{inline_call, trace_call};
pub use inline_forks::INLINE_FORKS;
pub use lift_constants::{LIFT_CONSTANTS, constants_as_inputs, inputs_as_constants};
pub use normalize::NORMALIZE;
pub use outline::{OUTLINE, enclose, outline};
pub use sample::sample_inputs;
pub use shape_prop::{SHAPE_PROP, SIMPLIFY_SIZES};
pub use sink::{HOIST, SINK};
pub use unflatten::UNFLATTEN;
pub use unroll_loops::UNROLL_LOOPS;
pub use verify::compare_runs;

use crate::attribute::Parts;
pub use crate::folded::Recipe;
use crate::node::Literal;
use crate::op::Default as OptionDefault;
use crate::rewrite::Rewrites;
use crate::{Arg, DType, Graph, GraphModule, Result, bail};

/// The passes of fx-core, in the order in which they are best run.
pub static PASSES: &[Pass] = &[
    INLINE,
    INLINE_LEAVES,
    OUTLINE,
    NORMALIZE,
    SHAPE_PROP,
    SIMPLIFY_SIZES,
    CONST_FOLD,
    LIFT_CONSTANTS,
    CSE,
    DEAD_CODE,
    HOIST,
    HOIST_LOOPS,
    SINK,
    UNROLL_LOOPS,
    INLINE_FORKS,
    CANONICALIZE,
    FUNCTIONALIZE,
    UNFLATTEN,
];

/// The row of a pass.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The name, by which pipelines refer to it.
    pub name: &'static str,
    /// The documentation, in Markdown.
    pub doc: &'static str,
    /// The options.
    pub options: &'static [PassOption],
    /// Passes that come before it, if they are in the same pipeline.
    pub after: &'static [&'static str],
    /// Whether results keep their bits; else they are equal within rounding.
    pub exact: bool,
    /// Whether the types of results may change.
    pub retypes: bool,
    /// Whether arguments and the structure of the result may change; then runs before and after cannot be
    /// compared.
    pub resigns: bool,
    /// The function.
    pub run: fn(&mut GraphModule, &mut Context) -> Result<()>,
}

impl Pass {
    /// A row to fill in with `..Pass::BASE`.
    pub const BASE: Pass = Pass {
        name: "",
        doc: "",
        options: &[],
        after: &[],
        exact: true,
        retypes: false,
        resigns: false,
        run: |_, _| Ok(()),
    };

    /// Runs the pass once, without verification; returns how many changes it made. Fails if the pass does.
    pub fn apply(&self, gm: &mut GraphModule) -> Result<usize> {
        let mut context = Context::for_pass(self);
        (self.run)(gm, &mut context)?;
        Ok(context.rewrites.count())
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// An option of a pass: `fuse(max=64)`.
#[derive(Clone, Copy, Debug)]
pub struct PassOption {
    /// Its name.
    pub name: &'static str,
    /// The default value, which also fixes the kind.
    pub default: OptionDefault,
    /// The documentation.
    pub doc: &'static str,
}

/// The context of a pass: its options and the count of its changes.
#[derive(Debug, Default)]
pub struct Context {
    /// Counts the changes; a pass asks before each.
    pub rewrites: Rewrites,
    options: BTreeMap<Arc<str>, Literal>,
    notes: Vec<String>,
}

impl Context {
    /// Makes the context of a pass with its defaults.
    pub fn for_pass(pass: &Pass) -> Self {
        let options = pass.options.iter().map(|option| (Arc::from(option.name), option.default.to_arg()));
        Context { options: options.collect(), ..Context::default() }
    }

    /// Asks whether one more change may be made, and counts it; `describe` says which.
    pub fn allow(&mut self, describe: impl FnOnce() -> String) -> bool {
        self.rewrites.allow(describe)
    }

    /// Adds a sentence to the report.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Returns the value of an option. Fails if the pass has no such option.
    pub fn option(&self, name: &str) -> Result<&Literal> {
        match self.options.get(name) {
            Some(value) => Ok(value),
            None => bail!(Argument, "the pass has no option {name:?}"),
        }
    }

    /// Returns an integer option. Fails if there is none, or it is of another kind.
    pub fn int(&self, name: &str) -> Result<i64> {
        match self.option(name)? {
            Arg::Int(x) => Ok(*x),
            other => bail!(Argument, "the option {name:?} is an integer, got {}", other.kind_name()),
        }
    }

    /// Returns a bool option. Fails if there is none, or it is of another kind.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.option(name)? {
            Arg::Bool(x) => Ok(*x),
            other => bail!(Argument, "the option {name:?} is a bool, got {}", other.kind_name()),
        }
    }

    /// Returns a text option. Fails if there is none, or it is of another kind.
    pub fn text(&self, name: &str) -> Result<&str> {
        match self.option(name)? {
            Arg::Str(x) => Ok(x),
            other => bail!(Argument, "the option {name:?} is a word, got {}", other.kind_name()),
        }
    }

    /// Returns a dtype option. Fails if there is none, or it is of another kind.
    pub fn dtype(&self, name: &str) -> Result<DType> {
        match self.option(name)? {
            Arg::DType(x) => Ok(*x),
            Arg::Str(x) => x.parse(),
            other => bail!(Argument, "the option {name:?} is a dtype, got {}", other.kind_name()),
        }
    }
}

/// Calls `edit` with the graph and what its paths refer to, after it was called with every sub-graph,
/// innermost first; `edit` returns whether it changed the graph. On an error nothing is changed.
pub(crate) fn each_graph(
    gm: &mut GraphModule,
    edit: &mut dyn FnMut(&mut Graph, Parts<'_>) -> Result<bool>,
) -> Result<()> {
    fn visit(
        graph: &mut Graph,
        parts: Parts<'_>,
        edit: &mut dyn FnMut(&mut Graph, Parts<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let below = graph.edit_subgraphs(&mut |inner| visit(inner, Parts::default(), edit))?;
        Ok(edit(graph, parts)? | below)
    }
    let (graph, attributes, children) = gm.split();
    graph.transaction(|graph| visit(graph, Parts::new(attributes, children), edit))?;
    Ok(())
}
