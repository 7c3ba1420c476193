//! The names that statements assign, and the exits that they have.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ast::{Expr, ExprKind, Stmt, StmtKind};

/// What a block does to variables and control.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// The names that it assigns.
    pub(super) assigned: BTreeSet<Arc<str>>,
    /// Whether it may return from the function.
    pub(super) returns: bool,
    /// Whether it may leave the loop that it is the body of.
    pub(super) breaks: bool,
    /// Whether it may go on with the next round of that loop.
    pub(super) continues: bool,
}

/// Returns the effects of a block.
pub(super) fn effects(block: &[Stmt]) -> Effects {
    let mut effects = Effects::default();
    scan(block, &mut effects, false);
    effects
}

fn scan(block: &[Stmt], effects: &mut Effects, in_loop: bool) {
    for statement in block {
        match &statement.kind {
            StmtKind::Assign(targets, _) => targets.iter().for_each(|target| assign(target, effects)),
            StmtKind::Annotated(target, ..) | StmtKind::Augmented(target, ..) => assign(target, effects),
            StmtKind::Return(_) => effects.returns = true,
            StmtKind::Break if !in_loop => effects.breaks = true,
            StmtKind::Continue if !in_loop => effects.continues = true,
            StmtKind::If(_, then, otherwise) => {
                scan(then, effects, in_loop);
                scan(otherwise.as_deref().unwrap_or_default(), effects, in_loop);
            }
            StmtKind::While(_, body, otherwise) => {
                scan(body, effects, true);
                scan(otherwise.as_deref().unwrap_or_default(), effects, in_loop);
            }
            StmtKind::For(target, _, body, otherwise) => {
                assign(target, effects);
                scan(body, effects, true);
                scan(otherwise.as_deref().unwrap_or_default(), effects, in_loop);
            }
            StmtKind::With(managers, body) => {
                managers
                    .iter()
                    .filter_map(|(_, target)| target.as_ref())
                    .for_each(|target| assign(target, effects));
                scan(body, effects, in_loop);
            }
            StmtKind::Delete(targets) => targets.iter().for_each(|target| assign(target, effects)),
            StmtKind::Function(function) => {
                effects.assigned.insert(function.name.clone());
            }
            _ => {}
        }
    }
}

fn assign(target: &Expr, effects: &mut Effects) {
    match &target.kind {
        ExprKind::Name(name) => {
            effects.assigned.insert(name.clone());
        }
        ExprKind::Tuple(items, _) | ExprKind::List(items) => {
            items.items.iter().for_each(|item| assign(item, effects))
        }
        ExprKind::Paren(inner) | ExprKind::Starred(inner) => assign(inner, effects),
        _ => {}
    }
}
