//! The loops of a script.

use std::collections::BTreeSet;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::VisitMut;
use syn::{
    Block, Expr, ExprForLoop, ExprWhile, Ident, Label, Lifetime, Lit, Pat, RangeLimits, UnOp, parse_quote,
};

use super::rewrite::{Context, ContextKind, Rewriter};
use super::scope::{Uses, variable};

impl Rewriter {
    /// Begins the body of a loop; returns the labels of the loop and of a round.
    fn enter_loop(
        &mut self,
        label: &Option<Label>,
        ids: Vec<u32>,
        value: Option<Ident>,
    ) -> (u32, Lifetime, Lifetime) {
        let id = self.next_block();
        let outer = Lifetime::new(&format!("'__loop{id}"), Span::mixed_site());
        let round = Lifetime::new(&format!("'__round{id}"), Span::mixed_site());
        self.contexts.push(Context {
            label: round.clone(),
            kind: ContextKind::Round {
                id,
                user_label: label.as_ref().map(|label| label.name.clone()),
                outer: outer.clone(),
                value,
            },
            variables: ids,
            mark: self.scopes.enter(),
            kept: None,
        });
        (id, outer, round)
    }

    pub(super) fn while_loop(&mut self, mut repeat: ExprWhile) -> Expr {
        let uses = Uses::of_expr(&Expr::While(repeat.clone()));
        if let Expr::Let(condition) = &mut *repeat.cond {
            return self.while_let((*condition.pat).clone(), (*condition.expr).clone(), repeat.clone(), uses);
        }
        if matches!(&*repeat.cond, Expr::Lit(lit) if matches!(&lit.lit, Lit::Bool(value) if value.value)) {
            return self.endless(&repeat.label, repeat.body, repeat.while_token.span, None);
        }
        let (variables, ids) = self.variables(repeat.while_token.span, &uses, &BTreeSet::new());
        let condition = self.condition(&repeat.cond);
        let (id, outer, round) = self.enter_loop(&repeat.label, ids, None);
        self.visit_block_mut(&mut repeat.body);
        self.contexts.pop();
        let (fx, flow, leave, body) = (&self.fx, &self.flow, self.leave(), &repeat.body);
        let [l, c] = ["__loop", "__condition"].map(|name| Ident::new(name, Span::mixed_site()));
        let new = quote_spanned!(repeat.while_token.span=> #flow.repeat_while(#id));
        parse_quote!({
            let mut #l = #new;
            #outer: loop {
                if !#l.begin(&mut #flow, #variables) {
                    break;
                }
                if #l.tests() {
                    let #c = #condition;
                    match #l.test(&mut #flow, #c, #variables) {
                        #fx::script::Tested::Go => {}
                        #fx::script::Tested::Again => continue,
                        #fx::script::Tested::Stop => break,
                    }
                }
                #round: #body
                #l.end(&mut #flow, #variables);
            }
            if !#l.finish(&mut #flow, #variables) {
                #leave
            }
        })
    }

    fn while_let(&mut self, pattern: Pat, mut expr: Expr, mut repeat: ExprWhile, uses: Uses) -> Expr {
        let (variables, ids) = self.variables(repeat.while_token.span, &uses, &BTreeSet::new());
        self.visit_place_mut(&mut expr);
        let (id, outer, round) = self.enter_loop(&repeat.label, ids, None);
        let mark = self.scopes.enter();
        self.scopes.bind(&pattern, false);
        self.visit_block_mut(&mut repeat.body);
        self.scopes.leave(mark);
        self.contexts.pop();
        let (flow, leave, body) = (&self.flow, self.leave(), &repeat.body);
        let l = Ident::new("__loop", Span::mixed_site());
        let new = quote_spanned!(repeat.while_token.span=> #flow.repeat_while(#id));
        parse_quote!({
            let mut #l = #new;
            #outer: loop {
                if !#l.begin(&mut #flow, #variables) {
                    break;
                }
                if let #pattern = #expr {
                    #round: #body
                } else {
                    break;
                }
                #l.end(&mut #flow, #variables);
            }
            if !#l.finish(&mut #flow, #variables) {
                #leave
            }
        })
    }

    pub(super) fn endless(
        &mut self,
        label: &Option<Label>,
        mut body: Block,
        place: Span,
        value: Option<Ident>,
    ) -> Expr {
        let uses = Uses::of_block(&body);
        let (variables, ids) = self.variables(place, &uses, &BTreeSet::new());
        let (id, outer, round) = self.enter_loop(label, ids, value.clone());
        let ends = breaks(&body, label);
        self.visit_block_mut(&mut body);
        self.contexts.pop();
        let (fx, flow, leave) = (&self.fx, &self.flow, self.leave());
        let [l, x] = ["__loop", "__value"].map(|name| Ident::new(name, Span::mixed_site()));
        let new = quote_spanned!(place=> #flow.repeat_loop(#id));
        let option = quote!(#fx::std::option::Option);
        let declared = value.as_ref().map(|value| quote!(let mut #value = #option::None;));
        let tail = match &value {
            Some(value) => {
                quote!(match (&#fx::script::Probe::of_option(&#value)).broken(#value, &mut #l, &mut #flow) {
                    #option::Some(#x) => #x,
                    #option::None => #leave,
                })
            }
            None if ends => quote!(),
            None => quote!(#leave),
        };
        let finish = if ends {
            quote!(if !#l.finish(&mut #flow, #variables) { #leave })
        } else {
            quote!(#l.finish(&mut #flow, #variables);)
        };
        parse_quote!({
            let mut #l = #new;
            #declared
            #outer: loop {
                if !#l.begin(&mut #flow, #variables) {
                    break;
                }
                #round: { #body; }
                #l.end(&mut #flow, #variables);
            }
            #finish
            #tail
        })
    }

    pub(super) fn for_loop(&mut self, mut repeat: ExprForLoop) -> Expr {
        let uses = Uses::of_block(&repeat.body);
        let iterated = Uses::of_expr(&repeat.expr);
        let (rounds, held) = self.rounds(&mut repeat, iterated);
        let (variables, ids) = self.variables(repeat.for_token.span, &uses, &held);
        let ignores_item = matches!(&*repeat.pat, Pat::Wild(_));
        let (id, outer, round) = self.enter_loop(&repeat.label, ids, None);
        let mark = self.scopes.enter();
        self.scopes.bind(&repeat.pat, false);
        self.visit_block_mut(&mut repeat.body);
        self.scopes.leave(mark);
        self.contexts.pop();
        let (fx, flow, leave, body, pattern) =
            (&self.fx, &self.flow, self.leave(), &repeat.body, &repeat.pat);
        let [l, r, x] = ["__loop", "__rounds", "__item"].map(|name| Ident::new(name, Span::mixed_site()));
        let new = quote_spanned!(repeat.for_token.span=> #flow.repeat_for(#id, #ignores_item));
        let item = quote_spanned!(repeat.expr.span()=> #l.item(&mut #flow, #variables, &mut #r));
        let option = quote!(#fx::std::option::Option);
        parse_quote!({
            let mut #r = #rounds;
            let mut #l = #new;
            #outer: loop {
                let #pattern = match #item {
                    #option::Some(#x) => #x,
                    #option::None => break,
                };
                #round: #body
                #l.end(&mut #flow, #variables);
            }
            if !#l.finish(&mut #flow, #variables) {
                #leave
            }
        })
    }

    /// Returns the rounds of a `for`, and the variables that they hold on to.
    fn rounds(&mut self, repeat: &mut ExprForLoop, iterated: Uses) -> (TokenStream, BTreeSet<Ident>) {
        let span = repeat.expr.span();
        let fx = self.fx_at(span);
        let mut expr = &mut *repeat.expr;
        while let Expr::Paren(paren) = expr {
            expr = &mut paren.expr;
        }
        if let Expr::Range(range) = expr
            && let (Some(start), RangeLimits::HalfOpen(_), Some(end)) =
                (&mut range.start, &range.limits, &mut range.end)
        {
            self.visit_expr_mut(start);
            self.visit_expr_mut(end);
            let of_literals = is_integer(start) && is_integer(end);
            let rounds = match (of_literals, matches!(&*repeat.pat, Pat::Wild(_)), is_integer(start)) {
                // Literals have the type that the uses of the item give them.
                (true, false, _) => quote_spanned!(span=> #fx::script::IntoRounds::into_rounds(#start..#end)),
                (true, true, _) => {
                    quote_spanned!(span=> <i64 as #fx::script::Until<i64>>::until(#start, #end))
                }
                (false, _, true) => quote_spanned!(span=> #fx::script::End::rounds(#end, #start)),
                (false, _, false) => quote_spanned!(span=> #fx::script::Until::until(#start, #end)),
            };
            return (rounds, BTreeSet::new());
        }
        let check = variable(expr).and_then(|name| self.check_items(name));
        self.visit_expr_mut(expr);
        let rounds = quote_spanned!(span=> #fx::script::IntoRounds::into_rounds(#expr));
        (
            match check {
                Some(check) => quote!({ #check #rounds }),
                None => rounds,
            },
            iterated.mentioned,
        )
    }
}

/// Returns whether the expression is an integer without a type.
fn is_integer(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(lit) => matches!(&lit.lit, Lit::Int(value) if value.suffix().is_empty()),
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && is_integer(&unary.expr),
        _ => false,
    }
}

/// The `break`s of a loop.
#[derive(Default)]
struct Breaks<'a> {
    label: Option<&'a Lifetime>,
    depth: usize,
    any: bool,
    with_value: bool,
}

impl Visit<'_> for Breaks<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        let is_loop = matches!(expr, Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_));
        if let Expr::Break(exit) = expr {
            let is_own = match &exit.label {
                Some(label) => Some(label) == self.label,
                None => self.depth == 0,
            };
            self.any |= is_own;
            self.with_value |= is_own && exit.expr.is_some();
        }
        if matches!(expr, Expr::Closure(_)) {
            return;
        }
        self.depth += usize::from(is_loop);
        visit::visit_expr(self, expr);
        self.depth -= usize::from(is_loop);
    }
    fn visit_item(&mut self, _: &syn::Item) {}
}

fn find_breaks<'a>(body: &Block, label: &'a Option<Label>) -> Breaks<'a> {
    let mut breaks = Breaks { label: label.as_ref().map(|label| &label.name), ..Breaks::default() };
    breaks.visit_block(body);
    breaks
}

fn breaks(body: &Block, label: &Option<Label>) -> bool {
    find_breaks(body, label).any
}

pub(super) fn breaks_with_value(body: &Block, label: &Option<Label>) -> bool {
    find_breaks(body, label).with_value
}
