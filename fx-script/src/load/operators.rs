//! The operators that code calls, of which each must be one of PyTorch.

use std::sync::Arc;

use fx_core::{ErrorKind, Result};

use crate::ast::{Expr, ExprKind, Function, Stmt, StmtKind};
use crate::emit::Unit;
use crate::schema;
use crate::source::Source;

/// Parts of names of PyTorch's operators that the table of schemas leaves out: such an operator is an error only
/// where it runs.
const LEFT_OUT: &[&str] = &[
    "sparse", "backward", "foreach", "fused", "cudnn", "miopen", "mkldnn", "mps", "nnpack", "quantize",
    "nested", "cuda", "fbgemm", "vulkan", "_jvp", "_copy", "_out",
];

/// What stands after `torch.` without being an operator.
const NO_OPERATORS: &[&str] = &["device", "dtype", "Tensor", "jit", "classes"];

/// Checks all functions and methods. Fails with the line of a call of an operator that PyTorch does not have.
pub(super) fn check(unit: &Unit) -> Result<()> {
    let functions = unit.function_names().filter_map(|name| unit.function(name));
    functions.into_iter().try_for_each(|(source, found)| function(found, source))
}

fn function(function: &Arc<Function>, source: &Source) -> Result<()> {
    statements(&function.body, source)
}

/// Checks statements, whose nesting the parser bounds.
fn statements(body: &[Stmt], source: &Source) -> Result<()> {
    body.iter().try_for_each(|statement| match &statement.kind {
        StmtKind::Assign(_, value) | StmtKind::Augmented(_, _, value) | StmtKind::Expr(value) => {
            expression(value, source)
        }
        StmtKind::Annotated(_, _, value) | StmtKind::Return(value) | StmtKind::Raise(value) => {
            value.iter().try_for_each(|value| expression(value, source))
        }
        StmtKind::If(test, then, otherwise) | StmtKind::While(test, then, otherwise) => {
            expression(test, source)?;
            statements(then, source)?;
            otherwise.iter().try_for_each(|body| statements(body, source))
        }
        StmtKind::For(_, values, body, otherwise) => {
            expression(values, source)?;
            statements(body, source)?;
            otherwise.iter().try_for_each(|body| statements(body, source))
        }
        StmtKind::With(managers, body) => {
            managers.iter().try_for_each(|(manager, _)| expression(manager, source))?;
            statements(body, source)
        }
        StmtKind::Assert(test, message) => {
            expression(test, source)?;
            message.iter().try_for_each(|message| expression(message, source))
        }
        StmtKind::Function(inner) => function(inner, source),
        StmtKind::Delete(_) | StmtKind::Break | StmtKind::Continue | StmtKind::Pass | StmtKind::Import(_) => {
            Ok(())
        }
    })
}

fn expression(expr: &Expr, source: &Source) -> Result<()> {
    if let ExprKind::Call(callee, _) = &expr.kind
        && let Some(name) = callee.dotted()
        && let Some(operator) = operator(&name)
        && schema::overloads(&operator).next().is_none()
    {
        let message = format!("PyTorch has no operator {operator:?}");
        return Err(source
            .error(ErrorKind::Unresolved, callee.span, &message)
            .help("the code is damaged, or calls an operator of another library, which fx does not know"));
    }
    let mut outcome = Ok(());
    expr.kind.each(&mut |child| {
        if outcome.is_ok() {
            outcome = expression(child, source);
        }
    });
    outcome
}

/// Returns the operator that a callee names, if it must be one of the table.
fn operator(callee: &str) -> Option<String> {
    let mut parts = callee.split('.');
    let (space, name) = match (parts.next()?, parts.next()?, parts.next(), parts.next()) {
        ("torch", name, None, None) if !NO_OPERATORS.contains(&name) => ("aten", name),
        // Other libraries have operators of their own.
        ("ops", space @ ("aten" | "prim"), Some(name), None) => (space, name),
        _ => return None,
    };
    // Private operators change from version to version.
    let is_private = name.starts_with('_') && !name.starts_with("__");
    if is_private || LEFT_OUT.iter().any(|part| name.contains(part)) {
        return None;
    }
    Some(format!("{space}::{name}"))
}
