//! The local variables of a function, and which of them a piece of it may change.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Ident, Pat, PatIdent, Token};

/// A local variable.
#[derive(Clone)]
pub(super) struct Variable {
    pub(super) ident: Ident,
    pub(super) id: u32,
    pub(super) kind: Kind,
    /// Whether its declaration gives it no value.
    pub(super) is_unset: bool,
}

/// How a variable may change.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// It is declared without `mut`; it changes only if it is a reference, which its declaration does not say.
    Plain,
    /// It is declared with `mut`.
    Mutable,
    /// It is a `&mut` reference by its declaration.
    Reference,
    /// It is `self`.
    Receiver,
}

/// The variables in scope, innermost last.
#[derive(Default)]
pub(super) struct Scopes {
    variables: Vec<Variable>,
    next: u32,
}

impl Scopes {
    /// Returns a mark to which [`leave`](Self::leave) goes back.
    pub(super) fn enter(&self) -> usize {
        self.variables.len()
    }

    pub(super) fn leave(&mut self, mark: usize) {
        self.variables.truncate(mark);
    }

    /// Declares the names of a pattern.
    pub(super) fn bind(&mut self, pattern: &Pat, is_unset: bool) {
        self.bind_as(pattern, Kind::Plain, is_unset);
    }

    /// Declares `self`.
    pub(super) fn bind_receiver(&mut self, receiver: &syn::Receiver) {
        let ident = Ident::new("self", receiver.self_token.span);
        self.add(ident, Kind::Receiver, false);
    }

    fn add(&mut self, ident: Ident, kind: Kind, is_unset: bool) {
        let id = self.next;
        self.next += 1;
        self.variables.push(Variable { ident, id, kind, is_unset });
    }

    /// Declares the names of a pattern; those without `mut` are of the given kind.
    pub(super) fn bind_as(&mut self, pattern: &Pat, plain: Kind, is_unset: bool) {
        struct Names<'a>(&'a mut Scopes, Kind, bool);
        impl Visit<'_> for Names<'_> {
            fn visit_pat_ident(&mut self, pattern: &PatIdent) {
                // An upper-case name in a pattern is a constant.
                if pattern.ident.to_string().starts_with(|c: char| c.is_lowercase() || c == '_') {
                    let kind = match (pattern.by_ref, pattern.mutability) {
                        (Some(_), Some(_)) => Kind::Reference,
                        (None, Some(_)) => Kind::Mutable,
                        _ => self.1,
                    };
                    self.0.add(pattern.ident.clone(), kind, self.2);
                }
                visit::visit_pat_ident(self, pattern);
            }
            fn visit_expr(&mut self, _: &Expr) {}
        }
        Names(self, plain, is_unset).visit_pat(pattern);
    }

    /// Returns the variable that a name means here.
    pub(super) fn find(&self, name: &Ident) -> Option<&Variable> {
        self.variables.iter().rev().find(|variable| variable.ident == *name)
    }

    /// Returns the position of the variable that a name means here.
    pub(super) fn position(&self, name: &Ident) -> Option<usize> {
        self.variables.iter().rposition(|variable| variable.ident == *name)
    }

    /// Returns a variable that hides one of the given numbers.
    pub(super) fn hiding(&self, hidden: &[u32]) -> Option<Ident> {
        let names = self.variables.iter().filter(|variable| hidden.contains(&variable.id));
        names.filter_map(|variable| self.find(&variable.ident)).map(|variable| variable.ident.clone()).next()
    }

    /// Returns the visible variables.
    pub(super) fn visible(&self) -> impl Iterator<Item = &Variable> {
        self.variables
            .iter()
            .enumerate()
            .filter(|(i, variable)| {
                !self.variables[i + 1..].iter().any(|later| later.ident == variable.ident)
            })
            .map(|(_, variable)| variable)
    }
}

/// Names in a piece of a function.
#[derive(Default)]
pub(super) struct Uses {
    /// Names that stand anywhere.
    pub(super) mentioned: BTreeSet<Ident>,
    /// Names of variables that it assigns, borrows mutably, or calls a method of.
    pub(super) changed: BTreeSet<Ident>,
    /// Names that it assigns or borrows mutably.
    pub(super) assigned: BTreeSet<Ident>,
    /// Names of which it assigns a part, or that to which they refer.
    pub(super) written: BTreeSet<Ident>,
    /// Whether it has a `return`, `?`, `break` or `continue`.
    pub(super) has_exits: bool,
}

impl Uses {
    pub(super) fn of_expr(expr: &Expr) -> Uses {
        let mut uses = Uses::default();
        uses.visit_expr(expr);
        uses
    }

    pub(super) fn of_block(block: &syn::Block) -> Uses {
        let mut uses = Uses::default();
        uses.visit_block(block);
        uses
    }

    /// Adds the names of another piece.
    pub(super) fn extend(&mut self, other: &Uses) {
        self.mentioned.extend(other.mentioned.iter().cloned());
        self.changed.extend(other.changed.iter().cloned());
        self.assigned.extend(other.assigned.iter().cloned());
        self.written.extend(other.written.iter().cloned());
        self.has_exits |= other.has_exits;
    }

    fn assign(&mut self, place: &Expr) {
        if let Expr::Tuple(tuple) = place {
            tuple.elems.iter().for_each(|place| self.assign(place));
        } else if let Some(root) = root(place) {
            self.changed.insert(root.clone());
            self.assigned.insert(root.clone());
            if !matches!(place, Expr::Path(_)) {
                self.written.insert(root.clone());
            }
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    self.has_exits |= ["return", "break", "continue"].iter().any(|word| ident == word);
                    self.mentioned.insert(ident.clone());
                    self.changed.insert(ident);
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }
}

/// Returns the variable that a place is a part of.
pub(super) fn root(place: &Expr) -> Option<&Ident> {
    match place {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Field(field) => root(&field.base),
        Expr::Index(index) => root(&index.expr),
        Expr::Paren(paren) => root(&paren.expr),
        Expr::Group(group) => root(&group.expr),
        Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Deref(_)) => root(&unary.expr),
        _ => None,
    }
}

/// Returns the items of `vec![..]`; none for other macros, whose arguments may be anything.
pub(super) fn items(call: &syn::Macro) -> Option<Punctuated<Expr, Token![,]>> {
    if !call.path.is_ident("vec") {
        return None;
    }
    call.parse_body_with(Punctuated::parse_terminated).ok()
}

/// Returns the variables to which a loop of the function pushes.
pub(super) fn pushed(body: &syn::Block) -> BTreeSet<Ident> {
    #[derive(Default)]
    struct Pushed {
        names: BTreeSet<Ident>,
        depth: usize,
    }
    impl Visit<'_> for Pushed {
        fn visit_expr(&mut self, expr: &Expr) {
            let is_loop = matches!(expr, Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_));
            if let Expr::MethodCall(call) = expr
                && self.depth > 0
                && PUSHES.iter().any(|method| call.method == method)
            {
                self.names.extend(variable(&call.receiver).cloned());
            }
            self.depth += usize::from(is_loop);
            visit::visit_expr(self, expr);
            self.depth -= usize::from(is_loop);
        }
        fn visit_item(&mut self, _: &syn::Item) {}
    }
    let mut pushed = Pushed::default();
    pushed.visit_block(body);
    pushed.names
}

/// The methods that append to a list and read nothing of it.
pub(super) const PUSHES: [&str; 2] = ["push", "extend"];

/// Returns the variable that an expression is, perhaps borrowed.
pub(super) fn variable(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Paren(paren) => variable(&paren.expr),
        Expr::Group(group) => variable(&group.expr),
        Expr::Reference(reference) => variable(&reference.expr),
        _ => None,
    }
}

/// Returns whether the operator is one of `+=` and its like.
pub(super) fn assigns(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

impl Visit<'_> for Uses {
    fn visit_expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Assign(assign) => self.assign(&assign.left),
            Expr::Binary(binary) if assigns(&binary.op) => self.assign(&binary.left),
            Expr::Reference(reference) if reference.mutability.is_some() => self.assign(&reference.expr),
            Expr::MethodCall(call) => {
                self.changed.extend(root(&call.receiver).cloned());
            }
            Expr::Path(path) => self.mentioned.extend(path.path.get_ident().cloned()),
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Try(_) => self.has_exits = true,
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        match items(call) {
            Some(items) => items.iter().for_each(|item| self.visit_expr(item)),
            None => self.tokens(call.tokens.clone()),
        }
    }

    fn visit_item(&mut self, _: &syn::Item) {}

    fn visit_expr_closure(&mut self, closure: &syn::ExprClosure) {
        // A closure has exits of its own.
        let has_exits = self.has_exits;
        visit::visit_expr_closure(self, closure);
        self.has_exits = has_exits;
    }
}
