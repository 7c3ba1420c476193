//! The exits of a script: `return`, `break`, `continue` and `?`.

use proc_macro2::{Ident, Span};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Expr, Lifetime, parse_quote, parse_quote_spanned};

use super::rewrite::{ContextKind, Rewriter};

/// The loop that a `break` or `continue` means.
struct Target {
    id: u32,
    outer: Lifetime,
    value: Option<Ident>,
}

impl Rewriter {
    /// Returns the loop of a `break` or `continue`; reports if it is none that a script knows.
    fn target(&mut self, label: Option<&Lifetime>, span: Span) -> Option<Target> {
        let mut is_inside = false;
        for context in self.contexts.iter().rev() {
            match (&context.kind, label) {
                (ContextKind::Round { id, user_label, outer, value }, _)
                    if label.is_none() || user_label.as_ref() == label =>
                {
                    return Some(Target { id: *id, outer: outer.clone(), value: value.clone() });
                }
                (ContextKind::Labelled(name), Some(label)) if name == label => {
                    if is_inside {
                        let message = format!(
                            "`break {label}` leaves a block from within a branch or loop of a script; \
                             use a variable, a loop or a function with `return`"
                        );
                        self.error(span, message);
                    }
                    return None;
                }
                (ContextKind::Labelled(_), _) => {}
                _ => is_inside = true,
            }
        }
        if let Some(label) = label {
            self.error(
                span,
                format!("no loop around this has the label `{label}`; a closure cannot leave one"),
            );
        }
        None
    }

    pub(super) fn exit(&mut self, expr: &Expr) -> Option<Expr> {
        let (flow, fx) = (self.flow.clone(), self.fx.clone());
        let variable = Ident::new("__value", Span::mixed_site());
        match expr {
            Expr::Return(exit) => {
                let result = self.result.clone();
                let mut value = exit.expr.as_deref().cloned().unwrap_or_else(|| parse_quote!(()));
                self.visit_expr_mut(&mut value);
                let finish = self.finish(&variable);
                if self.contexts.is_empty() {
                    return Some(parse_quote_spanned!(exit.return_token.span=> {
                        let #variable: #result = #value;
                        return #finish
                    }));
                }
                let (leave, returns) = (self.leave(), self.returns(&variable));
                Some(parse_quote_spanned!(exit.return_token.span=> {
                    let #variable: #result = #value;
                    if #flow.is_native() {
                        return #finish;
                    }
                    #returns
                    #leave
                }))
            }
            Expr::Break(exit) => {
                let target = self.target(exit.label.as_ref(), exit.break_token.span)?;
                let (id, outer, leave) = (target.id, target.outer, self.leave());
                let taken = Ident::new("__taken", Span::mixed_site());
                let value = exit.expr.as_deref().cloned().zip(target.value).map(|(mut value, place)| {
                    self.visit_expr_mut(&mut value);
                    (value, place)
                });
                let (evaluate, keep, exit_with) = match value {
                    Some((value, place)) => (
                        quote!(let #taken = #value;),
                        quote!(#place = #fx::std::option::Option::Some(#taken);),
                        quote_spanned!(exit.break_token.span=> (&#fx::script::Probe::of(&#taken)).exit(&mut #flow, #fx::script::Exit::Break(#id), &#taken);),
                    ),
                    None => (quote!(), quote!(), quote!(#flow.exit(#fx::script::Exit::Break(#id));)),
                };
                Some(parse_quote_spanned!(exit.break_token.span=> {
                    #evaluate
                    if #flow.is_local(#id) {
                        #keep
                        break #outer;
                    }
                    #exit_with
                    #leave
                }))
            }
            Expr::Continue(exit) => {
                let target = self.target(exit.label.as_ref(), exit.continue_token.span)?;
                let (id, outer, leave) = (target.id, target.outer, self.leave());
                Some(parse_quote_spanned!(exit.continue_token.span=> {
                    if #flow.is_local(#id) {
                        continue #outer;
                    }
                    #flow.exit(#fx::script::Exit::Continue(#id));
                    #leave
                }))
            }
            Expr::Try(asked) => {
                let result = self.result.clone();
                let mut value = (*asked.expr).clone();
                self.visit_expr_mut(&mut value);
                let early = Ident::new("__early", Span::mixed_site());
                let span = asked.question_token.span;
                let (at, early_at) = (self.fx_at(asked.expr.span()), self.fx_at(span));
                let finish = self.finish(&variable);
                let returned = if self.contexts.is_empty() {
                    quote_spanned!(span=> return #finish)
                } else {
                    let (leave, returns) = (self.leave(), self.returns(&variable));
                    quote_spanned!(span=> if #flow.is_native() { return #finish; } #returns #leave)
                };
                Some(parse_quote_spanned!(span=> match #at::script::Fallible::ask(#value) {
                    #fx::std::result::Result::Ok(#variable) => #variable,
                    #fx::std::result::Result::Err(#early) => {
                        let #variable: #result = #early_at::script::Early::<#result>::early(#early);
                        #returned
                    }
                }))
            }
            _ => None,
        }
    }
}
