//! `#[fx::wrap]`: a function of the user's as an operation of its own.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::{
    Attribute, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, LitStr, Meta, Path, Result, Token, parse_quote,
};

use crate::options::{Options, cfg_attributes, crate_path, private};
use crate::signature;

/// What stands in the parentheses of `#[fx::wrap(..)]`.
#[derive(Default)]
struct Wrap {
    name: Option<String>,
    effects: Option<Ident>,
    crate_path: Option<Path>,
}

/// Expands `#[fx::wrap]`; if that fails, the function stays as it was, so that its callers still compile.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    try_expand(options, item.clone()).unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote!(#item #error)
    })
}

fn try_expand(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Wrap::read(options)?;
    let fx = private(options.crate_path.as_ref());
    let function: ItemFn = syn::parse2(item).map_err(|error| {
        syn::Error::new(error.span(), format!("#[fx::wrap] goes on a function with a body: {error}"))
    })?;
    if let Some(FnArg::Receiver(receiver)) = function.sig.inputs.first() {
        let message = "expected a free function, because a graph calls it by name; move it out of the `impl`, \
                       or make the type a module with #[fx::forward]";
        return Err(syn::Error::new_spanned(receiver, message));
    }
    let (arguments, result) = signature::read(&function.sig, "a wrapped function")?;
    let ident = &function.sig.ident;
    let name = options.name.unwrap_or_else(|| ident.unraw().to_string());
    let effects = options.effects.unwrap_or_else(|| Ident::new("PURE", Span::call_site()));
    let doc = documentation(&function.attrs, &fx);
    let parameters = arguments.iter().map(|argument| {
        let (name, kind) = (argument.name(), Ident::new(argument.kind(), Span::call_site()));
        let none = quote!(#fx::std::option::Option::None);
        quote!(#fx::Param { name: #name, kind: #fx::Kind::#kind, default: #none, keyword_only: false })
    });

    let function_name = ident.to_string();
    let vis = &function.vis;
    let cfg = cfg_attributes(&function.attrs);
    let inner = inner(&function);
    let inner_ident = &inner.sig.ident;
    let values = Ident::new("__values", Span::mixed_site());
    let (restore, variables) = signature::restore(&arguments, &values, &name, &fx);
    let passed = arguments.iter().zip(&variables).map(|(argument, variable)| argument.pass(variable));

    let mut outer = function.clone();
    outer.attrs.retain(|attr| !attr.path().is_ident("expect") && !attr.path().is_ident("track_caller"));
    outer.attrs.push(parse_quote!(#[track_caller]));
    for input in &mut outer.sig.inputs {
        if let FnArg::Typed(input) = input
            && let syn::Pat::Ident(pattern) = &mut *input.pat
        {
            pattern.mutability = None;
        }
    }
    let arguments = arguments.iter().map(|argument| argument.to_value(&fx));
    outer.block = parse_quote!({
        #fx::call_wrapped::<#result>(#ident::OP, #fx::std::vec![#(#arguments),*])
    });

    Ok(quote! {
        #outer

        #(#cfg)*
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, reason = "the handle is named as the function")]
        #vis enum #ident {}

        #(#cfg)*
        #[doc(hidden)]
        #[allow(dead_code, reason = "the row may not be named")]
        impl #ident {
            /// The row of the operation.
            #vis const OP: #fx::Op = {
                #inner
                fn __eval(#values: &[#fx::Value]) -> #fx::Result<#fx::Value> {
                    #restore
                    #fx::result::<#result>(&#inner_ident(#(#passed),*))
                }
                fn __infer(types: &[#fx::TypeTree]) -> #fx::Result<#fx::TypeTree> {
                    #fx::infer_by_tracing(types, __eval)
                }
                static __DEF: #fx::OpDef = #fx::OpDef {
                    name: #name,
                    doc: #doc,
                    path: #fx::std::concat!(#fx::std::module_path!(), "::", #function_name),
                    returns: #fx::std::stringify!(#result),
                    params: &[#(#parameters),*],
                    class: #fx::Class::Composite,
                    effects: #fx::Effects::#effects,
                    method: false,
                    infer: __infer,
                    eval: __eval,
                    ..#fx::OpDef::BASE
                };
                #fx::Op::new(&__DEF)
            };
        }
    })
}

impl Wrap {
    fn read(options: TokenStream) -> Result<Self> {
        let mut wrap = Wrap::default();
        let mut known =
            Options::new("`name = \"name\"`, `effects = random`, `effects = host` or `crate = path`");
        syn::meta::parser(|meta| {
            match known.key(&meta)?.as_str() {
                "name" => {
                    let name: LitStr = meta.value()?.parse()?;
                    if syn::parse_str::<Ident>(&name.value()).is_err() {
                        let message = format!(
                            "expected an identifier, because the text of a graph calls it, got {:?}",
                            name.value()
                        );
                        return Err(syn::Error::new(name.span(), message));
                    }
                    wrap.name = Some(name.value());
                }
                "effects" => {
                    let value = meta.value()?;
                    let effects = value.call(Ident::parse_any)?;
                    let constant = match effects.to_string().as_str() {
                        "random" => "RANDOM",
                        "host" => "HOST",
                        _ => return Err(syn::Error::new(effects.span(), "expected `random` or `host`")),
                    };
                    wrap.effects = Some(Ident::new(constant, Span::call_site()));
                }
                "crate" => wrap.crate_path = Some(crate_path(&meta)?),
                _ => return Err(known.unknown(&meta)),
            }
            Ok(())
        })
        .parse2(options)?;
        Ok(wrap)
    }
}

/// Makes the function that has the user's body. Its lint attributes are kept.
fn inner(function: &ItemFn) -> ItemFn {
    let mut inner = function.clone();
    inner.vis = syn::Visibility::Inherited;
    inner.sig.ident = format_ident!("__wrapped_{}", function.sig.ident.unraw());
    inner.attrs.retain(|attr| {
        ["allow", "warn", "deny", "forbid", "expect"].iter().any(|lint| attr.path().is_ident(lint))
    });
    inner
}

/// Makes an expression for the text of the doc comments, with the space after `///` removed.
fn documentation(attrs: &[Attribute], fx: &TokenStream) -> TokenStream {
    let docs = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => Some(&meta.value),
        _ => None,
    });
    let mut parts = syn::punctuated::Punctuated::<TokenStream, Token![,]>::new();
    for doc in docs {
        if !parts.is_empty() {
            parts.push(quote!("\n"));
        }
        parts.push(match doc {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                let text = text.value();
                let text = text.strip_prefix(' ').unwrap_or(&text);
                quote!(#text)
            }
            other => quote!(#other),
        });
    }
    quote!(#fx::std::concat!(#parts))
}
