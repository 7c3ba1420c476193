//! What commands print with `--json`.

use fx::{check, conformance, program};
use serde_json::{Value as Json, json};

pub(crate) fn diff_json(diff: &fx::graph_diff::Diff) -> Json {
    use fx::graph_diff::{Change, Line};
    let line = |line: &Line| json!({"name": line.name, "text": line.text, "source": line.source});
    let change = |change: &Change| match change {
        Change::Signature { before, after } => json!({"kind": "signature", "before": before, "after": after}),
        Change::Attribute { path, how } => json!({"kind": "attribute", "path": path, "how": how}),
        Change::Changed { before, after } => {
            json!({"kind": "changed", "before": line(before), "after": line(after)})
        }
        Change::Inside { node, graph, diff } => {
            json!({"kind": "inside", "node": line(node), "graph": graph, "diff": diff_json(diff)})
        }
        Change::Removed(node) => json!({"kind": "removed", "before": line(node)}),
        Change::Added(node) => json!({"kind": "added", "after": line(node)}),
    };
    let changes: Vec<Json> = diff.changes.iter().map(change).collect();
    json!({"same": diff.is_same(), "same_nodes": diff.same, "changes": changes})
}

pub(crate) fn node_json(node: &fx::Node) -> Json {
    json!({
        "name": node.name(),
        "opcode": node.opcode().name(),
        "target": node.target().to_string(),
        "inputs": node.all_args().map(ToString::to_string).collect::<Vec<_>>(),
        "type": node.ty().map(ToString::to_string),
        "users": node.n_users(),
        "source": node.meta().source.as_ref().map(ToString::to_string),
        "module": node.meta().stack.as_ref().and_then(|stack| stack.last()).map(|frame| frame.path.to_string()),
    })
}

/// Numbers are numbers, expressions over symbols are text, and what is not known is null.
pub(crate) fn summary_json(summary: &fx::analysis::Summary, memory: Option<fx::program::CallMemory>) -> Json {
    let dim = |dim: Option<fx::Dim>| match dim {
        None => Json::Null,
        Some(dim) => dim.known().map_or_else(|| json!(dim.to_string()), |n| json!(n)),
    };
    let row = |row: &fx::analysis::ModuleRow| {
        json!({
            "path": row.path, "type": row.type_name, "nodes": row.nodes, "unknown": row.unknown,
            "parameters": row.parameters.elements, "parameter_bytes": row.parameters.bytes,
            "flops": dim(row.cost.flops.clone()), "read": dim(row.cost.read.clone()),
            "written": dim(row.cost.written.clone()), "output": row.output.as_ref().map(ToString::to_string),
        })
    };
    let peak = summary
        .peak
        .as_ref()
        .map(|peak| json!({"bytes": peak.bytes, "node": peak.node, "untyped": peak.untyped}));
    let fused =
        memory.map(|memory| json!({"block": memory.block, "bound": memory.bound, "arrays": memory.arrays}));
    json!({"modules": summary.rows.iter().map(row).collect::<Vec<_>>(), "peak": peak, "fused": fused})
}

pub(crate) fn ran_json(ran: &program::Ran) -> Json {
    let (error, problem) = match &ran.agrees {
        Some(Ok(error)) => (Some(*error), None),
        Some(Err(problem)) => (None, Some(problem)),
        None => (None, None),
    };
    let outputs: Vec<String> = ran.outputs.iter().map(|tensor| format!("{tensor:?}")).collect();
    json!({"set": ran.set, "outputs": outputs, "error": error, "problem": problem})
}

pub(crate) fn program_json(program: &check::Program) -> Json {
    let run = |run: &check::Run| {
        json!({
            "engine": run.engine, "set": run.set,
            "error": run.outcome.as_ref().ok(), "problem": run.outcome.as_ref().err(),
        })
    };
    json!({
        "name": program.name, "passed": program.passed(), "problem": program.problem,
        "runs": program.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

pub(crate) fn script_json(program: &fx::script::Checked) -> Json {
    let run = |(way, outcome): &(fx::script::Way, Result<(), String>)| json!({"way": way.to_string(), "problem": outcome.as_ref().err()});
    json!({
        "name": program.name, "passed": program.passed(), "not_lowered": program.unlowered,
        "runs": program.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

pub(crate) fn op_json(op: &conformance::OpReport) -> Json {
    let failure = |failure: &conformance::Failure| json!({"case": failure.case, "call": failure.call, "reason": failure.reason});
    json!({
        "name": op.name, "passed": op.passed(), "total": op.total,
        "failures": op.failures.iter().map(failure).collect::<Vec<_>>(),
    })
}
