//! Free functions of the user that are called through a function of the same signature: what `#[fx::wrap]` and
//! `#[fx::compile]` share.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{FnArg, Ident, ItemFn, Result, Type, parse_quote};

use crate::signature::{self, Argument};

/// Expands an attribute; if that fails, the function stays as it was, so that its callers still compile.
pub(crate) fn expand_or_keep(
    item: TokenStream,
    expand: impl FnOnce(TokenStream) -> Result<TokenStream>,
) -> TokenStream {
    expand(item.clone()).unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote!(#item #error)
    })
}

/// A free function with its arguments and the type of its result.
pub(crate) struct Function {
    pub(crate) item: ItemFn,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) result: Type,
}

impl Function {
    /// Reads the function under an attribute such as `#[fx::wrap]`; `what` names it in messages, and `on_method`
    /// is the message for a method.
    pub(crate) fn read(item: TokenStream, attribute: &str, what: &str, on_method: &str) -> Result<Self> {
        let item: ItemFn = syn::parse2(item).map_err(|error| {
            syn::Error::new(error.span(), format!("{attribute} goes on a function with a body: {error}"))
        })?;
        if let Some(FnArg::Receiver(receiver)) = item.sig.inputs.first() {
            return Err(syn::Error::new_spanned(receiver, on_method));
        }
        let (arguments, result) = signature::read(&item.sig, what)?;
        Ok(Function { item, arguments, result })
    }

    /// Returns the name in graphs and messages.
    pub(crate) fn name(&self) -> String {
        self.item.sig.ident.unraw().to_string()
    }

    /// Makes the function that the user calls, with another body.
    pub(crate) fn outer(&self, body: &TokenStream) -> ItemFn {
        let mut outer = self.item.clone();
        outer.attrs.retain(|attr| !attr.path().is_ident("expect") && !attr.path().is_ident("track_caller"));
        outer.attrs.push(parse_quote!(#[track_caller]));
        for input in &mut outer.sig.inputs {
            if let FnArg::Typed(input) = input
                && let syn::Pat::Ident(pattern) = &mut *input.pat
            {
                pattern.mutability = None;
            }
        }
        outer.block = parse_quote!({ #body });
        outer
    }

    /// Makes the values of the arguments, in the function that the user calls.
    pub(crate) fn values(&self, fx: &TokenStream) -> TokenStream {
        let values = self.arguments.iter().map(|argument| argument.to_value(fx));
        quote!(#fx::std::vec![#(#values),*])
    }

    /// Makes the function with the user's body, whose lint attributes are kept, and a function `entry` that calls
    /// it with values. `name` names it in errors.
    pub(crate) fn inner(&self, prefix: &str, entry: &str, name: &str, fx: &TokenStream) -> TokenStream {
        let mut inner = self.item.clone();
        inner.vis = syn::Visibility::Inherited;
        inner.sig.ident = format_ident!("{prefix}_{}", self.item.sig.ident.unraw());
        inner.attrs.retain(|attr| {
            ["allow", "warn", "deny", "forbid", "expect"].iter().any(|lint| attr.path().is_ident(lint))
        });
        let (ident, result) = (&inner.sig.ident, &self.result);
        let entry = format_ident!("{entry}");
        let values = Ident::new("__values", Span::mixed_site());
        let (restore, variables) = signature::restore(&self.arguments, &values, name, fx);
        let passed =
            self.arguments.iter().zip(&variables).map(|(argument, variable)| argument.pass(variable));
        quote! {
            #inner
            fn #entry(#values: &[#fx::Value]) -> #fx::Result<#fx::Value> {
                #restore
                #fx::result::<#result>(&#ident(#(#passed),*))
            }
        }
    }
}
