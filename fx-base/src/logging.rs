//! `FX_LOG`: what each stage made of a program, and what compiled functions do, on standard error.
//!
//! The variable names stages, separated by commas: `FX_LOG=parse,ir`. Each `>` after a name asks for one level
//! more: `vm>>`. [`Filter`] is what it says, [`dump`] writes an artefact that it asks for. Nothing else reads the
//! variable.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Result, err};

/// The environment variable.
const VARIABLE: &str = "FX_LOG";

/// A stage that a program goes through, or a kind of event of a compiled function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Tokens, a line of them for each line of the text; `lex>` a line for each token.
    Lex,
    /// The text in its canonical form; `parse>` the syntax tree.
    Parse,
    /// The attributes of classes and the signatures of functions; `types>` the type of each value.
    Types,
    /// Functions as typed SSA.
    Ir,
    /// The storages of a lowered method, with what keeps them and how often they were written to.
    Alias,
    /// The report on a lowered method, and its graph.
    Lower,
    /// Functions as bytecode.
    Bytecode,
    /// Calls with arguments and results; `vm>` calls within calls, too; `vm>>` each instruction with its result.
    Vm,
    /// Graphs that a compiled function makes ready.
    Graphs,
    /// Places at which the graphs of a compiled function end, or its code runs otherwise, each once.
    Breaks,
    /// Calls that no compiled code fitted, with what was expected and what came.
    Misses,
    /// The paths of pure functions, with what must hold for a call.
    Guards,
    /// What the backend made of a graph.
    Kernels,
    /// How long compilations took.
    Times,
    /// Passes with how much they changed; `passes>` the difference that each made, `passes>>` each change, too.
    Passes,
}

impl Stage {
    /// All stages in order, by name.
    pub const ALL: [(&'static str, Stage); 15] = [
        ("lex", Stage::Lex),
        ("parse", Stage::Parse),
        ("types", Stage::Types),
        ("ir", Stage::Ir),
        ("alias", Stage::Alias),
        ("lower", Stage::Lower),
        ("bytecode", Stage::Bytecode),
        ("vm", Stage::Vm),
        ("graphs", Stage::Graphs),
        ("breaks", Stage::Breaks),
        ("misses", Stage::Misses),
        ("guards", Stage::Guards),
        ("kernels", Stage::Kernels),
        ("times", Stage::Times),
        ("passes", Stage::Passes),
    ];
}

/// The stages that are shown, each with its level.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter([u8; Stage::ALL.len()]);

impl Filter {
    /// Reads stages with commas between, such as `parse,vm>>`. Fails if one is unknown; the error lists them all.
    pub fn parse(text: &str) -> Result<Filter> {
        let mut filter = Filter::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let name = part.trim_end_matches('>');
            let Some((_, stage)) = Stage::ALL.iter().find(|(known, _)| *known == name) else {
                let known = Stage::ALL.map(|(name, _)| name);
                let error = err!(Argument, "{VARIABLE}={text}: there is no stage {name:?}");
                return Err(error
                    .help(format!("the stages are {}; each > after a name shows more", known.join(", "))));
            };
            let level = 1 + (part.len() - name.len()).min(2) as u8;
            let shown = &mut filter.0[*stage as usize];
            *shown = level.max(*shown);
        }
        Ok(filter)
    }

    /// Returns the level of a stage: 0 if it is not shown, else 1 and one more for each `>`.
    pub fn level(&self, stage: Stage) -> u8 {
        self.0[stage as usize]
    }
}

/// Reads `FX_LOG`. Fails if it names an unknown stage.
pub fn check() -> Result<()> {
    filter().map(|_| ())
}

/// Returns the level at which a stage is shown, 0 if it is not. Fails if `FX_LOG` names an unknown stage.
pub fn level(stage: Stage) -> Result<u8> {
    filter().map(|filter| filter.level(stage))
}

fn filter() -> Result<&'static Filter> {
    static FILTER: OnceLock<Result<Filter>> = OnceLock::new();
    let filter = FILTER.get_or_init(|| match std::env::var_os(VARIABLE) {
        Some(text) => Filter::parse(&text.to_string_lossy()),
        None => Ok(Filter::default()),
    });
    filter.as_ref().map_err(Clone::clone)
}

/// Writes the artefact of a stage to standard error if the stage is shown; `artefact` gets the level. Fails if
/// `FX_LOG` names an unknown stage.
pub fn dump(stage: Stage, of: &str, artefact: impl FnOnce(u8) -> String) -> Result<()> {
    match level(stage)? {
        0 => {}
        level => write(stage, of, &artefact(level)),
    }
    Ok(())
}

/// Writes an artefact of a stage that is shown: a head, and its lines indented.
pub fn write(stage: Stage, of: &str, artefact: &str) {
    let (name, _) = Stage::ALL[stage as usize];
    let mut out = format!("[{name}] {of}\n");
    for line in artefact.lines() {
        out += if line.is_empty() { "" } else { "  " };
        out += line;
        out.push('\n');
    }
    eprint!("{out}");
}

/// The environment variable that stops passes.
const LIMIT: &str = "FX_OPT_LIMIT";

/// How many changes each pass may make, of those that are named.
type Limits = Vec<(String, AtomicUsize)>;

/// Reads limits such as `cse=3,fuse=10`. Fails if a part is no name and number.
fn parse_limits(text: &str) -> Result<Limits> {
    let mut limits = Limits::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let limit = part.split_once('=').and_then(|(pass, n)| Some((pass.trim(), n.trim().parse().ok()?)));
        let Some((pass, n)) = limit.filter(|(pass, _)| !pass.is_empty()) else {
            return Err(err!(Argument, "{LIMIT}={text}: {part:?} is no pass with a number")
                .help("write cse=3 to let the pass cse make 3 changes in the whole program"));
        };
        limits.push((pass.to_owned(), AtomicUsize::new(n)));
    }
    Ok(limits)
}

fn limits() -> Result<&'static Limits> {
    static LIMITS: OnceLock<Result<Limits>> = OnceLock::new();
    let limits = LIMITS.get_or_init(|| match std::env::var_os(LIMIT) {
        Some(text) => parse_limits(&text.to_string_lossy()),
        None => Ok(Limits::new()),
    });
    limits.as_ref().map_err(Clone::clone)
}

/// Returns the passes that `FX_OPT_LIMIT` names. Fails if it cannot be read.
pub fn limited_passes() -> Result<Vec<&'static str>> {
    Ok(limits()?.iter().map(|(pass, _)| &**pass).collect())
}

/// Returns how many changes `FX_OPT_LIMIT` lets a pass make; `None` if it does not name it. Fails if it cannot be
/// read.
pub fn changes_left(pass: &str) -> Result<Option<usize>> {
    Ok(limits()?.iter().find(|(name, _)| name == pass).map(|(_, left)| left.load(Ordering::Relaxed)))
}

/// Notes changes of a pass that `FX_OPT_LIMIT` counts.
pub fn note_changes(pass: &str, n: usize) {
    let Ok(limits) = limits() else { return };
    if let Some((_, left)) = limits.iter().find(|(name, _)| name == pass) {
        let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(n)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_raise_levels() {
        let filter = Filter::parse("parse, vm>>,lex>,lex,").unwrap();
        let levels = Stage::ALL.map(|(_, stage)| filter.level(stage));
        assert_eq!(levels, [2, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn stages_lie_in_the_table_in_order() {
        assert!(Stage::ALL.iter().enumerate().all(|(at, (_, stage))| *stage as usize == at));
    }

    #[test]
    fn limits_are_passes_with_numbers() {
        let limits = parse_limits(" cse=3, fuse = 10,,").unwrap();
        let each: Vec<(&str, usize)> =
            limits.iter().map(|(pass, n)| (&**pass, n.load(Ordering::Relaxed))).collect();
        assert_eq!(each, [("cse", 3), ("fuse", 10)]);
        for text in ["cse", "cse=", "=3", "cse=-1", "cse=x"] {
            let error = parse_limits(text).unwrap_err().to_string();
            assert!(error.contains(&format!("FX_OPT_LIMIT={text}: {text:?} is no pass")), "{error}");
        }
    }

    #[test]
    fn unknown_stage_lists_the_known_ones() {
        assert_eq!(
            Filter::parse("parse,bytecod>").unwrap_err().to_string(),
            "FX_LOG=parse,bytecod>: there is no stage \"bytecod\"\n  help: the stages are lex, parse, \
             types, ir, alias, lower, bytecode, vm, graphs, breaks, misses, guards, kernels, times, passes; each > \
             after a name shows more"
        );
    }
}
