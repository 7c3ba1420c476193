//! An `if` of a script.

use std::collections::BTreeSet;

use proc_macro2::Span;
use quote::{quote, quote_spanned};
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, ExprIf, Ident, Lifetime, Stmt, parse_quote};

use super::rewrite::{Context, ContextKind, Rewriter};
use super::scope::{Kind, Uses};

impl Rewriter {
    fn visit_side(
        &mut self,
        block: &mut Block,
        label: &Lifetime,
        variables: &[u32],
        kept: &Option<BTreeSet<Ident>>,
    ) {
        self.contexts.push(Context {
            label: label.clone(),
            kind: ContextKind::Side,
            variables: variables.to_vec(),
            mark: self.scopes.enter(),
            kept: kept.clone(),
        });
        self.visit_block_mut(block);
        self.contexts.pop();
    }

    pub(super) fn branch(&mut self, mut branch: ExprIf) -> Expr {
        let then_uses = Uses::of_block(&branch.then_branch);
        let else_uses = branch.else_branch.as_ref().map(|(_, expr)| Uses::of_expr(expr)).unwrap_or_default();
        // What the condition changes has changed before the branch begins.
        let mut uses = Uses::of_block(&branch.then_branch);
        uses.extend(&else_uses);
        let condition = self.condition(&branch.cond);
        let (variables, ids) = self.variables(branch.if_token.span, &uses, &BTreeSet::new());
        let kept = (!uses.has_exits).then(|| {
            let mut kept: BTreeSet<Ident> =
                then_uses.mentioned.intersection(&else_uses.mentioned).cloned().collect();
            kept.extend(
                self.scopes
                    .visible()
                    .filter(|variable| variable.kind == Kind::Mutable)
                    .map(|x| x.ident.clone()),
            );
            kept
        });
        let number = self.next_block();
        let label = Lifetime::new(&format!("'__side{number}"), Span::mixed_site());
        let has_no_else = branch.else_branch.is_none();
        let mut otherwise: Block = match branch.else_branch.take() {
            Some((_, expr)) => match *expr {
                Expr::Block(block) if block.label.is_none() => block.block,
                expr => Block { brace_token: Default::default(), stmts: vec![Stmt::Expr(expr, None)] },
            },
            None => parse_quote!({}),
        };
        let has_no_value = has_no_else || diverges(&branch.then_branch) && diverges(&otherwise);
        let mut then = branch.then_branch;
        self.visit_side(&mut then, &label, &ids, &kept);
        self.visit_side(&mut otherwise, &label, &ids, &kept);
        let (fx, flow, leave) = (&self.fx, &self.flow, self.leave());
        let [b, p, v] = ["__branch", "__values", "__value"].map(|name| Ident::new(name, Span::mixed_site()));
        let ty = if has_no_value { quote!(()) } else { quote!(_) };
        let place = branch.if_token.span;
        let c = Ident::new("__condition", Span::mixed_site());
        let new = quote_spanned!(place=> #flow.branch(#c));
        let option = quote!(#fx::std::option::Option);
        parse_quote!({
            let #c = #condition;
            let mut #b = #new;
            let mut #p = #fx::script::Pair::<#ty>::new();
            if #b.then(&mut #flow, #variables) {
                #p.then = #label: { #option::Some(#then) };
            }
            #b.between(&mut #flow, #variables);
            if #b.otherwise(&mut #flow) {
                #p.otherwise = #label: { #option::Some(#otherwise) };
            }
            match (&mut #p).join(&mut #b, &mut #flow, #variables) {
                #option::Some(#v) => #v,
                #option::None => #leave,
            }
        })
    }
}

/// Returns whether a block ends by leaving.
fn diverges(block: &Block) -> bool {
    match block.stmts.last() {
        Some(Stmt::Expr(expr, _)) => leaves(expr),
        Some(Stmt::Macro(stmt)) => is_panic(&stmt.mac),
        _ => false,
    }
}

fn leaves(expr: &Expr) -> bool {
    match expr {
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => true,
        Expr::Macro(call) => is_panic(&call.mac),
        Expr::Block(block) => block.label.is_none() && diverges(&block.block),
        Expr::If(branch) => {
            diverges(&branch.then_branch) && branch.else_branch.as_ref().is_some_and(|(_, expr)| leaves(expr))
        }
        _ => false,
    }
}

fn is_panic(call: &syn::Macro) -> bool {
    ["panic", "unreachable", "todo", "unimplemented"].iter().any(|name| call.path.is_ident(name))
}
