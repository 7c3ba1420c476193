//! What an [`Executor`](super::Executor) tells of its plans.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// For which sizes a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanKind {
    /// For one size of each axis.
    Static,
    /// With a symbol for each size that varied; sizes that varied together share one.
    Dynamic,
    /// With a symbol of its own for each size that varied.
    Open,
    /// For all sizes, with the types that the module declares: operations of unknown type are planned anew for
    /// each size. The note of the plan says why there is no other.
    General,
}

impl fmt::Display for PlanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PlanKind::Static => "static",
            PlanKind::Dynamic => "dynamic",
            PlanKind::Open => "open",
            PlanKind::General => "general",
        })
    }
}

/// The plans of an executor: see [`debug_state`](super::Executor::debug_state).
#[derive(Clone, Debug, Serialize)]
pub struct ExecutorState {
    /// The name of the module.
    pub name: String,
    /// The name of the engine.
    pub engine: String,
    /// Calls.
    pub calls: u64,
    /// Plans that had to go because of the limit.
    pub evicted: u64,
    /// The structures of arguments that came, oldest first.
    pub structures: Vec<StructureState>,
}

/// The plans for arguments of one structure.
#[derive(Clone, Debug, Serialize)]
pub struct StructureState {
    /// The structure, such as `f32[_, _], i64[_]`.
    pub arguments: String,
    /// The plans, oldest first.
    pub plans: Vec<PlanState>,
}

/// A plan.
#[derive(Clone, Debug, Serialize)]
pub struct PlanState {
    /// For which sizes it is.
    pub kind: PlanKind,
    /// The inputs with their types.
    pub inputs: Vec<String>,
    /// Why it was made.
    pub reason: String,
    /// Why it is of this kind, if another one was tried.
    pub note: Option<String>,
    /// Calls that found it.
    pub hits: u64,
    /// How long it took to make.
    pub time: Duration,
}

impl fmt::Display for ExecutorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plans: usize = self.structures.iter().map(|structure| structure.plans.len()).sum();
        writeln!(
            f,
            "{}: engine {}, {plans} plan{}, {} call{}, {} evicted",
            self.name,
            self.engine,
            if plans == 1 { "" } else { "s" },
            self.calls,
            if self.calls == 1 { "" } else { "s" },
            self.evicted
        )?;
        for structure in &self.structures {
            writeln!(f, "  ({})", structure.arguments)?;
            for plan in &structure.plans {
                let time = plan.time.as_secs_f64() * 1e6;
                write!(
                    f,
                    "    {} ({}): {} hits, made in {time:.1} us",
                    plan.kind,
                    plan.inputs.join(", "),
                    plan.hits
                )?;
                writeln!(f, ", because: {}", plan.reason)?;
                if let Some(note) = &plan.note {
                    writeln!(f, "      {note}")?;
                }
            }
        }
        Ok(())
    }
}
