//! The body of a script with the calls of the runtime in it.

use std::collections::BTreeSet;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, BinOp, Block, Expr, FnArg, Ident, Lifetime, Local, Result, Token, Type, UnOp, parse_quote,
    parse_quote_spanned,
};

use super::loops::breaks_with_value;
use super::scope::{Kind, PUSHES, Scopes, Uses, assigns, items, pushed, root, variable};
use crate::options::collect;

/// Returns the body of a script: it ends with the result of the flow.
pub(super) fn body(
    block: &Block,
    parameters: &Punctuated<FnArg, Token![,]>,
    result: &Type,
    fx: &TokenStream,
) -> Result<Block> {
    let flow = Ident::new("__flow", Span::mixed_site());
    let value = Ident::new("__result", Span::mixed_site());
    let mut rewriter = Rewriter {
        scopes: Scopes::default(),
        contexts: Vec::new(),
        n_blocks: 0,
        pushed: pushed(block),
        fx: fx.clone(),
        flow: flow.clone(),
        result: result.clone(),
        errors: None,
    };
    for parameter in parameters {
        match parameter {
            FnArg::Receiver(receiver) => rewriter.scopes.bind_receiver(receiver),
            FnArg::Typed(parameter) => {
                let is_reference = matches!(&*parameter.ty, Type::Reference(ty) if ty.mutability.is_some());
                let kind = if is_reference { Kind::Reference } else { Kind::Plain };
                rewriter.scopes.bind_as(&parameter.pat, kind, false);
            }
        }
    }
    let mut block = block.clone();
    rewriter.visit_block_mut(&mut block);
    let finish = rewriter.finish(&value);
    match rewriter.errors {
        Some(errors) => Err(errors),
        None => Ok(parse_quote!({
            #[allow(unused_imports, reason = "a script may have no branch")]
            use #fx::script::{OfAny as _, OfTree as _, PairOfAny as _, PairOfTrees as _};
            let mut #flow = #fx::script::flow();
            #[allow(unreachable_code, unused_braces, unused_labels, unused_parens, clippy::all, reason = "blocks leave early in the user's places")]
            {
                let #value: #result = #block;
                #finish
            }
        })),
    }
}

/// A block that an exit may leave.
pub(super) struct Context {
    /// The label of the block in the expansion.
    pub(super) label: Lifetime,
    pub(super) kind: ContextKind,
    /// The variables that the statement may change, by number.
    pub(super) variables: Vec<u32>,
    /// The end of the variables declared outside.
    pub(super) mark: usize,
    /// The names of which the block uses up clones; all if there are none.
    pub(super) kept: Option<BTreeSet<Ident>>,
}

pub(super) enum ContextKind {
    Side,
    Round {
        id: u32,
        user_label: Option<Lifetime>,
        /// The label of the loop in the expansion.
        outer: Lifetime,
        /// Where the value of a `break` of a `loop` goes.
        value: Option<Ident>,
    },
    /// A labelled block of the user's.
    Labelled(Lifetime),
}

pub(super) struct Rewriter {
    pub(super) scopes: Scopes,
    pub(super) contexts: Vec<Context>,
    pub(super) n_blocks: u32,
    /// The variables to which a loop pushes.
    pub(super) pushed: BTreeSet<Ident>,
    pub(super) fx: TokenStream,
    pub(super) flow: Ident,
    pub(super) result: Type,
    pub(super) errors: Option<syn::Error>,
}

impl Rewriter {
    pub(super) fn error(&mut self, span: Span, message: impl std::fmt::Display) {
        collect(&mut self.errors, syn::Error::new(span, message));
    }

    pub(super) fn next_block(&mut self) -> u32 {
        self.n_blocks += 1;
        self.n_blocks
    }

    /// Returns the variables that a statement may change, as the runtime takes them, and their numbers. An
    /// error of the compiler about such a variable is at the token `at`.
    pub(super) fn variables(
        &mut self,
        at: Span,
        uses: &Uses,
        held: &BTreeSet<Ident>,
    ) -> (TokenStream, Vec<u32>) {
        let fx = &self.fx;
        let mut list = TokenStream::new();
        let mut ids = Vec::new();
        let mut unset = None;
        let outer: BTreeSet<u32> = if uses.has_exits {
            self.contexts.iter().flat_map(|context| context.variables.iter().copied()).collect()
        } else {
            BTreeSet::new()
        };
        for variable in self.scopes.visible() {
            let is_assigned = uses.assigned.contains(&variable.ident);
            let is_changed = is_assigned
                || outer.contains(&variable.id)
                || uses.changed.contains(&variable.ident) && !held.contains(&variable.ident);
            if variable.is_unset && is_assigned {
                unset = Some(variable.ident.clone());
            }
            let takes_part = match variable.kind {
                Kind::Mutable | Kind::Reference => is_changed,
                Kind::Plain | Kind::Receiver => {
                    uses.written.contains(&variable.ident) || outer.contains(&variable.id)
                }
            };
            if !takes_part || variable.is_unset {
                continue;
            }
            let (id, name) = (variable.id, variable.ident.to_string());
            let mut ident = variable.ident.clone();
            ident.set_span(at.resolved_at(ident.span()));
            let place = if variable.kind == Kind::Mutable { quote!(#ident) } else { quote!(*#ident) };
            ids.push(id);
            list.extend(quote_spanned! {at=>
                (&#fx::script::Probe::of(&#place)).variable(#id, #name, &mut #place),
            });
        }
        let hidden: Vec<u32> = outer.iter().copied().filter(|id| !ids.contains(id)).collect();
        if let Some(ident) = unset {
            let message = format!(
                "`{ident}` has no value yet where a branch or loop begins; give it one here, or take the value of the `if`"
            );
            self.error(ident.span(), message);
        }
        if let Some(hiding) = self.scopes.hiding(&hidden) {
            let message = format!(
                "this `{hiding}` hides a variable that a branch or loop around it may change; give it another name"
            );
            self.error(hiding.span(), message);
        }
        (quote!(&mut [#list]), ids)
    }

    /// Returns the code that goes on to the end of the innermost block, or returns from the function.
    pub(super) fn leave(&self) -> Expr {
        let flow = &self.flow;
        match self.contexts.iter().rev().find(|context| !matches!(context.kind, ContextKind::Labelled(_))) {
            None => {
                let ended = self.ended();
                parse_quote!(return #ended)
            }
            Some(Context { label, kind, .. }) => {
                let ended = self.ended();
                let value = matches!(kind, ContextKind::Side).then(|| {
                    let fx = &self.fx;
                    quote!(#fx::std::option::Option::None)
                });
                parse_quote!({
                    if #flow.has_failed() {
                        return #ended;
                    }
                    break #label #value
                })
            }
        }
    }

    /// Returns the path of the runtime with the place of a token, so that an error about it is there.
    pub(super) fn fx_at(&self, at: Span) -> TokenStream {
        let tokens = self.fx.clone().into_iter().map(|mut token| {
            token.set_span(at.resolved_at(token.span()));
            token
        });
        tokens.collect()
    }

    /// Returns the result of the function, which has returned before; an error about its type is at this type.
    pub(super) fn ended(&self) -> TokenStream {
        let (flow, result) = (&self.flow, &self.result);
        quote_spanned!(result.span()=> #flow.leave::<#result>())
    }

    /// Returns the result of the function from its value.
    pub(super) fn finish(&self, value: &Ident) -> TokenStream {
        let (flow, result) = (&self.flow, &self.result);
        quote_spanned!(result.span()=> #flow.finish::<#result>(#value))
    }

    /// Returns from the function within a block.
    pub(super) fn returns(&self, value: &Ident) -> TokenStream {
        let (fx, flow) = (self.fx_at(self.result.span()), &self.flow);
        quote_spanned!(self.result.span()=> #flow.returns(&#fx::Tree::to_value(&#value));)
    }

    pub(super) fn condition(&mut self, expr: &Expr) -> TokenStream {
        match expr {
            Expr::Paren(paren) => self.condition(&paren.expr),
            Expr::Group(group) => self.condition(&group.expr),
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) => {
                let (left, right) = (self.condition(&binary.left), self.condition(&binary.right));
                let first = Ident::new("__first", Span::mixed_site());
                let second = Ident::new("__second", Span::mixed_site());
                let is_or = matches!(binary.op, BinOp::Or(_));
                let method = Ident::new(if is_or { "or" } else { "and" }, Span::call_site());
                let span = binary.op.span();
                quote_spanned! {span=> {
                    let #first = #left;
                    if #first.is_known(#is_or) { #first } else { let #second = #right; #first.#method(#second) }
                }}
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) && is_logical(&unary.expr) => {
                let inner = self.condition(&unary.expr);
                quote_spanned!(unary.span()=> #inner.not())
            }
            _ => {
                let (mut expr, fx) = (expr.clone(), self.fx_at(expr.span()));
                self.visit_place_mut(&mut expr);
                quote_spanned!(expr.span()=> #fx::script::Test::test(#expr))
            }
        }
    }

    /// Visits an expression that uses nothing up by being what it is: a variable stays itself.
    pub(super) fn visit_place_mut(&mut self, expr: &mut Expr) {
        if !matches!(expr, Expr::Path(_)) {
            self.visit_expr_mut(expr);
        }
    }

    /// Returns code that ends the call if a list has items that are not known, for variables that loops push
    /// to.
    pub(super) fn check_items(&self, name: &Ident) -> Option<TokenStream> {
        let is_pushed = self.pushed.contains(name) && self.scopes.find(name).is_some();
        let (fx, flow, ended) = (&self.fx, &self.flow, self.ended());
        is_pushed.then(|| {
            let value = quote!((&#fx::script::Probe::of(&#name)).value(&#name));
            let reads = quote_spanned!(name.span()=> #flow.reads_items(|| #value));
            quote!(if #reads { return #ended; })
        })
    }

    /// Returns code that notes where a list is pushed to, for variables that loops push to.
    fn note_push(&self, name: &Ident, at: Span) -> Option<TokenStream> {
        let id = self.scopes.find(name).filter(|_| self.pushed.contains(name))?.id;
        let flow = &self.flow;
        Some(quote_spanned!(at=> #flow.pushes(#id);))
    }

    /// Makes a variable that a block uses up a clone, if the block does not own it.
    fn keep(&self, expr: &mut Expr) {
        let Expr::Path(path) = expr else { return };
        let Some(name) = path.path.get_ident() else { return };
        let Some(position) = self.scopes.position(name) else { return };
        let is_kept = self.contexts.iter().any(|context| {
            let is_outside = position < context.mark && !matches!(context.kind, ContextKind::Labelled(_));
            is_outside && context.kept.as_ref().is_none_or(|kept| kept.contains(name))
        });
        if is_kept && self.scopes.find(name).is_some_and(|variable| variable.kind == Kind::Reference) {
            *expr = parse_quote_spanned!(name.span()=> (&mut *#name));
        } else if is_kept {
            let fx = self.fx_at(name.span());
            *expr = parse_quote_spanned!(name.span()=> #fx::script::Keep::keep(&#name));
        }
    }

    fn closure(&mut self, closure: &syn::ExprClosure) {
        let uses = Uses::of_expr(&closure.body);
        let mut inner = Scopes::default();
        closure.inputs.iter().for_each(|pattern| inner.bind(pattern, false));
        struct Locals<'a>(&'a mut Scopes);
        impl Visit<'_> for Locals<'_> {
            fn visit_local(&mut self, local: &Local) {
                self.0.bind(&local.pat, false);
                visit::visit_local(self, local);
            }
        }
        Locals(&mut inner).visit_expr(&closure.body);
        let mut exits = Labelled::default();
        exits.visit_expr(&closure.body);
        for label in exits.foreign {
            let is_known = self.contexts.iter().any(|context| match &context.kind {
                ContextKind::Round { user_label, .. } => user_label.as_ref() == Some(&label),
                ContextKind::Labelled(name) => *name == label,
                ContextKind::Side => false,
            });
            if is_known {
                let message = format!(
                    "a closure cannot leave or continue the block `{label}` around it; \
                     return a value from the closure and decide by it outside"
                );
                self.error(label.span(), message);
            }
        }
        for name in uses.assigned {
            if inner.find(&name).is_none() && self.scopes.find(&name).is_some() {
                let message = format!(
                    "`{name}` is assigned in a closure, where a branch or loop does not see it; \
                     return the new value and assign it outside"
                );
                self.error(name.span(), message);
            }
        }
    }
}

impl VisitMut for Rewriter {
    fn visit_block_mut(&mut self, block: &mut Block) {
        let mark = self.scopes.enter();
        visit_mut::visit_block_mut(self, block);
        self.scopes.leave(mark);
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        if let Some(init) = &mut local.init {
            self.visit_expr_mut(&mut init.expr);
            if let Some((_, otherwise)) = &mut init.diverge {
                self.visit_expr_mut(otherwise);
            }
        }
        let is_reference =
            |expr: &Expr| matches!(expr, Expr::Reference(borrow) if borrow.mutability.is_some());
        let kind = match &local.init {
            Some(init) if is_reference(&init.expr) => Kind::Reference,
            _ => Kind::Plain,
        };
        self.scopes.bind_as(&local.pat, kind, local.init.is_none());
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}

    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        let mark = self.scopes.enter();
        self.scopes.bind(&arm.pat, false);
        self.visit_pat_mut(&mut arm.pat);
        self.visit_expr_mut(&mut arm.body);
        self.scopes.leave(mark);
    }

    fn visit_field_value_mut(&mut self, field: &mut syn::FieldValue) {
        self.visit_expr_mut(&mut field.expr);
        if !matches!(field.expr, Expr::Path(_)) {
            field.colon_token.get_or_insert_default();
        }
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::If(branch) if !has_let(&branch.cond) => *expr = self.branch(branch.clone()),
            Expr::If(branch) => {
                let mark = self.scopes.enter();
                bind_lets(&mut self.scopes, &branch.cond);
                self.visit_place_mut(&mut branch.cond);
                self.visit_block_mut(&mut branch.then_branch);
                self.scopes.leave(mark);
                if let Some((_, otherwise)) = &mut branch.else_branch {
                    self.visit_expr_mut(otherwise);
                    // A branch that became a block of its own stays the branch of `else`.
                    if !matches!(**otherwise, Expr::If(_) | Expr::Block(_)) {
                        let inner = otherwise.clone();
                        **otherwise = parse_quote!({ #inner });
                    }
                }
            }
            Expr::While(repeat) if has_let(&repeat.cond) && !matches!(*repeat.cond, Expr::Let(_)) => {
                let message = "a script takes `while let` with one pattern and no further condition; \
                               test the rest inside, with `break`";
                self.error(repeat.while_token.span, message);
            }
            Expr::While(repeat) => *expr = self.while_loop(repeat.clone()),
            Expr::Loop(repeat) => {
                let value = breaks_with_value(&repeat.body, &repeat.label)
                    .then(|| format_ident!("__broken{}", self.n_blocks, span = Span::mixed_site()));
                let repeat = repeat.clone();
                *expr = self.endless(&repeat.label, repeat.body, repeat.loop_token.span, value);
            }
            Expr::ForLoop(repeat) => *expr = self.for_loop(repeat.clone()),
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Try(_) => match self.exit(expr) {
                Some(exit) => *expr = exit,
                None => visit_mut::visit_expr_mut(self, expr),
            },
            Expr::Block(block) if block.label.is_some() => {
                let name = block.label.as_ref().map(|label| label.name.clone());
                let Some(name) = name else { return };
                self.contexts.push(Context {
                    label: name.clone(),
                    kind: ContextKind::Labelled(name),
                    variables: Vec::new(),
                    mark: self.scopes.enter(),
                    kept: Some(BTreeSet::new()),
                });
                self.visit_block_mut(&mut block.block);
                self.contexts.pop();
            }
            Expr::Async(block) => {
                self.error(block.async_token.span, "a script cannot wait: a graph runs from start to end");
            }
            Expr::Closure(closure) => self.closure(closure),
            Expr::Path(_) => self.keep(expr),
            Expr::Reference(reference) => self.visit_place_mut(&mut reference.expr),
            Expr::Field(field) => self.visit_place_mut(&mut field.base),
            Expr::Index(index) => {
                self.visit_place_mut(&mut index.expr);
                self.visit_expr_mut(&mut index.index);
                if let Some(check) = variable(&index.expr).and_then(|name| self.check_items(name)) {
                    let at = &index.index;
                    *index.index = parse_quote!({ #check #at });
                }
            }
            Expr::MethodCall(call) => {
                let name = match &*call.receiver {
                    Expr::Path(path) => path.path.get_ident(),
                    _ => None,
                };
                let check = match name {
                    Some(name) if PUSHES.iter().any(|method| call.method == method) => {
                        self.note_push(name, call.method.span())
                    }
                    Some(name) => self.check_items(name),
                    None => None,
                };
                self.visit_place_mut(&mut call.receiver);
                call.args.iter_mut().for_each(|arg| self.visit_expr_mut(arg));
                if let Some(check) = check.filter(|_| call.method != "clone") {
                    *expr = parse_quote!(({ #check #call }));
                }
            }
            Expr::Call(call) => {
                self.visit_place_mut(&mut call.func);
                call.args.iter_mut().for_each(|arg| self.visit_expr_mut(arg));
            }
            Expr::Match(choice) => {
                self.visit_place_mut(&mut choice.expr);
                choice.arms.iter_mut().for_each(|arm| self.visit_arm_mut(arm));
            }
            Expr::Let(condition) => self.visit_place_mut(&mut condition.expr),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => self.visit_place_mut(&mut unary.expr),
            Expr::Assign(assign) => {
                self.visit_target_mut(&mut assign.left);
                self.visit_expr_mut(&mut assign.right);
            }
            Expr::Binary(binary) if assigns(&binary.op) => {
                self.visit_target_mut(&mut binary.left);
                self.visit_expr_mut(&mut binary.right);
            }
            Expr::Binary(binary) if compares(&binary.op) => {
                self.visit_place_mut(&mut binary.left);
                self.visit_place_mut(&mut binary.right);
            }
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_macro_mut(&mut self, call: &mut syn::Macro) {
        if let Some(mut items) = items(call) {
            items.iter_mut().for_each(|item| self.visit_expr_mut(item));
            call.tokens = items.into_token_stream();
            return;
        }
        let uses = Uses::of_expr(&Expr::Macro(syn::ExprMacro { attrs: Vec::new(), mac: call.clone() }));
        if uses.has_exits && !self.contexts.is_empty() {
            let message = "a `return`, `break` or `continue` in the arguments of a macro is not seen by a script; \
                           write it outside";
            self.error(call.path.span(), message);
        }
    }
}

impl Rewriter {
    /// Visits what is assigned to: only indices are used.
    fn visit_target_mut(&mut self, place: &mut Expr) {
        match place {
            Expr::Path(_) => {}
            Expr::Tuple(tuple) => tuple.elems.iter_mut().for_each(|place| self.visit_target_mut(place)),
            place if root(place).is_some() => visit_mut::visit_expr_mut(self, place),
            place => self.visit_expr_mut(place),
        }
    }
}

/// The labels that exits of a closure name and that it does not declare.
#[derive(Default)]
struct Labelled {
    declared: Vec<Lifetime>,
    foreign: Vec<Lifetime>,
}

impl Visit<'_> for Labelled {
    fn visit_label(&mut self, label: &syn::Label) {
        self.declared.push(label.name.clone());
    }
    fn visit_expr(&mut self, expr: &Expr) {
        visit::visit_expr(self, expr);
        let label = match expr {
            Expr::Break(exit) => exit.label.as_ref(),
            Expr::Continue(exit) => exit.label.as_ref(),
            _ => None,
        };
        self.foreign.extend(label.filter(|label| !self.declared.contains(label)).cloned());
    }
    fn visit_item(&mut self, _: &syn::Item) {}
}

fn compares(op: &BinOp) -> bool {
    matches!(op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_))
}

/// Returns whether the expression is an `&&` or `||`, perhaps in parentheses.
fn is_logical(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(paren) => is_logical(&paren.expr),
        Expr::Group(group) => is_logical(&group.expr),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Not(_)) && is_logical(&unary.expr),
        Expr::Binary(binary) => matches!(binary.op, BinOp::And(_) | BinOp::Or(_)),
        _ => false,
    }
}

/// Returns whether a condition has a pattern; such a one is of the host.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        Expr::Paren(paren) => has_let(&paren.expr),
        _ => false,
    }
}

fn bind_lets(scopes: &mut Scopes, condition: &Expr) {
    match condition {
        Expr::Let(condition) => scopes.bind(&condition.pat, false),
        Expr::Binary(binary) => {
            bind_lets(scopes, &binary.left);
            bind_lets(scopes, &binary.right);
        }
        _ => {}
    }
}
